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
from ejop.sums.engine import as_device

T = TypeVar("T")

#: share of the votes, or probability, above which a label is predicted
HALF = 0.5
#: neighbours fetched beyond k, to see whether a tie crosses the k-th place
SPARE = 8
#: queries that a thread searches at once, at the most
MAX_BLOCK = 512
#: relative difference of distances below which two are equal, by the type of the rows
EQUAL = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}
#: share of the mean squared norm from which the mean itself makes it up: rows are centred first
FAR_FROM_ZERO = 2
#: roundings of squared norms that a squared distance by products may be off by
SLACK = 16
#: pairs of a query and a row near it that are held at once, some forty bytes each
MAX_PAIRS = 10_000_000
#: targets of neighbours that are gathered at once
MAX_TARGETS = 1_000_000


class References:
    """Rows that several searches share, prepared once; :func:`nearest` and :func:`within` take it
    in place of X.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    device : str, torch.device or Device, optional
        Search there by torch; None is scikit-learn.
    """

    def __init__(self, X: NDArray, device: Any = None) -> None:
        self.dtype, (self._n, self.n_features) = X.dtype, X.shape
        name = as_device(device).name
        self.search = _Search(X) if name is None else DeviceSearch(X, name)

    def __len__(self) -> int:
        return self._n


def nearest(
    Q: NDArray, X: NDArray | References, k: int, *, device: Any = None
) -> tuple[NDArray, NDArray]:
    """The k nearest rows of X for each row of Q, nearest first, equal distances by row number.

    Parameters
    ----------
    Q : ndarray of shape (m, n_features)
    X : ndarray of shape (n_samples, n_features) or References
    k : int
    device : str or torch.device, optional
        Search there by torch; None is scikit-learn.

    Returns
    -------
    distances, indices : ndarray of shape (m, k)
        Distances in the type of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.neighbors import nearest
    >>> nearest(np.array([[0.0]]), np.array([[1.0], [-1.0], [1.0]]), 2)[1]
    array([[0, 1]])
    """
    references = X if isinstance(X, References) else References(X, device)
    found = in_query_blocks(lambda part: _nearest(Q[part], references, k), Q, references)
    distances, indices = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return distances, indices


def _nearest(Q: NDArray, references: References, k: int) -> tuple[NDArray, NDArray]:
    n, kind, search = len(references), _float_type(Q, references), references.search
    distances, indices = np.empty((len(Q), k), kind), np.empty((len(Q), k), dtype=np.int64)
    open_rows, fetch = np.arange(len(Q)), min(n, k + SPARE)
    while len(open_rows):
        found = search.candidates(Q[open_rows], fetch)
        queries = np.repeat(open_rows, fetch)
        D = search.distances(Q, queries, found.ravel()).reshape(found.shape)
        D = D.astype(kind, copy=False)
        level = _level(D)
        order = np.lexsort((found, level), axis=1)
        D, level = (np.take_along_axis(a, order, axis=1) for a in (D, level))
        found = np.take_along_axis(found, order, axis=1)
        farther = D[:, -1].astype(np.float64) ** 2 - D[:, k - 1].astype(np.float64) ** 2
        settled = (level[:, -1] > level[:, k - 1]) & (farther > search.rounding(Q[open_rows]))
        done = np.full(len(open_rows), fetch == n) | settled
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


def within(
    Q: NDArray, X: NDArray | References, radius: float, *, device: Any = None
) -> Neighborhoods:
    """Rows of X within a radius of each row of Q, with their distances.

    Parameters
    ----------
    Q : ndarray of shape (m, n_features)
    X : ndarray of shape (n_samples, n_features) or References
    radius : float
    device : str or torch.device, optional
        Search there by torch; None is scikit-learn.

    Returns
    -------
    near : Neighborhoods

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.neighbors import within
    >>> near = within(np.array([[0.0], [9.0]]), np.array([[1.0], [-2.0], [4.0]]), 2.5)
    >>> near.queries, near.rows, near.distances
    (array([0, 0]), array([0, 1]), array([1., 2.]))
    """
    kind = _float_type(Q, X)
    if not len(Q):
        none = np.empty(0, dtype=np.int64)
        return Neighborhoods(0, none, none, np.empty(0, kind))
    references = X if isinstance(X, References) else References(X, device)
    reach = radius * (1 + EQUAL[kind])

    def one(part: slice) -> tuple[NDArray, NDArray, NDArray]:
        rounding = float(references.search.rounding(Q[part]).max())
        queries, rows = references.search.within(Q[part], float(np.sqrt(reach**2 + rounding)))
        distances = references.search.distances(Q[part], queries, rows).astype(kind, copy=False)
        near = distances <= reach
        return queries[near] + part.start, rows[near], distances[near]

    parts = zip(*in_query_blocks(one, Q, references), strict=True)
    return Neighborhoods(len(Q), *(np.concatenate(part) for part in parts))


