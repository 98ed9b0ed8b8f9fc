"""What the metric learners share: validate, start, learn, store."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ejop._sklearn import WRAPPERS, HasMethods, Interval, StrOptions, with_callbacks
from ejop.estimators import LinearMetricEstimator
from ejop.executors.threads import computing
from ejop.learners._initialize import STARTS, initialize
from ejop.neighbors import nearest, vote
from ejop.progress import fit_task
from ejop.rows import as_labels, class_numbers


@dataclass
class Learned:
    """What a learner found.

    Attributes
    ----------
    components : ndarray of shape (r, n_features)
    objective : list of float
        One value an iteration.
    converged : bool
    message : str
        Why it stopped.
    """

    components: NDArray
    objective: list[float]
    converged: bool
    message: str


class MetricLearner(LinearMetricEstimator):
    """Base of the learners: subclasses implement ``_learn`` and declare their own parameters."""

    components_in_order = False

    _parameter_constraints: dict = {
        "n_components": [None, Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions(set(STARTS)), "array-like", HasMethods(["fit", "transform"])],
        "init_metric": [None, "array-like"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "validation": [None, Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    @abstractmethod
    def _learn(self, X: NDArray, y: NDArray, random_state: np.random.RandomState) -> Learned:
        """Learn from rows X (n, d), float64, and class numbers y (n,)."""

    @computing
    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike) -> Any:
        """Learn the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class of each row, of any label type.

        Returns
        -------
        self : object
        """
        self._validate_params()
        self._forget()
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        rows, y = validate_data(
            self, X, as_labels(y), dtype=[np.float64, np.float32], ensure_min_samples=2
        )
        labels = self._labels(y)
        self._require_room(*rows.shape)
        with fit_task(self, type(self).__name__, None):
            found = self._learn(
                rows.astype(np.float64), labels, check_random_state(self.random_state)
            )
        self._store(found)
        return self

    def _require_room(self, n: int, d: int) -> None:
        """Refuse so many rows or features before anything is computed, if they would not end."""

    def _labels(self, y: ArrayLike) -> NDArray:
        """Class numbers; settles ``classes_``."""
        self.classes_, labels = class_numbers(y, type(self).__name__)
        return labels

    def _start(self, X: NDArray, y: NDArray, random_state: np.random.RandomState) -> NDArray:
        """The map to start from, by ``init``, ``init_metric`` and ``n_components``."""
        return initialize(
            self.init,
            X,
            y,
            self.n_components,
            init_metric=self.init_metric,
            random_state=random_state.randint(2**31 - 1),
        )

    def _store(self, found: Learned) -> None:
        """All fitted state at once."""
        if not np.isfinite(found.components).all():
            raise FloatingPointError(
                f"{type(self).__name__} diverged ({found.message}); scale the columns of X, for "
                "instance with sklearn.preprocessing.StandardScaler."
            )
        self.n_iter_ = len(found.objective)
        self.objective_ = np.array(found.objective, dtype=np.float64)
        self.converged_, self.message_ = found.converged, found.message
        self._n_features_out = len(found.components)
        self.components_ = found.components
        if not found.converged:
            warnings.warn(
                f"{type(self).__name__} did not converge: {found.message}",
                ConvergenceWarning,
                stacklevel=3 + WRAPPERS,
            )


def knn_error(L: NDArray, X: NDArray, y: NDArray, Q: NDArray, labels: NDArray, k: int) -> float:
    """Share of rows Q whose k nearest rows of X under L vote for another class."""
    D, near = nearest(Q @ L.T, X @ L.T, min(k, len(X)))
    votes = vote(D, near, np.eye(int(y.max()) + 1)[y], weights="uniform", row_weights=None)
    return float(np.mean(votes.winners() != labels))


def split_held_out(
    y: NDArray, share: float, random_state: np.random.RandomState
) -> tuple[NDArray, NDArray]:
    """Rows to learn from and rows that judge, every class in both."""
    counts = np.bincount(y)
    n_held = max(len(counts), round(share * len(y)))
    if counts.min() < 2 or len(y) - n_held < len(counts):
        raise ValueError(
            f"`validation`={share} needs at least two rows of each class, and the smallest has "
            f"{counts.min()}; use validation=None."
        )
    splitter = StratifiedShuffleSplit(1, test_size=n_held, random_state=random_state)
    return next(iter(splitter.split(np.zeros(len(y)), y)))
