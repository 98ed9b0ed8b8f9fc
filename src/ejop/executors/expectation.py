"""The expectation: outer products of the Jacobians at the query rows, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.executors.devices import halving
from ejop.executors.threads import pools_free, stream
from ejop.functions import KernelSmoother
from ejop.sums.engine import HOST, Engine
from ejop.sums.form import Form, prepare
from ejop.sums.outerproduct import OuterProduct
from ejop.sums.plan import Plan


@dataclass(frozen=True)
class Terms:
    """What is averaged.

    Attributes
    ----------
    leave_one_out : bool
        Leave each row out of its own estimate.
    softmax : bool
        Differentiate the softmax of f.
    diagonal : bool
        Keep the diagonal of the mean alone.
    min_mass : float or None
        Rows that both balls of half the bandwidth around the shifted points must hold, else the
        derivative counts as zero.
    """

    leave_one_out: bool = True
    softmax: bool = False
    diagonal: bool = False
    min_mass: float | None = None


def ball_form(X: NDArray, radius: float, step: NDArray | None, engine: Engine = HOST) -> Any:
    """Counts of the rows of X within a radius of shifted points."""
    ball = KernelSmoother("boxcar", bandwidth=radius).fit(X, np.ones((len(X), 1)))
    return prepare(ball, np.zeros(ball.n_features_in_) if step is None else step, engine=engine)


def ball_masses(
    X: NDArray, Q: NDArray, step: NDArray, radius: float, exclude: NDArray | None = None
) -> NDArray:
    """Rows of X in the emptier of the two balls B(x +- t_j e_j, radius), (n_queries,
    n_features)."""
    form = ball_form(X, radius, step)
    Q = form.function.check_queries(Q)
    return form.masses(Q, form.function.check_exclude(exclude, len(Q))).min(axis=0)


def jacobian(
    function: Any,
    Q: NDArray,
    step: NDArray | None,
    exclude: NDArray | None = None,
    *,
    apply_softmax: bool = False,
    min_mass: float | None = None,
) -> tuple[NDArray, int]:
    """Jacobians of a fitted function at the rows of Q, and how many entries the mass condition
    zeroed.

    Parameters
    ----------
    function : fitted function
    Q : ndarray of shape (n_queries, n_features)
    step : ndarray of shape (n_features,) or None
        None takes the analytic derivative.
    exclude : ndarray of shape (n_queries,), optional
        Training row to leave out of each query's estimate, -1 for none.
    apply_softmax : bool, default=False
    min_mass : float, optional
        Rows that both balls of half the bandwidth around the shifted points must hold.

    Returns
    -------
    J : ndarray of shape (n_queries, n_outputs, n_features)
    n_zeroed : int
        (query, feature) pairs that failed the mass condition.
    """
    Q = function.check_queries(Q)
    exclude = function.check_exclude(exclude, len(Q))
    form = prepare(function, step)
    J = form.jacobian(Q, exclude, softmax=apply_softmax)
    if min_mass is None:
        return J, 0
    return _zeroed(J, ball_form(function.X_, function.bandwidth_ / 2, step), Q, exclude, min_mass)


def _zeroed(
    J: Any, ball: Any, Q: NDArray, exclude: NDArray | None, min_mass: float
) -> tuple[Any, int]:
    """Jacobians without the entries whose balls hold too few rows, and how many these are."""
    few = ball.masses(Q, exclude).min(0) < min_mass
    kept = ball.engine.like(ball.engine.array(~few), J)
    return J * kept[:, None, :], int(few.sum())


class Averager:
    """Sums the outer products of the Jacobians of one function at some of its rows.

    Parameters
    ----------
    forms : sequence of Form
        The same function on each engine that shares the queries.
    plan : Plan
    terms : Terms
    """

    def __init__(self, forms: Sequence[Form], plan: Plan, terms: Terms) -> None:
        self.forms, self.plan, self.terms = list(forms), plan, terms
        self.balls: list[Any] = [None] * len(self.forms)
        if terms.min_mass is not None:
            self.balls = [
                ball_form(f.function.X_, f.function.bandwidth_ / 2, f.step, f.request.engine)
                for f in self.forms
            ]

    def add(
        self,
        queries: NDArray,
        progress: Callable[[Iterable[Any], int], Iterator[Any]] | None = None,
    ) -> tuple[OuterProduct, int]:
        """The sum over some rows, and how many derivatives the mass condition zeroed.

        Blocks run in threads with one BLAS thread each, or one after another on each device; their
        sums are merged in order, so the result does not depend on which was first.
        """
        shares = np.array_split(queries, len(self.forms))
        if len(shares) == 1:
            return self._checked([self._share(0, queries, progress)])
        with ThreadPoolExecutor(len(shares)) as pool:
            tell = [progress, *[None] * (len(shares) - 1)]
            numbers = range(len(shares))
            return self._checked(list(pool.map(self._share, numbers, shares, tell)))

    def _share(self, which: int, rows: NDArray, progress: Any) -> tuple[OuterProduct, int]:
        """The part of one engine."""
        form, plan = self.forms[which], self.plan

        def one(block: slice) -> tuple[OuterProduct, int]:
            return self._block(form, self.balls[which], rows[block])

        blocks = plan.blocks(len(rows))
        if form.engine.on_device:
            parts: Any = halving(one, len(rows), plan.block, plan.notes.append)
            pools: Any = pools_free()  # torch's own threads walk the blocks of a processor
        else:
            parts, pools = stream(one, blocks, plan.threads), nullcontext()
        total, zeroed = self._empty(form), 0
        with pools, closing(parts):
            for part, n_zeroed in progress(parts, len(blocks)) if progress else parts:
                total.merge(part)
                zeroed += n_zeroed
        return total.to_host(), zeroed

    def _block(self, form: Form, ball: Any, rows: NDArray) -> tuple[OuterProduct, int]:
        terms = self.terms
        J = form.jacobian_at(rows, leave_out=terms.leave_one_out, softmax=terms.softmax)
        zeroed = 0
        if ball is not None:
            exclude = rows if terms.leave_one_out else None
            J, zeroed = _zeroed(
                J, ball, form.function.X_[rows], exclude, float(terms.min_mass or 0)
            )
        w = form.function.sample_weight_
        return self._empty(form).add(J, None if w is None else w[rows], check=False), zeroed

    def _empty(self, form: Form) -> OuterProduct:
        return OuterProduct(
            form.c,
            form.d,
            diagonal=self.terms.diagonal,
            batch=self.plan.batch,
            engine=form.request.engine,
        )

    def _checked(self, parts: list[tuple[OuterProduct, int]]) -> tuple[OuterProduct, int]:
        total, zeroed = merged(parts)
        require_finite(total, self.forms[0].function, self.forms[0].request.engine)
        return total, zeroed


def merged(parts: Sequence[tuple[OuterProduct, int]]) -> tuple[OuterProduct, int]:
    """Sums of all parts, in their order; the parts stay as they are."""
    first = parts[0][0]
    total = OuterProduct(
        first.n_outputs, first.n_features, diagonal=first.diagonal, batch=first.batch
    )
    for part, _ in parts:
        total.merge(part)
    return total, sum(zeroed for _, zeroed in parts)


def require_finite(total: OuterProduct, function: Any, engine: Engine = HOST) -> None:
    """Refuse a sum with infinities."""
    if total.finite:
        return
    if engine.on_device:
        raise FloatingPointError(
            f"the derivatives of {function!r} are not finite on {engine.describe()}; use "
            "device=Device(..., precision='float64'), or scale the columns of `X`."
        )
    raise FloatingPointError(
        f"the derivatives of {function!r} are not finite; check what it predicts near the "
        "training rows, and scale `y` and the columns of `X` if their values are very large or "
        "very small."
    )
