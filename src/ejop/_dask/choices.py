"""Bandwidth, penalty and centres from rows that no one machine holds.

They are chosen as :mod:`ejop.selection` does: the same rows judge, against all rows, and what is
summed over all rows is summed over blocks and added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop._dask.cluster import constant, delayed, keep, run, tree
from ejop._dask.rows import Block, Rows, draw
from ejop.functions import Function, KernelSmoother, RidgeFunction
from ejop.functions._base import check_bandwidth, check_magnitude
from ejop.kernels import get_kernel
from ejop.selection import (
    WIDENING,
    Judges,
    affordable_queries,
    bandwidth_grid,
    grid_sums,
    median_of_nearest,
    nearest_squared,
    query_blocks,
    ridge_of_sample,
)


def settle(function: Function, rows: Rows) -> Function:
    """Tell a function what all rows together say; it holds none of them."""
    s = rows.summary
    largest = float(np.maximum(np.abs(s.X.low), np.abs(s.X.high)).max())
    check_magnitude(largest, s.n_features, s.dtype)
    function._settle(s.dtype, (s.X.low, s.X.high), s.X.mean, s.prior, s.weight)
    return function


def settled_smoother(client: Any, function: KernelSmoother, rows: Rows) -> KernelSmoother:
    """A smoother with its bandwidth, without rows."""
    settle(function, rows)
    if isinstance(function.bandwidth, str) and function.bandwidth == "auto":
        function.bandwidth_ = choose_bandwidth(client, function, rows)
    else:
        function.bandwidth_ = check_bandwidth(function.bandwidth)
    return function


def choose_bandwidth(client: Any, function: KernelSmoother, rows: Rows) -> float:
    """:func:`ejop.selection.choose_bandwidth` over blocks: two passes over the rows."""
    rule, s = get_kernel(function.kernel), rows.summary
    index = draw(rows.n, affordable_queries(rows.n), function.random_state)
    sample = keep(client, rows.sample(index))
    near = _nearest(client, sample, function, rows)
    grid = bandwidth_grid(rule, median_of_nearest(np.sqrt(near[0])))
    if rows.n < 3:
        return WIDENING * float(grid[-1])
    shared = constant((function, rule, grid, near[1]))
    sums = tree([delayed(_grid_sums)(sample, block, shared) for block in rows.blocks], _added)
    judge = delayed(_widest)(sample, sums, grid, s.prior, s.weight, s.one_hot)
    return run(client, judge)


def _nearest(client: Any, sample: Any, function: Function, rows: Rows) -> NDArray:
    """Squared distances of the sample to its nearest rows among all, (2, m)."""
    shared = constant(function)
    found = [delayed(_block_nearest)(sample, block, shared) for block in rows.blocks]
    return run(client, tree(found, _smallest))


def _block_nearest(sample: Block, block: Block, function: Function) -> NDArray:
    def one(part: NDArray) -> NDArray:
        own = block.own(sample.index[part])
        return nearest_squared(sample.X[part], block.X, own, function._center)

    return _by_queries(one, sample, block)


def _grid_sums(sample: Block, block: Block, shared: Any) -> NDArray:
    function, rule, grid, nearest = shared

    def one(part: NDArray) -> NDArray:
        Q, own = sample.X[part], block.own(sample.index[part])
        center, weights = function._center, block.weights
        near = nearest[part]
        return grid_sums(Q, block.X, block.Y, weights, own, center, rule, grid, near)

    return _by_queries(one, sample, block)


def _by_queries(one: Callable[[NDArray], NDArray], sample: Block, block: Block) -> NDArray:
    """Results of some queries at a time, side by side: distances to a block take memory."""
    parts = query_blocks(np.arange(len(sample)), len(block))
    return np.concatenate([one(part) for part in parts], axis=1)


def _smallest(parts: list[NDArray]) -> NDArray:
    return np.minimum.reduce(parts)


def _added(parts: list[NDArray]) -> NDArray:
    return np.sum(parts, axis=0)


def _widest(
    sample: Block, sums: NDArray, grid: NDArray, prior: NDArray, weight: float, one_hot: bool
) -> float:
    return Judges(sample.Y, sample.weights, prior, weight, one_hot).widest(grid, sums)


# kernel ridge -------------------------------------------------------------------------------------


def settled_ridge(client: Any, function: RidgeFunction, rows: Rows) -> Any:
    """Delayed kernel ridge on centres drawn across the blocks, its normal equations reduced."""
    settle(function, rows)
    function._check()
    if "auto" in (function.bandwidth, function.penalty):
        function.bandwidth_, function.penalty_ = _choose_ridge(client, function, rows)
    else:
        function.bandwidth_ = float(function.bandwidth)
        function.penalty_ = float(function.penalty)
    index = draw(rows.n, function.n_centers, function.random_state)
    template = keep(client, delayed(_with_centers)(constant(function), rows.sample(index)))
    parts = [delayed(_equations)(template, block) for block in rows.blocks]
    equations = tree(parts, _added_pairs, 2)
    return keep(client, delayed(_solved)(template, equations))


def _choose_ridge(client: Any, function: RidgeFunction, rows: Rows) -> tuple[float, float]:
    """:func:`ejop.selection.choose_ridge`: a sample is solved on a worker."""
    index = draw(rows.n, 1000, function.random_state)
    sample, unit = rows.sample(index), 1.0
    if function.bandwidth == "auto":
        sample = keep(client, sample)
        near = _nearest(client, sample, function, rows)
        unit = median_of_nearest(np.sqrt(near[0]))
    s = rows.summary
    return run(client, delayed(_ridge_of)(sample, constant(function), unit, s.prior, s.weight))


def _ridge_of(
    sample: Block, function: RidgeFunction, unit: float, prior: NDArray, weight: float
) -> tuple[float, float]:
    judges = Judges(sample.Y, sample.weights, prior, weight, False)
    return ridge_of_sample(
        sample.X, judges, unit, function.bandwidth, function.penalty, function.widening
    )


def _with_centers(function: Any, centers: Block) -> Any:
    function = function.with_rows(centers.X, centers.Y, centers.w)
    function._place_centers(centers.X)
    function._factorise_centers()
    return function


def _equations(template: RidgeFunction, block: Block) -> tuple[NDArray, NDArray]:
    part: Any = template.with_rows(block.X, block.Y, block.w)
    return part._normal_equations(part._queries(block.X))


def _added_pairs(parts: list[tuple[NDArray, NDArray]]) -> tuple[NDArray, NDArray]:
    return _added([gram for gram, _ in parts]), _added([target for _, target in parts])


def _solved(template: RidgeFunction, equations: tuple[NDArray, NDArray]) -> Any:
    function: Any = template.with_rows(template.X_[:0], template.Y_[:0], None)
    function._solve(*equations)
    return function
