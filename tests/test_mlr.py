"""MLR: worst rankings against all interleavings, constraints against outer products, the gap."""

import itertools
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from ejop import EJOP
from ejop.learners import _mlr as module
from ejop.learners._cutting_planes import cutting_planes
from ejop.learners._mlr import MLR
from ejop.learners._mlr_loops import maximize_on_simplex
from ejop.learners._rankings import LOSSES, inversions, mean_constraint

QUICK = {"C": 10.0, "n_queries": 40, "max_iter": 60}


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def described_loss(name, ranking, k):
    """Loss of a ranking, a sequence of True (relevant) and False, from its textbook definition."""
    ranking = np.asarray(ranking)
    P, n = ranking.sum(), len(ranking)
    places = np.flatnonzero(ranking) + 1
    if name == "auc":
        later = sum(ranking[i + 1 :].sum() for i in range(n) if not ranking[i])
        return later / (P * (n - P))
    if name == "mrr":
        return 1 - 1 / places[0]
    if name == "map":
        return 1 - np.mean([ranking[:p].mean() for p in places])
    cut = {"precision": P, "ndcg": n}[name] if k is None else min(k, n)
    if name == "precision":
        return 1 - ranking[:cut].sum() / min(cut, P)
    gain = sum(1 / np.log2(1 + p) for p in places if p <= cut)
    return 1 - gain / sum(1 / np.log2(1 + p) for p in range(1, min(cut, P) + 1))


def all_rankings(P, N):
    for places in itertools.combinations(range(P + N), P):
        ranking = np.zeros(P + N, dtype=bool)
        ranking[list(places)] = True
        yield ranking, np.array(places) - np.arange(P)


def score_term(before, good, bad):
    return sum(2 * (bad[:b] - s).sum() for b, s in zip(before, good, strict=True)) / (
        len(good) * len(bad)
    )


@pytest.mark.parametrize("k", [None, 1, 2, 4, 50])
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_the_worst_ranking_is_the_worst_of_all_interleavings(name, k):
    loss = LOSSES[name]
    rng = np.random.default_rng(7)
    sizes = [(3, 3)] * 20 + [(1, 4), (4, 1), (1, 1), (5, 2), (2, 5), (4, 4)] * 2
    for number, (P, N) in enumerate(sizes):
        spread = [0, 0.03, 0.3, 1, 10][number % 5]
        good, bad = (-np.sort(-spread * rng.normal(size=m)) for m in (P, N))
        if number % 7 == 0:
            good, bad = good.round(), bad.round()  # ties
        before = loss.worst(good, bad, k)
        assert np.all(np.diff(before) >= 0)
        values = {
            tuple(b): described_loss(name, ranking, k) + score_term(b, good, bad)
            for ranking, b in all_rankings(P, N)
        }
        assert values[tuple(before)] == pytest.approx(max(values.values()), abs=1e-12)


@pytest.mark.parametrize("k", [None, 1, 3, 50])
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_losses_are_what_their_names_say(name, k):
    for ranking, before in all_rankings(3, 4):
        value = LOSSES[name].value(before, 4, k)
        assert value == pytest.approx(described_loss(name, ranking, k), abs=1e-12)
    assert LOSSES[name].value(np.zeros(3, int), 4, k) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", ["map", "ndcg"])
def test_the_quick_search_agrees_with_the_quadratic_one(name):
    """On sizes beyond all interleavings: the best place of each irrelevant item, one by one."""
    rng = np.random.default_rng(3)
    for spread in (0.01, 1.0, 30.0, 1000.0):
        good, bad = (-np.sort(-spread * rng.normal(size=m)) for m in (23, 61))
        P, N = len(good), len(bad)
        k, j = np.arange(1, P + 1)[:, None], np.arange(1, N + 1)
        discount = 1 / np.log2(np.arange(1, P + N + 2) + 1)
        worth = {
            "map": (k / (k + j - 1) - k / (k + j)) / P,
            "ndcg": (discount[k + j - 2] - discount[k + j - 1]) / discount[:P].sum(),
        }[name] + 2 * (bad - good[:, None]) / (P * N)
        tails = np.vstack([np.cumsum(worth[::-1], axis=0)[::-1], np.zeros(N)])
        before = LOSSES[name].worst(good, bad, None)
        found = sum(worth[i, :b].sum() for i, b in enumerate(before))
        assert found == pytest.approx(tails.max(0).sum(), abs=1e-10)


