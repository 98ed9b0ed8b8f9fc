"""How near to its own product rate a card passes over rows.

``python -m benchmarks.size_rate [--device cuda]`` makes a pass over 10^6 rows of 28 columns with
20,000 centres, and a square product in float32, and appends a line to ``results/size-rate.jsonl``.
A pass counts 2 d + 4 c + 10 operations an entry: distance, kernel, and the two products with it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.predictor import append
from ejop.experiments.provenance import commit

RESULTS = Path(__file__).parent / "results" / "size-rate.jsonl"
ROWS, COLUMNS, CENTERS, SQUARE, REPEATS = 10**6, 28, 20_000, 8192, 5
#: operations an entry that are not of the columns: of the kernel, and of products with one output
REST = 14


def best(work: Callable[[], Any], wait: Callable[[], None]) -> float:
    """Least seconds of some runs, after one that warms up."""
    found = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        work()
        wait()
        found.append(time.perf_counter() - start)
    return min(found[1:])


def main() -> None:
    import torch

    from ejop.functions import centers_of
    from ejop.sums.conjugate import RowPasses
    from ejop.sums.engine import engines_for

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    kind = np.dtype(np.float32)
    (engine,), _ = engines_for(options.device, np.zeros((1, 1), dtype=kind))
    rng = np.random.default_rng(0)
    held = engine.array(rng.normal(size=(ROWS, COLUMNS)), kind)
    targets = engine.array(rng.normal(size=(ROWS, 1)), kind)
    rows = RowPasses(lambda s, e: (held[s:e], targets[s:e], None), ROWS, float(ROWS))
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    line: dict[str, Any] = {}
    A = torch.ones((SQUARE, SQUARE), dtype=torch.float32, device=held.device)
    product = 2 * SQUARE**3 / best(lambda: A @ A, wait)
    line["product_tflops"] = round(product / 1e12, 1)
    for kernel in ("gaussian", "laplace"):
        centers = centers_of(kernel, held[:CENTERS], 5.0, engine)
        u = engine.array(rng.normal(size=(CENTERS, 1)), kind)
        seconds = best(lambda: rows.correlate(centers, u, against=True), wait)  # noqa: B023
        entries = ROWS * CENTERS / seconds
        share = entries * (2 * COLUMNS + REST) / product
        line[kernel] = {
            "seconds": round(seconds, 4),
            "entries_per_second": round(entries),
            "share_of_product_rate": round(share, 4),
        }
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    versions = report.versions() | {"torch": torch.__version__}
    where = {"device": name, "commit": commit(), "versions": versions}
    append({**line, **where, "date": f"{datetime.now(UTC):%Y-%m-%d}"}, RESULTS)
    print(line)


if __name__ == "__main__":
    main()
