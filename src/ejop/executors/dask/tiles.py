"""The sum with references in blocks, none of which holds them all.

A task makes the un-normalised sums of some queries over one block; a tree merges them in the log
domain, and Jacobians and outer products are made of them at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.executors.dask.broadcast import checked, grouped_plan
from ejop.executors.dask.choices import solved_ridge
from ejop.executors.dask.cluster import Workers, constant, delayed, run, tree
from ejop.executors.dask.plan import (
    STATE_SHARE,
    STATE_WIDTH,
    STATES,
    TASKS_PER_THREAD,
    ClusterPlan,
    make_job,
)
from ejop.executors.dask.rows import Rows
from ejop.executors.expectation import Averager, Terms, merged
from ejop.functions import Function, RidgeFunction
from ejop.rows import Block, join_blocks, whole_block
from ejop.sums import Form, OuterProduct, WeightedSums, prepare
from ejop.sums.engine import HOST
from ejop.sums.form import Request
from ejop.sums.plan import format_bytes, make_plan

#: queries handled at once within a task
QUERIES = HOST.max_block
#: share of a task's memory that the tables of some references take, and these at the least
TABLE_SHARE, MIN_TILE = 0.3, 256


class _Blockwise:
    """What sums over blocks share: a job that is known without looking at all rows."""

    method, block = "", QUERIES
    notes: tuple[str, ...] = ()

    def __init__(
        self, client: Any, estimator: Any, function: Any, rows: Rows, team: Workers
    ) -> None:
        self.client, self.estimator, self.team = client, estimator, team
        self.rows = rows.grouped(parts=TASKS_PER_THREAD * team.threads)
        if estimator.min_mass is not None:
            raise ValueError(
                f"`min_mass`={estimator.min_mass!r} counts rows among all references, which tiles "
                "do not; use min_mass=None, or reduction='broadcast' where they fit a worker."
            )
        self.job = make_job(estimator, rows, team)
        self.function = self.settled(function)
        self.step = estimator.choose_step(self.function)
        self.terms: Terms = estimator.terms(self.function)
        self.tasks = 0

    def settled(self, function: Any) -> Any:
        """The function without rows, with everything chosen."""
        raise NotImplementedError

    def plan(self, total: OuterProduct) -> ClusterPlan:
        """What ran."""
        s = self.rows.summary
        return ClusterPlan(
            method=self.method,
            n_rows=self.rows.n,
            n_queries=total.count,
            n_features=s.n_features,
            n_outputs=s.n_outputs,
            dtype=str(s.dtype),
            block=self.block,
            batch=self.job.batch,
            threads=self.team.threads,
            memory=self.job.memory or 0,
            notes=list(self.notes),
            reduction="tiles",
            workers=str(self.team),
            tasks=self.tasks,
        )


class Tiles(_Blockwise):
    """Sums of a smoother over the blocks of references."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        s, room = self.rows.summary, self.team.room
        self.form = prepare(self.function, self.step)
        self.state_bytes = (s.n_outputs + 1) * Request(self.step).columns(s.n_features) * 8
        fitting = 2**62 if np.isinf(room) else int(STATE_SHARE * room / STATES / self.state_bytes)
        self.block = max(QUERIES, fitting)
        self.method = f"{getattr(self.function, 'kernel', self.form.cost.method)}-sums"

    def settled(self, function: Any) -> Any:
        """The smoother with its bandwidth."""
        return function.settle(self.rows)

    def add(self, queries: NDArray) -> tuple[OuterProduct, int]:
        """Outer products of some rows, in rounds that read all references once each."""
        parts = [run(self.client, self._round(index)) for index in self._rounds(queries)]
        return checked(merged(parts), len(queries))

    def _rounds(self, queries: NDArray) -> list[NDArray]:
        """Row numbers of each round, sorted, about equally many."""
        n = len(queries)
        count = -(-n // min(self.block, max(QUERIES, n)))
        most = -(-n // count)
        self.notes = (
            f"{count} round{'s' * (count > 1)} of at most {most} queries, whose sums take "
            f"{format_bytes(most * self.state_bytes)}; each reads {len(self.rows.blocks)} blocks "
            "of references",
        )
        return [np.sort(part) for part in np.array_split(queries, count)]

    def _round(self, index: NDArray) -> Any:
        """Delayed outer products of some queries."""
        queries = self.rows.sample(index)
        task = constant((self.form, self.job, self.terms))
        self.tasks += len(self.rows.blocks)
        tiles = [delayed(_tile)(task, block, queries) for block in self.rows.blocks]
        sums = tree(tiles, _merged_sums, STATE_WIDTH)
        return delayed(_close)(task, sums, queries)

    def whole(self) -> Any:
        """The function with all rows, delayed."""
        return delayed(_holding_all)(constant(self.function), self.rows.blocks)


def _holding_all(function: Any, blocks: list[Block]) -> Function:
    function = function[0] if isinstance(function, tuple) else function
    return function.holding(join_blocks(blocks))


def _slices(n: int, size: int) -> Iterator[slice]:
    return (slice(s, min(s + size, n)) for s in range(0, n, size))


def _tile(task: Any, block: Block, queries: Block) -> WeightedSums:
    """Sums of the queries over one block of references, a piece of it at a time."""
    form, job, terms = task
    size = len(block)
    if job.memory is not None:
        width = 3 * form.d * form.kind.itemsize
        size = max(MIN_TILE, int(TABLE_SHARE * job.memory / width))
    exclude = queries.index if terms.leave_one_out else None
    total = None
    for piece in _slices(len(block), size):
        tile = form.tile(block.rows(piece))
        found = [
            form.sums(form.queries(queries.X[s]), tile, None if exclude is None else exclude[s])
            for s in _slices(len(queries), QUERIES)
        ]
        part = WeightedSums.join(found)
        total = part if total is None else total.absorb(part)
    assert total is not None
    return total


def _merged_sums(parts: list[WeightedSums]) -> WeightedSums:
    total = parts[0]
    for part in parts[1:]:
        total = total.merge(part)
    return total


def _close(task: Any, sums: WeightedSums, queries: Block) -> tuple[OuterProduct, int]:
    """Outer products from sums over all references, rows dealt to groups at random."""
    form, job, terms = task
    total = OuterProduct(form.c, form.d, diagonal=terms.diagonal, batch=job.batch)
    order = np.random.default_rng(len(queries)).permutation(len(queries))
    for s in _slices(len(queries), QUERIES // job.batch * job.batch):
        own = queries.rows(order[s])
        J = form.derive(
            sums[order[s]],
            form.queries(own.X),
            lambda own=own: _prior(form, own, terms.leave_one_out),
            softmax=terms.softmax,
        )
        total.add(J, own.w, check=False)
    return total, 0


def _prior(form: Form, own: Block, leave_out: bool) -> NDArray:
    if leave_out:
        return form.summary.prior_without(own.Y, own.weights)
    return np.tile(form.summary.prior, (len(own), 1))


class Rowless(_Blockwise):
    """Functions that need no references once they are fitted: ridge on centres, frozen models."""

    block = 0

    def settled(self, function: Any) -> Any:
        """Fit what is to be fitted; keep it on the workers."""
        if isinstance(function, RidgeFunction):
            self.method = "ridge"
            self.kept = solved_ridge(self.client, function, self.rows)
            self.notes = (
                f"{min(function.n_centers, self.rows.n)} Nystrom centres drawn across the blocks; "
                "the normal equations are summed over them",
            )
            return function
        self.method = "model"
        self.notes = ("a frozen model needs no references",)
        function = function.settle(self.rows).holding(_stand_ins(self.rows))
        function.solve(HOST)
        self.kept = constant((function, None))
        return function

    def add(self, queries: NDArray) -> tuple[OuterProduct, int]:
        """Outer products of some rows, block by block."""
        task = constant((self.estimator, self.job, self.terms, self.step))
        parts = self.rows.takes(np.sort(queries))
        tasks = [delayed(_rowless_sum)(self.kept, block, task) for block, _ in parts]
        self.tasks += len(tasks)
        return checked(run(self.client, tree(tasks, merged)), len(queries))

    def whole(self) -> Any:
        """The function with all rows, delayed."""
        return delayed(_holding_all)(self.kept, self.rows.blocks)


def _stand_ins(rows: Rows) -> Block:
    """Two rows and targets of the mean and spread of all."""
    s = rows.summary
    spread = np.sqrt(s.X.variance)
    X = np.stack([s.X.mean - spread, s.X.mean + spread]).astype(s.dtype)
    Y = np.eye(s.n_outputs)[[0, -1]] if s.one_hot else np.stack([s.Y.low, s.Y.high])
    return whole_block(X, Y, None)


def _rowless_sum(kept: Any, block: Block, task: Any) -> tuple[OuterProduct, int]:
    (function, system), (estimator, job, terms, step) = kept, task
    n = len(block)
    n_excluded = n if terms.leave_one_out else 0
    part = function.holding(block)
    form = part.form(Request(step, HOST, job.memory, n, n_excluded, system))
    plan = make_plan(form, n, n_jobs=estimator.n_jobs or 1, memory_limit=job.memory)
    order = np.random.default_rng(n).permutation(n)
    return Averager([form], grouped_plan(plan, job), terms).add(order)
