"""Preparation of the columns, which matters to neighbours as much as the metric does."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import (
    FunctionTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import validate_data

from ejop.rows import Moments
from ejop.sums.engine import HOST, Engine

#: columns of a histogram, at the least
MANY_COUNTS = 20
#: ratio of standard deviations beyond which columns are in different units
UNEQUAL = 100.0
#: share of its columns that reach beyond two, at the least: flags and codes rarely do
COUNTING = 0.1
#: rows that are looked at at once
LOOKED_AT = 65_536
#: quantiles of a column that are kept, at the most
MAX_QUANTILES = 500
#: standard deviations beyond which ranks count alike
FARTHEST = 3.0


class HellingerScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Square root of each row over its sum: Euclidean distance becomes Hellinger distance.

    For counts and histograms. A row of zeros stays zero.

    Examples
    --------
    >>> from ejop.scaling import HellingerScaler
    >>> HellingerScaler().fit_transform([[1.0, 3.0], [0.0, 0.0]])
    array([[0.5      , 0.8660254],
           [0.       , 0.       ]])
    """

    def fit(self, X: ArrayLike, y: Any = None) -> HellingerScaler:
        """Check the rows; nothing is learned from them."""
        self._check(X, reset=True)
        return self

    def transform(self, X: ArrayLike) -> NDArray:
        """Square roots of the rows over their sums."""
        rows = self._check(X, reset=False)
        total = rows.sum(1, keepdims=True)
        return np.sqrt(rows / np.where(total > 0, total, 1))

    def _check(self, X: ArrayLike, *, reset: bool) -> NDArray:
        rows = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
        lowest = rows.min(initial=0)
        if lowest < 0:
            raise ValueError(
                "Negative values in data passed to scale='hellinger', which takes counts or "
                f"shares: the smallest is {lowest:.3g}; use scale='standard' or 'auto'."
            )
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


