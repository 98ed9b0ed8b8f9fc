"""The mean of Y over the k nearest rows."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from ejop.choice import RowSource
from ejop.functions._base import Function
from ejop.sums.compact import NearestForm
from ejop.sums.engine import HOST
from ejop.sums.form import Form, Request


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

    def _choose(self, rows: RowSource) -> None:
        k, n = self.n_neighbors, rows.summary.n
        if not isinstance(k, Integral) or k < 1:
            raise ValueError(f"`n_neighbors` must be a positive integer, got {k!r}.")
        if k >= n:
            raise ValueError(
                f"`n_neighbors`={k} needs at least {k + 1} rows (a row is left out of its own "
                f"estimate) and `X` has {n}; lower `n_neighbors`."
            )

    def form(self, request: Request) -> Form:
        """Candidates once, ranked again for every shift."""
        return NearestForm(self, request)

    def default_step(self) -> float:
        """Half the median distance to the k-th neighbour, over at most 512 evenly spaced rows."""
        n, k = len(self.X_), int(self.n_neighbors)
        rows = np.unique(np.linspace(0, n - 1, min(n, 512)).astype(int))
        (tile,) = self.form(Request(np.ones(1))).tiles()
        squared = []
        for part in np.array_split(rows, -(-len(rows) // 32)):
            D = tile.squared_distances(HOST.pair_queries(self.X_[part], self.summary_), part)
            squared.append(tile.smallest(D, k)[0].max(1).clip(min=0))
        found = np.concatenate(squared)
        positive = found[found > 0].astype(np.float64)
        return float(np.sqrt(np.median(positive))) / 2 if len(positive) else 1.0
