"""The methods of the tables: each learns from a fold and says how it did."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from ejop.choice import median_nearest_distance
from ejop.estimators import EJOP, EJOPClassifier
from ejop.experiments.folds import Fold
from ejop.functions import RidgeFunction
from ejop.learners import ITML, LMNN, MLR, ReliefF, knn_error
from ejop.rules import NEIGHBORS, KNeighborsRule, RadiusRule, Rule
from ejop.tuning import FOLDS, holdouts

#: the paper learns its competitors' metrics for so many neighbours
LEARNED_NEIGHBORS = 5
#: the paper's estimator: bandwidths as multiples of the median nearest-neighbour distance, and
#: steps as shares of the bandwidth, tuned on held-out rows
PAPER_BANDWIDTHS = (1.25, 1.75, 2.5)
PAPER_STEPS = (0.25, 0.5)
PAPER_QUERIES = 2000
#: powers of the EJOP that learners are pulled towards; 0 is plain distance
START_POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass
class Outcome:
    """What one run found.

    Attributes
    ----------
    error : float
        Of the test rows, in per cent.
    fit_seconds, predict_seconds : float
    settings : dict
        What was chosen, as plain values.
    objective : list of float
        One value an iteration, for methods that optimise.
    """

    error: float
    fit_seconds: float
    predict_seconds: float
    settings: dict[str, Any]
    objective: list[float] = field(default_factory=list)

    @property
    def iterations(self) -> int | None:
        """Until the objective stays near its last value; None for methods that do not iterate."""
        return 0 if self.settings.get("n_iter") == 0 else iterations_to_converge(self.objective)


def iterations_to_converge(objective: list[float]) -> int | None:
    """Iterations until the objective is within 1 % of its last value for good.

    Examples
    --------
    >>> from ejop.experiments.methods import iterations_to_converge
    >>> iterations_to_converge([8.0, 2.0, 1.005, 1.0])
    3
    """
    if not objective:
        return None
    values = np.asarray(objective)
    outside = np.flatnonzero(np.abs(values - values[-1]) > 0.01 * abs(values[-1]))
    return int(outside[-1]) + 2 if len(outside) else 1


def predictor(rule: Rule, **options: Any) -> Callable[..., Outcome]:
    """A method that is an EJOPClassifier."""

    def run(fold: Fold, seed: int, n_neighbors: int | None) -> Outcome:
        refit = "train" if fold.held else True
        model = EJOPClassifier(refit=refit, **_common(rule, fold, seed), **options)
        start = time.perf_counter()
        model.fit(fold.X, fold.y)
        fitted = time.perf_counter()
        error = 100 * (1 - model.score(fold.X_test, fold.y_test))
        return Outcome(
            error,
            fitted - start,
            time.perf_counter() - fitted,
            {**model.best_params_, "tuning_score": model.best_score_},
        )

    return run


def average(fold: Fold, seed: int, n_neighbors: int | None) -> Outcome:
    """The predictors' default, on columns as the table prepares them."""
    model = EJOPClassifier(scale="none", random_state=seed)
    start = time.perf_counter()
    model.fit(fold.X[fold.learning], fold.y[fold.learning])
    fitted = time.perf_counter()
    error = 100 * (1 - model.score(fold.X_test, fold.y_test))
    seconds = time.perf_counter() - fitted
    settings = {**model.best_params_, "tuning_score": model.best_score_}
    return Outcome(error, fitted - start, seconds, settings)


def learner(make: Callable[[int], Any]) -> Callable[..., Outcome]:
    """A method that learns a map, tested with the neighbours tuned for EJOP."""

    def run(fold: Fold, seed: int, n_neighbors: int | None) -> Outcome:
        start = time.perf_counter()
        model = make(seed)
        with warnings.catch_warnings():  # kept in the settings instead
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(fold.X[fold.learning], fold.y[fold.learning])
        fitted = time.perf_counter()
        k = fold.n_neighbors or n_neighbors or LEARNED_NEIGHBORS
        error = fold_error(model.components_, fold, k)
        settings = {
            "n_neighbors": k,
            "n_iter": int(model.n_iter_),
            "converged": getattr(model, "converged_", None),
            "message": getattr(model, "message_", ""),
        }
        for name in ("gamma_", "C_", "pull_"):
            chosen = getattr(model, name, None)
            if isinstance(chosen, Real):  # "auto" stays where there was nothing to choose by
                settings[name.rstrip("_")] = float(chosen)
        if isinstance(getattr(model, "init_", None), EJOP):
            settings["power"] = model.init_.power
        objective = [float(v) for v in getattr(model, "objective_", [])]
        seconds = time.perf_counter() - fitted
        return Outcome(error, fitted - start, seconds, settings, objective)

    return run


