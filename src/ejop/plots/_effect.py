"""EffectDisplay: what one column adds to the answer, by its value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop.explanation import Explanation
from ejop.plots.explained import (
    column_number,
    count_rows,
    explained,
    explainer,
    one_output,
    positive_class,
    readings_of,
    rows_of,
    several_classes,
    slopes,
)
from ejop.plots.points import strip, thinned
from ejop.plots.style import BLUE, GRAY, ORANGE, Display, ink, label, pandas, panels, quiet_grid
from ejop.plots.values import Reading, dates_of

#: slopes drawn, and half the length of each as a share of the axes
SLOPES, HALF = 50, 0.022
#: levels with a line of their own, and distinct numbers that have one each
LEVELS, FEW = 15, 10
#: inches that a line of a level is high
LINE = 0.36


class EffectDisplay(Display):
    """Contribution of one column against its own value, a point a row.

    Points of one value differ where the effect of the column depends on other columns. Short lines
    are derivatives of the explained answer along the column, in the column's own units: where they
    lie along the points, the column acts alone. Levels of text have a line each, with the median
    and the middle half of their rows, and so have up to ten different numbers.

    Parameters
    ----------
    explanation : Explanation
        Of one output a row, as ``model.explain(X)`` gives it, with the values of the columns.
    column : str or int
        Name or number of the column.
    slopes : array-like of shape (n_rows,), optional
        Derivative at each row; NaN where there is none.
    outcome : str, default="answer"
        What is explained, for the axis.
    reading : Reading, optional
        How the values are read.
    rows : array-like of shape (n_rows,), optional
        Row numbers, for the table.

    Attributes
    ----------
    name : str
        Of the column.
    figure_ : matplotlib.figure.Figure
    ax_ : matplotlib.axes.Axes

    Notes
    -----
    Derivatives are central differences of the model's own answers, a tenth of the column's standard
    deviation to either side. They are left out where answers jump (``rule="knn"`` and ``"hnn"``),
    for dates, for text and for shares of one whole.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.explanation import Explanation
    >>> from ejop.plots import EffectDisplay
    >>> cells = np.array([[20], [30], [60]], dtype=object)
    >>> values = np.array([[-0.2], [0.0], [0.1]])
    >>> found = Explanation(values, np.full(3, 0.5), values[:, 0] + 0.5, ["age"], rows=cells)
    >>> EffectDisplay(found, "age").frame()[["value", "contribution"]]
      value  contribution
    0    20          -0.2
    1    30           0.0
    2    60           0.1
    """

    def __init__(
        self,
        explanation: Explanation,
        column: str | int,
        *,
        slopes: ArrayLike | None = None,
        outcome: str = "answer",
        reading: Reading | None = None,
        rows: ArrayLike | None = None,
    ) -> None:
        found = one_output(explanation)
        place = column_number(column, found.names)
        if found.rows is None:
            raise ValueError(
                "the explanation has no values of the columns (`rows`), which the contributions "
                "are drawn against; explain rows that are not sparse, with levels=False."
            )
        self.name = found.names[place]
        self.values, self.contributions = found.rows[:, place], found.values[:, place]
        self.reading = readings_of(found)[place] if reading is None else reading
        self.slopes = None if slopes is None else np.asarray(slopes, dtype=np.float64)
        self.outcome = outcome
        self.rows = np.arange(len(found)) if rows is None else np.asarray(rows)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        column: str | int,
        *,
        baseline: Any = "mean",
        output: Any = None,
        feature_names: Sequence[str] | None = None,
        max_points: int = 400,
        random_state: Any = 0,
        ax: Any = None,
    ) -> EffectDisplay:
        """Explain rows and draw the contributions of one column.

        Parameters
        ----------
        estimator : fitted EJOPClassifier or EGOPRegressor, or pipeline that ends in one
        X : array-like or table of shape (n_samples, n_features)
        column : str or int
            Name or number of the column.
        baseline : "mean", "training" or rows, default="mean"
            Where contributions begin, see ``explain``.
        output : class label or number, optional
            What is explained; by default the target, or the second of two classes. Of more classes,
            several targets or labels one must be named.
        feature_names : sequence of str, optional
            Those the estimator has seen by default.
        max_points : int, default=400
            Rows that are explained and drawn; of more as many at random.
        random_state : int, RandomState instance or None, default=0
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        display : EffectDisplay
        """
        output = positive_class(explainer(estimator), output)
        classes = several_classes(explainer(estimator))
        if output is None and classes:
            raise ValueError(
                f"the model has {len(classes)} classes ({', '.join(map(repr, classes[:12]))}) and "
                f"a column raises one where it lowers another; name one: output={classes[0]!r}."
            )
        rows = thinned(count_rows(X), max_points, random_state)
        found = explained(
            estimator, X, rows, baseline=baseline, output=output, feature_names=feature_names
        )
        place = column_number(column, found.explanation.names)
        return cls(
            found.explanation,
            place,
            slopes=slopes(found, place, output),
            outcome=found.outcome,
            reading=found.readings[place],
            rows=rows,
        ).plot(ax)

    @classmethod
    def from_explanation(
        cls,
        explanation: Explanation,
        column: str | int,
        *,
        output: Any = None,
        max_points: int = 400,
        random_state: Any = 0,
        ax: Any = None,
    ) -> EffectDisplay:
        """Draw a column of an explanation that is there already, without derivatives.

        Parameters
        ----------
        explanation : Explanation
        column : str or int
        output : class label or number, optional
            Needed where the explanation is of several.
        max_points : int, default=400
        random_state : int, RandomState instance or None, default=0
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        display : EffectDisplay
        """
        found = one_output(explanation, output)
        rows = thinned(len(found), max_points, random_state)
        different = set(found.outputs)
        outcome = "answer for the predicted class" if len(different) > 1 else "answer"
        outcome = f"answer for {different.pop()}" if len(different) == 1 else outcome
        return cls(rows_of(found, rows), column, outcome=outcome, rows=rows).plot(ax)

    def frame(self) -> Any:
        """Table of the points: row, value, contribution, slope.

        Returns
        -------
        frame : pandas.DataFrame of one row per point
        """
        none = np.full(len(self.rows), np.nan)
        return pandas().DataFrame(
            {
                "row": self.rows,
                "value": self.values,
                "contribution": self.contributions,
                "slope": none if self.slopes is None else self.slopes,
            }
        )

    def plot(self, ax: Any = None) -> EffectDisplay:
        """Draw on new axes or on those given.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        self : EffectDisplay
        """
        numbers = self.reading.numbers
        few = self.reading.kind == "number" and len(np.unique(numbers[~np.isnan(numbers)])) <= FEW
        levels = few or self.reading.kind == "level"
        lines = len(self._lines()) if levels else 0
        figure, axes = panels(ax, 1, 1, (6.4, 1.6 + LINE * max(lines, 3) if levels else 4.2))
        self._keep(figure, axes)
        words = label(f"contribution to the {self.outcome}", 52)
        if levels:
            self._draw_levels()
            self.ax_.set_xlabel(f"{words}\nbar: middle half, line: median")
        else:
            self._draw_numbers()
            self.ax_.set(xlabel=label(self.name, 60), ylabel=words)
        self.ax_.set_title(f"Effect of {label(self.name, 32).strip()}")
        quiet_grid(self.ax_)
        return self

    def _draw_numbers(self) -> None:
        there, y = ~self.reading.missing, self.contributions
        x = self.reading.numbers[there]
        self.ax_.axhline(0, color=GRAY, lw=0.8, zorder=0)
        size = float(np.clip(4500 / max(len(y), 1), 10, 26))
        style = {"s": size, "linewidths": 0, "alpha": 0.6}
        dated = self.reading.kind == "date"
        self.ax_.scatter(dates_of(x) if dated else x, y[there], color=BLUE, **style, label="row")
        if dated:
            self.ax_.xaxis.axis_date()
            from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

            self.ax_.xaxis.set_major_locator(dates := AutoDateLocator())
            self.ax_.xaxis.set_major_formatter(ConciseDateFormatter(dates))
        named = self._draw_slopes(x, y[there], there)
        gone = int((~there).sum())
        if gone:  # beside the axis: they have no place on it
            beside = self.ax_.get_yaxis_transform()
            words = f"missing ({gone})"
            self.ax_.scatter(
                np.full(gone, 0.012),
                y[~there],
                transform=beside,
                color=GRAY,
                marker=">",
                s=22,
                linewidths=0,
                label=words,
            )
        if gone or named:
            below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.15), "frameon": False}
            self.ax_.legend(**below, ncols=3)

    def _draw_slopes(self, x: NDArray, y: NDArray, there: NDArray) -> bool:
        """Short lines of one length at some of the points; whether there are any."""
        if self.slopes is None:
            return False
        slopes = self.slopes[there]
        known = np.flatnonzero(np.isfinite(slopes))
        known = known[np.argsort(x[known], kind="stable")]
        if len(known) > SLOPES:
            known = known[np.linspace(0, len(known) - 1, SLOPES).round().astype(int)]
        if not len(known):
            return False
        x_span, y_span = float(np.ptp(x)) or 1.0, float(np.ptp(y)) or 1.0
        rise = slopes[known] * x_span / y_span  # in shares of the axes
        run = HALF / np.hypot(1, rise)
        dx, dy = run * x_span, run * rise * y_span
        lines = self.ax_.plot(
            [x[known] - dx, x[known] + dx], [y[known] - dy, y[known] + dy], color=ORANGE, lw=1.8
        )
        lines[0].set_label("derivative at the row")
        return True

    def _lines(self) -> list[tuple[str, NDArray]]:
        """Levels and their rows, by mean contribution, and numbers by size; rare ones together at
        the end."""
        texts = np.array(self.reading.texts, dtype=object)
        names, places, counts = np.unique(texts, return_inverse=True, return_counts=True)
        common = np.argsort(-counts, kind="stable")[: LEVELS if len(names) > LEVELS + 1 else None]
        by = -self.contributions if self.reading.kind == "level" else self.reading.numbers
        kept = sorted(common.tolist(), key=lambda k: by[places == k].mean())
        found = [(str(names[k]), np.flatnonzero(places == k)) for k in kept]
        rest = np.flatnonzero(~np.isin(places, kept))
        return [*found, (f"{len(names) - len(kept)} other levels", rest)] if len(rest) else found

    def _draw_levels(self) -> None:
        lines = self._lines()
        self.ax_.axvline(0, color=GRAY, lw=0.8, zorder=0)
        size = float(np.clip(4500 / max(len(self.values), 1), 8, 22))
        for place, (_, rows) in enumerate(lines):
            x = self.contributions[rows]
            self.ax_.scatter(x, strip(len(x), place), s=size, color=BLUE, alpha=0.5, linewidths=0)
            low, middle, high = np.quantile(x, [0.25, 0.5, 0.75])
            self.ax_.plot([low, high], [place, place], color=ORANGE, lw=4, solid_capstyle="butt")
            ends = [place - 0.32, place + 0.32]
            self.ax_.plot([middle] * 2, ends, color=ink(self.ax_), lw=1.6)
        names = [f"{label(name, 22)} ({len(rows)})" for name, rows in lines]
        self.ax_.set_yticks(np.arange(len(lines)), names)
        self.ax_.set_ylim(len(lines) - 0.4, -0.6)
