"""Right numbers at every scale: outliers, far clusters, columns of very different size."""

import numpy as np
import pytest

from ejop import EJOP
from ejop.choice import choose_bandwidth, choose_ridge, median_nearest_distance

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


@pytest.mark.parametrize("kernel", ["gaussian", "boxcar", "tricube"])
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
