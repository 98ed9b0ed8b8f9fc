"""What every rule is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ejop.neighbors import Votes, nearest

#: gives distances of rows to their k-th nearest row, itself the first
Kth = Callable[[int], NDArray]
Weights = NDArray | None


class Rule(BaseEstimator):
    """Base of the rules: rows with targets that answer for new rows.

    Rows are those of the space of the metric. Targets have shape (n_samples, n_outputs): one-hot
    classes or real numbers. A subclass writes :meth:`settle`, :meth:`votes` and :meth:`judge`, and
    ``size_name``, :meth:`candidates` and :meth:`default` where it has a size to choose.

    Attributes
    ----------
    rows_ : ndarray of shape (n_samples, n_components)
    targets_ : ndarray of shape (n_samples, n_outputs)
    weights_ : ndarray of shape (n_samples,) or None
    prior_ : ndarray of shape (n_outputs,)
        Mean target.
    """

    _parameter_constraints: dict = {}
    #: whether the rule prepares columns and learns its own maps, so that nothing is tuned around it
    chooses = False

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

    def hold(self, rows: NDArray, Y: NDArray, w: Weights = None) -> Any:
        """Take the rows that answer, their targets and weights."""
        self.rows_, self.targets_, self.weights_ = rows, Y, w
        self.prior_ = np.average(Y, axis=0, weights=w)
        return self

    @abstractmethod
    def settle(self, size: float, n_rows: int, kth: Kth) -> Any:
        """Settle what depends on a size where so many rows answer."""

    def fit(
        self, rows: NDArray, Y: NDArray, w: Weights = None, size: Any = None, device: Any = None
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
        self._validate_params()
        size = self.default(len(rows)) if size is None else size
        kth = partial(kth_distances, rows, device=device)
        return self.hold(rows, Y, w).settle(size, len(rows), kth)

    @abstractmethod
    def votes(self, Z: NDArray, device: Any = None) -> Votes:
        """What the fitted rule says of new rows, shape (m, n_components)."""

    @abstractmethod
    def judge(self, Z: NDArray, sizes: Sequence[float], device: Any = None) -> Iterable[Votes]:
        """What the rows that it holds say of new rows with each size, from one search."""


def kth_distances(rows: NDArray, k: int, device: Any = None) -> NDArray:
    """Distance of each row to its k-th nearest row, itself the first."""
    return nearest(rows, rows, k, device=device)[0][:, -1]
