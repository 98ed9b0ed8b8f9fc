"""From a table to rows and targets, every decision said aloud."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from ejop.cli.options import counted, in_words, listed, say
from ejop.cli.reading import PLAIN, ReadOptions
from ejop.cli.tables import (
    LABEL_WORDS,
    NPZ_TARGET,
    read_table,
    without_label_words,
)
from ejop.columns import (
    TOLD,
    ColumnPreparer,
    NumberFormat,
    few_for,
    number_format,
    read_column,
)

#: a category of so many numbers and so few words may have been meant as a number
MANY_NUMBERS, FEW_WORDS = 10, 3
#: labels that are integers as they are written, whole numbers, and codes such as 01234
_INTEGER = re.compile(r"0|-?[1-9]\d{0,18}|1\d{19}", re.ASCII)
_WHOLE = re.compile(r"(0|-?[1-9]\d*)(?:\.0*)?", re.ASCII)
_CODE = re.compile(r"0\d+", re.ASCII)


@dataclass(frozen=True)
class Chosen:
    """What a user says of the columns.

    Attributes
    ----------
    target, id : str, optional
        What is predicted, and what rows are called.
    drop, keep, category, missing : list of str
        Columns to leave out, to use in any case, to use as categories; values that stand for
        missing ones.
    """

    target: str | None = None
    id: str | None = None
    drop: list[str] = field(default_factory=list)
    keep: list[str] = field(default_factory=list)
    category: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @classmethod
    def read(
        cls,
        target: str | None,
        *,
        id_column: str | None = None,
        drop: str | None = None,
        keep: str | None = None,
        category: str | None = None,
        missing: str | None = None,
    ) -> Chosen:
        """From options, lists of which are written with commas."""
        return cls(target, id_column, *map(listed, (drop, keep, category, missing)))

    def kinds(self, names: list[str]) -> dict[str, str]:
        """What columns are to be used as, for :class:`ejop.columns.ColumnPreparer`."""
        found: dict[str, str] = {}
        said: dict[str, str] = {}
        for option, kind in (("drop", "skip"), ("keep", "keep"), ("category", "category")):
            for name in getattr(self, option):
                check_name(name, names)
                if name in (self.target, self.id):
                    what = "target" if name == self.target else "--id column"
                    raise ValueError(f"{name!r} is the {what}; take it out of --{option}")
                if said.setdefault(name, option) != option:
                    raise ValueError(f"{name!r} is in --{said[name]} and in --{option}; choose one")
                found[name] = kind
        return found


@dataclass
class TrainingTable:
    """Rows to learn from.

    Attributes
    ----------
    X : pandas.DataFrame
        Without the target and what rows are called.
    y : ndarray
    target, task : str
    kinds : dict of str to str
        What columns are to be used as, see :class:`ejop.columns.ColumnPreparer`.
    source : str
        The file.
    id : str or None
        Column of what rows are called.
    missing : list of str
        Values that stood for missing ones.
    reading : ReadOptions
        What was asked for to read the file.
    """

    X: Any
    y: NDArray
    target: str
    task: str
    kinds: dict[str, str] = field(default_factory=dict)
    source: str = ""
    id: str | None = None
    missing: list[str] = field(default_factory=list)
    reading: ReadOptions = PLAIN

    @property
    def columns(self) -> Any:
        """What prepares the columns, as the predictors take it."""
        return ColumnPreparer(kinds=self.kinds) if self.kinds else "auto"

    def shown(self) -> tuple[Any, NDArray]:
        """Rows to draw, and their targets."""
        return self.X, self.y

    def survey(self) -> ColumnPreparer:
        """Judge the columns, and say what is done with them."""
        found = ColumnPreparer(kinds=self.kinds)
        with told_by_us(self.source):
            found.fit(self.X)
        for line in found.in_words():
            say(line)
        for column in found.columns_:
            if column.kind == "category":
                _tell_words(self.X[column.name], "level")
                if column.name not in self.kinds:
                    _tell_numbers(column)
        return found


@contextmanager
def told_by_us(source: str) -> Iterator[None]:
    """Words of the library about a table, said of the file and its options."""
    try:
        with warnings.catch_warnings():  # said with all else that is done with columns
            warnings.filterwarnings("ignore", TOLD, UserWarning)
            yield
    except ValueError as error:
        text = re.sub(r"`X`( \(n_samples=\d+\))?", source, str(error))
        text = text.replace("kinds={'name': 'keep'} uses one", "--keep name uses one")
        if text == str(error):
            raise
        raise ValueError(text) from error


def load_training(
    path: Path, chosen: Chosen, *, task: str | None = None, reading: ReadOptions = PLAIN
) -> TrainingTable:
    """Read a table, find the target, choose the task, and say so."""
    target = needed_target(path, chosen)
    text = [target, *([chosen.id] if chosen.id is not None else [])]
    frame = read_table(
        path, text=text, codes=chosen.category, reading=reading, missing=chosen.missing
    )
    kinds = checked_kinds(chosen, target, list(frame.columns))
    known, y, task = labelled(frame[target], task, path)
    X = frame.drop(columns=[target, *([chosen.id] if chosen.id is not None else [])])
    if not known.all():
        X = X[known]
    if not X.shape[1]:
        raise ValueError(f"{path} has no column to learn from beside {target}")
    return TrainingTable(X, y, target, task, kinds, path.name, chosen.id, chosen.missing, reading)


def needed_target(path: Path, chosen: Chosen) -> str:
    """The target, which only an NPZ file has by itself."""
    target = chosen.target
    if target is None:
        if path.suffix.lower() != ".npz":
            raise typer.BadParameter("--target is needed: the column to predict.")
        target = NPZ_TARGET
    if chosen.id == target:
        raise ValueError(f"--id {target!r} is the target; name another column, or leave it out")
    return target


def checked_kinds(chosen: Chosen, target: str, names: list[str]) -> dict[str, str]:
    """What columns are to be used as, once all that were named are there."""
    for name in (target, *([chosen.id] if chosen.id is not None else [])):
        check_name(name, names)
    return chosen.kinds(names)


def labelled(series: Any, task: str | None, path: Path) -> tuple[NDArray, NDArray, str]:
    """Which rows have a target, their targets, and the task, told."""
    series = without_label_words(series)
    known = series.notna().to_numpy()
    if not known.all():
        say(f"dropped {counted(int((~known).sum()), 'row')} without {series.name}")
        series = series[known]
    if len(series) < 2:
        raise ValueError(
            f"{path} has {counted(len(series), 'row')} with {series.name}; at least 2 are needed, "
            "and many more to learn anything"
        )
    y, task = targets(series, task)
    if task == "classification":
        _tell_words(series, "class")
    return known, y, task


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
        return real_values(series, told=True), task
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
    if few_for(n_distinct, len(values)):
        why = f"has {counted(n_distinct, 'whole number')} as values"
        return "classification", why, "regression"
    return "regression", f"has {n_distinct:,} different values", "classification"


def _numeric(series: Any) -> Any:
    """Values as numbers where all of them are, those written as text among them; else None."""
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):
        return None
    cells = read_column(series)
    if cells.kind == "text":
        levels = cells.levels or []
        form = number_format(levels)
        if form is None:
            return None
        if form.marks:
            return pd.Series(cells.mapped(form.read(levels)).values)
    elif cells.kind != "number":
        return None
    return pd.to_numeric(series)  # whole numbers beyond float64 stay what they are


def real_values(series: Any, *, told: bool = False) -> NDArray:
    """Targets as float64; what is no finite number is an error.

    Parameters
    ----------
    series : pandas.Series
    told : bool
        Whether to say how numbers that are written in an unusual way are read.
    """
    cells = read_column(series)
    if cells.kind in ("date", "other"):
        raise ValueError(
            f"column {series.name!r} should hold numbers, and holds {cells.found or 'dates'}; turn "
            "them into numbers"
        )
    if cells.levels is not None:
        form = number_format(cells.levels) or NumberFormat()
        found = form.read(cells.levels)
        odd = next((x for x, v in zip(cells.levels, found, strict=True) if np.isnan(v)), None)
        if odd is not None:
            raise ValueError(
                f"column {series.name!r} should hold numbers, and {odd!r} is not one; mend it, or "
                "use --task classification"
            )
        if told and form.in_words():
            say(f"{series.name}: read as numbers {form.in_words()}")
        cells = cells.mapped(found)
    n_infinite = int(np.isinf(cells.values).sum())
    if n_infinite:
        raise ValueError(
            f"column {series.name!r} has {counted(n_infinite, 'infinite value')}; remove or "
            "replace them"
        )
    return cells.values


# labels ---------------------------------------------------------------------------------------


def class_labels(series: Any) -> NDArray:
    """Classes as the file has them: integers where all are written as such, else text."""
    import pandas as pd

    if pd.api.types.infer_dtype(series) == "boolean":
        return series.map(lambda value: str(value).lower()).to_numpy(dtype=str)
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


def _tell_numbers(column: Any) -> None:
    """Say that a category would be a number but for a few words."""
    levels = [*column.levels, *column.rare]
    words = [level for level in levels if number_format([level]) is None]
    if words and len(words) <= FEW_WORDS and len(levels) - len(words) >= MANY_NUMBERS:
        say(
            f"{column.name}: a category, since {in_words(words)} stands among its numbers; "
            f"--missing {','.join(words)} would make it a number"
        )


def _tell_words(series: Any, what: str) -> None:
    """Say that NA and the like were taken as they are, since many mean a missing value by them."""
    found = sorted(LABEL_WORDS.intersection(map(str, series.dropna().unique())))
    for word in found:
        n = int((series.astype(str) == word).sum())
        say(
            f"{word} is a {what} of {series.name} in {counted(n, 'row')}; --missing {word} would "
            "make it missing"
        )
