"""The sum with all references on every worker: a task sends back d x d matrices."""

from __future__ import annotations

from copy import copy
from threading import Lock
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ejop._dask.cluster import Workers, constant, delayed, keep, run, tree
from ejop._dask.plan import (
    TASK_FLOPS,
    TASKS_PER_THREAD,
    ClusterPlan,
    Job,
    described,
    first_round,
    task_memory,
)
from ejop._dask.rows import Block, Rows
from ejop.backends.plan import Plan, group_size, make_plan
from ejop.expectation import expected_outer_product
from ejop.functions import Function
from ejop.outerproduct import OuterProduct


class Broadcast:
    """References in one place, then on every worker that is asked to sum."""

    def __init__(
        self, client: Any, estimator: Any, function: Function, rows: Rows, team: Workers
    ) -> None:
        self.client, self.estimator, self.rows, self.team = client, estimator, rows, team
        self.function = keep(client, delayed(_fitted)(constant(estimator), rows.blocks))
        n_queries = first_round(estimator, rows.n)
        memory = task_memory(estimator, team)
        share = -(-n_queries // team.count)
        found = run(client, delayed(_describe)(self.function, constant(estimator), memory, share))
        self._plan, step, min_mass, small = found
        self.described = described(small, estimator, rows)
        self.job = Job(
            estimator=estimator,
            step=step,
            leave_one_out=estimator.leave_one_out and small.leaves_out,
            softmax=estimator._softmax(),
            diagonal=estimator.diagonal,
            min_mass=min_mass,
            memory=memory,
            batch=group_size(rows.summary.n_features, n_queries),
            n_queries=share,
        )
        self.flops, self.tasks = small.flops, 0

    def _per_task(self, n_queries: int) -> int:
        """Queries of a task: short enough to lose, few enough that all threads end together."""
        even = -(-n_queries // (TASKS_PER_THREAD * self.team.threads))
        return max(1, min(even, max(64, TASK_FLOPS // max(self.flops, 1))))

    def add(self, queries: NDArray | None) -> tuple[OuterProduct, int]:
        """Outer products of some rows; None for all."""
        n = self.rows.n if queries is None else len(queries)
        job, tasks, size = constant(self.job), [], self._per_task(n)
        for start in range(0, n, size):
            stop = min(start + size, n)
            part = (start, stop) if queries is None else queries[start:stop]
            tasks.append(delayed(_query_sum)(self.function, part, job))
        self.tasks += len(tasks)
        return checked(run(self.client, tree(tasks, merged)), n)

    def plan(self, total: OuterProduct) -> ClusterPlan:
        """What ran."""
        values = {**vars(self._plan), "n_queries": total.count, "batch": self.job.batch}
        return ClusterPlan(
            **values, reduction="broadcast", workers=str(self.team), tasks=self.tasks
        )

    def whole(self) -> Any:
        """The function with its rows, delayed, with what was chosen held fixed."""
        known = {k: getattr(self.described, f"{k}_", None) for k in ("bandwidth", "penalty")}
        known = {name: value for name, value in known.items() if value is not None}
        return delayed(_fitted)(constant(self.estimator), self.rows.blocks, known)


def _fitted(estimator: Any, blocks: list[Block], known: dict[str, float] | None = None) -> Function:
    """The function of all rows; ``known`` are parameters that were chosen before."""
    weighted = blocks[0].w is not None
    X = np.concatenate([block.X for block in blocks])
    Y = np.concatenate([block.Y for block in blocks]).astype(X.dtype, copy=False)
    w = np.concatenate([block.weights for block in blocks]) if weighted else None
    function = estimator._make_function()
    return function.set_params(**(known or {})).fit(X, Y, w)


def _describe(function: Function, estimator: Any, memory: int | None, n_queries: int) -> Any:
    """The plan of a task, the step, the mass condition and what is small of a function."""
    step = estimator._choose_step(function)
    min_mass = estimator._min_mass(function)
    ready, plan = _ready(function, step, memory, n_queries, estimator)
    cost = ready.prepare(step, budget=memory, n_queries=n_queries)
    names = ("bandwidth", "penalty", "bandwidth_", "penalty_", "leaves_out")
    small = {name: getattr(function, name) for name in names if hasattr(function, name)}
    return plan, step, min_mass, SimpleNamespace(**small, flops=cost.flops_per_query)


#: functions that this process has prepared; they go with the references they were made from
_READY: WeakKeyDictionary[Any, tuple[Function, Plan]] = WeakKeyDictionary()
_PREPARING = Lock()


def _ready(
    function: Function, step: NDArray | None, memory: int | None, n_queries: int, estimator: Any
) -> tuple[Function, Plan]:
    """A prepared copy of a function and its plan, shared by the tasks of a worker.

    The function itself stays as it is: a task must not change what it is given.
    """
    with _PREPARING:
        found = _READY.get(function)
        if found is None:
            twin = copy(function)
            leaves_out = estimator.leave_one_out and function.leaves_out
            plan = make_plan(
                twin,
                n_queries,
                step,
                n_jobs=estimator.n_jobs or 1,
                memory_limit=memory,
                n_excluded=n_queries if leaves_out else 0,
            )
            found = _READY[function] = (twin, plan)
    return found


def _query_sum(function: Function, part: Any, job: Job) -> tuple[OuterProduct, int]:
    """Outer products of some rows of a function that holds all of them."""
    rows = np.arange(*part) if isinstance(part, tuple) else part
    ready, plan = _ready(function, job.step, job.memory, job.n_queries, job.estimator)
    return block_sum(ready, rows, plan, job)


def block_sum(function: Function, rows: NDArray, plan: Plan, job: Job) -> tuple[OuterProduct, int]:
    plan = copy(plan)
    plan.batch = min(job.batch, plan.block)
    plan.block = plan.block // plan.batch * plan.batch
    return expected_outer_product(
        function,
        rows,
        plan,
        step=job.step,
        leave_one_out=job.leave_one_out,
        weights=function.sample_weight_,
        softmax=job.softmax,
        diagonal=job.diagonal,
        min_mass=job.min_mass,
    )


def merged(parts: list[tuple[OuterProduct, int]]) -> tuple[OuterProduct, int]:
    """Sums of all parts; the parts stay as they are."""
    first = parts[0][0]
    total = OuterProduct(
        first.n_outputs, first.n_features, diagonal=first.diagonal, batch=first.batch
    )
    for part, _ in parts:
        total.merge(part)
    return total, sum(zeroed for _, zeroed in parts)


def checked(found: tuple[OuterProduct, int], n: int) -> tuple[OuterProduct, int]:
    """A sum over as many rows as were asked for."""
    if found[0].count != n:
        raise RuntimeError(
            f"the sum holds {found[0].count} rows and {n} were asked for: the source of the rows "
            "gave others when it was read again; persist it, or read it from files."
        )
    return found
