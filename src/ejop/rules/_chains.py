"""Chains: a kind of machine on a pool of rows, and the maps that its derivatives make in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ejop.arrays import diagonal_of
from ejop.functions import centers_of
from ejop.rules._checkpoint import Arrays
from ejop.rules._machines import PENALTIES, WIDTHS
from ejop.sums.engine import Engine
from ejop.sums.ridge import FLOAT64

#: penalties of the pool: those of all machines, and larger ones
POOL_PENALTIES = (*PENALTIES, 10.0, 100.0)
#: what a checkpoint says of a chain
NUMBERS, ARRAYS = ("width", "h", "penalty", "loss"), ("L", "next", "judged", "a")


@dataclass(frozen=True)
class Chain:
    """A machine on the pool, and the map that it is under.

    Attributes
    ----------
    preparation, kernel : str
    diagonal : bool
    round : int
        Outer products that made the map.
    width : float
        Bandwidth over the median distance of mapped rows.
    h, penalty : float
    L : ndarray or None
    loss : float
        Of the judges.
    next : ndarray or None
        The map that its derivatives make.
    judged : ndarray of shape (n_judges, c) or None
        Predictions of the judges by the machine on the pool.
    a : ndarray of shape (m, c) or None
        Coefficients of the machine on the pool.
    """

    preparation: str
    kernel: str
    diagonal: bool
    round: int
    width: float
    h: float = np.nan
    penalty: float = np.nan
    L: NDArray | None = None
    loss: float = np.inf
    next: NDArray | None = None
    judged: NDArray | None = None
    a: NDArray | None = None

    @property
    def name(self) -> str:
        """For checkpoints."""
        kind = "diagonal" if self.diagonal else "full"
        return f"{self.preparation} {self.kernel} {kind} {self.round}"

    def arrays(self) -> Arrays:
        """What was found, for a checkpoint."""
        found = {key: getattr(self, key) for key in (*NUMBERS, *ARRAYS)}
        return {key: np.asarray(value) for key, value in found.items() if value is not None}

    def found(self, arrays: Arrays) -> Chain:
        """The same chain with what a checkpoint says."""
        numbers = {key: float(arrays[key]) for key in NUMBERS}
        return replace(self, **numbers, **{key: arrays.get(key) for key in ARRAYS})  # type: ignore[arg-type]


def median_distance(kernel: str, Z: NDArray, engine: Engine) -> float:
    """Median of the distances between rows; one where it is zero."""
    centers = centers_of(kernel, engine.precise().array(Z, FLOAT64), 1.0, engine.precise())
    D = engine.to_host(centers.distances(centers.Z))
    found = float(np.median(D[np.triu_indices(len(D), 1)])) if len(D) > 1 else 1.0
    found = found if centers.linear else np.sqrt(found)
    return float(found) if found > 0 else 1.0


class Pooled(NamedTuple):
    """A machine on a pool: loss of the judges, penalty, coefficients, predictions of the judges."""

    loss: float
    penalty: float
    a: NDArray | None
    judged: NDArray | None


def pooled(
    engine: Engine,
    kernel: str,
    Z: NDArray,
    R: NDArray,
    w: NDArray | None,
    places: NDArray,
    h: float,
    J: NDArray,
    judge: Callable[[NDArray], float],
) -> Pooled:
    """The best penalty for centres among a pool of rows.

    All penalties share one matrix product; where the kernel matrix of the centres cannot be
    factorised the loss is infinite.
    """
    engine = engine.precise()
    rows = engine.array(Z, FLOAT64)
    centers = centers_of(kernel, rows[engine.index(places)], h, engine)
    K = centers.kernel(centers.Z)
    diagonal_of(K)[:] += 1e-10 * len(K)
    try:
        half = engine.cholesky(K)
    except np.linalg.LinAlgError:
        return Pooled(np.inf, np.nan, None, None)
    phi = engine.solve(half, centers.kernel(rows).T, half="lower")
    weighted = phi if w is None else phi * engine.array(w, FLOAT64)
    G, b = weighted @ phi.T, weighted @ engine.array(R, FLOAT64)
    asked = centers.kernel(engine.array(J, FLOAT64))
    best = Pooled(np.inf, np.nan, None, None)
    for penalty in POOL_PENALTIES:
        A = G + 0
        diagonal_of(A)[:] += penalty
        try:
            solved = engine.solve(engine.cholesky(A), b)
        except np.linalg.LinAlgError:
            continue
        a = engine.solve(half, solved, half="upper")
        judged = engine.to_host(asked @ a)
        loss = judge(judged)
        if loss < best.loss:
            best = Pooled(loss, penalty, engine.to_host(a), judged)
    return best


def chains_of(ranked: Sequence[Any], engine: Engine) -> list[Chain]:
    """Chains that go on from candidates of a sample, best first, one of each kind of map."""
    found: dict[tuple[str, str, bool], Chain] = {}
    for one in ranked:
        candidate = one.candidate
        kind = one.preparation, candidate.kernel, candidate.diagonal
        width = WIDTHS[candidate.kernel][candidate.settings[-1].place[0]]
        L = None if candidate.L is None else engine.to_host(candidate.L)
        found.setdefault(kind, Chain(*kind, candidate.round, width, L=L))
    return list(found.values())
