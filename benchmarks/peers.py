"""The same matrix without the library's forms: f at 2d shifted copies of the rows.

Each peer is what a careful user would write with NumPy and scikit-learn: one vectorised call per
feature and sign, every row left out of its own estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors

Values = Callable[[NDArray], NDArray]


def shifted_outer_product(
    values: Values, X: NDArray, step: float, features: Iterable[int] | None = None
) -> NDArray:
    """Mean of J J^T from central differences of softmax(f), for all or some features.

    ``values`` maps the moved rows (n, d) to f (n, c) with row i left out of its own estimate.
    """
    J = []
    for j in range(X.shape[1]) if features is None else features:
        moved = X.copy()
        moved[:, j] = X[:, j] + step
        plus = softmax(values(moved), axis=1)
        moved[:, j] = X[:, j] - step
        minus = softmax(values(moved), axis=1)
        J.append(((plus - minus) / (2 * step)).ravel())
    table = np.stack(J)
    return table @ table.T / len(X)


def kernel_regression(X: NDArray, y: NDArray, bandwidth: float, block: int = 256) -> Values:
    """Gaussian kernel regression on the classes, a block of rows at a time.

    The blocks keep the kernel matrix near the cache: at 4000 rows they take about half the time
    of the whole matrix at once.
    """
    targets = np.c_[_one_hot(y), np.ones(len(y))]
    norms = np.einsum("nd,nd->n", X, X)[None]

    def values(moved: NDArray) -> NDArray:
        sums = np.empty((len(X), targets.shape[1]))
        for s in range(0, len(X), block):
            Q = moved[s : s + block]
            K = euclidean_distances(Q, X, Y_norm_squared=norms, squared=True)
            K *= -0.5 / bandwidth**2
            own = np.arange(len(Q))
            K[own, s + own] = -np.inf
            K -= K.max(1, keepdims=True)
            sums[s : s + block] = np.exp(K, out=K) @ targets
        return sums[:, :-1] / sums[:, -1:]

    return values


def ball_votes(X: NDArray, y: NDArray, radius: float, step: float) -> Values:
    """Class shares within a radius, the mean of all other rows where there is none."""
    Y = _one_hot(y)
    labels, (n, c) = Y.argmax(1), Y.shape
    index = NearestNeighbors(radius=radius, n_jobs=-1).fit(X)
    others = (Y.sum(0) - Y) / (n - 1)
    own = Y if step <= radius else 0  # a row moved by the step has itself within the radius

    def values(moved: NDArray) -> NDArray:
        found = index.radius_neighbors(moved, return_distance=False)
        lengths = np.fromiter(map(len, found), dtype=np.int64, count=n)
        rows = np.repeat(np.arange(n), lengths)
        votes = np.bincount(rows * c + labels[np.concatenate(found)], minlength=n * c)
        votes = votes.reshape(n, c) - own
        mass = votes.sum(1, keepdims=True)
        return np.where(mass > 0, votes / np.maximum(mass, 1), others)

    return values


def neighbor_votes(X: NDArray, y: NDArray, n_neighbors: int) -> Values:
    """Class shares of the k nearest other rows."""
    Y = _one_hot(y)
    labels, (n, c) = Y.argmax(1), Y.shape
    index = NearestNeighbors(n_neighbors=n_neighbors + 1, n_jobs=-1).fit(X)
    rows = np.arange(n)[:, None]

    def values(moved: NDArray) -> NDArray:
        found = index.kneighbors(moved, return_distance=False)
        dropped = found == rows
        dropped[~dropped.any(1), -1] = True  # itself not among them: the farthest is one too many
        kept = found[~dropped].reshape(n, n_neighbors)
        votes = np.bincount((rows * c + labels[kept]).ravel(), minlength=n * c)
        return votes.reshape(n, c) / n_neighbors

    return values


def relative_difference(A: NDArray, B: NDArray) -> float:
    """Largest difference of two matrices over the largest entry."""
    return float(np.abs(A - B).max() / np.abs(B).max())


def _one_hot(y: NDArray) -> NDArray:
    return (y[:, None] == np.unique(y)).astype(np.float64)
