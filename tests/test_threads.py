"""Threads have one owner: pools are as before after any use, and numbers those of one fit."""

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier, get_ident

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from ejop import EJOP, EJOPClassifier
from ejop.executors.threads import (
    cluster_task,
    computing,
    in_threads,
    n_threads,
    pools_free,
    stream,
)
from ejop.learners import LMNN
from ejop.neighbors import nearest, within

MODEL = EJOPClassifier("knn", random_state=0, function="kernel", validation=0.3, n_iter=1)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return X[::2], y[::2]


def numbers():
    """Threads of each library's pool, as the calling thread sees them."""
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}


def set_pools(number):
    """Set every pool, and leave OpenBLAS to no thread: threadpoolctl would ignore all others."""
    for library in ThreadpoolController().lib_controllers:
        library.set_num_threads(number)
        getattr(library, "clear_controlling_thread", lambda: None)()


@pytest.fixture(autouse=True)
def pools():
    """Three threads for every pool, whatever the cores, and again three after the test."""
    original = max(numbers().values())
    set_pools(3)
    before = numbers()
    assert set(before.values()) == {3}, "nothing would be tested"
    assert {pool["user_api"] for pool in threadpool_info()} == {"blas", "openmp"}
    yield before
    after = numbers()
    set_pools(original)
    assert after == before


@pytest.fixture(scope="module")
def serial(wine):
    """What a fit finds with one thread everywhere."""
    with threadpool_limits(1):
        return learned(wine)


def learned(rows):
    fitted = clone(MODEL).fit(*rows)
    return fitted.components_, fitted.predict_proba(rows[0])


def seen():
    """Threads that the pools allow here."""
    return set(numbers().values())


