"""Kernel ridge regression under the metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray
from sklearn.base import clone

from ejop.functions import RidgeFunction
from ejop.neighbors import Votes
from ejop.rules._rule import Rule


class RidgeRule(Rule):
    """Kernel ridge regression on the mapped rows; bandwidth and penalty by leave-one-out.

    Attributes
    ----------
    function_ : RidgeFunction
        Fitted to the mapped rows.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.rules import RidgeRule
    >>> rows = np.linspace(-2, 2, 40)[:, None]
    >>> RidgeRule().fit(rows, np.sin(rows)).votes(np.array([[0.5]])).values.round(2)
    array([[0.48]])
    """

    def make_function(self) -> RidgeFunction:
        """The unfitted regression."""
        return RidgeFunction(random_state=0)

    def fit(
        self,
        rows: NDArray,
        Y: NDArray,
        w: NDArray | None = None,
        *,
        size: float | None = None,
        device: Any = None,
    ) -> RidgeRule:
        """Fit the regression; there is no size to settle."""
        return self.hold(rows, Y, w).answer_by(self.make_function().fit(rows, Y, w))

    def answer_by(self, function: RidgeFunction) -> RidgeRule:
        """Take a regression that is fitted already."""
        self.function_ = function
        return self

    def votes(self, Z: NDArray, *, device: Any = None) -> Votes:
        """Values of the regression at new rows, shape (m, n_components)."""
        return Votes.plain(self.function_.predict(Z))

    def judge(
        self,
        rows: NDArray,
        Y: NDArray,
        w: NDArray | None,
        Z: NDArray,
        sizes: Sequence[float],
        *,
        device: Any = None,
    ) -> Iterator[Votes]:
        """Values at Z, once."""
        yield clone(self).fit(rows, Y, w).votes(Z)
