"""Our predictor beside its peers: ``python -m benchmarks.predictor --data DIR``.

Each finished run is a line of the results file, and a second call skips what is there. Seeds of
the splits begin at 1000: seeds 0 to 9 served to choose defaults and are not reported.
``python -m benchmarks.predictor_page`` makes the page of the results.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ejop
from benchmarks import report
from benchmarks.common import log
from benchmarks.load import Elsewhere
from benchmarks.predictor_data import SETS, split
from benchmarks.predictor_methods import ABLATIONS, METHODS, coverage, model_size
from ejop.experiments.provenance import commit
from ejop.experiments.suite.contest import judged, timed, warm_up
from ejop.experiments.suite.peers import PEERS, FittedMethod, Method
from ejop.experiments.suite.splits import Split

RESULTS = Path(__file__).parent / "results" / "predictor.jsonl"
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "torch", *PEERS)
Key = tuple[str, int, str, int]


def key(record: dict[str, Any]) -> Key:
    return record["data"], record["split"], record["method"], record["rows"]


def read(path: Path) -> dict[Key, dict[str, Any]]:
    """Records by set, split, method and rows; of several the last."""
    if not path.exists():
        return {}
    return {key(r): r for r in map(json.loads, path.read_text().splitlines())}


def run(part: Split, job: Key, method: Method) -> dict[str, Any]:
    """One method on one split: errors, seconds, and what went wrong, if anything did."""
    record: dict[str, Any] = {
        **dict(zip(("data", "split", "method", "rows"), job, strict=True)),
        "n_train": len(part.A),
        "n_test": len(part.B),
        "n_columns": part.A.shape[1],
        "n_classes": 0 if part.real else int(part.ya.max()) + 1,
    }
    elsewhere = Elsewhere()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            record |= measured(method, part)
        except Exception:
            record["fault"] = traceback.format_exc(limit=-3)
    record["warnings"] = sorted({f"{w.category.__name__}: {w.message}" for w in told})[:5]
    return {
        **record,
        "busy_elsewhere": rounded(elsewhere.cores()),
        "commit": commit(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": versions(),
        "machine": {k: report.machine()[k] for k in ("cpu", "threads", "memory_gib", "system")},
    }


def measured(method: Method, part: Split) -> dict[str, Any]:
    """Fit, predict and judge."""
    seconds, cpu, fitted = timed(lambda: method(part.A, part.ya, part.real))
    wait, wait_cpu, predicted = timed(lambda: fitted.model.predict(part.B))
    found = judged(fitted, np.asarray(predicted).ravel(), part)
    found |= {"fit_seconds": seconds, "fit_cpu_seconds": cpu}
    found |= {"predict_seconds": wait, "predict_cpu_seconds": wait_cpu}
    if fitted.ours:
        found |= of_ours(fitted, part)
    return {**{k: rounded(v) for k, v in found.items()}, "chosen": fitted.chosen}


def of_ours(fitted: FittedMethod, part: Split) -> dict[str, float]:
    """What only our predictor tells: coverage and size."""
    return {
        **coverage(fitted, part.B, part.yb, part.real),
        **model_size(fitted, part.A, part.ya, part.real),
    }


def run_all(
    jobs: list[Key],
    split: Callable[[str, int, int], Split],
    methods: Mapping[str, Method],
    results: Path,
    again: bool,
    table: Callable[[NDArray], Any] = np.asarray,
) -> None:
    """Run what is not among the results, each job a line of them; ``table`` makes rows of one."""
    done = {} if again else read(results)
    warm: set[str] = set()
    for job in jobs:
        if job in done:
            continue
        name, number, method, rows = job
        if method not in warm:
            warm_up_both(methods[method], table)
            warm.add(method)
        record = run(split(name, number, rows), job, methods[method])
        append(record, results)
        told = record.get("fault") or f"{record['error']:.2f} in {record['fit_seconds']:.1f} s"
        log(f"{name} split {number} {method} {rows} rows: {told} {record['warnings'] or ''}")


def warm_up_both(method: Method, table: Callable[[NDArray], Any] = np.asarray) -> None:
    """Import and compile before the clock starts, for classes and real targets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for real in (False, True):
            warm_up(method, real, table)


def rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Versions of what is installed of ours and the peers."""
    found = {"python": platform.python_version(), "ejop": ejop.__version__}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def append(record: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as out:
        out.write(json.dumps(record) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("EJOP_DATA"))
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS), metavar="SET")
    parser.add_argument(
        "--methods", nargs="+", default=["ours", *PEERS], choices=list(METHODS), metavar="METHOD"
    )
    parser.add_argument("--ablations", action="store_true", help="every part of ours left out")
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", nargs="+", type=int, default=[1500])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--again", action="store_true", help="run what is there; the last counts")
    options = parser.parse_args()
    if options.data is None:
        parser.error("--data names the folder of the data sets (extra/, paper/, suite/)")
    jobs = [
        (name, number, method, rows)
        for number in options.splits
        for rows in options.rows
        for method in (ABLATIONS if options.ablations else options.methods)
        for name in options.sets
    ]
    part = partial(split, options.data)
    run_all(jobs, part, METHODS, options.results, options.again)


if __name__ == "__main__":
    main()
