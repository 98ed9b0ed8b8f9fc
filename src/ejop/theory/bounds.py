"""The bounds: on gradients, on the matrix, on eigenvalues, on eigenspaces and on recovery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop.quotients import check_delta
from ejop.rows import as_numbers
from ejop.theory.angles import check_reading


@dataclass(frozen=True)
class Constants:
    """What the bounds are made of.

    Attributes
    ----------
    n_samples, n_features, n_classes : int
        n, d and c. The source writes k for c where it counts classes.
    bandwidth, step : float
        h and t.
    gradient : float
        R, the largest norm of the gradient of a class; see :func:`ejop.theory.gradient_norm`.
    modulus : ndarray of shape (n_features,)
        eps_{t,i}; see :func:`ejop.theory.modulus`.
    boundary : ndarray of shape (n_features,)
        mu of the (t, i)-boundary; see :func:`ejop.theory.boundary_mass`.
    noise : float, default=1.0
        C; see :func:`ejop.theory.noise_constant`.
    delta : float, default=0.05

    Examples
    --------
    >>> from ejop.theory import Constants, main_bound
    >>> values = dict(n_features=2, n_classes=2, bandwidth=0.2, step=0.5, gradient=0.5)
    >>> small = Constants(10**4, modulus=[0.1, 0.1], boundary=[0.1, 0.1], **values)
    >>> large = Constants(10**8, modulus=[0.1, 0.1], boundary=[0.1, 0.1], **values)
    >>> main_bound(small) > main_bound(large)
    True
    """

    n_samples: int
    n_features: int
    n_classes: int
    bandwidth: float
    step: float
    gradient: float
    modulus: ArrayLike
    boundary: ArrayLike
    noise: float = 1.0
    delta: float = 0.05

    def __post_init__(self) -> None:
        for name in ("n_samples", "n_features", "n_classes", "bandwidth", "step"):
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"`{name}` must be positive, got {getattr(self, name)!r}.")
        for name in ("gradient", "noise"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ValueError(
                    f"`{name}` bounds a size, so it is finite and not negative; got "
                    f"{getattr(self, name)!r}."
                )
        check_delta(self.delta)
        for name in ("modulus", "boundary"):
            found = as_numbers(name, getattr(self, name))
            if found.shape not in ((), (self.n_features,)):
                raise ValueError(
                    f"`{name}` has shape {found.shape}; pass one number, or one for each of the "
                    f"{self.n_features} features."
                )
            values = np.broadcast_to(found, self.n_features)
            if not np.all((values >= 0) & (values < np.inf)):
                raise ValueError(f"`{name}` must be finite and not negative, got {values}.")
            object.__setattr__(self, name, values)


class GradientTerms(NamedTuple):
    """The four terms of the bound on gradients.

    Attributes
    ----------
    smoothing : float
        Noise and bias of the smoother, Lemma 9.
    sampling : float
        Deviation of the share of rows without enough mass, the first half of Lemma 5.
    boundary : float
        Rows near the edge of the support, the second half of Lemma 5.
    modulus : float
        Change of the gradient within a step, Lemma 6.
    """

    smoothing: float
    sampling: float
    boundary: float
    modulus: float

    @property
    def total(self) -> float:
        """Sum of the four."""
        return float(sum(self))


def concentration(constants: Constants, *, reading: str = "stated") -> float:
    r"""Lemma 2 (label lemma:rm): the mean over rows against the expectation, for the true f.

    .. math:: \lVert \mathbb{E}_n G(X) - \mathbb{E}_X G(X) \rVert_2 \le
        \frac{6 R^2}{\sqrt n} \left( \sqrt{\ln d} + \sqrt{\ln(1 / \delta)} \right)

    with probability 1 - delta. It is Lemma 1 with M = R^2 for the norm of G. But R bounds the
    gradient of one class, and G sums c of them: ``reading="proved"`` takes M = c R^2.

    Parameters
    ----------
    constants : Constants
    reading : {"stated", "proved"}, default="stated"

    Returns
    -------
    bound : float
    """
    check_reading(reading)
    k = constants
    M = k.gradient**2 * (1 if reading == "stated" else k.n_classes)
    spread = np.sqrt(np.log(k.n_features)) + np.sqrt(np.log(1 / k.delta))
    return float(6 * M / np.sqrt(k.n_samples) * spread)


def noise_factor(constants: Constants, *, definition: str = "lemma") -> float:
    r"""Lemma 8: A(n), the size of the noise of the smoother.

    .. math:: A(n) = 0.25 \sqrt{C d \ln(c n / \delta)}

    The source defines A(n) three times. Theorem 1 divides this by ln^2(n / delta), Theorems 3 and 4
    drop c and put C_Y^2(delta / 2n) sigma_Y^2 for 0.25. The lemmas derive the form above, and class
    labels have C_Y <= 1 and sigma_Y^2 <= 0.25, so the bounds here use it; it is also the largest.

    Parameters
    ----------
    constants : Constants
    definition : {"lemma", "theorem 1", "theorem 3"}, default="lemma"
        With C_Y = 1 and sigma_Y^2 = 0.25 in the last.

    Returns
    -------
    A : float

    Examples
    --------
    >>> from ejop.theory import Constants, noise_factor
    >>> k = Constants(1000, 2, 3, 0.2, 0.5, 1.0, 0.1, 0.1)
    >>> names = ("lemma", "theorem 1", "theorem 3")
    >>> [round(noise_factor(k, definition=name), 4) for name in names]
    [1.1727, 0.012, 0.0113]
    """
    k = constants
    inside = {"lemma": k.n_classes, "theorem 1": k.n_classes, "theorem 3": 1}
    if definition not in inside:
        raise ValueError(
            f"`definition`={definition!r} is not known; choose one of {', '.join(inside)}."
        )
    many = inside[definition] * k.n_samples / k.delta
    A = 0.25 * np.sqrt(k.noise * k.n_features * np.log(many))
    return float(A if definition == "lemma" else A / np.log(k.n_samples / k.delta) ** 2)


def gradient_terms(constants: Constants, *, reading: str = "stated") -> GradientTerms:
    r"""Theorem 2 (label thm:f): the four terms that bound the error of a gradient.

    .. math:: \mathbb{E}_n \lVert \nabla f_k(X) - \hat\nabla f_{n,h,k}(X) \rVert_2 \le
        \frac{\sqrt d}{t} \sqrt{\frac{A(n)}{n h^d} + h^2 R^2}
        + R \left( \sqrt{\frac{d \ln(d / \delta)}{2n}}
        + \sqrt{\sum_i \mu^2(\partial_{t,i})} \right) + \sqrt{\sum_i \epsilon_{t,i}^2}

    for all classes k, with probability 1 - 2 delta (the lemmas it joins give 1 - 3 delta).
    ``reading="proved"`` mends two steps. In Lemma 9 the square of a sum of noise and bias is at
    most twice the sum of squares, not the sum. In Lemma 5 the mean of the root of a count is at
    most the root of its mean, :math:`\sqrt{\sum_i \mu(\partial_{t,i})}`; the printed
    :math:`\sqrt{\sum_i \mu^2(\partial_{t,i})}` is too small where the boundaries are disjoint.

    Parameters
    ----------
    constants : Constants
    reading : {"stated", "proved"}, default="stated"

    Returns
    -------
    terms : GradientTerms

    Examples
    --------
    >>> from ejop.theory import Constants, gradient_terms
    >>> k = Constants(10**6, 2, 2, 0.1, 0.5, gradient=1.0, modulus=0.3, boundary=0.25)
    >>> gradient_terms(k).boundary < gradient_terms(k, reading="proved").boundary
    True
    """
    check_reading(reading)
    stated = reading == "stated"
    k, d, R = constants, constants.n_features, constants.gradient
    mu, eps = np.asarray(k.boundary), np.asarray(k.modulus)
    smoothing = np.sqrt(d * _smoothing_square(k) * (1 if stated else 2)) / k.step
    sampling = R * np.sqrt(d * np.log(d / k.delta) / (2 * k.n_samples))
    boundary = R * np.sqrt((mu**2).sum() if stated else min(mu.sum(), d))
    terms = (smoothing, sampling, boundary, np.sqrt((eps**2).sum()))
    return GradientTerms(*map(float, terms))


def gradient_bound(constants: Constants, *, reading: str = "stated") -> float:
    """Theorem 2 (label thm:f): the sum of :func:`gradient_terms`.

    Parameters
    ----------
    constants : Constants
    reading : {"stated", "proved"}, default="stated"

    Returns
    -------
    bound : float
    """
    return gradient_terms(constants, reading=reading).total


def sum_bound(constants: Constants) -> float:
    r"""Lemma 4: the largest sum of true and estimated gradient.

    .. math:: \max_X \lVert \nabla f_k(X) + \hat\nabla f_{n,h,k}(X) \rVert_2 \le
        3R + \sqrt{\sum_i \epsilon_{t,i}^2} + \sqrt d\, \frac{h R + 1}{t}

    The source says "for all c in [k]"; k is the class here. The 1 bounds the noise of class labels:
    it is C_Y of Theorems 3 to 5.

    Parameters
    ----------
    constants : Constants

    Returns
    -------
    bound : float
    """
    k, R = constants, constants.gradient
    crude = np.sqrt(k.n_features) * (k.bandwidth * R + 1) / k.step
    return float(3 * R + np.linalg.norm(np.asarray(k.modulus)) + crude)


def main_bound(constants: Constants, *, reading: str = "stated") -> float:
    r"""Theorem 1 (label thm:main): the estimate against the truth, in spectral norm.

    .. math:: \lVert \mathbb{E}_n \hat G(X) - \mathbb{E}_X G(X) \rVert_2 \le
        \frac{6 R^2}{\sqrt n} \left( \sqrt{\ln d} + \sqrt{\ln(1 / \delta)} \right)
        + c \left( 3R + \sqrt{\sum_i \epsilon_{t,i}^2} + \sqrt d\, \frac{h R + 1}{t} \right)
        \left[ \text{the four terms of Theorem 2} \right]

    that is :func:`concentration` plus c times :func:`sum_bound` times :func:`gradient_bound`
    (Lemma 3). As printed it does not vanish: the boundary and the modulus are of order t and stand
    beside the factor 1/t. ``reading="proved"`` replaces the product of Lemma 3 by

    .. math:: c \left( 2R\, \mathbb{E}_n \lVert \delta \rVert
        + \mathbb{E}_n \lVert \delta \rVert^2 \right),

    with delta the error of the gradient, since true and estimated gradient add up to
    2R + \|delta\| at the most, and it vanishes whenever the four terms do.

    Parameters
    ----------
    constants : Constants
    reading : {"stated", "proved"}, default="stated"

    Returns
    -------
    bound : float
    """
    k, first = constants, concentration(constants, reading=reading)
    error = gradient_bound(k, reading=reading)
    if reading == "stated":
        return first + k.n_classes * sum_bound(k) * error
    return first + k.n_classes * (2 * k.gradient * error + _second_moment(k))


def _smoothing_square(k: Constants) -> float:
    """A(n) / (n h^d) + h^2 R^2, the noise and bias of the smoother."""
    cell = k.n_samples * k.bandwidth**k.n_features
    return noise_factor(k) / cell + (k.bandwidth * k.gradient) ** 2


def _second_moment(k: Constants) -> float:
    """Bound on E_n |delta|^2: three times the sum of those of the three parts of delta."""
    smoothing = 2 * k.n_features * _smoothing_square(k) / k.step**2
    share = min(float(np.sum(k.boundary)), 1) + np.sqrt(np.log(1 / k.delta) / (2 * k.n_samples))
    modulus = float((np.asarray(k.modulus) ** 2).sum())
    return float(3 * (smoothing + k.gradient**2 * share + modulus))


def eigenvalue_bound(constants: Constants, *, reading: str = "stated") -> float:
    r"""Theorem 3: the largest error of an eigenvalue.

    .. math:: \max_i |\lambda_i - \hat\lambda_i| \le \text{the bound of Theorem 1}

    By Weyl's inequality (:func:`ejop.theory.weyl`) it is :func:`main_bound`. The source prints it
    without the factor c and with C_Y(delta) for 1, as for one real target. The proof cites Theorem
    1, so its factor c belongs here too; class labels have C_Y <= 1.

    Parameters
    ----------
    constants : Constants
    reading : {"stated", "proved"}, default="stated"
        Of Theorem 1.

    Returns
    -------
    bound : float
    """
    return main_bound(constants, reading=reading)


def sin_theta_bound(
    constants: Constants,
    eigenvalues: ArrayLike,
    rank: int,
    *,
    reading: str = "stated",
    estimated: ArrayLike | None = None,
) -> float:
    r"""Theorem 4 (label eigenspace): the turn of the leading eigenspace.

    .. math:: \lVert \sin \Theta(X_1, \hat X_1) \rVert_2 \le
        \frac{\lVert X_1 \rVert_2}{\min |\lambda - \hat\lambda|}\,
        (\text{the bound of Theorem 1})

    The norm of X_1 is 1. The gap runs to the eigenvalues of the estimate that are left out (see
    :func:`ejop.theory.davis_kahan`). Without these, they are at most the true ones plus the bound,
    and twice the bound over the true gap is what follows (``reading="proved"``); ``"stated"`` is
    the bound over the true gap.

    Parameters
    ----------
    constants : Constants
    eigenvalues : array-like of shape (n_features,)
        Of the true matrix, largest first.
    rank : int
    reading : {"stated", "proved"}, default="stated"
    estimated : array-like of shape (n_features,), optional
        Eigenvalues of the estimate, largest first, for the gap as the lemma means it.

    Returns
    -------
    bound : float
        Infinite where there is no gap. A sine is at most 1 in any case.
    """
    values: NDArray = check_spectrum("eigenvalues", eigenvalues)
    if not 1 <= rank < len(values):
        raise ValueError(f"`rank`={rank} must lie between 1 and {len(values) - 1}.")
    left_out = values if estimated is None else check_spectrum("estimated", estimated)
    if len(left_out) != len(values):
        raise ValueError(
            f"`estimated` has {len(left_out)} eigenvalues and `eigenvalues` {len(values)}."
        )
    gap = values[rank - 1] - left_out[rank]
    double = reading == "proved" and estimated is None
    bound = main_bound(constants, reading=reading) * (2 if double else 1)
    return float(bound / gap) if gap > 0 else np.inf


def check_spectrum(name: str, values: ArrayLike) -> NDArray:
    """Eigenvalues, finite and largest first."""
    found = as_numbers(name, values)
    if found.ndim != 1 or not np.isfinite(found).all() or (np.diff(found) > 0).any():
        raise ValueError(f"`{name}` must be finite eigenvalues, largest first; got {found}.")
    return found


def recovery_bounds(
    constants: Constants, smallest: float, *, reading: str = "stated"
) -> tuple[float, float]:
    r"""Theorem 5: recovery of V where f(x) = g(V^T x).

    .. math:: \lVert \sin \Theta(V, \tilde V) \rVert_2 \le \frac{1}{\lambda_{\min}}
        (\text{the bound of Theorem 1}), \qquad
        \max_{i \in [d - r]} |\lambda_i| \le \text{the bound of Theorem 1}

    where lambda_min is the smallest eigenvalue of E[grad g grad g^T] and the second speaks of the
    d - r lowest eigenvalues of the estimate. The source closes a bracket too early, so that
    1 / lambda_min stands before the first term alone; Theorem 4 gives it before all. It leaves c
    out, being about one target. The lowest eigenvalues of the truth are zero (Proposition 1).

    Parameters
    ----------
    constants : Constants
    smallest : float
        lambda_min.
    reading : {"stated", "proved"}, default="stated"
        "proved" doubles the first bound, see :func:`sin_theta_bound`.

    Returns
    -------
    sin_theta, null_eigenvalue : float
    """
    if not 0 < smallest < np.inf:
        raise ValueError(
            f"`smallest` must be positive, got {smallest!r}: the theorem needs E[grad g grad g^T] "
            "to be nonsingular."
        )
    spectrum = [smallest, 0.0]
    bound = sin_theta_bound(constants, spectrum, 1, reading=reading)
    return bound, eigenvalue_bound(constants, reading=reading)
