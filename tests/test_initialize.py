"""Where metric learners start: every form of ``init``, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

from ejop import EJOP, EJOPClassifier, initialize


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def signs_are_fixed(L):
    return (L[np.arange(len(L)), np.abs(L).argmax(1)] > 0).all()


def test_identity(iris):
    X, _ = iris
    np.testing.assert_array_equal(initialize("identity", X), np.eye(4))
    np.testing.assert_array_equal(initialize("identity", X, n_components=3), np.eye(3, 4))


def test_pca(iris):
    X, _ = iris
    L = initialize("pca", X, n_components=2)
    np.testing.assert_allclose(np.abs(L), np.abs(PCA(2).fit(X).components_))
    assert signs_are_fixed(L)
    assert initialize("pca", X).shape == (4, 4)
    np.testing.assert_allclose(initialize("pca", -X), initialize("pca", X))
    wide = np.random.default_rng(0).normal(size=(5, 9))
    assert initialize("pca", wide).shape == (5, 9)
    L = initialize("pca", wide, n_components=7)  # more than the rows span: a basis all the same
    np.testing.assert_allclose(L @ L.T, np.eye(7), atol=1e-12)
    np.testing.assert_allclose(L[:4], initialize("pca", wide, n_components=4), atol=1e-10)


def test_lda(iris):
    X, y = iris
    L = initialize("lda", X, y)
    assert L.shape == (2, 4)
    assert signs_are_fixed(L)
    means = np.array([X[y == c].mean(0) for c in range(3)])
    within = (X - means[y]).T @ (X - means[y]) / len(X)
    np.testing.assert_allclose(L @ within @ L.T, np.eye(2), atol=0.2)  # but for the shrinkage
    known = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :2].T
    cosine = np.abs((L * known).sum(1)) / np.linalg.norm(L, axis=1) / np.linalg.norm(known, axis=1)
    assert (cosine > 0.98).all()
    np.testing.assert_array_equal(initialize("lda", X, y, 1), L[:1])
    assert initialize("lda", X, y, 4).shape == (4, 4)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    np.testing.assert_array_equal(initialize("lda", X, names), L)


def test_lda_where_the_scatter_cannot_be_inverted(rng):
    wide = rng.normal(size=(8, 20))
    L = initialize("lda", wide, [0, 1] * 4)
    assert L.shape == (1, 20)
    assert np.isfinite(L).all()
    constant = np.column_stack([rng.normal(size=8), np.ones(8)])
    assert np.isfinite(initialize("lda", constant, [0, 1] * 4)).all()
    assert np.isfinite(initialize("lda", np.ones((8, 3)), [0, 1] * 4)).all()


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_lda_at_any_scale(iris, factor):
    X, y = iris
    L, scaled = initialize("lda", X, y), initialize("lda", X * factor, y)
    np.testing.assert_allclose(scaled * factor, L, rtol=1e-6)


def test_ejop(iris):
    X, y = iris
    expected = EJOP(random_state=0).fit(X, y).components_
    np.testing.assert_allclose(initialize("ejop", X, y, random_state=0), expected)
    assert initialize("ejop", X, y, 2, random_state=0).shape == (2, 4)


def test_an_array_is_the_map_itself(iris, rng):
    X, _ = iris
    L = rng.normal(size=(3, 4))
    got = initialize(L, X)
    np.testing.assert_array_equal(got, L)
    got[0, 0] = 99  # a copy: the user's start is never written to
    assert L[0, 0] != 99
    np.testing.assert_array_equal(initialize(L.tolist(), X), L)
    np.testing.assert_array_equal(initialize(np.eye(4), X), np.eye(4))


def test_a_larger_map_is_cut_to_the_closest_of_its_rank(iris, rng):
    X, _ = iris
    L = rng.normal(size=(4, 4)) * np.array([[5.0], [1.0], [3.0], [0.1]])
    cut = initialize(L, X, n_components=2)
    assert cut.shape == (2, 4)
    assert signs_are_fixed(cut)
    values, vectors = np.linalg.eigh(L.T @ L)
    best = vectors[:, 2:] * values[2:] @ vectors[:, 2:].T
    np.testing.assert_allclose(cut.T @ cut, best, atol=1e-10)
    np.testing.assert_array_equal(initialize(L[:2], X, n_components=2), L[:2])


def test_a_metric_is_factored(iris, rng):
    X, _ = iris
    A = rng.normal(size=(2, 4))
    M = A.T @ A
    L = initialize(None, X, init_metric=M)
    assert L.shape == (2, 4)  # the rank of M
    np.testing.assert_allclose(L.T @ L, M, atol=1e-12)
    assert signs_are_fixed(L)
    assert np.linalg.norm(L[0]) >= np.linalg.norm(L[1])
    assert initialize("pca", X, n_components=1, init_metric=M).shape == (1, 4)  # not "pca"
    tiny = initialize(None, X, init_metric=np.eye(4) * 1e-24)
    np.testing.assert_allclose(tiny.T @ tiny, np.eye(4) * 1e-24, rtol=1e-12)


def test_fitted_estimators_give_their_components(iris):
    X, y = iris
    ejop = EJOP("ridge", random_state=0).fit(X, y)
    np.testing.assert_array_equal(initialize(ejop, X), ejop.components_)
    nca = NeighborhoodComponentsAnalysis(2, max_iter=5, random_state=0).fit(X, y)
    np.testing.assert_array_equal(initialize(nca, X), nca.components_)
    assert initialize(nca, X, n_components=1).shape == (1, 4)
    pca = PCA(3).fit(X)
    np.testing.assert_array_equal(initialize(pca, X), pca.components_)


def test_an_estimator_that_is_not_fitted_is_cloned_and_fitted(iris):
    X, y = iris
    model = EJOP("ridge", random_state=0)
    L = initialize(model, X, y)
    assert not hasattr(model, "components_")
    np.testing.assert_array_equal(L, EJOP("ridge", random_state=0).fit(X, y).components_)
    np.testing.assert_allclose(initialize(PCA(2), X), PCA(2).fit(X).components_)


def test_an_estimator_that_scales_is_refused(iris):
    X, y = iris
    model = EJOPClassifier("knn", function="ridge", scale="standard", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="maps scaled columns"):
        initialize(model, X)
    plain = EJOPClassifier("knn", function="ridge", scale="none", random_state=0).fit(X, y)
    np.testing.assert_array_equal(initialize(plain, X), plain.components_)


def test_components_start_scikit_learns_nca(iris):
    X, y = iris
    X = StandardScaler().fit_transform(X)
    L = initialize(EJOP("ridge", n_components=2, random_state=0), X, y)
    nca = NeighborhoodComponentsAnalysis(2, init=L, max_iter=50, random_state=0).fit(X, y)
    assert nca.components_.shape == (2, 4)


def test_data_frames_are_taken(iris):
    X, y = iris
    table = pd.DataFrame(X, columns=list("abcd"))
    np.testing.assert_allclose(initialize("lda", table, y), initialize("lda", X, y), rtol=1e-9)


@pytest.mark.parametrize(
    ("init", "kwargs", "message"),
    [
        ("ica", {}, r"`init`='ica' is not known; use one of \['ejop', 'identity', 'lda', 'pca'\]"),
        ("lda", {"y": None}, "`init`='lda' needs `y`, which was None"),
        ("ejop", {"y": None}, "`init`='ejop' needs `y`, which was None"),
        ("identity", {"n_components": 5}, "`n_components`=5 must lie between 1 and the number"),
        ("identity", {"n_components": 0}, "`n_components`=0 must lie between 1 and the number"),
        (np.eye(3), {}, r"`init` has shape \(3, 3\); \(n_components, 4\) was expected"),
        (np.eye(2, 4), {"n_components": 3}, "`init` has 2 directions, fewer than `n_components`=3"),
        (np.zeros((2, 4)), {}, "`init` is all zeros"),
        (np.full((2, 4), np.nan), {}, "NaN"),
        (LogisticRegression(max_iter=500), {}, "has no `components_` after fit"),
        (None, {"init_metric": np.eye(3)}, r"`init_metric` has shape \(3, 3\); \(4, 4\) was"),
        (None, {"init_metric": np.triu(np.ones((4, 4)))}, "`init_metric` is not symmetric"),
        (None, {"init_metric": np.diag([1, 1, 1, -1.0])}, "not positive semi-definite"),
        (None, {"init_metric": np.zeros((4, 4))}, "not positive semi-definite"),
        (
            None,
            {"init_metric": np.diag([1, 0, 0, 0.0]), "n_components": 2},
            "`init_metric` has 1 directions, fewer than `n_components`=2",
        ),
    ],
)
def test_bad_starts_are_refused(iris, init, kwargs, message):
    X, y = iris
    with pytest.raises(ValueError, match=message):
        initialize(init, X, **{"y": y, **kwargs})
