"""Tables that benchmarks of columns draw: one as people have them, and some with known truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

#: levels of the categories, the gaps of numbers, and the first day of dates
LEVELS = (3, 5, 8, 12, 20, 30, 40, 50, 2000, 2000)
GAPS = 0.05
FIRST_DAY = np.datetime64("2021-01-01")
WORDS = ("late", "order", "paid", "wrong", "size", "return", "sent", "twice", "lost", "call")


# a table as people have them ----------------------------------------------------------------


def mixed_rows(n: int, seed: int = 0) -> pd.DataFrame:
    """Thirty columns: ten numbers with gaps, ten categories, four flags, two dates, two numbers
    written as text, an identifier and free text."""
    rng = np.random.default_rng(seed)
    columns: dict[str, object] = {}
    for j in range(10):
        values = rng.normal(size=n) * 10.0 ** (j % 4)
        columns[f"number{j}"] = np.where(rng.random(n) < GAPS, np.nan, values)
    for j, k in enumerate(LEVELS):
        columns[f"category{j}"] = some_levels(rng, n, k)
    columns |= flags(rng, n)
    days = rng.integers(0, 1000, n)
    columns["day"] = FIRST_DAY.astype("M8[s]") + days * np.timedelta64(86400, "s")
    columns["written_day"] = pd.Series((FIRST_DAY + rng.integers(0, 1000, n)).astype(str))
    prices = np.round(rng.lognormal(6, 1, n), 2)
    columns["price"] = [f"{v:.2f}".replace(".", ",") for v in prices.tolist()]
    swapped = str.maketrans(",.", ".,")
    columns["amount"] = [f"{100 * v:,.2f}".translate(swapped) for v in prices.tolist()]
    columns["customer_id"] = [f"C{k:07d}" for k in rng.permutation(n)]
    columns["remark"] = remarks(rng, n)
    return pd.DataFrame(columns)


def some_levels(rng: np.random.Generator, n: int, k: int) -> NDArray:
    """Levels of which the first are the most frequent."""
    shares = 1 / np.arange(1, k + 1)
    names = np.array([f"level {i}" for i in range(k)], dtype=object)
    return names[rng.choice(k, n, p=shares / shares.sum())]


def flags(rng: np.random.Generator, n: int) -> dict[str, NDArray]:
    return {
        "flag0": rng.random(n) < 0.5,
        "flag1": rng.random(n) < 0.1,
        "flag2": np.where(rng.random(n) < 0.3, "yes", "no").astype(object),
        "flag3": rng.integers(0, 2, n),
    }


def remarks(rng: np.random.Generator, n: int) -> list[str]:
    words = np.array(WORDS, dtype=object)[rng.integers(0, len(WORDS), (n, 5))]
    return [" ".join(row) for row in words.tolist()]


# tables with known truth --------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """A table, its answers, the columns that these depend on, and one that nearly tells them."""

    X: pd.DataFrame
    y: NDArray
    real: bool
    relevant: frozenset[str]
    leak: str | None


def known(seed: int) -> Known:
    """Odd seeds have real targets; half of either kind has a leak, half of these a date."""
    rng = np.random.default_rng(seed)
    n, real, leaks, dated = int(rng.integers(400, 1001)), seed % 2, seed // 2 % 2, seed // 4 % 2
    columns, parts = relevant(rng, n, bool(dated))
    strength = rng.uniform(0.7, 1.3, len(parts))
    f = np.sum([s * (p - p.mean()) / p.std() for s, p in zip(strength, parts, strict=True)], axis=0)
    names = frozenset(columns)
    if real:
        y = f + 0.5 * f.std() * rng.normal(size=n)
    else:
        y = (rng.random(n) < expit(2 * f)).astype(int)
    columns |= irrelevant(rng, n)
    leak = "leak" if leaks else None
    if leak:
        told = y + 0.02 * np.std(y) * rng.normal(size=n) if real else tell(rng, y)
        columns[leak] = told
    order = rng.permutation(list(columns))
    return Known(pd.DataFrame(columns)[list(order)], y, bool(real), names, leak)


def tell(rng: np.random.Generator, y: NDArray) -> NDArray:
    """Classes in other words, wrong once in a hundred."""
    wrong = rng.random(len(y)) < 0.01
    return np.where(np.where(wrong, 1 - y, y), "closed", "open").astype(object)


def relevant(
    rng: np.random.Generator, n: int, dated: bool
) -> tuple[dict[str, NDArray], list[NDArray]]:
    """Two numbers (one bent), a flag, four levels, and a season or a number with gaps."""
    x, z, there = rng.normal(size=n), rng.uniform(-2, 2, n), rng.random(n) < 0.5
    level, of_level = rng.integers(0, 4, n), np.array([-1.2, -0.4, 0.6, 1.0])
    columns = {
        "height": 170 + 10 * x,
        "depth": z,
        "member": np.where(there, "yes", "no").astype(object),
        "region": np.array(["north", "east", "south", "west"], dtype=object)[level],
    }
    parts = [x, np.sin(2 * z), there.astype(float), of_level[level]]
    if dated:
        days = rng.integers(0, 1096, n)
        columns["day"] = (FIRST_DAY + days).astype("M8[s]")
        return columns, [*parts, np.sin(2 * np.pi * days / 365.25)]
    values = rng.normal(size=n)
    columns["income"] = np.where(rng.random(n) < 0.2, np.nan, 1000 * (3 + values))
    return columns, [*parts, values]


def irrelevant(rng: np.random.Generator, n: int) -> dict[str, NDArray]:
    """Three to five numbers, two categories, an identifier and a constant."""
    names = np.array([f"level {i}" for i in range(15)], dtype=object)
    columns = {
        "tail": np.exp(2 * rng.normal(size=n)),
        "unit": 1e9 * rng.normal(size=n),
        "noise": rng.normal(size=n),
        "count": rng.poisson(2, n),
        "evenly": rng.random(n),
    }
    for name in ("count", "evenly")[: int(rng.integers(0, 3))]:
        del columns[name]
    columns["six"] = names[rng.integers(0, 6, n)]
    columns["fifteen"] = names[rng.integers(0, 15, n)]
    columns["code"] = np.array([f"K{k:05d}" for k in rng.permutation(90_000)[:n]], dtype=object)
    columns["constant"] = np.full(n, "same", dtype=object)
    return columns


#: shares of the variance of the log-odds that three columns explain
SHARES = {"sex": 0.66, "class": 0.28, "age": 0.06}


def ship(seed: int, n: int = 891) -> tuple[pd.DataFrame, NDArray]:
    """A linear log-odds model with standard deviation two, whose shares are those above."""
    rng = np.random.default_rng(seed)
    X, parts = passengers(rng, n)
    return X, (rng.random(n) < expit(sum(parts.values()))).astype(int)


def passengers(rng: np.random.Generator, n: int) -> tuple[pd.DataFrame, dict[str, NDArray]]:
    """Rows, and what each column adds to the log-odds."""
    male, rank, age = rng.random(n) < 0.5, rng.integers(1, 4, n), rng.normal(30, 12, n)
    values = {"sex": male.astype(float), "class": rank.astype(float), "age": age}
    parts = {k: -2 * np.sqrt(SHARES[k]) * (v - v.mean()) / v.std() for k, v in values.items()}
    return pd.DataFrame({**values, "sex": np.where(male, "male", "female"), "class": rank}), parts


def true_changes(n: int = 500_000) -> dict[str, float]:
    """Shares in how far the true probabilities change when a column takes another row's value."""
    rng = np.random.default_rng(0)
    _, parts = passengers(rng, n)
    whole, others = sum(parts.values()), rng.permutation(n)
    squares = {
        name: float(np.mean((expit(whole) - expit(whole - part + part[others])) ** 2))
        for name, part in parts.items()
    }
    return {name: square / sum(squares.values()) for name, square in squares.items()}
