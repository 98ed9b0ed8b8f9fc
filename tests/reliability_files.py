"""Cases of the command line, files, models and data sets: kinds of file times what is odd."""

from __future__ import annotations

import atexit
import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import shutil
import sqlite3
import tempfile
import types
import zipfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ejop.cli.app import run
from ejop.cli.models import DESCRIPTION
from ejop.cli.reading import ReadOptions
from ejop.cli.tables import read_table
from ejop.cli.training import class_labels
from ejop.datasets import DATASETS, DataCorrupted, DataNotFound, get, load_dataset
from ejop.experiments import Results, Run
from ejop.writing import replacing
from reliability import Case

LINES, FILES, MODELS, SETS = "command line", "files", "models", "datasets"
QUICK = ("--rule", "knn", "--function", "kernel")


class Refused(Exception):
    """A command ended with one clear line."""


def command(*args: Any) -> types.SimpleNamespace:
    """A command in this process: its output and messages; Refused where it says no in one line."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            run([str(arg) for arg in args])
        except SystemExit as stop:
            code = stop.code or 0
    said = err.getvalue()
    assert "Traceback" not in said, said
    if code == 0:
        return types.SimpleNamespace(out=out.getvalue(), err=said)
    assert code in (1, 2), (code, said)
    last = said.strip().splitlines()[-1]
    assert code == 2 or last.startswith("ejop: error: "), said
    assert out.getvalue() == "", out.getvalue()
    raise Refused(" ".join(said.split()) if code == 2 else last)


@cache
def folder() -> Path:
    """A scratch folder that goes away with the process."""
    path = Path(tempfile.mkdtemp(prefix="ejop-reliability-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


_numbers = iter(range(10**9))


def fresh(name: str) -> Path:
    """A new name in a folder of its own."""
    place = folder() / str(next(_numbers))
    place.mkdir()
    return place / name


@cache
def training() -> pd.DataFrame:
    """Sixty rows: two numbers, a level, and a label that follows the first number."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)}).round(6)
    frame["c"] = np.where(np.arange(60) % 2, "u", "v")
    frame["label"] = np.where(frame["a"] > 0, "yes", "no")
    return frame


@cache
def rows_file() -> Path:
    """The same as CSV."""
    path = fresh("rows.csv")
    training().to_csv(path, index=False)
    return path


@cache
def model_bytes() -> bytes:
    """A model of these rows."""
    path = fresh("m.skops")
    command("fit", rows_file(), "-t", "label", "-o", path, *QUICK)
    return path.read_bytes()


def model_file(data: bytes | None = None) -> Path:
    path = fresh("m.skops")
    path.write_bytes(model_bytes() if data is None else data)
    return path


@cache
def predictions() -> str:
    """What the model says of its rows."""
    return command("predict", model_file(), rows_file()).out


# files: every kind, whole and broken ------------------------------------------------------------


def _csv(frame: pd.DataFrame, sep: str = ",") -> bytes:
    return frame.to_csv(index=False, sep=sep).encode()


def _zstd(data: bytes) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as file:
        file.write(data)
    return sink.getvalue().to_pybytes()


def _written(frame: pd.DataFrame, write: str) -> bytes:
    buffer = io.BytesIO()
    getattr(frame, write)(buffer, **({"index": False} if write == "to_excel" else {}))
    return buffer.getvalue()


def _stream(frame: pd.DataFrame) -> bytes:
    import pyarrow as pa

    table, sink = pa.Table.from_pandas(frame, preserve_index=False), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


WRITERS: dict[str, Callable[[pd.DataFrame], bytes]] = {
    "t.csv": _csv,
    "t.tsv": partial(_csv, sep="\t"),
    "semicolon.csv": partial(_csv, sep=";"),
    "t.txt": partial(_csv, sep="|"),
    "t.csv.gz": lambda frame: gzip.compress(_csv(frame)),
    "t.csv.bz2": lambda frame: bz2.compress(_csv(frame)),
    "t.csv.xz": lambda frame: lzma.compress(_csv(frame)),
    "t.csv.zst": lambda frame: _zstd(_csv(frame)),
    "t.parquet": lambda frame: _written(frame, "to_parquet"),
    "t.feather": lambda frame: _written(frame, "to_feather"),
    "stream.arrow": _stream,
    "t.xlsx": lambda frame: _written(frame, "to_excel"),
}
CONTENTS: dict[str, Callable[[], pd.DataFrame]] = {
    "plain": training,
    "one row": lambda: training().head(1),
    "gaps": lambda: training().mask(np.arange(60)[:, None] % 7 == np.arange(4)),
    "accents": lambda: training().replace("u", "ünïcödé 漢字 🙂").rename(columns={"a": "größe"}),
    "quotes": lambda: training().replace("u", 'he said "no", then\nleft; or not'),
    "words": lambda: training().replace({"u": "NA", "v": "null"}),
    "long text": lambda: training().replace("u", "x" * 200_000),
    "wide": lambda: pd.DataFrame(np.arange(900.0).reshape(3, 300) + 0.5).rename(columns=str),
    "large and small": lambda: pd.DataFrame({"a": [1e300, 1e-300, -0.5], "b": [1.5, 2.5, 3.5]}),
}


