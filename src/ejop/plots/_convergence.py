"""ConvergenceDisplay: the objective of learners, with and without a good start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ejop.plots.style import COLORS, MARKERS, Display, label, pandas, panels, quiet_grid

#: strokes that tell curves apart without colour
STROKES = ("-", "--", "-.", ":")


class ConvergenceDisplay(Display):
    """Objective of metric learners by iteration.

    Parameters
    ----------
    objectives : mapping of str to array-like of shape (n_iter,)
        One curve each, in this order.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
    ax_ : matplotlib.axes.Axes

    Examples
    --------
    >>> from ejop.plots import ConvergenceDisplay
    >>> display = ConvergenceDisplay({"identity": [3.0, 2.0, 1.5], "ejop": [1.8, 1.2]})
    >>> display.frame().groupby("learner")["objective"].last().to_dict()
    {'ejop': 1.2, 'identity': 1.5}
    """

    def __init__(self, objectives: Mapping[str, ArrayLike]) -> None:
        if not objectives:
            raise ValueError("`objectives` is empty; pass at least one curve.")
        self.objectives = {
            str(name): np.atleast_1d(np.asarray(values, dtype=np.float64))
            for name, values in objectives.items()
        }

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        names: Sequence[str] | None = None,
        log: bool = False,
        ax: Any = None,
    ) -> ConvergenceDisplay:
        """Draw the objective of fitted learners.

        Parameters
        ----------
        estimator : fitted metric learner, or list, or mapping of names to them
            For instance the same learner with ``init="identity"`` and ``init="ejop"``.
        names : sequence of str, optional
            One per learner; by default the class and its ``init``.
        log : bool, default=False
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        display : ConvergenceDisplay
        """
        if isinstance(estimator, Mapping):
            names, learners = list(estimator), list(estimator.values())
        else:
            learners = list(estimator) if isinstance(estimator, list | tuple) else [estimator]
        learners = [e[-1] if isinstance(e, Pipeline) else e for e in learners]
        curves = [_objective(learner) for learner in learners]
        if names is None:
            names = _distinct([_name(learner) for learner in learners])
        if len(names) != len(curves):
            raise ValueError(
                f"`names` has {len(names)} names and there are {len(curves)} learners."
            )
        return cls(dict(zip(names, curves, strict=True))).plot(ax, log=log)

    def frame(self) -> Any:
        """Table of what is drawn: learner, iteration, objective.

        Returns
        -------
        frame : pandas.DataFrame of one row per learner and iteration
        """
        table = pandas()
        parts = [
            table.DataFrame(
                {"learner": name, "iteration": np.arange(1, len(v) + 1), "objective": v}
            )
            for name, v in self.objectives.items()
        ]
        return table.concat(parts, ignore_index=True)

    def plot(self, ax: Any = None, *, log: bool = False) -> ConvergenceDisplay:
        """Draw on new axes or on those given.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        log : bool, default=False
            Objective on a logarithmic scale, where all values are positive.

        Returns
        -------
        self : ConvergenceDisplay
        """
        figure, axes = panels(ax, 1, 1, (6.4, 4.0))
        self._keep(figure, axes)
        for i, (name, values) in enumerate(self.objectives.items()):
            steps, colour = np.arange(1, len(values) + 1), COLORS[i % len(COLORS)]
            stroke = STROKES[i % len(STROKES)]
            self.ax_.plot(steps, values, stroke, color=colour, lw=1.6, label=label(name, 40))
            # where each curve ends is where it stopped: mark it, several may run together
            self.ax_.plot(steps[-1], values[-1], MARKERS[i % len(MARKERS)], color=colour, ms=6)
        if log and all(v.min() > 0 for v in self.objectives.values()):
            self.ax_.set_yscale("log")
        self.ax_.set(xlabel="iteration", ylabel="objective", title="Convergence")
        self.ax_.xaxis.get_major_locator().set_params(integer=True)
        quiet_grid(self.ax_)
        self.ax_.legend(frameon=False)
        return self


def _objective(learner: Any) -> Any:
    if not isinstance(learner, type) and hasattr(learner, "fit"):
        check_is_fitted(learner)
    if not hasattr(learner, "objective_"):
        raise TypeError(
            f"{type(learner).__name__} keeps no objective (`objective_`); pass fitted learners of "
            "ejop.learners. EJOP and EGOP do not iterate."
        )
    return learner.objective_


def _name(learner: Any) -> str:
    init = getattr(learner, "init", None)
    start = init if isinstance(init, str) else type(init).__name__
    return type(learner).__name__ + ("" if init is None else f", start: {start}")


def _distinct(names: list[str]) -> list[str]:
    """The same names, numbered where one occurs twice."""
    return [f"{n} ({names[:i].count(n) + 1})" if n in names[:i] else n for i, n in enumerate(names)]
