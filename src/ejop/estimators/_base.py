"""What EJOP and EGOP share: validate, choose, sum, store."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ejop.backends.plan import Plan, make_plan
from ejop.backends.torch import PRECISIONS, Engine, device_of, engines, follow, to_host
from ejop.differences import check_step, jacobian, mass_threshold
from ejop.estimators._linear import LinearMetricEstimator
from ejop.executors.threads import computing, pools_free
from ejop.expectation import expected_outer_product
from ejop.functions import Function, KernelSmoother, ModelFunction, NeighborsSmoother, RidgeFunction
from ejop.kernels import KERNELS
from ejop.metric import components, eigh_descending
from ejop.outerproduct import OuterProduct
from ejop.progress import WRAPPERS, fit_task, track, with_callbacks

#: queries of the first round of ``n_queries="auto"``; each round doubles the sample
FIRST_ROUND = 256
_POSITIVE = Interval(Real, 0, None, closed="neither")


class OuterProductEstimator(LinearMetricEstimator):
    """Base of the estimators: subclasses turn y into targets and say whether softmax applies."""

    _parameter_constraints: dict = {
        "function": [
            StrOptions({"kernel", "ball", "knn", "ridge"}),
            HasMethods(["fit", "predict"]),
        ],
        "kernel": [StrOptions(set(KERNELS))],
        "bandwidth": [_POSITIVE, StrOptions({"auto"})],
        "penalty": [_POSITIVE, StrOptions({"auto"})],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "step": [_POSITIVE, StrOptions({"auto"}), "array-like"],
        "differences": [StrOptions({"central", "analytic"})],
        "leave_one_out": ["boolean"],
        "min_mass": [None, Interval(Integral, 1, None, closed="left"), StrOptions({"theory"})],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "power": [Interval(Real, 0, None, closed="left")],
        "shrinkage": [Interval(Real, 0, None, closed="left")],
        "n_components": [
            None,
            StrOptions({"gap"}),
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
        ],
        "diagonal": ["boolean"],
        "n_queries": [None, Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "tol": [_POSITIVE],
        "device": [None, str, list, tuple, HasMethods(["__reduce__"])],
        "precision": [None, StrOptions(set(PRECISIONS))],
        "memory_limit": [None, Interval(Integral, 1, None, closed="left")],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    #: where the sums run; none for NumPy and for a cluster
    _devices: Sequence[Engine] = ()

    # for subclasses -------------------------------------------------------------------------

    @abstractmethod
    def _targets(self, y: NDArray, classes: ArrayLike | None, *, first: bool) -> NDArray:
        """Targets (n, c) from y; on the first call settles what later calls must agree with."""

    def _softmax(self) -> bool:
        """Whether to differentiate the softmax of f."""
        return False

    # fitting --------------------------------------------------------------------------------

    @computing
    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
        """Estimate the matrix and its metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row, both in f and in the mean of the outer products.

        Returns
        -------
        self : object
        """
        self._validate_params()
        self._forget()
        rows, Y, weights = self._validate(X, y, sample_weight, first=True)
        _require_two(rows)
        function = self._make_function()
        if self._devices and isinstance(function, RidgeFunction):  # the device solves
            function._device_rows = min(one.most_centers() for one in self._devices)
        function.fit(rows, Y, weights)
        step = self._choose_step(function)
        total, plan = self._sum(function, step, self._query_rounds(len(rows)), weights)
        self._store(function, step, total, plan)
        return self

    @computing
    @with_callbacks
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Any:
        """Add rows: they join the references of f, and their outer products join the running mean.

        Each row's outer product is taken once, at f as it stood when the row arrived. The
        bandwidth, penalty and step are chosen on the first call and kept.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        classes : array-like of shape (n_classes,), optional
            All classes that will ever appear; for class targets on the first call.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self : object
        """
        self._validate_params()
        first = not self.__sklearn_is_fitted__()
        rows, Y, weights = self._validate(X, y, sample_weight, first=first, classes=classes)
        queries = np.arange(len(rows))
        if first:
            _require_two(rows)
            function = self._make_function().fit(rows, Y, weights)
            step = self._choose_step(function)
        else:
            old, step = self.function_, self._step
            queries += len(old.X_)
            weights = _joined_weights(old, weights, len(rows))
            function = clone(old).set_params(**_settled(old))
            references = np.vstack([old.X_, rows.astype(old.X_.dtype, copy=False)])
            function.fit(references, np.vstack([old.Y_, Y]), weights)
        total, plan = self._sum(function, step, [queries], weights)
        self._store(function, step, total if first else total.merge(self._outer_product), plan)
        return self

    def _validate(
        self, X: Any, y: Any, sample_weight: Any, *, first: bool, classes: Any = None
    ) -> tuple[NDArray, NDArray, NDArray | None]:
        if sparse.issparse(X):
            raise TypeError(
                "A sparse matrix was passed as `X` and dense data are needed; use X.toarray(), or "
                "reduce the columns first, for instance with sklearn.decomposition.TruncatedSVD."
            )
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        self._devices = self._engines(X)
        X, y = self._checked(to_host(X), to_host(y), reset=first)
        Y = self._targets(y, classes, first=first).astype(X.dtype, copy=False)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
            kept = weights > 0  # a row of weight zero is no row
            X, Y, weights = X[kept], Y[kept], weights[kept]
        return X, Y, weights

    def _checked(self, X: Any, y: Any, *, reset: bool = True) -> tuple[NDArray, NDArray]:
        """Rows and targets as arrays, of one length and finite."""
        return validate_data(
            self,
            X,
            y,
            reset=reset,
            dtype=[np.float64, np.float32],
            multi_output=True,
            y_numeric=False,
        )

    def _engines(self, X: Any) -> list[Engine]:
        """Devices that the sums run on; none for NumPy. A tensor brings its own."""
        device = device_of(X) if self.device is None else self.device
        if device is None:
            return []
        for name, unset in (("diagonal", False), ("min_mass", None)):
            if getattr(self, name) != unset:
                raise ValueError(
                    f"`{name}`={getattr(self, name)!r} is not there with a device; use device=None."
                )
        return engines(device, self.precision, np.float32 if _is_single(X) else np.float64)

    def _make_function(self) -> Function:
        common = {"bandwidth": self.bandwidth, "random_state": self.random_state}
        if isinstance(self.function, str):
            registry = {
                "kernel": lambda: KernelSmoother(self.kernel, **common),
                "ball": lambda: KernelSmoother("boxcar", **common),
                "knn": lambda: NeighborsSmoother(self.n_neighbors),
                "ridge": lambda: RidgeFunction(self.kernel, penalty=self.penalty, **common),
            }
            return registry[self.function]()
        if hasattr(self.function, "differences"):
            return clone(self.function)
        return ModelFunction(self.function)

    def _choose_step(self, function: Function) -> NDArray | None:
        """One step per feature, None for the analytic derivative."""
        if self.differences == "analytic":
            if not function.differentiable:
                function.gradient(function.X_[:1])  # raises with the remedy
            return None
        automatic = isinstance(self.step, str) and self.step == "auto"
        step = function.default_step() if automatic else self.step
        return check_step(step, function.n_features_in_)

    def _query_rounds(self, n: int) -> list[NDArray]:
        """Rows to average over, in rounds; after each, ``n_queries="auto"`` may stop."""
        if self.n_queries is None or (self.n_queries != "auto" and self.n_queries >= n):
            return [np.arange(n)]
        order = check_random_state(self.random_state).permutation(n)
        if self.n_queries != "auto":
            return [np.sort(order[: self.n_queries])]
        ends = [FIRST_ROUND]
        while ends[-1] < n:
            ends.append(2 * ends[-1])
        return np.split(order, [end for end in ends if end < n])

    def _sum(
        self,
        function: Function,
        step: NDArray | None,
        rounds: list[NDArray],
        weights: NDArray | None,
    ) -> tuple[OuterProduct, Plan]:
        leave_out = self.leave_one_out and function.leaves_out
        prepare = self._on_devices if self._devices else self._on_host
        add, plan, min_mass = prepare(function, step, len(rounds[0]), weights, leave_out)
        total, zeroed = None, 0
        counted = len(rounds) == 1 and not self._devices  # a device may halve its blocks
        n_blocks = len(plan.blocks(len(rounds[0]))) if counted else None
        with fit_task(self, type(self).__name__, n_blocks), _released(function):
            for queries in rounds:
                part, n_zeroed = add(queries)
                total = part if total is None else total.merge(part)
                zeroed += n_zeroed
                if total.relative_error() <= self.tol:
                    break
        assert total is not None
        plan.n_queries = total.count
        self._annotate(plan, function, total, min_mass, zeroed)
        return total, plan

    def _on_host(
        self,
        function: Function,
        step: NDArray | None,
        n_queries: int,
        weights: NDArray | None,
        leave_out: bool,
    ) -> tuple[Callable[[NDArray], tuple[OuterProduct, int]], Plan, float | None]:
        """How to sum some queries with NumPy and compiled loops, the plan, and the mass needed."""
        plan = make_plan(
            function,
            n_queries,
            step,
            n_jobs=self.n_jobs,
            memory_limit=self.memory_limit,
            n_excluded=n_queries if leave_out else 0,
        )
        min_mass = self._min_mass(function)
        add = partial(
            expected_outer_product,
            function,
            plan=plan,
            step=step,
            leave_one_out=leave_out,
            weights=weights,
            softmax=self._softmax(),
            diagonal=self.diagonal,
            min_mass=min_mass,
            progress=self._track,
        )
        return add, plan, min_mass

    def _on_devices(
        self,
        function: Function,
        step: NDArray | None,
        n_queries: int,
        weights: NDArray | None,
        leave_out: bool,
    ) -> tuple[Callable[[NDArray], tuple[OuterProduct, int]], Plan, None]:
        """The same by torch."""
        from ejop.backends import torch_sum
        from ejop.backends.torch_functions import twin

        twins = [twin(function, engine, step) for engine in self._devices]
        plan = torch_sum.make_plan(twins, n_queries, self.memory_limit)

        def add(queries: NDArray) -> tuple[OuterProduct, int]:
            with pools_free():  # torch walks the blocks; on a processor it needs its threads
                total = torch_sum.expected_outer_product(
                    twins,
                    queries,
                    plan,
                    leave_one_out=leave_out,
                    weights=weights,
                    softmax=self._softmax(),
                    progress=self._track,
                )
            return total, 0

        return add, plan, None

    def _track(self, parts: Any, n: int) -> Any:
        return track(parts, n, self, type(self).__name__, self.verbose)

    def _annotate(
        self,
        plan: Plan,
        function: Function,
        total: OuterProduct,
        min_mass: float | None,
        zeroed: int,
    ) -> None:
        """Say in the plan what was chosen and what it came to."""
        for name in ("bandwidth", "penalty"):
            value = getattr(function, f"{name}_", None)
            if value is not None:
                mine = getattr(self, name) if isinstance(self.function, str) else None
                chosen = "auto" in (getattr(function, name), mine)
                plan.notes.append(
                    f"{name}: {value:.6g} ({'by leave-one-out' if chosen else 'given'})"
                )
        if self.leave_one_out and not function.leaves_out:
            plan.notes.append("leave_one_out: a model cannot leave a row out, so none is")
        if self.n_queries == "auto":
            plan.notes.append(
                f"n_queries: {total.count} of {plan.n_rows} rows reach a standard error of "
                f"{total.relative_error():.2%} (tol={self.tol:g})"
            )
        if min_mass is not None:
            plan.mass_zeroed = zeroed / (total.count * function.n_features_in_)
            plan.notes.append(
                f"min_mass: at least {min_mass:.4g} rows in both balls; {plan.mass_zeroed:.1%} of "
                "the derivatives had fewer and were set to zero"
            )

    def _min_mass(self, function: Function) -> float | None:
        if self.min_mass is None:
            return None
        if not hasattr(function, "bandwidth_"):
            raise ValueError(
                f"`min_mass`={self.min_mass!r} counts rows within half a bandwidth and "
                f"`function`={self.function!r} has none; use function='kernel', 'ball' or 'ridge'."
            )
        if self.min_mass == "theory":
            return mass_threshold(len(function.X_), function.n_features_in_, self.delta)
        return float(self.min_mass)

    def _store(
        self, function: Function, step: NDArray | None, total: OuterProduct, plan: Any
    ) -> None:
        """All fitted state at once, so that an interrupted fit leaves none."""
        metric = total.mean()
        solver = self._devices[0].eigh if self._devices else np.linalg.eigh
        values, vectors = eigh_descending(metric, solver)
        flat = values[0] <= self._rounding(function, step)
        rows = components(
            np.zeros_like(values) if flat else values,
            vectors,
            power=self.power,
            shrinkage=self.shrinkage,
            n_components=self.n_components,
        )
        if flat:
            warnings.warn(
                "every difference is zero, so no direction is preferred and the metric is "
                "Euclidean; raise `bandwidth` or `step`, lower `min_mass` if it is set, or try "
                "function='ridge'.",
                UserWarning,
                stacklevel=3 + WRAPPERS,
            )
        self.function_, self.plan_, self._outer_product, self._step = function, plan, total, step
        self.mass_zeroed_ = plan.mass_zeroed
        self.outer_product_, self.outer_product_stderr_ = metric, total.stderr()
        self.eigenvalues_, self.eigenvectors_ = values, vectors
        self.components_ = rows
        self._n_features_out = len(rows)
        trace = np.trace(metric)
        d = len(metric)
        self.feature_importances_ = np.diag(metric) / trace if trace > 0 else np.full(d, 1 / d)
        self.output_importances_ = total.output_importances()
        self.output_shares_ = total.shares()
        self.bandwidth_ = getattr(function, "bandwidth_", None)
        self.penalty_ = getattr(function, "penalty_", None)
        self.step_ = None if step is None else (step[0] if np.ptp(step) == 0 else step)
        self.n_queries_ = total.count

    def _rounding(self, function: Function, step: NDArray | None) -> float:
        """Largest eigenvalue that rounding alone can give: (64 eps range(Y) / 2t)^2 d."""
        t = getattr(function, "bandwidth_", 1.0) if step is None else step.min()
        noise = 64 * np.finfo(function.X_.dtype).eps * float(np.ptp(function.Y_)) / (2 * t)
        return noise**2 * function.n_features_in_

    # using ----------------------------------------------------------------------------------

    @computing
    def jacobian(self, X: ArrayLike) -> NDArray:
        """Sensitivity of each output to each feature at the rows of X.

        The rows are taken as new: none is left out of the estimate.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        J : ndarray of shape (n_samples, n_features, n_outputs)
        """
        check_is_fitted(self)
        if self.function_ is None:
            raise ValueError(
                "`jacobian` needs the training rows and this estimator came from a cluster without "
                "them; use to_local(references=True)."
            )
        rows: NDArray = validate_data(self, to_host(X), reset=False, dtype=[np.float64, np.float32])
        plan = make_plan(self.function_, len(rows), self._step, memory_limit=self.memory_limit)
        with _released(self.function_):
            blocks = [
                jacobian(self.function_, rows[block], self._step, apply_softmax=self._softmax())[0]
                for block in plan.blocks()
            ]
        return follow(np.concatenate(blocks).transpose(0, 2, 1), X)


def _is_single(X: Any) -> bool:
    """Whether rows are float32."""
    return str(getattr(X, "dtype", "")).rpartition(".")[2] == "float32"


@contextmanager
def _released(function: Function) -> Iterator[None]:
    """Forget the tables of a plan when the sums are done, or broken off."""
    try:
        yield
    finally:
        function.release()


def _require_two(X: NDArray) -> None:
    if len(X) < 2:
        raise ValueError(
            f"Found array with {len(X)} sample(s) (shape={X.shape}) while a minimum of 2 is "
            "required: a derivative compares rows."
        )


def _joined_weights(old: Function, new: NDArray | None, n_new: int) -> NDArray | None:
    if old.sample_weight_ is None and new is None:
        return None
    return np.concatenate([old._weights(), np.ones(n_new) if new is None else new])


def _settled(function: Function) -> dict[str, float]:
    """Parameters of a fitted function that were chosen from data, as numbers."""
    names = ("bandwidth", "penalty")
    return {n: getattr(function, f"{n}_") for n in names if hasattr(function, f"{n}_")}
