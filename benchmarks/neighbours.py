"""Compact kernels and k nearest neighbours against scikit-learn's neighbour queries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from benchmarks.common import Goal, Row, interleaved
from benchmarks.data import blobs, shape
from benchmarks.gaussian import agreement
from benchmarks.peers import Values, ball_votes, neighbor_votes, shifted_outer_product
from ejop import EJOP


def compact(*, n: int, d: int) -> list[Row]:
    """The mean over a ball, its radius chosen beforehand for both."""
    X, y = blobs(n, d)
    chosen = EJOP("ball", random_state=0).fit(X, y)  # also compiles
    h, t = chosen.bandwidth_, float(chosen.step_)
    estimator = EJOP("ball", bandwidth=h, step=t)
    rows = _compare("compact", "radius_neighbors", estimator, X, y, ball_votes(X, y, h, t))
    within = np.mean([len(row) for row in NearestNeighbors(radius=h).fit(X).radius_neighbors()[1]])
    rows[0].remark = f"{within:.0f} rows within the radius on average"
    return rows


def knn(*, n: int, d: int) -> list[Row]:
    """The mean over the k nearest rows."""
    X, y = blobs(n, d)
    chosen = EJOP("knn").fit(X, y)  # also compiles
    estimator = EJOP("knn", step=float(chosen.step_))
    values = neighbor_votes(X, y, estimator.n_neighbors)
    return _compare("knn", "kneighbors", estimator, X, y, values)


def _compare(
    name: str, query: str, estimator: Any, X: NDArray, y: NDArray, values: Values
) -> list[Row]:
    seconds, results = interleaved(
        3,
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
    return [row, agreement(row, results["ours"].metric_, results["peer"])]