def test_inversions_are_differences_of_psi(rng):
    """psi(q, r*) - psi(q, r) by its double sum over pairs."""
    for ranking, before in all_rankings(3, 4):
        phi = rng.normal(size=7)  # numbers stand for the matrices
        where = np.concatenate([np.flatnonzero(ranking), np.flatnonzero(~ranking)])
        total = 0.0
        for i in range(3):
            for j in range(3, 7):
                z = 1 if where[i] < where[j] else -1
                total += (1 - z) * (phi[i] - phi[j]) / 12
        good, bad = inversions(before, 4)
        assert good @ phi[:3] + bad @ phi[3:] == pytest.approx(total)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_the_mean_constraint_is_the_sum_of_outer_products(name, rng):
    X = rng.normal(size=(24, 3)) + 5  # far from the origin: only differences count
    y = rng.integers(0, 3, 24)
    A = rng.normal(size=(3, 3))
    W = 0.1 * A @ A.T
    queries = np.array([0, 3, 4, 11, 20])
    blocks = {"scores_at_once": 48}  # of two queries
    Psi, delta = mean_constraint(W, X, y, queries, LOSSES[name], 4, **blocks)
    expected, losses = np.zeros((3, 3)), 0.0
    for q in queries:
        others = np.flatnonzero(np.arange(24) != q)
        D = X[others] - X[q]
        scores = -np.einsum("nd,de,ne->n", D, W, D)
        order = others[np.argsort(-scores)]
        good, bad = order[y[order] == y[q]], order[y[order] != y[q]]
        s = dict(zip(others, scores, strict=True))
        before = LOSSES[name].worst(
            np.array([s[i] for i in good]), np.array([s[j] for j in bad]), 4
        )
        losses += LOSSES[name].value(before, len(bad), 4)
        for i, b in zip(good, before, strict=True):
            for j in bad[:b]:
                near, far = X[i] - X[q], X[j] - X[q]
                pair = -np.outer(near, near) + np.outer(far, far)
                expected += 2 * pair / (len(good) * len(bad))
    np.testing.assert_allclose(Psi, expected / len(queries), atol=1e-12)
    assert delta == pytest.approx(losses / len(queries))


def test_the_risk_lies_above_its_tangents(rng):
    """R is convex and Psi its negative slope: Delta - <W', Psi> at W bounds R(W') from below."""
    X, y = rng.normal(size=(30, 3)), rng.integers(0, 3, 30)
    q = np.arange(30)
    Ws = [s * B @ B.T for s in (0.01, 0.1, 1.0) for B in rng.normal(size=(3, 3, 3))]
    for name, loss in LOSSES.items():
        pieces = [mean_constraint(W, X, y, q, loss, 5) for W in Ws]
        values = np.array([[d - np.sum(P * W) for W in Ws] for P, d in pieces])
        assert np.all(values <= np.diag(values) + 1e-12), name


def test_the_small_problem_is_solved_on_the_simplex(rng):
    A = rng.normal(size=(8, 5))
    G, b, alpha = A @ A.T, rng.normal(size=8), np.eye(8)[0]
    maximize_on_simplex(G, b, alpha, 1e-10, 100_000)
    assert alpha.min() >= 0
    assert alpha.sum() == pytest.approx(1)
    slope = b - G @ alpha
    np.testing.assert_allclose(slope[alpha > 0], slope.max(), atol=1e-8)


@pytest.mark.parametrize("name", ["map", "auc", "ndcg", "mrr", "precision"])
def test_the_gap_closes_on_the_optimum(iris, name):
    X, y = iris
    X = (X - X.mean(0)) / X.std(0)

    def oracle(W):
        return mean_constraint(W, X, y, np.arange(0, 150, 3), LOSSES[name], None)

    price = 1 / (4 * 3.0)
    rounds = list(cutting_planes(oracle, 4, price, max_iter=300, tol=1e-4))
    values, gaps = np.array([(r.value, r.gap) for r in rounds]).T
    assert np.all(np.diff(values) <= 0)
    assert gaps[-1] <= 1e-4
    assert gaps[0] > 10 * gaps[-1]
    last = rounds[-1]
    assert np.linalg.eigvalsh(last.W)[0] > -1e-10
    Psi, delta = oracle(last.W)
    assert last.risk == pytest.approx(delta - np.sum(Psi * last.W))
    assert last.value == pytest.approx(price * np.trace(last.W) + last.risk)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1, 1.0) * 10:  # nothing near is better than the gap allows
        root = np.linalg.cholesky(last.W + 1e-9 * np.eye(4))
        root = root + size * np.abs(root).max() * rng.normal(size=(4, 4))
        W = root @ root.T
        Psi, delta = oracle(W)
        assert price * np.trace(W) + delta - np.sum(Psi * W) >= last.value - 1e-4


