"""EJOPClassifier and EGOPRegressor: learn the metric, tune it honestly, predict."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state, column_or_1d, compute_sample_weight
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_is_fitted, validate_data

from ejop.estimators._ejop import EGOP, EJOP
from ejop.functions import RidgeFunction
from ejop.neighbors import Votes, nearest, vote, within
from ejop.progress import CallbackSupportMixin, track, with_callbacks
from ejop.scaling import SCALERS, make_scaler, scale_candidates
from ejop.tuning import NEIGHBORS, POWERS, RADII, Search, Setting, Table, holdouts

#: estimates of f that ``function="auto"`` tries; the wide ridge has twice the bandwidth
AUTOMATIC = ["kernel", "ridge", "ridge-wide"]
WIDENINGS = {"ridge": 1.0, "ridge-wide": 2.0}
#: rows whose outer products make the metric of a predictor, at the most
MAX_QUERIES = 2000
#: which neighbour's distance the radii are quantiles of
RADIUS_NEIGHBOR = 5
#: added to the predicted class's share, so that equal shares do not hide who won
TIE = 1e-10
_COUNT = Interval(Integral, 1, None, closed="left")


class Predictor(
    CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """What classifier and regressor share: tune, refit, search, map."""

    _parameter_constraints: dict = {
        "rule": [StrOptions({"knn", "hnn", "ridge"})],
        "function": [
            StrOptions({"auto", "kernel", "ball", "knn", *WIDENINGS}),
            HasMethods(["fit", "predict"]),
        ],
        "power": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "n_neighbors": [_COUNT, StrOptions({"auto"})],
        "radius": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "empty": [StrOptions({"nearest", "prior"})],
        "n_components": [
            None,
            StrOptions({"gap", "auto"}),
            _COUNT,
            Interval(Real, 0, 1, closed="neither"),
        ],
        "weights": [StrOptions({"uniform", "distance"})],
        "scale": [StrOptions({"auto", *SCALERS})],
        "validation": [
            Interval(Real, 0, 1, closed="neither"),
            Interval(Integral, 2, None, closed="left"),
            "cv_object",
        ],
        "n_iter": [_COUNT],
        "refit": ["boolean"],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # for subclasses -------------------------------------------------------------------------

    @abstractmethod
    def _targets(self, y: Any) -> tuple[NDArray, NDArray]:
        """Targets (n, c) and what splits them: class numbers or real targets."""

    @abstractmethod
    def _metric(self, function: Any, random_state: Any) -> Any:
        """An unfitted EJOP or EGOP."""

    @abstractmethod
    def _evaluate(self, votes: Votes, Y: NDArray, w: NDArray | None) -> tuple[float, float]:
        """Score (higher is better) and loss of votes against the truth, rows weighted."""

    def _row_weights(self, y: NDArray) -> NDArray | None:
        """Weight of each training row, or None for equal ones."""
        return None

    # fitting --------------------------------------------------------------------------------

    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike) -> Any:
        """Tune on held-out rows, then learn the metric of all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)

        Returns
        -------
        self : object
        """
        self._validate_params()
        self.__dict__.pop("components_", None)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        try:
            rows, y = validate_data(
                self, X, y, dtype=[np.float64, np.float32], multi_output=True, ensure_min_samples=2
            )
        except ValueError as error:
            if "Input X contains NaN" not in str(error):
                raise
            raise ValueError(
                "Input X contains NaN, and distances need every value; put "
                f"sklearn.impute.SimpleImputer before {type(self).__name__} in a pipeline."
            ) from None
        Y, strata = self._targets(y)
        self._Y, self._w = Y, self._row_weights(strata)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        grid = self._search(rows, seed)
        splits = self._splits(rows, strata, seed)
        if splits:
            setting, table = grid.run(rows, splits)
            self.best_score_ = table.score(setting)
        else:  # too few rows to hold any out
            size = {"knn": min(5, len(rows)), "hnn": 0.5, "ridge": 0}[self.rule]
            setting = Setting(grid.scales[0], grid.functions[0], grid.powers[-1], None, size)
            table, self.best_score_ = Table(), np.nan
        self._report(setting, table)
        if self.refit:
            self._refit(grid, setting, rows)
        return self

    def _search(self, X: NDArray, seed: int) -> Search:
        fixed_rank = self.n_components != "auto"
        return Search(
            scales=scale_candidates(X) if self.scale == "auto" else [self.scale],
            functions=AUTOMATIC if _is(self.function, "auto") else [self.function],
            powers=POWERS if self.power == "auto" else (float(self.power),),
            ranks=[self.n_components] if fixed_rank else [None, 0.9, 0.99],
            n_iter=self.n_iter,
            prepare=make_scaler,
            learn=lambda function, A, rows: self._learn(function, A, rows, seed),
            judge=self._judge,
            progress=lambda jobs: track(jobs, len(jobs), self, type(self).__name__, self.verbose),
        )

    def _splits(self, X: NDArray, strata: NDArray, seed: int) -> list[tuple[NDArray, NDArray]]:
        """Splits whose learning part can be learned from."""
        if len(X) < 5:
            return []
        splits = holdouts(
            self.validation,
            X,
            strata,
            classifier=isinstance(self, ClassifierMixin),
            random_state=seed,
        )
        varied = [(a, b) for a, b in splits if np.ptp(self._Y[a], axis=0).any()]
        return [(a, b) for a, b in varied if (X[a] != X[a[0]]).any()]

    def _learn(self, function: Any, A: NDArray, rows: NDArray, seed: int) -> Any:
        """The metric of some training rows, mapped to A."""
        if isinstance(function, str) and function in WIDENINGS:
            function = RidgeFunction(widening=WIDENINGS[function], random_state=seed)
        metric = self._metric(function, seed)
        if _is(function, "knn"):
            metric.set_params(n_neighbors=min(15, len(A) - 1))
        metric.set_params(n_queries=min(len(A), MAX_QUERIES), n_jobs=self.n_jobs)
        weights = None if self._w is None else self._w[rows]
        return metric.fit(A, self._labels(rows), sample_weight=weights)

    @abstractmethod
    def _labels(self, rows: NDArray) -> NDArray:
        """Targets of training rows as EJOP or EGOP take them."""

    def _judge(
        self, A: NDArray, seen: NDArray, B: NDArray, held: NDArray
    ) -> Iterator[tuple[float, float, float]]:
        """Score and loss of the rule for each size, learned from A and judged by B."""
        Y, w = self._Y[seen], None if self._w is None else self._w[seen]
        truth = (self._Y[held], None if self._w is None else self._w[held])
        if self.rule == "ridge":
            values = RidgeFunction(random_state=0).fit(A, Y, w).predict(B)
            yield 0, *self._evaluate(_plain_votes(values), *truth)
        elif self.rule == "knn":
            wanted = NEIGHBORS if self.n_neighbors == "auto" else (self.n_neighbors,)
            sizes = [k for k in wanted if k <= len(A)] or [len(A)]
            D, near = nearest(B, A, max(sizes))
            for k in sizes:
                votes = vote(D[:, :k], near[:, :k], Y, weights=self.weights, row_weights=w)
                yield k, *self._evaluate(votes, *truth)
        else:
            quantiles = RADII if self.radius == "auto" else (0.0,)
            radii = [self._radius(A, q) for q in quantiles]
            found = within(B, A, max(radii))
            fallback = self._fallback(B, A, Y, w)
            for q, r in zip(quantiles, radii, strict=True):
                votes = _ball_votes(*found, r, Y, self.weights, w, fallback)
                yield q, *self._evaluate(votes, *truth)

    def _radius(self, A: NDArray, quantile: float) -> float:
        """Quantile of the distances to the fifth neighbour, or the radius that was given."""
        if self.radius != "auto":
            return float(self.radius)
        k = min(RADIUS_NEIGHBOR + 1, len(A))  # a row's first neighbour is itself
        return float(np.quantile(nearest(A, A, k)[0][:, -1], quantile))

    def _fallback(self, B: NDArray, A: NDArray, Y: NDArray, w: NDArray | None) -> Votes:
        """What an empty ball answers."""
        if self.empty == "prior":
            prior = np.average(Y, axis=0, weights=w)
            return _plain_votes(np.tile(prior, (len(B), 1)))
        return vote(*nearest(B, A, 1), Y, weights="uniform", row_weights=None)

    def _refit(self, grid: Search, setting: Setting, rows: NDArray) -> None:
        scaler = grid.prepare(setting.scale).fit(rows)
        Z = scaler.transform(rows)
        before, L, metric = grid.mapped(setting, Z, np.arange(len(rows)))
        self.scaler_, self.metric_estimator_, self._before = scaler, metric, before
        self._center = Z.mean(0)
        self._rows = Z @ L.T
        self.plan_ = metric.plan_
        if self.rule == "hnn":
            self.radius_ = self._radius(self._rows, setting.size)
        elif self.rule == "ridge":
            self.ridge_ = RidgeFunction(random_state=0).fit(self._rows, self._Y, self._w)
        self._n_features_out = len(L)
        self.components_ = L

    def _report(self, setting: Setting, table: Table) -> None:
        size = {"knn": "n_neighbors", "hnn": "radius_quantile", "ridge": "size"}[self.rule]
        self.best_params_ = {
            "scale": setting.scale,
            "function": setting.function,
            "n_iter": setting.n_iter,
            "power": setting.power,
            "n_components": setting.n_components,
        }
        if self.rule != "ridge":
            self.best_params_[size] = setting.size
        if self.rule == "knn":
            self.n_neighbors_ = int(setting.size)
        self.cv_results_ = table.frame(size)

    # using ----------------------------------------------------------------------------------

    def transform(self, X: ArrayLike) -> NDArray:
        """Scale rows and map them to the space of the learned metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
        """
        Z = self._scaled(X)
        return Z @ self.components_.T.astype(Z.dtype, copy=False)

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
        Z = self.transform(X)
        k = getattr(self, "n_neighbors_", 5) if n_neighbors is None else n_neighbors
        if not 1 <= k <= len(self._rows):
            raise ValueError(
                f"`n_neighbors`={k} must lie between 1 and the number of training rows, "
                f"{len(self._rows)}."
            )
        return nearest(Z, self._rows, k)

    def explain(self, X: ArrayLike) -> NDArray:
        """How far each feature moved each row's prediction from that of the average row.

        The derivative of the predicted output along each (scaled) feature times the feature's
        distance from its mean: the first-order share of the feature in the prediction.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        contributions : ndarray of shape (n_samples, n_features) or, for a regressor with several \
                outputs, (n_samples, n_features, n_outputs)
        """
        Z = self._scaled(X)
        J = self.metric_estimator_.jacobian(Z @ self._before.T)
        J = np.einsum("mrc,rd->mdc", J, self._before)
        return self._explained(J * (Z - self._center)[:, :, None], X)

    def _explained(self, shares: NDArray, X: ArrayLike) -> NDArray:
        return shares[:, :, 0] if shares.shape[2] == 1 else shares

    def _scaled(self, X: ArrayLike) -> NDArray:
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return self.scaler_.transform(rows)

    def _votes(self, X: ArrayLike) -> Votes:
        Z = self.transform(X)
        if self.rule == "ridge":
            return _plain_votes(self.ridge_.predict(Z))
        if self.rule == "knn":
            D, near = nearest(Z, self._rows, min(self.n_neighbors_, len(self._rows)))
            return vote(D, near, self._Y, weights=self.weights, row_weights=self._w)
        fallback = self._fallback(Z, self._rows, self._Y, self._w)
        found = within(Z, self._rows, self.radius_)
        return _ball_votes(*found, self.radius_, self._Y, self.weights, self._w, fallback)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "components_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class EJOPClassifier(ClassifierMixin, Predictor):
    """Nearest neighbours under a metric learned from the labels, tuned on held-out rows.

    Parameters
    ----------
    rule : {"knn", "hnn", "ridge"}, default="knn"
        How rows are classified under the metric: by the k nearest, by all within a radius, or by
        kernel ridge regression.
    function : {"auto", "kernel", "ball", "knn", "ridge"}, function object or model, default="auto"
        Estimate of f that the metric is made from, see :class:`EJOP`. "auto" tries the kernel
        smoother and kernel ridge with once and twice the bandwidth of its smallest leave-one-out
        loss ("ridge" and "ridge-wide").
    power : float or "auto", default="auto"
        Power of the eigenvalues; "auto" tries 0 (Euclidean) to 1.5.
    n_neighbors : int or "auto", default="auto"
    radius : float or "auto", default="auto"
        Radius of "hnn"; "auto" tries quantiles of the distance to the fifth neighbour.
    empty : {"nearest", "prior"}, default="nearest"
        What an empty ball of "hnn" answers: its nearest row's class, or the class shares (the
        paper's weights 1/n).
    n_components : int, float, "gap", "auto" or None, default=None
    weights : {"uniform", "distance"}, default="uniform"
    scale : {"auto", "none", "standard", "robust", "hellinger"}, default="auto"
        Preparation of the columns. "auto" tries none, standard and, where no value is negative,
        hellinger.
    validation : float, int or splitter, default=0.2
        Share of rows held out to tune on (drawn up to four times while fewer than a thousand rows
        have judged), or folds of cross-validation.
    n_iter : int, default=1
        Rounds: each learns f and the metric again in the space of the last, and is kept only if
        the held-out rows say so.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class in f, in the metric and in the vote.
    refit : bool, default=True
        Learn the metric of all rows with the best setting. Without it only the results of the
        tuning are kept.
    n_jobs : int or None, default=None
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    best_params_ : dict
    best_score_ : float
        Accuracy of the best setting on held-out rows.
    cv_results_ : dict of ndarray
        The whole grid; ``pandas.DataFrame(cv_results_)`` is a table.
    components_ : ndarray of shape (n_components_out, n_features)
        Map from scaled rows to the space of the metric.
    scaler_ : fitted scaler
    metric_estimator_ : EJOP
        The metric of the last round.
    n_neighbors_ : int
    radius_ : float
    classes_ : ndarray of shape (n_classes,)
    plan_ : Plan

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from ejop import EJOPClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
    >>> model = EJOPClassifier(random_state=0).fit(X_train, y_train)
    >>> model.score(X_test, y_test) > 0.9
    True
    >>> model.explain(X_test).shape
    (45, 13)
    """

    _parameter_constraints: dict = {
        **Predictor._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        rule: str = "knn",
        *,
        function: Any = "auto",
        power: float | str = "auto",
        n_neighbors: int | str = "auto",
        radius: float | str = "auto",
        empty: str = "nearest",
        n_components: int | float | str | None = None,
        weights: str = "uniform",
        scale: str = "auto",
        validation: Any = 0.2,
        n_iter: int = 1,
        class_weight: Any = None,
        refit: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.rule = rule
        self.function = function
        self.power = power
        self.n_neighbors = n_neighbors
        self.radius = radius
        self.empty = empty
        self.n_components = n_components
        self.weights = weights
        self.scale = scale
        self.validation = validation
        self.n_iter = n_iter
        self.class_weight = class_weight
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def predict(self, X: ArrayLike) -> NDArray:
        """Class of each row; equal votes go to the class with the nearer row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return self.classes_[self._votes(X).winners()]

    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Share of each class in the vote, shape (n_samples, n_classes).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        votes = self._votes(X)
        values = np.clip(votes.values, 0, None)
        values[np.arange(len(values)), votes.winners()] += TIE  # the largest share is predicted
        return values / values.sum(1, keepdims=True)

    def _explained(self, shares: NDArray, X: ArrayLike) -> NDArray:
        predicted = self._votes(X).winners()
        return np.take_along_axis(shares, predicted[:, None, None], axis=2)[:, :, 0]

    def _targets(self, y: Any) -> tuple[NDArray, NDArray]:
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"`y` has 1 class, {self.classes_.tolist()[0]!r}, and at least 2 classes are "
                "needed."
            )
        return np.eye(len(self.classes_))[numbers], numbers

    def _row_weights(self, y: NDArray) -> NDArray | None:
        if self.class_weight is None:
            return None
        return compute_sample_weight(self.class_weight, self.classes_[y])

    def _labels(self, rows: NDArray) -> NDArray:
        return self._Y[rows].argmax(1)

    def _metric(self, function: Any, random_state: Any) -> EJOP:
        return EJOP(function, softmax=False, random_state=random_state)

    def _evaluate(self, votes: Votes, Y: NDArray, w: NDArray | None) -> tuple[float, float]:
        right = votes.winners() == Y.argmax(1)
        loss = ((votes.values - Y) ** 2).sum(1)
        return float(np.average(right, weights=w)), float(np.average(loss, weights=w))


