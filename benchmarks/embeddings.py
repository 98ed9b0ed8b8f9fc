"""A few labels for embeddings: do near rows agree with them? ``python -m benchmarks.embeddings``.

``--data DIR`` holds the sets (``DIR/paper``, ``DIR/extra``). Rows are reduced to 128 columns
without labels. Of a collection 10, 50, 100 or 500 rows are labelled; every method learns a map from
them, and new rows look for their ten nearest among the rest of the collection: the share that is
of their class counts. Draws begin at seed 0; seeds from 1000 on, and other sets, served to choose
defaults. Each finished draw is a line of the results file, a second call skips what is there.
``--page`` writes the page of the results and runs nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import traceback
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import normalize

from benchmarks import report
from benchmarks.common import ROOT, log
from benchmarks.predictor import append, commit, rounded, timed
from ejop import EmbeddingAdapter
from ejop.learners import LMNN
from ejop.neighbors import nearest

RESULTS = Path(__file__).parent / "results" / "embeddings.jsonl"
PAGE = ROOT / "docs" / "results" / "embeddings.md"
SETS = {
    "amazon": "paper/office_caltech_amazon.npz",
    "caltech10": "paper/office_caltech_caltech10.npz",
    "isolet": "paper/isolet.npz",
    "mnist": "paper/mnist.npz",
    "phoneme": "extra/phoneme.npz",
    "usps": "paper/usps.npz",
}
LABELS = (10, 50, 100, 500)
#: columns that are kept, neighbours that count, rows that ask and rows of the collection
WIDTH, NEAR, QUERIES, COLLECTION = 128, 10, 300, 2000
DRAWS = 10
#: mean squared distance of the rows that NCA gets: of 256, 32, 8 and 2 the best on seed 1001
NCA_DISTANCE = 32
Map = Callable[[NDArray], NDArray]
Record = dict[str, Any]


@lru_cache(maxsize=1)
def table(path: Path) -> tuple[NDArray, NDArray]:
    with np.load(path) as file:
        return file["X"].astype(np.float32), file["y"]


class Draw:
    """Rows that are labelled, others of the collection, and rows that ask; of unit length."""

    def __init__(self, folder: Path, name: str, labels: int, seed: int) -> None:
        X, y = table(folder / SETS[name])
        order = np.random.default_rng(seed).permutation(len(X))
        n_queries = min(QUERIES, len(X) // 4)
        ask, rest = order[:n_queries], order[n_queries : n_queries + COLLECTION]
        reached = X[rest].astype(np.float64)
        axes = np.linalg.eigh(reached.T @ reached)[1][:, -WIDTH:]  # not centred: cosines stay
        reduced, asking = reached @ axes, X[ask].astype(np.float64) @ axes
        self.raw = reduced[labels:], asking
        self.seen, self.rest = normalize(reduced[:labels]), normalize(reduced[labels:])
        self.ask = normalize(asking)
        self.labels, self.known, self.asked = y[rest[:labels]], y[rest[labels:]], y[ask]

    def recall(self, base: NDArray, ask: NDArray) -> float:
        """Share of the ten nearest rows that are of the class of the row that asks."""
        _, near = nearest(ask, base, NEAR)
        return float((self.known[near] == self.asked[:, None]).mean())


def whitened(part: Draw, rank: int) -> Map:
    rows = np.vstack([part.seen, part.rest])
    mean = rows.mean(0)
    _, spread, axes = np.linalg.svd(rows - mean, full_matrices=False)
    L = axes[:rank] / np.maximum(spread[:rank, None], 1e-12)
    return lambda X: (X - mean) @ L.T


def nca(part: Draw) -> Map:
    unit = np.sqrt(2 * part.rest.var(0).sum() / NCA_DISTANCE)
    found = NeighborhoodComponentsAnalysis(random_state=0, max_iter=100)
    found.fit(part.seen / unit, part.labels)
    return lambda X: found.transform(X / unit)


def lmnn(part: Draw) -> Map:
    return LMNN(random_state=0).fit(part.seen, part.labels).transform


def run(part: Draw) -> Record:
    """Recall and CPU seconds of every method on one draw."""
    recall: dict[str, float] = {"raw": part.recall(*part.raw)}
    recall["cosine"] = part.recall(part.rest, part.ask)
    seconds, faults, more = dict[str, float](), dict[str, str](), Record()
    for name, learn in {
        "whitening": lambda p: whitened(p, WIDTH),
        "whitening 64": lambda p: whitened(p, 64),
        "NCA": nca,
        "LMNN": lmnn,
    }.items():
        try:
            _, seconds[name], L = timed(lambda learn=learn: learn(part))
            recall[name] = part.recall(L(part.rest), L(part.ask))
        except Exception:
            faults[name] = traceback.format_exc(limit=0)
    adapter = EmbeddingAdapter(random_state=0)
    _, seconds["ours"], _ = timed(lambda: adapter.fit(part.seen, part.labels, part.rest))
    near, ask = adapter.transform(part.rest), adapter.transform(part.ask)
    for title, rank in {"ours": WIDTH, "ours 64": 64, "ours 16": 16}.items():
        recall[title] = part.recall(near[:, :rank], ask[:, :rank])
    more["shrinkage"] = adapter.shrinkage_
    return {"recall": recall, "cpu_seconds": seconds, "faults": faults, **more}


def key(record: Record) -> tuple[str, int, int]:
    return record["data"], record["labels"], record["draw"]


def read(path: Path) -> dict[tuple[str, int, int], Record]:
    """Records by set, labels and draw; of several the last."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {key(r): r for r in map(json.loads, lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("EJOP_DATA"))
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS), metavar="SET")
    parser.add_argument("--labels", nargs="+", type=int, default=list(LABELS))
    parser.add_argument("--draws", nargs="+", type=int, default=list(range(DRAWS)))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.name} and run nothing")
    options = parser.parse_args()
    if options.data is None and not options.page:
        parser.error("--data names the folder of the data sets (paper/, extra/)")
    done = read(options.results)
    jobs = [
        (name, labels, draw)
        for draw in options.draws
        for name in options.sets
        for labels in options.labels
    ]
    about = {"machine": report.machine(), "versions": report.versions()}
    for job in [] if options.page else jobs:
        if job in done:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = run(Draw(options.data, *job))
        names = dict(zip(("data", "labels", "draw"), job, strict=True))
        plain = {k: {m: rounded(v) for m, v in found[k].items()} for k in ("recall", "cpu_seconds")}
        line = {**names, **found, **plain, "commit": commit(), **about}
        append({**line, "date": f"{datetime.now(UTC):%Y-%m-%d}"}, options.results)
        log(f"{job}: {plain['recall']} {found['shrinkage']}")
    if options.results == RESULTS:
        from benchmarks.embeddings_page import page

        PAGE.write_text(page(list(read(RESULTS).values())), encoding="utf-8")


if __name__ == "__main__":
    main()
