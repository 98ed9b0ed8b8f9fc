"""MetricDisplay: the matrix itself, as a heat map or as images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop.metric import eigh_descending
from ejop.plots.fitted import fitted
from ejop.plots.style import AMOUNTS, SIGNS, Display, name_ticks, pandas, panels


class MetricDisplay(Display):
    """The matrix of a metric: features against features or, for image data, as images.

    Parameters
    ----------
    matrix : array-like of shape (n_features, n_features)
        Symmetric.
    feature_names : sequence of str, optional
        x0, x1, ... by default. Of more than 30 some are named, at even distances.
    image_shape : (int, int), optional
        Height and width of images whose pixels are the features: the diagonal and the leading
        directions are drawn as images.
    n_directions : int, default=5
        Directions drawn as images.
    top : int, default=100
        Features in the heat map, at the most: those of largest diagonal, in their order.

    Attributes
    ----------
    shown : ndarray of shape (n_shown,)
        Features in the heat map.
    figure_ : matplotlib.figure.Figure
    ax_ : Axes, or ndarray of shape (n_rows, n_columns) of Axes for images

    Examples
    --------
    >>> from ejop.plots import MetricDisplay
    >>> MetricDisplay([[2.0, 0.5], [0.5, 1.0]], ["width", "height"]).frame()
            width  height
    width     2.0     0.5
    height    0.5     1.0
    """

    def __init__(
        self,
        matrix: ArrayLike,
        feature_names: Sequence[str] | None = None,
        *,
        image_shape: tuple[int, int] | None = None,
        n_directions: int = 5,
        top: int = 100,
    ) -> None:
        self.matrix = np.asarray(matrix, dtype=np.float64)
        if self.matrix.ndim != 2 or self.matrix.shape[0] != self.matrix.shape[1]:
            raise ValueError(
                f"`matrix` has shape {self.matrix.shape}; (n_features, n_features) is expected."
            )
        d = len(self.matrix)
        if image_shape is not None and (len(image_shape) != 2 or np.prod(image_shape) != d):
            raise ValueError(
                f"`image_shape`={image_shape!r} does not hold {d} pixels, one per feature; pass "
                "height and width."
            )
        names = [f"x{i}" for i in range(d)] if feature_names is None else list(feature_names)
        if len(names) != d:
            raise ValueError(f"`feature_names` has {len(names)} names and {d} are needed.")
        self.feature_names = [str(name) for name in names]
        self.image_shape = image_shape
        self.n_directions = min(n_directions, d)
        self.top = top
        self.shown = np.sort(np.argsort(-np.diag(self.matrix), kind="stable")[:top])

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature_names: Sequence[str] | None = None,
        image_shape: tuple[int, int] | None = None,
        n_directions: int = 5,
        top: int = 100,
        ax: Any = None,
    ) -> MetricDisplay:
        """Draw the matrix of a fitted metric.

        Parameters
        ----------
        estimator : fitted EJOP, EGOP, predictor, metric learner, or pipeline that ends in one
            The estimate of E[J J^T] is drawn, before power and rank; of a learner L^T L.
        feature_names : sequence of str, optional
        image_shape : (int, int), optional
        n_directions : int, default=5
        top : int, default=100
        ax : Axes or array of Axes, optional

        Returns
        -------
        display : MetricDisplay
        """
        source = fitted(estimator, feature_names)
        return cls(
            source.matrix,
            source.names,
            image_shape=image_shape,
            n_directions=n_directions,
            top=top,
        ).plot(ax)

    def frame(self) -> Any:
        """The matrix with names or, for images, one row per pixel.

        Returns
        -------
        frame : pandas.DataFrame
            (n_shown, n_shown), or for images the columns feature, diagonal and direction 1
            to n_directions.
        """
        if self.image_shape is None:
            names = [self.feature_names[i] for i in self.shown]
            entries = self.matrix[np.ix_(self.shown, self.shown)]
            return pandas().DataFrame(entries, index=names, columns=names)
        _, vectors = eigh_descending(self.matrix)
        columns: dict[str, Any] = {
            "feature": self.feature_names,
            "diagonal": np.diag(self.matrix),
        }
        columns |= {f"direction {i + 1}": vectors[:, i] for i in range(self.n_directions)}
        return pandas().DataFrame(columns)

    def plot(self, ax: Any = None) -> MetricDisplay:
        """Draw on new axes or on those given.

        Parameters
        ----------
        ax : Axes or array of Axes, optional

        Returns
        -------
        self : MetricDisplay
        """
        if self.image_shape is None:
            self._plot_matrix(ax)
        else:
            self._plot_images(ax, self.image_shape)
        return self

    def _plot_matrix(self, ax: Any) -> None:
        d = len(self.shown)
        entries = self.matrix[np.ix_(self.shown, self.shown)]
        names = [self.feature_names[i] for i in self.shown]
        side = float(np.clip(2.6 + 0.24 * min(d, 30), 4.2, 8.5))
        figure, axes = panels(ax, 1, 1, (side + 0.9, side))
        self._keep(figure, axes)
        image = self.ax_.imshow(entries, interpolation="nearest", **_signed(entries))
        name_ticks(self.ax_.yaxis, names)
        slant: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        name_ticks(self.ax_.xaxis, names, **slant)
        if d > 30:
            self.ax_.tick_params(labelsize="small")
        total = len(self.matrix)
        some = f"{d} of {total} features" if d < total else f"{d} features"
        self.ax_.set_title("Metric of one feature" if total == 1 else f"Metric of {some}")
        figure.colorbar(image, ax=self.ax_, shrink=0.8, format="%.2g")

    def _plot_images(self, ax: Any, shape: tuple[int, int]) -> None:
        values, vectors = eigh_descending(self.matrix)
        n = 1 + self.n_directions
        columns = min(n, 3)
        rows = -(-n // columns)
        figure, axes = panels(ax, rows, columns, (2.5 * columns + 0.6, 2.6 * rows))
        self._keep(figure, axes)
        total = values.sum()
        for place, panel in enumerate(axes.flat):
            panel.set(xticks=[], yticks=[])
            if place >= n:
                panel.set_axis_off()
                continue
            if place == 0:
                pixels, style, title = (
                    np.diag(self.matrix),
                    {"cmap": AMOUNTS, "vmin": 0},
                    "diagonal",
                )
            else:
                pixels = vectors[:, place - 1]
                style = _signed(pixels)
                share = 100 * values[place - 1] / total if total > 0 else 0.0
                title = f"direction {place}, {share:.0f} %"
            panel.imshow(pixels.reshape(shape), interpolation="nearest", **style)
            panel.set_title(title, fontsize="medium")


def _signed(values: NDArray) -> dict[str, Any]:
    """A colour scale on which zero is white."""
    largest = float(np.abs(values).max()) or 1.0
    return {"cmap": SIGNS, "vmin": -largest, "vmax": largest}
