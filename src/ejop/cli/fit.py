"""``ejop fit`` and ``ejop report``."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ejop.cli.files import check_files
from ejop.cli.options import (
    AsJson,
    Drop,
    Encoding,
    Keep,
    Missing,
    ModelFile,
    Rows,
    Seed,
    Target,
    counted,
    in_words,
    say,
    show_json,
    tell,
)

#: share of the rows that a report is judged by
REPORT_SHARE = 0.2


class Task(StrEnum):
    """What is predicted."""

    classification = "classification"
    regression = "regression"


class RuleName(StrEnum):
    """How rows are predicted: by kernel machines, or by near rows under the metric."""

    ridge = "ridge"
    knn = "knn"
    hnn = "hnn"


class FunctionName(StrEnum):
    """Estimate of f that the metric is made from."""

    auto = "auto"
    kernel = "kernel"
    ball = "ball"
    knn = "knn"
    ridge = "ridge"


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
    report: Annotated[
        Path | None, typer.Option(help="HTML report on a fifth of the rows, held out for it.")
    ] = None,
    drop: Drop = None,
    keep: Keep = None,
    encoding: Encoding = None,
    missing: Missing = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Learn a metric and a predictor from a table, and save both.

    Categories are one-hot encoded and missing values filled in; the saved model does the same to
    new rows. Dates, free text and identifiers are skipped.
    """
    from ejop.cli.models import save_model
    from ejop.cli.training import load_training

    if rule is RuleName.ridge and function is not FunctionName.auto:
        raise typer.BadParameter(
            f"--function {function} is for --rule knn or --rule hnn; rule ridge makes the metric "
            "of its own machines."
        )
    check_files(read=[rows], written=[out, report])
    training = load_training(
        rows, target, task=task, drop=drop, keep=keep, encoding=encoding, missing=missing
    )
    held = None if report is None else _hold_out(training, seed)
    start = time.perf_counter()
    model = learn(training, rows.name, rule=rule, function=function, seed=seed)
    seconds = time.perf_counter() - start
    save_model(model, out)
    if report is not None and held is not None:
        _write_report(report, model, *held)
    page = {} if report is None else {"report": str(report)}
    summary = {"model": str(out), "seconds": round(seconds, 3), **summary_of(model), **page}
    show_json(summary) if as_json else _print_summary(summary, model)


def learn(training: Any, source: str, *, rule: str, function: str, seed: int) -> Any:
    """Fit the pipeline; progress is shown where somebody watches."""
    from sklearn.pipeline import Pipeline

    from ejop import EGOPRegressor, EJOPClassifier
    from ejop.cli.models import SavedModel, describe, make_preparation

    kind: Any = EJOPClassifier if training.task == "classification" else EGOPRegressor
    predictor = kind(
        str(rule), function=str(function), random_state=seed, verbose=int(sys.stderr.isatty())
    )
    pipeline = Pipeline([("prepare", make_preparation(training.columns)), ("predict", predictor)])
    n, d = training.X.shape
    say(f"learning from {counted(n, 'row')} and {counted(d, 'column')}")
    pipeline.fit(training.X, training.y)
    predictor.set_params(verbose=0)  # of no use to whoever loads it
    return SavedModel(pipeline, describe(training, source))


def summary_of(model: Any) -> dict[str, Any]:
    """What was learned, as plain values."""
    predictor = model.predictor
    return {
        "task": model.about["task"],
        "target": model.about["target"],
        "rows": model.about["rows"],
        "columns": [column.name for column in model.columns],
        "skipped": model.about["skipped"],
        "features": int(predictor.n_features_in_),
        "rule": predictor.rule,
        "settings": predictor.best_params_,
        "score": score_name(model),
        "held_out_score": predictor.best_score_,
        "euclidean_score": euclidean_score(predictor),
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


# report -------------------------------------------------------------------------------------------


def report(
    model: ModelFile,
    rows: Rows,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")],
    title: Annotated[str | None, typer.Option(help="Heading of the report.")] = None,
    comparison: Annotated[
        Path | None, typer.Option(help="What `ejop compare --json` printed, for a table.")
    ] = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
) -> None:
    """Write a report on labelled rows: one HTML file that needs no network.

    Take rows that the model has not learned from; those it has look better than new ones will.
    """
    from ejop.cli.models import load_model

    check_files(read=[model, rows, comparison], written=[out])
    methods = None if comparison is None else _read_comparison(comparison)
    found = load_model(model)
    frame = found.read(rows, encoding)
    frame, y = _labelled(found, frame)
    if not len(y):
        raise ValueError(f"{rows} has no row to report on")
    title = title or f"{found.about['target']} in {rows.name}"
    _write_report(out, found, found.matched(frame), y, title=title, comparison=methods)
    if as_json:
        show_json({"report": str(out), "rows": len(y)})
    else:
        tell(str(out))


def _labelled(found: Any, frame: Any) -> tuple[Any, Any]:
    """Rows whose target is known to the model, and their targets."""
    from ejop.cli.columns import numbers
    from ejop.cli.training import check_name, known_labels

    target = found.about["target"]
    check_name(target, list(frame.columns))
    known = frame[target].notna()
    if not known.all():
        say(f"dropped {counted(int((~known).sum()), 'row')} without {target}")
        frame = frame[known]
    if found.about["task"] == "classification":
        classes = found.predictor.classes_
        y = known_labels(frame[target], classes)
        known = np.isin(y, classes.astype(str))
        if not known.all():
            new = sorted(set(y[~known]))
            say(f"ignored rows of classes that the model has not seen: {in_words(new)}")
        frame, y = frame[known], y[known].astype(classes.dtype)
    else:
        y = numbers(frame[target])
    return frame, y


def _hold_out(training: Any, seed: int) -> tuple[Any, Any]:
    """Take rows for the report out of the training rows, classes in their shares if possible."""
    from sklearn.model_selection import train_test_split

    for name in ("jinja2", "plotly"):  # told before the long work
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"a report needs {name}: pip install 'ejop[report]'")
    y, stratify = training.y, None
    if training.task == "classification":
        counts = np.unique(y, return_counts=True)[1]
        if counts.min() >= 2 and REPORT_SHARE * len(y) >= len(counts):
            stratify = y
    training.X, X, training.y, y = train_test_split(
        training.X, y, test_size=REPORT_SHARE, random_state=seed, stratify=stratify
    )
    say(
        f"held out {counted(len(y), 'row')} for the report; the model learns from the other "
        f"{len(training.y):,}"
    )
    return X, y


def _read_comparison(path: Path) -> list[dict[str, Any]]:
    """Methods as the report takes them, from the output of ``ejop compare --json``."""
    try:
        lines = json.loads(path.read_text(encoding="utf-8"))
        return [
            {"name": line["label"], "error": line["error"] / 100, "seconds": line["fit_seconds"]}
            for line in lines
            if line["runs"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"cannot read {path} as the output of ejop compare --json") from error


def _write_report(
    path: Path, model: Any, X: Any, y: Any, title: str | None = None, comparison: Any = None
) -> None:
    from ejop.report import write_report

    prepared = model.pipeline["prepare"].transform(X)
    names = list(map(str, prepared.columns))
    title = title or f"{model.about['target']} in {model.about['source']}"
    write_report(
        path,
        model.predictor,
        prepared,
        y,
        feature_names=names,
        title=title,
        comparison=comparison,
    )
