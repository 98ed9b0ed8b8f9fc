"""The protocol that every estimate of f shares."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from ejop.choice import LocalRows, RowSource
from ejop.executors.threads import computing
from ejop.rows import Block, Summary, whole_block
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
    ) -> Any:
        """Fit to rows X (n, d) and targets Y (n, c), one-hot or real.

        ``engine`` is where a system is solved, for functions that solve one.
        """
        X, Y = np.asarray(X), np.asarray(Y)
        Y = Y[:, None] if Y.ndim == 1 else Y
        if X.ndim != 2 or len(X) != len(Y):
            raise ValueError(
                f"`X` of shape {X.shape} and `Y` of shape {Y.shape} do not match: "
                "(n_samples, n_features) and (n_samples, n_outputs) are expected."
            )
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        block = whole_block(X, Y.astype(X.dtype, copy=False), sample_weight)
        self.settle(LocalRows(block))
        self._hold(block)
        self.solve(engine)
        return self

    def settle(self, rows: RowSource) -> Any:
        """Take what all rows together say, and choose by them; the rows are not held."""
        self.summary_ = rows.summary
        self.n_features_in_, self.n_outputs_ = rows.summary.n_features, rows.summary.n_outputs
        rows.summary.require_distances()
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
        X = np.asarray(X)
        n_excluded = 0 if exclude is None else int(np.count_nonzero(exclude >= 0))
        form = prepare(self, VALUES, n_queries=len(X), n_excluded=n_excluded)
        size = max(1, MAX_ENTRIES // max(1, self.summary_.n))
        found = [
            form.values(X[s : s + size], None if exclude is None else exclude[s : s + size])
            for s in range(0, len(X), size)
        ]
        return np.concatenate(found).astype(self.summary_.dtype, copy=False)

    def shifted(
        self, Q: NDArray, step: NDArray, exclude: NDArray | None = None
    ) -> tuple[NDArray, NDArray]:
        """Values of f at x + t_j e_j and at x - t_j e_j, each (n_queries, n_outputs,
        n_features)."""
        return prepare(self, step).shifted(Q, exclude)

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
        return prepare(self, step).jacobian(Q, exclude, softmax=softmax)


def check_bandwidth(bandwidth: object) -> float:
    """A positive, finite bandwidth as float."""
    if not isinstance(bandwidth, Real) or not 0 < float(bandwidth) < np.inf:
        raise ValueError(
            f"`bandwidth` must be a positive, finite number or 'auto', got {bandwidth!r}; "
            "bandwidth='auto' chooses one by leave-one-out."
        )
    return float(bandwidth)


def is_auto(value: object) -> bool:
    """Whether a parameter was left to be chosen."""
    return isinstance(value, str) and value == "auto"
