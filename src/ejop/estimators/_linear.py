"""What every learned linear metric offers: rows mapped by ``components_``, distances of pairs."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ejop._sklearn import CallbackSupportMixin
from ejop.arrays import is_tensor, map_rows
from ejop.metric import pair_distances


class LinearMetricEstimator(
    CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Base of estimators whose fitted state is a map ``components_`` L of shape (r, d)."""

    components_: NDArray

    def transform(self, X: ArrayLike) -> NDArray:
        """Map rows to the space whose Euclidean distance is the learned metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components)
            A tensor on the same device where X is a torch tensor.
        """
        check_is_fitted(self)
        if is_tensor(X):
            return map_rows(X, self.components_, self.n_features_in_)
        rows: NDArray = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return rows @ self.components_.T.astype(rows.dtype, copy=False)

    def get_mahalanobis_matrix(self) -> NDArray:
        """Matrix of the metric, ``components_.T @ components_``, shape (n_features, n_features)."""
        check_is_fitted(self)
        return self.components_.T @ self.components_

    def pair_distance(self, pairs: ArrayLike) -> NDArray:
        """Learned distance of each pair.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)

        Returns
        -------
        distances : ndarray of shape (n_pairs,)
        """
        check_is_fitted(self)
        return pair_distances(self.components_, pairs)

    def get_metric(self) -> LearnedMetric:
        """Learned distance of two vectors as a function, for ``metric=`` of scikit-learn."""
        check_is_fitted(self)
        return LearnedMetric(self.components_.copy())

    def _html_repr(self) -> str:
        return with_plan(self, super()._html_repr())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "components_")

    def _forget(self) -> None:
        """Drop an earlier fit, so that one that is interrupted leaves the estimator unfitted."""
        self.__dict__.pop("components_", None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def with_plan(estimator: Any, diagram: str) -> str:
    """scikit-learn's diagram for notebooks and, once fitted, the plan below it."""
    plan = getattr(estimator, "plan_", None)
    if plan is None or not estimator.__sklearn_is_fitted__():
        return diagram
    return f'{diagram}<pre style="white-space: pre-wrap">{escape(str(plan))}</pre>'


class LearnedMetric:
    """Distance |L (a - b)| of two vectors; picklable, so that it can travel to workers."""

    def __init__(self, components: NDArray) -> None:
        self.components = components

    def __call__(self, a: NDArray, b: NDArray) -> float:
        return float(np.linalg.norm(self.components @ (np.asarray(a) - np.asarray(b))))
