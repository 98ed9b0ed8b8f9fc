"""Rows with their targets and weights, and what all of them together say.

A :class:`Block` is some rows: all of them in memory, a partition on a cluster, or a sample. A
:class:`Summary` is made of sums that merge, so that it is the same wherever the rows live.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from ejop.executors.threads import n_threads, stream

#: Sizes whose squares, and the squares of these that standard errors need, are numbers in each
#: type: of rows, of targets, and of weights.
SIZES = {np.dtype(np.float32): (1e-15, 1e15), np.dtype(np.float64): (1e-35, 1e35)}


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


def checked_block(X: ArrayLike, Y: ArrayLike, w: ArrayLike | None = None) -> Block:
    """All rows in memory, from arrays of a caller: numbers, of one length, weights that weigh.

    Whether rows and targets are finite is for :meth:`Summary.require_numbers`, which has seen them.
    """
    rows, targets = np.asarray(X), np.asarray(Y)
    targets = targets[:, None] if targets.ndim == 1 else targets
    if rows.ndim != 2 or targets.ndim != 2 or len(rows) != len(targets):
        raise ValueError(
            f"`X` of shape {rows.shape} and `Y` of shape {targets.shape} do not match: "
            "(n_samples, n_features) and (n_samples, n_outputs) are expected."
        )
    if not rows.size or not targets.size:
        raise ValueError(
            f"`X` has shape {rows.shape} and `Y` {targets.shape}; at least one row, one column of "
            "`X` and one of `Y` are needed."
        )
    if rows.dtype not in SIZES:
        rows = as_numbers("X", rows)
    weights = None if w is None else check_weights(w, len(rows))
    return whole_block(rows, targets_like(targets, rows.dtype), weights)


def as_numbers(name: str, values: ArrayLike) -> NDArray:
    """Values as float64, or an error that names the argument."""
    found = np.asarray(values)
    if found.dtype.kind == "c":
        raise ValueError(f"`{name}` holds complex numbers; pass real ones.")
    try:
        return found.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must hold numbers: {error}.") from error


def targets_like(Y: NDArray, dtype: np.dtype) -> NDArray:
    """Targets in the type of the rows, if their squares are numbers there."""
    Y = Y if Y.dtype in SIZES else as_numbers("y", Y)
    with np.errstate(invalid="ignore"):
        _require_target_sizes(Y.min(initial=0), Y.max(initial=0), dtype)
    return Y.astype(dtype, copy=False)


def _require_target_sizes(low: NDArray, high: NDArray, dtype: np.dtype) -> None:
    largest = float(max(np.abs(low).max(initial=0), np.abs(high).max(initial=0)))
    if np.isfinite(largest) and largest > SIZES[np.dtype(dtype)][1]:
        raise ValueError(
            f"`y` has values up to {largest:.3g}, too large for squares in {np.dtype(dtype)}; "
            "scale it, for instance with StandardScaler"
            + ("." if dtype == np.float64 else ", or pass `X` in float64.")
        )


def as_labels(y: Any) -> Any:
    """Classes before anyone casts them: none is missing, and whole numbers keep every digit.

    pandas' whole numbers that may be missing, and Python's own, would pass through float64, which
    takes 2**53 and 2**53 + 1 for one.

    Examples
    --------
    >>> from ejop.rows import as_labels
    >>> as_labels([2**63, 2**63 + 1])
    array([9223372036854775808, 9223372036854775809], dtype=uint64)
    """
    if issparse(y):  # 0/1 columns
        return y
    if hasattr(y, "isna"):
        _refuse_missing(np.asarray(y.isna()))
    kind: Any = getattr(y, "dtype", None)
    if getattr(kind, "kind", "O") in "iub" and hasattr(kind, "numpy_dtype"):
        return y.to_numpy(dtype=kind.numpy_dtype)
    labels = np.asarray(y)
    if isinstance(y, list | tuple) and labels.dtype.kind == "f" and _all_are(y, Integral):
        labels = np.array(y, dtype=object)
    if labels.dtype.kind == "M":
        _refuse_missing(np.isnat(labels))
    if labels.dtype != object:
        return labels
    require_labels(labels)
    flat = labels.ravel().tolist()
    if _all_are(flat, str):
        return labels
    if _all_are(flat, bool | np.bool_):
        return labels.astype(bool)
    if not _all_are(flat, Integral):
        if _all_are(flat, float):
            return labels.astype(np.float64)
        kinds = sorted({type(label).__name__ for label in flat})
        raise ValueError(
            f"`y` has labels of the type{'s' * (len(kinds) > 1)} {', '.join(kinds)}; make all of "
            "them text, for instance with [str(label) for label in y]."
        )
    for whole in (np.int64, np.uint64):
        if np.iinfo(whole).min <= min(flat) and max(flat) <= np.iinfo(whole).max:
            return labels.astype(whole)
    raise ValueError(
        "`y` has whole numbers that no integer type of 64 bits holds; make them text, for instance "
        "with [str(label) for label in y]."
    )


def _all_are(labels: Any, kind: Any) -> bool:
    return all(isinstance(label, kind) for label in labels)


def require_labels(y: ArrayLike) -> None:
    """Refuse classes that are missing."""
    labels = np.asarray(y)
    if labels.dtype == object:
        _refuse_missing(np.array([_is_missing(label) for label in labels.ravel()], dtype=bool))


def class_numbers(y: ArrayLike, who: str) -> tuple[NDArray, NDArray]:
    """Classes, and the number of each row's class; at least two classes are needed.

    Examples
    --------
    >>> from ejop.rows import class_numbers
    >>> class_numbers(["b", "a", "b"], "EJOP")
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1]))
    """
    y = column_or_1d(y, warn=True)
    require_labels(y)
    check_classification_targets(y)
    classes, numbers = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"`y` has one class, {classes[0]!r}; {who} needs two or more.")
    return classes, numbers


def _refuse_missing(missing: NDArray) -> None:
    if missing.any():
        raise ValueError(
            f"`y` has {np.count_nonzero(missing)} missing labels, the first in row "
            f"{int(missing.argmax())}; drop these rows, or name their class."
        )


def require_targets(y: Any) -> None:
    """Refuse real targets that are missing or infinite."""
    y = np.asarray(y)
    if np.iscomplexobj(y):
        return
    try:
        values = y.astype(np.float64)
    except (TypeError, ValueError):  # no numbers at all, which later checks tell of
        return
    if not values.size or values.ndim == 0:
        return
    wrong = {
        "missing": ("NaN", np.isnan(values)),
        "infinite": ("infinity or a value too large for dtype('float64')", np.isinf(values)),
    }
    for what, (contained, found) in wrong.items():
        rows = found.reshape(len(values), -1).any(1)
        n = int(rows.sum())
        if n:
            raise ValueError(
                f"Input y contains {contained}: {n:,} target{'s are' if n > 1 else ' is'} {what}, "
                f"the first in row {int(rows.argmax())}; drop these rows."
            )


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas' own
        return True


def check_weights(w: ArrayLike, n: int, name: str = "sample_weight") -> NDArray:
    """One finite, non-negative weight a row, not all of it in one."""
    weights = as_numbers(name, w)
    if weights.shape != (n,):
        raise ValueError(
            f"`{name}` has shape {weights.shape} and there are {n} rows; pass one weight a row."
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        worst = weights[~(np.isfinite(weights) & (weights >= 0))][0]
        raise ValueError(f"`{name}` must be finite and not negative, got {worst}.")
    require_balance(weights, name)
    return weights


def require_balance(weights: NDArray, name: str = "sample_weight") -> None:
    """Refuse weights whose sums lose all rows but one, or are no numbers."""
    largest, (least, most) = float(weights.max(initial=0)), SIZES[np.dtype(np.float64)]
    if largest == 0:
        raise ValueError(f"`{name}` is zero for every row; at least one must be positive.")
    if not least < largest < most:
        raise ValueError(
            f"`{name}` has a largest value of {largest:.3g}, beyond {least:g} to {most:g}; only "
            "ratios matter, so divide all by the largest."
        )
    rest = float(weights.sum()) - largest
    if np.count_nonzero(weights) > 1 and rest < 1e-9 * largest:
        raise ValueError(
            f"`{name}` gives one row {largest:.3g} and all others {rest:.3g} together, so that "
            "they do not count beside it; lower the largest weight."
        )


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
    def of(cls, X: NDArray, piece: int = 2048) -> Moments:
        """Moments of some rows, at least one; a piece at a time, so that X may be on disk."""
        starts, size = range(0, len(X), piece), 8 * X.shape[0] * X.shape[1]
        threads = n_threads(None, size) if len(starts) > 1 else 1
        pieces = stream(lambda s: cls._of_piece(X[s : s + piece]), starts, threads)
        return reduce(Moments.merge, pieces)

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

    def require_numbers(self) -> None:
        """Refuse rows or targets with NaN or infinity, or whose squares are no numbers."""
        for name, moments in (("X", self.X), ("y", self.Y)):
            broken = ~(np.isfinite(moments.low) & np.isfinite(moments.high))
            if broken.any():
                raise ValueError(
                    f"`{name}` contains NaN or infinity in column {int(broken.argmax())}; fill the "
                    "gaps, for instance with SimpleImputer, or drop these rows."
                )
        require_spans(self.X.low, self.X.high, self.dtype)
        _require_target_sizes(self.Y.low, self.Y.high, self.dtype)
        require_target_span(self.Y.low, self.Y.high, self.dtype)


def require_target_span(
    low: NDArray, high: NDArray, dtype: np.dtype, least: float | None = None
) -> None:
    """Refuse targets within these bounds if squares of their differences are no numbers."""
    span = float((high.astype(np.float64) - low).max())
    if 0 < span < (SIZES[np.dtype(dtype)][0] if least is None else least):
        raise ValueError(
            f"`y` spans no more than {span:.3g}, too little for squares in {np.dtype(dtype)}; "
            "scale it, for instance with StandardScaler."
        )


def require_spans(low: NDArray, high: NDArray, dtype: np.dtype) -> None:
    """Refuse rows within these bounds if their distances are too large, or all too small."""
    require_sizes(low, high, dtype)
    span = float((high.astype(np.float64) - low).max())
    if 0 < span < SIZES[np.dtype(dtype)][0]:
        raise ValueError(
            f"the columns of `X` span no more than {span:.3g}, too little for squared distances "
            f"in {np.dtype(dtype)}; scale them, for instance with StandardScaler."
        )


def require_sizes(low: NDArray, high: NDArray, dtype: np.dtype) -> None:
    """Refuse rows within these bounds if their squared distances are no numbers."""
    largest = float(max(np.abs(low).max(initial=0), np.abs(high).max(initial=0)))
    if not largest <= SIZES[np.dtype(dtype)][1]:
        raise ValueError(
            f"`X` has values up to {largest:.3g}, too large for squared distances in "
            f"{np.dtype(dtype)}; scale the columns, for instance with StandardScaler."
        )
