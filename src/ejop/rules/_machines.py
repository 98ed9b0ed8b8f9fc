"""Kernel machines in closed form: bandwidth and penalty, rounds, and honest predictions.

A machine is kernel ridge on prepared rows under a map. Its bandwidth and penalty are those of the
smallest closed-form leave-one-out error. A round takes the outer product of its derivatives at the
training rows; the root of that is the next map. After a round the map has seen every label, so a
machine of round 1 is judged by folds whose map was learned without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

from ejop.arrays import diagonal_of
from ejop.functions import centers_of, mapped
from ejop.metric import eigh_descending
from ejop.sums.engine import HOST, Engine
from ejop.sums.ridge import FLOAT64, Centers

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
MAP_ROWS = 400
#: rows whose derivatives are taken at once, where memory is that of a processor or of a device
BLOCK, DEVICE_BLOCK = 128, 1024
#: twice so many outputs and more are mixed at random into as many for each block
MAP_OUTPUTS = 8


@dataclass(frozen=True)
class Regression:
    """Rows of one preparation with centred targets, on an engine.

    Attributes
    ----------
    X : array of shape (n, d)
    R : array of shape (n, c)
        Targets less their mean.
    w : array of shape (n,) or None
        Weights, one on average.
    engine : Engine
    """

    X: Any
    R: Any
    w: Any = None
    engine: Engine = HOST

    def __len__(self) -> int:
        return len(self.X)

    def rows(self, part: NDArray) -> Regression:
        """Some of the rows."""
        i = self.engine.index(part)
        return replace(self, X=self.X[i], R=self.R[i], w=None if self.w is None else self.w[i])

    def under(self, L: Any) -> Regression:
        """The rows under a map."""
        return replace(self, X=mapped(self.X, L))

    @property
    def roots(self) -> Any:
        """Square roots of the weights, a column; None for equal ones."""
        return None if self.w is None else self.w[:, None] ** 0.5

    def loss(self, residual: Any) -> float:
        """Mean over rows of the squared residual."""
        return self.mean((residual**2).sum(1))

    def mean(self, losses: Any) -> float:
        """Mean over rows."""
        if self.w is not None:
            losses = losses * self.w / self.w.mean()
        return float(losses.mean())

    def distances(self, kernel: str) -> tuple[Centers, Any]:
        """Centres on the rows, and the distances between them."""
        centers = centers_of(kernel, self.X, 1.0, self.engine)
        D = centers.distances(self.X)
        diagonal_of(D)[:] = 0
        return centers, D

    def factor(self, K: Any, penalty: float) -> Any:
        """Lower Cholesky factor of S K S + penalty I; K is overwritten."""
        S = self.roots
        if S is not None:
            K *= S
            K *= S.T
        diagonal_of(K)[:] += penalty
        try:
            return self.engine.cholesky(K)
        except np.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError(
                f"a kernel matrix of {len(K)} rows is not positive definite at penalty {penalty:g}."
            ) from error

    def solution(self, L: Any) -> Any:
        """Coefficients S (S K S + penalty I)^-1 S R from the factor."""
        S = self.roots
        if S is None:
            return self.engine.solve(L, self.R)
        return S * self.engine.solve(L, S * self.R)

    def left_out(self, L: Any, a: Any) -> Any:
        """Residuals of each row when it is left out: a_i / B_ii, B = S (S K S + penalty I)^-1 S.

        The factor is overwritten.
        """
        diagonal, S = self.engine.inverse_diagonal(L)[:, None], self.roots
        return a / (diagonal if S is None else diagonal * S**2)


def matrix(centers: Centers, D: Any, h: float, *, keep: bool = True) -> Any:
    """Kernel matrix at distances, which it overwrites unless they are to be kept."""
    return replace(centers, h=h).kernel_at(D + 0 if keep else D)


class Choice(NamedTuple):
    """The best bandwidth and penalty of a grid, their places in it, and each row's loss."""

    losses: Any
    h: float
    penalty: float
    place: tuple[int, int]


