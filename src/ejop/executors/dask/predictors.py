"""DaskEJOPClassifier and DaskEGOPRegressor without their names.

Neighbours are tuned on a sample and searched among all rows, which stay on the workers. Kernel
machines are chosen on a worker, on a sample, and solved for all rows by passes over the partitions;
then every partition is answered by that model.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from ejop._sklearn import has_constant_columns, scale_without_zeros
from ejop.absent import Absent
from ejop.columns import ColumnPreparer
from ejop.executors.dask.base import OnCluster, blocks_of, stacked
from ejop.executors.dask.cluster import constant, delayed, find_client, keep, run, tree, workers
from ejop.executors.dask.collections import PREPARE, check_rows, partitions
from ejop.executors.dask.machines import PASSES, solved_for_all
from ejop.executors.dask.metrics import fit_metric
from ejop.executors.dask.plan import BROADCAST_SHARE, ClusterPlan
from ejop.executors.dask.rows import Rows, draw
from ejop.executors.dask.search import Found, delayed_found, delayed_votes
from ejop.metric import components, project
from ejop.neighbors import Votes
from ejop.rows import Block, Moments, join_blocks
from ejop.rules import KNeighborsRule, NeighborsRule, Rule, make_rule
from ejop.scaling import make_scaler

#: scalers that need all rows at once
BY_QUANTILES = ("robust", "quantile")
#: rows whose distance to their fifth neighbour settles the radius of "hnn", at the most
RADIUS_ROWS = 2000


@dataclass(frozen=True)
class Prepared:
    """How a block of rows is changed: scaled, mapped, targets scaled, rows weighted by class."""

    scaler: Any
    L: NDArray
    spread: NDArray | None = None
    class_weights: NDArray | None = None

    def __call__(self, block: Block) -> Block:
        """The changed block."""
        X = project(self.scaler.transform(block.X), self.L)
        Y = block.Y if self.spread is None else block.Y / self.spread
        w = block.w
        if self.class_weights is not None:
            w = self.class_weights[block.Y.argmax(1)] * block.weights
        return Block(X, Y, w, block.index)


class DaskPredictor(OnCluster):
    """A predictor whose references stay on the workers."""

    tuning_rows: int
    rule: Any
    refit: Any
    columns: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Tune on a sample, then learn the metric of all rows.

        Parameters
        ----------
        X : Dask array or data frame of shape (n_samples, n_features)
        y : Dask array, series, data frame or array of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : Dask array, series or array of shape (n_samples,), optional

        Returns
        -------
        self : object
        """
        if self.refit == "train":
            raise ValueError(
                "`refit`='train' is not supported on a cluster, where held-out rows come from a "
                "sample; use refit=True or False."
            )
        if isinstance(self.columns, ColumnPreparer):
            raise ValueError(
                f"`columns`={self.columns!r} is not supported on a cluster, where rows are "
                f"taken as numbers; prepare them before, {PREPARE}."
            )
        self._forget()
        chooses = make_rule(self.rule).chooses
        if chooses:
            self._refuse_what_does_not_apply()
        client, rows = self._begin(X, y, sample_weight)
        class_weights = self._class_weights(rows)
        seed = self._seed()
        twin = self._plain().set_params(random_state=seed)
        draws = np.random.RandomState(seed).randint(2**31 - 1)  # as the twin will draw
        some = draw(rows.n, self.tuning_rows, draws) if rows.n > self.tuning_rows else None
        sample = rows.gathered(some)
        form = (getattr(self, "classes_", None), getattr(self, "_flat", False))
        if chooses:
            self._fit_there(client, rows, delayed(_fitted)(constant(twin), sample, *form))
            if some is not None:
                self._solve_for_all(client, rows, class_weights)
            return self
        twin.set_params(refit=False)
        told = run(client, delayed(_tuned)(constant(twin), sample, *form))
        self.__dict__.update(told)
        if self.refit:
            self._refit_on(client, rows, sample, class_weights, draws)
        return self

    def _fit_there(self, client: Any, rows: Rows, model: Any) -> None:
        """Fit a twin whole on a worker; it answers there, and a copy of it comes here."""
        self._references = [keep(client, model)]
        found = run(client, self._references[0])
        parameters = self.get_params(deep=False)
        self.__dict__.update({k: v for k, v in vars(found).items() if k not in parameters})
        plan = ClusterPlan(
            **vars(found.plan_), reduction="sample", workers=str(workers(client)), tasks=1
        )
        held = found.plan_.n_rows
        some = "all rows" if held == rows.n else f"{held} of {rows.n} rows, drawn at random"
        plan.notes = [f"fitted whole on one worker, to {some}", *found.plan_.notes]
        self.plan_ = plan

    def _solve_for_all(self, client: Any, rows: Rows, class_weights: NDArray | None) -> None:
        """Solve the machines of the sample for all rows, which stay where they are."""
        found = solved_for_all(self._fitted_plain(), rows, class_weights)
        self.rule_ = found.rule_
        self._references = [keep(client, constant(found))]
        n_passes = len(found.rule_.members_) * (PASSES + 1)
        self.plan_.notes.insert(1, f"machines solved for all {rows.n} rows by {n_passes} passes")

    def _refit_on(
        self, client: Any, rows: Rows, sample: Any, class_weights: NDArray | None, seed: int
    ) -> None:
        """Learn the chosen setting from all rows."""
        setting = self.best_setting_
        scaler = self._scaler(client, setting.scale, rows, sample)
        spread = None if self._classify else np.sqrt(rows.summary.Y.variance)
        spread = spread if spread is None else np.where(spread > 0, spread, 1)
        L = before = np.eye(rows.summary.n_features)
        scaled = metric = None
        for function, power, rank in setting.rounds:
            mapped = rows.mapped(Prepared(scaler, L, spread, class_weights))
            metric = self._configured(function, rows.n, seed)
            metric.n_features_in_ = mapped.summary.n_features
            metric.classes_ = np.arange(mapped.summary.n_outputs)
            self._function = fit_metric(client, metric, mapped, self.reduction).whole
            scaled = scaled or mapped.summary.X  # the first round maps rows by the identity
            before = L
            found = (metric.eigenvalues_, metric.eigenvectors_)
            L = components(*found, power=power, n_components=rank) @ L
        assert scaled is not None
        self._training = rows.mapped(Prepared(scaler, L, None, class_weights))
        rule = self._settled(client, make_rule(self.rule), setting.size)
        self._store(scaler, (before, L), metric, rule, (scaled.mean, scaled.variance))

    def _scaler(self, client: Any, scale: str, rows: Rows, sample: Any) -> Any:
        """A scaler of all rows; those of quantiles are of the tuning sample."""
        if scale in BY_QUANTILES:
            return run(client, delayed(_scaler_of)(scale, sample))
        s = rows.summary.X
        scaler = make_scaler(scale).fit(np.stack([s.low, s.high]))
        if isinstance(scaler, StandardScaler):
            scaler.mean_, scaler.var_, scaler.n_samples_seen_ = s.mean, s.variance, s.n
            flat = has_constant_columns(s.variance, s.mean, s.n)
            scaler.scale_ = scale_without_zeros(np.sqrt(s.variance), constant_mask=flat)
        return scaler

    def _class_weights(self, rows: Rows) -> NDArray | None:
        """Weight of each class, or None for equal ones."""
        return None

    def _settled(self, client: Any, rule: Rule, size: float) -> Rule:
        """The rule without rows; its references are blocks of rows, or one rule fitted there."""
        rows = self._training
        if not isinstance(rule, NeighborsRule):
            self._references = [keep(client, delayed(_fit_rule)(constant(rule), rows.blocks))]
            return rule
        small = rows.nbytes <= BROADCAST_SHARE * workers(client).memory
        self._references = [delayed(join_blocks)(rows.blocks)] if small else rows.grouped().blocks
        rule.prior_ = rows.summary.prior
        return rule.settle(size, rows.n, partial(self._kth, client, rows))

    def _kth(self, client: Any, rows: Rows, k: int) -> NDArray:
        """Distances of some rows to their k-th nearest row."""
        index = draw(rows.n, RADIUS_ROWS, 0) if rows.n > RADIUS_ROWS else None
        Z = keep(client, delayed(_rows_of)(rows.gathered(index)))
        probe = KNeighborsRule(k).settle(k, rows.n, partial(self._kth, client, rows))
        return run(client, delayed(_furthest)(delayed_found(probe, Z, self._references)))

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
        self._check_fitted()
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
        self._check_fitted()
        if sample_weight is not None:
            raise ValueError(
                "`sample_weight` is not supported on a cluster; use to_local().score(...)."
            )
        X = check_rows(self, X, fitting=False)
        client = find_client(self.client)
        parts = partitions(client, type(self).__name__, X, y, None)
        local = self._answering()
        tasks = [
            delayed(_tallied)(local, self._votes_on(local, x), truth, self._classify)
            for x, truth, _ in parts
        ]
        error, moments = run(client, tree(tasks, _added_tallies))
        if self._classify:
            return float(1 - error[0] / moments.n)
        spread = moments.squares
        flat = spread == 0
        shares = np.where(flat, error > 0, error / np.where(flat, 1, spread))
        return float(1 - shares.mean())

    partial_fit = Absent("concatenate the collections and call `fit`")
    kneighbors = Absent("use to_local().kneighbors(X)")
    explain = Absent("use to_local().explain(X)")
    why_near = Absent("use to_local().why_near(x, z)")
    scale_rows = Absent("use to_local().scale_rows(X)")

    def to_local(self, references: bool = True) -> Any:
        """The plain predictor, fitted, with the training rows that it predicts by.

        Parameters
        ----------
        references : bool, default=True
            Bring the training rows. Only ``transform`` does without them. The model of
            ``rule="ridge"`` is here already, with the rows it was fitted to.

        Returns
        -------
        estimator : EJOPClassifier or EGOPRegressor
        """
        self._check_fitted()
        local = self._fitted_plain()
        if self.rule_.chooses or not references:
            return local
        rows, client = self._bound("_training"), find_client(self.client)
        self._require_memory(2 * rows.nbytes)
        block = run(client, delayed(join_blocks)(rows.blocks))
        by_blocks = isinstance(self.rule_, NeighborsRule)
        rule = copy(self.rule_) if by_blocks else run(client, self._references[0])
        local.rule_ = rule.hold(block.X, block.Y.astype(np.float64), block.w)
        local.kept_ = np.arange(rows.n)
        local.metric_estimator_ = copy(self.metric_estimator_)
        local.metric_estimator_.function_ = run(client, self._function)
        return local

    def _kind_of_answer(self) -> tuple[tuple[int, ...], Any]:
        """Shape of a row's answer, and its type."""
        raise NotImplementedError

    def _answered(self, X: Any, method: str, shape: tuple[int, ...], kind: Any) -> Any:
        """What a method of the local twin makes of votes, block by block, lazily."""
        X = check_rows(self, X, fitting=False)
        local = self._answering()
        parts = [
            delayed(_answer)(local, self._votes_on(local, block), method, kind)
            for block in blocks_of(X)
        ]
        return stacked(parts, X, shape, kind)

    def _votes_on(self, local: Any, block: Any) -> Any:
        """Delayed votes for a delayed partition."""
        if self.rule_.chooses:
            return delayed(_own_votes)(local, block, self._n_outputs)
        Z, references = delayed(_mapped)(local, block), self._bound("_references")
        if isinstance(self.rule_, NeighborsRule):
            return delayed_votes(self.rule_, Z, references)
        return delayed(_votes)(references[0], Z, self._n_outputs)

    @property
    def _n_outputs(self) -> int:
        if self.rule_.chooses:
            return self.rule_.targets_.shape[1]
        return self._bound("_training").summary.n_outputs

    def _answering(self) -> Any:
        """The twin that tasks answer by: the one on the workers, where it was fitted there."""
        if self.rule_.chooses and hasattr(self, "_references"):
            return self._references[0]
        return super()._answering()


