"""Compiled inner loops on plain arrays.

Each function handles one block of query rows in one thread and releases the interpreter lock; the
engine runs several blocks at a time. Compiled code is cached on disk. Arrays of sums have the
layout (n_outputs, n_queries, n_features).
"""

from __future__ import annotations

import math

import numpy as np

from ejop._compile import compiled

# Sums may be reordered and contracted, which is what lets the loops vectorise; NaN and infinities
# keep their meaning.
_REORDER = {"reassoc", "contract"}


@compiled(inline="always")
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


@compiled(fastmath=_REORDER)
def squared_distance(a, b):
    """|a - b|^2 in float64."""
    total = 0.0
    for j in range(a.shape[0]):
        difference = np.float64(a[j]) - b[j]
        total += difference * difference
    return total


@compiled()
def remeasure(D, Q, X, own, norms, share, far, reach):
    """Squared distances (m, n) by products, measured again where they lost too many digits.

    That is, up to ``share`` of |q|^2 + |x|^2 and, where that sum is over ``far``, up to ``reach``.
    ``own`` (m,) and ``norms`` (n,) are the squared norms of the rows of Q and X once centred.
    """
    for q in range(D.shape[0]):
        for i in range(D.shape[1]):
            scale = own[q] + norms[i]
            limit = share * scale
            if scale > far:
                limit = max(limit, reach)
            if D[q, i] <= limit:
                D[q, i] = squared_distance(Q[q], X[i])


@compiled(fastmath=_REORDER)
def _largest_shift(a, b, step):
    """max_j 2 t_j |a_j - b_j|."""
    largest = 0.0
    for j in range(step.shape[0]):
        largest = max(largest, 2.0 * step[j] * abs(np.float64(a[j]) - b[j]))
    return largest


@compiled(fastmath=_REORDER)
def compact_sums(Q, X, near, labels, Y, weights, step, inv_h2, inner, outer, sums, mass):
    """Un-normalised compact-kernel sums at x + t e_j and x - t e_j for a block of queries.

    ``near`` (m, n) marks the rows that may lie within reach of a shifted query. With ``labels``
    non-empty the targets are one-hot and a row adds to its own class only; otherwise ``Y`` (n, c)
    holds the targets. ``sums`` (c, m, 2 s) and ``mass`` (m, 2 s) receive the sums of weighted
    targets and of weights: s shifts up, then s shifts down.
    """
    m, s = Q.shape[0], step.shape[0]
    n = X.shape[0]
    c = sums.shape[0]
    one_hot = labels.shape[0] > 0
    h2 = 1.0 / inv_h2
    margin = 1e-12 * h2  # rows this near to the rim are looked at feature by feature
    largest_step = step.max()
    both = np.empty(2 * s)
    up, down = both[:s], both[s:]  # one array at an offset would not vectorise
    constant = np.empty(c + 1)
    for q in range(m):
        constant[:] = 0.0
        for i in range(n):
            if not near[q, i]:
                continue
            squared = squared_distance(Q[q], X[i])
            shift = _largest_shift(Q[q], X[i], step)
            if squared - shift > h2 + margin:
                continue  # outside at every shift
            if outer == 0 and squared + shift + largest_step * largest_step < h2 - margin:
                constant[c] += weights[i]  # inside a ball at every shift: the same everywhere
                if one_hot:
                    constant[labels[i]] += weights[i]
                else:
                    for k in range(c):
                        constant[k] += weights[i] * Y[i, k]
                continue
            w = weights[i]
            if outer == 0:  # without branches, so that it vectorises
                for j in range(s):
                    cross = 2.0 * step[j] * (np.float64(Q[q, j]) - X[i, j])
                    base = squared + step[j] * step[j]
                    up[j] = w if base + cross <= h2 else 0.0
                    down[j] = w if base - cross <= h2 else 0.0
            else:
                for j in range(s):
                    cross = 2.0 * step[j] * (np.float64(Q[q, j]) - X[i, j])
                    base = squared + step[j] * step[j]
                    # |x +- t e_j - x_i|^2; rounding must not take it below zero
                    up[j] = w * _profile(max(base + cross, 0.0) * inv_h2, inner, outer)
                    down[j] = w * _profile(max(base - cross, 0.0) * inv_h2, inner, outer)
            for j in range(2 * s):
                mass[q, j] += both[j]
            if one_hot:
                k = labels[i]
                for j in range(2 * s):
                    sums[k, q, j] += both[j]
            else:
                for k in range(c):
                    for j in range(2 * s):
                        sums[k, q, j] += Y[i, k] * both[j]
        for j in range(2 * s):
            mass[q, j] += constant[c]
        for k in range(c):
            for j in range(2 * s):
                sums[k, q, j] += constant[k]


