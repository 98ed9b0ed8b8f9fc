"""Kernel ridge regression under the metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from ejop.functions import RidgeFunction
from ejop.neighbors import Votes
from ejop.rules._rule import Kth, Rule


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

    def settle(self, size: float, n_rows: int, kth: Kth) -> RidgeRule:
        """Fit the regression to the rows; there is no size."""
        return self.answer_by(self.make_function().fit(self.rows_, self.targets_, self.weights_))

    def answer_by(self, function: RidgeFunction) -> RidgeRule:
        """Take a regression that is fitted already."""
        self.function_ = function
        return self

    def votes(self, Z: NDArray, device: Any = None) -> Votes:
        """Values of the regression at new rows, shape (m, n_components)."""
        return Votes.plain(self.function_.predict(Z))

    def judge(self, Z: NDArray, sizes: Sequence[float], device: Any = None) -> Iterator[Votes]:
        """Values at new rows, once."""
        yield self.fit(self.rows_, self.targets_, self.weights_).votes(Z)
