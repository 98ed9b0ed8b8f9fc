"""Pictures as places in per cent, which the template writes as SVG and HTML.

No library draws them: the page stays small, follows light and dark, and fits any width without
code. Lengths are per cent of the picture, letters keep their size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.plots import AnswerDisplay, ContributionDisplay
from ejop.plots.points import project, strip, thinned
from ejop.plots.shares import Shares
from ejop.plots.values import number_text
from ejop.reports._evidence import Evidence
from ejop.reports._trust import Bin
from ejop.reports._words import number, percent, short

#: colours and signs of classes, of which the style sheet and the template know as many
COLORS, SIGNS = 8, 8
#: columns with a bar, columns of a heat map, and classes of it
TOP, HEAT, NAMED = 20, 12, 12
#: of the span: room between points and frame
PAD = 0.04
#: values from low to high, none of which vanishes on a light or a dark page
RAMP = np.array([[76, 120, 200], [47, 164, 140], [240, 200, 8]])


@dataclass(frozen=True)
class Mark:
    """A point: its place in per cent, how it looks, and what is said of it."""

    x: float
    y: float
    told: str
    sign: int = 0
    look: str = ""
    color: str = ""


@dataclass(frozen=True)
class Stroke:
    """A line between two places in per cent."""

    x1: float
    y1: float
    x2: float
    y2: float
    look: str = ""


@dataclass(frozen=True)
class Plot:
    """Points and lines within axes.

    Attributes
    ----------
    told : str
        What it shows, for readers who cannot see it.
    x_title, y_title : str
    x_ticks, y_ticks : list of (place in per cent, text)
    marks : list of Mark
    lines : list of Stroke
    height, left : int
        Pixels, of the frame and of the room beside it.
    """

    told: str
    x_title: str
    y_title: str
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    marks: list[Mark]
    lines: list[Stroke] = field(default_factory=list)
    height: int = 320
    left: int = 44


@dataclass(frozen=True)
class Axis:
    """From numbers to per cent of a picture."""

    low: float
    high: float

    @classmethod
    def over(cls, values: NDArray, pad: float = PAD) -> Axis:
        """Of all finite values, with room at both ends."""
        there = np.asarray(values, dtype=np.float64)
        there = there[np.isfinite(there)]
        low, high = (there.min(), there.max()) if len(there) else (0.0, 1.0)
        room = pad * (high - low) or abs(low) * pad or 1.0
        return cls(float(low - room), float(high + room))

    def place(self, value: float) -> float:
        """Per cent from the low end."""
        return round(100 * (float(value) - self.low) / (self.high - self.low), 2)

    def up(self, value: float) -> float:
        """Per cent from the top."""
        return round(100 - self.place(value), 2)

    def ticks(self, most: int = 5, upwards: bool = False) -> list[tuple[float, str]]:
        """Round numbers, with their places."""
        step = round_step((self.high - self.low) / most)
        first = int(np.ceil(self.low / step))
        found = [step * i for i in range(first, int(np.floor(self.high / step)) + 1)]
        place = self.up if upwards else self.place
        return [(place(value), number(float(f"{value:.10g}"))) for value in found]


def round_step(size: float) -> float:
    """1, 2 or 5 times a power of ten, the next above a size.

    Examples
    --------
    >>> from ejop.reports._pictures import round_step
    >>> round_step(0.3), round_step(12.0)
    (0.5, 20.0)
    """
    power = 10.0 ** np.floor(np.log10(size))
    return float(power * next(m for m in (1, 2, 5, 10) if m * power >= size * (1 - 1e-9)))


def room_for(texts: Sequence[str]) -> int:
    """Pixels that the longest of some texts takes beside a picture."""
    return 14 + round(7.0 * max(map(len, texts), default=0))


def ramp(share: float) -> str:
    """A colour for a share from low to high."""
    found = [np.interp(share, [0, 0.5, 1], channel) for channel in RAMP.T]
    return "#{:02x}{:02x}{:02x}".format(*(round(x) for x in found))


# bars ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bar:
    """A line of a bar chart: a name, a bar from one place to another, and a number.

    Attributes
    ----------
    name, value : str
        A column, and its value where there is one.
    start, end : float
        Per cent.
    number : str
    look : {"up", "down", "end"}
    low, high : float or None
        Ends of the error bar, per cent.
    note : str
        What stands small behind the number.
    """

    name: str
    value: str
    start: float
    end: float
    number: str
    look: str = "up"
    low: float | None = None
    high: float | None = None
    note: str = ""


def importance_bars(shares: Shares, errors: NDArray | None, used: NDArray) -> list[Bar]:
    """Shares of the used columns, the largest first, with the ends of their error bars."""
    order = used[np.argsort(-shares.values[used], kind="stable")][:TOP]
    tops = shares.values if errors is None else errors[:, 1]
    most = max(float(tops[order].max(initial=0)), float(shares.values[order].max(initial=0))) or 1.0
    found = []
    for j in order:
        share, low, high, note = float(shares.values[j]), None, None, ""
        if errors is not None:
            low, high = (round(100 * float(x) / most, 1) for x in errors[j])
            note = f"{100 * errors[j, 0]:.0f} to {100 * errors[j, 1]:.0f}"
        end, told = round(100 * share / most, 1), percent(share)
        found.append(Bar(short(shares.names[j], 24), "", 0, end, told, "up", low, high, note))
    return found


def waterfall(display: AnswerDisplay) -> list[Bar]:
    """A bar a column, from base to answer, read from top to bottom."""
    ends = [display.base, display.answer, *(step.end for step in display.steps)]
    axis, text = Axis.over(np.array(ends), 0.02), written_over(float(np.ptp(ends)))
    bars = [_end("average row", display.base, axis, text(display.base))]
    for step in display.steps:
        low, high = sorted((axis.place(step.start), axis.place(step.end)))
        told = text(step.contribution, "+")
        look = "up" if step.contribution >= 0 else "down"
        bars.append(Bar(short(step.column, 15), short(step.value, 10), low, high, told, look))
    return [*bars, _end("this row", display.answer, axis, text(display.answer))]


def written_over(span: float) -> Callable[..., str]:
    """What writes numbers that lie within a span, to a hundredth of its size.

    Examples
    --------
    >>> from ejop.reports._pictures import written_over
    >>> written_over(0.6)(0.12345), written_over(80000.0)(1234.5, "+")
    ('0.123', '+1,234')
    """
    if not 1e-4 < span < 1e9:
        return lambda value, sign="": number(value, bool(sign))
    digits = max(0, 2 - int(np.floor(np.log10(span))))
    return lambda value, sign="": f"{value:{sign}z,.{digits}f}"


def _end(name: str, value: float, axis: Axis, told: str) -> Bar:
    place = axis.place(value)
    return Bar(name, "", place, place, told, "end")


def class_heat(shares: Shares) -> dict | None:
    """Importances divided among several classes or outputs, as a table."""
    if shares.by_output is None or shares.outputs is None or len(shares.outputs) < 3:
        return None
    order = np.argsort(-shares.values, kind="stable")[:HEAT]
    table = shares.by_output[:NAMED, order].T
    most = float(table.max()) or 1.0
    return {
        "outputs": [short(name, 12) for name in shares.outputs[:NAMED]],
        "lines": [
            {
                "name": shares.names[j],
                "cells": [{"share": round(v / most, 3), "text": f"{100 * v:.1f}"} for v in row],
            }
            for j, row in zip(order, table.tolist(), strict=True)
        ],
    }


# points -------------------------------------------------------------------------------------


def projections(e: Evidence, vectors: NDArray, most: int) -> tuple[Plot, Plot]:
    """The rows along the leading directions, and along their principal components."""
    kept = thinned(len(e.y), most)
    _, before = project(e.source, e.Z)
    return (
        _projection(e, e.Z @ vectors[:, :2], kept, "direction 1", "direction 2"),
        _projection(e, before, kept, "component 1", "component 2"),
    )


def _projection(e: Evidence, points: NDArray, kept: NDArray, first: str, second: str) -> Plot:
    if points.shape[1] > 1:
        heights = points[kept, 1].astype(np.float64)
    elif e.regression:
        heights, second = e.y[kept].astype(np.float64), "target"
    else:
        heights, second = strip(len(kept), 0), ""
    across = points[kept, 0].astype(np.float64)
    x, y = Axis.over(across), Axis.over(heights)
    looks = _looks(e)
    marks = [
        Mark(x.place(a), y.up(b), _told(e, i), **looks(i))
        for a, b, i in zip(across, heights, kept.tolist(), strict=True)
    ]
    marks.sort(key=lambda mark: "wrong" in mark.look)  # rings on top
    y_ticks = y.ticks(5, upwards=True) if second else []
    left = room_for([text for _, text in y_ticks])
    told = f"Rows by {first} and {second or 'class'}"
    return Plot(told, first, second, x.ticks(), y_ticks, marks, [], 360, left)


def _told(e: Evidence, i: int) -> str:
    return f"row {e.names[i]}: true {e.shown(e.y[i])}, predicted {e.shown(e.answers[i])}"


def _looks(e: Evidence) -> Callable[[int], dict[str, Any]]:
    """How the mark of a row looks: by its class, or by its target from low to high."""
    if e.regression:
        order = np.argsort(np.argsort(e.y.astype(np.float64), kind="stable"), kind="stable")
        shade = order / max(len(order) - 1, 1)
        return lambda i: {"color": ramp(float(shade[i]))}
    places = {str(c): n for n, c in enumerate(classes_of(e))}

    def look(i: int) -> dict:
        n = places[str(e.y[i])]
        wrong = " wrong" if e.answers[i] != e.y[i] else ""
        return {"sign": n // COLORS % SIGNS, "look": f"k{n % COLORS}{wrong}"}

    return look


def classes_of(e: Evidence) -> NDArray:
    """Classes of the rows that are shown."""
    return np.unique(e.y)


def legend(e: Evidence) -> list[dict]:
    """Name, colour and sign of each class."""
    names: Any = [] if e.regression else classes_of(e)
    return [
        {"name": str(c), "look": f"k{n % COLORS}", "sign": n // COLORS % SIGNS}
        for n, c in enumerate(names)
    ]


def fit_plot(e: Evidence, most: int) -> Plot:
    """Predicted against true targets, with the line on which they agree."""
    kept = thinned(len(e.y), most)
    truth, answers = e.y.astype(np.float64), e.answers.astype(np.float64)
    axis = Axis.over(np.concatenate([truth, answers]))
    marks = [
        Mark(axis.place(truth[i]), axis.up(answers[i]), _told(e, i), look="k0")
        for i in kept.tolist()
    ]
    up = axis.ticks(5, upwards=True)
    left = room_for([text for _, text in up])
    agree = Stroke(0, 100, 100, 0, "agree")
    told = "Predicted against true targets"
    return Plot(told, "true", "predicted", axis.ticks(), up, marks, [agree], 360, left)


def calibration_plot(what: str, bins: list[Bin]) -> Plot:
    """How often what was said came true, with intervals, and the line of as often as said."""
    axis = Axis(0.0, 1.0)
    ticks = [(25.0 * i, f"{25 * i}\u2009%") for i in range(5)]
    lines = [Stroke(0, 100, 100, 0, "agree")]
    lines += [
        Stroke(axis.place(b.said), axis.up(b.low), axis.place(b.said), axis.up(b.high), "error")
        for b in bins
    ]
    marks = [
        Mark(
            axis.place(b.said),
            axis.up(b.came),
            f"said {percent(b.said, 0)}, came true in {percent(b.came, 0)} of {b.n} rows",
            look="k0",
        )
        for b in bins
    ]
    up = [(100 - place, text) for place, text in ticks]
    told = f"How often {what} came true, by its probability"
    return Plot(told, f"probability of {what}", "came true", ticks, up, marks, lines, 300, 52)


def beeswarm(display: ContributionDisplay) -> Plot:
    """A line a column, a point a row, coloured by the column's own value."""
    n, marks = len(display.order), []
    values = display.explanation.values[:, display.order]
    axis = Axis.over(np.append(values.ravel(), 0.0), 0.03)
    for place, j in enumerate(display.order.tolist()):
        x, heights = display.line(place)
        shade, name = display.readings[j].low_to_high(), display.explanation.names[j]
        for i, text in enumerate(display.readings[j].texts):
            told = f"{short(name, 30)} = {short(text, 30)}" if text else short(name, 30)
            added = number_text(float(x[i]), signed=True)
            color = "" if np.isnan(shade[i]) else ramp(float(shade[i]))
            y = round(100 * (float(heights[i]) + 0.5) / n, 2)
            said = f"row {display.rows[i]}: {told}, adds {added}"
            marks.append(
                Mark(axis.place(x[i]), y, said, look="" if color else "plain", color=color)
            )
    names = [short(display.explanation.names[j], 18) for j in display.order]
    up = [(round(100 * (k + 0.5) / n, 2), name) for k, name in enumerate(names)]
    zero = [Stroke(axis.place(0), 0, axis.place(0), 100, "zero")]
    told = "What each column adds to the answers of many rows"
    height = 30 * max(n, 2)
    return Plot(told, "adds", "", axis.ticks(6), up, marks, zero, height, room_for(names))
