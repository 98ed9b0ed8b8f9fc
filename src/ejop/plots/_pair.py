"""PairDisplay: which columns change the answer together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop.explanation import strengths_of
from ejop.plots.fitted import Fitted, fitted
from ejop.plots.shares import shares_of
from ejop.plots.style import AMOUNTS, Display, name_ticks, pandas, panels

#: columns up to which the numbers are written into the cells
WRITTEN = 12


class PairDisplay(Display):
    r"""Which pairs of columns change the answer together: the outer product off its diagonal.

    With M for the outer product of the derivatives, :math:`v_j` for the variance of feature j as
    the model scales it, :math:`B_{jk} = \sqrt{v_j v_k}\, M_{jk}`, and :math:`B_{ab}` for the block
    of the features of the columns a and b, the strength of a pair is

    .. math:: s_{ab} = \frac{\|B_{ab}\|_F}{\sqrt{\|B_{aa}\|_F \, \|B_{bb}\|_F}} \in [0, 1] .

    Of two columns of numbers it is the absolute cosine of their derivatives over all rows and
    outputs. 1 is as strong as the columns' own: wherever the answer changes with one it changes
    with the other, in one proportion, as along one direction. 0: they change it at different rows,
    or for different outputs, or in directions that cancel. A sum of two lines has strength 1: this
    does not tell whether the effect of one column depends on the value of the other.

    Parameters
    ----------
    strengths : array-like of shape (n_columns, n_columns)
        Symmetric, between 0 and 1.
    names : sequence of str
        Of the columns.
    n_columns : int, optional
        Columns there are, where fewer are given.
    stderr : array-like of shape (n_columns, n_columns), optional
        Standard errors of the strengths.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
    ax_ : matplotlib.axes.Axes

    Examples
    --------
    >>> from ejop.plots import PairDisplay
    >>> display = PairDisplay([[1, 0.2, 0.7], [0.2, 1, 0.1], [0.7, 0.1, 1]], ["a", "b", "c"])
    >>> display.frame()
      first second  strength
    0     a      c       0.7
    1     a      b       0.2
    2     b      c       0.1
    """

    def __init__(
        self,
        strengths: ArrayLike,
        names: Sequence[str],
        *,
        n_columns: int | None = None,
        stderr: ArrayLike | None = None,
    ) -> None:
        self.strengths = np.asarray(strengths, dtype=np.float64)
        self.names = [str(name) for name in names]
        n = len(self.names)
        if self.strengths.shape != (n, n):
            raise ValueError(
                f"`strengths` has shape {self.strengths.shape} and there are {n} names; ({n}, {n}) "
                "is expected."
            )
        if n < 2:
            raise ValueError(f"pairs need two columns, and there is {n}.")
        self.n_columns = n if n_columns is None else n_columns
        self.stderr = None if stderr is None else np.asarray(stderr, dtype=np.float64)
        if self.stderr is not None and self.stderr.shape != (n, n):
            raise ValueError(
                f"`stderr` has shape {self.stderr.shape} and `strengths` ({n}, {n}); one error a "
                "pair is expected."
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature_names: Sequence[str] | None = None,
        top: int = 12,
        errors: bool = False,
        ax: Any = None,
    ) -> PairDisplay:
        """Draw the pairs of the columns that matter most.

        Parameters
        ----------
        estimator : fitted EJOP, EGOP, predictor, metric learner, or pipeline that ends in one
            Of a learner L^T L is drawn.
        feature_names : sequence of str, optional
            Those the estimator has seen by default.
        top : int, default=12
            Columns drawn, those of largest importance.
        errors : bool, default=False
            With standard errors over refits, which kernel machines have: see ``interactions()``.
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        display : PairDisplay
        """
        if top < 2:
            raise ValueError(f"`top`={top} must be 2 or more: pairs need two columns.")
        source = fitted(estimator, feature_names)
        groups = np.arange(len(source.names)) if source.groups is None else source.groups
        used = np.unique(groups)
        shares = shares_of(source).values
        shares = shares if len(shares) == len(source.columns) else np.diag(source.matrix)
        order = used[np.argsort(-shares[used], kind="stable")][:top]
        if len(order) < 2:
            raise ValueError("pairs need two columns, and the model uses one.")
        names = [source.columns[j] for j in order]
        strengths = strengths_of(scaled_matrix(source), groups, order)
        stderr = _errors(source.model, np.searchsorted(used, order)) if errors else None
        return cls(strengths, names, n_columns=len(used), stderr=stderr).plot(ax)

    def frame(self) -> Any:
        """Table of the pairs: first, second, strength, and stderr where errors are known.

        Returns
        -------
        frame : pandas.DataFrame of one row per pair, the strongest first
        """
        first, second = np.triu_indices(len(self.names), 1)
        values = self.strengths[first, second]
        order = np.argsort(-values, kind="stable")
        columns: dict[str, Any] = {
            "first": [self.names[i] for i in first[order]],
            "second": [self.names[i] for i in second[order]],
            "strength": values[order],
        }
        if self.stderr is not None:
            columns["stderr"] = self.stderr[first, second][order]
        return pandas().DataFrame(columns)

    def plot(self, ax: Any = None) -> PairDisplay:
        """Draw on new axes or on those given.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        self : PairDisplay
        """
        n = len(self.names)
        size = float(np.clip(2.6 + 0.36 * n, 4.2, 11))
        figure, axes = panels(ax, 1, 1, (size + 1.4, size))
        self._keep(figure, axes)
        # each pair once, and no diagonal, which is 1
        table = np.ma.masked_where(~np.tri(n, dtype=bool, k=-1), self.strengths)[1:, :-1]
        style = {"cmap": AMOUNTS, "vmin": 0, "vmax": 1, "interpolation": "nearest"}
        image = self.ax_.imshow(table, **style)
        turn = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        name_ticks(self.ax_.xaxis, self.names[:-1], most=40, **turn)
        name_ticks(self.ax_.yaxis, self.names[1:], most=40)
        if n <= WRITTEN:
            for i, j in zip(*np.nonzero(~np.ma.getmaskarray(table)), strict=True):
                shade = "white" if table[i, j] < 0.5 else "black"
                told = f"{table[i, j]:.2f}"
                if self.stderr is not None:
                    told += f"\n±{self.stderr[i + 1, j]:.2f}"
                size = 8 if self.stderr is None else 6.5
                self.ax_.text(j, i, told, ha="center", va="center", color=shade, fontsize=size)
        self.ax_.spines[:].set_visible(False)
        self.figure_.colorbar(image, ax=self.ax_, label="strength, 1: along one direction")
        some = f", {n} of {self.n_columns}" if n < self.n_columns else ""
        self.ax_.set_title(f"Columns that change the answer together{some}")
        return self


def _errors(model: Any, columns: NDArray) -> NDArray:
    """Standard errors of the strengths between some of the used columns."""
    if not hasattr(model, "interactions"):
        raise ValueError(
            f"{type(model).__name__} cannot be fitted again in closed form, and its pairs have no "
            "errors; use errors=False."
        )
    found: NDArray = model.interactions().stderr[np.ix_(columns, columns)]
    return found


def scaled_matrix(source: Fitted) -> NDArray:
    """The outer product with features in units of their standard deviations, up to a factor.

    The importances of the features are its diagonal, so they say the variances.
    """
    M, diagonal = source.matrix, np.diag(source.matrix)
    shares = getattr(source.model, "metric_importances_", None)
    if shares is None:
        shares = getattr(source.model, "feature_importances_", diagonal)
    shares = np.asarray(shares, dtype=np.float64)
    units = np.divide(shares, diagonal, out=np.zeros(len(diagonal)), where=diagonal > 0)
    root = np.sqrt(units)
    return root[:, None] * M * root
