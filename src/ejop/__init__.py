"""Which directions of the data does the answer depend on?

The expected Jacobian outer product (EJOP) of class probabilities, the expected gradient outer
product (EGOP) of real targets, and what can be done with them. Names are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import Any

from ejop._version import __version__

_HOMES = {
    "EGOP": "ejop.estimators",
    "EGOPRegressor": "ejop.estimators",
    "EJOP": "ejop.estimators",
    "EJOPClassifier": "ejop.estimators",
    "EmbeddingAdapter": "ejop.estimators",
    "egop_matrix": "ejop.estimators",
    "ejop_matrix": "ejop.estimators",
    "explain": "ejop.explanation",
    "importances": "ejop.explanation",
    "initialize": "ejop.learners",
    "Device": "ejop.sums.engine",
    "KNeighborsRule": "ejop.rules",
    "OuterProduct": "ejop.sums",
    "RadiusRule": "ejop.rules",
    "RidgeRule": "ejop.rules",
    "outer_product": "ejop.sums",
    "report": "ejop.reports",
}

__all__ = [
    "EGOP",
    "EJOP",
    "Device",
    "EGOPRegressor",
    "EJOPClassifier",
    "EmbeddingAdapter",
    "KNeighborsRule",
    "OuterProduct",
    "RadiusRule",
    "RidgeRule",
    "__version__",
    "egop_matrix",
    "ejop_matrix",
    "explain",
    "importances",
    "initialize",
    "outer_product",
    "report",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ejop' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
