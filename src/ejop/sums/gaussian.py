"""Sums with Gaussian weights: products over all rows, local sums, streamed tiles, direct sums.

For K = exp(-|x - z|^2 / 2h^2) a shift along one axis factorises:

    K(x +- t e_j, z) = K(x, z) exp(+-t z_j / h^2) * [a factor without z]

and the bracket cancels in a weighted mean. All sums are therefore products of one kernel matrix
with a table of the reference rows: [E | 1/E] with E = exp(t Z / h^2) for differences, [Z | 1] for
the derivative, [1] for values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.arrays import namespace
from ejop.rows import Block, one_hot_labels
from ejop.sums.engine import Engine
from ejop.sums.form import Cost, Form, Request, derived, divided
from ejop.sums.weighted import NO_WEIGHT, WeightedSums, exponentiate

#: largest |t z / h^2| whose exponential keeps full precision in sums
EXPONENT_LIMIT = {np.dtype(np.float32): 40.0, np.dtype(np.float64): 300.0}
#: largest eps * variance / h^2 of products: exponents of most rows are off by so much. The matrix
#: is off by a tenth of that at the most, measured over clusters, heavy tails and dimensions.
LOSS_LIMIT = {np.dtype(np.float32): 5e-4, np.dtype(np.float64): 1e-9}
#: ... and of the few rows that are farthest out, as a multiple
FAR_ROWS = 20
#: logarithm of a query's largest weight above which its exponentials need no rescaling
SAFE = {np.dtype(np.float32): -40.0, np.dtype(np.float64): -400.0}
#: mass that local sums may neglect at a shifted point, as a share of all
NEGLECT = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-12}
#: share of rows kept above which local sums cost more than products over all rows
LOCAL_SHARE = 0.1
#: rows and queries below which products over all rows are quick anyway
LOCAL_ROWS, LOCAL_QUERIES = 2000, 512
#: share of the budget that tables of references may take before they are streamed
TABLE_SHARE = 0.7
#: share of the budget that one tile takes then, and its rows at the least
TILE_SHARE, MIN_TILE = 0.1, 256


def exponential_table(Z: Any, middle: Any, exponents: Any, pad: int = 0) -> Any:
    """[E | 1/E] with E = exp((Z - middle) * exponents), columns of zeros after it."""
    xp, (n, d) = namespace(Z), Z.shape
    table = xp.empty_like(Z, shape=(n, 2 * d)) if xp is np else Z.new_zeros((n, 2 * d + pad))
    E = table[:, :d]
    xp.subtract(Z, middle, out=E)
    E *= exponents
    xp.exp(E, out=E)
    xp.divide(xp.ones_like(E[:1, :1]), E, out=table[:, d : 2 * d])
    return table


def moment_table(engine: Engine, Z: Any, columns: int, pad: int) -> Any:
    """[Z | 1], or [1] where one column is wanted, columns of zeros after it."""
    table = engine.empty((len(Z), columns + pad), Z.dtype)
    table[:] = 0
    table[:, : columns - 1] = Z[:, : columns - 1]
    table[:, columns - 1] = 1
    return table


def log_weights(w: NDArray) -> NDArray:
    """Logarithms of weights, some of which may be zero."""
    with np.errstate(divide="ignore"):
        return np.where(w > 0, np.log(w), NO_WEIGHT)


def sorted_by_class(
    labels: NDArray | None, n: int, c: int, alignment: int
) -> tuple[NDArray, list[slice] | None]:
    """Rows sorted by class, each class filled up with dummies (-1) to a multiple of ``alignment``.

    Products of slices that start at odd addresses take kernels of a card several times slower.
    """
    if labels is None:
        return np.r_[np.arange(n), np.full(-n % alignment, -1)], None
    parts, slices, start = [], [], 0
    for k in range(c):
        rows = np.flatnonzero(labels == k)
        parts.append(np.r_[rows, np.full(-len(rows) % alignment, -1)])
        slices.append(slice(start, start + len(parts[-1])))
        start += len(parts[-1])
    return np.concatenate(parts), slices


@dataclass(frozen=True)
class GaussianTile:
    """Consecutive reference rows, centred and sorted by class.

    Attributes
    ----------
    start, n : int
        First row of the tile among all, and how many.
    Z : array of shape (n_places, n_features)
        The centred rows; places that only fill up a class are zeros.
    lifted : factor of shape (n_features + 2, n_places)
        [Z | log weight - |z|^2 / 2h^2 | 1]^T: [x / h^2 | 1 | -|x|^2 / 2h^2] times it is the
        logarithm of the weighted kernel.
    position : ndarray of shape (n,)
        Place of each row after sorting.
    labels : ndarray of shape (n_places,)
        Class of each row; empty for real targets.
    slices : list of slice or None
        Places of each class; None for real targets.
    Y : array of shape (n_places, n_outputs)
    table : factor of shape (n_places, n_columns)
    log_w : ndarray of shape (n,), or None
        Logarithms of the weights, for rows that are measured as they are.
    offset : array of shape (n_places,), or None
        The same on a device, by place.
    """

    start: int
    n: int
    Z: Any
    lifted: Any
    position: NDArray
    labels: NDArray
    slices: list[slice] | None
    Y: Any
    table: Any
    log_w: Any = None
    offset: Any = None


class GaussianForm(Form):
    """A Gaussian smoother: one product for the kernel, one an output for the shifted sums."""

    def __init__(self, function: Any, request: Request) -> None:
        super().__init__(function, request)
        self.h2 = float(function.bandwidth_) ** 2
        self.kind, reasons = self._sum_type()
        self.columns = request.columns(self.d)
        self.neglect, self.share = 0.0, 1.0
        self.tile_rows: int | None = None
        exponent, limit = self._exponent(), EXPONENT_LIMIT[self.kind]
        self.pairwise = request.pairwise or self._loses(self.kind)
        self.direct = self.pairwise or exponent > limit
        if self.pairwise:
            reasons.append(
                f"the bandwidth is too small against the range for products in {self.kind}: "
                "distances are measured pair by pair"
            )
        elif self.direct:
            reasons.append(
                f"exponents reach {exponent:.3g}, beyond {limit:g} for {self.kind}: "
                "rows are shifted one feature at a time"
            )
        elif self.step is not None:
            reasons.append(f"exponents reach {exponent:.3g}, under {limit:g}")
        center = self.summary.center
        self.center = self.engine.array(0 * center if self.pairwise else center, self.kind)
        self.middle = self.engine.array(self.summary.middle - self.summary.center, self.kind)
        if self.step is not None:
            self.tilts = self.engine.array(self.step / self.h2, self.kind)
        if hasattr(function, "X_"):
            self._place(exponent, reasons)
        self.notes = tuple(reasons)
        self.cost = self._cost()

    # choosing -----------------------------------------------------------------------------------

    def _sum_type(self) -> tuple[np.dtype, list[str]]:
        """float64 for float32 data whose distances or exponents float32 cannot hold."""
        engine = self.engine
        kind, single = engine.kind(self.summary.dtype), np.dtype(np.float32)
        beyond = kind == single and self._exponent() > EXPONENT_LIMIT[kind] and not engine.on_device
        if kind != single or not (beyond or self._loses(kind)):
            return kind, []
        self.engine = engine.precise()
        if self.engine.kind(np.dtype(np.float64)) == single:
            raise ValueError(
                f"the bandwidth, {np.sqrt(self.h2):.3g}, is too small against the range of `X` for "
                f"float32, and {engine.describe()} has no other type; raise `bandwidth`, scale "
                "the columns, or use device=None."
            )
        return np.dtype(np.float64), [
            "sums in float64: the bandwidth is too small against the range for float32"
        ]

    def _loses(self, kind: np.dtype) -> bool:
        """Whether products lose too many digits of |x - z|^2 / h^2."""
        X, limit = self.summary.X, LOSS_LIMIT[kind] * self.engine.coarseness
        unit = float(np.finfo(kind).eps) / self.h2
        return unit * X.variance.sum() > limit or self._reach(X.low, X.high) * unit > (
            FAR_ROWS * limit
        )

    def _reach(self, low: NDArray, high: NDArray) -> float:
        """Squared distance from the centre to the farthest corner of a box."""
        center = self.summary.X.mean
        return float((np.maximum(high - center, center - low) ** 2).sum())

    def suited(self, Q: NDArray) -> Form:
        """For queries far beyond the rows, a form that measures distances pair by pair."""
        if self.direct or self.engine.on_device or not len(Q):
            return self
        reach = self._reach(Q.min(0).astype(np.float64), Q.max(0).astype(np.float64))
        if np.finfo(self.kind).eps * reach / self.h2 <= FAR_ROWS * LOSS_LIMIT[self.kind]:
            return self
        return GaussianForm(self.function, replace(self.request, pairwise=True))

    def _exponent(self) -> float:
        """Largest |t_j x_ij / h^2| once each column is centred at its mid-range."""
        if self.step is None:
            return 0.0
        reach = (self.summary.X.high.astype(np.float64) - self.summary.X.low) / 2
        return float((self.step * reach).max() / self.h2)

    def _place(self, exponent: float, reasons: list[str]) -> None:
        """Hold the rows as one tile, or stream them; look whether few of them are enough."""
        n, budget = len(self.function.X_), self.request.budget or 0
        width = (self.d + (0 if self.direct else self.columns)) * self.kind.itemsize
        streams = budget > 0 and n * width > TABLE_SHARE * budget
        if streams and not self.direct and not self.engine.on_device:
            self.tile_rows = max(MIN_TILE, int(TILE_SHARE * budget / (width + 2)))
            reasons.append(f"references are streamed in tiles of {self.tile_rows} rows")
            return
        self._tiles = (self.tile(self.whole()),)
        many = n >= LOCAL_ROWS and self.request.n_queries >= LOCAL_QUERIES
        if many and not self.direct and not self.engine.on_device:
            self._try_local(NEGLECT[self.kind] * np.exp(-2 * exponent), reasons)

    def _try_local(self, neglect: float, reasons: list[str]) -> None:
        """Sum over few rows where a look at some queries says that few hold nearly all weight.

        Weights at a shifted point differ from those at x by factors within exp(+-A), A the
        largest exponent, so dropping a share of the mass at x drops at most exp(2A) times that
        share there; ``neglect`` allows for it.
        """
        n = len(self.function.X_)
        rows = np.unique(np.linspace(0, n - 1, 64).astype(int))
        (tile,) = self._tiles
        L = self.log_kernel(self.queries(self.function.X_[rows]), tile, rows)
        share = float(cut(exponentiate(L, L.max(1, keepdims=True)), neglect)[1].mean()) / n
        if share > LOCAL_SHARE:
            return
        self.neglect, self.share = neglect, share
        reasons.append(
            f"{share:.1%} of the rows hold all but {NEGLECT[self.kind]:.0e} of the weight at every "
            "shifted point, and only they are summed"
        )

    def _cost(self) -> Cost:
        n, size = self.summary.n, self.kind.itemsize
        rows = self.tile_rows or n
        per_query = (2 * rows + 3 * (self.c + 1) * self.columns) * size * self.engine.copies
        tables = rows * (self.d + (0 if self.direct else self.columns)) * size
        name = f"{self.engine.prefix}gaussian"
        if self.measures:
            return Cost(
                f"{name}-direct", 32 * (self.c + 1) * self.columns, 0, 40 * n, 9 * n * self.d
            )
        if self.direct:
            return Cost(f"{name}-direct", 2 * per_query, tables, 0, 9 * n * self.d)
        fixed, each = (tables, 0) if self.tile_rows is None else (0, tables)
        sums = 2 * self.columns * (1 if self.neglect == 0 else 7 * self.share)
        flops = int((2 * self.d + sums) * n)
        method = "local" if self.neglect > 0 else "analytic" if self.step is None else "product"
        return Cost(f"{name}-{method}", per_query, fixed, each, flops)

    # tiles --------------------------------------------------------------------------------------

    def tiles(self) -> Iterator[GaussianTile]:
        """The references, as one tile or read again a piece at a time."""
        if self.tile_rows is None:
            yield from self._tiles
            return
        whole = self.whole()
        for start in range(0, len(whole), self.tile_rows):
            yield self.tile(whole.rows(slice(start, start + self.tile_rows)))

    def tile(self, block: Block) -> GaussianTile:
        """Rows sorted by class with the table of their sums, on the engine."""
        engine, kind, n, d = self.engine, self.kind, len(block), self.d
        labels = one_hot_labels(block.Y) if self.summary.one_hot else None
        if self.measures:
            return self._as_they_are(block, labels)
        order, slices = sorted_by_class(labels, n, self.c, engine.alignment)
        real = order >= 0
        position = np.empty(n, dtype=np.int64)
        position[order[real]] = np.flatnonzero(real)
        places, dummies = engine.index(np.maximum(order, 0)), engine.index(np.flatnonzero(~real))
        lifted = engine.empty((len(order), d + 2 + -(d + 2) % engine.alignment), kind)
        lifted[:, d:] = 0
        Z = lifted[:, :d]
        Z[:] = self.queries(block.X)[places]
        xp = namespace(lifted)
        offset = xp.einsum("nd,nd->n", Z, Z) / (-2 * self.h2)
        if self.pairwise:
            offset *= 0  # the logarithms of the weights alone
        if block.w is not None:
            offset += engine.array(log_weights(block.w), kind)[places]
        Y = engine.array(block.Y, kind)[places]
        Z[dummies], Y[dummies], offset[dummies] = 0, 0, NO_WEIGHT
        lifted[:, d], lifted[:, d + 1] = offset, 1
        table = None if self.direct else engine.factor(self._table(Z))
        sorted_labels = np.empty(0, dtype=np.int64) if labels is None else labels[order[real]]
        start = int(block.index[0]) if n else 0
        return GaussianTile(
            start,
            n,
            Z,
            engine.factor(lifted.T, exact=True),
            position,
            sorted_labels,
            slices,
            Y,
            table,
            offset=offset if self.pairwise else None,
        )

    @property
    def measures(self) -> bool:
        """Whether distances are measured pair by pair, from rows as they are."""
        return self.direct and not self.engine.on_device

    def _as_they_are(self, block: Block, labels: NDArray | None) -> GaussianTile:
        """Rows in their own order and type, without a copy."""
        n = len(block)
        start = int(block.index[0]) if n else 0
        labels = np.empty(0, dtype=np.int64) if labels is None else labels
        log_w = np.zeros(n) if block.w is None else log_weights(block.w)
        return GaussianTile(
            start, n, block.X, None, np.arange(n), labels, None, block.Y, None, log_w
        )

    def _table(self, Z: Any) -> Any:
        """[E | 1/E], [Z | 1] or [1], columns filled up to a multiple of the alignment."""
        pad = -self.columns % self.engine.alignment
        if self.step is not None:
            return exponential_table(Z, self.middle, self.tilts, pad)
        return moment_table(self.engine, Z, self.columns, pad)

    # sums ---------------------------------------------------------------------------------------

    def queries(self, Q: NDArray) -> Any:
        """Query rows centred, in the type of the sums; as they are where distances are measured."""
        if self.measures:
            return np.ascontiguousarray(Q)
        if Q.dtype.itemsize > self.kind.itemsize and not self.pairwise:
            return self.engine.array(Q - self.summary.center, self.kind)  # before it is rounded
        return self.engine.array(Q, self.kind) - self.center

    def _own_queries(self, rows: NDArray) -> Any:
        if self.engine.on_device:  # they are there already
            (tile,) = self._tiles
            return tile.Z[self.engine.index(tile.position[rows])]
        return super()._own_queries(rows)

    def log_kernel(self, Q: Any, tile: GaussianTile, exclude: NDArray | None) -> Any:
        """log K(x, z) + log weight for centred queries, (m, n_places)."""
        d = self.d
        if self.pairwise:
            L = self.engine.measured(Q, tile.Z)
            L /= -2 * self.h2
            L += tile.offset
            return self._without_own(L, tile, exclude)
        lifted = self.engine.empty((len(Q), tile.lifted.shape[0]), self.kind)
        lifted[:, d:] = 0
        lifted[:, :d] = Q
        lifted[:, :d] /= self.h2
        lifted[:, d] = 1
        lifted[:, d + 1] = namespace(Q).einsum("md,md->m", Q, Q) / (-2 * self.h2)
        L = self.engine.product(lifted, tile.lifted, exact=True)
        return self._without_own(L, tile, exclude)

    def _without_own(self, L: Any, tile: GaussianTile, exclude: NDArray | None) -> Any:
        if exclude is not None:
            own = np.flatnonzero((exclude >= tile.start) & (exclude < tile.start + tile.n))
            places = tile.position[exclude[own] - tile.start]
            L[self.engine.index(own), self.engine.index(places)] = -np.inf
        return L

    def sums(self, Q: Any, tile: GaussianTile, exclude: NDArray | None = None) -> WeightedSums:
        """Weighted sums of the table, by output and in total, up to a factor of each query."""
        if self.measures:
            return self._measured_sums(Q, tile, exclude)
        L = self.log_kernel(Q, tile, exclude)
        if self.direct:
            return self._direct_sums(L, Q, tile)
        xp = namespace(L)
        top = xp.amax(L, 1, keepdims=True)
        if self.tile_rows is None and self.neglect == 0 and float(top.min()) > SAFE[self.kind]:
            K = xp.exp(L, out=L)  # no weight that counts can underflow
            top = xp.zeros_like(top)
        else:
            K = exponentiate(L, top)
        products = self._sparse_products if self.neglect > 0 else self._products
        sums, total = products(K, tile)
        return WeightedSums(sums, total, top)

    def _measured_sums(
        self, Q: NDArray, tile: GaussianTile, exclude: NDArray | None
    ) -> WeightedSums:
        """The same sums from distances measured pair by pair: safe for any step and scale."""
        from ejop.sums.measured import gaussian_sums

        skip = np.full(len(Q), -1) if exclude is None else exclude - tile.start
        tilts = None if self.step is None else self.tilts
        rows = (tile.Z, tile.log_w, tile.labels, tile.Y, skip)
        return WeightedSums(*gaussian_sums(Q, *rows, self.h2, tilts, self.columns, NO_WEIGHT))

    def _products(self, K: Any, tile: GaussianTile) -> tuple[Any, Any]:
        """One matrix product per output; with classes the total is their sum."""
        engine = self.engine
        sums = engine.empty((self.c, len(K), tile.table.shape[1]), self.kind)
        for k in range(self.c):
            if tile.slices is not None:
                part = tile.slices[k]
                engine.product(K[:, part], tile.table[part], out=sums[k])
            else:
                engine.product(K * tile.Y[:, k], tile.table, out=sums[k])
        total = sums.sum(0) if tile.slices is not None else engine.product(K, tile.table)
        return sums[:, :, : self.columns], total[:, : self.columns]

    def _sparse_products(self, K: NDArray, tile: GaussianTile) -> tuple[NDArray, NDArray]:
        """The same sums over the rows that hold all but ``neglect`` of each query's weight."""
        from ejop.sums.compiled import sparse_products

        cutoffs, _, _ = cut(K, self.neglect)
        sums = np.zeros((self.c, len(K), self.columns), dtype=K.dtype)
        total = np.zeros(sums.shape[1:], dtype=K.dtype)
        sparse_products(K, cutoffs, tile.table, tile.labels, tile.Y, sums, total)
        return sums, (sums.sum(0) if tile.slices is not None else total)

    def _direct_sums(self, L: Any, Q: Any, tile: GaussianTile) -> WeightedSums:
        """Sums on a device one feature at a time, in the log domain: safe for any step."""
        d, m = self.d, len(L)
        xp = namespace(L)
        if self.step is None:
            return self._direct_moments(L, Q, tile)
        sums = self.engine.empty((self.c, m, 2 * d), self.kind)
        total, top = (self.engine.empty((m, 2 * d), self.kind) for _ in range(2))
        for j in range(d):
            tilt = (tile.Z[:, j] - Q[:, j : j + 1]) * self.tilts[j]
            for column, sign in ((j, 1), (d + j, -1)):
                K = L + sign * tilt
                peak = xp.amax(K, 1, keepdims=True)
                exponentiate(K, peak)
                sums[:, :, column] = (K @ tile.Y).T
                total[:, column], top[:, column] = K.sum(1), peak[:, 0]
        return WeightedSums(sums, total, top)

    def _direct_moments(self, L: Any, Q: Any, tile: GaussianTile) -> WeightedSums:
        """Sums of [z - x | 1], or of [1], one feature at a time."""
        top = namespace(L).amax(L, 1, keepdims=True)
        K = exponentiate(L, top)
        sums = self.engine.empty((self.c, len(K), self.columns), self.kind)
        total = self.engine.empty((len(K), self.columns), self.kind)
        sums[:, :, -1], total[:, -1] = (K @ tile.Y).T, K.sum(1)
        for j in range(self.columns - 1):
            moment = K * (tile.Z[:, j] - Q[:, j : j + 1])
            sums[:, :, j], total[:, j] = (moment @ tile.Y).T, moment.sum(1)
        return WeightedSums(sums, total, top)

    def means(self, sums: WeightedSums, Q: Any, prior: Callable[[], NDArray]) -> tuple[Any, ...]:
        """Shifted values; or values and (sum w Y z - f sum w z) / h^2, w the normalised weights."""
        if self.request.step is None:
            values, J = derived(self, sums, prior)
            J /= self.h2
            return values, J
        found = divided(self, sums, prior)
        return (found,) if self.step is None else (found[:, :, : self.d], found[:, :, self.d :])


def cut(K: NDArray, neglect: float) -> tuple[NDArray, NDArray, float]:
    """Each query's smallest weight worth summing, how many reach it, largest share dropped.

    Row maxima of the weights K are 1; all weights below the smallest hold at most ``neglect``.
    """
    from ejop.sums.compiled import weight_cutoffs

    cutoffs, kept = np.empty(len(K), dtype=K.dtype), np.empty(len(K), dtype=np.int64)
    bits, shift, bias = (np.int32, 23, 127) if K.itemsize == 4 else (np.int64, 52, 1023)
    dropped = weight_cutoffs(K, K.view(bits), shift, bias, neglect, cutoffs, kept)
    return cutoffs, kept, dropped
