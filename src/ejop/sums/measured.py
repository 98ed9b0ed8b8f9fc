"""Gaussian sums over rows whose distances are measured one by one, where products lose digits.

A product gives |x - z|^2 with the rounding of |x|^2 + |z|^2, which may be more than a small
bandwidth squared: clusters far apart, one row far from all others. Here distances come from
differences of the rows as they are, and weights from differences of distances, so that neither the
place of the rows nor the size of what cancels matters. Slower than products, and never wrong.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ejop._compile import compiled
from ejop.sums.compiled import squared_distance

#: minus the logarithm of a weight, as a share of another, that no sum sees
FADED = 50.0


@compiled(fastmath={"reassoc", "contract"})
def _gap(x, near, far):
    """|x - far|^2 - |x - near|^2, without the square of what the two distances share."""
    total = 0.0
    for j in range(x.shape[0]):
        apart = np.float64(far[j]) - near[j]
        total += apart * ((np.float64(far[j]) - x[j]) + (np.float64(near[j]) - x[j]))
    return total


@compiled()
def measured_distances(Q, X, out):
    """|q - x|^2 (m, n) from differences of the rows."""
    for q in range(Q.shape[0]):
        for i in range(X.shape[0]):
            out[q, i] = squared_distance(Q[q], X[i])


@compiled()
def _candidates(x, X, log_w, skip, half, tilts, squared, rows, logs):
    """Rows that weigh anything at x or at a shift of it, with log weights relative to the first.

    Returns the row they are relative to, -1 where there is none, and how many they are.
    """
    steepest = 0.0
    for j in range(tilts.shape[0]):
        steepest = max(steepest, tilts[j])
    first, best = -1, -np.inf
    for i in range(X.shape[0]):
        squared[i] = squared_distance(x, X[i])
        level = log_w[i] - half * squared[i]
        if i != skip and (level > best or first < 0):
            first, best = i, level
    kept = 0
    if first < 0:
        return first, kept
    radius = math.sqrt(squared[first])
    for i in range(X.shape[0]):
        if i == skip:
            continue
        level = log_w[i] - half * squared[i]
        behind = level - best + 1e-14 * (abs(level) + abs(best)) + FADED
        if behind + steepest * (math.sqrt(squared[i]) + radius) < 0.0:
            continue
        widest = 0.0
        for j in range(tilts.shape[0]):
            widest = max(widest, tilts[j] * abs(np.float64(X[i, j]) - X[first, j]))
        if behind + widest < 0.0:
            continue
        rows[kept] = i
        logs[kept] = log_w[i] - log_w[first] - half * _gap(x, X[first], X[i])
        kept += 1
    return first, kept


@compiled()
def _add_row(w, i, q, column, factor, labels, Y, sums, total):
    """Add a row's weighted target, times a factor, to one column."""
    total[q, column] += w * factor
    if labels.shape[0] > 0:
        sums[labels[i], q, column] += w * factor
    else:
        for k in range(sums.shape[0]):
            sums[k, q, column] += w * factor * Y[i, k]


@compiled()
def _shifted(Q, X, log_w, skip, half, tilts, labels, Y, sums, total, top):
    """Sums at x + t e_j, then at x - t e_j, each over its own largest weight."""
    n, d = X.shape
    squared, logs, moved = np.empty(n), np.empty(n), np.empty(n)
    rows = np.empty(n, dtype=np.int64)
    for q in range(Q.shape[0]):
        x = Q[q]
        first, kept = _candidates(x, X, log_w, skip[q], half, tilts, squared, rows, logs)
        if first < 0:
            continue
        level = log_w[first] - half * squared[first]
        for column in range(2 * d):
            j = column % d
            tilt = tilts[j] if column < d else -tilts[j]
            peak = -np.inf
            for a in range(kept):
                moved[a] = logs[a] + tilt * (np.float64(X[rows[a], j]) - X[first, j])
                peak = max(peak, moved[a])
            for a in range(kept):
                w = math.exp(moved[a] - peak)
                if w > 0.0:
                    _add_row(w, rows[a], q, column, 1.0, labels, Y, sums, total)
            top[q, column] = level + peak + tilt * (np.float64(X[first, j]) - x[j])


@compiled()
def _moments(Q, X, log_w, skip, half, labels, Y, sums, total, top):
    """Sums of [z - x | 1], or of [1] where there is one column."""
    n = X.shape[0]
    squared, logs = np.empty(n), np.empty(n)
    rows = np.empty(n, dtype=np.int64)
    none = np.empty(0)
    last = total.shape[1] - 1
    for q in range(Q.shape[0]):
        x = Q[q]
        first, kept = _candidates(x, X, log_w, skip[q], half, none, squared, rows, logs)
        if first < 0:
            continue
        peak = -np.inf
        for a in range(kept):
            peak = max(peak, logs[a])
        for a in range(kept):
            w, i = math.exp(logs[a] - peak), rows[a]
            for j in range(last):
                _add_row(w, i, q, j, np.float64(X[i, j]) - x[j], labels, Y, sums, total)
            _add_row(w, i, q, last, 1.0, labels, Y, sums, total)
        top[q, 0] = log_w[first] - half * squared[first] + peak


def gaussian_sums(
    Q: NDArray,
    X: NDArray,
    log_w: NDArray,
    labels: NDArray,
    Y: NDArray,
    skip: NDArray,
    h2: float,
    tilts: NDArray | None,
    columns: int,
    nothing: float,
) -> tuple[NDArray, NDArray, NDArray]:
    """Sums (c, m, columns), totals (m, columns) and logarithms of what they were divided by.

    Parameters
    ----------
    Q, X : ndarray of shape (m, n_features) and (n, n_features)
        As they are, in any type.
    log_w : ndarray of shape (n,)
        Logarithms of the weights.
    labels : ndarray of shape (n,) or (0,)
        Classes of one-hot targets.
    Y : ndarray of shape (n, n_outputs)
    skip : ndarray of shape (m,)
        Row that each query leaves out, -1 for none.
    h2 : float
        Squared bandwidth.
    tilts : ndarray of shape (n_features,), or None
        t_j / h^2; None for [z - x | 1] or [1].
    columns : int
    nothing : float
        Logarithm of no weight, where a query has no row.
    """
    m, c = len(Q), Y.shape[1]
    sums, total = np.zeros((c, m, columns)), np.zeros((m, columns))
    half = 0.5 / h2
    if tilts is None:
        top = np.full((m, 1), nothing)
        _moments(Q, X, log_w, skip, half, labels, Y, sums, total, top)
    else:
        top = np.full((m, columns), nothing)
        _shifted(Q, X, log_w, skip, half, tilts, labels, Y, sums, total, top)
    return sums, total, top
