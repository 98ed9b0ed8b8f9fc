"""The predictor, its neighbours rules and their peers, each tuned as a careful user would.

A method takes training rows, targets and whether these are real, and returns a
:class:`FittedMethod`. Searches fit as many models at a time as there are cores, each with one
thread, which is quicker for so few rows; what is not searched takes all cores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from ejop.estimators import EGOPRegressor, EJOPClassifier
from ejop.rules import RidgeRule

FOLDS = 3
SEED = 0
#: share of the rows that a method with a validation part of its own holds out
HELD = 0.2

Settings = dict[str, Any]


@dataclass
class FittedMethod:
    """A fitted model, what was chosen, and how it gives probabilities, if it does."""

    model: Any
    chosen: Settings
    shares: Callable[[Any], NDArray] | None = None
    ours: bool = False


Method = Callable[[Any, NDArray, bool], FittedMethod]


# ours ---------------------------------------------------------------------------------------


def ours(A: Any, y: NDArray, real: bool, **parameters: Any) -> FittedMethod:
    """The library's predictor; without parameters, as it comes."""
    settings = dict(parameters)
    if "ridge" in settings:
        settings["rule"] = RidgeRule(**settings.pop("ridge"))
    kind = EGOPRegressor if real else EJOPClassifier
    model = kind(random_state=SEED, **settings).fit(A, y)
    chosen = {name: str(value) for name, value in model.best_params_.items()}
    return FittedMethod(model, chosen, None if real else model.predict_proba, ours=True)


# peers --------------------------------------------------------------------------------------


def searched(model: BaseEstimator, grid: Any, A: NDArray, y: NDArray, real: bool) -> FittedMethod:
    """The best of a grid by three folds, refitted on all rows."""
    folds = (KFold if real else StratifiedKFold)(FOLDS, shuffle=True, random_state=SEED)
    scoring = "r2" if real else "accuracy"
    with parallel_config("threading", n_jobs=-1):
        search = GridSearchCV(model, grid, scoring=scoring, cv=folds).fit(A, y)
    chosen = {name: str(value) for name, value in search.best_params_.items()}
    shares = None
    if not real and hasattr(search.best_estimator_, "predict_proba"):
        shares = search.best_estimator_.predict_proba
    return FittedMethod(search.best_estimator_, chosen, shares)


KNN_GRID = {
    "scale": ["passthrough", StandardScaler()],
    "knn__n_neighbors": [1, 3, 5, 7, 11, 17, 25],
}


def knn(A: NDArray, y: NDArray, real: bool) -> FittedMethod:
    """Plain nearest neighbours."""
    kind = KNeighborsRegressor if real else KNeighborsClassifier
    steps = [("scale", StandardScaler()), ("knn", kind(n_jobs=1))]
    return searched(Pipeline(steps), KNN_GRID, A, y, real)


SVC_GRID = {"C": [0.3, 3.0, 30.0, 300.0], "gamma d": [0.03, 0.1, 0.3, 1.0, 3.0]}
SVR_GRID = {
    "C": [1.0, 10.0, 100.0],
    "gamma d": [0.03, 0.1, 0.3, 1.0, 3.0],
    "epsilon": [0.02, 0.1],
}


def svm(A: NDArray, y: NDArray, real: bool) -> FittedMethod:
    """RBF on standardised columns; real targets are standardised too."""
    given = SVR_GRID if real else SVC_GRID
    values = {name: v for name, v in given.items() if name != "gamma d"}
    values["gamma"] = [g / A.shape[1] for g in given["gamma d"]]
    prefix = "regressor__svm__" if real else "svm__"
    grid = {prefix + name: v for name, v in values.items()}
    machine = SVR(cache_size=1000) if real else SVC(cache_size=1000)
    model: Any = Pipeline([("scale", StandardScaler()), ("svm", machine)])
    if real:
        model = TransformedTargetRegressor(model, transformer=StandardScaler())
    return searched(model, grid, A, y, real)


def forest(A: NDArray, y: NDArray, real: bool) -> FittedMethod:
    """A random forest of 500 trees."""
    kind = RandomForestRegressor if real else RandomForestClassifier
    model = kind(500, n_jobs=-1, random_state=SEED).fit(A, y)
    return FittedMethod(model, {}, None if real else model.predict_proba)


