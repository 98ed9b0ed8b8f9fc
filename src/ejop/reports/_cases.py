"""Some rows in full: what each column adds to the answer, and the most alike rows learned from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop._sklearn import take_rows
from ejop.columns import is_table
from ejop.explanation import Explanation, column_values
from ejop.neighbors import nearest
from ejop.plots import AnswerDisplay, ContributionDisplay
from ejop.plots.explained import explained, rows_of
from ejop.plots.points import thinned
from ejop.plots.values import Reading, read_values, value_text
from ejop.reports._evidence import Evidence
from ejop.reports._pictures import Bar, Plot, beeswarm, waterfall

#: rows that are explained together, and wrong ones beside them
SHOWN, WRONG = 200, 20
#: rows shown in full, columns of each, and columns of all rows together
CASES, TOP, LINES = 4, 8, 12
#: near rows of each, and columns whose values are shown
NEAR, VALUES = 3, 7
#: products of rows that the explanations may take: some ten seconds
PRODUCTS = 2e10


@dataclass(frozen=True)
class Near:
    """A row that was learned from, near a row that is shown."""

    name: str
    target: str
    agrees: bool
    distance: str
    values: list[str]


@dataclass(frozen=True)
class Case:
    """A row in full.

    Attributes
    ----------
    name, truth, predicted : str
    verdict : {"right", "wrong", ""}
    bars : list of Bar
        From the average row's answer to this one's; empty where answers jump.
    columns, values : list of str
        The columns that matter most, and the row's values.
    near : list of Near
    """

    name: str
    truth: str
    predicted: str
    verdict: str
    bars: list[Bar]
    columns: list[str]
    values: list[str]
    near: list[Near]


@dataclass(frozen=True)
class Cases:
    """Rows in full, and what the columns add to the answers of many.

    Attributes
    ----------
    rows : list of Case
    swarm : Plot or None
    n_rows : int
        Of the picture of many.
    outcome : str
        What they are explained for.
    """

    rows: list[Case]
    swarm: Plot | None = None
    n_rows: int = 0
    outcome: str = ""


def cases_of(e: Evidence) -> Cases:
    """A few rows, right and wrong ones, or those of the largest errors."""
    if not e.explains:
        places = _chosen(e, np.arange(len(e.y)), _sureness(e))
        return Cases(_in_full(e, places, [[] for _ in places]))
    some, others = _rows_to_explain(e)
    places = np.concatenate([some, np.setdiff1d(others, some)])
    X = take_rows(e.X, places)
    found = explained(e.source.model, X, output=_output(e))
    explanation, all_readings = _of_used(e, X, found.explanation, found.readings)
    chosen = _chosen(e, places, explanation.answer)
    bars = [
        waterfall(AnswerDisplay(explanation, int(k), top=TOP, readings=all_readings))
        for k in chosen
    ]
    first = np.arange(len(some))
    whole, outcome = _towards_one(e, rows_of(explanation, first))
    readings = [_first(reading, first) for reading in all_readings]
    display = ContributionDisplay(whole, top=LINES, readings=readings, rows=e.names[some])
    return Cases(_in_full(e, places[chosen], bars), beeswarm(display), len(some), outcome)


def _of_used(
    e: Evidence, X: Any, found: Explanation, readings: list[Reading]
) -> tuple[Explanation, list[Reading]]:
    """Without the columns that are not used, which the rows may lack, by the report's names."""
    names = list(e.source.columns) if len(e.source.columns) == len(found.names) else found.names
    found = replace(found, names=names)
    if e.preparer is None or len(names) != len(e.preparer.names_) or not is_table(X):
        return found, readings
    n, columns = len(found), e.preparer.columns_
    used = [e.preparer.names_.index(column.name) for column in columns]
    rows = column_values(X, [column.name for column in columns], n)
    values = [None if rows is None else rows[:, j] for j in range(len(used))]
    kept = replace(found, values=found.values[:, used], names=[names[j] for j in used], rows=rows)
    return kept, [read_values(v, n, c) for v, c in zip(values, columns, strict=True)]


def _sureness(e: Evidence) -> NDArray:
    """Probability of each answer; the same for all where there is none."""
    return np.ones(len(e.y)) if e.chances is None else e.chances.max(1)


def _output(e: Evidence) -> Any:
    """Of several labels or targets the first, as everywhere in the report."""
    model = e.source.model
    several = isinstance(getattr(model, "classes_", None), list)
    targets = model.rule_.targets_.shape[1] > 1
    return 0 if several or (e.regression and targets) else None


