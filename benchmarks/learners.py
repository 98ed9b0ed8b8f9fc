"""One fit of EJOP against a metric learner that optimises."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common import Goal, Row, in_process, interleaved, log
from benchmarks.data import digits, shape
from ejop import EJOP

SCRIPT = Path(__file__).resolve().parent / "lmnn_peer.py"


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
        row.remark = "no peer: EJOP_PEER_PYTHON is not set, see benchmarks/README.md"
        return [row]
    log(f"lmnn: metric-learn on {n} rows")
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.npz"
        np.savez(rows, X=X, y=y)
        quiet = {"PYTHONWARNINGS": "ignore"}  # it calls what scikit-learn has deprecated
        found = in_process([python, str(SCRIPT), str(rows)], environment=quiet)
    row.peer_runs, row.peer_seconds = [found["seconds"]], found["seconds"]
    row.ratio = row.peer_seconds / row.ours_seconds
    row.remark = f"{found['versions']}, {found['iterations']} iterations"
    return [row]
