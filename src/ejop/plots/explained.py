"""Explanations of fitted predictors, of one output, with what pictures say of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.pipeline import Pipeline

from ejop._sklearn import take_rows
from ejop.arrays import to_host
from ejop.columns import ColumnPreparer, NumberColumn, is_table
from ejop.explanation import Explanation, number_of
from ejop.plots.fitted import fitted
from ejop.plots.values import Reading, read_values

#: a derivative is a difference over this share of the column's standard deviation, to either side:
#: wide enough for columns of whole numbers, between which machines that rank values say little
STEP = 0.1


@dataclass(frozen=True)
class Explained:
    """An explanation of some rows by a model.

    Attributes
    ----------
    model : estimator
        The last step of a pipeline, or the estimator itself.
    X : array-like or table
        The rows as that step takes them.
    explanation : Explanation
        Of one output a row.
    readings : list of Reading
        Values of the columns.
    outcome : str
        What is explained, in words.
    """

    model: Any
    X: Any
    explanation: Explanation
    readings: list[Reading]
    outcome: str


def explainer(model: Any) -> Any:
    """The predictor itself, the last step of a pipeline; an error where it cannot explain."""
    last = model[-1] if isinstance(model, Pipeline) else model
    if not hasattr(last, "explain"):
        raise TypeError(
            f"{type(last).__name__} has no `explain`, which contributions come from; pass a fitted "
            "EJOPClassifier or EGOPRegressor, or a pipeline that ends in one."
        )
    return last


def explained(
    model: Any,
    X: Any,
    rows: NDArray | None = None,
    *,
    baseline: Any = "mean",
    output: Any = None,
    feature_names: Sequence[str] | None = None,
) -> Explained:
    """Explain some rows of X.

    Parameters
    ----------
    model : fitted EJOPClassifier or EGOPRegressor, or pipeline that ends in one
    X : array-like or table
    rows : ndarray of int, optional
        Numbers of the rows to explain; all by default.
    baseline, output
        See ``explain``.
    feature_names : sequence of str, optional
    """
    last = explainer(model)
    source = fitted(model, feature_names)
    some = X if rows is None else take_rows(X, rows)
    some = some if source.before is None else source.before.transform(some)
    found = last.explain(some, baseline=baseline, output=output)
    if len(source.columns) == len(found.names):
        found = replace(found, names=list(source.columns))
    found = one_output(found)
    preparer = getattr(last, "preparer_", None)
    return Explained(last, some, found, readings_of(found, preparer), outcome_of(last, output))


def one_output(explanation: Explanation, output: Any = None) -> Explanation:
    """The explanation of one output; an error where there are several and none is named."""
    if explanation.values.ndim == 2:
        if output is not None:
            raise ValueError(
                f"`output`={output!r} was asked for, and this explanation is of one output a row "
                "already; leave `output` out, or explain with output='all'."
            )
        return explanation
    names = list(explanation.outputs) or list(range(explanation.values.shape[1]))
    if len(names) == 1 and output is None:
        return explanation.of_output(0)
    if output is None or (isinstance(output, str) and output == "all" and "all" not in names):
        listed = ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
        raise ValueError(
            f"the explanation is of {len(names)} outputs ({listed}) and a picture shows one; name "
            f"it, for instance output={names[0]!r}."
        )
    return explanation.of_output(number_of(output, names))


def positive_class(model: Any, output: Any) -> Any:
    """The output that is asked for; by default the second of two classes, so that what raises the
    answer of one row raises that of all."""
    classes = getattr(model, "classes_", None)
    if output is None and isinstance(classes, np.ndarray) and len(classes) == 2:
        return classes[1]
    return output


def several_classes(model: Any) -> list[Any]:
    """Classes of a model of three or more; empty for all other models."""
    classes = getattr(model, "classes_", None)
    many = isinstance(classes, np.ndarray) and len(classes) > 2
    return classes.tolist() if many and classes is not None else []


def outcome_of(model: Any, output: Any) -> str:
    """What is explained, in words: "probability of class 2"."""
    if is_regressor(model):
        several = getattr(model.rule_.targets_, "shape", (0, 1))[1] > 1
        return f"answer for target {output}" if several else "answer"
    if isinstance(model.classes_, list):
        return f"probability of label {output}"
    return "probability of the predicted class" if output is None else class_words(output)


def class_words(output: Any) -> str:
    """The words for the probability of a class."""
    return f"probability of class {output}"


def readings_of(explanation: Explanation, preparer: Any = None) -> list[Reading]:
    """How the values of each column are read; as prepared, where that is known."""
    n, rows = len(explanation), explanation.rows
    known: dict[int, Any] = {}
    if isinstance(preparer, ColumnPreparer):
        known = {preparer.names_.index(column.name): column for column in preparer.columns_}
    return [
        read_values(None if rows is None else rows[:, j], n, known.get(j))
        for j in range(len(explanation.names))
    ]


def column_number(column: Any, names: Sequence[str]) -> int:
    """Place of a column that is named or numbered."""
    if isinstance(column, Integral) and not isinstance(column, bool):
        number = int(column)
        if -len(names) <= number < len(names):
            return number % len(names)
        raise ValueError(f"`column`={number} is no column: there are {len(names)}.")
    text = str(column)
    if text in names:
        return list(names).index(text)
    near = get_close_matches(text, names, n=1, cutoff=0.5)
    listed = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
    hint = f"did you mean {near[0]!r}?" if near else f"the columns are {listed}."
    raise ValueError(f"`column`={column!r} is none of the {len(names)} columns; {hint}")


def row_number(row: Any, n: int) -> int:
    """Place of a row, counted from the end where negative."""
    if isinstance(row, Integral) and not isinstance(row, bool) and -n <= int(row) < n:
        return int(row) % n
    raise ValueError(f"`row`={row!r} is no row: there are {n}, numbered from 0.")


def count_rows(X: Any) -> int:
    """Rows of an array, a sparse array or a table."""
    return int(X.shape[0] if hasattr(X, "shape") else len(X))


def rows_of(explanation: Explanation, rows: NDArray) -> Explanation:
    """Some rows of an explanation of one output a row."""
    return replace(
        explanation,
        values=explanation.values[rows],
        base=explanation.base[rows],
        answer=explanation.answer[rows],
        outputs=[explanation.outputs[i] for i in rows] if len(explanation.outputs) else (),
        rows=None if explanation.rows is None else explanation.rows[rows],
    )


# derivatives --------------------------------------------------------------------------------


def slopes(found: Explained, number: int, output: Any) -> NDArray | None:
    """Derivative of the explained answer along a column in the column's own units, (n_rows,).

    By central differences of the model's answers, a tenth of the column's standard deviation to
    either side. None where answers jump (near rows vote) or a column cannot be moved: texts, dates,
    shares of one whole, sparse rows.
    """
    model, reading = found.model, found.readings[number]
    if not model.rule_.chooses or model.best_params_.get("scale") == "hellinger":
        return None
    if reading.kind != "number" or not _is_number_column(found, number):
        return None
    step = STEP * float(np.nanstd(reading.numbers))
    place = found.explanation.names[number]
    below, above = (
        _answers(model, moved(found.X, number, place, by), output) for by in (-step, step)
    )
    return np.where(reading.missing, np.nan, (above - below) / (2 * step))


def moved(X: Any, number: int, name: str, by: float) -> Any:
    """The rows with one column of numbers moved."""
    if is_table(X):
        import narwhals.stable.v2 as nw

        frame = nw.from_native(X, eager_only=True)
        column = next(c for c in frame.columns if str(c) == name)
        return frame.with_columns(nw.col(column).cast(nw.Float64) + by).to_native()
    rows = np.array(to_host(X), dtype=np.float64)
    rows[:, number] += by
    return rows


def _is_number_column(found: Explained, number: int) -> bool:
    """Whether the model takes the column as numbers, and the rows hold it as such."""
    rows = found.explanation.rows
    if rows is None or any(isinstance(value, str) for value in rows[:, number]):
        return False
    preparer = getattr(found.model, "preparer_", None)
    if not isinstance(preparer, ColumnPreparer):
        return True
    name = preparer.names_[number]
    return any(isinstance(c, NumberColumn) and c.name == name for c in preparer.columns_)


def _answers(model: Any, X: Any, output: Any) -> NDArray:
    """The answer that is explained, (n_rows,)."""
    if is_regressor(model):
        values = np.asarray(model.predict(X))
        return values if values.ndim == 1 else values[:, int(output or 0)]
    several = isinstance(model.classes_, list)
    place = int(output) if several else number_of(output, model.classes_.tolist())
    return np.asarray(model.predict_proba(X))[:, place]
