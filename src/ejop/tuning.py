"""Honest tuning: settings of the metric and the rule, judged by rows the metric has not seen.

The preparation of the columns and the bandwidth and penalty of f follow from leave-one-out in
closed form. Powers, ranks, numbers of neighbours and radii are then judged on one set of
predictions: each row once, by a metric of the other folds. A fold's metric is computed once and
shared by all of them; the neighbours of the largest k serve all smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state

from ejop.choice import FLAT, widest_within_one_error
from ejop.functions import RidgeFunction
from ejop.metric import components, project
from ejop.rules import Regression, choose
from ejop.scaling import make_scaler

#: ``function="auto"`` is kernel ridge at these multiples of the bandwidth of its smallest
#: leave-one-out loss
WIDENINGS = (1.0, 2.0)
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
#: folds that judge, where nothing else is asked for
FOLDS = 4
#: rows that choose preparation, bandwidth and penalty, at the most
SAMPLE = 1000
#: rows of a share or a fold that judge, at the most: more would cost time and change no choice
MOST_ROWS = 5000
#: standard errors by which a metric must beat plain distance
GAIN = 0.5
#: pairs of (rows to learn from, rows that judge)
Splits = list[tuple[NDArray, NDArray]]


@dataclass(frozen=True)
class Targets:
    """What is to be predicted for the rows of a fit.

    Attributes
    ----------
    Y : ndarray of shape (n_samples, n_outputs)
        One-hot classes, 0/1 labels or real targets.
    w : ndarray of shape (n_samples,) or None
        Weights, none of them zero.
    kind : {"classes", "labels", "real"}
        Which of these.
    """

    Y: NDArray
    w: NDArray | None = None
    kind: str = "real"

    def take(self, rows: NDArray) -> tuple[NDArray, NDArray | None]:
        """Targets and weights of some rows."""
        return self.Y[rows], None if self.w is None else self.w[rows]

    @property
    def variance(self) -> NDArray:
        """Variance of each output, one where it is zero."""
        spread = variance(self.Y, self.w)
        return np.where(spread > 0, spread, 1)


def variance(values: NDArray, w: NDArray | None) -> NDArray:
    """Weighted variance of each column."""
    mean = np.average(values, axis=0, weights=w)
    return np.average(np.square(values - mean), axis=0, weights=w)


@dataclass(frozen=True)
class Setting:
    """What was chosen, or might have been.

    Attributes
    ----------
    scale : str
    function : str or function object
    power : float
    n_components : int, float, "gap" or None
    size : float
        Of the rule: a number of neighbours, a radius or its quantile, 0 for none.
    earlier : tuple of (function, power, n_components)
        Rounds before this one.
    """

    scale: str
    function: Any
    power: float
    n_components: Any
    size: float
    earlier: tuple[tuple[Any, float, Any], ...] = ()

    @property
    def rounds(self) -> tuple[tuple[Any, float, Any], ...]:
        """Function, power and rank of every round."""
        return (*self.earlier, (self.function, self.power, self.n_components))

    @property
    def n_iter(self) -> int:
        """Rounds of metric and function."""
        return len(self.rounds)

    def params(self, size_name: str | None) -> dict[str, Any]:
        """What was chosen, by name; the size by the rule's name for it."""
        names = ("scale", "function", "n_iter", "power", "n_components")
        found = {name: getattr(self, name) for name in names}
        return found if size_name is None else {**found, size_name: self.size}


