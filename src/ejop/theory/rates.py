"""Rates: how bandwidth and step may shrink, and what the bounds then promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: h as a function of (n, d); t is a power of h
SCHEDULES = {
    "logarithmic": lambda n, d: 1 / np.log(n),
    "polynomial": lambda n, d: n ** (-1 / (d + 2)),
}
#: ln(n) tried for ``rows_needed``
_LOG_ROWS = np.linspace(1.1, 2000, 20_000)


@dataclass(frozen=True)
class Rates:
    """Schedules of bandwidth and step, the paper's conditions and what they predict.

    Attributes
    ----------
    n_samples : ndarray of shape (n_sizes,)
    n_features : int
    bandwidth, step : ndarray of shape (n_sizes,)
        h and t, up to constants.
    ratio : ndarray of shape (n_sizes,)
        h / t^2, which must tend to zero.
    mass : ndarray of shape (n_sizes,)
        (n / ln n) h^d t^4, which must tend to infinity.
    smoothing, edges, sampling : ndarray of shape (n_sizes,)
        Orders of what the main theorem adds up: noise and bias over t^2; boundary and modulus, both
        of order t, over t; 1 / (t sqrt(n)). The second does not vanish.
    repaired : ndarray of shape (n_sizes,)
        Order of the bound with ``reading="proved"``: noise and bias over t, plus sqrt(t) for the
        boundary, plus 1 / sqrt(n).
    rows_needed : float
        Natural logarithm of the number of rows from which on the mass exceeds 1.
    """

    n_samples: NDArray
    n_features: int
    bandwidth: NDArray
    step: NDArray
    ratio: NDArray
    mass: NDArray
    smoothing: NDArray
    edges: NDArray
    sampling: NDArray
    repaired: NDArray
    rows_needed: float

    def frame(self) -> Any:
        """Table of one row per sample size.

        Returns
        -------
        frame : pandas.DataFrame
        """
        from ejop.plots.style import pandas

        names = ["n_samples", "bandwidth", "step", "ratio", "mass", "smoothing", "edges"]
        names += ["sampling", "repaired"]
        return pandas().DataFrame({name: getattr(self, name) for name in names})


def rates(n: ArrayLike, d: int, *, schedule: str = "logarithmic", exponent: float = 0.25) -> Rates:
    r"""Remark after Theorem 1: schedules of h and t, and the conditions of consistency.

    .. math:: t \to 0,\quad h \to 0,\quad h / t^2 \to 0,\quad (n / \ln n)\, h^d t^4 \to \infty,
        \qquad \text{for example } t \propto h^{1/4},\ h \propto 1 / \ln n

    Parameters
    ----------
    n : int or array-like of int
        Sample sizes, 3 or more each.
    d : int
        Features.
    schedule : {"logarithmic", "polynomial"}, default="logarithmic"
        h = 1 / ln n, the paper's example, or h = n^{-1/(d+2)}, which balances noise and bias.
    exponent : float, default=0.25
        t = h^exponent. The conditions need less than 1/2.

    Returns
    -------
    rates : Rates

    Examples
    --------
    >>> from ejop.theory import rates
    >>> found = rates([10**3, 10**6, 10**9], 2)
    >>> found.ratio.round(2), found.mass.round(1).tolist()
    (array([0.38, 0.27, 0.22]), [0.4, 27.4, 5422.1])
    >>> round(rates(1000, 10).rows_needed)  # ln of the rows that ten features need
    46
    """
    sizes = np.atleast_1d(np.asarray(n, dtype=float))
    if schedule not in SCHEDULES:
        raise ValueError(f"`schedule`={schedule!r} is not known; choose {' or '.join(SCHEDULES)}.")
    if not np.all((sizes >= 3) & (sizes < np.inf)):
        worst = sizes[~((sizes >= 3) & (sizes < np.inf))][0]
        raise ValueError(f"`n` must be 3 at the least and finite, got {worst:g}.")
    if not 1 <= d < np.inf:
        raise ValueError(f"`d` must be 1 at the least, got {d}.")
    if not 0 < exponent < 0.5:
        raise ValueError(
            f"`exponent`={exponent} must lie between 0 and 1/2: h / t^2 must tend to zero."
        )
    h = SCHEDULES[schedule](sizes, d)
    t = h**exponent
    smoother = np.sqrt(np.sqrt(np.log(sizes)) / (sizes * h**d) + h**2)
    return Rates(
        n_samples=sizes,
        n_features=d,
        bandwidth=h,
        step=t,
        ratio=h / t**2,
        mass=sizes / np.log(sizes) * h**d * t**4,
        smoothing=smoother / t**2,
        edges=np.ones_like(t),
        sampling=1 / (t * np.sqrt(sizes)),
        repaired=smoother / t + np.sqrt(t) + 1 / np.sqrt(sizes),
        rows_needed=_rows_needed(d, schedule, exponent),
    )


def _rows_needed(d: int, schedule: str, exponent: float) -> float:
    """ln n from which on (n / ln n) h^d t^4 stays above 1."""
    L = _LOG_ROWS
    log_h = -np.log(L) if schedule == "logarithmic" else -L / (d + 2)
    log_mass = L - np.log(L) + (d + 4 * exponent) * log_h
    below = np.flatnonzero(log_mass <= 0)
    return float(L[below[-1] + 1] if len(below) else L[0]) if len(below) < len(L) else np.inf
