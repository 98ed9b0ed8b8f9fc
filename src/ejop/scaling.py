"""Preparation of the columns, which matters to neighbours as much as the metric does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import FunctionTransformer, RobustScaler, StandardScaler
from sklearn.utils.validation import validate_data


class HellingerScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Square root of each row over its sum: Euclidean distance becomes Hellinger distance.

    For counts and histograms. A row of zeros stays zero.

    Examples
    --------
    >>> from ejop.scaling import HellingerScaler
    >>> HellingerScaler().fit_transform([[1.0, 3.0], [0.0, 0.0]])
    array([[0.5      , 0.8660254],
           [0.       , 0.       ]])
    """

    def fit(self, X: ArrayLike, y: Any = None) -> HellingerScaler:
        """Check the rows; nothing is learned from them."""
        self._check(X, reset=True)
        return self

    def transform(self, X: ArrayLike) -> NDArray:
        """Square roots of the rows over their sums."""
        rows = self._check(X, reset=False)
        total = rows.sum(1, keepdims=True)
        return np.sqrt(rows / np.where(total > 0, total, 1))

    def _check(self, X: ArrayLike, *, reset: bool) -> NDArray:
        rows = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
        lowest = rows.min(initial=0)
        if lowest < 0:
            raise ValueError(
                "Negative values in data passed to scale='hellinger', which takes counts or "
                f"shares: the smallest is {lowest:.3g}; use scale='standard' or 'auto'."
            )
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


SCALERS: dict[str, Any] = {
    "none": FunctionTransformer,
    "standard": StandardScaler,
    "robust": RobustScaler,
    "hellinger": HellingerScaler,
}


def make_scaler(name: str) -> Any:
    """An unfitted scaler by name."""
    return SCALERS[name]()


def scale_candidates(X: NDArray) -> list[str]:
    """Preparations that ``scale="auto"`` tries: never hellinger where a value is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.scaling import scale_candidates
    >>> scale_candidates(np.array([[1.0, -1.0]]))
    ['none', 'standard']
    >>> scale_candidates(np.array([[3.0, 1.0]]))
    ['none', 'standard', 'hellinger']
    """
    names = ["none", "standard"]
    if X.min(initial=0) >= 0 and X.shape[1] > 1:
        names.append("hellinger")
    return names
