"""Kernel ridge on some centres for any number of rows: conjugate gradients over streamed rows.

With phi(x) = R^-1 k(x), R R^T the kernel matrix of the m centres, f = phi^T b solves

    (Phi^T W Phi + penalty I) b = Phi^T W r.

Phi is never held. A product with it is one pass over the rows, a block of kernel rows at a time:
O(n m) operations and O(m^2) memory. As the centres are rows themselves, (n / m) R^T R stands for
Phi^T W Phi, and its Cholesky factor makes the condition small, so that some ten passes do
(Rudi, Carratino and Rosasco, 2017). Kernel rows may be in float32; factors and vectors of length m
are in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ejop.arrays import diagonal_of
from ejop.executors.threads import in_threads, pools_free
from ejop.sums.engine import Engine
from ejop.sums.ridge import FLOAT64, RIDGE_KERNELS, Centers

FLOAT32 = np.dtype(np.float32)
#: entries of kernel rows that are made at once in each thread, which caches hold, or on a device
ENTRIES, DEVICE_ENTRIES = 500_000, 200_000_000
#: rows of a block, at the least and at the most
FEWEST, MOST = 32, 4096
#: added to the diagonal of the kernel matrix of m centres, times m, by the type of the sums
JITTER = {FLOAT32: 1e-7, FLOAT64: 1e-10}
#: least diagonal of what stands for Phi^T W Phi, for each weight / m: in directions that centres
#: hardly span, other rows reach much farther than the centres tell
FLOOR = 0.1
#: largest eps |z|^2 / h^2 of sums in float32, in the mean over centres
SINGLE_LIMIT = 1e-4


class Passes(Protocol):
    """Training rows that can be read again and again, wherever they live."""

    @property
    def weight(self) -> float:
        """Sum of their weights."""

    def correlate(self, centers: Centers, u: Any, *, against: bool) -> Any:
        """K^T W K u, or K^T W (r - K u) ``against`` the targets r; (m, c) in float64."""


@dataclass(frozen=True)
class RowPasses:
    """Rows in memory or mapped from disk.

    Attributes
    ----------
    read : callable
        ``read(start, stop)`` gives mapped rows Z (m, r), centred targets (m, c) and weights (m, 1),
        None for equal ones, as arrays of the engine of the centres.
    n : int
    weight : float
    """

    read: Callable[[int, int], tuple[Any, Any, Any]]
    n: int
    weight: float

    def correlate(self, centers: Centers, u: Any, *, against: bool) -> NDArray:
        """A pass over the rows, blocks of them in threads."""
        size = block_rows(centers, len(centers))
        starts = range(0, self.n, size)

        def part(start: int) -> Any:
            Z, r, w = self.read(start, min(start + size, self.n))
            return correlation(centers, Z, u, r if against else None, w)

        flops = 2.0 * self.n * len(centers) * (centers.Z.shape[1] + 10)
        total = np.zeros((len(centers), u.shape[1]))
        for group in _groups(starts, 256):
            for found in in_threads(part, group, operations=flops):
                total += centers.engine.to_host(found)
        return total


@dataclass(frozen=True)
class SharedPasses:
    """Rows shared among several devices, each of which sums its own.

    Attributes
    ----------
    parts : list of (Engine, RowPasses)
        Rows that are read as arrays of that engine.
    """

    parts: Sequence[tuple[Engine, RowPasses]]

    @property
    def weight(self) -> float:
        """Sum of the weights of all rows."""
        return sum(rows.weight for _, rows in self.parts)

    def correlate(self, centers: Centers, u: Any, *, against: bool) -> NDArray:
        """A pass, the devices side by side, each driven by a thread."""
        host, kind = centers.engine.to_host(u), np.dtype(str(u.dtype).removeprefix("torch."))

        def part(one: tuple[Engine, RowPasses]) -> NDArray:
            engine, rows = one
            there = centers if engine is centers.engine else moved_centers(centers, engine, kind)
            return rows.correlate(there, engine.array(host, kind), against=against)

        return np.sum(in_threads(part, self.parts, len(self.parts)), axis=0)


def _groups(starts: range, size: int) -> Iterator[range]:
    """Some blocks at a time, so that their sums need not be held together."""
    for s in range(0, len(starts), size):
        yield starts[s : s + size]


def block_rows(centers: Centers, m: int) -> int:
    """Rows whose kernel with m centres is made at once."""
    if centers.engine.on_device:
        return max(FEWEST, DEVICE_ENTRIES // m)
    return int(np.clip(ENTRIES // m, FEWEST, MOST))


def correlation(centers: Centers, Z: Any, u: Any, r: Any, w: Any) -> Any:
    """K^T W K u of some rows, or K^T W (r - K u) where they have targets; (m, c)."""
    K = centers.kernel(Z)
    t = K @ u
    if r is not None:
        t = r - t
    if w is not None:
        t = t * w
    return K.T @ t


def fits_single(Z: NDArray, h: float) -> bool:
    """Whether float32 keeps distances between rows, in units of the bandwidth."""
    loss = float(np.finfo(np.float32).eps) * float(np.square(Z).sum(1).mean()) / h**2
    return loss < SINGLE_LIMIT


@dataclass(frozen=True)
class ConjugateSystem:
    """Kernel ridge on m centres, ready to be solved by passes over rows.

    Attributes
    ----------
    centers : Centers
        In the type of the sums.
    root : array of shape (m, m)
        Lower Cholesky factor R of the kernel matrix of the centres.
    factor : array of shape (m, m)
        Lower Cholesky factor of (weight / m) R^T R + max(penalty, ``FLOOR`` weight / m) I.
    penalty : float
    """

    centers: Centers
    root: Any
    factor: Any
    penalty: float

    @classmethod
    def of(
        cls,
        kernel: str,
        Z: Any,
        h: float,
        penalty: float,
        weight: float,
        engine: Engine,
        *,
        single: bool,
    ) -> ConjugateSystem:
        """Factorise what centres Z (m, r), mapped already, make."""
        kind, precise = FLOAT32 if single else FLOAT64, engine.precise()
        exact = RIDGE_KERNELS[kernel].at(precise, precise.array(Z, FLOAT64), h)
        m = len(exact)
        with pools_free(2.0 * m * m * exact.Z.shape[1]):
            K = exact.kernel(exact.Z)
        diagonal_of(K)[:] += JITTER[kind] * m
        root = precise.cholesky(K)
        G = precise.factor_gram(root)
        G *= weight / m
        diagonal_of(G)[:] += max(penalty, FLOOR * weight / m)
        place = engine if single else precise
        centers = RIDGE_KERNELS[kernel].at(place, place.array(Z, kind), h)
        return cls(centers, root, precise.cholesky(G), penalty)

    @property
    def engine(self) -> Engine:
        """Where vectors of length m are."""
        return self.centers.engine.precise()

    @property
    def kind(self) -> np.dtype:
        """Type of the sums."""
        return np.dtype(str(self.centers.Z.dtype).removeprefix("torch."))

    def coefficients(self, b: Any) -> NDArray:
        """a = R^-T b, so that f(x) = k(x)^T a; (m, c)."""
        return self.engine.to_host(self.engine.solve(self.root, b, half="upper"))

    def pass_over(self, rows: Passes, b: Any, *, against: bool) -> Any:
        """Phi^T W Phi b, or Phi^T W (r - Phi b), by one pass."""
        engine = self.engine
        u = self.centers.engine.array(self.coefficients(b), self.kind)
        found = rows.correlate(self.centers, u, against=against)
        return engine.solve(self.root, engine.array(found, FLOAT64), half="lower")

    def begin(self, rows: Passes, n_outputs: int, start: Any = None) -> Iterate:
        """The first point of conjugate gradients, by one pass: zeros, or coefficients (m, c)."""
        engine = self.engine
        b = engine.zeros((len(self.centers), n_outputs), FLOAT64)
        if start is not None:
            b = self.root_transposed(engine.array(start, FLOAT64))
        r = self.pass_over(rows, b, against=True) - self.penalty * b
        z = engine.solve(self.factor, r)
        rz = (r * z).sum(0)
        return Iterate(self, b, r, z, rz, rz if start is None else None)

    def descend(
        self, rows: Passes, n_outputs: int, start: Any = None, after: Iterate | None = None
    ) -> Iterator[Iterate]:
        """Conjugate gradients, a pass over the rows for each step; targets side by side.

        Parameters
        ----------
        rows : Passes
        n_outputs : int
        start : ndarray of shape (m, n_outputs), optional
            Coefficients to begin from.
        after : Iterate, optional
            Where an earlier call had come to, which this one goes on from.

        Yields
        ------
        descent : Iterate
            After each pass; the first is the start itself. Coefficients are made when asked for.
        """
        descent = after.step(rows) if after else self.begin(rows, n_outputs, start)
        while descent is not None:
            yield descent
            descent = descent.step(rows)

    def root_transposed(self, a: Any) -> Any:
        """b = R^T a; the factor's other half is not zero."""
        n, out = len(a), self.engine.zeros(tuple(a.shape), FLOAT64)
        for s in range(0, n, 512):
            piece = self.root[s:, s : s + 512]
            square = piece[:512] * self.engine.array(np.tri(*piece[:512].shape), FLOAT64)
            out[s : s + 512] = square.T @ a[s : s + 512] + piece[512:].T @ a[s + 512 :]
        return out


