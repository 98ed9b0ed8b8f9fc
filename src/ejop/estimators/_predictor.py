"""What EJOPClassifier and EGOPRegressor share: choose by unseen rows, learn, answer by a rule."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import check_random_state, check_X_y
from sklearn.utils.validation import validate_data

from ejop._sklearn import (
    HasMethods,
    Interval,
    StrOptions,
    check_sample_weight,
    take_rows,
    tells_of_missing_values,
    with_callbacks,
)
from ejop.absent import Absent
from ejop.arrays import to_host
from ejop.columns import (
    ColumnPreparer,
    PreparedRows,
    SparseReducer,
    is_table,
    open_table,
    require_numbers,
)
from ejop.estimators._answering import KINDS, PREDICTED, FittedPredictor, Pair
from ejop.estimators._refits import MAX_QUERIES, mean_metric
from ejop.executors.threads import at_most, computing
from ejop.functions import NeighborsSmoother
from ejop.metric import components, project
from ejop.neighbors import Votes
from ejop.progress import fit_task, track
from ejop.rows import (
    as_labels,
    require_balance,
    require_spans,
    require_targets,
    whole_block,
)
from ejop.rules import RULES, Rule, make_rule
from ejop.scaling import (
    SCALERS,
    ScaledRows,
    make_scaler,
    scale_candidates,
    shares_one_whole,
)
from ejop.sums.engine import engines_for
from ejop.tuning import FOLDS, POWERS, Search, Splits, Targets, holdouts, variance

#: neighbours of ``function="knn"``
SMOOTHED_NEIGHBORS = 15
#: rows that scalers learn from, at the most
SCALED = 200_000
_COUNT = Interval(Integral, 1, None, closed="left")


class Predictor(FittedPredictor):
    """Base of the predictors: subclasses turn y into targets and judge votes."""

    _parameter_constraints: dict = {
        "rule": [StrOptions(set(RULES)), Rule],
        "function": [
            StrOptions({"auto", "kernel", "ball", "knn", "ridge"}),
            HasMethods(["fit", "predict"]),
        ],
        "power": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "n_components": [
            None,
            StrOptions({"gap", "auto"}),
            _COUNT,
            Interval(Real, 0, 1, closed="neither"),
        ],
        "scale": [StrOptions({"auto", *SCALERS})],
        "columns": [StrOptions({"auto", "numbers"}), ColumnPreparer],
        "validation": [
            Interval(Real, 0, 1, closed="neither"),
            Interval(Integral, 2, None, closed="left"),
            "cv_object",
        ],
        "n_iter": [_COUNT],
        "refit": ["boolean", StrOptions({"train"})],
        "device": "no_validation",  # by ``as_device``, whose errors name what is there
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # for subclasses -------------------------------------------------------------------------

    @abstractmethod
    def _targets(self, y: Any, w: NDArray | None = None) -> Targets:
        """Targets of rows, none of them of weight zero."""

    @abstractmethod
    def _labels(self, targets: Targets, rows: NDArray) -> NDArray:
        """Targets of some rows as EJOP or EGOP take them."""

    @abstractmethod
    def _metric(self, function: Any, random_state: Any) -> Any:
        """An unfitted EJOP or EGOP."""

    @abstractmethod
    def _evaluate(self, votes: Votes, targets: Targets, held: NDArray) -> tuple[float, float]:
        """Score (higher is better) and loss of votes for held-out rows."""

    def _row_weights(self, y: NDArray, w: NDArray | None) -> NDArray | None:
        """Weight of each row from those that were given, or None for equal ones."""
        return w

    # fitting --------------------------------------------------------------------------------

    @computing
    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
        """Choose by rows that were not learned from, then learn from all rows.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_features)
            A table of pandas, polars or Arrow may hold text, gaps and dates, see ``columns``. One
            that is larger than memory: see :func:`ejop.columns.prepare_batches`.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Classes; real targets, one or several; or 0/1 columns, several labels a row.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row in what is learned and in the score. A row of weight zero is no row.

        Returns
        -------
        self : object
        """
        self._validate_params()
        self._forget()
        device = self._place(X)
        rows, y, w = self._validated(X, y, sample_weight)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        every, kept = (rows, y), np.arange(len(rows))
        if w is not None:  # a row of weight zero is no row
            kept = np.flatnonzero(w)
            if len(kept) < len(w):  # else no copy is made of rows that may be many
                rows, y, w = rows[kept], y[kept], w[kept]
        targets, rule = self._targets(y, w), make_rule(self.rule)
        with at_most(self.n_jobs):
            if rule.chooses:
                self.kept_ = kept[self._fit_chosen(rule, rows, targets, seed, device)]
                return self
            splits = self._splits(*every, kept, targets, seed)
            search = self._search(rule, rows, targets, splits, seed, device)
            self._tune(rule, search, rows, splits)
            if self.refit:
                part = splits[0][0] if self.refit == "train" and splits else np.arange(len(rows))
                self._refit(rule, search, rows[part], targets, part, device)
                self.kept_ = kept[part]
        return self

    def _fit_chosen(
        self, rule: Any, rows: NDArray, targets: Targets, seed: int, device: Any
    ) -> NDArray:
        """Let a rule choose its machines; the metric is that of their mean. Numbers of the rows
        that it holds are returned."""
        self._refuse_what_does_not_apply()
        units, ((engine, *others), limit) = self._units(targets), engines_for(device, rows)
        factors = self._factors
        fixed = None if factors is None else ~np.isnan(factors)
        best: Any = None
        with fit_task(self, type(self).__name__, None):
            most = scaled_rows(rows.shape[1], limit)
            # beside an outlier float32 loses the others
            some = spread_rows(rows, most).astype(np.float64, copy=False)
            for scale, preparations in self._preparations(rows):
                scaler = make_scaler(scale, factors).fit(some)
                X: Any = ScaledRows(rows, scaler)
                X = X[:] if len(rows) <= most else X
                block = whole_block(X, targets.Y, targets.w)
                tried = clone(rule).learn(
                    block,
                    preparations,
                    seed,
                    units,
                    self._tracked,
                    engine,
                    limit,
                    targets.kind,
                    fixed,
                    others,
                )
                if best is None or tried.loss_ < best[0].loss_:
                    best = tried, scale, scaler, block
        rule, scale, scaler, block = best
        held = rule.held_
        Y, w = targets.take(held)
        targets = replace(targets, Y=Y, w=w)
        rule.hold(None, rule.function_.Y_, targets.w)
        metric = self._metric("ridge", seed).set_params(step="analytic", n_jobs=self.n_jobs)
        mean_metric(metric, rule.function_, units, seed, engine, limit)
        metric.plan_.notes += rule.notes_
        values, vectors = metric.eigenvalues_, metric.eigenvectors_
        power = 1.0 if self.power == "auto" else float(self.power)
        rank = None if self.n_components == "auto" else self.n_components
        L = components(values, vectors, power=power, n_components=rank)
        judged = Votes.plain(rule.honest_)
        self.best_score_ = self._evaluate(judged, targets, rule.judged_)[0]
        self.unseen_score_ = self.best_score_
        self.best_params_ = {"scale": scale, "members": [str(one) for one in rule.members_]}
        self.cv_results_ = rule.table_
        self._finish(rule, targets)
        X = rule.function_.X_
        moments = X.mean(0), variance(X, targets.w)
        identity = np.eye(len(L[0]), dtype=np.int8)  # a model need not hold eight times as much
        self._store(scaler, (identity, L), metric, rule, moments)
        return held

    def _finish(self, rule: Any, targets: Targets) -> None:
        """What a subclass makes of the honest predictions."""

    def _units(self, targets: Targets) -> NDArray | float:
        """What targets are divided by while machines are compared."""
        return 1.0

    def _preparations(self, rows: NDArray) -> list[tuple[str, tuple[str, ...]]]:
        """Scalers, and what the rule may do to the scaled columns."""
        if self.scale == "quantile":
            return [("standard", ("quantile",))]
        if self.scale != "auto":
            return [(self.scale, ("plain",))]
        numbers = None if self._factors is None else np.isnan(self._factors)
        if numbers is not None and not numbers.any():
            return [("none", ("plain",))]
        found: list[tuple[str, tuple[str, ...]]] = [("standard", ("plain", "quantile"))]
        return [*found, ("hellinger", ("plain",))] if shares_one_whole(rows, numbers) else found

    @property
    def _factors(self) -> NDArray | None:
        """Of levels, see :class:`ejop.scaling.MixedScaler`; None where all columns are numbers."""
        return None if self.preparer_ is None else self.preparer_.factors_

    def _numbers(self, rows: NDArray) -> NDArray:
        """The prepared columns that are numbers."""
        return rows if self._factors is None else rows[:, np.isnan(self._factors)]

    def _refuse_what_does_not_apply(self) -> None:
        """Parameters that tune neighbours mean nothing to a rule that chooses for itself."""
        for name, default in (("function", "auto"), ("validation", FOLDS), ("n_iter", 1)):
            value = getattr(self, name)
            if not (isinstance(value, str | Real) and value == default):
                raise ValueError(
                    f"`{name}`={value!r} does not apply to rule={self.rule!r}, which makes the "
                    "metric of its own machines; leave it out, or use rule='knn' or 'hnn'."
                )
        if self.refit is not True:
            raise ValueError(
                f"`refit`={self.refit!r} does not apply to rule={self.rule!r}, which holds no rows "
                "out; use refit=True, or rule='knn' or 'hnn'."
            )

    def _tracked(self, parts: Any, n: int) -> Any:
        return track(parts, n, self, type(self).__name__, self.verbose)

    def _validated(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[NDArray, NDArray, NDArray | None]:
        """Rows, targets and weights as arrays."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        weights = to_host(sample_weight)
        kept = None if weights is None else np.flatnonzero(np.asarray(weights) != 0)
        rows, y = self._prepared(to_host(X), to_host(y), kept, ensure_min_samples=2)
        w = None
        if weights is not None:
            w = check_sample_weight(weights, rows, dtype=np.float64, ensure_non_negative=True)
        require_spans(rows.min(0), rows.max(0), rows.dtype)
        w = self._row_weights(y, w)
        if w is not None and np.count_nonzero(w) < 2:
            raise ValueError(
                f"{np.count_nonzero(w)} rows have a weight above zero and at least 2 are needed."
            )
        if w is not None:
            require_balance(w)
        first = rows[0] if w is None else rows[np.argmax(w > 0)]
        counts = np.ones(len(rows), dtype=bool) if w is None else w > 0
        pieces = (slice(s, s + PREDICTED) for s in range(0, len(rows), PREDICTED))
        if not any(((rows[part] != first).any(1) & counts[part]).any() for part in pieces):
            raise ValueError(
                "`X` has no two distinct rows (all rows are equal), so nothing can be learned from "
                "it; check the columns that were passed."
            )
        return rows, y, w

    def _prepared(
        self, X: Any, y: Any, kept: NDArray | None, **checks: Any
    ) -> tuple[NDArray, NDArray]:
        """Rows and targets as arrays, of one length and finite; a table is prepared as those of
        its rows that are kept say."""
        y = self._as_targets(y)
        if isinstance(X, PreparedRows):
            return check_X_y(self._take_prepared(X), y, dtype=KINDS, multi_output=True, **checks)
        if is_table(X):
            open_table(X)  # whose words on columns of one name are plain
        self.preparer_ = self._make_preparer(X)
        try:
            if self.preparer_ is None:
                return self._checked(X, y, **checks)
        except ValueError as error:
            if not tells_of_missing_values(error):
                raise
            if self.columns == "numbers":
                raise ValueError(
                    "Input X contains NaN, and distances need every value; fill the gaps, or use "
                    "columns='auto', which does."
                ) from None
            self.preparer_ = ColumnPreparer()
        validate_data(self, X, skip_check_array=True)
        if kept is None or len(kept) in (0, len(y)):
            rows = self.preparer_.fit_transform(X)
        else:  # a row of weight zero is no row
            rows = self.preparer_.fit(take_rows(X, kept)).transform(X)
        return check_X_y(rows, y, dtype=KINDS, multi_output=True, **checks)

    def _take_prepared(self, X: PreparedRows) -> NDArray:
        """Rows that were prepared before, and what prepared them."""
        if self.columns != "auto":
            raise ValueError(
                f"`columns`={self.columns!r} does not apply to rows that are prepared already; "
                "give it to prepare_batches(preparer=...)."
            )
        self.preparer_ = X.preparer
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(X.preparer, name):
                setattr(self, name, getattr(X.preparer, name))
        return X.rows

    def _checked(self, X: Any, y: Any, **checks: Any) -> tuple[NDArray, NDArray]:
        """The same where rows are numbers already, without gaps."""
        y = self._as_targets(y)
        return validate_data(self, X, y, dtype=KINDS, multi_output=True, **checks)

    def _as_targets(self, y: Any) -> Any:
        """Classes that nothing has cast, or real targets as they are."""
        if isinstance(self, ClassifierMixin):
            return as_labels(y)
        require_targets(y)
        return y

    def _make_preparer(self, X: Any) -> Any:
        """What prepares the columns; None for rows that are taken as they are."""
        if isinstance(self.columns, ColumnPreparer):
            return clone(self.columns).set_output(transform="default")
        if self.columns == "numbers":
            if is_table(X):
                require_numbers(X, "columns='numbers'", "use columns='auto', which prepares it")
            return None
        if issparse(X):
            return SparseReducer(random_state=self.random_state)
        return ColumnPreparer().set_output(transform="default") if is_table(X) else None

    def _splits(self, X: NDArray, y: NDArray, kept: NDArray, targets: Targets, seed: int) -> Splits:
        """Splits of the rows that are kept, among all that were passed, whose learning part can be
        learned from."""
        if len(kept) < 5:
            return []
        classify = isinstance(self, ClassifierMixin)
        y = np.ravel(y) if classify else y
        draw = partial(holdouts, self.validation, classifier=classify, random_state=seed)
        if isinstance(self.validation, Real):
            splits = draw(X[kept], y[kept])
        else:  # a splitter is asked for all rows; those that are kept are counted
            place = np.full(len(X), -1)
            place[kept] = np.arange(len(kept))
            every = [(place[a], place[b]) for a, b in draw(X, y)]
            splits = [(a[a >= 0], b[b >= 0]) for a, b in every]

        def teaches(seen: NDArray) -> bool:
            rows = X[kept[seen]]
            return bool(np.ptp(targets.Y[seen], axis=0).any() and (rows != rows[0]).any())

        return [(a, b) for a, b in splits if len(a) and len(b) and teaches(a)]

    def _search(
        self, rule: Rule, X: NDArray, targets: Targets, splits: Splits, seed: int, device: Any
    ) -> Search:
        """The grid, with every size that the smallest split admits."""
        fixed_rank = self.n_components != "auto"
        automatic = isinstance(self.function, str) and self.function == "auto"
        sizes = rule.candidates(min((len(seen) for seen, _ in splits), default=len(X)))

        def judge(A: NDArray, seen: NDArray, B: NDArray, held: NDArray) -> Iterator[Any]:
            found = clone(rule).hold(A, *targets.take(seen)).judge(B, sizes, device)
            for size, votes in zip(sizes, found, strict=True):
                yield size, *self._evaluate(votes, targets, held)

        return Search(
            scales=scale_candidates(self._numbers(X)) if self.scale == "auto" else [[self.scale]],
            functions=None if automatic else [self.function],
            powers=POWERS if self.power == "auto" else (float(self.power),),
            ranks=[self.n_components] if fixed_rank else [None, 0.9, 0.99],
            n_iter=self.n_iter,
            targets=Targets(targets.Y / self._units(targets), targets.w),
            seed=seed,
            learn=lambda f, A, rows: self._learn(f, A, targets, rows, seed, device),
            judge=judge,
            progress=self._tracked,
            factors=self._factors,
        )

    def _tune(self, rule: Rule, search: Search, rows: NDArray, splits: Splits) -> None:
        """Find the best setting on held-out rows and tell of the search."""
        if splits:
            with fit_task(self, type(self).__name__, None):
                setting, table = search.run(rows, splits)
            self.best_score_ = table.score(setting)
            self.unseen_score_ = table.unseen_score()
        else:  # too few rows to hold any out
            setting, table = search.untuned(rule.default(len(rows)))
            self.best_score_ = self.unseen_score_ = np.nan
        self.best_setting_ = setting
        self.best_params_ = setting.params(rule.size_name)
        self.cv_results_ = table.frame(rule.size_name)

    def _learn(
        self, function: Any, A: NDArray, targets: Targets, rows: NDArray, seed: int, device: Any
    ) -> Any:
        """The metric of some training rows, mapped to A."""
        metric = self._configured(function, len(A), seed, device)
        return metric.fit(A, self._labels(targets, rows), sample_weight=targets.take(rows)[1])

    def _configured(self, function: Any, n: int, seed: int, device: Any = None) -> Any:
        """An unfitted EJOP or EGOP for n rows; a function object without a seed gets ours."""
        if isinstance(function, str) and function == "knn":
            function = NeighborsSmoother(min(SMOOTHED_NEIGHBORS, n - 1))
        elif hasattr(function, "differences") and getattr(function, "random_state", 0) is None:
            function = clone(function).set_params(random_state=seed)
        metric = self._metric(function, seed)
        metric.tells_units = False  # held-out rows choose the scale
        return metric.set_params(n_queries=min(n, MAX_QUERIES), n_jobs=self.n_jobs, device=device)

    def _refit(
        self,
        rule: Rule,
        search: Search,
        rows: NDArray,
        targets: Targets,
        part: NDArray,
        device: Any,
    ) -> None:
        """Learn the chosen setting from the rows that are kept, part of those of the targets."""
        setting = self.best_setting_
        scaler = make_scaler(setting.scale, self._factors).fit(rows)
        Z = scaler.transform(rows)
        before, L, metric = search.mapped(setting, Z, part)
        Y, w = targets.take(part)
        rule.fit(project(Z, L), Y, w, setting.size, device)
        self._store(scaler, (before, L), metric, rule, (Z.mean(0), variance(Z, w)))

    def _store(self, scaler: Any, maps: Pair, metric: Any, rule: Rule, moments: Pair) -> None:
        """All fitted state at once, from the maps before and after the last round and the mean and
        variance of scaled columns."""
        (before, L), (center, spread) = maps, moments
        if self.preparer_ is not None:
            metric.plan_.notes += self.preparer_.in_words()
        if hasattr(self, "feature_names_in_"):
            scaler.feature_names_in_ = self.prepared_names()
        self.scaler_, self.metric_estimator_, self.rule_ = scaler, metric, rule
        self.plan_, self.before_, self._center = metric.plan_, before, center
        change = np.einsum("rd,rs,sd->d", before, metric.outer_product_, before) * spread
        change = change if change.any() else np.ones(len(change))
        self.metric_importances_ = change / change.sum()
        self._n_features_out = len(L)
        self.components_ = L

    # what is chosen, and every machine, depends on all rows, those that came before too
    partial_fit = Absent(
        "call `fit` with all rows, which may be a numpy.memmap, or batches by "
        "ejop.columns.prepare_batches"
    )

    def _forget(self) -> None:
        """Drop all that an earlier fit has learned."""
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
            delattr(self, name)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        prepares = not (isinstance(self.columns, str) and self.columns == "numbers")
        tags.input_tags.allow_nan = tags.input_tags.categorical = prepares
        tags.input_tags.sparse = prepares and not isinstance(self.columns, ColumnPreparer)
        return tags


def spread_rows(rows: NDArray, most: int) -> NDArray:
    """At most so many rows, at random places of all."""
    if len(rows) <= most:
        return rows
    return rows[np.sort(np.random.default_rng(0).choice(len(rows), most, replace=False))]


def scaled_rows(width: int, limit: int | None) -> int:
    """Rows that a scaler learns from at the most, a quarter of the limit in float64."""
    return SCALED if limit is None else int(np.clip(limit / (4 * 8 * width), 1000, SCALED))
