"""The score of the model beside simple rules and a forest, all on the same rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, ttest_rel
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import r2_score, roc_auc_score

from ejop.reports._evidence import Evidence, LearnedRows, voted
from ejop.reports._words import counted, quoted

#: how sure intervals are, and draws of rows that those of R2 are made of
COVERAGE, DRAWS = 0.95, 500
#: a difference that chance alone would bring about this often is called chance
DOUBT = 0.05


@dataclass(frozen=True)
class RivalScore:
    """How a method did on the rows.

    Attributes
    ----------
    kind : {"model", "rule", "forest", "near"}
    name : str
    value, low, high : float
        Share of right answers, or R^2, and its interval; NaN where unknown.
    second : float
        Mean recall over the classes, or mean absolute error.
    auc : float or None
        Area under the curve, of two classes.
    chance : float
        How often a difference to the model as large as this one comes by chance.
    """

    kind: str
    name: str
    value: float
    low: float
    high: float
    second: float
    auc: float | None = None
    chance: float = 1.0

    @property
    def doubtful(self) -> bool:
        """Whether its difference to the model may be chance."""
        return not self.chance < DOUBT


def scores(evidence: Evidence) -> list[RivalScore]:
    """Of the model first, then of its rivals, as far as rows are known that they can learn from."""
    judge = _judged_numbers if evidence.regression else _judged_classes
    mine = evidence.answers
    found = [judge(evidence, "model", "this model", mine, evidence.chances)]
    if evidence.learned is None:
        return found
    for kind, name, answers, chances in _rivals(evidence, evidence.learned):
        score = judge(evidence, kind, name, answers, chances)
        found.append(replace(score, chance=_chance(evidence, mine, answers)))
    return found


def _rivals(e: Evidence, learned: LearnedRows) -> list[tuple[str, str, NDArray, NDArray | None]]:
    """Kind, name, answers and probabilities of what the model is compared with."""
    y = learned.y.astype(np.float64) if e.regression else learned.y
    k = min(e.n_neighbors, len(y))
    near = f"{counted(k, 'nearest row')}, plain distance"
    models: list[Any] = (
        [DummyRegressor(), RandomForestRegressor(random_state=0)]
        if e.regression
        else [DummyClassifier(), RandomForestClassifier(random_state=0)]
    )
    fitted = [model.fit(learned.Z, y) for model in models]
    answers = [model.predict(e.Z) for model in fitted]
    chances = [None if e.regression else model.predict_proba(e.Z) for model in fitted]
    always = "always the mean" if e.regression else f"always {quoted(answers[0][0], 20)}"
    return [
        ("rule", always, answers[0], chances[0]),
        ("forest", "random forest", answers[1], chances[1]),
        ("near", near, *voted(e.Z, learned.Z, y, k, e.regression)),
    ]


# classes ------------------------------------------------------------------------------------


def _judged_classes(
    e: Evidence, kind: str, name: str, answers: NDArray, chances: NDArray | None
) -> RivalScore:
    right = answers == e.y
    value, low, high = share_with_interval(int(right.sum()), len(right))
    recall = float(np.mean([right[e.y == c].mean() for c in np.unique(e.y)]))
    return RivalScore(kind, name, value, low, high, recall, _auc(e, chances))


def _auc(e: Evidence, chances: NDArray | None) -> float | None:
    """Of two classes that both occur."""
    if chances is None or len(e.classes) != 2 or chances.shape[1] != 2:
        return None
    second = e.y == e.classes[1]
    return float(roc_auc_score(second, chances[:, 1])) if 0 < second.sum() < len(second) else None


def share_with_interval(n: int, total: int) -> tuple[float, float, float]:
    """A share and its interval by Wilson, NaN of none.

    Examples
    --------
    >>> from ejop.reports._rivals import share_with_interval
    >>> [round(x, 2) for x in share_with_interval(80, 100)]
    [0.8, 0.71, 0.87]
    """
    if not total:
        return np.nan, np.nan, np.nan
    found = binomtest(n, total).proportion_ci(COVERAGE, method="wilson")
    return n / total, float(found.low), float(found.high)


# real targets -------------------------------------------------------------------------------


def _judged_numbers(
    e: Evidence, kind: str, name: str, answers: NDArray, chances: NDArray | None
) -> RivalScore:
    y, found = e.y.astype(np.float64), answers.astype(np.float64)
    value, low, high = r2_with_interval(y, found)
    return RivalScore(kind, name, value, low, high, float(np.abs(found - y).mean()))


def r2_with_interval(y: NDArray, answers: NDArray) -> tuple[float, float, float]:
    """R^2 with an interval over draws of the rows, NaN where targets do not differ.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.reports._rivals import r2_with_interval
    >>> y = np.arange(50.0)
    >>> [round(x, 2) for x in r2_with_interval(y, y)]
    [1.0, 1.0, 1.0]
    """
    if len(y) < 2 or not np.ptp(y):
        return np.nan, np.nan, np.nan
    rng, found = np.random.default_rng(0), []
    for _ in range(DRAWS):
        rows = rng.integers(len(y), size=len(y))
        if np.ptp(y[rows]):
            found.append(r2_score(y[rows], answers[rows]))
    low, high = np.quantile(found, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    return float(r2_score(y, answers)), float(low), float(high)


def _chance(e: Evidence, mine: NDArray, other: NDArray) -> float:
    """How often chance makes two methods differ as much on the same rows.

    By the rows that one has right and the other wrong, or by the squared errors of both.
    """
    if e.regression:
        y = e.y.astype(np.float64)
        a, b = ((found.astype(np.float64) - y) ** 2 for found in (mine, other))
        return float(ttest_rel(a, b).pvalue) if len(y) > 1 and np.ptp(a - b) else 1.0
    a, b = mine == e.y, other == e.y
    better, worse = int((a & ~b).sum()), int((b & ~a).sum())
    return float(binomtest(better, better + worse).pvalue) if better + worse else 1.0
