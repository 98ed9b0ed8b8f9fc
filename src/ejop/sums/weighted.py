"""Sums over reference rows that merge: those of tiles, of blocks, of a cluster's partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ejop.arrays import namespace

#: logarithm of no weight: below that of any row, yet finite, as parts of infinity are not numbers
NO_WEIGHT = -1e30


def exponentiate(L: Any, top: Any) -> Any:
    """exp(L - top), in place; rows without any weight become zeros."""
    xp = namespace(L)
    L -= xp.where(top <= NO_WEIGHT / 2, 0, top)
    return xp.exp(L, out=L)


@dataclass(frozen=True)
class WeightedSums:
    """Un-normalised sums over some reference rows; those over other rows merge.

    Attributes
    ----------
    sums : array of shape (n_outputs, m, n_columns)
        sum_i K_qi Y_ic table_ij over exp(top).
    total : array of shape (m, n_columns), or None
        sum_i K_qi table_ij over exp(top); zero where no row weighs anything. None for sums that are
        not to be divided by a weight.
    top : array of shape (m, 1) or (m, n_columns), or None
        Logarithm of the factor that the sums were divided by; None for none.
    """

    sums: Any
    total: Any = None
    top: Any = None

    def merge(self, other: WeightedSums) -> WeightedSums:
        """Sums over both sets of rows, which stay as they are."""
        return self.copy().absorb(other.copy())

    def absorb(self, other: WeightedSums) -> WeightedSums:
        """The same, using both up: the side with the smaller weights is scaled down."""
        top = None
        if self.top is not None and other.top is not None:
            xp = namespace(self.sums)
            top = xp.maximum(self.top, other.top)
            reference = xp.where(top <= NO_WEIGHT / 2, 0, top)
            for side in (self, other):
                fade = xp.exp(side.top - reference)
                side.sums.__imul__(fade)
                side.total.__imul__(fade)
        self.sums.__iadd__(other.sums)
        if self.total is not None:
            self.total.__iadd__(other.total)
        return WeightedSums(self.sums, self.total, top)

    def __getitem__(self, rows: Any) -> WeightedSums:
        """The sums of some queries."""
        total = None if self.total is None else self.total[rows]
        return WeightedSums(self.sums[:, rows], total, None if self.top is None else self.top[rows])

    def copy(self) -> WeightedSums:
        """Sums that may be used up."""
        total = None if self.total is None else self.total * 1
        return WeightedSums(self.sums * 1, total, self.top)

    @staticmethod
    def join(parts: Sequence[WeightedSums]) -> WeightedSums:
        """Sums of other queries, one set after another, in NumPy."""
        tops = [part.top for part in parts if part.top is not None]
        return WeightedSums(
            np.concatenate([part.sums for part in parts], axis=1),
            np.concatenate([part.total for part in parts]),
            np.concatenate(tops) if tops else None,
        )
