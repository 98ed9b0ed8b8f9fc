"""Inner loops of LMNN: neighbours by class, and the objective with its derivative.

Compiled functions take plain arrays, run in one thread and
release the interpreter lock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ejop._compile import compiled
from ejop.executors.threads import in_threads

#: entries of a block of ranks in the search for neighbours
RANK_ENTRIES = 2**22
_REORDER = {"reassoc", "contract"}


@compiled()
def _keep_nearest(values, first, last, skip, kept, rows):
    """Merge the places ``first``..``last`` of ``values`` into the sorted list (kept, rows)."""
    size = kept.shape[0]
    worst = kept[size - 1]
    for j in range(first, last):
        if values[j] < worst and j != skip:
            b = size - 1
            while b > 0 and kept[b - 1] > values[j]:
                kept[b], rows[b] = kept[b - 1], rows[b - 1]
                b -= 1
            kept[b], rows[b] = values[j], j
            worst = kept[size - 1]


@compiled()
def _wins(mates, others, strangers, labels, k, votes):
    """Whether the row's own class wins the vote of its k nearest rows, ties to the nearest."""
    own = 0
    taken = 0
    for _ in range(k):
        mate = mates[own] if own < mates.shape[0] else np.inf
        other = others[taken] if taken < others.shape[0] else np.inf
        if mate == np.inf and other == np.inf:
            break
        if mate <= other:
            own += 1
        else:
            votes[labels[strangers[taken]]] += 1
            taken += 1
    rival = 0
    for b in range(taken):
        rival = max(rival, votes[labels[strangers[b]]])
    won = own > rival
    if own == rival and own > 0:
        first = np.inf
        for b in range(taken):
            if votes[labels[strangers[b]]] == rival:
                first = others[b]
                break
        won = mates[0] <= first
    for b in range(taken):
        votes[labels[strangers[b]]] = 0
    return won


@compiled()
def nearest_by_class(values, start, bounds, labels, k, targets, impostors, votes):
    """Nearest rows of the own class and of all others for a block of rows sorted by class.

    ``values`` (b, n) ranks the rows by nearness to rows start, start + 1, ...; class c is
    bounds[c]..bounds[c + 1]. Fills ``targets`` (b, k) and ``impostors`` (b, m), nearest first, -1
    where there are too few rows, and returns how many rows lose the vote of their k nearest.
    """
    n = values.shape[1]
    mates = np.empty(targets.shape[1], dtype=values.dtype)
    others = np.empty(impostors.shape[1], dtype=values.dtype)
    lost = 0
    for q in range(values.shape[0]):
        c = labels[start + q]
        mates[:] = np.inf
        others[:] = np.inf
        _keep_nearest(values[q], bounds[c], bounds[c + 1], start + q, mates, targets[q])
        _keep_nearest(values[q], 0, bounds[c], -1, others, impostors[q])
        _keep_nearest(values[q], bounds[c + 1], n, -1, others, impostors[q])
        lost += not _wins(mates, others, impostors[q], labels, k, votes)
    return lost


@dataclass(frozen=True)
class ByClass:
    """Rows sorted by class, so that a class is a range.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,)
    bounds : ndarray of shape (n_classes + 1,)
        Class c is the rows bounds[c] to bounds[c + 1].
    """

    X: NDArray
    labels: NDArray
    bounds: NDArray

    @classmethod
    def of(cls, X: NDArray, y: NDArray) -> ByClass:
        """Sort rows X (n, d) by class numbers y (n,)."""
        order = np.argsort(y, kind="stable")
        return cls(X[order], y[order], np.concatenate([[0], np.cumsum(np.bincount(y))]))


@dataclass(frozen=True)
class TripletLists:
    """Nearest rows of the same class (n, k) and of other classes (n, m), and the share of rows
    that the vote of their k nearest others puts in another class; -1 where there are no more."""

    targets: NDArray
    impostors: NDArray
    error: float


