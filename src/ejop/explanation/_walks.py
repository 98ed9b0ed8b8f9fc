r"""Contributions of columns by walks from a baseline to a row, one column after another.

.. math:: \phi_j = E_\pi \big[ f(x_{\le j}, b_{> j}) - f(x_{< j}, b_{\ge j}) \big],
    \qquad \sum_j \phi_j = f(x) - f(b)

The mean is over orders of the columns and their reverses. One order and its reverse give the
Shapley values of any f whose columns interact in pairs at most. Whatever f is, a walk ends at the
row, so that contributions add up to the last digit; and f is asked at values that occur alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ejop.executors.threads import in_threads

#: orders of the columns, half of them the reverses of the others
ORDERS = 2
#: rows of a walk that are worked on at once
BLOCK = 64

#: ``steps(starts, ends, groups)`` yields answers (m, n_outputs) as groups of columns go from those
#: of the starts to those of the ends: none, the first, the first two, ...
Steps = Callable[[NDArray, NDArray, Sequence[NDArray]], Iterable[NDArray]]


def orders_of(n: int, n_orders: int, rng: np.random.Generator) -> list[NDArray]:
    """Orders of n groups and their reverses; the first is that of the table."""
    found: list[NDArray] = []
    while len(found) < n_orders:
        order = rng.permutation(n) if found else np.arange(n)
        found += [order, order[::-1]]
    return found[:n_orders]


def contributions(
    steps: Steps,
    starts: NDArray,
    ends: NDArray,
    groups: Sequence[NDArray],
    *,
    n_orders: int = ORDERS,
    operations: float = np.inf,
    random_state: int = 0,
) -> NDArray:
    """What each group of columns adds on the way from starts to ends.

    Parameters
    ----------
    steps : callable
        See ``Steps``.
    starts, ends : ndarray of shape (m, n_features)
    groups : sequence of ndarray
        Numbers of the columns of each group.
    n_orders : int, default=2
        Orders of the groups, each second one the reverse of the one before.
    operations : float, optional
        About so many for a walk of all rows, which decide on threads.
    random_state : int, default=0
        Draws the orders beyond the first two.

    Returns
    -------
    found : ndarray of shape (m, n_outputs, n_groups)

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.explanation import contributions
    >>> def steps(starts, ends, groups):
    ...     rows = starts.copy()
    ...     yield rows.prod(1, keepdims=True)
    ...     for group in groups:
    ...         rows[:, group] = ends[:, group]
    ...         yield rows.prod(1, keepdims=True)
    >>> contributions(steps, np.ones((1, 2)), np.array([[3.0, 5.0]]), [[0], [1]])  # 3 x 5 - 1 x 1
    array([[[6., 8.]]])
    """
    orders = orders_of(len(groups), n_orders, np.random.default_rng(random_state))
    blocks = [slice(s, s + BLOCK) for s in range(0, len(ends), BLOCK)]

    def walked(block: slice) -> NDArray:
        total: NDArray | float = 0.0
        for order in orders:
            path = steps(starts[block], ends[block], [groups[g] for g in order])
            answers = np.stack([np.asarray(answer) for answer in path], axis=2)
            found = np.empty((*answers.shape[:2], len(groups)))
            found[:, :, order] = np.diff(answers, axis=2)
            total = total + found / len(orders)
        assert isinstance(total, np.ndarray)
        return total

    return np.concatenate(list(in_threads(walked, blocks, operations=operations * len(orders))))


def feature_shares(start: NDArray, ends: NDArray, groups: NDArray) -> NDArray:
    """Share of each feature in what its column adds, (m, n_features): as it differs from the
    start's, beside the other features of the column; those of a column that does not differ are
    equal."""
    apart = np.abs(ends - start)
    table = np.eye(int(groups.max()) + 1)[groups]
    total, sizes = (apart @ table)[:, groups], table.sum(0)[groups]
    return np.where(total > 0, apart / np.where(total > 0, total, 1), 1 / sizes)
