"""Run the benchmarks: ``python -m benchmarks [--quick] [--only NAME ...] [--out FILE]``."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import (
    first_call,
    gaussian,
    growth,
    learners,
    neighbours,
    report,
    threads,
    tuning,
)
from benchmarks.common import Row, log
from benchmarks.data import mnist
from benchmarks.load import Elsewhere


@dataclass(frozen=True)
class Benchmark:
    """A function that returns rows, and its arguments at each scale."""

    run: Callable[..., list[Row]]
    full: dict[str, Any]
    quick: dict[str, Any]
    tiny: dict[str, Any]


BENCHMARKS = {
    "gemm": Benchmark(
        gaussian.gemm,
        full={"n": 9298, "side": 4096, "repeat": 5},
        quick={"n": 9298, "side": 4096, "repeat": 3},
        tiny={"n": 1000, "side": 512, "repeat": 2},
    ),
    "gemm-mnist": Benchmark(
        partial(gaussian.gemm, data=mnist, bandwidth=1.36),
        full={"n": 60_000, "side": 8192, "repeat": 1},
        quick={"n": 8000, "side": 4096, "repeat": 1},
        tiny={"n": 800, "side": 512, "repeat": 1},
    ),
    "local": Benchmark(
        gaussian.local,
        full={"n": 60_000, "n_queries": None, "repeat": 1, "automatic": True},
        quick={"n": 60_000, "n_queries": 3000, "repeat": 2, "automatic": False},
        tiny={"n": 4000, "n_queries": 600, "repeat": 1, "automatic": True},
    ),
    "naive": Benchmark(
        gaussian.naive,
        full={"n": 4000, "d": 64, "n_features": None, "repeat": 2},
        quick={"n": 4000, "d": 64, "n_features": 8, "repeat": 2},
        tiny={"n": 300, "d": 16, "n_features": 4, "repeat": 2},
    ),
    "compact": Benchmark(
        neighbours.compact,
        full={"n": 4000, "low": 4000, "repeat": 1},
        quick={"n": 800, "low": 1500, "repeat": 1},
        tiny={"n": 100, "low": 200, "repeat": 1},
    ),
    "knn": Benchmark(
        neighbours.knn,
        full={"n": 4000, "low": 4000, "repeat": 1},
        quick={"n": 800, "low": 1500, "repeat": 1},
        tiny={"n": 100, "low": 200, "repeat": 1},
    ),
    "tuning": Benchmark(tuning.grid_search, full={"n": 1000}, quick={"n": 500}, tiny={"n": 200}),
    "learners": Benchmark(
        learners.learners,
        full={"splits": 3, "slow_peers": True},
        quick={"splits": 1, "slow_peers": False},
        tiny={"splits": 1, "slow_peers": False},
    ),
    "lmnn": Benchmark(
        learners.lmnn,
        full={"n": 1200},
        quick={"n": 300},
        tiny={"n": 100},
    ),
    "growth": Benchmark(
        growth.growth,
        full={"sizes": [10_000, 100_000, 1_000_000], "d": 50, "repeats": [3, 2, 1]},
        quick={"sizes": [10_000, 100_000], "d": 50, "repeats": [3, 1]},
        tiny={"sizes": [2000, 4000, 8000], "d": 10, "repeats": [2, 1, 1]},
    ),
    "threads": Benchmark(
        threads.threads,
        full={"names": list(threads.FITS), "repeat": 3, "beside": True},
        quick={"names": ["wine", "usps"], "repeat": 2, "beside": False},
        tiny={"names": ["wine"], "repeat": 1, "beside": False},
    ),
    "first-call": Benchmark(
        first_call.first_call,
        full={"repeat": 5},
        quick={"repeat": 3},
        tiny={"repeat": 1},
    ),
}


def run(name: str, scale: str) -> list[Row]:
    """Rows of one benchmark; one that fails is a row too, so that the others are kept."""
    benchmark = BENCHMARKS[name]
    log(name)
    elsewhere = Elsewhere()
    try:
        rows = benchmark.run(**getattr(benchmark, scale))
    except Exception as error:
        traceback.print_exc()
        rows = [Row(name, "failed", "", remark=f"failed: {type(error).__name__}")]
    for row in rows:
        row.busy_elsewhere = elsewhere.cores()
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    scales = parser.add_mutually_exclusive_group()
    scales.add_argument("--quick", action="store_true", help="smaller sizes, under two minutes")
    scales.add_argument("--tiny", action="store_true", help="to try the code: figures mean nothing")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, metavar="NAME", default=None)
    parser.add_argument("--out", type=Path, help="file of results")
    options = parser.parse_args(arguments)
    scale = "quick" if options.quick else "tiny" if options.tiny else "full"

    rows = [row for name in options.only or BENCHMARKS for row in run(name, scale)]
    record = report.document(rows, scale)
    print(report.table(rows), report.footer(record), sep="\n\n")
    keep = options.only is None and scale != "tiny"
    path = options.out or (report.default_path(record) if keep else None)
    if path is not None:
        report.write(record, path)
        log(f"written: {path.name}")
    return int(any(row.what == "failed" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
