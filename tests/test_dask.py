"""Dask: the same matrix whatever the cuts, faults, and what is refused."""

import copy
import pickle
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from ejop import EGOP, EJOP, EGOPRegressor, EJOPClassifier
from ejop.datasets import make_multi_index
from ejop.functions import Function, KernelSmoother, RidgeFunction
from ejop.sums import WeightedSums
from ejop.sums.gaussian import GaussianForm

pytest.importorskip("distributed")
import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd
from distributed import Client, LocalCluster

from ejop.dask import DaskEGOP, DaskEGOPRegressor, DaskEJOP, DaskEJOPClassifier
from ejop.executors.dask import rows as rows_module
from ejop.executors.dask.cluster import Workers, tree
from ejop.executors.dask.plan import choose_reduction
from ejop.executors.dask.rows import Rows, draw
from ejop.rows import Block, Moments, Summary

X, Y, _ = make_multi_index(420, 5, random_state=0)
TARGETS = np.c_[np.sin(X[:, 0] + X[:, 1]), X[:, 2] ** 2]
WEIGHTS = np.random.default_rng(1).uniform(0, 2, len(X)) * (np.arange(len(X)) % 7 > 0)
CUTS = {
    "one": (420,),
    "even": (105, 105, 105, 105),
    "uneven": (1, 300, 19, 100),
    "empty": (0, 200, 0, 150, 70, 0),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Partitions stay as they are, so that few rows make many tiles."""
    monkeypatch.setattr(rows_module, "BLOCK_BYTES", 1)


def collections(X, y, cuts):
    width = y.shape[1:] and (y.shape[1:],)
    return da.from_array(X, chunks=(cuts, -1)), da.from_array(y, chunks=(cuts, *width))


def close(one, other, rtol=1e-10):
    np.testing.assert_allclose(one, other, rtol=0, atol=rtol * np.abs(other).max())


def warnings_of_units(due):
    if not due:
        return nullcontext()
    return pytest.warns(UserWarning, match="the standard deviations of the columns of `X` reach")


# the same matrix ----------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["broadcast", "tiles"])
@pytest.mark.parametrize("cuts", CUTS)
def test_same_matrix_for_every_cut(client, cuts, reduction):
    local = EJOP().fit(X, Y)
    fitted = DaskEJOP(reduction=reduction, client=client).fit(*collections(X, Y, CUTS[cuts]))
    close(fitted.outer_product_, local.outer_product_)
    assert fitted.bandwidth_ == pytest.approx(local.bandwidth_, rel=1e-12)
    assert fitted.n_queries_ == len(X)
    close(fitted.output_shares_, local.output_shares_)
    assert fitted.plan_.reduction == reduction
    assert f"{reduction}: references take" in str(fitted.plan_)
    if reduction == "tiles":  # every block is a tile, not joined with others
        assert fitted.plan_.tasks == sum(size > 0 for size in CUTS[cuts])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reduction", ["broadcast", "tiles"])
@pytest.mark.parametrize("odd", ["an outlier", "far clusters", "far from zero"])
def test_same_matrix_for_rows_that_products_lose(client, odd, reduction, dtype):
    rows = X.copy()
    if odd == "an outlier":
        rows[7, 2] = 1e8
    else:
        rows += 1e6 if odd == "far from zero" else 1e6 * (np.arange(len(X)) % 2)[:, None]
    rows = rows.astype(dtype)
    parts = collections(rows, Y, CUTS["uneven"])
    with warnings_of_units(odd == "an outlier"):
        local = EJOP().fit(rows, Y)
    with warnings_of_units(odd == "an outlier"):
        fitted = DaskEJOP(reduction=reduction, client=client).fit(*parts)
    assert fitted.bandwidth_ == pytest.approx(local.bandwidth_, rel=1e-3)
    close(fitted.outer_product_, local.outer_product_, 1e-2 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("reduction", ["broadcast", "tiles"])
def test_same_matrix_for_shuffled_partitions(client, reduction):
    """The mean over rows does not know their order; leave-one-out must follow each row."""
    local = EJOP(bandwidth=0.7).fit(X, Y).outer_product_
    order = np.random.default_rng(3).permutation(6)
    cuts = np.array_split(np.arange(len(X)), 6)
    index = np.concatenate([cuts[k] for k in order])
    sizes = tuple(len(cuts[k]) for k in order)
    rows, labels = collections(X[index], Y[index], sizes)
    close(
        DaskEJOP(bandwidth=0.7, reduction=reduction, client=client)
        .fit(rows, labels)
        .outer_product_,
        local,
    )


KINDS = {
    "analytic": {"step": "analytic"},
    "no softmax": {"softmax": False},
    "ball": {"function": "ball"},
    "biweight": {"function": KernelSmoother("biweight", 0.7)},
    "laplace": {"function": KernelSmoother("laplace")},
    "laplace, analytic": {"function": KernelSmoother("laplace", 0.5), "step": "analytic"},
    "far too narrow a laplace": {"function": KernelSmoother("laplace", 1e-3)},
    "far too small a ball": {"function": "ball", "bandwidth": 0.3},
    "paper": {"leave_one_out": False},
    "diagonal": {"diagonal": True},
    "steps": {"step": [0.1, 0.2, 0.3, 0.4, 0.5]},
    "one feature at a time": {"bandwidth": 0.1, "step": 2.0},
    "some queries": {"n_queries": 90},
    "queries by accuracy": {"n_queries": 0.08},
    "narrow": {"bandwidth": 0.01},
}


#: broadcast runs the local code; a few kinds show that it is handed what it needs
BROADCAST = ["analytic", "laplace", "ball", "diagonal", "some queries", "queries by accuracy"]


@pytest.mark.parametrize(
    ("kind", "reduction"),
    [*((kind, "tiles") for kind in KINDS), *((kind, "broadcast") for kind in BROADCAST)],
)
def test_same_matrix_for_every_kind(client, kind, reduction):
    parameters = {"random_state": 5, **KINDS[kind]}
    local = EJOP(**parameters).fit(X, Y)
    fitted = DaskEJOP(reduction=reduction, client=client, **parameters)
    fitted.fit(*collections(X, Y, CUTS["empty"]))
    close(fitted.outer_product_, local.outer_product_)
    assert fitted.n_queries_ == local.n_queries_


@pytest.mark.parametrize("reduction", ["broadcast", "tiles"])
@pytest.mark.parametrize("function", ["kernel", "ball"])
def test_weights_and_several_outputs(client, function, reduction):
    local = EGOP(function, bandwidth=1.2).fit(X, TARGETS, WEIGHTS)
    rows, targets = collections(X, TARGETS, CUTS["empty"])
    weights = da.from_array(WEIGHTS, chunks=70)  # cut otherwise than the rows
    fitted = DaskEGOP(function, bandwidth=1.2, reduction=reduction, client=client)
    fitted.fit(rows, targets, sample_weight=weights)
    close(fitted.outer_product_, local.outer_product_)
    close(fitted.output_shares_, local.output_shares_)
    assert fitted.n_queries_ == (WEIGHTS > 0).sum()


def test_weights_choose_the_same_bandwidth(client):
    local = EGOP().fit(X, TARGETS, WEIGHTS)
    rows, targets = collections(X, TARGETS, CUTS["uneven"])
    for reduction in ("broadcast", "tiles"):
        fitted = DaskEGOP(reduction=reduction, client=client).fit(rows, targets, WEIGHTS)
        assert fitted.bandwidth_ == pytest.approx(local.bandwidth_, rel=1e-12)
        close(fitted.outer_product_, local.outer_product_)


@pytest.mark.parametrize("reduction", ["broadcast", "tiles"])
def test_bandwidth_of_many_rows_by_the_same_sample(client, reduction):
    """Beyond a thousand rows a sample judges: an integer seed draws the same one."""
    rows, labels, _ = make_multi_index(1300, 4, random_state=1)
    parameters = {"random_state": 7, "n_queries": 50}
    local = EJOP(**parameters).fit(rows, labels)
    fitted = DaskEJOP(reduction=reduction, client=client, **parameters)
    fitted.fit(*collections(rows, labels, (500, 500, 300)))
    assert fitted.bandwidth_ == pytest.approx(local.bandwidth_, rel=1e-12)
    close(fitted.outer_product_, local.outer_product_)


@pytest.mark.parametrize("reduction", ["broadcast", "tiles"])
def test_float32(client, reduction):
    rows = X.astype(np.float32)
    local = EJOP(bandwidth=0.7).fit(rows, Y)
    fitted = DaskEJOP(bandwidth=0.7, reduction=reduction, client=client)
    fitted.fit(*collections(rows, Y, CUTS["even"]))
    close(fitted.outer_product_, local.outer_product_, rtol=1e-5)
    assert fitted.transform(da.from_array(rows)).compute().dtype == np.float32


@pytest.mark.parametrize(
    ("given", "weights"),
    [({}, None), ({"bandwidth": 1.5}, WEIGHTS), ({"bandwidth": 1.5, "penalty": 0.1}, None)],
    ids=["auto", "penalty, weighted", "given"],
)
def test_ridge_on_centres_drawn_across_partitions(client, given, weights):
    ridge = RidgeFunction(max_rows=100, n_centers=60, random_state=2, **given)
    local = EJOP(ridge, random_state=2).fit(X, Y, weights)
    for reduction in ("broadcast", "tiles"):
        fitted = DaskEJOP(ridge, reduction=reduction, random_state=2, client=client)
        fitted.fit(*collections(X, Y, CUTS["empty"]), sample_weight=weights)
        assert fitted.bandwidth_ == pytest.approx(local.bandwidth_, rel=1e-12)
        assert fitted.penalty_ == local.penalty_
        close(fitted.outer_product_, local.outer_product_)
    assert "60 Nystrom centres drawn across the blocks" in str(fitted.plan_)


@pytest.mark.parametrize(
    "function", ["knn", "ridge", LogisticRegression(), FrozenEstimator(LogisticRegression())]
)
def test_functions_that_are_broadcast(client, function):
    if isinstance(function, FrozenEstimator):
        function.estimator.fit(X, Y)
    local = EJOP(function, random_state=0).fit(X, Y)
    fitted = DaskEJOP(function, random_state=0, client=client).fit(
        *collections(X, Y, CUTS["uneven"])
    )
    close(fitted.outer_product_, local.outer_product_)


class OwnSmoother(Function):
    """A function of a user's, with what contributing.md asks for and no more."""

    divisible = True

    def __init__(self, bandwidth=1.0):
        self.bandwidth = bandwidth

    def _choose(self, rows):
        self.bandwidth_ = self.bandwidth

    def form(self, request):
        return GaussianForm(self, request)

    def default_step(self):
        return 0.5


@pytest.mark.parametrize("reduction", ["broadcast", "tiles"])
def test_a_function_of_a_users_own(client, reduction):
    there = DaskEJOP(OwnSmoother(), reduction=reduction, client=client)
    there.fit(*collections(X, Y, CUTS["uneven"]))
    close(there.outer_product_, EJOP(OwnSmoother()).fit(X, Y).outer_product_)


def test_frozen_model_needs_no_references(client):
    model = FrozenEstimator(LogisticRegression().fit(X, Y))
    local = EJOP(model).fit(X, Y)
    fitted = DaskEJOP(model, reduction="tiles", client=client).fit(
        *collections(X, Y, CUTS["empty"])
    )
    close(fitted.outer_product_, local.outer_product_)


def test_mass_condition_where_references_are_broadcast(client):
    local = EJOP(bandwidth=2.0, min_mass=5).fit(X, Y)
    fitted = DaskEJOP(bandwidth=2.0, min_mass=5, client=client)
    fitted.fit(*collections(X, Y, CUTS["even"]))
    close(fitted.outer_product_, local.outer_product_)
    assert 0 < fitted.mass_zeroed_ == pytest.approx(local.mass_zeroed_)


def test_rounds_of_tiles_add_up(client, monkeypatch):
    """Few queries a round, as where memory is short."""
    monkeypatch.setattr("ejop.executors.dask.tiles.STATE_SHARE", 1e-12)
    monkeypatch.setattr("ejop.executors.dask.tiles.QUERIES", 100)
    fitted = DaskEJOP(bandwidth=0.7, reduction="tiles", client=client)
    fitted.fit(*collections(X, Y, CUTS["even"]))
    assert "5 rounds of at most 84 queries" in str(fitted.plan_)
    close(fitted.outer_product_, EJOP(bandwidth=0.7).fit(X, Y).outer_product_)


def test_blocks_are_read_anew_and_let_go(client):
    """Once to sum up, once for the queries, once for the tiles: none is held from one to the next,
    as it would be if the tiles were scheduled while the queries are being fetched."""

    def loaded(dask_scheduler):
        return dask_scheduler.task_prefixes["load"].state_counts["memory"]

    rows = collections(X, Y, CUTS["even"])
    DaskEJOP(bandwidth=0.7, reduction="tiles", client=client).fit(*rows)
    before = client.run_on_scheduler(loaded)
    DaskEJOP(bandwidth=0.7, reduction="tiles", client=client).fit(*rows)
    assert client.run_on_scheduler(loaded) - before == 3 * len(CUTS["even"])


# collections ----------------------------------------------------------------------------------


def frame(cuts=4):
    table = pd.DataFrame(X, columns=list("abcde")).assign(
        label=np.array(["no", "maybe", "yes"])[Y], target=TARGETS[:, 0]
    )
    return dd.from_pandas(table, npartitions=cuts)


@pytest.mark.parametrize("reduction", ["broadcast", "tiles"])
def test_data_frames_with_labels_on_the_workers(client, reduction):
    table = frame()
    table = table[table["a"] < 1.5]  # lengths are not known
    kept = X[:, 0] < 1.5
    fitted = DaskEJOP(bandwidth=0.7, reduction=reduction, client=client)
    fitted.fit(table[list("abcde")], table["label"])
    local = EJOP(bandwidth=0.7).fit(X[kept], np.array(["no", "maybe", "yes"])[Y[kept]])
    close(fitted.outer_product_, local.outer_product_)
    assert fitted.classes_.tolist() == ["maybe", "no", "yes"]
    assert fitted.feature_names_in_.tolist() == list("abcde")
    mapped = fitted.transform(table[list("abcde")])
    assert isinstance(mapped, da.Array)
    names = pd.DataFrame(X[kept], columns=list("abcde"))
    close(mapped.compute(), fitted.to_local(references=False).transform(names))


def test_rows_and_targets_cut_otherwise(client):
    local = EGOP(bandwidth=1.0).fit(X, TARGETS[:, 0]).outer_product_
    table = frame(3)
    rows, columns = da.from_array(X, chunks=(60, 2)), table[list("abcde")]
    some = table[table["a"] < np.inf]  # unknown lengths, three parts
    for x, y in (
        (rows, TARGETS[:, 0]),
        (rows, da.from_array(TARGETS[:, 0], chunks=100)),
        (rows, some["target"]),
        (columns, da.from_array(TARGETS[:, 0], chunks=100)),
        (some[list("abcde")].to_dask_array(), table["target"].repartition(npartitions=2)),
    ):
        fitted = DaskEGOP(bandwidth=1.0, client=client).fit(x, y)
        close(fitted.outer_product_, local)


def test_transform_is_lazy_and_the_local_one(client):
    rows, labels = collections(X, Y, CUTS["empty"])
    fitted = DaskEJOP(bandwidth=0.7, n_components=2, client=client).fit(rows, labels)
    mapped = fitted.transform(rows)
    assert isinstance(mapped, da.Array)
    assert mapped.chunks == ((200, 150, 70), (2,))
    close(mapped.compute(), EJOP(bandwidth=0.7, n_components=2).fit(X, Y).transform(X))
    assert len(fitted.get_feature_names_out()) == 2


# the planner ------------------------------------------------------------------------------------


def rows_of(n, d=10, c=3, parts=10):
    moments = Moments(n, *(np.zeros(d),) * 4)
    targets = Moments(n, *(np.zeros(c),) * 4)
    summary = Summary(moments, targets, float(n), np.ones(c), True, np.dtype(float))
    return Rows(None, [None] * parts, [n // parts] * parts, summary)


def team(memory, threads=1):
    return Workers(2, 2 * threads, memory, memory / threads)


def test_planner_broadcasts_what_fits_a_tenth_of_a_worker():
    rows = rows_of(10_000)
    for memory, expected in ((10.01, "broadcast"), (9.99, "tiles"), (np.inf, "broadcast")):
        function = KernelSmoother()
        chosen, why = choose_reduction(function, rows, team(memory * rows.nbytes), "auto")
        assert chosen == expected
        assert why.startswith(f"{expected}: references take 1015.6 KiB; ")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("knn", "use function='kernel', 'ball' or 'ridge', or workers with more memory"),
        ("ridge", "up to max_rows=10000 rows it solves one system .* reduction='broadcast'"),
        (LogisticRegression(), "pass it in sklearn.frozen.FrozenEstimator"),
    ],
)
def test_functions_that_cannot_be_tiled_say_what_to_do(client, function, message):
    fitted = DaskEJOP(function, reduction="tiles", client=client)
    with pytest.raises(ValueError, match=f"needs all rows on one worker .*{message}"):
        fitted.fit(*collections(X, Y, CUTS["even"]))


def test_planner_refuses_partitions_that_fill_a_worker():
    rows = rows_of(10_000, parts=1)
    with pytest.raises(MemoryError, match=r"at most \d+ rows, with X.rechunk"):
        choose_reduction(KernelSmoother(), rows, team(rows.nbytes), "auto")


def test_draws_are_those_of_one_machine_up_to_ten_million(monkeypatch):
    few = draw(5000, 100, 3)
    np.testing.assert_array_equal(
        few, np.sort(np.random.RandomState(3).choice(5000, 100, replace=False))
    )
    monkeypatch.setattr(rows_module, "MANY_ROWS", 100)
    many = draw(5000, 100, 3)
    assert len(np.unique(many)) == 100
    assert many.max() < 5000
    assert (np.diff(many) > 0).all()


def test_small_neighbours_are_joined():
    rows = rows_of(100, parts=10)
    assert rows.grouped(35 * rows.row_bytes).lengths == [30, 30, 30, 10]
    assert rows.grouped(1).lengths == [10] * 10


def test_joined_blocks_leave_work_for_every_thread(monkeypatch):
    monkeypatch.setattr(rows_module, "BLOCK_BYTES", 2**30)
    assert len(rows_of(100, parts=10).grouped(parts=5).lengths) == 5
    assert len(rows_of(100, parts=10).grouped().lengths) == 1


# what merges ------------------------------------------------------------------------------------


def test_sums_merge_in_the_log_domain():
    """Weights of exp(-2000) beside exp(-1): neither underflow nor overflow."""
    one = WeightedSums(
        np.ones((2, 3, 4)), np.full((3, 4), 2.0), np.array([[-1.0], [-2000], [-np.inf]])
    )
    two = WeightedSums(
        np.ones((2, 3, 4)), np.full((3, 4), 2.0), np.array([[-2000.0], [-1], [-np.inf]])
    )
    one.sums[:, 2] = one.total[2] = two.sums[:, 2] = two.total[2] = 0
    for merged in (one.merge(two), two.merge(one)):
        np.testing.assert_array_equal(merged.top.ravel(), [-1, -1, -np.inf])
        np.testing.assert_array_equal(merged.sums[0, :, 0], [1, 1, 0])
        np.testing.assert_array_equal(merged.total[:, 0], [2, 2, 0])
    equal = one.merge(one)
    np.testing.assert_array_equal(equal.sums[:, :2], 2)


def test_moments_merge_as_if_they_were_one(rng):
    rows = rng.normal(size=(50, 3)) + 1e6
    merged = Moments.of(rows[:7]).merge(Moments.of(rows[7:]))
    np.testing.assert_allclose(merged.mean, rows.mean(0), rtol=1e-14)
    np.testing.assert_allclose(merged.variance, rows.var(0), rtol=1e-9)
    np.testing.assert_array_equal(merged.low, rows.min(0))


def test_block_finds_its_own_rows():
    block = Block(X[:5], TARGETS[:5], None, np.arange(100, 105))
    np.testing.assert_array_equal(block.own(np.array([99, 100, 104, 105])), [-1, 0, 4, -1])


def test_dask_is_told_how_large_blocks_are():
    block = Block(X, TARGETS, None, np.arange(len(X)))
    assert dask.sizeof.sizeof(block) > X.nbytes + TARGETS.nbytes
    fitted = KernelSmoother(bandwidth=1.0).fit(X, TARGETS)
    assert dask.sizeof.sizeof(fitted) > X.nbytes + TARGETS.nbytes


def test_tree_merges_all(client):
    parts = [dask.delayed(k) for k in range(100)]
    assert client.compute(tree(parts, sum)).result() == sum(range(100))


# what comes to the client -----------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["broadcast", "tiles"])
def test_client_gathers_matrices_alone(client, reduction, monkeypatch):
    """Rows are on the workers; what comes back is far smaller and does not grow with them."""
    sizes = []
    gather = Client.gather
    monkeypatch.setattr(
        Client,
        "gather",
        lambda self, *a, **k: (
            sizes.append(len(pickle.dumps(found := gather(self, *a, **k)))) or found
        ),
    )
    d, n = 6, 10_000
    rows = da.random.RandomState(0).normal(size=(n, d), chunks=(2500, d))
    labels = (rows[:, 0] > 0).astype(int)
    fitted = DaskEJOP(reduction=reduction, n_queries=64, random_state=0, client=client)
    fitted.fit(rows, labels)
    assert max(sizes) < 40_000 < n * d * 8 / 10
    assert fitted.transform(rows).shape == (n, d)


# clients ----------------------------------------------------------------------------------------


def test_client_is_never_copied_or_saved(client):
    fitted = DaskEJOP(bandwidth=0.7, client=client).fit(*collections(X, Y, CUTS["even"]))
    for twin in (pickle.loads(pickle.dumps(fitted)), copy.copy(fitted), copy.deepcopy(fitted)):
        assert twin.client is None
        assert fitted.client is client
        np.testing.assert_array_equal(twin.outer_product_, fitted.outer_product_)
        with pytest.raises(ValueError, match=r"stayed on the cluster; .*to_local\(\)"):
            twin.to_local()
        assert isinstance(twin.to_local(references=False), EJOP)
    again = clone(DaskEJOP(power=0.5, client=client))
    assert again.client is client
    assert again.get_params()["power"] == 0.5
    assert not hasattr(clone(fitted), "outer_product_")


@pytest.mark.parametrize(
    ("here", "local", "more"),
    [
        (DaskEJOP, EJOP, {"client", "reduction"}),
        (DaskEGOP, EGOP, {"client", "reduction"}),
        (DaskEJOPClassifier, EJOPClassifier, {"client", "reduction", "tuning_rows"}),
        (DaskEGOPRegressor, EGOPRegressor, {"client", "reduction", "tuning_rows"}),
    ],
)
def test_parameters_are_those_of_the_twin(here, local, more):
    parameters = here().get_params()
    assert set(parameters) == set(local().get_params()) | more
    assert {k: v for k, v in parameters.items() if k not in more} == local().get_params()
    changed = here(random_state=3).set_params(n_jobs=2)
    assert (changed.random_state, changed.n_jobs, changed.client) == (3, 2, None)
    assert set(here._parameter_constraints) == set(parameters)


def test_plain_estimator_with_and_without_rows(client):
    fitted = DaskEJOP(bandwidth=0.7, client=client).fit(*collections(X, Y, CUTS["uneven"]))
    local, plain = EJOP(bandwidth=0.7).fit(X, Y), fitted.to_local()
    assert type(plain) is EJOP
    assert "client" not in vars(plain)
    close(plain.jacobian(X[:5]), local.jacobian(X[:5]))
    close(plain.transform(X), local.transform(X))
    with pytest.raises(ValueError, match=r"use to_local\(references=True\)"):
        fitted.to_local(references=False).jacobian(X[:5])
    tiled = DaskEJOP(bandwidth=0.7, reduction="tiles", client=client)
    tiled.fit(*collections(X, Y, CUTS["uneven"]))
    close(tiled.to_local().jacobian(X[:5]), local.jacobian(X[:5]))
    for name in ("jacobian", "partial_fit"):
        with pytest.raises(AttributeError, match=f"has no `{name}`; "):
            getattr(fitted, name)(X)


def test_default_client_and_none(client):
    rows, labels = collections(X, Y, CUTS["even"])
    with pytest.raises(ValueError, match=r"`client`=None and no Dask client is connected; start"):
        DaskEJOP().fit(rows, labels)
    with client.as_current():
        assert DaskEJOP(bandwidth=0.7).fit(rows, labels).outer_product_.shape == (5, 5)


def test_closed_client_and_no_workers():
    rows, labels = collections(X, Y, CUTS["even"])
    with LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as empty:
        here = Client(empty, set_as_default=False)
        with pytest.raises(ConnectionError, match=r"no worker is connected to .*dask worker"):
            DaskEJOP(client=here).fit(rows, labels)
        here.close()
        with pytest.raises(ConnectionError, match=r"client is closed, .*make a new one"):
            DaskEJOP(client=here).fit(rows, labels)


# bad input --------------------------------------------------------------------------------------


def rows_with(value):
    bad = X.copy()
    bad[333, 1] = value
    return da.from_array(bad, chunks=(100, -1))


LABELS = da.from_array(Y, chunks=100)
ROWS = da.from_array(X, chunks=(100, -1))
BAD = {
    "NaN": (lambda: (rows_with(np.nan), LABELS), ValueError, "Input X contains NaN"),
    "infinity": (lambda: (rows_with(np.inf), LABELS), ValueError, "X contains infinity"),
    "one class": (lambda: (ROWS, LABELS * 0), ValueError, "1 class, .*at least 2 classes"),
    "real y": (lambda: (ROWS, ROWS[:, 0]), ValueError, "Unknown label type"),
    "too large": (lambda: (rows_with(1e200), LABELS), ValueError, "too large for squared dist"),
    "all rows equal": (lambda: (ROWS * 0, LABELS), ValueError, "all rows are equal.*columns"),
    "no rows": (lambda: (ROWS[:0], LABELS[:0]), ValueError, "minimum of 1 is required"),
}
#: found from the description of the collections, before any task runs
BAD_AT_ONCE = {
    "an array": (lambda: (X, Y), TypeError, r"`X` is a numpy.ndarray .*from_array\(X, .*EJOP for"),
    "y too short": (lambda: (ROWS, LABELS[:-1]), ValueError, r"inconsistent .*: \[420, 419\]"),
    "no y": (lambda: (ROWS, None), ValueError, "requires y to be passed"),
    "one dimension": (lambda: (ROWS[:, 0], LABELS), ValueError, "Expected 2D array, got 1D"),
    "strings": (lambda: (ROWS.astype(str), LABELS), ValueError, "could not convert string"),
    "a column of text": (
        lambda: (frame()[["a", "label"]], frame()["label"]),
        ValueError,
        "could not convert string to float: column 'label'",
    ),
    "bandwidth": (lambda: (ROWS, LABELS, {"bandwidth": -1.0}), ValueError, "'bandwidth' parameter"),
    "device": (
        lambda: (ROWS, LABELS, {"device": "cpu"}),
        ValueError,
        "`device`='cpu' is not supported on a cluster",
    ),
}


def refuse(client, case):
    make, error, message = case
    rows, labels, *more = make()
    model = DaskEJOP(client=client, **(more[0] if more else {}))
    with pytest.raises(error, match=message):
        model.fit(rows, labels)
    with pytest.raises(NotFittedError):
        model.transform(ROWS)


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_refused_with_the_local_words(client, case):
    refuse(client, BAD[case])


@pytest.mark.parametrize("case", BAD_AT_ONCE)
def test_bad_collections_are_refused_before_any_task(client, case, monkeypatch):
    def scheduled(*args, **kwargs):
        raise AssertionError("work was scheduled")

    for name in ("compute", "persist", "submit"):
        monkeypatch.setattr(Client, name, scheduled)
    refuse(client, BAD_AT_ONCE[case])


def test_unknown_lengths_that_do_not_match(client):
    table = frame()
    rows, labels = table[table["a"] < 1][list("abcde")], table[table["b"] < 1]["label"]
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        DaskEJOP(client=client).fit(rows, labels)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \["):
        DaskEJOP(client=client).fit(rows, labels.repartition(npartitions=2))


def test_wrong_columns_after_the_fit(client):
    fitted = DaskEJOP(bandwidth=0.7, client=client).fit(ROWS, LABELS)
    with pytest.raises(ValueError, match="X has 4 features, but DaskEJOP is expecting 5"):
        fitted.transform(ROWS[:, :4])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        client.compute(fitted.transform(rows_with(np.nan))).result()


def test_weights_are_checked(client):
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        DaskEJOP(client=client).fit(ROWS, LABELS, -np.ones(420))
    with pytest.raises(ValueError, match="`sample_weight` is zero for every row"):
        DaskEJOP(client=client).fit(ROWS, LABELS, np.zeros(420))
    with pytest.raises(ValueError, match=r"`min_mass`=3 counts rows .*reduction='broadcast'"):
        DaskEJOP(min_mass=3, reduction="tiles", client=client).fit(ROWS, LABELS)


def test_source_that_changes_is_noticed(client):
    """A partition that loses a row between two readings."""
    rows = da.map_blocks(shrinking, ROWS, dtype=float, meta=np.empty((0, 5)))
    with pytest.raises((RuntimeError, ValueError), match=r"they were counted|inconsistent numbers"):
        DaskEJOP(client=client).fit(rows, LABELS)


CALLS = []


def shrinking(block):
    """Rows of a block, one fewer from the fifth call in a process on."""
    CALLS.append(1)
    return block[: len(block) - (len(CALLS) > 4)]