@compiled()
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


@compiled()
def _rank_neighbors(base, moved, sign, k, values, places):
    """Places of the k smallest of base + sign * moved, ties to the earlier, and how many there
    are; ``values`` is scratch."""
    size = 0
    for a in range(base.shape[0]):
        value = base[a] + sign * moved[a]
        if size < k:
            size += 1
        elif value >= values[k - 1]:
            continue
        b = size - 1
        while b > 0 and values[b - 1] > value:
            values[b], places[b] = values[b - 1], places[b - 1]
            b -= 1
        values[b], places[b] = value, a
    return size


@compiled()
def neighbor_sums(Q, X, near, labels, Y, weights, step, k, sums, mass):
    """Sums over the k nearest rows at x + t e_j and x - t e_j, ranking candidates again.

    ``near`` (m, n) must hold the k nearest rows of every shifted query; of fewer, all are summed.
    ``sums`` and ``mass`` are as in :func:`compact_sums`.
    """
    m, d = Q.shape[0], step.shape[0]
    n = X.shape[0]
    values = np.empty(k)
    chosen = np.empty(k, dtype=np.int64)
    for q in range(m):
        found = np.empty(n, dtype=np.int64)
        size = 0
        for i in range(n):
            if near[q, i]:
                found[size] = i
                size += 1
        few = min(k, size)
        if few == 0:
            continue
        squared = np.empty(size)
        shift = np.empty(size)  # the most that any shift can change |x - x_i|^2 - t^2
        for a in range(size):
            squared[a] = squared_distance(Q[q], X[found[a]])
            shift[a] = _largest_shift(Q[q], X[found[a]], step)
        # At every shift the k rows nearest to x keep the k-th value at or below this.
        kth = _kth_smallest(squared.copy(), few - 1)
        ceiling = 0.0
        for a in range(size):
            if squared[a] <= kth:
                ceiling = max(ceiling, squared[a] + shift[a])
        kept = 0
        for a in range(size):
            if squared[a] - shift[a] <= ceiling:
                found[kept], squared[kept] = found[a], squared[a]
                kept += 1
        size = kept
        order, base = found[:size], squared[:size]
        for first in range(0, d, 16):  # a few features at a time stay in cache
            last = min(first + 16, d)
            # |x +- t e_j - x_i|^2 - t^2 = base +- 2 t (x_j - x_ij), a contiguous row per feature
            moved = np.empty((last - first, size))
            for a in range(size):
                for j in range(first, last):
                    moved[j - first, a] = 2.0 * step[j] * (np.float64(Q[q, j]) - X[order[a], j])
            for j in range(first, last):
                row = moved[j - first]
                for side in range(2):
                    few = _rank_neighbors(base, row, 1.0 - 2.0 * side, k, values, chosen)
                    place = side * d + j
                    for b in range(few):
                        i = order[chosen[b]]
                        mass[q, place] += weights[i]
                        if labels.shape[0] > 0:
                            sums[labels[i], q, place] += weights[i]
                        else:
                            for c in range(sums.shape[0]):
                                sums[c, q, place] += weights[i] * Y[i, c]


@compiled()
def weight_cutoffs(K, bits, shift, bias, tolerance, cutoffs, kept):
    """Per query the power of two below which all weights together hold at most ``tolerance``.

    ``bits`` is K (row maxima 1) seen as integers: its exponent field sorts weights into powers of
    two, whose masses are summed and dropped from the smallest up. Returns the largest share of
    mass that is dropped.
    """
    m, n = K.shape
    masses = np.empty(64)
    counts = np.empty(64, dtype=np.int64)
    worst = 0.0
    for q in range(m):
        masses[:] = 0.0
        counts[:] = 0
        for i in range(n):
            b = min(bias - (bits[q, i] >> shift), 63)
            masses[b] += K[q, i]
            counts[b] += 1
        total = masses.sum()
        dropped, b = masses[63], 63  # the last class holds everything below 2^-62
        rows = counts[63]
        while b > 1 and dropped + masses[b - 1] <= tolerance * total:
            b -= 1
            dropped += masses[b]
            rows += counts[b]
        cutoffs[q] = 2.0 ** (1 - b)
        kept[q] = n - rows
        if total > 0.0:
            worst = max(worst, dropped / total)
    return worst


