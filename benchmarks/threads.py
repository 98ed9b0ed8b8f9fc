"""Threads as a user has them, over one thread: they must not cost where they cannot help."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sklearn.datasets import load_breast_cancer, load_wine, make_classification
from threadpoolctl import threadpool_limits

from benchmarks.common import Goal, Row, in_process, log, timed
from benchmarks.data import Rows, usps
from ejop import EJOP, EJOPClassifier

#: variables that change what threads do; a user has none of them
VARIABLES = (
    *(f"{library}_NUM_THREADS" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")),
    "OMP_WAIT_POLICY",
)
SMALL, LARGE = Goal("<=", 1.1), Goal("<", 0.8)


def _wine() -> Rows:
    return load_wine(return_X_y=True)


def _cancer() -> Rows:
    X, y = load_breast_cancer(return_X_y=True)
    return X[:426], y[:426]


def _columns() -> Rows:
    return make_classification(
        1500, 36, n_informative=12, n_redundant=12, n_classes=6, random_state=0
    )


def _usps() -> Rows:
    return usps(4000)[0]


@dataclass(frozen=True)
class Fit:
    """A fit, its rows, and what is asked of the ratio of its seconds."""

    what: str
    size: str
    model: Any
    rows: Callable[[], Rows]
    goal: Goal


_CLASSIFIER, _NEAR = EJOPClassifier(random_state=0), EJOPClassifier("knn", random_state=0)
FITS = {
    "wine": Fit("EJOPClassifier()", "178 x 13, 3 classes", _CLASSIFIER, _wine, SMALL),
    "cancer": Fit("EJOPClassifier()", "426 x 30, 2 classes", _CLASSIFIER, _cancer, SMALL),
    "columns": Fit("EJOPClassifier()", "1500 x 36, 6 classes", _CLASSIFIER, _columns, SMALL),
    "wine-knn": Fit("EJOPClassifier('knn')", "178 x 13, 3 classes", _NEAR, _wine, SMALL),
    "columns-knn": Fit("EJOPClassifier('knn')", "1500 x 36, 6 classes", _NEAR, _columns, SMALL),
    "usps": Fit("EJOP()", "USPS 4000 x 256, float32", EJOP(random_state=0), _usps, LARGE),
    "usps-ridge": Fit(
        "EJOP('ridge')", "USPS 4000 x 256", EJOP("ridge", random_state=0), _usps, LARGE
    ),
}


def threads(*, names: list[str], repeat: int, beside: bool) -> list[Row]:
    """One row a fit and, where asked for, another beside a process that keeps a core busy."""
    rows = []
    for name in names:
        for busy in (False, True) if beside else (False,):
            log(f"threads: {name}{', beside a busy core' * busy}")
            with _spinning(busy):
                rows.append(_row(FITS[name], name, repeat, busy))
    return rows


def _row(fit: Fit, name: str, repeat: int, busy: bool) -> Row:
    seconds: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(repeat):
        for limit, runs in seconds.items():  # in turns, each in a new process
            runs.append(in_process([*_unlimited(), name, str(limit)]))
    return Row(
        "threads",
        f"{fit.what}.fit, default threads over one{', beside a busy core' * busy}",
        fit.size,
        seconds[0],
        seconds[1],
        ratio=min(seconds[0]) / min(seconds[1]),
        goal=None if busy else fit.goal,
        timed=not busy,  # the machine is meant to be busy
    )


def _unlimited() -> list[str]:
    """This module in a new process without the variables.

    OpenMP is loaded before this package, which tells it how to wait; a user does not.
    """
    unset = [word for name in VARIABLES for word in ("-u", name)]
    run = "runpy.run_module('benchmarks.threads', run_name='__main__')"
    return ["env", *unset, sys.executable, "-c", f"import runpy, sklearn.neighbors; {run}"]


@contextmanager
def _spinning(busy: bool) -> Iterator[None]:
    if not busy:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def main(name: str, limit: str) -> float:
    """Seconds of a fit, best of two, after a small one that compiles; ``limit`` 0 is none."""
    fit = FITS[name]
    X, y = fit.rows()
    fit.model.fit(X[::5], y[::5])
    with threadpool_limits(int(limit) or None):
        return min(timed(lambda: fit.model.fit(X, y))[0] for _ in range(2))


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
