"""NeighborsDisplay: one row and its neighbours, by plain distance and by the learned one."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop.neighbors import nearest
from ejop.plots.fitted import fitted
from ejop.plots.points import is_real, project, target_column
from ejop.plots.style import (
    BLACK,
    BLUE,
    GRAY,
    ORANGE,
    Display,
    label,
    pandas,
    panels,
    quiet_grid,
)

BEFORE, AFTER = "before", "after"
PANEL_TITLES = {BEFORE: "Before: plain distance", AFTER: "After: learned distance"}


class NeighborsDisplay(Display):
    """A row and its nearest rows before and after the metric was learned.

    Parameters
    ----------
    indices : mapping of "before" and "after" to array-like of shape (n_neighbors,)
        Row numbers, nearest first.
    distances : mapping of "before" and "after" to array-like of shape (n_neighbors,)
    points : mapping of "before" and "after" to array-like of shape (n_samples, 1 or 2)
        All rows on a plane, the query last.
    y : array-like of shape (n_samples,), optional
        Class or target of the rows.
    query_y : object, optional
        That of the query.
    images : array-like of shape (n_samples, height, width), optional
        Rows as images, the query last; drawn instead of the plane.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
    ax_ : ndarray of Axes
        Shape (1, 2), or (2, 1 + n_neighbors) for images.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ejop import EJOP
    >>> from ejop.plots import NeighborsDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = NeighborsDisplay.from_estimator(EJOP().fit(X, y), X, y, query=77, n_neighbors=3)
    >>> display.frame()[["metric", "place", "row", "y"]].shape
    (6, 4)
    """

    def __init__(
        self,
        indices: dict[str, ArrayLike],
        distances: dict[str, ArrayLike],
        points: dict[str, ArrayLike],
        *,
        y: ArrayLike | None = None,
        query_y: Any = None,
        images: ArrayLike | None = None,
    ) -> None:
        for name, given in (("indices", indices), ("distances", distances), ("points", points)):
            if set(given) != {BEFORE, AFTER}:
                raise ValueError(
                    f"`{name}` has the keys {sorted(given)}; 'before' and 'after' are expected."
                )
        self.indices = {when: np.asarray(indices[when]) for when in PANEL_TITLES}
        self.distances = {when: np.asarray(distances[when], dtype=float) for when in PANEL_TITLES}
        self.points = {when: np.asarray(points[when], dtype=float) for when in PANEL_TITLES}
        self.y = None if y is None else np.asarray(y)
        self.query_y = query_y
        self.images = None if images is None else np.asarray(images)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        query: int | ArrayLike = 0,
        query_y: Any = None,
        n_neighbors: int = 5,
        image_shape: tuple[int, int] | None = None,
        ax: Any = None,
    ) -> NeighborsDisplay:
        """Find and draw the neighbours of one row.

        Parameters
        ----------
        estimator : fitted EJOP, EGOP, predictor, metric learner, or pipeline that ends in one
        X : array-like of shape (n_samples, n_features)
            Rows among which neighbours are sought, as a rule the training rows.
        y : array-like of shape (n_samples,), optional
        query : int or one row as X has them, default=0
            A row number of X, which is then not its own neighbour, or a new row of shape
            (1, n_features) or (n_features,).
        query_y : object, optional
            Class or target of a new row.
        n_neighbors : int, default=5
        image_shape : (int, int), optional
            Draw rows as images of this height and width.
        ax : Axes or array of Axes, optional

        Returns
        -------
        display : NeighborsDisplay

        Notes
        -----
        "Before" is the Euclidean distance of the rows as the estimator scales them, so that the two
        differ in the metric alone.
        """
        source = fitted(estimator)
        targets = None if y is None else target_column(y, len(X))
        number = _row_number(query, len(X))
        if number is not None and targets is not None and query_y is None:
            query_y = targets[number]
        Z = source.prepare(X)
        q = source.prepare(_as_row(query)) if number is None else Z[number : number + 1]
        others = np.delete(np.arange(len(Z)), [] if number is None else number)
        found = _found(q, Z[others], source.components, n_neighbors)
        after, before = project(source, np.vstack([Z, q]))
        images = None
        if image_shape is not None:
            raw = _plain(X)
            new = _plain(_as_row(query)) if number is None else raw[number : number + 1]
            images = _images(np.vstack([raw, new]), image_shape)
        return cls(
            {when: others[near[0]] for when, (_, near) in found.items()},
            {when: D[0] for when, (D, _) in found.items()},
            {BEFORE: before, AFTER: after},
            y=targets,
            query_y=query_y,
            images=images,
        ).plot(ax)

    def frame(self) -> Any:
        """Table of the neighbours: metric, place, row, distance, y.

        Returns
        -------
        frame : pandas.DataFrame of 2 n_neighbors rows
        """
        table = pandas()
        parts = []
        for when, rows in self.indices.items():
            columns: dict[str, Any] = {
                "metric": when,
                "place": np.arange(1, len(rows) + 1),
                "row": rows,
                "distance": self.distances[when],
            }
            if self.y is not None:
                columns["y"] = self.y[rows]
            parts.append(table.DataFrame(columns))
        return table.concat(parts, ignore_index=True)

    def plot(self, ax: Any = None) -> NeighborsDisplay:
        """Draw on new axes or on those given.

        Parameters
        ----------
        ax : Axes or array of Axes, optional

        Returns
        -------
        self : NeighborsDisplay
        """
        if self.images is None:
            self._plot_planes(ax)
        else:
            self._plot_images(ax, self.images)
        return self

    def _agrees(self, rows: NDArray) -> NDArray:
        """Which neighbours have the query's class; all where that is not known."""
        if self.y is None or not self._classes_known:
            return np.ones(len(rows), dtype=bool)
        return self.y[rows] == self.query_y

    @property
    def _classes_known(self) -> bool:
        """Whether neighbours can agree: real targets are never equal."""
        return self.y is not None and self.query_y is not None and not is_real(self.y)

    def _plot_planes(self, ax: Any) -> None:
        figure, axes = panels(ax, 1, 2, (10.6, 4.8))
        self._keep(figure, axes)
        for panel, when in zip(axes.flat, PANEL_TITLES, strict=True):
            P = self.points[when]
            P = np.column_stack([P, np.zeros(len(P))]) if P.shape[1] == 1 else P
            rows, query = self.indices[when], P[-1]
            panel.scatter(*P[:-1].T, s=10, color=GRAY, alpha=0.35, linewidths=0)
            for row in rows:
                panel.plot(*np.array([query, P[row]]).T, color=GRAY, lw=0.8, zorder=1)
            for same, colour, marker in ((True, BLUE, "o"), (False, ORANGE, "s")):
                mine = rows[self._agrees(rows) == same]
                panel.scatter(*P[mine].T, s=60, color=colour, marker=marker, edgecolors="white")
            panel.scatter(*query, s=190, color=BLACK, marker="*", edgecolors="white", zorder=4)
            panel.set(xlabel="first direction", ylabel="second direction", title=self._title(when))
            quiet_grid(panel)
        self._legend(axes)

    def _title(self, when: str) -> str:
        if self.y is not None and is_real(self.y):
            return f"{PANEL_TITLES[when]}, mean {self.y[self.indices[when]].mean():.3g}"
        if not self._classes_known:
            return PANEL_TITLES[when]
        agree = self._agrees(self.indices[when])
        return f"{PANEL_TITLES[when]}, {agree.sum()} of {len(agree)} agree"

    def _query_name(self) -> str:
        return "query" if self.query_y is None else f"query: {_brief(self.query_y)}"

    def _legend(self, axes: NDArray) -> None:
        from matplotlib.lines import Line2D

        marks = [(self._query_name(), BLACK, "*", 12)]
        if self._classes_known:
            marks += [("same class", BLUE, "o", 8), ("other class", ORANGE, "s", 8)]
        else:
            marks += [("neighbour", BLUE, "o", 8)]
        handles = [
            Line2D([], [], linestyle="", label=name, color=colour, marker=marker, markersize=size)
            for name, colour, marker, size in marks
        ]
        below = {"loc": "upper right", "bbox_to_anchor": (1.0, -0.12), "frameon": False}
        axes.flat[0].legend(handles=handles, ncols=3, **below)

    def _plot_images(self, ax: Any, images: NDArray) -> None:
        k = len(self.indices[BEFORE])
        figure, axes = panels(ax, 2, k + 1, (1.3 * (k + 1) + 0.4, 3.9))
        self._keep(figure, axes)
        span = {"cmap": "gray_r", "vmin": images.min(), "vmax": images.max()}
        for line, (when, word) in zip(axes, PANEL_TITLES.items(), strict=True):
            rows = self.indices[when]
            shown = rows if self.y is None else self.y[rows]
            names = [self._query_name(), *map(_brief, shown)]
            frames = [BLACK, *np.where(self._agrees(rows), BLUE, ORANGE)]
            for panel, image, name, colour in zip(
                line, images[[-1, *rows]], names, frames, strict=True
            ):
                panel.imshow(image, interpolation="nearest", **span)
                panel.set(xticks=[], yticks=[])
                panel.set_xlabel(name)
                for spine in panel.spines.values():
                    spine.set(color=colour, linewidth=3)
            line[0].set_title(word, loc="left", fontsize="medium")


