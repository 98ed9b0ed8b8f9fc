"""The engine: plans, memory, streams, threads, interruption."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from scipy.special import ndtri
from sklearn import config_context

import reference
from ejop import EGOP, EJOP, Device
from ejop.datasets import make_multi_index
from ejop.executors.threads import n_threads, stream
from ejop.functions import KernelSmoother, NeighborsSmoother, RidgeFunction
from ejop.scaling import QuantileColumns
from ejop.sums import prepare
from ejop.sums.engine import HOST, engines_for
from ejop.sums.plan import make_plan

MIB = 2**20


def close(a, b, tolerance):
    np.testing.assert_allclose(a, b, atol=tolerance * np.abs(b).max())


@pytest.fixture(scope="module")
def rows():
    X, y, _ = make_multi_index(3000, 12, random_state=0)
    return X, y


@pytest.mark.parametrize("function", ["kernel", "ball", "knn", "ridge"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-6)])
def test_any_threads_and_blocks_give_the_same_matrix(rows, function, dtype, tolerance):
    X, y = rows[0][:1200].astype(dtype), rows[1][:1200]
    functions = {
        "kernel": KernelSmoother(bandwidth=2.5),
        "ball": KernelSmoother("boxcar", bandwidth=2.5),
        "knn": NeighborsSmoother(),
        "ridge": RidgeFunction(bandwidth=2.5, penalty=0.1),
    }
    settings = {"function": functions[function], "n_queries": 600, "random_state": 0}
    tight = 26 * MIB if function == "ridge" else 12 * MIB + 500_000  # two systems of 11 MiB
    fits = [
        EJOP(**settings, n_jobs=jobs, device=Device(memory_limit=limit)).fit(X, y)
        for jobs, limit in [(1, None), (2, None), (2, tight + 4 * MIB), (3, tight)]
    ]
    assert len({(f.plan_.threads, f.plan_.block) for f in fits}) >= 2
    for other in fits[1:]:
        close(other.outer_product_, fits[0].outer_product_, tolerance)


@pytest.mark.parametrize("targets", ["classes", "real"])
@pytest.mark.parametrize("step", ["auto", "analytic"])
def test_streamed_references_give_the_same_matrix(rows, targets, step):
    X, y = rows
    estimator = EJOP if targets == "classes" else EGOP
    target = y if targets == "classes" else X[:, 0] ** 2
    settings = {"bandwidth": 2.0, "step": step, "n_queries": 300, "random_state": 0}
    whole = estimator(**settings).fit(X, target)
    tiled = estimator(**settings, device=Device(memory_limit=700_000)).fit(X, target)
    assert "streamed in tiles" in str(tiled.plan_)
    assert "streamed" not in str(whole.plan_)
    close(tiled.outer_product_, whole.outer_product_, 1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_local_plan_gives_the_same_matrix(rows, dtype):
    X, y = rows[0].astype(dtype), rows[1]
    local = EJOP(bandwidth=0.3, step=0.03).fit(X, y)
    assert local.plan_.method == "gaussian-local"
    assert "only they are summed" in str(local.plan_)
    function = KernelSmoother(bandwidth=0.3).fit(X.astype(float), np.eye(3)[y])
    J = function.differences(X.astype(float), np.full(12, 0.03), np.arange(3000), softmax=True)
    M = np.einsum("mcd,mce->de", J, J) / 3000
    close(local.outer_product_, M, 1e-9 if dtype == np.float64 else 1e-4)


def test_auto_queries_stop_at_the_tolerance(rows):
    X, y = rows
    loose = EJOP(n_queries=0.2, random_state=0).fit(X, y)
    tight = EJOP(n_queries=0.06, random_state=0).fit(X, y)
    whole = EJOP(bandwidth=tight.bandwidth_).fit(X, y)
    assert loose.n_queries_ == 256
    assert 256 < tight.n_queries_ < 3000
    norm = np.linalg.norm
    assert norm(tight.outer_product_stderr_) / norm(tight.outer_product_) <= 0.06
    assert norm(tight.outer_product_ - whole.outer_product_) / norm(whole.outer_product_) < 2 * 0.06
    assert f"n_queries: {tight.n_queries_} of 3000 rows reach" in str(tight.plan_)
    everything = EJOP(n_queries=1e-9, random_state=0).fit(X[:700], y[:700])
    assert everything.n_queries_ == 700
    close(
        everything.outer_product_, EJOP(random_state=0).fit(X[:700], y[:700]).outer_product_, 1e-12
    )


def test_a_growing_sample_may_be_local(rows):
    X, y = rows
    fitted = EJOP(bandwidth=0.3, step=0.03, n_queries="auto", random_state=0).fit(X, y)
    assert fitted.plan_.method == "gaussian-local"


def test_queries_and_centres_are_drawn_independently():
    function = RidgeFunction(n_centers=100, random_state=0)
    centers = function.draw_centers(2000)
    (queries,) = EJOP(function, n_queries=100, random_state=0).query_rounds(2000)
    assert len(np.intersect1d(centers, queries)) < 20  # five are expected


@pytest.mark.parametrize("n_queries", [None, 1500])
def test_standard_errors_do_not_depend_on_the_order_of_rows(n_queries):
    X, y, _ = make_multi_index(2000, 8, random_state=0)
    shuffled = np.random.default_rng(0).permutation(2000)
    errors = [
        np.linalg.norm(
            EJOP(bandwidth=1.5, n_queries=n_queries, random_state=0)
            .fit(X[order], y[order])
            .outer_product_stderr_
        )
        for order in (np.argsort(y, kind="stable"), np.argsort(X[:, 0]), shuffled)
    ]
    assert max(errors) < 1.25 * min(errors)


def plan_of(function, n_queries, step, memory_limit=None, n_excluded=0, **options):
    form = prepare(function, step, budget=memory_limit, n_queries=n_queries, n_excluded=n_excluded)
    return make_plan(form, n_queries, memory_limit=memory_limit, **options)


def test_plan_follows_the_budget():
    X, y, _ = make_multi_index(2000, 30, random_state=0)
    f = KernelSmoother(bandwidth=2.0).fit(X, np.eye(3)[y])
    step = np.full(30, 1.0)
    large = plan_of(f, 2000, step, n_jobs=2)
    small = plan_of(f, 2000, step, n_jobs=2, memory_limit=5 * MIB)
    assert small.block < large.block
    assert small.memory <= 5 * MIB
    assert large.block % large.batch == 0
    with config_context(working_memory=5):
        assert plan_of(f, 2000, step, n_jobs=2).block == small.block
    with pytest.raises(MemoryError, match="raise it, reduce the rows or features"):
        plan_of(NeighborsSmoother().fit(X, X), 2000, step, memory_limit=50_000)


def test_many_threads_get_more_memory_and_larger_blocks():
    X, y, _ = make_multi_index(20_000, 30, random_state=0)
    f = KernelSmoother(bandwidth=2.0).fit(X.astype(np.float32), np.eye(3)[y])
    step = np.full(30, 1.0)
    with config_context(working_memory=64):
        plans = [plan_of(f, 20_000, step, n_jobs=jobs) for jobs in (4, 16, 32)]
        walled = plan_of(f, 20_000, step, n_jobs=16, memory_limit=64 * MIB)
    assert [plan.threads for plan in plans] == [4, 16, 32]
    assert plans[0].memory < 64 * MIB < plans[1].memory < 256 * MIB
    assert plans[1].block > 0.8 * plans[0].block > 2 * walled.block
    assert plans[2].memory < 256 * MIB
    assert walled.memory < 64 * MIB


def test_what_is_fixed_leaves_room_for_blocks():
    """A system of all rows fills the default alone; single rows at a time would take forever."""
    X, y, _ = make_multi_index(400, 30, random_state=0)
    f = RidgeFunction(bandwidth=2.0, penalty=0.1).fit(X, np.eye(3)[y])
    step = np.full(30, 1.0)
    with config_context(working_memory=1):  # the system takes 1.2 MiB
        plan = plan_of(f, 400, step, n_excluded=400, n_jobs=2)
    assert plan.threads == 2
    assert plan.block > 1
    assert plan.memory < 2 * MIB
    with pytest.raises(MemoryError, match="is too little"):
        plan_of(f, 400, step, memory_limit=MIB, n_excluded=400, n_jobs=2)


MEASURE = """
import re, resource, sys
from pathlib import Path
import numpy as np
import ejop.sums.compiled
from ejop import EJOP, Device
from ejop.functions import KernelSmoother, NeighborsSmoother

