"""``ejop reproduce``: the paper's tables beside ours, and the suite."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ejop.cli.options import show_table
from ejop.cli.running import Asked, checked, listed, run_asked, tell_failures
from ejop.cli.suite_runs import reproduce_suite
from ejop.experiments import PAPER_DATASETS, TABLES, Key, PaperTable, Results, Run, plan_runs
from ejop.writing import replacing

if TYPE_CHECKING:  # render is loaded when there is something to show
    from ejop.experiments.render import Line

SUITE = "suite"
CHOICES = [*TABLES, "all", SUITE]
WRITTEN = ("tables.md", "tables.csv", "tables.html", "tables.jsonl")


def reproduce(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"{', '.join(CHOICES)}; by default all, which the suite is no part of."
        ),
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(help="Rows to keep, with commas, e.g. usps,webcam,digits.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Columns to keep, with commas, e.g. euclid,ejop-knn.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Random splits; 10, or 2 if quick (suite: 1).")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Small sets alone, in minutes.")] = False,
    results: Annotated[
        Path, typer.Option(help="Finished runs; they are not computed again.")
    ] = Path("ejop-results.sqlite"),
    known: Annotated[
        Path | None,
        typer.Option(help="More finished runs: a tables.jsonl or suite.jsonl that --out wrote."),
    ] = None,
    compute: Annotated[
        bool, typer.Option(help="Compute what is missing, or show what is finished alone.")
    ] = True,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the pages: Markdown, CSV, a picture, and runs as JSON."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", "--data", help="Folder of the data sets.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where EJOP sums and searches, e.g. cuda; needs torch.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Show what would be computed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compute the paper's tables, or the suite, and print how methods compare.

    The tables stand beside the paper's numbers; the suite sets the predictor beside its peers.
    Every finished run is kept in the results file; the same command goes on where it stopped.
    """
    tables = checked("table", tables or ["all"], CHOICES)
    folder = None if data_dir is None else str(data_dir)
    common = (datasets, methods, runs, quick, results, known, compute, out, jobs, folder)
    asked = Asked(*common, dry_run, as_json)
    if SUITE not in tables:
        _reproduce_tables(tables, asked, device)
        return
    if len(tables) > 1 or device is not None:
        raise typer.BadParameter("the suite runs alone, and takes no --device.")
    reproduce_suite(asked)


def _reproduce_tables(tables: list[str], asked: Asked, device: str | None) -> None:
    """The paper's tables: compute what is missing, print, write the pages."""
    from ejop.experiments.runner import compute, forerunner

    keys = plan_runs(
        tables,
        datasets=listed("--datasets", asked.datasets, list(PAPER_DATASETS)),
        methods=listed("--methods", asked.methods, _methods()),
        runs=asked.runs or (2 if asked.quick else 10),
        quick=asked.quick,
        data_dir=asked.data_dir,
    )
    found = run_asked(asked, keys, WRITTEN, partial(compute, device=device), forerunner)
    if found is None:
        return
    store, failures = found
    _show(tables, keys, store, asked.out, as_json=asked.as_json)
    tell_failures(failures)


def _methods() -> list[str]:
    return list(dict.fromkeys(m for table in TABLES.values() for m in table.methods))


def _show(
    tables: list[str], keys: list[Key], store: Results, out: Path | None, *, as_json: bool
) -> None:
    from ejop.experiments.lowest import lowest_rows
    from ejop.experiments.render import HEADER, cells, remarks

    wanted = set(keys)
    runs = [run for run in store.runs() if run.key in wanted]
    parts = table_parts(list(TABLES) if "all" in tables else tables, runs)
    if as_json:
        typer.echo(json.dumps([asdict(line) for _, lines in parts for line in lines], indent=2))
    else:
        for table, lines in parts:
            title = f"{table.name}: {table.title} (error, %)"
            show_table(HEADER, [cells(line) for line in lines], title)
            for text in remarks(lines):
                typer.echo(text)
        counted = lowest_rows(line for _, lines in parts for line in lines)
        for text in counted.remarks if counted.rows else ():
            typer.echo(text)
    if out is not None:
        _write(out, parts, runs)


def table_parts(names: list[str], runs: list[Run]) -> list[tuple[PaperTable, list[Line]]]:
    """Tables that have runs, with their lines."""
    from ejop.experiments.methods import METHODS
    from ejop.experiments.render import summarize

    labels = {name: method.label for name, method in METHODS.items()}
    parts = [(TABLES[name], summarize(TABLES[name], runs, labels)) for name in names]
    return [(table, lines) for table, lines in parts if lines]


def _write(out: Path, parts: list[tuple[PaperTable, list[Line]]], runs: list[Run]) -> None:
    """All files, each complete or not at all."""
    from ejop.experiments.committed import to_lines
    from ejop.experiments.provenance import legend
    from ejop.experiments.render import TITLE, page, to_csv, to_html

    texts = (
        page(parts, runs),
        to_csv([line for _, lines in parts for line in lines]),
        to_html(parts, runs, TITLE, " ".join(legend(runs))),
        to_lines(runs),
    )
    for name, text in zip(WRITTEN, texts, strict=True):
        with replacing(out / name) as part:
            part.write_text(text, encoding="utf-8")
