"""The same jobs with two source trees: ``python -m benchmarks.versions OLD NEW [--repeat N]``.

OLD and NEW are checkouts. Each run is a process of its own that imports one of them, old and new in
turns, so that whatever else the machine does falls on both. A process does a job once to compile
and warm up, then once more or, if it is short, three times. The best of all is kept, in seconds and
in seconds of the processor, which other work disturbs less. Every job runs with the threads that a
user gets, and with one. The new tree is to take at most 1.05 times the seconds of the old one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_wine

from benchmarks import report
from benchmarks.common import Goal, Row, in_process, log
from benchmarks.data import Rows, blobs, digits
from benchmarks.load import Elsewhere

GOAL = Goal("<=", 1.05)
#: seconds of a first fit from which one more is enough
LONG = 3.0
#: variables of a process that is to have one thread, and of one that is to have a user's
ONE = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
THREADS: dict[str, dict[str, str]] = {"default threads": {}, "one thread": ONE}
#: bytes for temporaries in which the references of ``streamed`` do not fit
FEW_BYTES = 24 * 2**20


# jobs: only names that both trees have, or what `hasattr` tells apart ------------------------


def _random() -> Rows:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(4000, 256)).astype(np.float32)
    return X, rng.integers(10, size=4000)


def _surface() -> Rows:
    """Rows near a surface of six dimensions, so that few are near to a row."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(20_000, 6))
    X = Z @ rng.normal(size=(6, 50)) + 0.05 * rng.normal(size=(20_000, 50))
    return X.astype(np.float32), (Z[:, 0] > 0) * 2 + (Z[:, 1] > 0)


def _kernel(bandwidth: float | str = "auto", kernel: str = "gaussian", **options: Any) -> Any:
    from ejop import EJOP
    from ejop.functions import KernelSmoother

    return EJOP(KernelSmoother(kernel, bandwidth), random_state=0, **options)


def _nearest() -> Any:
    from ejop import EJOP
    from ejop.functions import NeighborsSmoother

    return EJOP(NeighborsSmoother(15), random_state=0)


def _ridge() -> Any:
    from ejop import EJOP
    from ejop.functions import RidgeFunction

    return EJOP(RidgeFunction(bandwidth=12.0, penalty=0.01), random_state=0)


def _named(name: str) -> Any:
    from ejop import EJOP

    return EJOP(name, random_state=0)


def _egop() -> Any:
    from ejop import EGOP

    return EGOP("ridge", random_state=0)


def _streamed() -> Any:
    import ejop

    if hasattr(ejop, "Device"):
        limit: dict[str, Any] = {"device": ejop.Device(memory_limit=FEW_BYTES)}
    else:
        limit = {"memory_limit": FEW_BYTES}
    return _kernel(6.0, n_queries=1000, **limit)


def _classifier() -> Any:
    from ejop import EJOPClassifier

    return EJOPClassifier(random_state=0)


def _real_targets() -> Rows:
    X = np.random.default_rng(0).normal(size=(3000, 20))
    return X, np.sin(X[:, 0] + X[:, 1]) + 0.1 * X[:, 2]


def _digits() -> Rows:
    return digits(1797)


#: what is fitted, its size, the rows, the model
JOBS: dict[str, tuple[str, str, Callable[[], Rows], Callable[[], Any]]] = {
    "usps": (
        "Gaussian, bandwidth 8",
        "4000 x 256, 10 classes, float32",
        _random,
        lambda: _kernel(8.0),
    ),
    "kernel": ("Gaussian, bandwidth 5", "digits, 1797 x 64", _digits, lambda: _kernel(5.0)),
    "ball": ("ball, bandwidth 8", "digits, 1797 x 64", _digits, lambda: _kernel(8.0, "boxcar")),
    "knn": ("15 nearest", "digits, 1797 x 64", _digits, _nearest),
    "ridge": ("ridge, all given", "digits, 1797 x 64", _digits, _ridge),
    "kernel-auto": (
        "Gaussian, bandwidth chosen",
        "digits, 1797 x 64",
        _digits,
        lambda: _named("kernel"),
    ),
    "ridge-auto": ("ridge, all chosen", "digits, 1797 x 64", _digits, lambda: _named("ridge")),
    "egop": ("EGOP, ridge, all chosen", "3000 x 20, one target", _real_targets, _egop),
    "local": (
        "Gaussian, narrow bandwidth, 2000 queries",
        "20000 x 50, 4 classes, float32",
        _surface,
        lambda: _kernel(0.7, n_queries=2000),
    ),
    "streamed": (
        "Gaussian, 24 MiB, 1000 queries",
        "20000 x 50, 10 classes",
        lambda: blobs(20_000, 50),
        _streamed,
    ),
    "wine": ("EJOPClassifier()", "178 x 13", lambda: load_wine(return_X_y=True), _classifier),
}


