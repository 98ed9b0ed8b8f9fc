"""SubspaceDisplay: how many directions matter, by four means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ejop.plots.style import BLUE, GRAY, GREEN, ORANGE, Display, panels, quiet_grid

if TYPE_CHECKING:
    from ejop.theory import SubspaceTest


class SubspaceDisplay(Display):
    """Eigenvalues with bootstrap bands and p-values, cross-validated loss, bootstrap angles.

    Parameters
    ----------
    found : SubspaceTest
        Made by :func:`ejop.theory.subspace_test`.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
    ax_ : ndarray of three matplotlib.axes.Axes
    """

    def __init__(self, found: SubspaceTest) -> None:
        self.found = found

    def frame(self) -> Any:
        """Table of what is drawn, see :meth:`ejop.theory.SubspaceTest.frame`.

        Returns
        -------
        frame : pandas.DataFrame of one row per direction
        """
        return self.found.frame()

    def plot(self, ax: Any = None) -> SubspaceDisplay:
        """Draw on new axes or on those given.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or array of three, optional

        Returns
        -------
        self : SubspaceDisplay
        """
        figure, axes = panels(ax, 1, 3, (11, 3.6))
        self._keep(figure, axes)
        values, losses, angles = axes.ravel()
        self._draw_values(values)
        self._draw_losses(losses)
        self._draw_angles(angles)
        for one in axes.flat:
            one.xaxis.get_major_locator().set_params(integer=True)
            quiet_grid(one)
        return self

    def _draw_values(self, ax: Any) -> None:
        """Full marks where the test rejects "carries nothing"."""
        found, r = self.found, len(self.found.angles)
        order, values = np.arange(1, r + 1), found.eigenvalues[:r]
        ends = np.abs([np.minimum(found.low[:r], values), np.maximum(found.high[:r], values)])
        ax.errorbar(order, values, np.abs(ends - values), fmt="none", color=GRAY, capsize=3)
        carries = found.p_values <= found.level
        label = f"p ≤ {found.level:g}"
        ax.plot(order[carries], values[carries], "o", color=BLUE, label=label)
        ax.plot(order[~carries], values[~carries], "o", mfc="white", color=BLUE, label="larger p")
        ax.axvline(found.gap + 0.5, color=GRAY, ls=":", label=f"largest gap: after {found.gap}")
        if values[-1] > 0 and found.low[r - 1] > 0:
            ax.set_yscale("log")
        ax.set(xlabel="direction", ylabel="eigenvalue", title="Eigenvalues and test")
        ax.legend(frameon=False, fontsize="small")

    def _draw_losses(self, ax: Any) -> None:
        found, order = self.found, np.arange(len(self.found.losses))
        ax.errorbar(order, found.losses, found.losses_stderr, fmt="o-", color=ORANGE, capsize=3)
        chosen = found.cv_dimension
        ax.axvline(chosen, color=GRAY, ls=":", label=f"chosen: {chosen}")
        ax.set(xlabel="directions kept", ylabel="held-out loss", title="Cross-validation")
        ax.legend(frameon=False, fontsize="small")

    def _draw_angles(self, ax: Any) -> None:
        found, order = self.found, np.arange(1, len(self.found.angles) + 1)
        ax.plot(order, found.angles, "o-", color=GREEN, label="median")
        share = 100 * (1 - found.level)
        ax.plot(order, found.angles_high, "--", color=GREEN, label=f"{share:g} % below")
        ax.set(xlabel="directions kept", ylabel="sine of the largest angle", ylim=(0, 1.05))
        ax.set_title("Bootstrap of the subspace")
        ax.legend(frameon=False, fontsize="small")
