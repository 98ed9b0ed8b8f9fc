"""Rows from files, as a pandas data frame."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Collection
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from ejop.cli.options import in_words, say

#: the column that holds ``y`` of an NPZ file
NPZ_TARGET = "y"


def read_table(path: Path, *, text: Collection[str] = ()) -> Any:
    """Read a table.

    Parameters
    ----------
    path : Path
        CSV, TSV, Parquet, Arrow, NPZ or ARFF by the end of its name; ``-`` is CSV from standard
        input.
    text : collection of str
        Columns of a CSV file whose values are levels, so that "1" stays as it is.

    Returns
    -------
    frame : pandas.DataFrame
        Column names are strings and unique.
    """
    piped = str(path) == "-"
    name, read = ("standard input", _read_csv) if piped else (str(path), _reader(path))
    if path.is_dir():
        raise ValueError(f"cannot read {name}: it is a folder")
    try:
        frame = read(BytesIO(sys.stdin.buffer.read()) if piped else path, text)
    except FileNotFoundError:
        raise ValueError(f"cannot read {name}: there is no such file") from None
    except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile) as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise ValueError(f"cannot read {name}: {reason}") from error
    frame.columns = [str(column).strip() for column in frame.columns]
    twice = frame.columns[frame.columns.duplicated()].unique()
    if len(twice):
        raise ValueError(f"cannot read {name}: several columns are called {in_words(twice)}")
    if frame.empty:
        raise ValueError(f"{name} has no rows")
    return frame


def _reader(path: Path) -> Callable[[Any, Collection[str]], Any]:
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in (".gz", ".bz2", ".xz", ".zst"):
        endings.pop()
        if endings and endings[-1] not in (".csv", ".tsv", ".tab"):
            endings.clear()
    ending = endings[-1] if endings else ""
    if ending not in READERS:
        known = ", ".join(READERS)
        raise ValueError(f"cannot read {path}: its name should end in one of {known}")
    return READERS[ending]


def _read_csv(source: Any, text: Collection[str]) -> Any:
    import pandas as pd

    options: dict[str, Any] = {
        "low_memory": False,  # one type for a whole column
        "dtype": dict.fromkeys(text, str),
        "skipinitialspace": True,
    }
    frame = pd.read_csv(source, **options)
    header = str(frame.columns[0])
    if frame.shape[1] == 1 and ";" in header:
        if hasattr(source, "seek"):
            source.seek(0)
        say("values are separated by semicolons")
        frame = pd.read_csv(source, sep=";", **options)
    return frame


def _read_tsv(source: Any, text: Collection[str]) -> Any:
    import pandas as pd

    return pd.read_csv(source, sep="\t", low_memory=False, dtype=dict.fromkeys(text, str))


def _read_parquet(source: Any, text: Collection[str]) -> Any:
    import pyarrow.parquet as parquet  # type: ignore[import-untyped]

    # ParquetFile reads this one file; read_table would take folder names for columns
    with parquet.ParquetFile(source) as file:
        return _plain_frame(file.read())


def _read_arrow(source: Any, text: Collection[str]) -> Any:
    import pyarrow as pa
    from pyarrow import feather

    try:
        return _plain_frame(feather.read_table(source))
    except pa.ArrowInvalid:  # the streaming form has no footer
        try:
            with pa.OSFile(str(source)) as file, pa.ipc.open_stream(file) as stream:
                return _plain_frame(stream.read_all())
        except pa.ArrowInvalid:
            raise ValueError("it is no Arrow file") from None


def _plain_frame(table: Any) -> Any:
    """Columns of an Arrow table, its pandas index among them."""
    return table.to_pandas(ignore_metadata=True)


def _read_npz(source: Any, text: Collection[str]) -> Any:
    import pandas as pd

    # opened here, since numpy would leave a broken file open
    with open(source, "rb") as file, np.load(file, allow_pickle=False) as archive:
        if "X" not in archive:
            raise ValueError(f"it has no array X, only {in_words(archive)}")
        X = archive["X"]
        if X.ndim != 2:
            raise ValueError(f"X has shape {X.shape}, and rows and columns are needed")
        names = archive.get("feature_names")
        if names is not None and len(names) != X.shape[1]:
            raise ValueError(f"{len(names)} feature_names do not name {X.shape[1]} columns")
        columns = [f"x{j}" for j in range(X.shape[1])] if names is None else map(str, names)
        frame = pd.DataFrame(X, columns=list(columns))
        if "y" in archive:
            y = archive["y"]
            if y.shape != (len(X),):
                raise ValueError(f"y has shape {y.shape}, and X has {len(X)} rows")
            if NPZ_TARGET in frame:
                raise ValueError(f"a feature is called {NPZ_TARGET}, as the target is")
            frame[NPZ_TARGET] = y
    return frame


def _read_arff(source: Any, text: Collection[str]) -> Any:
    import pandas as pd
    from scipy.io import arff

    try:
        data, meta = arff.loadarff(source)
    except NotImplementedError as error:  # scipy knows numbers, nominal values and dates
        raise ValueError(f"{error}; only numbers, nominal values and dates are read") from None
    except StopIteration:  # scipy's answer to a header without end
        raise ValueError("it is no ARFF file") from None
    frame = pd.DataFrame({name: data[name] for name in meta.names()})
    for name in meta.names():
        if meta[name][0] == "nominal":
            values = frame[name].str.decode("utf-8")
            frame[name] = values.where(values != "?")
    return frame


READERS: dict[str, Callable[[Any, Collection[str]], Any]] = {
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
