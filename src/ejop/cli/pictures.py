"""Single pictures of a model and of rows: what matters, a map, one row, how right it is."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.cli.files import check_folder
from ejop.cli.options import visible
from ejop.writing import replacing

#: dots to the inch, and bars of the picture of calibration
DPI, BINS = 150, 8
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


def draw_fit(folder: Path, model: Any, rows: ShownRows) -> list[str]:
    """Draw what a model has learned; the files that were written."""
    from ejop.plots import AnswerDisplay, ImportanceDisplay, ProjectionDisplay

    predictor, X = model.predictor, model.matched(rows.frame)
    drawn: dict[str, Callable[[], Any]] = {
        IMPORTANCE: lambda: ImportanceDisplay.from_estimator(predictor),
        PROJECTION: lambda: ProjectionDisplay.from_estimator(predictor, X, rows.truth),
        EXPLANATION: lambda: AnswerDisplay.from_estimator(predictor, X.iloc[:1]),
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
    from ejop.plots import AnswerDisplay, ContributionDisplay

    display: Any = ContributionDisplay if row is None else AnswerDisplay
    path = folder / explanation_name(row)
    return write_picture(path, lambda: display.from_estimator(model.predictor, X))


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


def _errors(model: Any, rows: ShownRows) -> Any:
    """Predicted against actual numbers."""
    from sklearn.metrics import PredictionErrorDisplay

    shown = PredictionErrorDisplay.from_predictions(
        rows.judged,
        rows.predicted,
        kind="actual_vs_predicted",
        subsample=2000,
        random_state=0,
        scatter_kwargs={"alpha": 0.5, "s": 14},
    )
    target = _name(model)
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
    return visible(model.about["target"]).replace("$", r"\$")


def _unseen(rows: ShownRows) -> str:
    return f"{len(rows.judged):,} rows that the model had not seen"
