"""Right numbers at every scale: outliers, far clusters, columns of very different size."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

import reference
from ejop import EGOP, EJOP
from ejop.choice import choose_bandwidth, choose_ridge, median_nearest_distance
from ejop.functions import KernelSmoother, ModelFunction, NeighborsSmoother, RidgeFunction
from ejop.neighbors import nearest, within

#: sizes of columns differ on purpose
pytestmark = pytest.mark.filterwarnings("ignore:the standard deviations of the columns")
FUNCTIONS = ["kernel", "ball", "knn", "ridge"]
DTYPES = [np.float32, np.float64]


@pytest.fixture(scope="module")
def plain():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)


# outliers and what is chosen ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("outlier", [1e4, 1e6, 1e8])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_one_outlier_decides_nothing(plain, function, outlier, dtype):
    X, y = plain
    rows = X.copy()
    rows[7, 2] = outlier
    clean = EJOP(function).fit(X.astype(dtype), y)
    found = EJOP(function).fit(rows.astype(dtype), y)
    assert found.step_ == pytest.approx(clean.step_, rel=0.01)
    scale = clean.outer_product_.max()
    np.testing.assert_allclose(found.outer_product_, clean.outer_product_, atol=0.03 * scale)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace", "boxcar", "tricube"])
def test_float32_chooses_as_float64_with_a_heavy_column(plain, kernel):
    X, y = plain
    rows = X.copy()
    rows[:, 3] = np.exp(3 * np.random.default_rng(1).normal(size=400))
    Y = np.eye(2)[y]
    single = rows.astype(np.float32)
    chosen = choose_bandwidth(single, Y, kernel=kernel)
    assert chosen == pytest.approx(choose_bandwidth(rows, Y, kernel=kernel), rel=1e-3)
    assert choose_ridge(single, Y) == pytest.approx(choose_ridge(rows, Y), rel=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gap", [1e3, 1e6])
def test_distances_within_far_clusters_are_those_of_one(plain, gap, dtype):
    X = np.r_[plain[0], plain[0] + gap].astype(dtype)
    rows = np.arange(400)
    alone = median_nearest_distance(X[:400], rows)
    assert median_nearest_distance(X, rows) == pytest.approx(alone, rel=1e-3)


def test_equal_rows_are_no_neighbours_and_near_ones_are(plain):
    X = np.repeat(plain[0][:50], 2, axis=0) + 1e4
    assert median_nearest_distance(X, np.arange(100)) > 0.1
    X[1::2, 0] += 1e-9  # less than products of rows far from the origin can tell
    assert median_nearest_distance(X, np.arange(100)) == pytest.approx(1e-9, rel=0.01)


# the twin ----------------------------------------------------------------------------------------

SMOOTHERS = ["gaussian", "laplace", "boxcar", "epanechnikov", "triangular", "biweight", "tricube"]
TWINS = [*SMOOTHERS, "knn", "ridge", "laplace ridge", "l1 ridge"]
#: agreement with long double of the matrix, in its largest entry
AGREEMENT = {np.float64: 1e-9, np.float32: 1e-4}


def clusters(X, gap):
    return X + gap * (np.arange(len(X)) % 2)[:, None]


def outlier(X, rng):
    X = X.copy()
    X[rng.integers(len(X)), rng.integers(X.shape[1])] = 1e8 * rng.choice([-1, 1])
    return X


#: what is done to normal rows, and what their unit of length becomes
TRANSFORMATIONS = {
    "as they are": lambda X, rng: (X, 1.0),
    "translated by 1e6": lambda X, rng: (X + 1e6 * rng.choice([-1, 1], X.shape[1]), 1.0),
    "times 1e-8": lambda X, rng: (X * 1e-8, 1e-8),
    "times 1e8": lambda X, rng: (X * 1e8, 1e8),
    "columns from 1e-8 to 1e8": lambda X, rng: (X * 10 ** rng.uniform(-8, 8, X.shape[1]), None),
    "an outlier of 1e8": lambda X, rng: (outlier(X, rng), 1.0),
    "clusters 1e3 apart": lambda X, rng: (clusters(X, 1e3), 1.0),
    "clusters 1e6 apart": lambda X, rng: (clusters(X, 1e6), 1.0),
    "clusters 1e8 apart": lambda X, rng: (clusters(X, 1e8), 1.0),
    "copies of rows": lambda X, rng: (X[rng.integers(len(X) // 2, size=len(X))], 1.0),
    "a grid": lambda X, rng: (np.round(X * 2) / 2, 1.0),
}


def transformed(name, seed, dtype):
    """Rows, targets and a bandwidth in their units."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(12, 30)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, d))
    score = X[:, 0] + 0.5 * rng.normal(size=n)
    rows, unit = TRANSFORMATIONS[name](X, rng)
    if unit is None:
        unit = float(np.abs(rows).max()) / 2
    return rows.astype(dtype), score, unit * rng.uniform(0.4, 1.5)


