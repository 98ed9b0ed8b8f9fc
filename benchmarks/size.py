"""The predictor from 10^4 to 10^6 rows and beyond: error, seconds, peak memory, growth.

``python -m benchmarks.size [--data DIR] [--only grow switch real page] [--most 1000000]`` runs each
fit in a process of its own. ``grow`` takes synthetic tables of 28 columns, ``switch`` one set at
sizes on both sides of where machines stop holding every row, ``real`` the large sets of ``DIR``,
``card`` (only where it is named) a million rows and more on a graphics card, beside xRFM.
Each finished run is a line of ``results/size.jsonl``; a second call goes on where the first
stopped. ``--workers`` runs several at once, each on two cores of its own. ``page`` writes
``docs/results/size.md``. It needs ``lightgbm``, and ``card`` needs ``torch`` and ``xrfm``.
"""

from __future__ import annotations

import argparse
import json
import os
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.common import in_worker, log, side_by_side
from benchmarks.predictor import append
from benchmarks.size_data import FAMILIES, REAL
from benchmarks.size_page import PAGE, page
from ejop.experiments.provenance import commit

RESULTS = Path(__file__).parent / "results" / "size.jsonl"
PEERS = ["HistGradientBoosting", "HistGradientBoosting, as it comes", "LightGBM"]
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
#: rows on both sides of where machines stop holding every row
AROUND = (8_000, 10_000, 12_000, 20_000)
Job = dict[str, Any]


def growing(most: int) -> list[Job]:
    """Synthetic tables, small ones first."""
    return [
        {"set": family, "real": real, "n": n, "method": method, "seed": 1}
        for n in SIZES
        if n <= most
        for family in FAMILIES
        for real in (False, True)
        for method in ["ours", *PEERS]
    ] + [
        {"set": "multi-index", "real": True, "n": n, "method": "ours, 2,000 centres", "seed": 1}
        for n in (30_000, 100_000, 300_000, 1_000_000)
        if n <= most
    ]


def around() -> list[Job]:
    """One set by the machines that hold every row, and by those on centres."""
    found = []
    for n in AROUND:
        methods = ["ours"] + (["ours, streamed"] if n <= 10_000 else ["ours, whole"])
        sets = ["paper/letter"] if n < 20_000 else []
        found += [
            {"set": s, "real": False, "n": n, "method": m, "seed": 1} for s in sets for m in methods
        ]
        found += [
            {"set": "multi-index", "real": True, "n": n, "method": m, "seed": 1} for m in methods
        ]
    return found


def real_sets() -> list[Job]:
    return [
        {"set": name, "real": name == "extra/ailerons", "n": n, "method": method, "seed": 1}
        for name, n in REAL.items()
        for method in ["ours", *PEERS]
    ]


def on_card(most: int) -> list[Job]:
    return [
        {"set": family, "real": real, "n": n, "method": method, "seed": 1}
        for method in ("ours, on a card", "xRFM, on a card")
        for n in SIZES[1:]
        if n <= most
        for family in FAMILIES
        for real in (False, True)
    ]


def records() -> list[Job]:
    return (
        [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    )


def run_all(jobs: list[Job], data: str | None, workers: int) -> None:
    """A line of results for each job that has none."""
    there = [line for line in records() if "fault" not in line]
    left = [job for job in jobs if not any(job.items() <= line.items() for line in there)]
    now, machine = commit(), report.machine()
    packages = ("numpy", "scipy", "scikit-learn", "numba", "lightgbm")
    versions = report.versions() | {name: version(name) for name in packages}
    where = {"commit": now, "machine": machine, "versions": versions, "workers": workers}
    for job, found in side_by_side(partial(attempt, data), left, workers, cores=2):
        append({**job, **found, **where, "date": f"{datetime.now(UTC):%Y-%m-%d}"}, RESULTS)
        log(f"{job}: {found.get('fault') or found['told']}")


def attempt(data: str | None, **job: Any) -> Job:
    """What a process of its own finds, or how it failed."""
    try:
        return in_worker("size", data=data, **job)
    except Exception as error:  # a line that says so
        return {"fault": f"{type(error).__name__}: {error}"[:300]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("grow", "switch", "real", "card", "page")
    parser.add_argument("--data", default=os.environ.get("EJOP_DATA"))
    parser.add_argument("--only", nargs="+", choices=parts, metavar="PART")
    parser.add_argument("--most", type=int, default=1_000_000, help="rows of synthetic tables")
    parser.add_argument("--workers", type=int, default=1, help="jobs at once, two cores each")
    options = parser.parse_args()
    only = options.only or ["grow", "switch", "real", "page"]
    if options.data is None and {"switch", "real"} & set(only):
        parser.error("--data names the folder of the data sets (paper/, extra/)")
    jobs = {
        "grow": growing(options.most),
        "switch": around(),
        "real": real_sets(),
        "card": on_card(options.most),
    }
    run_all(
        [job for part in only if part in jobs for job in jobs[part]], options.data, options.workers
    )
    if "page" in only:
        PAGE.write_text(page(records()), encoding="utf-8")


if __name__ == "__main__":
    main()
