"""Rows from files, as a pandas data frame."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from functools import partial
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ejop.cli.delimited import read_delimited
from ejop.cli.options import called_alike, in_words
from ejop.cli.reading import PLAIN, SEPARATORS, ReadOptions, check_encoding
from ejop.cli.workbooks import read_workbook
from ejop.columns import MISSING_WORDS
from ejop.unpacking import PACKED, check_archive, check_unpacked, open_packed, parsing

#: the column that holds ``y`` of an NPZ file
NPZ_TARGET = "y"
#: what is missing among labels that are numbers: fewer words, since a label may be any
LABEL_WORDS = frozenset(
    ["NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NULL", "null", "None"]
    + ["NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"]
)
#: what may be compressed
PLAIN_TEXT = (".csv", ".tsv", ".tab", ".txt")
BOOLEANS = {"true": True, "false": False}


def read_table(
    path: Path,
    *,
    text: Collection[str] = (),
    codes: Collection[str] = (),
    reading: ReadOptions = PLAIN,
    usual: ReadOptions = PLAIN,
    missing: Collection[str] = (),
) -> Any:
    """Read a table.

    Parameters
    ----------
    path : Path
        CSV, TSV, text, Excel, Parquet, Arrow, NPZ or ARFF by the end of its name; ``-`` is CSV from
        standard input.
    text : collection of str
        Columns of a text file whose values are levels or labels, so that "01" stays as it is.
    codes : collection of str
        The same, but read where that loses nothing: 1.0 and 2.0 are the whole numbers that a
        program wrote, and 01 and 02 are not.
    reading : ReadOptions, optional
        What was asked for; an error where it has no meaning for the file.
    usual : ReadOptions, optional
        How the file was read that a model comes from; taken where it fits this one.
    missing : collection of str
        Values that stand for missing ones in every column. In columns of files without types
        whose other values are numbers or booleans "NA" and the like do so anyway.

    Returns
    -------
    frame : pandas.DataFrame
        Column names are strings and unique.
    """
    piped = str(path) == "-"
    name, kind = ("standard input", READERS[".csv"]) if piped else (str(path), _kind(path))
    if path.is_dir():
        raise ValueError(f"cannot read {name}: it is a folder")
    reading.refuse_others(name, *kind.options)
    whole = sys.stdin.buffer.read() if piped else b""
    opened = (lambda: BytesIO(whole)) if piped else partial(open_packed, path)
    source = TableFile(path, opened, {*text, *codes}, reading, usual)
    try:
        if not piped and path.suffix.lower() in PACKED:
            source.check()
        frame = kind.read(source)
    except FileNotFoundError:
        raise ValueError(f"cannot read {name}: there is no such file") from None
    except (ValueError, OSError) as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise ValueError(f"cannot read {name}: {reason}") from error
    frame.columns = [str(column).strip() for column in frame.columns]
    twice = frame.columns[frame.columns.duplicated()].unique()
    if len(twice):
        raise ValueError(f"cannot read {name}: {called_alike(twice)}")
    if frame.empty:
        raise ValueError(f"{name} has no rows")
    return _without_gaps(frame, kind, text, codes, missing)


def _without_gaps(
    frame: Any,
    kind: FileKind,
    text: Collection[str],
    codes: Collection[str],
    missing: Collection[str],
) -> Any:
    """What stands for missing values made missing, column by column."""
    for column in frame.columns:
        given = frame[column]
        series = without(given, missing)
        if kind.words and column in codes:
            series = as_programs_write(series)
        elif kind.words and column not in text:
            series = without_words(series)
        if series is not given:
            frame[column] = series
    return frame


@dataclass(frozen=True)
class TableFile:
    """A file to read: its path, its bytes, unpacked, as often as they are asked for, and how."""

    path: Path
    open: Callable[[], BinaryIO]
    text: Collection[str] = ()
    reading: ReadOptions = PLAIN
    usual: ReadOptions = PLAIN

    def check(self) -> None:
        """Unpack it once, since damage shows at its end, and one that is too large takes long."""
        with self.open() as file:
            while file.read(2**20):
                pass


@dataclass(frozen=True)
class FileKind:
    """A kind of file: what reads it, and what may be asked of that.

    Attributes
    ----------
    read : callable
        A data frame from a :class:`TableFile`.
    options : tuple of str
        Parts of a :class:`~ejop.cli.reading.ReadOptions`.
    words : bool
        Whether columns have no types, so that "NA" may stand among numbers.
    """

    read: Callable[[TableFile], Any]
    options: tuple[str, ...] = ()
    words: bool = False


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


def without_words(series: Any) -> Any:
    """Values with "NA" and the like missing, where the others are numbers, booleans or dates.

    Words of a column of text are left to be levels. Booleans that are written as text are read.
    """
    import pandas as pd

    levels = _levels(series)
    if levels is None:
        return series
    gone = np.array([str(x).strip().lower() in MISSING_WORDS for x in levels], dtype=bool)
    others = [x for x, word in zip(levels, gone, strict=True) if not word]
    if not others:
        return series
    kept = series.mask(series.isin(list(levels[gone]))) if gone.any() else series
    if all(str(x).strip().lower() in BOOLEANS for x in others):
        texts = kept.map(lambda x: str(x).strip().lower(), na_action="ignore")
        return texts.map(BOOLEANS).astype("boolean")
    mixed = not all(isinstance(x, str) for x in others)
    if (gone.any() or mixed) and _are_numbers(others):
        return pd.to_numeric(kept, errors="coerce")
    if gone.any() and all(isinstance(x, date) for x in others):
        return kept.infer_objects()
    return series


def without_label_words(series: Any) -> Any:
    """Labels with "NA" and the like missing, where the others are numbers or booleans; these stay
    as they are written."""
    levels = _levels(series)
    if levels is None:
        return series
    gone = [x for x in levels if x in LABEL_WORDS]
    others = [x for x in levels if x not in LABEL_WORDS]
    booleans = all(str(x).lower() in BOOLEANS for x in others)
    if not (gone and others and (booleans or _are_numbers(others))):
        return series
    return series.mask(series.isin(gone))


def is_plain(text: str) -> bool:
    """Whether a text is how programs write a number, so that reading it as one loses nothing.

    Examples
    --------
    >>> from ejop.cli.tables import is_plain
    >>> [is_plain(text) for text in ("1", "-2.5", "01", "1.0", "1.50", "x")]
    [True, True, False, False, False, False]
    """
    try:
        value = float(text)
        return text == str(int(value) if value == value // 1 else value)
    except (ValueError, OverflowError):
        return False


def as_programs_write(series: Any) -> Any:
    """Text of a file without types as the numbers or booleans that a program wrote there; codes
    such as 01 stay text."""
    import pandas as pd

    levels = _levels(series)
    if levels is None or not all(isinstance(x, str) for x in levels):
        return series
    texts = [x.strip() for x in levels]
    if all(x.lower() in BOOLEANS for x in texts):
        return without_words(series)
    whole = [x.removesuffix(".0") for x in texts]
    if len(set(whole)) == len(set(texts)) and all(map(is_plain, whole)):
        return pd.to_numeric(series)
    return series


def _levels(series: Any) -> Any:
    """Different values of a column with text in it; None for others."""
    import pandas as pd

    if series.dtype.kind != "O" or isinstance(series.dtype, pd.CategoricalDtype):
        return None
    found = pd.api.types.infer_dtype(series, skipna=True)
    if found not in ("string", "mixed", "mixed-integer"):
        return None
    try:
        levels = np.asarray(series.dropna().unique(), dtype=object)
    except TypeError:  # lists cannot be compared
        return None
    return levels if any(isinstance(x, str) for x in levels) else None


def _are_numbers(values: Collection[Any]) -> bool:
    """Whether values are numbers, or texts of numbers."""
    import pandas as pd

    known = all(isinstance(x, str | int | float | np.number) for x in values)
    return known and bool(pd.to_numeric(pd.Series(values), errors="coerce").notna().all())


def _kind(path: Path) -> FileKind:
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in PACKED:
        endings.pop()
        if endings and endings[-1] not in PLAIN_TEXT:
            endings.clear()
    ending = endings[-1] if endings else ""
    if ending not in READERS:
        known = ", ".join(READERS)
        raise ValueError(f"cannot read {path}: its name should end in one of {known}")
    return READERS[ending]


def _read_text(source: TableFile, separators: str) -> Any:
    return read_delimited(
        source.open,
        separators,
        text=source.text,
        reading=source.reading,
        usual=source.usual,
    )


def _read_excel(source: TableFile) -> Any:
    return read_workbook(source.path, source.reading.sheet, source.usual.sheet)


def _read_parquet(source: TableFile) -> Any:
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
    return plain_frame(table)


def _read_arrow(source: TableFile) -> Any:
    import pyarrow as pa

    found: list[Any] = []
    size, packed = 0, source.path.stat().st_size
    with ExitStack() as stack:
        with parsing("Arrow file"):
            file = stack.enter_context(pa.OSFile(str(source.path)))
            schema, batches = arrow_batches(file)
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
    return plain_frame(pa.Table.from_batches(found, schema))


def arrow_batches(file: Any, fields: Collection[int] | None = None) -> tuple[Any, Iterator[Any]]:
    """Schema and record batches of an Arrow file in either form; of some columns by number."""
    import pyarrow as pa

    options = pa.ipc.IpcReadOptions(included_fields=None if fields is None else list(fields))
    try:
        whole = pa.ipc.open_file(file, options=options)
    except pa.ArrowInvalid:  # the streaming form has no footer
        file.seek(0)
        stream = pa.ipc.open_stream(file, options=options)
        return stream.schema, iter(stream)
    return whole.schema, (whole.get_batch(n) for n in range(whole.num_record_batches))


def plain_frame(table: Any) -> Any:
    """Columns of an Arrow table, its pandas index among them."""
    import pandas as pd
    import pyarrow as pa

    twice = [name for name, times in Counter(table.column_names).items() if times > 1]
    if twice:
        raise ValueError(called_alike(twice))
    frame = table.to_pandas(ignore_metadata=True)
    nullable = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.type in nullable and column.null_count:  # pandas would make floats of them
            frame[name] = column.to_pandas(types_mapper=nullable.get)
    return frame


def _read_npz(source: TableFile) -> Any:
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


def _read_arff(source: TableFile) -> Any:
    import pandas as pd
    from scipy.io import arff

    try:
        with source.path.open(encoding=check_encoding(source.reading.encoding)) as file:
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


_TEXT = ("separator", "decimal", "encoding")
_COMMAS = FileKind(partial(_read_text, separators=",;"), _TEXT, words=True)
_TABS = FileKind(partial(_read_text, separators="\t"), _TEXT, words=True)
_ANY = FileKind(partial(_read_text, separators="\t" + "".join(SEPARATORS)), _TEXT, words=True)
_BOOK = FileKind(_read_excel, ("sheet",), words=True)
_ARROW = FileKind(_read_arrow)
_PARQUET = FileKind(_read_parquet)
READERS: dict[str, FileKind] = {
    ".csv": _COMMAS,
    ".tsv": _TABS,
    ".tab": _TABS,
    ".txt": _ANY,
    ".xlsx": _BOOK,
    ".xls": _BOOK,
    ".parquet": _PARQUET,
    ".pq": _PARQUET,
    ".arrow": _ARROW,
    ".feather": _ARROW,
    ".ipc": _ARROW,
    ".npz": FileKind(_read_npz),
    ".arff": FileKind(_read_arff, ("encoding",), words=True),
}
