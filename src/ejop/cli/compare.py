"""``ejop compare``: predictors and metric learners side by side on the same splits of one table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import numpy as np
import typer

from ejop.cli.learning import Learning, ScaleName, ScoringName, Task
from ejop.cli.mistakes import in_one_line, of_the_user, tell_fault
from ejop.cli.options import (
    AsJson,
    Category,
    ClassWeight,
    DecimalMark,
    DeviceName,
    Drop,
    Encoding,
    Id,
    Jobs,
    Keep,
    Missing,
    Rows,
    Seed,
    Separator,
    Sheet,
    Target,
    TimeLimit,
    counted,
    in_words,
    listed,
    say,
    show_json,
    show_table,
)
from ejop.cli.reading import ReadOptions

#: methods that are run without --methods, by task
DEFAULTS = {
    "classification": [
        *("baseline", "euclid", "relieff", "ejop-knn", "ejop-machines"),
        *("forest", "boosting", "lmnn", "itml", "mlr", "nca"),
    ],
    "regression": ["baseline", "euclid", "ejop-knn", "ejop-machines", "forest", "boosting"],
}
ALIASES = {
    "euclidean": "euclid",
    "knn": "euclid",
    "ejop": "ejop-knn",
    "machines": "ejop-machines",
    "mean": "baseline",
    "majority": "baseline",
}
#: of fewer rows a split tests so few that its error says nothing
LEAST_ROWS = 10


def compare(
    rows: Rows,
    target: Target = None,
    task: Annotated[Task | None, typer.Option(help="Chosen from the target by default.")] = None,
    methods: Annotated[
        str | None, typer.Option(help="Methods to run, with commas; without, those for the task.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Random splits that all methods share.")] = 5,
    max_rows: Annotated[
        int, typer.Option(min=LEAST_ROWS, help="Rows drawn from a larger table; learners are slow.")
    ] = 3000,
    scale: Annotated[ScaleName, typer.Option(help="Of the machines.")] = ScaleName.auto,
    class_weight: ClassWeight = None,
    scoring: Annotated[
        ScoringName | None, typer.Option(help="What ranks the kernel machines.")
    ] = None,
    time_limit: TimeLimit = None,
    drop: Drop = None,
    keep: Keep = None,
    category: Category = None,
    id_column: Id = None,
    missing: Missing = None,
    sep: Separator = None,
    decimal: DecimalMark = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    n_jobs: Jobs = None,
    device: DeviceName = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compare errors of kernel machines, nearest neighbours under several metrics, and trees.

    Each split learns from 70 % of the rows and is tested on the others. Errors of numbers are the
    share of their variance that is left unexplained. Kernel machines are what `fit` makes, with the
    same options; others get the columns as `fit` prepares them. Learners are tested with the number
    of neighbours tuned for EJOP.
    """
    from ejop.cli.contenders import contenders, table_folds
    from ejop.cli.training import Chosen, load_training

    learning = Learning("ridge", "auto", scale, class_weight, scoring, time_limit, n_jobs, device)
    _check_names(methods)
    chosen = Chosen.read(
        target, id_column=id_column, drop=drop, keep=keep, category=category, missing=missing
    )
    reading = ReadOptions(sep, decimal, encoding, sheet)
    training = load_training(rows, chosen, task=task, reading=reading)
    if len(training.y) < LEAST_ROWS:
        raise ValueError(
            f"{rows} has {counted(len(training.y), 'row')} with {training.target}, too few to "
            f"compare methods by; at least {LEAST_ROWS} are needed"
        )
    known = contenders(training.task, learning)
    names = _chosen(methods, known, training, learning)
    _tell_neighbors(names, known)
    training.survey()
    if len(training.y) > max_rows:
        say(f"drew {max_rows:,} of {len(training.y):,} rows; --max-rows changes that")
    folds = list(table_folds(training, runs, max_rows, seed))
    with _watched() as tell:
        tuned: dict[tuple[str, int], int] = {}
        order = sorted(names, key=lambda name: known[name].after is not None)  # EJOP's k is taken
        results = {name: _run(name, known[name], folds, seed, tuned, tell) for name in order}
    lines = [_line(name, known[name].label, results[name]) for name in names]
    show_json(lines) if as_json else _show(lines, folds, training)
    if all(line["runs"] == 0 for line in lines):
        raise ValueError("every method failed")


