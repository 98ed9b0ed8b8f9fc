"""Neighbours among references in blocks: the nearest of each block, merged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop._dask.cluster import delayed, tree
from ejop.neighbors import Balls, Votes, merge_nearest, nearest, vote, within
from ejop.rows import Block


@dataclass
class Found:
    """Candidates of some queries: numbers among all rows, with the targets of the rows.

    Attributes
    ----------
    m : int
        Queries.
    queries : ndarray of shape (n_pairs,)
        Query of each candidate, in order.
    distances : ndarray of shape (n_pairs,)
    rows : ndarray of shape (n_pairs,)
    Y : ndarray of shape (n_pairs, n_outputs)
    w : ndarray of shape (n_pairs,) or None
    """

    m: int
    queries: NDArray
    distances: NDArray
    rows: NDArray
    Y: NDArray
    w: NDArray | None

    def take(self, order: NDArray) -> Found:
        """Some candidates, in another order."""
        w = None if self.w is None else self.w[order]
        pairs = (self.queries[order], self.distances[order], self.rows[order], self.Y[order])
        return Found(self.m, *pairs, w)

    @property
    def per_query(self) -> int:
        """Candidates of each query, where all have as many."""
        return len(self.queries) // max(self.m, 1)


def nearest_in(Z: NDArray, block: Block, k: int) -> Found:
    """The k nearest rows of a block."""
    k = min(k, len(block))
    distances, near = nearest(Z, block.X, k)
    return _found(Z, np.repeat(np.arange(len(Z)), k), near.ravel(), distances.ravel(), block)


def within_in(Z: NDArray, block: Block, radius: float) -> Found:
    """Rows of a block within a radius."""
    balls = within(Z, block.X, radius)
    return _found(Z, balls.queries, balls.rows, balls.distances, block)


def _found(Z: NDArray, queries: NDArray, rows: NDArray, distances: NDArray, block: Block) -> Found:
    w = None if block.w is None else block.w[rows]
    return Found(len(Z), queries, distances, block.index[rows], block.Y[rows], w)


def join_found(parts: list[Found]) -> Found:
    """Candidates of several blocks, by query, then by row."""
    names = ("queries", "distances", "rows", "Y")
    fields = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    weights = [part.w for part in parts if part.w is not None]
    w = np.concatenate(weights) if weights else None
    found = Found(m=parts[0].m, w=w, **fields)
    return found.take(np.lexsort((found.rows, found.queries)))


def merge_found(parts: list[Found], k: int) -> Found:
    """The k nearest of all blocks, equal distances by row number."""
    found = join_found(parts)
    if found.m == 0:
        return found
    shape = (found.m, found.per_query)
    places = merge_nearest(found.distances.reshape(shape), found.rows.reshape(shape), k)
    return found.take((np.arange(found.m)[:, None] * found.per_query + places).ravel())


@dataclass(frozen=True)
class Rule:
    """How neighbours vote; the settings of a fitted predictor.

    Attributes
    ----------
    rule : {"knn", "hnn"}
    k : int
    radius : float
    weights : {"uniform", "distance"}
    prior : ndarray of shape (n_outputs,) or None
        What an empty ball answers; None for its nearest row.
    """

    rule: str
    k: int
    radius: float
    weights: str
    prior: NDArray | None

    def delayed_votes(self, Z: Any, blocks: list[Any]) -> Any:
        """Delayed votes for delayed mapped queries over delayed blocks."""
        k = self.k if self.rule == "knn" else 1
        found = [delayed(nearest_in)(Z, block, k) for block in blocks]
        near = tree(found, partial(merge_found, k=k))
        if self.rule == "knn":
            return delayed(_neighbor_votes)(self, near)
        found = [delayed(within_in)(Z, block, self.radius) for block in blocks]
        return delayed(_ball_votes)(self, tree(found, join_found), near)


def _neighbor_votes(rule: Rule, near: Found) -> Votes:
    return _votes(near, rule.weights, near.w)


def _ball_votes(rule: Rule, balls: Found, near: Found) -> Votes:
    """Votes of all rows in a ball; an empty one answers with its nearest row or the prior."""
    if rule.prior is None:
        fallback = _votes(near, "uniform", None)
    else:
        places = np.tile(np.arange(len(rule.prior), dtype=float), (balls.m, 1))
        fallback = Votes(np.tile(rule.prior, (balls.m, 1)), places)
    pairs = Balls(balls.m, balls.queries, np.arange(len(balls.rows)), balls.distances)
    weights, w = rule.weights, balls.w
    votes = pairs.votes([rule.radius], balls.Y, fallback, weights=weights, row_weights=w)
    return next(votes)


def _votes(near: Found, weights: str, row_weights: NDArray | None) -> Votes:
    distances = near.distances.reshape(near.m, near.per_query)
    places = np.arange(len(near.rows)).reshape(distances.shape)
    if near.m == 0:
        return Votes(near.Y[:0].astype(float), near.Y[:0].astype(float))
    return vote(distances, places, near.Y, weights=weights, row_weights=row_weights)
