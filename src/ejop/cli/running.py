"""What the commands share that compute runs and keep them: choices, progress, failures."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ejop.cli.options import say
from ejop.experiments import Key, Results, Run


def listed(option: str, text: str | None, choices: list[str]) -> list[str] | None:
    """Names that an option holds with commas, each of them a choice; None without the option."""
    if text is None:
        return None
    return checked(option, [part.strip() for part in text.split(",") if part.strip()], choices)


def checked(option: str, values: list[str], choices: list[str]) -> list[str]:
    """The values, each of them a choice."""
    for value in values:
        if value not in choices:
            raise typer.BadParameter(f"{option} {value!r} is not one of {', '.join(choices)}.")
    return values


@contextmanager
def run_progress(total: int) -> Iterator[Any]:
    """Tell each run as it ends: a live bar with time left on a terminal, lines elsewhere."""
    start, state = time.perf_counter(), {"done": 0}

    def left() -> str:
        seconds = (time.perf_counter() - start) / max(state["done"], 1) * (total - state["done"])
        return f"{seconds / 60:.0f} min left" if seconds > 90 else f"{seconds:.0f} s left"

    def line(what: Run | Key, event: str) -> str:
        if isinstance(what, Run):
            return f"{what.dataset} {what.method} {what.seed}: {what.error:.2f} %"
        return f"{' '.join(map(str, what))}: {event}"

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(
        *columns, TimeElapsedColumn(), TextColumn("{task.fields[left]}"), console=console
    )

    def tell(what: Run | Key, event: str) -> None:
        state["done"] += event in ("finished", "failed")
        if console.is_terminal:
            bar.update(task, description=line(what, event), completed=state["done"], left=left())
        elif event != "started":
            ended = f"[{state['done']}/{total}] {line(what, event)}, {left()}"
            print(ended, file=sys.stderr, flush=True)  # noqa: T201 the command line prints

    if not console.is_terminal:
        yield tell
        return
    with bar:
        task = bar.add_task("starting", total=total, left="")
        yield tell


def add_known(store: Results, path: Path | None) -> None:
    """Put runs of a committed file among the finished ones."""
    from ejop.experiments.committed import read_lines

    if path is not None:
        for run in read_lines(path):
            store.add(run)


def tell_plan(missing: list[Key], *, as_json: bool) -> None:
    """Print what would be computed."""
    lines = [" ".join(map(str, key)) for key in missing]
    typer.echo(json.dumps(lines, indent=2) if as_json else "\n".join(lines))


def tell_failures(failures: list[tuple[Key, BaseException]]) -> None:
    """Name the runs that failed, and end with an error if there are any."""
    for key, error in failures:
        say(f"failed: {' '.join(map(str, key))}: {error}")
    if failures:
        raise typer.Exit(1)
