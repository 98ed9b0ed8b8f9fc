r"""How far f changes when one column takes the value that another row has there.

.. math:: S_j = \tfrac12 E \| f(x) - f(x \text{ with } x_j \text{ of another row}) \|^2

Of a linear f this is the squared slope times the variance of the column, as the diagonal of the
outer product times the variance is. A derivative knows the neighbourhood of a row alone, though: it
is steep where a column with a long tail is dense, and says little of levels, between which there
is nothing. Changes between values that occur suffer from neither, do not depend on units or on how
levels are encoded, and are those of the whole column at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: rows that are changed, at the most
ROWS = 256
#: ``changed(rows, others, groups)`` yields values (m, n_outputs) of rows with each group of columns
#: in turn as those of other rows
Changed = Callable[[NDArray, NDArray, list[NDArray]], Iterable[NDArray]]


@dataclass(frozen=True)
class ColumnChanges:
    """Changes of f, by column.

    Attributes
    ----------
    squares : ndarray of shape (n_rows, n_outputs, n_columns)
        Half the squared change of each output.
    shares : ndarray of shape (n_rows, n_features)
        Share of each feature in the change of its column: equal ones of those that differ.
    groups : ndarray of shape (n_features,)
        Column of each feature.
    """

    squares: NDArray
    shares: NDArray
    groups: NDArray

    @property
    def total(self) -> float:
        """Mean change of all columns together."""
        return float(self.squares.sum((1, 2)).mean())

    def importances(self) -> NDArray:
        """Share of each column, (n_columns,), which sum to one; equal ones where f is flat."""
        if self.total > 0:
            return self.by_output().sum(0)
        used = np.isin(np.arange(self.squares.shape[2]), self.groups)
        return used / used.sum()

    def by_output(self) -> NDArray:
        """Share of each output and column, (n_outputs, n_columns)."""
        return self.squares.mean(0) / (self.total or 1.0)

    def by_feature(self) -> NDArray:
        """Share of each feature, (n_features,); those of a column sum to its own."""
        if not self.total > 0:
            sizes = np.bincount(self.groups)[self.groups]
            return self.importances()[self.groups] / sizes
        by_row = self.squares.sum(1)[:, self.groups] * self.shares
        return by_row.mean(0) / (self.total or 1.0)

    def stderr(self) -> NDArray:
        """Standard error of the importances over rows, (n_columns,)."""
        rows = self.squares.sum(1)
        apart = rows - self.importances() * rows.sum(1, keepdims=True)  # of a ratio of means
        return apart.std(0, ddof=1) / np.sqrt(len(rows)) / (self.total or 1.0)


def column_changes(
    changed: Changed,
    values: NDArray,
    rows: NDArray,
    others: NDArray,
    groups: NDArray,
    n_columns: int,
    units: NDArray | float = 1.0,
) -> ColumnChanges:
    """Change one column at a time.

    Parameters
    ----------
    changed : callable
        See ``Changed``.
    values : ndarray of shape (m, n_outputs)
        Of f at the rows.
    rows, others : ndarray of shape (m, n_features)
        Rows, and for each another whose values it takes.
    groups : ndarray of shape (n_features,)
        Column of each feature.
    n_columns : int
    units : ndarray of shape (n_outputs,) or float, default=1.0
        What each output is divided by.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.explanation import column_changes
    >>> rng = np.random.default_rng(0)
    >>> X, slopes = rng.normal(size=(4000, 3)), np.array([[3.0], [1.0], [0.0]])
    >>> def changed(rows, others, groups):
    ...     for group in groups:
    ...         moved = rows.copy()
    ...         moved[:, group] = others[:, group]
    ...         yield moved @ slopes
    >>> found = column_changes(changed, X @ slopes, X, X[rng.permutation(4000)], np.arange(3), 3)
    >>> found.importances().round(1)
    array([0.9, 0.1, 0. ])
    """
    used = np.unique(groups)
    features = [np.flatnonzero(groups == column) for column in used]
    squares = np.zeros((len(rows), values.shape[1], n_columns))
    for column, found in zip(used, changed(rows, others, features), strict=True):
        squares[:, :, column] = ((found - values) / units) ** 2 / 2
    differ = (rows != others).astype(np.float64)
    counts = differ @ np.eye(n_columns)[groups]
    return ColumnChanges(squares, differ / np.maximum(counts, 1)[:, groups], groups)
