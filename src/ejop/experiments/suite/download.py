"""Sets from OpenML, by scikit-learn and its cache, in the form of the files."""

from __future__ import annotations

import warnings
from http.client import HTTPException
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.datasets import DataNotFound, folders
from ejop.experiments.suite.frames import MISSING
from ejop.experiments.suite.sets import MOST_ROWS, SMALLEST_CLASS, SuiteSet
from ejop.experiments.suite.splits import targets, with_levels


def fetch(one: SuiteSet, data_dir: str | None = None) -> tuple[Any, NDArray, str]:
    """Rows, targets, and a word on where they are from.

    scikit-learn keeps what it has fetched in its data home, and reads it there without a network.
    """
    if one.openml is None:
        raise not_found(one, "OpenML does not have it.", data_dir)
    try:
        table, y = _fetched(one)
    # ValueError: an answer that is an error, or something else, such as a login page
    except (OSError, HTTPException, ValueError) as error:
        why = f"Its download from OpenML failed ({type(error).__name__}: {error})."
        raise not_found(one, why, data_dir) from error
    table = table.drop(columns=[c for c in one.openml.left_out if c in table])
    kept = _drawn(y, one.real)
    table, y = table.iloc[kept].reset_index(drop=True), targets(y[kept], one.real)
    X = table if one.kind == "frame" else as_rows(table)
    return X, y, f"OpenML {one.openml.name} version {one.openml.version}"


def not_found(one: SuiteSet, why: str, data_dir: str | None) -> DataNotFound:
    """What to do for someone without the file and without a network."""
    looked = ", ".join(str(folder / one.file) for folder in folders(data_dir))
    return DataNotFound(
        f"{one.name}: neither its file nor a download is to be had. {why} Looked for {looked}. "
        "Set EJOP_DATA or --data-dir to the folder that holds suite/ and mixed/, connect to a "
        "network, name other sets with --datasets, or use --quick, which needs no data."
    )


def _fetched(one: SuiteSet) -> tuple[Any, NDArray]:
    from sklearn.datasets import fetch_openml

    assert one.openml is not None
    # the parser of pandas stumbles over nominal values that are whole numbers
    wanted: dict[str, Any] = {"version": one.openml.version, "parser": "liac-arff"}
    if one.openml.target:
        wanted["target_column"] = one.openml.target
    with warnings.catch_warnings():  # each attempt that fails; the last one is told as an error
        warnings.filterwarnings("ignore", "A network error|Invalid cache")
        found = fetch_openml(one.openml.name, as_frame=True, **wanted)
    y = found.target
    kept = y.notna().to_numpy()
    return found.data[kept], y[kept].to_numpy()


def _drawn(y: NDArray, real: bool) -> NDArray:
    """Rows to keep, in their order: as many as a file has, no class of a handful of rows."""
    rows = np.arange(len(y))
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.RandomState(0).permutation(rows)[:MOST_ROWS])
    if real:
        return rows
    classes, codes, counts = np.unique(y[rows].astype(str), return_inverse=True, return_counts=True)
    return rows[np.isin(codes, np.arange(len(classes))[counts >= SMALLEST_CLASS])]


def as_rows(table: Any) -> NDArray:
    """Numbers, and levels of categories as 0/1 columns; columns of one value are left out."""
    columns, categorical = [], []
    for _, column in table.items():
        if column.nunique(dropna=False) < 2:
            continue
        is_number = column.dtype.kind in "biuf"
        words = column.astype(object).where(column.notna(), MISSING)
        codes = column if is_number else np.unique(words.astype(str), return_inverse=True)[1]
        columns.append(np.asarray(codes, dtype=np.float64))
        categorical.append(not is_number)
    return with_levels(np.column_stack(columns), np.array(categorical))
