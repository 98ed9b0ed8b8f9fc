"""The command line: the executable and every command, every mistake told in one line."""

import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
import types
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from ejop import EGOPRegressor, EJOPClassifier, __version__
from ejop.cli.contenders import as_codes
from ejop.cli.description import FORMAT, describe
from ejop.cli.models import DESCRIPTION, SavedModel, load_model, save_model
from ejop.cli.tables import read_table
from ejop.cli.training import TrainingTable, targets
from ejop.columns import ColumnPreparer
from ejop.functions import RidgeFunction
from ejop.learners import LMNN

EXECUTABLE = Path(sys.executable).parent / "ejop"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
QUICK = ["--rule", "knn", "--function", "kernel"]


def shell(*args, **options):
    """The executable in a process of its own."""
    return subprocess.run(
        [EXECUTABLE, *map(str, args)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=300,
        **options,
    )


def table(n=160, seed=0):
    """Numbers, a category, a boolean, missing values, and columns that cannot be used."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "customer_id": rng.permutation(n) + 1000,
            "a": rng.normal(size=n),
            "b": rng.normal(size=n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "member": rng.random(n) < 0.5,
            "joined": pd.date_range("2020-01-01", periods=n).strftime("%Y-%m-%d"),
            "remark": [f"remark number {i} of this customer" for i in range(n)],
        }
    )
    score = 2 * frame.a - frame.b + 1.5 * (frame.colour == "red")
    frame["label"] = np.where(score > 0.5, "yes", "no")
    frame.loc[3:6, "a"] = np.nan
    frame.loc[8, "colour"] = None
    frame.loc[9, "label"] = None
    return frame


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a training table, new rows and a model that the executable fitted."""
    folder = tmp_path_factory.mktemp("cli")
    table().to_csv(folder / "train.csv", index=False)
    new = table(30, seed=1).drop(columns=["label", "customer_id", "remark"])
    new.to_csv(folder / "new.csv", index=False)
    done = shell("fit", folder / "train.csv", "-t", "label", "-o", folder / "m.skops")
    assert done.returncode == 0, done.stderr
    return types.SimpleNamespace(
        folder=folder, model=folder / "m.skops", new=folder / "new.csv", frame=new, fit=done
    )


@pytest.fixture(scope="module")
def expected(made):
    """What the model predicts, through the executable."""
    done = shell("predict", made.model, made.new)
    assert done.returncode == 0, done.stderr
    return pd.read_csv(io.StringIO(done.stdout))["prediction"].tolist()


def left_behind(folder):
    return sorted(path.name for path in Path(folder).iterdir() if path.name.endswith(".part"))


# every command through the executable -----------------------------------------------------------


def test_fit_says_what_it_did(made):
    told = made.fit.stderr
    assert "classification: label is not a number" in told
    assert "dropped 1 row without label" in told
    assert "left out 'customer_id': it is an identifier" in told
    assert "left out 'remark': it is free text: 159 different values" in told
    assert "categories, with their features: colour (4), member (1)" in told
    assert "filled with the median, and marked: a (4)" in told
    assert "missing values are a level of their own: colour (1)" in told
    assert "learning from 159 rows and 5 columns" in told
    assert len(told.splitlines()) == len(set(told.splitlines())) == 8
    assert "warning" not in told
    assert "m.skops: EJOPClassifier, mean of 5 kernel machines: " in made.fit.stdout
    assert "; columns " in made.fit.stdout
    assert re.search(r"^learned in [\d.]+ s$", made.fit.stdout, re.MULTILINE)
    assert re.search(
        r"accuracy 0\.\d+ ± 0\.\d+ on rows it had not seen; 0\.\d+ by", made.fit.stdout
    )
    assert re.search(r"what matters: a [\d.]+ ± [\d.]+ %, (b|colour) ", made.fit.stdout)
    assert left_behind(made.folder) == []


def test_predict(made, expected, tmp_path):
    assert len(expected) == 30
    assert set(expected) == {"yes", "no"}
    truth = table(30, seed=1)["label"]
    assert np.mean(truth == expected) > 0.7
    done = shell("predict", made.model, made.new, "--proba", "--out", tmp_path / "p.parquet")
    assert (done.returncode, done.stdout) == (0, "")
    found = pd.read_parquet(tmp_path / "p.parquet")
    assert found.columns.tolist() == ["prediction", "proba_no", "proba_yes"]
    assert found["prediction"].tolist() == expected
    np.testing.assert_allclose(found[["proba_no", "proba_yes"]].sum(axis=1), 1)


def test_sets_and_intervals(made, call, tmp_path):
    code, out, err = call("predict", made.model, made.new, "--coverage", 0.95)
    assert code == 0, err
    found = pd.read_csv(io.StringIO(out))
    assert set(found["set"]) <= {"no", "yes", "no | yes"}
    assert all(p in held for p, held in zip(found["prediction"], found["set"], strict=True))
    numbers = table().drop(columns=["label", "remark"])
    numbers.to_csv(tmp_path / "numbers.csv", index=False)
    model = tmp_path / "m.skops"
    code, out, err = call("fit", tmp_path / "numbers.csv", "-t", "b", "-o", model)
    assert code == 0, err
    assert re.search(r"R2 -?\d\.\d+ ± \d\.\d+ on rows it had not seen", out)
    code, out, err = call("predict", model, tmp_path / "numbers.csv", "--coverage", 0.9)
    assert code == 0, err
    found = pd.read_csv(io.StringIO(out))
    assert (found["low"] < found["prediction"]).all()
    assert (found["prediction"] < found["high"]).all()
    code, _, err = call("predict", model, tmp_path / "numbers.csv", "--coverage", 90)
    assert code == 1
    assert "`coverage` must lie between 0 and 1, got 90" in err


def test_functions_are_for_neighbours(made, call, tmp_path):
    asked = ("fit", made.folder / "train.csv", "-t", "label", "-o", tmp_path / "m.skops")
    code, _, err = call(*asked, "--function", "kernel")
    assert code == 2
    assert "--function kernel is for --rule knn or --rule hnn" in " ".join(err.split())
    code, out, err = call(*asked, *QUICK)
    assert code == 0, err
    assert re.search(r"accuracy 0\.\d+ ± 0\.\d+ on rows it had not seen", out)
    assert re.search(r"^0\.\d+ with plain distances$", out, re.MULTILINE)
    code, out, err = call("inspect", tmp_path / "m.skops")
    assert code == 0, err
    assert "n_neighbors: " in out
    code, _, err = call("predict", tmp_path / "m.skops", made.new, "--coverage", 0.9)
    assert code == 1
    assert "rule='knn' keeps no predictions of unseen rows" in err


def test_transform_explain_inspect(made, call):
    code, out, err = call("transform", made.model, made.new, "--components", 2)
    assert code == 0, err
    found = pd.read_csv(io.StringIO(out))
    assert found.columns.tolist() == ["component1", "component2"]
    assert np.isfinite(found.to_numpy()).all()
    code, out, err = call("explain", made.model, made.new, "--row", 17)
    assert code == 0, err
    assert re.search(
        r"row 17: label = (yes|no) with probability 0\.\d+; a row of average .* 0\.\d+", out
    )
    assert all(name in out for name in ("colour", "member", " a ", " b "))
    code, out, err = call("inspect", made.model)
    assert code == 0, err
    for words in ("EJOPClassifier of label, from 159 rows of train.csv", "Leading directions"):
        assert words in out
    for words in (
        "Importances",
        "  member: ",
        "mean of 5 kernel machines",
        "plan: ",
        "dates: joined",
        "left out 'remark': it is free text",
        "standard error",
    ):
        assert words in out


def test_compare(made, call):
    asked = (made.folder / "train.csv", "-t", "label", "--runs", 1, "--json")
    code, out, err = call("compare", *asked)
    assert code == 0, err
    lines = json.loads(out)
    labels = ["Most frequent class", "Euclid", "ReliefF", "EJOP kNN", "EJOP machines"]
    labels += ["Random forest", "Gradient boosting", "LMNN", "ITML", "MLR", "NCA"]
    assert [line["label"] for line in lines] == labels
    errors = [line["error"] for line in lines]
    assert all(line["runs"] == 1 and 0 <= line["error"] < 50 for line in lines)
    assert all(error < errors[0] for error in errors[1:])
    assert all(line["fit_seconds"] > 0 for line in lines)


def test_compare_needs_rows(made, call, tmp_path):
    table().head(3).to_csv(tmp_path / "three.csv", index=False)
    code, out, err = call("compare", tmp_path / "three.csv", "-t", "label")
    assert (code, out) == (1, "")
    assert "has 3 rows with label, too few to compare methods by; at least 10 are needed" in err


def test_demo():
    done = shell("demo")
    assert done.returncode == 0, done.stderr
    errors = [float(error) for error in re.findall(r"│ *([\d.]+)% *│", done.stdout)]
    assert len(errors) == 3
    assert max(errors) < 3
    assert re.search(r"learned in [\d.]+ s: mean of 5 kernel machines", done.stdout)


def test_bench(call):
    code, out, err = call("bench", "--rows", 200, "--features", 5, "--repeats", 1, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["ratio"] == pytest.approx(found["ejop_seconds"] / found["kneighbors_seconds"])


def test_version_help_data_reproduce_completion(tmp_path):
    assert shell("--version").stdout.strip() == __version__
    told = shell("--help").stdout
    for name in ("fit", "predict", "transform", "explain", "compare", "report", "reproduce"):
        assert f" {name} " in told
    names = [row["name"] for row in json.loads(shell("data", "list", "--json").stdout)]
    assert "mnist" in names
    asked = ["table2", "--quick", "--datasets", "digits", "--dry-run", "--json"]
    done = shell("reproduce", *asked, cwd=tmp_path)
    assert "digits euclid 0" in json.loads(done.stdout)
    asked = {"_EJOP_COMPLETE": "complete_bash", "COMP_WORDS": "ejop pre", "COMP_CWORD": "1"}
    done = subprocess.run(
        [EXECUTABLE], capture_output=True, text=True, env={**ENVIRONMENT, **asked}, timeout=60
    )
    assert done.stdout.split() == ["predict"]


def test_report(made, call, tmp_path):
    labelled = tmp_path / "rows.parquet"
    table(40, seed=2).to_parquet(labelled)
    line = {"label": "Some Method", "runs": 2, "error": 12.5, "fit_seconds": 0.5}
    (tmp_path / "c.json").write_text(json.dumps([line]))
    page = tmp_path / "r.html"
    asked = (made.model, labelled, "-o", page, "--comparison", tmp_path / "c.json")
    code, _, err = call("report", *asked)
    assert code == 0, err
    text = page.read_text(encoding="utf-8")
    assert "<html" in text
    assert "Some Method" in text
    assert "label in rows.parquet" in text
    assert left_behind(tmp_path) == []


def test_interrupt_leaves_nothing(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 30))
    np.savez(tmp_path / "train.npz", X=X, y=(X[:, 0] > 0).astype(int))
    process = subprocess.Popen(
        [EXECUTABLE, "fit", tmp_path / "train.npz", "--out", tmp_path / "m.skops"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    told = ""
    while "learning from" not in told:
        line = process.stderr.readline()
        assert line, told
        told += line
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert (out, err.strip().splitlines()[-1]) == ("", "ejop: stopped")
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["train.npz"]


# files of every kind ----------------------------------------------------------------------------


def _polars(frame):
    return pl.from_pandas(frame.astype({"colour": "string"}))


WRITERS = {
    "pandas.csv": lambda frame, path: frame.to_csv(path, index=False),
    "pandas.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "semicolon.csv": lambda frame, path: frame.to_csv(path, index=False, sep=";"),
    "pandas.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "pandas.parquet": lambda frame, path: frame.to_parquet(path),
    "index.parquet": lambda frame, path: frame.set_index("a").to_parquet(path),
    "category.parquet": lambda frame, path: frame.astype({"colour": "category"}).to_parquet(path),
    "pandas.feather": lambda frame, path: frame.to_feather(path),
    "polars.csv": lambda frame, path: _polars(frame).write_csv(path),
    "polars.parquet": lambda frame, path: _polars(frame).write_parquet(path),
    "polars.arrow": lambda frame, path: _polars(frame).write_ipc(path),
    "stream.arrow": lambda frame, path: _polars(frame).write_ipc_stream(path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_file_is_predicted_alike(name, made, expected, call, tmp_path):
    path = tmp_path / name
    WRITERS[name](made.frame, path)
    code, out, err = call("predict", made.model, path)
    assert code == 0, err
    assert pd.read_csv(io.StringIO(out))["prediction"].tolist() == expected
    assert "extra" not in err


def mixed(n=120, seed=0):
    """A table as people have it: text, gaps, dates, codes and decimal commas."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=n).round(3)
    frame = pd.DataFrame(
        {
            "a": numbers,
            "price": [
                f"{1000 + 900 * x:,.2f}".translate(str.maketrans(",.", ".,")) for x in numbers
            ],
            "code": rng.choice(["01", "1", "007", "7"], n),
            "level": rng.choice(["low", "NA", "high, or more", ' "so" '], n),
            "flag": rng.choice([True, False], n),
            "maybe": rng.choice([True, False, None], n),
            "truth": rng.choice(["True", "False", None], n),
            "rating": rng.choice([1.0, 2.0, 3.0, np.nan], n),
            "day": pd.date_range("2021-01-01", periods=n, freq="31h").strftime("%d.%m.%Y"),
            "moment": pd.date_range("2021-01-01", periods=n, freq="31h"),
            "remark": [f"some words {i}" if i % 3 else None for i in range(n)],
        }
    )
    frame.loc[::7, ["a", "price", "level", "day", "moment"]] = None
    return frame


DOORS = {
    "t.csv": lambda frame, path: frame.to_csv(path, index=False),
    "t.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "t.txt": lambda frame, path: frame.to_csv(path, index=False, sep="|"),
    "t.parquet": lambda frame, path: frame.to_parquet(path),
    "t.arrow": lambda frame, path: frame.to_feather(path),
    "t.xlsx": lambda frame, path: frame.to_excel(path, index=False),
    "-": None,
}


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("source", ["python", "t.csv", "t.parquet"])
def test_all_doors_answer_as_python_does(source, task, call, tmp_path, monkeypatch):
    frame, new = mixed(), mixed(40, seed=1)
    if source == "t.csv":  # has no text "True" beside true
        frame, new = frame.drop(columns="truth"), new.drop(columns="truth")
    y = frame["a"].fillna(0) + (frame["code"] == "01") - frame["flag"]
    y = y.to_numpy() if task == "regression" else np.where(y > 0, "yes", "no")
    model = tmp_path / "m.skops"
    if source == "python":
        kind = EGOPRegressor if task == "regression" else EJOPClassifier
        columns = ColumnPreparer(kinds={"rating": "category"})
        predictor = kind(columns=columns, random_state=0).fit(frame, y)
        about = describe(TrainingTable(frame, y, "t", task), predictor.preparer_)
        save_model(SavedModel(predictor, about), model)
    else:
        DOORS[source](frame.assign(t=y), tmp_path / source)
        asked = ("fit", tmp_path / source, "-t", "t", "-o", model)
        code, _, err = call(*asked, "--category", "rating,code")
        assert code == 0, err
        predictor = load_model(model).predictor
    kinds = {column.name: column.kind for column in predictor.preparer_.columns_}
    assert kinds["code"] == kinds["rating"] == "category"
    assert kinds["price"] == "number"
    assert kinds["day"] == kinds["moment"] == "date"
    expected = predictor.predict(new)
    for name, write in DOORS.items():
        if name == "-":
            text = io.BytesIO(new.to_csv(index=False).encode())
            monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=text))
        else:
            write(new, tmp_path / name)
        code, out, err = call("predict", model, name if name == "-" else tmp_path / name)
        assert code == 0, err
        assert "warning" not in err
        found = pd.read_csv(io.StringIO(out))["prediction"]
        if task == "classification":
            assert found.tolist() == expected.tolist(), name
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_predictor_that_python_saved_is_a_model(task, call, tmp_path, monkeypatch):
    import skops.io

    frame, new = mixed(), mixed(20, seed=1).rename(columns={"a": "y"})
    frame = frame.rename(columns={"a": "y"})
    y = (frame["y"].fillna(0) + (frame["code"] == "01") - frame["flag"]).to_numpy()
    if task == "classification":
        predictor = EJOPClassifier(random_state=0).fit(frame, np.where(y > 0, "yes", "no"))
    else:
        predictor = EGOPRegressor(random_state=0).fit(frame, y)
    skops.io.dump(predictor, tmp_path / "m.skops")
    expected = predictor.predict(new)
    new.to_csv(tmp_path / "t.csv", index=False)
    new.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet", "-"):
        text = io.BytesIO(new.to_csv(index=False).encode())
        monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=text))
        place = name if name == "-" else tmp_path / name
        code, out, err = call("predict", tmp_path / "m.skops", place)
        assert code == 0, err
        found = pd.read_csv(io.StringIO(out))["prediction"]
        if task == "classification":
            assert found.tolist() == expected.tolist()
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert call("inspect", tmp_path / "m.skops")[0] == 0
    skops.io.dump(EJOPClassifier().fit(np.eye(4), [0, 1, 0, 1]), tmp_path / "array.skops")
    code, _, err = call("predict", tmp_path / "array.skops", tmp_path / "t.csv")
    assert code == 1
    assert "nor an EJOPClassifier or EGOPRegressor that was fitted to a table" in err


def test_fit_on_what_polars_wrote(call, tmp_path):
    frame = table().assign(label=lambda f: (f["label"] == "yes").where(f["label"].notna()))
    known, truth = frame["label"].notna().to_numpy(), frame["label"].eq(True).to_numpy()
    written = pl.from_pandas(frame.astype({"label": "boolean"}))
    written = written.with_columns(
        pl.col("colour").cast(pl.Categorical), pl.col("joined").str.to_date()
    )
    written.write_parquet(tmp_path / "t.parquet")
    written.write_csv(tmp_path / "t.csv")
    answers = []
    for name in ("t.parquet", "t.csv"):
        asked = (tmp_path / name, "-t", "label", "-o", tmp_path / "m.skops", *QUICK)
        code, _, err = call("fit", *asked)
        assert code == 0, err
        assert "categories, with their features: colour (4), member (1)" in err
        for other in ("t.parquet", "t.csv"):
            code, out, err = call("predict", tmp_path / "m.skops", tmp_path / other)
            assert code == 0, err
            said = np.array(out.split()[1:]) == "true"
            right = np.mean(said[known] == truth[known])
            assert f"label is in the file: {100 * right:.1f}% of 159 rows are right" in err
            assert right > 0.8
            answers.append(out)
    assert set(answers[0].split()[1:]) == {"true", "false"}
    assert len(set(answers)) == 1


def test_arff(made, expected, call, tmp_path):
    rows = made.frame.copy()
    lines = ["@relation new", "@attribute a numeric", "@attribute b numeric"]
    lines += ["@attribute colour {red, green, blue}", "@attribute member {true, false}"]
    lines += ['@attribute joined date "yyyy-MM-dd"', "@data"]
    for a, b, colour, member, joined in rows.itertuples(index=False):
        shown = ["?" if pd.isna(v) else str(v) for v in (a, b, colour)]
        lines.append(",".join([*shown, str(member).lower(), f'"{joined}"']))
    (tmp_path / "new.arff").write_text("\n".join(lines))
    code, out, err = call("predict", made.model, tmp_path / "new.arff")
    assert code == 0, err
    assert pd.read_csv(io.StringIO(out))["prediction"].tolist() == expected


def test_standard_input(made, expected):
    done = shell("predict", made.model, "-", input=made.new.read_text())
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1:] == expected


def test_npz_regression_and_its_outputs(call, tmp_path):
    X = np.random.default_rng(0).normal(size=(120, 3))
    names = np.array(["u", "v", "w"])
    np.savez(tmp_path / "d.npz", X=X, y=np.sin(X[:, 0]), feature_names=names)
    code, out, err = call("fit", tmp_path / "d.npz", "-o", tmp_path / "m.skops", *QUICK, "--json")
    assert code == 0, err
    assert "regression: y is a number with decimals" in err
    summary = json.loads(out)
    assert (summary["task"], summary["score"], summary["columns"]) == ("regression", "R2", [*"uvw"])
    for ending in ("csv", "tsv", "parquet", "arrow", "npz"):
        code, out, err = call(
            "predict", tmp_path / "m.skops", tmp_path / "d.npz", "--out", tmp_path / f"p.{ending}"
        )
        assert (code, out) == (0, ""), err
        assert "root mean squared error" in err
    found = read_table(tmp_path / "p.arrow")["prediction"]
    for ending in ("csv", "tsv", "parquet"):
        np.testing.assert_allclose(read_table(tmp_path / f"p.{ending}")["prediction"], found)
    with np.load(tmp_path / "p.npz") as archive:
        np.testing.assert_allclose(archive["prediction"], found)
    code, _, err = call("predict", tmp_path / "m.skops", tmp_path / "d.npz", "--proba")
    assert (code, err.count("\n")) == (1, 1)
    assert "--proba needs classes" in err


# columns ----------------------------------------------------------------------------------------


def test_columns_are_matched_by_name(made, expected, call, tmp_path):
    frame = made.frame[["member", "joined", "colour", "b", "a"]].assign(extra=1.0, other="x")
    frame.to_csv(tmp_path / "new.csv", index=False)
    code, out, err = call("predict", made.model, tmp_path / "new.csv")
    assert (code, out.split()[1:]) == (0, expected)
    assert "warning: ignored 2 extra columns: extra, other" in err
    made.frame[["a", "member", "joined"]].to_csv(tmp_path / "few.csv", index=False)
    code, out, err = call("predict", made.model, tmp_path / "few.csv")
    assert (code, out) == (1, "")
    assert err == (
        "ejop: error: few.csv lacks 2 columns that the model was fitted on: b, colour; add them, "
        "with missing values if need be.\n"
    )


def test_new_level_and_new_gaps(made, call, tmp_path):
    frame = made.frame.head(3).assign(colour=["purple", "red", "green"], b=[1.0, None, 2.0])
    frame.to_csv(tmp_path / "new.csv", index=False)
    code, out, err = call("predict", made.model, tmp_path / "new.csv")
    assert (code, len(out.split())) == (0, 4)
    assert err.count("warning") == 1
    assert "colour has 1 new level, 'purple', which count as none of its levels" in err
    assert "b has 1 missing value, filled with the median" in err


def test_one_row(made, expected, call, tmp_path):
    made.frame.head(1).to_parquet(tmp_path / "one.parquet")
    code, out, _ = call("predict", made.model, tmp_path / "one.parquet")
    assert (code, out.split()) == (0, ["prediction", expected[0]])
    table().head(1).to_csv(tmp_path / "one.csv", index=False)
    code, _, err = call("fit", tmp_path / "one.csv", "-t", "label", "-o", tmp_path / "m.skops")
    assert code == 1
    assert "one.csv has 1 row with label; at least 2 are needed" in err
    assert not (tmp_path / "m.skops").exists()


def test_words_where_numbers_were(made, call, tmp_path):
    made.frame.astype({"a": object}).assign(a="tall").to_csv(tmp_path / "new.csv", index=False)
    code, _, err = call("predict", made.model, tmp_path / "new.csv")
    assert (code, err.count("\n")) == (1, 1)
    assert "error: column 'a' should hold numbers, as it did when the model was fitted" in err
    assert "and 'tall' is not one" in err


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([None] * 40, "left out 'c': it is empty"),
        ([7] * 40, "left out 'c': it is always 7"),
        (["same"] * 40, "left out 'c': it is always 'same'"),
        (range(5, 45), "left out 'c': it counts the rows"),
        ([f"a{i}" for i in range(40)], "left out 'c': it is an identifier"),
        ([f"words and {i}" for i in range(40)], "left out 'c': it is free text"),
        ([*map(str, range(39)), "some"], "it mixes numbers and others, such as 'some'"),
        (
            ["9999-12-31", *["2020-01-02", "2020-03-04", "2021-04-05"] * 13],
            "1 date is before 1500 or after 2300, which count as missing",
        ),
        (["x", "y", None, "z"] * 10, "categories, with their features: c (4)"),
        (["1,5", "2,25", "3,125", "4,5"] * 10, "c: read as numbers with decimal commas"),
    ],
)
def test_what_is_told_of_columns(values, told, call, tmp_path):
    frame = pd.DataFrame({"a": np.random.default_rng(0).normal(size=40), "c": list(values)})
    frame["label"] = np.where(frame["a"] > 0, "yes", "no")
    frame.to_csv(tmp_path / "t.csv", index=False)
    code, _, err = call("fit", tmp_path / "t.csv", "-t", "label", "-o", tmp_path / "m", *QUICK)
    assert code == 0, err
    assert told in err
    assert "warning" not in err
    code, out, err = call("predict", tmp_path / "m", tmp_path / "t.csv")
    assert (code, len(out.split())) == (0, 41), err
    assert "warning" not in err


def test_keep_drop_and_category(call, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "row_id": range(60)})
    frame["code"] = [f"{n:02d}" for n in rng.choice([1, 2, 11, 12], 60)]
    frame["label"] = np.where(frame["code"].isin(["01", "02"]), "yes", "no")
    frame.to_csv(tmp_path / "t.csv", index=False)
    asked = ("fit", tmp_path / "t.csv", "-t", "label", "-o", tmp_path / "m")
    code, out, err = call(*asked, "--drop", "a", "--keep", "row_id", "--category", "code", "--json")
    assert code == 0, err
    assert json.loads(out)["columns"] == ["row_id", "code"]
    assert "left out 'a': asked for" in err
    assert "categories, with their features: code (4)" in err
    code, out, err = call("predict", tmp_path / "m", tmp_path / "t.csv")
    assert (code, out.split()[1:]) == (0, frame["label"].tolist()), err
    for options, words in [
        (["--drop", "a", "--keep", "a"], "'a' is in --drop and in --keep; choose one"),
        (["--drop", "label"], "'label' is the target; take it out of --drop"),
        (["--category", "row_id", "--id", "row_id"], "'row_id' is the --id column"),
        (["--category", "zzz"], "there is no column 'zzz'"),
    ]:
        code, out, err = call(*asked, *options)
        assert (code, out, err.count("\n")) == (1, "", 1), err
        assert words in err


@pytest.mark.parametrize(
    ("values", "task", "labels"),
    [
        (["a", "b"] * 10, "classification", ["a", "b"]),
        ([True, False] * 10, "classification", ["false", "true"]),
        ([1.0, 2.0] * 10, "classification", [1, 2]),
        ([1, 2, 3, 4], "regression", None),
        (np.linspace(0, 1, 20), "regression", None),
        (range(100), "regression", None),
    ],
)
def test_task(values, task, labels):
    y, found = targets(pd.Series(values, name="t"))
    assert found == task
    if labels is not None:
        assert np.unique(y).tolist() == labels


# settings, and what rows are called ---------------------------------------------------------------


@pytest.fixture(scope="module")
def train(made):
    return made.folder / "train.csv"


def test_settings_reach_the_predictor(train, call, tmp_path):
    pytest.importorskip("torch")  # for --device
    model = tmp_path / "m.skops"
    options = ["--scale", "standard", "--class-weight", "yes=3, no=1", "--scoring", "log_loss"]
    options += ["--time-limit", 60, "--n-jobs", 1, "--device", "cpu", "--seed", 3]
    code, out, err = call("fit", train, "-t", "label", "-o", model, *options, "--json")
    assert code == 0, err
    assert json.loads(out)["rule"] == "ridge"
    found = load_model(model).predictor
    assert (found.rule.scoring, found.rule.time_limit) == ("log_loss", 60)
    assert (found.scale, found.class_weight) == ("standard", {"yes": 3.0, "no": 1.0})
    assert (found.random_state, found.n_jobs, found.device) == (3, None, None)
    code, out, err = call("inspect", model)
    assert code == 0, err
    assert "rule: ridge" in out
    code, out, err = call("predict", model, train, "--n-jobs", 1, "--device", "cpu")
    assert code == 0, err
    expected = found.predict(load_model(model).matched(pd.read_csv(train)))
    assert pd.read_csv(io.StringIO(out))["prediction"].tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rule", "knn", "--scoring", "accuracy"], "--scoring accuracy is for --rule ridge"),
        (["--rule", "hnn", "--time-limit", 3], "--time-limit 3.0 is for --rule ridge"),
        (["--time-limit", 0], "Invalid value for '--time-limit'"),
        (["--scoring", "r2"], "--scoring r2 does not apply: label is a class; use accuracy"),
        (["--class-weight", "maybe=1"], "names 'maybe', which is no class of label"),
        (["--class-weight", "heavy"], "is not none, balanced or name=weight"),
        (["--class-weight", "yes=many"], "'many' is no number"),
        (["--class-weight", "yes=-1"], "a weight is 0 or more, and finite"),
        (["-t", "b", "--class-weight", "balanced"], "is for classes, and b is a number"),
        (["-t", "b", "--scoring", "accuracy"], "b is a number; use r2, mean_absolute_error"),
        (["--device", "toaster"], "toaster" if find_spec("torch") else "needs torch"),
        (["--id", "zzz"], "there is no column 'zzz'"),
        (["--id", "label"], "--id 'label' is the target"),
        (["--sheet", "one"], "--sheet does not apply to"),
        (["--sep", "ab"], "--sep 'ab' cannot separate values"),
        (["--sep", ";"], "its header is one column, and commas stand in it; use --sep ','"),
        (["--decimal", "x"], "--decimal 'x' is no decimal mark; use , or ."),
        (["--decimal", ","], "which is no number with a decimal comma; use --decimal ."),
        (["--decimal", ",", "--sep", ","], "are both ','"),
    ],
)
def test_options_that_do_not_apply(options, words, train, call, tmp_path):
    code, out, err = call("fit", train, "-t", "label", "-o", tmp_path / "m.skops", *options)
    assert (code in (1, 2), out) == (True, "")
    plain = re.sub(r"[│╭╮╰╯─\s]+", " ", err)
    assert words in plain, err
    assert code == 2 or err.splitlines()[-1].startswith("ejop: error: ")
    assert list(tmp_path.iterdir()) == []


def test_weights_of_classes_change_the_answer(train, call, tmp_path):
    counts = {}
    for weight in ("none", "balanced", "yes=50,no=1"):
        asked = ("fit", train, "-t", "label", "-o", tmp_path / "m", "--class-weight", weight)
        code, _, err = call(*asked)
        assert code == 0, err
        out = call("predict", tmp_path / "m", train)[1]
        counts[weight] = out.split().count("yes")
    assert counts["yes=50,no=1"] > max(counts["none"], counts["balanced"])


def test_what_rows_are_called(call, tmp_path):
    frame = table(60).assign(customer_id=[f"{n:04d}" for n in range(60)])
    frame.to_csv(tmp_path / "t.csv", index=False)
    model = tmp_path / "m.skops"
    asked = ("fit", tmp_path / "t.csv", "-t", "label", "-o", model, *QUICK)
    code, out, err = call(*asked, "--id", "customer_id", "--json")
    assert code == 0, err
    assert "customer_id" not in err
    assert (json.loads(out)["id"], "customer_id" in json.loads(out)["columns"]) == (
        "customer_id",
        False,
    )
    new = frame.iloc[::-1].drop(columns="label")
    new.to_csv(tmp_path / "new.csv", index=False)
    for verb, name in (("predict", "prediction"), ("transform", "component1"), ("explain", "a")):
        code, out, err = call(verb, model, tmp_path / "new.csv")
        assert code == 0, err
        found = pd.read_csv(io.StringIO(out), dtype={"customer_id": str})
        assert found.columns[0] == "customer_id"
        assert name in found
        assert found["customer_id"].tolist() == new["customer_id"].tolist()
        assert "extra" not in err
    out = call("explain", model, tmp_path / "new.csv", "--row", 0)[1]
    assert "row 0 (customer_id 0059): label" in out
    assert "rows are called by customer_id" in call("inspect", model)[1]
    code, out, err = call("predict", model, tmp_path / "new.csv", "--id", "remark")
    assert (code, out.split(",")[0]) == (0, "remark"), err
    new.drop(columns="customer_id").to_csv(tmp_path / "few.csv", index=False)
    code, out, err = call("predict", model, tmp_path / "few.csv")
    assert (code, out.split("\n")[0]) == (0, "prediction"), err
    assert "customer_id, which rows are called by, is not in the file" in err
    code, out, err = call("predict", model, tmp_path / "few.csv", "--id", "customer_id")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "there is no column 'customer_id'" in err
    code, out, err = call("predict", model, tmp_path / "t.csv", "--id", "label")
    assert code == 0, err


def test_levels_are_shown_on_demand(made, call):
    def answer(*args):
        code, out, err = call(*args, "--json")
        assert code == 0, err
        return json.loads(out)

    columns = answer("inspect", made.model)["importances"]
    levels = answer("inspect", made.model, "--levels")["importances"]
    shares = {one["column"]: one["importance"] for one in levels}
    whole = {one["column"]: one["importance"] for one in columns}
    assert whole.keys() == {"a", "b", "colour", "member", "joined"}
    assert all(one["stderr"] > 0 for one in columns)
    parts = [shares[name] for name in shares if name.startswith("colour_")]
    assert len(parts) == 4
    assert sum(parts) == pytest.approx(whole["colour"])
    asked = ("explain", made.model, made.new)
    rows, deep = answer(*asked), answer(*asked, "--levels")
    results = {"prediction", "base", "answer"}
    assert rows[0].keys() == {*results, *whole}
    assert deep[0].keys() == {*results, *shares}
    for row, parts in zip(rows, deep, strict=True):
        found = sum(parts[name] for name in shares if name.startswith("colour_"))
        assert row["colour"] == pytest.approx(found)
    one = answer(*asked, "--row", 17, "--levels", "--top", 3)["columns"]
    values = {part["column"]: part["value"] for part in one}
    assert set(values) <= set(shares)


# comparing --------------------------------------------------------------------------------------


def test_compare_numbers(call, tmp_path):
    frame = table(200).dropna(subset=["a"])
    frame["y"] = 2 * frame["a"] - frame["b"] + (frame["colour"] == "red")
    frame.to_csv(tmp_path / "t.csv", index=False)
    asked = ("compare", tmp_path / "t.csv", "-t", "y", "--runs", 2)
    code, out, err = call(*asked, "--json")
    assert code == 0, err
    found = {line["method"]: line for line in json.loads(out)}
    known = ["baseline", "euclid", "ejop-knn", "ejop-machines", "forest", "boosting"]
    assert list(found) == known
    assert 95 < found["baseline"]["error"] < 130
    assert found["ejop-machines"]["error"] < 5
    assert all(found[name]["error"] < 60 for name in known[1:])
    assert all(line["runs"] == 2 for line in found.values())
    code, out, err = call(
        *asked, "--methods", "machines,mean", "--time-limit", 20, "--scoring", "r2"
    )
    assert code == 0, err
    assert "unexplained %" in out
    assert err.count("left out") == 2  # once for a column, not for every split
    for options, words in [
        (["--methods", "lmnn,machines"], "--methods lmnn learn from classes, and y is a number"),
        (["--methods", "forest", "--scale", "robust"], "--scale robust is for the machines"),
        (["--class-weight", "balanced"], "--class-weight is for classes"),
        (["--scoring", "accuracy"], "--scoring accuracy does not apply"),
        (["--decimal", ","], "no number with a decimal comma"),
    ]:
        code, out, err = call(*asked, *options)
        assert (code, out) == (1, ""), err
        assert words in err.splitlines()[-1]


def test_codes_of_levels_for_trees():
    columns = ColumnPreparer().fit(mixed())
    prepared = columns.transform(mixed())
    codes, levels = as_codes(prepared, columns.columns_)
    kinds = [column.kind for column in columns.columns_]
    assert levels.sum() == kinds.count("category")
    names = [column.name for column in columns.columns_]
    assert np.isnan(codes[::7, names.index("a")]).all()
    assert np.isfinite(codes[1::7, names.index("a")]).all()
    assert len(np.unique(codes[:, levels][:, 0])) == 4


# mistakes ---------------------------------------------------------------------------------------


def test_wrong_target_suggests_the_nearest(made, call, tmp_path):
    done = shell("fit", made.folder / "train.csv", "--target", "lable", "-o", tmp_path / "m.skops")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ejop: error: there is no column 'lable'; did you mean 'label'?\n"
    code, _, err = call("fit", made.folder / "train.csv", "-t", "qqq", "-o", tmp_path / "m.skops")
    assert code == 1
    assert "there are customer_id, a, b" in err
    code, _, err = call("fit", made.folder / "train.csv", "-o", tmp_path / "m.skops")
    assert code == 2
    assert "--target is needed" in err
    assert list(tmp_path.iterdir()) == []


def test_target_that_teaches_nothing(call, tmp_path):
    frame = pd.DataFrame(
        {"x": np.arange(20) ** 2, "one": "same", "own": [f"r{i}" for i in range(20)]}
    )
    frame["gone"] = np.nan
    frame.to_csv(tmp_path / "d.csv", index=False)
    for target, words in [
        ("one", "is always same"),
        ("own", "every row has its own own"),
        ("gone", "0 rows with gone"),
    ]:
        code, _, err = call("fit", tmp_path / "d.csv", "-t", target, "-o", tmp_path / "m.skops")
        assert code == 1
        assert words in err
        assert "Traceback" not in err


def _stumble(kind):
    """Errors as the library would run into them, by a fault of its own."""
    if kind == "TypeError":
        return len(3)
    if kind == "KeyError":
        return {}["n_rows"]
    return np.array([[1.0, 2.0], [3.0]])  # ValueError: inhomogeneous shape


@pytest.mark.parametrize("kind", ["TypeError", "KeyError", "ValueError"])
def test_our_own_faults_are_not_told_as_the_users(made, call, monkeypatch, kind):
    monkeypatch.setattr(EJOPClassifier, "fit", lambda *args: _stumble(kind))
    code, out, err = call("fit", made.folder / "train.csv", "-t", "label", "-o", "m.skops")
    assert (code, out) == (70, "")
    assert "Traceback" in err
    assert f"\n{kind}: " in err
    assert f"this is a bug in ejop {__version__}" in err
    assert "error:" not in err.splitlines()[-1]


def test_refusals_of_the_library_are_told_in_one_line(made, call, monkeypatch):
    def refuse(self, X, y):
        return LMNN(max_iter=-3).fit(np.ones((4, 2)), [1, 1, 2, 2])

    monkeypatch.setattr(EJOPClassifier, "fit", refuse)
    code, _, err = call("fit", made.folder / "train.csv", "-t", "label", "-o", "m.skops")
    assert code == 1
    assert err.splitlines()[-1].startswith("ejop: error: The 'max_iter' parameter")
    assert "Traceback" not in err


def test_unreadable_files(made, call, tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"not parquet at all")
    (tmp_path / "bad.arrow").write_bytes(b"not arrow at all")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 broken")
    (tmp_path / "bad.csv").write_bytes(b"\x00\xff\xfe\x81\n\x00\x81")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("a,b\n")
    (tmp_path / "bad.arff").write_text("no relation")
    (tmp_path / "rows.xlsx").write_text("")
    np.savez(tmp_path / "noX.npz", Z=np.zeros(3))
    np.savez(tmp_path / "object.npz", X=np.array([["a", 1]], dtype=object))
    names = ["bad.parquet", "bad.arrow", "bad.npz", "bad.csv", "empty.csv", "header.csv"]
    names += ["bad.arff", "rows.xlsx", "noX.npz", "object.npz", "gone.csv", "."]
    for name in names:
        code, out, err = call("predict", made.model, tmp_path / name)
        assert (code, out, err.count("\n")) == (1, "", 1), (name, err)
        assert err.startswith("ejop: error: "), name


def test_no_output_where_none_can_be(made, call, tmp_path):
    plain = tmp_path / "file"
    plain.write_text("")
    before = time.perf_counter()
    for out in (plain / "m.skops", tmp_path / "no" / "m.skops", tmp_path, Path("/proc/m.skops")):
        code, _, err = call("fit", made.folder / "train.csv", "-t", "label", "-o", out)
        assert (code, err.count("\n")) == (1, 1), err
        assert "cannot write" in err
    assert time.perf_counter() - before < 5  # told before anything is learned
    code, _, err = call("predict", made.model, made.new, "-o", tmp_path / "p.docx")
    assert code == 1
    assert "cannot tell what to write" in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_full_standard_output(made, call, tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [EXECUTABLE, "predict", made.model, made.new],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("No space left on device")
    assert "Traceback" not in done.stderr
    link = tmp_path / "p.csv"
    link.symlink_to("/dev/full")
    code, _, err = call("predict", made.model, made.new, "--out", link)
    assert code == 1
    assert "No space left on device" in err
    assert Path("/dev/full").is_char_device()


def test_full_disk(made, call, tmp_path):
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", tmp_path], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        code, _, err = call(
            "fit", made.folder / "train.csv", "-t", "label", "-o", tmp_path / "m.skops", *QUICK
        )
        assert code == 1
        assert err.splitlines()[-1].endswith("m.skops: No space left on device")
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["umount", tmp_path], check=True)


# outputs and inputs ------------------------------------------------------------------------------


def names(path):
    """All names of a file: its own, another spelling, a symbolic link, a hard link."""
    folder = path.parent
    if not (folder / "sub").exists():
        (folder / "symbolic").symlink_to(path)
        os.link(path, folder / "hard")
        (folder / "sub").mkdir()
    return [path, folder / "sub" / ".." / path.name, folder / "symbolic", folder / "hard"]


def test_outputs_never_overwrite_inputs(made, call, tmp_path):
    rows = tmp_path / "rows.csv"
    table(40, seed=2).to_csv(rows, index=False)
    model = tmp_path / "m.skops"
    model.write_bytes(made.model.read_bytes())
    page, compared = tmp_path / "r.html", tmp_path / "c.json"
    compared.write_text("[]")
    asked = [("fit", rows, "-t", "label", "-o", name) for name in names(rows)]
    asked += [("fit", rows, "-t", "label", "-o", model, "--report", name) for name in names(rows)]
    asked.append(("fit", rows, "-t", "label", "-o", page, "--report", page))
    asked.append(("fit", rows, "-t", "label", "-o", page, "--report", tmp_path / "R.html"))
    asked += [("report", model, rows, "-o", name) for name in (model, rows)]
    asked.append(("report", model, rows, "-o", compared, "--comparison", compared))
    asked += [(verb, model, rows, "-o", rows) for verb in ("predict", "transform", "explain")]
    (tmp_path / "link.csv").symlink_to(model)
    asked.append(("predict", model, rows, "-o", tmp_path / "link.csv"))
    before = {path: path.read_bytes() for path in (rows, model, compared)}
    for args in asked:
        code, out, err = call(*args)
        assert (code, out, err.count("\n")) == (1, "", 1), (args, err)
        assert re.search(r"cannot write .* is (read|written as well); name another file", err), err
    assert {path: path.read_bytes() for path in before} == before
    assert not page.exists()


def test_devices_are_read_and_written(made, call):
    code, _, err = call(
        "fit", made.folder / "train.csv", "-t", "label", "-o", "/dev/null", *QUICK, "--seed", 1
    )
    assert code == 0, err
    code, _, err = call("fit", made.folder / "train.csv", "-t", "label", "-o", "-")
    assert (code, err) == (1, "ejop: error: cannot write it to standard output; name a file\n")


def test_a_refitted_model_keeps_its_mode(made, call, tmp_path):
    train, model = made.folder / "train.csv", tmp_path / "m.skops"
    model.write_bytes(b"an older model")
    model.chmod(0o600)
    code, _, err = call("fit", train, "-t", "label", "-o", model, *QUICK)
    assert code == 0, err
    assert model.stat().st_mode & 0o777 == 0o600
    model.chmod(0o444)
    before = model.read_bytes()
    code, out, err = call("fit", train, "-t", "label", "-o", model, *QUICK)
    assert (code, out, err.count("\n")) == (1, "", 1)  # told before anything is learned
    assert "m.skops: it is read-only and was left as it is" in err
    assert model.read_bytes() == before


# model files ------------------------------------------------------------------------------------


def rewritten(source, path, change):
    """A copy of a model file whose members went through ``change(name, bytes)``."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return path


def test_models_of_other_versions_are_told(made, call, tmp_path):
    def other(**changes):
        def change(name, data):
            if name != DESCRIPTION:
                return data
            return json.dumps({**json.loads(data), **changes}).encode()

        return rewritten(made.model, tmp_path / "other.skops", change)

    for version, saved, remedy in [
        ("9.0", FORMAT + 1, "upgrade ejop"),
        ("0.2.0", FORMAT - 1, "fit it again"),
        ("0.1.0", 2, "fit it again"),
    ]:
        code, _, err = call("inspect", other(format=saved, ejop=version))
        assert (code, err.count("\n")) == (1, 1)
        assert f"was saved by ejop {version} in format {saved}" in err
        assert remedy in err
    code, _, err = call("predict", other(ejop="9.0"), made.new)
    assert code == 0
    assert "was made with ejop 9.0, this is" in err


def test_a_tampered_model_runs_nothing(made, call, tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("open('ran', 'w').close()\nclass Plan: pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def change(name, data):
        if name != "schema.json":
            return data
        assert b"ejop.sums.plan" in data
        return data.replace(b"ejop.sums.plan", b"evil")

    bad = rewritten(made.model, tmp_path / "bad.skops", change)
    code, out, err = call("predict", bad, made.new)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "was tampered with: no ejop model holds evil.Plan" in err
    assert not (tmp_path / "ran").exists()


def test_damaged_models(made, call, tmp_path):
    import skops.io
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    whole = made.model.read_bytes()
    (tmp_path / "cut.skops").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.skops").write_text("hello")
    flipped = bytearray(whole)
    with zipfile.ZipFile(made.model) as archive:
        largest = max(archive.infolist(), key=lambda member: member.compress_size)
    flipped[largest.header_offset + largest.compress_size // 2] ^= 255
    (tmp_path / "flipped.skops").write_bytes(flipped)
    skops.io.dump(LogisticRegression(), tmp_path / "other.skops")
    swapped = skops.io.dumps(make_pipeline(LogisticRegression()))
    (tmp_path / "raw.skops").write_bytes(swapped)
    with zipfile.ZipFile(made.model) as archive:
        about = archive.read(DESCRIPTION)
    with zipfile.ZipFile(tmp_path / "raw.skops", "a") as archive:
        archive.writestr(DESCRIPTION, about)
    for name in ("cut", "text", "flipped", "other", "raw", "gone"):
        code, _, err = call("inspect", tmp_path / f"{name}.skops")
        assert (code, err.count("\n")) == (1, 1), (name, err)
        assert re.search("no model|damaged|tampered|no such file", err), (name, err)


def nested(depth):
    return b"[" * depth + b"]" * depth


EDITS = {
    "no target": {"target": None},
    "target is a list": {"target": ["label"]},
    "task of no kind": {"task": "magic"},
    "task of the other kind": {"task": "regression", "range": [0.0, 1.0]},
    "no rows": {"rows": "many"},
    "columns without names": {"columns": [{"kind": "number"}]},
    "columns of no kind": {"columns": [{"name": "a", "kind": "x", "missing": 0, "levels": []}]},
    "no columns": {"columns": []},
    "columns are a number": {"columns": 7},
    "skipped without why": {"skipped": [{"name": "a"}]},
    "skipped are texts": {"skipped": ["a"]},
    "classes are a list": {"classes": ["yes", "no"]},
    "classes without counts": {"classes": {"yes": "many"}},
    "missing is a number": {"missing": 3},
    "columns of another model": {
        "columns": [{"name": "a", "kind": "number", "missing": 4, "levels": []}]
    },
    "skipped of another model": {"skipped": []},
    "id is a number": {"id": 3},
    "reading is a list": {"reading": []},
    "reading of no encoding": {
        "reading": {"separator": None, "decimal": None, "encoding": "klingon", "sheet": None}
    },
    "source is a number": {"source": 1},
    "no date": {"created": None},
    "format is text": {"format": "1"},
    "format is true": {"format": [1]},
}


@pytest.mark.parametrize("changes", EDITS.values(), ids=EDITS)
def test_edited_descriptions(changes, made, call, tmp_path):
    def change(name, data):
        return data if name != DESCRIPTION else json.dumps({**json.loads(data), **changes}).encode()

    bad = rewritten(made.model, tmp_path / "bad.skops", change)
    for args in (("inspect", bad), ("predict", bad, made.new)):
        code, out, err = call(*args)
        assert (code, out, err.count("\n")) == (1, "", 1), err
        assert re.search("tampered|damaged|upgrade", err), err


@pytest.mark.parametrize("data", [nested(100_000), b"{", b"\xff\xfe", b"[]", b"null", b"1" * 9999])
def test_broken_descriptions(data, made, call, tmp_path):
    bad = rewritten(
        made.model, tmp_path / "bad.skops", lambda name, old: data if name == DESCRIPTION else old
    )
    code, out, err = call("inspect", bad)
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert re.search("damaged|no model", err), err


def test_a_model_that_unpacks_without_end(made, call, tmp_path, monkeypatch):
    monkeypatch.setattr("ejop.unpacking.LEAST", 2**20)
    bomb = tmp_path / "bomb.skops"
    bomb.write_bytes(made.model.read_bytes())
    with zipfile.ZipFile(bomb, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("more", bytes(2**25))
    code, out, err = call("inspect", bomb)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "unpacks to 32 MiB or more, over the limit of" in err


@pytest.mark.parametrize(
    ("rule", "function", "scale"),
    [
        *itertools.product(
            ["knn", "hnn"],
            ["kernel", "ball", "knn", "ridge", RidgeFunction(widening=2.0)],
            ["standard"],
        ),
        ("knn", "kernel", "quantile"),
        ("knn", "auto", "auto"),
        *itertools.product(["ridge"], ["auto"], ["auto", "quantile", "robust"]),
    ],
)
def test_saved_models_answer_alike(rule, function, scale, tmp_path, rng):
    X = pd.DataFrame(rng.normal(size=(60, 4)), columns=[*"abcd"])
    X["e"] = rng.choice(["u", "v", None], 60)
    X["when"] = pd.date_range("2020-01-01", periods=60, freq="9h")
    X.loc[:3, "d"] = np.nan
    score = X["a"] - X["b"] + (X["e"] == "u")
    for kind, y, task in [
        (EJOPClassifier, np.where(score > 0, "p", "q"), "classification"),
        (EGOPRegressor, score.to_numpy(), "regression"),
    ]:
        predictor = kind(rule, function=function, power=0.5, scale=scale, random_state=0)
        predictor.fit(X, y)
        before, explained = predictor.predict(X), predictor.explain(X)
        about = describe(TrainingTable(X, y, "t", task), predictor.preparer_)
        save_model(SavedModel(predictor, about), tmp_path / "m.skops")
        again = load_model(tmp_path / "m.skops").predictor
        assert (again.predict(X) == before).all()
        np.testing.assert_allclose(again.explain(X), explained)
        np.testing.assert_allclose(again.feature_importances_, predictor.feature_importances_)
        if rule == "ridge":
            told = "predict_set" if task == "classification" else "predict_interval"
            inside = getattr(predictor, told)(X)
            np.testing.assert_array_equal(getattr(again, told)(X), inside)
        assert str(again.plan_) == str(predictor.plan_)
        assert again.get_params()["rule"] == rule


# JSON, and what goes on when one thing fails ----------------------------------------------------


def test_json_everywhere(made, expected, call, tmp_path):
    def answer(*args):
        code, out, err = call(*args, "--json")
        assert code == 0, err
        return json.loads(out)

    assert [row["prediction"] for row in answer("predict", made.model, made.new)] == expected
    written = answer("predict", made.model, made.new, "--out", tmp_path / "p.csv")
    assert written == {"out": str(tmp_path / "p.csv"), "rows": 30}
    assert len(answer("transform", made.model, made.new)[0]) == 11
    one = answer("explain", made.model, made.new, "--row", 17, "--top", 2)
    assert (one["row"], one["prediction"], len(one["columns"])) == (17, expected[17], 2)
    all_rows = answer("explain", made.model, made.new)
    assert [row["prediction"] for row in all_rows] == expected
    first = one["columns"][0]
    assert all_rows[17][first["column"]] == pytest.approx(first["adds"])
    assert one["base"] == pytest.approx(all_rows[17]["base"])
    for shown in all_rows:
        parts = [shown[name] for name in ("a", "b", "colour", "member", "joined")]
        assert shown["base"] + sum(parts) == pytest.approx(shown["answer"])
    found = answer("inspect", made.model)
    assert found["about"]["classes"].keys() == {"yes", "no"}
    assert sum(c["importance"] for c in found["importances"]) == pytest.approx(1)
    assert found["spectrum"][-1]["together"] == pytest.approx(1)
    code, _, err = call("explain", made.model, made.new, "--row", 30)
    assert code == 1
    assert "has rows 0 to 29" in err
    code, _, err = call("transform", made.model, made.new, "--components", 99)
    assert code == 1
    assert "the model has 11" in err


def test_a_method_that_fails_is_told(made, call, monkeypatch):
    from ejop.cli import contenders
    from ejop.experiments.methods import Method

    def broken(fold, seed, n_neighbors):
        raise RuntimeError("no luck")

    monkeypatch.setitem(contenders.METHODS, "lmnn", Method("LMNN", broken, "ejop-knn"))
    args = ["compare", made.folder / "train.csv", "-t", "label", "--runs", 2]
    code, out, err = call(*args, "--methods", "lmnn,euclidean")
    assert code == 0
    assert "LMNN failed: no luck" in err
    assert re.search(r"LMNN +│ +failed", out)
    assert re.search(r"Euclid +│ +\d+\.\d\d", out)
    code, _, err = call(*args, "--methods", "lmnn")
    assert code == 1
    assert "every method failed" in err
    code, _, err = call(*args, "--methods", "magic")
    assert code == 2


def test_report_gets_rows_the_model_has_not_seen(made, call, tmp_path, monkeypatch):
    seen = {}

    def write_report(path, model, X, y, *, training=None, title=None, comparison=None):
        seen.update(model=model, X=X, y=y, title=title, training=training)
        Path(path).write_text("<html>")

    fake = types.ModuleType("ejop.reports")
    fake.write_report = write_report
    monkeypatch.setitem(sys.modules, "ejop.reports", fake)
    model, page = tmp_path / "m.skops", tmp_path / "r.html"
    train = made.folder / "train.csv"
    code, out, err = call("fit", train, "-t", "label", "-o", model, "--report", page, *QUICK)
    assert code == 0, err
    assert "held out 32 rows for the report; the model learns from the other 127" in err
    assert (page.read_text(), len(seen["y"]), len(seen["model"].rule_.rows_)) == ("<html>", 32, 127)
    assert seen["X"].columns.tolist() == ["a", "b", "colour", "member", "joined"]
    assert seen["title"] == "label in train.csv"
    learned, y = seen["training"]
    assert (len(learned), len(y), learned.columns.tolist()) == (127, 127, [*seen["X"].columns])
    file = pd.read_csv(train)  # rows keep their numbers in the file
    for rows in (learned, seen["X"]):
        np.testing.assert_array_equal(rows["a"], file["a"][rows.index])
    assert not set(learned.index) & set(seen["X"].index)
    page.unlink()
    code, out, err = call("report", model, train, "--out", page, "--json")
    assert code == 0, err
    assert json.loads(out) == {"report": str(page), "rows": 159}
    strange = table(40, seed=3).replace({"label": {"no": "perhaps"}})
    strange.to_csv(tmp_path / "strange.csv", index=False)
    code, _, err = call("report", model, tmp_path / "strange.csv", "--out", page)
    assert code == 0, err
    assert "ignored rows of classes that the model has not seen: perhaps" in err
    assert set(seen["y"]) == {"yes"}
    code, _, err = call("report", model, made.new, "--out", page)
    assert code == 1
    assert "there is no column 'label'" in err
