"""The seam: from a fitted function, a step and an engine to a form that sums its differences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ejop.arrays import namespace
from ejop.quotients import central_differences, softmax_chain
from ejop.rows import Block, whole_block
from ejop.sums.engine import HOST, Engine
from ejop.sums.weighted import WeightedSums

if TYPE_CHECKING:
    from ejop.functions import Function

#: step of a form that gives values alone
VALUES = "values"


@dataclass(frozen=True)
class Cost:
    """What one block of queries costs, for the plan.

    Attributes
    ----------
    method : str
        Name of the form.
    bytes_per_query : int
        Peak temporary memory for one query row.
    fixed_bytes : int
        Memory prepared once, beside the data.
    thread_bytes : int
        Memory of a thread whatever the size of its block.
    flops_per_query : int
        Rough count, to keep blocks short.
    """

    method: str
    bytes_per_query: int
    fixed_bytes: int = 0
    thread_bytes: int = 0
    flops_per_query: int = 0


@dataclass(frozen=True)
class Request:
    """What a form is made for.

    Attributes
    ----------
    step : ndarray of shape (n_features,), None or "values"
        Steps of the differences; None for the derivative itself.
    engine : Engine
    budget : int or None
        Bytes for temporaries; None for no limit.
    n_queries, n_excluded : int
        Rows that will be asked for, and how many of them are training rows to leave out.
    solved : object, optional
        A system that was solved before, for functions that have one.
    pairwise : bool
        Measure distances pair by pair, for queries far beyond the rows.
    """

    step: Any
    engine: Engine = HOST
    budget: int | None = None
    n_queries: int = 0
    n_excluded: int = 0
    solved: Any = None
    pairwise: bool = False

    @property
    def shifts(self) -> NDArray | None:
        """Steps of the differences, if any are asked for."""
        return None if self.step is None or isinstance(self.step, str) else self.step

    def columns(self, n_features: int) -> int:
        """Columns of the sums: both shifts, [z | 1], or [1]."""
        if self.shifts is not None:
            return 2 * n_features
        return 1 if isinstance(self.step, str) else n_features + 1


def prepare(
    function: Function,
    step: NDArray | str | None,
    *,
    engine: Engine = HOST,
    budget: int | None = None,
    n_queries: int = 0,
    n_excluded: int = 0,
) -> Form:
    """The form of a fitted function: how its differences are summed, with what all blocks share.

    Parameters
    ----------
    function : fitted function
        It is not changed.
    step : ndarray of shape (n_features,), None or "values"
        None for the analytic derivative, "values" for f itself.
    engine : Engine
        Where arrays live.
    budget : int, optional
        Bytes for temporaries.
    n_queries, n_excluded : int
        Rows that will be asked for, and how many of them are training rows to leave out.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.functions import KernelSmoother
    >>> from ejop.sums import prepare
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> f = KernelSmoother("boxcar", bandwidth=1.0).fit(X, X)
    >>> prepare(f, np.array([0.5])).jacobian(np.array([[1.0]]))
    array([[[1.]]])
    """
    if step is not None and not isinstance(step, str):
        step = np.array(step, dtype=np.float64)
        d = function.summary_.n_features
        if step.shape != (d,) or not np.all((step >= 0) & (step < np.inf)):
            raise ValueError(f"`step`={step} must hold {d} finite numbers, none of them negative.")
    if step is None and not function.differentiable:
        raise ValueError(
            f"`step`='analytic' needs a function with a closed-form derivative and {function!r} "
            "has none; use step='auto' or a number, or the Gaussian or Laplace kernel."
        )
    return function.form(Request(step, engine, budget, n_queries, n_excluded))


class Form(ABC):
    """How one function is differentiated on one engine; it does not change once it is made.

    A subclass writes ``tile``, ``queries``, ``sums`` and ``values`` or ``derive``. Copies that
    travel are made again from the function and what was asked for, so no table is ever sent.

    Attributes
    ----------
    function : fitted function
    request : Request
    engine : Engine
    cost : Cost
    notes : tuple of str
        Why this form.
    kind : dtype
        Type of the sums.
    """

    cost: Cost
    notes: tuple[str, ...] = ()
    kind: np.dtype
    #: sums of weights up to which no row counts
    no_mass: float = 0.0
    _tiles: tuple[Any, ...] = ()

    def __init__(self, function: Function, request: Request) -> None:
        self.function, self.request, self.engine = function, request, request.engine
        self.summary = function.summary_
        self.c, self.d = self.summary.n_outputs, self.summary.n_features
        self.step = request.shifts

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.function, self.request)

    # for subclasses ---------------------------------------------------------------------------

    @abstractmethod
    def tile(self, block: Block) -> Any:
        """Reference rows as this form sums over them, in place on the engine."""

    @abstractmethod
    def queries(self, Q: NDArray) -> Any:
        """Query rows as ``sums`` takes them."""

    @abstractmethod
    def sums(self, Q: Any, tile: Any, exclude: NDArray | None = None) -> WeightedSums:
        """Sums over the rows of a tile; those over other tiles merge with them.

        ``exclude`` (m,) is the row to leave out of each query's sums by its number among all rows,
        -1 for none. Columns are shifts up, then shifts down; [z | 1] for the derivative; [1] for
        values.
        """

    @abstractmethod
    def means(self, sums: WeightedSums, Q: Any, prior: Callable[[], NDArray]) -> tuple[Any, ...]:
        """Values of f (n_outputs, m, columns) from sums over all rows, which are used up.

        A pair (plus, minus) for differences, (values, Jacobian) for the derivative, and (values,)
        otherwise. ``prior`` gives the mean target (m, n_outputs) where no row weighs anything.
        """

    def _own_queries(self, rows: NDArray) -> Any:
        """Training rows as queries."""
        return self.queries(self.function.X_[rows])

    # what executors call ------------------------------------------------------------------------

    def tiles(self) -> Iterator[Any]:
        """The references, as one tile or several."""
        yield from self._tiles

    def whole(self) -> Block:
        """The rows of the function."""
        f = self.function
        return whole_block(f.X_, f.Y_, f.sample_weight_)

    def jacobian(
        self, Q: NDArray, exclude: NDArray | None = None, *, softmax: bool = False
    ) -> NDArray:
        """Jacobians (m, n_outputs, n_features) at rows of X, on the engine."""
        form = self.suited(Q := np.asarray(Q))
        return form._jacobian(form.queries(Q), exclude, softmax)

    def suited(self, Q: NDArray) -> Form:
        """The form for rows of a caller, which may lie anywhere."""
        return self

    def jacobian_at(self, rows: NDArray, *, leave_out: bool, softmax: bool = False) -> NDArray:
        """Jacobians at training rows, each left out of its own estimate or not."""
        return self._jacobian(self._own_queries(rows), rows if leave_out else None, softmax)

    def _jacobian(self, Q: Any, exclude: NDArray | None, softmax: bool) -> NDArray:
        return self.derive(
            self._total(Q, exclude), Q, lambda: self._prior(len(Q), exclude), softmax=softmax
        )

    def values(self, Q: NDArray, exclude: NDArray | None = None) -> NDArray:
        """Values of f at rows of X, (m, n_outputs), on the engine."""
        return self._means_at(Q, exclude)[0][:, :, 0].T

    def shifted(self, Q: NDArray, exclude: NDArray | None = None) -> tuple[NDArray, NDArray]:
        """Values at x + t_j e_j and at x - t_j e_j, each (m, n_outputs, n_features)."""
        plus, minus = (side.swapaxes(0, 1) for side in self._means_at(Q, exclude))
        return plus, minus

    def _means_at(self, rows: NDArray, exclude: NDArray | None) -> tuple[Any, ...]:
        form = self.suited(rows := np.asarray(rows))
        Q = form.queries(rows)
        return form.means(form._total(Q, exclude), Q, lambda: form._prior(len(Q), exclude))

    def _total(self, Q: Any, exclude: NDArray | None) -> WeightedSums:
        parts = (self.sums(Q, tile, exclude) for tile in self.tiles())
        total = next(parts)
        for part in parts:
            total = total.absorb(part)
        return total

    def derive(
        self,
        sums: WeightedSums,
        Q: Any,
        prior: Callable[[], NDArray],
        *,
        softmax: bool = False,
    ) -> NDArray:
        """Jacobians (m, n_outputs, n_features) from sums over all rows, which are used up."""
        first, second = (part.swapaxes(0, 1) for part in self.means(sums, Q, prior))
        if self.step is None:
            return softmax_chain(first[:, :, 0], second) if softmax else second
        step = self.engine.array(self.step, self.kind)
        if softmax and self.bounded:
            return self.engine.softmax_quotient(first, second, step)
        return central_differences(first, second, step, apply_softmax=softmax)

    @property
    def bounded(self) -> bool:
        """Whether values are shares in [0, 1]."""
        return self.summary.one_hot

    def _prior(self, m: int, exclude: NDArray | None) -> NDArray:
        """Mean target for each query, its own row left out."""
        prior = np.tile(self.summary.prior, (m, 1))
        if exclude is not None:
            own = np.flatnonzero(exclude >= 0)
            block = self.whole()
            rows = exclude[own]
            prior[own] = self.summary.prior_without(block.Y[rows], block.weights[rows])
        return prior


def _again(function: Function, request: Request) -> Form:
    return function.form(request)


def divided(form: Form, found: WeightedSums, prior: Callable[[], NDArray]) -> Any:
    """Means from sums (c, m, columns), in place; the prior where no row weighs anything."""
    sums, total = found.sums, found.total
    if float(total.min()) > form.no_mass:
        sums /= total
        return sums
    empty = total <= form.no_mass
    total[empty] = 1
    sums /= total
    prior_values = form.engine.array(prior(), form.kind).T[:, :, None]
    return namespace(sums).where(empty, prior_values, sums)


def derived(form: Form, found: WeightedSums, prior: Callable[[], NDArray]) -> tuple[Any, Any]:
    """Values and sum w Y g - f sum w g from sums of [g | 1], w the normalised weights; in place.

    The prior, and slopes of zero, where no row weighs anything.
    """
    sums, total = found.sums, found.total
    empty = total[:, -1] <= 0
    total[empty] = 0
    total[empty, -1] = 1
    weight = total[:, -1:]
    sums /= weight
    J = sums[:, :, :-1] - sums[:, :, -1:] * (total / weight)[:, :-1]
    values = sums[:, :, -1:]
    if bool(empty.any()):
        values[:, empty, 0] = form.engine.array(prior(), form.kind)[empty].T
    return values, J
