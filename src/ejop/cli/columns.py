"""What the columns of a table are: numbers, levels, or nothing a distance can use."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.cli.options import counted

#: a text column with more levels than this is free text
MAX_LEVELS = 50
#: consecutive integers are a row number in files of at least so many rows
INDEX_ROWS = 10
#: share of values that must look like dates, or like numbers, for the column to be called so
MOST = 0.9
_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")
_DATES = ("datetime64", "datetime", "date", "timedelta64", "timedelta", "time", "period")
_DATE = re.compile(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ].*)?$")
_IDENTIFIER = re.compile(
    r"(^|[\W_])(id|uuid|guid|key|index|rowid|row_?number)$|[a-z](Id|ID)$"
    r"|^Unnamed: \d+$|^__index_level_\d+__$"
)
_TRUTH = {"1": "true", "0": "false", "1.0": "true", "0.0": "false"}


@dataclass(frozen=True)
class Column:
    """A column that is used.

    Attributes
    ----------
    name : str
    kind : {"number", "category", "boolean"}
    missing : int
        Values that were not there in the training rows.
    levels : list of str
        Of a category or a boolean.
    """

    name: str
    kind: str
    missing: int = 0
    levels: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Skipped:
    """A column that is not used, and why."""

    name: str
    why: str


def survey(
    frame: Any, *, drop: Collection[str] = (), keep: Collection[str] = ()
) -> tuple[list[Column], list[Skipped]]:
    """Tell columns to learn from and columns to leave out.

    Parameters
    ----------
    frame : pandas.DataFrame
        Without the target.
    drop : collection of str
        Columns to leave out in any case.
    keep : collection of str
        Columns to use even if they look like identifiers or free text.
    """
    columns: list[Column] = []
    skipped: list[Skipped] = []
    for name in frame.columns:
        if name in drop:
            skipped.append(Skipped(name, "left out with --drop"))
            continue
        found = _judged(frame[name], forced=name in keep)
        if isinstance(found, Column):
            columns.append(found)
        else:
            skipped.append(found)
    return columns, skipped


def _judged(series: Any, *, forced: bool) -> Column | Skipped:
    import pandas as pd

    name, present = series.name, series.dropna()
    if present.empty:
        return Skipped(name, "it is empty")
    kind = pd.api.types.infer_dtype(present)
    if kind in _DATES:
        return Skipped(name, "it holds dates; turn them into numbers to use it")
    if kind in _NUMBERS:
        return _judged_numbers(series, forced=forced)
    if kind == "categorical" and not forced and present.nunique() > MAX_LEVELS:
        return Skipped(name, f"it has {present.nunique()} levels")
    if kind in ("boolean", "categorical"):
        return _levels(series, "boolean" if kind == "boolean" else "category")
    if kind in ("string", "mixed-integer") or _texts(present):
        return _judged_text(series, present, forced=forced)
    return Skipped(name, "its values are neither numbers nor text")


def _texts(present: Any) -> bool:
    return all(isinstance(value, str | int | float | np.number) for value in present)


def _judged_numbers(series: Any, *, forced: bool) -> Column | Skipped:
    values = numbers(series)
    present = values[~np.isnan(values)]
    if np.ptp(present) == 0:
        return Skipped(series.name, f"it is always {present[0]:g}")
    if not forced and (present == np.round(present)).all():
        distinct = len(np.unique(present)) == len(present)
        if distinct and _IDENTIFIER.search(series.name):
            return Skipped(series.name, "it is an identifier: every row has its own number")
        if len(present) >= INDEX_ROWS and (np.diff(present) == 1).all():
            return Skipped(series.name, "it counts the rows")
    return Column(series.name, "number", int(np.isnan(values).sum()))


def _judged_text(series: Any, present: Any, *, forced: bool) -> Column | Skipped:
    import pandas as pd

    texts = present.astype(str)
    if texts.str.match(_DATE).mean() > MOST:
        return Skipped(series.name, "it holds dates; turn them into numbers to use it")
    parsed = pd.to_numeric(texts, errors="coerce").notna()
    if parsed.all():
        return _judged_numbers(series, forced=forced)
    n_levels = texts.nunique()
    if n_levels == 1:
        return Skipped(series.name, f"it is always {texts.iloc[0]!r}")
    if forced or n_levels <= min(MAX_LEVELS, max(2, len(present) // 2)):
        return _levels(series, "category")
    if parsed.mean() > 0.5:
        odd = texts[~parsed].iloc[0]
        n_odd = int((~parsed).sum())
        return Skipped(
            series.name, f"{n_odd} of its {len(texts)} values are not numbers, such as {odd!r}"
        )
    if n_levels == len(texts) and not texts.str.contains(r"\s").any():
        return Skipped(series.name, "it is an identifier: every row has its own")
    return Skipped(series.name, f"it is free text: {n_levels} different values")


def _levels(series: Any, kind: str) -> Column | Skipped:
    texts = levels(series, kind)
    found = sorted({text for text in texts if isinstance(text, str)})
    if len(found) == 1:
        return Skipped(series.name, f"it is always {found[0]}")
    return Column(series.name, kind, int(series.isna().sum()), found)


# values ---------------------------------------------------------------------------------------


def typed(frame: Any, columns: Iterable[Column]) -> Any:
    """The used columns in their order: numbers as float64, levels as text, NaN where missing."""
    import pandas as pd

    found: dict[str, Any] = {}
    for column in columns:
        series = frame[column.name]
        if column.kind == "number":
            found[column.name] = numbers(series)
        else:
            found[column.name] = pd.Series(levels(series, column.kind), frame.index, dtype=object)
    return pd.DataFrame(found, index=frame.index)


def numbers(series: Any) -> NDArray:
    """Values as float64, NaN where missing; what is no finite number is an error."""
    import pandas as pd

    try:
        values = pd.to_numeric(series).to_numpy(dtype=np.float64, na_value=np.nan)
    except (ValueError, TypeError):
        parsed = pd.to_numeric(series, errors="coerce")
        odd = series[parsed.isna() & series.notna()]
        example = repr(odd.iloc[0]) if len(odd) else "a value"
        raise ValueError(
            f"column {series.name!r} should hold numbers, and {example} is none"
        ) from None
    n_infinite = int(np.isinf(values).sum())
    if n_infinite:
        raise ValueError(
            f"column {series.name!r} has {counted(n_infinite, 'infinite value')}; remove or "
            "replace them"
        )
    return values


def levels(series: Any, kind: str) -> NDArray:
    """Values as text, NaN where missing, so that files of every kind name levels alike."""
    codes, uniques = series.factorize()
    names = np.array([*(_level(value, kind) for value in uniques), np.nan], dtype=object)
    return names[codes]  # a missing value has code -1


def _level(value: Any, kind: str) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    text = str(value)
    if kind == "boolean":
        text = text.strip().lower()
        return _TRUTH.get(text, text)
    return text
