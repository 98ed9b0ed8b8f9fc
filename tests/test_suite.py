"""The suite: sets and peers as users have them, runs that survive, pages of runs alone."""

import csv
import gzip
import hashlib
import io
import json
import re
import sqlite3
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata
from sklearn.datasets import load_wine

import interrupted
from ejop.datasets import DataNotFound
from ejop.experiments import Results, Run
from ejop.experiments.committed import read_lines, to_lines
from ejop.experiments.suite import frames, splits
from ejop.experiments.suite.board import Board
from ejop.experiments.suite.contest import (
    METHODS,
    PACKAGES,
    absent_peers,
    compute_suite,
    plan_suite,
    quick_sets,
)
from ejop.experiments.suite.download import as_rows, fetch
from ejop.experiments.suite.judging import judged_classes, judged_values
from ejop.experiments.suite.pages import losses, markdown, pairs, summary, tables, to_csv
from ejop.experiments.suite.peers import GRIDS, PEERS, FittedMethod
from ejop.experiments.suite.picture import draw
from ejop.experiments.suite.ranks import critical_difference, holm, rank, ratio, signed_rank
from ejop.experiments.suite.sets import MIXED, SETS, SHIPPED, SUITE
from ejop.experiments.suite.splits import (
    find,
    load_rows,
    make_split,
    split_of,
    with_levels,
)
from interrupted import started

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"


