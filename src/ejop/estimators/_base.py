"""What EJOP and EGOP share: validate, choose, sum, store."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ejop._sklearn import (
    WRAPPERS,
    HasMethods,
    Interval,
    StrOptions,
    check_sample_weight,
    with_callbacks,
)
from ejop.arrays import follow, to_host
from ejop.columns import is_table, require_numbers
from ejop.estimators._linear import LinearMetricEstimator
from ejop.executors.expectation import Averager, Terms
from ejop.executors.threads import at_most, computing
from ejop.functions import Function, KernelSmoother, ModelFunction, NeighborsSmoother, RidgeFunction
from ejop.metric import components, eigh_descending
from ejop.progress import fit_task, track
from ejop.quotients import check_step, mass_threshold
from ejop.rows import as_labels, require_balance, targets_like, whole_block
from ejop.scaling import units_apart
from ejop.seeds import GROUPS, QUERIES, stream_of
from ejop.sums import OuterProduct, prepare
from ejop.sums.engine import HOST, Engine, as_device, engines_for
from ejop.sums.plan import Plan, make_plan

#: queries of the first round of ``n_queries="auto"``; each round doubles the sample
FIRST_ROUND = 256
#: standard error of ``n_queries="auto"``, and confidence of ``min_mass="theory"``
TOLERANCE, DELTA = 0.05, 0.05
#: parameters that say what is averaged
SETTLED = ("function", "bandwidth", "step", "softmax", "leave_one_out", "min_mass", "diagonal")
_POSITIVE = Interval(Real, 0, None, closed="neither")


class OuterProductEstimator(LinearMetricEstimator):
    """Base of the estimators: subclasses turn y into targets and say whether softmax applies."""

    #: whether y holds classes
    takes_classes = False
    #: whether a fit warns of columns in different units: not where held-out rows choose
    tells_units = True

    _parameter_constraints: dict = {
        "function": [
            StrOptions({"kernel", "ball", "knn", "ridge"}),
            HasMethods(["fit", "predict"]),
            callable,
        ],
        "bandwidth": [_POSITIVE, StrOptions({"auto"})],
        "step": [_POSITIVE, StrOptions({"auto", "analytic"}), "array-like"],
        "leave_one_out": ["boolean"],
        "min_mass": [
            None,
            StrOptions({"theory"}),
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
        ],
        "power": [Interval(Real, 0, None, closed="left")],
        "shrinkage": [Interval(Real, 0, None, closed="left")],
        "n_components": [
            None,
            StrOptions({"gap"}),
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
        ],
        "diagonal": ["boolean"],
        "n_queries": [
            None,
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
        ],
        "device": "no_validation",  # by ``engines_for``, whose errors name what is there
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

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
        engines, limit = engines_for(self.device, X)
        rows, Y, weights = self._validate(X, y, sample_weight, first=True)
        _require_two(rows)
        with at_most(self.n_jobs):
            function = fitted(self.make_function(), rows, Y, weights, engines[0], limit)
            step = self.choose_step(function)
            rounds = self.query_rounds(len(rows))
            total, plan = self._sum(function, step, rounds, engines, limit)
        self.store(function, step, total, plan, engines[0])
        apart = units_apart(function.summary_.X) if self.tells_units and function.measures else ""
        if apart:
            warnings.warn(
                f"{apart}; put sklearn.preprocessing.StandardScaler() before it in a pipeline, "
                "unless all columns are in one unit.",
                UserWarning,
                stacklevel=2 + WRAPPERS,
            )
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
        bandwidth, penalty and step are chosen on the first call and kept. All rows stay as
        references of f, so a call costs what n_new rows against all rows so far cost (and for
        ridge the solution of their system again): a long stream of small calls costs as much as its
        number of rows squared. To bound it, stop calling, or fit on a sample with ``n_queries``.

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
        engines, limit = engines_for(self.device, X)
        rows, Y, weights = self._validate(X, y, sample_weight, first=first, classes=classes)
        queries = np.arange(len(rows))
        with at_most(self.n_jobs):
            if first:
                _require_two(rows)
                function = fitted(self.make_function(), rows, Y, weights, engines[0], limit)
                step = self.choose_step(function)
            else:
                self._require_same()
                old, step = self.function_, self._step
                queries += len(old.X_)
                weights = _joined_weights(old, weights, len(rows))
                function = clone(old).set_params(**chosen_settings(old))
                references = np.vstack([old.X_, rows.astype(old.X_.dtype, copy=False)])
                targets = np.vstack([old.Y_, Y])
                fitted(function, references, targets, weights, engines[0], limit)
            total, plan = self._sum(function, step, [queries], engines, limit)
        total = total if first else total.merge(self._outer_product)
        self.store(function, step, total, plan, engines[0])
        return self

    def _settled(self) -> dict[str, str]:
        """What every outer product of a mean must agree in, in words."""
        return {name: _in_words(getattr(self, name)) for name in SETTLED if hasattr(self, name)}

    def _require_same(self) -> None:
        """Refuse to add rows under other settings than those of the rows that are there."""
        now = self._settled()
        for name, before in getattr(self, "_kept", now).items():
            if now[name] != before:
                raise ValueError(
                    f"`{name}`={now[name]} and the rows so far were taken with {before}, which "
                    "partial_fit goes on with; set it back, or call fit to begin anew."
                )

    def _validate(
        self, X: Any, y: Any, sample_weight: Any, *, first: bool, classes: Any = None
    ) -> tuple[NDArray, NDArray, NDArray | None]:
        if sparse.issparse(X):
            raise TypeError(
                "A sparse matrix was passed as `X` and dense data are needed; put "
                "ejop.columns.SparseReducer() before it in a pipeline, or use X.toarray()."
            )
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        X, y = self._checked(to_host(X), to_host(y), reset=first)
        Y = targets_like(self._targets(y, classes, first=first), X.dtype)
        weights = None
        if sample_weight is not None:
            weights = check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
            kept = weights > 0  # a row of weight zero is no row
            X, Y, weights = X[kept], Y[kept], weights[kept]
            require_balance(weights)
        return X, Y, weights

    def _checked(self, X: Any, y: Any, *, reset: bool = True) -> tuple[NDArray, NDArray]:
        """Rows and targets as arrays, of one length and finite."""
        if is_table(X):
            require_numbers(
                X,
                type(self).__name__,
                "put ejop.columns.ColumnPreparer() before it in a pipeline, or use EJOPClassifier "
                "or EGOPRegressor, which prepare columns",
            )
        return validate_data(
            self,
            X,
            as_labels(y) if self.takes_classes else y,
            reset=reset,
            dtype=[np.float64, np.float32],
            multi_output=True,
            y_numeric=False,
        )

    def make_function(self) -> Function:
        """The unfitted function that the parameters describe."""
        if not isinstance(self.function, str):
            if self.bandwidth != "auto":
                raise ValueError(
                    f"`bandwidth`={self.bandwidth!r} is for functions by name and "
                    f"`function`={self.function!r} is an object; give it its own bandwidth."
                )
            known = hasattr(self.function, "differences")
            return clone(self.function) if known else ModelFunction(self.function)
        if self.function == "knn" and self.bandwidth != "auto":
            raise ValueError(
                f"`bandwidth`={self.bandwidth!r} does not apply to function='knn', which has no "
                "bandwidth; pass function=NeighborsSmoother(n_neighbors=...)."
            )
        return NAMED[self.function](self.bandwidth, self.random_state)

    def choose_step(self, function: Function) -> NDArray | None:
        """One step per feature, None for the analytic derivative."""
        if isinstance(self.step, str):
            if self.step == "analytic":
                return None
            return check_step(function.default_step(), function.n_features_in_)
        return check_step(self.step, function.n_features_in_)

    @property
    def _tolerance(self) -> float | None:
        """Standard error at which a growing sample of queries is enough."""
        if isinstance(self.n_queries, str):
            return TOLERANCE
        return self.n_queries if isinstance(self.n_queries, float) else None

    def query_rounds(self, n: int) -> list[NDArray]:
        """Rows to average over, in random order and in rounds; after each, a sample that grows may
        be enough.

        Groups of the standard error are consecutive rows, so the order must not be that of the
        table, whose neighbours may be alike.
        """
        if self._tolerance is None and (self.n_queries is None or self.n_queries >= n):
            # what all rows together give does not depend on a seed
            return [np.random.default_rng(stream_of(0, GROUPS)).permutation(n)]
        order = check_random_state(stream_of(self.random_state, QUERIES)).permutation(n)
        if self._tolerance is None:
            return [order[: self.n_queries]]
        ends = [FIRST_ROUND]
        while ends[-1] < n:
            ends.append(2 * ends[-1])
        return np.split(order, [end for end in ends if end < n])

    def terms(self, function: Function) -> Terms:
        """What is averaged."""
        leave_out = self.leave_one_out and function.leaves_out
        return Terms(leave_out, self._softmax(), self.diagonal, self._min_mass(function))

    def _sum(
        self,
        function: Function,
        step: NDArray | None,
        rounds: list[NDArray],
        engines: Sequence[Engine],
        memory_limit: int | None,
    ) -> tuple[OuterProduct, Plan]:
        terms = self.terms(function)
        n_queries = sum(map(len, rounds))  # of a sample that grows, as many as there may be
        forms = [
            prepare(
                function,
                step,
                engine=engine,
                budget=memory_limit or engine.budget(1),
                n_queries=n_queries,
                n_excluded=n_queries if terms.leave_one_out else 0,
            )
            for engine in engines
        ]
        plan = make_plan(forms[0], len(rounds[0]), n_jobs=self.n_jobs, memory_limit=memory_limit)
        if forms[0].engine.on_device:
            plan.notes.append(f"device: {'; '.join(engine.describe() for engine in engines)}")
        average = Averager(forms, plan, terms)
        counted = len(rounds) == 1 and not forms[0].engine.on_device  # a device may halve blocks
        n_blocks = len(plan.blocks(len(rounds[0]))) if counted else None
        with fit_task(self, type(self).__name__, n_blocks):
            total, zeroed = self.sum_rounds(rounds, lambda rows: average.add(rows, self._track))
        plan.n_queries = total.count
        self.annotate(plan, function, total, terms.min_mass, zeroed)
        return total, plan

    def sum_rounds(
        self, rounds: list[NDArray], add: Callable[[NDArray], tuple[OuterProduct, int]]
    ) -> tuple[OuterProduct, int]:
        """Sums of the rounds, until a sample that grows is enough."""
        total, zeroed = add(rounds[0])
        for queries in rounds[1:]:
            if self._tolerance is not None and total.relative_error() <= self._tolerance:
                break
            part, n_zeroed = add(queries)
            total.merge(part)
            zeroed += n_zeroed
        return total, zeroed

    def _track(self, parts: Any, n: int) -> Any:
        return track(parts, n, self, type(self).__name__, self.verbose)

    def annotate(
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
                mine = getattr(self, name, "auto") if isinstance(self.function, str) else None
                chosen = "auto" in (getattr(function, name), mine)
                plan.notes.append(
                    f"{name}: {value:.6g} ({'by leave-one-out' if chosen else 'given'})"
                )
        if self.leave_one_out and not function.leaves_out:
            plan.notes.append("leave_one_out: a model cannot leave a row out, so none is")
        if self._tolerance is not None:
            plan.notes.append(
                f"n_queries: {total.count} of {plan.n_rows} rows reach a standard error of "
                f"{total.relative_error():.2%} (asked: {self._tolerance:.2%})"
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
        delta = DELTA if self.min_mass == "theory" else self.min_mass
        if delta < 1:
            return mass_threshold(function.summary_.n, function.n_features_in_, delta)
        return float(delta)

    def store(
        self,
        function: Function,
        step: NDArray | None,
        total: OuterProduct,
        plan: Any,
        engine: Engine = HOST,
        units: NDArray | float | None = None,
    ) -> None:
        """All fitted state at once, so that an interrupted fit leaves none.

        A metric of targets in ``units`` is that of a function chosen by its errors: where it is
        flat, a note says so instead of a warning on bandwidths.
        """
        metric = total.mean()
        values, vectors = eigh_descending(metric, engine.eigh)
        flat = values[0] <= self._rounding(function, step, 1.0 if units is None else units)
        rows = components(
            np.zeros_like(values) if flat else values,
            vectors,
            power=self.power,
            shrinkage=self.shrinkage,
            n_components=self.n_components,
        )
        if flat and units is not None:
            metric, values = np.zeros_like(metric), np.zeros_like(values)
            plan.notes.append("no column changes the answer, so that the metric is Euclidean")
        elif flat:
            warnings.warn(
                "every difference is zero, so no direction is preferred and the metric is "
                "Euclidean; raise `bandwidth` or `step`, lower `min_mass` if it is set, or try "
                "function='ridge'.",
                UserWarning,
                stacklevel=3 + WRAPPERS,
            )
        self.function_, self.plan_, self._step = function, plan, step
        self._outer_product: Any = total if units is None else None  # for partial_fit
        self._kept = self._settled()
        self.mass_zeroed_ = plan.mass_zeroed
        self.outer_product_, self.outer_product_stderr_ = metric, total.stderr()
        self.eigenvalues_, self.eigenvectors_ = values, vectors
        self.components_ = rows
        self._n_features_out = len(rows)
        self.feature_importances_ = importances(metric, function.summary_.X.variance)
        self.output_importances_ = total.output_importances()
        self.output_shares_ = total.shares()
        self.bandwidth_ = getattr(function, "bandwidth_", None)
        self.penalty_ = getattr(function, "penalty_", None)
        self.step_ = None if step is None else (step[0] if np.ptp(step) == 0 else step)
        self.n_queries_ = total.count

    def _rounding(
        self, function: Function, step: NDArray | None, units: NDArray | float = 1.0
    ) -> float:
        """Largest eigenvalue that rounding alone can give: (64 eps range(Y) / 2t)^2 d."""
        t = getattr(function, "bandwidth_", 1.0) if step is None else step.min()
        summary = function.summary_
        spread = float(np.max(summary.Y.high / units) - np.min(summary.Y.low / units))
        noise = 64 * np.finfo(summary.dtype).eps * spread / (2 * t)
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
        J : ndarray of shape (n_samples, n_outputs, n_features)
        """
        check_is_fitted(self)
        if self.function_ is None:
            raise ValueError(
                "`jacobian` needs the training rows and this estimator came from a cluster without "
                "them; use to_local(references=True)."
            )
        rows: NDArray = validate_data(self, to_host(X), reset=False, dtype=[np.float64, np.float32])
        rows = self.function_.check_queries(rows)
        limit = as_device(self.device).memory_limit
        form = prepare(self.function_, self._step, budget=limit, n_queries=len(rows))
        plan = make_plan(form, len(rows), memory_limit=limit)
        softmax = self._softmax()
        blocks = [form.jacobian(rows[block], softmax=softmax) for block in plan.blocks()]
        return follow(np.concatenate(blocks), X)


