"""The scikit-learn face: EJOP for classes, EGOP for real targets."""

from ejop.estimators._adapter import (
    EmbeddingAdapter,
    average_precision,
    blended,
    pairs_in_order,
)
from ejop.estimators._base import OuterProductEstimator, chosen_settings
from ejop.estimators._classifier import EJOPClassifier, weights_of_classes
from ejop.estimators._ejop import EGOP, EJOP, egop_matrix, ejop_matrix
from ejop.estimators._linear import LinearMetricEstimator
from ejop.estimators._regressor import EGOPRegressor

__all__ = [
    "EGOP",
    "EJOP",
    "EGOPRegressor",
    "EJOPClassifier",
    "EmbeddingAdapter",
    "LinearMetricEstimator",
    "OuterProductEstimator",
    "average_precision",
    "blended",
    "chosen_settings",
    "egop_matrix",
    "ejop_matrix",
    "pairs_in_order",
    "weights_of_classes",
]
