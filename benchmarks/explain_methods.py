"""Importances of columns by ours and by peers, with seconds of fit and of what comes after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split

from benchmarks.columns_importances import REPEATS, TREES
from ejop.experiments.suite.contest import timed
from ejop.experiments.suite.peers import SEED, ours

#: KernelSHAP: rows explained and rows of the background, and coalitions at the most
FEW, MOST_COALITIONS = 20, 1024


@dataclass(frozen=True)
class Ranked:
    """Values of the columns, and seconds of all threads: of the fit, and of what comes after."""

    values: NDArray
    fit: float = 0.0
    after: float = 0.0


def forest(real: bool) -> Any:
    kind = RandomForestRegressor if real else RandomForestClassifier
    return kind(TREES, n_jobs=1, random_state=SEED)


def two_steps(fit: Callable[[], Any], after: Callable[[Any], NDArray]) -> Ranked:
    _, first, model = timed(fit)
    _, second, values = timed(lambda: after(model))
    return Ranked(np.asarray(values, dtype=float), first, second)


def by_ours(X: NDArray, y: NDArray, real: bool) -> Ranked:
    return two_steps(lambda: ours(X, y, real).model, lambda model: model.feature_importances_)


def by_impurity(X: NDArray, y: NDArray, real: bool) -> Ranked:
    return two_steps(lambda: forest(real).fit(X, y), lambda model: model.feature_importances_)


def by_permutation(X: NDArray, y: NDArray, real: bool) -> Ranked:
    """Of a forest on two thirds of the rows, by the other third."""
    A, B, a, b = train_test_split(X, y, test_size=1 / 3, random_state=SEED)
    return two_steps(
        lambda: forest(real).fit(A, a),
        lambda model: (
            permutation_importance(
                model, B, b, n_repeats=REPEATS, random_state=SEED
            ).importances_mean
        ),
    )


def by_tree_shap(X: NDArray, y: NDArray, real: bool) -> Ranked:
    """Mean size of the contributions of all rows; over classes the sum."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMRegressor if real else LGBMClassifier
    return two_steps(
        lambda: kind(n_jobs=1, random_state=SEED, verbose=-1).fit(X, y),
        lambda model: sizes(model.predict(X, pred_contrib=True), X.shape[1]),
    )


def sizes(found: NDArray, n_columns: int) -> NDArray:
    """Mean size by column of contributions that end, for each class, in the base."""
    by_class = np.abs(found).reshape(len(found), -1, n_columns + 1)
    return by_class.mean(0).sum(0)[:n_columns]


def by_kernel_shap(X: NDArray, y: NDArray, real: bool) -> Ranked:
    """Of our own model, on a few rows; over two classes, of the second."""
    from shap import KernelExplainer

    def after(model: Any) -> NDArray:
        ask = model.predict if real else lambda rows: model.predict_proba(rows)[:, 1]
        n = min(2 * X.shape[1] + 2048, MOST_COALITIONS)
        explainer = KernelExplainer(ask, X[-FEW:])
        return np.abs(explainer.shap_values(X[:FEW], nsamples=n, silent=True)).mean(0)

    return two_steps(lambda: ours(X, y, real).model, after)


def by_relieff(X: NDArray, y: NDArray, real: bool) -> Ranked:
    from ejop.learners import ReliefF

    return two_steps(lambda: ReliefF().fit(X, y), lambda model: model.weights_)


def by_information(X: NDArray, y: NDArray, real: bool) -> Ranked:
    kind = mutual_info_regression if real else mutual_info_classif
    return two_steps(lambda: None, lambda _: kind(X, y, random_state=SEED))


METHODS: dict[str, Callable[[NDArray, NDArray, bool], Ranked]] = {
    "ours": by_ours,
    "permutation": by_permutation,
    "TreeSHAP": by_tree_shap,
    "KernelSHAP": by_kernel_shap,
    "impurity": by_impurity,
    "ReliefF": by_relieff,
    "mutual information": by_information,
}
