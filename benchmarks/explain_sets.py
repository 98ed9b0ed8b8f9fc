"""Real sets: whether contributions add up, and whose first columns are missed most."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import predictor_data
from benchmarks.explain_methods import by_permutation, by_tree_shap, forest
from benchmarks.predictor import rounded
from ejop.experiments.suite.contest import timed
from ejop.experiments.suite.judging import judged_classes, judged_values
from ejop.experiments.suite.peers import ours

ROWS, EXPLAINED = 1500, 200
#: share of the range of the answer that base and contributions may be off
ALLOWED = 0.01
REMOVED = (1, 2, 3, 5)


def adds(folder: Path, data: str) -> dict[str, Any]:
    """How far base and contributions are from the answers of test rows."""
    part = predictor_data.split(folder, data, 0, ROWS)
    fit, fit_cpu, fitted = timed(lambda: ours(part.A, part.ya, part.real))
    rows = part.B[:EXPLAINED]
    fitted.model.explain(rows[:2])  # what is compiled is compiled before the clock starts
    seconds, cpu, found = timed(lambda: fitted.model.explain(rows))
    span = np.ptp(part.ya) if part.real else 1.0
    off = found.error / span
    return {
        "columns": part.A.shape[1],
        "real": part.real,
        "explained": len(rows),
        "share": float(np.mean(off < ALLOWED)),
        "quantile": float(np.quantile(off, 0.99)),
        "largest": float(off.max()),
        "fit_seconds": rounded(fit),
        "fit_cpu_seconds": rounded(fit_cpu),
        "seconds_100": rounded(100 * seconds / len(rows)),
        "cpu_seconds_100": rounded(100 * cpu / len(rows)),
        "told": f"largest {off.max():.1e} in {seconds:.1f} s",
    }


# deletion -----------------------------------------------------------------------------------


def of_ours(X: NDArray, y: NDArray, real: bool) -> NDArray:
    return ours(X, y, real).model.feature_importances_


def nothing(X: NDArray, y: NDArray, real: bool) -> NDArray:
    return np.random.default_rng(0).uniform(size=X.shape[1])


ORDERS: dict[str, Callable[[NDArray, NDArray, bool], NDArray]] = {
    "ours": of_ours,
    "TreeSHAP": lambda X, y, real: by_tree_shap(X, y, real).values,
    "permutation": lambda X, y, real: by_permutation(X, y, real).values,
    "random": nothing,
}


def deletion(folder: Path, data: str, split: int, order: str) -> dict[str, Any]:
    """Errors of a forest without the first columns of an order; without none for k = 0."""
    part = predictor_data.split(folder, data, split, ROWS)
    values = ORDERS[order](part.A, part.ya, part.real)
    ranked = np.argsort(-values, kind="stable")
    errors = {}
    for k in (0, *REMOVED):
        kept = np.sort(ranked[k:])
        model = forest(part.real).fit(part.A[:, kept], part.ya)
        found = model.predict(part.B[:, kept])
        judged = judged_values if part.real else partial(judged_classes, shares=None)
        errors[str(k)] = rounded(judged(found, y=part.yb)["error"])
    return {"columns": part.A.shape[1], "first": ranked[:5].tolist(), "errors": errors}
