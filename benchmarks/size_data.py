"""Tables of any number of rows: two synthetic families of 28 columns, and the large real sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

COLUMNS = 28
#: standard deviation of the noise of real targets, that of the answer without it being one
NOISE = 0.3
#: steepness of the chance of a class in the answer
STEEP = 4.0
TEST_ROWS = 100_000
CHUNK = 1_000_000
#: set of ``DIR`` -> rows that are left for training once others test
REAL = {"paper/letter": 16_000, "extra/ailerons": 11_000, "paper/mnist": 60_000}
Table = tuple[NDArray, NDArray]


def multi_index(X: NDArray) -> NDArray:
    """An answer that depends on three directions, each a mixture of all columns."""
    V = np.linalg.qr(np.random.default_rng(7).normal(size=(COLUMNS, 3)))[0].astype(np.float32)
    a, b, c = (X @ V).T
    return np.sin(2 * a) + 0.5 * b * c + np.abs(b)


def checkerboard(X: NDArray) -> NDArray:
    """A board of four by four fields on two columns, and a slope along a third."""
    u = 2 * np.arctan(X[:, :2]) / np.pi
    board = np.where((np.floor(2 * u) % 2).sum(1) % 2 == 0, 1.0, -1.0)
    return board + 0.5 * X[:, 2]


FAMILIES = {"multi-index": multi_index, "checkerboard": checkerboard}
#: mean and standard deviation of the answers, of a million rows
UNITS = {"multi-index": (0.797, 1.054), "checkerboard": (0.0, 1.118)}


def synthetic(family: str, n: int, real: bool, seed: int) -> Table:
    """Rows in float32, and real targets or two classes, a million rows at a time."""
    parts = [
        _part(family, min(CHUNK, n - s), real, np.random.default_rng([seed, s]))
        for s in range(0, n, CHUNK)
    ]
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def _part(family: str, n: int, real: bool, rng: np.random.Generator) -> Table:
    X = rng.normal(size=(n, COLUMNS)).astype(np.float32)
    mean, spread = UNITS[family]
    f = (FAMILIES[family](X) - mean) / spread
    if real:
        return X, f + NOISE * rng.normal(size=n)
    return X, (rng.uniform(size=n) < 1 / (1 + np.exp(-STEEP * f))).astype(np.int64)


def real_set(
    folder: Path, name: str, n: int, seed: int
) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Training rows of a real set, and the others for a test: A, a, B, b."""
    with np.load(folder / f"{name}.npz") as z:
        X, y = z["X"].astype(np.float32), z["y"]
    order = np.random.default_rng(seed).permutation(len(X))
    seen, held = order[:n], order[n:] if n < len(X) else order[:0]
    return X[seen], y[seen], X[held], y[held]
