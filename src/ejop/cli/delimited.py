"""CSV and TSV: the text, its lines and fields are checked, then pandas reads the values."""

from __future__ import annotations

import codecs
import csv
import io
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from ejop.cli.options import counted, in_words, say

UTF8 = "utf-8-sig"  # with or without a byte order mark
_BLOCK = 2**20


def check_encoding(name: str | None) -> str:
    """The encoding to read with: UTF-8 unless another is given, which must be known."""
    if name is None or name.lower().replace("_", "-") in ("utf-8", "utf8"):
        return UTF8
    try:
        "a".encode(name)
    except (LookupError, UnicodeError):
        raise ValueError(
            f"--encoding {name!r} is not known; utf-8, latin-1, cp1252 and utf-16 are, among others"
        ) from None
    return name


def read_delimited(
    open_file: Callable[[], BinaryIO],
    separator: str,
    *,
    text: Collection[str] = (),
    encoding: str | None = None,
) -> Any:
    """Read a table.

    Parameters
    ----------
    open_file : callable
        Gives its bytes from the beginning, as often as it is asked.
    separator : str
    text : collection of str
        Columns whose values stay as they are written.
    encoding : str, optional

    Returns
    -------
    frame : pandas.DataFrame
        Empty fields, and these alone, are missing.

    Raises
    ------
    ValueError
        When the bytes are no text of that encoding, two columns have one name, or a line has more
        or fewer fields than the header.
    """
    import pandas as pd

    encoding = check_encoding(encoding)
    with _text(open_file, encoding) as file:
        separator = _separator(file, separator)
    with _text(open_file, encoding) as file:
        header, rows = _check_fields(_fields(file, separator))
    if not header:
        raise ValueError("it is empty")
    with open_file() as file:
        frame = pd.read_csv(
            file,
            sep=separator,
            encoding=encoding,
            index_col=False,  # never the first column because a line has a field too many
            keep_default_na=False,
            na_values=[""],
            low_memory=False,  # one type for a whole column
            dtype=dict.fromkeys(text, str),
            skipinitialspace=separator != "\t",
        )
    if frame.shape != (rows, len(header)):
        raise ValueError(
            f"its {rows:,} lines of {counted(len(header), 'field')} read as {frame.shape[0]:,} of "
            f"{frame.shape[1]}; look at its quotes"
        )
    return frame


@contextmanager
def _text(open_file: Callable[[], BinaryIO], encoding: str) -> Iterator[io.TextIOWrapper]:
    with open_file() as binary, io.TextIOWrapper(binary, encoding=encoding, newline="") as file:
        try:
            yield file
        except UnicodeError as error:
            failure = error
        else:
            return
    raise ValueError(_undecodable(open_file, encoding)) from failure


def _undecodable(open_file: Callable[[], BinaryIO], encoding: str) -> str:
    """Where the text ends to be one, and what may help."""
    decoder = codecs.getincrementaldecoder(encoding)()
    read, lines, name = 0, 1, "UTF-8" if encoding == UTF8 else encoding
    with open_file() as file:
        start = file.read(2)
        if encoding == UTF8 and start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "it is UTF-16, not UTF-8; add --encoding utf-16"
        if encoding == UTF8 and b"\0" in start:
            return _zero_byte(1)
    with open_file() as file:
        while True:
            block = file.read(_BLOCK)
            held = len(decoder.getstate()[0])
            try:
                lines += decoder.decode(block, final=not block).count("\n")
            except UnicodeDecodeError as error:
                data, at = error.object, error.start
                lines += data[:at].count(b"\n")
                where = f"byte {read - held + at} (line {lines}, 0x{data[at]:02x}) is no {name}"
                other = "latin-1" if encoding == UTF8 else "utf-8"
                return f"{where}; add --encoding {other}, or the encoding it was written in"
            except UnicodeError as error:  # UTF-16 without its byte order mark
                return f"it is no {name} ({error}); add --encoding utf-16-le or utf-16-be"
            read += len(block)
            if not block:
                return f"it is no {name}"


def _zero_byte(line: int) -> str:
    return (
        f"line {line} holds a zero byte, so it is no plain text; if it is UTF-16, add --encoding "
        "utf-16-le"
    )


def _lines(file: io.TextIOWrapper, separator: str) -> Iterator[str]:
    """Lines of text, those of blanks alone as empty ones."""
    blanks = " \t\r\n".replace(separator, "")
    for number, line in enumerate(file, 1):
        if "\0" in line:
            raise ValueError(_zero_byte(number))
        yield line if line.strip(blanks) else "\n"


def _fields(file: io.TextIOWrapper, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Number and fields of every line; a blank one has none."""
    lines = _lines(file, separator)
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=separator != "\t")
    before = csv.field_size_limit(sys.maxsize)  # texts may be long
    try:
        while True:
            number = reader.line_num + 1
            try:
                yield number, next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise ValueError(f"line {number}: {error}") from error
    finally:
        csv.field_size_limit(before)


def _separator(file: io.TextIOWrapper, separator: str) -> str:
    if separator != ",":
        return separator
    header = next((found for _, found in _fields(file, ",") if found), [])
    if len(header) == 1 and ";" in header[0]:
        say("values are separated by semicolons")
        return ";"
    return ","


def _check_fields(lines: Iterator[tuple[int, list[str]]]) -> tuple[list[str], int]:
    """The header and the number of rows, every one of which has as many fields."""
    header: list[str] = []
    rows, blank = 0, 0
    for number, found in lines:
        if not found:
            blank = blank or number * bool(header)
        elif not header:
            header = [name.strip() for name in found]
            names = Counter(name for name in header if name)
            twice = [name for name, times in names.items() if times > 1]
            if twice:
                raise ValueError(f"several columns are called {in_words(twice)}")
        elif len(found) != len(header):
            raise ValueError(
                f"line {number} has {counted(len(found), 'field')} and the header "
                f"{len(header)}; give every line as many, without a separator at its end"
            )
        elif blank and len(header) == 1:
            raise ValueError(f'line {blank} is empty; write "" where a value is missing')
        else:
            rows += 1
    return header, rows
