"""Nothing is silently wrong: every case gives a right answer or a clear error."""

import threading
import tracemalloc
from collections import Counter
from functools import partial

import numpy as np
import pytest
import threadpoolctl

import reliability
from ejop import EJOP, Device, EGOPRegressor, EJOPClassifier
from ejop.executors.threads import at_most, computing, n_threads, pools_free
from ejop.scaling import QuantileColumns
from reliability_faults import FAULTS

CASES = reliability.all_cases()


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_case(case):
    reliability.outcome(case)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_fault(fault):
    found = fault()
    assert found.fine, found


def test_many_and_different_things_are_tried():
    assert len(CASES) >= 1500
    doors = {case.door for case in CASES}
    assert doors >= {"estimators", "functions", "predictors", "theory", "command line", "files"}
    assert not [name for name, count in Counter(case.id for case in CASES).items() if count > 1]


def threads_of_ours(fit):
    """Threads of our own pools that were seen while a fit went on."""
    done, before, seen = threading.Event(), set(threading.enumerate()), set()

    def look():
        while not done.wait(0.0005):
            new = set(threading.enumerate()) - before
            seen.update(t.name for t in new if "ThreadPoolExecutor" in t.name)

    watch = threading.Thread(target=look)
    watch.start()
    try:
        fit()
    finally:
        done.set()
        watch.join()
    return seen


@pytest.mark.parametrize("estimator", [EJOPClassifier, partial(EJOP, "ridge")])
def test_one_job_is_one_thread(estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = (X[:, 0] > 0).astype(int)
    assert not threads_of_ours(lambda: estimator(n_jobs=1, random_state=0).fit(X, y))


def test_one_job_does_not_give_the_pools_back():
    with computing, at_most(1), pools_free():
        assert n_threads() == 1
        assert all(pool["num_threads"] == 1 for pool in threadpoolctl.threadpool_info())
    with at_most(2), at_most(1):
        assert n_threads() == 1
    with at_most(None):
        assert n_threads() == n_threads(None)


@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1.0, 1e8])
def test_ranks_do_not_depend_on_units(scale):
    X = np.random.default_rng(0).normal(size=(80, 2))
    expected = QuantileColumns().fit_transform(X)
    np.testing.assert_allclose(QuantileColumns().fit_transform(X * scale), expected, atol=1e-6)


def test_ranks_tell_rows_of_far_clusters_apart():
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(size=50), rng.normal(size=50) + 1e8][:, None] / 5e7  # as if standardised
    assert len(np.unique(QuantileColumns().fit_transform(X))) == 100


def test_machines_side_by_side_keep_to_the_memory_limit():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 4)), rng.normal(size=500)
    limit = 12_000_000
    model = EGOPRegressor(device=Device(memory_limit=limit), random_state=0)
    tracemalloc.start()
    try:
        model.fit(X, y)
        assert tracemalloc.get_traced_memory()[1] < 1.2 * limit
    finally:
        tracemalloc.stop()
    with pytest.raises(MemoryError, match="a kernel machine on 500 rows takes"):
        model.set_params(device=Device(memory_limit=limit // 2)).fit(X, y)