@dataclass
class Judgements:
    """Scores of settings over splits; as a table, ``cv_results_``."""

    scores: dict[Setting, list[float]] = field(default_factory=dict)
    losses: dict[Setting, list[float]] = field(default_factory=dict)

    def add(self, setting: Setting, score: float, loss: float) -> None:
        """Record one split."""
        self.scores.setdefault(setting, []).append(score)
        self.losses.setdefault(setting, []).append(loss)

    def best(self, n_iter: int = 1) -> Setting:
        """Highest mean score of some round; ties to the smaller loss of the votes, then to the
        first tried."""
        return self._best([s for s in self.scores if s.n_iter == n_iter])

    def _best(self, pool: list[Setting]) -> Setting:
        return max(pool, key=lambda s: (round(self.score(s), 12), -float(np.mean(self.losses[s]))))

    def score(self, setting: Setting) -> float:
        """Mean score over splits."""
        return float(np.mean(self.scores[setting]))

    def unless_plain_does(self, best: Setting) -> Setting:
        """The best setting, or the best Euclidean one of its scale where the gain is less than half
        a standard error.

        The best of many settings looks better than it is, and the more so the fewer rows judge.
        """
        plain = [s for s in self.scores if s.power == 0.0 and s.scale == best.scale]
        if not plain:
            return best
        rival = self._best(plain)
        gains = np.subtract(self.scores[best], self.scores[rival])
        error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else 0.0
        beaten = gains.mean() > 0 and gains.mean() >= GAIN * error - 1e-12
        return best if beaten else rival

    def unseen_score(self) -> float:
        """Mean score over splits of what the other splits would choose; NaN for a single split.

        The best of many settings looks better than it is on the splits that chose it.
        """
        n = len(next(iter(self.scores.values())))
        if n < 2:
            return np.nan
        found = []
        for i in range(n):
            others = Judgements(
                {s: v[:i] + v[i + 1 :] for s, v in self.scores.items()},
                {s: v[:i] + v[i + 1 :] for s, v in self.losses.items()},
            )
            chosen = others.unless_plain_does(others._best(list(others.scores)))
            found.append(self.scores[chosen][i])
        return float(np.mean(found))

    def frame(self, size_name: str | None) -> dict[str, NDArray]:
        """Columns in the manner of scikit-learn's ``cv_results_``."""
        settings = list(self.scores)
        out = {
            f"param_{name}": _column([setting.params(size_name)[name] for setting in settings])
            for name in Setting("", "", 0, None, 0).params(size_name)
        }
        for i, scores in enumerate(zip(*self.scores.values(), strict=True)):
            out[f"split{i}_test_score"] = np.array(scores)
        means = np.array([self.score(setting) for setting in settings])
        out["mean_test_score"] = means
        out["std_test_score"] = np.array([np.std(v) for v in self.scores.values()])
        out["mean_vote_loss"] = np.array([np.mean(v) for v in self.losses.values()])
        out["rank_test_score"] = (-means).argsort().argsort() + 1
        return out


def _column(values: list[Any]) -> NDArray:
    """An array of objects, of which none is taken for a sequence."""
    out = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        out[i] = value
    return out


