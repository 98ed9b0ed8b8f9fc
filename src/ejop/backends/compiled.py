"""Compiled inner loops on plain arrays, the only place that imports numba.

Each function handles one block of query rows in one thread and releases the interpreter lock; the
engine runs several blocks at a time. Compiled code is cached on disk. Arrays of sums have the
layout (n_outputs,
n_queries, n_features).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# Sums may be reordered and contracted, which is what lets the loops vectorise; NaN and infinities
# keep their meaning.
_REORDER = {"reassoc", "contract"}


@njit(cache=True, nogil=True, inline="always")
def _profile(u2, inner, outer):
    """K at the squared ratio u2 for K(u) = (1 - u^inner)^outer, u <= 1."""
    if u2 > 1.0:
        return 0.0 * u2
    if outer == 0:
        return 0.0 * u2 + 1.0
    if inner == 2:
        base = 1.0 - u2
    elif inner == 1:
        base = 1.0 - math.sqrt(u2)
    else:
        base = 1.0 - u2 * math.sqrt(u2)
    value = base
    for _ in range(outer - 1):
        value *= base
    return value


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _squared_distance(a, b):
    total = 0.0
    for j in range(a.shape[0]):
        total += (a[j] - b[j]) * (a[j] - b[j])
    return total


@njit(cache=True, nogil=True, fastmath=_REORDER)
def compact_sums(Q, X, near, labels, Y, weights, step, inv_h2, inner, outer, plus, minus, mass):
    """Un-normalised compact-kernel sums at x + t e_j and x - t e_j for a block of queries.

    ``near`` (m, n) marks the rows that may lie within reach of a shifted query. With ``labels``
    non-empty the targets are one-hot and a row adds to its own class only; otherwise ``Y`` (n, c)
    holds the
    targets. ``mass`` (2, m, d) receives the sums of kernel weights at both shifts.
    """
    m, d = Q.shape
    n = X.shape[0]
    c = plus.shape[0]
    one_hot = labels.shape[0] > 0
    wp = np.empty(d)
    wm = np.empty(d)
    for q in range(m):
        for i in range(n):
            if not near[q, i]:
                continue
            squared = _squared_distance(Q[q], X[i])
            for j in range(d):
                cross = 2.0 * step[j] * (Q[q, j] - X[i, j])
                base = squared + step[j] * step[j]
                # |x +- t e_j - x_i|^2; rounding must not take it below zero
                wp[j] = weights[i] * _profile(max(base + cross, 0.0) * inv_h2, inner, outer)
                wm[j] = weights[i] * _profile(max(base - cross, 0.0) * inv_h2, inner, outer)
                mass[0, q, j] += wp[j]
                mass[1, q, j] += wm[j]
            if one_hot:
                k = labels[i]
                for j in range(d):
                    plus[k, q, j] += wp[j]
                    minus[k, q, j] += wm[j]
            else:
                for k in range(c):
                    for j in range(d):
                        plus[k, q, j] += Y[i, k] * wp[j]
                        minus[k, q, j] += Y[i, k] * wm[j]


@njit(cache=True, nogil=True)
def _kth_smallest(values, k):
    """Value of rank k (0-based); reorders ``values``."""
    lo, hi = 0, values.shape[0] - 1
    while lo < hi:
        pivot = values[(lo + hi) // 2]
        i, j = lo, hi
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            hi = j
        elif k >= i:
            lo = i
        else:
            break
    return values[k]


@njit(cache=True, nogil=True)
def _add_neighbors(squared, rows, k, labels, Y, weights, out, scratch):
    """Add targets of the k candidates nearest in ``squared`` (ties to the earlier row); returns the
    weight."""
    size = squared.shape[0]
    scratch[:size] = squared
    radius = _kth_smallest(scratch[:size], k - 1)
    ties = k
    for a in range(size):
        if squared[a] < radius:
            ties -= 1
    total = 0.0
    for a in range(size):
        if squared[a] > radius:
            continue
        if squared[a] == radius:
            if ties == 0:
                continue
            ties -= 1
        i = rows[a]
        total += weights[i]
        if labels.shape[0] > 0:
            out[labels[i]] += weights[i]
        else:
            for c in range(out.shape[0]):
                out[c] += weights[i] * Y[i, c]
    return total


@njit(cache=True, nogil=True)
def neighbor_sums(Q, X, near, k, labels, Y, weights, step, plus, minus, mass):
    """Sums over the k nearest rows at x + t e_j and x - t e_j, re-ranking the candidates ``near``
    (m, n).

    The candidates must hold the k nearest rows of every shifted query.
    """
    m, d = Q.shape
    n = X.shape[0]
    rows = np.empty(n, dtype=np.int64)
    base = np.empty(n)
    shifted = np.empty(n)
    scratch = np.empty(n)
    sums = np.empty(plus.shape[0])
    for q in range(m):
        size = 0
        for i in range(n):
            if near[q, i]:
                rows[size] = i
                base[size] = _squared_distance(Q[q], X[i])
                size += 1
        for j in range(d):
            t = step[j]
            for side in range(2):
                sign = 1.0 - 2.0 * side
                for a in range(size):
                    shifted[a] = base[a] + sign * 2.0 * t * (Q[q, j] - X[rows[a], j])
                sums[:] = 0.0
                total = _add_neighbors(
                    shifted[:size], rows[:size], k, labels, Y, weights, sums, scratch
                )
                mass[side, q, j] = total
                out = plus if side == 0 else minus
                for c in range(sums.shape[0]):
                    out[c, q, j] = sums[c]


@njit(cache=True, nogil=True, fastmath=_REORDER)
def normalise(plus, minus, mass, prior):
    """Divide sums by their weight in place; where no row weighs anything take ``prior`` (m, c)."""
    c, m, d = plus.shape
    for q in range(m):
        for side in range(2):
            out = plus if side == 0 else minus
            for k in range(c):
                for j in range(d):
                    total = mass[side, q, j]
                    out[k, q, j] = out[k, q, j] / total if total > 0.0 else prior[q, k]


# exp(1/2) r^i / i! with r = x - 1/2: on [0, 1] good to one unit in the last place of float64 (14
# terms) and of float32 (8 terms). Probabilities are all the softmax of a smoother ever sees.
_EXP64 = np.array([math.exp(0.5) / math.factorial(i) for i in range(14)])
_EXP32 = _EXP64[:8].astype(np.float32)


@njit(cache=True, nogil=True, fastmath=_REORDER)
def softmax_quotient(plus, minus, scale, coefficients):
    """(softmax(plus) - softmax(minus)) * scale over the first axis, into ``plus``, for values
    within [0, 1]."""
    c, m, d = plus.shape
    top = coefficients.shape[0] - 1
    half = coefficients.dtype.type(0.5)
    total_plus = np.empty(d, dtype=plus.dtype)
    total_minus = np.empty(d, dtype=plus.dtype)
    for q in range(m):
        total_plus[:] = 0
        total_minus[:] = 0
        for k in range(c):
            for j in range(d):
                x = plus[k, q, j] - half
                z = minus[k, q, j] - half
                e = coefficients[top]
                f = coefficients[top]
                for i in range(top - 1, -1, -1):
                    e = e * x + coefficients[i]
                    f = f * z + coefficients[i]
                plus[k, q, j] = e
                minus[k, q, j] = f
                total_plus[j] += e
                total_minus[j] += f
        for j in range(d):
            total_plus[j] = scale[j] / total_plus[j]
            total_minus[j] = scale[j] / total_minus[j]
        for k in range(c):
            for j in range(d):
                plus[k, q, j] = plus[k, q, j] * total_plus[j] - minus[k, q, j] * total_minus[j]
    return plus


def softmax_differences(plus, minus, step):
    """Central difference quotient of the softmax of probabilities; overwrites ``plus`` and
    ``minus``."""
    coefficients = _EXP32 if plus.dtype == np.float32 else _EXP64
    scale = (0.5 / step).astype(plus.dtype)
    return softmax_quotient(plus, minus, scale, coefficients)
