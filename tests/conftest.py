import os
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def real_data():
    """Loader of the real data sets, for tests that need them: real_data("extra/vowel")."""
    root = os.environ.get("EJOP_DATA")
    if not root:
        pytest.skip("EJOP_DATA is not set: the real data sets are not at hand")

    def load(name):
        with np.load(Path(root) / f"{name}.npz") as z:
            return z["X"].astype(float), z["y"]

    return load