def choose(problem: Regression, kernel: str, near: tuple[int, int] | None = None) -> Choice:
    """Bandwidth and penalty of the smallest leave-one-out error over a grid.

    Widths are compared at one penalty first; then the search goes downhill from the best, one step
    of width or penalty at a time. With a place to begin ``near`` it goes downhill from there.
    """
    centers, D = problem.distances(kernel)
    host = problem.engine.to_host(D)
    unit = float(np.median(host[np.triu_indices(len(host), 1)])) if len(host) > 1 else 1.0
    unit = unit if centers.linear else np.sqrt(unit)
    unit = unit if unit > 0 else 1.0
    widths = WIDTHS[kernel]
    tried: dict[tuple[int, int], Any] = {}

    def loss(place: tuple[int, int]) -> float:
        if place not in tried:
            i, j = place
            try:
                L = problem.factor(matrix(centers, D, unit * widths[i]), PENALTIES[j])
            except np.linalg.LinAlgError:
                tried[place] = problem.engine.array(np.full(len(problem), np.inf))
                return np.inf
            tried[place] = (problem.left_out(L, problem.solution(L)) ** 2).sum(1)
        return problem.mean(tried[place])

    best = near or min(((i, FIRST) for i in range(len(widths))), key=loss)
    while True:
        i, j = best
        around = [(i, j - 1), (i, j + 1), (i - 1, j), (i + 1, j)]
        inside = [(a, b) for a, b in around if 0 <= a < len(widths) and 0 <= b < len(PENALTIES)]
        step = min(inside, key=loss)
        if not loss(step) < loss(best):
            break
        best = step
    if not np.isfinite(loss(best)):
        raise np.linalg.LinAlgError(f"no bandwidth and penalty of the {kernel} kernel will do.")
    return Choice(tried[best], unit * widths[best[0]], PENALTIES[best[1]], best)


