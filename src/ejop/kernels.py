"""Kernels K(|x - z| / h) of the function estimates, as data.

Each kernel is called with the *squared* ratio ``u2 = |x - z|^2 / h^2`` and says how far it reaches
(``support``, in units of the bandwidth), whether a shift of ``x`` along one axis factorises
(``factorises``), which is what the matrix-product form of the Gaussian smoother rests on, whether
it has a derivative in closed form (``differentiable``), and between which powers of two of the
nearest-neighbour distance its bandwidth is looked for (``exponents``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Gaussian:
    """K(u) = exp(-u^2 / 2): unbounded support, a shift along an axis factorises."""

    support: float = np.inf
    factorises: bool = True
    differentiable: bool = True
    exponents: tuple[float, float] = (-3, 2)

    def __call__(self, u2: ArrayLike, out: NDArray | None = None) -> NDArray:
        """Evaluate the kernel at squared ratios, into ``out`` where given."""
        return np.exp(np.multiply(u2, -0.5, out=out), out=out)

    def behind(self, D: NDArray, nearest: NDArray) -> NDArray:
        """Squared distances less what they share with the nearest, which no mean sees; in place."""
        D -= nearest
        return D


@dataclass(frozen=True)
class Laplace:
    """K(u) = exp(-u): unbounded support, a corner at zero, and no shift factorises."""

    support: float = np.inf
    factorises: bool = False
    differentiable: bool = True
    # where rows are all about as far, h does what a Gaussian's h^2 over that distance does
    exponents: tuple[float, float] = (-5, 3)

    def __call__(self, u2: ArrayLike, out: NDArray | None = None) -> NDArray:
        """Evaluate the kernel at squared ratios, into ``out`` where given."""
        return np.exp(np.negative(np.sqrt(u2, out=out), out=out), out=out)

    def behind(self, D: NDArray, nearest: NDArray) -> NDArray:
        """Squares of distances less that of the nearest, which no mean sees; in place."""
        np.sqrt(D, out=D)
        D -= np.sqrt(nearest)
        return np.square(D.clip(0, out=D), out=D)


@dataclass(frozen=True)
class Compact:
    """K(u) = (1 - u^inner)^outer for u <= 1 and 0 beyond; outer = 0 is the indicator of the closed
    ball."""

    inner: int
    outer: int
    support: float = 1.0
    factorises: bool = False
    differentiable: bool = False
    exponents: tuple[float, float] = (-0.5, 3)

    def __call__(self, u2: ArrayLike, out: NDArray | None = None) -> NDArray:
        """Evaluate the kernel at squared ratios, into ``out`` where given."""
        u2 = np.asarray(u2)
        inside = u2 <= 1
        if self.outer == 0:
            return np.multiply(inside, 1.0, out=out, dtype=u2.dtype if out is not None else float)
        base = np.minimum(u2, 1, out=out)
        if self.inner != 2:
            base = np.power(base, self.inner / 2, out=out)
        base = np.subtract(1, base, out=out)
        if self.outer != 1:
            base = np.power(base, self.outer, out=out)
        return np.multiply(base, inside, out=out)

    def behind(self, D: NDArray, nearest: NDArray) -> NDArray:
        """Squared distances as they are: how far it reaches does not depend on the nearest."""
        return D


Kernel = Gaussian | Laplace | Compact

KERNELS: dict[str, Kernel] = {
    "gaussian": Gaussian(),
    "laplace": Laplace(),
    "boxcar": Compact(inner=2, outer=0),
    "epanechnikov": Compact(inner=2, outer=1),
    "triangular": Compact(inner=1, outer=1),
    "biweight": Compact(inner=2, outer=2),
    "tricube": Compact(inner=3, outer=3),
}


def get_kernel(name: str) -> Kernel:
    """Look a kernel up by name.

    Examples
    --------
    >>> from ejop.kernels import get_kernel
    >>> get_kernel("epanechnikov")([0.0, 0.25, 2.0])
    array([1.  , 0.75, 0.  ])
    """
    try:
        return KERNELS[name]
    except (KeyError, TypeError):
        known = ", ".join(map(repr, KERNELS))
        raise ValueError(f"`kernel`={name!r} is not known; choose one of {known}.") from None
