"""From a table to rows and targets, every decision said aloud."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from ejop.cli.columns import Column, Skipped, levels, numbers, survey, typed
from ejop.cli.options import counted, in_words, listed, say
from ejop.cli.tables import MISSING_WORDS, NPZ_TARGET, read_table

#: an integer target with at most so many values is a class
MAX_CLASS_NUMBERS = 30
#: labels that are integers as they are written, whole numbers, and codes such as 01234
_INTEGER = re.compile(r"0|-?[1-9]\d{0,18}|1\d{19}", re.ASCII)
_WHOLE = re.compile(r"(0|-?[1-9]\d*)(?:\.0*)?", re.ASCII)
_CODE = re.compile(r"0\d+", re.ASCII)


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
    missing : list of str
        Values that stood for missing ones.
    """

    X: Any
    y: NDArray
    target: str
    task: str
    columns: list[Column]
    skipped: list[Skipped]
    missing: list[str] = field(default_factory=list)


def load_training(
    path: Path,
    target: str | None,
    *,
    task: str | None = None,
    drop: str | None = None,
    keep: str | None = None,
    encoding: str | None = None,
    missing: str | None = None,
) -> TrainingTable:
    """Read a table, find the target, choose the task and the columns, and say so."""
    if target is None:
        if path.suffix.lower() != ".npz":
            raise typer.BadParameter("--target is needed: the column to predict.")
        target = NPZ_TARGET
    words = listed(missing)
    frame = read_table(path, text=[target], encoding=encoding, missing=words)
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
    if task == "classification":
        _tell_words(frame[target], "class")
    columns, skipped = survey(frame.drop(columns=target), drop=dropped, keep=kept)
    _tell_columns(columns, skipped)
    for column in columns:
        if column.kind == "category":
            _tell_words(frame[column.name], "level")
    if not columns:
        raise ValueError(f"{path} has no column to learn from beside {target}")
    return TrainingTable(typed(frame, columns), y, target, task, columns, skipped, words)


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
    values = _numeric(series)
    if values is None:
        return "classification", "is not a number", ""
    if series.dtype.kind == "O" and series.astype(str).str.fullmatch(_CODE).any():
        return "classification", "is a code with leading zeros", "regression"
    n_distinct = values.nunique()
    if not (values == values.round()).all():
        return "regression", "is a number with decimals", ""
    if n_distinct <= MAX_CLASS_NUMBERS and 2 * n_distinct <= len(values):
        why = f"has {counted(n_distinct, 'whole number')} as values"
        return "classification", why, "regression"
    return "regression", f"has {n_distinct:,} different values", "classification"


def _numeric(series: Any) -> Any:
    """Values as numbers where all of them are, those written as text among them; else None."""
    import pandas as pd

    kind = pd.api.types.infer_dtype(series)
    if kind not in ("integer", "floating", "mixed-integer-float", "decimal", "string"):
        return None
    try:
        return pd.to_numeric(series)
    except (ValueError, TypeError):
        return None


# labels ---------------------------------------------------------------------------------------


def class_labels(series: Any) -> NDArray:
    """Classes as the file has them: integers where all are written as such, else text."""
    import pandas as pd

    if pd.api.types.infer_dtype(series) == "boolean":
        return levels(series, "boolean").astype(str)
    codes, uniques = series.factorize()
    found = [_label(value) for value in uniques]
    whole = [label for label in found if isinstance(label, int)]
    if len(whole) == len(found):
        for bounds in map(np.iinfo, (np.int64, np.uint64)):
            if all(bounds.min <= label <= bounds.max for label in whole):
                return np.array(whole, dtype=bounds.dtype)[codes]
    return np.array([str(label) for label in found])[codes]


def _label(value: Any) -> int | str:
    """An integer where that is the same as what is written."""
    if isinstance(value, str):
        return int(value) if _INTEGER.fullmatch(value) else value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating | Decimal) and value == value // 1:
        return int(value)
    return str(value)


def known_labels(series: Any, classes: NDArray) -> NDArray:
    """Classes of new rows as a model names them, as text; those it does not know as they are.

    Another file may write 1 as 1.0 and true as True; that is followed as long as no two classes of
    the model are told apart by it.
    """
    names = [str(label) for label in classes]
    loose = {_spelling(name): name for name in names}
    found, codes = np.unique(class_labels(series).astype(str), return_inverse=True)
    labels = [str(label) for label in found]
    if len(loose) == len(names):
        labels = [name if name in names else loose.get(_spelling(name), name) for name in labels]
    return np.array(labels)[codes]


def _spelling(label: str) -> str:
    number = _WHOLE.fullmatch(label)
    if number:
        return number[1]
    return label.lower() if label.lower() in ("true", "false") else label


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


def _tell_words(series: Any, what: str) -> None:
    """Say that NA and the like were taken as they are, since many mean a missing value by them."""
    found = sorted(MISSING_WORDS.intersection(map(str, series.dropna().unique())))
    for word in found:
        n = int((series.astype(str) == word).sum())
        say(
            f"{word} is a {what} of {series.name} in {counted(n, 'row')}; --missing {word} would "
            "make it missing"
        )
