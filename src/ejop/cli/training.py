"""From a table to rows and targets, every decision said aloud."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from ejop.cli.columns import Column, Skipped, levels, numbers, survey, typed
from ejop.cli.options import counted, in_words, listed, say
from ejop.cli.tables import NPZ_TARGET, read_table

#: an integer target with at most so many values is a class
MAX_CLASS_NUMBERS = 30


@dataclass
class TrainingTable:
    """Rows to learn from.

    Attributes
    ----------
    X : pandas.DataFrame
        Numbers and levels as :func:`ejop.cli.columns.typed` gives them.
    y : ndarray
    target, task : str
    columns : list of Column
    skipped : list of Skipped
    """

    X: Any
    y: NDArray
    target: str
    task: str
    columns: list[Column]
    skipped: list[Skipped]


def load_training(
    path: Path,
    target: str | None,
    *,
    task: str | None = None,
    drop: str | None = None,
    keep: str | None = None,
) -> TrainingTable:
    """Read a table, find the target, choose the task and the columns, and say so."""
    if target is None:
        if path.suffix.lower() != ".npz":
            raise typer.BadParameter("--target is needed: the column to predict.")
        target = NPZ_TARGET
    frame = read_table(path)
    dropped, kept = listed(drop), listed(keep)
    for name in (target, *dropped, *kept):
        check_name(name, list(frame.columns))
    known = frame[target].notna()
    if not known.all():
        say(f"dropped {counted(int((~known).sum()), 'row')} without {target}")
        frame = frame[known]
    if len(frame) < 2:
        raise ValueError(
            f"{path} has {counted(len(frame), 'row')} with {target}; at least 2 are needed, and "
            "many more to learn anything"
        )
    y, task = targets(frame[target], task)
    columns, skipped = survey(frame.drop(columns=target), drop=dropped, keep=kept)
    _tell_columns(columns, skipped)
    if not columns:
        raise ValueError(f"{path} has no column to learn from beside {target}")
    return TrainingTable(typed(frame, columns), y, target, task, columns, skipped)


def check_name(name: str, names: list[str]) -> None:
    """Refuse a column that is not there; the nearest name may be the one that was meant."""
    if name in names:
        return
    folded = {each.lower(): each for each in reversed(names)}
    near = difflib.get_close_matches(name.lower(), list(folded), 1, 0.5)
    hint = f"did you mean {folded[near[0]]!r}?" if near else f"there are {in_words(names, 12)}"
    raise ValueError(f"there is no column {name!r}; {hint}")


def targets(series: Any, task: str | None = None) -> tuple[NDArray, str]:
    """Classes or real targets, and which of both; chosen from the values unless given."""
    if task is None:
        task, why, other = _task(series)
        say(f"{task}: {series.name} {why}{f'; --task {other} would change that' if other else ''}")
    if task == "regression":
        return numbers(series), task
    y = class_labels(series)
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"{series.name} is always {classes[0]}: there is nothing to learn")
    if counts.max() == 1:
        raise ValueError(f"every row has its own {series.name}, so it cannot be a class")
    return y, task


def _task(series: Any) -> tuple[str, str, str]:
    """The task, why, and the other one where it would do as well."""
    import pandas as pd

    if not _is_numeric(series):
        return "classification", "is not a number", ""
    values = pd.to_numeric(series)
    n_distinct = values.nunique()
    if not (values == values.round()).all():
        return "regression", "is a number with decimals", ""
    if n_distinct <= MAX_CLASS_NUMBERS and 2 * n_distinct <= len(values):
        why = f"has {counted(n_distinct, 'whole number')} as values"
        return "classification", why, "regression"
    return "regression", f"has {n_distinct:,} different values", "classification"


def _is_numeric(series: Any) -> bool:
    import pandas as pd

    kind = pd.api.types.infer_dtype(series)
    return kind in ("integer", "floating", "mixed-integer-float", "decimal")


def class_labels(series: Any) -> NDArray:
    """Classes as integers where all are, else as text."""
    import pandas as pd

    if _is_numeric(series):
        values = pd.to_numeric(series).to_numpy(dtype=np.float64)
        if (values == np.round(values)).all():
            return values.astype(np.int64)
    kind = "boolean" if pd.api.types.infer_dtype(series) == "boolean" else "category"
    return levels(series, kind).astype(str)


def _tell_columns(columns: Collection[Column], skipped: Collection[Skipped]) -> None:
    for column in skipped:
        say(f"skipped column {column.name!r}: {column.why}")
    encoded = [f"{c.name} ({len(c.levels)} levels)" for c in columns if c.kind != "number"]
    if encoded:
        say(f"one-hot encoded: {in_words(encoded)}")
    for middle, kinds in (("median", ["number"]), ("most frequent level", ["category", "boolean"])):
        filled = [f"{c.name} ({c.missing:,})" for c in columns if c.missing and c.kind in kinds]
        if filled:
            say(f"missing values filled with the {middle}: {in_words(filled)}")
