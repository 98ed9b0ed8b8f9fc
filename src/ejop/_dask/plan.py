"""The planner of a cluster: which reduction, which queries, how much memory a task has."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

from ejop._dask.cluster import Workers
from ejop._dask.rows import MANY_ROWS, Rows, draw
from ejop.backends.plan import Plan, format_bytes
from ejop.functions import Function, ModelFunction, RidgeFunction
from ejop.outerproduct import OuterProduct

#: share of a worker's memory that references may take there before they are tiled: some four
#: copies of them are about while they are put together and travel
BROADCAST_SHARE = 0.1
#: share of a thread's memory for the temporaries of a task
TASK_SHARE = 0.25
#: ... for the sums of a round of queries, merged by fours; some sixteen are about at a time
STATE_SHARE, STATES, STATE_WIDTH = 0.25, 16, 4
#: share of a thread's memory that one partition may take
PARTITION_SHARE = 0.2
#: tasks a thread gets at the least, so that no worker waits for another at the end
TASKS_PER_THREAD = 4
#: operations of a task: under a minute, so that little is lost with a worker
TASK_FLOPS = 200_000_000_000
#: queries of ``n_queries="auto"`` at the most where rows are not numbered
MOST_QUERIES = 2**20


@dataclass
class ClusterPlan(Plan):
    """What was chosen on a cluster, and why.

    Attributes
    ----------
    reduction : {"broadcast", "tiles"}
    workers : str
    tasks : int
        Tasks of the sum.
    """

    reduction: str = ""
    workers: str = ""
    tasks: int = 0

    def __str__(self) -> str:
        head = (
            f"{self.reduction}, {self.method}: {self.n_queries} queries against {self.n_rows} rows "
            f"of {self.n_features} features, {self.n_outputs} outputs, {self.dtype}; {self.tasks} "
            f"tasks on {self.workers}; about {format_bytes(self.memory)} a task beside the data"
        )
        return "\n".join([head, *(f"- {note}" for note in self.notes)])


@dataclass(frozen=True)
class Job:
    """What every task of a sum needs to know."""

    estimator: Any
    step: NDArray | None
    leave_one_out: bool
    softmax: bool
    diagonal: bool
    min_mass: float | None
    memory: int | None
    batch: int
    n_queries: int = 0

    def empty(self, c: int, d: int) -> OuterProduct:
        """An accumulator without rows."""
        return OuterProduct(c, d, diagonal=self.diagonal, batch=self.batch)


@dataclass
class Sum:
    """A finished sum.

    Attributes
    ----------
    total : OuterProduct
    plan : ClusterPlan
    step : ndarray or None
    described : SimpleNamespace
        What ``OuterProductEstimator._store`` asks of a function.
    function : Delayed
        The function with all its rows, made when it is asked for.
    """

    total: OuterProduct
    plan: ClusterPlan
    step: NDArray | None
    described: SimpleNamespace
    function: Any
    zeroed: int = 0
    min_mass: float | None = None


def query_rounds(estimator: Any, n: int) -> list[NDArray | None]:
    """Row numbers to average over, sorted, in rounds; None is all rows."""
    wanted = estimator.n_queries
    if wanted is None or (wanted != "auto" and wanted >= n):
        return [None]
    if n <= MANY_ROWS:
        return [np.sort(part) for part in estimator._query_rounds(n)]
    if wanted != "auto":
        return [draw(n, wanted, estimator.random_state)]
    index = draw(n, MOST_QUERIES, estimator.random_state)
    return [np.sort(index[part]) for part in estimator._query_rounds(len(index))]


# the planner --------------------------------------------------------------------------------------


def choose_reduction(
    function: Function, rows: Rows, team: Workers, reduction: str
) -> tuple[str, str]:
    """Which reduction runs, and why; an error where none can."""
    room = BROADCAST_SHARE * team.memory
    size = f"references take {format_bytes(rows.nbytes)}"
    share = "no worker has a memory limit"
    if np.isfinite(team.memory):
        share = f"a worker has {format_bytes(team.memory)}, a tenth of which they may take"
    reason = f"{size}; {share}"
    if reduction == "auto":
        reduction = "broadcast" if rows.nbytes <= room else "tiles"
    else:
        reason = f"{size}; reduction={reduction!r} was asked for"
    if reduction == "broadcast":
        return reduction, f"broadcast: {reason}, so every worker holds them all"
    _require_tiles(function, rows, reason)
    _require_small_partitions(rows, team)
    return reduction, f"tiles: {reason}, so no worker holds them all"


def _require_tiles(function: Function, rows: Rows, reason: str) -> None:
    """Refuse functions that need all rows in one place."""
    if function.divisible or _rowless(function):
        return
    if isinstance(function, RidgeFunction):
        if rows.n > function.most_rows():
            return
        remedy = (
            f"up to max_rows={function.most_rows()} rows it solves one system of all of them; pass "
            "function=RidgeFunction(max_rows=...) with fewer, or reduction='broadcast'"
        )
    elif isinstance(function, ModelFunction):
        remedy = (
            "fit the model to a sample yourself and pass it in sklearn.frozen.FrozenEstimator, or "
            "use workers with more memory"
        )
    else:
        remedy = "use function='kernel', 'ball' or 'ridge', or workers with more memory"
    raise ValueError(
        f"`function`={function!r} needs all rows on one worker ({reason}), and its sums over parts "
        f"of the rows do not add: {remedy}."
    )


def _rowless(function: Function) -> bool:
    return isinstance(function, ModelFunction) and isinstance(function.estimator, FrozenEstimator)


def _require_small_partitions(rows: Rows, team: Workers) -> None:
    largest = max(rows.lengths)
    if largest * rows.row_bytes > PARTITION_SHARE * team.room:
        fitting = max(1, int(PARTITION_SHARE * team.room / rows.row_bytes))
        raise MemoryError(
            f"a partition of {largest} rows takes {format_bytes(largest * rows.row_bytes)} and a "
            f"thread of a worker has {format_bytes(team.room)}; cut the data into partitions of at "
            f"most {fitting} rows, with X.rechunk(({fitting}, -1)) or X.repartition(...)."
        )


def task_memory(estimator: Any, team: Workers) -> int | None:
    """Bytes for the temporaries of a task."""
    if estimator.memory_limit is not None or np.isinf(team.room):
        return estimator.memory_limit
    return int(TASK_SHARE * team.room)


def described(function: Any, estimator: Any, rows: Rows) -> SimpleNamespace:
    """What a fitted estimator keeps of a function, without its rows."""
    s = rows.summary
    kept = {
        name: getattr(function, name)
        for name in ("bandwidth", "penalty", "bandwidth_", "penalty_")
        if hasattr(function, name)
    }
    bounds = np.array([s.Y.low.min(), s.Y.high.max()])
    return SimpleNamespace(
        **kept,
        leaves_out=function.leaves_out,
        n_features_in_=s.n_features,
        X_=np.empty(0, s.dtype),
        Y_=bounds,
    )


def first_round(estimator: Any, n: int) -> int:
    first = query_rounds(estimator, n)[0]
    return n if first is None else len(first)
