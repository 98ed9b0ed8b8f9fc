"""The scikit-learn face: EJOP for classes, EGOP for real targets."""

from ejop.estimators._ejop import EGOP, EJOP, egop_matrix, ejop_matrix

__all__ = ["EGOP", "EJOP", "egop_matrix", "ejop_matrix"]