def peak_memory():
    status = Path("/proc/self/status")
    if status.exists():  # Linux lets a child inherit ru_maxrss from its parent
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

X = np.load(sys.argv[1], mmap_mode="r")
y = np.load(sys.argv[2])
function, limit = sys.argv[3], int(sys.argv[4])
functions = {
    "kernel": KernelSmoother(bandwidth=3.0),
    "ball": KernelSmoother("boxcar", bandwidth=3.0),
    "knn": NeighborsSmoother(),
}
settings = dict(function=functions[function], random_state=0, n_jobs=2)
n_queries = 64 if function == "knn" else 256  # it takes blocks of few
EJOP(**settings, n_queries=64).fit(X[:300], y[:300])  # compiles what a map needs
float(X.sum())  # the pages of the map are the data
before = peak_memory()
fitted = EJOP(**settings, n_queries=n_queries, device=Device(memory_limit=limit)).fit(X, y)
print(peak_memory() - before, fitted.plan_.memory)
"""


@pytest.mark.parametrize("function", ["kernel", "ball", "knn"])
def test_memory_stays_within_the_budget_and_maps_are_not_copied(tmp_path, function):
    X, y, _ = make_multi_index(60_000, 100, random_state=0)  # 46 MiB
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    limit = 40 * MIB
    arguments = [tmp_path / "X.npy", tmp_path / "y.npy", function, limit]
    out = subprocess.run(
        [sys.executable, "-c", MEASURE, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    used, planned = map(int, out.stdout.split())
    assert planned <= limit
    # The budget, plus X's means, finiteness checks and y as one-hot columns, but no copy of X.
    assert used <= limit + 16 * MIB


@pytest.mark.parametrize(("n", "what"), [(9_000, "9000 rows"), (20_000, "2000 centres")])
def test_ridge_is_refused_before_it_is_solved(n, what):
    X = np.random.default_rng(0).normal(size=(n, 20))
    begun = time.process_time()
    with pytest.raises(MemoryError, match=f"the system of {what} takes .* raise it, or take fewer"):
        EJOP("ridge", device=Device(memory_limit=50 * MIB)).fit(X, (X[:, 0] > 0).astype(int))
    assert time.process_time() - begun < 2


def test_the_remedy_for_ridge_fits_the_limit():
    X = np.random.default_rng(0).normal(size=(3_000, 5))
    function = RidgeFunction(bandwidth=3.0, penalty=0.1, max_rows=500, n_centers=500)
    limited = EJOP(function, n_queries=50, device=Device(memory_limit=50 * MIB), random_state=0)
    assert limited.fit(X, (X[:, 0] > 0).astype(int)).plan_.memory <= 50 * MIB


LONG = """
import sys, time
import numpy as np
from ejop import EJOP
from ejop.datasets import make_multi_index
from sklearn.exceptions import NotFittedError
X, y, _ = make_multi_index(30_000, 100, random_state=0)
estimator = EJOP(bandwidth=5.0, verbose=1)
try:
    estimator.fit(X, y)