@compiled(fastmath=_REORDER)
def _add_scaled(w, row, out):
    for j in range(row.shape[0]):
        out[j] += w * row[j]


@compiled()
def sparse_products(K, cutoffs, table, labels, Y, sums, total):
    """sum_i K_qi Y_ic table_ij over the weights that reach the query's cut-off.

    With ``labels`` non-empty the targets are one-hot and ``total`` is left alone. A few reference
    rows at a time stay in cache while the queries of the block pass by.
    """
    m, n = K.shape
    one_hot = labels.shape[0] > 0
    for s in range(0, n, 16):
        for q in range(m):
            for i in range(s, min(s + 16, n)):
                w = K[q, i]
                if w < cutoffs[q]:
                    continue
                if one_hot:
                    _add_scaled(w, table[i], sums[labels[i], q])
                else:
                    _add_scaled(w, table[i], total[q])
                    for k in range(sums.shape[0]):
                        _add_scaled(w * Y[i, k], table[i], sums[k, q])


# exp(1/2) r^i / i! with r = x - 1/2: on [0, 1] good to one unit in the last place of float64 (14
# terms) and of float32 (8 terms). Probabilities are all the softmax of a smoother ever sees.
_EXP64 = np.array([math.exp(0.5) / math.factorial(i) for i in range(14)])
_EXP32 = _EXP64[:8].astype(np.float32)


@compiled(fastmath=_REORDER)
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


@compiled(fastmath=_REORDER)
def l1_distances(Q, columns, out):
    """Add sum_j |q_j - z_ij| to ``out`` (m, n); ``columns`` (d, n) are those of the rows z."""
    m, d = Q.shape
    n = columns.shape[1]
    for q in range(m):
        row = out[q]
        for j in range(d):
            x = Q[q, j]
            column = columns[j]
            for i in range(n):
                row[i] += abs(x - column[i])


@compiled(fastmath=_REORDER)
def signed(K, x, z, out):
    """K_qi sign(x_q - z_i) into ``out``."""
    m, n = K.shape
    zero = 0.0 * K[0, 0]
    for q in range(m):
        for i in range(n):
            k = K[q, i]
            out[q, i] = k if x[q] > z[i] else (-k if x[q] < z[i] else zero)


@compiled(fastmath=_REORDER)
def squared_tails(A):
    """sum_{i >= j} A_ji^2 of each row j of a square matrix."""
    n = A.shape[0]
    out = np.zeros(n, dtype=A.dtype)
    for j in range(n):
        total = 0.0 * A[j, j]
        for i in range(j, n):
            total += A[j, i] * A[j, i]
        out[j] = total
    return out


@compiled()
def ranks(X, quantiles, out):
    """Share of its column's quantiles (d, k), ascending, below each value of X (m, d), into
    ``out``: linear between two quantiles, the middle of those that are equal to the value."""
    m, d = X.shape
    k = quantiles.shape[1]
    for i in range(m):
        for j in range(d):
            x, q = X[i, j], quantiles[j]
            if x <= q[0]:
                out[i, j] = 0.0
                continue
            if x >= q[k - 1]:
                out[i, j] = 1.0
                continue
            low, high = 0, k - 1  # q[low] < x < q[high] until one of them is equal
            while high - low > 1:
                middle = (low + high) // 2
                if q[middle] < x:
                    low = middle
                else:
                    high = middle
            if q[high] > x:
                out[i, j] = (low + (x - q[low]) / (q[high] - q[low])) / (k - 1)
                continue
            last = high
            while last < k - 1 and q[last + 1] == x:
                last += 1
            out[i, j] = 0.5 * (high + last) / (k - 1)
