"""Which files a command reads and writes, and how tables are written."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import typer

from ejop.cli.options import counted, say, visible
from ejop.writing import check_writable, replacing

#: what an output file may be, by the end of its name
WRITTEN = (".csv", ".tsv", ".parquet", ".arrow", ".feather", ".npz")
#: files that SQLite keeps beside a results file
SQLITE_ENDINGS = ("-wal", "-shm", "-journal")
_FORMULA = re.compile(r"[=+\-@\t\r].")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
REMEDY = "name another file"


def check_files(*, read: Iterable[Path | None] = (), written: Iterable[Path | None] = ()) -> None:
    """Refuse, before anything is computed, to write what cannot be written or what is read.

    Parameters
    ----------
    read, written : iterable of path or None
        All files of a command; None stands for no file, ``-`` for standard input. Files are the
        same if their real paths are or if the disk says so: links of both kinds, other spellings.
    """
    inputs = [path for path in read if path is not None and str(path) != "-"]
    outputs = [path for path in written if path is not None]
    if "-" in map(str, outputs):
        raise ValueError("cannot write it to standard output; name a file")
    for number, path in enumerate(outputs):
        for other in inputs:
            if _same(path, other):
                raise ValueError(f"cannot write {path}: {_also(path, other)} is read; {REMEDY}")
        for other in outputs[:number]:
            if _same(path, other) or _alike(path, other):
                raise ValueError(
                    f"cannot write {path}: {_also(path, other)} is written as well; {REMEDY}"
                )
    for path in outputs:
        check_writable(path)


def check_folder(
    folder: Path | None,
    names: Iterable[str],
    results: Path | None = None,
    *,
    read: Iterable[Path | None] = (),
) -> None:
    """Make the folder of a command's pages, and refuse pages that cannot be written there.

    Parameters
    ----------
    folder : path or None
    names : iterable of str
    results : path, optional
        A results file, which is read and written beside them.
    read : iterable of path or None
        What else the command reads or writes.
    """
    if folder is None:
        return
    kept = list(read)
    if results is not None:
        kept += [results, *(Path(f"{results}{ending}") for ending in SQLITE_ENDINGS)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        found = isinstance(error, FileExistsError | NotADirectoryError)
        why = "it is not a folder" if found else error.strerror
        raise OSError(f"cannot write to {folder}: {why}") from error
    check_files(read=kept, written=[folder / name for name in names])


def _also(path: Path, other: Path) -> str:
    return "it" if path == other else f"it is {other}, which"


def _same(path: Path, other: Path) -> bool:
    """Whether two names are of one plain file; a device may well be read and written."""
    if path.exists() and not path.is_file():
        return False
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of them is not there
        return False


def _alike(path: Path, other: Path) -> bool:
    """Whether two new files would be one on a disk that does not tell capitals apart."""
    one, two = os.path.realpath(path), os.path.realpath(other)
    return one.casefold() == two.casefold() and not (path.exists() and other.exists())


def check_format(out: Path | None) -> None:
    """Refuse an output whose name does not say what it is."""
    if out is not None and _ending(out) not in WRITTEN and str(out) != "-":
        raise ValueError(f"cannot tell what to write from {out}: name it {', '.join(WRITTEN)}")


def write_rows(frame: Any, out: Path | None) -> None:
    """Write a data frame to a file by its name's end, or as CSV to standard output.

    Text that a spreadsheet would run as a formula has an apostrophe in front in CSV and TSV.
    """
    piped = out is None or str(out) == "-"
    ending = ".csv" if out is None or piped else _ending(out)
    if ending in (".csv", ".tsv"):
        frame, n_quoted = without_formulas(frame)
        if n_quoted:
            say(f"put ' before {counted(n_quoted, 'text')} that a spreadsheet would run")
    if out is None or piped:
        text = frame.to_csv(index=False)
        if sys.stdout.isatty():
            text = "\n".join(map(visible, text.split("\n")))
        typer.echo(text, nl=False)
        return
    with replacing(out) as part:
        if ending == ".parquet":
            frame.to_parquet(part, index=False)
        elif ending in (".arrow", ".feather"):
            frame.to_feather(part)
        elif ending == ".npz":
            with part.open("wb") as file:  # given a name, numpy would append its own ending
                np.savez_compressed(file, **{name: _array(frame[name]) for name in frame.columns})
        else:
            frame.to_csv(part, index=False, sep="\t" if ending == ".tsv" else ",")
    say(f"wrote {len(frame):,} rows to {out}")


def without_formulas(frame: Any) -> tuple[Any, int]:
    """A copy in which no text is a formula of a spreadsheet, and how many texts were changed.

    Such a text begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return; an apostrophe
    before it makes it plain text, as OWASP advises. Numbers stay as they are, also written ones.

    Examples
    --------
    >>> import pandas as pd
    >>> from ejop.cli.files import without_formulas
    >>> found, n = without_formulas(pd.DataFrame({"prediction": ["=1+1", "-1", "a"]}))
    >>> found["prediction"].tolist(), n
    (["'=1+1", '-1', 'a'], 1)
    """
    found, changed = frame.copy(), 0
    for number in range(frame.shape[1]):
        values = frame.iloc[:, number]
        if values.dtype.kind == "O":
            odd = values.map(_is_formula).astype(bool)
            if odd.any():
                found.isetitem(number, values.mask(odd, "'" + values.astype(str)))
                changed += int(odd.sum())
    names = list(frame.columns)
    found.columns = [f"'{name}" if _is_formula(name) else name for name in names]
    return found, changed + sum(map(_is_formula, names))


def _is_formula(value: Any) -> bool:
    return isinstance(value, str) and bool(_FORMULA.match(value)) and not _NUMBER.fullmatch(value)


def _array(column: Any) -> Any:
    """A column as an array that needs no pickle."""
    values = column.to_numpy()
    return values.astype(str) if values.dtype == object else values


def _ending(path: Path) -> str:
    ending = path.suffix.lower()
    return ".parquet" if ending == ".pq" else ending
