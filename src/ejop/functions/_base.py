"""The protocol that every estimate of f shares."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ejop.backends.distances import squared_distances
from ejop.differences import central_differences, softmax_chain
from ejop.executors.threads import computing


@dataclass(frozen=True)
class Cost:
    """What one block of queries costs a function, for the plan.

    Attributes
    ----------
    method : str
        Name of the form that will run.
    bytes_per_query : int
        Peak temporary memory for one query row.
    fixed_bytes : int
        Memory prepared once, beside the data.
    thread_bytes : int
        Memory of a thread whatever the size of its block.
    why : str
        Why this form.
    flops_per_query : int
        Rough count, to keep blocks short.
    dtype : str
        Type of the sums where it is not that of the data.
    """

    method: str
    bytes_per_query: int
    fixed_bytes: int = 0
    why: str = ""
    flops_per_query: int = 0
    dtype: str = ""
    thread_bytes: int = 0


class Function(BaseEstimator):
    """Base of the estimates of f.

    A subclass writes ``_fit``, ``predict`` and ``shifted``, and ``gradient`` if it can be
    differentiated in closed form. Fitted functions hold ``X_`` (n, d), ``Y_`` (n, c) and
    ``sample_weight_`` (n,) or None, in the
    order given.
    """

    #: whether ``gradient`` exists
    differentiable = False
    #: whether ``exclude`` leaves a training row out of its own estimate
    leaves_out = True
    #: whether ``sums`` over some of the rows merge and ``derived`` makes Jacobians of them
    divisible = False

    @computing
    def fit(self, X: NDArray, Y: NDArray, sample_weight: NDArray | None = None) -> Function:
        """Fit to rows X (n, d) and targets Y (n, c), one-hot or real."""
        X, Y = np.asarray(X), np.asarray(Y)
        if Y.ndim == 1:
            Y = Y[:, None]
        if X.ndim != 2 or len(X) != len(Y):
            raise ValueError(
                f"`X` of shape {X.shape} and `Y` of shape {Y.shape} do not match: "
                "(n_samples, n_features) and (n_samples, n_outputs) are expected."
            )
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        check_magnitude(float(np.abs(X).max(initial=0)), X.shape[1], X.dtype)
        prior = np.average(Y, axis=0, weights=sample_weight)
        weight = float(len(X) if sample_weight is None else np.sum(sample_weight))
        self._settle(X.dtype, (X.min(0), X.max(0)), X.mean(0, dtype=np.float64), prior, weight)
        self._hold(X, Y.astype(X.dtype, copy=False), sample_weight)
        self._fit(sample_weight)
        return self

    def _settle(
        self,
        dtype: np.dtype,
        bounds: tuple[NDArray, NDArray],
        center: NDArray,
        prior: NDArray,
        weight: float,
    ) -> None:
        """Take what all rows together say: their bounds, centre, mean target and total weight."""
        self.n_features_in_, self.n_outputs_ = len(center), len(prior)
        self._low, self._high = (bound.astype(dtype, copy=False) for bound in bounds)
        self._center = center.astype(dtype)
        self.prior_ = prior.astype(dtype)
        self._total_weight = weight

    def _hold(self, X: NDArray, Y: NDArray, sample_weight: NDArray | None) -> None:
        """Take the rows themselves."""
        self.X_, self.Y_, self.sample_weight_ = X, Y, sample_weight

    def with_rows(self, X: NDArray, Y: NDArray, sample_weight: NDArray | None = None) -> Function:
        """The same function holding other rows: a part of those that settled it.

        ``exclude`` then counts the rows of the part.
        """
        twin = copy(self)
        twin._hold(X, Y.astype(X.dtype, copy=False), sample_weight)
        return twin

    @abstractmethod
    def _fit(self, sample_weight: NDArray | None) -> None:
        """Fit what the subclass needs, from ``X_`` and ``Y_``."""

    @abstractmethod
    def predict(self, X: NDArray, exclude: NDArray | None = None) -> NDArray:
        """Values of f at the rows of X, shape (n_queries, n_outputs)."""

    @abstractmethod
    def shifted(
        self, Q: NDArray, step: NDArray, exclude: NDArray | None = None
    ) -> tuple[NDArray, NDArray]:
        """Values of f at x + t_j e_j and at x - t_j e_j, each (n_queries, n_outputs,
        n_features)."""

    def differences(
        self,
        Q: NDArray,
        step: NDArray,
        exclude: NDArray | None = None,
        *,
        softmax: bool = False,
    ) -> NDArray:
        """Central differences of f (or of its softmax), shape (n_queries, n_outputs,
        n_features)."""
        plus, minus = self.shifted(Q, step, exclude)
        return central_differences(plus, minus, np.asarray(step), apply_softmax=softmax)

    def gradient(self, Q: NDArray, exclude: NDArray | None = None) -> tuple[NDArray, NDArray]:
        """Values (n_queries, n_outputs) and analytic Jacobian (n_queries, n_outputs,
        n_features)."""
        raise ValueError(
            f"`differences`='analytic' needs a function with a closed-form derivative and "
            f"{self!r} has none; use differences='central', or the Gaussian kernel."
        )

    def derivatives(
        self, Q: NDArray, exclude: NDArray | None = None, *, softmax: bool = False
    ) -> NDArray:
        """Analytic Jacobian of f (or of its softmax), shape (n_queries, n_outputs, n_features)."""
        values, J = self.gradient(Q, exclude)
        return softmax_chain(values, J) if softmax else J

    @abstractmethod
    def prepare(
        self,
        step: NDArray | None,
        *,
        budget: int | None = None,
        n_queries: int = 0,
        n_excluded: int = 0,
    ) -> Cost:
        """Choose how to differentiate and compute once what every block of queries needs.

        Parameters
        ----------
        step : ndarray of shape (n_features,) or None
            None for the analytic derivative.
        budget : int, optional
            Bytes for temporaries.
        n_queries, n_excluded : int
            Rows that will be asked for, and how many of them are training rows to leave out.
        """

    def release(self) -> None:
        """Forget what ``prepare`` computed."""

    @abstractmethod
    def default_step(self) -> float:
        """Step taken for ``step="auto"``."""

    # helpers for subclasses -------------------------------------------------------------------

    def _prior_without(self, m: int, exclude: NDArray | None) -> NDArray:
        """Mean target of the training rows for each of m queries, its own row left out, (m, c)."""
        prior = np.tile(self.prior_.astype(np.float64), (m, 1))
        if exclude is None:
            return prior.astype(self.X_.dtype)
        own = exclude >= 0
        left = self._weights()[exclude[own], None]
        total = self._total_weight
        rest = total - left
        safe = np.where(rest > 0, rest, 1)
        without = (total * prior[own] - left * self.Y_[exclude[own]]) / safe
        prior[own] = np.where(rest > 0, without, prior[own])
        return prior.astype(self.X_.dtype)

    def _squared_distances(self, Q: NDArray, exclude: NDArray | None) -> tuple[NDArray, float]:
        """|q - x_i|^2 by a matrix product, (m, n), and how far rounding may have moved them."""
        D, slack = squared_distances(Q, self.X_, self._center)
        if exclude is not None:
            mine = np.flatnonzero(exclude >= 0)
            D[mine, exclude[mine]] = np.inf
        return D, slack

    def _shift_bound(self, Q: NDArray, step: NDArray) -> NDArray:
        """The most that a shift of each query can change |x - x_i|^2 - t^2, for any row, (m,)."""
        reach = np.maximum(Q - self._low, self._high - Q)
        return (2 * step * reach).max(1)

    def _weights(self) -> NDArray:
        """Row weights as float64, ones where none were given."""
        w = self.sample_weight_
        return np.ones(len(self.X_)) if w is None else np.asarray(w, dtype=np.float64)


def check_magnitude(largest: float, n_features: int, dtype: np.dtype) -> None:
    """Refuse values whose squared distances overflow."""
    if largest > np.sqrt(float(np.finfo(dtype).max) / 4 / n_features):
        raise ValueError(
            f"`X` has values up to {largest:.3g}, too large for squared distances in "
            f"{dtype}; scale the columns, for instance with StandardScaler."
        )


def one_hot_labels(Y: NDArray) -> NDArray | None:
    """Class of each row where Y (n, c) is one-hot, else None."""
    if Y.shape[1] < 2 or not np.all((Y == 0) | (Y == 1)) or not np.all(Y.sum(1) == 1):
        return None
    return Y.argmax(1)


def check_bandwidth(bandwidth: object) -> float:
    """A positive, finite bandwidth as float."""
    if not isinstance(bandwidth, Real) or not 0 < float(bandwidth) < np.inf:
        raise ValueError(
            f"`bandwidth` must be a positive, finite number or 'auto', got {bandwidth!r}; "
            "bandwidth='auto' chooses one by leave-one-out."
        )
    return float(bandwidth)
