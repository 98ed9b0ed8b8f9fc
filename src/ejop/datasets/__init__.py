"""Data with a known answer, and the data sets of the paper. Names are imported when first used."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "ejop.datasets._catalogue": ["Available", "available", "get"],
    "ejop.datasets._loaders": [
        "load_ailerons",
        "load_airfoil",
        "load_dataset",
        "load_isolet",
        "load_letter",
        "load_mfeat_factors",
        "load_mnist",
        "load_office_caltech",
        "load_parkinsons",
        "load_pendigits",
        "load_phoneme",
        "load_usps",
        "load_vowel",
    ],
    "ejop.datasets._lookup": ["DataCorrupted", "DataNotFound", "folders", "locate"],
    "ejop.datasets._registry": ["DATASETS", "Source"],
    "ejop.datasets._synthetic": ["MultiIndex", "make_multi_index"],
    # scikit-learn's own, for one place to import data from
    "sklearn.datasets": ["load_breast_cancer", "load_digits", "load_iris", "load_wine"],
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ejop.datasets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
