"""Between a start and what is learned: metrics that are some of each, and which of them rows that
neither has seen prefer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.metric import eigh_descending
from ejop.neighbors import nearest, vote
from ejop.tuning import FOLDS, Splits, holdouts

#: shares of the start tried by ``pull="auto"``
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
#: the share where no rows can be held out to choose one
USUAL_SHARE = 0.5
#: folds are judged until so many rows have been, all of them where rows are few
ENOUGH_JUDGED = 2000
#: numbers of neighbours that vote; their errors are averaged, which steadies the choice
VOTERS = (3, 5, 7, 9)


@dataclass(frozen=True)
class Pull:
    """A number of a start, and the share that it has in the metric."""

    start: int
    share: float


def between(
    learned: NDArray | None, start: NDArray, X: NDArray, share: float
) -> tuple[NDArray, NDArray]:
    """Rows L with L^T L = (1 - share) M / m + share M_0 / m_0, and the rows X mapped by them.

    M and M_0 are the metrics of both maps, m and m_0 the mean squared distance of rows under each.
    One that takes all rows to a point has no part in it.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.learners._pull import between
    >>> X = np.array([[1.0, 2.0], [-1.0, -2.0]])
    >>> L, _ = between(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), X, 0.5)
    >>> (L.T @ L).round(3)
    array([[0.5  , 0.   ],
           [0.   , 0.125]])
    """
    weighted = [(share, start)] if learned is None else [(1 - share, learned), (share, start)]
    parts = []
    for weight, L in weighted:
        spread = np.sqrt(np.square((X - X.mean(0)) @ L.T).sum(1).mean())
        if weight > 0 and spread > 0:
            parts.append(np.sqrt(weight) / spread * L)
    L = np.vstack(parts) if parts else np.zeros((1, X.shape[1]))
    return L, X @ L.T


def compact(L: NDArray) -> NDArray:
    """A map of the same metric with no more rows than columns."""
    if len(L) <= L.shape[1]:
        return L
    values, vectors = eigh_descending(L.T @ L)
    return np.sqrt(values)[:, None] * vectors.T


def folds(X: NDArray, y: NDArray, random_state: np.random.RandomState) -> Splits:
    """Rows to learn from and rows that judge: four folds, or as many as judge enough.

    A row that is alone in its class is always learned from. A fold whose other rows leave nothing
    to learn, one class or none with two rows, is left out.
    """
    able = np.flatnonzero(np.bincount(y)[y] > 1)
    if len(able) < FOLDS:
        return []
    found, judged = [], 0
    labels = np.unique(y[able], return_inverse=True)[1]
    for _, held in holdouts(FOLDS, X[able], labels, classifier=True, random_state=random_state):
        judges = able[held]
        seen = np.setdiff1d(np.arange(len(y)), judges)
        counts = np.bincount(y[seen])
        if judged >= ENOUGH_JUDGED or (counts > 0).sum() < 2 or counts.max() < 2:
            continue
        found.append((seen, judges))
        judged += len(judges)
    return found


@dataclass
class PullTable:
    """What held-out rows say of each pull.

    Attributes
    ----------
    found : dict
        For each pull, error and doubt of the rows of each fold, (2, n_held).
    """

    found: dict[Pull, list[NDArray]]

    def add(
        self,
        learned: NDArray,
        starts: list[NDArray],
        seen: tuple[NDArray, NDArray],
        held: tuple[NDArray, NDArray],
    ) -> None:
        """Let the rows of a fold judge all pulls; without a share of a start they are one."""
        for number, start in enumerate(starts):
            for share in SHARES:
                if share > 0 or number == 0:
                    L, mapped = between(learned, start, seen[0], share)
                    judged = merit(mapped, seen[1], held[0] @ L.T, held[1])
                    self.found.setdefault(Pull(number, share), []).append(judged)

    def errors(self) -> dict[tuple[int, float], float]:
        """Mean error of each, by number of the start and share."""
        return {(p.start, p.share): self._mean(p)[0] for p in self.found}

    def best(self) -> Pull:
        """The smallest share whose error is within one standard error of the lowest.

        In a fold the learner has fewer rows than it will have, and gains more from rows than a
        start does. Of equal shares it is the lowest error, then the least doubt.
        """
        lowest = self._rows(min(self.found, key=self._mean))[0]
        as_good = [pull for pull in self.found if self._excess(pull, lowest) <= 0]
        return min(as_good, key=lambda pull: (pull.share, self._mean(pull)))

    def _rows(self, pull: Pull) -> NDArray:
        return np.concatenate(self.found[pull], axis=1)

    def _mean(self, pull: Pull) -> tuple[float, float]:
        error, doubt = self._rows(pull).mean(1)
        return round(float(error), 12), round(float(doubt), 12)

    def _excess(self, pull: Pull, lowest: NDArray) -> float:
        """Mean error beyond the lowest and one standard error of the difference, row by row."""
        worse = self._rows(pull)[0] - lowest
        return round(float(worse.mean() - worse.std() / np.sqrt(len(worse))), 12)


def merit(Z: NDArray, y: NDArray, Q: NDArray, labels: NDArray) -> NDArray:
    """Whether near rows Z vote rows Q into other classes, and the share of such votes, (2, m).

    Means over several numbers of neighbours.
    """
    D, near = nearest(Q, Z, min(max(VOTERS), len(Z)))
    one_hot = np.eye(int(max(y.max(), labels.max())) + 1)[y]
    found = np.zeros((2, len(Q)))
    for k in VOTERS:
        votes = vote(D[:, :k], near[:, :k], one_hot, weights="uniform", row_weights=None)
        found[0] += votes.winners() != labels
        found[1] += 1 - votes.values[np.arange(len(Q)), labels]
    return found / len(VOTERS)


def several(init: Any) -> list[Any]:
    """The starts that ``init`` names: the elements of a list that are no numbers, else itself."""
    if isinstance(init, list | tuple) and init and not _is_row(init[0]):
        return list(init)
    return [init]


def _is_row(first: Any) -> bool:
    """Whether a list that begins so is a matrix."""
    return not isinstance(first, str) and not hasattr(first, "fit") and np.ndim(first) < 2
