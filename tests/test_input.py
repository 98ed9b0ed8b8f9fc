"""Bad input: the message names the argument, the value and the remedy."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError

from ejop import EGOP, EJOP, Device
from ejop.functions import KernelSmoother, NeighborsSmoother

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = RNG.integers(2, size=40)


class NotANumber(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.full(len(X), np.nan)


def with_value(value):
    bad = X.copy()
    bad[3, 1] = value
    return bad


CASES = {
    "NaN": (lambda: EJOP().fit(with_value(np.nan), Y), ValueError, "Input X contains NaN"),
    "infinity": (lambda: EJOP().fit(with_value(np.inf), Y), ValueError, "X contains infinity"),
    "NaN in y": (lambda: EGOP().fit(X, np.r_[np.nan, Y[1:]]), ValueError, "Input y contains NaN"),
    "one class": (lambda: EJOP().fit(X, np.ones(40)), ValueError, "1 class, .*at least 2 classes"),
    "one row": (lambda: EJOP().fit(X[:1], Y[:1]), ValueError, "1 class|minimum of 2 is required"),
    "one row, real": (lambda: EGOP().fit(X[:1], [1.0]), ValueError, "minimum of 2 is required"),
    "no rows": (lambda: EJOP().fit(X[:0], Y[:0]), ValueError, "minimum of 1 is required"),
    "all rows equal": (
        lambda: EJOP().fit(np.ones((10, 3)), Y[:10]),
        ValueError,
        "all rows are equal.*check the columns",
    ),
    "strings": (
        lambda: EJOP().fit(np.array([["a", "b"]] * 40), Y),
        ValueError,
        "could not convert string to float",
    ),
    "objects": (
        lambda: EJOP().fit(np.array([[{}, 1]] * 40, dtype=object), Y),
        TypeError,
        "argument must be .* number|float",
    ),
    "sparse": (lambda: EJOP().fit(sparse.csr_matrix(X), Y), TypeError, r"use X.toarray\(\)"),
    "one dimension": (lambda: EJOP().fit(X[:, 0], Y), ValueError, "Expected 2D array"),
    "y too short": (lambda: EJOP().fit(X, Y[:-1]), ValueError, "inconsistent numbers of samples"),
    "no y": (lambda: EJOP().fit(X, None), ValueError, "requires y to be passed"),
    "real y for classes": (lambda: EJOP().fit(X, X[:, 0]), ValueError, "Unknown label type"),
    "y of strings for EGOP": (lambda: EGOP().fit(X, ["a"] * 40), ValueError, "convert string"),
    "step too short": (
        lambda: EJOP(step=[0.1, 0.2]).fit(X, Y),
        ValueError,
        r"`step` has shape \(2,\) but the data have 3 features; pass one number",
    ),
    "step negative": (lambda: EJOP(step=-1.0).fit(X, Y), ValueError, "The 'step' parameter"),
    "step with a zero": (
        lambda: EJOP(step=[0.1, 0.0, 0.1]).fit(X, Y),
        ValueError,
        "`step` must be positive and finite, got 0.0; try step='auto'",
    ),
    "bandwidth zero": (lambda: EJOP(bandwidth=0).fit(X, Y), ValueError, "The 'bandwidth' param"),
    "bandwidth negative": (
        lambda: EJOP(bandwidth=-2.0).fit(X, Y),
        ValueError,
        "The 'bandwidth' parameter .* Got -2.0",
    ),
    "bandwidth infinite": (
        lambda: EJOP(bandwidth=np.inf).fit(X, Y),
        ValueError,
        "The 'bandwidth' parameter .* Got inf",
    ),
    "unknown function": (lambda: EJOP("tree").fit(X, Y), ValueError, "The 'function' parameter"),
    "unknown kernel": (
        lambda: EJOP(KernelSmoother("cosine")).fit(X, Y),
        ValueError,
        "`kernel`='cosine' is not known; choose one of",
    ),
    "two bandwidths": (
        lambda: EJOP(KernelSmoother(bandwidth=2.0), bandwidth=0.1).fit(X, Y),
        ValueError,
        "`bandwidth`=0.1 is for functions by name and .* is an object; give it its own",
    ),
    "bandwidth of neighbours": (
        lambda: EJOP("knn", bandwidth=0.1).fit(X, Y),
        ValueError,
        "`bandwidth`=0.1 does not apply to function='knn'",
    ),
    "an argument of another function": (
        lambda: EJOP("ball", kernel="tricube"),
        TypeError,
        "unexpected keyword argument 'kernel'",
    ),
    "too many neighbours": (
        lambda: EJOP(NeighborsSmoother(40)).fit(X, Y),
        ValueError,
        "`n_neighbors`=40 needs at least 41 rows .* `X` has 40; lower",
    ),
    "too many components": (
        lambda: EJOP(n_components=4).fit(X, Y),
        ValueError,
        "`n_components`=4 must lie between 1 and the number of features, 3",
    ),
    "analytic of a ball": (
        lambda: EJOP("ball", step="analytic").fit(X, Y),
        ValueError,
        "`step`='analytic' needs a function with a closed-form derivative .* use step='auto'",
    ),
    "mass without a bandwidth": (
        lambda: EJOP("knn", min_mass=3).fit(X, Y),
        ValueError,
        "`min_mass`=3 counts rows within half a bandwidth .* use function='kernel'",
    ),
    "negative weights": (
        lambda: EJOP().fit(X, Y, sample_weight=-np.ones(40)),
        ValueError,
        "Negative values in data passed to `sample_weight`",
    ),
    "zero weights": (
        lambda: EJOP().fit(X, Y, sample_weight=np.zeros(40)),
        ValueError,
        "weights must contain at least one non-zero",
    ),
    "too little memory": (
        lambda: EJOP(device=Device(memory_limit=1000)).fit(X, Y),
        MemoryError,
        "`memory_limit`=1000 B is too little: gaussian-product on 40 rows .* raise it",
    ),
    "transform before fit": (lambda: EJOP().transform(X), NotFittedError, "not fitted yet"),
    "jacobian before fit": (lambda: EJOP().jacobian(X), NotFittedError, "not fitted yet"),
    "other number of features": (
        lambda: EJOP().fit(X, Y).transform(X[:, :2]),
        ValueError,
        "X has 2 features, but EJOP is expecting 3",
    ),
    "pairs of the wrong shape": (
        lambda: EJOP().fit(X, Y).pair_distance(X),
        ValueError,
        r"`pairs` has shape \(40, 3\); \(n_pairs, 2, 3\) was expected",
    ),
    "too large for float32": (
        lambda: EJOP(bandwidth=1e20, step=1e19).fit((X * 1e25).astype(np.float32), Y),
        ValueError,
        "`X` has values up to .*, too large for squared distances in float32; scale the columns",
    ),
    "model that predicts NaN": (
        lambda: EGOP(NotANumber()).fit(X, X[:, 0]),
        FloatingPointError,
        r"derivatives of ModelFunction\(estimator=NotANumber\(\)\) are not finite",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    call, error, pattern = CASES[name]
    with pytest.raises(error, match=pattern):
        call()


@pytest.mark.filterwarnings("ignore:every difference is zero")  # true of two rows, say
@pytest.mark.parametrize("function", ["kernel", "ball", "knn", "ridge"])
class TestDocumentedBehaviour:
    """Awkward but valid input works and gives finite answers."""

    def estimator(self, function):
        return EJOP(NeighborsSmoother(3) if function == "knn" else function)

    def check(self, function, rows, labels):
        fitted = self.estimator(function).fit(rows, labels)
        assert np.isfinite(fitted.outer_product_).all()
        assert np.isfinite(fitted.transform(rows)).all()
        return fitted

    def test_more_features_than_rows(self, function):
        fitted = self.check(function, RNG.normal(size=(12, 30)), np.arange(12) % 3)
        assert fitted.outer_product_.shape == (30, 30)

    def test_a_constant_column_has_no_weight_of_its_own(self, function):
        rows = np.c_[X, np.full(40, 7.0)]
        fitted = self.check(function, rows, Y)
        without = self.estimator(function).fit(X, Y)
        np.testing.assert_allclose(
            fitted.outer_product_[:3, :3], without.outer_product_, rtol=1e-6, atol=1e-9
        )
        np.testing.assert_allclose(fitted.outer_product_[3], 0, atol=1e-9)

    def test_duplicate_rows(self, function):
        rows = np.repeat(X[:10], 4, axis=0)
        self.check(function, rows, np.tile([0, 1], 20))

    @pytest.mark.parametrize("scale", [1e-12, 1e12])
    def test_huge_and_tiny_scales(self, function, scale):
        one, other = self.check(function, X, Y), self.check(function, X * scale, Y)
        np.testing.assert_allclose(
            other.outer_product_ * scale**2, one.outer_product_, rtol=1e-5, atol=1e-9
        )

    def test_two_rows(self, function):
        if function == "knn":
            pytest.skip("three neighbours need four rows; the message is tested above")
        self.check(function, X[:2], np.array([0, 1]))

    def test_a_class_of_one_row(self, function):
        self.check(function, X, np.r_[2, Y[1:]])

    def test_integers_and_booleans(self, function):
        rows = RNG.integers(0, 5, size=(40, 3))
        self.check(function, rows, Y.astype(bool))
