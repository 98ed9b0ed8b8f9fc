"""Metric learning to rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop._sklearn import Interval, StrOptions
from ejop.learners._cutting_planes import Round, cutting_planes
from ejop.learners._learner import Learned, MetricLearner, split_held_out
from ejop.learners._rankings import LOSSES, mean_constraint
from ejop.metric import eigh_descending
from ejop.neighbors import nearest, vote
from ejop.progress import track

#: trade-offs tried by ``C="auto"``, from the one nearest to the start
GRID = tuple(10.0**e for e in range(-2, 7))
#: neighbours that vote on held-out rows
JUDGE_NEIGHBORS = 5
#: rounds without a better W on held-out rows before a run stops
STALLED_ROUNDS = 15
#: share of the risk of W = 0 that a solution must take off, or it is trivial
TRIVIAL = 1e-3
#: eigenvalue of W, relative to the largest, that counts as zero
ZERO = 1e-10
#: singular value of the rows, relative to the largest, below which they span nothing
SPAN = 1e-8

#: from L to (error, share of votes for other classes) on held-out rows
Judge = Callable[[NDArray], tuple[float, float]]


@dataclass
class TradeOff:
    """What the cutting planes did for one C."""

    C: float
    objective: list[float] = field(default_factory=list)
    gap: list[float] = field(default_factory=list)
    last: Round | None = None
    best: NDArray | None = None  # map that did best on held-out rows
    merit: tuple[float, float] = (np.inf, np.inf)
    best_round: int = 0
    stopped: bool = False

    def trivial(self, risk_of_zero: float) -> bool:
        """Whether the last W does no better than W = 0."""
        return self.last is None or self.last.risk >= (1 - TRIVIAL) * risk_of_zero


class MLR(MetricLearner):
    r"""Metric learning to rank: rows of a query's own class come before all others.

    Each row q of a sample of queries ranks the others by distance. With P the rows of its class, N
    the rest, :math:`\phi(q, i) = -(x_q - x_i)(x_q - x_i)^T` and :math:`z_{ij} = \pm 1` as i comes
    before j or after it in the ranking r,

    .. math:: \psi(q, r) = \frac{1}{|P||N|} \sum_{i \in P, j \in N} z_{ij} (\phi(q,i) - \phi(q,j))

    .. math:: \min_{W \succeq 0, \xi \ge 0} \frac{tr(W)}{d} + C \xi \quad \text{s.t.} \quad
        \frac1m \sum_q \langle W, \psi(q, r_q^*) - \psi(q, r_q) \rangle \ge
        \frac1m \sum_q loss(r_q) - \xi \quad \text{for all rankings } r_q,

    :math:`r_q^*` ideal. The problem is convex and forgets where it started, so the start acts
    otherwise: W is learned in the space of the start L_0, scaled to unit variance in the mean, so
    that the trace pulls towards its metric, W begins at the best multiple of the identity there,
    moves gradually (:mod:`ejop.learners._cutting_planes`), and the W on the way that does best on
    held-out rows is kept. The metric is L_0^T W L_0.

    The optimum itself can be a poor metric. With "precision", "mrr" or a cut "ndcg" on classes
    that overlap, W = 0 is optimal; ``message_`` says when the solution was trivial, and the start,
    or an earlier W that did better on held-out rows, is what remains.

    Parameters
    ----------
    loss : {"map", "auc", "precision", "mrr", "ndcg"}, default="map"
        Loss of a ranking: 1 less the mean average precision, area under the ROC curve, precision
        of the first k, reciprocal place of the first relevant row or normalised discounted
        cumulative gain.
    C : float or "auto", default="auto"
        Weight of the loss against the trace. "auto": the best on held-out rows of 0.01, 0.1, ...,
        1e6, up to the first for which the trace hardly counts, since larger ones act alike. The
        fit is then the same as with that C.
    k : int or None, default=None
        Places that count for "precision" and "ndcg"; the others use all. None: the number of
        relevant rows for "precision", all for "ndcg".
    n_components : int or None, default=None
        Rows of the map. None: the rank of the metric.
    init : {"identity", "pca", "lda", "ejop"}, array-like of shape (r, n_features) or estimator, \
            default="identity"
        The start L_0; see :func:`ejop.initialize`.
    init_metric : array-like of shape (n_features, n_features), optional
        L_0^T L_0 instead.
    pull : float in [0, 1], "auto" or None, default=None
        Learn from the identity instead, and mix the result with the start:
        :class:`~ejop.learners.MetricLearner`, which has ``pull_``, ``init_`` and ``pull_errors_``.
    n_queries : int or None, default=500
        Rows drawn, once, to act as queries; each ranks all rows. None takes all. A class with one
        row has nothing relevant to it: no query, but ranked.
    max_iter : int, default=100
        Rounds of cutting planes at the most, for each C.
    tol : float, default=1e-3
        Stop once the gap is at most ``tol`` C, that is once no constraint is violated by more than
        ``tol`` beyond the slack.
    validation : float in (0, 1) or None, default=0.2
        Share of the rows held out to keep the best W by their 5-NN error, never one worse than the
        start, to stop after 15 rounds without a better one, and to choose C. None: the last W.
    random_state : int, RandomState instance or None, default=None
        Draws held-out rows and queries.
    verbose : int, default=0
        Progress on the standard error stream.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_out, n_features)
        L; the learned distance is |L (a - b)|.
    objective_ : ndarray of shape (n_iter_,)
        tr(W) / d + C xi after each round, of the C chosen; it never rises.
    gap_ : ndarray of shape (n_iter_,)
        How far ``objective_`` is from the optimum at the most, among W of trace up to ten times the
        largest tried.
    C_ : float
    held_out_error_ : float or None
        5-NN error of held-out rows with what was kept.
    n_iter_ : int
    converged_ : bool
        The gap closed, or held-out rows stopped the fit.
    message_ : str
        Why it stopped, and what was kept.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    See Also
    --------
    ejop.EJOP : A metric without an optimiser, and a start.

    References
    ----------
    B. McFee and G. Lanckriet, "Metric Learning to Rank", ICML 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ejop.learners import MLR
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = MLR(C=100, random_state=0).fit(X, y)
    >>> bool(learner.objective_[-1] < learner.objective_[0])
    True
    >>> M = learner.get_mahalanobis_matrix()
    >>> bool(M[2:, 2:].trace() > M[:2, :2].trace())  # the petals decide
    True
    """

    _parameter_constraints: dict = {
        **MetricLearner._parameter_constraints,
        "loss": [StrOptions(set(LOSSES))],
        "C": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "k": [None, Interval(Integral, 1, None, closed="left")],
        "n_queries": [None, Interval(Integral, 1, None, closed="left")],
    }
    _settled = ("C_",)

    def __init__(
        self,
        loss: str = "map",
        *,
        C: float | str = "auto",
        k: int | None = None,
        n_components: int | None = None,
        init: Any = "identity",
        init_metric: ArrayLike | None = None,
        pull: float | str | None = None,
        n_queries: int | None = 500,
        max_iter: int = 100,
        tol: float = 1e-3,
        validation: float | None = 0.2,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.C = C
        self.k = k
        self.n_components = n_components
        self.init = init
        self.init_metric = init_metric
        self.pull = pull
        self.n_queries = n_queries
        self.max_iter = max_iter
        self.tol = tol
        self.validation = validation
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, X: NDArray, y: NDArray, random_state: np.random.RandomState) -> Learned:
        if self.C == "auto" and self.validation is None:
            raise ValueError(
                "`C`='auto' is chosen on held-out rows and `validation` is None; pass a number "
                "for `C`, or a share such as validation=0.2."
            )
        X = np.ascontiguousarray(X)  # products round by layout, and a data frame has another
        seed = random_state.randint(2**31 - 1)
        learn, held = self._held_out(y, random_state)
        # a start that has seen the held-out rows would look better on them than it is
        start = self._start(X[learn], y[learn], np.random.RandomState(seed))
        to_space = _unit_space(X, start)
        queries = self._queries(y[learn], random_state)
        self.C_, self.gap_ = self.C, np.empty(0)
        self.held_out_error_: float | None = None
        if not len(to_space) or not len(queries):
            why = (
                "no class has two rows"
                if len(to_space)
                else "all rows are equal in the space of the start"
            )
            return Learned(start, [], True, f"{why}, so nothing can be learned: the start is kept")
        space = (X - X.mean(0)) @ to_space.T
        judge = None if held is None else _judge(space[learn], y[learn], space[held], y[held])
        runs, risk_of_zero = self._runs(space[learn], y[learn], queries, judge)
        run = min(runs, key=lambda run: run.merit)
        if held is not None:
            # where it is kept after all, the start of all rows
            start = self._start(X, y, np.random.RandomState(seed))
        return self._finish(run, start, to_space, risk_of_zero, judge)

    def _held_out(
        self, y: NDArray, random_state: np.random.RandomState
    ) -> tuple[NDArray, NDArray | None]:
        """Rows that learn and rows that judge; the only row of a class learns."""
        alone = np.bincount(y)[y] == 1
        if self.validation is None or alone.all():
            return np.arange(len(y)), None
        rest = np.flatnonzero(~alone)
        labels = np.unique(y[rest], return_inverse=True)[1]
        learn, held = split_held_out(labels, self.validation, random_state)
        return np.sort(np.append(rest[learn], np.flatnonzero(alone))), np.sort(rest[held])

    def _queries(self, y: NDArray, random_state: np.random.RandomState) -> NDArray:
        able = np.flatnonzero(np.bincount(y)[y] > 1)
        if self.n_queries is None or len(able) <= self.n_queries:
            return able
        return np.sort(random_state.choice(able, self.n_queries, replace=False))

    def _runs(
        self, rows: NDArray, y: NDArray, queries: NDArray, judge: Judge | None
    ) -> tuple[list[TradeOff], float]:
        """A run for each C that is worth one, and the risk of W = 0."""
        loss, d = LOSSES[self.loss], rows.shape[1]

        def oracle(W: NDArray) -> tuple[NDArray, float]:
            return mean_constraint(W, rows, y, queries, loss, self.k)

        risk_of_zero = oracle(np.zeros((d, d)))[1]
        runs = []
        for C in GRID if self.C == "auto" else (float(self.C),):
            price = 1 / (C * d)
            rounds = cutting_planes(oracle, d, price, max_iter=self.max_iter, tol=self.tol)
            run = TradeOff(C)
            name = f"MLR, C={C:g}"
            for _ in track(_watch(rounds, run, judge), self.max_iter, self, name, self.verbose):
                pass
            runs.append(run)
            assert run.last is not None
            cheap = price * np.trace(run.last.W) <= self.tol * run.last.value
            if cheap and not run.trivial(risk_of_zero):
                break  # the trace hardly counts any more: a larger C would act alike
        return runs, risk_of_zero

    def _finish(
        self,
        run: TradeOff,
        start: NDArray,
        to_space: NDArray,
        risk_of_zero: float,
        judge: Judge | None,
    ) -> Learned:
        """Choose between the start and what the run kept, and say why."""
        self.C_, self.gap_ = run.C, np.array(run.gap)
        n_iter, trivial = len(run.objective), run.trivial(risk_of_zero)
        converged = run.stopped or run.gap[-1] <= self.tol * run.C
        why = f"gap {run.gap[-1]:.3g} after {n_iter} rounds"
        if run.stopped:
            why = f"no better on held-out rows for {STALLED_ROUNDS} rounds, " + why
        elif not converged:
            why = f"`max_iter` reached, {why}; raise `max_iter` or `tol`"
        if trivial:
            why = f"the solution is trivial: W does no better than 0 at C={run.C:g}; {why}"
        L = run.best
        if judge is not None:
            at_start = judge(np.eye(to_space.shape[0]))
            self.held_out_error_ = min(at_start, run.merit)[0]
            kept = run.merit < at_start
            why += f"; W of round {run.best_round} is kept" if kept else ""
        else:
            kept = not trivial
            converged &= not trivial
        if not kept or L is None:
            why += "; no W did better than the start, which is kept"
            return Learned(start, run.objective, converged, why, 0)
        L = self._sized(L @ to_space)
        return Learned(L, run.objective, converged, why, run.best_round)

    def _sized(self, L: NDArray) -> NDArray:
        """L with as many rows as were asked for; a metric of lower rank has rows of zeros."""
        missing = 0 if self.n_components is None else max(0, self.n_components - len(L))
        return np.vstack([L, np.zeros((missing, L.shape[1]))])


def _watch(rounds: Iterator[Round], run: TradeOff, judge: Judge | None) -> Iterator[None]:
    """Write the rounds down, and end them when held-out rows no longer gain."""
    for number, state in enumerate(rounds, 1):
        run.objective.append(run.C * state.value)
        run.gap.append(run.C * state.gap)
        run.last = state
        if state.moved or number == 1:
            L = _root(state.W)
            merit = judge(L) if judge is not None and len(L) else (np.inf, np.inf)
            if judge is None or merit < run.merit:
                run.best, run.merit, run.best_round = L, merit, number
        yield
        if judge is not None and number - run.best_round >= STALLED_ROUNDS:
            run.stopped = True
            return


def _unit_space(X: NDArray, start: NDArray) -> NDArray:
    """Map (r, n_features) to where W is learned: the space of the start, of unit mean variance.

    With no more rows than dimensions, it is the span of the rows: off it no constraint looks, and
    the trace makes W zero. All rows span it, not those that learn alone, or else rows held out
    would be shortened and look nearer than they are. No row at all, r = 0, if all are equal.
    """
    rows = X - X.mean(0)
    size, unit = np.abs(rows).max(), start / np.abs(start).max()
    rows = (rows / size if size > 0 else rows) @ unit.T  # squares of extreme values overflow
    if not rows.any():
        return np.empty((0, X.shape[1]))
    if rows.shape[1] >= len(rows):
        _, s, Vt = np.linalg.svd(rows, full_matrices=False)
        Vt = Vt[s > SPAN * s[0]]
        rows, unit = rows @ Vt.T, Vt @ unit
    return unit / np.sqrt(np.mean(rows**2)) / size


def _root(W: NDArray) -> NDArray:
    """Rows L, largest first, with L^T L = W."""
    values, vectors = eigh_descending(W)
    kept = values > ZERO * values[0]
    return np.sqrt(values[kept])[:, None] * vectors.T[kept]


def _judge(rows: NDArray, y: NDArray, held: NDArray, labels: NDArray) -> Judge:
    """Vote of the nearest learning rows on held-out rows: its error, then its doubt.

    Errors of few rows are often equal, hence the second.
    """
    one_hot = np.eye(int(y.max()) + 1)[y]

    def judge(L: NDArray) -> tuple[float, float]:
        D, near = nearest(held @ L.T, rows @ L.T, min(JUDGE_NEIGHBORS, len(rows)))
        votes = vote(D, near, one_hot, weights="uniform", row_weights=None)
        wrong = 1 - votes.values[np.arange(len(held)), labels].mean()
        return float(np.mean(votes.winners() != labels)), float(wrong)

    return judge
