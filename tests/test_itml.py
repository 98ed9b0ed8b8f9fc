"""ITML: each projection against plain linear algebra, the solution against its conditions."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ejop import EJOP
from ejop.learners import _itml, _logdet, knn_error
from ejop.learners._itml import GAMMAS, ITML, held_out_splits
from ejop.learners._itml_loops import bregman_pass
from ejop.learners._logdet import logdet_passes, pose, prior_root, sample_pairs


@parametrize_with_checks([ITML(), ITML(gamma=0.1, n_components=1), ITML(init="lda", gamma=1.0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def slow_projections(V, sign, slack, gamma, n_passes):
    """One pair at a time with inverses: M^-1 + a v v^T, 1 / slack - a / gamma, such that
    v^T M v = slack, or as near as multipliers >= 0 allow. Yields M after every pair."""
    A, slack, multipliers = np.eye(V.shape[1]), slack.copy(), np.zeros(len(V))
    for _ in range(n_passes):
        for k, v in enumerate(V):
            p = v @ A @ v
            a = sign[k] * gamma / (gamma + 1) * (1 / slack[k] - 1 / p)  # equality
            a = sign[k] * max(a, -multipliers[k])
            A = np.linalg.inv(np.linalg.inv(A) + a * np.outer(v, v))
            slack[k] = 1 / (1 / slack[k] - a / gamma)
            multipliers[k] += sign[k] * a
            yield A, slack, multipliers


def random_pairs(rng, m=60, d=5):
    V = rng.normal(size=(m, d))
    sign = np.where(rng.uniform(size=m) < 0.5, 1.0, -1.0)
    return V, sign, np.where(sign > 0, 2.0, 12.0)


@pytest.mark.parametrize("gamma", [1e-3, 0.1, 1.0, 50.0])
@pytest.mark.parametrize("block", [1, 7, 64])
def test_compiled_passes_equal_one_projection_at_a_time(rng, gamma, block):
    V, sign, bounds = random_pairs(rng)
    steps = list(slow_projections(V, sign, bounds, gamma, 3))
    A, slack, multipliers, logdet = np.eye(5), bounds.copy(), np.zeros(60), 0.0
    for _ in range(3):
        logdet += bregman_pass(A, V, sign, multipliers, slack, gamma, block)
    expected, slow_slack, slow_multipliers = steps[-1]
    np.testing.assert_allclose(A, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(slack, slow_slack, rtol=1e-7)
    np.testing.assert_allclose(multipliers, slow_multipliers, rtol=1e-6, atol=1e-10)
    assert logdet == pytest.approx(np.linalg.slogdet(expected)[1], abs=1e-8)


def test_every_single_projection_equals_its_twin_and_stays_positive_definite(rng):
    V, sign, bounds = random_pairs(rng)
    A, slack, multipliers = np.eye(5), bounds.copy(), np.zeros(60)
    for k, (expected, _, _) in enumerate(slow_projections(V, sign, bounds, 1.0, 4)):
        i = np.s_[k % 60 : k % 60 + 1]
        bregman_pass(A, V[i], sign[i], multipliers[i], slack[i], 1.0, 1)
        np.testing.assert_allclose(A, expected, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(A, A.T, rtol=0, atol=1e-12)
        assert np.linalg.eigvalsh(A)[0] > 0
        assert (multipliers >= 0).all()


@pytest.mark.parametrize("gamma", GAMMAS)
def test_passes_stay_positive_definite_and_raise_the_dual(iris, gamma):
    X, y = iris
    problem = pose(X, y, np.eye(4), 200, (5, 95), np.random.RandomState(0))
    duals = []
    for A, dual, _ in logdet_passes(problem.V, problem.sign, problem.slack, gamma, 300, 0):
        np.testing.assert_array_equal(A, A.T)
        assert np.linalg.eigvalsh(A)[0] > 0
        duals.append(dual)
    assert (np.diff(duals) >= -1e-9 * abs(duals[-1])).all()
    assert duals[0] > 0


def test_solution_meets_the_conditions_of_the_optimum(rng):
    """Stationary, feasible with slack, and without a gap between primal and dual."""
    V, sign, bounds = random_pairs(rng)
    gamma = 0.3
    A, slack, multipliers = np.eye(5), bounds.copy(), np.zeros(60)
    for _ in range(3000):
        bregman_pass(A, V, sign, multipliers, slack, gamma, 8)
    np.testing.assert_allclose(
        np.linalg.inv(A), np.eye(5) + (V.T * sign * multipliers) @ V, rtol=1e-6, atol=1e-8
    )
    violation = sign * (np.einsum("mi,ij,mj->m", V, A, V) - slack) / bounds
    assert violation.max() < 1e-6
    assert np.abs(violation * multipliers * bounds).max() < 1e-6
    *_, (_, dual, _) = logdet_passes(V, sign, bounds, gamma, 3000, 0)
    ratio = slack / bounds
    primal = np.trace(A) - np.linalg.slogdet(A)[1] - 5 + gamma * (ratio - np.log(ratio) - 1).sum()
    assert primal == pytest.approx(dual, rel=1e-6)


def test_pairs_keep_their_bounds_when_slack_is_dear_and_the_bounds_can_be_kept(rng):
    V = rng.normal(size=(40, 6))
    truth = np.diag([4.0, 2.0, 1.0, 0.5, 0.1, 0.05])
    lengths = np.einsum("mi,ij,mj->m", V, truth, V)
    sign = np.where(np.arange(40) % 2 == 0, 1.0, -1.0)
    bounds = lengths * np.where(sign > 0, 1.1, 0.9)  # the true metric keeps them all
    assert (sign * ((V**2).sum(1) - bounds) > 0).any()
    *_, (A, _, change) = logdet_passes(V, sign, bounds, 1e6, 20_000, 1e-8)
    assert change < 1e-8
    got = np.einsum("mi,ij,mj->m", V, A, V)
    assert (sign * (got - bounds) / bounds).max() < 1e-3


@pytest.mark.parametrize("init", ["identity", "lda", "pca"])
def test_without_a_violated_pair_the_prior_stays(iris, init):
    X, y = iris[0][::2], iris[1][::2]  # so few that the bounds come from all pairs
    fitted = ITML(init=init, percentiles=(100, 0), gamma=1.0, random_state=0).fit(X, y)
    np.testing.assert_allclose(fitted.get_mahalanobis_matrix(), fitted.prior_, atol=1e-10)
    assert fitted.n_iter_ == 1
    assert fitted.objective_ == pytest.approx([0])
    if init == "identity":
        np.testing.assert_allclose(fitted.prior_, np.eye(4), atol=1e-12)


def test_prior_mixes_the_start_with_the_identity(rng):
    X = rng.normal(size=(50, 4)) * [1, 2, 3, 4]
    L = rng.normal(size=(2, 4))
    root = prior_root(L, X, 0.25)
    spread, mapped = X.var(0).sum(), (X @ L.T).var(0).sum()
    expected = 0.75 * spread / mapped * L.T @ L + 0.25 * np.eye(4)
    np.testing.assert_allclose(root.T @ root, expected)
    np.testing.assert_allclose((X @ root.T).var(0).sum(), spread)
    with pytest.raises(ValueError, match=r"`prior_mix`=0 and a start of rank 2 for 4 features"):
        prior_root(L, X, 0)
    M = np.diag([1.0, 2.0, 3.0, 4.0])
    fitted = ITML(init_metric=M, prior_mix=0, gamma=0.1, random_state=0).fit(X, np.arange(50) % 2)
    np.testing.assert_allclose(fitted.prior_ / fitted.prior_[0, 0], M, atol=1e-12)


def test_rows_fewer_than_features_give_what_all_directions_would(rng, monkeypatch):
    X, y = rng.normal(size=(30, 45)), np.arange(30) % 3
    root = prior_root(rng.normal(size=(5, 45)), X, 0.2)
    small = pose(X, y, root, 100, (5, 95), np.random.RandomState(0))
    assert small.V.shape[1] == 29
    V = (X @ root.T) / np.sqrt(2 * (X @ root.T).var(0).sum())
    pairs = pose_pairs(y, 30)
    V = V[pairs[:, 0]] - V[pairs[:, 1]]
    np.testing.assert_allclose((V**2).sum(1), (small.V**2).sum(1))
    big = _logdet.Problem(V, small.sign, small.slack, root, None, small.bounds)
    M = [p.components(p.solve(0.5, 20, 0)[0], None) for p in (small, big)]
    np.testing.assert_allclose(M[0].T @ M[0], M[1].T @ M[1], rtol=1e-6, atol=1e-8)


def pose_pairs(y, n):
    """The pairs that ``pose`` draws: after its bounds, which need no chance for so few rows."""
    assert n * (n - 1) / 2 <= _logdet.BOUND_PAIRS
    return sample_pairs(y, 100, np.random.RandomState(0))[0]


def test_pairs_are_distinct_even_over_classes_and_mixed():
    y = np.repeat(["a", "b", "c", "d"], [50, 30, 2, 1])
    pairs, sign = sample_pairs(y, 400, np.random.RandomState(0))
    assert len({tuple(sorted(p)) for p in pairs.tolist()}) == len(pairs)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    np.testing.assert_array_equal(sign > 0, same)
    counts = {c: np.sum(y[pairs[same, 0]] == c) for c in "abcd"}
    assert counts["c"] == 1  # there is one such pair only
    assert counts["d"] == 0
    assert min(counts["a"], counts["b"]) > 90
    kinds = {frozenset(k) for k in y[pairs[~same]].tolist()}
    assert len(kinds) == 6
    assert 0.2 < np.mean(sign[: len(sign) // 4] > 0) < 0.8  # neither kind comes first


def test_bounds_are_percentiles_of_squared_distances_under_the_prior(iris):
    X, y = iris
    X, y = X[::2], y[::2]
    fitted = ITML(gamma=0.01, init="lda", random_state=0).fit(X, y)
    a, b = np.triu_indices(len(X), 1)
    squared = np.einsum("mi,ij,mj->m", X[a] - X[b], fitted.prior_, X[a] - X[b])
    np.testing.assert_allclose(fitted.bounds_, np.percentile(squared[squared > 0], [5, 95]))


def test_gamma_is_chosen_by_held_out_rows_that_the_metric_has_not_seen(iris, monkeypatch):
    X, y = iris
    posed, judged = [], []
    real_pose, real_error = _itml.pose, _itml.knn_error

    def pose_spy(X, *args):
        posed.append(X)
        return real_pose(X, *args)

    def error_spy(L, X, y, Q, labels, k):
        judged.append((X, Q))
        return real_error(L, X, y, Q, labels, k)

    monkeypatch.setattr(_itml, "pose", pose_spy)
    monkeypatch.setattr(_itml, "knn_error", error_spy)
    fitted = ITML(random_state=0, init=EJOP("ridge")).fit(X + np.arange(150)[:, None] * 1e-9, y)
    assert [len(p) for p in posed] == [120, 120, 120, 150]
    for learned, held in judged:
        assert not {tuple(r) for r in learned} & {tuple(r) for r in held}
    assert {len(held) for _, held in judged} == {30}
    errors = fitted.gamma_errors_
    assert fitted.gamma_ == min(sorted(errors, key=lambda g: g or 99), key=errors.get)
    assert set(errors) <= {0.0, *GAMMAS}


def test_gamma_zero_is_the_prior(iris):
    fitted = ITML(init="lda", gamma=0, random_state=0).fit(*iris)
    np.testing.assert_allclose(fitted.get_mahalanobis_matrix(), fitted.prior_, atol=1e-9)
    assert "gamma=0 leaves the prior" in fitted.message_


def test_a_prior_that_no_gamma_beats_is_returned_with_a_word(iris, monkeypatch):
    X, y = iris

    def error(L, *args):
        return float(not np.allclose(L.T @ L, np.eye(4)))

    monkeypatch.setattr(_itml, "knn_error", error)
    fitted = ITML(random_state=0).fit(X, y)
    assert fitted.gamma_ == 0
    assert "prior, which is returned" in fitted.message_
    np.testing.assert_allclose(fitted.get_mahalanobis_matrix(), np.eye(4), atol=1e-12)
    assert list(fitted.gamma_errors_) == [*GAMMAS, 0.0]  # all equally bad


def test_held_out_rows_when_classes_are_small():
    y = np.array([0] * 10 + [1] * 10 + [2])
    splits = held_out_splits(y, 0.2, np.random.RandomState(0))
    assert len(splits) == 3
    for a, b in splits:
        assert sorted([*a, *b]) == list(range(21))
        assert 20 in a
        assert set(y[b]) == {0, 1}
    assert held_out_splits(np.arange(5), 0.2, np.random.RandomState(0)) == []
    assert held_out_splits(y, None, np.random.RandomState(0)) == []
    fitted = ITML(validation=None, random_state=0).fit(np.random.RandomState(0).randn(21, 3), y)
    assert fitted.gamma_ == 0.01
    assert fitted.gamma_errors_ == {}


def test_digits_improve_on_the_euclidean_distance():
    X, y = load_digits(return_X_y=True)
    order = np.random.RandomState(300).permutation(len(X))
    X, y = StandardScaler().fit(X[order[:1200]]).transform(X)[order], y[order]
    fitted = ITML(random_state=0).fit(X[:1200], y[:1200])
    assert fitted.converged_
    plain = KNeighborsClassifier().fit(X[:1200], y[:1200]).score(X[1200:], y[1200:])
    Z = fitted.transform(X)
    assert KNeighborsClassifier().fit(Z[:1200], y[:1200]).score(Z[1200:], y[1200:]) > plain
    few = ITML(10, gamma=0.1, random_state=0).fit(X[:1200], y[:1200])
    full = clone(few).set_params(n_components=None).fit(X[:1200], y[:1200])
    np.testing.assert_allclose(few.components_, full.components_[:10])  # the best of that rank
    assert full.components_.shape == (64, 64)


def test_letters(real_data):
    """At most 10.5 % for 5 neighbours, z-scored, mean of three splits of 4,000 and 2,000 rows,
    where equal votes go to the nearer class (scikit-learn's rule, the lower label, adds 1 %)."""
    X, y = real_data("paper/letter")
    y = np.unique(y, return_inverse=True)[1]
    errors = []
    for seed in range(3):
        order = np.random.RandomState(seed).permutation(len(X))
        a, b = order[:4000], order[4000:6000]
        Z = StandardScaler().fit(X[a]).transform(X)
        L = ITML(random_state=0).fit(Z[a], y[a]).components_
        errors.append(knn_error(L, Z[a], y[a], Z[b], y[b], 5))
    assert np.mean(errors) < 0.105


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_scale_of_the_data_does_not_matter(iris, factor):
    X, y = iris
    for init in ("identity", "lda", "ejop"):
        model = ITML(init=init, gamma=0.1, random_state=0)
        M = clone(model).fit(X, y).get_mahalanobis_matrix()
        scaled = model.fit(X * factor, y).get_mahalanobis_matrix()
        np.testing.assert_allclose(scaled / np.trace(scaled), M / np.trace(M), atol=1e-7)


def test_starts_of_every_form(iris):
    X, y = iris
    ejop = EJOP("ridge", random_state=0).fit(X, y)
    by_object = ITML(init=ejop, gamma=0.1, random_state=0).fit(X, y)
    by_array = ITML(init=ejop.components_, gamma=0.1, random_state=0).fit(X, y)
    by_metric = ITML(init_metric=ejop.get_mahalanobis_matrix(), gamma=0.1, random_state=0).fit(X, y)
    np.testing.assert_allclose(by_object.components_, by_array.components_)
    np.testing.assert_allclose(by_metric.components_, by_array.components_, atol=1e-6)
    low_rank = ITML(3, init=ejop.components_[:1], random_state=0).fit(X, y)
    assert low_rank.components_.shape == (3, 4)


def test_hard_data_gives_a_finite_metric(rng):
    X = rng.normal(size=(40, 3))
    y = np.array(["x", "y"])[np.arange(40) % 2]
    with_constant = np.column_stack([X, np.full(40, 7.0), np.zeros(40)])
    twice = np.repeat(X[:20], 2, axis=0)
    heavy = np.zeros((300, 2))
    heavy[:3] = rng.normal(size=(3, 2))  # most pairs have no length
    one_row = np.where(np.arange(40) == 5, "z", y)
    offset = X * 1e-3 + 1e6
    wide = rng.normal(size=(12, 80))
    for table, labels in [
        (with_constant, y),
        (twice, y),
        (heavy, np.arange(300) % 2),
        (X, one_row),
        (offset, y),
        (wide, np.arange(12) % 3),
        (X[:3], y[:3]),
        (X[:2], y[:2]),
    ]:
        fitted = ITML(random_state=0).fit(table, labels)
        M = fitted.get_mahalanobis_matrix()
        assert np.isfinite(M).all()
        assert np.linalg.eigvalsh(M)[0] > -1e-12 * np.trace(M)
        assert np.isfinite(fitted.objective_).all()


def test_bad_input_is_refused(iris):
    X, y = iris
    for kwargs, message in [
        ({"init": np.eye(3)}, r"`init` has shape \(3, 3\); \(n_components, 4\) was expected"),
        ({"init_metric": np.diag([1.0, 1, 1, -1])}, "not positive semi-definite"),
        ({"init_metric": np.eye(3)}, r"`init_metric` has shape \(3, 3\)"),
        ({"init": np.eye(1, 4), "prior_mix": 0}, "prior is singular"),
        ({"n_components": 5}, "must lie between 1 and the number of features, 4"),
        ({"percentiles": (5, 101)}, "must be two numbers from 0 to 100"),
        ({"gamma": -1.0}, "gamma"),
        ({"gamma": -1.0}, "gamma"),
        ({"n_constraints": 0}, "n_constraints"),
    ]:
        with pytest.raises(ValueError, match=message):
            ITML(**kwargs).fit(X, y)
    with pytest.raises(ValueError, match="`y` has one class"):
        ITML().fit(X[:50], y[:50])
    with pytest.raises(ValueError, match="all rows of X are equal"):
        ITML().fit(np.full((8, 2), 0.1), [0, 1] * 4)
    with pytest.raises(ValueError, match="maps all rows of X to one point"):
        ITML(init=np.eye(1, 2)).fit(np.column_stack([np.full(8, 0.1), np.arange(8)]), [0, 1] * 4)


def test_too_few_passes_are_said(iris):
    with pytest.warns(ConvergenceWarning, match=r"in pass 2, `tol`=0.01"):
        fitted = ITML(gamma=10.0, max_iter=2, random_state=0).fit(*iris)
    assert not fitted.converged_
    assert fitted.n_iter_ == len(fitted.objective_) == 2


def test_names_repeats_and_progress(iris, capsys):
    X, y = iris
    table = pd.DataFrame(X, columns=list("abcd"))
    labels = np.array(["setosa", "versicolor", "virginica"])[y]
    fitted = ITML(2, random_state=3, verbose=1).set_output(transform="pandas").fit(table, labels)
    assert list(fitted.transform(table).columns) == ["itml0", "itml1"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "ITML: 1/100" in captured.err
    again = clone(fitted).set_params(verbose=0).fit(table, labels)
    np.testing.assert_array_equal(again.components_, fitted.components_)
    pairs = np.stack([X[:9], X[9:18]], axis=1)
    Z = fitted.transform(table).to_numpy()
    np.testing.assert_allclose(
        fitted.pair_distance(pairs), np.linalg.norm(Z[:9] - Z[9:18], axis=1), atol=1e-12
    )
