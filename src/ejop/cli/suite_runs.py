"""``ejop reproduce suite``: the predictor beside its peers on tables of everyday data."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from ejop.cli.options import say, show_table
from ejop.cli.running import Asked, listed, run_asked, tell_failures
from ejop.experiments.committed import to_lines
from ejop.experiments.store import Key, Run
from ejop.writing import replacing

WRITTEN = ("suite.md", "suite.csv", "suite.png", "suite.jsonl")


def reproduce_suite(asked: Asked) -> None:
    """Compute what is missing, print how methods compare, write the pages."""
    from ejop.experiments.suite.contest import compute_suite

    keys = _keys(asked)
    if asked.out is not None:
        _check_drawing()
    found = run_asked(asked, keys, WRITTEN, compute_suite, lambda key: None)
    if found is None:
        return
    store, failures = found
    wanted = set(keys)
    runs = [run for run in store.runs() if run.key in wanted]
    if not runs:
        say("no run of these sets and methods is finished")
    else:
        _show(runs, as_json=asked.as_json)
        if asked.out is not None:
            _write(asked.out, runs)
    tell_failures(failures)


def _keys(asked: Asked) -> list[Key]:
    """The runs that were asked for, of the peers that are installed and the sets at hand."""
    from ejop.experiments.suite.contest import METHODS, absent_peers, plan_suite
    from ejop.experiments.suite.sets import SETS

    methods = listed("--methods", asked.methods, list(METHODS)) or list(METHODS)
    datasets = listed("--datasets", asked.datasets, list(SETS))
    if asked.compute:
        gone = [name for name in absent_peers() if name in methods]
        if gone:
            say(f"left out, not installed: {', '.join(gone)} (pip install {' '.join(gone)})")
        methods = [name for name in methods if name not in gone]
        if not methods:
            raise ImportError(f"none of these methods is installed: {', '.join(gone)}")
    keys = plan_suite(
        datasets=datasets,
        methods=methods,
        runs=asked.runs or (1 if asked.quick else 10),
        quick=asked.quick,
        data_dir=asked.data_dir,
    )
    if asked.compute and not asked.dry_run:
        keys = _at_hand(keys, asked.data_dir, demanded=datasets is not None)
    return keys


def _at_hand(keys: list[Key], data_dir: str | None, *, demanded: bool) -> list[Key]:
    """Runs whose sets are in files, ship with scikit-learn, or can be fetched, which is done."""
    from ejop.experiments.suite.sets import SETS
    from ejop.experiments.suite.splits import find, load_rows

    gone = []
    for name in dict.fromkeys(key[0] for key in keys):
        one = SETS[name]
        if not one.file or find(one, data_dir) is not None:
            continue
        if one.openml is None and not demanded:
            gone.append(name)
            continue
        load_rows(name, data_dir)  # from OpenML or its cache, or an error that says what to do
        note = f", {one.openml.note}" if one.openml and one.openml.note else ""
        say(f"{name}: from OpenML{note}")
    if gone:
        say(f"left out, neither a file nor on OpenML: {', '.join(gone)}")
    return [key for key in keys if key[0] not in gone]


def _check_drawing() -> None:
    """Fail before the long work rather than after it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("pages have a picture: pip install 'ejop[plot]'") from None


def _show(runs: list[Run], *, as_json: bool) -> None:
    from ejop.experiments.suite.board import Board
    from ejop.experiments.suite.pages import absent, losses, pairs, summary

    board = Board(runs)
    tables = [t for t in (summary(board), pairs(board), losses(board)) if t is not None]
    if as_json:
        typer.echo(json.dumps([vars(table) for table in tables], indent=2))
        return
    for table in tables:
        show_table(table.header, table.rows, table.title)
        for text in table.remarks:
            typer.echo(text)
    for text in absent(board):
        typer.echo(text)


def _write(out: Path, runs: list[Run]) -> None:
    """Each file complete or not at all; the picture where there are methods to compare."""
    from ejop.experiments.suite.board import Board
    from ejop.experiments.suite.pages import markdown, to_csv
    from ejop.experiments.suite.picture import save

    ranking = Board(runs).ranking()
    picture = None
    if ranking is not None:
        picture = "suite.png"
        with replacing(out / picture) as part:
            save(ranking, part)
    texts = {
        "suite.md": markdown(runs, picture),
        "suite.csv": to_csv(runs),
        "suite.jsonl": to_lines(runs),
    }
    for name, text in texts.items():
        with replacing(out / name) as part:
            part.write_text(text, encoding="utf-8")
