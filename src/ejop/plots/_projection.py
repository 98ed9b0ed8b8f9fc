"""ProjectionDisplay: rows on the two directions that matter most, before and after."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop.plots.fitted import fitted
from ejop.plots.points import is_real, project, strip, target_column, thinned
from ejop.plots.style import (
    AMOUNTS,
    BLUE,
    Display,
    class_legend,
    class_style,
    pandas,
    panels,
    quiet_grid,
)


class ProjectionDisplay(Display):
    """Rows on the leading directions of the metric, beside their principal components.

    Parameters
    ----------
    after : array-like of shape (n_samples, 1) or (n_samples, 2)
        Rows on the leading directions of the metric.
    before : array-like of shape (n_samples, 1) or (n_samples, 2), optional
        Rows on the directions of largest spread of plain distance.
    y : array-like of shape (n_samples,), optional
        Class or real target of each row.
    real : bool or "auto", default="auto"
        Whether y is a real target, coloured along a scale; "auto" looks at its values.
    rows : array-like of shape (n_samples,), optional
        Row numbers, for the table.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
    ax_ : Axes, or ndarray of shape (1, 2) of Axes

    Notes
    -----
    With one direction, classes lie one above the other and real targets along the second axis.

    Examples
    --------
    >>> from ejop.plots import ProjectionDisplay
    >>> display = ProjectionDisplay([[0.0, 1.0], [2.0, 3.0]], y=["a", "b"])
    >>> display.frame().columns.tolist()
    ['row', 'y', 'after_1', 'after_2']
    """

    def __init__(
        self,
        after: ArrayLike,
        before: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        real: bool | str = "auto",
        rows: ArrayLike | None = None,
    ) -> None:
        self.after = _plane(after, "after")
        self.before = None if before is None else _plane(before, "before")
        self.y = None if y is None else target_column(y, len(self.after))
        self.real = is_real(self.y) if real == "auto" else bool(real)
        self.rows = np.arange(len(self.after)) if rows is None else np.asarray(rows)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        before: bool = True,
        max_points: int = 5000,
        random_state: Any = 0,
        ax: Any = None,
    ) -> ProjectionDisplay:
        """Draw rows on the two leading directions of a fitted metric.

        Parameters
        ----------
        estimator : fitted EJOP, EGOP, predictor, metric learner, or pipeline that ends in one
        X : array-like of shape (n_samples, n_features)
            Rows the metric has not seen tell most.
        y : array-like of shape (n_samples,), optional
        before : bool, default=True
            Draw the two principal components of the scaled rows beside.
        max_points : int, default=5000
            Of more rows as many are drawn at random.
        random_state : int, RandomState instance or None, default=0
        ax : Axes or array of two Axes, optional
            A single one is divided.

        Returns
        -------
        display : ProjectionDisplay
        """
        source = fitted(estimator)
        Z = source.prepare(X)
        targets = None if y is None else target_column(y, len(Z))
        rows = thinned(len(Z), max_points, random_state)
        after, first = project(source, Z)
        return cls(
            after[rows],
            first[rows] if before else None,
            None if targets is None else targets[rows],
            real=source.regression or "auto",
            rows=rows,
        ).plot(ax)

    def frame(self) -> Any:
        """Table of what is drawn: row, y, and coordinates after and before.

        Returns
        -------
        frame : pandas.DataFrame of one row per point
        """
        columns: dict[str, Any] = {"row": self.rows}
        if self.y is not None:
            columns["y"] = self.y
        for name, Z in (("before", self.before), ("after", self.after)):
            if Z is not None:
                columns |= {f"{name}_{j + 1}": Z[:, j] for j in range(Z.shape[1])}
        return pandas().DataFrame(columns)

    def plot(self, ax: Any = None) -> ProjectionDisplay:
        """Draw on new axes or on those given.

        Parameters
        ----------
        ax : Axes or array of Axes, optional

        Returns
        -------
        self : ProjectionDisplay
        """
        shown = [] if self.before is None else [(self.before, "Before: principal components")]
        shown.append((self.after, "After: leading directions"))
        figure, axes = panels(ax, 1, len(shown), (5.2 * len(shown) + 0.8, 4.4))
        self._keep(figure, axes)
        handle = None
        for panel, (Z, title) in zip(axes.flat, shown, strict=True):
            handle = self._scatter(panel, Z)
            panel.set_title(title)
            quiet_grid(panel)
        if self.y is not None and self.real:
            figure.colorbar(handle, ax=list(axes.flat), label="y")
        elif self.y is not None:
            class_legend(axes.flat[-1], np.unique(self.y).tolist())
        return self

    def _scatter(self, ax: Any, Z: NDArray) -> Any:
        """Points of one panel; a single direction is drawn against classes or the target."""
        size = float(np.clip(4000 / len(Z), 6, 30))
        style = {"s": size, "alpha": 0.7, "linewidths": 0}
        flat = Z.shape[1] == 1
        ax.set(xlabel="first direction", ylabel="second direction")
        if self.y is None:
            if flat:
                ax.set(ylabel="", yticks=[])
            return ax.scatter(Z[:, 0], np.zeros(len(Z)) if flat else Z[:, 1], color=BLUE, **style)
        if self.real:
            if flat:
                ax.set_ylabel("y")
            second = self.y if flat else Z[:, 1]
            return ax.scatter(Z[:, 0], second, c=self.y, cmap=AMOUNTS, **style)
        classes, numbers = np.unique(self.y, return_inverse=True)
        for i in range(len(classes)):
            mine = numbers == i
            second = strip(int(mine.sum()), i) if flat else Z[mine, 1]
            ax.scatter(Z[mine, 0], second, **class_style(i), **style)
        if flat:
            ax.set(ylabel="class", yticks=[], ylim=(len(classes) - 0.5, -0.5))
        return None


def _plane(Z: ArrayLike, name: str) -> NDArray:
    points = np.asarray(Z, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] not in (1, 2):
        raise ValueError(
            f"`{name}` has shape {points.shape}; (n_samples, 1) or (n_samples, 2) is expected."
        )
    return points
