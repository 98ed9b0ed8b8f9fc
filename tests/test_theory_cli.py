"""ejop theory: runs that are kept, tables that say what fell and what did not."""

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest

from ejop.cli.app import run
from ejop.experiments import Results, Run
from ejop.experiments.consistency import pages, runs
from ejop.experiments.consistency.known_models import suite
from ejop.experiments.consistency.levels import SCENARIOS
from ejop.experiments.consistency.rivals import FUNCTIONS, SUBSPACES
from ejop.subspace import sin_theta


@pytest.fixture
def call(capsys):
    def called(*args):
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            run(["theory", *map(str, args)])
        out, err = capsys.readouterr()
        return stop.value.code or 0, out, err

    return called


KEYS = {
    "consistency": [
        *((f"{m}:{n}", f, 0) for m in ("cube", "square") for n in (40, 400) for f in FUNCTIONS),
        *((f"cube:{n}", "paper", 0) for n in (40, 400)),
    ],
    "recovery": [("square:200", method, 0) for method in SUBSPACES if method != "ejop rounds"],
    "level": [("tail, r = 0", "test", 0)],
}
KEYS["eigen"] = KEYS["consistency"]


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Few runs for every command."""
    monkeypatch.setattr(runs, "plan", lambda command, **how: KEYS[command])
    monkeypatch.setattr("ejop.experiments.consistency.levels.REPETITIONS", 3)
    return tmp_path


def test_every_command_prints_writes_and_goes_on(small, call):
    store, out = small / "r.sqlite", small / "out"
    for command in ("consistency", "eigen", "recovery", "level"):
        code, text, told = call(command, "--quick", "--results", store, "--out", out)
        assert code == 0, told
        lines = told.splitlines()
        assert len(lines) == (0 if command == "eigen" else len(KEYS[command]))
        page = (out / f"{command}.md").read_text()
        assert "numpy" in page
        assert "Commit" in page
        assert text.strip()
        code, again, told = call(command, "--quick", "--results", store, "--json")
        assert (code, told) == (0, "")  # nothing is computed twice
        tables = json.loads(again)
        for table in tables:
            assert table["title"] in page
            assert all(len(row) == len(table["header"]) for row in table["rows"])
    names = {path.name for path in out.iterdir()}
    assert names == {
        *("consistency.md", "consistency.csv", "consistency.png", "eigen.md", "eigen.png"),
        *("recovery.md", "recovery.csv", "level.md", "level.csv"),
    }
    with (out / "consistency.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(KEYS["consistency"])
    assert all(float(row["matrix"]) >= float(row["eigenvalues"]) - 1e-9 for row in rows)


def test_a_failure_is_told_and_the_rest_is_shown(small, call, monkeypatch):
    def broken(X, y, r):
        raise ValueError("no luck")

    monkeypatch.setitem(SUBSPACES, "pca", broken)
    code, text, told = call("recovery", "--results", small / "r.sqlite")
    assert code == 1
    assert "failed: square:200 pca 0: no luck" in told
    assert "square" in text


def test_ctrl_c_keeps_what_is_finished(tmp_path):
    store = tmp_path / "r.sqlite"
    command = "from ejop.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", command, "theory", "recovery", "--quick", "--results", store],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    for _ in range(600):
        time.sleep(0.1)
        if store.exists() and len(Results(store).done()) >= 2:
            break
    process.send_signal(signal.SIGINT)
    told = process.communicate()[1]
    assert process.returncode == 130
    assert "ejop: stopped" in told
    assert "Traceback" not in told
    assert len(Results(store).done()) >= 2
    with sqlite3.connect(store) as db:
        assert db.execute("SELECT COUNT(*) FROM claims").fetchone() == (0,)


def test_plans_cover_models_functions_and_three_decades():
    keys = runs.plan("consistency")
    assert keys == runs.plan("eigen")
    assert len(keys) == len(set(keys))
    sizes = {int(subject.rsplit(":", 1)[1]) for subject, _, _ in keys}
    assert max(sizes) == 1000 * min(sizes)
    assert {m for _, m, _ in keys} == {*FUNCTIONS, "paper"}
    assert {s.rsplit(":", 1)[0] for s, _, _ in keys} == set(suite())
    assert {m for _, m, _ in runs.plan("recovery")} == set(SUBSPACES)
    assert {s for s, _, _ in runs.plan("level")} == set(SCENARIOS)
    assert len(runs.plan("level", quick=True)) < len(runs.plan("level"))


@pytest.mark.parametrize("method", ["sir", "save", "opg", "mave", "lda", "ejop kernel"])
def test_references_find_a_plain_direction(method):
    model = suite()["single-index"]
    X, y = model.draw(600, 0)
    assert sin_theta(SUBSPACES[method](X, y, 1), model.V) < 0.25


@pytest.mark.parametrize("method", ["save", "phd", "opg", "mave", "ejop kernel"])
def test_references_find_an_even_direction(method):
    model = suite()["square"]
    X, y = model.draw(600, 0)
    angle = sin_theta(SUBSPACES[method](X, y, 1), model.V)
    assert angle < 0.25
    assert angle < sin_theta(SUBSPACES["sir"](X, y, 1), model.V)
    np.testing.assert_allclose(
        sin_theta(SUBSPACES["lda"](X, y, 1), SUBSPACES["sir"](X, y, 1)), 0, atol=1e-6
    )


def made(values, method="kernel"):
    return [
        Run(f"cube:{n}", method, s, 1.0, 0.5, 0.0, None, {"null": v + s / 100}, [], {"ejop": "0"})
        for n, v in values.items()
        for s in (0, 1, 2)
    ]


def test_a_rise_is_said():
    falling, rising = (
        made({10: 1.0, 100: 0.5, 1000: 0.2}),
        made({10: 1.0, 100: 0.5, 1000: 0.6}, "ball"),
    )
    found = pages.medians(falling, "null")[("cube", "kernel")]
    assert found == pytest.approx({10: 1.01, 100: 0.51, 1000: 0.21})
    assert pages.falls(found)
    assert not pages.falls(pages.medians(rising, "null")[("cube", "ball")])
    assert pages.slope({10: 1.0, 1000: 0.01}) == pytest.approx(-1)
    assert np.isnan(pages.slope({10: 1.0, 1000: 0.0}))
    for run_ in falling + rising:
        run_.settings |= {"eigenvalues": 1.0, "largest": 2.0}
    share, table = pages.eigen_tables(falling + rising)[1:]
    assert share.rows[0][2:5] == ["0.505", "0.255", "0.105"]
    assert table.remarks[0] == "1 of 2 fall at every step; not so: cube ball."
    assert [row[-1] for row in table.rows] == ["yes", "no"]


def test_a_loss_is_said():
    lost = pages._verdict("petals", True, {"ejop rounds": 0.3, "sir": 0.9, "save": 0.2, "phd": 0.4})
    assert lost == "petals: ejop rounds (0.300) is below sir, phd; not below save (0.200)."
    far = pages._verdict("wide", False, {"ejop rounds": 0.3, "mave": 0.2})
    assert "more than 10 % above the best, mave" in far
    near = pages._verdict("wide", False, {"ejop rounds": 0.21, "ejop ridge": 0.2})
    assert "within 10 % of the best, ejop ridge" in near
    moments = {"sir": 0.9, "save": 0.2, "phd": 0.4}
    means = {"petals:9": moments | {"ejop ridge": 0.3}, "wave:9": moments | {"ejop ridge": 0.1}}
    means["wide:9"] = {"ejop ridge": 0.21, "mave": 0.2}
    told = pages._tally("ejop ridge", means)
    assert "in 1 of 2 even models" in told
    assert "in 1 of 1 others" in told


def test_a_level_out_of_bounds_is_said():
    about = {"null": True, "rejected": 9, "samples": 100}
    found = [Run("tail, r = 0", "test", 0, 9.0, 1.0, 0.0, None, about)]
    assert pages.level_tables(found)[0].rows[0][-1] == "out"
    about["rejected"] = 5
    assert pages.level_tables(found)[0].rows[0][-1] == "in"


def test_a_bound_that_is_broken_is_said():
    key = {"matrix": 2.0, "eigenvalues": 1.0, "sin_theta": 0.5, "norm": 1.0}
    bounds = {f"{a}bound {r}": 3.0 for a in ("", "angle ") for r in ("stated", "proved")}
    good = Run("cube:30", "paper", 0, 1.0, 1.0, 0.0, None, key | bounds)
    bad = Run("cube:300", "paper", 0, 1.0, 1.0, 0.0, None, key | bounds | {"bound proved": 1.5})
    table = pages._bounds_table([good, bad])
    assert [row[-1] for row in table.rows] == ["yes", "no"]
