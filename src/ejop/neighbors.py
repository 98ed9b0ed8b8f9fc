"""Neighbours whose answer never depends on threads: ties in distance by row, ties in votes by
nearness.

The search is scikit-learn's brute-force reduction; what is added is a fixed order of equal
distances, which the reduction leaves to chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.neighbors import NearestNeighbors

from ejop.executors.threads import n_threads, pools_free, stream
from ejop.sums.device_search import DeviceSearch

T = TypeVar("T")

#: neighbours fetched beyond k, to see whether a tie crosses the k-th place
SPARE = 8
#: queries that a thread searches at once, at the most
MAX_BLOCK = 512
#: relative difference of distances below which two are equal
EQUAL = 1e-9
#: pairs of a query and a row in its ball that are held at once, some forty bytes each
MAX_PAIRS = 10_000_000


def nearest(Q: NDArray, X: NDArray, k: int, *, device: Any = None) -> tuple[NDArray, NDArray]:
    """The k nearest rows of X for each row of Q, nearest first, equal distances by row number.

    Parameters
    ----------
    Q : ndarray of shape (m, n_features)
    X : ndarray of shape (n_samples, n_features)
    k : int
    device : str or torch.device, optional
        Search there by torch; None is scikit-learn.

    Returns
    -------
    distances, indices : ndarray of shape (m, k)

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.neighbors import nearest
    >>> nearest(np.array([[0.0]]), np.array([[1.0], [-1.0], [1.0]]), 2)[1]
    array([[0, 1]])
    """
    if device is not None:
        with pools_free():
            return _nearest(Q, DeviceSearch(X, device), len(X), k)
    search = _Search(X)
    found = in_query_blocks(lambda part: _nearest(Q[part], search, len(X), k), Q, X)
    distances, indices = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return distances, indices


def _nearest(Q: NDArray, search: _Search | DeviceSearch, n: int, k: int) -> tuple[NDArray, NDArray]:
    distances, indices = np.empty((len(Q), k)), np.empty((len(Q), k), dtype=np.int64)
    open_rows, fetch = np.arange(len(Q)), min(n, k + SPARE)
    while len(open_rows):
        found = search.candidates(Q[open_rows], fetch)
        queries = np.repeat(open_rows, fetch)
        D = search.distances(Q, queries, found.ravel()).reshape(found.shape)
        level = _level(D)
        order = np.lexsort((found, level), axis=1)
        D, level = (np.take_along_axis(a, order, axis=1) for a in (D, level))
        found = np.take_along_axis(found, order, axis=1)
        done = np.full(len(open_rows), fetch == n) | (level[:, -1] > level[:, k - 1])
        distances[open_rows[done]] = D[done, :k]
        indices[open_rows[done]] = found[done, :k]
        open_rows, fetch = open_rows[~done], min(n, 4 * fetch)
    return distances, indices


def merge_nearest(distances: NDArray, rows: NDArray, k: int) -> NDArray:
    """Places of the k nearest among candidates of several parts, in the order of ``nearest``.

    Parameters
    ----------
    distances, rows : ndarray of shape (m, n_candidates)
        Those that ``nearest`` finds in each part, side by side, with row numbers among all rows.
    k : int

    Returns
    -------
    places : ndarray of shape (m, k)

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.neighbors import merge_nearest
    >>> merge_nearest(np.array([[1.0, 2.0, 1.0, 3.0]]), np.array([[7, 9, 2, 3]]), 2)
    array([[2, 0]])
    """
    return np.lexsort((rows, _level(distances)), axis=1)[:, :k]


def within(Q: NDArray, X: NDArray, radius: float, *, device: Any = None) -> Balls:
    """Rows of X within a radius of each row of Q, with their distances.

    Parameters
    ----------
    Q : ndarray of shape (m, n_features)
    X : ndarray of shape (n_samples, n_features)
    radius : float
    device : str or torch.device, optional
        Search there by torch; None is scikit-learn.

    Returns
    -------
    balls : Balls

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.neighbors import within
    >>> balls = within(np.array([[0.0], [9.0]]), np.array([[1.0], [-2.0], [4.0]]), 2.5)
    >>> balls.queries, balls.rows, balls.distances
    (array([0, 0]), array([0, 1]), array([1., 2.]))
    """
    if device is not None:
        with pools_free():
            return _balls(Q, DeviceSearch(X, device), radius)
    search = _Search(X)

    def one(part: slice) -> tuple[NDArray, NDArray, NDArray]:
        found = _balls(Q[part], search, radius)
        return found.queries + part.start, found.rows, found.distances

    parts = zip(*in_query_blocks(one, Q, X), strict=True)
    return Balls(len(Q), *(np.concatenate(part) for part in parts))


def ball_votes(
    Q: NDArray,
    X: NDArray,
    radii: Sequence[float],
    Y: NDArray,
    fallback: Votes,
    *,
    weights: str,
    row_weights: NDArray | None,
    device: Any = None,
) -> list[Votes]:
    """Votes of the rows of X within each of some radii of each row of Q, a block after the other.

    Y has shape (n_samples, n_outputs); a query with no row takes its fallback.
    """
    search = _Search(X) if device is None else DeviceSearch(X, device)

    def one(part: slice) -> list[Votes]:
        found = _balls(Q[part], search, max(radii)).votes(
            radii, Y, fallback[part], weights=weights, row_weights=row_weights
        )
        return list(found)  # at once: its pairs go before the next are found

    if device is None:
        blocks = in_query_blocks(one, Q, X, max_pairs=MAX_PAIRS)
    else:
        with pools_free():
            blocks = [one(part) for part in _slices(len(Q), max(1, MAX_PAIRS // len(X)))]
    return [join_votes(parts) for parts in zip(*blocks, strict=True)]


def in_query_blocks(
    one: Callable[[slice], T], Q: NDArray, X: NDArray, *, max_pairs: float = float("inf")
) -> list[T]:
    """Results of blocks of queries, in order: in threads where they are worth it.

    All blocks that are in work hold ``max_pairs`` pairs of a query and a row at the most.
    """
    m, n = len(Q), len(X)
    threads = n_threads(operations=m * n * (X.shape[1] + 10))  # ten to rank a distance
    step = m if threads == 1 else min(-(-m // threads), MAX_BLOCK)
    step = int(min(step, max_pairs // (n * threads)))
    return list(stream(one, _slices(m, max(1, step)), threads))


def _slices(m: int, step: int) -> list[slice]:
    """Consecutive parts of m rows; one empty part for none."""
    return [slice(s, min(s + step, m)) for s in range(0, max(m, 1), step)]


def _balls(Q: NDArray, search: _Search | DeviceSearch, radius: float) -> Balls:
    reach = radius * (1 + EQUAL)
    queries, rows = search.within(Q, reach)
    distances = search.distances(Q, queries, rows)
    near = distances <= reach
    return Balls(len(Q), queries[near], rows[near], distances[near])


class _Search:
    """scikit-learn's brute force on the CPU."""

    def __init__(self, X: NDArray) -> None:
        self.X = X
        self._search = NearestNeighbors(algorithm="brute").fit(X)

    def candidates(self, Q: NDArray, k: int) -> NDArray:
        """Row numbers of the k nearest, in any order, (m, k)."""
        return self._search.kneighbors(Q, k, return_distance=False)

    def distances(self, Q: NDArray, queries: NDArray, rows: NDArray) -> NDArray:
        """Distances of given pairs, the same whatever block or thread they fall in."""
        D = np.empty(len(rows))
        step = max(1, 2_000_000 // Q.shape[1])
        for s in range(0, len(rows), step):
            part = slice(s, s + step)
            difference = self.X[rows[part]] - Q[queries[part]]
            D[part] = np.sqrt(np.einsum("pd,pd->p", difference, difference))
        return D

    def within(self, Q: NDArray, radius: float) -> tuple[NDArray, NDArray]:
        """Pairs (query, row) that may lie within the radius, by query, then by row."""
        found = self._search.radius_neighbors(Q, radius, return_distance=False)
        counts = [len(rows) for rows in found]
        rows = np.concatenate([np.sort(rows) for rows in found])
        return np.repeat(np.arange(len(Q)), counts), rows.astype(np.int64, copy=False)


def _level(D: NDArray) -> NDArray:
    """Distances with those that differ by rounding alone made equal, as ranks along each row."""
    order = np.argsort(D, axis=1, kind="stable")
    ascending = np.take_along_axis(D, order, axis=1)
    rises = np.diff(ascending, axis=1) > EQUAL * ascending[:, 1:]
    ranks = np.concatenate([np.zeros((len(D), 1), int), np.cumsum(rises, axis=1)], axis=1)
    level = np.empty_like(ranks)
    np.put_along_axis(level, order, ranks, axis=1)
    return level


@dataclass(frozen=True)
class Votes:
    """Weighted mean targets of neighbours, and for each query the order in which ties fall.

    Attributes
    ----------
    values : ndarray of shape (m, n_outputs)
        Class shares or mean targets.
    nearness : ndarray of shape (m, n_outputs)
        Place or distance of the nearest neighbour of each class; infinite for none.
    """

    values: NDArray
    nearness: NDArray

    def __getitem__(self, part: slice) -> Votes:
        return Votes(self.values[part], self.nearness[part])

    def winners(self) -> NDArray:
        """Class with most votes, ties to the class with the nearer row."""
        top = self.values >= self.values.max(1, keepdims=True) - 1e-12
        return np.where(top, self.nearness, np.inf).argmin(1)


def join_votes(parts: Sequence[Votes]) -> Votes:
    """Votes of blocks of queries as one."""
    return Votes(
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.nearness for part in parts]),
    )


