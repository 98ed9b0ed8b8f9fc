"""Rankings and their losses: the worst ranking of a query, and the mean constraint of many.

Items are the rows relevant to a query (its class) and the others, each sorted by score, best
first. Whatever the loss, the worst ranking keeps these two orders and only interleaves them, so
that it is given by ``before`` (P,): how many of the N irrelevant items precede each relevant one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ejop.learners._mlr_loops import best_staircase, best_top

#: scores held at a time while queries are ranked
BLOCK_SCORES = 2_000_000


@dataclass(frozen=True)
class RankingLoss:
    """A loss of rankings, 0 for the ideal one.

    Attributes
    ----------
    value : callable
        ``value(before, N, k)``: the loss, a float.
    worst : callable
        ``worst(relevant, irrelevant, k)``: the ``before`` of largest loss + <W, psi>, from scores
        sorted best first. Inverting relevant i and irrelevant j adds 2 (s_j - s_i) / (P N) to
        <W, psi>.
    """

    value: Callable[[NDArray, int, int | None], float]
    worst: Callable[[NDArray, NDArray, int | None], NDArray]


def _auc_value(before: NDArray, N: int, k: int | None) -> float:
    return float(before.mean() / N)


def _auc_worst(relevant: NDArray, irrelevant: NDArray, k: int | None) -> NDArray:
    return np.searchsorted(-irrelevant, 0.5 - relevant)  # inverted iff s_i < s_j + 1/2


def _mrr_value(before: NDArray, N: int, k: int | None) -> float:
    return float(1 - 1 / (before[0] + 1))


def _mrr_worst(relevant: NDArray, irrelevant: NDArray, k: int | None) -> NDArray:
    """One candidate for each place m of the first relevant item; the others follow by score."""
    P, N = len(relevant), len(irrelevant)
    m = np.arange(N + 1)
    head = np.concatenate([[0.0], np.cumsum(irrelevant)])
    ahead = np.searchsorted(-irrelevant, -relevant)
    fixed = head[ahead[1:]] - ahead[1:] * relevant[1:]  # those already below the m-th place
    fixed = np.concatenate([np.cumsum(fixed[::-1])[::-1], [0.0]])
    moved = np.searchsorted(ahead[1:], m, side="right")  # those that m pushes down
    pushed = np.concatenate([[0.0], np.cumsum(relevant[1:])])[moved]
    gain = (moved + 1) * head - m * (relevant[0] + pushed) + fixed[moved]
    best = int(np.argmax(-1 / (m + 1) + 2 / (P * N) * gain))
    before = np.maximum(ahead, best)
    before[0] = best
    return before


def _map_value(before: NDArray, N: int, k: int | None) -> float:
    place = np.arange(1, len(before) + 1)
    return float(1 - np.mean(place / (place + before)))


def _map_worst(relevant: NDArray, irrelevant: NDArray, k: int | None) -> NDArray:
    """The j-th irrelevant item before relevant k costs (k/(k+j-1) - k/(k+j)) / P of precision.

    Summed over k = i, ..., P this is -(H(i+j-2) + j/(i+j-1)) / P and a term of j alone, H the
    harmonic numbers; it falls with j.
    """
    P, N = len(relevant), len(irrelevant)
    inverse = 1 / np.arange(1, P + N + 1)
    harmonic = np.concatenate([[0.0, 0.0], np.cumsum(inverse)])
    slope = np.concatenate([[0.0], -inverse / P])
    return best_staircase(relevant, irrelevant, -harmonic[: P + N + 1] / P, slope)


def _discounts(n: int) -> NDArray:
    return 1 / np.log2(np.arange(2, n + 2))


def _top_value(discount: NDArray, before: NDArray) -> float:
    """1 - discounted gain of the places of relevant items, over the ideal one."""
    places = before + np.arange(len(before))
    gained = discount[places[places < len(discount)]].sum()
    return float(1 - gained / discount[: len(before)].sum())


def _ndcg_value(before: NDArray, N: int, k: int | None) -> float:
    n = len(before) + N
    return _top_value(_discounts(n if k is None else min(k, n)), before)


def _ndcg_worst(relevant: NDArray, irrelevant: NDArray, k: int | None) -> NDArray:
    P, N = len(relevant), len(irrelevant)
    discount = _discounts(P + N if k is None else min(k, P + N))
    discount = discount / discount[:P].sum()
    if k is not None and k < P + N:
        return best_top(relevant, irrelevant, discount)
    # the differences of discounts telescope; without a cut they fall with j
    level = np.concatenate([[0.0], discount])
    return best_staircase(relevant, irrelevant, level, np.zeros_like(level))


def _precision_value(before: NDArray, N: int, k: int | None) -> float:
    return _top_value(np.ones(len(before) if k is None else min(k, len(before) + N)), before)


def _precision_worst(relevant: NDArray, irrelevant: NDArray, k: int | None) -> NDArray:
    P, N = len(relevant), len(irrelevant)
    K = P if k is None else min(k, P + N)
    return best_top(relevant, irrelevant, np.full(K, 1 / min(K, P)))


LOSSES = {
    "auc": RankingLoss(_auc_value, _auc_worst),
    "precision": RankingLoss(_precision_value, _precision_worst),
    "mrr": RankingLoss(_mrr_value, _mrr_worst),
    "map": RankingLoss(_map_value, _map_worst),
    "ndcg": RankingLoss(_ndcg_value, _ndcg_worst),
}


def inversions(before: NDArray, N: int) -> tuple[NDArray, NDArray]:
    r"""Coefficients of :math:`\psi(q, r^*) - \psi(q, r)` in the :math:`\phi(q, i)`, best first.

    2 (irrelevant before i) / (P N) for the relevant, -2 (relevant after j) / (P N) for the others.
    """
    P = len(before)
    after = P - np.searchsorted(before, np.arange(1, N + 1))
    return 2 * before / (P * N), -2 * after / (P * N)


def worst_rankings(
    scores: NDArray, relevant: NDArray, items: NDArray, loss: RankingLoss, k: int | None
) -> tuple[NDArray, float]:
    """Coefficients (m, n) of the worst ranking of each query, and the sum of their losses.

    Parameters
    ----------
    scores : ndarray of shape (m, n)
    relevant, items : ndarray of bool of shape (m, n)
        Which rows are relevant, and which are ranked at all (a query does not rank itself).
    """
    order = np.argsort(-scores, axis=1)
    coefficients, total = np.zeros(scores.shape), 0.0
    for s, o, wanted, ranked, c in zip(scores, order, relevant, items, coefficients, strict=True):
        o = o[ranked[o]]
        is_relevant = wanted[o]
        good, bad = o[is_relevant], o[~is_relevant]
        before = loss.worst(s[good], s[bad], k)
        c[good], c[bad] = inversions(before, len(bad))
        total += loss.value(before, len(bad), k)
    return coefficients, total


def mean_constraint(
    W: NDArray,
    X: NDArray,
    y: NDArray,
    queries: NDArray,
    loss: RankingLoss,
    k: int | None,
    scores_at_once: int = BLOCK_SCORES,
) -> tuple[NDArray, float]:
    r"""Most violated constraint :math:`\langle W, \Psi \rangle \ge \Delta - \xi` at W.

    .. math:: \Psi = \frac1m \sum_q \sum_i c_{qi} \phi(q, i), \quad
        \phi(q, i) = -(x_q - x_i)(x_q - x_i)^T

    The coefficients of a query sum to 0, so that with Q the rows of the queries
    :math:`m \Psi = Q^T C X + X^T C^T Q - X^T diag(1^T C) X`: products of matrices, no sum of outer
    products.

    Parameters
    ----------
    W : ndarray of shape (d, d)
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    queries : ndarray of shape (m,)
        Rows that rank the others; each needs a relevant and an irrelevant row.

    Returns
    -------
    Psi : ndarray of shape (d, d)
    delta : float
        Mean loss of the worst rankings.
    """
    XW = X @ W
    squared = np.einsum("nd,nd->n", XW, X)
    cross, columns, delta = np.zeros_like(W), np.zeros(len(X)), 0.0
    step = max(1, scores_at_once // len(X))
    for start in range(0, len(queries), step):
        q = queries[start : start + step]
        scores = 2 * X[q] @ XW.T - squared  # less |x_q|^2, the same for all items of a query
        others = np.ones(scores.shape, dtype=bool)
        others[np.arange(len(q)), q] = False
        C, total = worst_rankings(scores, y[q][:, None] == y, others, loss, k)
        cross += X[q].T @ (C @ X)
        columns += C.sum(0)
        delta += total
    Psi = cross + cross.T - (X * columns[:, None]).T @ X
    return Psi / len(queries), delta / len(queries)
