"""The sum: a running mean of Jacobian outer products that can be merged in any order."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def outer_product(J: ArrayLike) -> NDArray:
    """Mean of J J^T over samples; J has shape (n_samples, n_outputs, n_features).

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.outerproduct import outer_product
    >>> outer_product(np.array([[[1.0, 2.0]], [[3.0, 0.0]]]))
    array([[5., 1.],
           [1., 2.]])
    """
    J = np.asarray(J, dtype=np.float64)
    rows = J.reshape(-1, J.shape[-1])
    return rows.T @ rows / len(J)


class OuterProduct:
    """Weighted running mean of Jacobian outer products with its standard error.

    Holds sums only, so ``merge`` is associative and commutative: threads, streams, cluster tasks
    and ``partial_fit`` all add to the same thing.

    Parameters
    ----------
    n_outputs, n_features : int
        Shape of one Jacobian.
    diagonal : bool, default=False
        Keep the diagonal of the mean alone (gradient weights).
    batch : int, default=1
        The standard error is taken between groups of this many consecutive rows of an ``add``. One
        row a group is the classical standard error of a mean; larger groups estimate the same
        quantity and spare
        forming one d x d matrix a row.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop import OuterProduct
    >>> J = np.random.default_rng(0).normal(size=(100, 3, 4))
    >>> left, right = OuterProduct(3, 4), OuterProduct(3, 4)
    >>> whole = left.add(J[:30]).merge(right.add(J[30:]))
    >>> whole.mean().shape, whole.count
    ((4, 4), 100)
    """

    def __init__(
        self, n_outputs: int, n_features: int, *, diagonal: bool = False, batch: int = 1
    ) -> None:
        shape = (n_features,) if diagonal else (n_features, n_features)
        self.n_outputs, self.n_features = n_outputs, n_features
        self.diagonal, self.batch = diagonal, batch
        self.count = 0
        self.weight = 0.0  # sum of row weights
        self.n_groups = 0
        self._weight_squares = 0.0  # sum over groups of (group weight)^2
        self._sum = np.zeros(shape)  # sum of group sums S_b
        self._squares = np.zeros(shape)  # sum of S_b * S_b, entry by entry
        self._weighted = np.zeros(shape)  # sum of (group weight) * S_b
        self._outputs = np.zeros((n_outputs, n_features))  # sum of J_cj^2: the diagonal, by output

    def add(self, J: NDArray, weights: ArrayLike | None = None) -> OuterProduct:
        """Add the Jacobians of some rows.

        Parameters
        ----------
        J : ndarray of shape (n_samples, n_outputs, n_features)
        weights : array-like of shape (n_samples,), optional
            Non-negative row weights; one each by default.
        """
        if J.ndim != 3 or J.shape[1:] != (self.n_outputs, self.n_features):
            raise ValueError(
                f"`J` has shape {J.shape}; (n_samples, {self.n_outputs}, {self.n_features}) was "
                "expected: one row of `n_features` derivatives per output."
            )
        m = len(J)
        if m == 0:
            return self
        w = None if weights is None else np.asarray(weights, dtype=np.float64)
        if w is not None:
            J = J * np.sqrt(w).astype(J.dtype, copy=False)[:, None, None]
        squares = (J * J).astype(np.float64, copy=False) if self.diagonal else None
        if squares is None:
            self._outputs += np.einsum("mcd,mcd->cd", J, J, dtype=np.float64)
            self._add_groups(J, w)
        else:
            self._outputs += squares.sum(0)
            self._tally(squares.sum(1), np.ones(m) if w is None else w)
        self.count += m
        self.weight += float(m if w is None else w.sum())
        return self

    def _add_groups(self, J: NDArray, w: NDArray | None) -> None:
        """Split the rows into groups and form one d x d sum for each."""
        m, _, d = J.shape
        if self.batch == 1:  # many small products at once, at most ~32 MB of them
            chunk = max(1, 4_000_000 // (d * d))
            for s in range(0, m, chunk):
                rows = J[s : s + chunk]
                sums = np.matmul(rows.transpose(0, 2, 1), rows)
                self._tally(sums, np.ones(len(rows)) if w is None else w[s : s + chunk])
            return
        for s in range(0, m, self.batch):
            group = J[s : s + self.batch]
            rows = group.transpose(1, 0, 2).reshape(-1, d)  # no copy of (c, m, d) memory
            total = float(len(group) if w is None else w[s : s + self.batch].sum())
            self._tally((rows.T @ rows)[None], np.array([total]))

    def _tally(self, sums: NDArray, weights: NDArray) -> None:
        """Record group sums (b, ...) of total weights (b,)."""
        sums = sums.astype(np.float64, copy=False)
        self._sum += sums.sum(0)
        self._squares += np.einsum("b...,b...->...", sums, sums)
        self._weighted += np.tensordot(weights, sums, axes=1)
        self._weight_squares += float(weights @ weights)
        self.n_groups += int(np.count_nonzero(weights))

    def merge(self, other: OuterProduct) -> OuterProduct:
        """Add another accumulator's sums to this one; returns self."""
        mine = (self.n_outputs, self.n_features, self.diagonal)
        theirs = (other.n_outputs, other.n_features, other.diagonal)
        if mine != theirs:
            raise ValueError(
                "cannot merge accumulators of different (n_outputs, n_features, diagonal): "
                f"{mine} and {theirs}."
            )
        for name in ("count", "weight", "n_groups", "_weight_squares"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("_sum", "_squares", "_weighted", "_outputs"):
            getattr(self, name).__iadd__(getattr(other, name))
        return self

    def mean(self) -> NDArray:
        """Weighted mean of J J^T, shape (n_features, n_features), symmetric by construction."""
        self._require_rows()
        mean = self._sum / self.weight
        return np.diag(mean) if self.diagonal else (mean + mean.T) / 2

    def stderr(self) -> NDArray:
        """Standard error of each entry of ``mean()``, shape (n_features, n_features).

        For group sums S_b of weights W_b: sum_b (S_b - W_b mean)^2 / W^2 * B / (B - 1). NaN with
        fewer than two groups.
        """
        self._require_rows()
        if self.n_groups < 2:
            return np.full((self.n_features, self.n_features), np.nan)
        mean = self._sum / self.weight
        spread = self._squares - 2 * mean * self._weighted + mean**2 * self._weight_squares
        bessel = self.n_groups / (self.n_groups - 1)
        error = np.sqrt(np.maximum(spread, 0) * bessel) / self.weight
        return np.diag(error) if self.diagonal else (error + error.T) / 2

    def relative_error(self) -> float:
        """Frobenius norm of the standard error over that of the mean (infinite when unknown)."""
        norm = float(np.linalg.norm(self.mean()))
        error = float(np.linalg.norm(self.stderr()))
        if np.isnan(error):
            return np.inf
        return error / norm if norm > 0 else 0.0

    def output_importances(self) -> NDArray:
        """Mean squared derivative of each output along each feature, (n_outputs, n_features)."""
        self._require_rows()
        return self._outputs / self.weight

    def shares(self) -> NDArray:
        """Share of each output in the trace of the mean, shape (n_outputs,); zeros when the mean is
        zero."""
        by_output = self.output_importances().sum(1)
        total = by_output.sum()
        return by_output / total if total > 0 else by_output

    def _require_rows(self) -> None:
        if self.weight <= 0:
            raise ValueError("no rows of positive weight were added; call `add` first.")

    def __repr__(self) -> str:
        return (
            f"OuterProduct(n_outputs={self.n_outputs}, n_features={self.n_features}, "
            f"count={self.count})"
        )
