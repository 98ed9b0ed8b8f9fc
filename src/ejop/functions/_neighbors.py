"""The mean of Y over the k nearest rows."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from ejop.functions._base import Cost, Function, one_hot_labels


class NeighborsSmoother(Function):
    """Mean target of the k nearest training rows; ties go to the earlier row.

    The distance to the k-th neighbour changes by at most t when a point moves by t, so the k
    nearest rows of every shifted point lie within r_k(x) + 2t of x. These candidates are found
    once and re-ranked 2d times.

    Parameters
    ----------
    n_neighbors : int, default=15

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.functions import NeighborsSmoother
    >>> X = np.array([[0.0], [1.0], [2.0], [4.0]])
    >>> NeighborsSmoother(2).fit(X, X).predict(np.array([[1.9]]))
    array([[1.5]])
    """

    def __init__(self, n_neighbors: int = 15) -> None:
        self.n_neighbors = n_neighbors

    def _fit(self, sample_weight: NDArray | None) -> None:
        k, n = self.n_neighbors, len(self.X_)
        if not isinstance(k, Integral) or k < 1:
            raise ValueError(f"`n_neighbors` must be a positive integer, got {k!r}.")
        if k >= n:
            raise ValueError(
                f"`n_neighbors`={k} needs at least {k + 1} rows (a row is left out of its own "
                f"estimate) and `X` has {n}; lower `n_neighbors`."
            )
        labels = one_hot_labels(self.Y_)
        self._labels: NDArray = np.empty(0, dtype=np.int64) if labels is None else labels

    def predict(self, X: NDArray, exclude: NDArray | None = None) -> NDArray:
        """Values of f, shape (n_queries, n_outputs); ``exclude`` leaves a training row out of
        each."""
        values, _ = self.shifted(X, np.zeros(self.n_features_in_), exclude)
        return values[:, :, 0]

    def shifted(
        self, Q: NDArray, step: NDArray, exclude: NDArray | None = None
    ) -> tuple[NDArray, NDArray]:
        """Values of f at x + t_j e_j and x - t_j e_j."""
        from ejop.backends.compiled import neighbor_sums, normalise

        Q = np.asarray(Q, dtype=self.X_.dtype)
        step = np.asarray(step, dtype=np.float64)
        plus = np.zeros((self.n_outputs_, *Q.shape))
        minus, mass = np.zeros_like(plus), np.zeros((2, *Q.shape))
        neighbor_sums(
            *(Q, self.X_, self._candidates(Q, step, exclude), self.n_neighbors),
            *(self._labels, self.Y_, self._weights(), step, plus, minus, mass),
        )
        normalise(plus, minus, mass, self._prior_without(len(Q), exclude).astype(np.float64))
        return plus.transpose(1, 0, 2), minus.transpose(1, 0, 2)

    def _candidates(self, Q: NDArray, step: NDArray, exclude: NDArray | None) -> NDArray:
        """Rows that may be among the k nearest of a shifted query, (m, n), rounding allowed for.

        They lie within r_k + 2t of x, and within r_k^2 plus twice what a shift can change.
        """
        D, slack = self._squared_distances(Q, exclude)
        kth = self._kth(D) + slack
        far = np.minimum((np.sqrt(kth) + 2 * step.max()) ** 2, kth + 2 * self._shift_bound(Q, step))
        return (far + slack).astype(D.dtype)[:, None] >= D

    def _kth(self, D: NDArray) -> NDArray:
        """Squared distance to the k-th neighbour, none negative."""
        k = self.n_neighbors - 1
        return np.maximum(np.partition(D, k, axis=1)[:, k], 0).astype(np.float64)

    def prepare(
        self,
        step: NDArray | None,
        *,
        budget: int | None = None,
        n_queries: int = 0,
        n_excluded: int = 0,
    ) -> Cost:
        """Memory of a block; there is nothing to compute beforehand."""
        n, d = self.X_.shape
        per_query = n * (2 * self.X_.itemsize + 1) + 4 * (self.n_outputs_ + 1) * d * 8
        why = (
            f"the {self.n_neighbors} nearest of each shifted point are among one set of candidates"
        )
        scratch = (n * 24 + 4096 * d) * 8  # candidates of one query, a few features at a time
        return Cost("neighbors", per_query, 0, why, 10 * n * d, thread_bytes=scratch)

    def default_step(self) -> float:
        """Half the median distance to the k-th neighbour, over at most 512 evenly spaced rows."""
        n = len(self.X_)
        rows = np.unique(np.linspace(0, n - 1, min(n, 512)).astype(int))
        squared = np.concatenate(
            [
                self._kth(self._squared_distances(self.X_[part], part)[0])
                for part in np.array_split(rows, -(-len(rows) // 32))
            ]
        )
        positive = squared[squared > 0]
        return float(np.sqrt(np.median(positive))) / 2 if len(positive) else 1.0