def check(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


# side by side -----------------------------------------------------------------------------------


def test_fits_that_overlap_in_threads(wine, serial):
    start = Barrier(3)

    def fit(i):
        start.wait()
        return [learned(wine) for _ in range(1 + i)][-1]  # none ends with the others

    with ThreadPoolExecutor(3) as threads:
        for found in threads.map(fit, range(3)):
            check(found, serial)


def test_limits_that_overlap_give_back_what_the_first_found():
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
        one.submit(computing.__enter__).result()
        two.submit(computing.__enter__).result()
        one.submit(computing.__exit__).result()
        blas = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        assert blas == {1}
        two.submit(computing.__exit__).result()


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_joblib(wine, serial, backend):
    for found in Parallel(2, backend=backend)(delayed(learned)(wine) for _ in range(3)):
        check(found, serial)


@pytest.mark.parametrize("processes", [False, True])
def test_a_dask_worker_with_two_threads(wine, serial, processes):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=2,
            processes=processes,
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        before = client.run(numbers)
        tasks = [client.submit(learned, wine, pure=False) for _ in range(4)]
        for found in client.gather(tasks):
            check(found, serial)
        assert client.run(numbers) == before


def test_estimators_on_a_cluster_hold_the_pools_in_their_tasks(wine):
    da = pytest.importorskip("dask.array")
    distributed = pytest.importorskip("distributed")
    from ejop.dask import DaskEJOP
    from ejop.executors.dask.cluster import delayed as task

    X, y = wine
    X = X / X.std(0)  # in one unit
    plain = EJOP("ridge", random_state=0).fit(X, y)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        assert client.gather(client.compute(task(seen)())) == {1}
        assert client.gather(client.compute(task(n_threads)())) == 1
        rows = da.from_array(X, chunks=(30, -1)), da.from_array(y, chunks=30)
        there = DaskEJOP("ridge", random_state=0, client=client).fit(*rows)
    np.testing.assert_allclose(there.outer_product_, plain.outer_product_, rtol=1e-6, atol=1e-12)


# one after the other ----------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_of_a_fork_fits():
    """OpenMP that has run with two threads hangs in a child of a fork; ours has one."""
    code = textwrap.dedent(
        """
        import os, threading, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        from sklearn.datasets import load_wine
        from threadpoolctl import threadpool_info, threadpool_limits
        from ejop import EJOPClassifier
        from ejop.executors.threads import computing

        def numbers():
            return [pool["num_threads"] for pool in threadpool_info()]

        X, y = load_wine(return_X_y=True)
        X, y = X[::3], y[::3]
        model = EJOPClassifier("knn", random_state=0, function="kernel")
        threadpool_limits(2)
        expected = model.fit(X, y).predict(X)
        assert set(numbers()) == {2}, numbers()

        def fork():
            child = os.fork()
            if child:
                return os.waitpid(child, 0)[1]
            status = 1
            try:
                import signal
                signal.alarm(60)  # where it hangs
                assert set(numbers()) == {2}, numbers()
                assert (model.fit(X, y).predict(X) == expected).all()
                assert set(numbers()) == {2}, numbers()
                status = 0
            finally:
                os._exit(status)

        assert fork() == 0, "after a fit"
        inside, leave = threading.Event(), threading.Event()

        def compute():
            with computing:
                inside.set()
                leave.wait()

        thread = threading.Thread(target=compute)
        thread.start()
        inside.wait()
        status = fork()
        leave.set()
        thread.join()
        assert status == 0, "during a fit elsewhere"
        assert set(numbers()) == {2}, numbers()
        """
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_fit_that_fails(wine, error):
    class Broken(HistGradientBoostingClassifier):
        def predict_proba(self, X):
            if len(X) > 1:  # in a block, not in its own fit
                assert seen() == {1}
                raise error("broken")
            return super().predict_proba(X)

    with pytest.raises(error, match="broken"):
        EJOP(Broken(max_iter=2)).fit(*wine)


def test_nested_limits(pools):
    @computing
    def inner():
        return seen()

    with computing:
        assert seen() == {1}
        with computing:
            assert inner() == {1}
        assert seen() == {1}
        assert n_threads() == min(3, os.cpu_count())  # what the process had
    assert numbers() == pools


def test_limits_of_the_user_are_kept(wine):
    with threadpool_limits(1):
        assert n_threads() == 1
        MODEL.fit(*wine)
        assert seen() == {1}
    with threadpool_limits(2):
        MODEL.fit(*wine)
        assert seen() == {2}


def test_a_limit_of_one_thread_does_not_keep_others_from_ours():
    """threadpoolctl ignores what other threads set inside ``threadpool_limits``."""

    @computing
    def inner():
        return seen()

    with threadpool_limits(2), ThreadPoolExecutor(1) as other:
        assert other.submit(inner).result() == {1}
        assert seen() == {2}


def test_a_library_that_is_loaded_during_a_fit_is_held_too():
    """libgomp comes with scikit-learn's neighbours, which nothing has imported before."""
    code = textwrap.dedent(
        """
        import sys, threadpoolctl
        import numpy as np
        from ejop.executors.threads import computing

        def numbers():
            return {p["user_api"]: p["num_threads"] for p in threadpoolctl.threadpool_info()}

        assert "openmp" not in numbers()
        with computing:
            import sklearn.neighbors
            with computing:
                assert numbers() == {"blas": 1, "openmp": 1}, numbers()
        assert numbers()["openmp"] == 2, numbers()
        """
    )
    environment = os.environ | {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


# threads of ours --------------------------------------------------------------------------------


def test_threads_of_ours_hold_both_pools_and_start_no_others():
    found = list(stream(lambda i: (i, seen(), n_threads(), n_threads(4)), range(8), 3))
    assert found == [(i, {1}, 1, 1) for i in range(8)]


def test_a_stream_that_is_closed_early():
    with closing(stream(lambda i: i, range(20), 2)) as parts:
        assert next(parts) == 0


def test_small_work_stays_in_its_thread():
    small = in_threads(lambda i: get_ident(), range(4), operations=1000)
    large = in_threads(lambda i: get_ident(), range(4), operations=1e12)
    assert set(small) == {get_ident()}
    if os.cpu_count() > 1:
        assert get_ident() not in large


def test_a_large_operation_gets_the_pools_where_nothing_else_runs(pools):
    with computing, computing:
        with pools_free(1e12):
            assert numbers() == pools
            with computing:
                assert seen() == {1}
            assert numbers() == pools
        assert seen() == {1}
        with pools_free(1000):
            assert seen() == {1}
    for free in in_threads(lambda i: _freed(), range(2), 2):
        assert free == {1}
    with cluster_task:
        assert _freed() == {1}
    with ThreadPoolExecutor(1) as other:
        other.submit(computing.__enter__).result()
        with computing:
            assert _freed() == {1}
        other.submit(computing.__exit__).result()


def _freed():
    with pools_free():
        return seen()


def test_a_model_fits_with_its_own_threads_and_predicts_with_one(wine):
    told = {}

    class Telling(HistGradientBoostingClassifier):
        def fit(self, X, y):
            told["fit"] = seen()
            return super().fit(X, y)

        def predict_proba(self, X):
            told["predict"] = seen()  # the last are those of blocks
            return super().predict_proba(X)

    EJOP(Telling(max_iter=2)).fit(*wine)
    assert told == {"fit": {3}, "predict": {1}}


def test_learners(wine):
    told = []

    class Start(PCA):
        def fit(self, X, y=None):
            told.append(seen())
            return super().fit(X, y)

    X, y = wine
    LMNN(init=Start(2), n_components=2, tol=0.1).fit(StandardScaler().fit_transform(X), y)
    assert told == [{1}]


# neighbours in blocks ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_neighbours_do_not_depend_on_threads(dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(6000, 6)).astype(dtype)  # distances tie everywhere
    Q = X[:1500]
    large = len(Q) * X.size
    blocks = nearest(Q, X, 7), within(Q[:700], X, 1.5)
    with threadpool_limits(1):
        assert n_threads(operations=large) == 1
        alone = nearest(Q, X, 7), within(Q[:700], X, 1.5)
    for one, other in zip(blocks[0], alone[0], strict=True):
        np.testing.assert_array_equal(one, other)
    for name in ("queries", "rows", "distances"):
        np.testing.assert_array_equal(getattr(blocks[1], name), getattr(alone[1], name))
    peer = NearestNeighbors(algorithm="brute").fit(X).kneighbors(Q, 7)[0]
    np.testing.assert_allclose(blocks[0][0], peer, rtol=1e-6)


ALONE = """
import os, time, warnings
import numpy as np
from ejop import EJOP, EJOPClassifier
from ejop.functions import NeighborsSmoother
warnings.simplefilter("ignore")
X = np.random.default_rng(0).normal(size=(80, 4))
y = (X[:, 0] > 0).astype(int)
functions = ("kernel", "ball", NeighborsSmoother(5), "ridge")
models = [EJOP(f, n_jobs=1) for f in functions]
models.append(EJOPClassifier("knn", function="kernel", n_jobs=1, random_state=0))

def burst():
    for model in models:
        model.fit(X, y)

def share():
    burst()  # compiles
    began, used = time.perf_counter(), os.times()
    while time.perf_counter() - began < 1:
        burst()
    now, wall = os.times(), time.perf_counter() - began
    return (now.user - used.user + now.system - used.system) / wall

children = []
for _ in range(4):  # before any library has started a thread of its pool
    child = os.fork()
    if not child:
        os.write(1, f"{share()}\\n".encode())
        os._exit(0)
    children.append(child)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_one_job_uses_one_processor_beside_others():
    """Four fits at once, as four people on one machine: none spins while another works."""
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    command = [sys.executable, "-W", "ignore", "-c", ALONE]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    shares = [float(line) for line in done.stdout.splitlines()]
    assert len(shares) == 4
    assert max(shares) < 1.1
