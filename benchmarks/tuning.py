"""The tuned classifier against GridSearchCV over the same grid, splits and rule."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.pipeline import Pipeline

from benchmarks.common import Goal, Row, log
from benchmarks.data import digits, shape
from ejop import EJOP, EJOPClassifier
from ejop.neighbors import nearest, vote
from ejop.rules import NEIGHBORS
from ejop.tuning import GAIN, POWERS


class Neighbors(ClassifierMixin, BaseEstimator):
    """k nearest neighbours with ejop's ties, so that both sides can agree to the last vote."""

    def __init__(self, n_neighbors: int = 5) -> None:
        self.n_neighbors = n_neighbors

    def fit(self, X: np.ndarray, y: np.ndarray) -> Neighbors:
        self.rows_ = X
        self.classes_, labels = np.unique(y, return_inverse=True)
        self.Y_ = np.eye(len(self.classes_))[labels]
        return self

    def votes(self, X: np.ndarray) -> Any:
        near = nearest(X, self.rows_, self.n_neighbors)
        return vote(*near, self.Y_, weights="uniform", row_weights=None)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes_[self.votes(X).winners()]


def vote_loss(model: Pipeline, X: np.ndarray, y: np.ndarray) -> float:
    """Minus the squared error of the votes."""
    last = model[-1]
    truth = y[:, None] == last.classes_
    return -float(((last.votes(model[:-1].transform(X)).values - truth) ** 2).sum(1).mean())


def choose(results: dict[str, Any]) -> int:
    """The classifier's rule: highest accuracy, ties to the smaller loss of the votes, then to the
    first; power 0 unless it is beaten by half a standard error."""
    accuracy = np.round(results["mean_test_accuracy"], 12)
    order = np.lexsort((-results["mean_test_loss"], -accuracy))
    best = int(order[0])
    rival = int(next(i for i in order if results["param_metric__power"][i] == 0))
    gains = np.array(
        [results[f"split{s}_test_accuracy"][[best, rival]] @ [1, -1] for s in range(2)]
    )
    error = gains.std(ddof=1) / np.sqrt(2)
    return best if gains.mean() > 0 and gains.mean() >= GAIN * error - 1e-12 else rival


def grid_search(*, n: int) -> list[Row]:
    """Wall time of both with every function, power and k; scores and choices must agree."""
    X, y = digits(n)
    splits = list(StratifiedShuffleSplit(2, test_size=0.2, random_state=0).split(X, y))
    ours = EJOPClassifier("knn", scale="none", validation=splits, random_state=0)
    start = time.perf_counter()
    ours.fit(X, y)
    seconds = [time.perf_counter() - start]
    seed = np.random.RandomState(0).randint(2**31 - 1)  # the classifier's own draw
    order = list(dict.fromkeys(ours.cv_results_["param_function"]))  # ties go to the first
    functions = [_seeded(function, seed) for function in order]
    peer = GridSearchCV(
        Pipeline([("metric", EJOP(softmax=False, random_state=seed)), ("rule", Neighbors())]),
        {
            "metric__function": functions,
            "metric__power": list(POWERS),
            "rule__n_neighbors": list(NEIGHBORS),
        },
        cv=splits,
        scoring={"accuracy": "accuracy", "loss": vote_loss},
        refit=choose,
    )
    log(f"grid search: {len(functions) * len(POWERS) * len(NEIGHBORS)} settings on {n} rows")
    start = time.perf_counter()
    peer.fit(X, y)
    seconds.append(time.perf_counter() - start)
    best = peer.best_params_
    chosen = (
        str(order[functions.index(best["metric__function"])]),
        best["metric__power"],
        best["rule__n_neighbors"],
    )
    found = ours.best_params_
    same = chosen == (str(found["function"]), found["power"], found["n_neighbors"])
    scores = (ours.cv_results_["mean_test_score"], peer.cv_results_["mean_test_accuracy"])
    apart = np.abs(np.sort(scores[0]) - np.sort(scores[1])).max()
    return [
        Row(
            "tuning",
            f"fit with tuning; peer: GridSearchCV, {len(scores[1])} settings, 2 splits",
            shape(X, y),
            seconds[:1],
            seconds[1:],
            ratio=seconds[1] / seconds[0],
            goal=Goal(">=", 10),
            remark=f"{'same choice' if same else 'ANOTHER CHOICE'} {chosen}, "
            f"scores differ by {apart:.1g} at the most",
        )
    ]


def _seeded(function: Any, seed: int) -> Any:
    return function if isinstance(function, str) else clone(function).set_params(random_state=seed)
