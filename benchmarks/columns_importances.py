"""Importances of columns where the truth is known: ours beside a random forest's."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split

from benchmarks import report
from benchmarks.columns_tables import SHARES, Known, known, ship
from benchmarks.common import log, timed
from ejop.experiments.provenance import commit
from ejop.experiments.suite.frames import one_hot
from ejop.experiments.suite.peers import SEED, ours

METHODS = ("ours", "forest, impurity", "forest, permutation")
TREES, REPEATS = 100, 5

Shares = dict[str, float]


def of_ours(X: pd.DataFrame, y: NDArray, real: bool) -> Shares:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # identifiers and constants are left out, and it says so
        model = ours(X, y, real).model
    return dict(zip(X, model.feature_importances_.tolist(), strict=True))


def of_forest(X: pd.DataFrame, y: NDArray, real: bool) -> tuple[Shares, Shares]:
    """By impurity on all rows, and by permutation on a third held out."""
    kind = RandomForestRegressor if real else RandomForestClassifier
    forest, prepare = kind(TREES, n_jobs=1, random_state=SEED), one_hot()
    rows = np.asarray(prepare.fit_transform(X))
    found = prepare[-1].get_feature_names_out()
    columns = [name.split("__", 1)[1].split("_")[0] for name in found]
    impurity = forest.fit(rows, y).feature_importances_
    a, b, ya, yb = train_test_split(rows, y, test_size=1 / 3, random_state=SEED)
    moved = permutation_importance(
        forest.fit(a, ya), b, yb, n_repeats=REPEATS, random_state=SEED
    ).importances_mean
    return by_column(X, columns, impurity), by_column(X, columns, moved)


def by_column(X: pd.DataFrame, columns: list[str], values: NDArray) -> Shares:
    """Sums over the features of each column; zero where it has none."""
    sums = dict.fromkeys(map(str, X), 0.0)
    for name, value in zip(columns, values.tolist(), strict=True):
        sums[name] += value
    return sums


def right(found: Shares, table: Known) -> bool:
    """Whether the leak is first, or without one, the relevant columns are on top."""
    ranked = sorted(found, key=lambda name: -found[name])
    if table.leak:
        return ranked[0] == table.leak
    return set(ranked[: len(table.relevant)]) == table.relevant


def draw(seed: int) -> dict[str, Any]:
    """Importances of one drawn table."""
    table = known(seed)
    seconds, mine = timed(lambda: of_ours(table.X, table.y, table.real))
    impurity, moved = of_forest(table.X, table.y, table.real)
    every = dict(zip(METHODS, (mine, impurity, moved), strict=True))
    return {
        "seed": seed,
        "rows": len(table.X),
        "real": table.real,
        "leak": bool(table.leak),
        "relevant": sorted(table.relevant),
        "right": {m: right(found, table) for m, found in every.items()},
        "importances": {m: {k: round(v, 5) for k, v in f.items()} for m, f in every.items()},
        "seconds": round(seconds, 3),
    }


def draws(record: dict[str, Any], n: int, path: Path) -> None:
    """So many draws, each kept at once; those that are there are not drawn again."""
    done = {each["seed"] for each in record["draws"]}
    for seed in (s for s in range(n) if s not in done):
        found = draw(seed)
        record["draws"].append({**found, "commit": commit()})
        report.write(record, path)
        log(f"draw {seed}, {found['rows']} rows: {found['right']}")


def ships(record: dict[str, Any], n: int, path: Path) -> None:
    """What ours says where shares of the log-odds are known."""
    for seed in range(len(record["ships"]), n):
        X, y = ship(seed)
        found = of_ours(X, y, real=False)
        record["ships"].append({name: round(found[name], 5) for name in SHARES})
        report.write(record, path)
        log(f"ship {seed}: {record['ships'][-1]}")
