"""What a report shows: predictions by plain and learned distance, and the rows that changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import r2_score

from ejop._sklearn import take_rows
from ejop.neighbors import nearest, vote
from ejop.plots.fitted import Fitted, TrainingRows
from ejop.plots.points import thinned
from ejop.plots.shares import Shares, shares_of

#: rows that are judged, at the most
REPORTED_ROWS = 10_000
#: neighbours where the model has tuned no number of them
SHOWN_NEIGHBORS = 5
#: changed rows that are shown, and neighbours of each
MAX_CHANGED, MAX_NEIGHBORS = 6, 7


@dataclass(frozen=True)
class Neighbor:
    """A training row near a row that changed."""

    row: int
    target: str
    distance: float
    agrees: bool


@dataclass(frozen=True)
class Change:
    """A row whose answer differs, with its neighbours by either distance."""

    row: int
    truth: str
    before: str
    after: str
    verdict: str
    neighbors: list[tuple[Neighbor, Neighbor]]


@dataclass(frozen=True)
class Evidence:
    """Rows, their true and predicted targets, and how plain distance would have done.

    Attributes
    ----------
    source : Fitted
    Z : ndarray of shape (n_rows, n_features)
        Scaled rows.
    y, after : ndarray of shape (n_rows,)
        Truth and prediction under the learned metric.
    before : ndarray of shape (n_rows,) or None
        Prediction of the k nearest rows by plain distance of the scaled rows.
    rows : ndarray of shape (n_rows,)
        Row numbers in the data given.
    n_given, n_seen : int
        Rows given, and how many of those judged the model has learned from.
    k : int
    near : tuple of two pairs (distances, indices) or None
        Neighbours before and after.
    training : TrainingRows or None
    shares : Shares
        Which columns matter.
    """

    source: Fitted
    Z: NDArray
    y: NDArray
    after: NDArray
    before: NDArray | None
    rows: NDArray
    n_given: int
    n_seen: int
    k: int
    near: tuple[tuple[NDArray, NDArray], tuple[NDArray, NDArray]] | None
    training: TrainingRows | None
    shares: Shares

    @property
    def regression(self) -> bool:
        """Whether targets are real numbers."""
        return self.source.regression

    def error(self, predicted: NDArray) -> float:
        """Share of wrong rows, or 1 - R^2."""
        if self.regression:
            return 1 - float(r2_score(self.y, predicted))
        return float(np.mean(predicted != self.y))

    def changes(self) -> tuple[list[Change], int, int, int]:
        """A few rows whose answer changed, and how many became right, wrong, or just other.

        For real targets: the rows whose error changed most, and how many came nearer or farther.
        """
        if self.before is None or self.near is None:
            return [], 0, 0, 0
        if self.regression:
            gain = np.abs(self.before - self.y) - np.abs(self.after - self.y)
            groups = [np.flatnonzero(gain > 0), np.flatnonzero(gain < 0), np.array([], int)]
            groups = [rows[np.argsort(-np.abs(gain[rows]), kind="stable")] for rows in groups]
        else:
            was, now, moved = self.before == self.y, self.after == self.y, self.before != self.after
            groups = [
                np.flatnonzero(moved & now),
                np.flatnonzero(moved & was),
                np.flatnonzero(moved & ~was & ~now),
            ]
        shown = _in_turn(groups, MAX_CHANGED)
        words = ("nearer", "farther", "") if self.regression else ("fixed", "broken", "still wrong")
        verdicts = {int(i): words[g] for g, rows in enumerate(groups) for i in rows}
        counts = [len(rows) for rows in groups]
        return [self._change(i, verdicts[i]) for i in shown], counts[0], counts[1], counts[2]

    def _change(self, i: int, verdict: str) -> Change:
        assert self.before is not None
        assert self.near is not None
        before, after = (self._listed(i, *found) for found in self.near)
        return Change(
            row=int(self.rows[i]),
            truth=self.shown(self.y[i]),
            before=self.shown(self.before[i]),
            after=self.shown(self.after[i]),
            verdict=verdict,
            neighbors=list(zip(before, after, strict=True)),
        )

    def _listed(self, i: int, distances: NDArray, indices: NDArray) -> list[Neighbor]:
        assert self.training is not None
        listed = []
        for distance, index in zip(distances[i], indices[i], strict=True):
            target = answers(self.source, self.training.targets[[index]])[0]
            listed.append(
                Neighbor(
                    row=int(self.training.numbers[index]),
                    target=self.shown(target),
                    distance=float(distance),
                    agrees=not self.regression and bool(target == self.y[i]),
                )
            )
        return listed[:MAX_NEIGHBORS]

    def shown(self, target: Any) -> str:
        """A class or a target as text."""
        return f"{float(target):.4g}" if self.regression else str(target)


def gather(source: Fitted, X: Any, y: ArrayLike) -> Evidence:
    """Predict the rows with the learned and with plain distance.

    Parameters
    ----------
    source : Fitted
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Of several outputs the first is shown.
    """
    truth = np.asarray(y)
    truth = truth[:, 0] if truth.ndim == 2 else truth
    if len(truth) != len(X):
        raise ValueError(f"`X` has {len(X)} rows and `y` {len(truth)}; as many are expected.")
    if len(truth) == 0:
        raise ValueError("`X` has no rows; a report shows at least one.")
    rows = thinned(len(X), REPORTED_ROWS)
    some = X if len(rows) == len(X) else take_rows(X, rows)
    Z, truth = source.prepare(some), truth[rows]
    training = source.training()
    k = int(getattr(getattr(source.model, "rule_", None), "n_neighbors_", SHOWN_NEIGHBORS))
    before = near = None
    if training is not None:
        k, L = min(k, len(training.rows)), source.components.T
        near = (nearest(Z, training.rows, k), nearest(Z @ L, training.rows @ L, k))
        before = _voted(source, training, near[0])
    if hasattr(source.model, "predict"):
        inner = some if source.before is None else source.before.transform(some)
        after = np.asarray(source.model.predict(inner))
        after = after[:, 0] if after.ndim == 2 else after
    elif training is not None and near is not None:
        after = _voted(source, training, near[1])
    else:
        raise TypeError(
            f"{type(source.model).__name__} neither predicts nor keeps its rows; pass an "
            "EJOPClassifier or EGOPRegressor, or an EJOP or EGOP."
        )
    seen = _n_seen(source, Z, training)
    shares = shares_of(source)
    return Evidence(source, Z, truth, after, before, rows, len(X), seen, k, near, training, shares)


def answers(source: Fitted, values: NDArray) -> NDArray:
    """Targets (n, n_outputs) as labels or as numbers, shape (n,)."""
    if source.regression:
        return values[:, 0]
    return np.asarray(source.model.classes_)[values.argmax(1)]


def _voted(source: Fitted, training: TrainingRows, near: tuple[NDArray, NDArray]) -> NDArray:
    """Answer of given neighbours, by the model's weights."""
    weights = getattr(getattr(source.model, "rule_", None), "weights", "uniform")
    votes = vote(*near, training.targets, weights=weights, row_weights=training.weights)
    if source.regression:
        return votes.values[:, 0]
    return np.asarray(source.model.classes_)[votes.winners()]


def _n_seen(source: Fitted, Z: NDArray, training: TrainingRows | None) -> int:
    """How many of the rows are training rows, to the last digit."""
    if training is None or source.rounds is not None:
        return 0
    known = {row.tobytes() for row in np.ascontiguousarray(training.rows)}
    return sum(
        row.tobytes() in known for row in np.ascontiguousarray(Z.astype(training.rows.dtype))
    )


def _in_turn(groups: list[NDArray], most: int) -> list[int]:
    """Rows of the groups by turns, so that what got worse is shown beside what got better."""
    taken: list[int] = []
    for place in range(max(map(len, groups), default=0)):
        taken += [int(rows[place]) for rows in groups if place < len(rows)]
        if len(taken) >= most:
            break
    return taken[:most]
