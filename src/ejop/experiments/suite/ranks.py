"""How methods compare over many sets: mean ranks, the critical difference, pairs.

After J. Demsar, Statistical comparisons of classifiers over multiple data sets, Journal of Machine
Learning Research 7 (2006): the Friedman test and Nemenyi's critical difference of mean ranks. As
mean ranks of two methods depend on the others, pairs are also judged alone, by Wilcoxon's
signed-rank test with Holm's correction (A. Benavoli, G. Corani, F. Mangili, Should we really use
post-hoc tests based on mean-ranks?, same journal 17, 2016).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import friedmanchisquare, rankdata, studentized_range, wilcoxon

LEVEL = 0.05
#: added to an error in per cent before logarithms, so that a set without errors does not decide
OFFSET = 0.1


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of methods over sets.

    Attributes
    ----------
    methods : list of str
        From the lowest mean rank to the highest.
    ranks : ndarray of shape (n_methods,)
    n_sets : int
    difference : float
        Mean ranks that differ by less may be those of equal methods (Nemenyi, 5 %).
    p_value : float
        Of the Friedman test that all methods are equal; NaN for fewer than three.
    """

    methods: list[str]
    ranks: NDArray
    n_sets: int
    difference: float
    p_value: float

    def groups(self) -> list[tuple[int, int]]:
        """First and last of each longest row of methods closer than the critical difference."""
        found: list[tuple[int, int]] = []
        for i, rank in enumerate(self.ranks):
            last = int(np.flatnonzero(self.ranks <= rank + self.difference)[-1])
            if last > i and (not found or last > found[-1][1]):
                found.append((i, last))
        return found


def critical_difference(n_methods: int, n_sets: int, level: float = LEVEL) -> float:
    """Nemenyi's critical difference of mean ranks.

    Examples
    --------
    Demsar (2006), section 3.2.2: four methods on 14 sets.

    >>> from ejop.experiments.suite.ranks import critical_difference
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    q = studentized_range.ppf(1 - level, n_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_sets)))


def rank(errors: NDArray, methods: list[str]) -> Ranking:
    """Mean ranks of the columns of ``errors`` (n_sets, n_methods); ties share their ranks."""
    means = rankdata(errors, axis=1).mean(0)
    order = np.argsort(means, kind="stable")
    p = float(friedmanchisquare(*errors.T)[1]) if len(methods) > 2 and len(errors) > 1 else np.nan
    return Ranking(
        [methods[i] for i in order],
        means[order],
        len(errors),
        critical_difference(len(methods), len(errors)),
        p,
    )


def signed_rank(a: NDArray, b: NDArray) -> float:
    """p-value of Wilcoxon's signed-rank test for log errors in per cent, two-sided."""
    gaps = np.log(np.asarray(a) + OFFSET) - np.log(np.asarray(b) + OFFSET)
    if not gaps.any():
        return 1.0
    return float(wilcoxon(gaps, zero_method="zsplit", method="asymptotic").pvalue)


def holm(p_values: list[float]) -> list[float]:
    """Holm's correction of several p-values.

    Examples
    --------
    >>> from ejop.experiments.suite.ranks import holm
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    found, largest = [0.0] * len(p_values), 0.0
    for left, i in zip(range(len(p_values), 0, -1), np.argsort(p_values), strict=True):
        largest = min(1.0, max(largest, left * p_values[i]))
        found[i] = largest
    return found


def ratio(a: NDArray, b: NDArray) -> float:
    """Geometric mean of one method's errors over another's.

    Examples
    --------
    >>> from ejop.experiments.suite.ranks import ratio
    >>> round(ratio([0.9, 3.9], [1.9, 1.9]), 3)
    1.0
    """
    gaps = np.log(np.asarray(a) + OFFSET) - np.log(np.asarray(b) + OFFSET)
    return float(np.exp(gaps.mean()))
