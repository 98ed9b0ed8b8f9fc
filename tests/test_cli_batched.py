"""The command line on Parquet and Arrow files that are read a batch of rows at a time."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from ejop import RidgeRule
from ejop.cli import batched
from ejop.cli.batched import BatchedFile
from ejop.cli.models import load_model

N = 900
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
WRITERS = {
    "parquet": lambda table, path: table.to_parquet(path, row_group_size=250),
    "feather": lambda table, path: table.to_feather(path, chunksize=250),
}


@pytest.fixture
def in_batches(monkeypatch):
    """Every table is large, and a batch is a hundred rows or so; machines take few rows."""
    monkeypatch.setattr(batched, "WHOLE", 1)
    monkeypatch.setattr(batched, "BATCH", 10_000)
    monkeypatch.setitem(RidgeRule.__init__.__kwdefaults__, "max_rows", 120)
    monkeypatch.setitem(RidgeRule.__init__.__kwdefaults__, "kernels", ("gaussian",))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(N, 3)), columns=list("abc"))
    table["colour"] = rng.choice(["red", "green", "NA"], N)
    table["number"] = np.arange(N)
    table["called"] = [f"row {i}" for i in range(N)]
    answer = np.sin(2 * table["a"]) + table["b"] + (table["colour"] == "red") > 0.3
    table["answer"] = answer.map({True: "yes", False: "no"})
    table.loc[[898, 899], "answer"] = None
    table.loc[::50, "c"] = -999.0
    return table


@pytest.mark.parametrize("ending", WRITERS)
def test_a_file_is_learned_and_predicted_in_batches(
    call, tmp_path, table, in_batches, ending, monkeypatch
):
    path, model, out = tmp_path / f"t.{ending}", tmp_path / "m.skops", tmp_path / "p.csv"
    WRITERS[ending](table, path)
    options = ("-t", "answer", "--id", "called", "--missing", "-999", "-o", model)
    code, _, err = call("fit", path, *options)
    assert code == 0, err
    assert f"t.{ending} is read a batch of rows at a time, since it is large" in err
    assert "dropped 2 rows without answer" in err
    assert "left out 'number': it counts the rows" in err
    assert "missing values filled with the median, and marked: c (18)" in err
    assert "NA is a level of colour; --missing NA would make it missing" in err
    assert "learning from 898 rows and 4 columns" in err
    found = load_model(model)
    assert found.about["rows"] == 898
    assert found.about["classes"].keys() == {"no", "yes"}
    code, _, err = call("predict", model, path, "--proba", "-o", out)
    assert code == 0, err
    assert "898 rows are right" in err
    in_parts = pd.read_csv(out)
    monkeypatch.setattr(batched, "WHOLE", 2**29)
    code, _, err = call("predict", model, path, "--proba", "-o", out)
    assert code == 0, err
    whole = pd.read_csv(out)
    assert in_parts["called"].tolist() == whole["called"].tolist() == table["called"].tolist()
    assert (in_parts["prediction"] == whole["prediction"]).all()
    np.testing.assert_allclose(in_parts["proba_yes"], whole["proba_yes"], atol=1e-3)  # float32
    known = table["answer"].notna()
    assert (in_parts["prediction"] == table["answer"])[known].mean() > 0.85


def test_the_model_is_that_of_the_table_in_memory(call, tmp_path, table, in_batches, monkeypatch):
    path = tmp_path / "t.parquet"
    table.drop(columns=["called", "number"]).to_parquet(path)
    code, _, err = call("fit", path, "-t", "answer", "-o", tmp_path / "batched.skops")
    assert code == 0, err
    monkeypatch.setattr(batched, "WHOLE", 2**29)
    code, _, err = call("fit", path, "-t", "answer", "-o", tmp_path / "whole.skops")
    assert code == 0, err
    assert "batch" not in err
    X = table.drop(columns=["called", "number", "answer"])
    one, other = (load_model(tmp_path / f"{name}.skops") for name in ("batched", "whole"))
    shares = [each.predictor.predict_proba(X) for each in (one, other)]
    assert np.abs(shares[0] - shares[1]).mean() < 0.01  # rows are in float32, and in float64
    assert one.about["columns"] == other.about["columns"]


def test_news_in_later_parts_are_told_once(call, tmp_path, table, in_batches):
    path, new = tmp_path / "t.parquet", tmp_path / "new.parquet"
    table.to_parquet(path)
    call("fit", path, "-t", "answer", "-o", tmp_path / "m.skops")
    table.assign(colour="blue").drop(columns="answer").to_parquet(new)
    code, _, err = call("predict", tmp_path / "m.skops", new, "-o", tmp_path / "p.csv")
    assert code == 0, err
    assert err.count("warning: these rows hold what no training row did") == 1
    assert "more parts of the rows" in err
    assert "are right" not in err


def test_a_report_takes_some_rows(call, tmp_path, table, in_batches, monkeypatch):
    monkeypatch.setattr(batched, "REPORTED", 40)
    path = tmp_path / "t.parquet"
    table.to_parquet(path)
    options = ("-t", "answer", "-o", tmp_path / "m.skops", "--report", tmp_path / "r.html")
    code, _, err = call("fit", path, *options)
    assert code == 0, err
    assert "held out 40 rows for the report; the model learns from the other 858" in err
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    shown = re.findall(r"<h3>Row (\d+) <.*?<p>True (\w+),", page, re.S)
    assert len(shown) == 4  # by the numbers of the rows in the file
    assert [table["answer"][int(row)] for row, _ in shown] == [truth for _, truth in shown]


def test_neighbours_read_the_table_whole(call, tmp_path, table, in_batches):
    path = tmp_path / "t.parquet"
    table.to_parquet(path)
    options = ("-t", "answer", "--rule", "knn", "--function", "kernel", "-o", tmp_path / "m.skops")
    code, _, err = call("fit", path, *options)
    assert code == 0, err
    assert "batch" not in err


def test_memory_decides(tmp_path, table):
    path = tmp_path / "t.parquet"
    table.to_parquet(path)
    size = N * (4 * 8 + 3 * 64)
    assert batched.batched(path) is None
    assert batched.batched(path, memory=8 * size + 8) is None
    assert batched.batched(path, memory=8 * size - 8).n_rows() == N
    assert batched.batched(tmp_path / "none.parquet") is None
    assert batched.batched(tmp_path / "t.csv", memory=1) is None


def test_a_file_that_unpacks_to_too_much_is_refused(call, tmp_path, in_batches, monkeypatch):
    """As where it is read whole: a short file may claim any number of rows."""
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": np.zeros(3_000_000), "answer": 1.0}).to_parquet(path)
    monkeypatch.setattr("ejop.unpacking.LEAST", 2**20)
    monkeypatch.setattr(batched, "LEAST", 2**20)
    code, _, err = call("fit", path, "-t", "answer", "-o", tmp_path / "m.skops")
    assert code == 1
    assert "over the limit of" in err


def test_mistakes_are_told(call, tmp_path, table, in_batches, monkeypatch):
    path, out = tmp_path / "t.parquet", tmp_path / "m.skops"
    table.to_parquet(path)

    def told(*options):
        code, _, err = call("fit", path, "-o", out, *options)
        assert code in (1, 2)
        return err

    assert "there is no column 'anser'; did you mean 'answer'?" in told("-t", "anser")
    assert "--target is needed" in told()
    assert "--memory 'much' is no size such as 2GB" in told("-t", "answer", "--memory", "much")
    assert "--sep does not apply" in told("-t", "answer", "--sep", ";")
    assert "is the target" in told("-t", "answer", "--drop", "answer")
    usage = type("Usage", (), {"free": 10})
    with monkeypatch.context() as patched:
        patched.setattr("shutil.disk_usage", lambda folder: usage)
        err = told("-t", "answer")
    assert f"of prepared rows into {tmp_path}: 0.0 MB are free; name a folder with room" in err
    path.write_bytes(path.read_bytes()[:-500])
    assert f"cannot read {path}: it is damaged" in told("-t", "answer")
    assert [each.name for each in tmp_path.iterdir()] == ["t.parquet"]


def test_damage_in_the_middle_leaves_nothing(call, tmp_path, table, in_batches):
    path = tmp_path / "t.feather"
    table.to_feather(path, chunksize=100, compression="uncompressed")
    whole = bytearray(path.read_bytes())
    place = whole.find(b"row 500") - 700
    whole[place - 3000 : place] = b"\xff" * 3000
    path.write_bytes(whole)
    code, _, err = call("fit", path, "-t", "answer", "-o", tmp_path / "m.skops")
    if code == 0:  # numbers may be anything
        pytest.skip("the damage fell on numbers")
    assert "Traceback" not in err
    assert [each.name for each in tmp_path.iterdir()] == ["t.feather"]


def test_names_and_rows_of_a_file(tmp_path):
    path = tmp_path / "t.feather"
    pd.DataFrame({" a ": [1, None], "b": ["x", "y"]}).to_feather(path)
    file = BatchedFile(path, ["y"])
    assert file.names() == ["a", "b"]
    assert (file.n_rows(), file.row_bytes()) == (2, 72)
    (frame,) = file.batches(["b"])
    assert frame["b"].tolist()[0] == "x"
    assert frame["b"].isna().tolist() == [False, True]


# stopped ---------------------------------------------------------------------------------------

CHILD = """
import sys
from ejop import RidgeRule
from ejop.cli import batched
from ejop.cli.app import run
batched.WHOLE, batched.BATCH = 1, 10_000
RidgeRule.__init__.__kwdefaults__.update(max_rows=120, kernels=("gaussian",))
run(sys.argv[1:])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_a_stopped_fit_goes_on_to_the_same_model(tmp_path, table, how):
    path, kept, model = (tmp_path / name for name in ("t.parquet", "fit.npz", "m.skops"))
    table.to_parquet(path)
    command = [sys.executable, "-c", CHILD, "fit", path, "-t", "answer", "-o"]
    options = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    options["env"] = ENVIRONMENT

    def finished(*args):
        done = subprocess.run([*command, *args], timeout=300, **options)
        assert done.returncode == 0, done.stderr
        return load_model(args[0])

    process = subprocess.Popen([*command, model, "--checkpoint", kept], **options)
    end = time.monotonic() + 120
    while not kept.exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(getattr(signal, how))
    _, err = process.communicate(timeout=60)
    if how == "SIGINT":
        assert process.returncode == 130, err
        assert f"finished steps are in {kept}; the same command goes on from there" in err
    else:
        assert process.returncode == -signal.SIGKILL, err
    assert kept.exists()
    assert not model.exists()
    resumed = finished(model, "--checkpoint", kept)
    left = {each.name for each in tmp_path.iterdir() if not each.name.endswith(".part")}
    assert left == {"t.parquet", "m.skops"}
    whole = finished(tmp_path / "whole.skops")
    X = table.drop(columns="answer")
    shares = [each.predictor.predict_proba(X) for each in (resumed, whole)]
    np.testing.assert_allclose(*shares, rtol=1e-7, atol=1e-7)