def _found(q: NDArray, rows: NDArray, L: NDArray, k: int) -> dict[str, tuple[NDArray, NDArray]]:
    """Distances and places (1, k) of the neighbours of q, before and after the map L."""
    if not 1 <= k <= len(rows):
        raise ValueError(
            f"`n_neighbors`={k} must lie between 1 and the number of other rows, {len(rows)}."
        )
    return {BEFORE: nearest(q, rows, k), AFTER: nearest(q @ L.T, rows @ L.T, k)}


def _brief(value: Any) -> str:
    """A class or a target in few characters."""
    return f"{value:.3g}" if isinstance(value, float | np.floating) else label(value, 14)


def _plain(X: Any) -> NDArray:
    return X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)


def _row_number(query: Any, n: int) -> int | None:
    """The row that a query names, None for a new row."""
    if not isinstance(query, Integral):
        return None
    number = int(query)
    if not -n <= number < n:
        raise ValueError(f"`query`={number} is not a row of X, which has {n}.")
    return number % n


def _as_row(query: Any) -> Any:
    """One row as a table of one row; a data frame stays one, for pipelines that need names."""
    if hasattr(query, "to_numpy") and getattr(query, "ndim", 0) == 2:
        return query
    return np.atleast_2d(_plain(query))


def _images(rows: NDArray, shape: tuple[int, int]) -> NDArray:
    if len(shape) != 2 or np.prod(shape) != rows.shape[1]:
        raise ValueError(
            f"`image_shape`={shape!r} does not hold {rows.shape[1]} pixels, one per feature; pass "
            "height and width."
        )
    return rows.astype(np.float64).reshape(len(rows), *shape)