def neighborhoods(
    Z: NDArray,
    rows: ByClass,
    k: int,
    m: int,
    dtype: type[np.floating] = np.float64,
    entries: int = RANK_ENTRIES,
) -> TripletLists:
    """Neighbours of each mapped row, by blocks of ranks: memory O(n (k + m) + block).

    Parameters
    ----------
    Z : ndarray of shape (n_samples, r)
        The rows of ``rows.X`` under the metric.
    rows : ByClass
    k, m : int
        Targets and impostors a row.
    dtype : {numpy.float32, numpy.float64}
        Of the ranks.
    entries : int
        Ranks of a block.
    """
    n = len(Z)
    k, m = min(k, n), min(m, n)
    centred = (Z - Z.mean(0)).astype(dtype)
    # |z_i - z_j|^2 = |z_i|^2 + (z_i, 1) . (-2 z_j, |z_j|^2), whose first term ranks nothing
    left = np.hstack([centred, np.ones((n, 1), dtype)])
    right = np.vstack([-2 * centred.T, np.einsum("ij,ij->i", centred, centred)])
    targets = np.full((n, k), -1, dtype=np.intp)
    others = np.full((n, max(k, m)), -1, dtype=np.intp)  # the vote needs k
    step = max(1, entries // n)

    def search(start: int) -> int:
        stop = min(start + step, n)
        votes = np.zeros(len(rows.bounds) - 1, dtype=np.int64)
        return nearest_by_class(
            left[start:stop] @ right,
            start,
            rows.bounds,
            rows.labels,
            k,
            targets[start:stop],
            others[start:stop],
            votes,
        )

    lost = sum(in_threads(search, range(0, n, step)))
    return TripletLists(targets, others[:, :m], lost / n)


@compiled()
def merge_lists(recent, older, out):
    """Rows of ``recent`` (n, m), then those of ``older`` that it lacks, into ``out`` until full."""
    m = recent.shape[1]
    for i in range(recent.shape[0]):
        out[i, :m] = recent[i]
        out[i, m:] = -1
        size = m
        for b in range(older.shape[1]):
            j = older[i, b]
            fresh = j >= 0 and size < out.shape[1]
            for c in range(m):
                fresh = fresh and recent[i, c] != j
            if fresh:
                out[i, size] = j
                size += 1


@compiled(fastmath=_REORDER)
def _squared_distance(a, b):
    total = 0.0
    for j in range(a.shape[0]):
        total += (a[j] - b[j]) * (a[j] - b[j])
    return total


@compiled(fastmath=_REORDER)
def _pull(Z, i, j, w, slope):
    """Derivative of w |z_i - z_j|^2, added to rows i and j of ``slope``."""
    for a in range(Z.shape[1]):
        step = 2.0 * w * (Z[i, a] - Z[j, a])
        slope[i, a] += step
        slope[j, a] -= step


@compiled()
def margin_loss(Z, targets, impostors, push, squared, slope):
    """Sum of LMNN's losses at mapped rows Z (n, r); adds its derivative by Z to ``slope``.

    The derivative is 2 Lap Z with Lap the Laplacian of the graph whose edges are the targets
    and impostors, weighted by their share in the active triples.
    """
    k, m = targets.shape[1], impostors.shape[1]
    near = np.empty(k)
    weights = np.empty(k)
    total = 0.0
    for i in range(Z.shape[0]):
        reach = -np.inf
        for a in range(k):
            weights[a] = 0.0
            if targets[i, a] >= 0:
                near[a] = _squared_distance(Z[i], Z[targets[i, a]])
                reach = max(reach, 1.0 + near[a])
                total += (1.0 - push) * near[a]
                weights[a] = 1.0 - push
        for b in range(m):
            j = impostors[i, b]
            if j < 0:
                continue
            far = _squared_distance(Z[i], Z[j])
            if far >= reach:
                continue
            away = 0.0
            for a in range(k):
                if targets[i, a] < 0:
                    continue
                margin = 1.0 + near[a] - far
                if margin <= 0.0:
                    continue
                total += push * (margin * margin if squared else margin)
                w = push * (2.0 * margin if squared else 1.0)
                weights[a] += w
                away += w
            if away > 0.0:
                _pull(Z, i, j, -away, slope)
        for a in range(k):
            if targets[i, a] >= 0:
                _pull(Z, i, targets[i, a], weights[a], slope)
    return total