def holdouts(
    validation: Any, X: NDArray, y: NDArray, *, classifier: bool, random_state: Any
) -> Splits:
    """Pairs of (rows to learn from, rows that judge).

    An integer is so many folds, so that every row judges once, and a share is drawn once; both at
    random, with as much of each class. 5000 rows of each judge at the most. A splitter is obeyed.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.tuning import holdouts
    >>> y = np.repeat([0, 1], [8, 4])
    >>> splits = holdouts(4, np.zeros((12, 1)), y, classifier=True, random_state=0)
    >>> [np.bincount(y[held]).tolist() for _, held in splits]
    [[2, 1], [2, 1], [2, 1], [2, 1]]
    """
    if not isinstance(validation, Real):
        return list(check_cv(validation, y, classifier=classifier).split(X, y))
    n, rng = len(X), check_random_state(random_state)
    order = rng.permutation(n)
    if classifier:
        order = order[np.argsort(y[order], kind="stable")]
    if isinstance(validation, Integral):
        parts = [order[k::validation] for k in range(min(int(validation), n))]
    else:
        n_held = int(np.clip(round(float(validation) * n), 1, n - 1))
        parts = [order[np.arange(n_held) * n // n_held]]
    seen = [np.setdiff1d(np.arange(n), held) for held in parts]
    few = [held if len(held) <= MOST_ROWS else rng.permutation(held)[:MOST_ROWS] for held in parts]
    return list(zip(seen, map(np.sort, few), strict=True))


@dataclass
class Search:
    """The grid, and how to learn and judge one point of it.

    Attributes
    ----------
    scales : list of list of str
        Of each list one is chosen in closed form and judged. The first is preferred where others
        are as good.
    functions : list of str or function objects, or None
        None is kernel ridge with a bandwidth and a penalty in closed form, at every widening.
    powers : tuple of float
    ranks : list
    n_iter : int
    targets : Targets
        Each output in units of its own.
    seed : int
        Draws the rows that choose in closed form.
    learn : callable
        ``learn(function, rows, row_numbers)`` is a fitted metric.
    judge : callable
        ``judge(A, seen, B, held)`` yields (size, score, loss) for mapped rows.
    progress : callable
        ``progress(steps, total)`` walks through steps and tells how far it is.
    factors : ndarray of shape (n_features,), optional
        Of columns that are levels, see :func:`ejop.scaling.make_scaler`.
    """

    scales: list[list[str]]
    functions: list[Any] | None
    powers: tuple[float, ...]
    ranks: list[Any]
    n_iter: int
    targets: Targets
    seed: int
    learn: Callable[[Any, NDArray, NDArray], Any]
    judge: Callable[..., Iterator[tuple[float, float, float]]]
    progress: Callable[[Iterator[Any], int], Iterator[Any]]
    factors: NDArray | None = None

    def run(self, X: NDArray, splits: Splits) -> tuple[Setting, Judgements]:
        """Score the grid; rounds beyond the first are tried while they gain.

        Rows that no split learns from have no say in what is chosen in closed form.
        """
        learning = np.unique(np.concatenate([seen for seen, _ in splits]))
        starts = self.chosen(X[learning], learning)
        table, maps = Judgements(), [np.eye(X.shape[1])] * len(splits)
        spectra = self._judge(table, X, splits, maps, starts)
        best = table.unless_plain_does(table.best())
        while best.n_iter < self.n_iter:
            found = zip(spectra[best.scale, best.function], maps, strict=True)
            rank = {"power": best.power, "n_components": best.n_components}
            maps = [components(*spectrum, **rank) @ L for spectrum, L in found]
            functions = self.functions
            if functions is None:
                A = project(self._scaled(best.scale, X, *splits[0])[0], maps[0])
                functions = _widened(*self._machine(A, splits[0][0])[1:])
            starts = [replace(best, function=f, earlier=best.rounds) for f in functions]
            spectra = self._judge(table, X, splits, maps, starts)
            challenger = table.best(best.n_iter + 1)
            if table.score(challenger) <= table.score(best):
                break
            best = challenger
        return best, table

    def untuned(self, size: float) -> tuple[Setting, Judgements]:
        """What is taken where there are too few rows to judge by."""
        function = "kernel" if self.functions is None else self.functions[0]
        first = (self.scales[0][0], function, self.powers[-1], self.ranks[0])
        return Setting(*first, size), Judgements()

    def chosen(self, X: NDArray, rows: NDArray) -> list[Setting]:
        """The scales and functions to judge, of rows with these numbers.

        Scales are compared by kernel ridge at the bandwidth and penalty of its smallest
        leave-one-out error. The first whose error is within one standard error of the smallest is
        taken.
        """
        found = [self._best_scale(scales, X, rows) for scales in self.scales]
        return [Setting(scale, f, 1.0, None, 0) for scale, functions in found for f in functions]

    def _best_scale(self, scales: list[str], X: NDArray, rows: NDArray) -> tuple[str, list[Any]]:
        """One of these scales, and the functions to judge there."""
        if len(scales) == 1 and self.functions is not None:
            return scales[0], self.functions
        found: dict[str, tuple[NDArray, float, float]] = {}
        for scale in scales:
            try:
                found[scale] = self._machine(self._scaler(scale).fit_transform(X), rows)
            except np.linalg.LinAlgError:
                if scale == scales[-1] and not found:
                    raise
        names = list(reversed(found))  # the last that is as good is taken
        losses = np.stack([found[name][0] for name in names])
        w = self.targets.take(self._sample(rows))[1]
        weights = np.ones(losses.shape[1]) if w is None else w
        floor = FLAT * float(np.average(losses, axis=1, weights=weights).min())
        best = widest_within_one_error(np.arange(len(names)), losses, weights, floor)
        scale = names[best]
        return scale, self.functions or _widened(*found[scale][1:])

    def _sample(self, rows: NDArray) -> NDArray:
        """Numbers of the rows that choose in closed form."""
        return np.random.default_rng(self.seed).permutation(rows)[:SAMPLE]

    def _machine(self, A: NDArray, rows: NDArray) -> tuple[NDArray, float, float]:
        """Leave-one-out error of each row that chooses, bandwidth and penalty of kernel ridge."""
        few = self._sample(rows)
        Z = A[np.searchsorted(rows, few)].astype(np.float64, copy=False)
        Y, w = self.targets.take(few)
        R = Y - np.average(Y, axis=0, weights=w)
        mean = 1.0 if w is None else float(w.mean())
        problem = Regression(Z, R, None if w is None else w / mean)
        losses, h, penalty, _ = choose(problem, "gaussian")
        return losses, h, penalty * mean

    def _judge(
        self,
        table: Judgements,
        X: NDArray,
        splits: Splits,
        maps: list[NDArray],
        starts: list[Setting],
    ) -> dict[tuple[str, Any], list[tuple[NDArray, NDArray]]]:
        """Score every power, rank and size on every split, in the space that its map makes.

        What is returned are eigenvalues and eigenvectors of the metrics of each scale and function.
        """
        spectra: dict[Any, list[Any]] = {(one.scale, one.function): [] for one in starts}
        grid, jobs = list(product(self.powers, self.ranks)), list(product(starts, range(len(maps))))

        def steps() -> Iterator[None]:
            for start, i in jobs:
                seen, held = splits[i]
                A, B = (project(Z, maps[i]) for Z in self._scaled(start.scale, X, seen, held))
                metric = self.learn(start.function, A, seen)
                spectrum = metric.eigenvalues_, metric.eigenvectors_
                spectra[start.scale, start.function].append(spectrum)
                yield
                for power, rank in grid:
                    L = components(*spectrum, power=power, n_components=rank)
                    for size, *found in self.judge(project(A, L), seen, project(B, L), held):
                        point = replace(start, power=power, n_components=rank, size=size)
                        table.add(point, *found)
                    yield

        for _ in self.progress(steps(), len(jobs) * (1 + len(grid))):
            pass
        return spectra

    def mapped(self, setting: Setting, X: NDArray, rows: NDArray) -> tuple[NDArray, NDArray, Any]:
        """The linear map before the last round of a setting, that after it, and its metric."""
        before = L = np.eye(X.shape[1])
        metric = None
        for function, power, rank in setting.rounds:
            metric = self.learn(function, project(X, L), rows)
            spectrum = metric.eigenvalues_, metric.eigenvectors_
            before, L = L, components(*spectrum, power=power, n_components=rank) @ L
        return before, L, metric

    def _scaler(self, scale: str) -> Any:
        return make_scaler(scale, self.factors)

    def _scaled(
        self, scale: str, X: NDArray, seen: NDArray, held: NDArray
    ) -> tuple[NDArray, NDArray]:
        """Rows to learn from and rows that judge, as the former say."""
        scaler = self._scaler(scale).fit(X[seen])
        return scaler.transform(X[seen]), scaler.transform(X[held])


def _widened(h: float, penalty: float) -> list[RidgeFunction]:
    """Kernel ridge at multiples of a bandwidth."""
    return [RidgeFunction(bandwidth=float(m * h), penalty=float(penalty)) for m in WIDENINGS]
