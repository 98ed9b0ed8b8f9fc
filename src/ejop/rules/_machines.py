"""Kernel machines in closed form: bandwidth and penalty, rounds, and honest predictions.

A machine is kernel ridge on prepared rows under a map. Its bandwidth and penalty are those of the
smallest closed-form leave-one-out error. A round takes the outer product of its derivatives at the
training rows; the root of that is the next map. After a round the map has seen every label, so a
machine of round 1 is judged by folds whose map was learned without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from ejop.executors.threads import pools_free
from ejop.functions import centers_of, mapped
from ejop.metric import eigh_descending
from ejop.sums.ridge import Centers

#: bandwidths tried, as multiples of the median distance, and penalties
WIDTHS = {
    "gaussian": (0.125, 0.25, 0.5, 1.0, 2.0),
    "laplace": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    "l1": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
}
PENALTIES = tuple(10.0**k for k in range(-5, 1))
#: penalty at which widths are compared first
FIRST = 3
#: maps that a kernel learns: full, or a weight a column
MAPS = {"gaussian": (False, True), "laplace": (False, True), "l1": (True,)}
FOLDS = 4
#: rows whose derivatives make a map, at the most
MAP_ROWS = 800
#: outputs whose derivatives are taken one by one; more are mixed at random into as many
MAP_OUTPUTS = 32


@dataclass(frozen=True)
class Regression:
    """Rows of one preparation with centred targets.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    R : ndarray of shape (n, c)
        Targets less their mean.
    w : ndarray of shape (n,) or None
        Weights, one on average.
    """

    X: NDArray
    R: NDArray
    w: NDArray | None = None

    def __len__(self) -> int:
        return len(self.X)

    def rows(self, part: NDArray) -> Regression:
        """Some of the rows."""
        return Regression(self.X[part], self.R[part], None if self.w is None else self.w[part])

    def under(self, L: NDArray | None) -> Regression:
        """The rows under a map."""
        return replace(self, X=mapped(self.X, L))

    @property
    def roots(self) -> NDArray | None:
        """Square roots of the weights, a column."""
        return None if self.w is None else np.sqrt(self.w)[:, None]

    def loss(self, residual: NDArray) -> float:
        """Mean over rows of the squared residual."""
        return float(np.average((residual**2).sum(1), weights=self.w))


def factor(K: NDArray, penalty: float, S: NDArray | None) -> NDArray:
    """Lower Cholesky factor, in Fortran order, of S K S + penalty I; K is overwritten."""
    if S is not None:
        K *= S
        K *= S.T
    K.flat[:: len(K) + 1] += penalty
    with pools_free(len(K) ** 3):
        L, info = lapack.dpotrf(K.T, lower=1, clean=0, overwrite_a=1)
    if info:
        raise np.linalg.LinAlgError(
            f"a kernel matrix of {len(K)} rows is not positive definite at penalty {penalty:g}."
        )
    return L


def solution(L: NDArray, R: NDArray, S: NDArray | None) -> NDArray:
    """Coefficients S (S K S + penalty I)^-1 S R from the factor."""
    right = np.asfortranarray(R if S is None else S * R)
    a, _ = lapack.dpotrs(L, right, lower=1, overwrite_b=0)
    return a if S is None else S * a


def left_out(L: NDArray, a: NDArray, S: NDArray | None) -> NDArray:
    """Residuals of each row when it is left out: a_i / B_ii, B = S (S K S + penalty I)^-1 S.

    The factor is overwritten by its inverse, whose columns have the diagonal of B as squared norms.
    """
    with pools_free(len(L) ** 3):
        inverse, _ = lapack.dtrtri(L, lower=1, overwrite_c=1)
    diagonal = np.einsum("ij,ij->j", np.tril(inverse), np.tril(inverse))[:, None]
    return a / (diagonal if S is None else diagonal * S**2)


def matrix(centers: Centers, D: NDArray, h: float) -> NDArray:
    """Kernel matrix at distances that are kept."""
    return replace(centers, h=h).kernel_at(D.copy())


def own_distances(kernel: str, X: NDArray) -> tuple[Centers, NDArray]:
    """Centres on rows, and the distances between them."""
    centers = centers_of(kernel, X, 1.0)
    D = centers.distances(X)
    D.flat[:: len(D) + 1] = 0
    return centers, D


def choose(problem: Regression, kernel: str) -> tuple[float, float, float]:
    """Loss, bandwidth and penalty of the smallest leave-one-out error over a grid.

    Widths are compared at one penalty first; then the search goes downhill from the best, one step
    of width or penalty at a time.
    """
    centers, D = own_distances(kernel, problem.X)
    unit = float(np.median(D[np.triu_indices(len(D), 1)])) if len(D) > 1 else 1.0
    unit = unit if centers.linear else np.sqrt(unit)
    unit = unit if unit > 0 else 1.0
    widths, S = WIDTHS[kernel], problem.roots
    tried: dict[tuple[int, int], float] = {}

    def loss(place: tuple[int, int]) -> float:
        if place not in tried:
            i, j = place
            K = matrix(centers, D, unit * widths[i])
            try:
                L = factor(K, PENALTIES[j], S)
            except np.linalg.LinAlgError:
                tried[place] = np.inf
                return np.inf
            residual = left_out(L, solution(L, problem.R, S), S)
            tried[place] = problem.loss(residual)
        return tried[place]

    best = min(((i, FIRST) for i in range(len(widths))), key=loss)
    while True:
        i, j = best
        around = [(i, j - 1), (i, j + 1), (i - 1, j), (i + 1, j)]
        inside = [(a, b) for a, b in around if 0 <= a < len(widths) and 0 <= b < len(PENALTIES)]
        step = min(inside, key=loss)
        if not loss(step) < loss(best):
            break
        best = step
    if not np.isfinite(tried[best]):
        raise np.linalg.LinAlgError(f"no bandwidth and penalty of the {kernel} kernel will do.")
    return tried[best], unit * widths[best[0]], PENALTIES[best[1]]


def outer_product(
    problem: Regression, kernel: str, h: float, a: NDArray, rng: np.random.Generator
) -> NDArray:
    """Mean of J J^T over training rows, (d, d)."""
    n, c = a.shape
    rows = np.arange(n) if n <= MAP_ROWS else rng.choice(n, MAP_ROWS, replace=False)
    if c > MAP_OUTPUTS:
        signs = rng.choice([-1.0, 1.0], size=(c, MAP_OUTPUTS))
        a = a @ signs / np.sqrt(MAP_OUTPUTS)
    centers = centers_of(kernel, problem.X, h)
    total = np.zeros((problem.X.shape[1],) * 2)
    for part in np.array_split(rows, -(-len(rows) // 128)):
        J = centers.derivatives(problem.X[part], a, None)[:, :, :-1]
        if problem.w is not None:
            J = J * np.sqrt(problem.w[part])[:, None]
        flat = J.reshape(-1, J.shape[2])
        total += flat.T @ flat
    return total / len(rows)


def root(M: NDArray, diagonal: bool) -> NDArray | None:
    """Root of an outer product, scaled to trace d: weights of columns (d,), or a map (d, d).

    None where every derivative is zero, so that no direction is preferred.
    """
    d = len(M)
    total = np.trace(M)
    if not total > 0:
        return None
    if diagonal:
        return np.sqrt(np.diag(M) * (d / total))
    values, vectors = eigh_descending(M * (d / total))
    return np.sqrt(values)[:, None] * vectors.T


@dataclass(frozen=True)
class Candidate:
    """A kind of machine with what it was found to be worth.

    Attributes
    ----------
    kernel : str
    diagonal : bool
    round : int
    settings : tuple of (bandwidth, penalty)
        Of round 0 and, where there is one, of round 1.
    honest : ndarray of shape (n, c)
        Predictions of each row by machines that have not seen it, less the mean target.
    loss : float
        Mean squared error of these.
    L : ndarray or None
        The map that all rows make.
    """

    kernel: str
    diagonal: bool
    round: int
    settings: tuple[tuple[float, float], ...]
    honest: NDArray
    loss: float
    L: NDArray | None = None

    @property
    def kind(self) -> tuple[str, bool, int]:
        """What it is."""
        return self.kernel, self.diagonal, self.round


def judged(
    problem: Regression,
    kernel: str,
    wanted: Callable[[bool, int], bool],
    fold: NDArray,
    sample: NDArray,
    start: tuple[float, float] | None,
    rng: np.random.Generator,
) -> Iterator[Candidate]:
    """Candidates of one kernel with honest predictions of all rows.

    Parameters
    ----------
    problem : Regression
    kernel : str
    wanted : callable
        Which candidates, by (diagonal, round).
    fold : ndarray of shape (n,)
        Fold of each row.
    sample : ndarray
        Rows that choose bandwidths and penalties.
    start : tuple of (bandwidth, penalty), optional
        Of round 0; chosen where not given.
    rng : numpy.random.Generator
    """
    if start is None:
        start = choose(problem.rows(sample), kernel)[1:]
    diagonals = [diagonal for diagonal in MAPS[kernel] if wanted(diagonal, 1)]
    alone, M = _round_zero(problem, kernel, start, rng, residuals=wanted(MAPS[kernel][0], 0))
    if alone is not None:
        loss = problem.loss(alone)
        yield Candidate(kernel, MAPS[kernel][0], 0, (start,), problem.R - alone, loss)
    if not diagonals:
        return
    maps = {diagonal: root(M, diagonal) for diagonal in diagonals}
    later = {
        diagonal: choose(problem.rows(sample).under(L), kernel)[1:]
        for diagonal, L in maps.items()
        if L is not None
    }
    honest = {diagonal: np.zeros_like(problem.R) for diagonal in later}
    for k in range(int(fold.max()) + 1 if later else 0):
        seen, held = problem.rows(np.flatnonzero(fold != k)), np.flatnonzero(fold == k)
        _, part = _round_zero(seen, kernel, start, rng)
        for diagonal, second in later.items():
            L = root(part, diagonal)  # None where nothing changes: the rows as they are
            answer = solved(seen.under(L), kernel, *second)
            honest[diagonal][held] = answer(mapped(problem.X[held], L))
    for diagonal, second in later.items():
        found = honest[diagonal]
        loss = problem.loss(found - problem.R)
        yield Candidate(kernel, diagonal, 1, (start, second), found, loss, maps[diagonal])


def _round_zero(
    problem: Regression,
    kernel: str,
    setting: tuple[float, float],
    rng: np.random.Generator,
    *,
    residuals: bool = False,
) -> tuple[NDArray | None, NDArray]:
    """Leave-one-out residuals of a machine without a map if asked, and its outer product."""
    centers, D = own_distances(kernel, problem.X)
    L = factor(matrix(centers, D, setting[0]), setting[1], problem.roots)
    a = solution(L, problem.R, problem.roots)
    M = outer_product(problem, kernel, setting[0], a, rng)
    return (left_out(L, a, problem.roots) if residuals else None), M


def coefficients(problem: Regression, kernel: str, h: float, penalty: float) -> NDArray:
    """Coefficients of a machine on mapped rows, (n, c)."""
    centers, D = own_distances(kernel, problem.X)
    S = problem.roots
    return solution(factor(matrix(centers, D, h), penalty, S), problem.R, S)


def solved(
    problem: Regression, kernel: str, h: float, penalty: float
) -> Callable[[NDArray], NDArray]:
    """A machine as a function of mapped rows."""
    a, centers = coefficients(problem, kernel, h, penalty), centers_of(kernel, problem.X, h)
    return partial(_answer, centers, a)


def _answer(centers: Centers, a: NDArray, Z: Any) -> NDArray:
    return centers.kernel(Z) @ a
