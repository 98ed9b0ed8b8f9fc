"""Tables of which some columns matter and others do not, and who tells them apart."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from benchmarks.explain_bars import friedman_1
from benchmarks.explain_methods import METHODS
from benchmarks.predictor import rounded

RELEVANT = 5
#: columns -> rows
SIZES = {10: 400, 25: 400, 100: 600}
CORRELATION = 0.7
#: standard deviation of the noise, that of the answer without it being one
NOISE = 0.5
KERNEL_SHAP_DRAWS, KERNEL_SHAP_COLUMNS = 3, 25


def additive(Z: NDArray, rng: np.random.Generator) -> NDArray:
    return Z @ (rng.uniform(0.5, 1.5, RELEVANT) * rng.choice([-1, 1], RELEVANT))


def multi_index(Z: NDArray, rng: np.random.Generator) -> NDArray:
    """Of two directions that all five columns share."""
    a, b = (Z @ np.linalg.qr(rng.normal(size=(RELEVANT, 2)))[0]).T
    return a + np.sin(2 * a) + b**2


def friedman(Z: NDArray, rng: np.random.Generator) -> NDArray:
    return friedman_1(norm.cdf(Z))


def friedman_2(Z: NDArray, rng: np.random.Generator) -> NDArray:
    """Like Friedman's second function, with ranges in which all columns matter."""
    a, b, c, d, e = norm.cdf(Z).T
    b, d = 0.2 + 1.8 * b, 1 + 10 * d
    return np.sqrt(a**2 + (b * c - 1 / (b * d)) ** 2) + e / 2


def products(Z: NDArray, rng: np.random.Generator) -> NDArray:
    return Z[:, 0] * Z[:, 1] + Z[:, 2] * Z[:, 3] + Z[:, 4]


def flags(Z: NDArray, rng: np.random.Generator) -> NDArray:
    """Parities of two and of three flags; no flag tells anything alone."""
    signs = np.sign(Z)
    return signs[:, :2].prod(1) + signs[:, 2:].prod(1)


FAMILIES = {
    "additive": additive,
    "multi-index": multi_index,
    "Friedman 1": friedman,
    "Friedman 2, like": friedman_2,
    "products": products,
    "parities of flags": flags,
}
#: the family that is shown beside the others and not counted
APART = "parities of flags"


def table(
    family: str, columns: int, correlated: bool, real: bool, draw: int
) -> tuple[NDArray, NDArray, NDArray]:
    """Rows, targets, and which columns matter, at random places."""
    place = list(FAMILIES).index(family)
    rng = np.random.default_rng([draw, place, columns, correlated, real])
    Z = rng.normal(size=(SIZES[columns], columns))
    if correlated:
        for j in range(1, columns):
            Z[:, j] = CORRELATION * Z[:, j - 1] + np.sqrt(1 - CORRELATION**2) * Z[:, j]
    places = rng.permutation(columns)[:RELEVANT]
    f = FAMILIES[family](Z[:, places], rng)
    y = (f - f.mean()) / f.std() + NOISE * rng.normal(size=len(f))
    X = (Z > 0).astype(float) if family == APART else Z
    matters = np.isin(np.arange(columns), places)
    return X, (y if real else (y > np.median(y)).astype(int)), matters


def runs(method: str, columns: int, correlated: bool, real: bool, draw: int) -> bool:
    """Whether a method takes such a table; KernelSHAP is slow and gets every second one."""
    if method == "KernelSHAP":
        few = columns <= KERNEL_SHAP_COLUMNS and draw < KERNEL_SHAP_DRAWS
        return few and correlated == bool(draw % 2)
    return method != "ReliefF" or not real


def jobs(n: int) -> list[dict[str, Any]]:
    """One draw of every kind of table in turn, the widest last."""
    kinds = [
        {"family": f, "columns": d, "correlated": c, "real": r}
        for d in SIZES
        for f in FAMILIES
        for c in (False, True)
        for r in (False, True)
    ]
    found = [{**kind, "draw": k, "method": m} for k in range(n) for kind in kinds for m in METHODS]
    return [j for j in found if runs(**{k: v for k, v in j.items() if k != "family"})]


def pairs() -> list[dict[str, Any]]:
    """Ours and KernelSHAP on the tables of the latter, for their seconds."""
    slow = [job for job in jobs(KERNEL_SHAP_DRAWS) if job["method"] == "KernelSHAP"]
    return [{**job, "method": m} for job in slow for m in ("ours", "KernelSHAP")]


@lru_cache
def warm() -> None:
    """Import and compile before the clock starts."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    for name, method in METHODS.items():
        for real in (False, True):
            if runs(name, 10, False, real, 0):
                method(X, X[:, 0] if real else (X[:, 0] > 0).astype(int), real)


def draw(
    family: str, columns: int, correlated: bool, real: bool, draw: int, method: str
) -> dict[str, Any]:
    """How well a method tells the columns that matter from the others, and how long it takes."""
    warm()
    X, y, matters = table(family, columns, correlated, real, draw)
    found = METHODS[method](X, y, real)
    area = float(roc_auc_score(matters, found.values))
    return {
        "auc": rounded(area),
        "fit_cpu_seconds": rounded(found.fit),
        "after_cpu_seconds": rounded(found.after),
        "told": f"{area:.3f} in {found.fit:.1f} + {found.after:.1f} s",
    }
