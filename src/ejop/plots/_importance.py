"""ImportanceDisplay: which features matter, and to which class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop.plots.fitted import fitted
from ejop.plots.shares import shares_of
from ejop.plots.style import (
    AMOUNTS,
    BLUE,
    GRAY,
    Display,
    label,
    name_ticks,
    pandas,
    panels,
    quiet_grid,
)


class ImportanceDisplay(Display):
    """Importances of features: shares of all change of the answer, whatever the units.

    They are the ``feature_importances_`` of the model. Of kernel machines: how far the answer
    changes when a column takes the value of another row. Of a metric: the diagonal of the matrix
    times the variance of each feature. Columns of a table that were prepared are shown whole, with
    all their levels.

    Parameters
    ----------
    importances : array-like of shape (n_features,)
        They sum to 1 over all features.
    feature_names : sequence of str, optional
        x0, x1, ... by default.
    stderr : array-like of shape (n_features,), optional
        Standard errors, drawn as bars. ``from_estimator`` takes those of refits for kernel machines
        (see ``importances()``), for metrics those over the entries of the diagonal, to first order
        and as if independent.
    class_importances : array-like of shape (n_classes, n_features), optional
        How ``importances`` divide among the classes.
    classes : sequence, optional
        Names of the classes.
    top : int, default=20
        Features drawn, those of largest importance.
    by_class : bool, default=False
        Draw features against classes instead of bars.
    kind : str, default="class"
        What the classes are called on their axis.

    Attributes
    ----------
    order : ndarray of shape (n_shown,)
        Features drawn, most important first.
    figure_ : matplotlib.figure.Figure
    ax_ : matplotlib.axes.Axes

    Examples
    --------
    >>> from ejop.plots import ImportanceDisplay
    >>> display = ImportanceDisplay([0.1, 0.6, 0.3], ["width", "height", "age"], top=2)
    >>> display.frame()["feature"].tolist()
    ['height', 'age']
    """

    def __init__(
        self,
        importances: ArrayLike,
        feature_names: Sequence[str] | None = None,
        *,
        stderr: ArrayLike | None = None,
        class_importances: ArrayLike | None = None,
        classes: Sequence[Any] | None = None,
        top: int = 20,
        by_class: bool = False,
        kind: str = "class",
    ) -> None:
        self.importances = np.asarray(importances, dtype=np.float64)
        d = len(self.importances)
        self.feature_names = _named(feature_names, d, "x", "feature_names")
        self.stderr = None if stderr is None else np.asarray(stderr, dtype=np.float64)
        self.class_importances: NDArray | None = None
        self.classes: list[str] = []
        if class_importances is not None:
            self.class_importances = np.atleast_2d(np.asarray(class_importances, dtype=np.float64))
            n = len(self.class_importances)
            self.classes = _named(classes, n, "class ", "classes")
        if by_class and self.class_importances is None:
            raise ValueError(
                "`by_class`=True needs `class_importances`, which metric learners, metrics of one "
                "output and predictors of several rounds do not have; use by_class=False."
            )
        self.top = top
        self.by_class = by_class
        self.kind = kind
        self.order = np.argsort(-self.importances, kind="stable")[:top]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature_names: Sequence[str] | None = None,
        top: int = 20,
        by_class: bool = False,
        levels: bool = False,
        ax: Any = None,
    ) -> ImportanceDisplay:
        """Draw the importances of a fitted metric.

        Parameters
        ----------
        estimator : fitted EJOP, EGOP, predictor, metric learner, or pipeline that ends in one
            Of a learner without ``feature_importances_`` the diagonal of L^T L is drawn.
        feature_names : sequence of str, optional
            Those the estimator has seen by default.
        top : int, default=20
        by_class : bool, default=False
            Features against classes; needs a metric of two outputs or more.
        levels : bool, default=False
            Levels of categories in place of the columns of the table.
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        display : ImportanceDisplay
        """
        source = fitted(estimator, feature_names)
        found = shares_of(source, levels=levels)
        return cls(
            found.values,
            found.names,
            stderr=found.stderr,
            class_importances=found.by_output,
            classes=found.outputs,
            top=top,
            by_class=by_class,
            kind="output" if source.regression else "class",
        ).plot(ax)

    def frame(self) -> Any:
        """Table of what is drawn: feature, importance, stderr, and a column per class.

        Returns
        -------
        frame : pandas.DataFrame of one row per feature drawn, most important first
        """
        error = np.full(len(self.importances), np.nan) if self.stderr is None else self.stderr
        columns: dict[str, Any] = {
            "feature": [self.feature_names[i] for i in self.order],
            "importance": self.importances[self.order],
            "stderr": error[self.order],
        }
        if self.class_importances is not None:
            for name, row in zip(self.classes, self.class_importances, strict=True):
                columns[f"importance for {name}"] = row[self.order]
        return pandas().DataFrame(columns)

    def plot(self, ax: Any = None) -> ImportanceDisplay:
        """Draw on new axes or on those given.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        self : ImportanceDisplay
        """
        n = len(self.order)
        width = 6.4 if not self.by_class else float(np.clip(3.6 + 0.34 * len(self.classes), 5, 12))
        figure, axes = panels(ax, 1, 1, (width, 1.4 + 0.26 * max(n, 4)))
        self._keep(figure, axes)
        names = [label(self.feature_names[i]) for i in self.order]
        self.ax_.set_yticks(np.arange(n), names)
        self._draw_classes() if self.by_class else self._draw_bars()
        d = len(self.importances)
        which = f"{n} of {d} features" if n < d else ("one feature" if d == 1 else f"{d} features")
        what = f"Importance by {self.kind}" if self.by_class else "Importance"
        self.ax_.set_title(f"{what}, {which}")
        return self

    def _draw_bars(self) -> None:
        ax, percent = self.ax_, 100 * self.importances[self.order]
        error = None if self.stderr is None else 100 * self.stderr[self.order]
        places = np.arange(len(self.order))
        ax.barh(places, percent, xerr=error, color=BLUE, ecolor=GRAY, capsize=2, height=0.7)
        ax.set_ylim(len(self.order) - 0.4, -0.6)  # most important on top
        ax.set_xlim(left=0)
        ax.set_xlabel("share of all change of the answer, %")
        quiet_grid(ax, "x")

    def _draw_classes(self) -> None:
        assert self.class_importances is not None
        table = 100 * self.class_importances[:, self.order].T
        image = self.ax_.imshow(table, cmap=AMOUNTS, vmin=0, aspect="auto", interpolation="nearest")
        slanted = max(map(len, self.classes)) > 3
        turn: dict[str, Any] = (
            {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
        )
        name_ticks(self.ax_.xaxis, self.classes, most=40, **turn)
        self.ax_.set_xlabel(self.kind)
        self.figure_.colorbar(image, ax=self.ax_, label="share of all change of the answer, %")


def _named(names: Sequence[Any] | None, n: int, prefix: str, argument: str) -> list[str]:
    if names is None:
        return [f"{prefix}{i}" for i in range(n)]
    if len(names) != n:
        raise ValueError(f"`{argument}` has {len(names)} names and {n} are needed.")
    return [str(name) for name in names]
