"""Directions of the outer product and pairs of columns, with error bars over deleted groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.explanation._importances import bounds

#: columns that a direction is told by, and the least weight that is told
TOLD, LEAST = 4, 0.1


@dataclass(frozen=True)
class Directions:
    """Directions along which the answer changes, with standard errors.

    f is fitted again without each group of rows in turn, at the settings that were chosen, and so
    is its outer product. How far the machines of the average differ, which have settings of their
    own, joins the errors.

    Attributes
    ----------
    names : list of str
        Of the prepared columns.
    vectors : ndarray of shape (n_prepared, n_directions)
        Of length one, for columns as the model scales them; the largest share first.
    shares : ndarray of shape (n_directions,)
        Of all change of the answer along each.
    stderr : ndarray of shape (n_directions,)
    angles : ndarray of shape (n_directions,)
        Degrees that a direction turns from one sample to another. Directions whose shares are
        about equal turn into one another.
    n_groups : int

    Examples
    --------
    >>> import numpy as np
    >>> from ejop import EGOPRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> found = EGOPRegressor(random_state=0).fit(X, 2 * X[:, 0] - X[:, 1]).directions()
    >>> found.frame()["columns"][0][:3], found.shares.round(2)
    ('x0 ', array([1., 0., 0.]))
    """

    names: list[str]
    vectors: NDArray
    shares: NDArray
    stderr: NDArray
    angles: NDArray
    n_groups: int

    def interval(self, coverage: float = 0.9) -> NDArray:
        """Bounds of each share, (n_directions, 2), within 0 and 1."""
        return bounds(self.shares, self.stderr, self.n_groups, coverage)

    def in_words(self) -> list[str]:
        """The columns of each direction with their weights, the largest first."""
        return [self._words(v) for v in self.vectors.T]

    def _words(self, v: NDArray) -> str:
        order = np.argsort(-np.abs(v).round(6), kind="stable")[:TOLD]
        v = v * np.sign(v[order[0]])
        return ", ".join(f"{self.names[j]} {v[j]:+.2f}" for j in order if abs(v[j]) >= LEAST)

    def frame(self, coverage: float = 0.9) -> Any:
        """A table with the largest share first: direction, share, stderr, low, high, turns,
        columns.

        Returns
        -------
        frame : pandas.DataFrame
        """
        import pandas

        low, high = self.interval(coverage).T
        columns = {
            "direction": np.arange(1, len(self.shares) + 1),
            "share": self.shares,
            "stderr": self.stderr,
            "low": low,
            "high": high,
            "turns": self.angles,
            "columns": self.in_words(),
        }
        return pandas.DataFrame(columns)


@dataclass(frozen=True)
class Interactions:
    """Pairs of columns that change the answer together, with standard errors.

    Strengths are those of :class:`ejop.plots.PairDisplay`.

    Attributes
    ----------
    names : list of str
        Of the columns of the table that are used.
    values : ndarray of shape (n_columns, n_columns)
        Strengths from 0 to 1.
    stderr : ndarray of shape (n_columns, n_columns)
    n_groups : int

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from ejop import EGOPRegressor
    >>> rows, target = load_diabetes(return_X_y=True, as_frame=True)
    >>> machines = EGOPRegressor(random_state=0).fit(rows, target)
    >>> machines.interactions().frame().columns.tolist()
    ['first', 'second', 'strength', 'stderr', 'low', 'high']
    """

    names: list[str]
    values: NDArray
    stderr: NDArray
    n_groups: int

    def interval(self, coverage: float = 0.9) -> NDArray:
        """Bounds of each strength, (n_columns, n_columns, 2), within 0 and 1."""
        return bounds(self.values, self.stderr, self.n_groups, coverage)

    def frame(self, coverage: float = 0.9) -> Any:
        """A table with a row a pair, the strongest first: first, second, strength, stderr, low,
        high.

        Returns
        -------
        frame : pandas.DataFrame
        """
        import pandas

        one, two = np.triu_indices(len(self.names), 1)
        low, high = self.interval(coverage)[one, two].T
        columns = {
            "first": [self.names[i] for i in one],
            "second": [self.names[i] for i in two],
            "strength": self.values[one, two],
            "stderr": self.stderr[one, two],
            "low": low,
            "high": high,
        }
        found = pandas.DataFrame(columns)
        return found.sort_values("strength", ascending=False, kind="stable", ignore_index=True)


def strengths_of(B: NDArray, groups: NDArray, columns: NDArray) -> NDArray:
    """Strength of each pair of columns, (n_columns, n_columns).

    Parameters
    ----------
    B : ndarray of shape (n_features, n_features)
    groups : ndarray of shape (n_features,)
        Column of each feature.
    columns : ndarray of shape (n_columns,)

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.explanation import strengths_of
    >>> strengths_of(np.array([[4.0, 1.0], [1.0, 1.0]]), np.array([0, 1]), np.array([0, 1]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    member = np.equal.outer(groups, columns).astype(np.float64)
    norms = np.sqrt(member.T @ B**2 @ member)
    own = np.sqrt(np.diag(norms))
    whole = np.outer(own, own)
    found = np.divide(norms, whole, out=np.zeros_like(norms), where=whole > 0)
    return np.clip(found, 0, 1)
