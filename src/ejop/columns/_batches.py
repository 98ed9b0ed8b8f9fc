"""Tables larger than memory: prepared a batch at a time, into rows on disk."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from ejop.columns._judge import INDEX_ROWS
from ejop.columns._preparer import TOLD, ColumnPreparer
from ejop.columns._tables import is_table, n_rows, open_table, read_column

#: rows that columns are judged by, and numbers that are prepared at once, at the most
SAMPLED, PREPARED = 50_000, 2_000_000
#: standard deviations that a number may lose in float32
SINGLE_LOSS = 1e-4
Batches = Callable[[], Iterable[Any]]


@dataclass
class PreparedRows:
    """Rows of numbers on disk that were a table; taken for ``X`` where a predictor is fitted.

    The file has no name: it is gone when nothing reads it any more, however a process ends.

    Attributes
    ----------
    preparer : ColumnPreparer
        Fitted to some of the rows.
    rows : ndarray of shape (n_samples, n_features_out)
        Mapped from the file; float32 where that keeps every column, else float64.
    judged : int
        Rows that the columns were judged by.
    told : list of str
        What was done to rows that hold what none of these did.
    """

    preparer: ColumnPreparer
    rows: NDArray
    judged: int
    told: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, and columns of the table."""
        return len(self.rows), self.preparer.n_features_in_


def prepare_batches(
    batches: Batches,
    *,
    preparer: ColumnPreparer | None = None,
    folder: str | os.PathLike[str] | None = None,
    n_judged: int = SAMPLED,
    random_state: Any = 0,
) -> PreparedRows:
    """Prepare a table that is larger than memory, a batch at a time.

    The batches are read twice: rows drawn at random tell what the columns are, then all rows are
    prepared as these say, and written to a file without a name. Whatever holds no more than a
    batch, the sample and a few million numbers will do.

    Parameters
    ----------
    batches : callable
        ``batches()`` gives tables of pandas, polars or Arrow, or record batches of Arrow, one after
        another; the same ones each time.
    preparer : ColumnPreparer, optional
        Unfitted, with settings of its own; or fitted, and then rows are prepared as it says.
    folder : path, optional
        Where the rows are put, 4 bytes a number; that of temporary files by default.
    n_judged : int, default=50000
        Rows that columns are judged by. Rows with gaps are added where the others have none.
    random_state : int, RandomState or None, default=0

    Returns
    -------
    prepared : PreparedRows

    Raises
    ------
    OSError
        Where the folder has no room; nothing is left there.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from ejop.columns import prepare_batches
    >>> table = pa.table({"age": [22.0, None, 35.0, 58.0], "sex": ["f", "m", "m", "f"]})
    >>> found = prepare_batches(lambda: table.to_batches(max_chunksize=2))
    >>> found.preparer.get_feature_names_out().tolist()
    ['age', 'age_missing', 'sex_m']
    >>> found.rows
    memmap([[22.,  0.,  0.],
            [35.,  1.,  1.],
            [35.,  0.,  1.],
            [58.,  0.,  0.]], dtype=float32)
    """
    sample = _Sample(n_judged, np.random.default_rng(_seed(random_state)))
    for table in _tables(batches):
        sample.add(table)
    judged = sample.table()
    preparer = ColumnPreparer() if preparer is None else preparer
    if not hasattr(preparer, "columns_"):
        preparer = _judged(clone(preparer), judged, sample.numbers())
    preparer = preparer.set_output(transform="default")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the sample; all rows are told of below
        kind = _kind_of(preparer.transform(judged))
    folder = tempfile.gettempdir() if folder is None else os.fspath(folder)
    rows, told = _written(batches, preparer, sample.seen, kind, folder)
    return PreparedRows(preparer, rows, n_rows(judged), told)


def _seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(2**31 - 1))


def _tables(batches: Batches) -> Iterator[Any]:
    """The batches that have rows, as tables."""
    for batch in batches():
        table = batch
        if type(batch).__name__ == "RecordBatch":
            import pyarrow as pa  # type: ignore[import-untyped]

            table = pa.Table.from_batches([batch])
        if not is_table(table):
            raise TypeError(
                f"`batches()` gave {type(batch).__name__}; tables of pandas, polars or Arrow are "
                "needed."
            )
        if n_rows(table):
            yield table


def _rows_of(table: Any, rows: Any) -> Any:
    """Some rows of a table of any library."""
    import narwhals.stable.v2 as nw

    return nw.from_native(table, eager_only=True)[rows].to_native()


# judging ----------------------------------------------------------------------------------------


