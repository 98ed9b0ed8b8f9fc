"""Tables larger than memory: prepared a batch at a time, into rows on disk."""

import errno
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from ejop import EGOPRegressor, EJOPClassifier
from ejop.columns import ColumnPreparer, _batches, prepare_batches
from ejop.rules import RidgeRule

N = 3000


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    columns = {
        "number": rng.normal(size=N),
        "level": rng.choice(["x", "y", "z"], N),
        "flag": rng.random(N) < 0.3,
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, N), "D"),
        "written": [f"{value:.2f}".replace(".", ",") for value in rng.normal(size=N)],
        "row": np.arange(N),
        "called": [f"u{i}" for i in range(N)],
        "same": 3,
    }
    return pd.DataFrame(columns)


def cut(table, size=700):
    return lambda: (table[s : s + size] for s in range(0, len(table), size))


def whole(table):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "left out", UserWarning)
        return ColumnPreparer().fit(table)


LIBRARIES = {
    "pandas": cut,
    "polars": lambda table: cut(pl.from_pandas(table)),
    "arrow": lambda table: cut(pa.Table.from_pandas(table)),
    "record batches": lambda table: lambda: pa.Table.from_pandas(table).to_batches(700),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_batches_are_prepared_as_one_table_is(table, library):
    twin = whole(table)
    found = prepare_batches(LIBRARIES[library](table))
    assert found.judged == len(found) == N
    assert found.shape == (N, 8)
    assert found.preparer.in_words() == twin.in_words()
    np.testing.assert_allclose(found.rows, twin.transform(table), rtol=1e-6, atol=1e-6)
    assert found.rows.dtype == np.float32
    assert found.told == []


def test_a_sample_judges(table):
    found = prepare_batches(cut(table), n_judged=500)
    assert found.judged == 500
    twin = whole(table)
    assert found.preparer.get_feature_names_out().tolist() == twin.get_feature_names_out().tolist()
    skipped = {each.name: each.why for each in found.preparer.skipped_}
    assert skipped["row"] == "it counts the rows"
    assert not any(each.asked for each in found.preparer.skipped_)
    assert found.preparer.kinds is None
    np.testing.assert_allclose(found.rows, twin.transform(table), rtol=1e-6, atol=1e-6)


def test_the_sample_is_drawn_from_all_rows():
    table = pd.DataFrame({"a": np.random.default_rng(0).permutation(np.arange(20_000.0))})
    means = [
        prepare_batches(cut(table, 64), n_judged=400, random_state=seed).preparer.columns_[0].median
        for seed in range(12)
    ]
    assert abs(np.mean(means) - 10_000) < 3 * 20_000 / 2 / np.sqrt(400 * 12)
    assert len(set(means)) > 6


def test_few_gaps_and_rare_levels_are_not_overlooked(table):
    spoiled = table.assign(rare="a")
    spoiled.loc[::2, "rare"] = "b"
    spoiled.loc[2345, "number"] = np.nan
    spoiled.loc[2346, "level"] = None
    spoiled.loc[[2900, 2950], "rare"] = "new"
    found = prepare_batches(cut(spoiled), n_judged=300)
    names = found.preparer.get_feature_names_out().tolist()
    assert {"number_missing", "level_missing"} <= set(names)
    assert found.rows[:, names.index("number_missing")].sum() == 1
    assert len(found.told) == 1
    assert "rare has " in found.told[0]
    assert "new level, 'new'" in found.told[0]


def test_pieces_with_news_are_counted(table, monkeypatch):
    monkeypatch.setattr(_batches, "PREPARED", 1000)
    spoiled = table[["number", "level"]].copy()
    spoiled.loc[[1000, 2000, 2500], "level"] = ["p", "q", "r"]
    (told,) = prepare_batches(cut(spoiled), n_judged=100).told
    assert told.endswith("; and the like in 2 more pieces of 250 rows")


def test_numbers_that_float32_would_lose_stay_in_float64(table):
    seconds = table[["number"]].assign(time=1.7e9 + np.random.default_rng(0).normal(size=N))
    found = prepare_batches(cut(seconds))
    assert found.rows.dtype == np.float64
    np.testing.assert_array_equal(found.rows, seconds)


def test_a_predictor_takes_prepared_rows(table):
    y = np.sin(2 * table["number"]) + (table["level"] == "x")
    rule = RidgeRule(max_rows=300, kernels=["gaussian"])
    model = EGOPRegressor(rule, random_state=0).fit(prepare_batches(cut(table)), y)
    assert model.score(table, y) > 0.95
    assert model.n_features_in_ == table.shape[1]
    assert model.feature_names_in_.tolist() == list(table)
    assert len(model.feature_importances_) == table.shape[1]
    small = EJOPClassifier(random_state=0).fit(prepare_batches(cut(table[:200])), y[:200] > 0)
    assert small.score(table, y > 0) > 0.8
    with pytest.raises(ValueError, match=r"`columns`=.* prepare_batches\(preparer=...\)"):
        EGOPRegressor(columns="numbers").fit(prepare_batches(cut(table)), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        EGOPRegressor().fit(prepare_batches(cut(table)), y[:-1])


def test_a_preparer_of_ones_own(table):
    kept = prepare_batches(cut(table), preparer=ColumnPreparer(kinds={"row": "keep"}))
    assert "row" in kept.preparer.get_feature_names_out()
    fitted = whole(table[:500])
    found = prepare_batches(cut(table), preparer=fitted)
    np.testing.assert_allclose(found.rows, fitted.transform(table), rtol=1e-6, atol=1e-6)


def test_values_that_cannot_be_read_name_their_rows(table):
    spoiled = table.astype({"number": object})
    spoiled.loc[2500, "number"] = "?x"
    with pytest.raises(ValueError, match=r"in rows from 2,100 on: column 'number'.*'\?x'"):
        prepare_batches(cut(spoiled), n_judged=100, random_state=1)


def test_batches_that_change_are_refused(table):
    given = iter([cut(table)(), cut(table[:1000])()])
    with pytest.raises(ValueError, match="gave 3000 rows the first time and 1000 the second"):
        prepare_batches(lambda: next(given))
    with pytest.raises(ValueError, match="gave no rows"):
        prepare_batches(list)
    with pytest.raises(TypeError, match="gave ndarray; tables of pandas, polars or Arrow"):
        prepare_batches(lambda: [np.zeros((3, 2))])


def test_a_full_disk_is_told_and_nothing_stays(table, tmp_path, monkeypatch):
    made = tempfile.TemporaryFile

    def full(**options):
        file = made(**options)

        class Wrapped:
            def __enter__(self):
                return self

            def __exit__(self, *why):
                file.close()

            def write(self, values):
                raise OSError(errno.ENOSPC, "No space left on device")

        return Wrapped()

    with monkeypatch.context() as patched:
        patched.setattr(_batches.tempfile, "TemporaryFile", full)
        with pytest.raises(OSError, match=r"cannot put .* into .*: No space left on device; name"):
            prepare_batches(cut(table), folder=tmp_path)
    with monkeypatch.context() as patched:
        usage = type("Usage", (), {"free": 1000})
        patched.setattr(_batches.shutil, "disk_usage", lambda folder: usage)
        with pytest.raises(OSError, match=r"cannot put 0.1 MB .*: 0.0 MB are free; name a folder"):
            prepare_batches(cut(table), folder=tmp_path)
    with pytest.raises(OSError, match=r"cannot write to .*: No such file"):
        prepare_batches(cut(table), folder=tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


def test_the_file_has_no_name(table, tmp_path):
    found = prepare_batches(cut(table), folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert len(found.rows) == N


# memory -------------------------------------------------------------------------------------------

CHILD = """
import sys, threading, time
import numpy as np
import pyarrow.parquet as parquet
from ejop import Device, EGOPRegressor
from ejop.columns import prepare_batches
from ejop.rules import RidgeRule

path, what = sys.argv[1:]
rule = RidgeRule(1, max_rows=300, n_centers=100, kernels=["gaussian"], n_rounds=0)
model = EGOPRegressor(rule, device=Device(memory_limit=64 * 2**20), random_state=0)
columns = [f"x{j}" for j in range(40)]
def held():
    with open("/proc/self/status") as file:
        return int(dict(line.split(":", 1) for line in file)["RssAnon"].split()[0]) * 1024
def watch():
    while True:
        peak[0] = max(peak[0], held())
        time.sleep(0.002)
def batches():
    file = parquet.ParquetFile(path, buffer_size=2**20, pre_buffer=False)
    return file.iter_batches(20_000, columns=columns)
model.fit(prepare_batches(lambda: [next(batches())]), np.arange(20_000) % 7)
peak = [start := held()]
threading.Thread(target=watch, daemon=True).start()
score = 1.0
if what == "whole":
    table = parquet.read_table(path, columns=columns).to_pandas().to_numpy(dtype=float)
else:
    rows = prepare_batches(batches, n_judged=5000)
if what == "fit":
    y = parquet.read_table(path, columns=["y"])["y"].to_numpy()
    score = model.fit(rows, y).best_score_
time.sleep(0.1)
print(peak[0] - start, score)
"""


def written(path, n):
    """A file of so many rows of 40 numbers in float32 and a target."""
    schema = pa.schema([(f"x{j}", pa.float32()) for j in range(40)] + [("y", pa.float64())])
    rng = np.random.default_rng(0)
    with parquet.ParquetWriter(path, schema, use_dictionary=False, compression="none") as file:
        for _ in range(0, n, 50_000):
            X = rng.normal(size=(50_000, 40)).astype(np.float32)
            y = np.sin(2 * X[:, 0]) + X[:, 1].astype(float)
            file.write_table(pa.table([*X.T, y], schema=schema))


def taken(path, what):
    """Bytes that a process takes at its peak beside what it has to begin with, and its score."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, path, what],
        capture_output=True,
        text=True,
        timeout=500,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return map(float, done.stdout.split())


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells the memory")


@linux
def test_preparing_takes_memory_for_some_rows(tmp_path):
    path = tmp_path / "rows.parquet"
    written(path, 600_000)
    assert path.stat().st_size > 96e6
    peak, _ = taken(path, "prepare")
    assert peak < 64e6
    whole, _ = taken(path, "whole")
    assert whole > 190e6


@linux
@pytest.mark.slow
def test_fitting_takes_memory_for_some_rows(tmp_path):
    path = tmp_path / "rows.parquet"
    written(path, 3_000_000)
    assert path.stat().st_size > 480e6
    peak, score = taken(path, "fit")
    assert peak < 240e6  # half of the file, a fourth of its rows in float64
    assert score > 0.6
