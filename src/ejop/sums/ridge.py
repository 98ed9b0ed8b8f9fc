"""Kernel ridge: its system solved, rows left out in closed form, and its differences.

Coefficients of either sign nearly cancel in the sums, so all of this is in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.arrays import diagonal_of, namespace
from ejop.executors.threads import pools_free
from ejop.rows import Block, Summary
from ejop.sums.engine import Engine
from ejop.sums.form import Cost, Form, Request
from ejop.sums.gaussian import EXPONENT_LIMIT, FAR_ROWS, exponential_table, moment_table
from ejop.sums.weighted import WeightedSums

FLOAT64 = np.dtype(np.float64)
EPS = float(np.finfo(np.float64).eps)
#: distances up to this share of the bandwidth, and of the norm of a centre, are those of equal rows
SAME, ROUNDING = 1e-12, 64 * EPS
#: largest eps |z|^2 / h^2 of products, in the mean over centres; a system magnifies what they lose
LOSS_LIMIT = 1e-11
#: share of a squared distance that a move may leave of it before a root shows the digits lost
CANCELS = 1e-4
#: rows whose features are made at once
CHUNK = 2048


@dataclass(frozen=True)
class Centers:
    """Centred centres on an engine, and a Gaussian between them and queries.

    Attributes
    ----------
    engine : Engine
    Z : array of shape (n_centers, n_features)
    norms : array of shape (n_centers,)
        Squared.
    h : float
        Bandwidth.
    center : array of shape (n_features,), or None
        What rows are centred by, none where they are mapped already.
    pairwise : bool
        Whether distances are measured pair by pair, as products would lose them; rows are not
        centred then.
    """

    engine: Engine
    Z: Any
    norms: Any
    h: float
    center: Any = None
    pairwise: bool = False

    #: whether a shift along an axis factorises, so that differences are products too
    factorises = True
    #: whether distances are in the units of the bandwidth, not squared
    linear = False

    @classmethod
    def of(
        cls,
        engine: Engine,
        centers: NDArray,
        summary: Summary,
        bandwidth: float,
        *,
        pairwise: bool = False,
    ) -> Any:
        """Centres in float64, measured pair by pair if asked."""
        precise = engine.precise()
        rows, center = precise.array(centers, FLOAT64), precise.array(summary.center, FLOAT64)
        found = cls.at(precise, rows - center, bandwidth)
        if pairwise or found.pairwise:
            return replace(found, Z=rows, center=0 * center, pairwise=True)
        return replace(found, center=center)

    @classmethod
    def at(cls, engine: Engine, Z: Any, bandwidth: float) -> Any:
        """Centres at rows that are centred, or mapped, already."""
        norms, h = (Z * Z).sum(1), float(bandwidth)
        loss = EPS * max(float(norms.mean()), float(norms.max()) / FAR_ROWS) / h**2
        return cls(engine, Z, norms, h, None, loss > LOSS_LIMIT)

    @property
    def h2(self) -> float:
        """Squared bandwidth."""
        return self.h**2

    def __len__(self) -> int:
        return len(self.Z)

    def distances(self, Q: Any) -> Any:
        """Distances (m, n_centers) of the kind that the kernel is a function of, up to rounding."""
        if self.pairwise:
            return self.engine.measured(Q, self.Z)
        xp = namespace(Q)
        own = (Q * Q).sum(1)[:, None]
        D = xp.hstack([Q, own, own * 0 + 1]) @ self._folded
        return xp.clip(D, 0, None, out=D)

    @cached_property
    def _folded(self) -> Any:
        """[-2 z | 1 | |z|^2]^T: with it one product gives squared distances."""
        xp = namespace(self.Z)
        norms = self.norms[:, None]
        return xp.hstack([-2 * self.Z, norms * 0 + 1, norms]).T

    def moved(self, D: Any, Q: Any, j: int, t: float) -> Any:
        """Distances of the queries once they have moved by t along feature j."""
        D = D + (2 * t * (Q[:, j : j + 1] - self.Z[:, j]) + t * t)
        return namespace(D).clip(D, 0, None, out=D)

    def replaced(self, D: Any, Q: Any, moves: Any, columns: Any) -> Any:
        """Distances of the queries once each has moved by ``moves`` (m, k) along some columns.

        ``columns`` (k, r) are these columns in the space of the centres. Digits of near rows are
        lost, which no mean of many rows shows.
        """
        steps = moves @ columns
        if self.pairwise:
            return self.distances(Q + steps)
        xp, own = namespace(D), (2 * (Q * steps).sum(1) + (steps * steps).sum(1))[:, None]
        apart = -2 * (columns @ self.Z.T)  # one product, and no more passes than that needs
        found = xp.hstack([moves, own]) @ xp.vstack([apart, apart[:1] * 0 + 1])
        found += D
        return xp.clip(found, 0, None, out=found)

    def kernel_at(self, D: Any) -> Any:
        """exp(-D / 2h^2) at squared distances, in place."""
        D *= -0.5 / self.h2
        return namespace(D).exp(D, out=D)

    def kernel(self, Q: Any) -> Any:
        """The kernel between queries and centres, (m, n_centers)."""
        return self.kernel_at(self.distances(Q))

    def values(self, K: Any, a: Any, left_out: Any) -> Any:
        """sum_i a_ic K_qi, (c, m)."""
        found = K @ a
        if left_out is not None:
            own, b, s = left_out
            found[own] -= (K[own] * b).sum(1)[:, None] * s
        return found.T

    def moments(self, a: Any) -> Any:
        """a_ic [z_i | 1], (n_centers, c (d + 1)): with it :meth:`derivatives` takes one product for
        all outputs. None where it would be too large, or does not serve.
        """
        width = self.Z.shape[1] + 1
        pad = -width % self.engine.alignment
        if self.pairwise or len(self) * a.shape[1] * (width + pad) > self.engine.max_table:
            return None
        table = moment_table(self.engine, self.Z, width, pad)
        return (a[:, :, None] * table[:, None, :]).reshape(len(self), -1)

    def derivatives(self, Q: Any, a: Any, left_out: Any, moments: Any = None) -> Any:
        """Derivatives (c, m, d) and values (c, m, 1) side by side of sum_i a_ic k(x, z_i).

        ``left_out`` holds queries that are training rows, and b and s of what to subtract there:
        (k(x) . b) s. ``moments`` are those of a, for many blocks of queries.
        """
        K = self.kernel(Q)
        sums = self._moments(K, Q, a, left_out, moments)
        sums[:, :, :-1] /= self.h2
        return sums

    def _moments(self, G: Any, Q: Any, a: Any, left_out: Any, moments: Any) -> Any:
        """sum_i G_qi a_ic [z_i - x | 1], (c, m, d + 1)."""
        if self.pairwise:
            return self._measured_moments(G, Q, a, left_out)
        c, width = a.shape[1], self.Z.shape[1] + 1
        if moments is None or left_out is not None:
            table = moment_table(self.engine, self.Z, width, 0)
        if moments is not None:
            sums = (G @ moments).reshape(len(G), c, -1)[:, :, :width].swapaxes(0, 1)
        else:
            sums = self.engine.empty((c, len(G), width), FLOAT64)
            for k in range(c):
                namespace(G).matmul(G * a[:, k], table, out=sums[k])
        if left_out is not None:
            own, b, s = left_out
            sums[:, own] -= s.T[:, :, None] * ((G[own] * b) @ table)
        sums[:, :, :-1] -= sums[:, :, -1:] * Q
        return sums

    def _measured_moments(self, G: Any, Q: Any, a: Any, left_out: Any) -> Any:
        """The same from differences of the rows, one feature at a time."""
        m, d = Q.shape
        sums = self.engine.empty((a.shape[1], m, d + 1), FLOAT64)
        sums[:, :, d] = self.values(G, a, left_out)
        for j in range(d):
            sums[:, :, j] = self.values(G * (self.Z[:, j] - Q[:, j : j + 1]), a, left_out)
        return sums


class LaplaceCenters(Centers):
    """exp(-|x - z| / h): the derivative at a centre itself counts as zero."""

    factorises = False

    def distances(self, Q: Any) -> Any:
        """Squared distances, those of near rows from the rows: a root magnifies rounding."""
        D = super().distances(Q)
        if self.pairwise:
            return D
        own = (Q * Q).sum(1)
        return self.engine.remeasured(D, Q, self.Z, own, self.norms)

    def moved(self, D: Any, Q: Any, j: int, t: float) -> Any:
        """Squared distances after a move; those that nearly cancel are measured from the rows."""
        found = super().moved(D, Q, j, t)
        queries, rows = namespace(D).where(found < CANCELS * D)
        if len(queries):
            apart = Q[queries] - self.Z[rows]
            apart[:, j] += t
            found[queries, rows] = (apart * apart).sum(1)
        return found

    def kernel_at(self, D: Any) -> Any:
        """exp(-sqrt(D) / h) at squared distances, in place."""
        xp = namespace(D)
        xp.sqrt(D, out=D)
        D /= -self.h
        return xp.exp(D, out=D)

    def derivatives(self, Q: Any, a: Any, left_out: Any, moments: Any = None) -> Any:
        """sum_i a_ic K_i (z_ij - x_j) / (h |x - z_i|), and values."""
        D = self.distances(Q)
        r = namespace(Q).sqrt(D)
        return self.slopes(self.kernel_at(D), r, Q, a, left_out, moments)

    def slopes(self, K: Any, r: Any, Q: Any, a: Any, left_out: Any, moments: Any = None) -> Any:
        """The same from the kernel, or weights in proportion to it, at distances r."""
        # a mapped row differs from itself by rounding where it was mapped among other rows
        here = r <= SAME * self.h + ROUNDING * namespace(r).sqrt(self.norms)
        r[here] = 1
        G = K / (self.h * r)
        G[here] = 0
        sums = self._moments(G, Q, a, left_out, moments)
        sums[:, :, -1] = self.values(K, a, left_out)
        return sums


class L1Centers(LaplaceCenters):
    """exp(-sum_j |x_j - z_j| / h): a product over features that bends at every value of each."""

    linear = True

    def distances(self, Q: Any) -> Any:
        """Sums of absolute differences, (m, n_centers)."""
        return self.engine.l1_distances(Q, self.Z)

    def moved(self, D: Any, Q: Any, j: int, t: float) -> Any:
        """Distances of the queries once they have moved by t along feature j."""
        apart = Q[:, j : j + 1] - self.Z[:, j]
        return D + (abs(apart + t) - abs(apart))

    def replaced(self, D: Any, Q: Any, moves: Any, columns: Any) -> Any:
        """Distances of the queries once each has moved along some columns, one feature each."""
        for j, column in enumerate(columns):
            (place,) = namespace(column).where(column)
            if len(place):
                apart = Q[:, place] - self.Z[:, place].T
                D = D + (abs(apart + moves[:, j : j + 1] * column[place]) - abs(apart))
        return D

    def kernel_at(self, D: Any) -> Any:
        """exp(-D / h), in place."""
        D /= -self.h
        return namespace(D).exp(D, out=D)

    def moments(self, a: Any) -> None:
        """Signs are not products of a query's and a centre's part."""
        return

    def derivatives(self, Q: Any, a: Any, left_out: Any, moments: Any = None) -> Any:
        """-sum_i a_ic K_i sign(x_j - z_ij) / h, and values."""
        K = self.kernel(Q)
        (m, d), c = Q.shape, a.shape[1]
        sums = self.engine.empty((c, m, d + 1), FLOAT64)
        self.engine.signed_products(K, Q, self.Z, a, sums[:, :, :d])
        if left_out is not None:
            own, b, s = left_out
            one = self.engine.empty((1, len(own), d), FLOAT64)
            ones = self.engine.array(np.ones((len(self.Z), 1)), FLOAT64)
            self.engine.signed_products(K[own] * b, Q[own], self.Z, ones, one)
            sums[:, own, :d] -= s.T[:, :, None] * one
        sums[:, :, :d] /= -self.h
        sums[:, :, d] = self.values(K, a, left_out)
        return sums


#: kernels of ridge by name: positive definite, each with what a query costs
RIDGE_KERNELS: dict[str, type[Centers]] = {
    "gaussian": Centers,
    "laplace": LaplaceCenters,
    "l1": L1Centers,
}


@dataclass(frozen=True)
class FullSystem:
    """(S K S + penalty I)^-1 with every row a centre, S the square roots of the weights.

    Attributes
    ----------
    centers : Centers
    root_weights : array of shape (n,)
    factor : array of shape (n, n), or None
        Lower Cholesky factor.
    inverse : array of shape (n, n), or None
        S (S K S + penalty I)^-1 S, where it was asked for instead.
    """

    centers: Centers
    root_weights: Any
    factor: Any = None
    inverse: Any = None

    @classmethod
    def of(cls, centers: Centers, block: Block, penalty: float) -> FullSystem:
        """Factorise the system of all rows."""
        engine = centers.engine
        S = engine.array(np.sqrt(block.weights), FLOAT64)
        with pools_free(2.0 * len(block) * centers.Z.shape[0] * centers.Z.shape[1]):
            K = centers.kernel(centers.Z)
        K *= S[:, None]
        K *= S
        diagonal_of(K)[:] += penalty
        return cls(centers, S, engine.cholesky(K))

    def inverted(self) -> FullSystem:
        """The inverse in place of the factor, which is used up."""
        inverse = self.centers.engine.inverse(self.factor)
        inverse *= self.root_weights[:, None]
        inverse *= self.root_weights
        return replace(self, factor=None, inverse=inverse)

    def coefficients(self, residual: Any) -> Any:
        """a = S (S K S + penalty I)^-1 S (Y - mean)."""
        if self.inverse is not None:
            return self.inverse @ residual
        S = self.root_weights[:, None]
        return S * self.centers.engine.solve(self.factor, S * residual)

    def left_out(self, rows: NDArray, Q: Any, a: Any, own: Block, mean: Any) -> tuple[Any, Any]:
        """What to subtract to leave rows out: f(x) - (k(x) . b_i) s_i for row i."""
        engine = self.centers.engine
        places, each = engine.index(rows), engine.index(np.arange(len(rows)))
        if self.inverse is not None:
            b = self.inverse[places]
        else:
            S = self.root_weights
            unit = engine.empty((len(S), len(rows)), FLOAT64)
            unit[:] = 0
            unit[places, each] = S[places]
            b = (S[:, None] * engine.solve(self.factor, unit)).T
        diagonal = b[each, places][:, None]
        xp = namespace(b)
        alive = diagonal > 0
        return b, xp.where(alive, a[places] / xp.where(alive, diagonal, 1), 0)


@dataclass(frozen=True)
class NystromSystem:
    """Ridge on the features phi(x) = R^-1 k(x), R R^T the kernel matrix of the centres.

    Attributes
    ----------
    centers : Centers
    root : array of shape (n_centers, n_centers)
        R.
    factor : array of shape (n_centers, n_centers), or None
        Lower Cholesky factor of Phi^T W Phi + penalty I, once the equations are solved.
    """

    centers: Centers
    root: Any
    factor: Any = None

    @classmethod
    def of(cls, centers: Centers) -> NystromSystem:
        """Factorise the kernel matrix of the centres."""
        K = centers.kernel(centers.Z)
        diagonal_of(K)[:] += 1e-10 * len(K)
        return cls(centers, centers.engine.cholesky(K))

    def features(self, Q: Any) -> Any:
        """Features of queries, (m, n_centers)."""
        k = self.centers.kernel(Q).T
        return self.centers.engine.solve(self.root, k, half="lower").T

    def equations(self, block: Block, summary: Summary) -> tuple[Any, Any]:
        """Phi^T W Phi and Phi^T W (Y - mean); those of other rows add."""
        engine, p = self.centers.engine, len(self.centers)
        gram, target = engine.empty((p, p), FLOAT64), engine.empty((p, summary.n_outputs), FLOAT64)
        gram[:], target[:] = 0, 0
        center, w = self.centers.center, block.weights
        for s in range(0, len(block), CHUNK):
            part = slice(s, s + CHUNK)
            phi = self.features(engine.array(block.X[part], FLOAT64) - center)
            weighted = phi * engine.array(w[part], FLOAT64)[:, None]
            gram += phi.T @ weighted
            target += weighted.T @ engine.array(block.Y[part] - summary.prior, FLOAT64)
        return gram, target

    def solved(self, gram: Any, target: Any, penalty: float) -> tuple[NystromSystem, Any]:
        """The system with its factor, and the coefficients; ``gram`` is used up."""
        engine = self.centers.engine
        diagonal_of(gram)[:] += penalty
        factor = engine.cholesky(gram)
        b = engine.solve(factor, target)
        return replace(self, factor=factor), engine.solve(self.root, b, half="upper")

    def left_out(self, rows: NDArray, Q: Any, a: Any, own: Block, mean: Any) -> tuple[Any, Any]:
        """What to subtract to leave rows out: f(x) - (k(x) . b_i) s_i for row i."""
        engine = self.centers.engine
        phi = self.features(Q)
        solved = engine.solve(self.factor, phi.T)
        w = engine.array(own.weights, FLOAT64)[:, None]
        leverage = w * (phi * solved.T).sum(1)[:, None]
        residual = engine.array(own.Y, FLOAT64) - mean - self.centers.kernel(Q) @ a
        s = w * residual / (1 - leverage).clip(min=float(np.finfo(np.float64).eps))
        return engine.solve(self.root, solved, half="upper").T, s


@dataclass(frozen=True)
class RidgeTile:
    """Centres with their coefficients and the table of their sums: exponentials or moments."""

    centers: Centers
    coefficients: Any
    table: Any


class RidgeForm(Form):
    """Sums of the same kind as a Gaussian smoother's with coefficients in place of weights."""

    bounded = False

    def __init__(self, function: Any, request: Request) -> None:
        super().__init__(function, request)
        self.engine = request.engine.precise()
        self.kind = FLOAT64
        self.columns = request.columns(self.d)
        centers = function.kernel_centers(self.engine)
        self.centers, self.h2 = centers, centers.h2
        self.middle = _middle(centers.Z)
        self.mean = self.engine.array(self.summary.prior, FLOAT64)
        self.tilts = None if self.step is None else self.engine.array(self.step / self.h2, FLOAT64)
        exponent, limit = self._exponent(centers.Z), EXPONENT_LIMIT[FLOAT64]
        products = centers.factorises and not centers.pairwise and exponent <= limit
        self.direct = self.step is not None and not products
        a = self.engine.array(function.coefficients_, FLOAT64)
        table = centers.moments(a) if request.step is None else None
        if self.step is not None and not self.direct:
            pad = -self.columns % self.engine.alignment
            table = exponential_table(centers.Z, self.middle, self.tilts, pad)
        self._tiles = (RidgeTile(centers, a, table),)
        self.system = self._system()
        which = "all rows are centres" if function.all_rows else f"{len(centers)} Nystrom centres"
        if self.step is None:
            self.notes = (which,)
        elif not centers.factorises:
            self.notes = (
                f"a shift of the {function.kernel} kernel does not factorise: kernel matrices are "
                f"shifted one feature at a time; {which}",
            )
        elif centers.pairwise:
            self.notes = (
                "the bandwidth is too small against the range for products: distances are "
                f"measured pair by pair; {which}",
            )
        elif self.direct:
            self.notes = (
                f"exponents reach {exponent:.3g}, beyond {limit:g}: kernel matrices are shifted "
                f"one feature at a time; {which}",
            )
        else:
            self.notes = (f"exponents reach {exponent:.3g}, under {limit:g}; {which}",)
        self.cost = self._cost()

    def __reduce__(self) -> tuple[Any, ...]:
        again, (function, request) = super().__reduce__()
        solved = self.system if isinstance(self.system, NystromSystem) else None
        return again, (function, replace(request, solved=solved))

    def _system(self) -> FullSystem | NystromSystem | None:
        """What leaving rows out needs: the inverse where most rows are asked for."""
        if not self.request.n_excluded:
            return None
        system = self.request.solved or self.function.system(self.request.engine)
        if isinstance(system, FullSystem) and 2 * self.request.n_excluded > len(self.centers):
            return system.inverted()
        return system

    def _cost(self) -> Cost:
        p, c, columns = len(self.centers), self.c, self.columns
        per_query = 5 * p * 8 + 3 * (c + 1) * columns * 8
        systems = 1 if self.system is not None else 0
        tables = 1 if self.step is not None or self._tiles[0].table is None else c
        fixed = systems * p * p * 8 + tables * p * columns * 8
        kind = "analytic" if self.step is None else "direct" if self.direct else "product"
        flops = 4 * p * self.d * (self.d + c) if self.direct else 2 * p * columns * (c + 1)
        return Cost(f"{self.engine.prefix}ridge-{kind}", per_query, fixed, 0, flops)

    def _exponent(self, Q: Any) -> float:
        """Largest exponent of the factorised form at some rows."""
        if self.tilts is None or not len(Q):
            return 0.0
        return float((abs(Q - self.middle) * self.tilts).max())

    def tile(self, block: Block) -> RidgeTile:
        """The centres: other rows have no part in the sums."""
        return self._tiles[0]

    def queries(self, Q: NDArray) -> Any:
        """Query rows centred, in float64."""
        return self.engine.array(Q, FLOAT64) - self.centers.center

    def _own_queries(self, rows: NDArray) -> Any:
        if self.function.all_rows:
            return self.centers.Z[self.engine.index(rows)]
        return super()._own_queries(rows)

    def _left_out(self, exclude: NDArray | None) -> tuple[Any, Any, Any] | None:
        """Queries that are training rows, and what to subtract for them."""
        if exclude is None:
            return None
        places = np.flatnonzero(exclude >= 0)
        rows, own = exclude[places], self.engine.index(places)
        system = self.system or self.function.system(self.request.engine)
        a, block = self._tiles[0].coefficients, self.whole().rows(rows)
        return own, *system.left_out(rows, self._own_queries(rows), a, block, self.mean)

    def sums(self, Q: Any, tile: RidgeTile, exclude: NDArray | None = None) -> WeightedSums:
        """sum_i a_ic K(x +- t e_j, z_i); derivatives and values; or values; own rows left out."""
        left_out = self._left_out(exclude)
        if self.request.step is None:
            a, moments = tile.coefficients, tile.table
            return WeightedSums(tile.centers.derivatives(Q, a, left_out, moments))
        if self.step is None:
            K = tile.centers.kernel(Q)
            return WeightedSums(tile.centers.values(K, tile.coefficients, left_out)[:, :, None])
        if self.direct or self._exponent(Q) > EXPONENT_LIMIT[FLOAT64]:
            return WeightedSums(self._direct_sums(Q, tile, left_out))
        sums = self._products(tile.centers.kernel(Q), tile, left_out)[:, :, : self.columns]
        # K(x +- t e_j, z) = K(x, z) exp(+-t (z_j - x_j) / h^2) exp(-t^2 / 2h^2)
        xp, d = namespace(Q), self.d
        tilt = self.tilts * (Q - self.middle)
        drop = self.engine.array(self.step**2 / (2 * self.h2), FLOAT64)
        sums[:, :, :d] *= xp.exp(-tilt - drop)
        sums[:, :, d:] *= xp.exp(tilt - drop)
        return WeightedSums(sums)

    def _products(self, K: Any, tile: RidgeTile, left_out: Any) -> Any:
        """sum_i K_qi a_ic table_ij, (c, m, columns)."""
        xp = namespace(K)
        sums = self.engine.empty((self.c, len(K), tile.table.shape[1]), FLOAT64)
        for k in range(self.c):
            xp.matmul(K * tile.coefficients[:, k], tile.table, out=sums[k])
        if left_out is not None:
            own, b, s = left_out
            sums[:, own] -= s.T[:, :, None] * ((K[own] * b) @ tile.table)
        return sums

    def _direct_sums(self, Q: Any, tile: RidgeTile, left_out: Any) -> Any:
        """One kernel matrix per shifted feature: safe for any step and scale."""
        (m, d), centers = Q.shape, tile.centers
        steps = np.zeros(d) if self.step is None else self.step
        D = centers.distances(Q)
        out = self.engine.empty((self.c, m, 2 * d), FLOAT64)
        for j in range(d):
            for column, t in ((j, float(steps[j])), (d + j, -float(steps[j]))):
                K = centers.kernel_at(centers.moved(D, Q, j, t))
                out[:, :, column] = centers.values(K, tile.coefficients, left_out)
        return out

    def means(self, sums: WeightedSums, Q: Any, prior: Callable[[], NDArray]) -> tuple[Any, ...]:
        """Values around the mean target."""
        found, mean = sums.sums, self.mean[:, None, None]
        if self.request.step is None:
            return found[:, :, -1:] + mean, found[:, :, :-1]
        found += mean
        return (found,) if self.step is None else (found[:, :, : self.d], found[:, :, self.d :])


def _middle(Z: Any) -> Any:
    """Mid-range of each column."""
    xp = namespace(Z)
    return (xp.amax(Z, 0) + xp.amin(Z, 0)) / 2