@pytest.fixture(autouse=True)
def no_data(monkeypatch, tmp_path):
    """Neither a folder of data nor a cache, unless a test makes them."""
    monkeypatch.delenv("EJOP_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))
    load_rows.cache_clear()
    yield
    load_rows.cache_clear()


# ranks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_methods", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (10, 3.164)])
def test_the_critical_difference_is_that_of_the_table_of_demsar(n_methods, q):
    expected = q * np.sqrt(n_methods * (n_methods + 1) / (6 * 30))
    assert critical_difference(n_methods, 30) == pytest.approx(expected, rel=5e-4)


def test_ranks_groups_and_pairs(rng):
    errors = rng.uniform(5, 10, (20, 4))
    errors[:, 1] -= 4
    errors[:, 3] += 9
    errors[0, 2] = errors[0, 0]
    found = rank(errors, ["a", "b", "c", "d"])
    assert (found.methods[0], found.methods[-1], found.n_sets) == ("b", "d", 20)
    means = dict(zip("abcd", rankdata(errors, axis=1).mean(0), strict=True))
    assert found.ranks.tolist() == [means[m] for m in found.methods]
    assert found.p_value < 1e-6
    near = [
        {m for m in found.methods if abs(means[m] - means[one]) <= found.difference}
        for one in found.methods
    ]
    for first, last in found.groups():
        assert means[found.methods[last]] - means[found.methods[first]] <= found.difference
    assert {len(group) for group in near} == {1, 2}
    assert found.groups() == [(1, 2)]
    assert signed_rank(errors[:, 1], errors[:, 3]) < 1e-4
    assert signed_rank(errors[:, 0], errors[:, 0]) == 1.0
    assert signed_rank(errors[:, 0], errors[:, 2]) > 0.05
    assert ratio(errors[:, 0], errors[:, 0]) == 1.0


def test_holm_is_holm(rng):
    p = rng.uniform(0, 0.3, 7)
    order = np.argsort(p)
    slow = [max((7 - j) * p[order[j]] for j in range(i + 1)) for i in range(7)]
    np.testing.assert_allclose(np.array(holm(list(p)))[order], np.minimum(slow, 1))


# pages ------------------------------------------------------------------------------------------


def made_run(name, method, seed, error, **more):
    settings = {
        "log_loss": error / 50,
        "fit_cpu_seconds": 2.0,
        "n_train": 100,
        "n_test": 50,
        "n_columns": 4,
        "n_classes": 2,
        "source": "file",
        "warnings": [],
        "load": 1.0,
        **more,
    }
    versions = {"machine": "x86_64, 2 cores", "commit": "abc", "ejop": "0.2"}
    return Run(
        name, method, seed, error, 1.5, 0.1, None, settings, [], versions, "2026-01-02 03:04"
    )


@pytest.fixture
def runs():
    """Three methods on four sets; the predictor loses two of them, and one method lacks a set."""
    errors = {
        "abalone": (5.0, 6.0, 7.0),
        "churn": (5.0, 4.0, 7.0),
        "yeast": (3.0, 3.0, 7.0),
        "titanic": (9.0, 8.0, 7.0),
    }
    methods = ("ejop-machines", "knn", "forest")
    found = [
        made_run(name, m, seed, error + (seed - 1000) / 10)
        for name, three in errors.items()
        for m, error in zip(methods, three, strict=True)
        for seed in (1000, 1001)
    ]
    found.append(made_run("abalone", "knn", 1002, 60.0))  # a split that others have not run
    return [run for run in found if run.key[:2] != ("titanic", "knn")]


def test_every_loss_is_told(runs):
    table = losses(Board(runs))
    assert [row[0] for row in table.rows] == ["churn", "titanic"]
    assert table.rows[0][1:4] == ["2", "5.05", "kNN 4.05"]
    assert table.rows[1][3] == "forest 7.05"
    assert table.rows[0][4] == "+1.00 ± 0.00"
    assert "lowest error on 2 of 4 sets" in table.remarks[0]


def test_sets_are_compared_on_the_splits_that_all_ran(runs):
    board = Board(runs)
    assert board.compared("abalone") == [1000, 1001]
    assert board.mean("abalone", "knn") == pytest.approx(6.05)
    assert board.complete == ["abalone", "churn", "yeast"]
    found = board.ranking()
    assert found.n_sets == 3
    assert dict(zip(found.methods, found.ranks, strict=True)) == pytest.approx(
        {"ejop-machines": 1.5, "knn": 1.5, "forest": 3.0}
    )
    row = next(row for row in summary(board).rows if row[0] == "kNN")
    assert row[1] == "3 of 4"
    assert pairs(board).rows[0][:4] == ["kNN", "1", "1", "1"]


def test_the_page_says_what_it_is_made_of(runs):
    page = markdown(runs, "suite.png")
    assert "![Critical difference](suite.png)" in page
    assert "- kNN has not run on titanic." in page
    assert "- abalone: 2 of 3 splits ran with all methods." in page
    assert "- xRFM has not run." in page
    assert "- a: 23 runs of 2026-01-02: commit abc, ejop 0.2, machine x86_64, 2 cores." in page
    assert "| kNN | 7 | 3 | a; 2026-01-02 |" in page
    assert "**3.05 ± 0.07**" in page
    assert "load average as runs began: median 1.0" in page
    warned = [replace(runs[0], settings={**runs[0].settings, "warnings": ["W: hot"]}), *runs[1:]]
    assert "- abalone: W: hot\n" in markdown(warned, None)
    lines = list(csv.DictReader(io.StringIO(to_csv(runs))))
    cell = next(x for x in lines if (x["set"], x["method"]) == ("abalone", "knn"))
    assert (cell["splits"], float(cell["error"])) == ("2", 6.05)
    assert all(table.rows for table in tables(Board(runs)))


def test_a_page_of_one_method_and_one_set(runs):
    page = markdown(runs[:1], None)
    assert "## In short" in page
    assert "Critical difference" not in page
    assert Board(runs[:1]).ranking() is None


def test_the_picture_names_every_method(runs):
    pytest.importorskip("matplotlib")
    from matplotlib import pyplot

    figure = draw(Board(runs).ranking())
    words = {text.get_text() for text in figure.axes[0].texts}
    assert {"EJOP machines  1.50", "kNN  1.50", "3.00  forest"} <= words
    assert any(word.startswith("critical difference 1.9") for word in words)
    pyplot.close(figure)


def test_runs_survive_being_written_as_lines(runs, tmp_path):
    curve = replace(runs[0], objective=[2.0, 1.0])
    later = replace(runs[1], objective=[2.0, 1.0])
    (tmp_path / "r.jsonl").write_text(to_lines([later, curve]))
    assert read_lines(tmp_path / "r.jsonl") == [curve, replace(later, objective=[])]
    for text in ("{", '{"a": 1}\n', "[1]\n"):
        (tmp_path / "r.jsonl").write_text(text)
        with pytest.raises(OSError, match=r"r\.jsonl holds no runs .*name a \.jsonl file"):
            read_lines(tmp_path / "r.jsonl")


def test_committed_pages_are_made_of_committed_runs():
    runs = read_lines(RESULTS / "suite.jsonl")
    assert markdown(runs, "suite.png") == (RESULTS / "suite.md").read_text(encoding="utf-8")
    assert to_csv(runs) == (RESULTS / "suite.csv").read_text(encoding="utf-8")
    assert (RESULTS / "suite.png").stat().st_size > 5000
    assert {run.seed >= 1000 for run in runs} == {True}
    assert {"machine", "commit", "python", "ejop"} <= set.intersection(
        *(set(run.versions) for run in runs)
    )


# sets -------------------------------------------------------------------------------------------


def test_sets_are_those_of_the_suite():
    assert (len(SUITE), len(MIXED)) == (22, 7)
    assert len(SETS) == 22 + 7 + len(SHIPPED)
    assert all(one.openml for one in SUITE)
    keys = plan_suite(runs=2)
    assert len(keys) == len(set(keys)) == 29 * len(METHODS) * 2
    assert {key[2] for key in keys} == {1000, 1001}
    assert keys[0][2] == keys[len(keys) // 2 - 1][2] == 1000  # split by split
    assert quick_sets() == [one.name for one in SHIPPED]


def test_splits_depend_on_set_and_seed_alone(tmp_path):
    (one, _), (again, _), (other, source) = (make_split("wine", s) for s in (1000, 1000, 1001))
    np.testing.assert_array_equal(one.A, again.A)
    assert not np.array_equal(one.A, other.A)
    assert source == "scikit-learn"
    X = np.arange(6000.0)[:, None]
    part = split_of(X, np.arange(6000) % 3, False, 0, 1500)
    assert (len(part.A), len(part.B)) == (1500, 1500)
    assert not set(part.A.ravel()) & set(part.B.ravel())


def written_suite(folder, n=300, seed=0):
    """A folder of data with one archive and one frame."""
    rng = np.random.default_rng(seed)
    (folder / "suite").mkdir(parents=True)
    (folder / "mixed").mkdir()
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 3, n)]).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    categorical = np.array([False, True])
    np.savez(
        folder / "suite" / "yeast.npz", X=X, y=y, categorical=categorical, task="classification"
    )
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, X[:, 0]),
            "town": rng.choice(["a", "b", None], n),
            "name": [f"person {i}" for i in range(n)],
            "born": rng.choice(["2020-01-02", "2021-03-04"], n),
            "survived": np.where(y > 0, "yes", "no"),
        }
    )
    frame.to_parquet(folder / "mixed" / "titanic.parquet")
    return folder


