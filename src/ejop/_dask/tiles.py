"""The sum with references in blocks, none of which holds them all.

A task makes the un-normalised sums of some queries over one block; a tree merges them in the log
domain, and Jacobians and outer products are made of them at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop._dask.broadcast import block_sum, checked, merged
from ejop._dask.choices import settle, settled_ridge, settled_smoother
from ejop._dask.cluster import Workers, constant, delayed, keep, run, tree
from ejop._dask.plan import (
    STATE_SHARE,
    STATE_WIDTH,
    STATES,
    TASKS_PER_THREAD,
    ClusterPlan,
    Job,
    described,
    first_round,
    task_memory,
)
from ejop._dask.rows import Block, Rows
from ejop.backends.gaussian import WeightedSums
from ejop.backends.plan import MAX_BLOCK, format_bytes, group_size, make_plan
from ejop.functions import Function, RidgeFunction
from ejop.outerproduct import OuterProduct


def tiles_of(function: Function, rows: Rows) -> type:
    return Tiles if function.divisible else Rowless


class _Blockwise:
    """What sums over blocks share: a job that is known without looking at all rows."""

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
        self.function = function = self.settled(function)
        self.tasks = 0
        self.described = described(function, estimator, rows)
        n_queries = first_round(estimator, rows.n)
        self.job = Job(
            estimator=estimator,
            step=estimator._choose_step(function),
            leave_one_out=estimator.leave_one_out and function.leaves_out,
            softmax=estimator._softmax(),
            diagonal=estimator.diagonal,
            min_mass=None,
            memory=task_memory(estimator, team),
            batch=group_size(rows.summary.n_features, n_queries),
        )

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

    method, block = "", MAX_BLOCK
    notes: tuple[str, ...] = ()


class Tiles(_Blockwise):
    """Sums of a smoother over the blocks of references."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        s, room = self.rows.summary, self.team.room
        columns = s.n_features + 1 if self.job.step is None else 2 * s.n_features
        self.state_bytes = (s.n_outputs + 1) * columns * 8
        fitting = 2**62 if np.isinf(room) else int(STATE_SHARE * room / STATES / self.state_bytes)
        self.block = max(MAX_BLOCK, fitting)
        self.method = f"{self.function.kernel}-sums"

    def settled(self, function: Any) -> Any:
        """The smoother with its bandwidth."""
        return settled_smoother(self.client, function, self.rows)

    def add(self, queries: NDArray | None) -> tuple[OuterProduct, int]:
        """Outer products of some rows, in rounds that read all references once each."""
        n = self.rows.n if queries is None else len(queries)
        total = None
        for index in self._rounds(queries, n):
            part, _ = run(self.client, self._round(index))
            total = part if total is None else total.merge(part)
        assert total is not None
        return checked((total, 0), n)

    def _rounds(self, queries: NDArray | None, n: int) -> list[NDArray]:
        """Row numbers of each round, about equally many."""
        index = np.arange(n) if queries is None else queries
        size = min(self.block, max(MAX_BLOCK, n))
        count = -(-n // size)
        most = -(-n // count)
        self.notes = (
            f"{count} round{'s' * (count > 1)} of at most {most} queries, whose sums take "
            f"{format_bytes(most * self.state_bytes)}; each reads {len(self.rows.blocks)} blocks "
            "of references",
        )
        return np.array_split(index, count)

    def _round(self, index: NDArray) -> Any:
        """Delayed outer products of some queries."""
        queries = keep(self.client, self.rows.sample(index))
        function, job = constant(self.function), constant(self.job)
        self.tasks += len(self.rows.blocks)
        tiles = [delayed(_tile)(function, block, queries, job) for block in self.rows.blocks]
        sums = tree(tiles, _merged_sums, STATE_WIDTH)
        return delayed(_close)(sums, function, queries, job)

    def whole(self) -> Any:
        """The function with all rows, delayed."""
        return delayed(_with_all)(constant(self.function), self.rows.blocks)


def _with_all(function: Function, blocks: list[Block]) -> Function:
    X, Y = (np.concatenate([getattr(b, name) for b in blocks]) for name in ("X", "Y"))
    weighted = blocks[0].w is not None
    return function.with_rows(
        X, Y, np.concatenate([b.weights for b in blocks]) if weighted else None
    )


def _slices(n: int) -> Iterator[slice]:
    return (slice(s, min(s + MAX_BLOCK, n)) for s in range(0, n, MAX_BLOCK))


def _tile(function: Any, block: Block, queries: Block, job: Job) -> WeightedSums:
    """Sums of the queries over one block of references."""
    part = function.with_rows(block.X, block.Y, block.w)
    exclude = block.own(queries.index) if job.leave_one_out else None
    part.prepare(job.step, budget=job.memory, n_queries=len(queries))
    found = [
        part.sums(queries.X[s], job.step, None if exclude is None else exclude[s])
        for s in _slices(len(queries))
    ]
    return WeightedSums.join(found)


def _merged_sums(parts: list[WeightedSums]) -> WeightedSums:
    total = parts[0]
    for part in parts[1:]:
        total = total.merge(part)
    return total


def _close(sums: WeightedSums, function: Any, queries: Block, job: Job) -> tuple[OuterProduct, int]:
    """Outer products from sums over all references."""
    own = function.with_rows(queries.X, queries.Y, queries.w)
    total = job.empty(function.n_outputs_, function.n_features_in_)
    for s in _slices(len(queries)):
        exclude = np.arange(s.start, s.stop) if job.leave_one_out else None
        part = copy_of(sums[s])
        J = own.derived(part, job.step, exclude, softmax=job.softmax)
        total.add(J, None if queries.w is None else queries.w[s])
    return total, 0


def copy_of(sums: WeightedSums) -> WeightedSums:
    """Sums that may be used up: a task must not change what it is given."""
    return WeightedSums(sums.sums.copy(), sums.total.copy(), sums.top)


class Rowless(_Blockwise):
    """Functions that need no references once they are fitted: ridge on centres, frozen models."""

    block = 0

    def settled(self, function: Any) -> Any:
        """Fit what is to be fitted; keep it on the workers."""
        self.frozen = not isinstance(function, RidgeFunction)
        if self.frozen:
            self.method = "model"
            self.notes = ("a frozen model needs no references",)
            function.fit(*_stand_ins(self.rows))
            self.kept = constant(settle(function, self.rows))
            return function
        self.method = "ridge"
        self.kept = settled_ridge(self.client, function, self.rows)
        self.notes = (
            f"{min(function.n_centers, self.rows.n)} Nystrom centres drawn across the blocks; the "
            "normal equations are summed over them",
        )
        return function

    def add(self, queries: NDArray | None) -> tuple[OuterProduct, int]:
        """Outer products of some rows, block by block."""
        n = self.rows.n if queries is None else len(queries)
        job = constant(self.job)
        parts = self.rows.takes(queries)
        tasks = [delayed(_rowless_sum)(self.kept, block, job) for block, _ in parts]
        self.tasks += len(tasks)
        return checked(run(self.client, tree(tasks, merged)), n)

    def whole(self) -> Any:
        """The function with all rows, delayed."""
        return delayed(_with_all)(self.kept, self.rows.blocks)


def _stand_ins(rows: Rows) -> tuple[NDArray, NDArray]:
    """Two rows and targets of the mean and spread of all."""
    s = rows.summary
    spread = np.sqrt(s.X.variance)
    X = np.stack([s.X.mean - spread, s.X.mean + spread]).astype(s.dtype)
    return X, np.eye(s.n_outputs)[[0, -1]] if s.one_hot else np.stack([s.Y.low, s.Y.high])


def _rowless_sum(function: Function, block: Block, job: Job) -> tuple[OuterProduct, int]:
    part = function.with_rows(block.X, block.Y, block.w)
    n = len(block)
    plan = make_plan(part, n, job.step, n_jobs=job.estimator.n_jobs or 1, memory_limit=job.memory)
    return block_sum(part, np.arange(n), plan, job)
