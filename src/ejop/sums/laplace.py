"""Sums with Laplace weights exp(-|x - z| / h): a kernel matrix for each shift.

A shift does not factorise, and every row weighs something, so that all distances are moved along
one feature at a time: O(1) a pair, by the centres that kernel ridge has. All of this is in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.arrays import namespace
from ejop.rows import Block
from ejop.sums.form import Cost, Form, Request, derived, divided
from ejop.sums.gaussian import FAR_ROWS, log_weights
from ejop.sums.ridge import EPS, FLOAT64, LOSS_LIMIT, LaplaceCenters
from ejop.sums.weighted import WeightedSums, exponentiate

#: distance of a query's nearest row, in bandwidths, from which differences of distances are taken
#: from the rows: those of the distances themselves would lose too many digits
FAR = 1e4


@dataclass(frozen=True)
class LaplaceTile:
    """Consecutive reference rows.

    Attributes
    ----------
    start, n : int
        First row of the tile among all, and how many.
    centers : LaplaceCenters
    targets : array of shape (n, n_outputs + 1)
        [Y | 1].
    log_w : array of shape (n,), or None
        Logarithms of the weights.
    """

    start: int
    n: int
    centers: LaplaceCenters
    targets: Any
    log_w: Any


@dataclass(frozen=True)
class Apart:
    """How far the rows of a tile are from some queries.

    Attributes
    ----------
    D : array of shape (m, n)
        Squared distances, infinite at rows to leave out.
    first : array of shape (m,)
        The nearest row of each query, which weights are relative to.
    gap : array of shape (m, n), or None
        How much larger each squared distance is than that of the first row, where queries are far.
    """

    D: Any
    first: Any
    gap: Any = None

    def beyond(self) -> tuple[Any, Any]:
        """How much farther each row is than the first (m, n), and how far that is (m, 1)."""
        xp = namespace(self.D)
        r = xp.sqrt(self.D)
        nearest = r[range(len(r)), self.first][:, None]
        nearest = xp.where(xp.isinf(nearest), 0, nearest)
        if self.gap is None:
            r -= nearest
            return r, nearest
        # r_i - r_0 = (r_i^2 - r_0^2) / (r_i + r_0), infinite where r_i is
        total = r + nearest
        inside = (total > 0) & ~xp.isinf(total)
        return xp.where(inside, self.gap / xp.where(inside, total, 1), total), nearest


class LaplaceForm(Form):
    """A smoother with a Laplace kernel, at shifted queries or differentiated."""

    def __init__(self, function: Any, request: Request) -> None:
        super().__init__(function, request)
        self.engine, self.kind = request.engine.precise(), FLOAT64
        self.columns = request.columns(self.d)
        if hasattr(function, "X_"):
            self._tiles = (self.tile(self.whole()),)
        self.notes = (
            "the derivative of the laplace kernel in closed form"
            if request.step is None
            else "a shift of the laplace kernel does not factorise: rows are shifted one feature "
            "at a time",
        )
        n, sides = self.summary.n, 1 if self.step is None else 2 * self.d
        per_query = 8 * (6 * n + 3 * (self.c + 1) * self.columns) * self.engine.copies
        method = "analytic" if request.step is None else "direct"
        flops = n * (2 * self.d + sides * (20 + 2 * self.c))
        name = f"{self.engine.prefix}laplace-{method}"
        self.cost = Cost(name, per_query, 8 * n * (self.d + self.c + 2), 0, flops)

    def suited(self, Q: NDArray) -> Form:
        """For queries far beyond the rows, a form that measures distances pair by pair."""
        if self.request.pairwise or not len(Q):
            return self
        reach = float((np.abs(Q.astype(np.float64) - self.summary.X.mean).max(0) ** 2).sum())
        if EPS * reach / self.function.bandwidth_**2 <= FAR_ROWS * LOSS_LIMIT:
            return self
        return LaplaceForm(self.function, replace(self.request, pairwise=True))

    def tile(self, block: Block) -> LaplaceTile:
        """Rows as centres, with their targets."""
        engine, n = self.engine, len(block)
        h, pairwise = self.function.bandwidth_, self.request.pairwise
        centers = LaplaceCenters.of(engine, block.X, self.summary, h, pairwise=pairwise)
        targets = engine.array(np.c_[block.Y, np.ones(n)], FLOAT64)
        log_w = None if block.w is None else engine.array(log_weights(block.weights), FLOAT64)
        return LaplaceTile(int(block.index[0]) if n else 0, n, centers, targets, log_w)

    def queries(self, Q: NDArray) -> Any:
        """Query rows in float64; each tile knows what it is centred by."""
        return self.engine.array(Q, FLOAT64)

    def sums(self, Q: Any, tile: LaplaceTile, exclude: NDArray | None = None) -> WeightedSums:
        """Sums at shifted queries, each over its own largest weight; or of [z - x | 1]."""
        Q = Q - tile.centers.center
        apart = self._apart(Q, tile, exclude)
        if self.request.step is None:
            K, top = self._weights(apart, tile)
            r = namespace(Q).sqrt(apart.D)
            found = tile.centers.slopes(K, r, Q, tile.targets, None)
            return WeightedSums(found[:-1], found[-1], top)
        sums = self.engine.empty((self.c, len(Q), self.columns), FLOAT64)
        total, tops = (self.engine.empty((len(Q), self.columns), FLOAT64) for _ in range(2))
        for column, (j, t) in enumerate(self._shifts()):
            K, top = self._weights(self._moved(apart, Q, tile, j, t), tile)
            found = K @ tile.targets
            sums[:, :, column], total[:, column] = found[:, :-1].T, found[:, -1]
            tops[:, column] = top[:, 0]
        return WeightedSums(sums, total, tops)

    def _shifts(self) -> Iterator[tuple[int, float]]:
        """Feature and step of each column; values are those at no shift."""
        steps = np.zeros(1) if self.step is None else np.r_[self.step, -self.step]
        return ((column % self.d, float(t)) for column, t in enumerate(steps))

    def _apart(self, Q: Any, tile: LaplaceTile, exclude: NDArray | None) -> Apart:
        centers, Z = tile.centers, tile.centers.Z
        D = centers.distances(Q)
        if exclude is not None:
            own = np.flatnonzero((exclude >= tile.start) & (exclude < tile.start + tile.n))
            D[self.engine.index(own), self.engine.index(exclude[own] - tile.start)] = np.inf
        first = D.argmin(1)
        nearest = D[range(len(D)), first]
        far = nearest > (FAR * centers.h) ** 2
        if not bool((far & ~namespace(D).isinf(nearest)).any()):
            return Apart(D, first)
        gap = namespace(D).zeros_like(D)
        for j in range(self.d):
            z, x = Z[first, j][:, None], Q[:, j : j + 1]
            gap += (z - Z[:, j]) * ((x - z) + (x - Z[:, j]))
        return Apart(D, first, gap)

    def _moved(self, apart: Apart, Q: Any, tile: LaplaceTile, j: int, t: float) -> Apart:
        """The same once the queries have moved by t along feature j."""
        if t == 0:
            return apart
        Z, gap = tile.centers.Z, apart.gap
        if gap is not None:
            gap = gap + 2 * t * (Z[apart.first, j][:, None] - Z[:, j])
        return Apart(tile.centers.moved(apart.D, Q, j, t), apart.first, gap)

    def _weights(self, apart: Apart, tile: LaplaceTile) -> tuple[Any, Any]:
        """Weights (m, n) over the largest of each query, and the logarithm of that, (m, 1)."""
        L, nearest = apart.beyond()
        L /= -tile.centers.h
        if tile.log_w is not None:
            L += tile.log_w
        top = namespace(L).amax(L, 1, keepdims=True)
        return exponentiate(L, top), top - nearest / tile.centers.h

    def means(self, sums: WeightedSums, Q: Any, prior: Callable[[], NDArray]) -> tuple[Any, ...]:
        """Shifted values; values and the Jacobian; or values."""
        if self.request.step is None:
            return derived(self, sums, prior)
        found = divided(self, sums, prior)
        return (found,) if self.step is None else (found[:, :, : self.d], found[:, :, self.d :])