def in_query_blocks(one: Callable[[slice], T], Q: NDArray, references: References) -> list[T]:
    """Results of blocks of queries, in order: in threads where they are worth it."""
    m, n = len(Q), len(references)
    if isinstance(references.search, DeviceSearch):
        with pools_free():
            return [one(slice(0, m))]
    threads = n_threads(operations=m * n * (references.n_features + 10))  # ten to rank a distance
    step = max(1, m if threads == 1 else min(-(-m // threads), MAX_BLOCK))
    blocks = [slice(s, min(s + step, m)) for s in range(0, max(m, 1), step)]
    return list(stream(one, blocks, threads))


def _float_type(Q: NDArray, X: NDArray | References) -> np.dtype:
    """Type of distances: float32 where all rows are."""
    return np.result_type(Q.dtype, X.dtype, np.float32)


class _Search:
    """scikit-learn's brute force on the CPU."""

    def __init__(self, X: NDArray) -> None:
        self.X = X
        mean = X.mean(0, dtype=np.float64)
        squares = np.einsum("nd,nd->n", X, X, dtype=np.float64)
        self.largest, self.center = float(squares.max(initial=0)), None
        if FAR_FROM_ZERO * float(mean @ mean) > float(squares.mean()):  # products lose what is far
            self.center = mean.astype(X.dtype)
            X = X - self.center
            self.largest = float(np.einsum("nd,nd->n", X, X, dtype=np.float64).max(initial=0))
        self._search = NearestNeighbors(algorithm="brute").fit(X)

    def rounding(self, Q: NDArray) -> NDArray:
        """How far products may move the squared distances of each query."""
        Q = Q if self.center is None else Q - self.center
        own = np.einsum("md,md->m", Q, Q, dtype=np.float64)
        return SLACK * float(np.finfo(np.float64).eps) * (own + self.largest)

    def candidates(self, Q: NDArray, k: int) -> NDArray:
        """Row numbers of the k nearest, in any order, (m, k)."""
        Q = Q if self.center is None else Q - self.center
        return self._search.kneighbors(Q, k, return_distance=False)

    def distances(self, Q: NDArray, queries: NDArray, rows: NDArray) -> NDArray:
        """Distances of given pairs, the same whatever block or thread they fall in."""
        D = np.empty(len(rows))
        step = max(1, 2_000_000 // Q.shape[1])
        for s in range(0, len(rows), step):
            part = slice(s, s + step)
            difference = self.X[rows[part]].astype(np.float64) - Q[queries[part]]
            D[part] = np.sqrt(np.einsum("pd,pd->p", difference, difference))
        return D

    def within(self, Q: NDArray, radius: float) -> tuple[NDArray, NDArray]:
        """Pairs (query, row) that may lie within the radius, by query, then by row."""
        Q = Q if self.center is None else Q - self.center
        found = self._search.radius_neighbors(Q, radius, return_distance=False)
        counts = [len(rows) for rows in found]
        rows = np.concatenate([np.sort(rows) for rows in found])
        return np.repeat(np.arange(len(Q)), counts), rows.astype(np.int64, copy=False)


def _level(D: NDArray) -> NDArray:
    """Distances with those that differ by rounding alone made equal, as ranks along each row."""
    order = np.argsort(D, axis=1, kind="stable")
    ascending = np.take_along_axis(D, order, axis=1)
    rises = np.diff(ascending, axis=1) > EQUAL[D.dtype] * ascending[:, 1:]
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

    @classmethod
    def plain(cls, values: NDArray) -> Votes:
        """Votes without neighbours: ties go to the first class."""
        return cls(values, np.tile(np.arange(values.shape[1], dtype=float), (len(values), 1)))

    def labels(self) -> NDArray:
        """Labels that more than half is for, of 0/1 targets; bool, (m, n_outputs)."""
        return self.values > HALF

    def winners(self) -> NDArray:
        """Class with most votes, ties to the class with the nearer row, then to the first."""
        top = self.values >= self.values.max(1, keepdims=True) - 1e-12
        near = np.where(top, self.nearness, np.inf)
        reach = near.min(1, keepdims=True) * (1 + EQUAL[self.nearness.dtype])
        return (near <= reach).argmax(1)


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
    values, nearness = np.empty((2, len(indices), Y.shape[1]))
    step = max(1, MAX_TARGETS // max(1, indices.shape[1] * Y.shape[1]))
    for s in range(0, len(indices), step):
        part = slice(s, s + step)
        w = _neighbor_weights(distances[part], weights)
        if row_weights is not None:
            w = w * row_weights[indices[part]]
        targets = Y[indices[part]]
        total = w.sum(1, keepdims=True)
        values[part] = np.einsum("mk,mkc->mc", w, targets) / np.where(total > 0, total, 1)
        present = targets > 0
        nearness[part] = np.where(present.any(1), present.argmax(1), np.inf)
    return Votes(values, nearness)


def _neighbor_weights(distances: NDArray, weights: str) -> NDArray:
    """1, or the inverse distance; a neighbour at distance zero outvotes all others."""
    if weights == "uniform":
        return np.ones(distances.shape)
    exact = distances == 0
    inverse = 1 / np.where(exact, 1, distances.astype(np.float64))
    return np.where(exact.any(1, keepdims=True), exact, inverse)


@dataclass(frozen=True)
class Neighborhoods:
    """Rows near each query, as pairs.

    Attributes
    ----------
    n_queries : int
    queries, rows : ndarray of shape (n_pairs,)
        Numbers of the query and of the row, by query.
    distances : ndarray of shape (n_pairs,)
    """

    n_queries: int
    queries: NDArray
    rows: NDArray
    distances: NDArray

    def take(self, places: NDArray) -> Neighborhoods:
        """Some of the pairs, in another order."""
        pairs = (self.queries[places], self.rows[places], self.distances[places])
        return Neighborhoods(self.n_queries, *pairs)

    def empty(self) -> NDArray:
        """Queries without any row."""
        return np.flatnonzero(np.bincount(self.queries, minlength=self.n_queries) == 0)

    def votes(
        self,
        radii: Sequence[float],
        Y: NDArray,
        fallback: Votes,
        *,
        weights: str,
        row_weights: NDArray | None,
    ) -> Iterator[Votes]:
        """Votes of the rows within each of some radii.

        Y has shape (n_samples, n_outputs); a query with no row in the ball takes its fallback.
        """
        starts = self._starts()
        nearness = self._nearness(Y, starts)
        for radius in radii:
            reach = radius * (1 + EQUAL[self.distances.dtype])
            inside = reach >= self.distances
            w = self._weights(inside, weights)
            if row_weights is not None:
                w = w * row_weights[self.rows]
            pairs = csr_array((w, self.rows, starts), shape=(self.n_queries, len(Y)))
            total = np.asarray(pairs.sum(1))[:, None]
            values = (pairs @ Y) / np.where(total > 0, total, 1)
            hit = np.bincount(self.queries[inside], minlength=self.n_queries)[:, None] > 0
            near = fallback.nearness.astype(nearness.dtype)
            np.copyto(near, np.where(nearness <= reach, nearness, np.inf), where=hit)
            yield Votes(np.where(hit, values, fallback.values), near)

    def nearest_votes(self, Y: NDArray) -> Votes:
        """Votes of each query's nearest row alone, equal distances by row; none may be empty."""
        lowest = np.minimum.reduceat(self.distances, self._starts()[:-1])
        reach = lowest * (1 + EQUAL[self.distances.dtype])
        tied = self.take(np.flatnonzero(self.distances <= reach[self.queries]))
        first = tied.take(np.lexsort((tied.rows, tied.queries)))
        one = first.take(first._starts()[:-1])
        return vote(
            one.distances[:, None], one.rows[:, None], Y, weights="uniform", row_weights=None
        )

    def _starts(self) -> NDArray:
        """Place of each query's first pair, and the number of pairs."""
        return np.searchsorted(self.queries, np.arange(self.n_queries + 1))

    def _weights(self, inside: NDArray, weights: str) -> NDArray:
        """1, or the inverse distance; a row at distance zero outvotes all others."""
        if weights == "uniform":
            return inside.astype(float)
        exact = self.distances == 0
        outvoted = np.bincount(self.queries[exact], minlength=self.n_queries) > 0
        inverse = 1 / np.where(exact, 1, self.distances.astype(np.float64))
        return inside * np.where(outvoted[self.queries], exact, inverse)

    def _nearness(self, Y: NDArray, starts: NDArray) -> NDArray:
        """Distance of each query's nearest row of each output, infinite for none."""
        out = np.full((self.n_queries, Y.shape[1]), np.inf, dtype=self.distances.dtype)
        some = np.flatnonzero(np.diff(starts))
        for c in range(Y.shape[1] if len(some) else 0):
            D = np.where(Y[self.rows, c] > 0, self.distances, np.inf)
            out[some, c] = np.minimum.reduceat(D, starts[some])
        return out
