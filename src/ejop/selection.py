"""Honest choices made from the training rows alone: bandwidth and penalty by leave-one-out of f.

The rule of ``bandwidth="auto"``: over a geometric grid of multiples of the median distance to the
nearest distinct row, take the *largest* bandwidth whose leave-one-out loss of f is within one
standard error of the smallest, and widen it by 30 %. A derivative needs a smoother f than a
prediction does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state

from ejop.backends.distances import squared_distances
from ejop.backends.threads import in_threads
from ejop.functions._base import one_hot_labels
from ejop.kernels import Kernel, get_kernel

#: multiples of the median nearest-neighbour distance tried for a smoother's bandwidth
GAUSSIAN_GRID = 2.0 ** np.arange(-3, 2.01, 0.25)
COMPACT_GRID = 2.0 ** np.arange(-0.5, 3.01, 0.25)
#: ... for kernel ridge, and the penalties added to the diagonal of its kernel matrix
RIDGE_GRID = 2.0 ** np.arange(-1, 4.01, 0.5)
PENALTY_GRID = 10.0 ** np.arange(-6, 1.01, 0.5)
#: share of the prior mixed into f before the logarithm, so that one row cannot decide the loss
LOG_LOSS_FLOOR = 0.01
#: a derivative wants a wider bandwidth than the value does
WIDENING = 1.3
RIDGE_WIDENING = 1.5
#: share of the loss of a constant f that is no difference: separable classes leave only rounding
FLAT = 1e-3
#: pairs of rows compared at the most, beyond 200 rows against all
MAX_PAIRS = 100_000_000


def nearest_distances(X: NDArray, rows: NDArray) -> NDArray:
    """Distance from each of the given rows of X to the nearest row that is not equal to it."""
    center = _center(X)

    def nearest(block: NDArray) -> NDArray:
        D, slack = squared_distances(X[block], X, center)
        D[slack >= D] = np.inf  # equal rows, up to the rounding of the distances
        return D.min(1)

    return np.sqrt(np.concatenate(in_threads(nearest, _blocks(rows, len(X)))))


def median_nearest_distance(X: NDArray, rows: NDArray) -> float:
    """Median over rows of the distance to the nearest distinct row.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.selection import median_nearest_distance
    >>> X = np.array([[0.0], [1.0], [1.0], [3.0]])
    >>> median_nearest_distance(X, np.arange(4))
    1.0
    """
    smallest = nearest_distances(X, rows)
    smallest = smallest[np.isfinite(smallest)]
    if len(smallest) == 0:
        raise ValueError(
            "`X` has no two distinct rows (all rows are equal), so no direction of it can matter; "
            "check the columns that were passed."
        )
    return float(np.median(smallest))


def pointwise_loss(f: NDArray, Y: NDArray, prior: NDArray, *, one_hot: bool) -> NDArray:
    """Loss of each row: minus the log of the probability of its class, or the squared error."""
    if not one_hot:
        return ((f - Y) ** 2).sum(1)
    f = (1 - LOG_LOSS_FLOOR) * np.clip(f, 0, 1) + LOG_LOSS_FLOOR * prior
    return -np.log((f * Y).sum(1))


def widest_within_one_error(
    grid: NDArray, losses: NDArray, weights: NDArray, floor: float = 0.0
) -> int:
    """Index of the largest grid value whose mean loss is within one standard error of the best.

    The standard error is that of the *difference* to the best, row by row, so that rows that are
    hard at every bandwidth do not blur the comparison, and at least ``floor``. ``losses`` has
    shape (len(grid), n_rows).
    """
    weights = weights / weights.sum()
    means = losses @ weights
    best = int(means.argmin())
    excess = losses - losses[best]
    error = np.sqrt(((excess - (excess @ weights)[:, None]) ** 2 @ weights) / len(weights))
    return int(np.flatnonzero(means <= means[best] + np.maximum(error, floor)).max())


def choose_bandwidth(
    X: NDArray,
    Y: NDArray,
    *,
    kernel: str = "gaussian",
    sample_weight: NDArray | None = None,
    max_queries: int = 1000,
    random_state: Any = None,
) -> float:
    """Bandwidth of a kernel smoother by the leave-one-out loss of f.

    The loss is the log loss for one-hot targets (with 1 % of the prior mixed in) and the squared
    error otherwise, over at most ``max_queries`` random rows against all rows (fewer, down to 200,
    when there are more than 10^5). For the Gaussian the
    grid is the median nearest-neighbour distance times 2^-3 to 2^2, for compact kernels times
    2^-1/2 to 2^3. The widest bandwidth within one standard error of the best (or within 0.1 % of
    the loss of a constant f) is taken times 1.3.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    Y : ndarray of shape (n_samples, n_outputs)
    kernel : str, default="gaussian"
    sample_weight : ndarray of shape (n_samples,), optional
    max_queries : int, default=1000
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    bandwidth : float

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.selection import choose_bandwidth
    >>> X = np.random.default_rng(0).normal(size=(200, 1))
    >>> 0.001 < choose_bandwidth(X, np.sin(X)) < 1
    True
    """
    rule = get_kernel(kernel)
    w = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    affordable = int(np.clip(MAX_PAIRS // len(X), 200, max_queries))
    rows = _some_rows(w, affordable, random_state)
    grid = GAUSSIAN_GRID if rule.factorises else COMPACT_GRID
    grid = median_nearest_distance(X, rows) * grid
    if len(X) < 3:
        return WIDENING * float(grid[-1])
    losses = np.hstack(
        in_threads(lambda block: _block_losses(X, Y, w, block, rule, grid), _blocks(rows, len(X)))
    )
    prior = w @ Y / w.sum()
    one_hot = one_hot_labels(Y) is not None
    constant = pointwise_loss(np.tile(prior, (len(rows), 1)), Y[rows], prior, one_hot=one_hot)
    floor = FLAT * np.average(constant, weights=w[rows])
    return WIDENING * float(grid[widest_within_one_error(grid, losses, w[rows], floor)])


def _block_losses(
    X: NDArray, Y: NDArray, w: NDArray, rows: NDArray, rule: Kernel, grid: NDArray
) -> NDArray:
    """Leave-one-out losses of some rows for each bandwidth, shape (len(grid), n_rows)."""
    one_hot = one_hot_labels(Y[:1000]) is not None
    total = w.sum()
    prior = w @ Y / total
    own = w[rows, None]
    rest = (total * prior - own * Y[rows]) / (total - own)
    D, _ = squared_distances(X[rows], X, _center(X))
    np.maximum(D, 0, out=D)
    D[np.arange(len(rows)), rows] = np.inf
    if rule.factorises:
        D -= D.min(1, keepdims=True)  # a factor common to a row cancels
    targets = (np.c_[Y, np.ones(len(Y))] * w[:, None]).astype(D.dtype)
    K = np.empty_like(D)
    losses = np.empty((len(grid), len(rows)))
    for g, h in enumerate(grid):
        np.multiply(D, D.dtype.type(1 / h**2), out=K)
        sums = rule(K, out=K) @ targets
        mass = sums[:, -1:]
        f = np.where(mass > 0, sums[:, :-1] / np.where(mass > 0, mass, 1), rest)
        losses[g] = pointwise_loss(f, Y[rows], prior, one_hot=one_hot)
    return losses


def choose_ridge(
    X: NDArray,
    Y: NDArray,
    *,
    bandwidth: float | str = "auto",
    penalty: float | str = "auto",
    sample_weight: NDArray | None = None,
    max_rows: int = 1000,
    random_state: Any = None,
    widening: float = RIDGE_WIDENING,
) -> tuple[float, float]:
    """Bandwidth and penalty of kernel ridge by closed-form leave-one-out.

    With B = (K + penalty I)^-1 the residual of row i when it is left out is (B Y)_i / B_ii, so a
    bandwidth costs one eigen-decomposition and a penalty nothing more. At most ``max_rows`` random
    rows are used. The loss is the squared error; the bandwidth of the smallest is taken times
    ``widening``, since a derivative needs a smoother f than a prediction does, and the penalty is
    that of the smallest loss at the widened bandwidth. Bandwidths are the
    median nearest-neighbour distance times 2^-1 to 2^4, first by factors of 2, then between;
    penalties run from 1e-6 to 10.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    Y : ndarray of shape (n_samples, n_outputs)
    bandwidth, penalty : float or "auto"
        A number keeps that value and chooses the other.
    sample_weight : ndarray of shape (n_samples,), optional
    max_rows : int, default=1000
    random_state : int, RandomState instance or None, default=None
    widening : float, default=1.5

    Returns
    -------
    bandwidth, penalty : float
    """
    w = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    rows = _some_rows(w, max_rows, random_state)
    unit = median_nearest_distance(X, rows) if bandwidth == "auto" else 1.0
    bandwidths = unit * RIDGE_GRID if bandwidth == "auto" else np.array([float(bandwidth)])
    penalties = PENALTY_GRID if penalty == "auto" else np.array([float(penalty)])
    Xs = X[rows].astype(np.float64)
    S = np.sqrt(w[rows])
    target = S[:, None] * (Y[rows] - w @ Y / w.sum())
    D = euclidean_distances(Xs, squared=True)

    def losses(h: float) -> NDArray:
        K = S[:, None] * np.exp(D * (-0.5 / h**2)) * S
        return left_out_losses(K, penalties, target)

    def best_of(points: list[int]) -> int:
        found = in_threads(losses, [bandwidths[g] for g in points])
        tried.update(zip(points, found, strict=True))
        return min(tried, key=lambda g: tried[g].min())

    tried: dict[int, NDArray] = {}
    best = best_of(list(range(0, len(bandwidths), 2)))
    between = [g for g in (best - 1, best + 1) if 0 <= g < len(bandwidths)]
    best = best_of(between)
    chosen, loss = float(bandwidths[best]), tried[best]
    if bandwidth == "auto" and widening != 1.0:
        chosen *= widening
        loss = losses(chosen)
    return chosen, float(penalties[loss.argmin()])


def left_out_losses(K: NDArray, penalties: NDArray, target: NDArray) -> NDArray:
    """Sum of squared leave-one-out residuals of ridge on a kernel matrix, for each penalty.

    With K = U diag(s) U^T the inverse B of K + penalty I has (B Y)_i = sum_k U_ik (U^T Y)_k /
    (s_k + penalty) and B_ii = sum_k U_ik^2 / (s_k + penalty): one decomposition serves them all.
    """
    values, U = eigh(K, driver="evd", overwrite_a=True, check_finite=False)
    values = np.maximum(values, 0)
    projected, squared = U.T @ target, U**2
    losses = np.empty(len(penalties))
    for p, penalty in enumerate(penalties):
        shrink = 1 / (values + penalty)
        residual = (U @ (shrink[:, None] * projected)) / (squared @ shrink)[:, None]
        losses[p] = float((residual**2).sum())
    return losses


def _center(X: NDArray) -> NDArray:
    return X.mean(0, dtype=np.float64).astype(X.dtype)


def _blocks(rows: NDArray, n: int) -> list[NDArray]:
    """Rows in blocks whose distances to n rows take about 8 MB."""
    size = int(np.clip(1_000_000 // n, 1, 256))
    return np.array_split(rows, -(-len(rows) // size))


def _some_rows(weights: NDArray, at_most: int, random_state: Any) -> NDArray:
    """At most so many rows of positive weight, sorted, drawn without replacement."""
    rows = np.flatnonzero(weights > 0)
    if len(rows) <= at_most:
        return rows
    return np.sort(check_random_state(random_state).choice(rows, at_most, replace=False))
