"""Kernel ridge on centres from rows that no one machine holds: its equations summed over blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.executors.dask.cluster import constant, delayed, keep, tree
from ejop.executors.dask.rows import Rows
from ejop.functions import RidgeFunction
from ejop.rows import Block
from ejop.sums.engine import HOST
from ejop.sums.ridge import NystromSystem


def solved_ridge(client: Any, function: RidgeFunction, rows: Rows) -> Any:
    """Delayed (function, system): centres drawn across the blocks, normal equations reduced.

    The function holds no rows; the system leaves rows out of their own estimate.
    """
    function.settle(rows)
    centers = rows.gathered(function.draw_centers(rows.n))
    template = keep(client, delayed(_with_centers)(constant(function), centers))
    parts = [delayed(_equations)(template, block) for block in rows.blocks]
    return keep(client, delayed(_solved)(template, tree(parts, _added, 2)))


def _with_centers(function: Any, centers: Block) -> tuple[RidgeFunction, NystromSystem]:
    function = function.bare()
    function.centers_ = centers.X
    return function, function.nystrom(HOST)


def _equations(template: tuple[RidgeFunction, NystromSystem], block: Block) -> Any:
    function, empty = template
    return empty.equations(block, function.summary_)


def _added(parts: list[tuple[NDArray, NDArray]]) -> tuple[NDArray, NDArray]:
    grams, targets = zip(*parts, strict=True)
    return np.sum(grams, axis=0), np.sum(targets, axis=0)


def _solved(template: Any, equations: tuple[NDArray, NDArray]) -> Any:
    function, empty = template
    function = function.bare(centers_=function.centers_)
    gram, target = equations
    function.take_equations(empty, gram.copy(), target)
    return function, function.system(HOST)
