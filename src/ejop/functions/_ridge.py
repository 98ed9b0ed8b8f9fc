"""Kernel ridge regression on the targets as an estimate of f."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ejop.choice import RowSource, ridge_settings
from ejop.executors.threads import n_threads
from ejop.functions._base import Function, check_bandwidth, is_auto
from ejop.rows import whole_block
from ejop.seeds import CENTERS, stream_of
from ejop.sums.engine import HOST, Engine
from ejop.sums.form import Form, Request
from ejop.sums.plan import format_bytes
from ejop.sums.ridge import (
    CHUNK,
    FLOAT64,
    RIDGE_KERNELS,
    Centers,
    FullSystem,
    NystromSystem,
    RidgeForm,
)

#: matrices of all rows, and of the rows that judge in each thread, that are in memory at once
SYSTEMS_HELD, MATRICES_JUDGED = 2.3, 7
#: rows that judge bandwidth and penalty, and centres that take little memory
JUDGES, MODEST_ROWS = 1000, 500


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
    kernel : {"gaussian", "laplace", "l1"}, default="gaussian"
        exp(-|x - z|^2 / 2h^2), exp(-|x - z| / h), or exp(-sum_j |x_j - z_j| / h). The last is a
        product over features that bends at every value of every column, which is what makes trees
        strong on tables.
    bandwidth : float or "auto", default="auto"
    penalty : float or "auto", default="auto"
        Both are chosen by the closed-form leave-one-out loss, see
        :func:`ejop.choice.choose_ridge`.
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
    >>> f.differences(np.array([[0.0]]), step=None).round(3)
    array([[[1.]]])
    """

    differentiable = True

    bandwidth_: float
    penalty_: float
    centers_: NDArray
    coefficients_: NDArray
    _nystrom: NystromSystem | None = None

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

    def _choose(self, rows: RowSource) -> None:
        self._check()
        if is_auto(self.bandwidth) or is_auto(self.penalty):
            self.bandwidth_, self.penalty_ = ridge_settings(
                rows,
                bandwidth=self.bandwidth,
                penalty=self.penalty,
                max_rows=JUDGES,
                widening=self.widening,
                random_state=self.random_state,
                kernel=self.kernel,
            )
        else:
            self.bandwidth_, self.penalty_ = float(self.bandwidth), float(self.penalty)

    def _check(self) -> None:
        """Refuse a kernel, bandwidth, penalty or number of rows that will not do."""
        if self.kernel not in RIDGE_KERNELS:
            known = ", ".join(map(repr, RIDGE_KERNELS))
            raise ValueError(
                f"`kernel`={self.kernel!r} cannot be used for kernel ridge, which needs a positive "
                f"definite kernel; use one of {known}, or KernelSmoother for a smoother."
            )
        if not is_auto(self.bandwidth):
            check_bandwidth(self.bandwidth)
        penalty = self.penalty
        if not is_auto(penalty) and not (isinstance(penalty, Real) and 0 < float(penalty) < np.inf):
            raise ValueError(
                f"`penalty` must be a positive, finite number or 'auto', got {penalty!r}."
            )
        if isinstance(self.max_rows, str) and self.max_rows != "auto":
            raise ValueError(
                f"`max_rows` must be a number of rows or 'auto', got {self.max_rows!r}."
            )

    def most_rows(self, engine: Engine = HOST) -> int:
        """Rows up to which every one is a centre."""
        return engine.most_centers() if isinstance(self.max_rows, str) else self.max_rows

    def require_room(self, n: int, engine: Engine, memory_limit: int) -> None:
        """Compare what choosing and solving take with the limit."""
        all_rows = n <= max(self.most_rows(engine), self.n_centers)
        p = n if all_rows else self.n_centers
        needed = 8 * p * (SYSTEMS_HELD * p if all_rows else 4 * p + 4 * CHUNK)
        what = f"the system of {p} {'rows' if all_rows else 'centres'}"
        if is_auto(self.bandwidth) or is_auto(self.penalty):
            judges = min(n, JUDGES)
            choice = int(8 * MATRICES_JUDGED * judges**2 * n_threads(operations=judges**3))
            if choice > needed:
                needed, what = choice, f"choosing bandwidth and penalty on {judges} rows"
        if needed > memory_limit:
            fewer = f"max_rows={MODEST_ROWS}, n_centers={MODEST_ROWS}"
            raise MemoryError(
                f"`memory_limit`={format_bytes(memory_limit)} is too little: {what} takes "
                f"{format_bytes(needed)}; raise it, or take fewer centres with "
                f"function=RidgeFunction({fewer}) and numbers for `bandwidth` and `penalty`."
            )

    def draw_centers(self, n: int) -> NDArray:
        """Sorted numbers of the rows that are centres where not all are."""
        rng = check_random_state(stream_of(self.random_state, CENTERS))
        return np.sort(rng.choice(n, min(self.n_centers, n), replace=False))

    def solve(self, engine: Engine) -> None:
        """Solve for the coefficients of the centres."""
        n = len(self.X_)
        self._nystrom = None
        if n <= max(self.most_rows(engine), self.n_centers):
            self.centers_ = self.X_
            system = self._full(engine)
            residual = system.centers.engine.array(self.Y_ - self.summary_.prior, FLOAT64)
            self._take(engine, system.coefficients(residual))
            return
        self.centers_ = self.X_[self.draw_centers(n)]
        empty = self.nystrom(engine)
        block = whole_block(self.X_, self.Y_, self.sample_weight_)
        self.take_equations(empty, *empty.equations(block, self.summary_))

    def _take(self, engine: Engine, coefficients: Any) -> None:
        self.coefficients_ = engine.to_host(coefficients)

    def take_equations(self, empty: NystromSystem, gram: Any, target: Any) -> None:
        """Solve the normal equations of all rows for the coefficients of the centres."""
        system, coefficients = empty.solved(gram, target, self.penalty_)
        self._take(system.centers.engine, coefficients)
        self._nystrom = system

    def nystrom(self, engine: Engine) -> NystromSystem:
        """The features of the centres, their equations not yet solved."""
        return NystromSystem.of(self.kernel_centers(engine))

    def kernel_centers(self, engine: Engine) -> Centers:
        """The centres on an engine, with the kernel between them and queries."""
        kind = RIDGE_KERNELS[self.kernel]
        return kind.of(engine, self.centers_, self.summary_, self.bandwidth_)

    def _full(self, engine: Engine) -> FullSystem:
        block = whole_block(self.X_, self.Y_, self.sample_weight_)
        return FullSystem.of(self.kernel_centers(engine), block, self.penalty_)

    @property
    def all_rows(self) -> bool:
        """Whether every row is a centre."""
        return len(self.centers_) == self.summary_.n

    def system(self, engine: Engine = HOST) -> FullSystem | NystromSystem:
        """The factorised system, which leaving rows out needs; a saved function makes it again."""
        if self.all_rows:
            return self._full(engine)
        if self._nystrom is not None and self._nystrom.centers.engine == engine.precise():
            return self._nystrom
        empty = self.nystrom(engine)
        block = whole_block(self.X_, self.Y_, self.sample_weight_)
        return empty.solved(*empty.equations(block, self.summary_), self.penalty_)[0]

    def __getstate__(self) -> dict[str, Any]:
        """Rows, coefficients and what was chosen, without the system."""
        state = dict(super().__getstate__())
        state.pop("_nystrom", None)
        if hasattr(self, "X_") and self.centers_ is self.X_:
            state.pop("centers_")
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "centers_" not in state and "X_" in state:
            self.centers_ = self.X_

    def form(self, request: Request) -> Form:
        """Sums as the Gaussian smoother's, with coefficients for weights."""
        return RidgeForm(self, request)

    def default_step(self) -> float:
        """Half the bandwidth."""
        return self.bandwidth_ / 2