def reads_back(name: str, content: str) -> None:
    frame, path = CONTENTS[content](), fresh(name)
    path.write_bytes(WRITERS[name](frame))
    with contextlib.redirect_stderr(io.StringIO()):
        found = read_table(path)
    assert found.columns.tolist() == frame.columns.tolist()
    for column in frame:
        mine, theirs = found[column].tolist(), frame[column].tolist()
        for one, other in zip(mine, theirs, strict=True):
            if pd.isna(other):
                assert pd.isna(one), (column, one)
            elif isinstance(other, str):
                assert one == other, (column, one, other)
            else:
                assert abs(one - other) <= 1e-15 * abs(other), (column, one, other)


PAGE = b"<!DOCTYPE html>\n<html><title>Log in</title>\n<body>Please, log in</body></html>\n"
CHECKED = ["t.csv.gz", "t.csv.bz2", "t.csv.xz"]  # by a checksum of their own


def _cut(data: bytes) -> bytes:
    """The first half; of plain text up to the middle of a line, behind its first field."""
    half = data[: len(data) // 2]
    if data.count(b"\n") != 61 or b"\0" in data:
        return half
    lines = half.split(b"\n")
    return b"\n".join([*lines[:-2], lines[-2][:5]])


def _flip(data: bytes, share: float) -> bytes:
    changed = bytearray(data)
    changed[int(len(data) * share)] ^= 255
    return bytes(changed)


BREAKS: dict[str, Callable[[bytes], bytes]] = {
    "nothing in it": lambda data: b"",
    "cut in half": _cut,
    "random bytes": lambda data: np.random.default_rng(1).bytes(500),
    "zeros": lambda data: bytes(500),
    "a login page": lambda data: PAGE,
}


def predicts_broken(name: str, change: Callable[[bytes], bytes], verb: str = "predict") -> None:
    path, model = fresh(name), model_file()
    path.write_bytes(change(WRITERS[name](training())))
    if verb == "fit":
        command("fit", path, "-t", "label", "-o", model, *QUICK)
    else:
        command(verb, model, path)


def broken_files() -> Iterator[Case]:
    for name in WRITERS:
        for content in CONTENTS:
            if name == "t.xlsx" and content == "long text":  # a cell holds 32,767 characters
                continue
            call = partial(reads_back, name, content)
            yield Case(FILES, "tables that are whole", f"{name} {content}", call, None)
        for what, change in BREAKS.items():
            for verb in ("predict", "fit"):
                call = partial(predicts_broken, name, change, verb)
                words = r"cannot read|has no rows|no column|lacks"
                yield Case(LINES, "broken tables", f"{verb} {name} {what}", call, Refused, words)
    for name in CHECKED:
        for share in (0.2, 0.4, 0.6, 0.8):
            call = partial(predicts_broken, name, partial(_flip, share=share))
            yield Case(
                LINES, "broken tables", f"{name} flipped at {share}", call, Refused, "damaged"
            )


# tables of text ---------------------------------------------------------------------------------

ODD_TEXT = {
    "comma at the end of every line": ("a,b\n1,2,\n3,4,\n", "line 2 has 3 fields"),
    "comma at the end of one line": ("a,b\n1,2\n3,4,\n", "line 3 has 3 fields"),
    "a field too few": ("a,b\n1,2\n3\n", "line 3 has 1 field"),
    "last line cut": ("a,b,c\n1,2,3\n4,5", "line 3 has 2 fields"),
    "open quote": ('a,b\n1,"2\n3,4\n', "line 2|EOF"),
    "two columns of one name": ("a,b,a\n1,2,3\n", "called a"),
    "names that differ by blanks": ("a, a\n1,2\n", "called a"),
    "zero bytes": ("a,b\n1,\x002\n", "zero byte"),
    "a header alone": ("a,b\n", "no rows"),
    "blank lines alone": ("\n\n\n", "empty"),
    "a gap in one column": ("a\n1\n\n2\n", "line 3 is empty"),
}


def reads_text(ending: str, data: bytes, **options: Any) -> pd.DataFrame:
    path = fresh(f"t.{ending}")
    path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    with contextlib.redirect_stderr(io.StringIO()):
        return read_table(path, reading=ReadOptions(**options))


def odd_text() -> Iterator[Case]:
    for what, (text, words) in ODD_TEXT.items():
        for ending in ("csv", "tsv", "csv.gz"):
            data = text.replace(",", "\t") if ending == "tsv" else text
            call = partial(reads_text, ending, data.encode())
            yield Case(FILES, "lines and headers", f"{ending} {what}", call, ValueError, words)


ACCENTS = "ville,a\nOrléans,1\nNîmes,2\n"
ENCODINGS = (
    "utf-8",
    "utf-8-sig",
    "latin-1",
    "cp1252",
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "utf-32",
)


def reads_encoded(ending: str, written: str, read: str | None) -> None:
    text = ACCENTS.replace(",", "\t") if ending == "tsv" else ACCENTS
    frame = reads_text(ending, text.encode(written), encoding=read)
    assert frame["ville"].tolist() == ["Orléans", "Nîmes"]


def encodings() -> Iterator[Case]:
    for ending in ("csv", "tsv", "csv.gz"):
        for name in ENCODINGS:
            call = partial(reads_encoded, ending, name, name)
            yield Case(FILES, "encodings", f"{ending} {name}, said", call, None)
            due = None if name.startswith("utf-8") else ValueError
            call = partial(reads_encoded, ending, name, None)
            yield Case(FILES, "encodings", f"{ending} {name}, not said", call, due, "--encoding")
    for name in ("klingon", "hex", ""):
        call = partial(reads_encoded, "csv", "utf-8", name)
        yield Case(FILES, "encodings", f"unknown {name!r}", call, ValueError, "is not known")


LABELS = {
    "beyond float64": ["1234567890123456789", "1234567890123456788"],
    "neighbours of 2**53": ["9007199254740992", "9007199254740993"],
    "zeros in front": ["007", "7", "01234", "1234"],
    "signs": ["+1", "-1", "1"],
    "unsigned 64 bits": ["18446744073709551615", "18446744073709551614"],
    "beyond 64 bits": ["36893488147419103232", "36893488147419103233"],
    "decimals": ["1.0", "1.10", "1.1"],
    "exponents": ["1e3", "1000"],
    "NA": ["NA", "SA"],
    "null": ["null", "NULL", "void"],
    "None and nan": ["None", "nan", "x"],
    "true": ["True", "true", "x"],
    "inf": ["inf", "sup"],
    "letters": ["é", "e", "漢"],
    "spaces": ["a b", "a  b"],
    "huge": ["9" * 30, "9" * 31],
}


def labels_stay(name: str, labels: list[str]) -> None:
    frame = pd.DataFrame({"label": labels * 3, "a": np.arange(3.0 * len(labels))})
    path = fresh(name)
    path.write_bytes(WRITERS[name](frame))
    with contextlib.redirect_stderr(io.StringIO()):
        found = class_labels(read_table(path, text=["label"])["label"])
    assert found.astype(str).tolist() == labels * 3, found


def integers_stay(name: str, values: list[int | None], kind: str) -> None:
    frame = pd.DataFrame({"label": pd.array(values, dtype=kind), "a": np.arange(len(values)) + 0.5})
    path = fresh(name)
    path.write_bytes(WRITERS[name](frame))
    series = read_table(path, text=["label"])["label"]
    found = class_labels(series[series.notna()])
    assert found.tolist() == [value for value in values if value is not None]


def labels() -> Iterator[Case]:
    for what, values in LABELS.items():
        for name in ("t.csv", "t.tsv", "t.csv.gz", "t.parquet", "stream.arrow"):
            call = partial(labels_stay, name, values)
            yield Case(FILES, "labels", f"{name} {what}", call, None)
    big = 2**62
    for name in ("t.parquet", "t.feather", "stream.arrow"):
        for gap in ([], [None]):
            call = partial(integers_stay, name, [big, big + 1, *gap], "Int64")
            yield Case(FILES, "labels", f"{name} int64 {gap}", call, None)
            call = partial(integers_stay, name, [2**64 - 1, 2**64 - 2, *gap], "UInt64")
            yield Case(FILES, "labels", f"{name} uint64 {gap}", call, None)


# arrays -----------------------------------------------------------------------------------------

X, Y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
ARRAYS: dict[str, tuple[dict[str, Any], str | None]] = {
    "X and y": ({"X": X, "y": Y}, None),
    "X alone": ({"X": X}, None),
    "float16": ({"X": X.astype(np.float16)}, None),
    "booleans": ({"X": X > 3, "y": Y}, None),
    "text": ({"X": X.astype(str), "y": np.array(list("ababab"))}, None),
    "names": ({"X": X, "feature_names": np.array(["u", "v"])}, None),
    "no X": ({"Z": X}, "no array X"),
    "one axis": ({"X": Y}, "rows and columns are needed"),
    "three axes": ({"X": X.reshape(3, 2, 2)}, "rows and columns are needed"),
    "no axes": ({"X": np.array(3.0)}, "rows and columns are needed"),
    "no rows": ({"X": X[:0]}, "no rows"),
    "complex": ({"X": X * 1j}, "numbers or text are needed"),
    "dates": ({"X": X.astype("datetime64[s]")}, "numbers or text are needed"),
    "objects": ({"X": X.astype(object)}, "damaged, or no NPZ"),
    "short y": ({"X": X, "y": Y[:3]}, "y has shape"),
    "wide y": ({"X": X, "y": X}, "y has shape"),
    "few names": ({"X": X, "feature_names": np.array(["u"])}, "do not name 2 columns"),
    "twice a name": ({"X": X, "feature_names": np.array(["u", "u"])}, "called u"),
    "a feature called y": ({"X": X, "y": Y, "feature_names": np.array(["y", "v"])}, "called y"),
}


def reads_arrays(arrays: dict[str, Any]) -> None:
    path = fresh("t.npz")
    np.savez(path, **arrays)
    found = read_table(path)
    names = ["x0", "x1"] if "feature_names" not in arrays else ["u", "v"]
    assert found.columns.tolist()[:2] == names
    np.testing.assert_array_equal(found[names].to_numpy().astype(str), arrays["X"].astype(str))


def reads_members(members: dict[str, bytes]) -> None:
    path = fresh("t.npz")
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    read_table(path)


def _header(shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    about = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, about)
    return file.getvalue()


def arrays() -> Iterator[Case]:
    for what, (content, words) in ARRAYS.items():
        due = None if words is None else ValueError
        yield Case(FILES, "arrays", what, partial(reads_arrays, content), due, words or "")
    for what, member in {
        "said to be huge": _header((2**45, 2**10)),
        "said to be longer": _header((6, 2)),
        "no header": b"\x93NUMPY\x01\x00\x10\x00{broken header   ",
        "no array": b"hello",
        "nothing": b"",
    }.items():
        call = partial(reads_members, {"X.npy": member})
        yield Case(FILES, "arrays", f"member {what}", call, ValueError, "cannot read")
    whole = io.BytesIO()
    np.savez_compressed(whole, X=X, y=Y)
    for what, change in BREAKS.items():
        call = partial(_reads_bytes, "t.npz", change(whole.getvalue()))
        yield Case(FILES, "arrays", what, call, ValueError, "cannot read")


def _reads_bytes(name: str, data: bytes) -> None:
    path = fresh(name)
    path.write_bytes(data)
    read_table(path)


# what a command is asked for --------------------------------------------------------------------


def overwrites(verb: str, option: str, victim: str, link: str) -> None:
    """An output that is an input under some name; the input must be as before."""
    rows, model = fresh("rows.csv"), model_file()
    rows.write_bytes(rows_file().read_bytes())
    victims = {"rows": rows, "model": model}
    target = victims[victim]
    place = fresh("link.csv" if verb not in ("fit", "report") else "link.html")
    if link == "the same name":
        place = target
    elif link == "another spelling":
        place = target.parent / "." / ".." / target.parent.name / target.name
    elif link == "a symbolic link":
        place.symlink_to(target)
    else:
        os.link(target, place)
    before = {path: path.read_bytes() for path in victims.values()}
    inputs = [rows, "-t", "label"] if verb == "fit" else [model, rows]
    more = ["-o", fresh("m.skops"), *QUICK] if option == "--report" else []
    try:
        command(verb, *inputs, *more, option, place)
    finally:
        assert {path: path.read_bytes() for path in before} == before


LINKS = ("the same name", "another spelling", "a symbolic link", "a hard link")


def overwriting() -> Iterator[Case]:
    pairs = [("fit", "-o", "rows"), ("fit", "--report", "rows"), ("report", "-o", "rows")]
    pairs += [("report", "-o", "model")]
    pairs += [(verb, "-o", "rows") for verb in ("predict", "transform", "explain")]
    for verb, option, victim in pairs:
        for link in LINKS:
            call = partial(overwrites, verb, option, victim, link)
            name = f"{verb} {option} over {victim}, {link}"
            yield Case(LINES, "outputs over inputs", name, call, Refused, "is read|is written")


NAMES = ["two words", "ünïcödé", "-dash", "semi;colon", "quote'", "x" * 240, "a.b.c", "new\nline"]


def writes_to(name: str, ending: str) -> None:
    path = fresh(f"{name}.{ending}")
    command("predict", model_file(), rows_file(), f"--out={path}")
    if ending == "npz":
        with np.load(path) as archive:
            found = archive["prediction"].tolist()
    else:
        found = read_table(path)["prediction"].tolist()
    assert found == predictions().split()[1:]
    assert os.listdir(path.parent) == [path.name]


def names() -> Iterator[Case]:
    for name in NAMES:
        for ending in ("csv", "parquet", "arrow", "npz"):
            call = partial(writes_to, name, ending)
            yield Case(LINES, "names of outputs", f"{name!r:.20} {ending}", call, None)


def _lambda(*args: Any) -> Callable[[], Any]:
    return lambda: command(*(arg() if callable(arg) else arg for arg in args))


def asked_wrongly() -> Iterator[Case]:
    model, rows = model_file, rows_file
    gone = "/no/such/folder/x"
    for name, words, args in [
        ("no such command", "No such command", ("fitt",)),
        ("no such option", "No such option", ("fit", rows, "--magic")),
        ("no target", "--target is needed", ("fit", rows, "-o", lambda: fresh("m"))),
        ("no output", "--out", ("fit", rows, "-t", "label")),
        ("target misspelt", "did you mean 'label'", _fit("lable")),
        ("target unknown", "there is no column", _fit("zzz")),
        ("target empty", "there is no column", _fit("")),
        ("drop of no column", "there is no column", _fit("label", "--drop", "zzz")),
        ("keep of no column", "there is no column", _fit("label", "--keep", "zzz")),
        ("everything dropped", "no column to learn from", _fit("label", "--drop", "a,b,c")),
        ("task unknown", "Invalid value", _fit("label", "--task", "magic")),
        ("rule unknown", "Invalid value", _fit("label", "--rule", "magic")),
        ("function unknown", "Invalid value", _fit("label", "--function", "magic")),
        ("seed below zero", "Invalid value", _fit("label", "--seed", "-1")),
        ("seed no number", "Invalid value", _fit("label", "--seed", "x")),
        ("regression on words", "should hold numbers", _fit("label", "--task", "regression")),
        ("encoding unknown", "is not known", _fit("label", "--encoding", "klingon")),
        ("output in no folder", "no folder", ("fit", rows, "-t", "label", "-o", gone)),
        ("output a folder", "is a folder", ("fit", rows, "-t", "label", "-o", folder)),
        ("output standard output", "name a file", ("fit", rows, "-t", "label", "-o", "-")),
        ("rows not there", "no such file", ("predict", model, "gone.csv")),
        ("rows a folder", "folder|should end", ("predict", model, folder)),
        ("rows of no kind", "should end in", ("predict", model, "rows.docx")),
        ("model not there", "no such file", ("predict", "gone.skops", rows)),
        ("model a folder", "no model", ("predict", folder, rows)),
        ("model a table", "no model", ("predict", rows, rows)),
        ("output of no kind", "cannot tell", ("predict", model, rows, "-o", "p.docx")),
        ("row beyond the last", "has rows 0 to 59", ("explain", model, rows, "--row", "60")),
        ("row below the first", "Invalid value", ("explain", model, rows, "--row", "-1")),
        ("components too many", "too many", ("transform", model, rows, "--components", "99")),
        ("components none", "Invalid value", ("transform", model, rows, "--components", "0")),
        ("method unknown", "is not one of", ("compare", rows, "-t", "label", "--methods", "x")),
        ("no splits", "Invalid value", ("compare", rows, "-t", "label", "--runs", "0")),
        ("table unknown", "is not one of", ("reproduce", "table9")),
        ("set unknown", "is not one of", ("reproduce", "--datasets", "zzz")),
        ("no processes", "Invalid value", ("reproduce", "--jobs", "0")),
        ("data set unknown", "there are mnist", ("data", "get", "zzz")),
        ("data folder not there", "not a folder", ("data", "list", "--data-dir", gone)),
        ("comparison no JSON", "cannot read", _report("--comparison", rows)),
        ("comparison not there", "cannot read", _report("--comparison", gone)),
    ]:
        yield Case(LINES, "options and arguments", name, _lambda(*args), Refused, words)


def _fit(target: str, *more: Any) -> tuple[Any, ...]:
    return ("fit", rows_file, "-t", target, "-o", lambda: fresh("m.skops"), *more)


def _report(*more: Any) -> tuple[Any, ...]:
    return ("report", model_file, rows_file, "-o", lambda: fresh("r.html"), *more)


# tables that do not fit a model, or hardly ------------------------------------------------------


def predicts(change: Callable[[pd.DataFrame], pd.DataFrame], name: str, words: str) -> None:
    frame, path = change(training().copy()), fresh(name)
    path.write_bytes(WRITERS[name](frame))
    found = command("predict", model_file(), path)
    assert len(found.out.split()) == 1 + len(frame)
    assert words in found.err, found.err
    if words in ("", "extra"):
        assert found.out == predictions()


NEW_ROWS: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], str, bool]] = {
    "another order": (lambda f: f[["c", "b", "a"]], "", False),
    "more columns": (lambda f: f.assign(z=1, more="x"), "extra", False),
    "another index": (lambda f: f.set_index(np.arange(60) + 7).reset_index(drop=True), "", False),
    "new level": (lambda f: f.replace("u", "w"), "new level, 'w'", False),
    "a gap": (lambda f: f.mask(f == f.iloc[0]), "filled with the median", False),
    "column of gaps": (lambda f: f.assign(b=np.nan), "b has 60 missing values, filled with", False),
    "words for numbers": (lambda f: f.assign(a="tall"), "should hold numbers", True),
    "one word among numbers": (
        lambda f: f.assign(a=["tall", *f["a"].astype(str)[1:]]),
        "should hold numbers, .* 'tall' is not one",
        True,
    ),
    "infinite": (lambda f: f.assign(a=np.inf), "infinite", True),
    "no a": (lambda f: f.drop(columns="a"), "lacks 1 column .*: a;", True),
    "none of them": (lambda f: f[["label"]], "lacks 3 columns", True),
    "no rows": (lambda f: f.head(0), "no rows", True),
}


