"""Rows with their targets and weights, and what all of them together say.

A :class:`Block` is some rows: all of them in memory, a partition on a cluster, or a sample. A
:class:`Summary` is made of sums that merge, so that it is the same wherever the rows live.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray


def one_hot_labels(Y: NDArray) -> NDArray | None:
    """Class of each row where Y (n, c) is one-hot, else None.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.rows import one_hot_labels
    >>> one_hot_labels(np.eye(3)[[2, 0]])
    array([2, 0])
    """
    if Y.shape[1] < 2 or not np.all((Y == 0) | (Y == 1)) or not np.all(Y.sum(1) == 1):
        return None
    return Y.argmax(1)


@dataclass(frozen=True)
class Block:
    """Some rows: neighbours in order, or a sample.

    Attributes
    ----------
    X : ndarray of shape (n, n_features)
    Y : ndarray of shape (n, n_outputs)
    w : ndarray of shape (n,) or None
        Weights; None for equal ones.
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
        """Bytes of the arrays: clusters plan and spill by them."""
        return nbytes_of(self)

    def rows(self, part: slice | NDArray) -> Block:
        """Some rows, by their place in the block."""
        w = None if self.w is None else self.w[part]
        return Block(self.X[part], self.Y[part], w, self.index[part])

    def take(self, index: NDArray | None) -> Block:
        """The rows of these numbers among all rows, of a block in order; all of it for None."""
        return self if index is None else self.rows(index - self.index[0])

    def own(self, queries: NDArray) -> NDArray:
        """Row of a block in order that each query is, by its number among all rows; -1 for none."""
        rows = queries - self.index[0]
        return np.where((rows >= 0) & (rows < len(self)), rows, -1)

    @property
    def weights(self) -> NDArray:
        """Weights as float64, ones where none were given."""
        return np.ones(len(self)) if self.w is None else np.asarray(self.w, dtype=np.float64)


def whole_block(X: NDArray, Y: NDArray, w: NDArray | None) -> Block:
    """All rows in memory."""
    return Block(X, Y, w, np.arange(len(X)))


def join_blocks(blocks: Sequence[Block]) -> Block:
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


def nbytes_of(holder: object) -> int:
    """Bytes of the arrays that an object holds."""
    return 100 + sum(v.nbytes for v in vars(holder).values() if isinstance(v, np.ndarray))


@dataclass(frozen=True)
class Moments:
    """Count, bounds, mean and sum of squared deviations of each column; parts merge."""

    n: int
    low: NDArray
    high: NDArray
    mean: NDArray
    squares: NDArray

    @classmethod
    def of(cls, X: NDArray, piece: int = 8192) -> Moments:
        """Moments of some rows, at least one; a piece at a time, so that X may be on disk."""
        parts = [cls._of_piece(X[s : s + piece]) for s in range(0, len(X), piece)]
        return reduce(Moments.merge, parts)

    @classmethod
    def _of_piece(cls, X: NDArray) -> Moments:
        with np.errstate(over="ignore", invalid="ignore"):  # values too large are refused later
            mean = X.mean(0, dtype=np.float64)
            return cls(len(X), X.min(0), X.max(0), mean, ((X - mean) ** 2).sum(0))

    def merge(self, other: Moments) -> Moments:
        """Moments of both sets of rows."""
        n = self.n + other.n
        with np.errstate(over="ignore"):
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
    def join(parts: Sequence[Summary]) -> Summary:
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
    def n(self) -> int:
        """Rows."""
        return self.X.n

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return len(self.X.mean)

    @property
    def n_outputs(self) -> int:
        """Columns of Y."""
        return len(self.Y.mean)

    @property
    def center(self) -> NDArray:
        """Mean row, in the type of X."""
        return self.X.mean.astype(self.dtype)

    @property
    def middle(self) -> NDArray:
        """Mid-range of each column, in float64."""
        return (self.X.high.astype(np.float64) + self.X.low) / 2

    @property
    def prior(self) -> NDArray:
        """Weighted mean target."""
        return self.target / self.weight

    def prior_without(self, Y: NDArray, w: NDArray) -> NDArray:
        """Mean target (m, c) without one row each, of target Y (m, c) and weight w (m,)."""
        rest = (self.weight - w)[:, None]
        without = (self.target - w[:, None] * Y) / np.where(rest > 0, rest, 1)
        return np.where(rest > 0, without, self.prior)

    def require_distances(self) -> None:
        """Refuse values whose squared distances overflow."""
        largest = float(np.maximum(np.abs(self.X.low), np.abs(self.X.high)).max(initial=0))
        if largest > np.sqrt(float(np.finfo(self.dtype).max) / 4 / self.n_features):
            raise ValueError(
                f"`X` has values up to {largest:.3g}, too large for squared distances in "
                f"{self.dtype}; scale the columns, for instance with StandardScaler."
            )
