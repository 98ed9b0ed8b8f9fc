"""AnswerDisplay: how the answer of one row comes about, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ejop.explanation import Explanation
from ejop.plots.explained import (
    class_words,
    count_rows,
    explained,
    explainer,
    one_output,
    readings_of,
    row_number,
)
from ejop.plots.style import BLUE, GRAY, ORANGE, Display, ink, label, pandas, panels, quiet_grid
from ejop.plots.values import Reading, number_text

#: of the span of the bars: beyond their ends, for the numbers
MARGIN = 0.2


@dataclass(frozen=True)
class Step:
    """A bar from one answer to the next.

    Attributes
    ----------
    column : str
        Its name, or "3 others".
    value : str
        Of the column at the row; empty where unknown.
    start, end : float
    """

    column: str
    value: str
    start: float
    end: float

    @property
    def contribution(self) -> float:
        """What the column adds."""
        return self.end - self.start

    @property
    def words(self) -> str:
        """Name and value."""
        return f"{self.column} = {self.value}" if self.value else self.column


def steps_of(
    explanation: Explanation, row: int, top: int, readings: Sequence[Reading]
) -> list[Step]:
    """Bars from base to answer: the largest columns first, the others summed.

    Parameters
    ----------
    explanation : Explanation
        Of one output a row.
    row : int
    top : int
        Columns with a bar of their own. One that would be alone among the others has one too.
    readings : sequence of Reading
    """
    values = explanation.values[row]
    order = np.argsort(-np.abs(values), kind="stable")
    shown = len(order) if len(order) <= top + 1 else top
    parts = [
        (explanation.names[j], readings[j].texts[row], float(values[j])) for j in order[:shown]
    ]
    if shown < len(order):
        parts.append((f"{len(order) - shown} others", "", float(values[order[shown:]].sum())))
    ends = float(explanation.base[row]) + np.cumsum([part[2] for part in parts])
    starts = [float(explanation.base[row]), *ends[:-1].tolist()]
    return [
        Step(name, value, start, end)
        for (name, value, _), start, end in zip(parts, starts, ends.tolist(), strict=True)
    ]


class AnswerDisplay(Display):
    """Why a row has its answer: a bar a column, from the answer of the average row to this one's.

    Parameters
    ----------
    explanation : Explanation
        Of one output a row, as ``model.explain(X)`` gives it.
    row : int, default=0
        Its place in the explanation.
    top : int, default=10
        Columns with a bar of their own, those of largest contribution; all others are summed.
    outcome : str, default="answer"
        What is explained, for the axis.
    title : str, optional
    readings : sequence of Reading, optional
        How the values of the columns are read.

    Attributes
    ----------
    base, answer : float
        Where the bars begin and end.
    steps : list of Step
        The bars, the largest first.
    figure_ : matplotlib.figure.Figure
    ax_ : matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.explanation import Explanation
    >>> from ejop.plots import AnswerDisplay
    >>> found = Explanation(np.array([[0.3, -0.1]]), np.array([0.5]), np.array([0.7]), ["a", "b"])
    >>> AnswerDisplay(found).frame()[["column", "contribution"]]
      column  contribution
    0      a           0.3
    1      b          -0.1
    """

    def __init__(
        self,
        explanation: Explanation,
        row: int = 0,
        *,
        top: int = 10,
        outcome: str = "answer",
        title: str | None = None,
        readings: Sequence[Reading] | None = None,
    ) -> None:
        if top < 1:
            raise ValueError(f"`top`={top} must be 1 or more.")
        found = one_output(explanation)
        place = row_number(row, len(found))
        readings = readings_of(found) if readings is None else readings
        self.steps = steps_of(found, place, top, readings)
        self.base, self.answer = float(found.base[place]), float(found.answer[place])
        self.n_columns = len(found.names)
        self.outcome = outcome
        self.title = f"Row {place}" if title is None else title

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        row: int = 0,
        *,
        baseline: Any = "mean",
        output: Any = None,
        feature_names: Sequence[str] | None = None,
        top: int = 10,
        ax: Any = None,
    ) -> AnswerDisplay:
        """Explain and draw the answer of one row.

        Parameters
        ----------
        estimator : fitted EJOPClassifier or EGOPRegressor, or pipeline that ends in one
        X : array-like or table of shape (n_samples, n_features)
        row : int, default=0
            Number of the row in X.
        baseline : "mean", "training" or rows, default="mean"
            Where the bars begin, see ``explain``.
        output : class label or number, optional
            What is explained; by default the predicted class, or the target. Of several targets or
            labels one must be named.
        feature_names : sequence of str, optional
            Those the estimator has seen by default.
        top : int, default=10
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        display : AnswerDisplay
        """
        last, place = explainer(estimator), row_number(row, count_rows(X))
        found = explained(
            estimator,
            X,
            np.array([place]),
            baseline=baseline,
            output=output,
            feature_names=feature_names,
        )
        outcome, labels = found.outcome, found.explanation.outputs
        if output is None and isinstance(getattr(last, "classes_", None), np.ndarray):
            outcome = class_words(labels[0])
        return cls(
            found.explanation,
            top=top,
            outcome=outcome,
            title=f"Row {place}",
            readings=found.readings,
        ).plot(ax)

    @classmethod
    def from_explanation(
        cls,
        explanation: Explanation,
        row: int = 0,
        *,
        output: Any = None,
        top: int = 10,
        ax: Any = None,
    ) -> AnswerDisplay:
        """Draw one row of an explanation.

        Parameters
        ----------
        explanation : Explanation
        row : int, default=0
        output : class label or number, optional
            Needed where the explanation is of several.
        top : int, default=10
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        display : AnswerDisplay
        """
        found = one_output(explanation, output)
        place = row_number(row, len(found))
        outcome = f"answer for {found.outputs[place]}" if len(found.outputs) else "answer"
        return cls(found, place, top=top, outcome=outcome).plot(ax)

    def frame(self) -> Any:
        """Table of the bars: column, value, contribution, and where each begins and ends.

        Returns
        -------
        frame : pandas.DataFrame of one row per bar, the largest first
        """
        return pandas().DataFrame(
            {
                "column": [step.column for step in self.steps],
                "value": [step.value for step in self.steps],
                "contribution": [step.contribution for step in self.steps],
                "start": [step.start for step in self.steps],
                "end": [step.end for step in self.steps],
            }
        )

    def plot(self, ax: Any = None) -> AnswerDisplay:
        """Draw on new axes or on those given.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        self : AnswerDisplay
        """
        n = len(self.steps)
        figure, axes = panels(ax, 1, 1, (6.8, 1.5 + 0.3 * (n + 2)))
        self._keep(figure, axes)
        ends = np.array([self.base, self.answer, *(step.end for step in self.steps)])
        span = float(np.ptp(ends)) or abs(self.base) or 1.0
        self.ax_.set_xlim(ends.min() - MARGIN * span, ends.max() + MARGIN * span)
        self.ax_.set_ylim(n + 1.6, -0.6)  # read from top to bottom
        self._draw_bars(span)
        self._draw_ends(span)
        words = [_words(step) for step in self.steps]
        self.ax_.set_yticks(np.arange(n + 2), ["base", *words, "answer"])
        self.ax_.tick_params(axis="y", length=0)
        self.ax_.set_xlabel(label(self.outcome, 60))
        self.ax_.set_title(label(f"{self.title}: {self.outcome} = {number_text(self.answer)}", 60))
        quiet_grid(self.ax_, "x")
        return self

    def _draw_bars(self, span: float) -> None:
        gap = 0.012 * span
        for place, step in enumerate(self.steps, start=1):
            up = step.contribution >= 0
            color = BLUE if up else ORANGE
            self.ax_.barh(place, step.contribution, left=step.start, color=color, height=0.66)
            self.ax_.plot([step.end] * 2, [place + 0.33, place + 0.67], color=GRAY, lw=0.8)
            text = number_text(step.contribution, signed=True)
            x, side = (step.end + gap, "left") if up else (step.end - gap, "right")
            self.ax_.text(x, place, text, ha=side, va="center", fontsize="small")

    def _draw_ends(self, span: float) -> None:
        """Where the bars begin and end, with values."""
        last = len(self.steps) + 1
        self.ax_.axvline(self.base, color=GRAY, lw=0.8, ls=":", zorder=0)
        self.ax_.plot([self.base] * 2, [0, 0.67], color=GRAY, lw=0.8)
        for place, x in ((0, self.base), (last, self.answer)):
            self.ax_.plot(x, place, "D", color=ink(self.ax_), ms=6)
            self.ax_.text(
                x + 0.025 * span, place, number_text(x), ha="left", va="center", fontweight="bold"
            )


def _words(step: Step) -> str:
    """Name and value, each shortened alone, so that both are told apart."""
    name = label(step.column, 22)
    return f"{name} = {label(step.value, 14).strip()}" if step.value else name
