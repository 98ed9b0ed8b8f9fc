"""The tables: one runner, results that survive anything, the same folds for every method."""

import csv
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import interrupted
from ejop.experiments import PAPER, PAPER_DATASETS, TABLES, Results, Run, plan_runs
from ejop.experiments.committed import read_lines
from ejop.experiments.folds import Fold, make_fold
from ejop.experiments.lowest import lowest_rows
from ejop.experiments.methods import METHODS, Method, Outcome, iterations_to_converge
from ejop.experiments.provenance import commit, kinds, legend, provenance
from ejop.experiments.render import page, remarks, summarize, to_csv, to_html, to_markdown
from ejop.experiments.runner import compute, needed, run_missing, versions
from interrupted import started

#: a runner over toy methods; workers import it again, so the methods stand at the top
RUNNER = """
import time
from interrupted import main
from ejop.experiments import Results
from ejop.experiments.methods import METHODS, Method, Outcome
from ejop.experiments.runner import run_missing

def toy(fold, seed, n_neighbors):
    time.sleep(0.03)
    return Outcome(seed + 0.5, 0.1, 0.1, {"n_neighbors": seed + 1}, [2.0, 1.0])

def follower(fold, seed, n_neighbors):
    return Outcome(float(n_neighbors), 0.1, 0.1, {})

METHODS["toy"] = Method("Toy", toy)
METHODS["follower"] = Method("Follower", follower, "toy")
KEYS = [("digits", m, s) for s in range(12) for m in ("follower", "toy")]

def go(path, jobs):
    run_missing(KEYS, Results(path), jobs=jobs)

if __name__ == "__main__":
    main(go)
"""


@pytest.fixture
def runner(tmp_path):
    script = tmp_path / "runner.py"
    script.write_text(RUNNER)
    yield from started(script)


def rows(path):
    return [(r.key, r.error, r.settings, r.objective) for r in Results(path).runs()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "runner.py").write_text(RUNNER)
    interrupted.undisturbed(folder / "runner.py", folder / "r.sqlite")
    return rows(folder / "r.sqlite")


def test_a_killed_runner_goes_on_where_it_was(tmp_path, runner, undisturbed):
    path = tmp_path / "r.sqlite"
    assert runner(path, kills=8).wait() == 0
    assert rows(path) == undisturbed
    assert len(undisturbed) == 24


def test_two_runners_on_one_file_neither_lose_nor_double(tmp_path, runner, undisturbed):
    path = tmp_path / "r.sqlite"
    pair = [runner(path), runner(path, jobs=2)]
    assert [process.wait() for process in pair] == [0, 0]
    assert rows(path) == undisturbed
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT COUNT(*) FROM claims").fetchone() == (0,)


def test_a_file_is_begun_with_all_its_tables(tmp_path, monkeypatch):
    """Another runner may look before any statement: it takes a file with one table for foreign."""
    path, seen, connect = tmp_path / "r.sqlite", set(), sqlite3.connect

    def look(statement):
        with closing(connect(path)) as db:
            names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            seen.add(tuple(sorted(name for (name,) in names)))

    def watched(*args, **kwargs):
        db = connect(*args, **kwargs)
        db.set_trace_callback(look)
        return db

    monkeypatch.setattr(sqlite3, "connect", watched)
    Results(path).claim(("digits", "euclid", 0))
    assert seen == {(), ("claims", "runs")}


def test_a_runner_waits_for_one_that_writes_as_the_file_begins(tmp_path):
    path = tmp_path / "r.sqlite"
    Results(path)
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as db:
        db.executescript("PRAGMA journal_mode=DELETE; BEGIN IMMEDIATE;")
        end = threading.Timer(0.2, db.execute, ["COMMIT"])
        end.start()
        assert Results(path).claim(("digits", "euclid", 0))
        end.join()


def test_ctrl_c_gives_claims_back(tmp_path, runner):
    path = tmp_path / "r.sqlite"
    process = runner(path)
    for _ in range(300):
        time.sleep(0.1)
        if path.exists() and len(Results(path).done()) >= 1:
            break
    process.send_signal(signal.SIGINT)
    assert process.wait() != 0
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT COUNT(*) FROM claims").fetchone() == (0,)


