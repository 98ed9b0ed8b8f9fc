"""Sums with Gaussian weights over reference rows: products, local sums, streamed tiles.

For K = exp(-|x - z|^2 / 2h^2) a shift along one axis factorises:

    K(x +- t e_j, z) = K(x, z) exp(+-t z_j / h^2) * [a factor without z]

and the bracket cancels in a weighted mean. All sums are therefore products of one kernel matrix
with a table of the reference rows: [E | 1/E] with E = exp(t Z / h^2) for differences, [Z | 1] for
the derivative, [1] for values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: largest |t z / h^2| whose exponential keeps full precision in sums
EXPONENT_LIMIT = {np.dtype(np.float32): 40.0, np.dtype(np.float64): 300.0}
#: logarithm of a query's largest weight above which its exponentials need no rescaling
SAFE = {np.dtype(np.float32): -40.0, np.dtype(np.float64): -400.0}
#: mass that local sums may neglect at a shifted point, as a share of all
NEGLECT = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-12}


def exponential_table(Z: NDArray, middle: NDArray, step: NDArray, bandwidth: float) -> NDArray:
    """[E | 1/E] with E = exp(t (Z - middle) / h^2), in the dtype of Z."""
    d = Z.shape[1]
    table = np.empty((len(Z), 2 * d), dtype=Z.dtype)
    E = np.subtract(Z, middle, out=table[:, :d])
    E *= (step / bandwidth**2).astype(Z.dtype)
    np.exp(E, out=E)
    np.divide(1, E, out=table[:, d:])
    return table


def exponentiate(L: NDArray, top: NDArray) -> NDArray:
    """exp(L - top), in place; where top is -inf the row becomes zeros."""
    np.subtract(L, np.where(np.isneginf(top), 0, top), out=L)
    return np.exp(L, out=L)


@dataclass
class WeightedSums:
    """Un-normalised sums over some reference rows; those over other rows merge.

    Attributes
    ----------
    sums : ndarray of shape (n_outputs, m, n_columns)
        sum_i K_qi Y_ic table_ij over exp(top).
    total : ndarray of shape (m, n_columns)
        sum_i K_qi table_ij over exp(top); zero where no row weighs anything.
    top : ndarray of shape (m, 1) or (m, n_columns), or None
        Logarithm of the factor that the sums were divided by; None for none.
    """

    sums: NDArray
    total: NDArray
    top: NDArray | None = None

    def merge(self, other: WeightedSums) -> WeightedSums:
        """Sums over both sets of rows: the side with the smaller weights is scaled down."""
        if self.top is None or other.top is None:
            return WeightedSums(self.sums + other.sums, self.total + other.total)
        top = np.maximum(self.top, other.top)
        reference = np.where(np.isneginf(top), 0, top)
        mine, theirs = np.exp(self.top - reference), np.exp(other.top - reference)
        sums = self.sums * mine
        sums += other.sums * theirs
        return WeightedSums(sums, self.total * mine + other.total * theirs, top)

    def __getitem__(self, rows: slice) -> WeightedSums:
        """The sums of some queries."""
        top = None if self.top is None else self.top[rows]
        return WeightedSums(self.sums[:, rows], self.total[rows], top)

    @staticmethod
    def join(parts: list[WeightedSums]) -> WeightedSums:
        """Sums of other queries, one set after another."""
        tops = [part.top for part in parts if part.top is not None]
        return WeightedSums(
            np.concatenate([part.sums for part in parts], axis=1),
            np.concatenate([part.total for part in parts]),
            np.concatenate(tops) if tops else None,
        )


@dataclass
class Tile:
    """Consecutive reference rows, centred and sorted by class.

    Attributes
    ----------
    start : int
        First row of the tile among all.
    lifted : ndarray of shape (n_rows, n_features + 2)
        [Z | log weight - |z|^2 / 2h^2 | 1]: one product with [x / h^2 | 1 | -|x|^2 / 2h^2] is the
        logarithm of the weighted kernel.
    position : ndarray of shape (n_rows,)
        Place of each row after sorting.
    labels : ndarray of shape (n_rows,)
        Class of each row; empty for real targets.
    slices : list of slice or None
        Rows of each class; None for real targets.
    Y : ndarray of shape (n_rows, n_outputs)
    """

    start: int
    lifted: NDArray
    position: NDArray
    labels: NDArray
    slices: list[slice] | None
    Y: NDArray

    @property
    def Z(self) -> NDArray:
        """The centred rows, (n_rows, n_features)."""
        return self.lifted[:, :-2]


class GaussianReferences:
    """Reference rows of a Gaussian smoother, whole or as a stream of tiles.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        May be a memory map; it is read tile by tile when ``tile_rows`` is given.
    Y : ndarray of shape (n_samples, n_outputs)
    labels : ndarray of shape (n_samples,) or None
        Classes where Y is one-hot.
    weights : ndarray of shape (n_samples,) or None
    bandwidth : float
    center : ndarray of shape (n_features,)
    dtype : dtype
        Type of the sums.
    tile_rows : int or None
        Rows held in memory at a time; None for all.
    neglect : float, default=0
        Share of a query's weight that may be dropped. Above 0 the sums run over the rows that
        hold the rest only.
    """

    def __init__(
        self,
        X: NDArray,
        Y: NDArray,
        labels: NDArray | None,
        weights: NDArray | None,
        *,
        bandwidth: float,
        center: NDArray,
        dtype: np.dtype,
        tile_rows: int | None = None,
        neglect: float = 0.0,
    ) -> None:
        self.X, self.Y, self.labels, self.weights = X, Y, labels, weights
        self.bandwidth, self.center, self.dtype = bandwidth, center, np.dtype(dtype)
        self.tile_rows, self.neglect = tile_rows, neglect
        self._whole = self._tile(0, len(X)) if tile_rows is None else None

    def tiles(self) -> Iterator[Tile]:
        """The rows, as one tile or several."""
        if self._whole is not None:
            yield self._whole
        else:
            assert self.tile_rows is not None
            for start in range(0, len(self.X), self.tile_rows):
                yield self._tile(start, min(start + self.tile_rows, len(self.X)))

    @property
    def whole(self) -> Tile:
        """The single tile of references that are held in memory."""
        assert self._whole is not None
        return self._whole

    def _tile(self, start: int, stop: int) -> Tile:
        rows = slice(start, stop)
        order, slices = np.arange(stop - start), None
        labels = np.empty(0, dtype=np.int64)
        if self.labels is not None:
            order = np.argsort(self.labels[rows], kind="stable")
            labels = self.labels[rows][order]
            ends = np.cumsum(np.bincount(labels, minlength=self.Y.shape[1]))
            slices = [slice(a, b) for a, b in zip(np.r_[0, ends[:-1]], ends, strict=True)]
        position = np.empty_like(order)
        position[order] = np.arange(len(order))
        lifted = np.ones((stop - start, self.X.shape[1] + 2), dtype=self.dtype)
        Z = np.subtract(self.X[rows][order], self.center, out=lifted[:, :-2], casting="same_kind")
        lifted[:, -2] = np.einsum("nd,nd->n", Z, Z) / (-2 * self.bandwidth**2)
        if self.weights is not None:
            lifted[:, -2] += np.log(self.weights[rows][order])
        Y = self.Y[rows][order].astype(self.dtype, copy=False)
        return Tile(start, lifted, position, labels, slices, Y)

    def queries(self, Q: NDArray) -> NDArray:
        """Query rows centred, in the type of the sums."""
        return (np.asarray(Q) - self.center).astype(self.dtype, copy=False)

    def log_kernel(self, tile: Tile, Q: NDArray, exclude: NDArray | None) -> NDArray:
        """log K(x, z) + log weight for centred queries, (m, n_rows)."""
        lifted = np.ones((len(Q), Q.shape[1] + 2), dtype=self.dtype)
        np.divide(Q, self.bandwidth**2, out=lifted[:, :-2], casting="same_kind")
        lifted[:, -1] = np.einsum("md,md->m", Q, Q) / (-2 * self.bandwidth**2)
        L = lifted @ tile.lifted.T
        if exclude is not None:
            own = np.flatnonzero((exclude >= tile.start) & (exclude < tile.start + len(tile.Z)))
            L[own, tile.position[exclude[own] - tile.start]] = -np.inf
        return L

    def sums(
        self, Q: NDArray, table: Callable[[Tile], NDArray], exclude: NDArray | None
    ) -> WeightedSums:
        """Weighted sums of a table, by output and in total, up to a factor of each query.

        Tiles are merged in the log domain: when a tile brings a larger weight, the sums so far
        are scaled down.

        Parameters
        ----------
        Q : ndarray of shape (m, n_features)
            Centred queries.
        table : callable
            Table of a tile, (n_rows, n_columns).
        exclude : ndarray of shape (m,) or None

        Returns
        -------
        sums : WeightedSums
        """
        top = np.full((len(Q), 1), -np.inf, dtype=self.dtype)
        sums = total = None
        for tile in self.tiles():
            columns = table(tile)
            L = self.log_kernel(tile, Q, exclude)
            peak = np.maximum(top, L.max(1, keepdims=True))
            if self._whole is not None and self.neglect == 0 and peak.min() > SAFE[self.dtype]:
                K = np.exp(L, out=L)  # no weight that counts can underflow
                peak = np.zeros_like(peak)
            else:
                K = exponentiate(L, peak)
            products = self._sparse_products if self.neglect > 0 else self._products
            new, new_total = products(K, tile, columns)
            if sums is None or total is None:
                sums, total = new, new_total
            else:
                fade = np.exp(top - np.where(np.isneginf(peak), 0, peak))
                sums *= fade
                sums += new
                total *= fade
                total += new_total
            top = peak
        assert sums is not None
        assert total is not None
        return WeightedSums(sums, total, top)

    def _products(self, K: NDArray, tile: Tile, columns: NDArray) -> tuple[NDArray, NDArray]:
        """One matrix product per output; with classes the total is their sum."""
        c = self.Y.shape[1]
        sums = np.empty((c, len(K), columns.shape[1]), dtype=K.dtype)
        for k in range(c):
            if tile.slices is not None:
                np.matmul(K[:, tile.slices[k]], columns[tile.slices[k]], out=sums[k])
            else:
                np.matmul(K * tile.Y[:, k], columns, out=sums[k])
        return sums, (sums.sum(0) if tile.slices is not None else K @ columns)

    def _sparse_products(self, K: NDArray, tile: Tile, columns: NDArray) -> tuple[NDArray, NDArray]:
        """The same sums over the rows that hold all but ``neglect`` of each query's weight."""
        from ejop.backends.compiled import sparse_products

        cutoffs, _, _ = self.cut(K)
        sums = np.zeros((self.Y.shape[1], len(K), columns.shape[1]), dtype=K.dtype)
        total = np.zeros(sums.shape[1:], dtype=K.dtype)
        sparse_products(K, cutoffs, columns, tile.labels, tile.Y, sums, total)
        return sums, (sums.sum(0) if tile.slices is not None else total)

    def cut(self, K: NDArray) -> tuple[NDArray, NDArray, float]:
        """Each query's smallest weight worth summing, how many reach it, largest share dropped."""
        from ejop.backends.compiled import weight_cutoffs

        cutoffs, kept = np.empty(len(K), dtype=K.dtype), np.empty(len(K), dtype=np.int64)
        bits, shift, bias = (np.int32, 23, 127) if K.itemsize == 4 else (np.int64, 52, 1023)
        dropped = weight_cutoffs(K, K.view(bits), shift, bias, self.neglect, cutoffs, kept)
        return cutoffs, kept, dropped

    def kept_share(self, Q: NDArray, exclude: NDArray | None) -> float:
        """Share of the rows that hold all but ``neglect`` of the weight, mean over queries."""
        L = self.log_kernel(self.whole, self.queries(Q), exclude)
        K = exponentiate(L, L.max(1, keepdims=True))
        return float(self.cut(K)[1].mean()) / len(self.X)
