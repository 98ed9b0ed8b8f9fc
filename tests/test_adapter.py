"""EmbeddingAdapter: a few labels, or pairs, and neighbourhoods that stay sane."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize
from sklearn.utils.estimator_checks import parametrize_with_checks

from ejop import EmbeddingAdapter
from ejop.estimators import average_precision, blended, pairs_in_order
from ejop.neighbors import nearest


@parametrize_with_checks([EmbeddingAdapter(n_splits=1, random_state=0)])
def test_the_common_checks(estimator, check):
    check(estimator)


def drawn(n, seed, d=24):
    """Two columns say the class, the others are as wide and say nothing."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, (X[:, 0] > 0) * 2 + (X[:, 1] > 0)


def recall(L, stored, known, asked, truth):
    _, near = nearest(asked @ L.T, stored @ L.T, 10)
    return (known[near] == truth[:, None]).mean()


@pytest.fixture(scope="module")
def some():
    return drawn(120, 0), drawn(600, 1), drawn(150, 2)


def gain(adapter, some):
    _, stored, asked = some
    rows = (*stored, *asked)
    return recall(adapter.components_, *rows) - recall(np.eye(24), *rows)


def test_labels_of_two_columns_bring_near_what_they_say(some):
    (X, y), (stored, _), _ = some
    adapter = EmbeddingAdapter(random_state=0).fit(X, y, stored)
    assert adapter.shrinkage_ < 0.5
    assert gain(adapter, some) > 0.15


def test_pairs_do_so_too():
    stored, known = drawn(600, 1, d=8)
    asked, truth = drawn(150, 2, d=8)
    i, j = np.random.default_rng(3).integers(len(stored), size=(2, 400))
    pairs, same = np.stack([stored[i], stored[j]], axis=1), known[i] == known[j]
    adapter = EmbeddingAdapter(n_splits=1, random_state=0).fit_pairs(pairs, same)
    assert adapter.shrinkage_ < 1
    rows = stored, known, asked, truth
    assert recall(adapter.components_, *rows) - recall(np.eye(8), *rows) > 0.05


def test_labels_without_meaning_leave_every_neighbourhood_as_it_is(some):
    (X, _), (stored, _), (asked, _) = some
    kept = 0
    for seed in range(8):
        y = np.random.default_rng(seed).integers(3, size=len(X))
        adapter = EmbeddingAdapter(random_state=0).fit(X, y, stored)
        kept += adapter.shrinkage_ == 1
    assert kept >= 3  # by chance a gain is seen in some draws
    adapter = EmbeddingAdapter(1.0).fit(X, y)
    plain, turned = (
        nearest(asked @ L.T, stored @ L.T, 10)[1] for L in (1.0 * np.eye(24), adapter.components_)
    )
    np.testing.assert_array_equal(plain, turned)


def test_one_row_a_class_cannot_judge_and_stays_euclidean():
    X, y = load_digits(return_X_y=True)
    rows = [int(np.flatnonzero(y == c)[0]) for c in range(10)]
    adapter = EmbeddingAdapter(random_state=0).fit(X[rows], y[rows], X)
    assert adapter.shrinkage_ == 1.0
    np.testing.assert_allclose(adapter.get_mahalanobis_matrix(), np.eye(64), atol=1e-10)


def test_the_share_is_that_of_the_mean_squared_distance(some):
    (X, y), _, _ = some
    S = np.cov(X.T)
    for share in (0.0, 0.3, 1.0):
        adapter = EmbeddingAdapter(share, power=1.0).fit(X, y)
        M = adapter.get_mahalanobis_matrix()
        learned = adapter.outer_product_ / np.trace(adapter.outer_product_ @ S)
        want = share * np.eye(24) / np.trace(S) + (1 - share) * learned
        np.testing.assert_allclose(M, want * 24 / np.trace(want), atol=1e-8)


