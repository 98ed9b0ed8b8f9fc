"""``ejop`` in the shell: commands, and how mistakes are told."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ejop import __version__
from ejop.cli.compare import compare
from ejop.cli.demo import bench, demo
from ejop.cli.export import export
from ejop.cli.fit import fit
from ejop.cli.inspect import inspect
from ejop.cli.mistakes import in_one_line, of_the_user, tell_fault
from ejop.cli.options import AsJson, say, show_table
from ejop.cli.reporting import report
from ejop.cli.reproduce import reproduce
from ejop.cli.theory_runs import theory
from ejop.cli.use import explain, predict, transform

app = typer.Typer(
    help="Which directions of the data does the answer depend on?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
data = typer.Typer(help="The data sets of the paper and a few others.", no_args_is_help=True)
for command in (
    fit,
    predict,
    transform,
    export,
    explain,
    inspect,
    compare,
    report,
    demo,
    bench,
):
    app.command()(command)
app.add_typer(data, name="data")
app.command()(reproduce)
app.add_typer(theory, name="theory")

DataDir = Annotated[
    Path | None, typer.Option(help="Folder of the data sets, before EJOP_DATA and the cache.")
]
#: how the library begins to tell of new rows
PREPARED = "these rows hold"
#: exit codes: the user can mend it, we have to, Ctrl-C
MISTAKE, FAULT, STOPPED = 1, 70, 130


def _print_version(asked: bool) -> None:
    """Print and leave at once, before a command is missed."""
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    pass


@data.command("list")
def data_list(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the data sets, their sizes and where they are."""
    from ejop.datasets import available

    rows = available(data_dir)
    if as_json:
        typer.echo(json.dumps([row._asdict() for row in rows], indent=2))
        return
    lines = [
        (row.name, f"{row.rows}", f"{row.features}", f"{row.classes}", row.where) for row in rows
    ]
    show_table(["name", "rows", "features", "classes", "where"], lines)


@data.command("get")
def data_get(name: str, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Fetch a data set unless it is here, check it, and print its path."""
    from ejop.datasets import get

    path = get(name, data_dir)
    typer.echo(json.dumps({"name": name, "path": str(path)}) if as_json else str(path))


def run(args: list[str] | None = None) -> None:
    """Run the command; a user's mistake is one line, a fault of ours a traceback."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _shown_once()
            warnings.filterwarnings("always", PREPARED, UserWarning)
            app(args=args, prog_name="ejop")
    except KeyboardInterrupt:
        _stop("stopped", STOPPED)
    except SystemExit as stop:
        if stop.code == STOPPED:  # Typer's answer to Ctrl-C
            _stop("stopped", STOPPED)
        raise
    except Exception as error:
        if not of_the_user(error):
            tell_fault(error)
            raise SystemExit(FAULT) from None
        if isinstance(error, OSError):
            _give_up_stdout()
        _stop(f"error: {in_one_line(error)}", MISTAKE)


def _shown_once() -> Callable[..., None]:
    """What shows a warning in one line, without the place in the code, and none twice."""
    shown: set[str] = set()

    def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
        text = " ".join(str(message).split())
        if text not in shown:
            shown.add(text)
            say(f"warning: {text}")

    return show


def _give_up_stdout() -> None:
    """What could not be written is not tried again at exit, which would fail once more."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stop(message: str, code: int) -> Any:
    say(message)
    raise SystemExit(code)
