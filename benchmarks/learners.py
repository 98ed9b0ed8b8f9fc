"""EJOP and our metric learners against the learners of other libraries."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Goal, Row, in_process, interleaved, log
from benchmarks.data import digits, letters, shape
from ejop import EJOP

SCRIPT = Path(__file__).resolve().parent / "learner_run.py"
#: one thread each: peers have no threads of their own, and BLAS threads blur CPU seconds
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
NO_PEER = "no peer: EJOP_PEER_PYTHON is not set, see benchmarks/README.md"


def run(python: str, name: str, rows: Path) -> dict[str, Any]:
    """One learner in a process of its own."""
    log(f"{name} on {rows.stem}")
    found = in_process([python, str(SCRIPT), name, str(rows)], environment=ONE_THREAD)
    log(f"{name}: {found['cpu_seconds']:.2f} CPU s, error {found['error']}")
    return found


def lmnn(*, n: int) -> list[Row]:
    """EJOP with everything automatic against metric-learn's LMNN with its defaults."""
    X, y = digits(n)
    seconds, fitted = interleaved(5, {"ours": lambda: EJOP(random_state=0).fit(X, y)})
    row = Row(
        "lmnn",
        "fit, bandwidth chosen too; peer: LMNN of metric-learn, 3 neighbours",
        shape(X, y),
        seconds["ours"],
        goal=Goal(">=", 100),
        plan=str(fitted["ours"].plan_),
    )
    python = os.environ.get("EJOP_PEER_PYTHON")
    if not python:
        row.remark = NO_PEER
        return [row]
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "digits.npz"
        np.savez(rows, X=X, y=y)
        found = run(python, "metric-learn-lmnn", rows)
    row.peer_runs, row.peer_seconds = [found["seconds"]], found["seconds"]
    row.ratio = row.peer_seconds / row.ours_seconds
    row.remark = f"{found['versions']}, {found['iterations']} iterations"
    return [row]


def learners(*, splits: int, slow_peers: bool) -> list[Row]:
    """Each learner on Letters, 4,000 rows, 5-NN on 2,000 more: CPU seconds of one thread."""
    found: dict[str, list[dict[str, Any]]] = {}
    peer = os.environ.get("EJOP_PEER_PYTHON")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(splits):
            for scaled in (True, False):
                rows = Path(folder) / f"letters-{seed}-{'scaled' if scaled else 'raw'}.npz"
                X, y, Xt, yt = letters(seed, scaled=scaled)
                np.savez(rows, X=X, y=y, Xt=Xt, yt=yt)
                for name in _names(scaled=scaled, slow=slow_peers and seed == 0):
                    python = sys.executable if name.startswith("ours") else peer
                    if python:
                        found.setdefault(name, []).append(run(python, name, rows))
    size = shape(X, y)
    goals = [
        ("lmnn-error", "ours-lmnn", Goal("<=", 7.0)),
        ("itml-error", "ours-itml", Goal("<=", 10.5)),
        ("relieff-error", "ours-relieff", None),
    ]
    rows_out = [_error_row(*goal, found, size) for goal in goals]
    for name, ours, theirs, goal in (
        ("lmnn-pylmnn", "ours-lmnn", "pylmnn-lmnn", Goal(">=", 1)),
        ("lmnn-metric-learn", "ours-lmnn", "metric-learn-lmnn", Goal(">=", 10)),
        ("itml-metric-learn", "ours-itml", "metric-learn-itml", Goal(">=", 50)),
        ("relieff-skrebate", "ours-relieff", "skrebate-relieff", Goal(">=", 20)),
    ):
        rows_out.append(_time_row(name, found[ours], found.get(theirs), goal, size))
    return rows_out


def _names(*, scaled: bool, slow: bool) -> list[str]:
    """Learners of z-scored or of raw rows; the slow peers run once."""
    if scaled:
        slow_ones = ["metric-learn-lmnn", "metric-learn-itml"] if slow else []
        return ["ours-lmnn", "ours-itml", "pylmnn-lmnn", *slow_ones]
    return ["ours-relieff", *(["skrebate-relieff"] if slow else [])]


def _error_row(name: str, key: str, goal: Goal | None, found: dict, size: str) -> Row:
    errors = [100 * record["error"] for record in found[key]]
    mean = float(np.mean(errors))
    each = ", ".join(f"{e:.2f}" for e in errors)
    what = f"error of 5-NN in per cent, mean of {len(errors)} splits ({each})"
    limit = f"{goal.value:g} %" if goal else None
    return Row(name, what, size, ratio=mean, goal=goal, limit=limit, timed=False)


def _time_row(name: str, ours: list[dict], theirs: list[dict] | None, goal: Goal, size: str) -> Row:
    row = Row(name, "CPU seconds of a fit, one thread", size, [r["cpu_seconds"] for r in ours])
    row.goal = goal
    if not theirs:
        row.remark = NO_PEER
        return row
    row.peer_runs = [r["cpu_seconds"] for r in theirs]
    row.peer_seconds, row.ours_seconds = min(row.peer_runs), min(row.ours_runs)
    row.ratio = row.peer_seconds / row.ours_seconds
    errors = [100 * r["error"] for r in theirs if r["error"] is not None]
    row.remark = theirs[0]["versions"] + "".join(f", peer's error {e:.2f} %" for e in errors)
    return row
