"""What the metric learners share: validate, start, learn, store."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from copy import deepcopy
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ejop._sklearn import WRAPPERS, HasMethods, Interval, StrOptions, with_callbacks
from ejop.estimators import LinearMetricEstimator
from ejop.executors.threads import computing
from ejop.learners._initialize import STARTS, cut, initialize, initialize_each
from ejop.learners._pull import USUAL_SHARE, Pull, PullTable, between, compact, folds, several
from ejop.neighbors import nearest, vote
from ejop.progress import fit_task, track
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
    best_at : int or None
        Iteration of the map that is returned, 0 for the start, where the best of several is.
    """

    components: NDArray
    objective: list[float]
    converged: bool
    message: str
    best_at: int | None = None


class MetricLearner(LinearMetricEstimator):
    """Base of the learners: subclasses implement ``_learn`` and declare their own parameters.

    Those that have a start, LMNN, ITML and MLR, share ``pull``.

    Parameters
    ----------
    pull : float in [0, 1], "auto" or None, default=None
        None sets out from the start. Otherwise the learner sets out from the identity, and the
        metric that is returned lies between what is learned there and the start, both with the same
        mean squared distance of the rows. A number is the share of the start; "auto" chooses one of
        seven from 0 (the learner alone) to 1 (the start alone) by rows of folds that neither has
        seen: the smallest within one standard error of the lowest error. ``init`` may then be a
        list of starts, of which the best is taken. ``n_components`` cuts what is returned.

    Attributes
    ----------
    pull_ : float
        Share of the start in the metric, where ``pull`` was given; with 1 nothing is learned, and
        ``n_iter_`` is 0.
    init_ : object
        The start that was taken.
    pull_errors_ : dict
        With "auto", error on held-out rows by number of the start and its share.
    """

    components_in_order = False

    _parameter_constraints: dict = {
        "n_components": [None, Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions(set(STARTS)), "array-like", HasMethods(["fit", "transform"])],
        "init_metric": [None, "array-like"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "validation": [None, Interval(Real, 0, 1, closed="neither")],
        "pull": [None, StrOptions({"auto"}), Interval(Real, 0, 1, closed="both")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    #: settings, by attribute, that a learner chooses for itself
    _settled: tuple[str, ...] = ()

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
            found = self._find(
                rows.astype(np.float64), labels, check_random_state(self.random_state)
            )
        self._store(found)
        return self

    def _forget(self) -> None:
        """Drop all that an earlier fit found: what is told depends on the settings."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def _find(self, X: NDArray, y: NDArray, random_state: np.random.RandomState) -> Learned:
        """What is learned from the start or, with ``pull``, what lies between the two."""
        inits = several(self.init)
        if len(inits) > 1 and self.pull != "auto":
            raise ValueError(
                f"`init` names {len(inits)} starts and `pull`={self.pull!r}; with pull='auto' "
                "held-out rows choose one, else pass one."
            )
        if self.pull is None:
            return self._learn(X, y, random_state)
        drawn = deepcopy(random_state)  # the learner alone draws what it would without a pull
        own = clone(self).set_params(
            pull=None, init="identity", init_metric=None, n_components=None, verbose=self.verbose
        )
        pull = Pull(0, self.pull)
        seed = random_state.randint(2**31 - 1)
        if self.pull == "auto":
            pull, settled = self._choose_pull(own, inits, X, y, random_state, seed)
            if pull.share > 0:
                own.set_params(**settled)
        self.pull_ = float(pull.share)
        self.init_ = inits[pull.start] if self.init_metric is None else self.init_metric
        start = self._starts(inits[pull.start : pull.start + 1], X, y, seed)[0]
        found = self._mixed(own, start, X, y, drawn)
        found.components = cut(found.components, self.n_components, "init")
        return found

    def _mixed(
        self,
        own: MetricLearner,
        start: NDArray,
        X: NDArray,
        y: NDArray,
        random_state: np.random.RandomState,
    ) -> Learned:
        """The metric between the start and what the learner proper finds, at ``pull_``."""
        if self.pull_ == 1:
            return Learned(start, [], True, "the start alone is returned: nothing was learned")
        found = own._learn(X, y, random_state)
        self._tell(own)
        if self.max_iter > own.max_iter <= len(found.objective):
            found.converged = True
            found.message = f"{own.max_iter} iterations, as many as did best in half of the folds"
        if self.pull_ > 0:
            L = between(found.components, start, X, self.pull_)[0]
            found.components = compact(L) if L.any() else start
            found.message += f"; the start has {100 * self.pull_:.0f} % of the metric"
        return found

    def _choose_pull(
        self,
        own: MetricLearner,
        inits: list[Any],
        X: NDArray,
        y: NDArray,
        random_state: np.random.RandomState,
        seed: int,
    ) -> tuple[Pull, dict[str, Any]]:
        """The start and its share that rows of folds prefer, which neither has seen, and settings
        for the learner.

        What it chooses for itself (gamma, C) is chosen by the rows of the first fold alone, and it
        goes as many iterations as did best in half of the folds.
        """
        table, settled, lengths = PullTable({}), dict[str, Any](), list[int]()
        parts, own = folds(X, y, random_state), clone(own).set_params(verbose=0)
        name = f"{type(self).__name__}, pull"
        for seen, held in track(parts, len(parts), self, name, self.verbose):
            starts = self._starts(inits, X[seen], y[seen], seed)
            labels = np.unique(y[seen], return_inverse=True)[1]
            learned = own._learn(X[seen], labels, np.random.RandomState(seed))
            table.add(learned.components, starts, (X[seen], y[seen]), (X[held], y[held]))
            settled = {name[:-1]: getattr(own, name) for name in self._settled}
            own.set_params(**settled)
            self._tell(own)
            lengths += [] if learned.best_at is None else [learned.best_at]
        self.pull_errors_ = table.errors()
        if not table.found:
            return Pull(0, USUAL_SHARE), {}
        if lengths:
            settled["max_iter"] = max(1, int(np.median(lengths)))
        return table.best(), settled

    def _starts(self, inits: list[Any], X: NDArray, y: NDArray, seed: int) -> list[NDArray]:
        return initialize_each(inits, X, y, init_metric=self.init_metric, random_state=seed)

    def _tell(self, own: MetricLearner) -> None:
        """Take over what the learner proper tells of itself."""
        for name, value in vars(own).items():
            if name.endswith("_"):
                setattr(self, name, value)

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
