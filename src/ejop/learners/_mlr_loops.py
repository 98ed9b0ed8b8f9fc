"""Compiled inner loops of MLR: interleavings of a ranking, and its small quadratic problem.

A ranking of P relevant and N irrelevant items, each sorted by score from high to low, is given by
``before`` (P,): how many irrelevant items precede each relevant one, a rising staircase.
"""

from __future__ import annotations

import numpy as np

from ejop._compile import compiled


@compiled()
def best_staircase(relevant, irrelevant, level, slope):
    """Staircase of largest value when each irrelevant item can choose its place alone.

    Putting the j-th irrelevant item before the relevant items i, ..., P (counted from 1) is worth
    ``level[i + j - 1] + j * slope[i + j - 1]``, up to a term of j alone, plus the score
    differences 2 (s_j - s_k) / (P N) of k = i, ..., P. Where the worth of one inversion falls with
    j, the best i rises with j: the search halves the range, O((P + N) log N) instead of O(P N).
    """
    P, N = relevant.shape[0], irrelevant.shape[0]
    weight = 2.0 / (P * N)
    tail = np.zeros(P + 2)  # tail[i]: sum of relevant scores from the i-th on
    for i in range(P, 0, -1):
        tail[i] = tail[i + 1] + relevant[i - 1]
    first = np.empty(N + 2, dtype=np.int64)  # first relevant item after the j-th irrelevant one
    first[0], first[N + 1] = 1, P + 1
    stride = 1
    while 2 * stride <= N:
        stride *= 2
    while stride >= 1:
        for j in range(stride, N + 1, 2 * stride):
            best = -np.inf
            for i in range(first[j - stride], first[min(j + stride, N + 1)] + 1):
                worth = level[i + j - 1] + j * slope[i + j - 1]
                worth += weight * ((P - i + 1) * irrelevant[j - 1] - tail[i])
                if worth > best:
                    best, first[j] = worth, i
        stride //= 2
    before = np.zeros(P, dtype=np.int64)
    for j in range(1, N + 1):
        if first[j] <= P:
            before[first[j] - 1] = j
    for k in range(1, P):
        before[k] = max(before[k], before[k - 1])
    return before


@compiled()
def best_top(relevant, irrelevant, gain):
    """Staircase of largest value when only the first ``len(gain)`` places count.

    A relevant item at place r saves gain[r] of the loss. Places are filled one by one, a dynamic
    programme over a relevant and b irrelevant items used; below them the order by score is best.
    """
    P, N, K = relevant.shape[0], irrelevant.shape[0], gain.shape[0]
    weight = 2.0 / (P * N)
    head = np.zeros(N + 1)  # head[b]: sum of the b largest irrelevant scores
    for j in range(N):
        head[j + 1] = head[j] + irrelevant[j]
    ahead = np.searchsorted(-irrelevant, -relevant)  # irrelevant items of larger score
    value = np.full((K + 1, K + 1), -np.inf)
    took = np.zeros((K + 1, K + 1), dtype=np.bool_)  # the last place holds a relevant item
    value[0, 0] = 0.0
    best, best_a = -np.inf, 0
    for r in range(K + 1):
        for a in range(max(0, r - N), min(r, P) + 1):
            b = r - a
            if b > 0:
                value[a, b] = value[a, b - 1]
            if a > 0:
                taken = value[a - 1, b] - gain[r - 1]
                taken += weight * (head[b] - b * relevant[a - 1])
                if taken > value[a, b]:
                    value[a, b], took[a, b] = taken, True
            if r == K:
                total = value[a, b]
                for k in range(a, P):
                    m = max(b, ahead[k])
                    total += weight * (head[m] - m * relevant[k])
                if total > best:
                    best, best_a = total, a
    before = np.maximum(ahead, K - best_a).astype(np.int64)
    a, b = best_a, K - best_a
    while a > 0:
        if took[a, b]:
            before[a - 1] = b
            a -= 1
        else:
            b -= 1
    return before


@compiled()
def maximize_on_simplex(G, b, alpha, tol, max_steps):
    """Improve ``alpha`` in place towards max b.alpha - alpha.G.alpha / 2 on the unit simplex.

    Each step moves weight from the worst used entry to the best one, by an exact line search.
    """
    T = b.shape[0]
    slope = b - G @ alpha
    for _ in range(max_steps):
        up, down = 0, -1
        for t in range(T):
            if slope[t] > slope[up]:
                up = t
            if alpha[t] > 0.0 and (down < 0 or slope[t] < slope[down]):
                down = t
        rise = slope[up] - slope[down]
        if rise <= tol:
            break
        bend = G[up, up] + G[down, down] - 2.0 * G[up, down]
        step = alpha[down]
        if bend * step > rise:
            step = rise / bend
        alpha[up] += step
        alpha[down] = 0.0 if step == alpha[down] else alpha[down] - step
        for t in range(T):
            slope[t] -= step * (G[t, up] - G[t, down])
