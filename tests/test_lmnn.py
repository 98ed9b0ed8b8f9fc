"""LMNN: the objective against its triple loop, the search against sorting, and the learner."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import ejop.learners._lmnn as module
from ejop import EJOP
from ejop.learners import knn_error
from ejop.learners._lmnn import LMNN, Descent, objective_with_gradient
from ejop.learners._lmnn_loops import ByClass, merge_lists, neighborhoods


@parametrize_with_checks(
    [LMNN(), LMNN(targets="init", loss="squared"), LMNN(init="lda", n_impostors=3)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.RandomState(300).permutation(len(X))
    return X[order] / 4, y[order]


@pytest.fixture
def problem(rng):
    """Overlapping classes with lists of targets and impostors that are short in places."""
    X, y = rng.normal(size=(40, 5)), rng.integers(0, 3, 40)
    L = rng.normal(size=(3, 5)) / 2
    targets, impostors = np.full((40, 3), -1), np.full((40, 6), -1)
    for i in range(40):
        mates = np.flatnonzero((y == y[i]) & (np.arange(40) != i))[: rng.integers(0, 4)]
        others = np.flatnonzero(y != y[i])[: rng.integers(0, 7)]
        targets[i, : len(mates)], impostors[i, : len(others)] = mates, others
    return L, X, targets, impostors


def triple_loop(L, X, targets, impostors, push, loss):
    """The objective as it is written."""
    power = {"hinge": 1, "squared": 2}[loss]
    total = 0.0
    for i in range(len(X)):
        for j in targets[i][targets[i] >= 0]:
            pull = np.sum((L @ (X[i] - X[j])) ** 2)
            total += (1 - push) * pull
            for far in impostors[i][impostors[i] >= 0]:
                margin = 1 + pull - np.sum((L @ (X[i] - X[far])) ** 2)
                total += push * max(0.0, margin) ** power
    return total / len(X)


@pytest.mark.parametrize("loss", ["hinge", "squared"])
@pytest.mark.parametrize("push", [0.0, 0.3, 1.0])
def test_objective_is_the_triple_loop(problem, loss, push):
    value, _ = objective_with_gradient(*problem, push=push, loss=loss)
    assert value == pytest.approx(triple_loop(*problem, push, loss), rel=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared"])
@pytest.mark.parametrize("push", [0.0, 0.3, 1.0])
def test_gradient_is_the_difference_quotient(problem, loss, push):
    L, *rest = problem
    _, gradient = objective_with_gradient(L, *rest, push=push, loss=loss)
    step = 1e-6
    for a, b in np.ndindex(L.shape):
        shift = np.zeros_like(L)
        shift[a, b] = step
        up, down = (triple_loop(L + s, *rest, push, loss) for s in (shift, -shift))
        assert gradient[a, b] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("block", [7, 2**22])
def test_neighbors_are_the_nearest_by_sorting(rng, dtype, block):
    y = np.repeat([0, 1, 2, 3], [30, 26, 3, 1])
    rows = ByClass.of(rng.normal(size=(60, 4)), rng.permutation(y))
    near = neighborhoods(rows.X, rows, 4, 5, dtype, entries=block * 60)
    D = np.linalg.norm(rows.X[:, None] - rows.X, axis=2)
    np.fill_diagonal(D, np.inf)
    for i in range(60):
        same = (rows.labels == rows.labels[i]) & (np.arange(60) != i)
        expected = np.argsort(np.where(same, D[i], np.inf))[: min(4, same.sum())]
        np.testing.assert_array_equal(near.targets[i, : len(expected)], expected)
        assert (near.targets[i, len(expected) :] == -1).all()
        strangers = np.where(rows.labels != rows.labels[i], D[i], np.inf)
        np.testing.assert_array_equal(near.impostors[i], np.argsort(strangers)[:5])


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_error_is_that_of_neighbors_without_oneself(rng, k):
    X, y = make_blobs(90, 3, centers=4, cluster_std=6.0, random_state=1)
    rows = ByClass.of(X, y)
    wrong = [
        knn_error(np.eye(3), X[others], y[others], X[[i]], y[[i]], k)
        for i in range(90)
        for others in [np.arange(90) != i]
    ]
    assert neighborhoods(rows.X, rows, k, 1).error == pytest.approx(np.mean(wrong))
    assert 0 < np.mean(wrong) < 1


def test_older_impostors_are_remembered_once():
    out = np.empty((2, 4), dtype=np.intp)
    recent, older = np.array([[1, 2], [5, -1]]), np.array([[2, 3, 4, 6], [5, 7, -1, -1]])
    merge_lists(recent, older, out)
    np.testing.assert_array_equal(out, [[1, 2, 3, 4], [5, -1, 7, -1]])


@pytest.mark.parametrize("loss", ["hinge", "squared"])
@pytest.mark.parametrize("targets", ["current", "init"])
def test_objective_never_rises_within_a_phase(digits, monkeypatch, targets, loss):
    X, y = digits[0][:400], digits[1][:400]
    phases = []

    def advance(self):
        done = len(self.objective)
        before = self.value(self.L.ravel())[0]
        original(self)
        phases.append([before, *self.objective[done:]])

    original = Descent.advance
    monkeypatch.setattr(Descent, "advance", advance)
    fitted = LMNN(targets=targets, loss=loss, refresh=6).fit(X, y)
    assert len(phases) > 3
    assert max(map(len, phases)) == 7
    for values in phases:
        assert (np.diff(values) <= 0).all()
    assert fitted.n_iter_ == len(fitted.objective_) == sum(len(values) - 1 for values in phases)
    assert fitted.objective_[-1] < 0.8 * phases[0][0]
    assert fitted.converged_


def test_start_is_scaled_so_that_its_size_does_not_matter(iris):
    X, y = iris
    plain = LMNN(init=np.eye(4)).fit(X, y)
    large = LMNN(init=1e3 * np.eye(4)).fit(X, y)
    np.testing.assert_allclose(plain.components_, large.components_, rtol=1e-6, atol=1e-9)
    small = LMNN().fit(1e-6 * X, y)
    np.testing.assert_allclose(1e-6 * small.components_, plain.components_, rtol=1e-3, atol=1e-4)


def test_targets_lie_at_unit_distance_before_the_first_step(iris):
    X, y = iris
    rows = ByClass.of(X, y)
    descent = LMNN()._descent(rows, np.eye(4), np.ones(4), None)
    Z = rows.X @ descent.L.T
    near = neighborhoods(Z, rows, 3, 1).targets
    assert np.sum((Z[:, None] - Z[near]) ** 2, axis=2).mean() == pytest.approx(1)


@pytest.mark.parametrize(("targets", "metric"), [("input", np.eye(4)), ("init", None)])
def test_fixed_targets_are_chosen_in_the_metric_that_is_named(iris, monkeypatch, targets, metric):
    X, y = iris  # sorted by class, as the learner sees it
    L = PCA(2).fit(X).components_ * [[1.0], [5.0]]
    seen = []
    original = Descent._look_up
    monkeypatch.setattr(
        Descent, "_look_up", lambda self: (original(self), seen.append(self._targets))
    )
    LMNN(init=L, targets=targets, n_neighbors=1).fit(X, y)
    Z = X @ (L if metric is None else metric).T
    squared = np.sum((Z[:, None] - Z) ** 2, axis=2)
    np.fill_diagonal(squared, np.inf)
    squared[y[:, None] != y] = np.inf
    for lists in seen:
        chosen = squared[np.arange(150), lists[:, 0]]
        np.testing.assert_allclose(chosen, squared.min(1), atol=1e-9)


def test_current_targets_change(digits, monkeypatch):
    seen = []
    original = Descent._look_up
    monkeypatch.setattr(
        Descent, "_look_up", lambda self: (original(self), seen.append(self._targets))
    )
    LMNN().fit(digits[0][:300], digits[1][:300])
    assert (seen[0] != seen[-1]).any()


@pytest.mark.parametrize("targets", ["current", "init"])
def test_digits_are_told_apart_better_than_by_plain_distance(digits, targets):
    X, y = StandardScaler().fit_transform(digits[0]), digits[1]
    rest = np.arange(800, len(X))
    fitted = LMNN(targets=targets).fit(X[:800], y[:800])
    plain = knn_error(np.eye(64), X[:800], y[:800], X[rest], y[rest], 5)
    learned = knn_error(fitted.components_, X[:800], y[:800], X[rest], y[rest], 5)
    assert learned < plain
    assert learned < 0.04


def test_a_useless_direction_is_forgotten(rng):
    X = rng.normal(size=(300, 3)) * [1.0, 1.0, 8.0]
    y = (X[:, 0] > 0).astype(int)
    M = LMNN().fit(X, y).get_mahalanobis_matrix() * np.outer([1, 1, 8], [1, 1, 8])
    assert M[0, 0] > 10 * M[1, 1]
    assert M[0, 0] > 2 * M[2, 2]  # 1/64 of it at the start


@pytest.mark.parametrize("init", ["identity", "pca", "lda", "ejop"])
def test_no_start_is_made_worse(iris, init):
    X, y = iris
    from ejop.learners import initialize

    start = initialize(init, X, y, 2, random_state=0)
    fitted = LMNN(init=start).fit(X, y)
    rows = ByClass.of(X, y)
    before, after = (
        neighborhoods(rows.X @ L.T, rows, 3, 3).error for L in (start, fitted.components_)
    )
    assert after <= before
    assert fitted.components_.shape == (2, 4)


def test_starts_of_all_forms(iris):
    X, y = iris
    ejop = EJOP("ridge", random_state=0).fit(X, y)
    by_estimator = LMNN(init=ejop).fit(X, y)
    by_array = LMNN(init=ejop.components_).fit(X, y)
    np.testing.assert_array_equal(by_estimator.components_, by_array.components_)
    M = ejop.get_mahalanobis_matrix()
    by_metric = LMNN(init_metric=M).fit(X, y)
    assert by_metric.components_.shape[1] == 4
    with pytest.raises(ValueError, match=r"\(n_components, 4\) was expected"):
        LMNN(init=np.eye(3)).fit(X, y)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        LMNN(init_metric=-np.eye(4)).fit(X, y)


def test_a_start_that_cannot_be_improved_is_returned(rng, monkeypatch):
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    start = rng.normal(size=(2, 3))

    def worse(*args):
        errors.append(len(errors))
        return float(errors[-1])

    errors = []
    monkeypatch.setattr(module, "knn_error", worse)
    fitted = LMNN(init=start, validation=0.3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(fitted.components_, start)
    assert "start, which is kept" in fitted.message_
    assert fitted.converged_


def test_a_loss_that_is_not_finite_returns_the_start(iris, monkeypatch):
    X, y = iris

    def broken(L, X, *args, **kwargs):
        return np.nan, np.full_like(L, np.nan)

    monkeypatch.setattr(module, "objective_with_gradient", broken)
    with pytest.warns(ConvergenceWarning, match="the objective is not finite"):
        fitted = LMNN(init=np.eye(4)).fit(X, y)
    np.testing.assert_array_equal(fitted.components_, np.eye(4))


def test_held_out_rows_judge(digits):
    X, y = digits[0][:500], digits[1][:500]
    fitted = LMNN(validation=0.2, random_state=0).fit(X, y)
    again = LMNN(validation=0.2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(fitted.components_, again.components_)
    with pytest.raises(ValueError, match="at least two rows of each class"):
        LMNN(validation=0.2).fit(X[:4], [0, 0, 0, 1])


def test_small_classes_give_the_targets_they_have(rng):
    X = rng.normal(size=(45, 4))
    y = np.repeat(["many", "three", "two", "one"], [39, 3, 2, 1])
    fitted = LMNN(n_neighbors=5).fit(X, y)
    assert np.isfinite(fitted.components_).all()
    with pytest.raises(ValueError, match="3 rows of as many classes"):
        LMNN().fit(X[:3], ["a", "b", "c"])
    with pytest.raises(ValueError, match="has one class"):
        LMNN().fit(X, np.zeros(45))
    assert LMNN(n_neighbors=10**6, n_impostors=10**6).fit(X, y).components_.shape == (4, 4)


@pytest.mark.parametrize("targets", ["current", "init", "input"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda X: np.repeat(X[::3], 3, axis=0),
        lambda X: np.hstack([X, np.full((len(X), 2), 0.1), np.zeros((len(X), 1))]),
        lambda X: X * [1e-12, 1.0, 1e12, 1.0],
        lambda X: X + 1e8,
        lambda X: np.hstack([X] * 50 + [X**2]),
        lambda X: np.zeros_like(X),
        lambda X: np.round(X),
    ],
    ids=["duplicates", "constant", "scales", "offset", "wide", "zeros", "ties"],
)
def test_bad_columns_and_rows(iris, spoil, targets):
    X, y = iris
    fitted = LMNN(targets=targets).fit(spoil(X), y)
    assert np.isfinite(fitted.components_).all()
    assert np.isfinite(fitted.objective_).all()
    assert fitted.n_iter_ >= 1
    assert fitted.converged_


def test_units_of_columns_matter_only_through_the_start(rng):
    X = rng.normal(size=(100, 4))
    y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)
    units = np.array([1e-6, 1.0, 1e5, 10.0])
    plain = LMNN(init=np.eye(4), loss="squared").fit(X, y)
    other = LMNN(init=np.diag(1 / units), loss="squared").fit(X * units, y)
    np.testing.assert_allclose(other.components_ * units, plain.components_, rtol=1e-3, atol=1e-4)


def test_distant_clusters_are_ranked_in_double_precision(rng):
    X = rng.normal(size=(80, 2)) + np.repeat([[0.0, 0.0], [1e5, 0.0]], 40, axis=0)
    y = np.tile([0, 1], 40)
    rows = ByClass.of(X, y)
    descent = LMNN()._descent(rows, np.eye(2), np.ones(2), None)
    exact = neighborhoods(rows.X, rows, 3, 10)
    np.testing.assert_array_equal(descent._targets, exact.targets)


def test_max_iter_warns(digits):
    with pytest.warns(ConvergenceWarning, match="max_iter=5"):
        fitted = LMNN(max_iter=5).fit(digits[0][:300], digits[1][:300])
    assert fitted.n_iter_ == 5
    assert not fitted.converged_


def test_frames_dtypes_and_pipelines(iris):
    X, y = iris
    table = pd.DataFrame(X, columns=list("abcd"))
    labels = np.array(["setosa", "versicolor", "virginica"])[y]
    fitted = LMNN(n_components=2).set_output(transform="pandas").fit(table, labels)
    assert list(fitted.transform(table).columns) == ["lmnn0", "lmnn1"]
    single = LMNN().fit(X.astype(np.float32), y)
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    assert single.components_.dtype == np.float64
    pipe = make_pipeline(StandardScaler(), LMNN(), KNeighborsClassifier(5)).fit(X[::2], labels[::2])
    assert pipe.score(X[1::2], labels[1::2]) > 0.93
    np.testing.assert_array_equal(clone(single).fit(X, y).components_, LMNN().fit(X, y).components_)


def test_progress_goes_to_stderr(iris, capsys):
    LMNN(verbose=1).fit(*iris)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "LMNN: 1/" in captured.err


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_memory_stays_below_a_gibibyte():
    code = r"""
import re, numpy as np
from ejop.learners._lmnn import LMNN
rng = np.random.default_rng(0)
y = rng.integers(0, 10, 10_000)
X = rng.normal(size=(10_000, 100)) + rng.normal(size=(10, 100))[y] / 2
import warnings; warnings.simplefilter("ignore")
LMNN(max_iter=3).fit(X, y)
with open("/proc/self/status") as file:  # ru_maxrss would count the process that started this one
    peak = int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) / 1024
assert peak < 1024, peak
print(round(peak), "MiB")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
