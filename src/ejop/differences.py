r"""Differences of f: from values at shifted points to Jacobians.

The paper's estimate of the derivative of output c along feature j is the central difference

.. math:: \Delta_{t,c,j} f_n(x) = \frac{f_{n,c}(x + t e_j) - f_{n,c}(x - t e_j)}{2t}

of the softmax of f for class targets and of f itself for real ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def softmax(f: NDArray, axis: int = 1) -> NDArray:
    """Softmax along an axis, safe for large values."""
    e = np.exp(f - f.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def central_differences(
    plus: NDArray, minus: NDArray, step: NDArray, *, apply_softmax: bool = False
) -> NDArray:
    """Difference quotient of values at x + t_j e_j and x - t_j e_j.

    Parameters
    ----------
    plus, minus : ndarray of shape (n_samples, n_outputs, n_features)
    step : ndarray of shape (n_features,)
    apply_softmax : bool, default=False
        Differentiate the softmax over the outputs instead of the values.

    Returns
    -------
    J : ndarray of shape (n_samples, n_outputs, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.differences import central_differences
    >>> square = lambda x: x**2
    >>> x, t = np.array([[[3.0]]]), np.array([0.5])
    >>> central_differences(square(x + t), square(x - t), t)
    array([[[6.]]])
    """
    if apply_softmax:
        plus, minus = softmax(plus), softmax(minus)
    return (plus - minus) * (0.5 / step).astype(plus.dtype, copy=False)


def softmax_chain(values: NDArray, J: NDArray) -> NDArray:
    """Jacobian of softmax(f) from f (m, c) and its Jacobian J (m, c, d): p_c (J_c - sum_k p_k
    J_k)."""
    p = softmax(values)
    mean = np.einsum("mc,mcd->md", p, J)
    return p[:, :, None] * (J - mean[:, None, :])


def check_step(step: ArrayLike, n_features: int) -> NDArray:
    """One positive step per feature, from a number or one number per feature."""
    t = np.asarray(step, dtype=np.float64)
    if t.ndim == 0:
        t = np.full(n_features, float(t))
    if t.shape != (n_features,):
        raise ValueError(
            f"`step` has shape {t.shape} but the data have {n_features} features; pass one "
            f"number for all features or an array of {n_features}."
        )
    if not np.all(np.isfinite(t)) or np.any(t <= 0):
        worst = t[~(np.isfinite(t) & (t > 0))][0]
        raise ValueError(f"`step` must be positive and finite, got {worst}; try step='auto'.")
    return t


def mass_threshold(n_samples: int, n_features: int, delta: float) -> float:
    """Rows that both shifted balls must hold under the event A_{n,i}: 2 d ln(2n) + ln(4 / delta).

    Examples
    --------
    >>> from ejop.differences import mass_threshold
    >>> round(mass_threshold(1000, 2, 0.05), 1)
    34.8
    """
    return float(2 * n_features * np.log(2 * n_samples) + np.log(4 / delta))


def ball_masses(
    X: NDArray, Q: NDArray, step: NDArray, radius: float, exclude: NDArray | None = None
) -> NDArray:
    """Rows of X in the emptier of the two balls B(x +- t_j e_j, radius), shape (n_queries,
    n_features)."""
    from ejop.functions._kernel import KernelSmoother

    ball = KernelSmoother("boxcar", bandwidth=radius).fit(X, np.ones((len(X), 1)))
    return ball.masses(Q, step, exclude).min(axis=0)


def jacobian(
    function: Any,
    Q: NDArray,
    step: NDArray | None,
    exclude: NDArray | None = None,
    *,
    apply_softmax: bool = False,
    min_mass: float | None = None,
) -> tuple[NDArray, int]:
    """Jacobians of a fitted function at the rows of Q, and how many entries the mass condition
    zeroed.

    Parameters
    ----------
    function : fitted function
        Anything with the protocol of :class:`ejop.functions.Function`.
    Q : ndarray of shape (n_queries, n_features)
    step : ndarray of shape (n_features,) or None
        None takes the analytic derivative.
    exclude : ndarray of shape (n_queries,), optional
        Training row to leave out of each query's estimate, -1 for none.
    apply_softmax : bool, default=False
    min_mass : float, optional
        Rows that both balls of half the bandwidth around the shifted points must hold.

    Returns
    -------
    J : ndarray of shape (n_queries, n_outputs, n_features)
    n_zeroed : int
        (query, feature) pairs that failed the mass condition.
    """
    if step is None:
        J = function.derivatives(Q, exclude, softmax=apply_softmax)
    else:
        J = function.differences(Q, step, exclude, softmax=apply_softmax)
    if min_mass is None:
        return J, 0
    around = np.zeros(Q.shape[1]) if step is None else step
    too_few = ball_masses(function.X_, Q, around, function.bandwidth_ / 2, exclude) < min_mass
    return np.where(too_few[:, None, :], 0, J), int(too_few.sum())
