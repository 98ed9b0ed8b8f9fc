"""Arguments and options that several commands share, and how they talk."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Rows = Annotated[
    Path,
    typer.Argument(
        help="CSV, TSV, text, Excel, Parquet, Arrow, NPZ or ARFF file; - is CSV from standard "
        "input.",
        allow_dash=True,
    ),
]
ModelFile = Annotated[Path, typer.Argument(help="Model that `ejop fit` saved.")]
Target = Annotated[
    str | None, typer.Option("--target", "-t", help="Column to predict; y for an NPZ file.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="CSV, TSV, Parquet, Arrow or NPZ file to write; standard output as CSV without it.",
    ),
]
Drop = Annotated[str | None, typer.Option(help="Columns to leave out, with commas.")]
Keep = Annotated[
    str | None, typer.Option(help="Columns to use although they look like identifiers or text.")
]
Category = Annotated[
    str | None, typer.Option(help="Columns to use as categories, such as codes, with commas.")
]
Id = Annotated[
    str | None,
    typer.Option(
        "--id", help="Column that says what rows are called: not learned from, but written out."
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Of a text file: latin-1, cp1252, utf-16; UTF-8 by default."),
]
Separator = Annotated[
    str | None,
    typer.Option("--sep", help="What stands between values of a text file: , ; | or tab."),
]
DecimalMark = Annotated[
    str | None, typer.Option("--decimal", help="Decimal mark of a text file: , or .")
]
Sheet = Annotated[str | None, typer.Option(help="Sheet of a workbook; the first by default.")]
ClassWeight = Annotated[
    str | None,
    typer.Option(help="none, balanced, or a weight for each class: name=weight,name=weight."),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(min=0.001, help="Seconds after which no more kernel machines are tried."),
]
CheckpointFile = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        help="File for the finished steps of a long fit: the same command goes on from there after "
        "it was stopped.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        help="What kernel matrices and rows may take, such as 2GB; a table that would take more "
        "than an eighth of it is read a batch at a time, if the file is Parquet or Arrow.",
    ),
]
Plot = Annotated[
    Path | None, typer.Option("--plot", help="Folder for pictures, PNG files named in the output.")
]
Jobs = Annotated[int | None, typer.Option("--n-jobs", help="Threads; all cores by default.")]
DeviceName = Annotated[
    str | None, typer.Option("--device", help="Where to compute: cpu, cuda, cuda:1, mps, auto.")
]
Levels = Annotated[
    bool, typer.Option("--levels", help="Levels of categories and parts of dates, each by itself.")
]
Missing = Annotated[
    str | None,
    typer.Option(help="Values that stand for missing ones, with commas, e.g. NA,?,-999."),
]
Seed = Annotated[int, typer.Option(min=0, help="Of every random choice.")]

#: characters that move the cursor, change colours or turn the direction of writing
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: a number with its error and its sign
_TOGETHER = re.compile(r"(?<=[\d±]) (?=[±%\d])")
#: wide enough for tables that go to a file or a pipe
PIPE_WIDTH = 160
#: spaces before the rest of a message of several lines, and columns that it has at the least
INDENT, LEAST_WIDTH = 2, 40
#: seconds after which a terminal is told of progress
PATIENCE = 2.0


def visible(text: str) -> str:
    """Text in which control characters are spelled out, since a terminal would obey them.

    Examples
    --------
    >>> from ejop.cli.options import visible
    >>> visible("\\x1b[31mred\\n")
    '\\\\x1b[31mred\\\\n'
    """
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def tell(line: str = "") -> None:
    """One line of results; what files call themselves is shown as it is, and never obeyed."""
    typer.echo(folded(visible(line), sys.stdout))


def say(message: str) -> None:
    """One line on the standard error stream, so that results alone go to standard output."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # of a line of progress
    typer.echo(clear + folded(f"ejop: {visible(message)}", sys.stderr), err=True)


def folded(line: str, stream: Any) -> str:
    """A line broken between words to fit a terminal, the rest indented; elsewhere as it is, so that
    a file or a pipe has one line for each message.

    Examples
    --------
    >>> import io
    >>> from ejop.cli.options import folded
    >>> folded("a " * 100, io.StringIO()) == "a " * 100
    True
    """
    if not stream.isatty():
        return line
    held = _TOGETHER.sub("\u00a0", line)  # textwrap keeps what such a space joins
    indent = " " * (len(line) - len(line.lstrip()) + INDENT)
    return textwrap.fill(
        held,
        max(shutil.get_terminal_size().columns, LEAST_WIDTH),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ).replace("\u00a0", " ")


def listed(text: str | None) -> list[str]:
    """Names separated by commas.

    Examples
    --------
    >>> from ejop.cli.options import listed
    >>> listed("a, b,")
    ['a', 'b']
    """
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def called_alike(names: Iterable[str]) -> str:
    """What is wrong with names that several columns have, and the remedy."""
    return f"several columns are called {in_words(names)}; give each a name of its own"


def in_words(names: Iterable[str], limit: int = 6) -> str:
    """Names with commas, the first few of many.

    Examples
    --------
    >>> from ejop.cli.options import in_words
    >>> in_words(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    found = list(names)
    if len(found) <= limit:
        return ", ".join(found)
    return f"{', '.join(found[:limit])} and {len(found) - limit} more"


def counted(n: int, noun: str) -> str:
    """A number with its noun.

    Examples
    --------
    >>> from ejop.cli.options import counted
    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def show_json(value: Any) -> None:
    """Print a value as JSON; numpy's numbers and arrays count as plain ones."""
    typer.echo(json.dumps(_finite(value), indent=2, default=_plain, allow_nan=False))


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    return str(value)


def _finite(value: Any) -> Any:
    """JSON has no NaN: null stands for it."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


def show_table(header: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> None:
    """Print a table; all columns but the first are aligned to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(visible(title)) if title else None, title_justify="left")
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else PIPE_WIDTH).print(table)
