"""Columns of pandas, polars and Arrow tables as plain arrays, through narwhals."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: days are counted from here
EPOCH = np.datetime64("1970-01-01", "us")
_DAY = np.timedelta64(1, "D")
_TRUE_BOOLEANS = (bool, np.bool_)
_TABLES = "a pandas, polars or Arrow table"


@dataclass(frozen=True)
class Cells:
    """The values of one column, whatever library they come from.

    Attributes
    ----------
    kind : {"number", "boolean", "date", "text", "other"}
    values : ndarray of shape (n,)
        Numbers as float64, dates as days since 1970, NaN where missing; of texts the place of each
        in ``levels``, -1 where missing.
    levels : list of str
        Different texts, without blanks around them.
    ordered : bool
        Whether the levels are grades, in their order.
    found : str
        Of kind "other": what the values are.
    """

    kind: str
    values: NDArray
    levels: list[str] | None = None
    ordered: bool = False
    found: str = ""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def missing(self) -> NDArray:
        """Which values are not there, (n,)."""
        return self.values < 0 if self.levels is not None else np.isnan(self.values)

    def without(self, words: Iterable[str]) -> Cells:
        """Texts of which some words, compared without capitals, stand for missing values."""
        assert self.levels is not None
        gone = {word.lower() for word in words}
        kept = np.array([level.lower() not in gone for level in self.levels], dtype=bool)
        if kept.all():
            return self
        places = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
        levels = [level for level, stays in zip(self.levels, kept, strict=True) if stays]
        return replace(self, values=places[self.values], levels=levels)

    def mapped(self, numbers: NDArray, kind: str = "number") -> Cells:
        """Numbers in place of texts, one a level."""
        return Cells(kind, np.append(numbers, np.nan)[self.values])

    def counts(self) -> NDArray:
        """Rows of each level."""
        assert self.levels is not None
        return np.bincount(self.values[self.values >= 0], minlength=len(self.levels))

    def as_texts(self) -> Cells:
        """Numbers, booleans and dates as texts: whole numbers without a point."""
        if self.levels is not None:
            return self
        if self.kind == "other":
            return Cells("text", np.full(len(self), -1), [])
        there = ~self.missing
        different, places = np.unique(self.values[there], return_inverse=True)
        values = np.full(len(self), -1)
        values[there] = places
        write = _WRITTEN.get(self.kind, text_of)
        return _normal(values, [write(value) for value in different.tolist()])


def text_of(value: Any) -> str:
    """A value as the text that names its level.

    Examples
    --------
    >>> from ejop.columns._tables import text_of
    >>> text_of(3.0), text_of(True), text_of(" a ")
    ('3', 'true', 'a')
    """
    if isinstance(value, _TRUE_BOOLEANS):
        return str(value).lower()
    if isinstance(value, float | np.floating | Decimal) and value == value // 1:
        value = int(value)
    return str(value).strip()


_WRITTEN: dict[str, Callable[[Any], str]] = {
    "boolean": lambda value: text_of(bool(value)),
    "date": lambda value: str((EPOCH + value * _DAY.astype("m8[us]")).astype("M8[s]")),
}


# tables -----------------------------------------------------------------------------------------


def is_table(X: Any) -> bool:
    """Whether X is a table with named columns, of any library."""
    if isinstance(X, np.ndarray | list | tuple):
        return False
    import narwhals.stable.v2 as nw

    return bool(nw.dependencies.is_into_dataframe(X)) or _is_lazy(X)


def _is_lazy(X: Any) -> bool:
    return hasattr(X, "collect_schema") and hasattr(X, "collect")


def open_table(X: Any) -> tuple[list[str], Callable[[int], Any]]:
    """Names of the columns, and what gives each as a series.

    Raises
    ------
    ValueError
        Where two columns have one name.
    """
    import narwhals.stable.v2 as nw

    if _is_lazy(X) and not nw.dependencies.is_into_dataframe(X):
        raise TypeError("`X` is a lazy table; pass X.collect().")
    given = list(X.column_names if hasattr(X, "column_names") else X.columns)
    names = [str(name) for name in given]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(
            f"`X` has several columns called {', '.join(map(repr, twice[:6]))}; give each a name "
            "of its own, or drop all but one."
        )
    frame = nw.from_native(X, eager_only=True)
    return names, lambda number: frame.get_column(given[number])


def n_rows(X: Any) -> int:
    """Rows of a table."""
    return int(X.num_rows if hasattr(X, "num_rows") else len(X))


def require_numbers(X: Any, who: str, remedy: str) -> None:
    """Refuse a table with other columns than numbers, and say what to do."""
    import narwhals.stable.v2 as nw

    names, series = open_table(X)
    for j, name in enumerate(names):
        kind = series(j).dtype
        if not kind.is_numeric() and kind != nw.Boolean and not _are_numbers(series(j)):
            raise ValueError(
                f"column {name!r} of `X` holds {str(kind).lower()}, and {who} takes numbers; "
                f"{remedy}."
            )


def _are_numbers(series: Any) -> bool:
    import narwhals.stable.v2 as nw

    return series.dtype == nw.Object and read_column(series).kind in ("number", "boolean")


def read_column(series: Any) -> Cells:
    """The cells of a series of any library.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from ejop.columns import read_column
    >>> cells = read_column(pa.chunked_array([["a", None, "b "]]))
    >>> cells.kind, cells.levels, cells.values
    ('text', ['a', 'b'], array([ 0, -1,  1]))
    """
    import narwhals.stable.v2 as nw

    s = nw.from_native(series, series_only=True)
    kind: Any = s.dtype
    if kind.is_numeric():
        return Cells("number", _floats(s))
    if kind == nw.Boolean:
        return Cells("boolean", _floats(s))
    if kind in (nw.Datetime, nw.Date):
        return _dates(s)
    if kind == nw.Duration:
        micro = _floats(s.cast(nw.Duration("us")).dt.total_microseconds())
        return Cells("number", micro / (_DAY / np.timedelta64(1, "us")))
    if kind in (nw.String, nw.Categorical, nw.Enum):
        return _texts(s)
    if kind == nw.Unknown and s.is_null().all():
        return Cells("number", np.full(len(s), np.nan))
    if kind in (nw.Object, nw.Unknown):
        return _objects(s)
    return Cells("other", np.where(s.is_null().to_numpy(), np.nan, 0.0), found=str(kind).lower())


def _floats(s: Any) -> NDArray:
    import narwhals.stable.v2 as nw

    return np.asarray(s.cast(nw.Float64).to_numpy(), dtype=np.float64)


def _dates(s: Any) -> Cells:
    import narwhals.stable.v2 as nw

    micro = _floats(s.cast(nw.Datetime("us")).dt.timestamp("us")) if s.dtype == nw.Date else None
    if micro is None:
        micro = _floats(s.dt.timestamp("us"))
    return Cells("date", micro / (_DAY / np.timedelta64(1, "us")))


def _texts(s: Any) -> Cells:
    """Codes and levels by the library's own means, which are quick."""
    native, ordered = s.to_native(), False
    if s.implementation.is_pandas_like():
        if hasattr(native, "cat"):
            ordered = bool(native.cat.ordered)
            codes, levels = native.cat.codes.to_numpy(), native.cat.categories.tolist()
        else:
            codes, found = native.factorize()
            levels = list(found)
    elif s.implementation.is_pyarrow():
        whole = native.combine_chunks()
        whole = whole if hasattr(whole, "indices") else whole.dictionary_encode()
        codes = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        levels = whole.dictionary.to_pylist()
    else:
        import narwhals.stable.v2 as nw

        s = s.cast(nw.String)
        levels = s.drop_nulls().unique(maintain_order=True).to_list()
        found = s.replace_strict(levels, list(range(len(levels))), return_dtype=nw.Int64)
        codes = np.nan_to_num(_floats(found), nan=-1)
    return _normal(np.asarray(codes).astype(np.int64), [text_of(v) for v in levels], ordered)


