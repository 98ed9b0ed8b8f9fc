"""What the commands share that compute runs and keep them: choices, progress, failures."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ejop.cli.files import check_folder
from ejop.cli.options import say
from ejop.experiments import Key, Results, Run


@dataclass(frozen=True)
class Asked:
    """What the command was asked for; see ``ejop reproduce --help``."""

    datasets: str | None
    methods: str | None
    runs: int | None
    quick: bool
    results: Path
    known: Path | None
    compute: bool
    out: Path | None
    jobs: int
    data_dir: str | None
    dry_run: bool
    as_json: bool


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


def run_asked(
    asked: Asked,
    keys: list[Key],
    written: Iterable[str],
    work: Callable[..., Run],
    after: Callable[[Key], Key | None],
) -> tuple[Results, list[tuple[Key, BaseException]]] | None:
    """Compute what is missing, or print it where that was asked for.

    Returns
    -------
    found : (results, failures) or None
        None where nothing was to be computed or shown.
    """
    from ejop.experiments.committed import read_lines
    from ejop.experiments.runner import needed, run_missing

    check_folder(None if asked.dry_run else asked.out, written, asked.results)
    known = [] if asked.known is None else read_lines(asked.known)
    store = Results(asked.results)
    for run in known:
        store.add(run)
    done = store.done()
    missing = [key for key in needed(keys, after) if key not in done]
    if asked.dry_run:
        lines = [" ".join(map(str, key)) for key in missing]
        typer.echo(json.dumps(lines, indent=2) if asked.as_json else "\n".join(lines))
        return None
    if not asked.compute:
        return store, []
    with run_progress(len(missing)) as tell:
        failures = run_missing(
            keys,
            store,
            jobs=asked.jobs,
            data_dir=asked.data_dir,
            work=work,
            after=after,
            progress=tell,
        )
    return store, failures


def tell_failures(failures: list[tuple[Key, BaseException]]) -> None:
    """Name the runs that failed, and end with an error if there are any."""
    for key, error in failures:
        say(f"failed: {' '.join(map(str, key))}: {error}")
    if failures:
        raise typer.Exit(1)