def test_claims_of_the_living_hold_and_those_of_the_dead_do_not(tmp_path):
    first, second = Results(tmp_path / "r.sqlite"), Results(tmp_path / "r.sqlite")
    key = ("digits", "euclid", 0)
    parent = os.getppid()
    first.runner = first.runner.rsplit(":", 1)[0] + f":{parent}"
    assert first.claim(key)
    assert not second.claim(key)
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    first.runner = first.runner.rsplit(":", 1)[0] + f":{child.pid}"
    other = ("digits", "euclid", 1)
    assert first.claim(other)
    assert second.claim(other)


def test_failures_are_told_and_others_go_on(tmp_path, monkeypatch):
    def broken(fold, seed, n_neighbors):
        raise ValueError("no luck")

    def fine(fold, seed, n_neighbors):
        return Outcome(1.0, 0.0, 0.0, {"n_neighbors": 3})

    monkeypatch.setitem(METHODS, "broken", Method("Broken", broken))
    monkeypatch.setitem(METHODS, "follower", Method("Follower", fine, "broken"))
    monkeypatch.setitem(METHODS, "fine", Method("Fine", fine))
    results = Results(tmp_path / "r.sqlite")
    keys = [("digits", m, 0) for m in ("follower", "fine")]
    failures = run_missing(keys, results)
    assert {key[1] for key, _ in failures} == {"broken", "follower"}
    assert {run.method for run in results.runs()} == {"fine"}


DYING = """
import os, signal, sys, time
from pathlib import Path
from ejop.experiments import Results
from ejop.experiments.methods import METHODS, Method, Outcome
from ejop.experiments.runner import run_missing

def toy(fold, seed, n_neighbors):
    mark = Path(sys.argv[1] + f".{seed}")
    if seed == 3 or (seed == 1 and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    return Outcome(seed + 0.5, 0.1, 0.1, {"n_neighbors": seed + 1})

METHODS["toy"] = Method("Toy", toy)

if __name__ == "__main__":
    keys, told = [("digits", "toy", s) for s in range(8)], []
    failures = run_missing(
        keys, Results(sys.argv[1]), jobs=2, progress=lambda what, state: told.append(state)
    )
    print([key[2] for key, _ in failures], told.count("tried again"), failures[0][1])
"""