def library_function(name, h):
    if name == "knn":
        return NeighborsSmoother(3)
    if name.endswith("ridge"):
        return RidgeFunction(name.split()[0].replace("ridge", "gaussian"), h, 0.1)
    return KernelSmoother(name, h)


def assert_agrees(name, transformation, dtype, seed, estimator=EJOP, **options):
    rows, score, h = transformed(transformation, seed, dtype)
    y = (score > np.median(score)).astype(int) if estimator is EJOP else score.astype(dtype)
    Y = np.eye(2)[y] if estimator is EJOP else y[:, None]
    if transformation == "a grid":
        options["step"] = 0.25  # ties of shifted distances are exact then
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "every difference is zero")
        found = estimator(library_function(name, h), **options).fit(rows, y)
    d = rows.shape[1]
    step = np.broadcast_to(found.step_, d)
    k = 3 if name == "knn" else h
    J = reference.Exact(name, rows, Y, k, 0.1).jacobians(step, estimator is EJOP)
    expected = np.einsum("ncj,nck->jk", J, J) / len(J)
    # What rounding leaves of derivatives that are zero, beside those that are not.
    noise = 100 * np.finfo(dtype).eps * np.ptp(Y) / (2 * step.min())
    error = np.abs(found.outer_product_ - expected).max()
    assert error <= AGREEMENT[dtype] * np.abs(expected).max() + noise**2, (error, found.plan_)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("name", TWINS)