def outer_product(
    problem: Regression,
    kernel: str,
    h: float,
    a: Any,
    rng: np.random.Generator,
    most: int = MAP_ROWS,
) -> NDArray:
    """Mean of J J^T over training rows, ``most`` of them at the most, (d, d)."""
    engine, n = problem.engine, len(problem)
    rows = np.arange(n) if n <= most else rng.choice(n, most, replace=False)
    a = _fewer_outputs(engine, a)
    c = a.shape[1]
    centers = centers_of(kernel, problem.X, h, engine)
    mixed = c >= 2 * MAP_OUTPUTS
    moments = None if mixed else centers.moments(a)
    total = np.zeros((problem.X.shape[1],) * 2)
    size = DEVICE_BLOCK if engine.on_device else BLOCK
    for part in np.array_split(rows, -(-len(rows) // size)):
        b = a
        if mixed:  # E[s s^T] = I: the same mean, in less time
            signs = rng.choice([-1.0, 1.0], size=(c, MAP_OUTPUTS)) / np.sqrt(MAP_OUTPUTS)
            b = a @ engine.array(signs, FLOAT64)
            moments = centers.moments(b)
        of = problem.rows(part)
        J = centers.derivatives(of.X, b, None, moments)[:, :, :-1]
        if of.w is not None:
            J = J * of.roots
        flat = J.reshape(-1, J.shape[2])
        total += engine.to_host(flat.T @ flat)
    return total / len(rows)


def _fewer_outputs(engine: Engine, a: Any) -> Any:
    """Coefficients of outputs that sum to nothing, as those of classes do, in one output fewer.

    The new outputs are orthonormal combinations, so that the outer product is the same.
    """
    c = a.shape[1]
    if c == 1 or float(abs(a.sum(1)).max()) > 1e-9 * float(abs(a).max()):
        return a
    return a @ engine.array(helmert(c).T, FLOAT64)


def root(engine: Engine, M: NDArray, diagonal: bool) -> Any:
    """Root of an outer product, scaled to trace d: weights of columns (d,), or a map (d, d).

    None where every derivative is zero, so that no direction is preferred.
    """
    d = len(M)
    total = np.trace(M)
    if not total > 0:
        return None
    if diagonal:
        return engine.array(np.sqrt(np.diag(M) * (d / total)), FLOAT64)
    values, vectors = eigh_descending(M * (d / total), engine.eigh)
    return engine.array(np.sqrt(values)[:, None] * vectors.T, FLOAT64)


@dataclass(frozen=True)
class Candidate:
    """A kind of machine with what it was found to be worth.

    Attributes
    ----------
    kernel : str
    diagonal : bool
    round : int
    settings : tuple of Choice
        Of round 0 and, where there is one, of round 1.
    honest : ndarray of shape (n, c)
        Predictions of each row by machines that have not seen it, less the mean target.
    loss : float
        Mean squared error of these.
    L : array or None
        The map that all rows make.
    """

    kernel: str
    diagonal: bool
    round: int
    settings: tuple[Choice, ...]
    honest: NDArray
    loss: float
    L: Any = None

    @property
    def kind(self) -> tuple[str, bool, int]:
        """What it is."""
        return self.kernel, self.diagonal, self.round


@dataclass(frozen=True)
class Known:
    """What a smaller sample has found for one kernel.

    Attributes
    ----------
    first : Choice
        Of round 0.
    later : dict
        Places in the grid of round 1, by whether its map is diagonal.
    """

    first: Choice
    later: dict[bool, tuple[int, int]] = field(default_factory=dict)


def judged(
    problem: Regression,
    kernel: str,
    wanted: Callable[[bool, int], bool],
    fold: NDArray,
    sample: NDArray,
    known: Known | None,
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
    known : Known, optional
        Round 0 is chosen where nothing is known; round 1 near what is.
    rng : numpy.random.Generator
    """
    engine = problem.engine
    if known is None:
        known = Known(choose(problem.rows(sample), kernel))
    first = known.first
    diagonals = [diagonal for diagonal in MAPS[kernel] if wanted(diagonal, 1)]
    alone, M = _round_zero(problem, kernel, first, rng, residuals=wanted(MAPS[kernel][0], 0))
    if alone is not None:
        loss, found = problem.loss(alone), engine.to_host(problem.R - alone)
        yield Candidate(kernel, MAPS[kernel][0], 0, (first,), found, loss)
    if not diagonals:
        return
    maps = {diagonal: root(engine, M, diagonal) for diagonal in diagonals}
    later = {
        diagonal: choose(
            problem.rows(sample).under(L), kernel, known.later.get(diagonal, first.place)
        )
        for diagonal, L in maps.items()
        if L is not None
    }
    honest = {diagonal: engine.empty(problem.R.shape, FLOAT64) for diagonal in later}
    for k in range(int(fold.max()) + 1 if later else 0):
        seen = problem.rows(np.flatnonzero(fold != k))
        held = engine.index(np.flatnonzero(fold == k))
        _, part = _round_zero(seen, kernel, first, rng)
        for diagonal, second in later.items():
            L = root(engine, part, diagonal)  # None where nothing changes: the rows as they are
            answer = solved(seen.under(L), kernel, second.h, second.penalty)
            honest[diagonal][held] = answer(mapped(problem.X[held], L))
    for diagonal, second in later.items():
        loss = problem.loss(honest[diagonal] - problem.R)
        found = engine.to_host(honest[diagonal])
        yield Candidate(kernel, diagonal, 1, (first, second), found, loss, maps[diagonal])


def _round_zero(
    problem: Regression,
    kernel: str,
    setting: Choice,
    rng: np.random.Generator,
    *,
    residuals: bool = False,
) -> tuple[Any, NDArray]:
    """Leave-one-out residuals of a machine without a map if asked, and its outer product."""
    centers, D = problem.distances(kernel)
    L = problem.factor(matrix(centers, D, setting.h, keep=False), setting.penalty)
    a = problem.solution(L)
    M = outer_product(problem, kernel, setting.h, a, rng)
    return (problem.left_out(L, a) if residuals else None), M


def coefficients(problem: Regression, kernel: str, h: float, penalty: float) -> Any:
    """Coefficients of a machine on mapped rows, (n, c)."""
    centers, D = problem.distances(kernel)
    return problem.solution(problem.factor(matrix(centers, D, h, keep=False), penalty))


def learned_map(
    problem: Regression,
    kernel: str,
    setting: tuple[float, float],
    diagonal: bool,
    rng: np.random.Generator,
) -> Any:
    """The map that the derivatives of a machine without one make."""
    h, penalty = setting
    a = coefficients(problem, kernel, h, penalty)
    return root(problem.engine, outer_product(problem, kernel, h, a, rng), diagonal)


def solved(problem: Regression, kernel: str, h: float, penalty: float) -> Callable[[Any], Any]:
    """A machine as a function of mapped rows."""
    a = coefficients(problem, kernel, h, penalty)
    return partial(_answer, centers_of(kernel, problem.X, h, problem.engine), a)


def _answer(centers: Centers, a: Any, Z: Any) -> Any:
    return centers.kernel(Z) @ a
