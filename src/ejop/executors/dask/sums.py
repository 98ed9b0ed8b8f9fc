"""The sum of outer products on a cluster, in two reductions.

*Broadcast*: all references go to every worker, each task sums the outer products of some query
rows, and a tree merges them: a task sends back d x d matrices.

*Tiles*: no worker holds all references. A task makes the un-normalised sums of some queries over
one block of references; a tree merges them in the log domain, and Jacobians and outer products are
made of them at the end.
"""

from __future__ import annotations

from typing import Any

from ejop.executors.dask.broadcast import Broadcast
from ejop.executors.dask.cluster import Workers
from ejop.executors.dask.plan import Sum, choose_reduction, query_rounds
from ejop.executors.dask.rows import Rows
from ejop.executors.dask.tiles import Rowless, Tiles
from ejop.executors.expectation import require_finite


def expectation(client: Any, estimator: Any, rows: Rows, team: Workers, reduction: str) -> Sum:
    """The sum for a plain, unfitted EJOP or EGOP over rows on the workers."""
    function = estimator.make_function()
    reduction, why = choose_reduction(function, rows, team, reduction)
    walk: Any = Tiles if function.divisible else Rowless
    if reduction == "broadcast":
        walk = Broadcast
    walked = walk(client, estimator, function, rows, team)
    total, zeroed = estimator.sum_rounds(query_rounds(estimator, rows.n), walked.add)
    require_finite(total, function)
    plan = walked.plan(total)
    plan.notes.insert(0, why)
    terms, step = walked.terms, walked.step
    return Sum(total, zeroed, plan, step, walked.function, walked.whole(), terms.min_mass)