class EGOPRegressor(RegressorMixin, Predictor):
    """Nearest neighbours under a metric learned from real targets, tuned on held-out rows.

    Parameters and attributes are those of :class:`EJOPClassifier`, without ``class_weight``; the
    score is R^2. Several outputs are scaled to unit variance while the metric is learned.

    Parameters
    ----------
    rule : {"knn", "hnn", "ridge"}, default="knn"
    function : {"auto", "kernel", "ball", "knn", "ridge"}, function object or model, default="auto"
    power : float or "auto", default="auto"
    n_neighbors : int or "auto", default="auto"
    radius : float or "auto", default="auto"
    empty : {"nearest", "prior"}, default="nearest"
    n_components : int, float, "gap", "auto" or None, default=None
    weights : {"uniform", "distance"}, default="uniform"
    scale : {"auto", "none", "standard", "robust", "hellinger"}, default="auto"
    validation : float, int or splitter, default=0.2
    n_iter : int, default=1
    refit : bool, default=True
    n_jobs : int or None, default=None
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> from ejop import EGOPRegressor
    >>> X = np.random.default_rng(0).normal(size=(400, 5))
    >>> y = np.sin(2 * X[:, 0] + X[:, 1])
    >>> EGOPRegressor(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.9
    True
    """

    def __init__(
        self,
        rule: str = "knn",
        *,
        function: Any = "auto",
        power: float | str = "auto",
        n_neighbors: int | str = "auto",
        radius: float | str = "auto",
        empty: str = "nearest",
        n_components: int | float | str | None = None,
        weights: str = "uniform",
        scale: str = "auto",
        validation: Any = 0.2,
        n_iter: int = 1,
        refit: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.rule = rule
        self.function = function
        self.power = power
        self.n_neighbors = n_neighbors
        self.radius = radius
        self.empty = empty
        self.n_components = n_components
        self.weights = weights
        self.scale = scale
        self.validation = validation
        self.n_iter = n_iter
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def predict(self, X: ArrayLike) -> NDArray:
        """Mean target of the neighbours, shape of y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        check_is_fitted(self)
        values = self._votes(X).values
        return values[:, 0] if self._flat else values

    def _targets(self, y: Any) -> tuple[NDArray, NDArray]:
        y = _check_y(y, multi_output=True, y_numeric=True)
        self._flat = y.ndim == 1
        Y = (y[:, None] if self._flat else y).astype(np.float64)
        if not np.ptp(Y, axis=0).any():
            raise ValueError("`y` is constant, so no direction can change the answer.")
        return Y, Y

    def _labels(self, rows: NDArray) -> NDArray:
        spread = self._Y.std(0)
        return self._Y[rows] / np.where(spread > 0, spread, 1)

    def _metric(self, function: Any, random_state: Any) -> EGOP:
        return EGOP(function, random_state=random_state)

    def _evaluate(self, votes: Votes, Y: NDArray, w: NDArray | None) -> tuple[float, float]:
        error = ((votes.values - Y) ** 2).mean(0)
        spread = self._Y.var(0)
        share = error / np.where(spread > 0, spread, 1)
        return float(1 - share.mean()), float(share.mean())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _is(value: Any, name: str) -> bool:
    return isinstance(value, str) and value == name


def _plain_votes(values: NDArray) -> Votes:
    """Votes without neighbours: ties go to the first class."""
    return Votes(values, np.tile(np.arange(values.shape[1], dtype=float), (len(values), 1)))


def _ball_votes(
    distances: list[NDArray],
    indices: list[NDArray],
    radius: float,
    Y: NDArray,
    weights: str,
    row_weights: NDArray | None,
    fallback: Votes,
) -> Votes:
    """Votes of all rows within a radius; an empty ball takes its fallback."""
    values, nearness = fallback.values.copy(), fallback.nearness.copy()
    for q, (D, rows) in enumerate(zip(distances, indices, strict=True)):
        inside = radius * (1 + 1e-9) >= D
        if inside.any():
            order = np.lexsort((rows[inside], D[inside]))
            D, rows = D[inside][order][None], rows[inside][order][None]
            one = vote(D, rows, Y, weights=weights, row_weights=row_weights)
            values[q], nearness[q] = one.values[0], one.nearness[0]
    return Votes(values, nearness)
