"""Rows as points to draw: where they lie, which of them, and what they are coloured by."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target

from ejop.plots.fitted import Fitted


def project(source: Fitted, Z: NDArray) -> tuple[NDArray, NDArray]:
    """Scaled rows on the leading directions of the metric and on their principal components.

    Parameters
    ----------
    source : Fitted
    Z : ndarray of shape (n_samples, n_features)

    Returns
    -------
    after, before : ndarray of shape (n_samples, 2), or (n_samples, 1) for one direction
    """
    after = Z @ source.components[:2].T
    centred = Z - Z.mean(0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    axes = directions[:, ::-1][:, : after.shape[1]]
    largest = np.abs(axes).argmax(0)  # signs that do not depend on the machine
    signs = np.sign(axes[largest, np.arange(axes.shape[1])])
    return after, centred @ (axes * np.where(signs == 0, 1, signs))


def thinned(n: int, most: int, random_state: Any = 0) -> NDArray:
    """All row numbers, or so many at random in order."""
    if n <= most:
        return np.arange(n)
    return np.sort(check_random_state(random_state).choice(n, most, replace=False))


def strip(n: int, place: int) -> NDArray:
    """Heights around a place, spread so that points of a class do not hide one another."""
    golden = 0.618033988749895  # even spread for any number of points, and no random state
    return place + 0.6 * ((np.arange(n) * golden) % 1 - 0.5)


def target_column(y: ArrayLike, n: int) -> NDArray:
    """One target per row as an array (n,), or an error that says how many there are."""
    column = np.asarray(y)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.shape != (n,):
        raise ValueError(
            f"`y` has shape {column.shape} and there are {n} rows; ({n},) is expected: of several "
            "outputs pass one."
        )
    return column


def is_real(y: NDArray | None) -> bool:
    """Whether targets are real numbers, not classes."""
    return y is not None and type_of_target(y) == "continuous"
