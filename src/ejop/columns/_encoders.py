"""What a column becomes: features that are numbers, and what each of them is called.

Features of levels are 0/1 with a fixed weight, not scaled to unit variance each. Two rows of
different levels are then as far apart as two rows of one standardised number are on average, so
that a category counts as one column, however many levels it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.columns._parsing import (
    FIRST_YEAR,
    LAST_YEAR,
    MISSING_WORDS,
    DateFormat,
    NumberFormat,
)
from ejop.columns._tables import EPOCH, Cells

#: what a 0/1 feature of one of several levels is multiplied by, and that of a flag, which is alone
LEVEL, FLAG = 1.0, float(np.sqrt(2))
#: levels that are shown of many
SHOWN = 4
#: days in a week and in a year
WEEK, YEAR = 7.0, 365.2425
_TRUE, _FALSE = ("1", "yes", "y", "t", "true"), ("0", "no", "n", "f", "false")


@dataclass(frozen=True)
class Skipped:
    """A column that is not used, and why.

    Attributes
    ----------
    name, why : str
    asked : bool
        Whether it was left out on demand.
    usable : bool
        Whether "keep" uses it all the same.
    """

    name: str
    why: str
    asked: bool = False
    usable: bool = False


@dataclass(frozen=True)
class Column:
    """A column that is used.

    Attributes
    ----------
    name : str
    kind : {"number", "grade", "flag", "category", "date", "presence"}
    missing : int
        Values that were not there in the training rows.
    told : str
        What was done beyond the usual, in words; empty for nothing.
    """

    name: str
    kind: str
    missing: int = 0
    told: str = ""

    def features(self) -> list[str]:
        """Names of the features that it becomes."""
        return [self.name]

    def factors(self) -> list[float]:
        """What each feature is multiplied by where columns are scaled; NaN for a number, whose
        scale its values say."""
        return [np.nan]

    def encode(self, cells: Cells, told: list[str]) -> NDArray:
        """Features of some values, (n, n_features); what was not learned from joins ``told``."""
        raise NotImplementedError


@dataclass(frozen=True)
class NumberColumn(Column):
    """Numbers, gaps filled with the median; 0/1 beside them where the training rows had gaps."""

    median: float = 0.0
    form: NumberFormat = field(default_factory=NumberFormat)

    def features(self) -> list[str]:
        """The column, and whether it is missing."""
        return [self.name, f"{self.name}_missing"] if self.missing else [self.name]

    def factors(self) -> list[float]:
        """Numbers are scaled; whether one is missing is a flag."""
        return [np.nan, FLAG] if self.missing else [np.nan]

    def encode(self, cells: Cells, told: list[str]) -> NDArray:
        """Values and gaps."""
        return _filled(self, self.numbers(cells), self.median, told)

    def numbers(self, cells: Cells) -> NDArray:
        """Values as numbers, NaN where missing; what is none is an error."""
        if cells.kind == "text":
            cells = cells.without(MISSING_WORDS)
            assert cells.levels is not None
            found = self.form.read(cells.levels)
            if np.isnan(found).any() and self.form.marks:  # a file may write them plainly
                found = np.where(np.isnan(found), NumberFormat().read(cells.levels), found)
            _refuse(self.name, "numbers", np.array(cells.levels)[np.isnan(found)])
            cells = cells.mapped(found)
        elif cells.kind == "other" and not cells.missing.all():
            _refuse(self.name, "numbers", [cells.found])
        require_finite(self.name, cells.values)
        return cells.values


@dataclass(frozen=True)
class DateColumn(Column):
    """Days passed, and where in the day, the week and the year, if the rows span enough of them."""

    median: float = 0.0
    cycles: tuple[str, ...] = ()
    form: DateFormat = field(default_factory=lambda: DateFormat("ymd"))

    def features(self) -> list[str]:
        """Days, cycles, and whether the date is missing."""
        parts = [f"{self.name}_{cycle}_{part}" for cycle in self.cycles for part in ("sin", "cos")]
        return [f"{self.name}_days", *parts, *([f"{self.name}_missing"] if self.missing else [])]

    def factors(self) -> list[float]:
        """Days are scaled; cycles are of length one already."""
        return [np.nan, *[1.0] * (2 * len(self.cycles)), *([FLAG] if self.missing else [])]

    def encode(self, cells: Cells, told: list[str]) -> NDArray:
        """Days, cycles and gaps."""
        moments = self.moments(cells)
        found = _filled(self, moments, self.median, told)
        parts = [cycle_of(found[:, 0], cycle) for cycle in self.cycles]
        return np.hstack([found[:, :1], *parts, found[:, 1:]])

    def moments(self, cells: Cells) -> NDArray:
        """Days since 1970, NaN where missing or out of range."""
        if cells.kind == "text":
            cells = cells.without(MISSING_WORDS)
            assert cells.levels is not None
            cells = cells.mapped(self.form.read(cells.levels), "date")
        elif cells.kind != "date" and not cells.missing.all():
            _refuse(self.name, "dates", [cells.found or f"a {cells.kind}"])
        return within_range(cells.values)[0]


@dataclass(frozen=True)
class CategoryColumn(Column):
    """One 0/1 feature a level; rare levels together; missing values are a level of their own.

    Attributes
    ----------
    levels : list of str
        Those with a feature.
    rare : list of str
        Those that share one.
    """

    levels: list[str] = field(default_factory=list)
    rare: list[str] = field(default_factory=list)

    def features(self) -> list[str]:
        """A name for each level."""
        found = [f"{self.name}_{level}" for level in self.levels]
        found += [f"{self.name}_rare"] * bool(self.rare)
        return found + [f"{self.name}_missing"] * bool(self.missing)

    def factors(self) -> list[float]:
        """Levels have a weight of their own."""
        return [LEVEL] * len(self.features())

    def encode(self, cells: Cells, told: list[str]) -> NDArray:
        """A 1 at each row's level."""
        cells = cells.as_texts()
        n = len(self.levels)
        places = {level: place for place, level in enumerate(self.levels)}
        places |= dict.fromkeys(self.rare, n)
        loose = {level.lower(): place for level, place in places.items()}
        if len(loose) == len(places):  # true is also True where no two levels differ by that
            places = {x: loose[x.lower()] for x in cells.levels or [] if x.lower() in loose}
        levels, counts = cells.levels or [], cells.counts()
        new = [x for x, k in zip(levels, counts, strict=True) if k and x not in places]
        if new:
            told.append(_told_new(self.name, new, bool(self.rare)))
        width, unknown = n + bool(self.rare), n if self.rare else -1
        found = np.array([places.get(level, unknown) for level in levels] + [-1])[cells.values]
        gone = cells.missing
        if self.missing:
            found[gone], width = width, width + 1
        elif gone.any():
            told.append(f"{self.name} has {_counted(gone)}, which count as none of its levels")
        out = np.zeros((len(cells), width))
        rows = np.flatnonzero(found >= 0)
        out[rows, found[rows]] = 1
        return out