def test_files_are_found_and_read(tmp_path):
    folder = str(written_suite(tmp_path / "data"))
    assert find(SETS["yeast"], folder) == tmp_path / "data" / "suite" / "yeast.npz"
    rows = load_rows("yeast", folder)
    assert (rows.X.shape, rows.source, rows.real) == ((300, 4), "file", False)
    assert set(np.unique(rows.X[:, 1:])) == {0, 1}
    assert quick_sets(folder) == ["titanic", *quick_sets()]
    part, _ = make_split("titanic", 1000, folder)
    assert (len(part.A), sorted(set(part.ya))) == (210, [0, 1])
    (tmp_path / "data" / "suite" / "churn.npz").write_text("no archive")
    with pytest.raises(FileNotFoundError, match=r"churn\.npz is no archive of churn"):
        load_rows("churn", folder)


@pytest.mark.parametrize("method", ["ejop-machines", "ejop-hnn", "knn", "svm", *PACKAGES])
def test_methods_take_tables_with_text_and_gaps(method, tmp_path, monkeypatch):
    if method in PACKAGES and find_spec(method) is None:
        pytest.skip(f"{method} is not installed")
    folder = str(written_suite(tmp_path / "data", n=120))
    run = compute_suite(("titanic", method, 1000), None, folder)
    assert run.error < 30  # half of the rows are either class
    assert (run.settings["n_train"], run.settings["n_test"]) == (84, 36)
    assert {"commit", "machine"} <= set(run.versions)
    json.dumps(run.settings)


