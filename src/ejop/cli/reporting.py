"""``ejop report``, and the report that ``ejop fit`` writes: one HTML page on labelled rows."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ejop.cli.files import check_files
from ejop.cli.options import (
    AsJson,
    DecimalMark,
    Encoding,
    ModelFile,
    Rows,
    Separator,
    Sheet,
    counted,
    in_words,
    say,
    show_json,
    tell,
)
from ejop.cli.reading import ReadOptions

#: share of the rows that a report is judged by
REPORT_SHARE = 0.2


def report(
    model: ModelFile,
    rows: Rows,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")],
    title: Annotated[str | None, typer.Option(help="Heading of the report.")] = None,
    comparison: Annotated[
        Path | None, typer.Option(help="What `ejop compare --json` printed, for a table.")
    ] = None,
    sep: Separator = None,
    decimal: DecimalMark = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    as_json: AsJson = False,
) -> None:
    """Write a report on labelled rows: one HTML file that needs no network.

    Take rows that the model has not learned from; those it has look better than new ones will.
    """
    from ejop.cli.models import load_model

    check_files(read=[model, rows, comparison], written=[out])
    methods = None if comparison is None else _read_comparison(comparison)
    found = load_model(model)
    frame = found.read(rows, ReadOptions(sep, decimal, encoding, sheet))
    frame, y = _labelled(found, frame)
    if not len(y):
        raise ValueError(f"{rows} has no row to report on")
    title = title or f"{found.about['target']} in {rows.name}"
    write_page(out, found, frame, y, title=title, comparison=methods)
    if as_json:
        show_json({"report": str(out), "rows": len(y)})
    else:
        tell(str(out))


def _labelled(found: Any, frame: Any) -> tuple[Any, Any]:
    """Rows whose target is known to the model, and their targets."""
    from ejop.cli.training import check_name, known_labels, real_values

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
        y = real_values(frame[target])
    return frame, y


def hold_out(training: Any, seed: int) -> tuple[Any, Any]:
    """Take rows for the report out of the training rows, classes in their shares if possible."""
    from sklearn.model_selection import train_test_split

    if importlib.util.find_spec("jinja2") is None:  # told before the long work
        raise ModuleNotFoundError("a report needs jinja2: pip install 'ejop[report]'")
    if hasattr(training, "put_aside"):
        X, y = training.put_aside(REPORT_SHARE)
        _tell_held(training, y)
        return X, y
    y, stratify = training.y, None
    if training.task == "classification":
        counts = np.unique(y, return_counts=True)[1]
        if counts.min() >= 2 and REPORT_SHARE * len(y) >= len(counts):
            stratify = y
    training.X, X, training.y, y = train_test_split(
        training.X, y, test_size=REPORT_SHARE, random_state=seed, stratify=stratify
    )
    _tell_held(training, y)
    return X, y


def _tell_held(training: Any, y: Any) -> None:
    say(
        f"held out {counted(len(y), 'row')} for the report; the model learns from the other "
        f"{len(training.y):,}"
    )


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


def write_page(
    path: Path,
    model: Any,
    frame: Any,
    y: Any,
    *,
    training: Any = None,
    title: str | None = None,
    comparison: Any = None,
) -> None:
    """Write a report on rows of a table, which are called by their numbers in the file.

    ``training`` is the table that was learned from, where it is in memory.
    """
    from ejop.cli.training import told_by_us
    from ejop.columns import PreparedRows
    from ejop.reports import write_report

    source = model.about["source"]
    title = title or f"{model.about['target']} in {source}"
    learned = None
    if training is not None and not isinstance(training.X, PreparedRows):
        learned = model.matched(training.X), training.y
    with told_by_us(source):
        write_report(
            path,
            model.predictor,
            model.matched(frame),
            y,
            training=learned,
            title=title,
            comparison=comparison,
        )
