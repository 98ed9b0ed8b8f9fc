"""Data sets and splits of the comparison of predictors."""

from __future__ import annotations

from pathlib import Path

from ejop.experiments.suite import sets
from ejop.experiments.suite.sets import SuiteSet
from ejop.experiments.suite.splits import Split, read_archive, split_of

#: set -> file in the folder of the data
NINE = {
    "vowel": "extra/vowel",
    "mfeat_factors": "extra/mfeat_factors",
    "pendigits": "extra/pendigits",
    "letter": "paper/letter",
    "phoneme": "extra/phoneme",
    "usps": "paper/usps",
    "airfoil": "extra/airfoil",
    "parkinsons": "extra/parkinsons",
    "ailerons": "extra/ailerons",
}
SUITE = {one.name: one.file.removesuffix(".npz") for one in sets.SUITE}
SETS = {**NINE, **SUITE}
#: sets with real targets
REAL = {"airfoil", "parkinsons", "ailerons", *(one.name for one in sets.SUITE if one.real)}


def split(folder: Path, name: str, number: int, rows: int) -> Split:
    """One of the reported splits: so many training rows, or 70 % where there are fewer."""
    real = name in REAL
    X, y = read_archive(folder / f"{SETS[name]}.npz", SuiteSet(name, "arrays", real))
    return split_of(X, y, real, number, rows)
