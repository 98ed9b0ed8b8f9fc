"""``ejop compare``: metric learners side by side on the same splits of one table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import numpy as np
import typer

from ejop.cli.mistakes import in_one_line, of_the_user, tell_fault
from ejop.cli.options import (
    AsJson,
    Drop,
    Encoding,
    Keep,
    Missing,
    Rows,
    Seed,
    Target,
    counted,
    listed,
    say,
    show_json,
    show_table,
)

DEFAULT = "euclid,relieff,ejop,machines,lmnn,itml,mlr,nca"
ALIASES = {"euclidean": "euclid", "ejop": "ejop-knn", "machines": "ejop-machines"}
TEST_SHARE = 0.3
#: of fewer rows a split tests so few that its error says nothing
LEAST_ROWS = 10


def compare(
    rows: Rows,
    target: Target = None,
    methods: Annotated[str, typer.Option(help="Methods to run, with commas.")] = DEFAULT,
    runs: Annotated[int, typer.Option(min=1, help="Random splits that all methods share.")] = 5,
    max_rows: Annotated[
        int, typer.Option(min=LEAST_ROWS, help="Rows drawn from a larger table; learners are slow.")
    ] = 3000,
    drop: Drop = None,
    keep: Keep = None,
    encoding: Encoding = None,
    missing: Missing = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compare the errors of nearest neighbours under several metrics, and of kernel machines.

    Each split learns from 70 % of the rows and is tested on the others. Columns are prepared as
    by `fit` and standardised; kernel machines are what `fit` makes. Learners are tested with the
    number of neighbours tuned for EJOP.
    """
    from ejop.cli.training import load_training

    names = _checked(listed(methods))
    _tell_neighbors(names)
    training = load_training(
        rows,
        target,
        task="classification",
        drop=drop,
        keep=keep,
        encoding=encoding,
        missing=missing,
    )
    if len(training.y) < LEAST_ROWS:
        raise ValueError(
            f"{rows} has {counted(len(training.y), 'row')} with {training.target}, too few to "
            f"compare methods by; at least {LEAST_ROWS} are needed"
        )
    folds = list(_folds(training, runs, max_rows, seed))
    with _watched() as tell:
        tuned: dict[tuple[str, int], int] = {}
        results = {name: _run(name, folds, seed, tuned, tell) for name in _ordered(names)}
    lines = [_line(name, results[name]) for name in names]
    if as_json:
        show_json(lines)
    else:
        title = f"{counted(runs, 'split')}, {len(folds[0].y):,} rows to learn from, "
        title += f"{len(folds[0].y_test):,} to test"
        header = ["method", "error %", "± over splits", "fit s", "predict s"]
        show_table(header, [_cells(line) for line in lines], title)
    if all(line["runs"] == 0 for line in lines):
        raise ValueError("every method failed")


def _checked(names: list[str]) -> list[str]:
    from ejop.experiments.methods import METHODS

    found = [ALIASES.get(name.lower(), name.lower()) for name in names]
    for name in found:
        if name not in METHODS:
            known = ", ".join(METHODS)
            raise typer.BadParameter(f"--methods {name!r} is not one of {known}.")
    return list(dict.fromkeys(found))


def _tell_neighbors(names: list[str]) -> None:
    """Say so where learners are tested untuned, since EJOP is not among the methods."""
    from ejop.experiments.methods import LEARNED_NEIGHBORS, METHODS

    if any(METHODS[name].after not in (None, *names) for name in names):
        say(f"learners are tested with {LEARNED_NEIGHBORS} neighbours; add ejop to tune them")


def _ordered(names: list[str]) -> list[str]:
    """EJOP first: its number of neighbours is taken for those that come after it."""
    from ejop.experiments.methods import METHODS

    return sorted(names, key=lambda name: METHODS[name].after is not None)


def _folds(training: Any, runs: int, max_rows: int, seed: int) -> Iterator[Any]:
    """Splits of the rows, each prepared by what its learning part says."""
    from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from ejop.cli.models import make_preparation
    from ejop.experiments.folds import Fold

    classes, y = np.unique(training.y, return_inverse=True)
    X = training.X
    if len(X) > max_rows:
        say(f"drew {max_rows:,} of {len(X):,} rows; --max-rows changes that")
        drawn = np.random.RandomState(seed).permutation(len(X))[:max_rows]
        X, y = X.iloc[drawn], y[drawn]
    counts = np.bincount(y, minlength=len(classes))
    stratify = counts[counts > 0].min() >= 2 and TEST_SHARE * len(y) >= len(classes)
    splitter: Any = StratifiedShuffleSplit if stratify else ShuffleSplit
    for train, test in splitter(runs, test_size=TEST_SHARE, random_state=seed).split(X, y):
        step = make_pipeline(make_preparation(training.columns), StandardScaler())
        step.set_output(transform="default")
        A = np.asarray(step.fit_transform(X.iloc[train]))
        yield Fold(A, y[train], np.asarray(step.transform(X.iloc[test])), y[test])


def _run(
    name: str, folds: list[Any], seed: int, tuned: dict[tuple[str, int], int], tell: Any
) -> list[Any]:
    """Outcomes over the splits; the first failure is told and ends the method.

    ``tuned`` holds the number of neighbours by method and split, for those that take it over.
    """
    from ejop.experiments.methods import METHODS

    method = METHODS[name]
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


def _line(name: str, outcomes: list[Any]) -> dict[str, Any]:
    from ejop.experiments.methods import METHODS

    errors = [outcome.error for outcome in outcomes]

    def mean(values: list[float]) -> float | None:
        return float(np.mean(values)) if values else None

    return {
        "method": name,
        "label": METHODS[name].label,
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
