"""What the bounds assume of f, of the distribution and of the sample, measured."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop.executors.expectation import ball_masses
from ejop.executors.threads import computing
from ejop.functions import check_bandwidth
from ejop.kernels import get_kernel
from ejop.quotients import check_step, mass_threshold
from ejop.rows import as_numbers

__all__ = [
    "boundary_mass",
    "events",
    "gradient_norm",
    "mass_threshold",
    "modulus",
    "noise_constant",
]

Support = tuple[ArrayLike, ArrayLike] | Callable[[NDArray], NDArray]


@computing
def events(
    X: NDArray, Q: NDArray, step: ArrayLike, bandwidth: float, *, delta: float = 0.05
) -> NDArray:
    r"""Section 3: the events A_{n,i}(x) that enough rows stand behind a derivative.

    .. math:: A_{n,i}(x): \quad \min_{s \in \{t, -t\}} \mu_n(B(x + s e_i, h/2)) \ge
        \frac{2 d \ln(2n) + \ln(4 / \delta)}{n}

    The source leaves out the s under the minimum. The threshold is
    :func:`ejop.quotients.mass_threshold`, in rows.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The sample.
    Q : ndarray of shape (n_queries, n_features)
    step : float or array-like of shape (n_features,)
        t.
    bandwidth : float
        h.
    delta : float, default=0.05

    Returns
    -------
    happened : ndarray of bool, shape (n_queries, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.theory import events
    >>> X = np.random.default_rng(0).uniform(size=(400, 1))
    >>> events(X, np.array([[0.5], [0.0]]), 0.2, 0.4).ravel()
    array([ True, False])
    """
    n, d = np.shape(X)
    masses = ball_masses(X, Q, check_step(step, d), check_bandwidth(bandwidth) / 2)
    return masses >= mass_threshold(n, d, delta)


def boundary_mass(X: NDArray, step: ArrayLike, support: Support) -> NDArray:
    r"""Section 3.1: empirical mass of the (t, i)-boundary, the rows that a step takes outside.

    .. math:: \partial_{t,i}(\mathcal{X}) =
        \{x : \{x + t e_i, x - t e_i\} \not\subseteq \mathcal{X}\}

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    step : float or array-like of shape (n_features,)
    support : pair of array-like, or callable
        Lower and upper corner of a box, or a function that tells of rows (m, d) which lie inside.

    Returns
    -------
    mass : ndarray of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.theory import boundary_mass
    >>> X = np.linspace(0, 1, 101)[:, None]
    >>> boundary_mass(X, 0.095, (0, 1)).round(3)
    array([0.198])
    """
    X = _finite("X", X, 2)
    t, d = check_step(step, X.shape[1]), X.shape[1]
    if callable(support):
        inside: Callable[[NDArray], NDArray] = support
    else:
        low, high = (np.broadcast_to(as_numbers("support", side), d) for side in support)
        if not np.all(low < high):
            raise ValueError(f"`support` has corners {low} and {high}; the second must be higher.")

        def inside(rows: NDArray) -> NDArray:
            return np.all((rows >= low) & (rows <= high), axis=1)

    masses = [~(inside(X + t[i] * e) & inside(X - t[i] * e)) for i, e in enumerate(np.eye(d))]
    return np.mean(masses, axis=1)


def modulus(
    jacobian: Callable[[NDArray], NDArray], X: NDArray, step: ArrayLike, *, n_steps: int = 9
) -> NDArray:
    r"""Section 3.1: how much a partial derivative changes within a step, for each class.

    .. math:: \epsilon_{t,k,i} = \sup_{x \in \mathcal{X},\, s \in [-t, t]} \left|
        \frac{\partial f_k(x)}{\partial x_i} - \frac{\partial f_k(x + s e_i)}{\partial x_i} \right|

    and eps_{t,i} is the largest over the classes, ``modulus(...).max(0)``; the source writes
    max over k of eps_{t,c,i}. The supremum runs over the rows given and over ``n_steps`` values of
    s, so it is approached from below.

    Parameters
    ----------
    jacobian : callable
        Rows (m, d) to derivatives (m, c, d) of the true f.
    X : ndarray of shape (n_samples, n_features)
    step : float or array-like of shape (n_features,)
    n_steps : int, default=9
        Values of s from -t to t.

    Returns
    -------
    modulus : ndarray of shape (n_classes, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.theory import modulus
    >>> square = lambda X: 2 * X[:, None, :]
    >>> modulus(square, np.zeros((1, 2)), [0.1, 0.2])
    array([[0.2, 0.4]])
    """
    X = _finite("X", X, 2)
    d = X.shape[1]
    t, here = check_step(step, d), _finite("jacobian(X)", jacobian(X), 3)
    if n_steps < 2:
        raise ValueError(f"`n_steps`={n_steps} must be 2 at the least: both ends of the step.")
    found = np.zeros(here.shape[1:])
    for i, e in enumerate(np.eye(d)):
        for s in np.linspace(-t[i], t[i], n_steps):
            moved = jacobian(X + s * e)[:, :, i]
            found[:, i] = np.maximum(found[:, i], np.abs(here[:, :, i] - moved).max(0))
    return found


def gradient_norm(jacobian: Callable[[NDArray], NDArray], X: NDArray) -> float:
    r"""Section 3.1: R, the largest norm of a class's gradient, over the rows given.

    .. math:: \lVert \nabla f_k(x) \rVert \le R \quad
        \text{for all } x \in \mathcal{X} + B(0, \tau),\ k \in [c]

    Pass rows that fill the envelope; the supremum is approached from below.

    Parameters
    ----------
    jacobian : callable
        Rows (m, d) to derivatives (m, c, d) of the true f.
    X : ndarray of shape (n_samples, n_features)

    Returns
    -------
    R : float

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.theory import gradient_norm
    >>> gradient_norm(lambda X: np.tile([[[3.0, 4.0]]], (len(X), 1, 1)), np.zeros((2, 2)))
    5.0
    """
    found = _finite("jacobian(X)", jacobian(_finite("X", X, 2)), 3)
    return float(np.linalg.norm(found, axis=2).max())


def _finite(name: str, values: ArrayLike, ndim: int) -> NDArray:
    found = as_numbers(name, values)
    if found.ndim != ndim or not found.size or not np.isfinite(found).all():
        raise ValueError(
            f"`{name}` of shape {found.shape} must be finite, not empty and of {ndim} dimensions."
        )
    return found


def noise_constant(
    X: NDArray,
    bandwidth: float,
    step: ArrayLike,
    *,
    n_classes: int,
    kernel: str = "boxcar",
    delta: float = 0.05,
    queries: NDArray | None = None,
) -> float:
    r"""Lemma 8: the constant C = C(mu, K), with which its left side holds on this sample.

    .. math:: \mathbb{E}_n |\tilde f_{n,h,k}(X + s e_i) - f_{n,h,k}(X + s e_i)|^2\,
        1_{A_{n,i}(X)} \le \frac{A(n)}{n h^d}, \qquad A(n) = 0.25 \sqrt{C d \ln(c n / \delta)}

    The paper leaves C open. Given the rows, f_n - f~ at a point is a sum of independent bounded
    terms with weights w, so by Hoeffding's inequality its square exceeds
    max(w) ln(4 d n c / delta) / 2 at one of the 2d shifts of the n rows, for one of the c classes,
    with probability delta at the most. With max(w) <= K(0) / K(1/2) / n(x, h/2), counted
    on the sample, the left side is known, and C is what makes both sides equal. Counting at the
    shifted points also mends the proof, which counts around the rows themselves.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    bandwidth : float
    step : float or array-like of shape (n_features,)
    n_classes : int
    kernel : str, default="boxcar"
        One of compact support that is positive at half the bandwidth.
    delta : float, default=0.05
    queries : ndarray of shape (n_queries,), optional
        Rows of X that the mean runs over; all by default.

    Returns
    -------
    C : float

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.theory import noise_constant
    >>> X = np.random.default_rng(0).uniform(size=(500, 1))
    >>> 1 < noise_constant(X, 0.4, 0.1, n_classes=2) < 1000
    True
    """
    rule = get_kernel(kernel)
    if not np.isfinite(rule.support):
        raise ValueError(
            f"`kernel`={kernel!r} has unbounded support and the bounds need a compact one; use "
            "'boxcar' or 'epanechnikov'."
        )
    if n_classes < 1:
        raise ValueError(f"`n_classes` must be 1 at the least, got {n_classes!r}.")
    X = _finite("X", X, 2)
    n, d = X.shape
    Q = X if queries is None else X[queries]
    half_ball = check_bandwidth(bandwidth) / 2
    masses = ball_masses(X, Q, check_step(step, d), half_ball)  # of the emptier shift
    enough = masses >= mass_threshold(n, d, delta)
    shares = np.where(enough, 1 / np.maximum(masses, 1), 0).mean(0).max()
    peak, half = rule(np.array([0.0, 0.25]))
    square = peak / half * shares * np.log(4 * d * n * n_classes / delta) / 2
    factor = square * n * bandwidth**d
    return float((4 * factor) ** 2 / (d * np.log(n_classes * n / delta)))
