"""One view of all that can be drawn: metrics, predictors, learners, and pipelines that end in
one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ejop.columns import ColumnPreparer
from ejop.metric import eigh_descending

#: condition of the map before the last round beyond which its rows cannot be mapped back
LARGEST_CONDITION = 1e8
#: eigenvalues below this share of the largest are rounding
NEGLIGIBLE = 1e-8


@dataclass(frozen=True)
class TrainingRows:
    """Rows a predictor answers from.

    Attributes
    ----------
    rows : ndarray of shape (n_samples, n_features)
        Scaled as the predictor scales them.
    targets : ndarray of shape (n_samples, n_outputs)
        One-hot classes or real targets.
    numbers : ndarray of shape (n_samples,)
        Row numbers in the data that were fitted.
    weights : ndarray of shape (n_samples,) or None
    """

    rows: NDArray
    targets: NDArray
    numbers: NDArray
    weights: NDArray | None


@dataclass(frozen=True)
class Fitted:
    """A fitted model, its matrix expressed in the (scaled) features that went in.

    Attributes
    ----------
    model : estimator
        The last step of a pipeline, or the estimator itself.
    before : Pipeline or None
        The steps before it.
    core : EJOP, EGOP or None
        What estimated the matrix; None for a learner.
    names : list of str
        One per feature.
    columns : list of str
        One per column of the table that the features were prepared from; ``names`` for none.
    groups : ndarray of shape (n_features,) or None
        Column of each feature.
    components : ndarray of shape (r, n_features)
        Leading direction first.
    matrix : ndarray of shape (n_features, n_features)
    eigenvalues : ndarray of shape (n_features,)
        Of ``matrix``, largest first.
    directions : ndarray of shape (n_features, n_features)
        Unit eigenvectors as columns.
    rounds : ndarray of shape (r, n_features) or None
        Map before the last round of a predictor with several; None for the identity.
    """

    model: Any
    before: Pipeline | None
    core: Any
    names: list[str]
    columns: list[str]
    groups: NDArray | None
    components: NDArray
    matrix: NDArray
    eigenvalues: NDArray
    directions: NDArray
    rounds: NDArray | None

    @property
    def regression(self) -> bool:
        """Whether the targets are real numbers; several labels a row are shown as such."""
        if is_regressor(self.model) or isinstance(getattr(self.model, "classes_", None), list):
            return True
        return self.core is not None and not hasattr(self.core, "classes_")

    def prepare(self, X: Any) -> NDArray:
        """Rows as the metric takes them: through the pipeline's first steps and the scaler."""
        if self.before is not None:
            X = self.before.transform(X)
        if hasattr(self.model, "scaler_"):
            return np.asarray(self.model.scale_rows(X))
        rows = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
        rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
        d = self.components.shape[1]
        if rows.ndim != 2 or rows.shape[1] != d:
            raise ValueError(
                f"`X` has shape {rows.shape} and {type(self.model).__name__} has seen {d} "
                f"features; (n_samples, {d}) is expected."
            )
        return rows

    def relative_stderr(self) -> float | None:
        """Standard error of an eigenvalue over the eigenvalue, or None where it is unknown.

        See :class:`ejop.plots.SpectrumDisplay` for how it follows from the entries' errors.
        """
        error = getattr(self.core, "outer_product_stderr_", None)
        if error is None or not np.isfinite(error).all():
            return None
        M = self.core.outer_product_
        diagonal = np.diag(M)
        expected = (diagonal.sum() ** 2 + (M**2).sum()) if diagonal.any() else 0.0
        return float(np.sqrt(2 * (error**2).sum() / expected)) if expected > 0 else None

    def output_names(self) -> list[str]:
        """Names of classes, or of the outputs of a regression."""
        if self.core is None:
            return [str(c) for c in getattr(self.model, "classes_", [])]
        if self.regression:
            return [f"output {i}" for i in range(len(self.core.output_importances_))]
        mine = self.core.classes_
        # a predictor's metric learns from class numbers: the labels are the predictor's
        labels = mine if self.model is self.core else self.model.classes_[mine]
        return [str(c) for c in labels]

    def training(self) -> TrainingRows | None:
        """Rows that the model answers from; None where it keeps none that can be mapped back."""
        function = getattr(self.core, "function_", None)
        if function is None:
            return None
        rows, weights = function.X_, function.sample_weight_
        if self.rounds is not None:
            square = self.rounds.shape[0] == self.rounds.shape[1]
            if not square or np.linalg.cond(self.rounds) > LARGEST_CONDITION:
                return None
            rows = np.linalg.solve(self.rounds, rows.T).T
        if self.model is self.core:
            return TrainingRows(rows, function.Y_, np.arange(len(rows)), weights)
        rule = self.model.rule_
        return TrainingRows(rows, rule.targets_, self.model.kept_, rule.weights_)


