"""Importances with error bars: how they would differ, had other rows been drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from ejop.executors.threads import in_threads

#: groups of rows that are left out in turn
GROUPS = 10
#: rows that can be left out in two groups
FEWEST = 4
#: rows that are refitted, at the most: of more a sample, whose errors are scaled
MOST_ROWS = 1500
#: draws that tell how sure ranks are
DRAWS = 2000


@dataclass(frozen=True)
class Importances:
    """Shares of the columns, with standard errors.

    The error has two parts. f was estimated: it is fitted again without each group of rows in turn,
    at the settings that were chosen. And its changes were averaged over some rows.

    Attributes
    ----------
    names : list of str
    values : ndarray of shape (n_columns,)
        Shares that sum to one.
    stderr : ndarray of shape (n_columns,)
    refits : ndarray of shape (n_groups, n_columns)
        Shares without each group of rows.
    p_values : ndarray of shape (n_columns,) or None
        Of "this column carries nothing", see :func:`ejop.theory.column_test`; None where no
        permutations were asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop import EGOPRegressor, importances
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> found = importances(EGOPRegressor(random_state=0).fit(X, 2 * X[:, 0] + X[:, 1]))
    >>> found.values.round(1)
    array([0.8, 0.2, 0. ])
    >>> found.frame().columns.tolist()
    ['column', 'importance', 'stderr', 'low', 'high', 'rank', 'sure']
    """

    names: list[str]
    values: NDArray
    stderr: NDArray
    refits: NDArray
    p_values: NDArray | None = None

    def interval(self, coverage: float = 0.9) -> NDArray:
        """Bounds of each share, (n_columns, 2), within 0 and 1."""
        return bounds(self.values, self.stderr, len(self.refits), coverage)

    def ranks(self) -> NDArray:
        """Rank of each column, 1 for the largest share."""
        return _ranks(self.values)

    def sureness(self) -> NDArray:
        """How probable it is that a column keeps its rank in another sample, (n_columns,).

        Refits without a tenth of the rows differ far less than samples do. So the ranks are those
        of normal draws around the shares, with the standard errors and as the refits vary together.
        """
        apart = self.refits - self.refits.mean(0)
        spread = np.sqrt((apart**2).sum(0))
        apart = apart * np.divide(self.stderr, spread, out=np.zeros_like(spread), where=spread > 0)
        steps = np.random.default_rng(0).normal(size=(DRAWS, len(apart)))
        return (_ranks(self.values + steps @ apart) == self.ranks()).mean(0)

    def frame(self, coverage: float = 0.9) -> Any:
        """A table with the largest share first: column, importance, stderr, low, high, rank, sure,
        and p_value where permutations were asked for.

        Returns
        -------
        frame : pandas.DataFrame
        """
        import pandas

        low, high = self.interval(coverage).T
        columns = {
            "column": self.names,
            "importance": self.values,
            "stderr": self.stderr,
            "low": low,
            "high": high,
            "rank": self.ranks(),
            "sure": self.sureness(),
        }
        if self.p_values is not None:
            columns["p_value"] = self.p_values
        return pandas.DataFrame(columns).sort_values("rank", ignore_index=True)


def bounds(values: NDArray, stderr: NDArray, n_groups: int, coverage: float) -> NDArray:
    """Bounds of shares from refits without each of some groups, (..., 2), within 0 and 1."""
    if not 0 < coverage < 1:
        raise ValueError(f"`coverage` must lie between 0 and 1, got {coverage!r}.")
    reach = student.ppf((1 + coverage) / 2, n_groups - 1) * stderr
    return np.clip(np.stack([values - reach, values + reach], axis=-1), 0, 1)


def _ranks(values: NDArray) -> NDArray:
    """Ranks along the last axis, 1 for the largest."""
    return np.argsort(np.argsort(-values, axis=-1, kind="stable"), axis=-1) + 1


def deleted_groups(
    refit: Callable[[NDArray], Any],
    shares: Callable[[Any], NDArray],
    n: int,
    n_groups: int,
    rng: np.random.Generator,
) -> tuple[NDArray, NDArray]:
    """Shares without each group of rows, and the standard error that they tell of, of any shape.

    Parameters
    ----------
    refit, shares : callable
        ``shares(refit(rows))`` are those of a fit to some rows.
    n : int
        Rows; of more than 1,500 a sample is used, and the error is scaled by its size.
    n_groups : int
    rng : numpy.random.Generator
    """
    rows = rng.permutation(n)[:MOST_ROWS]
    groups = np.arange(len(rows)) % n_groups
    kept = [np.sort(rows[groups != g]) for g in range(n_groups)]
    refits = in_threads(refit, kept, operations=n_groups * float(len(rows)) ** 3)
    found = np.array([shares(one) for one in refits])
    squares = ((found - found.mean(0)) ** 2).sum(0) * (n_groups - 1) / n_groups
    return found, np.sqrt(squares * len(rows) / n)
