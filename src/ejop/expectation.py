"""The expectation: outer products of the Jacobians at the query rows, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.backends.plan import Plan
from ejop.differences import jacobian
from ejop.executors.threads import stream
from ejop.functions._base import Function
from ejop.outerproduct import OuterProduct


def expected_outer_product(
    function: Function,
    queries: NDArray,
    plan: Plan,
    *,
    step: NDArray | None,
    leave_one_out: bool = True,
    weights: NDArray | None = None,
    softmax: bool = False,
    diagonal: bool = False,
    min_mass: float | None = None,
    progress: Callable[[Iterable[Any], int], Iterator[Any]] | None = None,
) -> tuple[OuterProduct, int]:
    """Sum the outer products of the Jacobians of a fitted function over some of its own rows.

    Blocks of rows run in threads with one BLAS thread each; their sums are merged in order, so
    the result does not depend on which thread was first.

    Parameters
    ----------
    function : fitted function
    queries : ndarray of shape (n_queries,)
        Training rows to average over.
    plan : Plan
        Made by :func:`ejop.backends.plan.make_plan`, which also prepares the function.
    step : ndarray of shape (n_features,) or None
        None for the analytic derivative.
    leave_one_out : bool, default=True
        Leave each row out of its own estimate.
    weights : ndarray of shape (n_samples,), optional
        Of all training rows.
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

    def one(block: slice) -> tuple[OuterProduct, int]:
        rows = queries[block]
        J, n_zeroed = jacobian(
            function,
            function.X_[rows],
            step,
            rows if leave_one_out else None,
            apply_softmax=softmax,
            min_mass=min_mass,
        )
        return empty().add(J, None if weights is None else weights[rows]), n_zeroed

    blocks = plan.blocks(len(queries))
    total, zeroed = empty(), 0
    with closing(stream(one, blocks, plan.threads)) as parts:
        for part, n_zeroed in progress(parts, len(blocks)) if progress else parts:
            total.merge(part)
            zeroed += n_zeroed
    if not np.isfinite(total._sum).all():
        raise FloatingPointError(
            f"the derivatives of {function!r} are not finite; check what it predicts near the "
            "training rows, and scale the columns of `X` if their values are very large."
        )
    return total, zeroed