def test_the_gap_never_overstates_what_is_known(iris):
    X, y = iris
    X = (X - X.mean(0)) / X.std(0)

    def oracle(W):
        return mean_constraint(W, X, y, np.arange(0, 150, 3), LOSSES["map"], None)

    rounds = list(cutting_planes(oracle, 4, 0.1, max_iter=300, tol=1e-6))
    assert rounds[-1].gap <= 1e-6
    for state in rounds:
        assert state.gap >= state.value - rounds[-1].value - 1e-12


@parametrize_with_checks([MLR(), MLR("auc", **QUICK), MLR("ndcg", k=3, n_components=1)])
@pytest.mark.filterwarnings("ignore:MLR did not converge")  # random labels of some checks
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_fitted_attributes(iris):
    X, y = iris
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = MLR(random_state=0).fit(X, y)
    assert fitted.converged_
    assert fitted.n_iter_ == len(fitted.objective_) == len(fitted.gap_)
    assert np.all(np.diff(fitted.objective_) <= 0)
    assert fitted.C_ in module.GRID
    assert fitted.components_.shape[1] == 4
    assert 0 <= fitted.held_out_error_ < 0.2
    assert "round" in fitted.message_
    np.testing.assert_allclose(
        fitted.components_.T @ fitted.components_, fitted.get_mahalanobis_matrix()
    )
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
    same = clone(fitted).fit(X, y)
    np.testing.assert_array_equal(same.components_, fitted.components_)


