"""Single pictures of a model and of rows: what matters, a map, one row, how right it is."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.cli.files import check_folder
from ejop.cli.options import visible
from ejop.writing import replacing

#: dots to the inch, and bars of the picture of calibration
DPI, BINS = 150, 8
#: rows of a projection, and of what columns add to answers, at the most
POINTS, SWARM = 5000, 400
#: pictures of a fit, of which the last two are of classes and of numbers
IMPORTANCE, PROJECTION, EXPLANATION = "importance.png", "projection.png", "explanation.png"
CALIBRATION, ERRORS = "calibration.png", "predicted_actual.png"
FITTED = (IMPORTANCE, PROJECTION, EXPLANATION, CALIBRATION, ERRORS)


@dataclass(frozen=True)
class ShownRows:
    """Rows that pictures are of.

    Attributes
    ----------
    frame : pandas.DataFrame
    truth : ndarray
        Their targets.
    judged, predicted : ndarray
        Targets and predictions of rows that the model had not seen, perhaps others; empty where
        there are none.
    shares : ndarray or None
        Probabilities of the classes for these.
    """

    frame: Any
    truth: NDArray
    judged: NDArray
    predicted: NDArray
    shares: NDArray | None


def check_pictures(folder: Path | None, names: Iterable[str], read: Iterable[Path | None]) -> None:
    """Refuse, before the long work, pictures that cannot be drawn or written."""
    if folder is None:
        return
    if importlib.util.find_spec("matplotlib") is None:
        raise ModuleNotFoundError("pictures need matplotlib: pip install 'ejop[plot]'")
    check_folder(folder, names, read=read)


def draw_fit(
    folder: Path, model: Any, rows: ShownRows, importances: list[dict[str, Any]]
) -> list[str]:
    """Draw what a model has learned; the files that were written."""
    from ejop.plots import ProjectionDisplay

    X, few = model.matched(rows.frame), rows.truth[:POINTS]
    drawn: dict[str, Callable[[], Any]] = {
        IMPORTANCE: lambda: _importance(importances),
        PROJECTION: lambda: ProjectionDisplay.from_estimator(model.predictor, X[:POINTS], few),
        EXPLANATION: lambda: _answer(model, X.iloc[:1], 0),
    }
    if len(rows.predicted):
        numbers = model.about["task"] == "regression"
        draw, name = (_errors, ERRORS) if numbers else (_calibration, CALIBRATION)
        drawn[name] = lambda: draw(model, rows)
    return [write_picture(folder / name, made) for name, made in drawn.items()]


def explanation_name(row: int | None) -> str:
    """File of the picture of one row, or of all."""
    return "contributions.png" if row is None else f"explanation_row_{row}.png"


def draw_explanation(folder: Path, model: Any, X: Any, row: int | None) -> str:
    """Draw what columns add to the answer of one row, or of all."""
    draw = (lambda: _contributions(model, X)) if row is None else lambda: _answer(model, X, row)
    return write_picture(folder / explanation_name(row), draw)


def write_picture(path: Path, draw: Callable[[], Any]) -> str:
    """Write what a display draws as PNG, whole or not at all."""
    import matplotlib

    matplotlib.use("Agg")  # a command shows nothing on a screen
    from matplotlib import pyplot

    figure = draw().figure_
    try:
        with replacing(path) as part, part.open("wb") as file:
            figure.savefig(file, format="png", dpi=DPI)
    finally:
        pyplot.close(figure)
    return str(path)


def _importance(importances: list[dict[str, Any]]) -> Any:
    """The columns that are used; those left out matter nothing."""
    from ejop.plots import ImportanceDisplay

    errors = [one["stderr"] for one in importances]
    return ImportanceDisplay(
        [one["importance"] for one in importances],
        [one["column"] for one in importances],
        stderr=None if None in errors else errors,
    ).plot()


def _answer(model: Any, X: Any, row: int) -> Any:
    """What columns add to the answer for one row, which alone is in X."""
    from ejop.plots import AnswerDisplay

    found = _explained(model, X)
    what = _outcome(model, found.outputs[0] if len(found.outputs) else None)
    return AnswerDisplay(found, outcome=what, title=f"Row {row}").plot()


def _contributions(model: Any, X: Any) -> Any:
    """What columns add to the answers for many rows: to the probability of the second of two
    classes, of more to that of the predicted one."""
    from ejop.plots import ContributionDisplay

    two = len(model.about.get("classes", ())) == 2
    output = model.predictor.classes_[1] if two else None
    some = X.iloc[np.sort(np.random.default_rng(0).permutation(len(X))[:SWARM])]
    found = _explained(model, some, output)
    several = len(set(found.outputs)) > 1
    what = "probability of the predicted class" if several else _outcome(model, output)
    return ContributionDisplay(found, outcome=what).plot()


def _explained(model: Any, X: Any, output: Any = None) -> Any:
    """An explanation by the columns that are used, with their values."""
    found = model.predictor.explain(X, output=output)
    names, used = model.names()
    rows = X[names].astype(object).to_numpy()
    return replace(found, values=found.values[:, used], names=names, rows=rows)


def _outcome(model: Any, label: Any) -> str:
    """What is explained, in words."""
    if model.about["task"] == "regression":
        return _name(model)
    return f"probability of {_name(model)} = {visible(str(label))}"


def _errors(model: Any, rows: ShownRows) -> Any:
    """Predicted against actual numbers."""
    from sklearn.metrics import PredictionErrorDisplay

    shown = PredictionErrorDisplay.from_predictions(
        rows.judged,
        rows.predicted,
        kind="actual_vs_predicted",
        subsample=min(2000, len(rows.judged)),
        random_state=0,
        scatter_kwargs={"alpha": 0.5, "s": 14},
    )
    target = _name(model).replace("$", r"\$")
    shown.ax_.set(xlabel=f"{target}, predicted", ylabel=f"{target}, actual", title=_unseen(rows))
    return shown


def _calibration(model: Any, rows: ShownRows) -> Any:
    """How often an answer is right that is given so much probability."""
    from sklearn.calibration import CalibrationDisplay

    assert rows.shares is not None
    names = model.predictor.classes_.astype(str)
    if len(names) == 2:
        right, shares = rows.judged == names[1], rows.shares[:, 1]
        what = f"{_name(model)} = {visible(names[1])}"
    else:
        best = rows.shares.argmax(1)
        right, shares = rows.judged == names[best], rows.shares.max(1)
        what = "the predicted class"
    bins = int(np.clip(len(right) // 25, 2, BINS))
    shown = CalibrationDisplay.from_predictions(
        right.astype(int), np.clip(shares, 0, 1), n_bins=bins, strategy="quantile", name="model"
    )
    shown.ax_.set(
        xlabel=f"probability of {what}".replace("$", r"\$"),
        ylabel="share of the rows where it is so",
        title=_unseen(rows),
    )
    return shown


def _name(model: Any) -> str:
    return visible(model.about["target"])


def _unseen(rows: ShownRows) -> str:
    return f"{len(rows.judged):,} rows that the model had not seen"