def fitted(model: Any, feature_names: Sequence[str] | None = None) -> Fitted:
    """Read a fitted EJOP, EGOP, predictor, learner, or a pipeline that ends in one.

    Raises
    ------
    TypeError
        For anything without ``components_``.
    sklearn.exceptions.NotFittedError
    """
    before, last = None, model
    if isinstance(model, Pipeline):
        before, last = (model[:-1] if len(model) > 1 else None), model[-1]
    if not isinstance(last, type) and hasattr(last, "fit"):
        check_is_fitted(last)
    if not hasattr(last, "components_"):
        raise TypeError(
            f"{type(last).__name__} has no learned metric (`components_`); pass a fitted EJOP, "
            "EGOP, EJOPClassifier, EGOPRegressor or metric learner, or a pipeline that ends in one."
        )
    core = getattr(last, "metric_estimator_", last if hasattr(last, "outer_product_") else None)
    rounds = _rounds(last)
    L = np.asarray(last.components_, dtype=np.float64)
    if core is None:
        matrix = L.T @ L
        values, directions = eigh_descending(matrix)
        L = np.sqrt(values)[: len(L), None] * directions.T[: len(L)]
    elif rounds is None:
        matrix, values, directions = core.outer_product_, core.eigenvalues_, core.eigenvectors_
    else:
        # chain rule: f saw the rows through `rounds`
        matrix = rounds.T @ core.outer_product_ @ rounds
        values, directions = eigh_descending(matrix)
    names, columns, groups = _names(before, last, L.shape[1], feature_names)
    return Fitted(last, before, core, names, columns, groups, L, matrix, values, directions, rounds)


def _rounds(model: Any) -> NDArray | None:
    """Map before the last round of a predictor, None for the identity."""
    rounds = getattr(model, "before_", None)
    if rounds is None:
        return None
    square = rounds.shape[0] == rounds.shape[1]
    return None if square and np.array_equal(rounds, np.eye(len(rounds))) else rounds


def _names(
    before: Any, model: Any, d: int, given: Sequence[str] | None
) -> tuple[list[str], list[str], NDArray | None]:
    """Names of features and of the columns they come from, and the column of each feature."""
    preparer = _preparer(before, model, d)
    groups = None if preparer is None else preparer.groups_
    columns = None if preparer is None else list(preparer.names_)
    if given is not None:
        found = [str(name) for name in given]
        if columns is not None and len(found) == len(columns) and len(found) != d:
            return _feature_names(before, model, d), found, groups
        if len(found) != d:
            raise ValueError(
                f"`feature_names` has {len(found)} names and {type(model).__name__} {d} features; "
                "pass one name per feature (after the pipeline's first steps, where there are any)."
            )
        return found, found, None
    names = _feature_names(before, model, d)
    return names, names if columns is None else columns, groups


def _preparer(before: Any, model: Any, d: int) -> ColumnPreparer | None:
    """What prepared the columns: the predictor's own, or the first step of a pipeline."""
    found = getattr(model, "preparer_", None)
    if found is None and before is not None:
        found = before[0]
    fits = isinstance(found, ColumnPreparer) and len(found.groups_) == d
    return found if fits else None


def _feature_names(before: Any, model: Any, d: int) -> list[str]:
    if getattr(model, "preparer_", None) is not None:
        return [str(name) for name in model.prepared_names()]
    if hasattr(model, "feature_names_in_"):
        return [str(name) for name in model.feature_names_in_]
    if before is not None:
        try:
            return [str(name) for name in before.get_feature_names_out()]
        except (AttributeError, ValueError):  # a step that cannot name its columns
            pass
    return [f"x{i}" for i in range(d)]