def test_the_chosen_trade_off_is_a_plain_fit_with_it(iris):
    X, y = iris
    auto = MLR(random_state=0).fit(X, y)
    plain = MLR(C=auto.C_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(auto.components_, plain.components_)
    np.testing.assert_array_equal(auto.objective_, plain.objective_)


def test_names_and_labels_of_any_kind(iris):
    X, y = iris
    table = pd.DataFrame(X, columns=list("abcd"))
    labels = np.array(["setosa", "versicolor", "virginica"])[y]
    fitted = MLR(n_components=2, random_state=0, **QUICK).set_output(transform="pandas")
    out = fitted.fit(table, labels).transform(table)
    assert list(out.columns) == ["mlr0", "mlr1"]
    numbers = MLR(n_components=2, random_state=0, **QUICK).fit(X, y)
    np.testing.assert_array_equal(out.to_numpy(), numbers.transform(X))


def test_a_fit_improves_neighbours_where_few_columns_matter(rng):
    X = rng.normal(size=(400, 12))
    y = np.arange(400) % 3
    X[:, :2] += 1.5 * np.array([[0, 0], [2, 0], [0, 2]])[y]
    X[:, 2:] *= 2
    train, test = slice(0, 250), slice(250, None)
    plain = KNeighborsClassifier().fit(X[train], y[train]).score(X[test], y[test])
    learner = MLR(random_state=0).fit(X[train], y[train])
    Z = learner.transform(X)
    learned = KNeighborsClassifier().fit(Z[train], y[train]).score(Z[test], y[test])
    assert learned > plain + 0.08
    M = learner.get_mahalanobis_matrix()
    assert np.trace(M[:2, :2]) > 0.7 * np.trace(M)


def test_digits_do_not_warn():
    X, y = load_digits(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = MLR(n_queries=150, random_state=0).fit(X[:600], y[:600])
    assert np.isfinite(fitted.components_).all()  # three columns are constant


def held_out_rows(learner, X, y):
    """The rows that a learner with an array as its start holds out."""
    state = np.random.RandomState(learner.random_state)
    state.randint(2**31 - 1)  # drawn for the start
    return learner._held_out(y, state)


def test_never_worse_than_the_start_on_held_out_rows():
    for seed in range(4):
        X, y = make_classification(
            120, 6, n_informative=2, n_redundant=0, flip_y=0.4, random_state=seed
        )
        learner = MLR(n_queries=40, random_state=seed).fit(X, y)
        learn, held = held_out_rows(learner, X, y)
        errors = [
            1 - KNeighborsClassifier().fit(Z[learn], y[learn]).score(Z[held], y[held])
            for Z in (X, learner.transform(X))
        ]
        assert errors[1] <= errors[0] + 1e-12
        assert learner.held_out_error_ == pytest.approx(errors[1])


def test_a_start_without_fault_is_kept(rng):
    X, y = rng.normal(size=(90, 4)), np.arange(90) % 3
    X[:, 0] = 10 * y + 0.1 * X[:, 0]
    start = np.eye(1, 4)  # every neighbour of every held-out row is right
    fitted = MLR(init=np.vstack([start, np.zeros((1, 4))]), random_state=0, **QUICK).fit(X, y)
    np.testing.assert_array_equal(fitted.components_[:1], start)
    assert "start, which is kept" in fitted.message_


def test_the_best_on_held_out_rows_is_kept(iris, monkeypatch):
    seen, judge_of = [], module._judge

    def recorded(*rows):
        judge = judge_of(*rows)

        def judged(L):
            seen.append((judge(L), L))
            return seen[-1][0]

        return judged

    monkeypatch.setattr(module, "_judge", recorded)
    X, y = iris[0][:, :2], iris[1]  # sepals alone: the classes overlap
    fitted = MLR(random_state=0, **QUICK).fit(X, y)
    best = min(merit for merit, _ in seen)
    assert best < max(merit for merit, _ in seen)
    assert fitted.held_out_error_ == best[0]
    L = next(L for merit, L in seen if merit == best)
    M, scaled = fitted.get_mahalanobis_matrix(), L.T @ L
    np.testing.assert_allclose(M / np.trace(M), scaled / np.trace(scaled), atol=1e-9)


def test_the_metric_lives_in_the_space_of_the_start(iris):
    X, y = iris
    start = np.array([[1.0, 0, 0, 0], [0, 1.0, 0, 0]])
    M = MLR(init=start, random_state=0, **QUICK).fit(X, y).get_mahalanobis_matrix()
    np.testing.assert_allclose(M[2:], 0, atol=1e-12)
    metric = np.diag([1.0, 1.0, 0, 0])
    same = MLR(init_metric=metric, random_state=0, **QUICK).fit(X, y).get_mahalanobis_matrix()
    np.testing.assert_allclose(same, M, rtol=1e-2, atol=1e-2 * np.abs(M).max())


def test_starts_from_ejop(iris):
    X, y = iris
    start = EJOP("ridge", random_state=0).fit(X, y)
    fitted = MLR(init=start, random_state=0, **QUICK).fit(X, y)
    assert np.isfinite(fitted.components_).all()
    by_name = MLR(init="ejop", random_state=0, **QUICK).fit(X, y)
    assert by_name.components_.shape[1] == 4


def test_a_trivial_solution_gives_back_the_start(rng):
    X, y = rng.normal(size=(90, 3)), rng.integers(0, 3, 90)  # labels mean nothing
    with pytest.warns(ConvergenceWarning, match="trivial: W does no better than 0"):
        fitted = MLR("precision", C=1e-2, k=5, validation=None, n_queries=None).fit(X, y)
    np.testing.assert_array_equal(fitted.components_, np.eye(3))
    assert "start, which is kept" in fitted.message_
    held = MLR("precision", C=1e-2, k=5, random_state=0).fit(X, y)
    assert "trivial" in held.message_
    assert held.components_.any()


def test_without_held_out_rows_the_optimum_is_kept(iris):
    X, y = iris
    fitted = MLR(C=1.0, validation=None, max_iter=300, random_state=0).fit(X, y)
    assert fitted.converged_
    assert fitted.gap_[-1] <= 1e-3
    assert fitted.held_out_error_ is None
    with pytest.warns(ConvergenceWarning, match="`max_iter` reached"):
        MLR(C=1.0, validation=None, max_iter=2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="chosen on held-out rows"):
        MLR(validation=None).fit(X, y)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e12])