def new_rows() -> Iterator[Case]:
    for what, (change, words, refused) in NEW_ROWS.items():
        for name in ("t.csv", "t.tsv", "t.parquet", "t.feather"):
            call = partial(predicts, change, name, words)
            due = Refused if refused else None
            yield Case(LINES, "rows that fit a model badly", f"{name} {what}", call, due, words)


def learns(frame: pd.DataFrame, words: str = "") -> None:
    path, model = fresh("t.csv"), fresh("m.skops")
    frame.to_csv(path, index=False)
    said = command("fit", path, "-t", "label", "-o", model, *QUICK)
    assert words in said.err, said.err
    found = command("predict", model, path).out.split()[1:]
    truth = frame["label"].dropna().astype(str)
    assert len(found) == len(frame)
    if frame["label"].dtype.kind == "O" or frame["label"].nunique() < 5:
        assert set(found) <= set(truth)


def _table(label: Any, n: int = 60, **columns: Any) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=n), **columns})
    frame["label"] = np.where(frame["a"] > 0, "yes", "no") if label is None else label
    return frame


def to_learn() -> Iterator[Case]:
    half = np.arange(60) % 2
    answers = {
        "one column": (_table(None), ""),
        "numbers as classes": (_table(half), "classification"),
        "decimals": (_table(np.linspace(0, 1, 60)), "regression"),
        "constant column": (_table(None, b=3.0), "always 3"),
        "empty column": (_table(None, b=np.nan), "it is empty"),
        "one date": (_table(None, b="2020-01-01"), "always the same date"),
        "dates": (_table(None, b=pd.date_range("2020-01-01", periods=60)), ""),
        "identifiers": (_table(None, b=[f"id{i}" for i in range(60)]), "identifier"),
        "row numbers": (_table(None, b=range(60)), "counts the rows"),
        "a rare class": (_table(["rare", *["x", "y"] * 29, "x"]), ""),
        "gaps": (_table(None, b=np.where(half, np.nan, 1.5 * np.arange(60) ** 2)), "filled with"),
        "labels with gaps": (_table([None, *["x", "y"] * 29, "x"]), "dropped 1 row"),
        "equal rows": (pd.concat([_table(None, 30)] * 2), ""),
        "columns far apart": (_table(None, b=np.random.default_rng(1).normal(size=60) * 1e8), ""),
        "columns near zero": (_table(None, b=np.random.default_rng(1).normal(size=60) * 1e-8), ""),
        "far from zero": (_table(None, b=1e6 + np.random.default_rng(1).normal(size=60)), ""),
    }
    for what, (frame, words) in answers.items():
        yield Case(LINES, "tables to learn from", what, partial(learns, frame, words), None)
    errors = {
        "one row": (_table("x", 1), "at least 2 are needed"),
        "one class": (_table("x"), "nothing to learn"),
        "a class for every row": (_table([f"r{i}" for i in range(60)]), "own label"),
        "no label at all": (_table(np.nan), "0 rows with label"),
        "the label alone": (_table(None)[["label"]], "no column to learn from"),
        "infinite": (_table(None, b=np.where(half, np.inf, 0.0)), "infinite"),
        "constants alone": (_table(half, b=1.0).assign(a=2.0), "no column to learn from"),
    }
    for what, (frame, words) in errors.items():
        call = partial(learns, frame)
        yield Case(LINES, "tables to learn from", what, call, Refused, words)