def _rows_to_explain(e: Evidence) -> tuple[NDArray, NDArray]:
    """Places of the rows that are explained together, and of the wrong ones to choose from."""
    function = e.rule.function_
    size = 40.0 * len(e.shares.names) * function.summary_.n * len(function.members_)
    most = int(np.clip(PRODUCTS / size, CASES, SHOWN))
    some = thinned(len(e.y), most)
    if e.regression:
        return some, _largest_errors(e.y, e.answers)
    wrong = np.flatnonzero(e.answers != e.y)
    return some, wrong[thinned(len(wrong), min(WRONG, most))]


def _largest_errors(y: NDArray, answers: NDArray) -> NDArray:
    off = np.abs(answers.astype(float) - y.astype(float))
    return np.argsort(-off, kind="stable")[:CASES]


def _chosen(e: Evidence, places: NDArray, sureness: NDArray) -> NDArray:
    """Rows shown in full: the largest errors and one that is nearly exact, or the surest right and
    wrong ones."""
    y, answers = e.y[places], e.answers[places]
    if e.regression:
        worst = _largest_errors(y, answers)[: CASES - 1]
        exact = np.argsort(np.abs(answers.astype(float) - y.astype(float)), kind="stable")
        return np.concatenate([worst, np.setdiff1d(exact[:1], worst)])
    sure = np.argsort(-sureness, kind="stable")
    right, wrong = (_varied(sure[some[sure]], answers) for some in (answers == y, answers != y))
    few = min(len(wrong), max(CASES // 2, CASES - len(right)))
    return np.concatenate([right[: CASES - few], wrong[:few]])


def _varied(rows: NDArray, answers: NDArray) -> NDArray:
    """Rows in their order, but each answer once before any comes twice."""
    given = answers[rows]
    turn = [int(np.sum(given[:i] == given[i])) for i in range(len(given))]
    return rows[np.argsort(turn, kind="stable")]


def _towards_one(e: Evidence, found: Explanation) -> tuple[Explanation, str]:
    """Of two classes all rows for the second: what one gains the other loses."""
    classes = e.classes
    if e.regression:
        return found, "the answer"
    if len(classes) != 2:
        return found, "the probability of the predicted class"
    sign = np.array([1.0 if output == classes[1] else -1.0 for output in found.outputs])
    turned = replace(found, values=found.values * sign[:, None])
    return turned, f"the probability of class {classes[1]}"


def _first(reading: Reading, rows: NDArray) -> Reading:
    return Reading(reading.kind, reading.numbers[rows], [reading.texts[i] for i in rows])


# neighbours ---------------------------------------------------------------------------------


def _in_full(e: Evidence, places: NDArray, bars: list[list[Bar]]) -> list[Case]:
    shares = e.shares.values
    top = np.argsort(-shares, kind="stable")[:VALUES]
    top = top[shares[top] > 0]
    values = _values(e, take_rows(e.X, places), top, len(places))
    near = _near(e, places, top)
    return [
        Case(
            name=str(e.names[i]),
            truth=e.shown(e.y[i]),
            predicted=e.shown(e.answers[i]),
            verdict="" if e.regression else ("right" if e.y[i] == e.answers[i] else "wrong"),
            bars=bars[n],
            columns=[e.shares.names[j] for j in top],
            values=values[n],
            near=near[n],
        )
        for n, i in enumerate(places.tolist())
    ]


def _near(e: Evidence, places: NDArray, columns: NDArray) -> list[list[Near]]:
    """The nearest rows that were learned from, under the learned metric."""
    if e.learned is None or not len(places):
        return [[] for _ in places]
    learned, L = e.learned, e.source.components.T
    k = min(NEAR, len(learned.y))
    distances, rows = nearest(e.Z[places] @ L, learned.Z @ L, k)
    flat = rows.ravel()
    there = learned.X is not None
    values = _values(e, take_rows(learned.X, flat), columns, len(flat)) if there else []
    return [
        [
            Near(
                str(learned.names[r]),
                e.shown(learned.y[r]),
                not e.regression and bool(learned.y[r] == e.y[i]),
                f"{distances[n, m]:.2g}",
                values[n * k + m] if there else [],
            )
            for m, r in enumerate(rows[n].tolist())
        ]
        for n, i in enumerate(places.tolist())
    ]


def _values(e: Evidence, X: Any, columns: NDArray, n: int) -> list[list[str]]:
    """Values of some columns as short texts, by row; empty where a column is not to be found."""
    names = list(e.source.columns) if e.preparer is None else e.preparer.names_
    if is_table(X):
        found = column_values(X, [names[j] for j in columns], n)
    else:
        found = column_values(X, names, n)
        found = None if found is None else found[:, columns]
    if found is None:
        return [[] for _ in range(n)]
    return [[value_text(value) for value in row] for row in found]
