"""ITML: the metric closest to a prior that keeps classes apart (Davis et al. 2007)."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop._sklearn import Interval, StrOptions
from ejop.learners._initialize import initialize
from ejop.learners._learner import Learned, MetricLearner, knn_error, split_held_out
from ejop.learners._logdet import Problem, State, pose, prior_root
from ejop.metric import rank
from ejop.progress import track

#: slack weights tried by ``gamma="auto"``, smallest first
GAMMAS = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0, 10.0)
#: the slack weight where no rows can be held out to choose one
USUAL_GAMMA = 1e-2
#: pairs of each kind: this many for each pair of classes, within the limits
PAIRS_PER_CLASSES, FEWEST_PAIRS, MOST_PAIRS = 20, 200, 20_000
#: features beyond which factors of matrices of them take hours
MOST_FEATURES = 2_500
#: the choice of gamma repeats its split until so many rows have been held out, three times at most
ENOUGH_HELD_OUT, MOST_SPLITS = 1_000, 3
#: passes after which a gamma is judged, and neighbours that vote
JUDGED_PASSES, VOTERS = 10, 5


class ITML(MetricLearner):
    r"""Information-theoretic metric learning.

    The metric closest to a prior :math:`M_0` that brings pairs of one class within a bound and
    takes pairs of two classes beyond another:

    .. math::
        \min_{M \succ 0,\, \xi > 0}\; D(M, M_0) + \gamma \sum_k D(\xi_k, \xi^0_k)
        \quad \text{s.t.} \quad
        v_k^T M v_k \le \xi_k \;\; \text{(same class)}, \qquad
        v_k^T M v_k \ge \xi_k \;\; \text{(two classes)}

    with the LogDet divergence :math:`D(M, M_0) = \mathrm{tr}(M M_0^{-1}) - \log\det(M M_0^{-1}) -
    d`, differences :math:`v_k` of sampled pairs, and :math:`\xi^0_k` a low percentile of the
    squared distances under :math:`M_0` for pairs of one class, a high one for pairs of two.
    Solved by cyclic Bregman projections [1]_, one rank-one update a pair.

    Parameters
    ----------
    n_components : int or None, default=None
        Rows of ``components_``: the learned metric is cut to the best one of this rank. None keeps
        all n_features.
    init : {"identity", "pca", "lda", "ejop"}, array-like or estimator, default="identity"
        Start L of shape (r, n_features), see :func:`ejop.initialize`, that gives the prior
        :math:`M_0 = (1 - a) s L^T L + a I` with a = ``prior_mix`` and s such that both terms have
        the same mean squared distance of the rows.
    init_metric : array-like of shape (n_features, n_features), optional
        L^T L itself instead of ``init``.
    pull : float in [0, 1], "auto" or None, default=None
        Learn from the identity instead, and mix the result with the start:
        :class:`~ejop.learners.MetricLearner`, which has ``pull_``, ``init_`` and ``pull_errors_``.
    prior_mix : float in [0, 1], default=0.1
        Share of the identity in the prior, which must be positive definite; it leaves the identity
        as it is. 0 takes the start alone and needs one of full rank.
    gamma : float or "auto", default="auto"
        Weight of the slack: 0 is the prior itself, a large one enforces every pair. "auto" takes
        the best of seven from 0.001 to 10, from below until three in a row are worse, by the
        error of five neighbours on held-out rows after ten passes or fewer, and then learns from
        all rows; the prior is returned where it does better than all of them. A start that is
        already fitted has seen the held-out rows, all others are fitted anew without them.
    n_constraints : int or "auto", default="auto"
        Pairs of each kind. "auto": 20 for each ordered pair of classes, 200 to 20,000. Pairs are
        spread evenly over classes; those drawn twice or of length zero are dropped.
    percentiles : pair of float, default=(5, 95)
        Percentiles of squared distances under the prior that bound pairs of one and of two
        classes.
    max_iter : int, default=100
        Most passes over the pairs.
    tol : float, default=0.01
        A pass that changes the multipliers by less than this, relative to their sum, is the last.
    validation : float in (0, 1) or None, default=0.2
        Share of rows held out to choose gamma, up to three times where they are few. None uses
        gamma = 0.01 without a choice, and so does data too small to hold out a row of each class.
    random_state : int, RandomState instance or None, default=None
        For pairs and held-out rows.
    verbose : int, default=0
        Progress on stderr.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L with L^T L = M, largest eigenvalue first.
    prior_ : ndarray of shape (n_features, n_features)
    gamma_ : float
        0 where the prior was best.
    gamma_errors_ : dict
        Error on held-out rows of each gamma tried, the prior as 0; empty without a choice.
    bounds_ : tuple of float
        The two bounds on squared distances.
    n_constraints_ : int
        Pairs of both kinds that were used.
    objective_ : ndarray of shape (n_iter_,)
        Dual value after each pass, :math:`-\log\det(M M_0^{-1}) - \gamma \sum_k \log(\xi_k /
        \xi^0_k)`: a lower bound that rises to the minimum of the problem.
    n_iter_ : int
    converged_ : bool
    message_ : str
    classes_ : ndarray of shape (n_classes,)

    References
    ----------
    .. [1] Davis, Kulis, Jain, Sra and Dhillon, "Information-theoretic metric learning", ICML 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from ejop.learners import ITML
    >>> X, y = load_iris(return_X_y=True)
    >>> itml = ITML(random_state=0).fit(X[::2], y[::2])
    >>> itml.components_.shape, itml.converged_
    ((4, 4), True)
    >>> model = make_pipeline(itml, KNeighborsClassifier()).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.94)
    True
    """

    _parameter_constraints: dict = {
        **MetricLearner._parameter_constraints,
        "prior_mix": [Interval(Real, 0, 1, closed="both")],
        "gamma": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "n_constraints": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "percentiles": ["array-like"],
    }
    _settled = ("gamma_",)

    def __init__(
        self,
        n_components: int | None = None,
        *,
        init: Any = "identity",
        init_metric: ArrayLike | None = None,
        pull: float | str | None = None,
        prior_mix: float = 0.1,
        gamma: float | str = "auto",
        n_constraints: int | str = "auto",
        percentiles: tuple[float, float] = (5, 95),
        max_iter: int = 100,
        tol: float = 0.01,
        validation: float | None = 0.2,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.init_metric = init_metric
        self.pull = pull
        self.prior_mix = prior_mix
        self.gamma = gamma
        self.n_constraints = n_constraints
        self.percentiles = percentiles
        self.max_iter = max_iter
        self.tol = tol
        self.validation = validation
        self.random_state = random_state
        self.verbose = verbose

    def _require_room(self, n: int, d: int) -> None:
        if d > MOST_FEATURES:
            raise MemoryError(
                f"ITML factorises matrices of {d} x {d} numbers some sixty times, which takes "
                f"hours; reduce the columns to {MOST_FEATURES} or fewer first, for instance with "
                "PCA, which loses nothing of the rows down to as many columns as there are rows."
            )

    def _learn(self, X: NDArray, y: NDArray, random_state: np.random.RandomState) -> Learned:
        rank(np.ones(X.shape[1]), self.n_components)  # refuses one that is too large
        seed = random_state.randint(2**31 - 1)
        self.gamma_, self.gamma_errors_ = self._choose_gamma(X, y, random_state)
        problem = self._pose(X, y, np.random.RandomState(seed))
        self.prior_ = problem.root.T @ problem.root
        self.bounds_, self.n_constraints_ = problem.bounds, len(problem.V)
        if self.gamma_ == 0:
            why = "gamma=0 leaves"
            if self.gamma_errors_:
                why = "no gamma did better on held-out rows than"
            message = f"{why} the prior, which is returned"
            return Learned(problem.components(None, self.n_components), [0.0], True, message)

        def shown(passes: Iterator[State]) -> Iterator[State]:
            return track(passes, self.max_iter, self, type(self).__name__, self.verbose)

        A, objective, change = problem.solve(self.gamma_, self.max_iter, self.tol, shown)
        message = (
            f"multipliers changed by {change:.2g} of their sum in pass {len(objective)}, "
            f"`tol`={self.tol:.2g}"
        )
        found = problem.components(A, self.n_components)
        return Learned(found, objective, change <= self.tol, message)

    def _pose(self, X: NDArray, y: NDArray, random_state: np.random.RandomState) -> Problem:
        """The problem that rows X and classes y give."""
        L = initialize(
            self.init,
            X,
            y,
            init_metric=self.init_metric,
            random_state=random_state.randint(2**31 - 1),
        )
        n_classes = len(np.unique(y))
        n_each = self.n_constraints
        if isinstance(n_each, str):
            n_each = int(np.clip(PAIRS_PER_CLASSES * n_classes**2, FEWEST_PAIRS, MOST_PAIRS))
        root = prior_root(L, X, self.prior_mix)
        return pose(X, y, root, n_each, self.percentiles, random_state)

    def _choose_gamma(
        self, X: NDArray, y: NDArray, random_state: np.random.RandomState
    ) -> tuple[float, dict[float, float]]:
        """The slack weight and the held-out error of each that was tried."""
        if not isinstance(self.gamma, str):
            return float(self.gamma), {}
        splits = held_out_splits(y, self.validation, random_state)
        if not splits:
            return USUAL_GAMMA, {}
        seed = random_state.randint(2**31 - 1)
        problems = [self._pose(X[a], y[a], np.random.RandomState(seed)) for a, _ in splits]

        def error(gamma: float) -> float:
            errors = []
            for problem, (a, b) in zip(problems, splits, strict=True):
                passes = min(self.max_iter, JUDGED_PASSES)
                A = problem.solve(gamma, passes, self.tol)[0] if gamma else None
                L = problem.components(A, self.n_components)
                errors.append(knn_error(L, X[a], y[a], X[b], y[b], VOTERS))
            return round(float(np.mean(errors)), 12)  # equal ones compare equal

        errors: dict[float, float] = {}
        for gamma in GAMMAS:
            errors[gamma] = error(gamma)
            worse = [e > min(errors.values()) for e in errors.values()]
            if len(worse) > 3 and all(worse[-3:]):
                break
        best = min(errors, key=errors.__getitem__)
        errors[0.0] = error(0.0)
        return (0.0 if errors[0.0] < errors[best] else best), errors


def held_out_splits(
    y: NDArray, share: float | None, random_state: np.random.RandomState
) -> list[tuple[NDArray, NDArray]]:
    """Rows to learn from and rows that judge, several times where few judge; none if too few.

    A row that is alone in its class is always learned from.
    """
    counts = np.bincount(y)
    alone = np.flatnonzero(counts[y] == 1)
    rest = np.flatnonzero(counts[y] > 1)
    if share is None or not len(rest):
        return []
    labels = np.unique(y[rest], return_inverse=True)[1]
    n_held = max(labels.max() + 1, round(share * len(rest)))
    if len(rest) - n_held < labels.max() + 1:
        return []
    n_splits = int(np.clip(-(-ENOUGH_HELD_OUT // n_held), 1, MOST_SPLITS))
    splits = [split_held_out(labels, share, random_state) for _ in range(n_splits)]
    return [(np.concatenate([rest[a], alone]), rest[b]) for a, b in splits]