def measure(job: str, tree: str) -> dict[str, Any]:
    """Seconds, seconds of the processor and plan of one job, in this process."""
    import ejop

    if not Path(ejop.__file__).is_relative_to(tree):
        raise ImportError(f"ejop comes from {ejop.__file__} and not from {tree}")
    *_, rows, model = JOBS[job]
    X, y = rows()
    start = time.perf_counter()
    model().fit(X, y)
    long = time.perf_counter() - start > LONG
    seconds, cpu = [], []
    for _ in range(1 if long else 3):
        start = time.perf_counter(), time.process_time()
        fitted = model().fit(X, y)
        seconds.append(time.perf_counter() - start[0])
        cpu.append(time.process_time() - start[1])
    return {"seconds": min(seconds), "cpu": min(cpu), "plan": str(fitted.plan_)}


# both trees ----------------------------------------------------------------------------------


def compare(job: str, threads: str, trees: list[Path], repeat: int) -> tuple[Row, dict[str, Any]]:
    """A row of seconds, new over old, and the seconds of the processor of both."""
    log(f"{job}, {threads}")
    elsewhere = Elsewhere()
    found: list[list[dict[str, Any]]] = [[], []]
    command = [sys.executable, "-m", "benchmarks.versions", "--measure", job]
    for i in range(repeat):
        for side in (0, 1) if i % 2 == 0 else (1, 0):  # neither is always the first
            tree = str(trees[side])
            environment = {"PYTHONPATH": f"{tree}/src", **THREADS[threads]}
            found[side].append(in_process([*command, tree], environment=environment))
    old, new = ([run["seconds"] for run in side] for side in found)
    cpu = [min(run["cpu"] for run in side) for side in found]
    what, size, *_ = JOBS[job]
    row = Row(
        job,
        f"{what}, {threads}",
        f"{size}, {threads}",
        new,
        old,
        ratio=min(new) / min(old),
        goal=GOAL,
        plan=found[1][0]["plan"],
        busy_elsewhere=elsewhere.cores(),
    )
    if found[0][0]["plan"].split(":")[0] != row.method:
        row.remark = f"the old tree took another plan: {found[0][0]['plan'].split(':')[0]}"
    return row, {"cpu_old": cpu[0], "cpu_new": cpu[1], "cpu_ratio": cpu[1] / cpu[0]}


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=__doc__)
    parser.add_argument("old", type=Path, help="a checkout")
    parser.add_argument("new", type=Path, help="another")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=JOBS, default=list(JOBS), metavar="JOB")
    parser.add_argument("--out", type=Path, help="file of results; rows there already are kept")
    options = parser.parse_args()
    trees = [path.resolve() for path in (options.old, options.new)]
    measured = []
    for job in options.only:
        for threads in THREADS:
            measured.append(compare(job, threads, trees, options.repeat))
            record = document(measured, trees, options.out)
            if options.out:  # row by row, so that a run that is stopped keeps what it has
                report.write(record, options.out)
    print(report.table([row for row, _ in measured]), report.footer(record), sep="\n\n")
    for row, cpu in measured:
        ratios = f"seconds {row.ratio:.3f}  processor {cpu['cpu_ratio']:.3f}"
        print(f"{row.name:12} {row.size:50} {ratios}")


def document(
    measured: list[tuple[Row, dict[str, Any]]], trees: list[Path], path: Path | None
) -> dict[str, Any]:
    """What is kept; rows measured again stand in place of those in the file."""
    record = report.document([row for row, _ in measured], "versions")
    record["trees"] = [report.commit(tree) for tree in trees]
    again = [kept | cpu for kept, (_, cpu) in zip(record["rows"], measured, strict=True)]
    before = json.loads(path.read_text())["rows"] if path and path.exists() else []
    merged = {(row["name"], row["size"]): row for row in [*before, *again]}
    order = list(JOBS)
    record["rows"] = sorted(merged.values(), key=lambda row: order.index(row["name"]))
    return record


if __name__ == "__main__":
    main()
