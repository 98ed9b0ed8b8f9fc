import os
import sys
from contextlib import contextmanager
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


def close_pictures():
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


@pytest.fixture(autouse=True)
def closed_pictures():
    """Pictures are closed, also those of examples, so that none counts those of others."""
    close_pictures()
    yield
    close_pictures()


@pytest.fixture
def call(capsys):
    """A command of ``ejop`` in this process: exit code, output, messages."""
    from ejop.cli.app import run

    def called(*args):
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            run([*map(str, args)])
        out, err = capsys.readouterr()
        return stop.value.code or 0, out, err

    return called


#: what a worker needs before its first task
LOADED = ["distributed", "ejop.dask", "ejop.estimators", "ejop.sums.compiled", "sklearn.neighbors"]


@contextmanager
def quick_workers():
    """Processes of a cluster fork from one that has the libraries: a start takes no four seconds.

    ``test_threads.py`` starts them as a user does.
    """
    import dask
    from distributed.utils import get_mp_context

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(LOADED)
        yield


@contextmanager
def local_cluster(n_workers=2, **options):
    """A client of worker processes on this machine, nothing but the loopback."""
    from distributed import Client, LocalCluster

    with (
        quick_workers(),
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit="1GiB",
            **options,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def client():
    """A client of two worker processes."""
    pytest.importorskip("distributed")
    with local_cluster() as client:
        yield client
