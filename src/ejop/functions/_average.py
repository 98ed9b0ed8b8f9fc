"""The mean of several kernel machines, each under a preparation and a map of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.executors.devices import halving
from ejop.executors.threads import computing, in_threads
from ejop.functions._base import Function
from ejop.rows import Block
from ejop.scaling import QuantileColumns
from ejop.sums.conjugate import fits_single, single_centers
from ejop.sums.engine import HOST, Engine
from ejop.sums.form import VALUES, Cost, Form, Request
from ejop.sums.model import ModelForm
from ejop.sums.ridge import FLOAT64, RIDGE_KERNELS, Centers
from ejop.sums.weighted import WeightedSums

#: entries of kernel matrices that are held at once, and rows of a block
MAX_ENTRIES, BLOCK = 4_000_000, 512
#: the same on a device, whose memory is larger
DEVICE_ENTRIES, DEVICE_BLOCK = 400_000_000, 8192


def mapped(rows: Any, L: Any) -> Any:
    """Rows under a map: none, a weight a column (d,), or a matrix (r, d)."""
    if L is None:
        return rows
    return rows * L if L.ndim == 1 else rows @ L.T


def centers_of(kernel: str, Z: Any, bandwidth: float, engine: Engine = HOST) -> Centers:
    """Centres of a kernel machine on mapped rows."""
    return RIDGE_KERNELS[kernel].at(engine, Z, bandwidth)


@dataclass(frozen=True)
class Member:
    """One kernel machine: f(x) = sum_i a_i k(L p(x), L p(x_i)) around the mean target.

    Attributes
    ----------
    preparation : {"plain", "quantile"}
        p: columns as they are, or each by its ranks.
    kernel : {"gaussian", "laplace", "l1"}
    diagonal : bool
        Whether the map is a weight for each column.
    round : int
        Outer products that made the map: 0 for none.
    bandwidth, penalty : float
    first : tuple of float
        Bandwidth and penalty of the machine whose derivatives made the map.
    L : ndarray of shape (d,) or (d, d), or None
        The map.
    coefficients : ndarray of shape (n_centers, n_outputs)
    centers : ndarray of shape (n_centers,) or None
        Rows that are centres, among those that the average holds; None for all of them.
    loss : float
        Mean squared error of honest predictions.
    """

    preparation: str
    kernel: str
    diagonal: bool
    round: int
    bandwidth: float
    penalty: float
    first: tuple[float, float]
    L: NDArray | None
    coefficients: NDArray
    centers: NDArray | None
    loss: float

    def __str__(self) -> str:
        how = "" if self.round == 0 else ", a weight a column" if self.diagonal else ", a full map"
        return f"{self.kernel} kernel, {self.preparation} columns{how} (loss {self.loss:.4g})"


class AverageFunction(Function):
    """Mean of kernel machines; made by :class:`ejop.rules.RidgeRule`, not fitted by hand.

    Attributes
    ----------
    members_ : list of Member
    quantiles_ : QuantileColumns or None
        The columns by their ranks, for the members that want them.
    X_, Y_ : ndarray
        Scaled rows, and targets.
    """

    differentiable = True
    leaves_out = False

    members_: list[Member]
    quantiles_: QuantileColumns | None

    def of(self, members: list[Member], quantiles: Any, block: Block, summary: Any) -> Any:
        """Take machines that are solved already, and the rows they were solved for."""
        self.members_, self.quantiles_, self.summary_ = members, quantiles, summary
        self.n_features_in_, self.n_outputs_ = summary.n_features, summary.n_outputs
        self._hold(block)
        return self

    def prepared(self, X: NDArray, preparation: str) -> NDArray:
        """Rows as a member sees them before its map, in float64."""
        X = np.asarray(X, dtype=np.float64)
        if preparation == "plain":
            return X
        assert self.quantiles_ is not None
        return self.quantiles_.transform(X)

    @property
    def n_centers(self) -> int:
        """Centres of the machine that has most."""
        return max(len(member.coefficients) for member in self.members_)

    @computing
    def predict(self, X: NDArray, exclude: NDArray | None = None) -> NDArray:
        """Values of f, (m, n_outputs), blocks of rows in threads; ``exclude`` has no effect."""
        return self.model_values(X).astype(self.summary_.dtype, copy=False)

    def model_values(self, X: NDArray, engine: Engine = HOST) -> NDArray:
        """Values of f in float64, (m, n_outputs)."""
        X, form = np.asarray(X), self.form(Request(VALUES, engine))
        size = max(1, min(BLOCK, MAX_ENTRIES // max(self.n_centers, 1)))
        if engine.on_device:
            return np.concatenate(
                list(halving(lambda part: form.values(X[part]), max(len(X), 1), DEVICE_BLOCK))
            )
        parts = [slice(s, s + size) for s in range(0, max(len(X), 1), size)]
        found = in_threads(
            lambda part: form.values(X[part]),
            parts,
            operations=len(X) * form.cost.flops_per_query,
        )
        return np.concatenate(found)

    def changed(
        self, X: NDArray, others: NDArray, groups: list[NDArray], engine: Engine = HOST
    ) -> Iterator[NDArray]:
        """Values (m, n_outputs) at rows that take each group of columns in turn from others."""
        form = AverageForm(self, Request(VALUES, engine))
        changes = form.changes(np.asarray(X), np.asarray(others))
        if engine.on_device:
            yield from map(changes, groups)
            return
        pairs = len(X) * self.n_centers * len(self.members_)
        yield from in_threads(changes, groups, operations=20 * pairs * len(groups))

    def walk(
        self, starts: NDArray, ends: NDArray, groups: Sequence[NDArray], engine: Engine = HOST
    ) -> Iterator[NDArray]:
        """Values (m, n_outputs) as groups of columns go from those of ``starts`` to those of
        ``ends`` in turn: none, the first, the first two, ..."""
        return AverageForm(self, Request(VALUES, engine)).walk(starts, ends, groups)

    def form(self, request: Request) -> Form:
        """The derivative of each machine in closed form; differences by shifted rows."""
        return AverageForm(self, request) if request.shifts is None else ModelForm(self, request)

    def default_step(self) -> NDArray:
        """A quarter of each column's standard deviation; 1 for a constant column."""
        spread = np.sqrt(self.summary_.X.variance)
        return np.where(spread > 0, spread / 4, 1.0)


