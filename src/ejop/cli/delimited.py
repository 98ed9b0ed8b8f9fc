"""CSV, TSV and other text: lines and fields are checked, then pandas reads the values."""

from __future__ import annotations

import codecs
import csv
import io
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO

from ejop.cli.options import called_alike, counted, say
from ejop.cli.reading import DECIMALS, PLAIN, SEPARATORS, UTF8, ReadOptions, check_encoding
from ejop.columns import MISSING_WORDS, NumberFormat, number_format

_BLOCK = 2**20
#: lines among which the header is looked for
HEADER_LINES = 20


def read_delimited(
    open_file: Callable[[], BinaryIO],
    separators: str,
    *,
    text: Collection[str] = (),
    reading: ReadOptions = PLAIN,
    usual: ReadOptions = PLAIN,
) -> Any:
    """Read a table.

    Parameters
    ----------
    open_file : callable
        Gives its bytes from the beginning, as often as it is asked.
    separators : str
        What may stand between values; the header tells which does.
    text : collection of str
        Columns whose values stay as they are written.
    reading : ReadOptions, optional
        What was asked for.
    usual : ReadOptions, optional
        How the file was read that a model comes from; taken where this one fits it.

    Returns
    -------
    frame : pandas.DataFrame
        Empty fields, and these alone, are missing.

    Raises
    ------
    ValueError
        When the bytes are no text of that encoding, two columns have one name, a line has more or
        fewer fields than the header, or numbers are written with another decimal mark.
    """
    encoding = _encoding(open_file, reading.encoding, usual.encoding)
    decimal = reading.decimal or usual.decimal
    if reading.separator is not None:
        separators = reading.separator
    elif usual.separator is not None:
        separators = usual.separator + separators
    with _text(open_file, encoding) as file:
        lines = list(islice(file, HEADER_LINES))
    separator = _separator(lines, separators, said=separators[0] == separators)
    with _text(open_file, encoding) as file:
        header, rows = _check_fields(_fields(file, separator))
    if not header:
        raise ValueError("it is empty")
    written = None if decimal is not None else text
    frame = _parsed(open_file, separator, encoding, written)
    if frame.shape != (rows, len(header)):
        raise ValueError(
            f"its {rows:,} lines of {counted(len(header), 'field')} read as {frame.shape[0]:,} of "
            f"{frame.shape[1]}; look at its quotes"
        )
    return frame if decimal is None else _with_decimals(frame, decimal, text)


def _parsed(
    open_file: Callable[[], BinaryIO], separator: str, encoding: str, text: Collection[str] | None
) -> Any:
    """Values by pandas; those of some columns, or of all, as they are written."""
    import pandas as pd

    options: dict[str, Any] = {
        "sep": separator,
        "encoding": encoding,
        "index_col": False,  # never the first column because a line has a field too many
        "skipinitialspace": separator != "\t",
    }
    with open_file() as file:
        names = pd.read_csv(file, nrows=0, **options).columns
    written = [name for name in names if text is None or name.strip() in text]
    with open_file() as file:
        return pd.read_csv(
            file,
            keep_default_na=False,
            na_values=[""],
            low_memory=False,  # one type for a whole column
            dtype=dict.fromkeys(written, str),
            **options,
        )


def _encoding(open_file: Callable[[], BinaryIO], asked: str | None, usual: str | None) -> str:
    """The encoding asked for; else UTF-8 or, where it is none, that of the training file."""
    if asked is not None or usual is None:
        return check_encoding(asked)
    try:
        with _text(open_file, UTF8) as file:
            while file.read(_BLOCK):
                pass
    except ValueError:
        say(f"read as {usual}, as the training file was")
        return check_encoding(usual)
    return UTF8


# numbers ----------------------------------------------------------------------------------------


def _with_decimals(frame: Any, decimal: str, text: Collection[str]) -> Any:
    """Columns of text as numbers, where they are numbers with that decimal mark."""
    for name in frame.columns:
        if str(name).strip() not in text:
            frame[name] = _numbers(frame[name], decimal)
    return frame


def _numbers(series: Any, decimal: str) -> Any:
    """A column of text as numbers, where it holds them; another decimal mark is an error."""
    import pandas as pd

    given = pd.Series(series.dropna().unique(), dtype=object).astype(str)
    levels = given.str.strip()
    there = ~levels.str.lower().isin({"", *MISSING_WORDS})
    given, levels = given[there], levels[there]
    if levels.empty:
        return series
    found = _quickly(levels, decimal)
    if found is None:
        texts = levels.tolist()
        guessed = number_format(texts)
        unit = guessed.unit if guessed else ""
        found = NumberFormat(decimal, unit, marks=True).read(texts)
        odd = next((x for x, value in zip(texts, found, strict=True) if value != value), None)
        if odd is not None and guessed is None:
            return series
        if odd is not None:
            other = "." if decimal == "," else ","
            raise ValueError(
                f"column {str(series.name).strip()!r} has {odd!r}, which is no number with a "
                f"decimal {DECIMALS[decimal]}; use --decimal {other}, or leave it out"
            )
    return series.map(dict(zip(given, found, strict=True))).astype("float64")


def _quickly(levels: Any, decimal: str) -> Any:
    """Numbers without any mark but the decimal one, all at once; None for others."""
    import pandas as pd

    other = "." if decimal == "," else ","
    if levels.str.contains(other, regex=False).any():
        return None
    found = pd.to_numeric(levels.str.replace(decimal, ".", regex=False), errors="coerce")
    return None if found.isna().any() else found.to_numpy(dtype=float)


# text -------------------------------------------------------------------------------------------


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


def _separator(lines: list[str], separators: str, *, said: bool) -> str:
    """The one that cuts the first lines alike and the header into most fields, the first of equal
    ones.

    Parameters
    ----------
    lines : list of str
        The first few.
    separators : str
    said : bool
        Whether there is nothing to choose, and so nothing to tell.
    """
    cuts = {mark: _cut(lines, mark) for mark in dict.fromkeys(separators)}
    best = max(cuts, key=lambda mark: cuts[mark])
    if cuts[best][1] == 1:
        others = [mark for mark in SEPARATORS if mark not in cuts]
        better = max(others, key=lambda mark: _cut(lines, mark), default="")
        if better and _cut(lines, better)[1] > 1:
            shown = {"\t": "tab"}.get(better, f"'{better}'")
            raise ValueError(
                f"its header is one column, and {SEPARATORS[better]} stand in it; use --sep {shown}"
            )
    if not said and best != "," and cuts[best][1]:
        say(f"values are separated by {SEPARATORS.get(best, repr(best))}")
    return best


def _cut(lines: list[str], separator: str) -> tuple[bool, int]:
    """Whether lines have several fields each, as many as the header, and how many that has."""
    text = io.TextIOWrapper(io.BytesIO("".join(lines).encode()), encoding="utf-8", newline="")
    try:
        counts = [len(found) for _, found in _fields(text, separator) if found]
    except ValueError:  # told where the fields are checked
        return False, 0
    whole = counts[:-1] if len(lines) == HEADER_LINES else counts  # the last may go on
    header = counts[0] if counts else 0
    return header > 1 and set(whole) == {header}, header


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
                raise ValueError(called_alike(twice))
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
