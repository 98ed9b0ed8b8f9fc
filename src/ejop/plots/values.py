"""Values of columns as pictures need them: what is a number, a date or a level, and short texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.columns import DateColumn, NumberColumn

MISSING = "missing"
_EPOCH, _DAY = np.datetime64("1970-01-01", "us"), np.timedelta64(1, "D").astype("m8[us]")


@dataclass(frozen=True)
class Reading:
    """The values of one column.

    Attributes
    ----------
    kind : {"number", "date", "level", "none"}
        Of "none" nothing is known.
    numbers : ndarray of shape (n,)
        Numbers, or days since 1970; NaN where missing, and for levels.
    texts : list of str
        Every value as a short text.
    """

    kind: str
    numbers: NDArray
    texts: list[str]

    @property
    def missing(self) -> NDArray:
        """Which values are not there, (n,)."""
        if self.kind in ("number", "date"):
            return np.isnan(self.numbers)
        return np.array([text == MISSING for text in self.texts], dtype=bool)

    def low_to_high(self) -> NDArray:
        """Ranks of numbers and dates from 0 to 1, equal ones alike; NaN for all others."""
        out = np.full(len(self.numbers), np.nan)
        there = np.isfinite(self.numbers)
        different, places = np.unique(self.numbers[there], return_inverse=True)
        if len(different) > 1:
            counts = np.bincount(places)
            middle = np.cumsum(counts) - (counts + 1) / 2
            out[there] = ((middle - middle[0]) / (middle[-1] - middle[0]))[places]
        else:
            out[there] = 0.5
        return out


def read_values(values: Sequence[Any] | NDArray | None, n: int, column: Any = None) -> Reading:
    """Read the values of a column.

    Parameters
    ----------
    values : sequence of n objects, or None
    n : int
    column : ejop.columns.Column, optional
        What the column was prepared as: texts may be numbers or dates.

    Examples
    --------
    >>> from ejop.plots.values import read_values
    >>> read_values([3, 1.5, None, 8], 4).numbers
    array([3. , 1.5, nan, 8. ])
    >>> read_values(["f", "m"], 2).kind
    'level'
    """
    if values is None:
        return Reading("none", np.full(n, np.nan), [""] * n)
    texts = [value_text(value) for value in values]
    there = [value for value in values if not is_missing(value)]
    form = column.form if isinstance(column, NumberColumn | DateColumn) else None
    dated = isinstance(column, DateColumn) or (
        bool(there) and all(isinstance(value, date | np.datetime64) for value in there)
    )
    numbers = np.array([_number(value, form) for value in values], dtype=np.float64)
    if not there or not all(_counts(value, form) for value in there):
        return Reading("level", np.full(n, np.nan), texts)
    return Reading("date" if dated else "number", numbers, texts)


def is_missing(value: Any) -> bool:
    """Whether a value stands for none: None, NaN, and those of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating | Decimal) and value != value


def dates_of(days: NDArray) -> NDArray:
    """Days since 1970 as datetime64, as matplotlib takes them."""
    return _EPOCH + (days * _DAY.astype(np.int64)).astype("m8[us]")


def value_text(value: Any) -> str:
    """A value in few characters.

    Examples
    --------
    >>> from ejop.plots.values import value_text
    >>> value_text(22.0), value_text(0.123456), value_text("f"), value_text(None)
    ('22', '0.1235', 'f', 'missing')
    """
    if is_missing(value):
        return MISSING
    if isinstance(value, np.datetime64):
        value = value.astype("M8[us]").item()
    if isinstance(value, datetime):
        return value.isoformat(" ", "minutes").removesuffix(" 00:00")
    if isinstance(value, bool | np.bool_ | str) or not isinstance(value, Real | Decimal):
        return str(value)
    return number_text(float(value))


def number_text(value: float, signed: bool = False) -> str:
    """A number of four digits, whole ones whole; no powers of ten where they can be helped.

    Examples
    --------
    >>> from ejop.plots.values import number_text
    >>> number_text(0.25), number_text(-8563.2, signed=True), number_text(136089.4)
    ('0.25', '-8563', '136089')
    """
    sign = "+" if signed else ""
    size = abs(value)
    if value == 0 or not np.isfinite(value):
        return f"{value:g}" if value else "0"
    if size < 1e9 and (value == round(value) or size >= (1e3 if signed else 1e4)):
        return f"{round(value):{sign}d}"
    return f"{value:{sign}.{3 if signed else 4}g}"


def _counts(value: Any, form: Any) -> bool:
    """Whether a value that is there is a number or a date."""
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, str):
        return form is not None
    return isinstance(value, Real | Decimal | date | np.datetime64)


def _number(value: Any, form: Any) -> float:
    if is_missing(value):
        return np.nan
    if isinstance(value, str):
        return np.nan if form is None else float(form.read([value])[0])
    if isinstance(value, date):  # a datetime is one
        if isinstance(value, datetime) and value.tzinfo is not None:
            value = value.replace(tzinfo=None)
        value = np.datetime64(value)
    if isinstance(value, np.datetime64):
        return float((value.astype("M8[us]") - _EPOCH) / _DAY)
    return float(value) if isinstance(value, Real | Decimal) else np.nan
