"""Level and power of the permutation tests, on data whose answer is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ejop.estimators import EJOP
from ejop.theory import direction_test
from ejop.theory.dimension import tail_tests

#: samples of one run, and permutations of each: the smallest p-value is 1 / 20
REPETITIONS, PERMUTATIONS = 100, 19
ROWS, FEATURES = 150, 4
LEVEL = 0.05


def _rows(rng: np.random.Generator, inputs: str, n: int = ROWS) -> NDArray:
    """Four features: "normal", "correlated" (0.7 with the first) or "skewed"."""
    if inputs == "skewed":
        return rng.exponential(size=(n, FEATURES)) - 1
    X = rng.normal(size=(n, FEATURES))
    if inputs == "correlated":
        X[:, 1:] = 0.7 * X[:, :1] + np.sqrt(1 - 0.7**2) * X[:, 1:]
    return X


def _labels(rng: np.random.Generator, score: NDArray) -> NDArray:
    return (rng.uniform(size=len(score)) < 1 / (1 + np.exp(-score))).astype(int)


def _fixed(inputs: str, second: float = 0.0, **options: Any) -> Callable[[int], bool]:
    """Does the second feature carry something beside the first, which does?"""

    def rejected(seed: int) -> bool:
        rng = np.random.default_rng([1, seed])
        X = _rows(rng, inputs)
        y = _labels(rng, 2 * X[:, 0] + second * X[:, 1])
        estimator = EJOP(bandwidth=1.0, softmax=False)
        v = np.eye(FEATURES)[1]
        test = direction_test(
            X, y, v, estimator=estimator, n_permutations=PERMUTATIONS, random_state=seed, **options
        )
        return bool(test.p_values[0] <= LEVEL)

    return rejected


def _tail(rank: int, strength: float = 2.0, tested: int | None = None) -> Callable[[int], bool]:
    """Is there a direction beyond the first ``tested`` of a model with ``rank`` of them?"""

    def rejected(seed: int) -> bool:
        rng = np.random.default_rng([2, seed])
        X = _rows(rng, "normal", 2 * ROWS)
        y = _labels(rng, strength * (X[:, :rank] ** [1, 2][:rank]).sum(1) - (rank > 1))
        r = rank if tested is None else tested
        p = tail_tests(
            EJOP(random_state=0), X, y, r + 1, PERMUTATIONS, check_random_state(seed), first=r
        )
        return bool(p[r] <= LEVEL)

    return rejected


#: name -> (what, whether the null is true, test of one sample)
SCENARIOS: dict[str, tuple[str, bool, Callable[[int], bool]]] = {
    "direction, normal": ("fixed direction, independent normal inputs", True, _fixed("normal")),
    "direction, skewed": ("fixed direction, exponential inputs", True, _fixed("skewed")),
    "direction, correlated": ("fixed direction, correlation 0.7", True, _fixed("correlated")),
    "direction, correlated, adjust=False": (
        "the same, shuffled as if independent: the null of the shuffle is false",
        False,
        _fixed("correlated", adjust=False),
    ),
    "tail, r = 0": ("labels at random: no direction", True, _tail(0)),
    "tail, r = 1": ("no direction beyond the one there is", True, _tail(1)),
    "tail, r = 2": ("no direction beyond the two there are", True, _tail(2)),
    "power, slope 0.5": ("second feature has a quarter of the slope", False, _fixed("normal", 0.5)),
    "power, slope 1": ("half the slope of the first", False, _fixed("normal", 1.0)),
    "power, slope 2": ("the same slope as the first", False, _fixed("normal", 2.0)),
    "power, tail": ("a second direction, even, beyond one", False, _tail(2, tested=1)),
}


def rejections(name: str, seed: int) -> tuple[float, dict[str, Any]]:
    """Share of rejections in per cent over 100 samples, and their number."""
    what, null, rejected = SCENARIOS[name]
    start = seed * REPETITIONS
    count = sum(rejected(start + i) for i in range(REPETITIONS))
    about = {"what": what, "null": null, "rejected": count, "samples": REPETITIONS}
    return 100 * count / REPETITIONS, about