def test_careful_users_drop_names_and_read_dates(tmp_path):
    frame = pd.read_parquet(written_suite(tmp_path / "data") / "mixed" / "titanic.parquet")
    step = frames.Careful(categories=True).fit(frame.drop(columns="survived"))
    assert (step.dropped_, step.dates_, step.text_) == (["name"], ["born"], ["town"])
    new = frame.assign(town="never seen").drop(columns="survived")
    assert step.transform(new)["town"].isna().all()
    assert set(frames.PEERS) == set(PEERS)


def test_grids_have_one_copy():
    """The benchmarks take methods and grids from the library."""
    for name in ("predictor_methods", "mixed_methods", "predictor_page", "mixed_page"):
        text = (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
        assert not re.search(r"_GRID\b|GRIDS =|n_estimators|GridSearchCV|class Careful", text)
    from benchmarks import predictor_methods

    assert predictor_methods.METHODS["svm"] is PEERS["svm"]
    assert set(GRIDS) == set(PEERS)


def test_judgements():
    y = np.array([0, 1, 1, 0])
    p = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]])
    found = judged_classes(p.argmax(1), p, y)
    assert found["error"] == 25.0
    assert found["log_loss"] == pytest.approx(-np.log(p[range(4), y]).mean())
    assert found["auc"] == 1.0
    assert judged_values(np.array([1.0, 2.0]), np.array([1.0, 2.0]))["error"] == 0.0


# OpenML -----------------------------------------------------------------------------------------


def cached(home, name, did, columns, rows, target, version=1):
    """Put a set into scikit-learn's cache of OpenML, as a download would."""
    kinds = {column: "numeric" if kind is None else "nominal" for column, kind in columns.items()}
    head = [
        f"@ATTRIBUTE {column} {'NUMERIC' if kind is None else '{' + ','.join(kind) + '}'}"
        for column, kind in columns.items()
    ]
    arff = "\n".join(["@RELATION t", *head, "@DATA", *rows]) + "\n"
    url = f"https://www.openml.org/data/v1/download/{did}/{name}.arff"
    feature = {
        "is_ignore": "false",
        "is_row_identifier": "false",
        "number_of_missing_values": "0",
    }
    features = [
        {
            "index": str(i),
            "name": column,
            "data_type": kinds[column],
            "is_target": str(column == target).lower(),
            **feature,
            **({"nominal_value": list(kind)} if kind else {}),
        }
        for i, (column, kind) in enumerate(columns.items())
    ]
    about = {
        "id": str(did),
        "name": name,
        "version": str(version),
        "status": "active",
        "format": "ARFF",
        "url": url,
        "md5_checksum": hashlib.md5(arff.encode()).hexdigest(),
        "description": "made here",
    }
    quality = [{"name": "NumberOfInstances", "value": str(len(rows))}]
    listed = {"did": did, "name": name, "version": version, "status": "active"}
    api = "api/v1/json/data"
    texts = {
        f"{api}/list/data_name/{name.lower()}/limit/2/data_version/{version}": json.dumps(
            {"data": {"dataset": [listed]}}
        ),
        f"{api}/{did}": json.dumps({"data_set_description": about}),
        f"{api}/features/{did}": json.dumps({"data_features": {"feature": features}}),
        f"{api}/qualities/{did}": json.dumps({"data_qualities": {"quality": quality}}),
        f"data/v1/download/{did}/{name}.arff": arff,
    }
    for place, text in texts.items():
        path = home / "openml" / "openml.org" / f"{place}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise URLError("no route to host")

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", refuse)
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def test_sets_come_from_the_cache_of_openml(tmp_path, no_network):
    columns = {"mcg": None, "kind": ["b", "a"], "flat": None, "class": ["CYT", "MIT", "ERL"]}
    rows = [f"{i / 10},{'ab'[i % 2]},1,{['CYT', 'MIT'][i % 3 > 0]}" for i in range(60)]
    rows += [f"{i},a,1,ERL" for i in range(5)]  # a class of a handful
    cached(tmp_path / "home", "yeast", 181, columns, rows, "class")
    found = load_rows("yeast")
    assert found.source == "OpenML yeast version 1"
    assert found.X.shape == (60, 3)  # the flat column is gone, kind is two columns
    np.testing.assert_allclose(found.X[:, 0], np.arange(60) / 10)
    np.testing.assert_array_equal(found.X[:, 1], np.arange(60) % 2 == 0)
    np.testing.assert_array_equal(found.y, np.arange(60) % 3 > 0)