def test_a_dead_worker_costs_its_own_run_alone(tmp_path):
    script, path = tmp_path / "dying.py", tmp_path / "r.sqlite"
    script.write_text(DYING)
    done = subprocess.run(
        [sys.executable, script, path], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[3] 2 its process died twice"), done.stdout
    assert [run.seed for run in Results(path).runs()] == [0, 1, 2, 4, 5, 6, 7]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def other_database(path, wal=False):
    with sqlite3.connect(path) as db:
        if wal:
            db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE bookmarks (url TEXT)")
        db.execute("INSERT INTO bookmarks VALUES ('http://example.org')")
    db.close()


def test_foreign_and_damaged_files_are_not_changed(tmp_path):
    whole = tmp_path / "whole.sqlite"
    results = Results(whole)
    for seed in range(200):
        results.add(Run("digits", "euclid", seed, 1.0, 0.1, 0.1, None, {"k": "v" * 50}))
    data = whole.read_bytes()
    cases = {
        "text": b"certainly not a database" * 100,
        "cut": data[: len(data) // 2],
        "garbled": data[:5000] + os.urandom(8000) + data[13000:],
        "header": data[:16] + os.urandom(84) + data[100:],
    }
    folder = tmp_path / "cases"
    folder.mkdir()
    for name, content in cases.items():
        (folder / name).write_bytes(content)
    other_database(folder / "other")
    other_database(folder / "logged", wal=True)
    with sqlite3.connect(folder / "columns") as db:
        db.execute("CREATE TABLE runs (a)")
        db.execute("CREATE TABLE claims (a)")
    db.close()
    (folder / "read-only").write_bytes(data)
    (folder / "read-only").chmod(0o444)
    before = contents(folder)
    for name in before:
        with pytest.raises(OSError, match=r"cannot be used as a results file.*left as it is"):
            Results(folder / name)
    assert contents(folder) == before
    with pytest.raises(OSError, match="it is not a plain file"):
        Results(folder)
    with pytest.raises(OSError, match="there is no folder"):
        Results(folder / "no" / "r.sqlite")


def test_a_run_that_cannot_be_read(tmp_path):
    results = Results(tmp_path / "r.sqlite")
    results.add(Run("digits", "euclid", 0, 1.0, 0.1, 0.1, None))
    with sqlite3.connect(results.path) as db:
        db.execute("UPDATE runs SET settings = '{broken'")
    db.close()
    with pytest.raises(OSError, match=r"is damaged: its run .*'euclid'.* cannot be read"):
        results.runs()


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_told_and_nothing_is_lost(small_disk, monkeypatch):
    path = small_disk / "r.sqlite"
    results = Results(path)
    results.add(Run("digits", "toy", 0, 1.0, 0.1, 0.1, None))

    def large(fold, seed, n_neighbors):
        return Outcome(1.0, 0.1, 0.1, {"n_neighbors": 3, "more": "x" * 60_000})

    monkeypatch.setitem(METHODS, "toy", Method("Toy", large))
    with pytest.raises(OSError, match=r"cannot be used .*(full|disk I/O).*make room"):
        run_missing([("digits", "toy", s) for s in range(20)], results)
    kept = len(results.done())
    assert 1 <= kept < 20
    subprocess.run(["mount", "-o", "remount,size=16m", small_disk], check=True)
    assert run_missing([("digits", "toy", s) for s in range(20)], Results(path)) == []
    assert len(Results(path).runs()) == 20


def test_pages_are_checked_before_anything_is_computed(tmp_path, monkeypatch, capsys):
    from ejop.cli.app import run

    monkeypatch.setattr("ejop.experiments.runner.compute", dict)  # a run would fail
    asked = ["reproduce", "table2", "--datasets", "digits", "--methods", "euclid", "--runs", "1"]
    (tmp_path / "file").write_text("kept")
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "tables.md").mkdir()
    locked = tmp_path / "locked"
    locked.mkdir()
    (locked / "tables.csv").write_text("kept")
    (locked / "tables.csv").chmod(0o444)
    theory = ["theory", "recovery", "--quick"]
    for command, out, results, words in [
        (asked, "file", "r.sqlite", "it is not a folder"),
        (theory, "file", "r.sqlite", "it is not a folder"),
        (asked, "file/sub", "r.sqlite", "it is not a folder"),
        (asked, "page", "r.sqlite", "tables.md: it is a folder"),
        (asked, "locked", "r.sqlite", "read-only"),
        (asked, "new", "new/tables.csv", "it is read; name another file"),
        (theory, "new", "new/recovery.md", "it is read; name another file"),
        (asked, "new", "file", "it is no SQLite file"),
        (theory, "new", "file", "it is no SQLite file"),
    ]:
        files = ["--out", str(tmp_path / out), "--results", str(tmp_path / results)]
        with pytest.raises(SystemExit) as stop:
            run([*command, *files])
        err = capsys.readouterr().err
        assert (stop.value.code, err.count("\n")) == (1, 1), err
        assert words in err
    assert (tmp_path / "file").read_text() == "kept"
    assert not (tmp_path / "r.sqlite").exists()


def test_not_a_results_file(tmp_path):
    path = tmp_path / "r.sqlite"
    path.write_text("certainly not a database, whatever its name says" * 10)
    with pytest.raises(OSError, match=r"cannot be used as a results file"):
        Results(path)


def test_folds_depend_on_set_and_seed_alone():
    one, again, other = make_fold("digits", 0), make_fold("digits", 0), make_fold("digits", 1)
    np.testing.assert_array_equal(one.X, again.X)
    assert not np.array_equal(one.X, other.X)
    assert len(one.X) == 1200
    assert len(one.X_test) == 597


@pytest.mark.parametrize(
    "method", ["euclid", "relieff", "ridge-knn", "paper-knn", "lmnn-ejop", "itml-pulled"]
)
def test_methods_run_on_a_small_fold(method, monkeypatch):
    fold = make_fold("digits", 0)
    small = type(fold)(fold.X[:300], fold.y[:300], fold.X_test, fold.y_test)
    found = METHODS[method].run(small, 0, 3)
    assert 0 < found.error < 15
    json.dumps(found.settings, default=str)


@pytest.mark.parametrize("method", ["itml", "mlr", "nca"])
def test_methods_on_a_handful_of_rows(method, rng):
    X, y = rng.normal(size=(4, 2)), np.arange(4) % 2
    found = METHODS[method].run(Fold(X[:2], y[:2], X[2:], y[2:]), 0, 1)
    assert 0 <= found.error <= 100


def test_fixed_rows_tune_and_stay_out():
    fold = make_fold("digits", 0)
    held = type(fold)(fold.X[:300], fold.y[:300], fold.X_test, fold.y_test, 60, 7)
    found = METHODS["ejop-knn"].run(held, 0, None)
    assert found.settings["n_neighbors"] == 7
    assert held.learning == slice(0, 240)
    assert METHODS["relieff"].run(held, 0, None).error < 15


def test_iterations_to_converge():
    assert iterations_to_converge([]) is None
    assert iterations_to_converge([1.0]) == 1
    assert iterations_to_converge([5.0, 1.0, 3.0, 1.001, 1.0]) == 4


def test_a_start_that_is_kept_takes_no_iteration():
    kept = Outcome(1.0, 0.1, 0.1, {"n_iter": 0})
    assert kept.iterations == 0
    assert Outcome(1.0, 0.1, 0.1, {}).iterations is None
    assert Outcome(1.0, 0.1, 0.1, {"n_iter": 3}, [3.0, 1.0, 1.0]).iterations == 2


def test_the_page_says_how_ejop_comes_in(runs):
    labels = {name: method.label for name, method in METHODS.items()}
    table = TABLES["table4"]
    assert "the smallest is taken" in to_markdown(table, summarize(table, runs, labels))


def test_tables_name_what_exists():
    for table in TABLES.values():
        assert set(table.datasets) <= set(PAPER_DATASETS)
        assert set(table.methods) <= set(METHODS)
    for row, figures in PAPER.items():
        assert row in {d.paper for d in PAPER_DATASETS.values()}
        assert set(figures) <= set(METHODS)


def test_plans():
    keys = plan_runs(["all"], runs=2)
    assert len(keys) == len(set(keys))
    assert sum(key[0] == "mnist" for key in keys) == len(TABLES["table1"].methods)
    assert needed([("usps", "lmnn", 3)]) == [("usps", "ejop-knn", 3), ("usps", "lmnn", 3)]


def test_quick_runs_on_digits_where_there_are_no_data(monkeypatch, tmp_path):
    monkeypatch.delenv("EJOP_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    assert {key[0] for key in plan_runs(["all"], quick=True)} == {"digits"}


@pytest.fixture
def runs():
    made = [Run("letter", "ejop-knn", s, 5.5 + s, 1.0, 0.1, None) for s in (0, 1)]
    made.append(Run("letter", "lmnn", 0, 4.0, 1.0, 0.1, 3, {}, [3.0, 1.0], {"ejop": "0"}, "2020"))
    made.append(Run("letter", "lmnn-ejop", 0, 4.0, 1.0, 0.1, 3, {}, [2.0, 1.0]))
    return made


def test_tables_show_ours_beside_the_paper(runs):
    labels = {name: method.label for name, method in METHODS.items()}
    lines = summarize(TABLES["table3"], runs, labels)
    ours = next(line for line in lines if line.method == "ejop-knn")
    assert (ours.error, ours.paper, ours.seeds) == (6.0, 4.37, 2)
    assert ours.deviation == pytest.approx(np.std([5.5, 6.5], ddof=1), abs=1e-3)
    assert ours.difference == pytest.approx(1.63)
    assert ours.verdict == "higher"
    assert next(line for line in lines if line.method == "lmnn").verdict == "lower"
    text = to_markdown(TABLES["table3"], lines)
    assert "6.00 ± 0.71 | 4.37 ± 0.4 | +1.63 | higher" in text
    assert remarks(lines)
    assert remarks(lines)[0] in text
    back = list(csv.DictReader(io.StringIO(to_csv(lines))))
    assert [float(row["error"]) for row in back] == [line.error for line in lines]


def test_every_cell_above_the_paper_has_its_line():
    errors = {
        ("webcam", "itml"): (10.0, 12.0),  # below
        ("webcam-raw", "itml"): (24.0, 26.0),  # above, below when prepared otherwise
        ("dslr", "lmnn"): (29.0, 31.0),  # above by 0.35
        ("amazon", "mlr"): (50.0, 51.0),
        ("letter", "itml"): (9.0, 9.5),
        ("letter-16000", "itml"): (3.0, 3.5),
    }
    runs = [Run(*key, s, found[s], 1.0, 0.1, 3) for key, found in errors.items() for s in (0, 1)]
    labels = {name: method.label for name, method in METHODS.items()}
    told = remarks(summarize(TABLES["table3"], runs, labels))
    assert [text.split(":")[1] for text in told[1:]] == [
        " dslr LMNN (+0.3).",
        " webcam-raw ITML (25.0; webcam 11.0).",
        " amazon MLR (+20.9).",
    ]
    assert told[0].startswith("letter: With 4,000")
    assert [text.split(":")[0][-15:] for text in told[1:3]] == [
        "n of the splits",
        "pared otherwise",
    ]
    assert "not known why" in told[3]


def test_the_page_says_where_its_runs_were_made():
    old = Run("letter", "euclid", 0, 1.0, 1.0, 0.1, 3, {}, [], {"ejop": "0.1"}, "2020-01-02 03:04")
    new = [replace(old, seed=s, settings={"device": "cuda"}, finished="2020-01-05") for s in (1, 2)]
    assert provenance([old, *new]) == (
        "3 runs of 2020-01-02 to 2020-01-05; 1: ejop 0.1; 2 with device cuda: ejop 0.1."
    )


def test_every_line_says_what_it_was_made_with():
    one = Run("usps", "euclid", 0, 1.0, 1.0, 0.1, 3, {}, [], {"commit": "aaa"}, "2020-01-02 03:04")
    runs = [
        one,
        replace(one, seed=1, versions={"commit": "bbb"}, finished="2020-01-05 03:04"),
        replace(one, method="ejop-knn", versions={"commit": "bbb"}),
    ]
    labels = {name: method.label for name, method in METHODS.items()}
    lines = summarize(TABLES["table2"], runs, labels)
    assert [(line.method, line.seeds, line.made) for line in lines] == [
        ("euclid", 2, "a, b; 2020-01-02 to 2020-01-05"),
        ("ejop-knn", 1, "b; 2020-01-02"),
    ]
    text = page([(TABLES["table2"], lines)], runs)
    assert "- a: 1 runs of 2020-01-02: commit aaa." in text
    assert "- b: 2 runs of 2020-01-02 to 2020-01-05: commit bbb." in text
    assert (
        "| usps | EJOP kNN | 1 | 1.00 | 6.67 ± 0.4 | -5.67 | lower | 1.0 | 3 | b; 2020-01-02 |"
        in text
    )
    assert len(legend(runs)) == len(kinds(runs)) == 2


def test_runs_know_their_commit(tmp_path, monkeypatch):
    found = versions()
    assert {"machine", "python", "commit", "ejop"} <= set(found)
    assert "pytest" in versions(["pytest", "no-such-package"])
    assert "no-such-package" not in versions(["no-such-package"])
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "ejop").mkdir()
    monkeypatch.setattr("ejop.__file__", str(tmp_path / "ejop" / "__init__.py"))
    commit.cache_clear()
    assert commit() == "unknown"  # installed, not a checkout
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    (tmp_path / "ejop" / "__init__.py").write_text("1")
    subprocess.run([*git, "init", "-q"], check=True)
    commit.cache_clear()
    assert commit() == "unknown"  # in the repository of somebody else
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    commit.cache_clear()
    assert len(commit()) == 12
    (tmp_path / "ejop" / "__init__.py").write_text("2")
    commit.cache_clear()
    assert commit().endswith("+changes")
    monkeypatch.undo()
    commit.cache_clear()


def test_rows_where_one_pass_is_the_lowest():
    errors = {
        "usps": {"ejop-knn": 3.0, "lmnn": 3.5, "lmnn-ejop": 3.2, "euclid": 5.0},
        "letter": {"ejop-knn": 6.0, "ridge-knn": 5.0, "lmnn": 5.5},
        "webcam": {"ejop-knn": 6.0, "itml": 5.5},
        "isolet": {"ejop-machines": 4.0, "itml": 4.0},
        "dslr": {"lmnn": 4.0},
    }
    runs = [Run(d, m, 0, e, 1.0, 0.1, 3) for d, row in errors.items() for m, e in row.items()]
    labels = {name: method.label for name, method in METHODS.items()}
    lines = [line for name in TABLES for line in summarize(TABLES[name], runs, labels)]
    table = lowest_rows(lines)
    assert {row[0]: row[-1] for row in table.rows} == {
        "usps": "yes",
        "letter": "yes",
        "webcam": "no",
        "isolet": "yes",
    }
    row = next(row for row in table.rows if row[0] == "usps")
    assert row[1:5] == ["EJOP kNN 3.00", "EJOP kNN 3.00", "LMNN + EJOP 3.20", "-0.20"]
    assert "in 3 of 4 rows with any estimate of f, and in 2 with" in table.remarks[0]


def test_pages_are_made_again_from_their_runs(runs, tmp_path, capsys):
    from ejop.cli.app import run

    store = Results(tmp_path / "r.sqlite")
    for one in runs:
        store.add(one)
    asked = ["reproduce", "table3", "--datasets", "letter", "--no-compute", "--runs", "2"]
    for results, out, known in (("r", "one", ""), ("s", "two", "one/tables.jsonl")):
        more = ["--known", str(tmp_path / known)] if known else []
        files = ["--results", str(tmp_path / f"{results}.sqlite"), "--out", str(tmp_path / out)]
        with pytest.raises(SystemExit) as stop:
            run([*asked, *files, *more])
        assert stop.value.code in (0, None), capsys.readouterr().err
    for name in ("tables.md", "tables.csv", "tables.jsonl"):
        assert (tmp_path / "two" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
    assert len(read_lines(tmp_path / "one" / "tables.jsonl")) == 3


def test_committed_tables_are_made_of_committed_runs():
    from ejop.cli.reproduce import table_parts

    folder = Path(__file__).parents[1] / "docs" / "results"
    if not (folder / "tables.jsonl").exists():
        pytest.skip("the runs of the tables are not committed yet")
    runs = read_lines(folder / "tables.jsonl")
    parts = table_parts(list(TABLES), runs)
    assert page(parts, runs) == (folder / "tables.md").read_text(encoding="utf-8")
    lines = [line for _, lines in parts for line in lines]
    assert to_csv(lines) == (folder / "tables.csv").read_text(encoding="utf-8")


def test_the_page_of_starts_is_made_of_committed_runs():
    from ejop.cli.reproduce import table_parts

    folder = Path(__file__).parents[1] / "docs" / "results"
    runs = read_lines(folder / "starts.jsonl")
    made = page(table_parts(["table3", "table4"], runs), runs)
    assert (folder / "starts.md").read_text(encoding="utf-8").endswith(made.split("\n", 1)[1])


def test_the_page_is_self_contained(runs):
    labels = {name: method.label for name, method in METHODS.items()}
    parts = [(TABLES["table3"], summarize(TABLES["table3"], runs, labels))]
    page = to_html(parts, runs, "A <title>", "about")
    assert "<h1>A &lt;title&gt;</h1>" in page
    assert "LMNN: objective by iteration" in page
    assert page.count("<h3>letter</h3>") == 1  # one panel a data set, with both curves
    assert "with EJOP" in page
    assert 'src="http' not in page


def test_real_sets(tmp_path):
    if "EJOP_DATA" not in os.environ:
        pytest.skip("EJOP_DATA is not set: the real data sets are not at hand")
    fold = make_fold("isolet", 0)
    assert fold.X.shape == (4000, 172)
    assert make_fold("webcam-zscored", 0).X.std(0).max() == pytest.approx(1)
    fold = make_fold("mnist-small", 0)
    assert (fold.held, fold.n_neighbors, fold.X.shape) == (2000, 7, (10_000, 784))
    assert Path(os.environ["EJOP_DATA"]).exists()


def test_a_device_gives_the_same_run_and_is_recorded():
    pytest.importorskip("torch")
    here, there = (
        compute(("digits", "euclid", 0), None),
        compute(("digits", "euclid", 0), None, device="cpu"),
    )
    assert there.error == here.error
    assert there.settings == {**here.settings, "device": "cpu"}