# models -----------------------------------------------------------------------------------------


def edited(change: Callable[[str, bytes], bytes], verb: str) -> None:
    path = fresh("bad.skops")
    old = zipfile.ZipFile(io.BytesIO(model_bytes()))
    with zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    command(verb, path, *([] if verb == "inspect" else [rows_file()]))


def described(verb: str, **changes: Any) -> None:
    def change(name: str, data: bytes) -> bytes:
        if name != DESCRIPTION:
            return data
        about = {**json.loads(data), **changes}
        return json.dumps({k: v for k, v in about.items() if v != "gone"}).encode()

    edited(change, verb)


def replaced(verb: str, member: str, data: bytes) -> None:
    edited(lambda name, old: data if name == member else old, verb)


def predicts_with(data: bytes) -> None:
    command("predict", model_file(data), rows_file())


PARTS = ("target", "task", "rows", "columns", "skipped", "classes", "source", "created", "format")
ODD_VALUES: tuple[Any, ...] = ("gone", None, [1], {"a": 1}, -1)


def models() -> Iterator[Case]:
    yield Case(MODELS, "whole", "predict", lambda: predicts_with(model_bytes()), None)
    for part in (*PARTS, "ejop", "scikit-learn", "python"):
        for value in ODD_VALUES:
            if part == "format" and value == -1:
                continue
            for verb in ("inspect", "predict"):
                call = partial(described, verb, **{part: value})
                name = f"{verb} {part} {value}"
                words = "tampered|damaged|upgrade|no model"
                yield Case(MODELS, "edited descriptions", name, call, Refused, words)
    for what, data in {
        "nested": b"[" * 10**5 + b"]" * 10**5,
        "cut": b"{",
        "bytes": b"\xff\xfe",
        "a list": b"[]",
        "null": b"null",
        "a long number": b"1" * 9999,
    }.items():
        for member in (DESCRIPTION, "schema.json"):
            call = partial(replaced, "inspect", member, data)
            yield Case(
                MODELS, "edited members", f"{member} {what}", call, Refused, "damaged|no mod"
            )
    for tenth in range(10):
        call = partial(_cut_model, tenth / 10)
        yield Case(MODELS, "damaged", f"cut at {tenth / 10}", call, Refused, "no model|damaged")
    for seed in range(20):
        call = partial(_flipped_model, seed)
        yield Case(MODELS, "damaged", f"a byte flipped, seed {seed}", call, Refused, "damaged")
    for what, change in BREAKS.items():
        if what != "cut in half":
            call = partial(lambda change: predicts_with(change(b"")), change)
            yield Case(MODELS, "damaged", what, call, Refused, "no model")
    for kind in ("os.system", "builtins.eval", "subprocess.Popen", "evil.Plan"):
        call = partial(_foreign_type, kind)
        yield Case(MODELS, "types no model has", kind, call, Refused, "tampered with|damaged")