def test_frames_come_from_the_cache_of_openml(tmp_path, no_network):
    columns = {"survived": ["0", "1"], "sex": ["female", "male"], "age": None, "body": None}
    rows = [f"{i % 2},{['female', 'male'][i % 2]},{'?' if i % 5 else i},1" for i in range(50)]
    cached(tmp_path / "home", "Titanic", 40945, columns, rows, "sex")
    X, y, source = fetch(SETS["titanic"])
    assert source == "OpenML titanic version 1"
    assert list(X) == ["sex", "age"]  # body, which says who died, is left out
    assert X["age"].isna().sum() == 40
    np.testing.assert_array_equal(y, np.arange(50) % 2)


def test_large_downloads_are_cut_alike(monkeypatch):
    frame = pd.DataFrame({"a": np.arange(20_000.0)})
    target = pd.Series(np.arange(20_000.0))

    def answer(name, *, version, as_frame, parser):
        assert (name, version, as_frame) == ("kin8nm", 1, True)
        return type("Bunch", (), {"data": frame, "target": target})

    monkeypatch.setattr("sklearn.datasets.fetch_openml", answer)
    (X, y, _), (again, _, _) = fetch(SETS["kin8nm"]), fetch(SETS["kin8nm"])
    assert X.shape == (10_000, 1)
    np.testing.assert_array_equal(X[:, 0], y)
    np.testing.assert_array_equal(X, again)
    assert (np.diff(y) > 0).all()


def test_rows_of_a_table_of_openml():
    frame = pd.DataFrame({"n": [1, 2, 3], "c": pd.Categorical(["x", None, "x"]), "f": [1, 1, 1]})
    np.testing.assert_array_equal(as_rows(frame)[:, 0], [1, 2, 3])
    assert as_rows(frame).shape == (3, 2)  # both levels are rare: they share a column
    np.testing.assert_array_equal(
        with_levels(frame[["n"]].to_numpy(), np.array([False])), [[1], [2], [3]]
    )


def test_without_network_and_data_the_error_says_what_to_do(no_network, tmp_path, call):
    with pytest.raises(DataNotFound, match=r"abalone: neither .* no route to host.*--quick"):
        load_rows("abalone")
    with pytest.raises(DataNotFound, match=r"star: .*OpenML does not have it.*EJOP_DATA"):
        load_rows("star")
    results = tmp_path / "r.sqlite"
    code, out, err = call("reproduce", "suite", "--results", results)
    assert (code, out) == (1, "")
    assert "Set EJOP_DATA or --data-dir to the folder that holds suite/ and mixed/" in err
    assert not results.exists()


# the command ------------------------------------------------------------------------------------


def test_the_command_runs_prints_and_writes(tmp_path, call):
    pytest.importorskip("matplotlib")
    asked = ("reproduce", "suite", "--datasets", "iris,wine", "--methods", "ejop-knn,knn,lightgbm")
    files = ("--results", tmp_path / "r.sqlite", "--out", tmp_path / "pages")
    code, out, err = call(*asked, "--runs", 1, *files)
    assert code == 0, err
    assert "Every loss" not in out or "EJOP machines" in out
    if find_spec("lightgbm") is None:
        assert "left out, not installed: lightgbm (pip install lightgbm)" in err
    pages = tmp_path / "pages"
    assert {p.name for p in pages.iterdir()} == {
        "suite.md",
        "suite.csv",
        "suite.png",
        "suite.jsonl",
    }
    first = (pages / "suite.md").read_text()
    # the committed runs alone give the same page, on another machine and without computing
    known = ("--known", pages / "suite.jsonl", "--no-compute", "--runs", 1)
    again = ("--results", tmp_path / "s.sqlite", "--out", tmp_path / "again")
    code, out, err = call(*asked, *known, *again)
    assert code == 0, err
    assert (tmp_path / "again" / "suite.md").read_text() == first
    code, out, err = call(*asked, "--runs", 1, "--dry-run", "--results", tmp_path / "s.sqlite")
    assert (code, out.strip()) == (0, "")
    code, out, _ = call(*asked, "--runs", 1, "--json", "--results", tmp_path / "s.sqlite")
    assert json.loads(out)[0]["title"] == "In short"


