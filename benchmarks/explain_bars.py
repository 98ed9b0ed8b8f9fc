"""How often the intervals of importances hold what many rows give."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.experiments.suite.peers import ours

COVERAGE = 0.9
#: standard errors to each side of an interval over rows alone
REACH = 1.645
ROWS, MANY_ROWS, LARGE_DRAWS = 300, 4000, 2
#: numbers of draws that serve as the large sample, away from the others
FIRST_LARGE = 100_000
#: rows that say how far the true function changes
TRUE_ROWS = 200_000
Table = tuple[NDArray, NDArray, bool]


def halves(n: int, rng: np.random.Generator) -> Table:
    X = rng.normal(size=(n, 4))
    return X, X[:, 0] + X[:, 1] + rng.normal(size=n), True


def logistic(n: int, rng: np.random.Generator) -> Table:
    X = rng.normal(size=(n, 6))
    return X, (rng.uniform(size=n) < chance(X)).astype(int), False


def chance(X: NDArray) -> NDArray:
    return 1 / (1 + np.exp(-2 * X[:, 0] - X[:, 1]))


def friedman_1(u: NDArray) -> NDArray:
    """Friedman's first function of five columns in [0, 1]."""
    bent = 10 * np.sin(np.pi * u[:, 0] * u[:, 1]) + 20 * (u[:, 2] - 0.5) ** 2
    return bent + 10 * u[:, 3] + 5 * u[:, 4]


def friedman(n: int, rng: np.random.Generator) -> Table:
    X = rng.uniform(size=(n, 8))
    return X, friedman_1(X) + rng.normal(size=n), True


#: family -> how it is drawn, and how many columns matter, the first ones
FAMILIES = {"halves": (halves, 2), "logistic": (logistic, 2), "friedman 1": (friedman, 5)}
#: family -> what the answers are drawn around
TRUE_FUNCTIONS = {"halves": lambda X: X[:, 0] + X[:, 1], "logistic": chance}
TRUE_FUNCTIONS["friedman 1"] = friedman_1


def jobs(n: int) -> list[dict[str, Any]]:
    """One draw of each family in turn."""
    return [{"family": f, "draw": k} for k in range(n) for f in FAMILIES]


def large_jobs() -> list[dict[str, Any]]:
    """The large samples."""
    return [{"family": f, "draw": FIRST_LARGE + k} for f in FAMILIES for k in range(LARGE_DRAWS)]


def large(family: str, draw: int) -> dict[str, Any]:
    """Importances of many rows, all of them changed, and those of the true function."""
    make, _ = FAMILIES[family]
    X, y, real = make(MANY_ROWS, np.random.default_rng(draw))
    changes = ours(X, y, real).model.column_changes(MANY_ROWS)
    return {
        "values": changes.importances().round(6).tolist(),
        "true": true_importances(family).round(6).tolist(),
    }


def true_importances(family: str) -> NDArray:
    """Shares of the changes of the function that the answers are drawn around."""
    make, _ = FAMILIES[family]
    f = TRUE_FUNCTIONS[family]
    rows, others = (make(TRUE_ROWS, np.random.default_rng(k))[0] for k in range(2))
    squares = []
    for j in range(rows.shape[1]):
        moved = rows.copy()
        moved[:, j] = others[:, j]
        squares.append(((f(moved) - f(rows)) ** 2).mean())
    return np.array(squares) / np.sum(squares)


def draw(family: str, draw: int) -> dict[str, Any]:
    """Importances of a draw, with bounds, and the standard errors over rows alone."""
    make, _ = FAMILIES[family]
    model = ours(*make(ROWS, np.random.default_rng(draw))).model
    found = model.importances()
    return {
        "values": found.values.round(6).tolist(),
        "interval": found.interval(COVERAGE).round(6).tolist(),
        "stderr_rows": model.column_changes().stderr().round(6).tolist(),
    }