def _cut_model(share: float) -> None:
    predicts_with(model_bytes()[: int(len(model_bytes()) * share)])


def _flipped_model(seed: int) -> None:
    """A byte of the packed data of a member, so that it unpacks to something else or not at all."""
    rng, whole = np.random.default_rng(seed), model_bytes()
    members = zipfile.ZipFile(io.BytesIO(whole)).infolist()
    while True:
        data, member = bytearray(whole), members[rng.integers(len(members))]
        start = member.header_offset + 30 + len(member.filename.encode())
        data[start + int(rng.integers(member.compress_size))] ^= int(rng.integers(1, 256))
        try:
            zipfile.ZipFile(io.BytesIO(data)).read(member.filename)
        except Exception:
            break
    predicts_with(bytes(data))


def _foreign_type(kind: str) -> None:
    module, name = kind.rsplit(".", 1)
    old = b'"__class__": "Plan", "__module__": "ejop.sums.plan"'

    def change(member: str, data: bytes) -> bytes:
        if member != "schema.json":
            return data
        compact = json.dumps(json.loads(data)).encode()
        assert old in compact
        return compact.replace(old, f'"__class__": "{name}", "__module__": "{module}"'.encode())

    edited(change, "predict")


# results files and data sets --------------------------------------------------------------------


