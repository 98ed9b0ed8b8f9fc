"""The expectation: outer products of the Jacobians at the query rows, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ejop.backends.plan import Plan
from ejop.differences import jacobian
from ejop.functions._base import Function
from ejop.outerproduct import OuterProduct


def expected_outer_product(
    function: Function,
    Q: NDArray,
    plan: Plan,
    *,
    step: NDArray | None,
    exclude: NDArray | None = None,
    weights: NDArray | None = None,
    softmax: bool = False,
    diagonal: bool = False,
    min_mass: float | None = None,
    progress: Callable[[Iterable[Any], int], Iterator[Any]] | None = None,
) -> tuple[OuterProduct, int]:
    """Sum the outer products of the Jacobians of a fitted function over the rows of Q.

    Blocks of rows run in threads with one BLAS thread each; their sums are merged in order, so
    the result does not depend on which thread was first.

    Parameters
    ----------
    function : fitted function
    Q : ndarray of shape (n_queries, n_features)
    plan : Plan
    step : ndarray of shape (n_features,) or None
        None for the analytic derivative.
    exclude : ndarray of shape (n_queries,), optional
        Training row to leave out of each query's estimate, -1 for none.
    weights : ndarray of shape (n_queries,), optional
    softmax, diagonal : bool
    min_mass : float, optional
        See :func:`ejop.differences.jacobian`.
    progress : callable, optional
        Wraps the stream of finished blocks: ``progress(blocks, n_blocks)``.

    Returns
    -------
    total : OuterProduct
    n_zeroed : int
        (query, feature) pairs that the mass condition zeroed.
    """

    def empty() -> OuterProduct:
        return OuterProduct(plan.n_outputs, plan.n_features, diagonal=diagonal, batch=plan.batch)

    def one(rows: slice) -> tuple[OuterProduct, int]:
        J, n_zeroed = jacobian(
            function,
            Q[rows],
            step,
            None if exclude is None else exclude[rows],
            apply_softmax=softmax,
            min_mass=min_mass,
        )
        return empty().add(J, None if weights is None else weights[rows]), n_zeroed

    function.prepare(step, leave_out=exclude is not None)
    blocks = plan.blocks()
    total, zeroed = empty(), 0
    # Threads work on blocks, so each BLAS call keeps to one; a single block uses the BLAS's own.
    with threadpool_limits(limits=1 if plan.threads > 1 else None, user_api="blas"):
        parts = Parallel(n_jobs=plan.threads, backend="threading", return_as="generator")(
            delayed(one)(rows) for rows in blocks
        )
        try:
            for part, n_zeroed in progress(parts, len(blocks)) if progress else parts:
                total.merge(part)
                zeroed += n_zeroed
        finally:
            parts.close()  # on Ctrl-C: wait for the blocks in flight only
    if not np.isfinite(total._sum).all():
        raise FloatingPointError(
            "the differences overflowed: the values of `X` are too large for "
            f"{plan.dtype}; scale the columns, for instance with StandardScaler."
        )
    return total, zeroed
