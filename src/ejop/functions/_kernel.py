"""Kernel smoothers: f(x) = sum_i K(|x - x_i| / h) Y_i / sum_i K(|x - x_i| / h)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.differences import central_differences
from ejop.functions._base import Cost, Function, check_bandwidth, one_hot_labels
from ejop.kernels import Compact, get_kernel

#: largest |t x / h^2| whose exponential keeps full precision in sums
EXPONENT_LIMIT = {np.dtype(np.float32): 40.0, np.dtype(np.float64): 300.0}


class KernelSmoother(Function):
    """Nadaraya-Watson estimate of class probabilities or real targets.

    Where no training row lies within reach of a compact kernel, every row weighs 1/n, as in the
    paper.

    Parameters
    ----------
    kernel : {"gaussian", "boxcar", "epanechnikov", "triangular", "biweight", "tricube"}
        Shape of the weights; "boxcar" is the mean over the ball of radius ``bandwidth``.
    bandwidth : float or "auto", default="auto"
        Scale h. "auto" takes 1.3 times the widest whose leave-one-out loss is within one standard
        error of the best over a grid tied to nearest-neighbour distances, see
        :func:`ejop.selection.choose_bandwidth`.
    random_state : int, RandomState instance or None, default=None
        Draws the rows that choose the bandwidth when there are many.

    Attributes
    ----------
    bandwidth_ : float
    X_, Y_ : ndarray
        The rows and targets it was fitted on.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.functions import KernelSmoother
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> f = KernelSmoother("boxcar", bandwidth=1.0).fit(X, X)
    >>> f.predict(np.array([[0.4]]))
    array([[0.5]])
    >>> f.differences(np.array([[1.0]]), step=np.array([0.5]))
    array([[[1.]]])
    """

    def __init__(
        self,
        kernel: str = "gaussian",
        bandwidth: float | str = "auto",
        *,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.random_state = random_state

    @property
    def differentiable(self) -> bool:  # type: ignore[override]
        """Whether the analytic derivative exists: the Gaussian kernel's does."""
        return get_kernel(self.kernel).factorises

    def _fit(self, sample_weight: NDArray | None) -> None:
        from ejop.selection import choose_bandwidth

        self._kernel = get_kernel(self.kernel)
        if isinstance(self.bandwidth, str) and self.bandwidth == "auto":
            self.bandwidth_ = choose_bandwidth(
                self.X_,
                self.Y_,
                kernel=self.kernel,
                sample_weight=sample_weight,
                random_state=self.random_state,
            )
        else:
            self.bandwidth_ = check_bandwidth(self.bandwidth)
        labels = one_hot_labels(self.Y_)
        # Rows sorted by class: the sums of a class are then one matrix product over a slice.
        order = np.arange(len(self.X_)) if labels is None else np.argsort(labels, kind="stable")
        self._position = np.empty(len(order), dtype=np.int64)
        self._position[order] = np.arange(len(order))
        self._center = self.X_.mean(0)
        self._sorted = self.X_[order] - self._center
        self._Y = np.ascontiguousarray(self.Y_[order])
        self._log_weights = None
        self._w = self._weights()[order]
        if sample_weight is not None:
            with np.errstate(divide="ignore"):
                self._log_weights = np.log(self._w).astype(self.X_.dtype)
        self._labels = np.empty(0, dtype=np.int64) if labels is None else labels[order]
        self._slices = None
        if labels is not None:
            ends = np.cumsum(np.bincount(labels, minlength=self.n_outputs_))
            self._slices = [slice(a, b) for a, b in zip(np.r_[0, ends[:-1]], ends, strict=True)]
        self._exponentials: tuple[NDArray, NDArray] | None = None

    # values --------------------------------------------------------------------------------

    def predict(self, X: NDArray, exclude: NDArray | None = None) -> NDArray:
        """Values of f, shape (n_queries, n_outputs); ``exclude`` leaves a training row out of
        each."""
        Q = self._queries(X)
        if self._kernel.factorises:
            K = self._gaussian_weights(Q, exclude)
        else:
            K = self._kernel(self._squared_distances(Q, exclude) / self.bandwidth_**2) * self._w
            K = K.astype(Q.dtype, copy=False)
        total = K.sum(1, keepdims=True)
        prior = self._prior_without(len(Q), exclude)
        return np.where(total > 0, K @ self._Y / np.where(total > 0, total, 1), prior)

    def shifted(
        self, Q: NDArray, step: NDArray, exclude: NDArray | None = None
    ) -> tuple[NDArray, NDArray]:
        """Values of f at x + t_j e_j and x - t_j e_j."""
        plus, minus = self._shifted(Q, step, exclude)
        return plus.transpose(1, 0, 2), minus.transpose(1, 0, 2)

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
        step = np.asarray(step, dtype=np.float64)
        plus, minus = self._shifted(Q, step, exclude)
        if softmax and self._slices is not None:
            from ejop.backends.compiled import softmax_differences

            return softmax_differences(plus, minus, step).transpose(1, 0, 2)
        plus, minus = plus.transpose(1, 0, 2), minus.transpose(1, 0, 2)
        return central_differences(plus, minus, step, apply_softmax=softmax)

    def gradient(self, Q: NDArray, exclude: NDArray | None = None) -> tuple[NDArray, NDArray]:
        """Values and analytic Jacobian of the Gaussian smoother.

        d f_c / d x_j = (sum_i w_i Y_ic x_ij - f_c sum_i w_i x_ij) / h^2, w the normalised weights.
        """
        if not self.differentiable:
            return super().gradient(Q, exclude)
        Q = self._queries(Q)
        K = self._gaussian_weights(Q, exclude)
        with np.errstate(invalid="ignore"):
            K /= K.sum(1, keepdims=True)
        np.nan_to_num(K, copy=False)
        values = np.where(
            K.any(1, keepdims=True), K @ self._Y, self._prior_without(len(Q), exclude)
        )
        sums = self._class_sums(K, self._sorted)
        total = K @ self._sorted
        J = (sums - values.T[:, :, None] * total) / np.asarray(self.bandwidth_**2, dtype=K.dtype)
        return values, J.transpose(1, 0, 2)

    def masses(self, Q: NDArray, step: NDArray, exclude: NDArray | None = None) -> NDArray:
        """Sums of kernel weights at both shifts, shape (2, n_queries, n_features), compact kernels
        only."""
        return self._compact_sums(self._queries(Q), np.asarray(step, dtype=np.float64), exclude)[2]

    # the plan -------------------------------------------------------------------------------

    def prepare(self, step: NDArray | None, n_excluded: int = 0) -> None:
        """Exponentials [E | 1/E], E = exp(t X / h^2), that all blocks of the factorised form
        share."""
        if step is not None and self._kernel.factorises and self._exponent(step) <= self._limit:
            self._exponentials = (np.array(step), self._exponential_table(step))

    def cost(self, step: NDArray | None) -> Cost:
        """Form that will run and its memory."""
        n, d = self.X_.shape
        c, size = self.n_outputs_, self.X_.itemsize
        sums = 2 * c * d * size
        if not self._kernel.factorises:
            why = f"the {self.kernel} kernel is compact: only rows within reach are summed"
            return Cost("compact", n * (size + 1) + sums + 4 * d * 8, 0, why)
        if step is None:
            return Cost("gaussian-analytic", 2 * n * size + 2 * sums, 0, "the derivative is exact")
        exponent = self._exponent(step)
        if exponent <= self._limit:
            why = f"exponents reach {exponent:.3g}, under {self._limit:g} for {self.X_.dtype}"
            return Cost("gaussian-product", 2 * n * size + 2 * sums, 2 * n * d * size, why)
        why = (
            f"exponents reach {exponent:.3g}, beyond {self._limit:g} for {self.X_.dtype}: "
            "kernel matrices are shifted one feature at a time"
        )
        return Cost("gaussian-direct", 4 * n * size + 2 * sums, 0, why)

    def default_step(self) -> float:
        """Half the bandwidth."""
        return self.bandwidth_ / 2

    # the Gaussian ---------------------------------------------------------------------------

    @property
    def _limit(self) -> float:
        return EXPONENT_LIMIT[self.X_.dtype]

    def _exponent(self, step: NDArray) -> float:
        """Largest |t_j x_ij / h^2| once each column is centred at its mid-range."""
        half_range = np.ptp(self._sorted, axis=0) / 2
        return float((np.asarray(step) * half_range).max() / self.bandwidth_**2)

    def _exponential_table(self, step: NDArray) -> NDArray:
        middle = (self._sorted.max(0) + self._sorted.min(0)) / 2
        E = (self._sorted - middle) * (np.asarray(step) / self.bandwidth_**2)
        E = np.exp(E.astype(self.X_.dtype, copy=False))
        return np.hstack([E, 1 / E])

    def _log_kernel(self, Q: NDArray, exclude: NDArray | None) -> NDArray:
        """log K(x, x_i) up to a constant of each query: (x . x_i - |x_i|^2 / 2) / h^2, plus log
        weights."""
        h2 = np.asarray(self.bandwidth_**2, dtype=Q.dtype)
        L = (Q / h2) @ self._sorted.T
        offset = np.einsum("nd,nd->n", self._sorted, self._sorted) / (-2 * h2)
        L += offset if self._log_weights is None else offset + self._log_weights
        if exclude is not None:
            own = np.flatnonzero(exclude >= 0)
            L[own, self._position[exclude[own]]] = -np.inf
        return L

    @staticmethod
    def _exponentiate(L: NDArray) -> NDArray:
        """exp(L - row maximum), in place; a row of -inf becomes zeros."""
        top = L.max(1, keepdims=True)
        np.subtract(L, np.where(np.isneginf(top), 0, top), out=L)
        return np.exp(L, out=L)

    def _gaussian_weights(self, Q: NDArray, exclude: NDArray | None) -> NDArray:
        return self._exponentiate(self._log_kernel(Q, exclude))

    def _class_sums(self, K: NDArray, table: NDArray) -> NDArray:
        """sum_i K_qi Y_ic table_ij, shape (c, m, columns): one product per output."""
        sums = np.empty((self.n_outputs_, len(K), table.shape[1]), dtype=K.dtype)
        for k in range(self.n_outputs_):
            if self._slices is not None:
                np.matmul(K[:, self._slices[k]], table[self._slices[k]], out=sums[k])
            else:
                np.matmul(K * self._Y[:, k], table, out=sums[k])
        return sums

    def _gaussian_product(
        self, Q: NDArray, step: NDArray, exclude: NDArray | None
    ) -> tuple[NDArray, NDArray]:
        """All shifted values from [E | 1/E]: K(x +- t e_j, x_i) = K(x, x_i) E^{+-1} times a factor
        that cancels."""
        cached = self._exponentials
        if cached is None or not np.array_equal(cached[0], step):
            cached = (step, self._exponential_table(step))
        table = cached[1]
        K = self._gaussian_weights(Q, exclude)
        sums = self._class_sums(K, table)
        total = sums.sum(0) if self._slices is not None else K @ table
        empty = total[:, 0] <= 0
        with np.errstate(invalid="ignore", divide="ignore"):
            sums /= total
        if empty.any():
            sums[:, empty] = self._prior_without(len(Q), exclude)[empty].T[:, :, None]
        d = Q.shape[1]
        return sums[:, :, :d], sums[:, :, d:]

    def _gaussian_direct(
        self, Q: NDArray, step: NDArray, exclude: NDArray | None
    ) -> tuple[NDArray, NDArray]:
        """Shifted values one feature at a time, in the log domain: safe for any step and scale."""
        m, d = Q.shape
        L = self._log_kernel(Q, exclude)
        prior = self._prior_without(m, exclude)
        plus = np.empty((self.n_outputs_, m, d), dtype=Q.dtype)
        minus = np.empty_like(plus)
        for j in range(d):
            tilt = (step[j] / self.bandwidth_**2 * self._sorted[:, j]).astype(Q.dtype)
            for out, sign in ((plus, 1), (minus, -1)):
                K = self._exponentiate(L + sign * tilt)
                total = K.sum(1, keepdims=True)
                values = np.where(total > 0, K @ self._Y / np.where(total > 0, total, 1), prior)
                out[:, :, j] = values.T
        return plus, minus

    # compact kernels ------------------------------------------------------------------------

    def _squared_distances(self, Q: NDArray, exclude: NDArray | None) -> NDArray:
        D = np.einsum("md,md->m", Q, Q)[:, None] + np.einsum("nd,nd->n", self._sorted, self._sorted)
        D -= 2 * (Q @ self._sorted.T)
        np.maximum(D, 0, out=D)
        if exclude is not None:
            own = np.flatnonzero(exclude >= 0)
            D[own, self._position[exclude[own]]] = np.inf
        return D

    def _compact_sums(
        self, Q: NDArray, step: NDArray, exclude: NDArray | None
    ) -> tuple[NDArray, NDArray, NDArray]:
        from ejop.backends.compiled import compact_sums

        assert isinstance(self._kernel, Compact)
        m, d = Q.shape
        reach = (self.bandwidth_ + step.max()) ** 2
        D = self._squared_distances(Q, exclude)
        # Distances from a matrix product carry rounding of the size of the squared norms.
        slack = 8 * np.finfo(D.dtype).eps * (float(np.abs(self._sorted).max()) ** 2 * d + reach)
        plus = np.zeros((self.n_outputs_, m, d))
        minus, mass = np.zeros_like(plus), np.zeros((2, m, d))
        compact_sums(
            Q,
            self._sorted,
            reach + slack >= D,
            self._labels,
            self._Y,
            self._w,
            step,
            1 / self.bandwidth_**2,
            self._kernel.inner,
            self._kernel.outer,
            plus,
            minus,
            mass,
        )
        return plus, minus, mass

    def _shifted(
        self, Q: NDArray, step: NDArray, exclude: NDArray | None
    ) -> tuple[NDArray, NDArray]:
        """Shifted values in the layout (c, m, d)."""
        Q = self._queries(Q)
        step = np.asarray(step, dtype=np.float64)
        if self._kernel.factorises:
            form = (
                self._gaussian_product
                if self._exponent(step) <= self._limit
                else self._gaussian_direct
            )
            return form(Q, step, exclude)
        from ejop.backends.compiled import normalise

        plus, minus, mass = self._compact_sums(Q, step, exclude)
        normalise(plus, minus, mass, self._prior_without(len(Q), exclude).astype(np.float64))
        return plus, minus

    def _queries(self, Q: NDArray) -> NDArray:
        return np.asarray(Q, dtype=self.X_.dtype) - self._center
