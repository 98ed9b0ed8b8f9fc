"""Our predictor on tables as people have them: ``python -m benchmarks.mixed --data DIR``.

Seven tables with text, missing values and dates (``DIR/mixed``), beside peers that take such
columns; ``mixed_methods`` says what each gets. Rows and splits are those of
``benchmarks.predictor``: each finished run is a line of the results file, a second call skips what
is there, and ``--again`` runs it once more. ``--page`` makes the page of the results.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path

import pandas as pd

from benchmarks.mixed_methods import METHODS, SETS, split
from benchmarks.mixed_page import PAGE, page
from benchmarks.predictor import read, run_all

RESULTS = Path(__file__).parent / "results" / "mixed.jsonl"


def table(values: object) -> pd.DataFrame:
    return pd.DataFrame(values, columns=list("abcd"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("EJOP_DATA"))
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS), metavar="SET")
    parser.add_argument(
        "--methods", nargs="+", default=list(METHODS), choices=list(METHODS), metavar="METHOD"
    )
    parser.add_argument("--splits", nargs="+", type=int, default=list(range(10)))
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--again", action="store_true", help="run what is there; the last counts")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.name} and run nothing")
    options = parser.parse_args()
    if options.page:
        PAGE.write_text(page(read(options.results)), encoding="utf-8")
        return
    if options.data is None:
        parser.error("--data names the folder of the data sets (mixed/)")
    jobs = [
        (name, number, method, options.rows)
        for number in options.splits
        for method in options.methods
        for name in options.sets
    ]
    part = partial(split, options.data)
    run_all(jobs, part, METHODS, options.results, options.again, table)


if __name__ == "__main__":
    main()
