"""Rows of the sets and the splits that every method shares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder

from ejop.datasets import DataNotFound, folders
from ejop.experiments.suite.sets import SETS, SuiteSet

#: splits are drawn with this seed and the next; 0 to 9 served to choose defaults
FIRST_SEED = 1000
#: training rows, or 70 % where a set has fewer; test rows are the others, at most so many
TRAIN_ROWS, TRAIN_SHARE, MAX_TEST = 1500, 7, 1500
#: a level of a category with fewer rows shares its column with others
RARE = 10


@dataclass(frozen=True)
class Split:
    """Training and test rows of one set: arrays, or tables of pandas."""

    A: Any
    ya: NDArray
    B: Any
    yb: NDArray
    real: bool


@dataclass(frozen=True)
class SuiteRows:
    """All rows of a set.

    Attributes
    ----------
    X : ndarray or pandas.DataFrame
    y : ndarray
        Classes numbered from 0, or real targets.
    real : bool
    source : str
        Where they are from.
    """

    X: Any
    y: NDArray
    real: bool
    source: str


def make_split(name: str, seed: int, data_dir: str | None = None) -> tuple[Split, str]:
    """The split of a set for a seed, and where its rows are from.

    Examples
    --------
    >>> from ejop.experiments.suite.splits import make_split
    >>> split, source = make_split("wine", 1000)
    >>> split.A.shape, split.B.shape, source
    ((124, 13), (54, 13), 'scikit-learn')
    """
    rows = load_rows(name, data_dir)
    return split_of(rows.X, rows.y, rows.real, seed - FIRST_SEED, TRAIN_ROWS), rows.source


def split_of(X: Any, y: NDArray, real: bool, number: int, rows: int) -> Split:
    """So many training rows, or 70 % where there are fewer."""
    n = min(len(X) * TRAIN_SHARE // 10, rows)
    A, B, ya, yb = train_test_split(
        X,
        y,
        train_size=n,
        test_size=min(len(X) - n, MAX_TEST),
        random_state=FIRST_SEED + number,
        stratify=None if real else y,
    )
    return Split(A, ya, B, yb, real)


@lru_cache(maxsize=2)  # methods take the same set one after another
def load_rows(name: str, data_dir: str | None = None) -> SuiteRows:
    """All rows of a set: from a file, from OpenML, or from scikit-learn."""
    one = SETS[name]
    if one.kind == "shipped":
        X, y = _shipped(name)
        return SuiteRows(X, y, one.real, "scikit-learn")
    path = find(one, data_dir)
    if path is None:
        from ejop.experiments.suite.download import fetch

        X, y, source = fetch(one, data_dir)
        return SuiteRows(X, y, one.real, source)
    read = read_archive if one.kind == "arrays" else read_frame
    X, y = read(path, one)
    return SuiteRows(X, y, one.real, "file")


def find(one: SuiteSet, data_dir: str | None = None) -> Path | None:
    """The file of a set in the folders of the data, or None."""
    paths = (folder / one.file for folder in folders(data_dir))
    return next((path for path in paths if path.is_file()), None)


def read_archive(path: Path, one: SuiteSet) -> tuple[NDArray, NDArray]:
    """Rows of an archive with levels of categories as 0/1 columns, and targets."""
    try:
        with np.load(path) as archive:
            X, y = archive["X"], archive["y"]
            categorical = archive.get("categorical")
    except (OSError, ValueError, KeyError) as error:
        raise DataNotFound(f"{path} is no archive of {one.name}: {error}.") from error
    X = X.reshape(len(X), -1).astype(np.float64)
    return with_levels(X, categorical), targets(y, one.real)


def with_levels(X: NDArray, categorical: NDArray | None) -> NDArray:
    """Levels of categories as 0/1 columns behind the numbers; rare ones share one column."""
    if categorical is None or not categorical.any():
        return X
    encoder = OneHotEncoder(
        sparse_output=False, min_frequency=RARE, handle_unknown="infrequent_if_exist"
    )
    return np.hstack([X[:, ~categorical], encoder.fit_transform(X[:, categorical])])


def targets(y: Any, real: bool) -> NDArray:
    """Real targets, or classes numbered from 0."""
    if real:
        return np.asarray(y).astype(np.float64)
    return np.unique(y, return_inverse=True)[1]


def read_frame(path: Path, one: SuiteSet) -> tuple[Any, NDArray]:
    """A table as it is, and its target."""
    import pandas as pd

    table = pd.read_parquet(path)
    y = table.pop(one.target).to_numpy()
    return table, targets(y, one.real)


def _shipped(name: str) -> tuple[NDArray, NDArray]:
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return X, y
