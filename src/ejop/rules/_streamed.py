"""Kernel machines for more rows than one matrix holds.

What a small sample finds best goes on as *chains*: on a pool of rows each machine's derivatives
make the next map, again and again, as long as rows that were put aside are predicted better. The
best chains are then solved for all rows, on as many centres as still help, by passes over the rows
(:mod:`ejop.sums.conjugate`). Rows are only read, a block at a time.

Rows that are put aside serve twice: *judges* choose, *honest* rows are predicted once at the end,
and all that is told comes from these.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.executors.threads import n_threads, stream
from ejop.functions import Member, centers_of, mapped
from ejop.rows import Block
from ejop.rules._chains import Chain, Pooled, median_distance, pooled
from ejop.rules._checkpoint import Checkpoint
from ejop.rules._machines import Regression, outer_product, root
from ejop.rules._passing import PassRows
from ejop.rules._scope import CARD, PROCESSOR, Scope
from ejop.sums.conjugate import (
    FLOAT32,
    ConjugateSystem,
    Iterate,
    Passes,
    fits_single,
)
from ejop.sums.engine import HOST, Engine
from ejop.sums.ridge import FLOAT64

#: rows that are put aside for each of two uses, at the most, and as one in so many
ASIDE, ONE_IN = 5_000, 10
#: chains that go on after each round; those after the last as many as that
CHAINS = (5, 3, 2)
ROUNDS = 12
#: share of the loss that a round must take off, twice as many centres, and another machine
GAIN, CENTERS_GAIN, MEMBER_GAIN = 0.01, 0.02, 0.002
#: centres that are tried, each twice as many as before, and rows that judge them, for each centre
FIRST_CENTERS, ROWS_PER_CENTER = 2_000, 50
#: passes of conjugate gradients at the most, and the residual at which they end
PASSES, RESIDUAL = 25, 1e-3
#: passes without a gain of so much of the loss before they end
PATIENCE, PASS_GAIN = 2, 1e-3
#: passes that take the rows put aside in
LAST_PASSES = 3
#: median distances come from so many rows
MEDIAN_ROWS = 500


@dataclass(frozen=True)
class Solved:
    """A chain solved for many rows.

    Attributes
    ----------
    chain : Chain
    coefficients : ndarray of shape (m, c)
    loss : float
        Of the judges.
    rows : int
        That it was solved for.
    """

    chain: Chain
    coefficients: NDArray
    loss: float
    rows: int


@dataclass
class StreamedSearch:
    """Machines for many rows.

    Attributes
    ----------
    block : Block
        All rows, scaled; ``X`` may be anything that slices and row numbers read from.
    residual : callable
        ``residual(part)`` gives the targets of some rows less their mean, in units.
    columns : dict of callable
        What prepares scaled rows of an engine, by preparation.
    loss : callable
        ``loss(values, rows)`` of predictions (less the mean) of some rows.
    n_members : int
    seed : int
    engine : Engine
    n_centers : int or None
    memory_limit : int or None
    maps : bool
        Whether maps are learned.
    expired : callable
        Whether the time is over.
    checkpoint : Checkpoint
        Where finished steps are kept.
    others : sequence of Engine
        Among which, and ``engine``, the rows of a pass are shared.
    """

    block: Block
    residual: Callable[[Any], NDArray]
    columns: dict[str, Callable[[Any, Engine], Any]]
    loss: Callable[[NDArray, NDArray], float]
    n_members: int
    seed: int
    engine: Engine
    n_centers: int | None
    memory_limit: int | None
    maps: bool = True
    expired: Callable[[], bool] = lambda: False
    checkpoint: Checkpoint = field(default_factory=lambda: Checkpoint(None, ""))
    others: Sequence[Engine] = ()
    notes: list[str] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)

    def __post_init__(self) -> None:
        n = len(self.block)
        order = np.random.default_rng(self.seed + 5).permutation(n)
        aside = min(ASIDE, n // ONE_IN)
        self.honest, self.judges = np.sort(order[:aside]), np.sort(order[aside : 2 * aside])
        self.order = order[2 * aside :]
        self.most = self._most_centers(len(self.order))
        limit, scope = self.memory_limit or np.inf, self.scope
        self.pool_rows = int(min(scope.pool, max(scope.pool_centers, limit / scope.pooled_bytes)))
        self.pool = self.order[: max(scope.pool, self.most)]  # the first of it are centres
        engines = [self.engine, *self.others]
        self.rows = PassRows(self.block, self.residual, self.columns, engines, self.memory_limit)

    @property
    def scope(self) -> Scope:
        """How much the engine can take on."""
        return CARD if self.engine.most_centers() > PROCESSOR.centers else PROCESSOR

    def _most_centers(self, n: int) -> int:
        """As many as memory and a pass over the rows allow."""
        if self.n_centers is not None:
            return min(self.n_centers, n)
        scope = self.scope
        most = min(n, scope.centers, max(FIRST_CENTERS, int(scope.work / n)))
        if self.memory_limit is not None:
            most = min(most, int((self.memory_limit / (4 * 8)) ** 0.5))
        return max(1, most)

    # steps ------------------------------------------------------------------------------------

    def run(self, chains: Sequence[Chain]) -> Iterator[str]:
        """All steps, told one by one; what they find is in ``members`` in the end."""
        ranked = yield from self._rounds(list(chains))
        chosen = self._together(ranked)
        m = yield from self._centers_for(chosen[0])
        most = max(1, int(self.scope.all_work / (len(self.order) * m)))
        values: list[NDArray] = []
        for chain in chosen[:most]:
            if self.members and self.expired():
                break
            member, found = yield from self._finished(chain, m)
            self.members.append(member)
            values.append(found)
        self.values = np.mean(values, axis=0)

    def expected_steps(self) -> int:
        """Steps of :meth:`run`, roughly."""
        rounds = sum(CHAINS) + (ROUNDS - len(CHAINS)) * CHAINS[-1] // 2
        return rounds + (2 + self.n_members) * PASSES // 2

    def _rounds(self, chains: list[Chain]) -> Generator[str, None, list[Chain]]:
        """Rounds on the pool: what they lead to, best first."""
        best: dict[tuple[str, str, bool], Chain] = {}
        self.prepared = {name: self._prepared(name) for name in {c.preparation for c in chains}}
        for k in range(ROUNDS):
            chains = chains[: CHAINS[min(k, len(CHAINS) - 1)]]
            threads = 1 if self.engine.on_device else n_threads(None, 1e9 * len(chains))
            tried = []
            for one in stream(self._improved, chains, threads):
                kind = one.preparation, one.kernel, one.diagonal
                before = best.get(kind)
                if before is None or one.loss < before.loss:
                    best[kind] = one
                if one.next is not None and (before is None or one.loss < (1 - GAIN) * before.loss):
                    tried.append(one)
                yield f"round {k}, {one.name}"
            chains = [
                replace(one, round=one.round + 1, L=one.next, next=None, a=None)
                for one in sorted(tried, key=lambda one: one.loss)
            ]
            if not chains or self.expired():
                break
        return sorted(best.values(), key=lambda one: one.loss)

    def _improved(self, chain: Chain) -> Chain:
        """A chain with bandwidth, penalty and loss under its map, and the next map."""
        found = self.checkpoint.found(chain.name)
        if found is not None:
            return chain.found(found)
        rng = np.random.default_rng(self.seed + 7)
        engine, pool = self.engine.precise(), self.pool[: self.pool_rows]
        L = None if chain.L is None else engine.array(chain.L, FLOAT64)
        X, J = (mapped(rows, L) for rows in self.prepared[chain.preparation])
        R, w = self.residual(pool), self._weights(pool)
        centers = np.arange(min(self.scope.pool_centers, len(X)))
        some = engine.index(rng.permutation(len(X))[:MEDIAN_ROWS])
        unit = median_distance(chain.kernel, X[some], engine)
        tried: dict[float, Pooled] = {}

        def loss(width: float) -> float:
            if width not in tried:
                tried[width] = pooled(
                    engine, chain.kernel, X, R, w, centers, unit * width, J, self._judge
                )
            return tried[width].loss

        width = chain.width
        while True:
            step = min((width / 2, width * 2), key=loss)
            if not loss(step) < loss(width):
                break
            width = step
        value, penalty, a, judged = tried[width]
        done = replace(
            chain, width=width, h=unit * width, penalty=penalty, loss=value, judged=judged, a=a
        )
        if a is not None and self.maps:
            targets = engine.array(R[centers], FLOAT64)
            problem = Regression(X[: len(centers)], targets, None, engine)
            done = replace(done, next=self._next_map(done, problem, a, rng))
        self.checkpoint.keep(done.name, done.arrays())
        return done

    def _next_map(self, chain: Chain, problem: Regression, a: Any, rng: Any) -> NDArray | None:
        """Root of the outer product of f's derivatives by the prepared columns."""
        a = problem.engine.array(a, FLOAT64)
        M = outer_product(problem, chain.kernel, chain.h, a, rng, self.scope.map_rows)
        L = chain.L
        if L is not None:
            M = M * np.outer(L, L) if L.ndim == 1 else L.T @ M @ L
        found = root(self.engine.precise(), M, chain.diagonal)
        return None if found is None else self.engine.to_host(found)

    def _together(self, ranked: Sequence[Chain]) -> list[Chain]:
        """The best chain, and those with which the mean predicts the judges better."""
        chosen, mean = [ranked[0]], ranked[0].judged
        for chain in ranked[1:]:
            if len(chosen) == self.n_members or chain.judged is None or mean is None:
                break
            both = mean + (chain.judged - mean) / (len(chosen) + 1)
            if self._judge(both) < (1 - MEMBER_GAIN) * self._judge(mean):
                chosen.append(chain)
                mean = both
        return chosen

    def _centers_for(self, chain: Chain) -> Generator[str, None, int]:
        """Twice as many centres again and again, as long as the judges gain."""
        n, m, before = len(self.order), min(FIRST_CENTERS, self.most), np.inf
        while m < self.most and not self.expired():
            one = yield from self._solve(chain, m, min(n, ROWS_PER_CENTER * m))
            if not one.loss < (1 - CENTERS_GAIN) * before:
                m //= 2
                why = "twice as many were not better"
                break
            before, m = one.loss, min(2 * m, self.most)
        else:
            why = "as many as memory, or a short pass over the rows, allows"
        self.notes.append(
            f"machines are solved for all {len(self.block)} rows on {m} centres, drawn at random "
            f"({why})"
        )
        return m

    # machines ---------------------------------------------------------------------------------

    def _solve(self, chain: Chain, m: int, n: int) -> Generator[str, None, Solved]:
        """A machine on m centres for n rows; passes until the judges gain no more."""
        found = self.checkpoint.found(f"{chain.name} {m} {n}")
        if found is not None and found["finished"]:
            return Solved(chain, found["a"], float(found["loss"]), n)
        return (yield from self._descended(chain, self._system(chain, m, n), n))

    def _descended(
        self, chain: Chain, equations: tuple[ConjugateSystem, Passes], n: int
    ) -> Generator[str, None, Solved]:
        system, passes = equations
        m = len(system.centers)
        name = f"{chain.name} {m} {n}"
        K = system.centers.kernel(self._on(system, self._mapped(chain, self.judges)))

        def judged(a: NDArray) -> float:
            found = self.engine.to_host(K @ self._on(system, a))
            return self._judge(found.astype(np.float64))

        best, waited, done, after = None, 0, 0, None
        start = _widened(chain.a, m)
        found = self.checkpoint.found(name)
        if found is not None:
            best = Solved(chain, found["a"], float(found["loss"]), n)
            if found["finished"]:
                return best
            waited, done = int(found["waited"]), int(found["passes"]) + 1
            after = Iterate.found(system, found)
        for descent in system.descend(passes, self.n_outputs, start, after):
            a = descent.coefficients
            loss = judged(a)
            waited = 0 if best is None or loss < (1 - PASS_GAIN) * best.loss else waited + 1
            if best is None or loss < best.loss:
                best = Solved(chain, a, loss, n)
            ended = waited >= PATIENCE or descent.share < RESIDUAL or done >= PASSES
            counts = {"passes": done, "waited": waited, "finished": ended, "loss": best.loss}
            self._keep(name, {"a": best.coefficients, **counts}, None if ended else descent)
            yield f"pass {done} of {chain.name}, {m} centres, {n} rows: {loss:.4g}"
            done += 1
            if ended or (self.expired() and done > LAST_PASSES):
                break
        assert best is not None
        return best

    def _keep(self, name: str, what: dict[str, Any], descent: Iterate | None) -> None:
        """Write down where a descent has come to; None where it has ended."""
        if self.checkpoint.path is not None:
            state = {} if descent is None else descent.arrays()
            self.checkpoint.keep(name, {**{k: np.asarray(v) for k, v in what.items()}, **state})

    def _finished(self, chain: Chain, m: int) -> Generator[str, None, tuple[Member, NDArray]]:
        """A member for all rows, and what it says of honest rows before it has seen them.

        Some more passes take in the rows that were put aside.
        """
        name = f"{chain.name} {m} last"
        found = self.checkpoint.found(name)
        if found is not None and found["passes"] == LAST_PASSES:
            return self._member(chain, found["a"]), found["values"]
        system, passes = self._system(chain, m, len(self.order))
        if found is None:
            one = yield from self._descended(chain, (system, passes), len(self.order))
            values, a, done, after = self._values(one, self.honest), one.coefficients, 0, None
        else:
            values, a, done = found["values"], found["a"], int(found["passes"]) + 1
            after = Iterate.found(system, found)
        del passes
        every = self._passes(chain, None, system.kind)
        for descent in system.descend(every, self.n_outputs, a, after):
            a = descent.coefficients
            self._keep(name, {"a": a, "values": values, "passes": done}, descent)
            yield f"last pass {done} of {chain.name}"
            if done == LAST_PASSES:
                break
            done += 1
        return self._member(chain, a), values

    def _system(self, chain: Chain, m: int, n: int | None) -> tuple[ConjugateSystem, Passes]:
        """Equations of m centres, and passes over n rows; None for all, those put aside too."""
        Z = self._mapped(chain, self.pool[:m])
        single = fits_single(Z, chain.h)
        passes = self._passes(chain, n, FLOAT32 if single else FLOAT64)
        system = ConjugateSystem.of(
            chain.kernel, Z, chain.h, chain.penalty, passes.weight, self.engine, single=single
        )
        return system, passes

    def _passes(self, chain: Chain, n: int | None, kind: np.dtype) -> Passes:
        """Passes over rows of which those put aside weigh nothing."""
        every = n is None or n == len(self.order)
        rows = None if every else np.sort(self.order[:n])
        found = self._weights(rows)
        weights = np.ones(len(self.block) if rows is None else len(rows))
        weights = weights if found is None else found.copy()
        if rows is None and n is not None:
            weights[self.honest] = weights[self.judges] = 0
        return self.rows.passes(chain, rows, weights, kind)

    def _values(self, one: Solved, rows: NDArray) -> NDArray:
        """Predictions of some rows, less the mean target."""
        Z = self._mapped(one.chain, self.pool[: len(one.coefficients)])
        engine = self.engine.precise()
        centers = centers_of(one.chain.kernel, engine.array(Z, FLOAT64), one.chain.h, engine)
        Q = engine.array(self._mapped(one.chain, rows), FLOAT64)
        a = engine.array(one.coefficients, FLOAT64)
        return engine.to_host(centers.kernel(Q) @ a)

    def _member(self, chain: Chain, a: NDArray) -> Member:
        """A machine as an average holds it; its centres are rows that :meth:`kept` names."""
        places = len(self.honest) + len(self.judges) + np.arange(len(a))
        return Member(
            chain.preparation,
            chain.kernel,
            chain.diagonal,
            chain.round,
            chain.h,
            chain.penalty,
            (chain.h, chain.penalty),
            chain.L,
            a,
            places,
            chain.loss,
        )

    def kept(self) -> NDArray:
        """Numbers of the rows that a model holds: honest rows, judges, the pool."""
        return np.concatenate([self.honest, self.judges, self.pool])

    # rows -------------------------------------------------------------------------------------

    @property
    def n_outputs(self) -> int:
        """Targets."""
        return self.block.Y.shape[1]

    def _prepared(self, name: str) -> tuple[Any, Any]:
        """Rows of the pool and judges under a preparation, where machines are solved."""
        engine = self.engine.precise()
        pool, judges = (self.block.X[rows] for rows in (self.pool[: self.pool_rows], self.judges))
        prepare = self.columns[name]
        return tuple(prepare(engine.array(X, FLOAT64), engine) for X in (pool, judges))

    def _mapped(self, chain: Chain, rows: NDArray) -> NDArray:
        return mapped(self.columns[chain.preparation](self.block.X[rows], HOST), chain.L)

    def _weights(self, rows: NDArray | None) -> NDArray | None:
        if self.block.w is None:
            return None
        w = self.block.w / self.block.w.mean()
        return w if rows is None else w[rows]

    def _judge(self, values: NDArray) -> float:
        return self.loss(values, self.judges)

    def _on(self, system: ConjugateSystem, values: NDArray) -> Any:
        return system.centers.engine.array(values, system.kind)


def _widened(a: NDArray | None, m: int) -> NDArray | None:
    """Coefficients on the pool's centres, the first of m, as a start: never worse than the pool."""
    if a is None or len(a) > m:
        return None
    return np.pad(a, ((0, m - len(a)), (0, 0)))
