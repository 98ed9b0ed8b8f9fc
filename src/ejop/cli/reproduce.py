"""``ejop reproduce``: the paper's tables beside ours."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ejop.cli.files import check_folder
from ejop.cli.options import say, show_table
from ejop.experiments import PAPER_DATASETS, TABLES, Key, Results, Run, plan_runs
from ejop.writing import replacing

CHOICES = [*TABLES, "all"]
WRITTEN = ("tables.md", "tables.csv", "tables.html")


def reproduce(
    tables: Annotated[
        list[str] | None, typer.Argument(help=f"{', '.join(CHOICES)}; all by default.")
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Rows to keep, with commas, e.g. usps,webcam,digits.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Columns to keep, with commas, e.g. euclid,ejop-knn.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Random splits; 10, or 2 if quick.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Small sets alone, in minutes.")] = False,
    results: Annotated[
        Path, typer.Option(help="Finished runs; they are not computed again.")
    ] = Path("ejop-results.sqlite"),
    out: Annotated[
        Path | None, typer.Option(help="Folder for tables.md, tables.csv and tables.html.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the data sets.")] = None,
    device: Annotated[
        str | None, typer.Option(help="Where EJOP sums and searches, e.g. cuda; needs torch.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Show what would be computed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compute the paper's tables and print them beside the paper's numbers.

    Every finished run is kept in the results file; the same command goes on where it stopped.
    """
    from ejop.experiments.runner import compute, needed, run_missing

    tables = _checked("table", tables or ["all"], CHOICES)
    keys = plan_runs(
        tables,
        datasets=_listed("--datasets", datasets, list(PAPER_DATASETS)),
        methods=_listed("--methods", methods, _methods()),
        runs=runs or (2 if quick else 10),
        quick=quick,
        data_dir=None if data_dir is None else str(data_dir),
    )
    check_folder(None if dry_run else out, WRITTEN, results)
    store = Results(results)
    done = store.done()
    missing = [key for key in needed(keys) if key not in done]
    if dry_run:
        lines = [" ".join(map(str, key)) for key in missing]
        typer.echo(json.dumps(lines, indent=2) if as_json else "\n".join(lines))
        return
    with run_progress(len(missing)) as tell:
        failures = run_missing(
            keys,
            store,
            jobs=jobs,
            data_dir=None if data_dir is None else str(data_dir),
            work=partial(compute, device=device),
            progress=tell,
        )
    _show(tables, keys, store, out, as_json=as_json)
    if failures:
        for key, error in failures:
            say(f"failed: {' '.join(map(str, key))}: {error}")
        raise typer.Exit(1)


def _methods() -> list[str]:
    return list(dict.fromkeys(m for table in TABLES.values() for m in table.methods))


def _listed(option: str, text: str | None, choices: list[str]) -> list[str] | None:
    if text is None:
        return None
    return _checked(option, [part.strip() for part in text.split(",") if part.strip()], choices)


def _checked(option: str, values: list[str], choices: list[str]) -> list[str]:
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


def _show(
    tables: list[str], keys: list[Key], store: Results, out: Path | None, *, as_json: bool
) -> None:
    from ejop.experiments.methods import METHODS
    from ejop.experiments.render import HEADER, cells, remarks, summarize

    wanted = set(keys)
    runs = [run for run in store.runs() if run.key in wanted]
    labels = {name: method.label for name, method in METHODS.items()}
    names = list(TABLES) if "all" in tables else tables
    parts = [(TABLES[name], summarize(TABLES[name], runs, labels)) for name in names]
    parts = [(table, lines) for table, lines in parts if lines]
    if as_json:
        typer.echo(json.dumps([asdict(line) for _, lines in parts for line in lines], indent=2))
    else:
        for table, lines in parts:
            title = f"{table.name}: {table.title} (error, %)"
            show_table(HEADER, [cells(line) for line in lines], title)
            for text in remarks(lines):
                typer.echo(text)
    if out is not None:
        _write(out, parts, runs)


def _write(out: Path, parts: list[Any], runs: list[Run]) -> None:
    """All three files, each complete or not at all."""
    from ejop.experiments.render import provenance, to_csv, to_html, to_markdown

    about = provenance(runs)
    title = "The paper's tables, computed again"
    texts = (
        f"# {title}\n\n{about}\n\n" + "\n".join(to_markdown(*part) for part in parts),
        to_csv([line for _, lines in parts for line in lines]),
        to_html(parts, runs, title, about),
    )
    for name, text in zip(WRITTEN, texts, strict=True):
        with replacing(out / name) as part:
            part.write_text(text, encoding="utf-8")
