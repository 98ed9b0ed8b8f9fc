"""What the comparison on tables of text, gaps and dates adds: our command line.

What peers get of such a table is said in :mod:`ejop.experiments.suite.frames`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ejop.experiments.suite import frames, sets
from ejop.experiments.suite.peers import FittedMethod, Method, ours
from ejop.experiments.suite.splits import Split, read_frame, split_of

SETS = {one.name: one for one in sets.MIXED}


def split(folder: Path, name: str, number: int, rows: int) -> Split:
    """One of the reported splits, as tables; classes are numbered."""
    one = SETS[name]
    return split_of(*read_frame(folder / one.file, one), one.real, number, rows)


class Shell:
    """What ``ejop fit`` makes of a file, and ``ejop predict`` of another."""

    TARGET = "the target"

    def __init__(self, A: pd.DataFrame, y: NDArray, real: bool) -> None:
        self.folder, self.real = Path(tempfile.mkdtemp()), real
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        # classes in words, so that a file says what they are
        answers = y if real else [f"class {number}" for number in y]
        rows = self.write("rows.csv", A.assign(**{self.TARGET: answers}))
        self.model = rows.with_name("model.skops")
        self.call("fit", rows, "--target", self.TARGET, "--out", self.model)

    def write(self, name: str, table: pd.DataFrame) -> Path:
        path = self.folder / name
        table.to_csv(path, index=False)
        return path

    def call(self, *arguments: Any) -> None:
        command = [Path(sys.executable).with_name("ejop"), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"ejop {arguments[0]}: {(done.stderr or done.stdout)[-500:]}")

    def answers(self, B: pd.DataFrame) -> pd.DataFrame:
        out = self.folder / "answers.csv"
        proba = [] if self.real else ["--proba"]
        self.call("predict", self.model, self.write("new.csv", B), *proba, "--out", out)
        return pd.read_csv(out)

    def predict(self, B: pd.DataFrame) -> NDArray:
        first = self.answers(B).iloc[:, 0]
        return first.to_numpy() if self.real else first.str.removeprefix("class ").astype(int)

    def predict_proba(self, B: pd.DataFrame) -> NDArray:
        found = self.answers(B).filter(regex=r"class \d+$")
        order = np.argsort([int(name.rsplit(" ", 1)[1]) for name in found])
        return found.to_numpy()[:, order]


def command_line(A: pd.DataFrame, y: NDArray, real: bool) -> FittedMethod:
    shell = Shell(A, y, real)
    return FittedMethod(shell, {}, None if real else shell.predict_proba)


METHODS: dict[str, Method] = {
    "ours": ours,
    "ours, command line": command_line,
    **{name: frames.PEERS[name] for name in ("lightgbm", "catboost", "forest")},
}
