"""Tables are read as they are written, or refused: labels, missing values, fields, encodings."""

import bz2
import gzip
import io
import json
import lzma
import re
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from ejop.cli.reading import ReadOptions
from ejop.cli.tables import read_table, without_label_words
from ejop.cli.training import Chosen, class_labels, known_labels, load_training
from ejop.unpacking import unpacked_limit

QUICK = ["--rule", "knn", "--function", "kernel"]
PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def rows_of(labels, n=60, seed=0):
    """A table whose label follows column a: one of ``labels`` in its lower half, and so on."""
    rng = np.random.default_rng(seed)
    a, b = rng.random(n), rng.random(n)
    return [
        (labels[int(x * len(labels))], f"{x:.6f}", f"{y:.6f}") for x, y in zip(a, b, strict=True)
    ]


def write_csv(path, rows, header="label,a,b", end="\n"):
    path.write_text(header + "\n" + "".join(",".join(row) + end for row in rows))
    return path


def written(path, content, **options):
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(data)
    asked = {name: options.pop(name) for name in [*options] if name in ReadOptions.__annotations__}
    return read_table(path, reading=ReadOptions(**asked), **options)


# fields -----------------------------------------------------------------------------------------


def test_trailing_commas_do_not_move_the_columns(call, tmp_path):
    path = write_csv(tmp_path / "t.csv", rows_of("01"), end=",\n")
    code, out, err = call("fit", path, "-t", "label", "-o", tmp_path / "m.skops")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "line 2 has 4 fields and the header 3" in err
    assert not (tmp_path / "m.skops").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n3,4,5\n", "line 3 has 3 fields and the header 2"),
        ("a,b\n1,2,\n3,4\n", "line 2 has 3 fields and the header 2"),
        ("a,b\n1,2\n3\n", "line 3 has 1 field and the header 2"),
        ("a,b\n1,2\n\n3,4\n5\n", "line 5 has 1 field"),
        ('a,b\n"1\n2",3\n4\n', "line 4 has 1 field"),
        ("a;b\n1;2;3\n", "line 2 has 3 fields"),
        ('a,b\n1,"2\n3,4\n', "line 2 has|EOF inside string"),
        ("a,b,a\n1,2,3\n", "several columns are called a$"),
        ("a,b, a,b\n1,2,3,4\n", "several columns are called a, b$"),
        ("a\n1\n\n2\n", 'line 3 is empty; write "" where a value is missing'),
        ("a,b\n1,\x002\n", "line 2 holds a zero byte"),
        ("", "it is empty"),
        ("\n\n", "it is empty"),
        ("a,b\n", "has no rows"),
    ],
)
def test_lines_that_do_not_fit(tmp_path, text, words):
    with pytest.raises(ValueError, match=words):
        written(tmp_path / "t.csv", text)
    with pytest.raises(ValueError, match=words):
        written(tmp_path / "t.csv.gz", gzip.compress(text.encode()))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a,b\n1,2\n", [[1, 2]]),
        ("\n a , b\n\n1,2\r\n  \n3, 4\n\n", [[1, 2], [3, 4]]),
        ('a,b\n"1",2\n"3","4"', [[1, 2], [3, 4]]),
        ("a;b\n1;2\n", [[1, 2]]),
        ("\ufeffa,b\n1,2\n", [[1, 2]]),
        ("a,b\r1,2\r3,4\r", [[1, 2], [3, 4]]),
    ],
)
def test_lines_that_fit(tmp_path, text, values):
    frame = written(tmp_path / "t.csv", text)
    assert frame.columns.tolist() == ["a", "b"]
    assert frame.to_numpy().tolist() == values


def test_long_texts_and_one_column(tmp_path):
    long = "x" * 300_000
    frame = written(tmp_path / "t.csv", f'a,b\n1,{long}\n2,"{long}\n{long}"\n')
    assert frame["b"].str.len().tolist() == [300_000, 600_001]
    frame = written(tmp_path / "one.csv", 'a\n1\n""\n3\n\n\n')
    assert frame["a"].isna().tolist() == [False, True, False]


