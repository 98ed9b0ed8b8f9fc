"""``ejop fit``: learn a predictor from a table, and save it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ejop.cli.files import check_files
from ejop.cli.learning import (
    FunctionName,
    Learning,
    RuleName,
    ScaleName,
    ScoringName,
    Task,
    rule_name,
)
from ejop.cli.options import (
    AsJson,
    Category,
    CheckpointFile,
    ClassWeight,
    DecimalMark,
    DeviceName,
    Drop,
    Encoding,
    Id,
    Jobs,
    Keep,
    Memory,
    Missing,
    Rows,
    Seed,
    Separator,
    Sheet,
    Target,
    TimeLimit,
    counted,
    in_words,
    say,
    show_json,
    tell,
)
from ejop.cli.reading import ReadOptions
from ejop.cli.reporting import hold_out, write_page

#: columns that are told after a fit
TOLD = 5


def fit(
    rows: Rows,
    out: Annotated[Path, typer.Option("--out", "-o", help="Model file to write, model.skops.")],
    target: Target = None,
    task: Annotated[Task | None, typer.Option(help="Chosen from the target by default.")] = None,
    rule: Annotated[
        RuleName,
        typer.Option(
            help="How rows are predicted: by kernel machines, by the k nearest rows, or by all "
            "within a radius."
        ),
    ] = RuleName.ridge,
    function: Annotated[
        FunctionName,
        typer.Option(help="Estimate of f, for the rules knn and hnn; auto tries several."),
    ] = FunctionName.auto,
    scale: Annotated[
        ScaleName, typer.Option(help="What is done to numbers; auto chooses.")
    ] = ScaleName.auto,
    class_weight: ClassWeight = None,
    scoring: Annotated[
        ScoringName | None,
        typer.Option(help="What ranks kernel machines; their squared error by default."),
    ] = None,
    time_limit: TimeLimit = None,
    checkpoint: CheckpointFile = None,
    report: Annotated[
        Path | None, typer.Option(help="HTML report on a fifth of the rows, held out for it.")
    ] = None,
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
    memory: Memory = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Learn a metric and a predictor from a table, and save both.

    Text, categories, dates and gaps are prepared; the saved model does the same to new rows. Free
    text, identifiers and constants are left out. All that is decided is said.
    """
    from ejop.cli.batched import as_bytes
    from ejop.cli.models import SavedModel, save_model
    from ejop.cli.training import Chosen

    learning = Learning(
        rule,
        function,
        scale,
        class_weight,
        scoring,
        time_limit,
        n_jobs,
        device,
        seed,
        None if checkpoint is None else str(checkpoint),
        as_bytes(memory),
    )
    check_files(read=[rows], written=[out, report, checkpoint])
    chosen = Chosen.read(
        target, id_column=id_column, drop=drop, keep=keep, category=category, missing=missing
    )
    reading = ReadOptions(sep, decimal, encoding, sheet)
    training = load(rows, chosen, task, reading, learning, out)
    held = None if report is None else hold_out(training, seed)
    found = training.survey()
    learning.predictor(training)  # what does not apply is refused before the work
    used = counted(len(found.columns_), "column")
    say(f"learning from {counted(len(training.y), 'row')} and {used}")
    start = time.perf_counter()
    with stoppable(checkpoint):
        model = SavedModel.fit(training, learning)
    seconds = time.perf_counter() - start
    save_model(model, out)
    if report is not None and held is not None:
        write_page(report, model, *held, training=training)
    page = {} if report is None else {"report": str(report)}
    summary = {"model": str(out), "seconds": round(seconds, 3), **summary_of(model), **page}
    show_json(summary) if as_json else _print_summary(summary, model)


def load(
    rows: Path, chosen: Any, task: str | None, reading: ReadOptions, learning: Learning, out: Path
) -> Any:
    """The rows to learn from: whole in memory, or on disk where they would take too much."""
    from ejop.cli.batched import batched, load_batched
    from ejop.cli.training import load_training

    file = batched(rows, chosen.missing, learning.memory) if learning.rule == "ridge" else None
    if file is None:
        return load_training(rows, chosen, task=task, reading=reading)
    reading.refuse_others(str(rows))
    return load_batched(file, chosen, task=task, folder=out.parent, seed=learning.seed)


@contextmanager
def stoppable(checkpoint: Path | None) -> Iterator[None]:
    """Say how a fit goes on that is stopped by Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is not None and checkpoint.exists():
            say(f"finished steps are in {checkpoint}; the same command goes on from there")
        raise


def summary_of(model: Any) -> dict[str, Any]:
    """What was learned, as plain values."""
    predictor = model.predictor
    return {
        "task": model.about["task"],
        "target": model.about["target"],
        "rows": model.about["rows"],
        "id": model.about["id"],
        "columns": [column["name"] for column in model.about["columns"]],
        "skipped": model.about["skipped"],
        "features": len(predictor.prepared_names()),
        "rule": rule_name(predictor),
        "settings": predictor.best_params_,
        "score": score_name(model),
        "held_out_score": predictor.best_score_,
        "euclidean_score": euclidean_score(predictor),
        "importances": model.importances(),
    }


def score_name(model: Any) -> str:
    """What the score is called."""
    return "accuracy" if model.about["task"] == "classification" else "R2"


def euclidean_score(predictor: Any) -> float | None:
    """Best score that the same tuning found for plain distances (power 0); None where no distance
    was tuned."""
    results = predictor.cv_results_
    plain = np.asarray(results.get("param_power", [])) == 0
    return float(np.max(results["mean_test_score"][plain])) if np.any(plain) else None


def _print_summary(summary: dict[str, Any], model: Any) -> None:
    predictor = model.predictor
    tell(f"{summary['model']}: {type(predictor).__name__}, {choice_in_words(predictor)}")
    tell(f"learned in {summary['seconds']:.1f} s; {scores_in_words(model)}")
    tell(f"what matters: {in_words(map(share_in_words, summary['importances']), TOLD)}")
    if "report" in summary:
        tell(f"report: {summary['report']}")


def choice_in_words(predictor: Any) -> str:
    """What was chosen: machines in words, or the settings of neighbours."""
    if predictor.rule_.chooses:
        return predictor.rule_.in_words()
    return ", ".join(f"{name} {value}" for name, value in predictor.best_params_.items())


def scores_in_words(model: Any) -> str:
    """Score on rows the model had not seen, beside that of plain distances where one is known."""
    predictor, name = model.predictor, score_name(model)
    if predictor.rule_.chooses:
        return f"{name} {predictor.best_score_:.3f} on rows it had not seen"
    if np.isnan(predictor.best_score_):
        return "too few rows to hold any out, so how good it is is not known"
    plain = euclidean_score(predictor)
    text = f"{name} on held-out rows {predictor.best_score_:.3f}"
    return text if plain is None else f"{text}, {plain:.3f} with plain distances"


def share_in_words(one: dict[str, Any]) -> str:
    """A column with its importance, "a 41 % ± 2"."""
    error = "" if one["stderr"] is None else f" ± {100 * one['stderr']:.1f}"
    return f"{one['column']} {100 * one['importance']:.1f}{error} %"