@dataclass(frozen=True)
class FlagColumn(Column):
    """One 0/1 feature for two levels.

    Attributes
    ----------
    levels : list of str
        What is 0, and what is 1.
    share : float
        Of ones, for a missing value.
    """

    levels: list[str] = field(default_factory=list)
    share: float = 0.5

    def features(self) -> list[str]:
        """The column with what 1 stands for; a flag of true and false is its own name."""
        zero, one = self.levels
        plain = _spelling(zero) == "false" and _spelling(one) == "true"
        return [self.name if plain else f"{self.name}_{one}"]

    def factors(self) -> list[float]:
        """Two levels are as far apart as those of a category."""
        return [FLAG]

    def encode(self, cells: Cells, told: list[str]) -> NDArray:
        """Zeros and ones."""
        cells = cells.as_texts()
        levels = cells.levels or []
        places = {level: float(place) for place, level in enumerate(self.levels)}
        loose = {_spelling(level): place for level, place in places.items()}
        loose = loose if len(loose) == 2 else {}
        found = np.array(
            [places.get(x, loose.get(_spelling(x), self.share)) for x in levels] + [self.share]
        )
        known = [x in places or _spelling(x) in loose for x in levels]
        counts = cells.counts()
        new = [x for x, k, ok in zip(levels, counts, known, strict=True) if k and not ok]
        if new:
            told.append(_told_new(self.name, new, rare=False))
        if cells.missing.any():
            gaps = _counted(cells.missing)
            told.append(f"{self.name} has {gaps}, taken for the average of both levels")
        return found[cells.values][:, None]


