"""DaskEJOPClassifier and DaskEGOPRegressor without their names."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ejop._dask.base import Absent, OnCluster, blocks_of, stacked
from ejop._dask.choices import ridge_on_centers
from ejop._dask.cluster import constant, delayed, find_client, keep, run, tree, workers
from ejop._dask.collections import check_rows, partitions
from ejop._dask.metrics import fit_metric
from ejop._dask.plan import BROADCAST_SHARE
from ejop._dask.rows import Rows, draw
from ejop._dask.search import Rule, merge_found, nearest_in
from ejop._sklearn import has_constant_columns as _is_constant_feature
from ejop._sklearn import scale_without_zeros as _handle_zeros_in_scale
from ejop.estimators._predictor import RADIUS_NEIGHBOR, _plain_votes
from ejop.functions import RidgeFunction
from ejop.metric import components
from ejop.neighbors import Votes
from ejop.rows import Block, Moments, join_blocks
from ejop.scaling import make_scaler
from ejop.tuning import Setting

#: rows whose distance to their fifth neighbour settles the radius of "hnn", at the most
RADIUS_ROWS = 2000


@dataclass(frozen=True)
class Prepared:
    """How a block of rows is changed: scaled, mapped, targets scaled, rows weighted by class."""

    scaler: Any = None
    L: NDArray | None = None
    spread: NDArray | None = None
    class_weights: NDArray | None = None

    def __call__(self, block: Block) -> Block:
        """The changed block."""
        X = block.X if self.scaler is None else self.scaler.transform(block.X)
        X = X if self.L is None else X @ self.L.T
        Y = block.Y if self.spread is None else block.Y / self.spread
        w = block.w
        if self.class_weights is not None:
            w = self.class_weights[block.Y.argmax(1)]
        return Block(X, Y, w, block.index)


class DaskPredictor(OnCluster):
    """A predictor whose references stay on the workers."""

    tuning_rows: int
    rule: str
    refit: Any
    empty: str
    radius: Any
    weights: str

    def fit(self, X: Any, y: Any) -> Any:
        """Tune on a sample, then learn the metric of all rows.

        Parameters
        ----------
        X : Dask array or data frame of shape (n_samples, n_features)
        y : Dask array, series, data frame or array of shape (n_samples,) or (n_samples, n_outputs)

        Returns
        -------
        self : object
        """
        if self.refit == "train":
            raise ValueError(
                "`refit`='train' is not there on a cluster, where held-out rows come from a "
                "sample; use refit=True or False."
            )
        client, rows = self._begin(X, y, None)
        twin = self._plain().set_params(random_state=self._seed(), refit=False)
        twin.__dict__.update({k: v for k, v in vars(self).items() if k in ("classes_", "_flat")})
        seed = check_random_state(twin.random_state).randint(2**31 - 1)
        sample = rows.gathered(draw(rows.n, self.tuning_rows, seed) if self._thins(rows) else None)
        setting, told = run(client, delayed(_tuned)(constant(twin), sample, seed))
        self.__dict__.update(told)
        if self.refit:
            self._refit_on(client, rows, sample, setting, twin, seed)
        return self

    def _thins(self, rows: Rows) -> bool:
        return rows.n > self.tuning_rows

    def _refit_on(
        self, client: Any, rows: Rows, sample: Any, setting: Setting, twin: Any, seed: int
    ) -> None:
        """Learn the chosen setting from all rows."""
        scaler = self._scaler(client, setting.scale, rows, sample)
        class_weights = self._class_weights(rows)
        spread = None if self._classify else np.sqrt(rows.summary.Y.variance)
        spread = spread if spread is None else np.where(spread > 0, spread, 1)
        twin._device = None
        L = before = np.eye(rows.summary.n_features)
        metric: Any = None
        center = None
        for power, rank in (*setting.earlier, (setting.power, setting.n_components)):
            mapped = rows.mapped(Prepared(scaler, L, spread, class_weights))
            metric = twin._configured(setting.function, rows.n, seed)
            metric.n_features_in_ = mapped.summary.n_features
            metric.classes_ = np.arange(mapped.summary.n_outputs)
            self._function = fit_metric(client, metric, mapped, self.reduction).whole
            center = mapped.summary.X.mean if center is None else center
            before = L
            found = (metric.eigenvalues_, metric.eigenvectors_)
            L = components(*found, power=power, n_components=rank) @ L
        self.scaler_, self.metric_estimator_, self._before = scaler, metric, before
        self._center = center  # of the scaled rows: the first round maps them by the identity
        self._training = rows.mapped(Prepared(scaler, L, None, class_weights))
        self.plan_ = self.metric_estimator_.plan_
        self._settle_rule(client, setting)
        self._n_features_out = len(L)
        self.components_ = L

    def _scaler(self, client: Any, scale: str, rows: Rows, sample: Any) -> Any:
        """A scaler of all rows; "robust" is that of the tuning sample."""
        if scale == "robust":
            return run(client, delayed(_robust)(sample))
        s = rows.summary.X
        scaler = make_scaler(scale).fit(np.stack([s.low, s.high]))
        if isinstance(scaler, StandardScaler):
            scaler.mean_, scaler.var_, scaler.n_samples_seen_ = s.mean, s.variance, s.n
            flat = _is_constant_feature(s.variance, s.mean, s.n)
            scaler.scale_ = _handle_zeros_in_scale(np.sqrt(s.variance), constant_mask=flat)
        return scaler

    def _class_weights(self, rows: Rows) -> NDArray | None:
        """Weight of each class, or None for equal ones."""
        return None

    def _settle_rule(self, client: Any, setting: Setting) -> None:
        """Radius or ridge of the rule, and where its references are."""
        rows, team = self._training, workers(client)
        if self.rule == "ridge":
            self._ridge = self._rule_ridge(client, rows)
            return
        small = rows.nbytes <= BROADCAST_SHARE * team.memory
        self._references = [delayed(join_blocks)(rows.blocks)] if small else rows.grouped().blocks
        if self.rule == "hnn":
            self.radius_ = self._radius_of(client, rows, setting.size)

    def _rule_ridge(self, client: Any, rows: Rows) -> Any:
        function = RidgeFunction(random_state=0)
        if rows.n > function.most_rows():
            return ridge_on_centers(client, function, rows)
        return keep(client, delayed(_ridge_of_all)(constant(function), rows.blocks))

    def _radius_of(self, client: Any, rows: Rows, quantile: float) -> float:
        """Quantile of the distances to the fifth neighbour, or the radius that was given."""
        if self.radius != "auto":
            return float(self.radius)
        k = min(RADIUS_NEIGHBOR + 1, rows.n)  # a row's first neighbour is itself
        index = draw(rows.n, RADIUS_ROWS, 0) if rows.n > RADIUS_ROWS else None
        Z = keep(client, delayed(_rows_of)(rows.gathered(index)))
        found = [delayed(nearest_in)(Z, block, k) for block in self._references]
        furthest = delayed(_furthest)(tree(found, partial(merge_found, k=k)))
        return float(np.quantile(run(client, furthest), quantile))

    # using ----------------------------------------------------------------------------------

    def predict(self, X: Any) -> Any:
        """Predictions, lazily: as the local twin's, by references that stay on the workers.

        Parameters
        ----------
        X : Dask array or data frame of shape (n_samples, n_features)

        Returns
        -------
        y : Dask array of shape (n_samples,) or (n_samples, n_outputs)
        """
        check_is_fitted(self)
        return self._answered(X, "_decide", *self._kind_of_answer())

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of a classifier, R^2 of a regressor, by sums over the partitions.

        Parameters
        ----------
        X : Dask array or data frame of shape (n_samples, n_features)
        y : Dask array, series, data frame or array of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : None
            Not there on a cluster.

        Returns
        -------
        score : float
        """
        check_is_fitted(self)
        if sample_weight is not None:
            raise ValueError(
                "`sample_weight` is not there on a cluster; use to_local().score(...)."
            )
        X = check_rows(self, X, fitting=False)
        client = find_client(self.client)
        parts = partitions(client, type(self).__name__, X, y, None)
        local = constant(self._fitted_plain())
        tasks = [
            delayed(_tallied)(local, self._votes_of(local, x), truth, self._classify)
            for x, truth, _ in parts
        ]
        error, moments = run(client, tree(tasks, _added_tallies))
        if self._classify:
            return float(1 - error[0] / moments.n)
        spread = moments.squares
        flat = spread == 0
        shares = np.where(flat, error > 0, error / np.where(flat, 1, spread))
        return float(1 - shares.mean())

    kneighbors = Absent("use to_local().kneighbors(X)")
    explain = Absent("use to_local().explain(X)")

    def to_local(self, references: bool = True) -> Any:
        """The plain predictor, fitted, with the training rows that it predicts by.

        Parameters
        ----------
        references : bool, default=True
            Bring the training rows. Only ``transform`` does without them.

        Returns
        -------
        estimator : EJOPClassifier or EGOPRegressor
        """
        check_is_fitted(self)
        local = self._fitted_plain()
        local._device = None
        if not references:
            return local
        rows, client = self._bound("_training"), find_client(self.client)
        self._require_memory(2 * rows.nbytes)
        block = run(client, delayed(join_blocks)(rows.blocks))
        local._rows, local._Y, local._w = block.X, block.Y.astype(np.float64), block.w
        local._kept = np.arange(rows.n)
        local.metric_estimator_.function_ = run(client, self._function)
        if self.rule == "ridge":
            local.ridge_ = run(client, self._ridge)
        return local

    def _kind_of_answer(self) -> tuple[tuple[int, ...], Any]:
        """Shape of a row's answer, and its type."""
        raise NotImplementedError

    def _answered(self, X: Any, method: str, shape: tuple[int, ...], kind: Any) -> Any:
        """What a method of the local twin makes of votes, block by block, lazily."""
        X = check_rows(self, X, fitting=False)
        local = constant(self._fitted_plain())
        parts = [
            delayed(_answer)(local, self._votes_of(local, block), method, kind)
            for block in blocks_of(X)
        ]
        return stacked(parts, X, shape, kind)

    def _votes_of(self, local: Any, block: Any) -> Any:
        """Delayed votes for a delayed partition."""
        Z = delayed(_mapped)(local, block)
        if self.rule == "ridge":
            return delayed(_ridge_votes)(self._bound("_ridge"), Z)
        prior = self._training.summary.prior if self.empty == "prior" else None
        rule = Rule(
            self.rule,
            getattr(self, "n_neighbors_", 1),
            getattr(self, "radius_", 0.0),
            self.weights,
            prior,
        )
        return rule.delayed_votes(Z, self._bound("_references"))


