"""What EJOPClassifier and EGOPRegressor share: tune on held-out rows, refit, search, map."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ejop._sklearn import CallbackSupportMixin, HasMethods, Interval, StrOptions, with_callbacks
from ejop.arrays import device_of, follow, to_host
from ejop.estimators._linear import with_plan
from ejop.executors.threads import computing
from ejop.functions import NeighborsSmoother, RidgeFunction
from ejop.neighbors import Votes, ball_votes, nearest, vote
from ejop.progress import fit_task, track
from ejop.scaling import SCALERS, make_scaler, scale_candidates
from ejop.sums.engine import PRECISIONS
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
    """Base of the predictors: subclasses turn y into targets and judge votes."""

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
        "refit": ["boolean", StrOptions({"train"})],
        "device": [None, str, HasMethods(["__reduce__"])],
        "precision": [None, StrOptions(set(PRECISIONS))],
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

    @computing
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
        self._device = device_of(X) if self.device is None else self.device
        rows, y = self._checked(to_host(X), to_host(y), ensure_min_samples=2)
        Y, strata = self._targets(y)
        self._Y, self._w = Y, self._row_weights(strata)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        grid, splits, setting = self._tune(rows, strata, seed)
        if self.refit:
            kept = splits[0][0] if self.refit == "train" and splits else np.arange(len(rows))
            self._refit(grid, setting, rows[kept], kept)
        return self

    def _checked(self, X: Any, y: Any, **checks: Any) -> tuple[NDArray, NDArray]:
        """Rows and targets as arrays, of one length and finite."""
        try:
            return validate_data(
                self, X, y, dtype=[np.float64, np.float32], multi_output=True, **checks
            )
        except ValueError as error:
            if "Input X contains NaN" not in str(error):
                raise
            raise ValueError(
                "Input X contains NaN, and distances need every value; put "
                f"sklearn.impute.SimpleImputer before {type(self).__name__} in a pipeline."
            ) from None

    def _tune(
        self, rows: NDArray, strata: NDArray, seed: int
    ) -> tuple[Search, list[tuple[NDArray, NDArray]], Setting]:
        """The best setting on held-out rows, and what the search told."""
        grid = self._search(rows, seed)
        splits = self._splits(rows, strata, seed)
        if splits:
            with fit_task(self, type(self).__name__, None):
                setting, table = grid.run(rows, splits)
            self.best_score_ = table.score(setting)
        else:  # too few rows to hold any out
            size = {"knn": min(5, len(rows)), "hnn": 0.5, "ridge": 0}[self.rule]
            setting = Setting(grid.scales[0], grid.functions[0], grid.powers[-1], None, size)
            table, self.best_score_ = Table(), np.nan
        self._report(setting, table)
        return grid, splits, setting

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
            progress=lambda steps, n: track(steps, n, self, type(self).__name__, self.verbose),
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
        weights = None if self._w is None else self._w[rows]
        metric = self._configured(function, len(A), seed)
        return metric.fit(A, self._labels(rows), sample_weight=weights)

    def _configured(self, function: Any, n: int, seed: int) -> Any:
        """An unfitted EJOP or EGOP for n rows."""
        if isinstance(function, str) and function in WIDENINGS:
            function = RidgeFunction(widening=WIDENINGS[function], random_state=seed)
        metric = self._metric(function, seed)
        if _is(function, "knn"):
            metric.set_params(function=NeighborsSmoother(min(15, n - 1)))
        return metric.set_params(
            n_queries=min(n, MAX_QUERIES),
            n_jobs=self.n_jobs,
            device=self._device,
        )

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
            D, near = self._nearest(B, A, max(sizes))
            for k in sizes:
                votes = vote(D[:, :k], near[:, :k], Y, weights=self.weights, row_weights=w)
                yield k, *self._evaluate(votes, *truth)
        else:
            quantiles = RADII if self.radius == "auto" else (0.0,)
            radii = self._radii(A, quantiles)
            for q, votes in zip(quantiles, self._ball_votes(B, A, radii, Y, w), strict=True):
                yield q, *self._evaluate(votes, *truth)

    def _ball_votes(
        self, Q: NDArray, X: NDArray, radii: Sequence[float], Y: NDArray, w: NDArray | None
    ) -> list[Votes]:
        fallback = self._fallback(Q, X, Y, w)
        options = {"weights": self.weights, "row_weights": w, "device": self._device}
        return ball_votes(Q, X, radii, Y, fallback, **options)

    def _nearest(self, Q: NDArray, X: NDArray, k: int) -> tuple[NDArray, NDArray]:
        return nearest(Q, X, k, device=self._device)

    def _radii(self, A: NDArray, quantiles: Sequence[float]) -> list[float]:
        """Quantiles of the distances to the fifth neighbour, or the radius that was given."""
        if self.radius != "auto":
            return [float(self.radius)]
        k = min(RADIUS_NEIGHBOR + 1, len(A))  # a row's first neighbour is itself
        return np.quantile(self._nearest(A, A, k)[0][:, -1], quantiles).tolist()

    def _fallback(self, B: NDArray, A: NDArray, Y: NDArray, w: NDArray | None) -> Votes:
        """What an empty ball answers."""
        if self.empty == "prior":
            prior = np.average(Y, axis=0, weights=w)
            return _plain_votes(np.tile(prior, (len(B), 1)))
        return vote(*self._nearest(B, A, 1), Y, weights="uniform", row_weights=None)

    def _refit(self, grid: Search, setting: Setting, rows: NDArray, kept: NDArray) -> None:
        """Learn the chosen setting from the rows that were kept."""
        scaler = grid.prepare(setting.scale).fit(rows)
        Z = scaler.transform(rows)
        before, L, metric = grid.mapped(setting, Z, kept)
        self._kept, self._Y = kept, self._Y[kept]
        self._w = None if self._w is None else self._w[kept]
        self.scaler_, self.metric_estimator_, self._before = scaler, metric, before
        self._center = Z.mean(0)
        self._rows = Z @ L.T
        self.plan_ = metric.plan_
        if self.rule == "hnn":
            self.radius_ = self._radii(self._rows, [setting.size])[0]
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
        return follow(self._mapped(X), X)

    def _mapped(self, X: ArrayLike) -> NDArray:
        Z = self._scaled(X)
        return Z @ self.components_.T.astype(Z.dtype, copy=False)

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
        Z = self._mapped(X)
        k = getattr(self, "n_neighbors_", 5) if n_neighbors is None else n_neighbors
        if not 1 <= k <= len(self._rows):
            raise ValueError(
                f"`n_neighbors`={k} must lie between 1 and the number of training rows, "
                f"{len(self._rows)}."
            )
        distances, indices = self._nearest(Z, self._rows, k)
        return follow(distances, X), follow(self._kept[indices], X)

    @computing
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
        J = np.einsum("mcr,rd->mdc", J, self._before)
        return follow(self._explained(J * (Z - self._center)[:, :, None], X), X)

    def _explained(self, shares: NDArray, X: ArrayLike) -> NDArray:
        return shares[:, :, 0] if shares.shape[2] == 1 else shares

    def _scaled(self, X: ArrayLike) -> NDArray:
        check_is_fitted(self)
        rows = validate_data(self, to_host(X), reset=False, dtype=[np.float64, np.float32])
        return self.scaler_.transform(rows)

    @computing
    def _votes(self, X: ArrayLike) -> Votes:
        Z = self._mapped(X)
        if self.rule == "ridge":
            return _plain_votes(self.ridge_.predict(Z))
        if self.rule == "knn":
            D, near = self._nearest(Z, self._rows, min(self.n_neighbors_, len(self._rows)))
            return vote(D, near, self._Y, weights=self.weights, row_weights=self._w)
        return self._ball_votes(Z, self._rows, [self.radius_], self._Y, self._w)[0]

    def _html_repr(self) -> str:
        return with_plan(self, super()._html_repr())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "components_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _is(value: Any, name: str) -> bool:
    return isinstance(value, str) and value == name


def _plain_votes(values: NDArray) -> Votes:
    """Votes without neighbours: ties go to the first class."""
    return Votes(values, np.tile(np.arange(values.shape[1], dtype=float), (len(values), 1)))
