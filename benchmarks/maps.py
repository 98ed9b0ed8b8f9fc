"""Linear maps before nearest neighbours: ``python -m benchmarks.maps --data DIR``.

The same pipeline for all, as a user writes it: standardise, map to 2 or 5 columns or as many as
there were, let the five nearest training rows answer. Only the map differs. Rows and splits are
those of ``benchmarks.predictor`` on its nine sets; each finished run is a line of the results file,
and a second call skips what is there. ``--page`` makes the page of the results.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    NeighborhoodComponentsAnalysis,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.common import ROOT, log
from benchmarks.predictor import append, read, run
from benchmarks.predictor_data import NINE, REAL, split
from benchmarks.predictor_page import ROWS, Records, Runs, listed, markdown, number, section
from ejop import EGOP, EJOP
from ejop.experiments.suite.peers import FittedMethod
from ejop.learners import LMNN

RESULTS = Path(__file__).parent / "results" / "maps.jsonl"
PAGE = ROOT / "docs" / "results" / "maps.md"
NEIGHBORS = 5
SEED = 0
#: columns after the map; None is as many as before
RANKS = (2, 5, None)


def ours(rank: int | None, real: bool) -> Any:
    """The outer product of kernel ridge, everything else as it comes."""
    return (EGOP if real else EJOP)("ridge", n_components=rank, random_state=SEED)


#: name -> a map of so many columns; those that know classes alone are not asked of real targets
MAPS = {
    "PCA": lambda rank, real: PCA(rank, random_state=SEED),
    "NCA": lambda rank, real: NeighborhoodComponentsAnalysis(rank, random_state=SEED),
    "LMNN": lambda rank, real: LMNN(n_components=rank, random_state=SEED),
    "EJOP": ours,
}
OF_CLASSES = {"NCA", "LMNN"}


def fitted(name: str, rank: int | None, A: NDArray, y: NDArray, real: bool) -> FittedMethod:
    """Scaler, map and neighbours; the name "plain" has no map."""
    steps = [StandardScaler()]
    if name != "plain":
        steps.append(MAPS[name](rank, real))
    last = (KNeighborsRegressor if real else KNeighborsClassifier)(NEIGHBORS)
    return FittedMethod(make_pipeline(*steps, last).fit(A, y), {})


def method(name: str, rank: int | None) -> str:
    """What a run is called in the results."""
    return name if name == "plain" else f"{name} {rank or 'all'}"


METHODS = {
    "plain": partial(fitted, "plain", None),
    **{method(name, rank): partial(fitted, name, rank) for name in MAPS for rank in RANKS},
}


def applies(name: str, data: str) -> bool:
    """Whether a map can learn from the targets of a set, and is another than none."""
    return name != "PCA all" and not (data in REAL and name.split()[0] in OF_CLASSES)


# the page -----------------------------------------------------------------------------------


def errors(runs: Runs, rank: int | None) -> list[str]:
    """Mean errors of one rank; the lowest of a row is bold."""
    names = ["plain", *(method(name, rank) for name in MAPS if name != "PCA" or rank)]
    lines = []
    for data in NINE:
        found = {m: runs.value(data, m, "error", sorted(runs.splits(data, m))) for m in names}
        best = min(v for v in found.values() if v is not None)
        cells = (f"**{number(v)}**" if v == best else number(v) for v in found.values())
        lines.append([data, *cells])
    return markdown(["set", "plain", *(n.split()[0] for n in names[1:])], lines)


def seconds(runs: Runs) -> list[str]:
    """Mean seconds of all threads that scaler and map took; those of neighbours are small."""
    names = [n for n in METHODS if n != "PCA all"]
    lines = [
        [data]
        + [
            number(runs.value(data, m, "fit_cpu_seconds", sorted(runs.splits(data, m))))
            for m in names
        ]
        for data in NINE
    ]
    return markdown(["set", *names], lines)


def what_ran(records: Records) -> list[str]:
    """Where and when, and what warned."""
    every = list(records.values())
    machine = every[0]["machine"]
    named = ("python", "ejop", "numpy", "scikit-learn", "numba")
    versions = ", ".join(f"{name} {every[0]['versions'][name]}" for name in named)
    warned = {w.split(":")[0] for r in every for w in r["warnings"]}
    return [
        f"- {len(every)} runs of {listed(r['date'] for r in every)} at commit "
        f"{listed(r['commit'] for r in every)}; {sum('fault' in r for r in every)} failed.",
        f"- Machine: {machine['cpu']}, {machine['threads']} threads; {versions}.",
        f"- Others kept the machine busy: seconds of all threads are the steadier ones. Warnings: "
        f"{listed(warned) or 'none'}.",
    ]


def page(records: Records) -> str:
    runs = Runs(records)
    splits = sorted({number for _, number, *_ in records})
    lines = [
        "# Maps before nearest neighbours",
        "",
        "Measured by `python -m benchmarks.maps --data DIR` and told by `--page`. Columns are "
        f"standardised, mapped, and the {NEIGHBORS} nearest training rows answer. Nothing is tuned "
        "for any method. Errors are in per cent: of wrong classes, or of unexplained variance for "
        f"{', '.join(sorted(REAL))}. Training rows are {ROWS}, or 70 % where a set has fewer; "
        f"splits: {listed(map(str, splits))} of the [predictor's page](predictor.md). "
        "*plain* has no map and all columns. NCA is scikit-learn's, LMNN ours, EJOP is "
        '`EJOP("ridge")`, and `EGOP("ridge")` for real targets, which NCA and LMNN do not take.',
        "",
    ]
    for rank in RANKS:
        title = f"{rank} columns" if rank else "As many columns as before"
        lines += [*section(title), *errors(runs, rank)]
    lines += [*section("Seconds of all threads"), *seconds(runs)]
    lines += [*section("What ran"), *what_ran(records)]
    return "\n".join(lines) + "\n"


def warm_up() -> None:
    """Compile before the clock starts."""
    X = np.random.default_rng(SEED).normal(size=(120, 4))
    for name in MAPS:
        fitted(name, 2, X, (X[:, 0] > 0).astype(int), False)
    fitted("EJOP", 2, X, X[:, 0], True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("EJOP_DATA"))
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.name} and run nothing")
    options = parser.parse_args()
    if options.page:
        text = page(read(RESULTS))
        PAGE.write_text(text, encoding="utf-8")
        return
    if options.data is None:
        parser.error("--data names the folder of the data sets (extra/, paper/)")
    done = read(RESULTS)
    warm_up()
    for place in options.splits:
        for name in METHODS:
            for data in NINE:
                job = (data, place, name, ROWS)
                if job in done or not applies(name, data):
                    continue
                record = run(split(options.data, data, place, ROWS), job, METHODS[name])
                append(record, RESULTS)
                told = record.get("fault") or f"{record['error']:.2f}"
                log(f"{data} split {place} {name}: {told} in {record.get('fit_seconds')} s")


if __name__ == "__main__":
    main()
