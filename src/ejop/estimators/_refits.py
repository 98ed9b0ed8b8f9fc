"""What refits without groups of rows tell of a predictor: how sure its importances are."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ejop.estimators._ejop import EGOP
from ejop.executors.expectation import Averager, Terms
from ejop.executors.threads import at_most, computing
from ejop.explanation import (
    FEWEST,
    GROUPS,
    Directions,
    Interactions,
    deleted_groups,
    strengths_of,
)
from ejop.sums import prepare
from ejop.sums.engine import HOST, Engine
from ejop.sums.plan import make_plan
from ejop.tuning import variance

#: rows whose outer products make the metric of a predictor, at the most
MAX_QUERIES = 2000
#: rows that permutation tests take, at the most
TESTED = 1000


class Refits:
    """Errors of directions and of pairs, and what they share with those of importances."""

    rule: Any
    rule_: Any
    preparer_: Any
    n_jobs: int | None
    scaler_: Any
    metric_estimator_: Any

    @computing
    def directions(self, n_groups: int | None = None, n_directions: int = 10) -> Directions:
        """Directions along which the answer changes, with error bars that know that f was
        estimated.

        Parameters
        ----------
        n_groups : int, optional
            Groups of rows that are left out in turn, as in :meth:`importances`.
        n_directions : int, default=10
            The leading ones, at the most.

        Returns
        -------
        directions : Directions
            ``shares``, ``stderr``, ``angles``, ``interval(coverage)``, ``frame()``.
        """
        self._require_machines()
        V = self.metric_estimator_.eigenvectors_
        r = min(n_directions, V.shape[1])

        def told(M: NDArray) -> NDArray:
            values, vectors = np.linalg.eigh(M)
            turned = 1 - (vectors[:, ::-1][:, :r] * V[:, :r]).sum(0) ** 2
            return np.stack([values[::-1][:r] / (values.sum() or 1.0), turned])

        refits, error = self._metrics_without_groups(told, n_groups)
        shares = told(self.metric_estimator_.outer_product_)[0]
        # the mean square of a turn, where stderr is that of a share about its mean
        turned = refits[:, 1].sum(0) * (len(refits) - 1) / len(refits)
        angles = np.degrees(np.arcsin(np.sqrt(np.clip(turned, 0, 1))))
        names = list(map(str, self.prepared_names()))
        return Directions(names, V[:, :r], shares, error[0], angles, len(refits))

    @computing
    def interactions(self, n_groups: int | None = None) -> Interactions:
        """Pairs of columns that change the answer together, with error bars that know that f was
        estimated.

        Parameters
        ----------
        n_groups : int, optional
            Groups of rows that are left out in turn, as in :meth:`importances`.

        Returns
        -------
        interactions : Interactions
            ``values``, ``stderr``, ``interval(coverage)``, ``frame()``.
        """
        self._require_machines()
        rows = self.rule_.function_.X_
        groups, _ = self._grouped(rows.shape[1])
        used, root = np.unique(groups), np.sqrt(variance(rows, self.rule_.weights_))

        def strengths(M: NDArray) -> NDArray:
            return strengths_of(root[:, None] * M * root, groups, used)

        found, error = self._metrics_without_groups(strengths, n_groups)
        values = strengths(self.metric_estimator_.outer_product_)
        every = self._column_names(rows.shape[1])
        names = [str(every[j]) for j in used]
        return Interactions(names, values, error, len(found))

    def _require_machines(self) -> None:
        check_is_fitted(self)
        if not self.rule_.chooses:
            raise ValueError(
                f"rule={self.rule!r} has no machines that could be fitted again in closed form; "
                "use rule='ridge', or ejop.theory.subspace_test."
            )

    def _without_groups(
        self, shares: Callable[[Any], NDArray], n_groups: int | None
    ) -> tuple[NDArray, NDArray]:
        """What is told of f without each group of rows, and the standard errors."""
        n = len(self.rule_.function_.X_)
        if n < FEWEST:
            raise ValueError(
                f"{n} rows cannot be left out in groups; at least {FEWEST} are needed."
            )
        n_groups = min(GROUPS, n // 2) if n_groups is None else n_groups
        if not 2 <= n_groups <= n // 2:
            raise ValueError(f"`n_groups`={n_groups} must lie between 2 and {n // 2} for {n} rows.")
        with at_most(self.n_jobs):
            rng = np.random.default_rng(1)
            refits, error = deleted_groups(self.rule_.refitted, shares, n, n_groups, rng)
        # of all rows the function holds some
        return refits, error * np.sqrt(n / self.rule_.function_.summary_.n)

    def _metrics_without_groups(
        self, told: Callable[[NDArray], NDArray], n_groups: int | None
    ) -> tuple[NDArray, NDArray]:
        """What is told of outer products without each group, and the standard errors.

        Derivatives depend on bandwidths far more than values do. What another choice of settings
        would give is told by the machines of the average, which have settings of their own.
        """
        refits, error = self._without_groups(lambda f: told(self._outer_product(f)), n_groups)
        every = self.rule_.function_
        alone = [copy(every) for _ in every.members_]
        for one, member in zip(alone, every.members_, strict=True):
            one.members_ = [member]
        if len(alone) > 1:
            apart = np.array([told(self._outer_product(one)) for one in alone]).std(0, ddof=1)
            error = np.hypot(error, apart / np.sqrt(len(alone)))
        return refits, error

    def _outer_product(self, function: Any) -> NDArray:
        """Of a function of scaled rows, as that of the fit is made."""
        metric = self._metric("ridge", 0).set_params(step="analytic", n_jobs=self.n_jobs)
        mean_metric(metric, function, self._own_units(), 0)
        return np.asarray(metric.outer_product_)

    def _p_values(self, width: int, n_permutations: int) -> NDArray | None:
        """Of "this column carries nothing"; 1 for columns that are not used."""
        if not n_permutations:
            return None
        from ejop.theory import column_test

        function = self.rule_.function_
        rows = np.random.default_rng(2).permutation(len(function.X_))[:TESTED]
        groups, n = self._grouped(function.X_.shape[1])
        if n != width:
            raise ValueError("columns of sparse rows have no p-values; use n_permutations=0.")
        Y = np.asarray(function.Y_, dtype=np.float64)[rows] / self._own_units()
        # a smoother: kernel ridge of nearly no penalty runs after shuffled rows, whose statistics
        # are then the larger ones
        tester = EGOP("kernel", step="analytic", random_state=0, n_jobs=self.n_jobs)
        found = column_test(
            function.X_[rows],
            Y,
            groups=groups,
            estimator=tester,
            n_permutations=n_permutations,
            random_state=0,
        )
        p_values = np.ones(width)
        p_values[found.columns] = found.p_values
        return p_values

    def _own_units(self) -> NDArray | float:
        """What outputs are divided by, so that several real targets weigh alike."""
        if isinstance(self, ClassifierMixin):
            return 1.0
        return np.sqrt(self.rule_.function_.summary_.Y.variance)

    def _grouped(self, width: int) -> tuple[NDArray, int]:
        """Column of each prepared one, and how many columns there are."""
        if self.preparer_ is None:
            return np.arange(width), width
        return self.preparer_.groups_, self.preparer_.n_groups

    # of the predictor

    _metric: Callable[..., Any]
    _column_names: Callable[[int], Any]
    prepared_names: Callable[[], NDArray]


def mean_metric(
    metric: Any,
    function: Any,
    units: NDArray | float,
    seed: int,
    engine: Engine = HOST,
    limit: int | None = None,
) -> None:
    """Fit an EJOP or EGOP to a function that is solved already.

    Real targets count in ``units`` of their own, so that several weigh alike.
    """
    summary = function.summary_
    n = len(function.X_)
    relative = copy(function)
    relative.members_ = [
        replace(one, coefficients=one.coefficients / units) for one in function.members_
    ]
    rows = np.random.default_rng(seed).permutation(n)[:MAX_QUERIES]
    form = prepare(relative, None, engine=engine, budget=limit, n_queries=len(rows))
    plan = make_plan(form, len(rows), n_jobs=metric.n_jobs, memory_limit=limit)
    total, _ = Averager([form], plan, Terms(leave_one_out=False)).add(rows)
    plan.n_queries = total.count
    metric.n_features_in_ = summary.n_features
    metric.classes_ = np.arange(summary.n_outputs)
    metric.store(function, None, total, plan, units=units)