def test_units_do_not_matter(iris, scale):
    X, y = iris
    plain = MLR(random_state=0, **QUICK).fit(X, y)
    scaled = MLR(random_state=0, **QUICK).fit(scale * X + 7 * scale, y)
    np.testing.assert_allclose(scaled.objective_, plain.objective_, rtol=1e-3)
    M = scaled.get_mahalanobis_matrix() * scale**2
    np.testing.assert_allclose(M, plain.get_mahalanobis_matrix(), rtol=1e-2, atol=1e-2 * M.max())
    start = MLR(init=np.eye(4) / scale, random_state=0, **QUICK).fit(X, y)
    np.testing.assert_allclose(start.objective_, plain.objective_, rtol=1e-3)


def test_more_columns_than_rows_is_the_problem_in_their_span(rng):
    X, y = rng.normal(size=(60, 8)), np.arange(60) % 3
    X[:, 0] += 2 * y
    basis = np.linalg.qr(rng.normal(size=(90, 8)))[0]
    kwargs = {"C": 1.0, "validation": None, "max_iter": 300, "tol": 1e-3}
    small = MLR(random_state=0, **kwargs).fit(X, y)
    large = MLR(random_state=0, **kwargs).fit(X @ basis.T, y)  # 90 columns of rank 8
    assert large.converged_
    assert len(large.components_) <= 8
    assert large.objective_[-1] == pytest.approx(small.objective_[-1], abs=2e-3)
    M = basis.T @ large.get_mahalanobis_matrix() @ basis
    expected = small.get_mahalanobis_matrix()
    np.testing.assert_allclose(M, expected, atol=0.02 * np.abs(expected).max())


def test_awkward_rows(rng):
    X, y = rng.normal(size=(40, 5)), np.arange(40) % 2
    X[:, 1] = 3.0
    X[::4] = X[0]  # duplicates, in both classes
    y[[1, 2, 3]] = [7, 8, 9]  # classes with one row
    X[:, 0] += 3 * y
    for loss in LOSSES:
        fitted = MLR(loss, C=1.0, k=3, random_state=0).fit(X, y)
        assert np.isfinite(fitted.components_).all()
    alone = MLR(random_state=0).fit(X[:5], np.arange(5))
    np.testing.assert_array_equal(alone.components_, np.eye(5))
    assert "no class has two rows" in alone.message_
    equal = MLR(random_state=0).fit(np.ones((8, 2)), [0, 1] * 4)
    np.testing.assert_array_equal(equal.components_, np.eye(2))
    assert "rows are equal" in equal.message_


def test_few_rows_of_many_columns(rng):
    X, y = rng.normal(size=(30, 100)), np.arange(30) % 3
    fitted = MLR(random_state=0).fit(X, y)
    assert np.isfinite(fitted.components_).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss": "rank"}, "'loss' parameter of MLR"),
        ({"C": 0.0}, "'C' parameter of MLR"),
        ({"k": 0}, "'k' parameter of MLR"),
        ({"init": np.ones((2, 3))}, r"\(n_components, 4\) was expected"),
        ({"init_metric": -np.eye(4)}, "not positive semi-definite"),
        ({"n_components": 9}, "between 1 and the number of features, 4"),
        ({"validation": 0.99}, "needs at least two rows of each class"),
    ],
)
def test_wrong_arguments_are_named(iris, arguments, message):
    with pytest.raises(ValueError, match=message):
        MLR(**arguments).fit(*iris)


def test_one_class_is_an_error(iris):
    with pytest.raises(ValueError, match="one class"):
        MLR().fit(iris[0], np.zeros(150))


def test_progress(iris, capsys):
    MLR(random_state=0, verbose=1, **QUICK).fit(*iris)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "MLR, C=10: 1/60" in captured.err


def test_an_unfitted_start_has_not_seen_the_rows_that_judge(iris):
    seen = []

    class Spy(EJOP):
        def fit(self, X, y, sample_weight=None):
            seen.append(len(X))
            return super().fit(X, y, sample_weight)

    MLR(init=Spy(), random_state=0, **QUICK).fit(*iris)
    assert seen == [120, 150]  # to learn from; then all, in case the start is kept