except KeyboardInterrupt:
    try:
        estimator.transform(X)
    except NotFittedError:
        print("unfitted")
"""


def test_ctrl_c_stops_soon_and_leaves_nothing_fitted():
    child = subprocess.Popen(
        [sys.executable, "-c", LONG], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stderr is not None
        seen = ""
        while "steps" not in seen:  # the sums are running
            piece = child.stderr.read(1)
            assert piece, seen
            seen += piece
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
        assert out.strip() == "unfitted"
        assert time.monotonic() - start < 15  # two seconds on an idle machine
    finally:
        child.kill()


def test_stream_keeps_order_and_limits_the_blas():
    from threadpoolctl import ThreadpoolController

    def work(i):
        pools = ThreadpoolController().select(user_api="blas").info()
        return i, max(pool["num_threads"] for pool in pools)

    assert list(stream(work, range(20), 3)) == [(i, 1) for i in range(20)]
    assert n_threads(2) == 2
    assert n_threads(-1) == os.cpu_count()


def test_a_broken_block_is_heard():
    def work(i):
        if i == 3:
            raise RuntimeError("block three")
        return i

    with pytest.raises(RuntimeError, match="block three"):
        list(stream(work, range(20), 2))


def test_nystrom_takes_over_beyond_max_rows(rows):
    X, y = rows
    ridge = RidgeFunction(bandwidth=4.0, penalty=0.1, max_rows=1000, n_centers=400, random_state=0)
    fitted = EJOP(ridge, n_queries=300, random_state=0).fit(X, y)
    assert "400 Nystrom centres" in str(fitted.plan_)
    exact = EJOP(RidgeFunction(bandwidth=4.0, penalty=0.1), n_queries=300, random_state=0).fit(X, y)
    assert "all rows are centres" in str(exact.plan_)
    close(fitted.outer_product_, exact.outer_product_, 0.1)


def test_compiled_code_is_cached_on_disk(tmp_path):
    code = textwrap.dedent(
        """
        import numpy as np
        from ejop import EJOP
        X = np.random.default_rng(0).normal(size=(40, 3))
        EJOP().fit(X, np.arange(40) % 2)
        """
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert any(tmp_path.rglob("*softmax_quotient*.nbc"))


# systems ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_factors_solve_and_invert(kind):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 40))
    K, B = (A @ A.T).astype(kind), rng.normal(size=(30, 3)).astype(kind)
    atol = 1e-10 if kind == np.float64 else 1e-4
    L = HOST.cholesky(K.copy())
    lower = np.tril(L)
    np.testing.assert_allclose(lower @ lower.T, K, atol=atol * 100)
    np.testing.assert_allclose(K @ HOST.solve(L, B), B, atol=atol * 100)
    np.testing.assert_allclose(lower @ HOST.solve(L, B, half="lower"), B, atol=atol)
    np.testing.assert_allclose(lower.T @ HOST.solve(L, B, half="upper"), B, atol=atol)
    inverse = np.linalg.inv(K.astype(np.float64))
    np.testing.assert_allclose(HOST.inverse_diagonal(L.copy("F")), np.diag(inverse), atol=atol)
    np.testing.assert_allclose(HOST.inverse(L), inverse, atol=atol)
    with pytest.raises(np.linalg.LinAlgError, match="minor of 2 rows"):
        HOST.cholesky(np.array([[1.0, 2.0], [2.0, 1.0]], dtype=kind))


def test_solving_lets_other_threads_run():
    L, turns, spans = np.asfortranarray(np.eye(2000)), [], []

    def work():
        start = time.perf_counter()
        HOST.solve(L, L)
        spans.append((start, time.perf_counter()))

    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        turns.append(time.perf_counter())
        time.sleep(1e-3)
    thread.join()
    ((start, end),) = spans
    inside = np.array([start, *(t for t in turns if start < t < end), end])
    # with the interpreter's lock held, all of the solve is one gap between two turns
    assert np.diff(inside).max() < 0.6 * (end - start)


@pytest.mark.parametrize("place", [None, "cpu"])
@pytest.mark.parametrize("n", [1, 2, 3000])
def test_ranks_as_a_normal_distribution(place, n):
    rng = np.random.default_rng(0)
    columns = (
        rng.normal(size=4000),
        rng.integers(0, 5, 4000),
        rng.poisson(0.3, 4000),
        np.ones(4000),
        rng.exponential(size=4000).round(1) * 1e9,
    )
    X, Q = np.column_stack(columns), QuantileColumns().fit(np.column_stack(columns)[:n])
    engine = HOST
    if place is not None:
        pytest.importorskip("torch")
        engine = engines_for(place, X)[0][0].precise()
    found = engine.to_host(Q.ranked(engine.array(X, np.dtype(float)), engine))
    wanted = np.clip(ndtri(reference.ranks_among(X, Q.quantiles_)), -3, 3)
    np.testing.assert_allclose(found, wanted, atol=1e-11)
    np.testing.assert_array_equal(HOST.to_host(Q.transform(X)), Q.ranked(X, HOST))