# tasks ----------------------------------------------------------------------------------------


def _tuned(twin: Any, block: Block, seed: int) -> tuple[Setting, dict[str, Any]]:
    """The best setting on held-out rows of a sample, as the local twin finds it."""
    y = twin.classes_[block.Y.argmax(1)] if hasattr(twin, "classes_") else block.Y
    twin = copy(twin)
    Y, strata = twin._targets(y[:, 0] if getattr(twin, "_flat", False) else y)
    twin._Y, twin._w, twin._device = Y, twin._row_weights(strata), None
    _, _, setting = twin._tune(block.X, strata, seed)
    names = ("best_params_", "best_score_", "cv_results_", "n_neighbors_")
    return setting, {name: getattr(twin, name) for name in names if hasattr(twin, name)}


def _robust(block: Block) -> Any:
    return make_scaler("robust").fit(block.X)


def _ridge_of_all(function: RidgeFunction, blocks: list[Block]) -> RidgeFunction:
    block = join_blocks(blocks)
    return RidgeFunction(**function.get_params()).fit(block.X, block.Y, block.w)


def _rows_of(block: Block) -> NDArray:
    return block.X


def _furthest(found: Any) -> NDArray:
    """Distance of each query to the last of its neighbours."""
    return found.distances.reshape(found.m, found.per_query)[:, -1]


