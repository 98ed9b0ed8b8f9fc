"""Why these answers: contributions of the columns to those of a few rows, and to those of many."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop._sklearn import take_rows
from ejop.explanation import Explanation
from ejop.plots import AnswerDisplay, ContributionDisplay
from ejop.plots.explained import explained, rows_of
from ejop.plots.points import thinned
from ejop.plots.style import BLUE, ORANGE
from ejop.plots.values import Reading, number_text
from ejop.report._evidence import Evidence
from ejop.report._figures import axis_of_names, layout_of, numbers, short

#: rows that are explained together, and wrong ones beside them
SHOWN, WRONG = 200, 20
#: rows with a figure of their own, columns of each, and columns of all rows together
ANSWERS, TOP, LINES = 4, 8, 12
#: values from low to high, none of which vanishes on a light or a dark page
VALUES = [[0, "#4c78c8"], [0.5, "#2fa48c"], [1, "#f0c808"]]
#: where the scale of values stands: above the points, which need the width on a phone
SCALE = {
    "orientation": "h",
    "thickness": 8,
    "len": 0.5,
    "x": 1,
    "xanchor": "right",
    "y": 1,
    "yanchor": "bottom",
    "tickvals": [0.06, 0.94],
    "ticktext": ["low", "high"],
}
#: products of rows that the explanations may take: some ten seconds
PRODUCTS = 2e10


@dataclass(frozen=True)
class Answer:
    """A row whose answer is explained.

    Attributes
    ----------
    row : int
        Its number in the data given.
    truth, predicted : str
    verdict : {"right", "wrong", ""}
    figure : str
        Id of its figure.
    """

    row: int
    truth: str
    predicted: str
    verdict: str
    figure: str


@dataclass(frozen=True)
class Reasons:
    """The section "Why these answers".

    Attributes
    ----------
    answers : list of Answer
    figures : dict of str to dict
        By the id of their place in the page.
    n_rows : int
        Rows of the figure of all.
    outcome : str
        What they are explained for.
    """

    answers: list[Answer]
    figures: dict[str, dict[str, Any]]
    n_rows: int
    outcome: str


def reasons_of(evidence: Evidence, X: Any) -> Reasons | None:
    """Explanations of some rows; None for models that answer by near rows.

    Parameters
    ----------
    evidence : Evidence
    X : array-like or table
        The rows as they were given.
    """
    source = evidence.source
    model = source.model
    if not getattr(getattr(model, "rule_", None), "chooses", False):
        return None
    some, all_rows = _rows_to_explain(evidence)
    places = np.concatenate([some, np.setdiff1d(all_rows, some)])
    given = take_rows(X, evidence.rows[places])
    given = given if source.before is None else source.before.transform(given)
    found = explained(model, given, output=_output(evidence))
    explanation = found.explanation
    if len(source.columns) == len(explanation.names):
        explanation = replace(explanation, names=list(source.columns))
    answers, drawn = [], {}
    for number, k in enumerate(_chosen(evidence, places, explanation)):
        name, place = f"answer-{number}", int(places[k])
        answers.append(_answer(evidence, place, name))
        display = AnswerDisplay(explanation, int(k), top=TOP, readings=found.readings)
        drawn[name] = waterfall(display)
    first = np.arange(len(some))
    whole, outcome = _towards_one(evidence, rows_of(explanation, first))
    readings = [_first(reading, first) for reading in found.readings]
    rows = evidence.rows[some]
    drawn["contributions"] = beeswarm(
        ContributionDisplay(whole, top=LINES, readings=readings, rows=rows)
    )
    return Reasons(answers, drawn, len(some), outcome)


def _output(evidence: Evidence) -> Any:
    """Of several labels or targets the first, as everywhere in the report."""
    model = evidence.source.model
    several = isinstance(getattr(model, "classes_", None), list)
    targets = model.rule_.targets_.shape[1] > 1
    return 0 if several or (evidence.regression and targets) else None


def _rows_to_explain(evidence: Evidence) -> tuple[NDArray, NDArray]:
    """Places of the rows that are explained together, and of the wrong ones to choose from."""
    function = evidence.source.model.rule_.function_
    size = 40.0 * len(evidence.shares.names) * function.summary_.n * len(function.members_)
    most = int(np.clip(PRODUCTS / size, ANSWERS, SHOWN))
    some = thinned(len(evidence.y), most)
    if evidence.regression:
        off = np.abs(evidence.after.astype(float) - evidence.y.astype(float))
        return some, np.argsort(-off, kind="stable")[:ANSWERS]
    wrong = np.flatnonzero(evidence.after != evidence.y)
    return some, wrong[thinned(len(wrong), min(WRONG, most))]


def _chosen(evidence: Evidence, places: NDArray, explanation: Explanation) -> NDArray:
    """Rows with a figure of their own: the largest errors, or the surest right and wrong ones."""
    y, after = evidence.y[places], evidence.after[places]
    if evidence.regression:
        off = np.abs(after.astype(float) - y.astype(float))
        return np.argsort(-off, kind="stable")[:ANSWERS]
    sure = np.argsort(-explanation.answer, kind="stable")
    right, wrong = (_varied(sure[some[sure]], after) for some in (after == y, after != y))
    few = min(len(wrong), max(ANSWERS // 2, ANSWERS - len(right)))
    return np.concatenate([right[: ANSWERS - few], wrong[:few]])


def _varied(rows: NDArray, answers: NDArray) -> NDArray:
    """Rows in their order, but each answer once before any comes twice."""
    given = answers[rows]
    turn = [int(np.sum(given[:i] == given[i])) for i in range(len(given))]
    return rows[np.argsort(turn, kind="stable")]


def _answer(evidence: Evidence, place: int, figure: str) -> Answer:
    truth, predicted = evidence.y[place], evidence.after[place]
    verdict = "right" if truth == predicted else "wrong"
    return Answer(
        row=int(evidence.rows[place]),
        truth=evidence.shown(truth),
        predicted=evidence.shown(predicted),
        verdict="" if evidence.regression else verdict,
        figure=figure,
    )


def _towards_one(evidence: Evidence, found: Explanation) -> tuple[Explanation, str]:
    """Of two classes all rows for the second: what one gains the other loses."""
    classes = getattr(evidence.source.model, "classes_", None)
    if evidence.regression:
        return found, "the answer"
    if classes is None or len(classes) != 2:
        return found, "the probability of the predicted class"
    sign = np.array([1.0 if output == classes[1] else -1.0 for output in found.outputs])
    turned = replace(found, values=found.values * sign[:, None])
    return turned, f"the probability of class {classes[1]}"


def _first(reading: Reading, rows: NDArray) -> Reading:
    return Reading(reading.kind, reading.numbers[rows], [reading.texts[i] for i in rows])


# figures ------------------------------------------------------------------------------------


def waterfall(display: AnswerDisplay) -> dict[str, Any]:
    """A bar a column, from base to answer, read from top to bottom."""
    steps, n = display.steps, len(display.steps)
    up = [step.contribution >= 0 for step in steps]
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": _exact([step.contribution for step in steps]),
        "base": _exact([step.start for step in steps]),
        "y": list(range(1, n + 1)),
        "marker": {"color": [BLUE if each else ORANGE for each in up]},
        "customdata": [escape(step.words) for step in steps],
        "hovertemplate": "%{customdata}<br>adds %{x:.3g}<extra></extra>",
    }
    ends = {
        "type": "scatter",
        "mode": "markers",
        "x": _exact([display.base, display.answer]),
        "y": [0, n + 1],
        "yaxis": "y2",
        "marker": {"symbol": "diamond", "size": 10, "color": "#8a8a8a", "line": {"width": 1}},
        "customdata": ["base", "answer"],
        "hovertemplate": "%{customdata} %{x:.4g}<extra></extra>",
    }
    words = [f"{short(s.column, 14)} = {short(s.value, 7)}" if s.value else s.column for s in steps]
    told = [number_text(step.contribution, signed=True) for step in steps]
    layout = layout_of("", None, 100 + 24 * (n + 2))
    whole = {"autorange": False, "range": [n + 1.6, -0.6]}
    layout["yaxis"] |= axis_of_names(["base", *words, "answer"], 28) | whole
    # numbers in a column of their own: beside short bars they would be cut off on a phone
    layout["yaxis2"] = {"overlaying": "y", "side": "right", "automargin": True, "zeroline": False}
    layout["yaxis2"] |= axis_of_names(
        [number_text(display.base), *told, number_text(display.answer)]
    )
    layout["yaxis2"] |= whole
    layout["xaxis"] |= {"nticks": 4, "tickangle": 0}
    return {"data": [bars, ends], "layout": layout}


def _exact(values: list[float]) -> list[float]:
    """Floats of nine digits: small bars begin at a large number."""
    return [float(f"{v:.9g}") for v in values]


def beeswarm(display: ContributionDisplay) -> dict[str, Any]:
    """A line a column, a point a row, coloured by the column's own value."""
    plain: dict[str, list] = {"x": [], "y": [], "customdata": []}
    shaded: dict[str, list] = {"x": [], "y": [], "customdata": [], "color": []}
    for place, j in enumerate(display.order.tolist()):
        x, heights = map(numbers, display.line(place))
        name, shade = escape(display.explanation.names[j]), display.readings[j].low_to_high()
        for i, text in enumerate(display.readings[j].texts):
            into = plain if np.isnan(shade[i]) else shaded
            into["x"].append(x[i])
            into["y"].append(heights[i])
            words = f"{name} = {escape(short(text, 40))}" if text else name
            into["customdata"].append([int(display.rows[i]), words])
            if into is shaded:
                into["color"].append(round(float(shade[i]), 3))
    colors = {
        "color": shaded.pop("color"),
        "colorscale": VALUES,
        "cmin": 0,
        "cmax": 1,
        "showscale": bool(shaded["x"]),
        "colorbar": SCALE,
    }
    traces = [
        _points(part, marker)
        for part, marker in ((plain, {"color": "#8a8a8a"}), (shaded, colors))
        if part["x"]
    ]
    n = len(display.order)
    layout = layout_of("contribution", None, 110 + 30 * max(n, 3))
    names = [display.explanation.names[j] for j in display.order]
    layout["yaxis"] |= axis_of_names(names, 22)
    layout["yaxis"] |= {"autorange": False, "range": [n - 0.4, -0.6]}
    layout["xaxis"] |= {"zeroline": True, "nticks": 5, "tickangle": 0}
    return {"data": traces, "layout": layout}


def _points(part: dict[str, list], marker: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        **part,
        "marker": {"size": 5, "opacity": 0.85, **marker, "line": {"width": 0.4}},
        "hovertemplate": (
            "row %{customdata[0]}<br>%{customdata[1]}<br>adds %{x:.3g}<extra></extra>"
        ),
    }
