"""Large margin nearest neighbours (Weinberger and Saul 2009)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize
from sklearn import get_config

from ejop._sklearn import Interval, StrOptions
from ejop.learners._learner import Learned, MetricLearner, knn_error, split_held_out
from ejop.learners._lmnn_loops import (
    ByClass,
    TripletLists,
    margin_loss,
    merge_lists,
    neighborhoods,
)
from ejop.progress import track
from ejop.sums.plan import format_bytes

#: refreshes whose impostors are remembered, so that those pushed away do not come back unseen
MEMORY = 3
#: refreshes in a row without progress of the objective after which the descent is over
STALLED_STEPS = 2
#: full phases without a lower error after which it is over, since from there on it overfits
ERROR_PATIENCE = 5
#: maps in memory at once: ten steps and slopes of L-BFGS, its scratch, the gradient
MAPS_HELD = 25
#: error of a squared distance, in units of the margin, that ranking by float32 may make
RANK_ERROR = 1e-3


def objective_with_gradient(
    L: NDArray,
    X: NDArray,
    targets: NDArray,
    impostors: NDArray,
    *,
    push: float = 0.5,
    loss: str = "hinge",
) -> tuple[float, NDArray]:
    r"""LMNN's objective for given targets and impostors, and its derivative by L.

    .. math::

        \frac{1}{n} \sum_i \Big[ (1 - \mu) \sum_{j \in T_i} d_{ij}^2
        + \mu \sum_{j \in T_i} \sum_{l \in I_i} \ell(1 + d_{ij}^2 - d_{il}^2) \Big],
        \qquad d_{ij} = |L (x_i - x_j)|

    Parameters
    ----------
    L : ndarray of shape (r, n_features)
    X : ndarray of shape (n_samples, n_features)
    targets : ndarray of int of shape (n_samples, k)
        Rows T_i; -1 is none.
    impostors : ndarray of int of shape (n_samples, m)
        Rows I_i; -1 is none.
    push : float, default=0.5
        The weight mu.
    loss : {"hinge", "squared"}, default="hinge"
        The loss is max(0, .) or its square.

    Returns
    -------
    value : float
    gradient : ndarray of shape (r, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.learners._lmnn import objective_with_gradient
    >>> X = np.array([[0.0], [1.0], [1.0]])
    >>> targets, impostors = np.array([[1], [-1], [-1]]), np.array([[2], [-1], [-1]])
    >>> objective_with_gradient(np.eye(1), X, targets, impostors)
    (0.333..., array([[0.333...]]))
    """
    Z = np.ascontiguousarray(X @ L.T)
    slope = np.zeros_like(Z)
    total = margin_loss(Z, targets, impostors, push, loss == "squared", slope)
    return total / len(X), slope.T @ X / len(X)


def _target_scale(Z: NDArray, near: TripletLists) -> float:
    """Root mean squared distance of targets; that of impostors where all targets coincide."""
    for lists in (near.targets, near.impostors):
        squared = 0.0
        for b in range(lists.shape[1]):
            difference = (Z - Z[lists[:, b]])[lists[:, b] >= 0]
            squared += float(np.einsum("ij,ij->", difference, difference))
        if squared > 0:
            return float(np.sqrt(squared / np.sum(lists >= 0)))
    return 0.0


def _standardise(X: NDArray) -> tuple[NDArray, NDArray]:
    """Columns of mean 0 and deviation 1, and the deviations; constant columns become 0 and keep 1.

    A column is constant if it varies no more than rounding does.
    """
    spread = X.std(0)
    varies = spread > 10 * np.finfo(np.float64).eps * np.abs(X).max(0)
    spread = np.where(varies, spread, 1.0)
    return np.where(varies, (X - X.mean(0)) / spread, 0.0), spread


@dataclass
class Descent:
    """L-BFGS on L in phases; after each the neighbours are looked up again and L is judged.

    Attributes
    ----------
    rows : ByClass
    L : ndarray of shape (r, n_features)
    settings : LMNN
        For its parameters.
    targets : ndarray of shape (n_samples, k) or None
        None: the nearest at each refresh.
    held_out : tuple (X, y) or None
        Rows that judge L; None leaves it to the vote among ``rows``.
    objective : list of float
        Value after each iteration.
    best, best_error, best_at : ndarray, float, int
        L of the lowest error at a refresh, the earliest of equals save the start, and when it was.
    message : str
        Why the descent is over; empty while it is not.
    """

    rows: ByClass
    L: NDArray
    settings: LMNN
    targets: NDArray | None
    held_out: tuple[NDArray, NDArray] | None
    objective: list[float] = field(default_factory=list)
    message: str = ""
    converged: bool = False

    def __post_init__(self) -> None:
        self.best, self.best_error, self.best_at = self.L, np.inf, 0
        self._impostors = np.empty((len(self.rows.X), 0), dtype=np.intp)
        self._look_up()
        self.best_error = np.nextafter(self.best_error, np.inf)  # a tie is won by what is learned
        self._lowest, self._stalled = self.value(self.L.ravel())[0], 0

    def phases(self) -> Iterator[None]:
        """One item a phase until the descent is over."""
        while not self.message:
            yield

    def advance(self) -> None:
        """One phase."""
        done = len(self.objective)
        length = min(self.settings.refresh, max(2, done))  # at first the lists age fastest
        self.L = self._minimize(min(length, self.settings.max_iter - done))
        iterations = len(self.objective) - done
        self._look_up()
        self._finish(iterations)

    def value(self, flat: NDArray) -> tuple[float, NDArray]:
        """Objective and flat gradient for the targets and impostors of this phase."""
        value, gradient = objective_with_gradient(
            flat.reshape(self.L.shape),
            self.rows.X,
            self._targets,
            self._impostors,
            push=self.settings.push,
            loss=self.settings.loss,
        )
        return value, gradient.ravel()

    def _minimize(self, iterations: int) -> NDArray:
        def note(intermediate_result: OptimizeResult) -> None:
            if np.isfinite(intermediate_result.fun):
                self.objective.append(float(intermediate_result.fun))

        # the tolerance is judged over phases, so L-BFGS stops only where no step descends
        found = minimize(
            self.value,
            self.L.ravel(),
            jac=True,
            method="L-BFGS-B",
            callback=note,
            options={"maxiter": iterations, "ftol": 0.0, "gtol": 0.0},
        )
        return found.x.reshape(self.L.shape) if np.isfinite(found.fun) else self.L

    def _look_up(self) -> None:
        """Targets and impostors under L, and whether L is the best so far."""
        k, m = self.settings.n_neighbors, self.settings.n_impostors
        Z = self.rows.X @ self.L.T
        largest = np.einsum("ij,ij->i", Z, Z).max()
        exact = largest * np.finfo(np.float32).eps > RANK_ERROR
        near = neighborhoods(Z, self.rows, k, m, np.float64 if exact else np.float32)
        self._targets = near.targets if self.targets is None else self.targets
        merged = np.empty((len(Z), MEMORY * near.impostors.shape[1]), dtype=np.intp)
        merge_lists(near.impostors, self._impostors, merged)
        self._impostors = merged
        error = near.error
        if self.held_out is not None:
            error = knn_error(self.L, self.rows.X, self.rows.labels, *self.held_out, k)
        if error < self.best_error:
            self.best, self.best_error, self.best_at = self.L, error, len(self.objective)

    def _finish(self, iterations: int) -> None:
        """Settle ``message`` if the descent is over."""
        value = self.value(self.L.ravel())[0]
        self.objective = self.objective or [value]  # not one step: the start is all there is
        goal = self._lowest * (1 - self.settings.tol * iterations)
        self._stalled = 0 if value < goal else self._stalled + 1
        self._lowest = min(self._lowest, value)
        age = len(self.objective) - self.best_at
        if not np.isfinite(value):
            self.message = "the objective is not finite; scale the columns of X"
        elif iterations == 0 or self._stalled >= STALLED_STEPS:
            self.converged, self.message = True, "the objective no longer falls"
        elif age >= ERROR_PATIENCE * self.settings.refresh:
            self.converged, self.message = True, "the error of nearest neighbours no longer falls"
        elif len(self.objective) >= self.settings.max_iter:
            self.message = (
                f"the objective still falls after max_iter={self.settings.max_iter} iterations; "
                "raise max_iter or tol, or scale the columns of X."
            )


class LMNN(MetricLearner):
    r"""Large margin nearest neighbours: a metric in which rows lie nearer to their class mates than
    to rows of other classes, by a margin.

    With :math:`d_{ij} = |L (x_i - x_j)|` the map L minimises

    .. math::

        \frac{1}{n} \sum_i \Big[ (1 - \mu) \sum_{j \in T_i} d_{ij}^2
        + \mu \sum_{j \in T_i} \sum_{l \in I_i} \ell(1 + d_{ij}^2 - d_{il}^2) \Big]

    where the targets T_i are the nearest rows of the class of row i, the impostors I_i the nearest
    rows of other classes, and the loss is :math:`\ell(t) = \max(0, t)` or its square. The start is
    scaled so that targets lie at a mean squared distance of 1, the margin. L-BFGS works on L in
    phases with the impostors fixed; after each they are looked up again, and the error of nearest
    neighbours under L is taken. The descent is over when the objective or that error no longer
    falls, and the map of the lowest error is kept: the start if none is as good.

    Parameters
    ----------
    n_neighbors : int, default=3
        Targets of each row. A class of fewer than ``n_neighbors`` + 1 rows gives as many as it
        has, and a class of one row none.
    n_components : int or None, default=None
        Rows of ``components_``; None takes what ``init`` gives.
    init : {"identity", "pca", "lda", "ejop"}, array-like or estimator, default="identity"
        Where to start; see :func:`ejop.initialize`.
    init_metric : array-like of shape (n_features, n_features), optional
        Start from this matrix M = L^T L instead.
    pull : float in [0, 1], "auto" or None, default=None
        Learn from the identity instead, and mix the result with the start:
        :class:`~ejop.learners.MetricLearner`, which has ``pull_``, ``init_`` and ``pull_errors_``.
    targets : {"current", "init", "input"}, default="current"
        The metric in which the targets are nearest: the learned one, looked up again after each
        phase; the start; or plain distance in X. The first two make use of a good start, and so
        ``init="ejop"`` means its metric and its neighbours. Fixed targets ("init", "input")
        sometimes do better with many features and few rows.
    push : float, default=0.5
        Weight mu of the margins, between 0 and 1.
    loss : {"hinge", "squared"}, default="hinge"
        Loss of a margin that is not kept.
    n_impostors : int, default=10
        Impostors looked up for each row; those of the last refreshes stay in use.
    refresh : int, default=10
        Iterations of a phase; the first few are shorter, since impostors change most at first.
    max_iter : int, default=500
        The most iterations in all.
    tol : float, default=1e-3
        Stop when two phases in a row lower the objective by less than this share an iteration.
    validation : float or None, default=None
        Share of rows that are held out and whose error judges the maps. None takes the training
        rows, each left out of its own vote.
    random_state : int, RandomState instance or None, default=None
        For ``init`` and ``validation``.
    verbose : int, default=0
        Progress on stderr.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map L.
    objective_ : ndarray of shape (n_iter_,)
        Objective after each iteration, for the targets and impostors of its phase: it never
        rises within a phase, and may rise from one phase to the next where new impostors came in.
    n_iter_ : int
    converged_ : bool
    message_ : str
        Why it stopped.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If X had string column names.

    References
    ----------
    K. Q. Weinberger and L. K. Saul. Distance metric learning for large margin nearest neighbor
    classification. Journal of Machine Learning Research 10, 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from ejop.learners import LMNN
    >>> X, y = load_iris(return_X_y=True)
    >>> lmnn = LMNN(n_components=2).fit(X[::2], y[::2])
    >>> lmnn.transform(X).shape
    (150, 2)
    >>> knn = KNeighborsClassifier(3).fit(lmnn.transform(X[::2]), y[::2])
    >>> knn.score(lmnn.transform(X[1::2]), y[1::2]) > 0.95
    True
    """

    _parameter_constraints: dict = {
        **MetricLearner._parameter_constraints,
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "targets": [StrOptions({"current", "init", "input"})],
        "push": [Interval(Real, 0, 1, closed="both")],
        "loss": [StrOptions({"hinge", "squared"})],
        "n_impostors": [Interval(Integral, 1, None, closed="left")],
        "refresh": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_neighbors: int = 3,
        *,
        n_components: int | None = None,
        init: Any = "identity",
        init_metric: Any = None,
        pull: float | str | None = None,
        targets: str = "current",
        push: float = 0.5,
        loss: str = "hinge",
        n_impostors: int = 10,
        refresh: int = 10,
        max_iter: int = 500,
        tol: float = 1e-3,
        validation: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_components = n_components
        self.init = init
        self.init_metric = init_metric
        self.pull = pull
        self.targets = targets
        self.push = push
        self.loss = loss
        self.n_impostors = n_impostors
        self.refresh = refresh
        self.max_iter = max_iter
        self.tol = tol
        self.validation = validation
        self.random_state = random_state
        self.verbose = verbose

    def _require_room(self, n: int, d: int) -> None:
        needed = MAPS_HELD * 8 * d * (d if self.n_components is None else self.n_components)
        limit = get_config()["working_memory"] * 2**20
        if needed > limit:
            raise MemoryError(
                f"LMNN on {d} features with `n_components`={self.n_components} needs about "
                f"{format_bytes(needed)} for its map and the steps that L-BFGS remembers, beyond "
                f"the {format_bytes(limit)} of sklearn.set_config(working_memory=...); set "
                "`n_components`, or reduce the columns first, for instance with PCA."
            )

    def _learn(self, X: NDArray, y: NDArray, random_state: np.random.RandomState) -> Learned:
        if np.bincount(y).max() < 2:
            raise ValueError(
                f"`y` has {len(y)} rows of as many classes, and a row needs another of its class "
                "as target; pass a class with two rows or more."
            )
        start = self._start(X, y, random_state)
        # L-BFGS sees columns of equal spread whatever their units; the metric stays the same
        scaled, spread = _standardise(X)
        held_out = None
        if self.validation is not None:
            learn, judge = split_held_out(y, self.validation, random_state)
            held_out = scaled[judge], y[judge]
            scaled, y = scaled[learn], y[learn]
        descent = self._descent(ByClass.of(scaled, y), start * spread, spread, held_out)
        if descent is None:
            return Learned(start, [0.0], True, "rows do not differ under the start, which is kept")
        first = descent.L
        total = -(-self.max_iter // self.refresh)
        for _ in track(descent.phases(), total, self, type(self).__name__, self.verbose):
            descent.advance()
        if descent.best is first:
            message = f"no map has a lower error than the start, which is kept; {descent.message}"
            return Learned(start, descent.objective, descent.converged, message, 0)
        return Learned(
            descent.best / spread,
            descent.objective,
            descent.converged,
            descent.message,
            descent.best_at,
        )

    def _descent(
        self, rows: ByClass, L: NDArray, spread: NDArray, held_out: tuple[NDArray, NDArray] | None
    ) -> Descent | None:
        """The descent from L scaled to the margin; None if L takes all rows to one point."""
        Z = rows.X @ L.T
        near = neighborhoods(
            rows.X * spread if self.targets == "input" else Z,
            rows,
            self.n_neighbors,
            self.n_impostors,
        )
        scale = _target_scale(Z, near)
        if not scale > 0:
            return None
        targets = None if self.targets == "current" else near.targets
        return Descent(rows, L / scale, self, targets, held_out)