BOOSTING_GRID = {"learning_rate": [0.05, 0.1]}
LIGHTGBM_GRID = {**BOOSTING_GRID, "num_leaves": [7, 31], "min_child_samples": [5, 20]}
XGBOOST_GRID = {**BOOSTING_GRID, "max_depth": [3, 6], "min_child_weight": [1, 5]}


def n_trees(y: NDArray, real: bool) -> int:
    """Rounds of boosting: each is a tree a class where there are more than two."""
    return 300 if real or y.max() == 1 else 100


def lightgbm(A: NDArray, y: NDArray, real: bool) -> FittedMethod:
    """Boosted trees of LightGBM."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMRegressor if real else LGBMClassifier
    model = kind(n_estimators=n_trees(y, real), n_jobs=1, random_state=SEED, verbose=-1)
    return searched(model, LIGHTGBM_GRID, A, y, real)


def xgboost(A: NDArray, y: NDArray, real: bool, **settings: Any) -> FittedMethod:
    """Boosted trees of XGBoost."""
    from xgboost import XGBClassifier, XGBRegressor

    kind = XGBRegressor if real else XGBClassifier
    common = {"n_jobs": 1, "random_state": SEED, "verbosity": 0, **settings}
    model = kind(n_estimators=n_trees(y, real), **common)
    return searched(model, XGBOOST_GRID, A, y, real)


CATBOOST_DEPTHS = (4, 6)
CATBOOST_TREES, CATBOOST_PATIENCE = 500, 50


def catboost(A: NDArray, y: NDArray, real: bool, **settings: Any) -> FittedMethod:
    """Depth and number of trees by a fifth of the rows, then all rows."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    kind = CatBoostRegressor if real else CatBoostClassifier
    a, b, ya, yb = held_out(A, y, real)
    common = {"random_seed": SEED, "verbose": False, "allow_writing_files": False, **settings}
    found = []
    for depth in CATBOOST_DEPTHS:
        model = kind(iterations=CATBOOST_TREES, depth=depth, **common)
        model.fit(a, ya, eval_set=(b, yb), early_stopping_rounds=CATBOOST_PATIENCE)
        (loss,) = model.get_best_score()["validation"].values()
        found.append((loss, depth, model.get_best_iteration() + 1, model.learning_rate_))
    _, depth, trees, rate = min(found)
    chosen = {"depth": depth, "iterations": trees, "learning_rate": rate}
    model = kind(**chosen, **common).fit(A, y)
    return FittedMethod(model, chosen, None if real else model.predict_proba)


XRFM_KERNELS = {"l2": False, "l1": True}  # whether its matrix is diagonal
XRFM_BANDWIDTHS = (1.5, 5.0, 15.0, 50.0)
XRFM_PENALTIES = (1e-4, 1e-2, 1.0)
XRFM_ROUNDS = 5


class Scaled:
    """A fitted xRFM on standardised columns and targets, as numpy arrays."""

    def __init__(self, model: Any, rows: StandardScaler, targets: StandardScaler | None) -> None:
        self.model, self.rows, self.targets = model, rows, targets

    def scaled(self, X: NDArray) -> NDArray:
        """Standardised rows."""
        return self.rows.transform(X).astype(np.float32)

    def predict(self, X: NDArray) -> NDArray:
        """Classes, or targets in their own unit."""
        found = np.asarray(self.model.predict(self.scaled(X)))
        if self.targets is None:
            return found.ravel()
        return self.targets.inverse_transform(found.reshape(-1, 1)).ravel()

    def predict_proba(self, X: NDArray) -> NDArray:
        """Probabilities of classes."""
        return np.asarray(self.model.predict_proba(self.scaled(X)))


