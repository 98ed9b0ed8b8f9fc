"""Time and memory as the rows grow, with as many queries as the accuracy needs."""

from __future__ import annotations

import tempfile

import numpy as np

from benchmarks.common import Goal, Row, in_worker, log

LIMIT = 2 * 2**30
PARAMETERS = {"n_queries": "auto", "random_state": 0}


def growth(*, sizes: list[int], d: int, repeats: list[int]) -> list[Row]:
    """A row per size, judged by memory, then the growth exponents of the time."""
    rows = [_one_size(n, d, repeat) for n, repeat in zip(sizes, repeats, strict=True)]
    seconds = [row.ours_seconds for row in rows]
    rows.append(_exponent("least squares of log time on log n", sizes, seconds, d))
    if len(sizes) > 2:
        rows.append(_exponent("between the last two sizes alone", sizes[-2:], seconds[-2:], d))
    return rows


def _one_size(n: int, d: int, repeat: int) -> Row:
    log(f"growth: {n} rows")
    with tempfile.TemporaryDirectory() as folder:
        in_worker("generate", folder=folder, n=n, d=d)
        found = in_worker("fit", folder=folder, parameters=PARAMETERS, repeat=repeat)
    return Row(
        "growth",
        'n_queries="auto"; ratio: peak memory beside the data over the limit',
        f"{n} x {d}, 3 classes, float64",
        found["seconds"],
        limit="2 GiB",
        ratio=found["peak_memory"] / LIMIT,
        goal=Goal("<", 1),
        plan=found["plan"],
        peak_memory=found["peak_memory"],
        remark=f"{found['n_queries']} queries",
    )


def _exponent(what: str, sizes: list[int], seconds: list[float], d: int) -> Row:
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    size = f"{sizes[0]} to {sizes[-1]} x {d}"
    return Row("growth exponent", what, size, ratio=float(slope), goal=Goal("<=", 1.1))
