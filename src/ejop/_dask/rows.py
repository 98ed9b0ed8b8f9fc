"""Rows on the workers: collections cut into blocks, checked, counted and summed up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from dask.sizeof import sizeof
from numpy.typing import NDArray
from sklearn.utils.random import sample_without_replacement

from ejop._dask.cluster import constant, delayed, run, tree
from ejop.backends.gaussian import WeightedSums
from ejop.backends.plan import format_bytes
from ejop.functions import Function
from ejop.functions._base import one_hot_labels
from ejop.selection import some_rows

#: rows beyond which a draw does not number them all; up to there draws are those of one machine
MANY_ROWS = 10_000_000
#: small neighbouring partitions are joined up to so many bytes
BLOCK_BYTES = 16 * 2**20


@dataclass
class Block:
    """Some rows: neighbours in order, or a sample.

    Attributes
    ----------
    X : ndarray of shape (n, n_features)
    Y : ndarray of shape (n, n_outputs)
    w : ndarray of shape (n,) or None
    index : ndarray of shape (n,)
        Number of each row among all rows.
    """

    X: NDArray
    Y: NDArray
    w: NDArray | None
    index: NDArray

    def __len__(self) -> int:
        return len(self.X)

    def __sizeof__(self) -> int:
        """Bytes of the arrays: Dask plans and spills by them."""
        return nbytes_of(self)

    def take(self, index: NDArray | None) -> Block:
        """The rows of these numbers among all rows; all of the block for None."""
        if index is None:
            return self
        rows = index - self.index[0]
        w = None if self.w is None else self.w[rows]
        return Block(self.X[rows], self.Y[rows], w, index)

    def own(self, queries: NDArray) -> NDArray:
        """Row of this block that each query is, by its number among all rows; -1 for none."""
        rows = queries - self.index[0]
        return np.where((rows >= 0) & (rows < len(self)), rows, -1)

    @property
    def weights(self) -> NDArray:
        """Weights, ones where none were given."""
        return np.ones(len(self)) if self.w is None else self.w


def nbytes_of(holder: Any) -> int:
    """Bytes of the arrays that an object holds."""
    return 100 + sum(v.nbytes for v in vars(holder).values() if isinstance(v, np.ndarray))


# Dask plans transfers and spills by sizes, and knows those of arrays alone.
sizeof.register(Function, nbytes_of)
sizeof.register(WeightedSums, nbytes_of)


def join(blocks: list[Block]) -> Block:
    """Blocks one after another."""
    if len(blocks) == 1:
        return blocks[0]
    weighted = blocks[0].w is not None
    return Block(
        np.concatenate([block.X for block in blocks]),
        np.concatenate([block.Y for block in blocks]),
        np.concatenate([block.weights for block in blocks]) if weighted else None,
        np.concatenate([block.index for block in blocks]),
    )


@dataclass(frozen=True)
class Moments:
    """Count, bounds, mean and sum of squared deviations of each column; parts merge."""

    n: int
    low: NDArray
    high: NDArray
    mean: NDArray
    squares: NDArray

    @classmethod
    def of(cls, X: NDArray) -> Moments:
        """Moments of some rows, at least one."""
        mean = X.mean(0, dtype=np.float64)
        squares = ((X - mean) ** 2).sum(0)
        return cls(len(X), X.min(0), X.max(0), mean, squares)

    def merge(self, other: Moments) -> Moments:
        """Moments of both sets of rows."""
        n = self.n + other.n
        gap = other.mean - self.mean
        return Moments(
            n,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.mean + gap * (other.n / n),
            self.squares + other.squares + gap**2 * (self.n * other.n / n),
        )

    @property
    def variance(self) -> NDArray:
        """Variance of each column."""
        return self.squares / self.n


@dataclass(frozen=True)
class Summary:
    """What all rows together say, from sums that merge.

    Attributes
    ----------
    X, Y : Moments
    weight : float
        Sum of the weights.
    target : ndarray of shape (n_outputs,)
        Weighted sum of Y.
    one_hot : bool
        Whether every row of Y has one 1 and zeros.
    dtype : dtype
        Of X.
    """

    X: Moments
    Y: Moments
    weight: float
    target: NDArray
    one_hot: bool
    dtype: np.dtype

    @classmethod
    def of(cls, block: Block) -> Summary:
        """Summary of one block."""
        return cls(
            Moments.of(block.X),
            Moments.of(block.Y),
            float(block.weights.sum()),
            block.weights @ block.Y,
            one_hot_labels(block.Y) is not None,
            block.X.dtype,
        )

    @staticmethod
    def join(parts: list[Summary]) -> Summary:
        """Summary of several blocks."""
        return reduce(Summary._merge, parts)

    def _merge(self, other: Summary) -> Summary:
        return Summary(
            self.X.merge(other.X),
            self.Y.merge(other.Y),
            self.weight + other.weight,
            self.target + other.target,
            self.one_hot and other.one_hot,
            self.dtype,
        )

    @property
    def prior(self) -> NDArray:
        """Weighted mean target."""
        return self.target / self.weight

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return len(self.X.mean)

    @property
    def n_outputs(self) -> int:
        """Columns of Y."""
        return len(self.Y.mean)


@dataclass(frozen=True)
class Rows:
    """All training rows, as delayed blocks that are none of them empty.

    Attributes
    ----------
    blocks : list of Delayed
        Of :class:`Block`.
    lengths : list of int
    summary : Summary
    """

    blocks: list[Any]
    lengths: list[int]
    summary: Summary

    @property
    def n(self) -> int:
        """Number of all rows."""
        return sum(self.lengths)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row with its targets."""
        return (self.summary.n_features + self.summary.n_outputs) * self.summary.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all rows with their targets."""
        return self.n * self.row_bytes

    def __str__(self) -> str:
        return f"{self.n} rows in {len(self.blocks)} blocks, {format_bytes(self.nbytes)}"

    def mapped(self, client: Any, change: Callable[[Block], Block]) -> Rows:
        """Rows changed block by block, lazily; their summary is computed."""
        task = constant(change)
        blocks = [delayed(_change)(task, block) for block in self.blocks]
        summary = run(client, tree([delayed(Summary.of)(block) for block in blocks], Summary.join))
        return replace(self, blocks=blocks, summary=summary)

    def grouped(self, n_bytes: float | None = None, *, parts: int = 1) -> Rows:
        """Small neighbours joined, so that few tasks do the work of many, but ``parts`` remain."""
        n_bytes = min(BLOCK_BYTES, self.nbytes / parts) if n_bytes is None else n_bytes
        groups: list[list[int]] = []
        size = np.inf
        for i, length in enumerate(self.lengths):
            if size + length * self.row_bytes > n_bytes:
                groups.append([])
                size = 0
            groups[-1].append(i)
            size += length * self.row_bytes
        blocks = [
            self.blocks[group[0]]
            if len(group) == 1
            else delayed(join)([self.blocks[i] for i in group])
            for group in groups
        ]
        return replace(
            self, blocks=blocks, lengths=[sum(self.lengths[i] for i in g) for g in groups]
        )

    def takes(self, index: NDArray | None) -> list[tuple[Any, int]]:
        """Delayed parts that hold rows of these (sorted) numbers, and how many each; all for
        None."""
        if index is None:
            return list(zip(self.blocks, self.lengths, strict=True))
        ends = np.searchsorted(index, np.cumsum(self.lengths))
        parts = np.split(index, ends[:-1])
        return [
            (delayed(_take)(block, part), len(part))
            for block, part in zip(self.blocks, parts, strict=True)
            if len(part)
        ]

    def sample(self, index: NDArray | None) -> Any:
        """One delayed block of the rows of these (sorted) numbers, made on a worker."""
        return delayed(join)([part for part, _ in self.takes(index)])


def _change(change: Callable[[Block], Block], block: Block) -> Block:
    return change(block)


def _take(block: Block, index: NDArray) -> Block:
    return block.take(index)


def draw(n: int, at_most: int, random_state: Any) -> NDArray:
    """Sorted row numbers drawn at random: those that one machine would draw, up to 10^7 rows."""
    if n <= MANY_ROWS:
        return some_rows(np.ones(n), at_most, random_state)
    return np.sort(sample_without_replacement(n, at_most, random_state=random_state))


# from partitions ------------------------------------------------------------------------------


def read(
    client: Any,
    parts: list[tuple[Any, Any, Any]],
    reader: Any,
    accept: Callable[[NDArray], None],
) -> Rows:
    """Check and count the partitions, then sum them up.

    Parameters
    ----------
    client : Client
    parts : list of (x, y, w)
        Delayed partitions that belong together; w may be None.
    reader : Reader
    accept : callable
        Takes all classes, or the lowest and highest real targets, and raises where they will not
        do.
    """
    look = constant(reader)
    found = run(client, delayed(list)([delayed(_look)(look, *part) for part in parts]))
    full = [part for part in found if part.n]
    if not full:
        raise ValueError(
            f"Found array with 0 sample(s) (shape=(0, {reader.n_features})) while a minimum of 1 "
            "is required."
        )
    reader.settle(full)
    accept(reader.labels)
    load, start, blocks = constant(reader), 0, []
    for part, seen in zip(parts, found, strict=True):
        if seen.n:
            blocks.append(delayed(_load)(load, *part, start, seen.n))
        start += seen.n
    summary = run(client, tree([delayed(Summary.of)(block) for block in blocks], Summary.join))
    return Rows(blocks, [seen.n for seen in full], summary)


def _look(reader: Any, x: Any, y: Any, w: Any) -> Any:
    return reader.look(x, y, w)


def _load(reader: Any, x: Any, y: Any, w: Any, start: int, length: int) -> Block:
    return reader.load(x, y, w, start, length)
