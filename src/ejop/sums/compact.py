"""Sums over few rows: those within reach of a compact kernel, and the k nearest.

A shift by t moves a squared distance by at most t^2 plus a bound that the ranges of the columns
give, so that the rows that any shift can bring within reach are found once for all shifts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.arrays import namespace
from ejop.rows import Block
from ejop.sums.form import Cost, Form, Request, divided
from ejop.sums.weighted import WeightedSums


class PairForm(Form):
    """Base of the forms that look at pairs of a query and a row near to it."""

    method: str
    #: numbers a thread keeps for every row while it looks at one query
    scratch = 0

    def __init__(self, function: Any, request: Request) -> None:
        super().__init__(function, request)
        self.kind = self.engine.kind(np.dtype(np.float64))
        # a row on the rim may weigh what rounding leaves of nothing
        self.no_mass = 1e-30 * self.summary.weight / self.summary.n
        # Values are sums at a shift of nothing, along the first feature.
        self.shifts = np.zeros(1) if self.step is None else self.step
        self.farthest = float(self.shifts.max())
        self.steps = self.engine.array(self.shifts, self.kind)
        if hasattr(function, "X_"):
            self._tiles = (self.tile(self.whole()),)
        note = self._tiles[0].note if self._tiles else ""
        self.notes = (self._why(), *([note] if note else []))
        self.cost = self._cost()

    def _why(self) -> str:
        raise NotImplementedError

    def _cost(self) -> Cost:
        n, size, s = self.summary.n, self.summary.dtype.itemsize, len(self.shifts)
        per_query = n * (2 * size + 1) * self.engine.copies + 4 * (self.c + 1) * s * 8
        if self.engine.on_device:
            per_query += 24 * n  # pairs
        scratch = (n * self.scratch + 4096 * (self.d + 1)) * 8
        name = f"{self.engine.prefix}{self.method}"
        return Cost(name, per_query, 0, scratch, 10 * n * s)

    def tile(self, block: Block) -> Any:
        """Rows that give distances and sums."""
        return self.engine.pairs(block, self.summary)

    def queries(self, Q: NDArray) -> Any:
        """Query rows as the tiles hold theirs."""
        return self.engine.pair_queries(Q, self.summary)

    def _own_queries(self, rows: NDArray) -> Any:
        return self._tiles[0].X[self.engine.index(rows)]

    def shift_bound(self, Q: Any, tile: Any) -> Any:
        """The most that a shift changes |q - x|^2 - t^2, for any row, (m,)."""
        xp, s = namespace(Q), len(self.shifts)
        reach = xp.maximum(Q[:, :s] - tile.low[:s], tile.high[:s] - Q[:, :s])
        return xp.amax(2 * self.steps * reach, 1)

    def means(self, sums: WeightedSums, Q: Any, prior: Callable[[], NDArray]) -> tuple[Any, ...]:
        """Values at both shifts, or values."""
        found, s = divided(self, sums, prior), len(self.shifts)
        return (found[:, :, :s],) if self.step is None else (found[:, :, :s], found[:, :, s:])


class CompactForm(PairForm):
    """A smoother with a compact kernel: sums over the rows within reach."""

    method = "compact"

    def _why(self) -> str:
        return f"the {self.function.kernel} kernel is compact: only rows within reach are summed"

    def sums(self, Q: Any, tile: Any, exclude: NDArray | None = None) -> WeightedSums:
        """Sums at both shifts; no scaling is needed where weights are at most 1."""
        h = float(self.function.bandwidth_)
        # |x +- t e_j - x_i| <= h needs |x - x_i| <= h + t, and |x - x_i|^2 <= h^2 + the shift.
        reach = (h**2 + self.shift_bound(Q, tile)).clip(max=(h + self.farthest) ** 2)
        D = tile.squared_distances(Q, exclude)
        near = self.engine.like(tile.allowing(reach), D)[:, None] >= D
        kernel = self.function.kernel_rule
        return WeightedSums(*tile.compact_sums(Q, near, D, self.shifts, h, kernel))

    def masses(self, Q: NDArray, exclude: NDArray | None = None) -> NDArray:
        """Sums of kernel weights at both shifts, (2, m, n_features)."""
        Q = self.queries(np.asarray(Q))
        total = self._total(Q, exclude).total
        return np.stack(np.split(self.engine.to_host(total), 2, axis=1))


class NearestForm(PairForm):
    """The mean of the k nearest rows: candidates once, ranked again for every shift.

    The distance to the k-th neighbour changes by at most t when a point moves by t, so the k
    nearest of every shifted point lie within r_k + 2t of x, and within r_k^2 plus twice what a
    shift can change.
    """

    method, scratch = "neighbors", 24

    def _why(self) -> str:
        k = self.function.n_neighbors
        return f"the {k} nearest of each shifted point are among one set of candidates"

    def sums(self, Q: Any, tile: Any, exclude: NDArray | None = None) -> WeightedSums:
        """Sums over the k nearest rows of each shifted query; sums over tiles do not merge."""
        k, xp = int(self.function.n_neighbors), namespace(Q)
        D = tile.squared_distances(Q, exclude)
        values, first = tile.smallest(D, k)
        kth = tile.allowing(self.engine.array(xp.amax(values, 1).clip(min=0), self.kind))
        bound = kth + 2 * self.shift_bound(Q, tile)
        far = tile.allowing(xp.minimum((xp.sqrt(kth) + 2 * self.farthest) ** 2, bound))
        near = self.engine.like(far, D)[:, None] >= D
        return WeightedSums(*tile.nearest_sums(Q, near, first, self.shifts, k))
