"""Kernel smoothers: f(x) = sum_i K(|x - x_i| / h) Y_i / sum_i K(|x - x_i| / h)."""

from __future__ import annotations

from typing import Any

from ejop.choice import RowSource, smoother_bandwidth
from ejop.functions._base import Function, check_bandwidth, is_auto
from ejop.kernels import Compact, Gaussian, Kernel, Laplace, get_kernel
from ejop.sums.compact import CompactForm
from ejop.sums.form import Form, Request
from ejop.sums.gaussian import GaussianForm
from ejop.sums.laplace import LaplaceForm

#: how the sums of each kind of kernel are made
FORMS: dict[type, type[Form]] = {
    Gaussian: GaussianForm,
    Laplace: LaplaceForm,
    Compact: CompactForm,
}


class KernelSmoother(Function):
    """Nadaraya-Watson estimate of class probabilities or real targets.

    Where no training row lies within reach of a compact kernel, every row weighs 1/n, as in the
    paper.

    Parameters
    ----------
    kernel : {"gaussian", "laplace", "boxcar", "epanechnikov", "triangular", "biweight", "tricube"}
        Shape of the weights: exp(-u^2 / 2), exp(-u), or zero beyond ``bandwidth``; "boxcar" is the
        mean over the ball of that radius.
    bandwidth : float or "auto", default="auto"
        Scale h. "auto" takes 1.3 times the widest whose leave-one-out loss is within one standard
        error of the best over a grid tied to nearest-neighbour distances, see
        :func:`ejop.choice.choose_bandwidth`.
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

    divisible = True

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
    def kernel_rule(self) -> Kernel:
        """The kernel by its name."""
        return get_kernel(self.kernel)

    @property
    def differentiable(self) -> bool:  # type: ignore[override]
        """Whether the analytic derivative exists: the Gaussian's and the Laplace kernel's do."""
        return self.kernel_rule.differentiable

    def _choose(self, rows: RowSource) -> None:
        rule = self.kernel_rule
        if is_auto(self.bandwidth):
            self.bandwidth_ = smoother_bandwidth(rows, rule, random_state=self.random_state)
        else:
            self.bandwidth_ = check_bandwidth(self.bandwidth)

    def form(self, request: Request) -> Form:
        """Products with one kernel matrix, one matrix a shift, or sums over the rows in reach."""
        return FORMS[type(self.kernel_rule)](self, request)

    def default_step(self) -> float:
        """Half the bandwidth."""
        return self.bandwidth_ / 2
