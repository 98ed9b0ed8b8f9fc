"""How groups of rows fare: classes, parts of the targets, rows with gaps and rare levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.columns import CategoryColumn
from ejop.reports._evidence import Evidence
from ejop.reports._rivals import share_with_interval
from ejop.reports._words import counted, number, percent, quoted

#: classes that a confusion matrix can hold; of more the commonest confusions are listed
MAX_CLASSES, CONFUSIONS = 30, 15
#: a class is rare with less than this share of what each would have, were all as frequent
RARE = 0.5
#: of a rare class the model finds few below this share, and misses most
FEW = 0.5
#: kinds of columns whose gaps are filled; of others a gap is a level
FILLED = ("number", "grade", "date")
#: rows of a group that can be said something of
FEWEST = 5


@dataclass(frozen=True)
class ClassLine:
    """A class and how its rows fare.

    Attributes
    ----------
    name : str
    n : int
        Rows of the class.
    share : float
        Of the class in the rows learned from, or in these where those are not known.
    rare : bool
    recall, precision : tuple of two str
        Of the rows of the class those found, and of such answers those right; and the counts.
    taken : str
        Other class that its rows are most often taken for.
    """

    name: str
    n: int
    share: float
    rare: bool
    recall: tuple[str, str]
    precision: tuple[str, str]
    taken: str


def class_lines(e: Evidence) -> list[ClassLine]:
    """Every class that occurs or is answered, in the order of the labels."""
    truth, answers = _text(e.y), _text(e.answers)
    among = truth if e.learned is None else _text(e.learned.y)
    names = np.unique(np.concatenate([truth, answers, among]))
    found = []
    for name in names:
        mine, said = truth == name, answers == name
        both, share = int((mine & said).sum()), float((among == name).mean())
        others, times = np.unique(answers[mine & ~said], return_counts=True)
        taken = f"{others[times.argmax()]} ({times.max()})" if len(others) else ""
        found.append(
            ClassLine(
                name,
                int(mine.sum()),
                share,
                share < RARE / len(names),
                _share(both, int(mine.sum())),
                _share(both, int(said.sum())),
                taken,
            )
        )
    return found


def _share(n: int, total: int) -> tuple[str, str]:
    """A share, and its interval with the counts behind it."""
    if not total:
        return "\u2013", "no row"
    value, low, high = share_with_interval(n, total)
    return percent(value, 0), f"{100 * low:.0f} to {100 * high:.0f}; {n:,} of {total:,}"


def rare_words(e: Evidence, lines: list[ClassLine]) -> list[str]:
    """How rare classes fare, and what can be done; empty where none is rare."""
    said, missed = [], False
    truth, answers = _text(e.y), _text(e.answers)
    for line in [line for line in lines if line.rare][:MAX_CLASSES]:
        if not line.n:
            said.append(f"{quoted(line.name)} is rare, and no row here is of it.")
            continue
        found = int(((truth == line.name) & (answers == line.name)).sum())
        said.append(
            f"{quoted(line.name)} is rare ({percent(line.share)} of the rows): {found:,} of "
            f"{counted(line.n, 'row')} found."
        )
        missed |= found < FEW * line.n
    if missed and getattr(e.source.model, "class_weight", "") is None:
        said.append(
            'EJOPClassifier(class_weight="balanced"), or --class-weight balanced, finds more rows '
            "of rare classes, at the price of more false alarms."
        )
    return said


def confusion(evidence: Evidence) -> dict[str, Any]:
    """Counts by true (rows) and predicted class (columns), or the commonest confusions."""
    truths, said = _text(evidence.y), _text(evidence.answers)
    labels = np.unique(np.concatenate([truths, said]))
    truth, answer = np.searchsorted(labels, truths), np.searchsorted(labels, said)
    counts = np.zeros((len(labels), len(labels)), dtype=int)
    np.add.at(counts, (truth, answer), 1)
    if len(labels) <= MAX_CLASSES:
        shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        cells = [
            [{"n": int(n), "share": round(float(s), 3)} for n, s in zip(*pair, strict=True)]
            for pair in zip(counts, shares, strict=True)
        ]
        return {"labels": labels.tolist(), "cells": cells}
    np.fill_diagonal(counts, 0)
    order = np.argsort(-counts, axis=None, kind="stable")[:CONFUSIONS]
    places = [np.unravel_index(i, counts.shape) for i in order]
    pairs = [
        {"truth": labels[i], "answer": labels[j], "n": int(counts[i, j])}
        for i, j in places
        if counts[i, j]
    ]
    return {"labels": labels.tolist(), "pairs": pairs}


def _text(labels: NDArray) -> NDArray:
    return np.array([str(label) for label in labels])


# parts of the rows --------------------------------------------------------------------------


def target_parts(e: Evidence) -> list[dict[str, str]]:
    """The lowest tenth, the middle and the highest tenth of real targets."""
    y, off = e.y.astype(np.float64), e.answers.astype(np.float64) - e.y.astype(np.float64)
    if len(y) < 10 * FEWEST:
        return []
    low, high = np.quantile(y, [0.1, 0.9])
    parts = {
        "the lowest tenth": y <= low,
        "between": (y > low) & (y < high),
        "the highest tenth": y >= high,
    }
    return [
        {
            "name": name,
            "span": f"{number(y[rows].min())} to {number(y[rows].max())}",
            "n": f"{int(rows.sum()):,}",
            "error": number(float(np.abs(off[rows]).mean())),
            "bias": _bias(float(off[rows].mean()), float(np.abs(off[rows]).mean())),
        }
        for name, rows in parts.items()
        if rows.any()
    ]


def _bias(mean: float, size: float) -> str:
    """Whether answers are too high or too low in the mean."""
    if abs(mean) < 0.1 * size:
        return "neither"
    return f"too {'high' if mean > 0 else 'low'} by {number(abs(mean))}"


def odd_rows(e: Evidence) -> list[dict[str, Any]]:
    """How rows with gaps and with rare or new levels fare beside all others."""
    gaps, rare = _marks(e)
    plain = ~gaps & ~rare
    groups = {
        "with a gap that was filled": gaps,
        "with a rare or new level": rare,
        "with neither": plain,
    }
    enough = range(FEWEST, len(e.y))
    found = {name: rows for name, rows in groups.items() if rows.sum() in enough}
    if len(found) < 2:
        return []
    return [
        {"name": name, "n": f"{int(rows.sum()):,}", "score": _fares(e, rows)}
        for name, rows in found.items()
    ]


def _fares(e: Evidence, rows: NDArray) -> tuple[str, str]:
    """Mean error, or share of right answers and its interval."""
    if e.regression:
        off = np.abs(e.answers[rows].astype(np.float64) - e.y[rows].astype(np.float64))
        return number(float(off.mean())), ""
    value, low, high = share_with_interval(int((e.answers == e.y)[rows].sum()), int(rows.sum()))
    return percent(value), f"{100 * low:.0f} to {100 * high:.0f}"


def _marks(e: Evidence) -> tuple[NDArray, NDArray]:
    """Rows with a gap that was filled, and rows with a level that is rare or new."""
    gaps, rare = (np.zeros(len(e.y), dtype=bool) for _ in range(2))
    if e.preparer is None:
        return gaps, rare
    start = 0
    for column in e.preparer.columns_:
        names = column.features()
        block = e.Z[:, start : start + len(names)]
        start += len(names)
        gone = np.zeros(len(e.y), dtype=bool)
        if column.missing and names[-1] == f"{column.name}_missing":
            gone = block[:, -1] > 0
        if column.kind in FILLED:
            gaps |= gone
        if isinstance(column, CategoryColumn):
            rare |= ~(block[:, : len(column.levels)] > 0).any(1) & ~gone
    return gaps, rare