class QuantileColumns(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Each column by its ranks to a normal distribution, clipped at three standard deviations.

    Long tails and odd units no longer matter, and outliers cannot dominate.

    Parameters
    ----------
    fixed : ndarray of bool, shape (n_features,), optional
        Columns that stay as they are, since their values are levels without an order.

    Examples
    --------
    >>> from ejop.scaling import QuantileColumns
    >>> QuantileColumns().fit_transform([[1.0], [10.0], [1e9]]).round(1).ravel()
    array([-3.,  0.,  3.])
    """

    def __init__(self, fixed: NDArray | None = None) -> None:
        self.fixed = fixed

    def fit(self, X: ArrayLike, y: Any = None) -> QuantileColumns:
        """Take the quantiles of each column."""
        rows = validate_data(self, X, dtype=[np.float64, np.float32])
        shares = np.linspace(0, 1, min(MAX_QUANTILES, len(rows)))
        found = np.quantile(rows.astype(np.float64, copy=False), shares, axis=0)
        self.quantiles_ = np.maximum.accumulate(found)  # rounding must not turn two around
        self.step_ = rows.std(0, dtype=np.float64) / 4
        return self

    def transform(self, X: ArrayLike) -> NDArray:
        """Ranks as standard normal values; those of a value that repeats are its middle rank."""
        rows = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return self.ranked(rows, HOST)

    def ranked(self, rows: Any, engine: Engine) -> Any:
        """What :meth:`transform` makes of rows of an engine, (m, n_features)."""
        found = engine.normal_ranks(rows, self.quantiles_).clip(-FARTHEST, FARTHEST)
        if self.fixed is not None:
            found[:, self.fixed] = rows[:, self.fixed]
        return found

    def slopes(self, X: NDArray) -> NDArray:
        """How fast each value changes with its column, over half a standard deviation, (m, d)."""
        step = np.where(self.step_ > 0, self.step_, 1)
        return (self.transform(X + step) - self.transform(X - step)) / (2 * step)


SCALERS: dict[str, Any] = {
    "none": FunctionTransformer,
    "standard": StandardScaler,
    "robust": RobustScaler,
    "hellinger": HellingerScaler,
    "quantile": QuantileColumns,
}
#: scalers that are not linear in each column
_CURVED: dict[type, str] = {
    HellingerScaler: "scale='hellinger' takes square roots of shares",
    QuantileColumns: "scale='quantile' takes ranks",
}


class MixedScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Numbers scaled by their values, and features of levels by a factor that is given.

    Levels are not scaled to unit variance each: a category would count for as many columns as it
    has levels, and the more the rarer they are.

    Parameters
    ----------
    scale : {"none", "standard", "robust", "hellinger", "quantile"}
        For the numbers.
    factors : ndarray of shape (n_features,)
        What features of levels are multiplied by; NaN for numbers.

    Attributes
    ----------
    scaler_ : fitted scaler of the numbers, or None where there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.scaling import MixedScaler
    >>> MixedScaler("standard", np.array([np.nan, 2.0])).fit_transform([[1.0, 0.0], [3.0, 1.0]])
    array([[-1.,  0.],
           [ 1.,  2.]])
    """

    def __init__(self, scale: str, factors: NDArray) -> None:
        self.scale = scale
        self.factors = factors

    @property
    def numbers(self) -> NDArray:
        """Which columns are numbers, (n_features,)."""
        return np.isnan(self.factors)

    def fit(self, X: ArrayLike, y: Any = None) -> MixedScaler:
        """Fit the scaler of the numbers."""
        rows = validate_data(self, X, dtype=[np.float64, np.float32])
        self.scaler_ = None
        if self.numbers.any():
            self.scaler_ = make_scaler(self.scale).fit(rows[:, self.numbers])
        return self

    def transform(self, X: ArrayLike) -> NDArray:
        """Scaled rows."""
        rows = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        found = rows * np.where(self.numbers, 1.0, self.factors).astype(rows.dtype)
        if self.scaler_ is not None:
            found[:, self.numbers] = self.scaler_.transform(rows[:, self.numbers])
        return found

    def slopes(self) -> NDArray:
        """What each column is multiplied by, (n_features,)."""
        found = self.factors.copy()
        if self.scaler_ is not None:
            found[self.numbers] = slopes(self.scaler_)
        return found


def make_scaler(name: str, factors: NDArray | None = None) -> Any:
    """An unfitted scaler by name; it gives arrays whatever scikit-learn is set to give.

    With ``factors`` some columns are levels, see :class:`MixedScaler`.
    """
    if factors is None or np.isnan(factors).all():
        return SCALERS[name]().set_output(transform="default")
    return MixedScaler(name, factors).set_output(transform="default")


@dataclass(frozen=True)
class ScaledRows:
    """Rows that are scaled as they are read, so that they may be many or on disk.

    Attributes
    ----------
    rows : ndarray of shape (n, n_features)
    scaler : fitted scaler

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.scaling import ScaledRows, make_scaler
    >>> rows = np.array([[1.0], [3.0], [5.0]], dtype=np.float32)
    >>> lazy = ScaledRows(rows, make_scaler("standard").fit(rows[:2]))
    >>> lazy.shape, lazy[1:]
    ((3, 1), array([[1.],
           [3.]]))
    """

    rows: NDArray
    scaler: Any
    dtype = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the rows."""
        return self.rows.shape

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: Any) -> NDArray:
        rows = np.asarray(self.rows[part], dtype=np.float64)
        return self.scaler.transform(rows) if len(rows) else rows


def scaled(scaler: Any, rows: NDArray) -> NDArray:
    """Rows without column names, as a fitted scaler that may know such names scales them."""
    nameless = copy(scaler)
    vars(nameless).pop("feature_names_in_", None)
    return nameless.transform(rows)


def slopes(scaler: Any) -> NDArray | float:
    """What a fitted scaler multiplies each column by, shape (n_features,); one for none.

    Raises
    ------
    ValueError
        Where the scaler is not linear in each column.
    """
    if isinstance(scaler, MixedScaler):
        return scaler.slopes()
    for kind, what in _CURVED.items():
        if isinstance(scaler, kind):
            raise ValueError(
                f"{what}, so that no matrix in the units of the columns spans the metric; use "
                "pair_distance or get_metric, or the matrix of scaled rows, "
                "components_.T @ components_."
            )
    return 1 / getattr(scaler, "scale_", 1.0)


def shares_one_whole(X: NDArray, columns: NDArray | None = None) -> bool:
    """Whether columns look like counts or shares of one whole: a histogram a row.

    All values are whole numbers of at least zero, most are zero and some columns count above two
    (flags and codes do not), or every row sums to the same. Some rows are looked at at a time, so
    that X may be on disk; ``columns`` (n_features,) are those that count, all by default.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.scaling import shares_one_whole
    >>> shares_one_whole(np.array([[0.2, 0.8], [0.5, 0.5]]))
    True
    >>> shares_one_whole(np.array([[22.0, 7.25], [38.0, 71.28]]))  # age and fare
    False
    """
    width = X.shape[1] if columns is None else int(columns.sum())
    if width < 2:
        return False
    whole, zeros, high = True, 0, np.zeros(width)
    least, most = np.inf, 0.0  # of the sums of rows, which are not negative
    for s in range(0, len(X), LOOKED_AT):
        rows = X[s : s + LOOKED_AT] if columns is None else X[s : s + LOOKED_AT, columns]
        if rows.min(initial=0) < 0:
            return False
        total = rows.sum(1)
        least, most = min(least, total.min()), max(most, total.max())
        whole = whole and bool(np.all(np.rint(rows) == rows))
        high, zeros = np.maximum(high, rows.max(0)), zeros + int((rows == 0).sum())
        if not whole and most - least > 1e-6 * most:
            return False
    if most - least <= 1e-6 * most and most > 0:
        return True
    counts = whole and float((high > 2).mean()) > COUNTING
    return width >= MANY_COUNTS and counts and zeros > 0.5 * width * len(X)


def units_apart(columns: Moments) -> str:
    """Where a distance of rows is that of a few columns in small units, that in words; else "".

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.rows import Moments
    >>> from ejop.scaling import units_apart
    >>> print(units_apart(Moments.of(np.array([[0.1, 900.0], [0.2, 100.0]]))))
    the standard deviations of the columns of `X` reach from 0.05 to 400, so that distances of \
rows are those of a few columns
    >>> units_apart(Moments.of(np.array([[1.0, 9.0], [2.0, 1.0]])))
    ''
    """
    spread = np.sqrt(columns.variance[columns.variance > 0])
    alike = len(columns.low) >= MANY_COUNTS and not np.ptp(columns.low)  # pixels, counts
    if alike or not len(spread) or spread.max() <= UNEQUAL * spread.min():
        return ""
    return (
        f"the standard deviations of the columns of `X` reach from {spread.min():.3g} to "
        f"{spread.max():.3g}, so that distances of rows are those of a few columns"
    )


def scale_candidates(X: NDArray) -> list[list[str]]:
    """Preparations that ``scale="auto"`` compares where neighbours vote.

    Leave-one-out of f chooses one of each list, the first where others are as good, and held-out
    rows choose between the lists: Hellinger changes which rows are near more than what f can fit.
    It is among them only where :func:`shares_one_whole` says so: it was chosen for tables of
    ages, fares and flags, and told of columns that do not matter.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.scaling import scale_candidates
    >>> scale_candidates(np.array([[22.0, 7.25], [38.0, 71.28]]))
    [['none', 'standard', 'quantile']]
    >>> scale_candidates(np.array([[0.2, 0.8], [0.5, 0.5]]))
    [['none', 'standard', 'quantile'], ['hellinger']]
    """
    by_column = ["none", "standard", "quantile"]
    return [by_column, ["hellinger"]] if shares_one_whole(X) else [by_column]