def vote(
    distances: NDArray, indices: NDArray, Y: NDArray, *, weights: str, row_weights: NDArray | None
) -> Votes:
    """Votes of a fixed number of neighbours (m, k) with targets Y (n_samples, n_outputs)."""
    w = _neighbor_weights(distances, weights)
    if row_weights is not None:
        w = w * row_weights[indices]
    targets = Y[indices]
    total = w.sum(1, keepdims=True)
    values = np.einsum("mk,mkc->mc", w, targets) / np.where(total > 0, total, 1)
    present = targets > 0
    nearness = np.where(present.any(1), present.argmax(1), np.inf)
    return Votes(values, nearness)


def _neighbor_weights(distances: NDArray, weights: str) -> NDArray:
    """1, or the inverse distance; a neighbour at distance zero outvotes all others."""
    if weights == "uniform":
        return np.ones_like(distances)
    exact = distances == 0
    inverse = 1 / np.where(exact, 1, distances)
    return np.where(exact.any(1, keepdims=True), exact, inverse)


@dataclass(frozen=True)
class Balls:
    """Rows within a radius of each query, as pairs.

    Attributes
    ----------
    n_queries : int
    queries, rows : ndarray of shape (n_pairs,)
        Numbers of the query and of the row, by query, then by row.
    distances : ndarray of shape (n_pairs,)
    """

    n_queries: int
    queries: NDArray
    rows: NDArray
    distances: NDArray

    def votes(
        self,
        radii: Sequence[float],
        Y: NDArray,
        fallback: Votes,
        *,
        weights: str,
        row_weights: NDArray | None,
    ) -> Iterator[Votes]:
        """Votes of the rows within each of some radii no larger than that of the search.

        Y has shape (n_samples, n_outputs); a query with no row takes its fallback.
        """
        starts = np.searchsorted(self.queries, np.arange(self.n_queries + 1))
        nearness = self._nearness(Y, starts)
        for radius in radii:
            reach = radius * (1 + EQUAL)
            inside = reach >= self.distances
            w = self._weights(inside, weights)
            if row_weights is not None:
                w = w * row_weights[self.rows]
            pairs = csr_array((w, self.rows, starts), shape=(self.n_queries, len(Y)))
            total = np.asarray(pairs.sum(1))[:, None]
            values = (pairs @ Y) / np.where(total > 0, total, 1)
            near = np.where(nearness <= reach, nearness, np.inf)
            hit = np.bincount(self.queries[inside], minlength=self.n_queries)[:, None] > 0
            yield Votes(
                np.where(hit, values, fallback.values), np.where(hit, near, fallback.nearness)
            )

    def _weights(self, inside: NDArray, weights: str) -> NDArray:
        """1, or the inverse distance; a row at distance zero outvotes all others."""
        if weights == "uniform":
            return inside.astype(float)
        exact = self.distances == 0
        outvoted = np.bincount(self.queries[exact], minlength=self.n_queries) > 0
        inverse = 1 / np.where(exact, 1, self.distances)
        return inside * np.where(outvoted[self.queries], exact, inverse)

    def _nearness(self, Y: NDArray, starts: NDArray) -> NDArray:
        """Distance of each query's nearest row of each output, infinite for none."""
        out = np.full((self.n_queries, Y.shape[1]), np.inf)
        some = np.flatnonzero(np.diff(starts))
        for c in range(Y.shape[1] if len(some) else 0):
            D = np.where(Y[self.rows, c] > 0, self.distances, np.inf)
            out[some, c] = np.minimum.reduceat(D, starts[some])
        return out
