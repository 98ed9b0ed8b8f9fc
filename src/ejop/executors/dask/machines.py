"""Kernel machines of a sample, solved again for all rows of a cluster by passes over them.

Sums are in float64. Conjugate gradients amplify rounding, and rows are cut in partitions otherwise
than one machine would cut them: in float32 the answers of both would differ by some 1e-4.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.executors.dask.cluster import constant, delayed, run, tree
from ejop.executors.dask.rows import Rows
from ejop.functions import AverageFunction, Member, mapped
from ejop.rows import Block
from ejop.scaling import scaled
from ejop.sums.conjugate import ConjugateSystem, block_rows, correlation
from ejop.sums.engine import HOST
from ejop.sums.ridge import FLOAT64, Centers

#: passes over all rows for each machine, which begins where the sample left it
PASSES = 6


@dataclass(frozen=True)
class MachineReading:
    """How a machine reads a block: scaled, prepared and mapped rows, targets less their mean.

    Attributes
    ----------
    scaler : fitted scaler
    function : AverageFunction
        Without rows.
    member : Member
        Without coefficients.
    prior : ndarray of shape (c,)
    class_weights : ndarray of shape (c,) or None
    """

    scaler: Any
    function: Any
    member: Member
    prior: NDArray
    class_weights: NDArray | None

    def __call__(self, block: Block, part: slice) -> tuple[NDArray, NDArray, NDArray | None]:
        """Rows Z (m, r), targets (m, c) and weights (m, 1) of a part."""
        X = scaled(self.scaler, np.asarray(block.X[part], dtype=np.float64))
        Z = mapped(self.function.prepared(X, self.member.preparation), self.member.L)
        w = self.weights(block.rows(part))
        column = None if w is None else w[:, None].astype(FLOAT64)
        return Z.astype(FLOAT64, copy=False), block.Y[part].astype(FLOAT64) - self.prior, column

    def weights(self, block: Block) -> NDArray | None:
        """Weights of the rows of a block; None for equal ones."""
        if self.class_weights is None:
            return block.w
        return self.class_weights[block.Y.argmax(1)] * block.weights


@dataclass(frozen=True)
class ClusterPasses:
    """Training rows on the workers; a pass is a sum over their blocks.

    Attributes
    ----------
    rows : Rows
    reading : MachineReading
    weight : float
    """

    rows: Rows
    reading: MachineReading
    weight: float

    def correlate(self, centers: Centers, u: Any, *, against: bool) -> NDArray:
        """A pass: each block where it is, merged by a tree."""
        task = constant((self.reading, centers, u, against))
        parts = [delayed(_correlated)(task, block) for block in self.rows.blocks]
        return run(self.rows.client, tree(parts, _added))


def _correlated(task: Any, block: Block) -> NDArray:
    reading, centers, u, against = task
    total, size = np.zeros((len(centers), u.shape[1])), block_rows(centers, len(centers))
    for s in range(0, len(block), size):
        Z, r, w = reading(block, slice(s, s + size))
        total += correlation(centers, Z, u, r if against else None, w)
    return total


def _added(parts: list[NDArray]) -> NDArray:
    return np.sum(parts, axis=0)


def solved_for_all(model: Any, rows: Rows, class_weights: NDArray | None) -> Any:
    """A predictor fitted to a sample, its machines solved for all rows.

    What was chosen stays: kernels, bandwidths, penalties, maps, centres; and what is told comes
    from the rows of the sample that machines had not seen.
    """
    twin, rule = copy(model), copy(model.rule_)
    function = rule.function_
    settle = partial(_settled, model, function, rows, class_weights)
    members = [settle(member) for member in function.members_]
    rule.function_ = copy(function)
    rule.function_.members_ = rule.members_ = members
    twin.rule_ = rule
    return twin


def _settled(
    model: Any, function: Any, rows: Rows, class_weights: NDArray | None, member: Member
) -> Member:
    weight = _weight(rows, class_weights)
    system, reading = system_of(model, function, member, weight, rows.n, class_weights)
    passes, start = ClusterPasses(rows, reading, weight), member.coefficients.astype(np.float64)
    *_, last = islice(system.descend(passes, start.shape[1], start), PASSES + 1)
    return replace(member, coefficients=last.coefficients)


def system_of(
    model: Any,
    function: Any,
    member: Member,
    weight: float,
    n: int,
    class_weights: NDArray | None = None,
) -> tuple[ConjugateSystem, MachineReading]:
    """Equations of a machine of a sample for n rows of such a weight, and how it reads rows."""
    held = function.X_ if member.centers is None else function.X_[member.centers]
    Z = mapped(function.prepared(held, member.preparation), member.L)
    bare = AverageFunction()
    bare.quantiles_ = function.quantiles_
    empty = replace(member, coefficients=np.empty(0), centers=None)
    reading = MachineReading(model.scaler_, bare, empty, function.summary_.prior, class_weights)
    # of rows whose weights are one on average, as those of the sample were
    penalty = member.penalty * weight / n
    system = ConjugateSystem.of(
        member.kernel, Z, member.bandwidth, penalty, weight, HOST, single=False
    )
    return system, reading


def _weight(rows: Rows, class_weights: NDArray | None) -> float:
    """Sum of the weights of all rows."""
    if class_weights is None:
        return float(rows.summary.weight)
    return float(class_weights @ rows.summary.target)