def _plain(kind: Any, options: dict[str, Any], seed: int) -> Any:
    return kind(random_state=seed, **options)


def _from_ejop(kind: Any, options: dict[str, Any], seed: int) -> Any:
    """A learner pulled towards the EJOP of kernel ridge, the plain metric among its powers."""
    starts = [EJOP("ridge", power=power, random_state=seed) for power in START_POWERS]
    return kind(init=starts, pull="auto", random_state=seed, **options)


def _from_identity(kind: Any, options: dict[str, Any], seed: int) -> Any:
    """A learner pulled towards plain distance: as much choice, and no EJOP."""
    return kind(pull="auto", random_state=seed, **options)


def relieff(fold: Fold, seed: int, n_neighbors: int | None) -> Outcome:
    """ReliefF weights; the number of neighbours tuned on held-out rows.

    Where the fold has rows that only tune, the weights come from these, as in the paper.
    """
    start = time.perf_counter()
    if fold.held:
        found = ReliefF().fit(fold.X[-fold.held :], fold.y[-fold.held :])
        k = fold.n_neighbors
    else:
        k = _tuned_neighbors(lambda X, y: ReliefF().fit(X, y).components_, fold, seed)
        found = ReliefF().fit(fold.X, fold.y)
    fitted = time.perf_counter()
    assert k is not None
    error = fold_error(found.components_, fold, k)
    return Outcome(error, fitted - start, time.perf_counter() - fitted, {"n_neighbors": k})


def nca(*, ejop_start: bool) -> Callable[..., Outcome]:
    """scikit-learn's NeighborhoodComponentsAnalysis."""

    def run(fold: Fold, seed: int, n_neighbors: int | None) -> Outcome:
        def make(s: int) -> NeighborhoodComponentsAnalysis:
            init: Any = "identity"
            if ejop_start:
                X, y = fold.X[fold.learning], fold.y[fold.learning]
                init = EJOP("ridge", random_state=s).fit(X, y).components_
            return NeighborhoodComponentsAnalysis(init=init, random_state=s)

        return learner(make)(fold, seed, n_neighbors)

    return run


class PaperClassifier(EJOPClassifier):
    """The paper's estimator to the letter: balls, softmax, no row left out.

    ``bandwidth`` and ``step`` are set after construction: they are the loop's, not the user's.
    """

    bandwidth: float
    step: float

    def _metric(self, function: Any, random_state: Any) -> EJOP:
        return EJOP(
            "ball",
            bandwidth=self.bandwidth,
            step=self.step,
            leave_one_out=False,
            random_state=random_state,
        )


def paper(rule: Rule) -> Callable[..., Outcome]:
    """The paper's estimator; h, t and the number of neighbours or radius tuned on held-out rows."""

    def run(fold: Fold, seed: int, n_neighbors: int | None) -> Outcome:
        start = time.perf_counter()
        rows = np.random.RandomState(seed).permutation(len(fold.X))[:PAPER_QUERIES]
        unit = median_nearest_distance(fold.X, rows)
        models = []
        with warnings.catch_warnings():  # a ball too small for any difference scores badly: enough
            warnings.filterwarnings("ignore", "every difference is zero")
            for h, t in itertools.product(PAPER_BANDWIDTHS, PAPER_STEPS):
                model = PaperClassifier(
                    function="ball", power=1.0, refit=False, **_common(rule, fold, seed)
                )
                model.bandwidth, model.step = unit * h, unit * h * t
                models.append(model.fit(fold.X, fold.y))
            best = max(models, key=lambda m: m.best_score_)
            best.set_params(refit="train" if fold.held else True).fit(fold.X, fold.y)
        fitted = time.perf_counter()
        error = 100 * (1 - best.score(fold.X_test, fold.y_test))
        settings = {**best.best_params_, "bandwidth": best.bandwidth, "step": best.step}
        return Outcome(error, fitted - start, time.perf_counter() - fitted, settings)

    return run


