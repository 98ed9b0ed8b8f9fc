"""``ejop fit``: learn a predictor from a table, and save it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

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
    PATIENCE,
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
    Plot,
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
from ejop.cli.pictures import FITTED, ShownRows, check_pictures, draw_fit
from ejop.cli.reading import ReadOptions
from ejop.cli.reporting import hold_out, write_page
from ejop.cli.scores import (
    Score,
    predictions_of,
    score_of,
    truth_of,
    unseen_predictions,
    unseen_score,
)

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
    test: Annotated[
        Path | None,
        typer.Option(help="Labelled rows that are not learned from: the score is that of these."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="HTML report on a fifth of the rows, held out for it.")
    ] = None,
    plot: Plot = None,
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
    from ejop.progress import patient

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
    check_files(read=[rows, test], written=[out, report, checkpoint])
    check_pictures(plot, FITTED, [rows, test, out, report, checkpoint])
    chosen = Chosen.read(
        target, id_column=id_column, drop=drop, keep=keep, category=category, missing=missing
    )
    reading = ReadOptions(sep, decimal, encoding, sheet)
    training = load(rows, chosen, task, reading, learning, out)
    if test is not None:
        check_test(test, training)
    held = None if report is None else hold_out(training, seed)
    survey = training.survey()
    learning.predictor(training)  # what does not apply is refused before the work
    used = counted(len(survey.columns_), "column")
    say(f"learning from {counted(len(training.y), 'row')} and {used}")
    start = time.perf_counter()
    with stoppable(checkpoint), patient(PATIENCE):
        model = SavedModel.fit(training, learning)
    seconds = time.perf_counter() - start
    save_model(model, out)
    about = {"model": str(out), "seconds": round(seconds, 3)}
    told, score = judge(model, training, test, held, report=report, plot=plot)
    summary = about | told
    show_json(summary) if as_json else _print_summary(summary, model, score)


def judge(
    model: Any,
    training: Any,
    test: Path | None,
    held: Any,
    *,
    report: Path | None = None,
    plot: Path | None = None,
) -> tuple[dict[str, Any], Score]:
    """What was learned, as plain values, and how good it is; with a page and pictures if asked."""
    from ejop.progress import patient, working

    with patient(PATIENCE), working("judging it, and what matters"):
        shown = shown_rows(model, training, test, held)
        score = score_of_rows(model, shown, test, held)
        found = summary_of(model, score)
    if report is not None:
        with patient(PATIENCE), working("writing the report"):
            write_page(report, model, *held, training=training)
        found["report"] = str(report)
    if plot is not None:
        with patient(PATIENCE), working("drawing"):
            found["pictures"] = draw_fit(plot, model, shown, found["importances"])
    return found, score


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


def check_test(path: Path, training: Any) -> None:
    """Refuse, before the long work, rows to test on that cannot be read or have no target."""
    from ejop.cli.tables import read_table
    from ejop.cli.training import check_name

    if str(path) == "-":
        raise ValueError("--test cannot be standard input; name a file")
    frame = read_table(path, text=[training.target], usual=training.reading)
    check_name(training.target, list(frame.columns))
    if not frame[training.target].notna().any():
        raise ValueError(f"{path} has no row with {training.target} to test on")


def shown_rows(model: Any, training: Any, test: Path | None, held: Any) -> ShownRows:
    """Rows that were kept from the model, with its predictions; without such those it learned from,
    with predictions by machines that had not seen them."""
    from ejop.cli.training import told_by_us

    if test is not None:
        frame = model.read(test)
        known, truth = truth_of(model, frame[model.about["target"]])
        frame = frame[known]
    elif held is not None:
        frame, truth = held
    else:
        frame, truth = training.shown()
        judged, predicted, shares = unseen_predictions(model)
        return ShownRows(frame, truth, judged, predicted, shares)
    with told_by_us(model.about["source"] if test is None else test.name):
        predicted, shares = predictions_of(model, frame)
    return ShownRows(
        frame, truth, truth if shares is None else truth.astype(str), predicted, shares
    )


def score_of_rows(model: Any, shown: ShownRows, test: Path | None, held: Any) -> Score:
    """How good the predictions of these rows are."""
    if test is None and held is None:
        return unseen_score(model)
    rows = counted(len(shown.truth), "row")
    on = f"the {rows} held out for the report" if test is None else f"{rows} of {test}"
    return score_of(model, shown.judged, shown.predicted, shown.shares, on)


def summary_of(model: Any, score: Score) -> dict[str, Any]:
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
        "score": score.name,
        "held_out_score": score.value,
        "scores": score.plain_values(),
        "importances": model.importances(),
    }


def _print_summary(summary: dict[str, Any], model: Any, score: Score) -> None:
    predictor = model.predictor
    tell(f"{summary['model']}: {type(predictor).__name__}, {choice_in_words(predictor)}")
    tell(f"learned in {summary['seconds']:.1f} s")
    for line in score.in_words():
        tell(line)
    tell(f"what matters: {in_words(map(share_in_words, summary['importances']), TOLD)}")
    if "report" in summary:
        tell(f"report: {summary['report']}")
    for picture in summary.get("pictures", []):
        tell(f"picture: {picture}")


def choice_in_words(predictor: Any) -> str:
    """What was chosen: machines in words, or the settings of neighbours."""
    if predictor.rule_.chooses:
        return predictor.rule_.in_words()
    return ", ".join(f"{name} {value}" for name, value in predictor.best_params_.items())


def share_in_words(one: dict[str, Any]) -> str:
    """A column with its importance, "a 41 % ± 2"."""
    error = "" if one["stderr"] is None else f" ± {100 * one['stderr']:.1f}"
    return f"{one['column']} {100 * one['importance']:.1f}{error} %"
