"""Columns: how fast they are prepared, and whether importances find those that matter.

``python -m benchmarks.columns`` prepares a million rows of 30 columns beside skrub and
scikit-learn, draws 100 tables whose relevant columns are known, and writes the figures to
``results/<date>-columns-*.json`` and the page ``docs/results/columns.md``. Parts that are there
from the same day are not run again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.columns_importances import draws, ships
from benchmarks.columns_page import PAGE, page
from benchmarks.columns_tables import mixed_rows
from benchmarks.common import in_worker, log
from ejop.experiments.provenance import commit

#: sizes beyond which a preparer takes too long
LARGEST = {"skrub": 100_000}
LIBRARIES = ("pandas", "polars")


# preparers, in a process of their own --------------------------------------------------------


def ours(columns: dict[str, list[str]]) -> Any:
    from ejop.columns import ColumnPreparer

    return ColumnPreparer()


def skrub(columns: dict[str, list[str]], **settings: Any) -> Any:
    from skrub import TableVectorizer

    return TableVectorizer(**settings)


def some_levels(**settings: Any) -> Any:
    """One-hot encoding of as many levels as ours takes."""
    from sklearn.preprocessing import OneHotEncoder

    return OneHotEncoder(
        max_categories=31,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
        **settings,
    )


def scikit_learn(columns: dict[str, list[str]]) -> Any:
    """Numbers and short categories; dates, written numbers and free text are left out."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer

    levels = some_levels()
    numbers = SimpleImputer(strategy="median", add_indicator=True)
    return ColumnTransformer(
        [("numbers", numbers, columns["numbers"]), ("levels", levels, columns["levels"])]
    )


PREPARERS: dict[str, Callable[[dict[str, list[str]]], Any]] = {
    "ours": ours,
    "skrub": skrub,
    "skrub, many levels dropped": lambda columns: skrub(columns, high_cardinality="drop"),
    "skrub, 31 levels": lambda columns: skrub(
        columns, high_cardinality=some_levels(dtype="float32")
    ),
    "scikit-learn, what it takes": scikit_learn,
}


# runs ---------------------------------------------------------------------------------------


def preparation(record: dict[str, Any], sizes: tuple[int, ...], path: Path) -> None:
    """Seconds and memory of each preparer on each library; what is there is not run again."""
    done = {(r["method"], r["library"], r["rows"]) for r in record["runs"]}
    for n in sizes:
        jobs = [
            (method, library, n)
            for method in PREPARERS
            for library in LIBRARIES
            if n <= LARGEST.get(method, n) and (method, library, n) not in done
        ]
        if not jobs:
            continue
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder) / "rows.parquet"
            mixed_rows(n).to_parquet(rows)
            for method, library, _ in jobs:
                found = one(str(rows), method, library)
                run = {"method": method, "library": library, "rows": n, **found}
                record["runs"].append({**run, "commit": commit()})
                report.write(record, path)
                log(f"{method}, {library}, {n} rows: {found}")


def one(path: str, method: str, library: str) -> dict[str, Any]:
    try:
        return in_worker("prepare", path=path, method=method, library=library)
    except subprocess.CalledProcessError as fault:
        return {"fault": f"exit status {fault.returncode}"}


def opened(name: str, empty: dict[str, Any]) -> tuple[dict[str, Any], Path]:
    """The record of today, new or begun before, and its file."""
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    path = report.RESULTS / f"{date}-columns-{name}.json"
    if path.exists():
        return json.loads(path.read_text()), path
    versions = report.versions() | {p: version(p) for p in ("pandas", "polars", "skrub")}
    return {"date": date, "machine": report.machine(), "versions": versions, **empty}, path


def newest(name: str) -> dict[str, Any] | None:
    found = sorted(report.RESULTS.glob(f"*-columns-{name}.json"))
    return json.loads(found[-1].read_text()) if found else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("preparation", "importances", "page")
    parser.add_argument("--only", nargs="+", default=list(parts), choices=parts, metavar="PART")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--rows", nargs="+", type=int, default=[100_000, 1_000_000])
    options = parser.parse_args()
    if "preparation" in options.only:
        record, path = opened("preparation", {"runs": []})
        preparation(record, tuple(options.rows), path)
    if "importances" in options.only:
        record, path = opened("importances", {"draws": [], "ships": []})
        ships(record, options.draws // 5, path)
        draws(record, options.draws, path)
    if "page" in options.only:
        PAGE.write_text(page(newest("preparation"), newest("importances")), encoding="utf-8")


if __name__ == "__main__":
    main()
