"""Honest choices made from the training rows alone: bandwidth and penalty by leave-one-out of f.

The rule of ``bandwidth="auto"``: over a geometric grid of multiples of the median distance to the
nearest distinct row, take the *largest* bandwidth whose leave-one-out loss of f is within one
standard error of the smallest, and widen it by 30 %. A derivative needs a smoother f than a
prediction does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.utils import check_random_state

from ejop.executors.threads import computing, in_threads
from ejop.kernels import Kernel, get_kernel
from ejop.rows import Block, Summary, checked_block
from ejop.sums.engine import HOST, squared_distances
from ejop.sums.ridge import RIDGE_KERNELS

#: multiples of the median nearest-neighbour distance tried for the bandwidth of a smoother lie so
#: many powers of two apart
SPACING = 0.25
#: ... and those for kernel ridge, and the penalties added to the diagonal of its kernel matrix
RIDGE_GRID = 2.0 ** np.arange(-1, 4.01, 0.5)
LONG_GRID = 2.0 ** np.arange(-2, 3.01, 0.5)
PENALTY_GRID = 10.0 ** np.arange(-6, 1.01, 0.5)
#: share of the prior mixed into f before the logarithm, so that one row cannot decide the loss
LOG_LOSS_FLOOR = 0.01
#: a derivative wants a wider bandwidth than the value does
WIDENING = 1.3
RIDGE_WIDENING = 1.5
#: share of the loss of a constant f that is no difference: separable classes leave only rounding
FLAT = 1e-3
#: bandwidths from which a Gaussian weighs nothing
FARTHEST = 10.0
#: pairs of rows compared at the most, beyond 200 rows against all
MAX_PAIRS = 100_000_000


class RowSource(Protocol):
    """All rows, wherever they live, as the choices see them."""

    @property
    def summary(self) -> Summary:
        """What all of them together say."""

    def draw(self, at_most: int, random_state: Any) -> NDArray:
        """Sorted numbers of at most so many random rows."""

    def sample(self, index: NDArray) -> Any:
        """The rows of these numbers, or what stands for them."""

    def sweep(
        self,
        sample: Any,
        work: Callable[[NDArray, Block, Block], NDArray],
        merge: Callable[[NDArray, NDArray], NDArray],
    ) -> Any:
        """What the rows of a sample find among all rows, merged over parts of these.

        ``work(places, queries, block)`` takes places in the sample, its rows there and some of all
        rows; queries run along the second axis of what it returns.
        """

    def apply(self, work: Callable[..., Any], sample: Any, *arguments: Any) -> Any:
        """The value of a function of the sample and of what was found, where they are."""


@dataclass
class LocalRows:
    """Rows in memory, or mapped from disk."""

    block: Block

    def __post_init__(self) -> None:
        self.summary = Summary.of(self.block)

    def draw(self, at_most: int, random_state: Any) -> NDArray:
        """Sorted numbers of at most so many random rows of positive weight."""
        return some_rows(self.block.weights, at_most, random_state)

    def sample(self, index: NDArray) -> Block:
        """The rows of these numbers."""
        return self.block.rows(index)

    def sweep(
        self,
        sample: Block,
        work: Callable[[NDArray, Block, Block], NDArray],
        merge: Callable[[NDArray, NDArray], NDArray],
    ) -> NDArray:
        """Blocks of queries side by side against all rows."""
        parts = query_blocks(np.arange(len(sample)), len(self.block))
        found = in_threads(
            lambda part: work(part, sample.rows(part), self.block),
            parts,
            operations=20 * len(sample) * self.block.X.size,
        )
        return np.concatenate(found, axis=1)

    def apply(self, work: Callable[..., Any], sample: Block, *arguments: Any) -> Any:
        """Call it."""
        return work(sample, *arguments)


def checked_rows(X: NDArray, Y: NDArray, sample_weight: NDArray | None) -> LocalRows:
    """Rows of a caller that choices can be made from."""
    rows = LocalRows(checked_block(X, Y, sample_weight))
    rows.summary.require_numbers()
    return rows


def nearest_squared(places: NDArray, queries: Block, block: Block, center: NDArray) -> NDArray:
    """Squared distances to the nearest row that is not equal, and to the nearest other row, (2, m).

    Infinite where there is none.
    """
    D = squared_distances(queries.X, block.X, center)
    own = block.own(queries.index)
    mine = np.flatnonzero(own >= 0)
    D[mine, own[mine]] = np.inf
    other = D.min(1, initial=np.inf)
    D[D == 0] = np.inf  # equal rows
    return np.stack([D.min(1, initial=np.inf), other])


def median_nearest_distance(X: NDArray, rows: NDArray) -> float:
    """Median over rows of the distance to the nearest distinct row.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.choice import median_nearest_distance
    >>> X = np.array([[0.0], [1.0], [1.0], [3.0]])
    >>> median_nearest_distance(X, np.arange(4))
    1.0
    """
    all_rows = checked_rows(X, np.zeros((len(X), 1)), None)
    return median_of_nearest(_nearest(all_rows, all_rows.sample(rows))[0])


def _nearest(rows: RowSource, sample: Any) -> NDArray:
    """Squared distances of a sample to its nearest rows among all, (2, m)."""
    work = partial(nearest_squared, center=rows.summary.center)
    return rows.apply(np.asarray, rows.sweep(sample, work, np.minimum))


def median_of_nearest(squared: NDArray) -> float:
    """Median of the distances to the nearest distinct row, over rows that have one."""
    smallest = np.sqrt(squared[np.isfinite(squared)])
    if len(smallest) == 0:
        raise ValueError(
            "`X` has no two distinct rows (all rows are equal), so no direction of it can matter; "
            "check the columns that were passed."
        )
    return float(np.median(smallest))


def pointwise_loss(f: NDArray, Y: NDArray, prior: NDArray, *, one_hot: bool) -> NDArray:
    """Loss of each row: minus the log of the probability of its class, or the squared error."""
    if not one_hot:
        return ((f - Y) ** 2).sum(1)
    f = (1 - LOG_LOSS_FLOOR) * np.clip(f, 0, 1) + LOG_LOSS_FLOOR * prior
    return -np.log((f * Y).sum(1))


def widest_within_one_error(
    grid: NDArray, losses: NDArray, weights: NDArray, floor: float = 0.0
) -> int:
    """Index of the largest grid value whose mean loss is within one standard error of the best.

    The standard error is that of the *difference* to the best, row by row, so that rows that are
    hard at every bandwidth do not blur the comparison, and at least ``floor``. ``losses`` has
    shape (len(grid), n_rows).
    """
    weights = weights / weights.sum()
    means = losses @ weights
    if not np.isfinite(means).all():
        raise ValueError(
            "the leave-one-out loss of f is not finite, so that no bandwidth can be chosen by it; "
            "scale `y` and the columns of `X`, even out `sample_weight`, or pass a `bandwidth`."
        )
    best = int(means.argmin())
    excess = losses - losses[best]
    error = np.sqrt(((excess - (excess @ weights)[:, None]) ** 2 @ weights) / len(weights))
    return int(np.flatnonzero(means <= means[best] + np.maximum(error, floor)).max())


def choose_bandwidth(
    X: NDArray,
    Y: NDArray,
    *,
    kernel: str = "gaussian",
    sample_weight: NDArray | None = None,
    max_queries: int = 1000,
    random_state: Any = None,
) -> float:
    """Bandwidth of a kernel smoother by the leave-one-out loss of f.

    The loss is the log loss for one-hot targets (with 1 % of the prior mixed in) and the squared
    error otherwise, over at most ``max_queries`` random rows against all rows (fewer, down to 200,
    when there are more than 10^5). For the Gaussian the
    grid is the median nearest-neighbour distance times 2^-3 to 2^2, for the Laplace kernel times
    2^-5 to 2^3, for compact kernels times 2^-1/2 to 2^3. The widest bandwidth within one standard
    error of the best (or within 0.1 % of the loss of a constant f) is taken times 1.3.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    Y : ndarray of shape (n_samples, n_outputs)
    kernel : str, default="gaussian"
    sample_weight : ndarray of shape (n_samples,), optional
    max_queries : int, default=1000
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    bandwidth : float

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.choice import choose_bandwidth
    >>> X = np.random.default_rng(0).normal(size=(200, 1))
    >>> 0.001 < choose_bandwidth(X, np.sin(X)) < 1
    True
    """
    rows = checked_rows(X, Y, sample_weight)
    rule = get_kernel(kernel)
    return smoother_bandwidth(rows, rule, max_queries=max_queries, random_state=random_state)


def smoother_bandwidth(
    rows: RowSource, rule: Kernel, *, max_queries: int = 1000, random_state: Any = None
) -> float:
    """:func:`choose_bandwidth` for rows wherever they live: two passes over them."""
    summary = rows.summary
    sample = rows.sample(rows.draw(affordable_queries(summary.n, max_queries), random_state))
    near = _nearest(rows, sample)
    grid = bandwidth_grid(rule, median_of_nearest(near[0]))
    if summary.n < 3:
        return WIDENING * float(grid[-1])
    work = partial(grid_sums, center=summary.center, rule=rule, grid=grid, nearest=near[1])
    sums = rows.sweep(sample, work, np.add)
    return rows.apply(_widest, sample, sums, grid, summary)


def _widest(sample: Block, sums: NDArray, grid: NDArray, summary: Summary) -> float:
    return Judges.of(sample, summary).widest(grid, sums)


def affordable_queries(n: int, max_queries: int = 1000) -> int:
    """Rows that judge bandwidths: fewer, down to 200, where all rows are many."""
    return int(np.clip(MAX_PAIRS // n, 200, max_queries))


def bandwidth_grid(rule: Kernel, unit: float) -> NDArray:
    """Bandwidths to try, for a median nearest-neighbour distance of ``unit``."""
    low, high = rule.exponents
    return unit * 2.0 ** np.arange(low, high + 0.01, SPACING)


def grid_sums(
    places: NDArray,
    queries: Block,
    block: Block,
    center: NDArray,
    rule: Kernel,
    grid: NDArray,
    nearest: NDArray,
) -> NDArray:
    """Kernel sums of [Y | 1] at some queries for each bandwidth; those over other rows add.

    Parameters
    ----------
    places : ndarray of shape (m,)
        Of the queries in the sample.
    queries, block : Block
        The queries, left out of their own sums, and rows: all of them, or a part.
    center : ndarray of shape (n_features,)
    rule : Kernel
    grid : ndarray of bandwidths
    nearest : ndarray of shape (n_sample,)
        Squared distance of each row of the sample to the nearest other row of all. Weights are
        relative to that row's, since a factor common to a query cancels.

    Returns
    -------
    sums : ndarray of shape (len(grid), m, n_outputs + 1)
    """
    widest = float(grid[-1])
    # Only rows this near weigh anything, and they judge bandwidths by a part of the widest.
    reach = widest * min(rule.support, FARTHEST)
    D = squared_distances(queries.X, block.X, center, unit=widest / 4, reach=reach)
    own = block.own(queries.index)
    mine = np.flatnonzero(own >= 0)
    D[mine, own[mine]] = np.inf
    D = rule.behind(D, nearest[places, None].astype(D.dtype))
    targets = (np.c_[block.Y, np.ones(len(block))] * block.weights[:, None]).astype(D.dtype)
    K = np.empty_like(D)
    sums = np.empty((len(grid), len(queries), targets.shape[1]), dtype=D.dtype)
    for g, h in enumerate(grid):
        np.multiply(D, D.dtype.type(1 / h**2), out=K)
        np.matmul(rule(K, out=K), targets, out=sums[g])
    return sums


@dataclass(frozen=True)
class Judges:
    """Rows that judge bandwidths, and what all rows together say.

    Attributes
    ----------
    Y : ndarray of shape (m, n_outputs)
    w : ndarray of shape (m,)
    prior : ndarray of shape (n_outputs,)
        Mean target of all rows.
    total : float
        Weight of all rows.
    one_hot : bool
    """

    Y: NDArray
    w: NDArray
    prior: NDArray
    total: float
    one_hot: bool

    @classmethod
    def of(cls, sample: Block, summary: Summary) -> Judges:
        """The rows of a sample."""
        s = summary
        return cls(sample.Y, sample.weights, s.prior, s.weight, s.one_hot)

    def losses(self, sums: NDArray) -> NDArray:
        """Leave-one-out loss of each row for each bandwidth, from sums over all rows."""
        own = self.w[:, None]
        others = np.maximum(self.total - own, 0)
        rest = (self.total * self.prior - own * self.Y) / np.where(others > 0, others, 1)
        rest = np.where(others > 0, rest, self.prior)
        mass = sums[:, :, -1:]
        f = np.where(mass > 0, sums[:, :, :-1] / np.where(mass > 0, mass, 1), rest)
        return np.stack([self._loss(values) for values in f])

    def widest(self, grid: NDArray, sums: NDArray) -> float:
        """The widest bandwidth within one standard error of the best, times 1.3."""
        constant = self._loss(np.tile(self.prior, (len(self.Y), 1)))
        floor = FLAT * np.average(constant, weights=self.w)
        best = widest_within_one_error(grid, self.losses(sums), self.w, float(floor))
        return WIDENING * float(grid[best])

    def _loss(self, f: NDArray) -> NDArray:
        return pointwise_loss(f, self.Y, self.prior, one_hot=self.one_hot)


def choose_ridge(
    X: NDArray,
    Y: NDArray,
    *,
    bandwidth: float | str = "auto",
    penalty: float | str = "auto",
    sample_weight: NDArray | None = None,
    max_rows: int = 1000,
    random_state: Any = None,
    widening: float = RIDGE_WIDENING,
) -> tuple[float, float]:
    """Bandwidth and penalty of kernel ridge by closed-form leave-one-out.

    With B = (K + penalty I)^-1 the residual of row i when it is left out is (B Y)_i / B_ii, so a
    bandwidth costs one eigen-decomposition and a penalty nothing more. At most ``max_rows`` random
    rows are used. The loss is the squared error; the bandwidth of the smallest is taken times
    ``widening``, since a derivative needs a smoother f than a prediction does, and the penalty is
    that of the smallest loss at the widened bandwidth. Bandwidths are the
    median nearest-neighbour distance times 2^-1 to 2^4, first by factors of 2, then between;
    penalties run from 1e-6 to 10.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    Y : ndarray of shape (n_samples, n_outputs)
    bandwidth, penalty : float or "auto"
        A number keeps that value and chooses the other.
    sample_weight : ndarray of shape (n_samples,), optional
    max_rows : int, default=1000
    random_state : int, RandomState instance or None, default=None
    widening : float, default=1.5

    Returns
    -------
    bandwidth, penalty : float
    """
    return ridge_settings(
        checked_rows(X, Y, sample_weight),
        bandwidth=bandwidth,
        penalty=penalty,
        max_rows=max_rows,
        widening=widening,
        random_state=random_state,
    )


def ridge_settings(
    rows: RowSource,
    *,
    bandwidth: float | str = "auto",
    penalty: float | str = "auto",
    max_rows: int = 1000,
    widening: float = RIDGE_WIDENING,
    random_state: Any = None,
    kernel: str = "gaussian",
) -> tuple[float, float]:
    """:func:`choose_ridge` for rows wherever they live: a sample is solved."""
    sample = rows.sample(rows.draw(max_rows, random_state))
    unit = 1.0
    if bandwidth == "auto" and RIDGE_KERNELS[kernel].factorises:
        unit = median_of_nearest(_nearest(rows, sample)[0])
    given = (bandwidth, penalty, widening, kernel)
    return rows.apply(ridge_of_sample, sample, rows.summary, unit, *given)


@computing
def ridge_of_sample(
    sample: Block,
    summary: Summary,
    unit: float,
    bandwidth: float | str,
    penalty: float | str,
    widening: float,
    kernel: str = "gaussian",
) -> tuple[float, float]:
    """Bandwidth and penalty by the rows of a sample alone.

    ``unit`` is the median nearest-neighbour distance among all rows, for the Gaussian; the other
    kernels take the median distance within the sample.
    """
    centers = RIDGE_KERNELS[kernel].of(HOST, sample.X, summary, unit)
    D = centers.distances(centers.Z)
    np.fill_diagonal(D, 0)
    grid = unit * RIDGE_GRID
    if not centers.factorises:
        grid = LONG_GRID * _median_distance(centers, D)
    bandwidths = grid if bandwidth == "auto" else np.array([float(bandwidth)])
    penalties = PENALTY_GRID if penalty == "auto" else np.array([float(penalty)])
    S = np.sqrt(sample.weights)
    target = S[:, None] * (sample.Y - summary.prior)
    solve = 3 * len(sample) ** 3  # an eigen-decomposition, roughly

    def losses(h: float) -> NDArray:
        K = S[:, None] * replace(centers, h=h).kernel_at(D.copy()) * S
        return left_out_losses(K, penalties, target)

    def best_of(points: list[int]) -> int:
        found = in_threads(losses, [bandwidths[g] for g in points], operations=len(points) * solve)
        tried.update(zip(points, found, strict=True))
        return min(tried, key=lambda g: tried[g].min())

    tried: dict[int, NDArray] = {}
    best = best_of(list(range(0, len(bandwidths), 2)))
    between = [g for g in (best - 1, best + 1) if 0 <= g < len(bandwidths)]
    best = best_of(between)
    chosen, loss = float(bandwidths[best]), tried[best]
    if bandwidth == "auto" and widening != 1.0:
        chosen *= widening
        loss = losses(chosen)
    return chosen, float(penalties[loss.argmin()])


def _median_distance(centers: Any, D: NDArray) -> float:
    """Median distance of two rows, in the units of the bandwidth."""
    found = float(np.median(D[np.triu_indices(len(D), 1)])) if len(D) > 1 else 1.0
    found = found if centers.linear else np.sqrt(found)
    return found if found > 0 else 1.0


def left_out_losses(K: NDArray, penalties: NDArray, target: NDArray) -> NDArray:
    """Sum of squared leave-one-out residuals of ridge on a kernel matrix, for each penalty.

    With K = U diag(s) U^T the inverse B of K + penalty I has (B Y)_i = sum_k U_ik (U^T Y)_k /
    (s_k + penalty) and B_ii = sum_k U_ik^2 / (s_k + penalty): one decomposition serves them all.
    """
    values, U = eigh(K, driver="evd", overwrite_a=True, check_finite=False)
    values = np.maximum(values, 0)
    projected, squared = U.T @ target, U**2
    losses = np.empty(len(penalties))
    for p, penalty in enumerate(penalties):
        shrink = 1 / (values + penalty)
        residual = (U @ (shrink[:, None] * projected)) / (squared @ shrink)[:, None]
        losses[p] = float((residual**2).sum())
    return losses


def query_blocks(rows: NDArray, n: int) -> list[NDArray]:
    """Rows in blocks whose distances to n rows take about 8 MB."""
    size = int(np.clip(1_000_000 // n, 1, 256))
    return np.array_split(rows, -(-len(rows) // size))


def some_rows(weights: NDArray, at_most: int, random_state: Any) -> NDArray:
    """At most so many rows of positive weight, sorted, drawn without replacement."""
    rows = np.flatnonzero(weights > 0)
    if len(rows) <= at_most:
        return rows
    return np.sort(check_random_state(random_state).choice(rows, at_most, replace=False))
