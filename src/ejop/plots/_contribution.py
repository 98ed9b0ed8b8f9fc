"""ContributionDisplay: what each column adds to the answers of many rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop.explanation import Explanation
from ejop.plots.explained import (
    count_rows,
    explained,
    explainer,
    one_output,
    positive_class,
    readings_of,
    rows_of,
)
from ejop.plots.points import thinned
from ejop.plots.style import GRAY, Display, label, pandas, panels, quiet_grid
from ejop.plots.values import Reading

#: values from low to high; the map of amounts has a gray of its own in the middle
VALUES = "viridis"
#: points side by side that a line is wide, and inches that it is high
BINS, HEIGHT = 110, 0.36
#: share of a line's height that its points take
SPREAD = 0.84


class ContributionDisplay(Display):
    """Contributions of the columns to the answers of many rows: a line a column, a point a row.

    Points are coloured by the column's own value, from low to high by rank; gray where it is text,
    missing or unknown. A line whose colours run from one side to the other is a column that works
    in one direction.

    Parameters
    ----------
    explanation : Explanation
        Of one output a row, as ``model.explain(X)`` gives it.
    top : int, default=15
        Columns drawn, those of largest mean absolute contribution.
    outcome : str, default="answer"
        What is explained, for the axis.
    readings : sequence of Reading, optional
        How the values of the columns are read.
    rows : array-like of shape (n_rows,), optional
        Row numbers, for the table.

    Attributes
    ----------
    sizes : ndarray of shape (n_columns,)
        Mean absolute contribution of each column.
    order : ndarray of shape (n_shown,)
        Columns drawn, the largest first.
    figure_ : matplotlib.figure.Figure
    ax_ : matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.explanation import Explanation
    >>> from ejop.plots import ContributionDisplay
    >>> values = np.array([[0.1, -0.3], [0.0, 0.4]])
    >>> found = Explanation(values, np.full(2, 0.5), 0.5 + values.sum(1), ["a", "b"])
    >>> ContributionDisplay(found, top=1).frame()[["row", "column", "contribution"]]
       row column  contribution
    0    0      b          -0.3
    1    1      b           0.4
    """

    def __init__(
        self,
        explanation: Explanation,
        *,
        top: int = 15,
        outcome: str = "answer",
        readings: Sequence[Reading] | None = None,
        rows: ArrayLike | None = None,
    ) -> None:
        if top < 1:
            raise ValueError(f"`top`={top} must be 1 or more.")
        self.explanation = one_output(explanation)
        self.readings = readings_of(self.explanation) if readings is None else list(readings)
        self.outcome = outcome
        self.rows = np.arange(len(self.explanation)) if rows is None else np.asarray(rows)
        self.sizes = np.abs(self.explanation.values).mean(0)
        self.order = np.argsort(-self.sizes, kind="stable")[:top]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        baseline: Any = "mean",
        output: Any = None,
        feature_names: Sequence[str] | None = None,
        top: int = 15,
        max_points: int = 400,
        random_state: Any = 0,
        ax: Any = None,
    ) -> ContributionDisplay:
        """Explain rows and draw the contributions of their columns.

        Parameters
        ----------
        estimator : fitted EJOPClassifier or EGOPRegressor, or pipeline that ends in one
        X : array-like or table of shape (n_samples, n_features)
        baseline : "mean", "training" or rows, default="mean"
            Where contributions begin, see ``explain``.
        output : class label or number, optional
            What is explained; by default the target, the second of two classes, or of more classes
            the one predicted for each row. Of several targets or labels one must be named.
        feature_names : sequence of str, optional
            Those the estimator has seen by default.
        top : int, default=15
        max_points : int, default=400
            Rows that are explained and drawn; of more as many at random.
        random_state : int, RandomState instance or None, default=0
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        display : ContributionDisplay
        """
        output = positive_class(explainer(estimator), output)
        rows = thinned(count_rows(X), max_points, random_state)
        found = explained(
            estimator, X, rows, baseline=baseline, output=output, feature_names=feature_names
        )
        return cls(
            found.explanation, top=top, outcome=found.outcome, readings=found.readings, rows=rows
        ).plot(ax)

    @classmethod
    def from_explanation(
        cls,
        explanation: Explanation,
        *,
        output: Any = None,
        top: int = 15,
        max_points: int = 400,
        random_state: Any = 0,
        ax: Any = None,
    ) -> ContributionDisplay:
        """Draw an explanation that is there already.

        Parameters
        ----------
        explanation : Explanation
        output : class label or number, optional
            Needed where the explanation is of several.
        top : int, default=15
        max_points : int, default=400
        random_state : int, RandomState instance or None, default=0
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        display : ContributionDisplay
        """
        found = one_output(explanation, output)
        rows = thinned(len(found), max_points, random_state)
        different = set(found.outputs)
        outcome = "answer for the predicted class" if len(different) > 1 else "answer"
        outcome = f"answer for {different.pop()}" if len(different) == 1 else outcome
        return cls(rows_of(found, rows), top=top, outcome=outcome, rows=rows).plot(ax)

    def frame(self) -> Any:
        """Table of the points: row, column, value, contribution.

        Returns
        -------
        frame : pandas.DataFrame of one row per point, by column, the largest first
        """
        table, found = pandas(), self.explanation
        parts = [
            table.DataFrame(
                {
                    "row": self.rows,
                    "column": found.names[j],
                    "value": None if found.rows is None else found.rows[:, j],
                    "contribution": found.values[:, j],
                }
            )
            for j in self.order
        ]
        return table.concat(parts, ignore_index=True)

    def plot(self, ax: Any = None) -> ContributionDisplay:
        """Draw on new axes or on those given.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        self : ContributionDisplay
        """
        n, d = len(self.order), len(self.explanation.names)
        figure, axes = panels(ax, 1, 1, (7.2, 1.3 + HEIGHT * max(n, 3)))
        self._keep(figure, axes)
        self.ax_.axvline(0, color=GRAY, lw=0.8, zorder=0)
        shades = [self._draw_line(place) for place in range(n)]
        if any(shade is not None for shade in shades):
            gray = any(np.isnan(self.readings[j].low_to_high()).any() for j in self.order)
            self._draw_scale(gray)
        self.ax_.set_yticks(np.arange(n), [label(self.explanation.names[j]) for j in self.order])
        self.ax_.set_ylim(n - 0.4, -0.6)  # the largest on top
        if not self.sizes.any():
            self.ax_.set_xlim(-1, 1)
        self.ax_.set_xlabel(label(f"contribution to the {self.outcome}", 70))
        which = f"{n} of {d} columns" if n < d else ("one column" if d == 1 else f"{d} columns")
        self.ax_.set_title(f"Contributions, {which}")
        quiet_grid(self.ax_, "x")
        return self

    def line(self, place: int) -> tuple[NDArray, NDArray]:
        """Points of a line: contributions, and heights around its place, each (n_rows,)."""
        x = self.explanation.values[:, self.order[place]]
        span = float(np.ptp(self.explanation.values[:, self.order])) or 1.0
        return x, place + swarm(x, span)

    def _draw_line(self, place: int) -> Any:
        """Points of one column; None where none has a colour."""
        (x, y), shade = self.line(place), self.readings[self.order[place]].low_to_high()
        size = float(np.clip(4500 / max(len(x), 1), 9, 26))
        style = {"s": size, "linewidths": 0.3, "edgecolors": GRAY, "zorder": 2}
        plain = np.isnan(shade)
        self.ax_.scatter(x[plain], y[plain], color=GRAY, alpha=0.75, **style)
        if plain.all():
            return None
        colored = {"c": shade[~plain], "cmap": VALUES, "vmin": 0, "vmax": 1}
        return self.ax_.scatter(x[~plain], y[~plain], **colored, **style)

    def _draw_scale(self, gray: bool) -> None:
        from matplotlib.cm import ScalarMappable

        bar = self.figure_.colorbar(
            ScalarMappable(cmap=VALUES), ax=self.ax_, ticks=[0, 1], aspect=30, fraction=0.05
        )
        bar.ax.set_yticklabels(["low", "high"])
        room = len(self.order) > 5  # the words are as long as five lines are high
        words = "the column's own value" if room else "own value"
        words += "; gray: text or missing" if gray and room else ""
        bar.set_label(words, labelpad=-8)
        bar.outline.set_visible(False)


def swarm(x: NDArray, span: float, bins: int = BINS) -> NDArray:
    """Heights of points of a line, so that those at one place stand above one another.

    Parameters
    ----------
    x : ndarray of shape (n,)
    span : float
        Of the axis: ``bins`` points fit side by side.
    bins : int

    Returns
    -------
    heights : ndarray of shape (n,)
        Within half of ``SPREAD`` of 0.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.plots._contribution import swarm
    >>> heights = swarm(np.array([0.0, 0.0, 0.0, 5.0]), 10.0)
    >>> float(heights[3]), len(set(heights[:3].tolist()))
    (0.0, 3)
    """
    places = np.round(np.asarray(x) / (span / bins)).astype(int)
    heights = np.zeros(len(places))
    most = 1
    for place in np.unique(places):
        mine = np.flatnonzero(places == place)
        turns = np.arange(1, len(mine) + 1) // 2
        heights[mine] = np.where(np.arange(len(mine)) % 2, turns, -turns)
        most = max(most, len(mine))
    return heights * min(0.16, SPREAD / most)
