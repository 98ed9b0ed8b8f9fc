"""Compiled search of ReliefF: the nearest rows of every class, and what they differ in."""

from __future__ import annotations

import numpy as np

from ejop._compile import compiled

#: rows whose distances are summed together, few enough to stay in cache
_CHUNK = 512
#: distances are multiples of 1 / _GRID, so that sums that differ by rounding alone are equal
_GRID = 2.0**36


@compiled()
def _distances(columns, q, out):
    """L1 distances of row q of the transposed table (d, n) to all rows, on the grid."""
    d, n = columns.shape
    for start in range(0, n, _CHUNK):
        stop = min(start + _CHUNK, n)
        part = out[start:stop]
        part[:] = 0.0
        for j in range(d):
            x = columns[j, q]
            column = columns[j, start:stop]
            for i in range(part.shape[0]):
                part[i] += abs(column[i] - x)
        for i in range(part.shape[0]):
            part[i] = np.floor(part[i] * _GRID + 0.5)


@compiled()
def _nearest(distances, first, last, skip, values, places):
    """The nearest of rows first..last less ``skip``, as many as ``places`` holds; earlier rows win
    ties."""
    k = values.shape[0]
    size = 0
    for i in range(first, last):
        value = distances[i]
        if (size == k and value >= values[k - 1]) or i == skip:
            continue
        if size < k:
            size += 1
        b = size - 1
        while b > 0 and values[b - 1] > value:
            values[b], places[b] = values[b - 1], places[b - 1]
            b -= 1
        values[b], places[b] = value, i
    return size


@compiled()
def relief_sums(X, columns, starts, priors, n_neighbors, first, last):
    """Sum over rows first..last of the ReliefF terms of each feature.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows in [0, 1], sorted by class.
    columns : ndarray of shape (d, n)
        The same, one feature a row: distances to many rows are then sums without gathering.
    starts : ndarray of shape (n_classes + 1,)
        Where each class begins, and n.
    priors : ndarray of shape (n_classes,)
    n_neighbors, first, last : int

    Returns
    -------
    sums : ndarray of shape (d,)
    """
    n, d = X.shape
    n_classes = priors.shape[0]
    sums = np.zeros(d)
    distances = np.empty(n)
    values = np.empty(n_neighbors)
    places = np.empty(n_neighbors, dtype=np.int64)
    own = 0
    for q in range(first, last):
        while q >= starts[own + 1]:
            own += 1
        _distances(columns, q, distances)
        for c in range(n_classes):
            size = _nearest(distances, starts[c], starts[c + 1], q, values, places)
            if size == 0:  # a class of one row has no hits
                continue
            weight = -1.0 if c == own else priors[c] / (1.0 - priors[own])
            for b in range(size):
                near = X[places[b]]
                for j in range(d):
                    sums[j] += weight / size * abs(X[q, j] - near[j])
    return sums
