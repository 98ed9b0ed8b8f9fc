"""One run of a method on a split of a set, and the list of runs of the suite."""

from __future__ import annotations

import importlib.util
import os
import time
import warnings
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.experiments.runner import versions
from ejop.experiments.store import Key, Run
from ejop.experiments.suite.judging import judged_classes, judged_values
from ejop.experiments.suite.peers import PEERS, FittedMethod, Method, ours
from ejop.experiments.suite.sets import MIXED, QUICK, SETS, SUITE
from ejop.experiments.suite.splits import FIRST_SEED, Split, find, make_split

#: ours: the predictor as it comes, and the neighbours rules under its metric
OURS: dict[str, Method] = {
    "ejop-machines": ours,
    "ejop-knn": partial(ours, rule="knn"),
    "ejop-hnn": partial(ours, rule="hnn"),
}
METHODS: dict[str, Method] = {**OURS, **PEERS}
LABELS = {
    "ejop-machines": "EJOP machines",
    "ejop-knn": "EJOP kNN",
    "ejop-hnn": "EJOP hNN",
    "knn": "kNN",
    "svm": "SVM",
    "forest": "forest",
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "catboost": "CatBoost",
    "xrfm": "xRFM",
}
#: peers that are packages of their own
PACKAGES = ("lightgbm", "xgboost", "catboost", "xrfm")
#: of these a run keeps the versions
VERSIONED = ("pandas", "torch", *PACKAGES)
#: what is told of each run beside its settings
TOLD_WARNINGS = 3
_warm: set[tuple[str, bool]] = set()


def absent_peers() -> list[str]:
    """Peers that are not installed."""
    return [name for name in PACKAGES if importlib.util.find_spec(name) is None]


def quick_sets(data_dir: str | None = None) -> list[str]:
    """Small sets that ship with scikit-learn, and files that are at hand."""
    return [name for name in QUICK if not SETS[name].file or find(SETS[name], data_dir)]


def plan_suite(
    *,
    datasets: Iterable[str] | None = None,
    methods: Iterable[str] | None = None,
    runs: int = 10,
    quick: bool = False,
    data_dir: str | None = None,
) -> list[Key]:
    """Runs of the suite: (set, method, seed), split by split so that all sets fill up.

    Parameters
    ----------
    datasets, methods : iterable of str, optional
        Keep these alone; sets may be those that ship with scikit-learn.
    runs : int, default=10
        Splits, of seeds 1000, 1001, ...
    quick : bool, default=False
        Small sets alone.
    data_dir : str, optional

    Examples
    --------
    >>> from ejop.experiments.suite.contest import plan_suite
    >>> plan_suite(datasets=["wine"], methods=["knn"], runs=2)
    [('wine', 'knn', 1000), ('wine', 'knn', 1001)]
    """
    names = [one.name for one in [*SUITE, *MIXED]]
    if datasets is not None:
        names = list(datasets)
    elif quick:
        names = quick_sets(data_dir)
    wanted = list(METHODS if methods is None else methods)
    seeds = range(FIRST_SEED, FIRST_SEED + runs)
    return [(name, m, seed) for seed in seeds for name in names for m in wanted]


def compute_suite(key: Key, n_neighbors: int | None = None, data_dir: str | None = None) -> Run:
    """One run; ``n_neighbors`` is for other experiments."""
    name, method, seed = key
    part, source = make_split(name, seed, data_dir)
    call = method_for(method, part)
    _warm_once(method, call, part)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        error, found = measured(call, part)
    texts = sorted({f"{w.category.__name__}: {w.message}" for w in told})
    found |= {"source": source, "warnings": texts[:TOLD_WARNINGS], "load": load}
    return Run(
        *key,
        round(error, 6),
        round(found.pop("fit_seconds"), 3),
        round(found.pop("predict_seconds"), 3),
        None,
        found,
        [],
        versions(VERSIONED),
        f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
    )


def method_for(method: str, part: Split) -> Method:
    """A method for arrays, or for the tables of a split."""
    if method in PEERS and not isinstance(part.A, np.ndarray):
        from ejop.experiments.suite import frames

        return frames.PEERS[method]
    return METHODS[method]


def measured(method: Method, part: Split) -> tuple[float, dict[str, Any]]:
    """Fit, predict and judge: the error in per cent, and all else."""
    seconds, cpu, fitted = timed(lambda: method(part.A, part.ya, part.real))
    wait, _, predicted = timed(lambda: fitted.model.predict(part.B))
    found: dict[str, Any] = judged(fitted, np.asarray(predicted).ravel(), part)
    error = found.pop("error")
    found = {name: float(f"{value:.6g}") for name, value in found.items()}
    return error, {
        **found,
        "fit_seconds": seconds,
        "fit_cpu_seconds": round(cpu, 3),
        "predict_seconds": wait,
        "chosen": fitted.chosen,
        "n_train": len(part.A),
        "n_test": len(part.B),
        "n_columns": part.A.shape[1],
        "n_classes": 0 if part.real else int(part.ya.max()) + 1,
    }


def judged(fitted: FittedMethod, predicted: NDArray, part: Split) -> dict[str, Any]:
    """Errors, and how good probabilities are."""
    if part.real:
        return judged_values(predicted, part.yb)
    shares = None if fitted.shares is None else fitted.shares(part.B)
    return judged_classes(predicted, shares, part.yb)


def timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds by the clock, seconds of all threads, and the result."""
    start, used = time.perf_counter(), sum(os.times()[:4])
    result = call()
    return time.perf_counter() - start, sum(os.times()[:4]) - used, result


def warm_up(method: Method, real: bool, table: Callable[[NDArray], Any] = np.asarray) -> None:
    """Import and compile before the clock starts."""
    values = np.random.default_rng(0).normal(size=(200, 4))
    y = values[:, 0] + values[:, 1] if real else (values[:, 0] > 0).astype(int)
    X = table(values)
    method(X, y, real).model.predict(X)


def _warm_once(name: str, method: Method, part: Split) -> None:
    """Warm up once a method, process and kind of target."""
    if (name, part.real) in _warm:
        return
    _warm.add((name, part.real))
    rows = part.A

    def like_rows(values: NDArray) -> Any:
        return values if isinstance(rows, np.ndarray) else type(rows)(values, columns=[*"abcd"])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm_up(method, part.real, like_rows)
