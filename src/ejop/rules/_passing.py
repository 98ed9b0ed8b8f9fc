"""Rows as passes read them: scaled, prepared and mapped, and held where they fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.executors.threads import in_threads
from ejop.functions import mapped
from ejop.rows import Block
from ejop.rules._chains import Chain
from ejop.sums.conjugate import FLOAT32, Passes, RowPasses, SharedPasses
from ejop.sums.engine import Engine
from ejop.sums.ridge import FLOAT64

Made = Callable[[int, int], tuple[Any, Any]]
#: bytes of mapped rows that a processor keeps for all passes, and the share of what a device has
HELD, DEVICE_HELD = 2**30, 0.25
#: numbers of scaled rows that are made at once, by a processor and on a device
MADE, DEVICE_MADE = 2_000_000, 100_000_000


@dataclass
class PassRows:
    """The rows of a fit, as the machines of its chains see them.

    On a device scaled rows are copied once; what a chain makes of them is made there.

    Attributes
    ----------
    block : Block
        Scaled rows; ``X`` may be anything that slices and row numbers read from.
    residual : callable
        ``residual(part)`` gives the targets of some rows less their mean, in units.
    columns : dict of callable
        ``columns[name](X, engine)`` prepares scaled rows, arrays of that engine.
    engines : sequence of Engine
        Among which the rows of a pass are shared.
    memory_limit : int or None
    """

    block: Block
    residual: Callable[[Any], NDArray]
    columns: dict[str, Callable[[Any, Engine], Any]]
    engines: Sequence[Engine]
    memory_limit: int | None
    #: scaled rows and targets of a range of places, by engine and type
    copies: dict[Any, tuple[Any, Any]] = field(default_factory=dict)
    #: what the last chain made of all rows, by engine: the next passes may be over them too
    last: dict[Any, Any] = field(default_factory=dict)

    def passes(self, chain: Chain, rows: NDArray | None, weights: NDArray, kind: Any) -> Passes:
        """Passes over some of the rows, None for all, with their weights."""
        total = len(weights)
        engines = [one if kind == FLOAT32 else one.precise() for one in self.engines]
        cuts = [total * k // len(engines) for k in range(len(engines) + 1)]
        parts = [
            (engine, self._part(engine, chain, rows, weights, range(start, stop), kind))
            for engine, start, stop in zip(engines, cuts, cuts[1:], strict=False)
        ]
        return parts[0][1] if len(parts) == 1 else SharedPasses(parts)

    def _part(
        self,
        engine: Engine,
        chain: Chain,
        rows: NDArray | None,
        weights: NDArray,
        places: range,
        kind: np.dtype,
    ) -> RowPasses:
        """Passes over some of the rows on one engine; held there under their map if they fit."""
        total = len(places)
        weights = weights[places.start : places.stop]
        equal = bool(np.all(weights == 1))
        column = None if equal else engine.array(weights[:, None], kind)
        L = chain.L
        width = self.block.X.shape[1] if L is None or L.ndim == 1 else len(L)
        make = self._maker(engine, chain, rows, places, kind)
        held: Any = None
        if total * (width + self.block.Y.shape[1]) * kind.itemsize <= self._room(engine):
            held = self._held(engine, chain, rows, places, kind, make, width)

        def read(start: int, stop: int) -> tuple[Any, Any, Any]:
            w = None if column is None else column[start:stop]
            Z, R = make(start, stop) if held is None else (part[start:stop] for part in held)
            return Z, R, w

        return RowPasses(read, total, float(weights.sum()))

    def _room(self, engine: Engine) -> float:
        """Bytes that may be held."""
        if self.memory_limit is not None:
            return self.memory_limit / 4
        return DEVICE_HELD * engine.budget(1) if engine.on_device else HELD

    def _maker(
        self, engine: Engine, chain: Chain, rows: NDArray | None, places: range, kind: np.dtype
    ) -> Made:
        """What gives mapped rows and targets from ``start`` to ``stop`` of some places."""
        prepare, precise = self.columns[chain.preparation], engine.precise()
        copies = self._copied(engine, rows, places, kind)
        map_ = None if chain.L is None else precise.array(chain.L, FLOAT64)

        def make(start: int, stop: int) -> tuple[Any, Any]:
            if copies is None:
                X, R = self._read(rows, places, start, stop)
            else:
                X, R = (one[start:stop] for one in copies)
            Z = mapped(prepare(precise.array(X, FLOAT64), precise), map_)
            return engine.array(Z, kind), engine.array(R, kind)

        return make

    def _read(
        self, rows: NDArray | None, places: range, start: int, stop: int
    ) -> tuple[NDArray, NDArray]:
        """Scaled rows, and targets."""
        part: Any = slice(places.start + start, places.start + stop)
        part = part if rows is None else rows[part]
        return self.block.X[part], self.residual(part)

    def _copied(self, engine: Engine, rows: NDArray | None, places: range, kind: np.dtype) -> Any:
        """Scaled rows and targets on a device in float32; None where they are not copied."""
        if not engine.on_device or kind != FLOAT32:
            return None
        key = engine, places
        if rows is None and key in self.copies:
            return self.copies[key]
        total, (d, c) = len(places), (self.block.X.shape[1], self.block.Y.shape[1])
        if total * (d + c) * kind.itemsize > self._room(engine):
            return None
        found = engine.empty((total, d), kind), engine.empty((total, c), kind)
        size = max(1, MADE // d)

        def copy(start: int) -> None:
            stop = min(start + size, total)
            for whole, part in zip(found, self._read(rows, places, start, stop), strict=True):
                whole[start:stop] = engine.array(part.astype(kind), kind)

        in_threads(copy, range(0, total, size), operations=20.0 * total * d)
        if rows is None:
            self.copies[key] = found
        return found

    def _held(
        self,
        engine: Engine,
        chain: Chain,
        rows: NDArray | None,
        places: range,
        kind: np.dtype,
        make: Made,
        width: int,
    ) -> Any:
        """Mapped rows and targets of all places, those of the last chain again if it is this."""
        name = chain.name, engine, places, kind
        if rows is None and name in self.last:
            return self.last[name]
        self.last = {key: held for key, held in self.last.items() if key[0] == chain.name}
        total = len(places)
        held = tuple(
            engine.empty((total, columns), kind) for columns in (width, self.block.Y.shape[1])
        )
        made = DEVICE_MADE if engine.on_device else MADE
        size = max(1, made // self.block.X.shape[1])

        def fill(start: int) -> None:
            stop = min(start + size, total)
            for whole, part in zip(held, make(start, stop), strict=True):
                whole[start:stop] = part

        operations = 200.0 * total * self.block.X.shape[1]
        threads = 1 if engine.on_device else None
        in_threads(fill, range(0, total, size), threads, operations=operations)
        if rows is None:
            self.last[name] = held
        return held