@dataclass(frozen=True)
class Iterate:
    """Where conjugate gradients have come to.

    Attributes
    ----------
    system : ConjugateSystem
    b, r, p : array of shape (m, c)
        The point, its residual, and the direction of the next step.
    rz : array of shape (c,)
        Squared norm of the preconditioned residual.
    first : array of shape (c,) or None
        The same at the beginning; None at a start of someone else's.
    """

    system: ConjugateSystem
    b: Any
    r: Any
    p: Any
    rz: Any
    first: Any

    @property
    def share(self) -> float:
        """Preconditioned residual over the first one, the largest over outputs."""
        if self.first is None:
            return np.inf
        return float((self.rz / self.first.clip(min=1e-300)).max()) ** 0.5

    @property
    def coefficients(self) -> NDArray:
        """Of the centres, (m, c) in float64."""
        return self.system.coefficients(self.b)

    def step(self, rows: Passes) -> Iterate | None:
        """The next point, by one pass; None where nothing is left but rounding."""
        system = self.system
        q = system.pass_over(rows, self.p, against=False) + system.penalty * self.p
        curved = (self.p * q).sum(0)
        alive = (curved > 0) & (self.rz > 0)
        if not bool(alive.any()):
            return None
        length = self.rz * alive / (curved * alive + ~alive)
        b, r = self.b + self.p * length, self.r - q * length
        z = system.engine.solve(system.factor, r)
        rz = (r * z).sum(0)
        p = z + self.p * (rz * alive / (self.rz * alive + ~alive))
        return Iterate(system, b, r, p, rz, self.rz if self.first is None else self.first)

    def arrays(self) -> dict[str, NDArray]:
        """All but the system, to be kept."""
        found = {name: getattr(self, name) for name in _STATE}
        return {k: self.system.engine.to_host(v) for k, v in found.items() if v is not None}

    @classmethod
    def found(cls, system: ConjugateSystem, arrays: dict[str, NDArray]) -> Iterate:
        """The same again from what was kept."""
        made = {k: system.engine.array(arrays[k], FLOAT64) for k in _STATE if k in arrays}
        return cls(system, **{"first": None, **made})


_STATE = ("b", "r", "p", "rz", "first")


def moved_centers(centers: Centers, engine: Engine, kind: np.dtype) -> Centers:
    """The same centres on another engine, or in another type."""
    Z = engine.array(centers.engine.to_host(centers.Z), kind)
    return replace(centers, engine=engine, Z=Z, norms=(Z * Z).sum(1))


def single_centers(centers: Centers) -> Centers:
    """The same centres in float32."""
    return moved_centers(centers, centers.engine, FLOAT32)
