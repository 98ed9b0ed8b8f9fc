r"""Differences of f: from values at shifted points to Jacobians.

The paper's estimate of the derivative of output c along feature j is the central difference

.. math:: \Delta_{t,c,j} f_n(x) = \frac{f_{n,c}(x + t e_j) - f_{n,c}(x - t e_j)}{2t}

of the softmax of f for class targets and of f itself for real ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop.arrays import is_tensor, namespace
from ejop.rows import SIZES, as_numbers


def softmax(f: Any, axis: int = 1) -> Any:
    """Softmax along an axis of an array or tensor, safe for large values."""
    xp = namespace(f)
    e = xp.exp(f - xp.amax(f, axis, keepdims=True))
    return e / xp.sum(e, axis, keepdims=True)


def central_differences(plus: Any, minus: Any, step: Any, *, apply_softmax: bool = False) -> Any:
    """Difference quotient of values at x + t_j e_j and x - t_j e_j.

    Parameters
    ----------
    plus, minus : array or tensor of shape (n_samples, n_outputs, n_features)
    step : array or tensor of shape (n_features,)
    apply_softmax : bool, default=False
        Differentiate the softmax over the outputs instead of the values.

    Returns
    -------
    J : ndarray of shape (n_samples, n_outputs, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.quotients import central_differences
    >>> square = lambda x: x**2
    >>> x, t = np.array([[[3.0]]]), np.array([0.5])
    >>> central_differences(square(x + t), square(x - t), t)
    array([[[6.]]])
    """
    if apply_softmax:
        plus, minus = softmax(plus), softmax(minus)
    scale = 0.5 / step
    return (plus - minus) * (scale if is_tensor(scale) else scale.astype(plus.dtype, copy=False))


def softmax_chain(values: Any, J: Any) -> Any:
    """Jacobian of softmax(f) from f (m, c) and its Jacobian J (m, c, d): p_c (J_c - sum_k p_k
    J_k)."""
    p = softmax(values)
    mean = namespace(p).einsum("mc,mcd->md", p, J)
    return p[:, :, None] * (J - mean[:, None, :])


def check_step(step: ArrayLike, n_features: int) -> NDArray:
    """One positive step per feature, from a number or one number per feature."""
    t = as_numbers("step", step)
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
    least, most = SIZES[np.dtype(np.float64)]
    if t.min() < least or t.max() > most:
        worst = t.min() if t.min() < least else t.max()
        raise ValueError(
            f"`step`={worst:g} has a square that is no number beside others; it must lie between "
            f"{least:g} and {most:g}. Try step='auto'."
        )
    return t


def mass_threshold(n_samples: int, n_features: int, delta: float) -> float:
    """Rows that both shifted balls must hold under the event A_{n,i}: 2 d ln(2n) + ln(4 / delta).

    Examples
    --------
    >>> from ejop.quotients import mass_threshold
    >>> round(mass_threshold(1000, 2, 0.05), 1)
    34.8
    """
    check_delta(delta)
    if n_samples < 1 or n_features < 1:
        raise ValueError(
            f"`n_samples`={n_samples} and `n_features`={n_features} must both be at least 1."
        )
    return float(2 * n_features * np.log(2 * n_samples) + np.log(4 / delta))


def check_delta(delta: float) -> None:
    """Refuse what is no probability of failure."""
    if not 0 < delta < 1:
        raise ValueError(f"`delta` must lie between 0 and 1, got {delta!r}.")