def test_the_first_directions_are_those_that_vary_most(some):
    (X, y), (stored, _), _ = some
    adapter = EmbeddingAdapter(0.5).fit(X, y, stored)
    spread = adapter.transform(np.vstack([X, stored])).var(0)
    assert (np.diff(spread) <= 1e-9).all()
    few = EmbeddingAdapter(0.5, n_components=3).fit(X, y, stored)
    np.testing.assert_allclose(few.components_, adapter.components_[:3])


def test_the_judges_by_hand():
    rng = np.random.default_rng(0)
    Z, labels = rng.normal(size=(12, 2)), rng.integers(3, size=12)
    labels[0] = 7
    found = average_precision(Z, labels)
    assert np.isnan(found[0])
    for i in range(1, 12):
        others = np.array([j for j in range(12) if j != i])
        order = others[np.linalg.norm(Z[others] - Z[i], axis=1).argsort()]
        places = np.flatnonzero(labels[order] == labels[i]) + 1
        assert found[i] == pytest.approx(np.mean(np.arange(1, len(places) + 1) / places))
    far, same = rng.integers(5, size=20).astype(float), rng.random(20) < 0.5
    found = pairs_in_order(far, same)
    for i in np.flatnonzero(same):
        want = np.mean((far[~same] > far[i]) + 0.5 * (far[~same] == far[i]))
        assert found[i] == pytest.approx(want)
    assert np.isnan(found[~same]).all()


def test_few_labels_never_cost_much_on_digits():
    X, y = load_digits(return_X_y=True)
    X, costs, gains = normalize(X), [], []
    for labels, found in ((10, costs), (200, gains)):
        for seed in range(4):
            order = np.random.default_rng(2000 + seed).permutation(len(X))
            seen, rest, ask = order[:labels], order[labels:1500], order[1500:]
            L = EmbeddingAdapter(random_state=0).fit(X[seen], y[seen], X[rest]).components_
            rows = (X[rest], y[rest], X[ask], y[ask])
            found.append(recall(L, *rows) - recall(np.eye(64), *rows))
    assert np.mean(costs) > -0.01
    assert np.mean(gains) > 0.005


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda a, X, y: a.fit(X, np.zeros(len(y))), "`y` has one class"),
        (lambda a, X, y: a.fit(X, y, X[:, :3]), "`unlabelled` has 3 features and `X` has 24"),
        (lambda a, X, y: a.set_params(n_components=25).fit(X, y), "`n_components`=25 must lie"),
        (lambda a, X, y: a.fit(np.ones_like(X), y), "all rows are equal"),
        (lambda a, X, y: a.fit_pairs(X, y), "`pairs` has shape"),
        (lambda a, X, y: a.fit_pairs(np.stack([X, X], 1), y), "`same` must hold true and false"),
        (lambda a, X, y: a.fit_pairs(np.stack([X, X], 1), y[:3] > 0), "`pairs` has shape"),
        (lambda a, X, y: a.set_params(shrinkage=2.0).fit(X, y), "The 'shrinkage' parameter"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(some, fit, message):
    (X, y), _, _ = some
    with pytest.raises(ValueError, match=message):
        fit(EmbeddingAdapter(), X, y)


def test_a_flat_function_is_euclidean():
    L = blended(np.zeros((3, 3)), np.diag([3.0, 2.0, 1.0]), 0.1, 0.5)
    np.testing.assert_allclose(L.T @ L, np.eye(3), atol=1e-12)


def test_the_page_of_results_is_that_of_the_committed_lines():
    benchmark = pytest.importorskip("benchmarks.embeddings", reason="a checkout has benchmarks")
    from benchmarks.embeddings_page import page

    lines = list(benchmark.read(benchmark.RESULTS).values())
    assert len(lines) == len(benchmark.SETS) * len(benchmark.LABELS) * benchmark.DRAWS
    assert benchmark.PAGE.read_text(encoding="utf-8") == page(lines)
