"""Cutting planes for a convex loss of a PSD matrix with a price on its trace.

.. math:: \\min_{W \\succeq 0} F(W) = p \\, tr(W) + R(W), \\quad R(W) = \\max_t \\Delta_t -
    \\langle W, \\Psi_t \\rangle

R has more pieces than can be listed; an oracle gives the one that is largest at W. Plain cutting
planes leap to matrices of low rank far away while few pieces are known. Here each step pays rho/2
|W - W_c|^2 for leaving the best W_c so far (a proximal bundle), so that the way from the start is
gradual, and a stop on the way means something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from ejop.learners._mlr_loops import maximize_on_simplex

#: pieces kept at the most, and rounds without a multiplier after which one is dropped
MAX_PLANES, MAX_IDLE = 64, 15
#: share of the predicted decrease that a step must achieve, and from which the next may be longer
ENOUGH, GOOD = 0.1, 0.5
#: alternations of multipliers and projection in a step, and the share of its decrease left open
MAX_ALTERNATIONS, INEXACT = 20, 0.1
#: tries on the ray of multiples of the start
MAX_TRIES = 12
#: the gap is over matrices of trace up to this multiple of the largest tried
REACH = 10.0

#: from W (d, d) to the piece that is largest there: Psi (d, d) and Delta
Oracle = Callable[[NDArray], tuple[NDArray, float]]


@dataclass(frozen=True)
class Round:
    """State after a round: the best W so far, F and R there, a bound on what is left, news or not.

    ``gap`` bounds F(W) - F(W') for every PSD W' of trace up to ``REACH`` times the largest tried,
    or up to F / p, beyond which the trace alone costs more than W does.
    """

    W: NDArray
    value: float
    risk: float
    gap: float
    moved: bool


class Planes:
    """Pieces Delta - <W, Psi> found so far, with their multipliers.

    The first is 0, as a risk is never negative; the multipliers sum to 1.
    """

    def __init__(self, d: int) -> None:
        self.d = d
        self.Psi = np.zeros((1, d * d))
        self.delta, self.alpha, self.gram = np.zeros(1), np.ones(1), np.zeros((1, 1))
        self.idle = np.zeros(1, dtype=int)

    def add(self, Psi: NDArray, delta: float) -> None:
        """Add one, once those idle for long have gone."""
        self.idle = np.where(self.alpha > 0, 0, self.idle + 1)
        self.idle[0] = 0
        kept = self.idle <= MAX_IDLE
        if kept.sum() >= MAX_PLANES and self.idle[kept].max() > 0:
            kept &= self.idle < self.idle[kept].max()
        self.Psi = np.vstack([self.Psi[kept], Psi.ravel()])
        cross = self.Psi @ Psi.ravel()
        self.gram = np.block([[self.gram[np.ix_(kept, kept)], cross[:-1, None]], [cross]])
        self.delta = np.append(self.delta[kept], delta)
        self.alpha, self.idle = np.append(self.alpha[kept], 0.0), np.append(self.idle[kept], 0)

    def at(self, W: NDArray) -> NDArray:
        """Value of each piece at W; the largest is the model of R."""
        return self.delta - self.Psi @ W.ravel()

    def mixture(self) -> NDArray:
        """Sum of alpha_t Psi_t."""
        return (self.alpha @ self.Psi).reshape(self.d, self.d)


def nearest_psd(A: NDArray) -> NDArray:
    """Projection of a symmetric matrix on the PSD cone."""
    values, vectors = np.linalg.eigh(A)
    V = vectors[:, values > 0]
    return (V * values[values > 0]) @ V.T


def proximal_step(
    planes: Planes, center: NDArray, price: float, rho: float, value: float
) -> tuple[NDArray, float]:
    """W that minimises the model of F plus rho/2 |W - center|^2 over PSD W; the model's F there.

    Block ascent on the dual: given multipliers alpha, W is the projection of center +
    (sum_t alpha_t Psi_t - p I) / rho; given what the projection added, alpha is a QP on the
    simplex. Leaves alpha in ``planes``. Solved to a tenth of the decrease it finds below
    ``value``, F at the centre.
    """
    cost = price * np.eye(planes.d)
    G = planes.gram / rho
    for _ in range(MAX_ALTERNATIONS):
        W = nearest_psd(center + (planes.mixture() - cost) / rho)
        pieces = planes.at(W)
        model = price * np.trace(W) + pieces.max()
        inner_gap = pieces.max() - planes.alpha @ pieces
        decrease = value - model - rho / 2 * np.sum((W - center) ** 2)
        if inner_gap <= max(INEXACT * decrease, 1e-12 * value):
            break
        maximize_on_simplex(G, pieces + G @ planes.alpha, planes.alpha, 1e-3 * inner_gap, 2000)
    return W, float(model)


class LowerBound:
    """Lower bounds on F from multipliers: F(W) >= alpha.Delta + <p I - sum alpha_t Psi_t, W>.

    Over PSD W of trace at most tau this is at least alpha.Delta + tau min(0, p - lambda_max).
    """

    def __init__(self, price: float) -> None:
        self.price = price
        self.levels: list[float] = []
        self.deficits: list[float] = []

    def add(self, planes: Planes) -> None:
        """Take in the present multipliers, as they are and scaled until nothing is lacking."""
        M, last = planes.mixture(), planes.d - 1
        top = float(eigh(M, eigvals_only=True, subset_by_index=[last, last])[0])
        level = float(planes.alpha @ planes.delta)
        shrink = 1.0 if top <= self.price else self.price / top
        self.levels += [level, shrink * level]
        self.deficits += [min(0.0, self.price - top), 0.0]

    def over(self, trace: float) -> float:
        """Best bound over PSD matrices of at most this trace."""
        return float(np.max(np.array(self.levels) + trace * np.array(self.deficits)))


def best_multiple(oracle: Oracle, planes: Planes, price: float, tol: float) -> float:
    """The s >= 0 that minimises F(s I), by cutting planes on this ray; its pieces are kept."""
    eye = np.eye(planes.d)
    levels, slopes, tried = [0.0], [0.0], []
    s = 0.0
    for _ in range(MAX_TRIES):
        Psi, delta = oracle(s * eye)
        planes.add(Psi, delta)
        levels.append(delta)
        slopes.append(float(np.trace(Psi)))
        tried.append((price * planes.d * s + delta - s * slopes[-1], s))
        a, b = np.array(levels), np.array(slopes)
        rises = b[:, None] - b
        crossings = (a[:, None] - a)[rises != 0] / rises[rises != 0]
        candidates = np.append(crossings[crossings > 0], 0.0)
        models = price * planes.d * candidates + (a[:, None] - b[:, None] * candidates).max(0)
        s = float(candidates[models.argmin()])
        if min(tried)[0] - models.min() <= tol:
            break
    return min(tried)[1]


def cutting_planes(
    oracle: Oracle, d: int, price: float, *, max_iter: int, tol: float
) -> Iterator[Round]:
    """Rounds from the best multiple of the identity until the gap is at most ``tol``.

    Parameters
    ----------
    oracle : callable
        Largest piece of R at W; R lies in [0, 1], so that ``tol`` is absolute.
    price : float
        Of a unit of trace.
    """
    planes, bound = Planes(d), LowerBound(price)
    s = best_multiple(oracle, planes, price, tol)
    center = (s or 0.5 / d) * np.eye(d)  # 0 has no neighbours to judge by; this is a small step off

    def evaluate(W: NDArray) -> float:
        Psi, delta = oracle(W)
        planes.add(Psi, delta)
        return float(delta - np.sum(W * Psi))

    risk = evaluate(center)
    value = price * np.trace(center) + risk
    rho = 1 / np.sum(center**2)
    least, nulls, largest = 1e-9 * rho, 0, np.trace(center)
    for _ in range(max_iter):
        W, model = proximal_step(planes, center, price, rho, value)
        bound.add(planes)
        new_risk = evaluate(W)
        gain, predicted = value - (price * np.trace(W) + new_risk), value - model
        moved = gain > 0 and gain >= ENOUGH * predicted
        if moved:
            center, risk, value, nulls = W, new_risk, value - gain, 0
            rho = max(rho / 2, least) if gain >= GOOD * predicted else rho
        else:
            nulls += 1
            rho = 2 * rho if nulls % 3 == 0 else rho
        largest = max(largest, np.trace(W))
        gap = value - bound.over(min(value / price, REACH * largest))
        yield Round(center, value, risk, max(gap, 0.0), moved)
        if gap <= tol:
            return
