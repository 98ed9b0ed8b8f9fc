"""What a report rests on: rows, their true and predicted targets, and the rows learned from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop._sklearn import take_rows
from ejop.columns import ColumnPreparer
from ejop.neighbors import nearest, vote
from ejop.plots.fitted import Fitted
from ejop.plots.points import thinned
from ejop.plots.shares import Shares, shares_of
from ejop.reports._words import number

#: rows that are judged, and rows learned from that others are compared by, at the most
JUDGED, LEARNED = 10_000, 20_000
#: neighbours where the model has tuned no number of them
SHOWN_NEIGHBORS = 5


@dataclass(frozen=True)
class Given:
    """Rows with their targets, and what they are called.

    Attributes
    ----------
    X : array-like or table of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    names : ndarray of str, shape (n_rows,)
    """

    X: Any
    y: NDArray
    names: NDArray

    @classmethod
    def of(cls, X: Any, y: ArrayLike, names: ArrayLike | None = None) -> Given:
        """Rows called by the index of a pandas table, all others by their number."""
        truth = np.asarray(y)
        truth = truth[:, 0] if truth.ndim == 2 else truth
        n = int(X.shape[0] if hasattr(X, "shape") else len(X))
        if len(truth) != n:
            raise ValueError(f"`X` has {n} rows and `y` {len(truth)}; as many are expected.")
        called: Any = (X.index if hasattr(X, "iloc") else range(n)) if names is None else names
        return cls(X, truth, np.array([str(name) for name in called], dtype=object))

    def some(self, most: int) -> Given:
        """So many rows at the most, drawn at random."""
        rows = thinned(len(self.y), most)
        if len(rows) == len(self.y):
            return self
        return Given(take_rows(self.X, rows), self.y[rows], self.names[rows])


@dataclass(frozen=True)
class LearnedRows:
    """Rows that the model has learned from.

    Attributes
    ----------
    X : array-like, table or None
        As the model takes them; None where it keeps them scaled alone.
    Z : ndarray of shape (n_rows, n_features)
        Scaled.
    y : ndarray of shape (n_rows,)
    names : ndarray of str, shape (n_rows,)
    n_all : int
        Rows that the model has learned from; these may be some of them.
    """

    X: Any
    Z: NDArray
    y: NDArray
    names: NDArray
    n_all: int


@dataclass(frozen=True)
class Evidence:
    """Rows, their true and predicted targets, and what the model has learned from.

    Attributes
    ----------
    source : Fitted
    X : array-like or table
        The rows as the last step takes them.
    Z : ndarray of shape (n_rows, n_features)
        Scaled.
    y, answers : ndarray of shape (n_rows,)
        Truth and predictions.
    chances : ndarray of shape (n_rows, n_classes) or None
        Probabilities, in the order of ``classes``.
    names : ndarray of str, shape (n_rows,)
        What the rows are called.
    n_given : int
        Rows that were given; these may be some of them.
    n_seen : int
        Of these rows those that equal a row that was learned from.
    held_out : bool
        Whether the rows learned from were given apart from these.
    learned : LearnedRows or None
    shares : Shares
        Which columns matter.
    """

    source: Fitted
    X: Any
    Z: NDArray
    y: NDArray
    answers: NDArray
    chances: NDArray | None
    names: NDArray
    n_given: int
    n_seen: int
    held_out: bool
    learned: LearnedRows | None
    shares: Shares

    @property
    def regression(self) -> bool:
        """Whether targets are real numbers."""
        return self.source.regression

    @property
    def classes(self) -> NDArray:
        """Classes of the model; empty for real targets."""
        return np.array([]) if self.regression else np.asarray(self.source.model.classes_)

    @property
    def rule(self) -> Any:
        """How a predictor answers; None for a metric alone."""
        return getattr(self.source.model, "rule_", None)

    @property
    def explains(self) -> bool:
        """Whether answers change smoothly, so that columns can be said to add to them."""
        return bool(getattr(self.rule, "chooses", False))

    @property
    def n_neighbors(self) -> int:
        """Near rows that vote, or five."""
        return int(getattr(self.rule, "n_neighbors_", SHOWN_NEIGHBORS))

    @property
    def preparer(self) -> ColumnPreparer | None:
        """What prepared the columns of a table."""
        found = getattr(self.source.model, "preparer_", None)
        if found is None and self.source.before is not None:
            found = self.source.before[0]
        return found if isinstance(found, ColumnPreparer) else None

    def shown(self, target: Any) -> str:
        """A class or a target as text."""
        return number(float(target)) if self.regression else str(target)


def gather(source: Fitted, given: Given, training: Given | None = None) -> Evidence:
    """Predict the rows, and find those that were learned from.

    Parameters
    ----------
    source : Fitted
    given : Given
    training : Given, optional
        Those that the model keeps, by default.
    """
    if len(given.y) == 0:
        raise ValueError("`X` has no rows; a report shows at least one.")
    some = given.some(JUDGED)
    Z, learned = source.prepare(some.X), _learned(source, training)
    inner = some.X if source.before is None else source.before.transform(some.X)
    answers, chances = _answers(source, inner, Z, learned)
    return Evidence(
        source,
        inner,
        Z,
        some.y,
        answers,
        chances,
        some.names,
        len(given.y),
        _n_seen(Z, learned),
        training is not None,
        learned,
        shares_of(source),
    )


def _learned(source: Fitted, training: Given | None) -> LearnedRows | None:
    if training is not None:
        some = training.some(LEARNED)
        inner = some.X if source.before is None else source.before.transform(some.X)
        return LearnedRows(inner, source.prepare(some.X), some.y, some.names, len(training.y))
    kept = source.training()
    if kept is None:
        return None
    rule: Any = getattr(source.model, "rule_", None)
    n_all = int(rule.function_.summary_.n) if hasattr(rule, "function_") else len(kept.rows)
    rows = thinned(len(kept.rows), LEARNED)
    targets = kept.targets[rows]
    y = targets[:, 0] if source.regression else source.model.classes_[targets.argmax(1)]
    return LearnedRows(
        None, kept.rows[rows], y, kept.numbers[rows].astype(str).astype(object), n_all
    )


def _answers(
    source: Fitted, X: Any, Z: NDArray, learned: LearnedRows | None
) -> tuple[NDArray, NDArray | None]:
    """Predictions, and probabilities of classes where there are any."""
    model = source.model
    if hasattr(model, "predict"):
        found = np.asarray(model.predict(X))
        chances = None
        if not source.regression and hasattr(model, "predict_proba"):
            chances = np.asarray(model.predict_proba(X), dtype=np.float64)
        return (found[:, 0] if found.ndim == 2 else found), chances
    if learned is None:
        raise TypeError(
            f"{type(model).__name__} neither predicts nor keeps its rows; pass an "
            "EJOPClassifier or EGOPRegressor, or an EJOP or EGOP."
        )
    L, k = source.components.T, min(SHOWN_NEIGHBORS, len(learned.y))
    return voted(Z @ L, learned.Z @ L, learned.y, k, source.regression)[0], None


def voted(
    Q: NDArray, Z: NDArray, y: NDArray, k: int, regression: bool
) -> tuple[NDArray, NDArray | None]:
    """Answers of the k nearest rows Z with targets y, and shares of the classes, sorted."""
    near = nearest(Q, Z, k)
    if regression:
        Y = np.asarray(y, dtype=np.float64)[:, None]
        return vote(*near, Y, weights="uniform", row_weights=None).values[:, 0], None
    classes, numbers = np.unique(y, return_inverse=True)
    votes = vote(*near, np.eye(len(classes))[numbers], weights="uniform", row_weights=None)
    return classes[votes.winners()], votes.values


def _n_seen(Z: NDArray, learned: LearnedRows | None) -> int:
    """How many of the rows equal a row that was learned from, to the last digit."""
    if learned is None:
        return 0
    known = {row.tobytes() for row in np.ascontiguousarray(learned.Z)}
    rows = np.ascontiguousarray(Z.astype(learned.Z.dtype))
    return sum(row.tobytes() in known for row in rows)