#: functions by name, given a bandwidth and a seed
NAMED: dict[str, Any] = {
    "kernel": lambda h, seed: KernelSmoother(bandwidth=h, random_state=seed),
    "ball": lambda h, seed: KernelSmoother("boxcar", bandwidth=h, random_state=seed),
    "knn": lambda h, seed: NeighborsSmoother(),
    "ridge": lambda h, seed: RidgeFunction(bandwidth=h, random_state=seed),
}


def importances(M: NDArray, variance: NDArray) -> NDArray:
    """diag(M) times the variance of each feature, scaled to sum to one; free of units."""
    shares = np.diag(M) * variance
    total = shares.sum()
    return shares / total if total > 0 else np.full(len(M), 1 / len(M))


def fitted(
    function: Any, X: NDArray, Y: NDArray, w: NDArray | None, engine: Engine, limit: int | None
) -> Any:
    """A function fitted where the sums will run; one of another library takes rows alone."""
    if isinstance(function, Function):
        return function.fit(X, Y, w, engine=engine, memory_limit=limit)
    return function.fit(X, Y, w, engine=engine)


def _in_words(value: Any) -> str:
    """A parameter as text that is equal where the parameter is."""
    if hasattr(value, "get_params"):
        given = value.get_params(deep=True)
        return f"{type(value).__name__}({', '.join(f'{k}={v!r}' for k, v in given.items())})"
    return repr(value.tolist() if isinstance(value, np.ndarray) else value)


def _require_two(X: NDArray) -> None:
    if len(X) < 2:
        raise ValueError(
            f"Found array with {len(X)} sample(s) (shape={X.shape}) while a minimum of 2 is "
            "required: a derivative compares rows."
        )


def _joined_weights(old: Function, new: NDArray | None, n_new: int) -> NDArray | None:
    if old.sample_weight_ is None and new is None:
        return None
    before = whole_block(old.X_, old.Y_, old.sample_weight_).weights
    return np.concatenate([before, np.ones(n_new) if new is None else new])


def chosen_settings(function: Function) -> dict[str, float]:
    """Parameters of a fitted function that were chosen from data, as numbers."""
    names = ("bandwidth", "penalty")
    return {n: getattr(function, f"{n}_") for n in names if hasattr(function, f"{n}_")}
