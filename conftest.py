"""For every test and example: pictures are closed, so that none counts those of others."""

import sys

import pytest


@pytest.fixture(autouse=True)
def closed_pictures():
    """Close what a test or example has drawn."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
