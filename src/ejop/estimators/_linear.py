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
from ejop.metric import pair_distances, project
from ejop.scaling import scaled


class LinearMetricEstimator(
    CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Base of estimators whose fitted state is a map ``components_`` L of shape (r, d)."""

    components_: NDArray
    #: whether the first components are those that matter most
    components_in_order = True

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
        self._check_fitted()
        if is_tensor(X):
            return map_rows(X, self.components_, self.n_features_in_)
        rows = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return project(rows, self.components_)

    def get_mahalanobis_matrix(self) -> NDArray:
        """Matrix of the metric, ``components_.T @ components_``, shape (n_features, n_features)."""
        self._check_fitted()
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
        return self.get_metric().of_pairs(pairs)

    def get_metric(self) -> LearnedMetric:
        """Learned distance of two vectors as a function, for ``metric=`` of scikit-learn."""
        self._check_fitted()
        return LearnedMetric(self.components_.copy(), getattr(self, "scaler_", None))

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    def _html_repr(self) -> str:
        """scikit-learn's diagram for notebooks and, once fitted, the plan below it."""
        diagram, plan = super()._html_repr(), getattr(self, "plan_", None)
        if plan is None or not self.__sklearn_is_fitted__():
            return diagram
        return f'{diagram}<pre style="white-space: pre-wrap">{escape(str(plan))}</pre>'

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


class LearnedMetric:
    """Distance |L (a - b)| of two vectors, of scaled ones where a fitted scaler is given;
    picklable, so that it can travel to workers."""

    def __init__(self, components: NDArray, scaler: Any = None) -> None:
        self.components = components
        self.scaler = scaler

    def __call__(self, a: ArrayLike, b: ArrayLike) -> float:
        return float(self.of_pairs(np.stack([a, b])[None])[0])

    def of_pairs(self, pairs: ArrayLike) -> NDArray:
        """Distances of pairs of shape (n_pairs, 2, n_features)."""
        pairs = np.asarray(pairs, dtype=np.float64)
        if self.scaler is not None and pairs.ndim == 3 and len(pairs):
            pairs = scaled(self.scaler, pairs.reshape(-1, pairs.shape[2])).reshape(pairs.shape)
        return pair_distances(self.components, pairs)