def fold_error(L: NDArray, fold: Fold, k: int) -> float:
    """Error of the test rows by their k nearest rows under a map, in per cent."""
    X, y = fold.X[fold.learning], fold.y[fold.learning]
    labels = np.unique(np.concatenate([y, fold.y_test]), return_inverse=True)[1]
    return 100 * knn_error(L, X, labels[: len(y)], fold.X_test, labels[len(y) :], k)


def _tuned_neighbors(learn: Callable[..., NDArray], fold: Fold, seed: int) -> int:
    """k with the smallest error on held-out rows, the smallest such k."""
    labels = np.unique(fold.y, return_inverse=True)[1]
    errors = np.zeros(len(NEIGHBORS))
    for a, b in holdouts(FOLDS, fold.X, labels, classifier=True, random_state=seed):
        L = learn(fold.X[a], fold.y[a])
        part = Fold(fold.X[a], fold.y[a], fold.X[b], fold.y[b])
        errors += [fold_error(L, part, k) for k in NEIGHBORS]
    return NEIGHBORS[int(errors.argmin())]


def _common(rule: Rule, fold: Fold, seed: int) -> dict[str, Any]:
    if isinstance(rule, KNeighborsRule) and fold.n_neighbors:
        rule = clone(rule).set_params(n_neighbors=fold.n_neighbors)
    return {
        "rule": rule,
        "scale": "none",
        "validation": fold.validation,
        "device": fold.device,
        "random_state": seed,
    }


@dataclass(frozen=True)
class Method:
    """A column of the tables.

    Attributes
    ----------
    label : str
    run : callable
        ``run(fold, seed, n_neighbors)`` is an :class:`Outcome`.
    after : str or None
        Method whose tuned number of neighbours this one is tested with.
    """

    label: str
    run: Callable[..., Outcome]
    after: str | None = None


def _learners() -> dict[str, Method]:
    found = {}
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "itml": (ITML, {}),
        "lmnn": (LMNN, {"n_neighbors": LEARNED_NEIGHBORS}),
        "mlr": (MLR, {}),
    }
    for name, (kind, options) in kinds.items():
        plain = learner(partial(_plain, kind, options))
        found[name] = Method(kind.__name__, plain, "ejop-knn")
        pulled = learner(partial(_from_identity, kind, options))
        found[f"{name}-pulled"] = Method(f"{kind.__name__} + identity", pulled, "ejop-knn")
        started = learner(partial(_from_ejop, kind, options))
        found[f"{name}-ejop"] = Method(f"{kind.__name__} + EJOP", started, "ejop-knn")
    found["nca"] = Method("NCA", nca(ejop_start=False), "ejop-knn")
    found["nca-ejop"] = Method("NCA + EJOP", nca(ejop_start=True), "ejop-knn")
    return found


_KNN, _HNN, _RIDGE = KNeighborsRule(), RadiusRule(), RidgeFunction(widening=1.0)
METHODS: dict[str, Method] = {
    "euclid": Method("Euclid", predictor(_KNN, function="kernel", power=0.0)),
    "relieff": Method("ReliefF", relieff),
    "ejop-machines": Method("EJOP machines", average),
    "ejop-hnn": Method("EJOP hNN", predictor(_HNN)),
    "ejop-knn": Method("EJOP kNN", predictor(_KNN)),
    "paper-hnn": Method("EJOP hNN, to the letter", paper(RadiusRule(empty="prior"))),
    "paper-knn": Method("EJOP kNN, to the letter", paper(_KNN)),
    "ridge-hnn": Method("EJOP hNN, ridge", predictor(_HNN, function=_RIDGE)),
    "ridge-knn": Method("EJOP kNN, ridge", predictor(_KNN, function=_RIDGE)),
    **_learners(),
}
