"""``ejop predict``, ``ejop transform`` and ``ejop explain``: a saved model on new rows."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from ejop.cli.files import check_files, check_format, write_rows
from ejop.cli.options import AsJson, Encoding, ModelFile, Out, Rows, say, show_json, show_table


def predict(
    model: ModelFile,
    rows: Rows,
    out: Out = None,
    proba: Annotated[bool, typer.Option("--proba", help="Shares of the classes as well.")] = False,
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Bounds, or a set of classes, that hold the truth of so many rows, e.g. 0.9."
        ),
    ] = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
) -> None:
    """Predict new rows, in their order.

    Columns are matched by name. Where the target is among them, the score is told.
    """
    import pandas as pd

    found, frame = _opened(model, rows, out, encoding)
    classes = found.about["task"] == "classification"
    if proba and not classes:
        raise ValueError(f"--proba needs classes, and {found.about['target']} is a number")
    X = found.prepared(frame)
    result = pd.DataFrame({"prediction": found.predictor.predict(X)})
    if proba:
        shares = found.predictor.predict_proba(X)
        for label, share in zip(found.predictor.classes_, shares.T, strict=True):
            result[f"proba_{label}"] = share
    if coverage is not None and classes:
        names = found.predictor.classes_.astype(str)
        inside = found.predictor.predict_set(X, coverage)
        result["set"] = [" | ".join(names[row]) for row in inside]
    elif coverage is not None:
        result[["low", "high"]] = found.predictor.predict_interval(X, coverage)
    _tell_score(found, frame, result["prediction"].to_numpy())
    _give(result, out, as_json=as_json)


def transform(
    model: ModelFile,
    rows: Rows,
    out: Out = None,
    components: Annotated[
        int | None, typer.Option(min=1, help="Leading directions to keep; all by default.")
    ] = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
) -> None:
    """Map new rows to the space of the learned metric, the directions that matter most first."""
    import pandas as pd

    found, frame = _opened(model, rows, out, encoding)
    Z = found.predictor.transform(found.prepared(frame))
    if components is not None and components > Z.shape[1]:
        raise ValueError(f"--components {components} is too many: the model has {Z.shape[1]}")
    Z = Z[:, :components]
    names = [f"component{j + 1}" for j in range(Z.shape[1])]
    _give(pd.DataFrame(Z, columns=names), out, as_json=as_json)


def explain(
    model: ModelFile,
    rows: Rows,
    row: Annotated[
        int | None, typer.Option(min=0, help="Row to explain; the first is 0. All by default.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Columns to show for a row.")] = 10,
    out: Out = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
) -> None:
    """Say which columns moved a prediction away from that of the average row, and how far.

    A share is the derivative of the prediction along a column times its distance from the mean.
    """
    import pandas as pd

    found, frame = _opened(model, rows, out, encoding)
    if row is not None:
        if row >= len(frame):
            raise ValueError(f"--row {row} is not there: {rows} has rows 0 to {len(frame) - 1}")
        frame = frame.iloc[[row]]
    X = found.prepared(frame)
    predictions = found.predictor.predict(X)
    names, shares = found.by_column(found.predictor.explain(X))
    if row is None:
        table = pd.DataFrame(shares, columns=names)
        table.insert(0, "prediction", predictions, allow_duplicates=True)
        _give(table, out, as_json=as_json)
        return
    order = np.argsort(-np.abs(shares[0]), kind="stable")[:top]
    picked = [names[j] for j in order]
    values = [_value(frame[name].iloc[0]) for name in picked]
    table = pd.DataFrame({"column": picked, "value": values, "share": shares[0, order]})
    if out is not None:
        write_rows(table, out)
    if as_json:
        columns = table.to_dict("records")
        show_json({"row": row, "prediction": predictions[0], "columns": columns})
    elif out is None:
        _print_row(f"row {row}: {found.about['target']} = {_value(predictions[0])}", table)


def _print_row(title: str, table: Any) -> None:
    lines = [(c, v, f"{s:+.4f}") for c, v, s in table.itertuples(index=False)]
    show_table(["column", "value", "share"], lines, title)


def _opened(model: Any, rows: Any, out: Any, encoding: str | None) -> tuple[Any, Any]:
    """Model and table, once the output can be written."""
    from ejop.cli.models import load_model

    check_format(out)
    check_files(read=[model, rows], written=[None if str(out) == "-" else out])
    found = load_model(model)
    return found, found.read(rows, encoding)


def _give(table: Any, out: Any, *, as_json: bool) -> None:
    """Rows to the file, and to standard output as JSON or, without a file, as CSV."""
    if out is not None or not as_json:
        write_rows(table, out)
    if as_json:
        show_json(
            table.to_dict("records") if out is None else {"out": str(out), "rows": len(table)}
        )


def _tell_score(found: Any, frame: Any, predictions: Any) -> None:
    """Where the rows have their target, say how many predictions are right."""
    from ejop.cli.columns import numbers
    from ejop.cli.training import known_labels

    target = found.about["target"]
    known = frame[target].notna().to_numpy() if target in frame else np.zeros(len(frame), bool)
    if not known.any():
        return
    truth = frame[target][known]
    if found.about["task"] == "classification":
        labels = known_labels(truth, found.predictor.classes_)
        right = labels == predictions[known].astype(str)
        say(f"{target} is in the file: {right.mean():.1%} of {len(right):,} rows are right")
    else:
        error = float(np.sqrt(np.mean((numbers(truth) - predictions[known]) ** 2)))
        say(f"{target} is in the file: root mean squared error {error:.4g}")


def _value(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return "missing" if np.isnan(value) else f"{value:.6g}"
    return "missing" if value is None else str(value)
