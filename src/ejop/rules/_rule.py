"""What every rule is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ejop.neighbors import Votes


class Rule(BaseEstimator):
    """Base of the rules: rows with targets that answer for new rows.

    Rows are those of the space of the metric. Targets have shape (n_samples, n_outputs): one-hot
    classes or real numbers.

    Attributes
    ----------
    rows_ : ndarray of shape (n_samples, n_components)
    targets_ : ndarray of shape (n_samples, n_outputs)
    weights_ : ndarray of shape (n_samples,) or None
    """

    _parameter_constraints: dict = {}

    def check(self) -> None:
        """Refuse parameters that will not do."""
        self._validate_params()

    # what tuning needs ----------------------------------------------------------------------

    @property
    def size_name(self) -> str | None:
        """What a size is called in ``best_params_``; None where there is nothing to choose."""
        return None

    def candidates(self, n_rows: int) -> Sequence[float]:
        """Sizes to try where so many rows answer: numbers of neighbours, quantiles, radii."""
        return (0,)

    def default(self, n_rows: int) -> float:
        """The size that is taken where nothing is tuned."""
        return 0

    @abstractmethod
    def judge(
        self,
        rows: NDArray,
        Y: NDArray,
        w: NDArray | None,
        Z: NDArray,
        sizes: Sequence[float],
        *,
        device: Any = None,
    ) -> Iterable[Votes]:
        """Votes of rows for Z with each size, from one search; the rule itself stays as it is."""

    # fitting and using ----------------------------------------------------------------------

    def hold(self, rows: NDArray, Y: NDArray, w: NDArray | None) -> Any:
        """Take the rows that answer, their targets and weights."""
        self.rows_, self.targets_, self.weights_ = rows, Y, w
        return self

    @abstractmethod
    def fit(
        self,
        rows: NDArray,
        Y: NDArray,
        w: NDArray | None = None,
        *,
        size: float | None = None,
        device: Any = None,
    ) -> Any:
        """Take rows, targets and weights, and settle the size that tuning chose.

        Parameters
        ----------
        rows : ndarray of shape (n_samples, n_components)
        Y : ndarray of shape (n_samples, n_outputs)
        w : ndarray of shape (n_samples,), optional
        size : float, optional
            One of :meth:`candidates`; :meth:`default` without.
        device : str or torch.device, optional
            Where neighbours are searched.

        Returns
        -------
        self : Rule
        """

    @abstractmethod
    def votes(self, Z: NDArray, *, device: Any = None) -> Votes:
        """What the rows say of new rows, shape (m, n_components)."""