def test_duplicate_columns_of_parquet(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    twice = pa.table([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"])
    pq.write_table(twice, tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="several columns are called a"):
        read_table(tmp_path / "t.parquet")


# separators, decimal marks and sheets -------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("t.txt", "a\tb, c\n1\t2\n3\t4\n", "tabs"),
        ("t.txt", "a|b, c\n1|2\n3|4\n", "vertical bars"),
        ("t.txt", "a;b\n1;2\n3;4\n", "semicolons"),
        ("t.txt", "a,b\n1,2\n3,4\n", ""),
        ("t.txt.gz", "a\tb\n1\t2\n3\t4\n", "tabs"),
        ("t.csv", "a;b\n1;2\n3;4\n", "semicolons"),
        ("t.csv", "\n\na,b\n1,2\n3,4\n", ""),
        ("t.tsv", "a\tb\n1\t2\n3\t4\n", ""),
    ],
)
def test_separators_are_found(name, text, told, tmp_path, capsys):
    data = gzip.compress(text.encode()) if name.endswith("gz") else text
    frame = written(tmp_path / name, data)
    assert frame.to_numpy().tolist() == [[1, 2], [3, 4]]
    assert capsys.readouterr().err == (f"ejop: values are separated by {told}\n" if told else "")


def test_separators_that_are_said(tmp_path):
    for mark, said in (("|", "|"), ("\t", "tab"), ("\t", "\\t"), (":", ":"), (" ", " ")):
        frame = written(tmp_path / "t.csv", f"a{mark}b\n1{mark}2\n", separator=said)
        assert frame.to_numpy().tolist() == [[1, 2]]
    for name, mark, words in (
        ("t.csv", "|", "vertical bars stand in it; use --sep '|'"),
        ("t.csv", "\t", "tabs stand in it; use --sep tab"),
        ("t.tsv", ",", "commas stand in it; use --sep ','"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            written(tmp_path / name, f"a{mark}b\n1{mark}2\n")
    assert written(tmp_path / "t.csv", '"a;b"\n1\n').columns.tolist() == ["a;b"]
    for said in ("", "ab", "x", '"', "."):
        with pytest.raises(ValueError, match="cannot separate values"):
            written(tmp_path / "t.csv", "a,b\n1,2\n", separator=said)


def test_decimal_marks(tmp_path):
    text = "a;b;c;d\n1,500;2.000,5;01.02.2020;ja\n2,250;NA;1.3.2021;7 \n;3;;\n"
    frame = written(tmp_path / "t.csv", text, decimal=",")
    assert frame["a"].fillna(-1).tolist() == [1.5, 2.25, -1]
    assert frame["b"].fillna(-1).tolist() == [2000.5, -1, 3]
    assert frame["c"].fillna("").tolist() == ["01.02.2020", "1.3.2021", ""]
    assert frame["d"].str.strip().fillna("").tolist() == ["ja", "7", ""]
    point = written(tmp_path / "t.csv", 'a,b\n"1,500",x\n"2,250",y\n', decimal=".")
    assert point["a"].tolist() == [1500, 2250]
    with pytest.raises(ValueError, match=r"'1\.5', which is no number with a decimal comma"):
        written(tmp_path / "t.csv", "a;b\n1.5;2\n", decimal=",")
    with pytest.raises(ValueError, match="'1,5', which is no number with a decimal point"):
        written(tmp_path / "t.csv", "a;b\n1,5;2\n", decimal=".")
    codes = written(tmp_path / "t.csv", "a;b\n01;2,5\n", decimal=",", text=["a"])
    assert codes.to_numpy().tolist() == [["01", 2.5]]


def test_the_model_knows_how_its_table_was_read(call, tmp_path):
    lines = [(row[0], row[1].replace(".", ","), row[2]) for row in rows_of(["no", "yes"])]
    text = "label|a|b\n" + "".join("|".join(line) + "\n" for line in lines)
    (tmp_path / "t.csv").write_text(text)
    model = tmp_path / "m.skops"
    asked = ("fit", tmp_path / "t.csv", "-t", "label", "-o", model, "--sep", "|", *QUICK)
    code, out, err = call(*asked, "--decimal", ",")
    assert (code, out) == (1, ""), err
    assert "column 'b' has '0." in err
    text = text.replace(".", ",")
    (tmp_path / "t.csv").write_text(text)
    code, _, err = call(*asked, "--decimal", ",")
    assert code == 0, err
    code, expected, err = call("predict", model, tmp_path / "t.csv")
    assert code == 0, err
    assert "rows are right" in err
    (tmp_path / "u.csv").write_text(text.replace(",", ".").replace("|", ","))
    code, out, err = call("predict", model, tmp_path / "u.csv")
    assert code == 1
    assert "use --decimal ." in err
    code, out, err = call("predict", model, tmp_path / "u.csv", "--decimal", ".")
    assert (code, out) == (0, expected), err
    pd.read_csv(tmp_path / "u.csv").to_parquet(tmp_path / "u.parquet")
    assert call("predict", model, tmp_path / "u.parquet")[1] == expected
    code, out, err = call("predict", model, tmp_path / "u.parquet", "--decimal", ".")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "--decimal does not apply to" in err


def test_targets_with_decimal_commas(call, tmp_path):
    a = np.random.default_rng(0).normal(size=60)
    frame = pd.DataFrame({"a": a, "y": [f"{x:.2f} €".replace(".", ",") for x in 3 * a]})
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";")
    code, _, err = call("fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m.skops")
    assert code == 0, err
    assert "regression: y is a number with decimals" in err
    assert "y: read as numbers with € and" in err
    code, _, err = call("predict", tmp_path / "m.skops", tmp_path / "t.csv")
    assert code == 0, err
    assert float(err.split("root mean squared error ")[1]) < 0.1
    dates = frame.assign(y=pd.date_range("2020-01-01", periods=60))
    dates.to_parquet(tmp_path / "t.parquet")
    asked = ("fit", tmp_path / "t.parquet", "-t", "y", "-o", tmp_path / "n.skops")
    code, _, err = call(*asked, "--task", "regression")
    assert (code, err.count("\n")) == (1, 1)
    assert "column 'y' should hold numbers, and holds dates" in err


def workbook(path, **sheets):
    with pd.ExcelWriter(path) as writer:
        for name, rows in sheets.items():
            pd.DataFrame(rows).to_excel(writer, sheet_name=name, index=False, header=False)
    return path


def test_sheets(tmp_path, capsys):
    rows = [[None] * 4, ["a ", "code", "day", "flag"], [1, "007", pd.Timestamp("2020-01-01"), True]]
    rows += [[None] * 4, ["NA", "8", None, False], [2.5, None, pd.Timestamp("2021-03-04"), None]]
    path = workbook(tmp_path / "t.xlsx", one=rows, two=[["x"], [1]], three=[])
    frame = read_table(path)
    assert "read the first of 3 sheets, 'one'" in capsys.readouterr().err
    assert frame.columns.tolist() == ["a", "code", "day", "flag"]
    assert frame["a"].fillna(-1).tolist() == [1, -1, 2.5]
    assert frame["code"].fillna("gone").tolist() == ["007", "8", "gone"]
    assert frame["day"].dt.year.fillna(0).tolist() == [2020, 0, 2021]
    assert read_table(path, reading=ReadOptions(sheet="two"))["x"].tolist() == [1]
    assert read_table(path, usual=ReadOptions(sheet="two"))["x"].tolist() == [1]
    assert read_table(path, usual=ReadOptions(sheet="gone"))["a"].notna().sum() == 2
    for sheet, words in (("three", "sheet 'three' is empty"), ("x", "there are one, two, three")):
        with pytest.raises(ValueError, match=words):
            read_table(path, reading=ReadOptions(sheet=sheet))
    for name, rows, words in (
        ("twice", [["a", "a"], [1, 2]], "several columns are called a"),
        ("header", [["a", "b"]], "has no rows"),
        ("none", [], "is empty"),
    ):
        with pytest.raises(ValueError, match=words):
            read_table(workbook(tmp_path / f"{name}.xlsx", one=rows))


def test_sheets_are_learned_from(call, tmp_path):
    frame = pd.DataFrame(rows_of(["no", "yes"]), columns=["label", "a", "b"])
    frame = frame.astype({"a": float, "b": float})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pd.ExcelWriter(tmp_path / "t.xlsx") as writer:
        pd.DataFrame({"x": [1]}).to_excel(writer, sheet_name="notes")
        frame.to_excel(writer, sheet_name="rows", index=False)
    model = tmp_path / "m.skops"
    asked = ("fit", tmp_path / "t.xlsx", "-t", "label", "-o", model, *QUICK)
    code, _, err = call(*asked)
    assert (code, "there is no column 'label'" in err) == (1, True)
    code, _, err = call(*asked, "--sheet", "rows")
    assert code == 0, err
    code, expected, err = call("predict", model, tmp_path / "t.csv")
    assert code == 0, err
    assert call("predict", model, tmp_path / "t.xlsx")[1] == expected
    assert call("predict", model, tmp_path / "t.xlsx", "--sheet", "rows")[1] == expected
    code, _, err = call("predict", model, tmp_path / "t.xlsx", "--sheet", "notes")
    assert (code, err.count("\n")) == (1, 1)
    assert "lacks 2 columns" in err


def test_broken_workbooks(tmp_path, monkeypatch):
    whole = workbook(tmp_path / "t.xlsx", one=[["a"], *[[n] for n in range(2000)]]).read_bytes()
    old = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600)
    for name, data, words in (
        ("cut.xlsx", whole[: len(whole) // 2], "damaged"),
        ("text.xlsx", b"a,b", "damaged"),
        ("empty.xlsx", b"", "damaged"),
        ("locked.xlsx", old, "encrypted, or an old workbook"),
        ("new.xls", whole, "name it .xlsx"),
    ):
        with pytest.raises(ValueError, match=words):
            written(tmp_path / name, data)
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("a.txt", "hello")
    with pytest.raises(ValueError, match="damaged, or no Excel workbook"):
        written(tmp_path / "zip.xlsx", other.getvalue())
    monkeypatch.setattr("ejop.unpacking.LEAST", 2**14)
    monkeypatch.setattr("ejop.unpacking.TIMES", 1)
    with pytest.raises(ValueError, match="unpacks to"):
        written(tmp_path / "bomb.xlsx", whole)


def test_a_reader_that_is_missing(call, tmp_path, monkeypatch):
    import importlib.util

    workbook(tmp_path / "t.xlsx", one=[["a"], [1]])
    (tmp_path / "t.xls").write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name, words in (("t.xlsx", "pip install 'ejop[excel]'"), ("t.xls", "need xlrd")):
        code, out, err = call("fit", tmp_path / name, "-t", "a", "-o", tmp_path / "m")
        assert (code, out, err.count("\n")) == (1, "", 1), err
        assert words in err


def test_what_has_no_meaning_for_a_file(tmp_path):
    write_csv(tmp_path / "t.csv", rows_of("xy"))
    pd.read_csv(tmp_path / "t.csv").to_parquet(tmp_path / "t.parquet")
    for name, option in (
        *(("t.parquet", option) for option in ("separator", "decimal", "encoding", "sheet")),
        ("t.csv", "sheet"),
    ):
        value = {"separator": ";", "decimal": ",", "encoding": "latin-1"}.get(option, "one")
        with pytest.raises(ValueError, match=r"does not apply to .* leave it out"):
            read_table(tmp_path / name, reading=ReadOptions(**{option: value}))


# bad tables -------------------------------------------------------------------------------------


def bad_tables():
    rng = np.random.default_rng(0)
    n = 80
    frame = pd.DataFrame({"a": rng.normal(size=n), "label": rng.choice(["yes", "no"], n)})
    many = 100_000
    long = pd.DataFrame({"a": rng.normal(size=many), "label": rng.choice(["yes", "no"], many)})
    yield "infinite", frame.assign(b=[np.inf, *range(n - 1)]), "column 'b' holds 1 infinite value"
    yield "no target", frame.assign(label=np.nan), "0 rows with label"
    yield "all missing", frame[["label"]].assign(a=np.nan), "no column to learn from"
    yield "out of range", frame.assign(b="9999-12-31"), "no date of it lies between"
    yield "free text", long.assign(b=[f"level{i}" for i in range(many)]), "b': it is an identifier"
    yield "mixed", frame.assign(b=["some", *map(str, range(n - 1))]), "mixes numbers and others"
    yield "gaps", frame.assign(label=[None, *frame["label"][1:]]), "dropped 1 row without label"


@pytest.mark.parametrize(("what", "frame", "words"), [*bad_tables()], ids=lambda x: str(x)[:12])
def test_bad_tables_are_told(what, frame, words, tmp_path, capsys):
    frame.to_csv(tmp_path / "t.csv", index=False)
    try:
        load_training(tmp_path / "t.csv", Chosen("label")).survey()
        told = capsys.readouterr().err
    except ValueError as error:
        told = str(error)
        assert "`X`" not in told
        assert "kinds" not in told
    assert words in told


# labels -----------------------------------------------------------------------------------------

LABELS = {
    "beyond float64": ["1234567890123456789", "1234567890123456788"],
    "neighbours of 2**53": ["9007199254740992", "9007199254740993"],
    "ZIP codes": ["01234", "1234", "90210"],
    "zeros in front": ["007", "7"],
    "signs": ["+1", "-1"],
    "unsigned": ["18446744073709551615", "18446744073709551614"],
    "beyond 64 bits": ["36893488147419103232", "36893488147419103233"],
    "decimals": ["1.0", "1.10", "1.1"],
    "whole with decimals": ["1.0", "2.0"],
    "NA": ["NA", "SA", "EU"],
    "null": ["null", "void"],
    "None": ["None", "Some"],
    "booleans": ["True", "False"],
    "plain": ["0", "1", "2"],
    "spaces inside": ["a b", "a  b"],
    "letters": ["é", "e"],
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_stay_what_the_file_says(labels, call, tmp_path):
    path = write_csv(tmp_path / "t.csv", rows_of(labels))
    model, task = tmp_path / "m.skops", ["--task", "classification"]
    code, _, err = call("fit", path, "-t", "label", "-o", model, *QUICK, *task)
    assert code == 0, err
    code, out, err = call("predict", model, path)
    assert code == 0, err
    said = [line.lstrip("'") for line in out.splitlines()[1:]]
    assert set(said) <= set(labels)
    assert len(set(said)) > 1
    truth = [row[0] for row in rows_of(labels)]
    share = np.mean([one == other for one, other in zip(said, truth, strict=True)])
    assert share > 0.7
    assert f"{share:.1%} of 60 rows are right" in err
    code, out, _ = call("inspect", model, "--json")
    assert set(json.loads(out)["about"]["classes"]) == set(labels)


def test_codes_are_classes_however_many(call, tmp_path):
    path = write_csv(tmp_path / "t.csv", rows_of([f"{n:05d}" for n in range(40)], 200))
    code, _, err = call("fit", path, "-t", "label", "-o", tmp_path / "m.skops", *QUICK)
    assert code == 0, err
    assert "classification: label is a code with leading zeros" in err


BIG = 2**62 + 1


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (pl.Series([BIG, BIG + 1, None, BIG]), [BIG, BIG + 1, BIG]),
        (pl.Series([2**63, 2**63 + 1, None], dtype=pl.UInt64), [2**63, 2**63 + 1]),
        (pl.Series([1, 2, None], dtype=pl.Int8), [1, 2]),
        (pl.Series([1.0, 2.0, None]), [1, 2]),
        (pl.Series([0.5, 1.5, None]), ["0.5", "1.5"]),
        (pl.Series(["01", "1", None]), ["01", "1"]),
        (pl.Series(["NA", "x", None]), ["NA", "x"]),
        (pl.Series([True, False, None]), ["true", "false"]),
        (pl.Series([Decimal(BIG), Decimal(BIG + 1), None]), [BIG, BIG + 1]),
    ],
)
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_labels_of_parquet_and_arrow(values, labels, ending, tmp_path):
    frame = pl.DataFrame({"label": values, "a": [float(n) for n in range(len(values))]})
    path = tmp_path / f"t.{ending}"
    frame.write_parquet(path) if ending == "parquet" else frame.write_ipc(path)
    found = read_table(path, text=["label"])["label"]
    assert class_labels(found[found.notna()]).tolist() == labels


def test_labels_of_another_file_are_recognised():
    def found(values, classes):
        return known_labels(pd.Series(values), np.array(classes)).tolist()

    assert found(["1.0", "2.00", "3"], [1, 2]) == ["1", "2", "3"]
    assert found([1.0, 2.0], ["1.0", "2.0"]) == ["1.0", "2.0"]
    assert found([True, False], ["True", "False"]) == ["True", "False"]
    assert found(["1.0", "1"], ["1.0", "1"]) == ["1.0", "1"]
    assert found(["007", "7"], ["007", "7"]) == ["007", "7"]
    assert found(["7.0"], ["007", "8"]) == ["7.0"]


# missing values ---------------------------------------------------------------------------------


def test_words_are_levels_and_empty_fields_are_missing(tmp_path):
    text = "level,number,flag,label\nNA,1,TRUE,NA\nnull,NA,NA,x\n,,,\nx,2.5,FALSE,null\n"
    frame = written(tmp_path / "t.csv", text, text=["label"])
    assert frame["level"].fillna("gone").tolist() == ["NA", "null", "gone", "x"]
    assert frame["label"].fillna("gone").tolist() == ["NA", "x", "gone", "null"]
    assert frame["number"].fillna(-1).tolist() == [1, -1, -1, 2.5]
    assert frame["flag"].isna().tolist() == [False, True, True, False]
    frame = written(tmp_path / "t.csv", text, missing=["NA", "2.5"])
    assert frame["level"].isna().tolist() == [True, False, True, False]
    assert frame["number"].isna().tolist() == [False, True, True, True]
    frame = written(tmp_path / "t.csv", "n,m,k\n?,NA,x\n2,-,?\n3,NO,NA\n")
    assert frame["n"].fillna(-1).tolist() == [-1, 2, 3]
    assert frame["m"].tolist() == ["NA", "-", "NO"]
    assert frame["k"].tolist() == ["x", "?", "NA"]


def test_words_among_labels():
    def found(*labels):
        return without_label_words(pd.Series(labels)).fillna("gone").tolist()

    assert found("1", "NA", "2") == ["1", "gone", "2"]
    assert found("true", "NA") == ["true", "gone"]
    assert found("1", "none", "-") == ["1", "none", "-"]
    assert found("x", "NA") == ["x", "NA"]


def test_missing_words_are_told_and_kept_with_the_model(call, tmp_path):
    rows = [(*row, ("NA", "red", "blue")[i % 3]) for i, row in enumerate(rows_of(["NA", "EU"]))]
    path = write_csv(tmp_path / "t.csv", rows, "label,a,b,colour")
    model = tmp_path / "m.skops"
    code, _, err = call("fit", path, "-t", "label", "-o", model, *QUICK)
    assert code == 0, err
    assert "NA is a class of label in" in err
    assert "NA is a level of colour in 20 rows; --missing NA would make it missing" in err
    assert "categories, with their features: colour (3)" in err
    assert "missing values" not in err
    numbered = [(*row[:3], row[3]) for row in rows if row[0] != "NA"]
    numbered = [(str(i % 2), *row[1:]) for i, row in enumerate(numbered)]
    write_csv(path, numbered, "label,a,b,colour")
    code, _, err = call("fit", path, "-t", "label", "-o", model, *QUICK, "--missing", "NA")
    assert code == 0, err
    assert "categories, with their features: colour (3)" in err
    assert "missing values are a level of their own: colour (" in err
    code, _, err = call("predict", model, path)
    assert code == 0, err
    assert "warning" not in err


def test_numbers_and_their_missing_words_in_new_rows(call, tmp_path):
    path = write_csv(tmp_path / "t.csv", rows_of("xy"))
    model = tmp_path / "m.skops"
    assert call("fit", path, "-t", "label", "-o", model, *QUICK)[0] == 0
    write_csv(tmp_path / "new.csv", [("NA", "0.5")], "a,b")
    code, out, err = call("predict", model, tmp_path / "new.csv")
    assert (code, len(out.split())) == (0, 2), err
    assert "a has 1 missing value, filled with the median" in err


def test_a_target_with_missing_numbers(tmp_path, capsys):
    rows = [("NA" if i == 3 else row[0], *row[1:]) for i, row in enumerate(rows_of("12"))]
    training = load_training(write_csv(tmp_path / "t.csv", rows), Chosen("label"))
    assert "dropped 1 row without label" in capsys.readouterr().err
    assert sorted(set(training.y.tolist())) == [1, 2]


# encodings --------------------------------------------------------------------------------------

ACCENTS = "ville,a\nOrléans,1\nNîmes,2\n"


def test_encodings_have_a_remedy(tmp_path):
    plain = written(tmp_path / "t.csv", ACCENTS)
    for encoding in ("latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8", "UTF8", "utf-8-sig"):
        frame = written(tmp_path / "t.csv", ACCENTS.encode(encoding), encoding=encoding)
        pd.testing.assert_frame_equal(frame, plain)
    wrong = {
        "latin-1": r"byte 11 \(line 2, 0xe9\) is no UTF-8; add --encoding latin-1",
        "utf-16": "it is UTF-16, not UTF-8; add --encoding utf-16",
        "utf-16-le": "line 1 holds a zero byte.*--encoding utf-16-le",
    }
    for encoding, words in wrong.items():
        with pytest.raises(ValueError, match=words):
            written(tmp_path / "t.csv", ACCENTS.encode(encoding))
    far = b"a,b\n" + b"1,2\n" * 700_000 + b"1,\xe9\n"
    with pytest.raises(ValueError, match=r"byte 2800006 \(line 700002, 0xe9\)"):
        written(tmp_path / "t.csv", far)
    with pytest.raises(ValueError, match=r"utf-16 .* add --encoding utf-16-le"):
        written(tmp_path / "t.csv", b"a,b\n1,2\n", encoding="utf-16")
    for name in ("klingon", "hex"):
        with pytest.raises(ValueError, match=f"--encoding '{name}' is not known"):
            written(tmp_path / "t.csv", ACCENTS, encoding=name)


def test_encoding_in_every_command(call, tmp_path):
    rows = [(*row, "é" if i % 2 else "e") for i, row in enumerate(rows_of(["é", "e"]))]
    path = tmp_path / "t.csv"
    text = "label,a,b,f\n" + "".join(",".join(row) + "\n" for row in rows)
    path.write_bytes(text.encode("latin-1"))
    model, add = tmp_path / "m.skops", ["--encoding", "latin-1"]
    for args in [
        ("fit", path, "-t", "label", "-o", model, *QUICK),
        ("predict", model, path),
        ("transform", model, path),
        ("explain", model, path, "--row", 1),
        ("report", model, path, "-o", tmp_path / "r.html"),
        ("compare", path, "-t", "label", "--runs", 1, "--methods", "euclid"),
    ]:
        code, _, err = call(*args, *add)
        assert code == 0, err
        code, _, err = call(*args)
        if args[0] in ("fit", "compare"):
            assert (code, err.count("\n")) == (1, 1)
            assert "add --encoding latin-1" in err
        else:  # the model knows how its own table was read
            assert code == 0, err
            assert "read as latin-1, as the training file was" in err
    path.write_bytes(text.encode())
    code, _, err = call("predict", model, path)
    assert (code, "read as" in err, "new level" in err) == (0, False, False), err


# names that are more than names --------------------------------------------------------------

ESCAPE = "\x1b[2J\x1b[31mred\x1b]0;title\x07"


def test_names_from_files_are_never_obeyed(call, tmp_path):
    rows = [(*row, ("x", "y")[i % 2]) for i, row in enumerate(rows_of([f"yes{ESCAPE}", "no"]))]
    header = f'"label{ESCAPE}",a{ESCAPE},[bold]b :smile:,c\u202eevil'
    path, model = tmp_path / f"t{ESCAPE.replace('/', '')}.csv", tmp_path / "m.skops"
    write_csv(path, rows, header)
    shown = []
    for args in [
        ("fit", path, "-t", f"label{ESCAPE}", "-o", model, *QUICK),
        ("inspect", model),
        ("explain", model, path, "--row", 1),
        ("predict", model, path, "--out", tmp_path / "p.csv"),
        ("fit", path, "-t", "lable", "-o", model),
        ("compare", path, "-t", f"label{ESCAPE}", "--runs", 1, "--methods", "euclid"),
    ]:
        _, out, err = call(*args)
        shown.append(out + err)
        assert not set("\x1b\x07\u202e") & set(out + err), args
    assert "label\\x1b[2J" in shown[1]
    assert "[bold]b :smile:" in shown[2]


def test_formulas_are_quoted_in_csv(call, tmp_path):
    labels = ["=cmd|'/C calc'!A0", "@SUM(1)", "-1", "+2.5e3"]
    path = write_csv(tmp_path / "t.csv", rows_of(labels, 120), "label,=a,b")
    model = tmp_path / "m.skops"
    code, _, err = call("fit", path, "-t", "label", "-o", model, *QUICK)
    assert code == 0, err
    for ending in ("csv", "tsv"):
        code, _, err = call("predict", model, path, "--out", tmp_path / f"p.{ending}")
        assert code == 0
        assert "texts that a spreadsheet would run" in err
        said = set((tmp_path / f"p.{ending}").read_text().split("\n")[1:-1])
        assert said == {"'=cmd|'/C calc'!A0", "'@SUM(1)", "-1", "+2.5e3"}
    code, out, _ = call("explain", model, path)
    assert out.startswith("prediction,base,answer,'=a,b\n")
    assert call("predict", model, path, "--out", tmp_path / "p.parquet")[0] == 0
    assert set(pd.read_parquet(tmp_path / "p.parquet")["prediction"]) == set(labels)


def test_numbers_are_never_quoted(call, tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    np.savez(tmp_path / "t.npz", X=X, y=-np.abs(X[:, 0]))
    assert call("fit", tmp_path / "t.npz", "-o", tmp_path / "m.skops", *QUICK)[0] == 0
    code, out, err = call("predict", tmp_path / "m.skops", tmp_path / "t.npz")
    assert (code, "spreadsheet" in err) == (0, False)
    assert all(float(line) < 0 for line in out.split()[1:])


# archives ---------------------------------------------------------------------------------------


def test_packed_tables(tmp_path):
    text = "a,b\n1,x\n2,y\n"
    for ending, pack in PACKERS.items():
        frame = written(tmp_path / f"t.csv{ending}", pack(text.encode()))
        assert frame["a"].tolist() == [1, 2]
    pl.DataFrame({"a": [1, 2]}).write_csv(tmp_path / "plain.csv")
    import pyarrow as pa

    with pa.CompressedOutputStream(str(tmp_path / "t.csv.zst"), "zstd") as file:
        file.write(text.encode())
    assert read_table(tmp_path / "t.csv.zst")["b"].tolist() == ["x", "y"]


@pytest.mark.parametrize("ending", PACKERS)
def test_damaged_archives(ending, tmp_path):
    whole = PACKERS[ending](b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(5000)))
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 255
    for data in (whole[: len(whole) // 2], bytes(flipped), b"no archive at all", whole[:-4]):
        with pytest.raises(ValueError, match=f"cannot read .*it is damaged, or no {ending} file"):
            written(tmp_path / f"t.csv{ending}", data)


def test_bombs_are_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("ejop.unpacking.LEAST", 2**20)
    zeros = b"a,b\n" + b"0,0\n" * 2**20
    for ending, pack in PACKERS.items():
        with pytest.raises(ValueError, match=r"unpacks to .* over the limit of 1 MiB"):
            written(tmp_path / f"t.csv{ending}", pack(zeros))
    np.savez_compressed(tmp_path / "t.npz", X=np.zeros((2**18, 2)))
    with pytest.raises(ValueError, match="unpacks to"):
        read_table(tmp_path / "t.npz")
    pl.DataFrame({"a": np.zeros(2**20)}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="unpacks to"):
        read_table(tmp_path / "t.parquet")
    pl.DataFrame({"a": np.zeros(2**20)}).write_ipc(tmp_path / "t.arrow", compression="zstd")
    with pytest.raises(ValueError, match="unpacks to"):
        read_table(tmp_path / "t.arrow")
    assert unpacked_limit(10) == 2**20
    assert unpacked_limit(2**20) == 20 * 2**20


def test_an_npz_that_says_too_much(tmp_path):
    path = tmp_path / "t.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (2**45, 2**10)}
    )
    for data in (header.getvalue(), b"\x93NUMPY\x01\x00\x10\x00{broken header   ", b""):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", data)
        with pytest.raises(ValueError, match="cannot read"):
            read_table(path)
