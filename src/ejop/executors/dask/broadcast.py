"""The sum with all references on every worker: a task sends back d x d matrices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from ejop.executors.dask.cluster import Workers, constant, delayed, keep, run, tree
from ejop.executors.dask.plan import TASK_FLOPS, TASKS_PER_THREAD, ClusterPlan, Job, make_job
from ejop.executors.dask.rows import Rows
from ejop.executors.expectation import Averager, merged
from ejop.functions import Function
from ejop.rows import Block, join_blocks
from ejop.sums import Form, OuterProduct, prepare
from ejop.sums.plan import Plan, make_plan


class Broadcast:
    """References in one place, then on every worker that is asked to sum."""

    def __init__(
        self, client: Any, estimator: Any, function: Function, rows: Rows, team: Workers
    ) -> None:
        self.client, self.rows, self.team = client, rows, team
        fitted = keep(client, delayed(_fitted)(constant(function), rows.blocks))
        self.job = make_job(estimator, rows, team)
        task = constant((estimator, self.job))
        self.form = keep(client, delayed(_form)(fitted, task))
        self.function, self.terms, self.step, self._plan, self.flops = run(
            client, delayed(_described)(self.form, task)
        )
        self.tasks = 0

    def _per_task(self, n_queries: int) -> int:
        """Queries of a task: short enough to lose, few enough that all threads end together."""
        even = -(-n_queries // (TASKS_PER_THREAD * self.team.threads))
        return max(1, min(even, max(64, TASK_FLOPS // max(self.flops, 1))))

    def add(self, queries: NDArray) -> tuple[OuterProduct, int]:
        """Outer products of some rows."""
        n, size = len(queries), self._per_task(len(queries))
        how = constant((self._plan, self.terms))
        tasks = [
            delayed(_query_sum)(self.form, queries[start : start + size], how)
            for start in range(0, n, size)
        ]
        self.tasks += len(tasks)
        return checked(run(self.client, tree(tasks, merged)), n)

    def plan(self, total: OuterProduct) -> ClusterPlan:
        """What ran."""
        values = {**vars(self._plan), "n_queries": total.count}
        return ClusterPlan(
            **values, reduction="broadcast", workers=str(self.team), tasks=self.tasks
        )

    def whole(self) -> Any:
        """The function with its rows, delayed, with what was chosen held fixed."""
        known = {k: getattr(self.function, f"{k}_", None) for k in ("bandwidth", "penalty")}
        known = {name: value for name, value in known.items() if value is not None}
        return delayed(_fitted)(constant(self.function), self.rows.blocks, known)


def _fitted(
    function: Function, blocks: list[Block], known: dict[str, float] | None = None
) -> Function:
    """The function of all rows; ``known`` are parameters that were chosen before."""
    block = join_blocks(blocks)
    function = function.bare().set_params(**(known or {}))
    return function.fit(block.X, block.Y.astype(block.X.dtype, copy=False), block.w)


def _form(function: Function, task: Any) -> Form:
    """How the function is summed; copies that go to other workers are made again there."""
    estimator, job = task
    leaves_out = estimator.leave_one_out and function.leaves_out
    return prepare(
        function,
        estimator.choose_step(function),
        budget=job.memory,
        n_queries=job.share,
        n_excluded=job.share if leaves_out else 0,
    )


def _described(form: Form, task: Any) -> Any:
    """What is small of a form: the function without rows, what is averaged, the plan of a task."""
    estimator, job = task
    plan = make_plan(form, job.share, n_jobs=estimator.n_jobs or 1, memory_limit=job.memory)
    function, terms = form.function, estimator.terms(form.function)
    return function.bare(), terms, form.step, grouped_plan(plan, job), form.cost.flops_per_query


def grouped_plan(plan: Plan, job: Job) -> Plan:
    """Whole groups of the standard error to a block."""
    batch = min(job.batch, plan.block)
    return replace(plan, batch=batch, block=plan.block // batch * batch)


def _query_sum(form: Form, rows: NDArray, how: Any) -> tuple[OuterProduct, int]:
    """Outer products of some rows of a function that holds all of them."""
    plan, terms = how
    return Averager([form], replace(plan, notes=[]), terms).add(rows)


def checked(found: tuple[OuterProduct, int], n: int) -> tuple[OuterProduct, int]:
    """A sum over as many rows as were asked for."""
    if found[0].count != n:
        raise RuntimeError(
            f"the sum holds {found[0].count} rows and {n} were asked for: the source of the rows "
            "gave others when it was read again; persist it, or read it from files."
        )
    return found