class _Sample:
    """Rows drawn at random from batches whose number nobody knows, and some with gaps."""

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.size, self.rng = size, rng
        self.seen = 0
        self.cut = 1.0
        #: keys, row numbers and rows; those of the smallest keys stay
        self.parts: list[tuple[NDArray, NDArray, Any]] = []
        self.full: set[str] | None = None

    def add(self, table: Any) -> None:
        """Draw from one more batch."""
        n = n_rows(table)
        keys = self.rng.random(n)
        for row in self._gaps(table):
            keys[row] = -1.0
        rows = np.flatnonzero(keys < self.cut)
        if len(rows):
            self.parts.append((keys[rows], self.seen + rows, _rows_of(table, rows)))
        self.seen += n
        if sum(len(keys) for keys, _, _ in self.parts) > 2 * self.size:
            self._keep()

    def _gaps(self, table: Any) -> list[int]:
        """The first row with a gap of each column that had none before."""
        names, series = open_table(table)
        self.full = set(names) if self.full is None else self.full
        found = []
        for j, name in enumerate(names):
            if name in self.full:
                values = series(j)
                gone = values.is_null().to_numpy()
                if not gone.any() and values.dtype.is_float():
                    gone = values.is_nan().to_numpy()
                if gone.any():
                    self.full.discard(name)
                    found.append(int(gone.argmax()))
        return found

    def _keep(self) -> None:
        """Only the rows of the smallest keys."""
        keys = np.concatenate([keys for keys, _, _ in self.parts])
        if len(keys) <= self.size:
            return
        self.cut = float(np.partition(keys, self.size)[self.size])
        kept = []
        for keys, numbers, table in self.parts:
            rows = np.flatnonzero(keys < self.cut)
            if len(rows) == len(keys):
                kept.append((keys, numbers, table))
            elif len(rows):
                kept.append((keys[rows], numbers[rows], _rows_of(table, rows)))
        self.parts = kept

    def numbers(self) -> NDArray:
        """Numbers of the rows that were drawn, in order."""
        return np.concatenate([numbers for _, numbers, _ in self.parts])

    def table(self) -> Any:
        """The rows that were drawn."""
        import narwhals.stable.v2 as nw

        if not self.parts:
            raise ValueError("`batches()` gave no rows; at least one is needed.")
        self._keep()
        frames = [nw.from_native(table, eager_only=True) for _, _, table in self.parts]
        with warnings.catch_warnings():  # pandas tells of columns of gaps alone
            warnings.simplefilter("ignore", FutureWarning)
            return nw.concat(frames).to_native()


def _judged(preparer: ColumnPreparer, table: Any, numbers: NDArray) -> ColumnPreparer:
    """A preparer fitted to rows of these numbers among all; a column of row numbers is left out."""
    names, series = open_table(table)
    said = dict(preparer.kinds or {})
    counting = [
        name
        for j, name in enumerate(names)
        if name not in said and len(numbers) >= INDEX_ROWS and _counts(series(j), numbers)
    ]
    with warnings.catch_warnings():  # what is left out is told by whoever asked for it
        warnings.filterwarnings("ignore", TOLD, UserWarning)
        found = clone(preparer).set_params(kinds={**said, **dict.fromkeys(counting, "skip")})
        found.fit(table)
    found.set_params(kinds=preparer.kinds)
    found.skipped_ = [
        replace(each, why="it counts the rows", asked=False) if each.name in counting else each
        for each in found.skipped_
    ]
    return found


def _counts(series: Any, numbers: NDArray) -> bool:
    """Whether values are the numbers of the rows, from any number on."""
    cells = read_column(series)
    if cells.kind != "number" or cells.missing.any():
        return False
    return bool((np.diff(cells.values) == np.diff(numbers)).all())


def _kind_of(rows: NDArray) -> np.dtype:
    """float32 where it keeps every column, in units of its standard deviation."""
    spread, largest = rows.std(0), np.abs(rows).max(0)
    lost = np.finfo(np.float32).eps * largest > SINGLE_LOSS * np.where(spread > 0, spread, np.inf)
    return np.dtype(np.float64 if lost.any() or largest.max() > 1e18 else np.float32)


# writing ----------------------------------------------------------------------------------------


def _written(
    batches: Batches, preparer: ColumnPreparer, n: int, kind: np.dtype, folder: str
) -> tuple[NDArray, list[str]]:
    """All rows prepared, mapped from a file without a name, and what is told of them."""
    width, told = len(preparer.groups_), list[str]()
    size = n * width * kind.itemsize
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise OSError(f"cannot write to {folder}: {error.strerror}") from error
    if size > free:
        raise _no_room(folder, size, f"{_size(free)} are free")
    done = 0
    with _unnamed(folder, size) as file:
        for rows in _prepared(batches, preparer, told):
            try:
                file.write(np.ascontiguousarray(rows, dtype=kind).data)
            except OSError as error:
                raise _no_room(folder, size, str(error.strerror)) from error
            done += len(rows)
        if done != n:
            raise ValueError(
                f"`batches()` gave {n} rows the first time and {done} the second; it must give the "
                "same ones each time."
            )
        file.flush()
        return np.memmap(file, kind, "r", shape=(n, width)), told


def _unnamed(folder: str, size: int) -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError as error:
        raise _no_room(folder, size, str(error.strerror)) from error


def _no_room(folder: str, size: int, why: str) -> OSError:
    return OSError(
        f"cannot put {_size(size)} of prepared rows into {folder}: {why}; name a folder with room"
    )


def _size(n: float) -> str:
    return f"{n / 1e9:.2f} GB" if n >= 1e9 else f"{n / 1e6:.1f} MB"


def _prepared(batches: Batches, preparer: ColumnPreparer, told: list[str]) -> Iterator[NDArray]:
    """Prepared rows, some at a time; what holds what no judged row did is told once."""
    size = max(1, PREPARED // len(preparer.groups_))
    start, more = 0, 0
    for table in _tables(batches):
        for s in range(0, n_rows(table), size):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                rows = _transformed(preparer, _rows_of(table, slice(s, s + size)), start + s)
            texts = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
            more += bool(texts and told)
            told += texts[: not told]
            yield rows
        start += n_rows(table)
    if more:
        told[0] += f"; and the like in {more} more piece{'s' * (more > 1)} of {size:,} rows"


def _transformed(preparer: ColumnPreparer, table: Any, start: int) -> NDArray:
    try:
        return preparer.transform(table)
    except ValueError as error:
        raise ValueError(f"in rows from {start:,} on: {error}") from error