def xrfm(A: NDArray, y: NDArray, real: bool, device: str = "cpu") -> FittedMethod:
    """Kernel, bandwidth and penalty, and its own choice of the round, by a fifth of the rows.

    The fifth stays out of the final model, since xRFM needs it for its rounds.
    """
    a, b, ya, yb = held_out(A, y, real)
    rows = StandardScaler().fit(a)
    targets = StandardScaler().fit(ya[:, None]) if real else None
    if targets is not None:
        ya = targets.transform(ya[:, None]).astype(np.float32)
        yb = targets.transform(yb[:, None]).astype(np.float32)
    a, b = (rows.transform(part).astype(np.float32) for part in (a, b))
    found: list[tuple[float, Settings, Any]] = []

    def best() -> tuple[float, Settings, Any]:
        return min(found, key=lambda one: one[0])

    def attempt(kernel: str, bandwidth: float, penalty: float) -> None:
        model = xrfm_model(kernel, bandwidth, penalty, real, device).fit(a, ya, b, yb)
        answer = np.asarray(model.predict(b)).ravel()
        loss = np.mean((answer - yb.ravel()) ** 2 if real else answer != yb)
        found.append(
            (float(loss), {"kernel": kernel, "bandwidth": bandwidth, "reg": penalty}, model)
        )

    for kernel, bandwidth, penalty in product(XRFM_KERNELS, XRFM_BANDWIDTHS, XRFM_PENALTIES):
        attempt(kernel, bandwidth, penalty)
    kernel, bandwidth = best()[1]["kernel"], best()[1]["bandwidth"]
    further = {min(XRFM_BANDWIDTHS): 1 / 3, max(XRFM_BANDWIDTHS): 3.0}
    if bandwidth in further:  # the edge of the grid: one step beyond it
        for penalty in XRFM_PENALTIES:
            attempt(kernel, bandwidth * further[bandwidth], penalty)
    _, chosen, model = best()
    fitted = Scaled(model, rows, targets)
    return FittedMethod(fitted, chosen, None if real else fitted.predict_proba)


def xrfm_model(kernel: str, bandwidth: float, penalty: float, real: bool, device: str) -> Any:
    """An unfitted xRFM with these settings."""
    from xrfm import xRFM

    return xRFM(
        rfm_params={
            "model": {
                "kernel": kernel,
                "bandwidth": bandwidth,
                "exponent": 1.0,
                "diag": XRFM_KERNELS[kernel],
                "bandwidth_mode": "constant",
            },
            "fit": {
                "reg": penalty,
                "iters": XRFM_ROUNDS,
                "early_stop_rfm": True,
                "return_best_params": True,
            },
        },
        device=device,
        tuning_metric="mse" if real else "accuracy",
        random_state=SEED,
        verbose=False,
    )


def held_out(A: NDArray, y: NDArray, real: bool) -> list[NDArray]:
    """Rows to learn from and to validate with, and their targets."""
    return train_test_split(A, y, test_size=HELD, random_state=SEED, stratify=None if real else y)


# the list ---------------------------------------------------------------------------------

#: peers, in the order of the pages
PEERS: dict[str, Method] = {
    "knn": knn,
    "svm": svm,
    "forest": forest,
    "lightgbm": lightgbm,
    "xgboost": xgboost,
    "catboost": catboost,
    "xrfm": xrfm,
}
BOOSTING_ROUNDS = "300 rounds (100 where there are more than two classes)"
GRIDS = {
    "knn": f"{KNN_GRID['knn__n_neighbors']} neighbours, columns as they are or standardised",
    "svm": f"RBF on standardised columns; classes: {SVC_GRID}; real targets: {SVR_GRID}",
    "forest": "500 trees, scikit-learn's defaults otherwise, no grid",
    "lightgbm": f"{BOOSTING_ROUNDS}, {LIGHTGBM_GRID}",
    "xgboost": f"{BOOSTING_ROUNDS}, {XGBOOST_GRID}",
    "catboost": (
        f"depth {list(CATBOOST_DEPTHS)}, at most {CATBOOST_TREES} trees, their number and depth by "
        "a fifth of the rows, then fitted on all rows"
    ),
    "xrfm": (
        "standardised columns, kernel l2 with a full matrix or l1 with a diagonal one, bandwidth "
        f"{list(XRFM_BANDWIDTHS)} (and one step of 3 beyond an edge that is best), penalty "
        f"{list(XRFM_PENALTIES)}, round 0 to {XRFM_ROUNDS}, by a "
        "fifth of the rows, which xRFM keeps for that"
    ),
}
