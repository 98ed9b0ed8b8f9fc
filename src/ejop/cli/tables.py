"""Rows from files, as a pandas data frame."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ejop.cli.delimited import check_encoding, read_delimited
from ejop.cli.options import in_words
from ejop.unpacking import PACKED, check_archive, check_unpacked, open_packed, parsing

#: the column that holds ``y`` of an NPZ file
NPZ_TARGET = "y"
#: what people and programs write for a missing value
MISSING_WORDS = frozenset(
    ["NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NULL", "null", "None"]
    + ["NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"]
)
BOOLEANS = ("True", "TRUE", "true", "False", "FALSE", "false")


def read_table(
    path: Path,
    *,
    text: Collection[str] = (),
    valued: Collection[str] = (),
    encoding: str | None = None,
    missing: Collection[str] = (),
) -> Any:
    """Read a table.

    Parameters
    ----------
    path : Path
        CSV, TSV, Parquet, Arrow, NPZ or ARFF by the end of its name; ``-`` is CSV from standard
        input.
    text : collection of str
        Columns of a CSV file whose values are levels or labels, so that "01" stays as it is.
    valued : collection of str
        Columns of numbers or booleans, where "NA" and the like can only mean a missing value. In
        others it does where all else are numbers or booleans, and is a level where not.
    encoding : str, optional
        Of a text file; UTF-8 by default.
    missing : collection of str
        Values that stand for missing ones in every column.

    Returns
    -------
    frame : pandas.DataFrame
        Column names are strings and unique.
    """
    piped = str(path) == "-"
    name, read = ("standard input", _read_csv) if piped else (str(path), _reader(path))
    if path.is_dir():
        raise ValueError(f"cannot read {name}: it is a folder")
    check_encoding(encoding)
    whole = sys.stdin.buffer.read() if piped else b""
    source = TableFile(path, (lambda: BytesIO(whole)) if piped else partial(open_packed, path))
    try:
        if not piped and path.suffix.lower() in PACKED:
            source.check()
        frame = read(source, text, encoding)
    except FileNotFoundError:
        raise ValueError(f"cannot read {name}: there is no such file") from None
    except (ValueError, OSError) as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise ValueError(f"cannot read {name}: {reason}") from error
    frame.columns = [str(column).strip() for column in frame.columns]
    twice = frame.columns[frame.columns.duplicated()].unique()
    if len(twice):
        raise ValueError(f"cannot read {name}: several columns are called {in_words(twice)}")
    if frame.empty:
        raise ValueError(f"{name} has no rows")
    for column in frame.columns:
        given = frame[column]
        series = without(given, missing)
        series = without_words(series, sure=column in valued, text=column in text)
        if series is not given:
            frame[column] = series
    return frame


@dataclass(frozen=True)
class TableFile:
    """A file to read: its path, and its bytes, unpacked, as often as they are asked for."""

    path: Path
    open: Callable[[], BinaryIO]

    def check(self) -> None:
        """Unpack it once, since damage shows at its end, and one that is too large takes long."""
        with self.open() as file:
            while file.read(2**20):
                pass


Reader = Callable[[TableFile, Collection[str], "str | None"], Any]


def without(series: Any, words: Collection[str]) -> Any:
    """Values with those of ``words`` missing; a word that is a number is meant as one."""
    if not words:
        return series
    values: list[Any] = [
        *words,
        *(number for word in words if (number := _number(word)) is not None),
    ]
    found = series.isin(values)
    if not found.any():
        return series
    if series.dtype.kind in "iu":
        series = series.astype("Int64" if series.dtype.kind == "i" else "UInt64")
    return series.mask(found)


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def without_words(series: Any, *, sure: bool = False, text: bool = False) -> Any:
    """Values with "NA" and the like missing, where the others are numbers or booleans.

    Parameters
    ----------
    series : pandas.Series
    sure : bool
        Whether the column is known to hold numbers or booleans.
    text : bool
        Whether the other values stay as they are written.
    """
    import pandas as pd

    if series.dtype.kind != "O" or isinstance(series.dtype, pd.CategoricalDtype):
        return series
    present = series.dropna()
    if not all(isinstance(value, str) for value in present.iloc[:1]):
        return series
    words = present.isin(MISSING_WORDS)
    if not words.any():
        return series
    others = pd.Series(present[~words].unique()).astype(str)
    numeric = pd.to_numeric(others, errors="coerce").notna().all()
    if not sure and (others.empty or not (numeric or others.isin(BOOLEANS).all())):
        return series
    kept = series.mask(series.isin(MISSING_WORDS))
    return pd.to_numeric(kept, errors="coerce") if numeric and not text else kept


def _reader(path: Path) -> Reader:
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in PACKED:
        endings.pop()
        if endings and endings[-1] not in (".csv", ".tsv", ".tab"):
            endings.clear()
    ending = endings[-1] if endings else ""
    if ending not in READERS:
        known = ", ".join(READERS)
        raise ValueError(f"cannot read {path}: its name should end in one of {known}")
    return READERS[ending]


def _read_csv(source: TableFile, text: Collection[str], encoding: str | None) -> Any:
    return read_delimited(source.open, ",", text=text, encoding=encoding)


def _read_tsv(source: TableFile, text: Collection[str], encoding: str | None) -> Any:
    return read_delimited(source.open, "\t", text=text, encoding=encoding)


def _read_parquet(source: TableFile, text: Collection[str], encoding: str | None) -> Any:
    import pyarrow.parquet as parquet  # type: ignore[import-untyped]

    # ParquetFile reads this one file; read_table would take folder names for columns
    with ExitStack() as stack:
        with parsing("Parquet file"):
            file = stack.enter_context(parquet.ParquetFile(source.path))
        about = file.metadata  # the rows may be many although the file is short: runs are counted
        check_unpacked(8 * about.num_rows * about.num_columns, source.path.stat().st_size)
        with parsing("Parquet file"):
            table = file.read()
            table.validate(full=True)
    return _plain_frame(table)


def _read_arrow(source: TableFile, text: Collection[str], encoding: str | None) -> Any:
    import pyarrow as pa

    found: list[Any] = []
    size, packed = 0, source.path.stat().st_size
    with ExitStack() as stack:
        with parsing("Arrow file"):
            file = stack.enter_context(pa.OSFile(str(source.path)))
            schema, batches = _batches(file)
        while True:
            with parsing("Arrow file"):
                batch = next(batches, None)
                if batch is not None:
                    batch.validate(full=True)
            if batch is None:
                break
            found.append(batch)
            size += batch.get_total_buffer_size()
            check_unpacked(size, packed)
    return _plain_frame(pa.Table.from_batches(found, schema))


def _batches(file: Any) -> tuple[Any, Iterator[Any]]:
    """Schema and record batches of an Arrow file in either form."""
    import pyarrow as pa

    try:
        whole = pa.ipc.open_file(file)
    except pa.ArrowInvalid:  # the streaming form has no footer
        file.seek(0)
        stream = pa.ipc.open_stream(file)
        return stream.schema, iter(stream)
    return whole.schema, (whole.get_batch(n) for n in range(whole.num_record_batches))


def _plain_frame(table: Any) -> Any:
    """Columns of an Arrow table, its pandas index among them."""
    import pandas as pd
    import pyarrow as pa

    twice = [name for name, times in Counter(table.column_names).items() if times > 1]
    if twice:
        raise ValueError(f"several columns are called {in_words(twice)}")
    frame = table.to_pandas(ignore_metadata=True)
    nullable = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.type in nullable and column.null_count:  # pandas would make floats of them
            frame[name] = column.to_pandas(types_mapper=nullable.get)
    return frame


def _read_npz(source: TableFile, text: Collection[str], encoding: str | None) -> Any:
    import pandas as pd

    check_archive(source.path)
    # opened here, since numpy would leave a broken file open
    with (
        parsing("NPZ file"),
        open(source.path, "rb") as file,
        np.load(file, allow_pickle=False) as archive,
    ):
        known = list(archive.files)
        arrays = {key: archive[key] for key in ("X", "y", "feature_names") if key in known}
    odd = [key for key, value in arrays.items() if not isinstance(value, np.ndarray)]
    if odd:
        raise ValueError(f"its {in_words(odd)} is no array")
    X, y, names = (arrays.get(key) for key in ("X", "y", "feature_names"))
    if X is None:
        raise ValueError(f"it has no array X, only {in_words(known)}")
    if X.ndim != 2:
        raise ValueError(f"X has shape {X.shape}, and rows and columns are needed")
    if X.dtype.kind not in "biufUS":
        raise ValueError(f"X holds values of type {X.dtype}, and numbers or text are needed")
    if names is not None and names.shape != X.shape[1:]:
        raise ValueError(f"{len(np.ravel(names))} feature_names do not name {X.shape[1]} columns")
    columns = [f"x{j}" for j in range(X.shape[1])] if names is None else map(str, names)
    frame = pd.DataFrame(X, columns=list(columns))
    if y is not None:
        if y.shape != (len(X),):
            raise ValueError(f"y has shape {y.shape}, and X has {len(X)} rows")
        if NPZ_TARGET in frame:
            raise ValueError(f"a feature is called {NPZ_TARGET}, as the target is")
        frame[NPZ_TARGET] = y
    return frame


def _read_arff(source: TableFile, text: Collection[str], encoding: str | None) -> Any:
    import pandas as pd
    from scipy.io import arff

    try:
        with source.path.open(encoding=check_encoding(encoding)) as file:
            content = StringIO(file.read())
    except UnicodeDecodeError as error:
        raise ValueError(f"{error}; add --encoding latin-1, or the encoding it is in") from error
    with parsing("ARFF file of numbers, nominal values and dates"):
        data, meta = arff.loadarff(content)
    frame = pd.DataFrame({name: data[name] for name in meta.names()})
    for name in meta.names():
        if meta[name][0] == "nominal":
            values = frame[name].str.decode("utf-8")
            frame[name] = values.where(values != "?")
    return frame


READERS: dict[str, Reader] = {
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".tab": _read_tsv,
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".arrow": _read_arrow,
    ".feather": _read_arrow,
    ".ipc": _read_arrow,
    ".npz": _read_npz,
    ".arff": _read_arff,
}
