"""Explanations and importances: do they add up, find what matters, and know how sure they are?

``python -m benchmarks.explain --data DIR`` runs seven parts. ``adds`` explains rows of every set of
``DIR/suite``; ``bars`` counts how often intervals hold the values of ``large``; ``truth`` draws
tables whose relevant columns are known, beside peers; ``kernel`` times ours and KernelSHAP alone,
one after the other on the same tables; ``deletion`` removes the first columns of an
order and fits a forest again; ``page`` writes ``docs/results/explain.md``. Each finished run is a
line of ``results/<date>-explain-<part>.jsonl``; those that are there from the same day are not run
again. It needs ``lightgbm`` and ``shap``.
"""

from __future__ import annotations

import argparse
import json
import os
import traceback
import warnings
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import explain_bars, explain_truth, report
from benchmarks.common import log, side_by_side
from benchmarks.explain_page import PAGE, page
from benchmarks.explain_sets import ORDERS, adds, deletion
from benchmarks.load import Elsewhere
from benchmarks.predictor import append, rounded, versions
from benchmarks.predictor_data import SUITE
from ejop.experiments.provenance import commit

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "lightgbm", "shap")
DELETED = ("page_blocks", "elevators", "house_16h", "churn", "ann_thyroid", "pol")
Job = dict[str, Any]


def records(path: Path) -> list[Job]:
    """The lines of a file of results; the first says where they ran."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def newest(part: str) -> list[Job]:
    """The lines of the newest file of a part, none where it has not run."""
    found = sorted(report.RESULTS.glob(f"*-explain-{part}.jsonl"))
    return records(found[-1]) if found else []


def run_all(part: str, jobs: Iterable[Job], work: Callable[..., Job], workers: int) -> None:
    """Run the jobs that are not among the lines of today, each a line of its own."""
    date, now = f"{datetime.now(UTC):%Y-%m-%d}", commit()
    path = report.RESULTS / f"{date}-explain-{part}.jsonl"
    there = records(path)
    if not there:
        found = report.versions() | versions(PACKAGES)
        append({"date": date, "machine": report.machine(), "versions": found}, path)
    left = [job for job in jobs if not any(job.items() <= line.items() for line in there)]
    for job, found in side_by_side(partial(attempt, work), left, workers, cores=1):
        append({**job, **found, "commit": now}, path)
        log(f"{part} {job}: {found.get('fault') or found.get('told', 'done')}")


def attempt(work: Callable[..., Job], **job: Any) -> Job:
    """What a job finds, or how it failed."""
    elsewhere = Elsewhere()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = work(**job)
        except Exception:
            found = {"fault": traceback.format_exc(limit=-3)}
    return {**found, "busy_elsewhere": rounded(elsewhere.cores())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("adds", "bars", "large", "truth", "kernel", "deletion", "page")
    parser.add_argument("--data", type=Path, default=os.environ.get("EJOP_DATA"))
    parser.add_argument("--only", nargs="+", default=list(parts), choices=parts, metavar="PART")
    parser.add_argument("--draws", type=int, default=10, help="of each table of truth")
    parser.add_argument("--bar-draws", type=int, default=200)
    parser.add_argument("--splits", type=int, default=2, help="of each set of deletion")
    parser.add_argument(
        "--workers", type=int, default=1, help="jobs at once, each on a core of its own"
    )
    options = parser.parse_args()
    if options.data is None and {"adds", "deletion"} & set(options.only):
        parser.error("--data names the folder of the data sets (suite/)")
    splits = range(options.splits)
    work = {
        "adds": ([{"data": s} for s in SUITE], partial(adds, options.data)),
        "bars": (explain_bars.jobs(options.bar_draws), explain_bars.draw),
        "large": (explain_bars.large_jobs(), explain_bars.large),
        "truth": (explain_truth.jobs(options.draws), explain_truth.draw),
        "kernel": (explain_truth.pairs(), explain_truth.draw),
        "deletion": (
            [{"data": s, "split": k, "order": o} for k in splits for s in DELETED for o in ORDERS],
            partial(deletion, options.data),
        ),
    }
    for part, (jobs, call) in work.items():
        if part in options.only:
            run_all(part, jobs, call, options.workers)
    if "page" in options.only:
        PAGE.write_text(page({part: newest(part) for part in work}), encoding="utf-8")


if __name__ == "__main__":
    main()