def _normal(codes: NDArray, texts: list[str], ordered: bool = False) -> Cells:
    """Cells of texts, of which equal ones are one level and empty ones are missing."""
    places: dict[str, int] = {}
    for text in texts:
        if text:
            places.setdefault(text, len(places))
    if len(places) < len(texts):
        new = np.array([places.get(text, -1) for text in texts] + [-1])
        codes = new[codes]
    return Cells("text", codes, list(places), ordered)


def _objects(s: Any) -> Cells:
    """Values of Python's own types, as what all of them are."""
    values = s.to_list()
    present = [value for value in values if not is_missing(value)]
    kinds = {type(value) for value in present}
    there = np.array([not is_missing(value) for value in values], dtype=bool)

    def scattered(found: Any) -> NDArray:
        out = np.full(len(values), np.nan)
        out[there] = found
        return out

    if all(issubclass(kind, _TRUE_BOOLEANS) for kind in kinds):
        kind = "boolean" if kinds else "number"  # a column of gaps alone
        return Cells(kind, scattered([float(value) for value in present]))
    if all(issubclass(kind, Real | Decimal) and not issubclass(kind, bool) for kind in kinds):
        return Cells("number", scattered([float(value) for value in present]))
    if all(issubclass(kind, datetime.date) for kind in kinds):
        return Cells("date", scattered([days(value) for value in present]))
    if all(issubclass(kind, str | Integral | Real | Decimal) for kind in kinds):
        texts = [text_of(value) for value in present]
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        codes = np.full(len(values), -1)
        codes[there] = [places[text] for text in texts]
        return _normal(codes, list(places))
    odd = sorted(kind.__name__ for kind in kinds)
    return Cells("other", scattered(0.0), found=" and ".join(odd))


def days(moment: datetime.date) -> float:
    """Days from 1970 to a date, or to a moment in universal time."""
    if isinstance(moment, datetime.datetime):
        if moment.tzinfo is not None:
            moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
        return (moment - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1)
    return float(moment.toordinal() - datetime.date(1970, 1, 1).toordinal())


def is_missing(value: Any) -> bool:
    """Whether a value of Python stands for none: None, NaN and the like."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas' NA is neither equal nor unequal
        return type(value).__name__ == "NAType"
