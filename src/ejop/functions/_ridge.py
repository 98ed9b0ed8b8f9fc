"""Kernel ridge regression on the targets as an estimate of f."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state

from ejop.backends.gaussian import EXPONENT_LIMIT, exponential_table
from ejop.executors.threads import dense, in_row_blocks
from ejop.functions._base import Cost, Function, check_bandwidth

#: rows up to which every one is a centre, on the CPU
MAX_ROWS = 10_000


class RidgeFunction(Function):
    r"""Kernel ridge: the minimiser of sum_i w_i |Y_i - f(x_i)|^2 + penalty |f|^2 around the mean
    target.

    .. math:: f(x) = \bar Y + \sum_i a_i K(x, x_i), \qquad (K + \lambda I)\, a = Y - \bar Y

    Up to ``max_rows`` rows every row is a centre; beyond, ``n_centers`` rows drawn at random
    without replacement are (Nystrom), with 1e-10 times their number on the diagonal of their
    kernel matrix so that it can be factorised. A training row is left out of its own estimate in
    closed form, with the mean target held fixed.

    Parameters
    ----------
    kernel : {"gaussian"}
        The kernel must be positive definite and factorise over features.
    bandwidth : float or "auto", default="auto"
    penalty : float or "auto", default="auto"
        Both are chosen by the closed-form leave-one-out loss, see
        :func:`ejop.selection.choose_ridge`.
    max_rows : int or "auto", default="auto"
        10,000; on a device, as many as 60 % of its memory can hold if that is more.
    n_centers : int, default=2000
    widening : float, default=1.5
        ``bandwidth="auto"`` is this many times the bandwidth of the smallest leave-one-out loss: a
        derivative needs a smoother f than a prediction does.
    random_state : int, RandomState instance or None, default=None
        Draws the centres and the rows that choose bandwidth and penalty.

    Attributes
    ----------
    bandwidth_, penalty_ : float
    centers_ : ndarray of shape (n_centers, n_features)
    coefficients_ : ndarray of shape (n_centers, n_outputs)

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.functions import RidgeFunction
    >>> X = np.linspace(-2, 2, 30)[:, None]
    >>> f = RidgeFunction(bandwidth=1.0, penalty=1e-6).fit(X, np.sin(X))
    >>> f.gradient(np.array([[0.0]]))[1].round(3)
    array([[[1.]]])
    """

    differentiable = True

    def __init__(
        self,
        kernel: str = "gaussian",
        bandwidth: float | str = "auto",
        penalty: float | str = "auto",
        *,
        max_rows: int | str = "auto",
        n_centers: int = 2_000,
        widening: float = 1.5,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.penalty = penalty
        self.max_rows = max_rows
        self.n_centers = n_centers
        self.widening = widening
        self.random_state = random_state

    def _fit(self, sample_weight: NDArray | None) -> None:
        self._check()
        self._choose(sample_weight)
        n = len(self.X_)
        self._rows = np.arange(n)
        if n > self.most_rows():
            rng = check_random_state(self.random_state)
            self._rows = np.sort(rng.choice(n, min(self.n_centers, n), replace=False))
        self._place_centers(self.X_[self._rows])
        if self._device_rows is None:
            self._fit_coefficients(self._queries(self.X_))

    def _place_centers(self, centers: NDArray) -> None:
        # Coefficients of either sign nearly cancel in the sums, so these are always in float64.
        self.centers_, self._Z = centers, self._queries(centers)
        self._features: NDArray | None = None
        self._influence: NDArray | None = None
        self._exponentials: tuple[NDArray, NDArray] | None = None
        self._factor = None
        self.__dict__.pop("coefficients_", None)

    def most_rows(self) -> int:
        """Rows up to which every one is a centre."""
        if not isinstance(self.max_rows, str):
            return self.max_rows
        if self.max_rows != "auto":
            raise ValueError(
                f"`max_rows` must be a number of rows or 'auto', got {self.max_rows!r}."
            )
        return max(MAX_ROWS, self._device_rows or 0)

    def _fit_coefficients(self, X: NDArray) -> None:
        if self.all_rows:
            self._fit_all(X)
        else:
            self._fit_nystrom(X)

    #: set before ``fit`` by whoever solves on a device: how many centres fit there
    _device_rows: int | None = None
    #: the factorised system; a saved model may leave it out, since only leaving rows out needs it
    _factor: Any = None

    @property
    def all_rows(self) -> bool:
        """Whether every row is a centre."""
        return len(self._rows) == len(self.X_)

    def _require_solution(self) -> None:
        """Solve now what was left to a device."""
        if not hasattr(self, "coefficients_"):
            self._fit_coefficients(self._queries(self.X_))

    def _check(self) -> None:
        """Refuse a kernel, bandwidth or penalty that will not do."""
        if self.kernel != "gaussian":
            raise ValueError(
                f"`kernel`={self.kernel!r} cannot be used for kernel ridge, which needs a positive "
                "definite kernel; use kernel='gaussian', or function='kernel' for a smoother."
            )
        for name in ("bandwidth", "penalty"):
            value = getattr(self, name)
            if isinstance(value, str) and value == "auto":
                continue
            if name == "bandwidth":
                check_bandwidth(value)
            elif not isinstance(value, Real) or not 0 < float(value) < np.inf:
                raise ValueError(
                    f"`penalty` must be a positive, finite number or 'auto', got {value!r}."
                )

    def _choose(self, sample_weight: NDArray | None) -> None:
        from ejop.selection import choose_ridge

        if "auto" in (self.bandwidth, self.penalty):
            self.bandwidth_, self.penalty_ = choose_ridge(
                self.X_,
                self.Y_,
                bandwidth=self.bandwidth,
                penalty=self.penalty,
                sample_weight=sample_weight,
                random_state=self.random_state,
                widening=self.widening,
            )
        else:
            self.bandwidth_, self.penalty_ = float(self.bandwidth), float(self.penalty)

    @dense
    def _fit_all(self, X: NDArray) -> None:
        """Solve (S K S + penalty I) b = S (Y - mean), a = S b, with S the square roots of the
        weights."""
        S = np.sqrt(self._weights())
        K = S[:, None] * self._kernel(X, X) * S
        K[np.diag_indices_from(K)] += self.penalty_
        self._factor = cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
        residual = S[:, None] * (self.Y_ - self.prior_).astype(np.float64)
        self.coefficients_ = S[:, None] * cho_solve(self._factor, residual)
        self._root_weights = S

    @dense
    def _fit_nystrom(self, X: NDArray) -> None:
        """Ridge on the features phi(x) = R^-T k(x), R^T R the kernel matrix of the centres."""
        self._factorise_centers()
        self._solve(*self._normal_equations(X))

    def _factorise_centers(self) -> None:
        K = self._kernel(self._Z, self._Z)
        K[np.diag_indices_from(K)] += 1e-10 * len(K)
        self._features = cholesky(K, lower=False, check_finite=False)

    def _normal_equations(self, X: NDArray) -> tuple[NDArray, NDArray]:
        """Phi^T W Phi and Phi^T W (Y - mean) of the centred rows; those of other rows add."""
        p = len(self._Z)
        gram, target = np.zeros((p, p)), np.zeros((p, self.n_outputs_))
        w = self._weights()
        for s in range(0, len(X), 2048):
            phi = self._phi(X[s : s + 2048])
            weighted = phi * w[s : s + 2048, None]
            gram += phi.T @ weighted
            target += weighted.T @ (self.Y_[s : s + 2048] - self.prior_)
        return gram, target

    def _solve(self, gram: NDArray, target: NDArray) -> None:
        gram = gram.copy()
        gram[np.diag_indices_from(gram)] += self.penalty_
        self._factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
        b = cho_solve(self._factor, target)
        self.coefficients_ = solve_triangular(self._features, b, check_finite=False)

    def _phi(self, X: NDArray) -> NDArray:
        k = self._kernel(X, self._Z)
        return solve_triangular(self._features, k.T, trans="T", check_finite=False).T

    def _kernel(self, A: NDArray, B: NDArray) -> NDArray:
        D = euclidean_distances(A, B, squared=True)
        D *= -0.5 / self.bandwidth_**2
        return np.exp(D, out=D)

    def leave_one_out(self, rows: NDArray) -> tuple[NDArray, NDArray]:
        """What to subtract to leave training rows out: f(x) - (k(x) . b_i) s_i for row i.

        Returns
        -------
        b : ndarray of shape (n_rows, n_centers)
        s : ndarray of shape (n_rows, n_outputs)
        """
        if self._features is None and self.all_rows:
            prepared = self._influence
            b = self._influences(rows) if prepared is None else prepared[rows]
            own = b[np.arange(len(rows)), rows][:, None]
            alive = own > 0
            s = np.where(alive, self.coefficients_[rows] / np.where(alive, own, 1), 0)
            return b, s
        if self._features is None:
            self._fit_coefficients(self._queries(self.X_))
        phi = self._phi(self._queries(self.X_[rows]))
        solved = cho_solve(self._factor, phi.T, check_finite=False).T
        w = self._weights()[rows, None]
        leverage = w * np.einsum("ip,ip->i", phi, solved)[:, None]
        residual = self.Y_[rows] - self.predict(self.X_[rows])
        b = solve_triangular(self._features, solved.T, check_finite=False).T
        return b, w * residual / np.maximum(1 - leverage, np.finfo(float).eps)

    @in_row_blocks
    def _influences(self, rows: NDArray) -> NDArray:
        """Rows of S (S K S + penalty I)^-1 S."""
        if self._factor is None:
            self._fit_all(self._queries(self.X_))
        S = self._root_weights
        unit = np.zeros((len(S), len(rows)))
        unit[rows, np.arange(len(rows))] = S[rows]
        solved = cho_solve(self._factor, unit, overwrite_b=True, check_finite=False)
        return (S[:, None] * solved).T

    # values --------------------------------------------------------------------------------

    def predict(self, X: NDArray, exclude: NDArray | None = None) -> NDArray:
        """Values of f, shape (n_queries, n_outputs); ``exclude`` leaves a training row out of
        each."""
        self._require_solution()
        Q = self._queries(X)
        K = self._kernel(Q, self._Z)
        values = self.prior_ + K @ self.coefficients_.astype(K.dtype)
        if exclude is not None:
            own = np.flatnonzero(exclude >= 0)
            b, s = self.leave_one_out(exclude[own])
            values[own] -= np.einsum("mp,mp->m", K[own], b)[:, None] * s
        return values.astype(self.X_.dtype, copy=False)

    def shifted(
        self, Q: NDArray, step: NDArray, exclude: NDArray | None = None
    ) -> tuple[NDArray, NDArray]:
        """Values of f at x + t_j e_j and x - t_j e_j."""
        self._require_solution()
        Q = self._queries(Q)
        step = np.asarray(step, dtype=np.float64)
        if self._exponent(step, Q) <= EXPONENT_LIMIT[self._Z.dtype]:
            tables = self._factorised_sums(Q, step, exclude)
        else:
            tables = self._direct_sums(Q, step, exclude)
        plus, minus = (t + self.prior_[:, None, None] for t in tables)
        return plus.transpose(1, 0, 2), minus.transpose(1, 0, 2)

    def gradient(self, Q: NDArray, exclude: NDArray | None = None) -> tuple[NDArray, NDArray]:
        """Values and analytic Jacobian: d f_c / d x_j = sum_i a_ic K(x, x_i) (x_ij - x_j) / h^2."""
        self._require_solution()
        Q = self._queries(Q)
        ones = np.ones((len(self._Z), 1), dtype=Q.dtype)
        sums = self._output_sums(self._kernel(Q, self._Z), np.hstack([self._Z, ones]), exclude)
        moments, values = sums[:, :, :-1], sums[:, :, -1]
        J = (moments - values[:, :, None] * Q) / np.asarray(self.bandwidth_**2, dtype=Q.dtype)
        return values.T + self.prior_, J.transpose(1, 0, 2)

    def _output_sums(self, K: NDArray, table: NDArray, exclude: NDArray | None) -> NDArray:
        """sum_i K_qi a_ic table_ij with each query's own row left out, shape (c, m, columns)."""
        a = self.coefficients_.astype(K.dtype, copy=False)
        sums = np.empty((self.n_outputs_, len(K), table.shape[1]), dtype=K.dtype)
        for k in range(self.n_outputs_):
            np.matmul(K * a[:, k], table, out=sums[k])
        if exclude is not None:
            own = np.flatnonzero(exclude >= 0)
            b, s = self.leave_one_out(exclude[own])
            mine = (K[own] * b.astype(K.dtype, copy=False)) @ table
            sums[:, own] -= s.T[:, :, None].astype(K.dtype, copy=False) * mine
        return sums

    def _factorised_sums(
        self, Q: NDArray, step: NDArray, exclude: NDArray | None
    ) -> tuple[NDArray, NDArray]:
        """K(x +- t e_j, z) = K(x, z) exp(+-t (z_j - x_j) / h^2) exp(-t^2 / 2h^2)."""
        cached = self._exponentials
        if cached is None or not np.array_equal(cached[0], step):
            cached = (step, self._exponential_table(step))
        d = Q.shape[1]
        sums = self._output_sums(self._kernel(Q, self._Z), cached[1], exclude)
        tilt = (step / self.bandwidth_**2) * (Q - self._middle)
        drop = step**2 / (2 * self.bandwidth_**2)
        sums[:, :, :d] *= np.exp(-tilt - drop).astype(Q.dtype)
        sums[:, :, d:] *= np.exp(tilt - drop).astype(Q.dtype)
        return sums[:, :, :d], sums[:, :, d:]

    def _direct_sums(
        self, Q: NDArray, step: NDArray, exclude: NDArray | None
    ) -> tuple[NDArray, NDArray]:
        """One kernel matrix per shifted feature: safe for any step and scale."""
        m, d = Q.shape
        one = np.ones((len(self._Z), 1), dtype=Q.dtype)
        out = np.empty((2, self.n_outputs_, m, d), dtype=Q.dtype)
        for j in range(d):
            for side, sign in enumerate((1, -1)):
                moved = Q.copy()
                moved[:, j] += sign * step[j]
                out[side, :, :, j] = self._output_sums(self._kernel(moved, self._Z), one, exclude)[
                    :, :, 0
                ]
        return out[0], out[1]

    # the plan -------------------------------------------------------------------------------

    @property
    def _middle(self) -> NDArray:
        return (self._Z.max(0) + self._Z.min(0)) / 2

    def _exponent(self, step: NDArray, Q: NDArray | None = None) -> float:
        """Largest exponent of the factorised form, for given queries or such as the centres."""
        reach = np.ptp(self._Z, axis=0) / 2
        if Q is not None and len(Q):
            reach = np.maximum(reach, np.abs(Q - self._middle).max(0))
        return float((step * reach).max() / self.bandwidth_**2)

    def _exponential_table(self, step: NDArray) -> NDArray:
        return exponential_table(self._Z, self._middle, step, self.bandwidth_)

    def prepare(
        self,
        step: NDArray | None,
        *,
        budget: int | None = None,
        n_queries: int = 0,
        n_excluded: int = 0,
    ) -> Cost:
        """Exponentials of the centres and, where most rows are left out, all their influences."""
        self._require_solution()
        p, d = self._Z.shape
        size, c = self._Z.itemsize, self.n_outputs_
        all_rows = self._features is None
        which = "all rows are centres" if all_rows else f"{p} Nystrom centres"
        if all_rows and 2 * n_excluded > p and self._influence is None:
            self._influence = self._influences(np.arange(p))
        columns = d + 1 if step is None else 2 * d
        per_query = 3 * p * size + 2 * p * 8 + 3 * (c + 1) * columns * size
        fixed = p * p * 8 + p * columns * size
        flops = 2 * p * columns * (c + 1)
        if step is None:
            return Cost("ridge-analytic", per_query, fixed, which, flops)
        exponent, limit = self._exponent(step), EXPONENT_LIMIT[self._Z.dtype]
        if exponent <= limit:
            self._exponentials = (np.array(step), self._exponential_table(step))
            why = f"exponents reach {exponent:.3g}, under {limit:g}; {which}"
            return Cost("ridge-product", per_query, fixed, why, flops)
        why = f"exponents reach {exponent:.3g}: kernels are shifted one feature at a time; {which}"
        return Cost("ridge-direct", per_query, fixed, why, 4 * p * d * (d + c))

    def release(self) -> None:
        """Forget tables and influences."""
        self._exponentials = self._influence = None

    def default_step(self) -> float:
        """Half the bandwidth."""
        return self.bandwidth_ / 2

    def _queries(self, Q: NDArray) -> NDArray:
        return (np.asarray(Q) - self._center).astype(np.float64, copy=False)
