"""The planner of a cluster: which reduction, which queries, how much memory a task has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

from ejop.executors.dask.cluster import Workers
from ejop.executors.dask.rows import MANY_ROWS, Rows, draw
from ejop.functions import Function, ModelFunction, RidgeFunction
from ejop.seeds import GROUPS, QUERIES, stream_of
from ejop.sums import OuterProduct
from ejop.sums.engine import as_device
from ejop.sums.plan import Plan, format_bytes, group_size

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
    reduction : {"broadcast", "tiles", "sample"}
        "sample": fitted whole on one worker.
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
    """What tasks may take, and how many queries there are.

    Attributes
    ----------
    memory : int or None
        Bytes for the temporaries of a task.
    batch : int
        Rows per group of the standard error.
    share : int
        Queries of a worker.
    """

    memory: int | None
    batch: int
    share: int


def make_job(estimator: Any, rows: Rows, team: Workers) -> Job:
    """What the first round of queries says."""
    n_queries = len(query_rounds(estimator, rows.n)[0])
    batch = group_size(rows.summary.n_features, n_queries)
    return Job(task_memory(estimator, team), batch, -(-n_queries // team.count))


@dataclass(frozen=True)
class Sum:
    """A finished sum.

    Attributes
    ----------
    total : OuterProduct
    zeroed : int
        Derivatives that the mass condition zeroed.
    plan : ClusterPlan
    step : ndarray or None
    function : Function
        Without rows.
    whole : Delayed
        The function with all its rows, made when it is asked for.
    min_mass : float or None
    """

    total: OuterProduct
    zeroed: int
    plan: ClusterPlan
    step: NDArray | None
    function: Function
    whole: Any
    min_mass: float | None


def query_rounds(estimator: Any, n: int) -> list[NDArray]:
    """Row numbers to average over, in rounds and in random order, as one machine draws them."""
    if n <= MANY_ROWS:
        return estimator.query_rounds(n)
    wanted, seed = estimator.n_queries, stream_of(estimator.random_state, QUERIES)
    if wanted is None or (not isinstance(wanted, str) and wanted >= n):
        return [np.random.default_rng(stream_of(0, GROUPS)).permutation(n)]
    if not isinstance(wanted, str) and wanted >= 1:
        return [_shuffled(draw(n, wanted, seed))]
    index = _shuffled(draw(n, MOST_QUERIES, seed))
    return [index[part] for part in estimator.query_rounds(len(index))]


def _shuffled(index: NDArray) -> NDArray:
    return np.random.default_rng(stream_of(0, GROUPS)).permutation(index)


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
    limit = as_device(estimator.device).memory_limit
    if limit is not None or np.isinf(team.room):
        return limit
    return int(TASK_SHARE * team.room)
