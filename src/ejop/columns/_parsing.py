"""Numbers and dates that are written as text.

All values of a column are read in one way, found from its different texts. What one way does not
read is no number, so that 1.234 is never a thousand in one row and little more than one in another.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ejop.columns._tables import days

#: what people and programs write for a missing value
MISSING_WORDS = frozenset(
    ["na", "n/a", "#n/a", "#n/a n/a", "#na", "<na>", "null", "none", "nan", "-nan", "nil"]
    + ["1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan", "?", "-", "--", ".", "..", "..."]
    + ["missing", "unknown", "not available", "not applicable"]
)
_CURRENCY = r"[$€£¥₹₽₩]|USD|EUR|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|kr\.?|zł|Kč"
_MARKED = re.compile(
    rf"(?P<open>\()?(?P<sign>[-+−])?\s*(?P<before>{_CURRENCY})?\s*(?P<sign2>[-+−])?"
    rf"(?P<digits>\d[\d.,'’\s]*|[.,]\d+)(?P<exponent>[eE][-+]?\d+)?"
    rf"\s*(?P<after>%|{_CURRENCY})?(?P<close>\))?",
)
_WHOLE = re.compile(r"[-+]?\d+", re.ASCII)
_CODE = re.compile(r"[-+]?0\d+", re.ASCII)
#: texts that are looked at before all of them are
_LOOK = 1000


@dataclass(frozen=True)
class NumberFormat:
    """How numbers are written.

    Attributes
    ----------
    decimal : {".", ","}
    unit : str
        A currency or per cent sign that stands with them.
    marks : bool
        Whether thousands are set apart, or anything else is there but digits and a point.
    """

    decimal: str = "."
    unit: str = ""
    marks: bool = False

    def read(self, texts: Sequence[str]) -> NDArray:
        """Values of texts, NaN for one that is no such number."""
        if not self.marks:
            return np.array([_plain(text) for text in texts], dtype=np.float64)
        return np.array([self._value(text) for text in texts], dtype=np.float64)

    def _value(self, text: str) -> float:
        if self.decimal == "," and "." not in text:  # the quick way for most
            plain = _plain(text.replace(",", "."))
            if plain == plain:
                return plain
        found = _MARKED.fullmatch(text)
        if found is None or {_unit(found)} - {"", self.unit}:
            return np.nan
        digits = re.sub(r"['’\s]", "", found["digits"])
        other = "," if self.decimal == "." else "."
        whole, _, part = digits.partition(self.decimal)
        if other in part or self.decimal in part or not _is_grouped(whole, other):
            return np.nan
        value = _plain(f"{whole.replace(other, '')}.{part}{found['exponent'] or ''}")
        if found["open"] and not found["close"]:
            return np.nan
        negative = {found["sign"], found["sign2"]} & {"-", "−"} or found["open"]
        return -value if negative else value

    def in_words(self) -> str:
        """What is unusual about it; empty for plain numbers."""
        parts = [self.unit] if self.unit else []
        if self.decimal == ",":
            parts.append("decimal commas")
        elif self.marks and not self.unit:
            parts.append("marks between thousands")
        return f"with {' and '.join(parts)}" if parts else ""


def _is_grouped(whole: str, mark: str) -> bool:
    """Whether marks stand between groups of three digits, or nowhere."""
    first, *others = whole.split(mark)
    if not others:
        return True
    return 1 <= len(first) <= 3 and first[0] != "0" and all(len(group) == 3 for group in others)


def _unit(found: re.Match) -> str:
    return found["before"] or found["after"] or ""


def _plain(text: str) -> float:
    try:
        return float(text) if "_" not in text else np.nan
    except ValueError:
        return np.nan


def number_format(texts: Sequence[str]) -> NumberFormat | None:
    """The way in which all texts are numbers; None where there is none.

    Examples
    --------
    >>> from ejop.columns._parsing import number_format
    >>> number_format(["1.234,50 €", "7 €"])
    NumberFormat(decimal=',', unit='€', marks=True)
    >>> number_format(["1,5", "2,250"]).decimal, number_format(["1,500", "2,250"]).decimal
    (',', '.')
    >>> number_format(["12", "many"]) is None
    True
    """
    found = read_numbers(texts)
    return None if found is None else found[0]


def read_numbers(texts: Sequence[str]) -> tuple[NumberFormat, NDArray] | None:
    """The way in which all texts are numbers, and the numbers; None where there is none."""
    if len(texts) > _LOOK and _number_format(texts[:_LOOK]) is None:
        return None
    form = _number_format(texts)
    return None if form is None else (form, form.read(texts))


def _number_format(texts: Sequence[str]) -> NumberFormat | None:
    if not texts:
        return None
    if not np.isnan(NumberFormat().read(texts)).any():
        return NumberFormat()
    matches = [_MARKED.fullmatch(text) for text in texts]
    if any(found is None for found in matches):
        return None
    units = {_unit(found) for found in matches if found}
    if len(units - {""}) > 1 or ("%" in units and len(units) > 1):
        return None
    both = (NumberFormat(mark, max(units), marks=True) for mark in ".,")
    return next((form for form in both if not np.isnan(form.read(texts)).any()), None)


def are_whole(texts: Sequence[str]) -> bool:
    """Whether all texts are whole numbers without any mark, as codes may be."""
    return all(_WHOLE.fullmatch(text) for text in texts)


def are_codes(texts: Sequence[str]) -> bool:
    """Whether all texts are whole numbers and some begin with a zero that counts, as 01234."""
    return any(_CODE.fullmatch(text) for text in texts) and are_whole(texts)


# dates ------------------------------------------------------------------------------------------

_MONTHS = {
    name: number
    for number, names in enumerate(
        [
            ("jan", "january"),
            ("feb", "february"),
            ("mar", "march"),
            ("apr", "april"),
            ("may",),
            ("jun", "june"),
            ("jul", "july"),
            ("aug", "august"),
            ("sep", "sept", "september"),
            ("oct", "october"),
            ("nov", "november"),
            ("dec", "december"),
        ],
        1,
    )
    for name in names
}
_TIME = (
    r"(?:[T ,]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?P<part>[.,]\d+)?)?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?\s*(?P<zone>Z|UTC|GMT|[-+]\d{2}:?\d{2})?)?"
)
_SHAPES = {
    "ymd": re.compile(rf"(?P<a>\d{{4}})[-/.](?P<b>\d{{1,2}})[-/.](?P<c>\d{{1,2}}){_TIME}"),
    "numbers": re.compile(rf"(?P<a>\d{{1,2}})[-/.](?P<b>\d{{1,2}})[-/.](?P<c>\d{{4}}|\d\d){_TIME}"),
    "words": re.compile(
        rf"(?:(?P<a>\d{{1,2}})[-. ]+(?P<word>[A-Za-z]{{3,9}})"
        rf"|(?P<word2>[A-Za-z]{{3,9}})[. ]+(?P<a2>\d{{1,2}})(?:st|nd|rd|th)?)"
        rf"[-., ]+(?P<c>\d{{4}}){_TIME}"
    ),
}
#: share of texts that must look like dates for the column to be called so
MOST = 0.9
#: years beyond which a date is a placeholder, such as 9999-12-31
FIRST_YEAR, LAST_YEAR = 1500, 2300


@dataclass(frozen=True)
class DateFormat:
    """How dates are written.

    Attributes
    ----------
    order : {"ymd", "dmy", "mdy", "words"}
    certain : bool
        Whether the values tell days from months.
    """

    order: str
    certain: bool = True

    def read(self, texts: Sequence[str]) -> NDArray:
        """Days since 1970, NaN for what is no date."""
        return np.array([self._days(text) for text in texts], dtype=np.float64)

    def _days(self, text: str) -> float:
        shape = "numbers" if self.order in ("dmy", "mdy") else self.order
        found = _SHAPES[shape].fullmatch(text)
        if found is None:
            return np.nan
        if shape == "ymd":
            year, month, day = int(found["a"]), int(found["b"]), int(found["c"])
        elif shape == "words":
            word = found["word"] or found["word2"]
            month = _MONTHS.get(word.lower(), 0)
            year, day = int(found["c"]), int(found["a"] or found["a2"])
        else:
            one, two, year = int(found["a"]), int(found["b"]), int(found["c"])
            day, month = (one, two) if self.order == "dmy" else (two, one)
            if len(found["c"]) == 2:
                year += 1900 if year > 68 else 2000
        try:
            return _moment(found, year, month, day)
        except ValueError:  # the 30th of February
            return np.nan

    def in_words(self) -> str:
        """Which part comes first, where that had to be guessed."""
        first = "day" if self.order == "dmy" else "month"
        return "" if self.certain else f"taken to begin with the {first}, which no value shows"


def _moment(found: re.Match, year: int, month: int, day: int) -> float:
    if found["hour"] is None:
        return days(datetime.date(year, month, day))
    hour = int(found["hour"])
    if found["half"]:
        hour = hour % 12 + 12 * (found["half"][0] in "pP")
    part = float((found["part"] or "0").replace(",", "."))
    moment = datetime.datetime(year, month, day, hour, int(found["minute"]))
    seconds = int(found["second"] or 0) + part
    zone = found["zone"]
    if zone and zone[0] in "+-":
        sign = -1 if zone[0] == "-" else 1
        seconds -= sign * (3600 * int(zone[1:3]) + 60 * int(zone[-2:]))
    return days(moment + datetime.timedelta(seconds=seconds))


def date_format(texts: Sequence[str]) -> DateFormat | None:
    """The way in which most texts are dates; None where there is none.

    Examples
    --------
    >>> from ejop.columns._parsing import date_format
    >>> date_format(["2024-02-01", "2024-02-28 13:45"]).order
    'ymd'
    >>> date_format(["3/4/2024", "3/14/2024"]).order
    'mdy'
    >>> date_format(["1979 Q3"]) is None
    True
    """
    for shape, pattern in _SHAPES.items():
        if texts and _share(texts[:_LOOK], pattern) >= MOST and _share(texts, pattern) >= MOST:
            if shape != "numbers":
                return DateFormat(shape)
            found = [match for text in texts if (match := pattern.fullmatch(text))]
            if any(int(match["a"]) > 12 for match in found):
                return DateFormat("dmy")
            if any(int(match["b"]) > 12 for match in found):
                return DateFormat("mdy")
            return DateFormat("mdy" if "/" in texts[0] else "dmy", certain=False)
    return None


def _share(texts: Sequence[str], pattern: re.Pattern) -> float:
    return sum(pattern.fullmatch(text) is not None for text in texts) / len(texts)