def test_what_the_command_refuses(tmp_path, call, monkeypatch):
    results = ("--results", tmp_path / "r.sqlite")
    for asked, words in (
        (("suite", "table2"), "the suite runs alone"),
        (("suite", "--device", "cuda"), "takes no --device"),
        (("suite", "--methods", "boost"), "'boost' is not one of ejop-machines"),
        (("suite", "--datasets", "usps"), "'usps' is not one of abalone"),
        (("suite", "--known", tmp_path / "no.jsonl"), "No such file"),
    ):
        code, out, err = call("reproduce", *asked, *results, "--no-compute")
        assert (code > 0, out) == (True, ""), asked
        assert words in " ".join(err.split()), err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert absent_peers() == list(PACKAGES)
    code, _, err = call("reproduce", "suite", "--methods", "xrfm", "--datasets", "iris", *results)
    assert code == 1
    assert "none of these methods is installed: xrfm" in err


def test_a_failing_method_is_told_and_the_others_go_on(tmp_path, call, monkeypatch):
    def broken(A, y, real):
        raise ValueError("no luck")

    monkeypatch.setitem(METHODS, "svm", broken)
    asked = ("--datasets", "iris", "--methods", "svm,knn", "--runs", 1)
    code, out, err = call("reproduce", "suite", *asked, "--results", tmp_path / "r.sqlite")
    assert code == 1
    assert "failed: iris svm 1000: no luck" in err
    assert "kNN" in out


# killed -----------------------------------------------------------------------------------------

#: workers import it again, so the methods stand at the top
RUNNER = """
import time
from interrupted import main
from ejop.experiments import Results
from ejop.experiments.runner import run_missing
from ejop.experiments.suite.contest import METHODS, compute_suite, plan_suite
from ejop.experiments.suite.peers import FittedMethod
from sklearn.neighbors import KNeighborsClassifier

def toy(A, y, real, k):
    time.sleep(0.02)
    model = KNeighborsClassifier(k).fit(A, y)
    return FittedMethod(model, {"k": k}, model.predict_proba)

METHODS["one"] = lambda A, y, real: toy(A, y, real, 1)
METHODS["three"] = lambda A, y, real: toy(A, y, real, 3)
KEYS = plan_suite(datasets=["iris", "wine"], methods=["one", "three"], runs=5)

def go(path, jobs):
    failed = run_missing(
        KEYS, Results(path), jobs=jobs, work=compute_suite, after=lambda key: None
    )
    assert not failed, failed

if __name__ == "__main__":
    main(go)
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("runner") / "runner.py"
    path.write_text(RUNNER)
    return path


@pytest.fixture
def runner(script):
    yield from started(script)


def told(path):
    """What was found, without seconds."""
    return [
        (r.key, r.error, r.settings["chosen"], r.settings["log_loss"]) for r in Results(path).runs()
    ]


@pytest.fixture(scope="module")
def undisturbed(script, tmp_path_factory):
    path = tmp_path_factory.mktemp("undisturbed") / "r.sqlite"
    interrupted.undisturbed(script, path)
    return told(path)


def test_a_killed_suite_loses_nothing(tmp_path, runner, undisturbed):
    path = tmp_path / "r.sqlite"
    assert runner(path, kills=6).wait() == 0
    assert told(path) == undisturbed
    assert len(undisturbed) == 20


def test_two_suites_on_one_file_neither_lose_nor_double(tmp_path, runner, undisturbed):
    path = tmp_path / "r.sqlite"
    pair = [runner(path), runner(path, jobs=2)]
    assert [process.wait() for process in pair] == [0, 0]
    assert told(path) == undisturbed
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT COUNT(*) FROM claims").fetchone() == (0,)
    db.close()


def test_a_run_keeps_what_it_was_made_with():
    X, y = load_wine(return_X_y=True)
    assert isinstance(PEERS["forest"](X, y, False), FittedMethod)
    run = compute_suite(("wine", "knn", 1000), None, None)
    assert run.settings["source"] == "scikit-learn"
    assert run.versions["commit"]
    assert run.settings["warnings"] == []
    assert run.fit_seconds > 0
    assert splits.FIRST_SEED == 1000
