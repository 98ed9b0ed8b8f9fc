"""ReliefF against its definition."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from ejop.learners._relieff import ReliefF, relieff_weights, scale_by_range


@parametrize_with_checks([ReliefF(), ReliefF(n_neighbors=1, n_components=1)])
@pytest.mark.filterwarnings("ignore:ReliefF. no feature has a positive weight")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def slow_weights(X, y, k):
    """The definition, row by row and class by class, for X in [0, 1]."""
    y = np.asarray(y)
    n, d = X.shape
    classes = list(dict.fromkeys(y.tolist()))
    prior = {c: np.mean(y == c) for c in classes}
    w = np.zeros(d)
    for i in range(n):
        distance = np.round(np.abs(X - X[i]).sum(1), 10)
        for c in classes:
            rows = [m for m in range(n) if y[m] == c and m != i]
            near = sorted(rows, key=lambda m: (distance[m], m))[:k]
            if near:
                mean = np.mean([np.abs(X[i] - X[m]) for m in near], axis=0)
                w += -mean if c == y[i] else prior[c] / (1 - prior[y[i]]) * mean
    return w / n


def letters_like(rng, n=400, d=7):
    """Integer features, so that many distances are equal, and 26 classes with string labels."""
    names = np.array([chr(ord("A") + i) for i in range(26)])
    y = rng.integers(26, size=n)
    centres = rng.integers(0, 16, size=(26, d))
    X = np.clip(centres[y] + rng.integers(-4, 5, size=(n, d)), 0, 15).astype(float)
    return X, names[y]


@pytest.mark.parametrize("k", [1, 3, 10])
def test_equals_the_double_loop_with_26_string_classes(rng, k):
    X, y = letters_like(rng)
    scaled = scale_by_range(X)[1]
    fitted = ReliefF(n_neighbors=k).fit(X, y)
    np.testing.assert_allclose(fitted.weights_, slow_weights(scaled, y, k), rtol=0, atol=1e-12)
    assert len(fitted.classes_) == 26


@pytest.mark.parametrize("k", [2, 10])
@pytest.mark.parametrize("sizes", [(60, 60), (90, 20, 5), (40, 1, 3, 1)])
def test_equals_the_double_loop_on_real_features_and_small_classes(rng, k, sizes):
    X = rng.uniform(size=(sum(sizes), 5))
    y = rng.permutation(np.repeat(np.arange(len(sizes)) * 3 - 1, sizes))
    got = relieff_weights(X, y, n_neighbors=k)
    np.testing.assert_allclose(got, slow_weights(X, y, k), rtol=0, atol=1e-12)


def test_long_tables_cross_chunks_and_blocks(rng):
    X = rng.integers(0, 6, size=(1100, 3)) / 5.0
    y = rng.integers(3, size=1100)
    rows = rng.permutation(1100)
    # rows on their grid are the same set in any order of features, ties included
    np.testing.assert_allclose(
        relieff_weights(X, y), relieff_weights(X[:, ::-1], y)[::-1], rtol=0, atol=1e-12
    )
    distinct = rng.uniform(size=(1100, 3))
    np.testing.assert_allclose(
        relieff_weights(distinct, y), relieff_weights(distinct[rows], y[rows]), rtol=0, atol=1e-12
    )
    few = np.r_[0:200]
    np.testing.assert_allclose(
        relieff_weights(X[few], y[few]), slow_weights(X[few], y[few], 10), rtol=0, atol=1e-12
    )


def test_equal_distances_go_to_the_earlier_row():
    X = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5], [1.0, 1.0]])
    y = [0, 1, 1, 1]
    got = relieff_weights(X, y, n_neighbors=1)
    swapped = relieff_weights(X[[0, 2, 1, 3]], y, n_neighbors=1)
    np.testing.assert_allclose(got, slow_weights(X, y, 1), atol=1e-15)
    np.testing.assert_allclose(swapped, got[::-1])
    assert got[0] > got[1]


def test_metric_is_diagonal_on_range_scaled_features(rng):
    X, y = load_iris(return_X_y=True)
    X = np.column_stack([X, np.full(150, 0.1), rng.normal(size=150)])
    fitted = ReliefF().fit(X, y)
    w, ranges = fitted.weights_, np.ptp(X, axis=0)
    expected = np.diag(np.maximum(w, 0)) / np.where(ranges > 0, ranges, 1) ** 2
    np.testing.assert_allclose(fitted.get_mahalanobis_matrix(), expected, atol=1e-15)
    assert w[4] == 0
    assert fitted.components_[4, 4] == fitted.ranges_[4] == 0
    assert fitted.feature_importances_.sum() == pytest.approx(1)
    assert fitted.n_iter_ == 1
    assert fitted.objective_ == pytest.approx([w.sum()])
    assert fitted.converged_


def test_n_components_keeps_the_features_of_largest_weight():
    X, y = load_iris(return_X_y=True)
    full, two = ReliefF().fit(X, y), ReliefF(n_components=2).fit(X, y)
    best = np.argsort(-full.weights_)[:2]
    np.testing.assert_array_equal(two.components_, full.components_[best])
    assert list(two.get_feature_names_out()) == ["relieff0", "relieff1"]
    with pytest.raises(ValueError, match="must lie between 1 and the number of features, 4"):
        ReliefF(n_components=5).fit(X, y)


def test_weights_do_not_depend_on_threads_or_scale(rng):
    X, y = letters_like(rng)
    one, two = ReliefF(n_jobs=1).fit(X, y), ReliefF(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(one.weights_, two.weights_)
    for factor in (1e-12, 1e12):
        moved = ReliefF().fit(X * factor - 3 * factor, y)
        np.testing.assert_allclose(moved.weights_, one.weights_, atol=1e-12)
        np.testing.assert_allclose(moved.components_ * factor, one.components_, rtol=1e-9)


def test_no_positive_weight_is_said_and_leaves_the_scaled_metric():
    # each row's nearest are of the other class, further rows of its own
    X = np.array([[0.0, 5.0], [1.0, 5.0], [10.0, 5.0], [11.0, 5.0]])
    with pytest.warns(UserWarning, match="no feature has a positive weight"):
        fitted = ReliefF(n_neighbors=1).fit(X, [0, 1, 0, 1])
    assert "no feature has a positive weight" in fitted.message_
    np.testing.assert_allclose(fitted.components_, np.diag([1 / 11, 0]))
    np.testing.assert_array_equal(fitted.feature_importances_, 0)
    with pytest.warns(UserWarning, match="no feature has a positive weight"):
        fitted = ReliefF().fit(np.full((6, 2), 0.3), [0, 1] * 3)
    np.testing.assert_array_equal(fitted.components_, 0)


def test_bad_input_is_refused():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="`y` has one class"):
        ReliefF().fit(X[:50], y[:50])
    with pytest.raises(ValueError, match="NaN"):
        ReliefF().fit(np.where(X > 7, np.nan, X), y)
    with pytest.raises(ValueError, match="n_neighbors"):
        ReliefF(n_neighbors=0).fit(X, y)


def test_more_features_than_rows_and_duplicates(rng):
    X = np.repeat(rng.uniform(size=(10, 60)), 2, axis=0)
    y = np.repeat(["a", "b"], 10)
    got = ReliefF(n_neighbors=4).fit(X, y).weights_
    np.testing.assert_allclose(got, slow_weights(scale_by_range(X)[1], y, 4), rtol=0, atol=1e-12)


def test_digits_and_names(capsys):
    X, y = load_digits(return_X_y=True)
    order = np.random.RandomState(300).permutation(len(X))
    train, test = order[:1200], order[1200:]
    model = make_pipeline(ReliefF(), KNeighborsClassifier(5)).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > 0.975  # 1.7 % error when this was written
    table = pd.DataFrame(X[:200, 1:9], columns=list("abcdefgh"))
    fitted = ReliefF(verbose=1).set_output(transform="pandas").fit(table, y[:200])
    assert list(fitted.feature_names_in_) == list("abcdefgh")
    assert list(fitted.transform(table).columns) == [f"relieff{i}" for i in range(8)]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "ReliefF: 4/4" in captured.err
