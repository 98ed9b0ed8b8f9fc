"""``ejop export``: a saved model's map for vector databases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ejop.cli.files import check_files
from ejop.cli.options import (
    DecimalMark,
    Encoding,
    ModelFile,
    Separator,
    Sheet,
    counted,
    in_words,
    say,
    show_table,
)
from ejop.cli.reading import ReadOptions

#: what each form takes beside the model, the file, rows, ``--components`` and ``--scaled``
TAKEN = {
    "faiss": ("float16", "index"),
    "hnswlib": (),
    "npz": ("float16",),
    "onnx": ("float16", "predictor"),
    "pgvector": ("float16", "table", "column", "form"),
}
COMMON = ("rows", "components", "scaled")


def export(
    model: ModelFile,
    to: Annotated[str, typer.Option(help=f"What to write: {in_words(TAKEN)}.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help=".faiss, .bin, .npz, .onnx or .sql file to write.")
    ],
    rows: Annotated[
        Path | None,
        typer.Option(
            help="Table of rows: put into an index; what directions and bytes cost is told of them."
        ),
    ] = None,
    components: Annotated[
        int | None, typer.Option(help="Leading directions to keep; all by default.")
    ] = None,
    float16: Annotated[bool, typer.Option("--float16", help="Half the bytes a vector.")] = False,
    scaled: Annotated[
        bool,
        typer.Option(
            "--scaled",
            help="The map takes rows as the model scales them, for what no matrix maps: "
            "categories, dates, ranks.",
        ),
    ] = False,
    index: Annotated[
        str | None, typer.Option(help="FAISS: what holds the vectors, such as HNSW32.")
    ] = None,
    predictor: Annotated[
        bool, typer.Option("--predictor", help="ONNX: predictions, not mapped vectors.")
    ] = False,
    table: Annotated[str | None, typer.Option(help="pgvector: table of the vectors.")] = None,
    column: Annotated[str | None, typer.Option(help="pgvector: column of the vectors.")] = None,
    form: Annotated[str | None, typer.Option(help="pgvector: column (default), or query.")] = None,
    sep: Separator = None,
    decimal: DecimalMark = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
) -> None:
    """Write the learned map for FAISS, hnswlib, pgvector, ONNX or NumPy.

    Euclidean distance of mapped vectors is the learned one.
    """
    given = {
        "rows": rows,
        "components": components,
        "float16": float16,
        "scaled": scaled,
        "index": index,
        "predictor": predictor,
        "table": table,
        "column": column,
        "form": form,
    }
    given = {k: value for k, value in given.items() if value is not None and value is not False}
    _check(to, given)
    beside = Path(f"{out}.npz") if to == "hnswlib" else None
    check_files(read=[model, rows], written=[out, beside])
    frame = None
    if rows is None:
        from ejop.cli.models import load_model

        fitted = load_model(model).predictor
    else:
        from ejop.cli.use import NewRows

        reading = ReadOptions(sep, decimal, encoding, sheet)
        new = NewRows.read(model, rows, None, reading, None)
        fitted, frame = new.predictor, new.X
    _written(fitted, to, out, {**given, "rows": frame})
    say(f"wrote {out}" if beside is None else f"wrote {out} and {beside}, the map for queries")
    if frame is not None:
        _tell_costs(fitted, frame, components, float16)


def _check(to: str, given: dict[str, Any]) -> None:
    """Refuse what does not apply, before anything is read."""
    if to not in TAKEN:
        raise ValueError(f"--to {to} is not known; use one of {in_words(TAKEN)}")
    odd = [name for name in given if name not in (*COMMON, *TAKEN[to])]
    if odd:
        raise ValueError(f"--{odd[0]} does not apply to --to {to}")
    odd = [name for name in ("rows", "components", "float16") if name in given]
    if "predictor" in given and odd:
        raise ValueError(f"--{odd[0]} does not apply to --predictor")
    wanted = {"hnswlib": ("rows",), "pgvector": ("table", "column")}.get(to, ())
    missing = [f"--{name}" for name in wanted if name not in given]
    if missing:
        raise ValueError(f"--to {to} needs {in_words(missing)}")


def _written(fitted: Any, to: str, out: Path, given: dict[str, Any]) -> None:
    from ejop import export as exports

    common: dict[str, Any] = {
        "n_components": given.get("components"),
        "vectors": "scaled" if given.get("scaled") else "columns",
    }
    half: dict[str, Any] = {"float16": bool(given.get("float16"))}
    if to == "faiss":
        kind = given.get("index", "Flat")
        exports.to_faiss(fitted, out, rows=given["rows"], index=kind, **half, **common)
    elif to == "hnswlib":
        exports.to_hnswlib(fitted, given["rows"], out, **common)
    elif to == "npz":
        exports.to_npz(fitted, out, **half, **common)
    elif to == "onnx":
        what = "predictor" if given.get("predictor") else "map"
        exports.to_onnx(fitted, out, what=what, **half, **common)
    else:
        where = {name: given[name] for name in ("table", "column", "form") if name in given}
        exports.to_pgvector(fitted, out, **where, **half, **common)


def _tell_costs(fitted: Any, frame: Any, components: int | None, float16: bool) -> None:
    """Bytes and recall of what was written, and of other choices."""
    from ejop.export import costs

    near = min(10, len(frame) - 1)
    if near < 1:
        return
    full = len(fitted.components_)
    ranks = {full, *(max(1, full // share) for share in (2, 4))} | {components or full}
    found = costs(fitted, frame, sorted(ranks, reverse=True), n_neighbors=near)
    mine = (components or full, "float16" if float16 else "float32")
    lines = [
        (
            f"{cost.n_components} directions, {cost.dtype}",
            f"{cost.bytes:,}",
            f"{cost.recall:.1%}",
            "written" if (cost.n_components, cost.dtype) == mine else "",
        )
        for cost in found
    ]
    title = f"What it costs: of the {near} nearest of {counted(len(frame), 'row')} stay"
    show_table(["stored", "bytes a vector", "stay", ""], lines, title)
