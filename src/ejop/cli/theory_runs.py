"""``ejop theory``: consistency, recovery, eigenvalues and the level of the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ejop.cli.files import check_folder
from ejop.cli.options import AsJson, show_json, show_table
from ejop.cli.running import run_progress, tell_failures
from ejop.writing import replacing

theory = typer.Typer(
    help="The paper's theory on synthetic models with known answers.", no_args_is_help=True
)
Quick = Annotated[bool, typer.Option(help="Fewer rows and seeds, in minutes.")]
Seeds = Annotated[int | None, typer.Option(min=1, help="Samples of each kind.")]
ResultsFile = Annotated[Path, typer.Option(help="Finished runs; they are not computed again.")]
OutFolder = Annotated[Path | None, typer.Option(help="Folder for a page, a CSV and a picture.")]
Jobs = Annotated[int, typer.Option(min=1, help="Processes.")]
STORE = Path("ejop-theory.sqlite")
PAGE_TITLES = {
    "consistency": "Consistency of the matrix",
    "eigen": "Eigenvalues",
    "recovery": "Recovery of the subspace",
    "level": "Level and power of the permutation tests",
}


def _add(command: str, about: str) -> None:
    """Give the command its name; all of them take the same options."""

    @theory.command(command, help=about)
    def run(
        quick: Quick = False,
        seeds: Seeds = None,
        results: ResultsFile = STORE,
        out: OutFolder = None,
        jobs: Jobs = 1,
        as_json: AsJson = False,
    ) -> None:
        _run(command, quick, seeds, results, out, jobs, as_json)


for _command, _about in {
    "consistency": "Error of the matrix as rows grow, for every estimate of f and model, and the "
    "bounds.",
    "eigen": "Errors of eigenvalues as rows grow; the runs are those of consistency.",
    "recovery": "Angle to the true subspace, beside SIR, SAVE, PHD, OPG, MAVE, LDA and PCA.",
    "level": "False positives and power of the permutation tests.",
}.items():
    _add(_command, _about)


def _run(
    command: str,
    quick: bool,
    seeds: int | None,
    results: Path,
    out: Path | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Compute what is missing, print the tables, write the files."""
    from ejop.experiments.consistency.pages import TABLE_MAKERS
    from ejop.experiments.consistency.runs import compute_run, plan
    from ejop.experiments.runner import run_missing
    from ejop.experiments.store import Results

    check_folder(out, _names(command), results)
    keys, store = plan(command, quick=quick, seeds=seeds), Results(results)
    missing = set(keys) - store.done()
    with run_progress(len(missing)) as tell:
        failures = run_missing(
            keys, store, jobs=jobs, work=compute_run, after=lambda key: None, progress=tell
        )
    wanted = {key: order for order, key in enumerate(keys)}
    runs = sorted((r for r in store.runs() if r.key in wanted), key=lambda r: wanted[r.key])
    if runs:
        tables = TABLE_MAKERS[command](runs)
        if as_json:
            show_json([vars(table) for table in tables])
        else:
            for table in tables:
                show_table(table.header, table.rows, table.title)
                for text in table.remarks:
                    typer.echo(text)
        if out is not None:
            _write(command, out, tables, runs)
    tell_failures(failures)


def _names(command: str) -> list[str]:
    """Files that a command writes: eigen has the runs of consistency, the last two no picture."""
    endings = {"eigen": ["md", "png"], "consistency": ["md", "png", "csv"]}
    return [f"{command}.{ending}" for ending in endings.get(command, ["md", "csv"])]


def _write(command: str, out: Path, tables: list, runs: list) -> None:
    """Each file complete or not at all."""
    from ejop.experiments.consistency.pages import draw_page, page_csv, page_markdown

    names = _names(command)
    picture = f"{command}.png" if f"{command}.png" in names else None
    if picture:
        with replacing(out / picture) as part:
            draw_page(command, runs, part)
    texts = {f"{command}.md": page_markdown(PAGE_TITLES[command], tables, runs, picture)}
    if f"{command}.csv" in names:
        texts[f"{command}.csv"] = page_csv(runs)
    for name, text in texts.items():
        with replacing(out / name) as part:
            part.write_text(text, encoding="utf-8")
