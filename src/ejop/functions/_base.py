"""The protocol that every estimate of f shares."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from ejop.choice import LocalRows, RowSource
from ejop.executors.threads import computing
from ejop.quotients import check_step
from ejop.rows import SIZES, Block, Summary, as_numbers, checked_block, require_sizes
from ejop.sums.engine import HOST, Engine
from ejop.sums.form import VALUES, Form, Request, prepare

#: entries of kernel matrices that predictions hold at once
MAX_ENTRIES = 8_000_000


class Function(BaseEstimator):
    """Base of the estimates of f: what it is fitted on, and nothing that a query changes.

    A subclass writes ``form`` and ``default_step``, and ``_choose`` and ``solve`` where something
    is to be chosen from the rows or solved for. Fitted functions hold ``X_`` (n, d), ``Y_`` (n, c),
    ``sample_weight_`` (n,) or None, in the order given, and ``summary_``.
    """

    #: whether the analytic derivative exists
    differentiable = False
    #: whether ``exclude`` leaves a training row out of its own estimate
    leaves_out = True
    #: whether sums over some of the rows merge
    divisible = False
    #: whether it measures distances
    measures = True

    summary_: Summary
    X_: NDArray
    Y_: NDArray
    sample_weight_: NDArray | None

    @computing
    def fit(
        self,
        X: NDArray,
        Y: NDArray,
        sample_weight: NDArray | None = None,
        *,
        engine: Engine = HOST,
        memory_limit: int | None = None,
    ) -> Any:
        """Fit to rows X (n, d) and targets Y (n, c), one-hot or real.

        ``engine`` is where a system is solved, for functions that solve one; beyond
        ``memory_limit`` bytes it is not begun.
        """
        block = checked_block(X, Y, sample_weight)
        if memory_limit is not None:
            self.require_room(len(block), engine, memory_limit)
        self.settle(LocalRows(block))
        self._hold(block)
        self.solve(engine)
        return self

    def settle(self, rows: RowSource) -> Any:
        """Take what all rows together say, and choose by them; the rows are not held."""
        self.summary_ = rows.summary
        self.n_features_in_, self.n_outputs_ = rows.summary.n_features, rows.summary.n_outputs
        rows.summary.require_numbers()
        self._choose(rows)
        return self

    def holding(self, block: Block) -> Any:
        """The same function holding other rows: a part of those that settled it."""
        twin = copy(self)
        twin._hold(block)
        return twin

    def bare(self, **more: Any) -> Any:
        """The same function without rows, with what was chosen and what is given."""
        twin = clone(self)
        for name in ("summary_", "n_features_in_", "n_outputs_", "bandwidth_", "penalty_"):
            if hasattr(self, name):
                setattr(twin, name, getattr(self, name))
        for name, value in more.items():
            setattr(twin, name, value)
        return twin

    def _hold(self, block: Block) -> None:
        self.X_, self.Y_, self.sample_weight_ = block.X, block.Y, block.w

    # for subclasses ---------------------------------------------------------------------------

    def _choose(self, rows: RowSource) -> None:
        """Choose what was left open."""

    def solve(self, engine: Engine) -> None:
        """Solve for what f needs, from the rows it holds."""

    def require_room(self, n: int, engine: Engine, memory_limit: int) -> None:
        """Refuse so many rows before anything is solved, if it would take more memory."""

    @abstractmethod
    def form(self, request: Request) -> Form:
        """How differences are summed; see :func:`ejop.sums.prepare`."""

    @abstractmethod
    def default_step(self) -> Any:
        """Step taken for ``step="auto"``."""

    # using ------------------------------------------------------------------------------------

    def predict(self, X: NDArray, exclude: NDArray | None = None) -> NDArray:
        """Values of f at the rows of X, shape (n_queries, n_outputs).

        ``exclude`` (n_queries,) is a training row to leave out of each estimate, -1 for none.
        """
        X = self.check_queries(X)
        exclude = self.check_exclude(exclude, len(X))
        n_excluded = 0 if exclude is None else int(np.count_nonzero(exclude >= 0))
        form = prepare(self, VALUES, n_queries=len(X), n_excluded=n_excluded)
        size = max(1, MAX_ENTRIES // max(1, self.summary_.n))
        found = [
            form.values(X[s : s + size], None if exclude is None else exclude[s : s + size])
            for s in range(0, len(X), size)
        ]
        if not found:
            return np.empty((0, self.n_outputs_), dtype=self.summary_.dtype)
        return np.concatenate(found).astype(self.summary_.dtype, copy=False)

    def shifted(
        self, Q: NDArray, step: NDArray, exclude: NDArray | None = None
    ) -> tuple[NDArray, NDArray]:
        """Values of f at x + t_j e_j and at x - t_j e_j, each (n_queries, n_outputs,
        n_features)."""
        Q = self.check_queries(Q)
        steps = check_step(step, self.n_features_in_)
        return prepare(self, steps).shifted(Q, self.check_exclude(exclude, len(Q)))

    def differences(
        self,
        Q: NDArray,
        step: NDArray | None,
        exclude: NDArray | None = None,
        *,
        softmax: bool = False,
    ) -> NDArray:
        """Central differences of f (or of its softmax), (n_queries, n_outputs, n_features).

        The derivative itself where ``step`` is None.
        """
        Q = self.check_queries(Q)
        steps = None if step is None else check_step(step, self.n_features_in_)
        return prepare(self, steps).jacobian(
            Q, self.check_exclude(exclude, len(Q)), softmax=softmax
        )

    # at the door ------------------------------------------------------------------------------

    def check_queries(self, X: Any) -> NDArray:
        """Rows of as many finite numbers as f was fitted on, none too large for distances."""
        check_is_fitted(self, "summary_")
        rows = np.asarray(X)
        rows = rows if rows.dtype in SIZES else as_numbers("X", rows)
        d = self.n_features_in_
        if rows.ndim != 2 or rows.shape[1] != d:
            raise ValueError(f"`X` has shape {rows.shape} and (n_queries, {d}) was expected.")
        if not len(rows):
            return rows
        low, high = rows.min(), rows.max()
        if not (np.isfinite(low) and np.isfinite(high)):
            raise ValueError("`X` contains NaN or infinity; fill the gaps or drop these rows.")
        if self.measures:
            require_sizes(low, high, self.summary_.dtype)
        return rows

    def check_exclude(self, exclude: Any, m: int) -> NDArray | None:
        """The training row that each of m queries leaves out, -1 for none."""
        if exclude is None:
            return None
        places, n = np.asarray(exclude), self.summary_.n
        if places.shape != (m,) or places.dtype.kind not in "iu":
            raise ValueError(
                f"`exclude` has shape {places.shape} and type {places.dtype}; {m} row numbers were "
                "expected, one a query, -1 where no row is to be left out."
            )
        if m and not (places.min() >= -1 and places.max() < n):
            raise ValueError(
                f"`exclude` has row numbers from {places.min()} to {places.max()} and f was fitted "
                f"on {n} rows; use 0 to {n - 1}, and -1 where no row is to be left out."
            )
        return places.astype(np.int64, copy=False)


def check_bandwidth(bandwidth: object) -> float:
    """A positive, finite bandwidth as float."""
    if not isinstance(bandwidth, Real) or not 0 < float(bandwidth) < np.inf:
        raise ValueError(
            f"`bandwidth` must be a positive, finite number or 'auto', got {bandwidth!r}; "
            "bandwidth='auto' chooses one by leave-one-out."
        )
    least, most = SIZES[np.dtype(np.float64)]
    if not least <= float(bandwidth) <= most:
        raise ValueError(
            f"`bandwidth`={bandwidth!r} has a square that is no number beside others; it must lie "
            f"between {least:g} and {most:g}. bandwidth='auto' chooses one by leave-one-out."
        )
    return float(bandwidth)


def is_auto(value: object) -> bool:
    """Whether a parameter was left to be chosen."""
    return isinstance(value, str) and value == "auto"
