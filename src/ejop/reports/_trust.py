"""Whether probabilities, sets and intervals keep what they promise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ejop.reports._evidence import Evidence
from ejop.reports._rivals import share_with_interval
from ejop.reports._words import counted, number, percent, quoted

#: what sets and intervals are asked to hold
ASKED = 0.9
#: groups of probabilities, and rows of each at the least
BINS, FEWEST = 10, 5


@dataclass(frozen=True)
class Bin:
    """Rows of about one probability.

    Attributes
    ----------
    said : float
        Mean probability.
    came, low, high : float
        Share of the rows in which it came true, with its interval.
    n : int
    """

    said: float
    came: float
    low: float
    high: float
    n: int


def calibration(e: Evidence) -> tuple[str, list[Bin]]:
    """What is said to be probable, and groups of rows by its probability.

    Of two classes the second; of more the class that was answered.
    """
    if e.chances is None:
        return "", []
    if len(e.classes) == 2:
        what, said, true = f"class {quoted(e.classes[1])}", e.chances[:, 1], e.y == e.classes[1]
    else:
        what, said = "the answer", e.chances.max(1)
        true = e.classes[e.chances.argmax(1)] == e.y
    return what, _bins(said, true)


def _bins(said: NDArray, true: NDArray) -> list[Bin]:
    """Ten of equal width, those with few rows left out."""
    place = np.minimum((said * BINS).astype(int), BINS - 1)
    found = []
    for b in range(BINS):
        rows = place == b
        if rows.sum() >= FEWEST:
            came = share_with_interval(int(true[rows].sum()), int(rows.sum()))
            found.append(Bin(float(said[rows].mean()), *came, int(rows.sum())))
    return found


def calibration_words(what: str, bins: list[Bin]) -> str:
    """Whether what is said comes true as often, within the intervals."""
    outside = [one for one in bins if not one.low <= one.said <= one.high]
    if len(outside) <= (len(bins) >= BINS // 2):  # one of so many may be chance
        return f"Probabilities of {what} come true about as often as they say."
    worst = max(outside, key=lambda one: abs(one.said - one.came))
    return (
        f"Probabilities of {what} are off in {counted(len(outside), 'group')} of {len(bins)}; the "
        f"most in {counted(worst.n, 'row')} where {percent(worst.said, 0)} was said and "
        f"{percent(worst.came, 0)} came true."
    )


def coverage_words(e: Evidence) -> str:
    """Whether sets of classes, or intervals, hold the truth as often as they were asked to."""
    model = e.source.model
    if not hasattr(e.rule, "honest_") or isinstance(getattr(model, "classes_", None), list):
        return ""
    if len(e.rule.honest_) * (1 - ASKED) < 1:
        return ""  # too few rows that judge
    if e.regression:
        bounds = np.asarray(model.predict_interval(e.X, ASKED))
        bounds = bounds if bounds.ndim == 2 else bounds[:, :, 0]
        inside = (bounds[:, 0] <= e.y) & (e.y <= bounds[:, 1])
        width = number(float((bounds[:, 1] - bounds[:, 0]).mean()))
        return (
            f"Intervals that should hold {percent(ASKED, 0)} of the targets hold {_held(inside)}. "
            f"They are {width} wide."
        )
    sets = np.asarray(model.predict_set(e.X, ASKED))
    known = np.isin(e.y, e.classes)
    place = np.searchsorted(e.classes, e.y[known])
    inside = np.zeros(len(e.y), dtype=bool)
    inside[known] = sets[known][np.arange(len(place)), place]
    single = percent(float((sets.sum(1) == 1).mean()), 0)
    return (
        f"Sets of classes that should hold {percent(ASKED, 0)} of the true ones hold "
        f"{_held(inside)}. They have {sets.sum(1).mean():.2f} classes in the mean, and one alone "
        f"in {single} of the rows."
    )


def _held(inside: NDArray) -> str:
    value, low, high = share_with_interval(int(inside.sum()), len(inside))
    return f"{percent(value)} (95 % interval {percent(low)} to {percent(high)})"
