"""In how many rows of the paper's tables one pass of EJOP is the lowest of all methods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ejop.experiments.paper_tables import TABLES
from ejop.experiments.result_table import ResultTable

#: EJOP without an optimiser as it comes, by the rules that answer, and with other estimates of f
DEFAULTS = ("ejop-machines", "ejop-knn", "ejop-hnn")
ONE_SHOT = (*DEFAULTS, "ridge-knn", "ridge-hnn", "paper-knn", "paper-hnn")


def lowest_rows(lines: Iterable[Any]) -> ResultTable:
    """Which method is the lowest of each row, and how one-shot EJOP compares.

    Parameters
    ----------
    lines : iterable of Line
        Cells of the tables; a row counts once, however many tables it is in.
    """
    rows: dict[str, dict[str, Any]] = {}
    for line in lines:
        if line.dataset in TABLES["table2"].datasets:
            rows.setdefault(line.dataset, {})[line.method] = line
    cells, as_it_comes = [], 0
    for dataset, found in rows.items():
        mine = _lowest(found, ONE_SHOT)
        other = _lowest(found, [name for name in found if name not in ONE_SHOT])
        default = _lowest(found, DEFAULTS)
        if mine is None or other is None or default is None:
            continue
        as_it_comes += default.error <= other.error
        shown = [f"{line.label} {line.error:.2f}" for line in (default, mine, other)]
        gap = mine.error - other.error
        cells.append([dataset, *shown, f"{gap:+.2f}", "yes" if gap <= 0 else "no"])
    wins = sum(row[-1] == "yes" for row in cells)
    header = ["data", "EJOP as it comes", "lowest of one-shot EJOP", "lowest of the others"]
    remark = (
        f"One-shot EJOP (no optimiser) is the lowest of all methods, ties included, in {wins} of "
        f"{len(cells)} rows with any estimate of f, and in {as_it_comes} with the one that comes "
        "with it. The best rule of a row is known after the fact, on both sides; the learners "
        "count with both starts."
    )
    header += ["difference", "lowest"]
    return ResultTable("Rows where one-shot EJOP is the lowest", header, cells, [remark])


def _lowest(found: dict[str, Any], methods: Iterable[str]) -> Any:
    """The line with the lowest mean error among some methods, the first of equal ones, or None."""
    here = [found[name] for name in methods if name in found]
    return min(here, key=lambda line: line.error, default=None)