def _mapped(local: Any, block: Any) -> NDArray:
    if len(block) == 0:
        return np.empty((0, len(local.components_)))
    return local._mapped(block)


def _ridge_votes(ridge: RidgeFunction, Z: NDArray) -> Votes:
    return _plain_votes(ridge.predict(Z) if len(Z) else np.empty((0, ridge.n_outputs_)))


def _answer(local: Any, votes: Votes, method: str, kind: Any) -> NDArray:
    return np.asarray(getattr(local, method)(votes)).astype(kind, copy=False)


def _tallied(local: Any, votes: Votes, truth: Any, classify: bool) -> tuple[NDArray, Moments]:
    """Wrong answers, or squared errors by output, and the moments of the truth."""
    truth, answer = np.asarray(truth), np.asarray(local._decide(votes))
    if classify:
        wrong = (truth.ravel() != answer)[:, None].astype(float)
        return wrong.sum(0), Moments.of(wrong) if len(wrong) else _NOTHING
    truth, answer = (a[:, None] if a.ndim == 1 else a for a in (truth, answer))
    error = ((truth - answer) ** 2).sum(0)
    return error, Moments.of(truth.astype(float)) if len(truth) else _NOTHING


#: the moments of no rows
_NOTHING = Moments(0, *(np.zeros(1),) * 4)


def _added_tallies(parts: list[tuple[NDArray, Moments]]) -> tuple[NDArray, Moments]:
    full = [part for part in parts if part[1].n] or parts[:1]
    error, moments = full[0]
    for more, others in full[1:]:
        error, moments = error + more, moments.merge(others)
    return error, moments