class AverageForm(Form):
    """Values and derivatives of each machine, chained through its map and preparation."""

    bounded = False

    def __init__(self, function: AverageFunction, request: Request) -> None:
        super().__init__(function, replace(request, engine=request.engine.precise()))
        self.engine, self.kind = self.request.engine, FLOAT64
        n = function.n_centers
        self.notes = tuple(map(str, function.members_))
        per_query = 4 * n * 8 + 3 * self.c * (self.d + 1) * 8
        flops = 2 * n * (self.d + 1) * (self.c + 1) * len(function.members_)
        name = f"{self.engine.prefix}average"
        self.cost = Cost(name, per_query, n * self.d * 8 * len(function.members_), 0, flops)
        self._prepared = {
            name: function.prepared(function.X_, name)
            for name in {member.preparation for member in function.members_}
        }
        self._tiles = tuple(self._tile(member) for member in function.members_)

    def _tile(self, member: Member) -> tuple[Member, Centers, Any, Any, Any]:
        rows = self._prepared[member.preparation]
        rows = rows if member.centers is None else rows[member.centers]
        L = None if member.L is None else self.engine.array(member.L, FLOAT64)
        Z = mapped(self.engine.array(rows, FLOAT64), L)
        a = self.engine.array(member.coefficients, FLOAT64)
        centers = centers_of(member.kernel, Z, member.bandwidth, self.engine)
        return member, centers, L, a, None if self.request.step else centers.moments(a)

    def tile(self, block: Block) -> Any:
        """The machines: other rows have no part in the sums."""
        return self._tiles[0]

    def queries(self, Q: NDArray) -> dict[str, Any]:
        """Query rows by preparation, and what a preparation multiplies slopes by."""
        found: dict[str, Any] = {"rows": len(Q)}
        for name in self._prepared:
            rows = self.function.prepared(Q, name)
            slopes = None
            if name != "plain" and self.request.step is None:
                slopes = self.engine.array(self.function.quantiles_.slopes(np.asarray(Q)), FLOAT64)
            found[name] = (self.engine.array(rows, FLOAT64), slopes)
        return found

    def _jacobian(self, Q: Any, exclude: NDArray | None, softmax: bool) -> NDArray:
        total = self._total(Q, exclude)
        return self.derive(total, Q, lambda: self._prior(Q["rows"], None), softmax=softmax)

    def sums(self, Q: Any, tile: Any, exclude: NDArray | None = None) -> WeightedSums:
        """Derivatives and values of one machine, or values, over the number of machines."""
        member, centers, L, a, moments = tile
        rows, slopes = Q[member.preparation]
        Z = mapped(rows, L)
        share = 1 / len(self.function.members_)
        if self.request.step is not None:
            return WeightedSums(self._values(centers, Z, a)[:, :, None] * share)
        found = self._derivatives(centers, Z, a, moments)
        J, values = found[:, :, :-1], found[:, :, -1:]
        if L is not None:
            J = J * L if L.ndim == 1 else J @ L
        if slopes is not None:
            J = J * slopes
        found[:, :, : self.d] = J * share
        found[:, :, -1:] = values * share
        return WeightedSums(found)

    def _values(self, centers: Centers, Z: Any, a: Any) -> Any:
        out = self.engine.empty((a.shape[1], len(Z)), FLOAT64)
        Z, a = self.engine.like(Z, centers.Z), self.engine.like(a, centers.Z)
        for part in self._parts(len(Z), len(centers)):
            out[:, part] = (centers.kernel(Z[part]) @ a).T
        return out

    def _derivatives(self, centers: Centers, Z: Any, a: Any, moments: Any) -> Any:
        out = self.engine.empty((a.shape[1], len(Z), self.d + 1), FLOAT64)
        for part in self._parts(len(Z), len(centers)):
            out[:, part] = centers.derivatives(Z[part], a, None, moments)
        return out

    def _parts(self, m: int, n: int) -> list[slice]:
        most = DEVICE_ENTRIES if self.engine.on_device else MAX_ENTRIES
        size = max(1, most // max(n, 1))
        return [slice(s, s + size) for s in range(0, m, size)]

    def values(self, Q: NDArray, exclude: NDArray | None = None) -> NDArray:
        """Values of f at rows of X, (m, n_outputs)."""
        queries, total = self.queries(np.asarray(Q)), 0
        for member, centers, L, a in self._quick:
            Z = mapped(queries[member.preparation][0], L)
            total = total + self._values(centers, Z, a).T
        mean = self.engine.array(self.summary.prior, FLOAT64)
        return self.engine.to_host(total / len(self._quick) + mean)

    @cached_property
    def _quick(self) -> list[tuple[Member, Centers, Any, Any]]:
        """The machines for values alone: those on centres in float32 where that keeps distances."""
        found = []
        for member, centers, L, a, _ in self._tiles:
            Z = self.engine.to_host(centers.Z)
            single = member.centers is not None and fits_single(Z, centers.h)
            found.append((member, single_centers(centers) if single else centers, L, a))
        return found

    def changes(self, X: NDArray, others: NDArray) -> Callable[[NDArray], NDArray]:
        """What gives the values once some columns are those of other rows.

        Distances to the centres are measured once; a column adds its part, whatever else there is.
        """
        Q, there = self.queries(X), self.queries(others)
        parts = []
        for member, centers, L, a, _ in self._tiles:
            rows = Q[member.preparation][0]
            Z = mapped(rows, L)
            moves = there[member.preparation][0] - rows
            parts.append((centers, L, a, Z, moves, centers.distances(Z)))
        prior = self.engine.array(self.summary.prior, FLOAT64)

        def changed(group: NDArray) -> NDArray:
            j, total = self.engine.index(group), 0
            for centers, L, a, Z, moves, D in parts:
                moved = centers.replaced(D, Z, moves[:, j], self._columns(L, group))
                total = total + centers.kernel_at(moved) @ a
            return self.engine.to_host(total / len(parts) + prior)

        return changed

    def walk(self, starts: NDArray, ends: NDArray, groups: Sequence[NDArray]) -> Iterator[NDArray]:
        """Values as groups of columns go from one row to another in turn.

        A step adds its part to the distances, whatever else there is.
        """
        first, last = self.queries(starts), self.queries(ends)
        parts = []
        for member, centers, L, a, _ in self._tiles:
            rows = first[member.preparation][0]
            moves = last[member.preparation][0] - rows
            Z = mapped(rows, L)
            parts.append([centers, L, a, Z, moves, centers.distances(Z)])
        prior, n = self.engine.array(self.summary.prior, FLOAT64), len(parts)
        for group in [np.array([], dtype=int), *groups]:
            total, j = 0, self.engine.index(group)
            for part in parts:
                centers, L, a, Z, moves, D = part
                if len(group):
                    columns = self._columns(L, group)
                    part[5] = D = centers.replaced(D, Z, moves[:, j], columns)
                    part[3] = Z + moves[:, j] @ columns
                total = total + centers.kernel_at(D + 0) @ a
            yield self.engine.to_host(total / n + prior)

    def _columns(self, L: Any, group: NDArray) -> Any:
        """Some columns of a map as rows, (k, r)."""
        if L is not None and L.ndim == 2:
            return L[:, self.engine.index(group)].T
        rows = np.zeros((len(group), self.d))
        rows[np.arange(len(group)), group] = 1
        found = self.engine.array(rows, FLOAT64)
        return found if L is None else found * L

    def means(self, sums: WeightedSums, Q: Any, prior: Callable[[], NDArray]) -> tuple[Any, ...]:
        """Values around the mean target, and the Jacobian."""
        mean = self.engine.array(self.summary.prior, FLOAT64)[:, None, None]
        return sums.sums[:, :, -1:] + mean, sums.sums[:, :, :-1]
