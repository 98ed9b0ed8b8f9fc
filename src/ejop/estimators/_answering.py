"""What a fitted predictor answers: predictions, maps and neighbours, what matters and why."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, validate_data

from ejop._sklearn import table_library
from ejop.arrays import device_of, follow, to_host
from ejop.columns import ColumnPreparer
from ejop.estimators._linear import LinearMetricEstimator
from ejop.estimators._refits import Refits
from ejop.executors.threads import at_most, computing
from ejop.explanation import (
    ROWS,
    ColumnChanges,
    Explanation,
    Importances,
    column_changes,
    contributions,
    feature_shares,
    shown_rows,
)
from ejop.metric import project
from ejop.neighbors import Votes, join_votes, nearest
from ejop.rows import require_sizes
from ejop.scaling import scaled, slopes
from ejop.sums.engine import HOST, Engine, engines_for

#: neighbours that ``kneighbors`` shows where no rule counts them
SHOWN_NEIGHBORS = 5
#: orders of the columns of an explanation times columns, and such orders at the most
ORDERS_TIMES_COLUMNS, MOST_ORDERS = 80, 8
#: rows that are predicted, or looked at, at once
PREDICTED = 100_000
#: training rows of ``baseline="training"``
BASELINES = 20
#: types of numbers that rows may have
KINDS = [np.float64, np.float32]
Pair = tuple[NDArray, NDArray]


class FittedPredictor(Refits, LinearMetricEstimator):
    """All that a predictor answers once it is fitted."""

    #: what makes rows of numbers of what is passed; None where they are that already
    preparer_: Any = None
    device: Any

    @abstractmethod
    def _decide(self, votes: Votes) -> NDArray:
        """Predictions from votes."""

    @property
    def feature_importances_(self) -> NDArray:
        """Share of each column in what changes the answer, (n_features,)."""
        self._check_fitted()
        if self.rule_.chooses:
            return self._by_column(self.column_changes().by_feature())
        return self._by_column(self.metric_importances_)

    def column_changes(self, n_rows: int = ROWS) -> ColumnChanges:
        """How far f changes when a column takes the value that another row has there.

        Parameters
        ----------
        n_rows : int, default=256
            Training rows that are changed, drawn at random.

        Returns
        -------
        changes : ColumnChanges
            ``changes.importances()`` are ``feature_importances_``; ``changes.by_feature()`` those
            of the levels of categories, with the names ``preparer_.get_feature_names_out()``.
        """
        self._check_fitted()
        if not self.rule_.chooses:
            raise ValueError(
                f"rule={self.rule!r} answers by near rows, whose answers jump; its importances are "
                "those of the metric, feature_importances_."
            )
        (engine, *_), _ = engines_for(self.device, self.rule_.function_.X_)
        with at_most(self.n_jobs):
            return self._changes(self.rule_.function_, *self._changed_rows(n_rows), engine)

    def _changed_rows(self, n_rows: int) -> Pair:
        """Scaled training rows, and for each another whose values it takes."""
        function, rng = self.rule_.function_, np.random.default_rng(0)
        weights, n = function.sample_weight_, len(function.X_)
        p = None if weights is None else weights / weights.sum()
        size, again = min(n_rows, n), p is not None
        rows, others = (function.X_[rng.choice(n, size, replace=again, p=p)] for _ in range(2))
        return rows, others

    def _changes(
        self, function: Any, rows: NDArray, others: NDArray, engine: Engine = HOST
    ) -> ColumnChanges:
        """Changes of a function of scaled rows."""
        units, (groups, width) = self._own_units(), self._grouped(rows.shape[1])
        changed = partial(function.changed, engine=engine)
        values = function.model_values(rows, engine)
        return column_changes(changed, values, rows, others, groups, width, units)

    @computing
    def importances(
        self, n_groups: int | None = None, n_rows: int = ROWS, n_permutations: int = 0
    ) -> Importances:
        """Importances of the columns with error bars that know that f was estimated.

        f is fitted again without each group of rows in turn, at the settings that were chosen, in
        closed form: some ten times the time of its last step.

        Parameters
        ----------
        n_groups : int, optional
            Ten by default, fewer for fewer than twenty rows; four rows are needed.
        n_rows : int, default=256
            Rows that are changed, see :meth:`column_changes`.
        n_permutations : int, default=0
            Fits a column that tell its p-value, see :func:`ejop.theory.column_test`; 99 make values
            from 0.01 on. At most a thousand rows are tested.

        Returns
        -------
        importances : Importances
            ``values``, ``stderr``, ``interval(coverage)``, ``p_values``, ``frame()``.
        """
        changes = self.column_changes(n_rows)
        pairs = self._changed_rows(n_rows)  # the same for all, which differ by their f alone

        def shares(function: Any) -> NDArray:
            return self._by_column(self._changes(function, *pairs).by_feature())

        refits, error = self._without_groups(shares, n_groups)
        values = self._by_column(changes.by_feature())
        over_rows = changes.stderr()
        if len(over_rows) != len(values):  # directions of sparse rows
            over_rows = np.zeros(len(values))
        names = list(map(str, self._column_names(len(values))))
        told = self._p_values(len(values), n_permutations)
        return Importances(names, values, np.hypot(error, over_rows), refits, told)

    def __dir__(self) -> list[str]:
        """Names of what is there; importances take time, and are not computed to be listed."""
        late = "feature_importances_"
        names = [name for name in object.__dir__(self) if name != late and hasattr(self, name)]
        return [*names, late] if self.__sklearn_is_fitted__() else names

    def __getattr__(self, name: str) -> Any:
        # not a property: views in notebooks evaluate these, and this one fits f ten times
        if name != "feature_importances_stderr_":
            return object.__getattribute__(self, name)  # whose own words say why it is not there
        try:
            return self.importances().stderr
        except ValueError as error:
            raise AttributeError(str(error)) from error

    # using ----------------------------------------------------------------------------------

    @computing
    def predict(self, X: ArrayLike) -> NDArray:
        """Predictions of the rule; a classifier's equal votes go to the class with the nearer row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,) or, for several targets or labels, (n_samples, n_outputs)
        """
        return follow(self._decide(self._votes(X)), X)

    @computing
    def transform(self, X: ArrayLike) -> NDArray:
        """Scale rows and map them to the space of the learned metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
        """
        return follow(self._mapped(X), X)

    def scale_rows(self, X: ArrayLike) -> NDArray:
        """Rows as ``scaler_`` scales them, which is what ``components_`` maps.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Z : ndarray of shape (n_samples, n_features)
        """
        self._check_fitted()
        rows = self._rows(X)
        return self._scaled(rows).astype(rows.dtype, copy=False)

    def _rows(self, X: ArrayLike) -> NDArray:
        """New rows as an array, prepared as those of the fit, of sizes that squares can hold."""
        X = to_host(X)
        rows: NDArray
        if self.preparer_ is not None:
            rows = self.preparer_.transform(X)
            if not len(rows):
                raise ValueError("`X` has 0 samples (rows), and at least one is needed.")
        else:
            rows = validate_data(self, X, reset=False, dtype=KINDS)
        require_sizes(rows.min(0), rows.max(0), rows.dtype)
        return rows

    def _scaled(self, rows: NDArray) -> NDArray:
        """Scaled rows, in float64 for a rule that was learned in it."""
        rows = rows.astype(np.float64, copy=False) if self.rule_.chooses else rows
        return scaled(self.scaler_, rows)

    def get_mahalanobis_matrix(self) -> NDArray:
        """Matrix M of the metric in the units of the columns: the squared distance of rows a and b
        is (a - b)^T M (a - b).

        With L for ``components_`` and S for what the scaler multiplies the columns by it is
        S L^T L S. ``scale="hellinger"`` is not linear and has none: that is an error.

        Returns
        -------
        M : ndarray of shape (n_features, n_features)
        """
        self._check_fitted()
        L = self.components_ * slopes(self.scaler_)
        return L.T @ L

    @computing
    def kneighbors(self, X: ArrayLike, n_neighbors: int | None = None) -> tuple[NDArray, NDArray]:
        """Nearest training rows under the learned metric, equal distances by row number.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        n_neighbors : int, optional
            The tuned number by default (5 for other rules than "knn").

        Returns
        -------
        distances, indices : ndarray of shape (n_samples, n_neighbors)
        """
        Z, rows = self._mapped(X), self.rule_.rows_
        if rows is None:
            rows = project(self.metric_estimator_.function_.X_, self.components_)
        shown = min(SHOWN_NEIGHBORS, len(rows))
        k = getattr(self.rule_, "n_neighbors_", shown) if n_neighbors is None else n_neighbors
        if not isinstance(k, int | np.integer) or not 1 <= k <= len(rows):
            raise ValueError(
                f"`n_neighbors`={k} must be a whole number from 1 to that of training rows, "
                f"{len(rows)}."
            )
        distances, indices = nearest(Z, rows, int(k), device=self._place(X))
        return follow(distances, X), follow(self.kept_[indices], X)

    def prepared_names(self) -> NDArray:
        """Names of the prepared columns, which ``components_`` maps, shape (n_prepared,)."""
        if self.preparer_ is not None:
            return self.preparer_.get_feature_names_out()
        numbered = [f"x{j}" for j in range(self.n_features_in_)]
        return getattr(self, "feature_names_in_", np.array(numbered, dtype=object))

    def _by_column(self, values: NDArray) -> NDArray:
        """Values of prepared columns (last axis) summed over those of each column of the input."""
        return values if self.preparer_ is None else self.preparer_.by_column(values)

    @computing
    def explain(
        self,
        X: ArrayLike,
        *,
        baseline: Any = "mean",
        output: Any = None,
        levels: bool = False,
        n_orders: int | None = None,
    ) -> Explanation:
        """What each column adds to the answer, from the baseline's answer to the row's.

        The columns go from the values of the baseline to those of the row, one after another and
        in several orders, each with its reverse; a column adds what the answer changes with it, in
        the mean. Base and contributions add up to the answer exactly.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
        baseline : "mean", "training" or array-like or table, default="mean"
            The average row; 20 training rows, or rows of one's own, over which contributions are
            averaged.
        output : class label, number of the output, "all" or None, default=None
            What is explained. None is the predicted class of each row, or the target; of several
            labels or targets all.
        levels : bool, default=False
            Contributions of the prepared columns, one for each level of a category, in place of
            those of the columns of the table.
        n_orders : int, optional
            Orders of the columns; the more columns, the fewer by default.

        Returns
        -------
        explanation : Explanation
            ``values`` (n_samples, n_features) or (n_samples, n_outputs, n_features) in the units of
            the answer (probabilities, or the target's own), ``base``, ``answer``, ``frame()``.
        """
        Z, n_outputs = self._scaled_rows(X), self._n_answers
        starts = self._baselines(baseline)
        groups = np.arange(Z.shape[1]) if self.preparer_ is None else self.preparer_.groups_
        used = np.unique(groups)
        parts = [np.flatnonzero(groups == column) for column in used]
        found, base = np.zeros((len(Z), n_outputs, len(used))), np.zeros((len(Z), n_outputs))
        for start in starts:
            along = np.broadcast_to(start, Z.shape)
            found += self._walked(along, Z, parts, n_orders) / len(starts)
            base += self._answers(start[None]) / len(starts)
        shares = feature_shares(starts.mean(0), Z, groups)
        places = np.searchsorted(used, groups)
        values = found[:, :, places] * shares[:, None]
        values = values if levels else self._by_column(values)
        names = self.prepared_names() if levels else self._column_names(values.shape[2])
        whole = Explanation(
            values, base, self._answers(Z), list(map(str, names)), library=table_library(self)
        )
        return self._explained(replace(whole, rows=shown_rows(X, whole, levels)), output)

    def _walked(
        self, starts: NDArray, ends: NDArray, parts: list[NDArray], n_orders: int | None
    ) -> NDArray:
        """Contributions (m, n_outputs, n_parts) between scaled rows."""
        n = len(parts)
        few = int(np.clip(2 * round(ORDERS_TIMES_COLUMNS / (2 * n)), 2, MOST_ORDERS))
        n_orders = few if n_orders is None else max(1, int(n_orders))
        if not self.rule_.chooses:
            return contributions(self._steps, starts, ends, parts, n_orders=n_orders)
        (engine, *_), _ = engines_for(self.device, ends)
        function = self.rule_.function_

        def steps(low: NDArray, high: NDArray, groups: Any) -> Iterator[NDArray]:
            for values in function.walk(low, high, groups, engine):
                yield self.rule_.answers(values)

        size = 20.0 * len(ends) * n * function.summary_.n * len(function.members_)
        with at_most(1 if engine.on_device else self.n_jobs):
            return contributions(steps, starts, ends, parts, n_orders=n_orders, operations=size)

    def _steps(self, starts: NDArray, ends: NDArray, groups: Any) -> Iterator[NDArray]:
        """Answers of near rows as groups of columns go from one row to another in turn."""
        rows = np.array(starts)
        yield self._answers(rows)
        for group in groups:
            rows[:, group] = ends[:, group]
            yield self._answers(rows)

    @abstractmethod
    def _answers(self, Z: NDArray) -> NDArray:
        """What is explained at scaled rows, (m, n_outputs)."""

    @property
    @abstractmethod
    def _n_answers(self) -> int:
        """Outputs that are explained."""

    @abstractmethod
    def _explained(self, whole: Explanation, output: Any) -> Explanation:
        """The part of an explanation of all outputs that is asked for."""

    def _scaled_rows(self, X: ArrayLike) -> NDArray:
        self._check_fitted()
        return np.asarray(self._scaled(self._rows(X)), dtype=np.float64)

    def _column_names(self, n: int) -> Any:
        if isinstance(self.preparer_, ColumnPreparer):
            return self.preparer_.names_
        return getattr(self, "feature_names_in_", [f"x{j}" for j in range(n)])

    def _baselines(self, baseline: Any) -> NDArray:
        """Scaled rows that contributions begin from, (n_baselines, n_prepared)."""
        if not isinstance(baseline, str) and baseline is not None:
            return self._scaled_rows(baseline)
        if baseline == "mean":
            return np.asarray(self._center, dtype=np.float64)[None]
        if baseline != "training":
            raise ValueError(
                f"`baseline`={baseline!r} must be 'mean', 'training' or rows to begin from."
            )
        if not self.rule_.chooses:
            raise ValueError(
                f"rule={self.rule!r} keeps its training rows under the metric alone; pass some of "
                "them as `baseline`."
            )
        rows = self.rule_.function_.X_
        return rows[np.random.default_rng(0).permutation(len(rows))[:BASELINES]]

    def why_near(self, x: ArrayLike, z: ArrayLike) -> Explanation:
        """Why rows are near, or far: the squared distance of each pair, split by columns exactly.

        With d the difference of two prepared rows and M the metric, column j has d_j (M d)_j; the
        shares add up to d^T M d. One that is negative makes up for others: along correlated
        columns.

        Parameters
        ----------
        x, z : array-like or table of shape (n_pairs, n_features)
            A row of either may stand beside many of the other.

        Returns
        -------
        explanation : Explanation
            ``values`` (n_pairs, n_features) that add up to ``answer``, the squared distances.
        """
        a, b = self._scaled_rows(x), self._scaled_rows(z)
        if len(a) != len(b) and 1 not in (len(a), len(b)):
            raise ValueError(
                f"`x` has {len(a)} rows and `z` {len(b)}; pass as many, or one row of either."
            )
        apart = a - b
        there = project(apart, self.components_)
        shares = self._by_column(apart * (there @ self.components_))
        names = list(map(str, self._column_names(shares.shape[1])))
        base, library = np.zeros(len(apart)), table_library(self)
        return Explanation(shares, base, (there**2).sum(1), names, library=library)

    def _mapped(self, X: ArrayLike) -> NDArray:
        return project(self.scale_rows(X), self.components_)

    def _votes(self, X: ArrayLike) -> Votes:
        self._check_fitted()
        rows, place = self._rows(X), self._place(X)
        return join_votes(
            [
                self._votes_of(self._scaled(rows[s : s + PREDICTED]), place)
                for s in range(0, len(rows), PREDICTED)
            ]
        )

    def _votes_of(self, Z: NDArray, place: Any) -> Votes:
        """Votes for scaled rows."""
        Z = Z if self.rule_.chooses else project(Z, self.components_)
        with at_most(self.n_jobs):
            return self.rule_.votes(Z, device=place)

    def _place(self, X: Any) -> Any:
        """Where to compute: on ``device``, else where X is; by name, so that nothing of torch is
        kept."""
        found = device_of(X)
        return str(found) if self.device is None and found is not None else self.device

    def _honest_rule(self, coverage: float) -> Any:
        """The rule, if it has judged itself by rows it had not seen."""
        self._check_fitted()
        if not isinstance(coverage, Real) or not 0 < coverage < 1:
            raise ValueError(f"`coverage` must lie between 0 and 1, got {coverage!r}.")
        if not hasattr(self.rule_, "honest_"):
            raise ValueError(
                f"rule={self.rule!r} keeps no predictions of unseen rows, which intervals and sets "
                "are made from; use rule='ridge'."
            )
        return self.rule_

    def _check_fitted(self) -> None:
        if hasattr(self, "best_params_") and not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"this {type(self).__name__} was fitted with `refit`=False, which keeps only the "
                "results of the tuning; fit it with refit=True to predict."
            )
        check_is_fitted(self)
