"""Compact kernels and k nearest neighbours against scikit-learn's neighbour queries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import Goal, Row, interleaved
from benchmarks.data import blobs, shape, usps
from benchmarks.gaussian import agreement
from benchmarks.peers import Values, ball_votes, neighbor_votes, shifted_outer_product
from ejop import EJOP


def compact(*, n: int, low: int, repeat: int) -> list[Row]:
    """The mean over a ball, its radius chosen beforehand for both."""
    rows = []
    for X, y, remark in _rows(n, low):
        chosen = EJOP("ball", random_state=0).fit(X, y)  # also compiles
        h, t = chosen.bandwidth_, float(chosen.step_)
        estimator = EJOP("ball", bandwidth=h, step=t)
        values = ball_votes(X, y, h, t)
        found = _compare("compact", "radius_neighbors", estimator, X, y, values, repeat)
        found[0].remark = remark
        rows += found
    return rows


def knn(*, n: int, low: int, repeat: int) -> list[Row]:
    """The mean over the k nearest rows."""
    rows = []
    for X, y, remark in _rows(n, low):
        chosen = EJOP("knn").fit(X, y)  # also compiles
        estimator = EJOP("knn", step=float(chosen.step_))
        values = neighbor_votes(X, y, estimator.n_neighbors)
        found = _compare("knn", "kneighbors", estimator, X, y, values, repeat)
        found[0].remark = remark
        rows += found
    return rows


def _rows(n: int, low: int) -> list[tuple[NDArray, NDArray, str]]:
    """USPS, and blobs of few features: the peer's 2d passes are then few and cheap."""
    (X, y), remark = usps(n)
    return [(X.astype(np.float64), y, remark), (*blobs(low, 16), "few features")]


def _compare(
    name: str,
    query: str,
    estimator: Any,
    X: NDArray,
    y: NDArray,
    values: Values,
    repeat: int,
) -> list[Row]:
    seconds, results = interleaved(
        repeat,
        {
            "ours": lambda: estimator.fit(X, y),
            "peer": lambda: shifted_outer_product(values, X, estimator.step),
        },
    )
    row = Row(
        name,
        f"peer: 2d = {2 * X.shape[1]} shifted calls of scikit-learn's {query}",
        shape(X, y),
        seconds["ours"],
        seconds["peer"],
        goal=Goal(">=", 20),
        plan=str(results["ours"].plan_),
    )
    row.ratio = row.peer_seconds / row.ours_seconds
    return [row, agreement(row, results["ours"].outer_product_, results["peer"])]