@settings(max_examples=4, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_sums_agree_with_long_double(name, transformation, dtype, seed):
    assert_agrees(name, transformation, dtype, seed)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("name", ["gaussian", "laplace", "tricube", "knn", "ridge"])
@settings(max_examples=2, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_sums_of_real_targets_agree_with_long_double(name, transformation, dtype, seed):
    assert_agrees(name, transformation, dtype, seed, EGOP)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("name", ["gaussian", "laplace", "boxcar", "tricube", "knn", "ridge"])
@settings(max_examples=2, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_sums_of_torch_agree_with_long_double(name, transformation, dtype, seed):
    pytest.importorskip("torch")
    assert_agrees(name, transformation, dtype, seed, device="cpu")


def exact_derivatives(name, X, Y, h, penalty=0.1):
    """Derivatives of f at its rows in long double, each left out of its own estimate."""
    twin, J = reference.Exact(name, X, Y, h, penalty), []
    for i in range(len(X)):
        rows = np.delete(np.arange(len(X)), i)
        apart = twin.X[rows] - twin.X[i]
        D = (apart**2).sum(1)
        if name == "ridge":
            K = np.exp(-D / (2 * twin.h**2))
            J.append((K[:, None] * twin.coefficients(i)).T @ apart / twin.h**2)
            continue
        if name == "laplace":  # a row counts as flat at itself
            r = np.sqrt(D)
            K = np.exp(-(r - r.min()) / twin.h)
            K /= K.sum()
            slope = np.where(r > 0, K / np.where(r > 0, r, 1), 0) / twin.h
        else:
            K = np.exp(-(D - D.min()) / (2 * twin.h**2))
            K /= K.sum()
            slope = K / twin.h**2
        mean = K @ twin.Y[rows]
        J.append((slope[:, None] * (twin.Y[rows] - mean)).T @ apart)
    return np.array(J)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("name", ["gaussian", "laplace", "ridge"])
@settings(max_examples=2, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_derivatives_agree_with_long_double(name, device, transformation, dtype, seed):
    if device is not None:
        pytest.importorskip("torch")
    rows, score, h = transformed(transformation, seed, dtype)
    y = score.astype(dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "every difference is zero")
        options = {"step": "analytic", "device": device}
        found = EGOP(library_function(name, h), **options).fit(rows, y)
    J = exact_derivatives(name, rows, y[:, None], h)
    expected = np.einsum("ncj,nck->jk", J, J) / len(J)
    noise = 100 * np.finfo(dtype).eps * np.ptp(y) / h
    error = np.abs(found.outer_product_ - expected).max()
    assert error <= AGREEMENT[dtype] * np.abs(expected).max() + noise**2, (error, found.plan_)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("far", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("name", TWINS)
def test_queries_far_from_all_rows(name, far, dtype):
    """Where the nearest row decides, it decides; a far query is no noise."""
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(40, 3)).astype(dtype), rng.normal(size=(10, 3))
    Q[:, 1] += far * rng.choice([-1, 1], 10)
    Q = Q.astype(dtype)
    y = X[:, :1] + X[:, 1:2] ** 2
    f = library_function(name, 0.7).fit(X, y)
    twin = reference.Exact(name, X, y, 3 if name == "knn" else 0.7, 0.1)
    expected = [twin.value(q, -1) for q in Q]
    np.testing.assert_allclose(f.predict(Q), np.array(expected, float), rtol=10 * AGREEMENT[dtype])


# models ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_a_step_far_from_zero_is_the_step_that_was_taken(offset, dtype):
    """x + t is rounded where x is large; the quotient is by what was added."""
    X = (np.random.default_rng(0).normal(size=(50, 2)) * 1e-3 + offset).astype(np.float64)
    line = FrozenEstimator(LinearRegression().fit(np.zeros((2, 2)), np.zeros(2)))
    line.estimator.coef_ = np.array([3.0, -1.0])
    f = ModelFunction(line).fit(X.astype(dtype), X[:, 0])
    J = f.differences(X.astype(dtype), np.full(2, 1e-4))
    np.testing.assert_allclose(J[:, 0], np.tile([3.0, -1.0], (50, 1)), rtol=1e-4)


def test_a_step_that_is_lost_is_refused():
    X = np.random.default_rng(0).normal(size=(50, 2)) + 1e9
    f = ModelFunction(LinearRegression()).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="`step`=1e-09 is lost beside values of 1e"):
        f.differences(X, np.full(2, 1e-9))


# neighbours of the rules -------------------------------------------------------------------------


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_neighbours_are_the_nearest(transformation, dtype, device):
    if device is not None:
        pytest.importorskip("torch")
    for seed in range(3):
        rows, _, h = transformed(transformation, seed, dtype)
        rows = np.concatenate([rows, transformed(transformation, seed, dtype)[0][:5]])
        apart = rows[:, None].astype(np.longdouble) - rows.astype(np.longdouble)
        D = np.sqrt((apart**2).sum(2)).astype(float)
        distances, indices = nearest(rows, rows, 5, device=device)
        np.testing.assert_allclose(distances, np.sort(D, axis=1)[:, :5], rtol=1e-5)
        np.testing.assert_allclose(np.take_along_axis(D, indices, 1), distances, rtol=1e-5)
        near = within(rows, rows, h, device=device)
        inside, slack = np.zeros(D.shape, bool), 1e-4 * h
        inside[near.queries, near.rows] = True
        assert inside[h - slack > D].all()
        assert not inside[h + slack < D].any()


# any scale ---------------------------------------------------------------------------------------


@settings(max_examples=120, derandomize=True, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    exponent=st.integers(-300, 300),
    function=st.sampled_from(FUNCTIONS),
    dtype=st.sampled_from(DTYPES),
)
def test_any_scale_gives_the_same_answer_or_says_why_not(seed, exponent, function, dtype):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 3))
    y = np.r_[0, 1, (X[2:, 0] > 0).astype(int)]
    if dtype == np.float32:
        exponent //= 9  # what float32 holds
    expected = EJOP(function).fit(X.astype(dtype), y)
    rows = (X * 10.0**exponent).astype(dtype)
    if abs(exponent) > (15 if dtype == np.float32 else 35):
        with pytest.raises(
            ValueError, match=r"too (large|little) for squared distances .*scale the"
        ):
            EJOP(function).fit(rows, y)
        return
    if abs(exponent) > (13 if dtype == np.float32 else 33):
        return  # one or the other, by the largest value
    found = EJOP(function).fit(rows, y)
    scaled = found.outer_product_ * 10.0 ** (2 * exponent)
    scale = np.abs(expected.outer_product_).max()
    tolerance = 2e-2 if dtype == np.float32 else 1e-8  # rounded rows are other rows
    np.testing.assert_allclose(scaled, expected.outer_product_, atol=tolerance * scale)
    np.testing.assert_allclose(
        found.outer_product_stderr_ * 10.0 ** (2 * exponent),
        expected.outer_product_stderr_,
        atol=tolerance * scale,
    )


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    exponent=st.integers(-300, 300),
    function=st.sampled_from(FUNCTIONS),
)
def test_any_scale_of_targets(seed, exponent, function):
    X = np.random.default_rng(seed).normal(size=(30, 3))
    expected = EGOP(function).fit(X, X[:, 0]).outer_product_
    y = X[:, 0] * 10.0**exponent
    if abs(exponent) > 35:
        with pytest.raises(
            ValueError, match=r"`y` (has values up to|spans no more than).*scale it"
        ):
            EGOP(function).fit(X, y)
        return
    if abs(exponent) > 33:
        return  # one or the other, by the largest value
    found = EGOP(function).fit(X, y).outer_product_
    scaled = found * 10.0 ** (-2 * exponent)
    np.testing.assert_allclose(scaled, expected, atol=1e-8 * np.abs(expected).max())
