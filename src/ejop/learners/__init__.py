"""Metric learners, each able to start from EJOP. Names are imported when first used."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "ITML": "ejop.learners._itml",
    "LMNN": "ejop.learners._lmnn",
    "MLR": "ejop.learners._mlr",
    "MetricLearner": "ejop.learners._learner",
    "ReliefF": "ejop.learners._relieff",
    "initialize": "ejop.learners._initialize",
    "knn_error": "ejop.learners._learner",
}

__all__ = ["ITML", "LMNN", "MLR", "MetricLearner", "ReliefF", "initialize", "knn_error"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ejop.learners' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
