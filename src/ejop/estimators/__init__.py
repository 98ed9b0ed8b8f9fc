"""The scikit-learn face: EJOP for classes, EGOP for real targets."""

from ejop.estimators._classifier import EJOPClassifier
from ejop.estimators._ejop import EGOP, EJOP, egop_matrix, ejop_matrix
from ejop.estimators._regressor import EGOPRegressor

__all__ = ["EGOP", "EJOP", "EGOPRegressor", "EJOPClassifier", "egop_matrix", "ejop_matrix"]
