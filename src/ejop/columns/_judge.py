"""What a column is: numbers, a flag, levels, dates, or nothing that can be learned from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.columns._encoders import (
    CategoryColumn,
    Column,
    DateColumn,
    FlagColumn,
    GradeColumn,
    NumberColumn,
    PresenceColumn,
    Skipped,
    require_finite,
    within_range,
)
from ejop.columns._parsing import (
    FIRST_YEAR,
    LAST_YEAR,
    MISSING_WORDS,
    NumberFormat,
    are_codes,
    are_whole,
    date_format,
    number_format,
    read_numbers,
)
from ejop.columns._tables import Cells

#: what a user may say that a column is
KINDS = ("number", "category", "date", "keep", "skip")
#: consecutive whole numbers are a row number in tables of at least so many rows
INDEX_ROWS = 10
#: texts with so many different values are free text or identifiers where most rows differ
FEW_TEXTS = 50
#: share of rows that must lack a value, and have one, for that to be worth a feature
LEAST_SHARE = 0.01
_IDENTIFIER = re.compile(
    r"(^|[\W_])(id|uuid|guid|key|index|rowid|row_?number)$|[a-z](Id|ID)$"
    r"|^Unnamed: \d+$|^__index_level_\d+__$",
    re.IGNORECASE,
)


class Judge:
    """Decides on the columns of one table.

    Parameters
    ----------
    max_levels : int
        Levels with a feature of their own, at the most.
    min_rows : int
        Rows of a level, at the least.
    typed : bool
        Whether the table has columns of numbers, so that whole numbers written as text are codes.
    """

    def __init__(self, max_levels: int, min_rows: int, typed: bool) -> None:
        self.max_levels, self.min_rows, self.typed = max_levels, min_rows, typed
        #: what should be looked at in columns that are used, a phrase each
        self.doubts: list[str] = []

    def column(self, name: str, cells: Cells, kind: str | None = None) -> Column | Skipped:
        """What a column is, or as what it is to be used."""
        if kind == "skip":
            return Skipped(name, "asked for", asked=True)
        if cells.missing.all():
            return Skipped(name, "it is empty")
        if cells.kind == "number":
            require_finite(name, cells.values)
        if kind in ("number", "date"):
            return self._as(name, cells, kind)
        if kind == "category":
            return self._levels(name, cells.as_texts(), forced=True)
        forced = kind == "keep"
        judge = {
            "number": self._numbers,
            "boolean": self._booleans,
            "date": self._dates,
            "text": self._texts,
            "other": self._others,
        }
        return judge[cells.kind](name, cells, forced)

    def _as(self, name: str, cells: Cells, kind: str) -> Column | Skipped:
        """A column of the kind that was asked for, or an error."""
        if cells.kind == "text":
            cells = cells.without(MISSING_WORDS)
            levels = cells.levels or []
            form: Any = number_format(levels) if kind == "number" else date_format(levels)
            if form is None:
                odd = next((x for x in levels if np.isnan(NumberFormat().read([x])[0])), "")
                raise ValueError(
                    f"column {name!r} is to hold {kind}s and has {odd!r}; mend its values, or use "
                    "it as a category."
                )
            if kind == "date":
                return self._written_dates(name, cells, form)
            return _number(name, cells.mapped(form.read(levels)), form)
        if cells.kind not in (kind, "boolean"):
            raise ValueError(
                f"column {name!r} is to hold {kind}s and holds {cells.found or cells.kind}s."
            )
        return _number(name, cells) if kind == "number" else self._date(name, cells)

    # kinds ----------------------------------------------------------------------------------

    def _numbers(
        self, name: str, cells: Cells, forced: bool, form: NumberFormat | None = None
    ) -> Column | Skipped:
        present = cells.values[~cells.missing]
        if np.ptp(present) == 0:
            if cells.missing.any():
                return self._levels(name, cells.as_texts(), forced)
            return Skipped(name, f"it is always {present[0]:g}")
        if not forced and (present == np.round(present)).all():
            if _IDENTIFIER.search(name) and len(np.unique(present)) == len(present):
                return Skipped(
                    name, "it is an identifier: every row has its own number", usable=True
                )
            if len(present) >= INDEX_ROWS and (np.diff(present) == 1).all():
                return Skipped(name, "it counts the rows", usable=True)
        return _number(name, cells, form)

    def _booleans(self, name: str, cells: Cells, forced: bool) -> Column | Skipped:
        return self._levels(name, cells.as_texts(), forced)

    def _dates(self, name: str, cells: Cells, forced: bool) -> Column | Skipped:
        return self._date(name, cells)

    def _written_dates(self, name: str, cells: Cells, form: Any) -> Column | Skipped:
        """Dates in text, of which some may be none, as the 30th of February."""
        levels = cells.levels or []
        read = form.read(levels)
        odd = np.isnan(read)
        parts = []
        if odd.any():
            n, one = int(cells.counts()[odd].sum()), levels[int(odd.argmax())]
            parts = [f"{_some(n, 'value')} no date, such as {one!r}"]
        return self._date(name, cells.mapped(read, "date"), form, parts)

    def _date(
        self, name: str, cells: Cells, form: Any = None, odd: Sequence[str] = ()
    ) -> Column | Skipped:
        """Dates as days; those that are none, or out of range, count as missing."""
        values, beyond = within_range(cells.values)
        there, odd = values[~np.isnan(values)], list(odd)
        if beyond:
            odd.append(f"{_some(beyond, 'date')} before {FIRST_YEAR} or after {LAST_YEAR}")
        if not len(there):
            return Skipped(
                name,
                f"no date of it can be used: {' and '.join(odd)}; mend them, or keep the column as "
                "a category",
            )
        if np.ptp(there) == 0 and len(there) == len(values):
            return Skipped(name, "it is always the same date")
        parts = [form.in_words()] if form is not None and form.in_words() else []
        if odd:
            parts.append(f"{' and '.join(odd)}, which count as missing; mend them")
            self.doubts.append(f"{name!r}: {parts[-1]}, or make them missing")
        missing, median = int(np.isnan(values).sum()), float(np.median(there))
        told, more = "; ".join(parts), {} if form is None else {"form": form}
        return DateColumn(name, "date", missing, told, median=median, cycles=_cycles(there), **more)

    def _texts(self, name: str, cells: Cells, forced: bool) -> Column | Skipped:
        if cells.ordered:
            return self._grades(name, cells, forced)
        present = cells.without(MISSING_WORDS)
        levels = present.levels or []
        read = read_numbers(levels)
        if read is not None and not are_codes(levels):
            whole = len(levels) == len(cells.levels or []) and are_whole(levels)
            if not (self.typed and whole and len(levels) <= self.max_levels):
                return self._numbers(name, present.mapped(read[1]), forced, read[0])
        dates = date_format(levels)
        if dates is not None:
            return self._written_dates(name, present, dates)
        n_levels, n_present = len(cells.levels or []), int((~cells.missing).sum())
        repeated = n_levels <= max(2, n_present // 2)
        if forced or (repeated and n_levels <= max(FEW_TEXTS, n_present // 10)):
            found = self._levels(name, cells, forced)
            return found if forced else self._doubted(found, levels)
        return self._unused(name, cells, levels)

    def _doubted(self, found: Column | Skipped, levels: list[str]) -> Column | Skipped:
        """Levels of which most are numbers: somebody may have meant numbers."""
        odd = _odd_among_numbers(levels)
        if odd is None or isinstance(found, Skipped):
            return found
        told = f"it mixes numbers and others, such as {odd!r}, and is used as a category"
        self.doubts.append(
            f"{found.name!r}: {told}; mend these, make them missing, or say that it is one"
        )
        return replace(found, told=told)

    def _unused(self, name: str, cells: Cells, levels: list[str]) -> Column | Skipped:
        """Free text, identifiers, and numbers among which others stand."""
        odd = _odd_among_numbers(levels)
        if odd is not None:
            return Skipped(
                name,
                f"it mixes numbers and others, such as {odd!r}; mend these, make them missing, or "
                "keep the column as a category",
            )
        distinct = len(levels) == int((~cells.missing).sum())
        blank = any(re.search(r"\s", level) for level in levels[:1000])
        what = f"free text: {len(levels):,} different values"
        if distinct and not blank:
            what = "an identifier: every row has its own"
        share = cells.missing.mean()
        if LEAST_SHARE <= share <= 1 - LEAST_SHARE:
            told = f"it is {what}; only whether it is there is used"
            return PresenceColumn(name, "presence", int(cells.missing.sum()), told)
        return Skipped(name, f"it is {what}", usable=True)

    def _grades(self, name: str, cells: Cells, forced: bool) -> Column | Skipped:
        """Levels in an order: their places."""
        if np.count_nonzero(cells.counts()) < 2:
            return self._levels(name, cells, forced)
        places = np.where(cells.missing, np.nan, cells.values)
        missing, middle = int(cells.missing.sum()), float(np.nanmedian(places))
        return GradeColumn(name, "grade", missing, median=middle, levels=cells.levels or [])

    def _others(self, name: str, cells: Cells, forced: bool) -> Column | Skipped:
        return Skipped(name, f"its values are neither numbers nor text: {cells.found}")

    def _levels(self, name: str, cells: Cells, forced: bool) -> Column | Skipped:
        """A flag or a category."""
        counts = cells.counts()
        levels = [x for x, k in zip(cells.levels or [], counts, strict=True) if k]
        counts = counts[counts > 0]
        missing = int(cells.missing.sum())
        if len(levels) == 1 and not missing:
            return Skipped(name, f"it is always {levels[0]!r}")
        if len(levels) == 2 and not missing:
            order = np.argsort(levels)
            levels = [levels[i] for i in order]
            share = float(counts[order[1]] / counts.sum())
            return FlagColumn(name, "flag", levels=levels, share=share)
        by_count = np.lexsort((np.array(levels), -counts))
        often = [i for i in by_count if counts[i] >= self.min_rows][: self.max_levels]
        often = often or list(by_count[:1])
        rare = [levels[i] for i in by_count if i not in set(often)]
        if len(rare) == 1 and len(often) < self.max_levels:  # alone it is no group
            often, rare = [*often, levels.index(rare[0])], []
        chosen = sorted(levels[i] for i in often)
        return CategoryColumn(name, "category", missing, levels=chosen, rare=sorted(rare))


def _number(name: str, cells: Cells, form: NumberFormat | None = None) -> NumberColumn:
    median, missing = float(np.nanmedian(cells.values)), int(cells.missing.sum())
    form = form or NumberFormat()
    told = f"read as numbers {form.in_words()}" if form.in_words() else ""
    return NumberColumn(name, "number", missing, told, median=median, form=form)


def _odd_among_numbers(texts: Sequence[str]) -> str | None:
    """A text that is no number where most others are; None where there is none."""
    numbers = np.array([number_format([text]) is not None for text in texts[:1000]])
    return texts[int((~numbers).argmax())] if 0.5 < numbers.mean() < 1 else None


def _some(n: int, what: str) -> str:
    """How many of a kind are something."""
    return f"{n:,} {what} is" if n == 1 else f"{n:,} {what}s are"


def _cycles(days: NDArray) -> tuple[str, ...]:
    """Cycles that some dates go through more than once, and vary in."""
    span, found = float(np.ptp(days)), []
    if (days % 1).any():
        found.append("hour")
    if span >= 14 and len(np.unique(np.floor(days) % 7)) > 1:
        found.append("weekday")
    if span >= 400:
        found.append("season")
    return tuple(found)
