"""The sum of outer products on a cluster, in two reductions.

*Broadcast*: all references go to every worker, each task sums the outer products of some query
rows, and a tree merges them: a task sends back d x d matrices.

*Tiles*: no worker holds all references. A task makes the un-normalised sums of some queries over
one block of references; a tree merges them in the log domain, and Jacobians and outer products are
made of them at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ejop._dask.broadcast import Broadcast
from ejop._dask.cluster import Workers
from ejop._dask.plan import (
    Sum,
    choose_reduction,
    query_rounds,
)
from ejop._dask.rows import Rows
from ejop._dask.tiles import tiles_of


def expectation(client: Any, estimator: Any, rows: Rows, team: Workers, reduction: str) -> Sum:
    """The sum for a plain, unfitted EJOP or EGOP over rows on the workers."""
    function = estimator._make_function()
    reduction, why = choose_reduction(function, rows, team, reduction)
    adder: Any = Broadcast if reduction == "broadcast" else tiles_of(function, rows)
    run_ = adder(client, estimator, function, rows, team)
    total, zeroed, rounds = None, 0, query_rounds(estimator, rows.n)
    for queries in rounds:
        part, n_zeroed = run_.add(queries)
        total = part if total is None else total.merge(part)
        zeroed += n_zeroed
        if total.relative_error() <= estimator.tol:
            break
    assert total is not None
    if not np.isfinite(total._sum).all():
        raise FloatingPointError(
            f"the derivatives of {function!r} are not finite; check what it predicts near the "
            "training rows, and scale the columns of `X` if their values are very large."
        )
    plan = run_.plan(total)
    plan.notes.insert(0, why)
    found = Sum(total, plan, run_.job.step, run_.described, run_.whole())
    found.zeroed, found.min_mass = zeroed, run_.job.min_mass
    return found