@cache
def results_bytes() -> bytes:
    path = fresh("r.sqlite")
    results = Results(path)
    for seed in range(200):
        results.add(Run("digits", "euclid", seed, 1.0, 0.1, 0.1, None, {"k": "v" * 50}))
    return path.read_bytes()


def opens_results(data: Callable[[], bytes], mode: int = 0o644) -> None:
    path = fresh("r.sqlite")
    path.write_bytes(data())
    path.chmod(mode)
    before = path.read_bytes()
    try:
        Results(path).runs()
    except OSError:
        assert path.read_bytes() == before
        assert os.listdir(path.parent) == [path.name]
        raise


def _other_database() -> bytes:
    path = fresh("other.sqlite")
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    return path.read_bytes()


def results() -> Iterator[Case]:
    cases: dict[str, tuple[Callable[[], bytes], str]] = {
        "text": (lambda: b"no database" * 99, "no SQLite file"),
        "a login page": (lambda: PAGE, "no SQLite file"),
        "another database": (_other_database, "holds other tables"),
        "cut in half": (lambda: results_bytes()[: len(results_bytes()) // 2], "damaged"),
        "a garbled header": (lambda: results_bytes()[:16] + b"\xff" * 84, "damaged"),
    }
    for tenth in range(2, 10):
        cases[f"garbled at {tenth / 10}"] = (partial(_garbled, tenth / 10), "damaged")
    for what, (data, words) in cases.items():
        yield Case(FILES, "results files", what, partial(opens_results, data), OSError, words)
    call = partial(opens_results, results_bytes, 0o444)
    yield Case(FILES, "results files", "read-only", call, OSError, "read-only")
    for what, data in {"whole": results_bytes, "new": lambda: b""}.items():
        yield Case(FILES, "results files", what, partial(opens_results, data), None)


def _garbled(share: float) -> bytes:
    page, data = 4096, bytearray(results_bytes())
    start = int(len(data) * share) // page * page
    data[start : start + page] = b"\xaa" * page
    return bytes(data)


def loads(name: str, data: bytes | None) -> None:
    place = fresh("x").parent
    if data is not None:
        path = place / DATASETS[name].file
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    load_dataset(name, data_dir=place, download=False)


def _npz(**content: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **content)
    return file.getvalue()


def data_sets() -> Iterator[Case]:
    broken = {"another archive": _npz(X=X, y=Y), "a login page": PAGE, "nothing in it": b""}
    broken |= {"random bytes": np.random.default_rng(2).bytes(900), "zeros": bytes(900)}
    for name in DATASETS:
        for what, data in broken.items():
            call = partial(loads, name, data)
            yield Case(
                SETS, "damaged files", f"{name} {what}", call, DataCorrupted, "left as it is"
            )
    for name in ("usps", "vowel", "mnist"):
        call = partial(_not_here, name)
        yield Case(SETS, "not there", name, call, DataNotFound, "What to do")
    for name in ("letters", "zzz", "", "../usps"):
        call = partial(load_dataset, name, download=False)
        yield Case(SETS, "no such set", repr(name), call, ValueError, "did you mean|there are")
    call = partial(get, "usps", "/no/such/folder", download=False)
    yield Case(SETS, "not there", "folder", call, DataNotFound, "is not a folder")


def _not_here(name: str) -> None:
    known = {key: os.environ.pop(key, None) for key in ("EJOP_DATA", "SCIKIT_LEARN_DATA")}
    os.environ["SCIKIT_LEARN_DATA"] = str(fresh("home"))
    try:
        loads(name, None)
    finally:
        del os.environ["SCIKIT_LEARN_DATA"]
        os.environ.update({key: value for key, value in known.items() if value is not None})


# files that are written -------------------------------------------------------------------------


def keeps_mode(mode: int) -> None:
    path = fresh("kept")
    path.write_text("old")
    path.chmod(mode)
    try:
        with replacing(path) as part:
            part.write_text("new")
    except OSError:
        assert path.read_text() == "old"
        raise
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", mode)


def modes() -> Iterator[Case]:
    for mode in (0o600, 0o640, 0o644, 0o660, 0o666, 0o755):
        yield Case(FILES, "modes of outputs", oct(mode), partial(keeps_mode, mode), None)
    for mode in (0o400, 0o440, 0o444, 0o555):
        call = partial(keeps_mode, mode)
        yield Case(FILES, "modes of outputs", oct(mode), call, OSError, "read-only")


GROUPS = (
    broken_files,
    odd_text,
    encodings,
    labels,
    arrays,
    overwriting,
    names,
    asked_wrongly,
    new_rows,
    to_learn,
    models,
    results,
    data_sets,
    modes,
)
CASES: list[Case] = [case for group in GROUPS for case in group()]
assert len({case.id for case in CASES}) == len(CASES), "two cases of one name"