def _show(lines: list[dict[str, Any]], folds: list[Any], training: Any) -> None:
    title = f"{training.target}: {counted(len(folds), 'split')}, {len(folds[0].training.y):,} rows "
    title += f"to learn from, {len(folds[0].y_test):,} to test"
    error = "error %" if training.task == "classification" else "unexplained %"
    header = ["method", error, "± over splits", "fit s", "predict s"]
    show_table(header, [_cells(line) for line in lines], title)


def _named(methods: str | None) -> list[str]:
    found = [ALIASES.get(name.lower(), name.lower()) for name in listed(methods)]
    return list(dict.fromkeys(found))


def _check_names(methods: str | None) -> None:
    """Refuse, before any file is read, what is no method of any task."""
    from ejop.cli.contenders import contenders

    known = contenders("classification", Learning())
    for name in _named(methods):
        if name not in known:
            raise typer.BadParameter(f"--methods {name!r} is not one of {', '.join(known)}.")
    if methods is not None and not _named(methods):
        raise typer.BadParameter(f"--methods names none; there are {', '.join(known)}.")


def _chosen(
    methods: str | None, known: dict[str, Any], training: Any, learning: Learning
) -> list[str]:
    """Methods to run, all of which must be for the task."""
    names = _named(methods) or DEFAULTS[training.task]
    wrong = [name for name in names if name not in known]
    if wrong:
        raise ValueError(
            f"--methods {in_words(wrong)} learn from classes, and {training.target} is a number; "
            f"for numbers there are {', '.join(known)}; --task classification makes classes of it"
        )
    if "ejop-machines" not in names and learning.asked():
        raise ValueError(
            f"{learning.asked()[0]} is for the machines, which are not compared; add machines to "
            "--methods, or leave it out"
        )
    learning.predictor(training)  # what does not apply is refused before the work
    return names


def _tell_neighbors(names: list[str], known: dict[str, Any]) -> None:
    """Say so where learners are tested untuned, since EJOP is not among the methods."""
    from ejop.experiments.methods import LEARNED_NEIGHBORS

    if any(known[name].after not in (None, *names) for name in names):
        say(f"learners are tested with {LEARNED_NEIGHBORS} neighbours; add ejop to tune them")


def _run(
    name: str,
    method: Any,
    folds: list[Any],
    seed: int,
    tuned: dict[tuple[str, int], int],
    tell: Any,
) -> list[Any]:
    """Outcomes over the splits; the first failure is told and ends the method.

    ``tuned`` holds the number of neighbours by method and split, for those that take it over.
    """
    outcomes: list[Any] = []
    for number, fold in enumerate(folds):
        tell(f"{method.label}, split {number + 1} of {len(folds)}")
        k = tuned.get((method.after, number)) if method.after else None
        try:
            outcome = method.run(fold, seed + number, k)
        except Exception as error:  # one method's trouble is not the others'
            say(f"{method.label} failed: {in_one_line(error)}")
            if not of_the_user(error):
                tell_fault(error)
            return []
        if "n_neighbors" in outcome.settings:
            tuned[name, number] = int(outcome.settings["n_neighbors"])
        outcomes.append(outcome)
    return outcomes


@contextmanager
def _watched() -> Iterator[Any]:
    """Say what runs now, where somebody watches."""
    from rich.console import Console

    if not sys.stderr.isatty():
        yield lambda text: None
        return
    with Console(stderr=True).status("starting") as status:
        yield status.update


def _line(name: str, label: str, outcomes: list[Any]) -> dict[str, Any]:
    errors = [outcome.error for outcome in outcomes]

    def mean(values: list[float]) -> float | None:
        return float(np.mean(values)) if values else None

    return {
        "method": name,
        "label": label,
        "runs": len(outcomes),
        "error": mean(errors),
        "error_std": float(np.std(errors, ddof=1)) if len(errors) > 1 else None,
        "fit_seconds": mean([outcome.fit_seconds for outcome in outcomes]),
        "predict_seconds": mean([outcome.predict_seconds for outcome in outcomes]),
    }


def _cells(line: dict[str, Any]) -> list[str]:
    if not line["runs"]:
        return [line["label"], "failed", "", "", ""]
    numbers = [("error", ".2f"), ("error_std", ".2f")]
    numbers += [("fit_seconds", ".2f"), ("predict_seconds", ".3f")]
    shown = ["" if line[name] is None else format(line[name], form) for name, form in numbers]
    return [line["label"], *shown]