# tasks ----------------------------------------------------------------------------------------


def _tuned(twin: Any, block: Block, classes: NDArray | None, flat: bool) -> dict[str, Any]:
    """What the local twin finds on held-out rows of a sample."""
    twin = clone(twin).fit(block.X, _labels(block, classes, flat), sample_weight=block.w)
    names = ("best_params_", "best_score_", "unseen_score_", "best_setting_", "cv_results_")
    return {name: getattr(twin, name) for name in names}


def _fitted(twin: Any, block: Block, classes: NDArray | None, flat: bool) -> Any:
    """The local twin fitted to a sample, its rows numbered as in all rows."""
    twin = clone(twin).fit(block.X, _labels(block, classes, flat), sample_weight=block.w)
    twin.kept_ = block.index[twin.kept_]
    return twin


def _labels(block: Block, classes: NDArray | None, flat: bool) -> NDArray:
    """Targets as the local twin takes them."""
    if classes is not None:
        return classes[block.Y.argmax(1)]
    return block.Y[:, 0] if flat else block.Y


def _scaler_of(scale: str, block: Block) -> Any:
    return make_scaler(scale).fit(block.X)


def _fit_rule(rule: Rule, blocks: list[Block]) -> Rule:
    block = join_blocks(blocks)
    return clone(rule).fit(block.X, block.Y, block.w)


def _rows_of(block: Block) -> NDArray:
    return block.X


def _furthest(found: Found) -> NDArray:
    """Distance of each query to the last of its neighbours."""
    return found.near.distances.reshape(found.near.n_queries, -1)[:, -1]


def _mapped(local: Any, block: Any) -> NDArray:
    if len(block) == 0:
        return np.empty((0, len(local.components_)))
    return local.transform(block)


def _votes(rule: Rule, Z: NDArray, n_outputs: int) -> Votes:
    return rule.votes(Z) if len(Z) else Votes.plain(np.empty((0, n_outputs)))


def _own_votes(local: Any, block: Any, n_outputs: int) -> Votes:
    return local._votes(block) if len(block) else Votes.plain(np.empty((0, n_outputs)))


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