@dataclass(frozen=True)
class GradeColumn(Column):
    """Levels in an order: the place of each.

    Attributes
    ----------
    levels : list of str
        In their order.
    """

    median: float = 0.0
    levels: list[str] = field(default_factory=list)

    def features(self) -> list[str]:
        """The column, and whether it is missing."""
        return [self.name, f"{self.name}_missing"] if self.missing else [self.name]

    def factors(self) -> list[float]:
        """Places are scaled as numbers are."""
        return [np.nan, FLAG] if self.missing else [np.nan]

    def encode(self, cells: Cells, told: list[str]) -> NDArray:
        """Places and gaps; levels that are not known are gaps."""
        cells = cells.as_texts()
        places = {level: float(place) for place, level in enumerate(self.levels)}
        levels, counts = cells.levels or [], cells.counts()
        new = [x for x, k in zip(levels, counts, strict=True) if k and x not in places]
        if new:
            told.append(_told_new(self.name, new, rare=False))
        found = cells.mapped(np.array([places.get(x, np.nan) for x in levels]))
        return _filled(self, found.values, self.median, told)


@dataclass(frozen=True)
class PresenceColumn(Column):
    """Whether there is a value at all, of a column whose values are not used."""

    def features(self) -> list[str]:
        """The column's name."""
        return [f"{self.name}_missing"]

    def factors(self) -> list[float]:
        """A flag."""
        return [FLAG]

    def encode(self, cells: Cells, told: list[str]) -> NDArray:
        """One where missing."""
        return cells.missing[:, None].astype(np.float64)


def _told_new(name: str, levels: Sequence[str], rare: bool) -> str:
    shown = ", ".join(map(repr, levels[:SHOWN]))
    more = f" and {len(levels) - SHOWN} more" if len(levels) > SHOWN else ""
    what = "count as rare ones" if rare else "count as none of its levels"
    new = f"{len(levels):,} new level{'s' * (len(levels) > 1)}"
    return f"{name} has {new}, {shown}{more}, which {what}"


def _counted(missing: NDArray) -> str:
    n = int(missing.sum())
    return f"{n:,} missing value{'s' * (n != 1)}"


def _filled(column: Any, values: NDArray, median: float, told: list[str]) -> NDArray:
    gone = np.isnan(values)
    if gone.any() and not column.missing:
        told.append(f"{column.name} has {_counted(gone)}, filled with the median, {median:g}")
    found = np.where(gone, median, values)[:, None]
    return np.hstack([found, gone[:, None]]) if column.missing else found


def _refuse(name: str, what: str, odd: Any) -> None:
    if len(odd):
        raise ValueError(
            f"column {name!r} should hold {what}, as it did when the model was fitted, and "
            f"{str(odd[0])!r} is not one; mend the value, or make it missing."
        )


def _spelling(level: str) -> str:
    """One name for what files write for true, and one for false."""
    low = level.lower().removesuffix(".0")
    return "true" if low in _TRUE else "false" if low in _FALSE else low


def require_finite(name: str, values: NDArray) -> None:
    """Refuse infinite values of a column by its name."""
    infinite = np.isinf(values)
    if infinite.any():
        n = int(infinite.sum())
        raise ValueError(
            f"column {name!r} holds {n:,} infinite value{'s' * (n != 1)}, the first in row "
            f"{int(infinite.argmax())}; make them missing, or remove these rows."
        )


def within_range(days: NDArray) -> tuple[NDArray, int]:
    """Days with those of placeholders such as 9999-12-31 missing, and how many these are."""
    low, high = (
        (np.datetime64(f"{year}-01-01", "us") - EPOCH) / np.timedelta64(1, "D")
        for year in (FIRST_YEAR, LAST_YEAR)
    )
    beyond = (days < low) | (days > high)
    return np.where(beyond, np.nan, days), int(beyond.sum())


def cycle_of(days: NDArray, cycle: str) -> NDArray:
    """Place on a circle of a day, a week or a year, (n, 2)."""
    turn = 2 * np.pi * (days % {"hour": 1.0, "weekday": WEEK, "season": YEAR}[cycle])
    turn /= {"hour": 1.0, "weekday": WEEK, "season": YEAR}[cycle]
    return np.column_stack([np.sin(turn), np.cos(turn)])
