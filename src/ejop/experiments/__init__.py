"""The paper's four tables, computed again: runs, results and how they compare."""

from __future__ import annotations

from collections.abc import Iterable

from ejop.experiments.paper_tables import (
    PAPER,
    PAPER_DATASETS,
    QUICK_DATASETS,
    QUICK_FALLBACK,
    TABLES,
    DataSet,
    PaperTable,
)
from ejop.experiments.store import Key, Results, Run

__all__ = [
    "PAPER",
    "PAPER_DATASETS",
    "TABLES",
    "DataSet",
    "Key",
    "PaperTable",
    "Results",
    "Run",
    "plan_runs",
]


def plan_runs(
    tables: Iterable[str],
    *,
    datasets: Iterable[str] | None = None,
    methods: Iterable[str] | None = None,
    runs: int = 10,
    quick: bool = False,
    data_dir: str | None = None,
) -> list[Key]:
    """Runs that tables need: (data set, method, seed), seed by seed so that all rows fill up.

    Parameters
    ----------
    tables : iterable of {"table1", "table2", "table3", "table4", "all"}
    datasets, methods : iterable of str, optional
        Keep these alone; they may name sets outside the tables, such as "digits".
    runs : int, default=10
        Seeds 0 to runs - 1. MNIST has one split.
    quick : bool, default=False
        Small sets alone: those at hand, or scikit-learn's digits where there are none.
    data_dir : str, optional

    Examples
    --------
    >>> from ejop.experiments import plan_runs
    >>> plan_runs(["table2"], datasets=["usps"], methods=["euclid", "ejop-knn"], runs=1)
    [('usps', 'euclid', 0), ('usps', 'ejop-knn', 0)]
    """
    names = list(TABLES) if "all" in set(tables := list(tables)) else tables
    wanted = None if methods is None else list(methods)
    pairs: dict[tuple[str, str], None] = {}
    for table in (TABLES[name] for name in names):
        rows = list(datasets) if datasets is not None else _rows(table, quick, data_dir)
        columns = [m for m in table.methods if wanted is None or m in wanted]
        pairs.update(dict.fromkeys((d, m) for d in rows for m in columns))
    return [
        (dataset, method, seed)
        for seed in range(runs)
        for dataset, method in pairs
        if seed == 0 or PAPER_DATASETS[dataset].source != "mnist"
    ]


def _rows(table: PaperTable, quick: bool, data_dir: str | None) -> list[str]:
    if not quick:
        return list(table.datasets)
    from ejop.datasets import DATASETS, locate

    sources = {PAPER_DATASETS[name].source for name in table.datasets}
    here = {name for name in sources if locate(DATASETS[name], data_dir) is not None}
    small = [d for d in QUICK_DATASETS if PAPER_DATASETS[d].source in here]
    return small or [QUICK_FALLBACK]
