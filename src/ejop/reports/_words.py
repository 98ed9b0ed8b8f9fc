"""Numbers and names in plain words."""

from __future__ import annotations

from typing import Any

import numpy as np


def number(value: float, signed: bool = False) -> str:
    """A number of four digits with thousands apart.

    Examples
    --------
    >>> from ejop.reports._words import number
    >>> number(182345.6), number(0.123456), number(12.0, signed=True)
    ('182,300', '0.1235', '+12')
    """
    if not np.isfinite(value):
        return str(value)
    rounded, sign = float(f"{value:.4g}"), "+" if signed else ""
    return f"{rounded:{sign},.0f}" if abs(rounded) >= 1000 else f"{rounded:{sign}g}"


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent.

    Examples
    --------
    >>> from ejop.reports._words import percent
    >>> percent(0.5), percent(0.1234, 0)
    ('50.0 %', '12 %')
    """
    return f"{100 * share:.{digits}f} %"


def counted(n: int, noun: str) -> str:
    """A number of things.

    Examples
    --------
    >>> from ejop.reports._words import counted
    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def quoted(name: Any, width: int = 40) -> str:
    """A name between quotation marks, shortened.

    Examples
    --------
    >>> from ejop.reports._words import quoted
    >>> quoted("yes")
    '“yes”'
    """
    return f"“{short(str(name), width)}”"


def short(name: str, width: int) -> str:
    """A name without its middle where it is too long.

    Examples
    --------
    >>> from ejop.reports._words import short
    >>> short("a rather long name", 9)
    'a ra…name'
    """
    half = (width - 1) // 2
    return name if len(name) <= width else f"{name[:half]}…{name[len(name) - half :]}"


def listed(parts: list[str]) -> str:
    """Parts with commas, and "and" before the last.

    Examples
    --------
    >>> from ejop.reports._words import listed
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
