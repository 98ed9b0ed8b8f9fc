"""Honest tuning: settings of the metric and the rule, judged by rows the metric has not seen.

The metric is computed once per (split, scale, function, round) and shared by all powers, ranks,
numbers of neighbours and radii; the neighbours of the largest k serve all smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit, check_cv

from ejop.functions import RidgeFunction
from ejop.metric import components, project

#: estimates of f that ``function="auto"`` tries: ridge at the bandwidth of its smallest
#: leave-one-out loss, and at twice that
FUNCTIONS = ("kernel", RidgeFunction(widening=1.0), RidgeFunction(widening=2.0))
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
#: the scale is chosen with so many rows to learn from at the most
SCALE_ROWS = 1500
#: a share of held-out rows is drawn this often at the most, until so many rows have judged
MAX_DRAWS, ENOUGH_ROWS = 12, 1000
#: rows of a share that judge, at the most: more would cost time and change no choice
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
    """One point of the grid.

    Attributes
    ----------
    scale : str
    function : str or function object
    power : float
    n_components : int, float, "gap" or None
    size : float
        Of the rule: a number of neighbours, a radius or its quantile, 0 for none.
    earlier : tuple of (power, n_components)
        Rounds before this one.
    """

    scale: str
    function: Any
    power: float
    n_components: Any
    size: float
    earlier: tuple[tuple[float, Any], ...] = ()

    @property
    def n_iter(self) -> int:
        """Rounds of metric and function."""
        return len(self.earlier) + 1

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

    def best(self, settings: list[Setting] | None = None) -> Setting:
        """Highest mean score; ties to the smaller loss of the votes, then to the first tried."""
        pool = list(self.scores) if settings is None else settings
        return max(pool, key=lambda s: (round(self.score(s), 12), -float(np.mean(self.losses[s]))))

    def score(self, setting: Setting) -> float:
        """Mean score over splits."""
        return float(np.mean(self.scores[setting]))

    def better_by(self, setting: Setting, other: Setting) -> tuple[float, float]:
        """Mean difference of scores on the same splits, and its standard error (0 for one)."""
        gains = np.subtract(self.scores[setting], self.scores[other])
        error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else 0.0
        return float(gains.mean()), float(error)

    def unless_plain_does(self, best: Setting) -> Setting:
        """The best setting, or the best Euclidean one of its scale where the gain is less than half
        a standard error.

        The best of many settings looks better than it is, and the more so the fewer rows judge.
        """
        plain = [s for s in self.scores if s.power == 0.0 and s.scale == best.scale]
        if not plain:
            return best
        rival = self.best(plain)
        gain, error = self.better_by(best, rival)
        return best if gain > 0 and gain >= GAIN * error - 1e-12 else rival

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
    validation: Any,
    X: NDArray,
    y: NDArray,
    *,
    classifier: bool,
    random_state: Any,
    kept: NDArray | None = None,
) -> Splits:
    """Pairs of (rows to learn from, rows that judge).

    A share is drawn once when it holds a thousand rows, and up to twelve times when it holds fewer;
    it holds 5000 rows at the most. An integer or a splitter is cross-validation. ``kept`` are
    numbers of rows, all by default: a share and folds are drawn among these, a splitter is asked
    for all rows, and the splits hold places among these.
    """
    if kept is not None and isinstance(validation, int | float):
        X, y, kept = X[kept], y[kept], None
    if not isinstance(validation, float):
        splits = list(check_cv(validation, y, classifier=classifier).split(X, y))
        return splits if kept is None else _renumbered(splits, kept, len(X))
    n_held = int(np.clip(round(validation * len(X)), 1, MOST_ROWS))
    draws = int(np.clip(-(-ENOUGH_ROWS // n_held), 1, MAX_DRAWS))
    stratify = False
    if classifier:
        counts = np.unique(y, return_counts=True)[1]
        stratify = counts.min() >= 2 and n_held >= len(counts) and len(X) - n_held >= len(counts)
    splitter = StratifiedShuffleSplit if stratify else ShuffleSplit
    return list(splitter(draws, test_size=n_held, random_state=random_state).split(X, y))


def _renumbered(splits: Splits, kept: NDArray, n: int) -> Splits:
    """Splits of n rows as places among the rows that are kept."""
    place = np.full(n, -1)
    place[kept] = np.arange(len(kept))
    found = [[place[rows] for rows in split] for split in splits]
    return [(seen[seen >= 0], held[held >= 0]) for seen, held in found]


@dataclass
class Search:
    """The grid, and how to learn and judge one point of it.

    Attributes
    ----------
    scales : list of str
    functions : list of str or function objects
    powers : tuple of float
    ranks : list
    n_iter : int
    prepare : callable
        ``prepare(scale)`` is an unfitted scaler.
    learn : callable
        ``learn(function, rows, row_numbers)`` is a fitted metric.
    judge : callable
        ``judge(A, seen, B, held)`` yields (size, score, loss) for mapped rows.
    progress : callable
        ``progress(steps, total)`` walks through steps and tells how far it is.
    """

    scales: list[str]
    functions: list[Any]
    powers: tuple[float, ...]
    ranks: list[Any]
    n_iter: int
    prepare: Callable[[str], Any]
    learn: Callable[[Any, NDArray, NDArray], Any]
    judge: Callable[..., Iterator[tuple[float, float, float]]]
    progress: Callable[[Iterator[Any], int], Iterator[Any]]

    def run(self, X: NDArray, splits: Splits) -> tuple[Setting, Judgements]:
        """Score the grid; rounds beyond the first are tried while they gain.

        The scale is chosen with the last function alone, and with fewer rows where there are
        many; the other functions then follow at that scale.
        """
        table = Judgements()
        scale, functions = self._choose_scale(table, X, splits)
        jobs = list(product(functions, splits))

        def at_scale() -> Iterator[None]:
            for function, (seen, held) in jobs:
                yield from self._score_scaled(table, X, seen, held, scale, function)

        self._walk(at_scale(), len(jobs))
        best = table.unless_plain_does(table.best())
        for _ in range(1, self.n_iter):
            challenger = self._next_round(table, X, splits, best)
            if table.score(challenger) <= table.score(best):
                break
            best = challenger
        return best, table

    def untuned(self, size: float) -> tuple[Setting, Judgements]:
        """What is taken where there are too few rows to judge by."""
        first = (self.scales[0], self.functions[0], self.powers[-1], self.ranks[0])
        return Setting(*first, size), Judgements()

    def _choose_scale(self, table: Judgements, X: NDArray, splits: Splits) -> tuple[str, list[Any]]:
        """The best scale for the last function, and the functions that are still to be judged."""
        few = len(self.scales) > 1 and len(splits[0][0]) > SCALE_ROWS
        trial = Judgements() if few else table
        jobs = list(product(splits, self.scales))

        def scales() -> Iterator[None]:
            for (seen, held), scale in jobs:
                rows = _thinned(seen) if few else seen
                yield from self._score_scaled(trial, X, rows, held, scale, self.functions[-1])

        self._walk(scales(), len(jobs))
        return trial.best().scale, self.functions if few else self.functions[:-1]

    def _next_round(self, table: Judgements, X: NDArray, splits: Splits, best: Setting) -> Setting:
        """The best setting of one more round, in the space of the best so far."""
        earlier = (*best.earlier, (best.power, best.n_components))
        start = replace(best, earlier=earlier)
        for seen, held in splits:
            A, B = self._scaled(X, seen, held, best.scale)
            _, L, _ = self.mapped(start, A, seen, final=False)
            parts = (project(A, L), seen, project(B, L), held)
            self._walk(self._score(table, start, *parts), 1)
        return table.best([s for s in table.scores if s.earlier == earlier])

    def _walk(self, steps: Iterator[None], n_metrics: int) -> None:
        """Go through the steps of some metrics: one to learn each, and one a power and rank."""
        each = 1 + len(self.powers) * len(self.ranks)
        for _ in self.progress(steps, n_metrics * each):
            pass

    def _score_scaled(
        self, table: Judgements, X: NDArray, seen: NDArray, held: NDArray, scale: str, function: Any
    ) -> Iterator[None]:
        A, B = self._scaled(X, seen, held, scale)
        yield from self._score(table, Setting(scale, function, 1.0, None, 0), A, seen, B, held)

    def _scaled(
        self, X: NDArray, seen: NDArray, held: NDArray, scale: str
    ) -> tuple[NDArray, NDArray]:
        scaler = self.prepare(scale).fit(X[seen])
        return scaler.transform(X[seen]), scaler.transform(X[held])

    def _score(
        self,
        table: Judgements,
        start: Setting,
        A: NDArray,
        seen: NDArray,
        B: NDArray,
        held: NDArray,
    ) -> Iterator[None]:
        """One metric, and every power, rank and size of it."""
        metric = self.learn(start.function, A, seen)
        values, vectors = metric.eigenvalues_, metric.eigenvectors_
        yield
        for power in self.powers:
            for r in self.ranks:
                L = components(values, vectors, power=power, n_components=r)
                for size, score, loss in self.judge(project(A, L), seen, project(B, L), held):
                    setting = replace(start, power=power, n_components=r, size=size)
                    table.add(setting, score, loss)
                yield

    def mapped(
        self, setting: Setting, X: NDArray, rows: NDArray, *, final: bool = True
    ) -> tuple[NDArray, NDArray, Any]:
        """The linear map of a setting, that before its last round, and the last metric."""
        L = np.eye(X.shape[1])
        rounds = list(setting.earlier)
        if final:
            rounds.append((setting.power, setting.n_components))
        before, metric = L, None
        for power, r in rounds:
            metric = self.learn(setting.function, project(X, L), rows)
            before = L
            values, vectors = metric.eigenvalues_, metric.eigenvectors_
            L = components(values, vectors, power=power, n_components=r) @ L
        return before if final else L, L, metric


def _thinned(rows: NDArray) -> NDArray:
    """Evenly spaced rows, few enough to compare scales quickly."""
    return rows[np.linspace(0, len(rows) - 1, SCALE_ROWS).astype(int)]
