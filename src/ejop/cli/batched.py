"""Parquet and Arrow files that are larger than memory, read a batch of rows at a time."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from ejop.cli.options import called_alike, counted, say
from ejop.cli.tables import arrow_batches, plain_frame, without
from ejop.cli.training import (
    LABEL_WORDS,
    Chosen,
    TrainingTable,
    checked_kinds,
    labelled,
    needed_target,
    told_by_us,
)
from ejop.columns import ColumnPreparer, PreparedRows, prepare_batches
from ejop.unpacking import LEAST, TIMES, parsing

#: bytes of a table that is read whole, of a batch, and of the buffer of a column of Parquet
WHOLE, BATCH, BUFFER = 2**29, 2**25, 2**20
#: bytes that a value takes, of numbers and of anything else
NUMBER, OTHER = 8, 64
#: rows of a report, at the most
REPORTED = 10_000
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def as_bytes(text: str | None) -> int | None:
    """Bytes from what people write.

    Examples
    --------
    >>> from ejop.cli.batched import as_bytes
    >>> as_bytes("1.5GB"), as_bytes("300 MiB"), as_bytes("2k")
    (1610612736, 314572800, 2048)
    """
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise typer.BadParameter(f"--memory {text!r} is no size such as 2GB or 500MB.")
    return int(float(found[1]) * _UNITS[found[2].upper()])


@dataclass(frozen=True)
class BatchedFile:
    """A file of Parquet or Arrow.

    Attributes
    ----------
    path : Path
    missing : collection of str
        Values that stand for missing ones.
    """

    path: Path
    missing: Collection[str] = ()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Damage, told of the file."""
        try:
            yield
        except (ValueError, OSError) as error:
            reason = str(error).strip().split("\n")[0] or type(error).__name__
            raise ValueError(f"cannot read {self.path}: {reason}") from error

    @property
    def _is_parquet(self) -> bool:
        return self.path.suffix.lower() in PARQUET

    def schema(self) -> Any:
        """Names and types of the columns."""
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.parquet as parquet  # type: ignore[import-untyped]

        with self._told(), parsing("Parquet or Arrow file"):
            if self._is_parquet:
                return parquet.read_schema(self.path)
            with pa.OSFile(str(self.path)) as file:
                return arrow_batches(file)[0]

    def names(self) -> list[str]:
        """Names of the columns, without blanks around them."""
        found = [str(name).strip() for name in self.schema().names]
        twice = sorted({name for name in found if found.count(name) > 1})
        if twice:
            raise ValueError(f"cannot read {self.path}: {called_alike(twice)}")
        return found

    def row_bytes(self) -> int:
        """Bytes that a row takes as a data frame, roughly."""
        import pyarrow.types as kinds  # type: ignore[import-untyped]

        numbers = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_temporal)
        return sum(
            NUMBER if any(is_one(each.type) for is_one in numbers) else OTHER
            for each in self.schema()
        )

    def n_rows(self) -> int:
        """Rows of the file, of which no more than a column is read."""
        import pyarrow.parquet as parquet

        if self._is_parquet:
            with self._told(), parsing("Parquet file"):
                return int(parquet.read_metadata(self.path).num_rows)
        return sum(batch.num_rows for batch in self._arrow([0]))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Data frames of some rows, one after another; of some columns, or of all."""
        import pyarrow as pa

        most, fields = max(1, BATCH // max(self.row_bytes(), 1)), None
        if columns is not None:
            places = {name: place for place, name in enumerate(self.names())}
            fields = sorted(places[name] for name in columns)
        with self._told():
            for batch in self._parquet(most, fields) if self._is_parquet else self._arrow(fields):
                table = pa.Table.from_batches([batch])
                table = table.rename_columns([str(name).strip() for name in table.column_names])
                table = table if columns is None else table.select(list(columns))
                for s in range(0, table.num_rows, most):
                    yield self._frame(table.slice(s, most))

    def first(self) -> Any:
        """The first batch."""
        found = next(self.batches(), None)
        if found is None:
            raise ValueError(f"{self.path} has no rows")
        return found

    def shown(self, what: str) -> Iterator[Any]:
        """All batches; where somebody watches, a bar tells the time that is left. What is told of
        rows is told once."""
        told = 0
        with bar(self.n_rows(), what) as shown:
            for frame in self.batches():
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    yield frame
                texts = [str(one.message) for one in caught if one.category is UserWarning]
                for text in texts if told == 0 else []:
                    say(f"warning: {text}")
                told += bool(texts)
                if shown is not None:
                    shown.update(len(frame))
        if told > 1:
            say(f"warning: the like holds for {counted(told - 1, 'more part')} of the rows")

    def _frame(self, table: Any) -> Any:
        frame = plain_frame(table)
        for name in frame.columns if self.missing else ():
            frame[name] = without(frame[name], self.missing)
        return frame

    def _parquet(self, most: int, fields: list[int] | None) -> Iterator[Any]:
        import pyarrow.parquet as parquet

        names = None if fields is None else [self.schema().names[place] for place in fields]
        with ExitStack() as stack:
            with parsing("Parquet file"):
                file = stack.enter_context(
                    parquet.ParquetFile(self.path, buffer_size=BUFFER, pre_buffer=False)
                )
                batches = file.iter_batches(batch_size=most, columns=names)
            yield from _whole(batches, "Parquet file")

    def _arrow(self, fields: list[int] | None = None) -> Iterator[Any]:
        import pyarrow as pa

        with ExitStack() as stack:
            with parsing("Arrow file"):
                file = stack.enter_context(pa.OSFile(str(self.path)))
                batches = arrow_batches(file, fields)[1]
            yield from _whole(batches, "Arrow file")


def _whole(batches: Iterator[Any], what: str) -> Iterator[Any]:
    while True:
        with parsing(what):
            batch = next(batches, None)
            if batch is not None:
                batch.validate(full=True)
        if batch is None:
            return
        yield batch


def batched(path: Path, missing: Collection[str] = (), memory: int | None = None) -> Any:
    """The file, if its table is to be read in batches; None if it is small, or of another kind.

    A table of more than half a GiB is, or one of more than an eighth of the memory that was given.
    """
    if path.suffix.lower() not in (*PARQUET, *ARROW) or not path.is_file():
        return None
    file, most = BatchedFile(path, missing), WHOLE if memory is None else memory // 8
    size = path.stat().st_size
    if 100 * size < most:  # however well it is packed
        return None
    n, width = file.n_rows(), file.row_bytes()
    odd = NUMBER * n * len(file.names()) > max(LEAST, TIMES * size)  # is refused where it is read
    return file if n * width > most and not odd else None


def bar(n: int, what: str) -> Any:
    """A bar with the time that is left, where somebody watches."""
    if not sys.stderr.isatty():
        return nullcontext()
    return typer.progressbar(length=n, label=what, file=sys.stderr)


def joined(parts: Sequence[Any]) -> Any:
    """Parts of a table, or of a column, one after another."""
    import pandas as pd

    return parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)


# learning ---------------------------------------------------------------------------------------


@dataclass
class BatchedTraining(TrainingTable):
    """A table in batches to learn from; its rows are prepared on disk when it is surveyed.

    Attributes
    ----------
    file : BatchedFile
    wanted : ndarray of bool
        The rows of the file that are learned from.
    folder : Path
        Where prepared rows are put.
    seed : int
    """

    file: BatchedFile = field(default_factory=lambda: BatchedFile(Path()))
    wanted: NDArray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    folder: Path = Path()
    seed: int = 0

    @property
    def columns(self) -> Any:
        """Rows are prepared before they come to a predictor."""
        return "auto"

    def survey(self) -> ColumnPreparer:
        """Prepare the rows, and say what is done with the columns."""
        with told_by_us(self.source), bar(2 * len(self.wanted), "preparing rows") as shown:
            self.X = prepare_batches(
                lambda: self._frames(self.wanted, shown),
                preparer=ColumnPreparer(kinds=self.kinds),
                folder=self.folder,
                random_state=self.seed,
            )
        _tell_prepared(self.X)
        return self.X.preparer

    def shown(self) -> tuple[Any, NDArray]:
        """The first batch of rows that are learned from, and their targets."""
        first = next(self._frames(self.wanted))
        return first, self.y[: len(first)]

    def put_aside(self, share: float) -> tuple[Any, NDArray]:
        """Take some rows out of those that are learned from, at the most as many as a report has
        use for."""

        n = len(self.y)
        size = min(REPORTED, int(share * n))
        places = np.random.default_rng(self.seed).choice(n, size, replace=False)
        chosen = np.isin(np.arange(n), places)
        held = np.zeros(len(self.wanted), dtype=bool)
        held[np.flatnonzero(self.wanted)[chosen]] = True
        X = joined(list(self._frames(held)))
        X.index = np.flatnonzero(held)  # numbers of the rows in the file
        self.wanted = self.wanted & ~held
        self.y, y = self.y[~chosen], self.y[chosen]
        return X, y

    def _frames(self, wanted: NDArray, shown: Any = None) -> Iterator[Any]:
        """The wanted rows, without the target and what rows are called."""
        start, others = 0, [name for name in (self.target, self.id) if name is not None]
        for frame in self.file.batches():
            keep = wanted[start : start + len(frame)]
            start += len(frame)
            if shown is not None:
                shown.update(len(frame))
            frame = frame.drop(columns=others)
            if keep.all():
                yield frame
            elif keep.any():
                yield frame[keep]


def _tell_prepared(prepared: PreparedRows) -> None:
    n = len(prepared)
    if prepared.judged < n:
        say(
            f"columns are judged by {counted(prepared.judged, 'row')} of {n:,}, drawn at random, "
            "and gaps are counted in these"
        )
    for line in [*prepared.preparer.in_words(), *(f"warning: {text}" for text in prepared.told)]:
        say(line)
    for column in prepared.preparer.columns_:
        for word in sorted(LABEL_WORDS.intersection(getattr(column, "levels", []))):
            say(f"{word} is a level of {column.name}; --missing {word} would make it missing")


def load_batched(
    file: BatchedFile, chosen: Chosen, *, task: str | None, folder: Path, seed: int
) -> BatchedTraining:
    """Find the target of a file, choose the task, and say so; the others are not yet read."""

    path, names = file.path, file.names()
    target = needed_target(path, chosen)
    kinds = checked_kinds(chosen, target, names)
    if set(names) <= {target, chosen.id}:
        raise ValueError(f"{path} has no column to learn from beside {target}")
    parts = [frame[target] for frame in file.batches([target])]
    if not parts:
        raise ValueError(f"{path} has no rows")
    say(f"{path.name} is read a batch of rows at a time, since it is large")
    known, y, task = labelled(joined(parts), task, path)
    return BatchedTraining(
        None,
        y,
        target,
        task,
        kinds,
        path.name,
        chosen.id,
        chosen.missing,
        file=file,
        wanted=known,
        folder=folder,
        seed=seed,
    )
