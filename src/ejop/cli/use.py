"""``ejop predict``, ``ejop transform`` and ``ejop explain``: a saved model on new rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ejop.cli.files import check_files, check_format, write_rows
from ejop.cli.options import (
    AsJson,
    DecimalMark,
    DeviceName,
    Encoding,
    Id,
    Jobs,
    Levels,
    Memory,
    ModelFile,
    Out,
    Plot,
    Rows,
    Separator,
    Sheet,
    say,
    show_json,
    show_table,
    tell,
)
from ejop.cli.reading import ReadOptions


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
    id_column: Id = None,
    sep: Separator = None,
    decimal: DecimalMark = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    n_jobs: Jobs = None,
    device: DeviceName = None,
    memory: Memory = None,
    as_json: AsJson = False,
) -> None:
    """Predict new rows, in their order.

    Columns are matched by name. Where the target is among them, the score is told.
    """
    from ejop.cli.batched import as_bytes, joined

    reading, most = ReadOptions(sep, decimal, encoding, sheet), as_bytes(memory)
    new = NewRows.read(model, rows, out, reading, id_column, in_parts=True, memory=most)
    new.predictor.set_params(n_jobs=n_jobs, device=device)
    if proba and not new.classes:
        raise ValueError(f"--proba needs classes, and {new.about['target']} is a number")
    results, truths = [], []
    for part in new.parts():
        with part.told():
            results.append(part.named(_predicted(part, proba, coverage)))
        truths.append(part.truth())
    result, truth = joined(results), joined(truths)
    _tell_score(new, truth, result["prediction"].to_numpy())
    _give(result, out, as_json=as_json)


def _predicted(new: NewRows, proba: bool, coverage: float | None) -> Any:
    import pandas as pd

    predictor, X = new.predictor, new.X
    result = pd.DataFrame({"prediction": predictor.predict(X)})
    if proba:
        shares = predictor.predict_proba(X)
        for label, share in zip(predictor.classes_, shares.T, strict=True):
            result[f"proba_{label}"] = share
    if coverage is not None and new.classes:
        names = predictor.classes_.astype(str)
        inside = predictor.predict_set(X, coverage)
        result["set"] = [" | ".join(names[row]) for row in inside]
    elif coverage is not None:
        result[["low", "high"]] = predictor.predict_interval(X, coverage)
    return result


def transform(
    model: ModelFile,
    rows: Rows,
    out: Out = None,
    components: Annotated[
        int | None, typer.Option(min=1, help="Leading directions to keep; all by default.")
    ] = None,
    id_column: Id = None,
    sep: Separator = None,
    decimal: DecimalMark = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    as_json: AsJson = False,
) -> None:
    """Map new rows to the space of the learned metric, the directions that matter most first."""
    import pandas as pd

    new = NewRows.read(model, rows, out, ReadOptions(sep, decimal, encoding, sheet), id_column)
    with new.told():
        Z = new.predictor.transform(new.X)
    if components is not None and components > Z.shape[1]:
        raise ValueError(f"--components {components} is too many: the model has {Z.shape[1]}")
    Z = Z[:, :components]
    names = [f"component{j + 1}" for j in range(Z.shape[1])]
    _give(new.named(pd.DataFrame(Z, columns=names)), out, as_json=as_json)


def explain(
    model: ModelFile,
    rows: Rows,
    row: Annotated[
        int | None, typer.Option(min=0, help="Row to explain; the first is 0. All by default.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Columns to show for a row.")] = 10,
    levels: Levels = False,
    plot: Plot = None,
    out: Out = None,
    id_column: Id = None,
    sep: Separator = None,
    decimal: DecimalMark = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    as_json: AsJson = False,
) -> None:
    """Say what each column adds to the answer, from that of the average row to the row's own.

    The answer is the predicted number, or the probability of the predicted class: base and what
    columns add make the answer.
    """
    from ejop.cli.pictures import check_pictures, draw_explanation, explanation_name

    check_pictures(plot, [explanation_name(row)], [model, rows, out])
    new = NewRows.read(model, rows, out, ReadOptions(sep, decimal, encoding, sheet), id_column)
    if row is not None:
        new.take(row, rows)
    if plot is not None:
        with new.told():
            say(f"picture: {draw_explanation(plot, new.model, new.X, row)}")
    with new.told():
        predictions = new.predictor.predict(new.X)
        found = new.predictor.explain(new.X, levels=levels)
    names, used = new.model.names(levels=levels)
    added = found.values[:, used]
    if row is None:
        parts = {"prediction": predictions, "base": found.base, "answer": found.answer}
        _give(new.named(_added_by_row(parts, names, added)), out, as_json=as_json)
        return
    table = _added_to_one(new, names, added[0], top, levels)
    if out is not None:
        write_rows(table, out)
    called = None if new.id is None else new.frame[new.id].iloc[0]
    base, answer = float(found.base[0]), float(found.answer[0])
    if as_json:
        columns = table.to_dict("records")
        marked = {} if new.id is None else {"id": called}
        told = {"prediction": predictions[0], "base": base, "answer": answer, "columns": columns}
        show_json({"row": row, **marked, **told})
    elif out is None:
        name = "" if new.id is None else f" ({new.id} {_value(called)})"
        what = f" with probability {answer:.4g}" if new.classes else ""
        title = f"row {row}{name}: {new.about['target']} = {_value(predictions[0])}{what}"
        tell(f"{title}; a row of average values gets {base:.4g}")
        lines = [(c, v, f"{s:+.4g}") for c, v, s in table.itertuples(index=False)]
        show_table(["column", "value", "adds"], lines)


def _added_by_row(parts: dict[str, Any], names: list[str], added: Any) -> Any:
    """What columns add to each row, with the results in front under names of their own."""
    import pandas as pd

    table = pd.DataFrame(added, columns=names)
    for place, (name, values) in enumerate(parts.items()):
        while name in table:
            name += "_"
        table.insert(place, name, values)
    return table


def _added_to_one(new: NewRows, names: list[str], added: Any, top: int, levels: bool) -> Any:
    """The columns that add most to the first row, with their values in the table."""
    import pandas as pd

    order = np.argsort(-np.abs(added), kind="stable")[:top]
    origins = new.model.origins(levels=levels)
    values = [_value(new.frame[origins[j]].iloc[0]) for j in order]
    picked = [names[j] for j in order]
    return pd.DataFrame({"column": picked, "value": values, "adds": added[order]})


# rows -------------------------------------------------------------------------------------------


@dataclass
class NewRows:
    """A model and a table for it.

    Attributes
    ----------
    model : SavedModel
    frame : pandas.DataFrame
        As the file has it.
    X : pandas.DataFrame
        The columns of the model.
    source : str
        The file.
    id : str or None
        Column of what rows are called.
    file : BatchedFile or None
        What the table is the first rows of, where it is read in parts.
    """

    model: Any
    frame: Any
    X: Any
    source: str
    id: str | None
    file: Any = None

    @classmethod
    def read(
        cls,
        model: Path,
        rows: Path,
        out: Path | None,
        reading: ReadOptions,
        id_column: str | None,
        *,
        in_parts: bool = False,
        memory: int | None = None,
    ) -> NewRows:
        """Model and table, once the output can be written; of a large one the first part."""
        from ejop.cli.batched import batched
        from ejop.cli.models import load_model
        from ejop.cli.training import check_name

        check_format(out)
        check_files(read=[model, rows], written=[None if str(out) == "-" else out])
        found = load_model(model)
        file = batched(rows, found.about["missing"], memory) if in_parts else None
        if file is None:
            frame = found.read(rows, reading, id_column)
        else:
            reading.refuse_others(str(rows))
            frame = file.first()
        if id_column is not None:
            check_name(id_column, list(frame.columns))
        usual = found.about["id"]
        if id_column is None and usual is not None and usual not in frame:
            say(f"{usual}, which rows are called by, is not in the file; they stay in their order")
            usual = None
        return cls(found, frame, found.matched(frame), rows.name, id_column or usual, file)

    def parts(self) -> Iterator[NewRows]:
        """The table, or one part of it after another."""
        if self.file is None:
            yield self
            return
        for frame in self.file.shown("predicting rows"):
            yield replace(self, frame=frame, X=frame[list(self.X.columns)], file=None)

    def truth(self) -> Any:
        """The target where it is among the columns, missing elsewhere."""
        import pandas as pd

        target = self.about["target"]
        if target in self.frame:
            return self.frame[target]
        return pd.Series(np.full(len(self.frame), np.nan), name=target)

    @property
    def predictor(self) -> Any:
        """What predicts."""
        return self.model.predictor

    @property
    def about(self) -> dict[str, Any]:
        """What the model says of itself."""
        return self.model.about

    @property
    def classes(self) -> bool:
        """Whether classes are predicted."""
        return bool(self.about["task"] == "classification")

    def take(self, row: int, path: Path) -> None:
        """Keep one row."""
        if row >= len(self.frame):
            raise ValueError(f"--row {row} does not exist: {path} has rows 0 to {len(self.X) - 1}")
        self.frame, self.X = self.frame.iloc[[row]], self.X.iloc[[row]]

    @contextmanager
    def told(self) -> Iterator[None]:
        """Mistakes in the table, told of the file."""
        from ejop.cli.training import told_by_us

        with told_by_us(self.source):
            yield

    def named(self, result: Any) -> Any:
        """Results with what rows are called in front."""
        if self.id is None:
            return result
        if self.id in result:
            raise ValueError(
                f"--id {self.id!r} is also the name of a result; give the column another name"
            )
        result.insert(0, self.id, self.frame[self.id].to_numpy())
        return result


def _give(table: Any, out: Any, *, as_json: bool) -> None:
    """Rows to the file, and to standard output as JSON or, without a file, as CSV."""
    if out is not None or not as_json:
        write_rows(table, out)
    if as_json:
        show_json(
            table.to_dict("records") if out is None else {"out": str(out), "rows": len(table)}
        )


def _tell_score(new: NewRows, truth: Any, predictions: Any) -> None:
    """Where the rows have their target, say how many predictions are right."""
    from ejop.cli.scores import score_of, truth_of

    known, truth = truth_of(new.model, truth)
    if not known.any():
        return
    predicted, target = predictions[known], new.about["target"]
    found = score_of(new.model, truth, predicted)
    if new.classes:
        told = f"{found.value:.1%} of {len(truth):,} rows are right; {found.simple_value:.1%} by "
        told += f"always answering {found.simple}"
    else:
        error = float(np.sqrt(np.mean((truth - predicted) ** 2)))
        told = f"R2 {found.value:.3f}, root mean squared error {error:.4g}"
    say(f"{target} is in the file: {told}")


def _value(value: Any) -> str:
    import pandas as pd

    if isinstance(value, float | np.floating):
        return "missing" if np.isnan(value) else f"{value:.6g}"
    return "missing" if value is None or value is pd.NA or value is pd.NaT else str(value)
