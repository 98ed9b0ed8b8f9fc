"""Dask arrays and data frames: what can be refused at once, and partitions that belong together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed, is_dask_collection
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ejop._sklearn import (
    check_sample_weight,
    check_y,
    tells_of_missing_values,
    without_warning_of_many_classes,
)
from ejop.executors.dask.cluster import run
from ejop.rows import Block, require_labels

#: what makes numbers of partitions that hold text or gaps, of all in one way
PREPARE = (
    "for instance by preparer = ejop.columns.ColumnPreparer().set_output(transform='pandas') "
    "fitted to a sample, and X.map_partitions(preparer.transform, meta=preparer.transform(sample))"
)

# what needs no data -----------------------------------------------------------------------------


def check_rows(estimator: Any, X: Any, *, fitting: bool) -> Any:
    """Refuse at once what its description shows to be wrong; the columns in one chunk.

    Names and the number of the columns are noted by ``estimator`` while fitting, and compared
    after.
    """
    name = type(estimator).__name__
    if not is_dask_collection(X):
        plain = name.removeprefix("Dask")
        remedy = f"{plain} for rows in memory" if fitting else f"to_local(), which is a {plain}"
        raise TypeError(
            f"`X` is {_kind(X)} and {name} takes Dask arrays and data frames; use "
            f"dask.array.from_array(X, chunks=(10_000, -1)), or {remedy}."
        )
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: a Dask collection of shape "
            f"{X.shape}. Use X.reshape(-1, 1) if it has a single feature."
        )
    if _is_frame(X):
        text = [c for c, kind in X.dtypes.items() if not _numeric(kind)]
        if text:
            raise ValueError(
                f"could not convert string to float: column {text[0]!r} of `X` holds "
                f"{X.dtypes[text[0]]}; leave it out or encode it as numbers, {PREPARE}."
            )
        meta = X._meta
    else:
        if not _numeric(X.dtype):
            raise ValueError(
                f"could not convert string to float: `X` holds {X.dtype}; pass numbers."
            )
        meta = np.empty((0, X.shape[1]))
        X = X if X.numblocks[1] == 1 else X.rechunk({1: -1})
    validate_data(estimator, meta, reset=fitting, skip_check_array=True)
    return X


def _kind(X: Any) -> str:
    return f"a {type(X).__module__.partition('.')[0]}.{type(X).__name__}"


def _is_frame(X: Any) -> bool:
    return hasattr(X, "npartitions") and hasattr(X, "_meta") and not isinstance(X, da.Array)


def _numeric(kind: Any) -> bool:
    """Whether values of this type can be numbers: text, dates and categories cannot."""
    return getattr(kind, "kind", "O") in "biufO" and str(kind) not in ("category", "string", "str")


# partitions that belong together ----------------------------------------------------------------


def partitions(client: Any, name: str, X: Any, y: Any, w: Any) -> list[tuple[Any, Any, Any]]:
    """Delayed partitions (x, y, w), cut alike; lengths are computed where they are not known."""
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    others = {"y": y} if w is None else {"y": y, "sample_weight": w}
    known: dict[str, Any] = {"X": X}
    for label, values in others.items():
        known[label] = values if is_dask_collection(values) else da.from_array(np.asarray(values))
    if not _cut_alike(known):
        known = {key: _with_lengths(client, value) for key, value in known.items()}
        totals = [value.shape[0] for value in known.values()]
        if len(set(totals)) > 1:
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: {totals}"
            )
        cuts = known["X"].chunks[0]
        known = {k: v if v.chunks[0] == cuts else v.rechunk({0: cuts}) for k, v in known.items()}
    parts = [_delayed(value) for value in known.values()]
    if w is None:
        parts.append([None] * len(parts[0]))
    return list(zip(*parts, strict=True))


def _cut_alike(known: dict[str, Any]) -> bool:
    """Whether partitions can be paired as they are.

    Frames from one source are; their lengths are compared when they are read.
    """
    cuts = [_cuts(value) for value in known.values()]
    if any(cut is None for cut in cuts):
        counts = {len(_delayed(value)) for value in known.values()}
        return all(cut is None for cut in cuts) and len(counts) == 1
    return all(cut == cuts[0] for cut in cuts)


def _cuts(value: Any) -> tuple[int, ...] | None:
    """Lengths of the partitions where they are known."""
    if not isinstance(value, da.Array) or np.isnan(value.chunks[0]).any():
        return None
    return value.chunks[0]


def _with_lengths(client: Any, value: Any) -> da.Array:
    """The collection as an array of known lengths."""
    if _cuts(value) is not None:
        return value
    parts = _delayed(value)
    lengths = run(client, delayed(list)([delayed(len)(part) for part in parts]))
    kind = value.dtype if isinstance(value, da.Array) else object
    arrays = [
        da.from_delayed(delayed(np.asarray)(part), (length, *value.shape[1:]), dtype=kind)
        for part, length in zip(parts, lengths, strict=True)
    ]
    return da.concatenate(arrays)


def _delayed(value: Any) -> list[Any]:
    """The partitions of a collection, in order."""
    if isinstance(value, da.Array) and value.ndim == 2 and value.numblocks[1] > 1:
        value = value.rechunk({1: -1})
    parts = value.to_delayed()
    return list(np.asarray(parts, dtype=object).ravel())


# what a worker does with a partition --------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """What a first look at a partition says."""

    n: int
    dtype: Any = None
    labels: Any = None


@dataclass
class Reader:
    """How a partition becomes a block.

    Attributes
    ----------
    estimator : EJOP, EGOP, EJOPClassifier or EGOPRegressor
        Unfitted; its checks and messages are used.
    classify : bool
        Whether y holds classes.
    n_features : int
    dtype : dtype
        Of all rows together.
    labels : ndarray
        All classes, or for real targets their lowest and highest values.
    """

    estimator: Any
    classify: bool
    n_features: int
    dtype: Any = None
    labels: NDArray = field(default_factory=lambda: np.empty(0))

    def settle(self, looks: list[Look]) -> None:
        """Take what all partitions together say."""
        self.dtype = np.result_type(*[look.dtype for look in looks])
        if self.classify:
            self.labels = np.unique(np.concatenate([look.labels for look in looks]))
            return
        widths = {np.shape(look.labels)[1:] for look in looks}
        if len(widths) > 1:
            raise ValueError(f"the partitions of `y` have outputs of different shapes: {widths}.")
        every = np.concatenate([look.labels for look in looks])
        self.labels = np.stack([every.min(0), every.max(0)])

    def look(self, x: Any, y: Any, w: Any) -> Look:
        """Check a partition and count its rows of positive weight."""
        if len(x) == 0 and len(y) == 0:
            return Look(0)
        X, y = self._checked(x, y)
        weights = _weights(w, X)
        n = len(X) if weights is None else int(np.count_nonzero(weights))
        labels = np.unique(y) if self.classify else np.stack([y.min(0), y.max(0)])
        return Look(n, X.dtype, labels)

    def load(self, x: Any, y: Any, w: Any, start: int, length: int) -> Block:
        """Rows, targets and weights as arrays."""
        X, y = self._checked(x, y)
        X = X.astype(self.dtype, copy=False)
        y = y[:, None] if y.ndim == 1 else y
        Y = (y == self.labels).astype(self.dtype) if self.classify else y.astype(np.float64)
        weights = _weights(w, X)
        if weights is not None:
            kept = weights > 0  # a row of weight zero is no row
            X, Y, weights = X[kept], Y[kept], weights[kept]
        if len(X) != length:
            raise RuntimeError(
                f"a partition had {length} rows when they were counted and has {len(X)} now; the "
                "source must give the same rows each time it is read (persist it otherwise)."
            )
        return Block(X, Y, weights, np.arange(start, start + length))

    def _checked(self, x: Any, y: Any) -> tuple[NDArray, NDArray]:
        try:
            X, y = clone(self.estimator)._checked(x, y)
        except ValueError as error:
            if not tells_of_missing_values(error):
                raise
            raise ValueError(
                "Input X contains NaN, and a fit on a cluster takes rows without gaps; fill them, "
                "for instance by the medians of a sample: X.fillna(medians) of a data frame, "
                "dask.array.where(dask.array.isnan(X), medians, X) of an array."
            ) from None
        if not self.classify:
            return X, check_y(y, multi_output=True, y_numeric=True)
        y = column_or_1d(y)
        with without_warning_of_many_classes():  # a partition may be small; all rows are not
            require_labels(y)
            check_classification_targets(y)
        return X, y


def _weights(w: Any, X: NDArray) -> NDArray | None:
    """Checked weights; those of one partition may all be zero, hence the row that is added."""
    if w is None:
        return None
    longer = np.append(np.asarray(w, dtype=np.float64), 1.0)
    one_more = np.empty((len(X) + 1, 1))
    return check_sample_weight(longer, one_more, dtype=np.float64, ensure_non_negative=True)[:-1]
