"""Neighbours among references in blocks: what a rule finds in each, merged before it votes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.executors.dask.cluster import constant, delayed, tree
from ejop.neighbors import Neighborhoods, Votes
from ejop.rows import Block
from ejop.rules import NeighborsRule


@dataclass(frozen=True)
class Found:
    """Rows near some queries, with their targets: those stay behind on other workers.

    Attributes
    ----------
    near : Neighborhoods
        Rows by their numbers among all rows.
    Y : ndarray of shape (n_pairs, n_outputs)
    w : ndarray of shape (n_pairs,) or None
    """

    near: Neighborhoods
    Y: NDArray
    w: NDArray | None

    def take(self, places: NDArray) -> Found:
        """Some of the pairs, in another order."""
        w = None if self.w is None else self.w[places]
        return Found(self.near.take(places), self.Y[places], w)


def find(rule: NeighborsRule, Z: NDArray, block: Block) -> Found:
    """What a settled rule finds in one block."""
    near = rule.search(Z, block.X, rule.reach_)
    w = None if block.w is None else block.w[near.rows]
    return Found(replace(near, rows=block.index[near.rows]), block.Y[near.rows], w)


def merge(parts: list[Found], rule: NeighborsRule) -> Found:
    """What it keeps of several blocks, equal distances by row number."""
    joined = {
        name: np.concatenate([getattr(part.near, name) for part in parts])
        for name in ("queries", "rows", "distances")
    }
    weights = [part.w for part in parts if part.w is not None]
    near = Neighborhoods(parts[0].near.n_queries, **joined)
    found = Found(
        near,
        np.concatenate([part.Y for part in parts]),
        np.concatenate(weights) if weights else None,
    ).take(np.lexsort((near.rows, near.queries)))
    return found.take(rule.merge(found.near))


def tally(rule: NeighborsRule, found: Found) -> Votes:
    """Votes of what was found."""
    near = replace(found.near, rows=np.arange(len(found.Y)))
    (votes,) = rule.tally(near, found.Y, found.w, [rule.reach_])
    return votes


def delayed_found(rule: NeighborsRule, Z: Any, blocks: list[Any]) -> Any:
    """Delayed rows near delayed queries, over delayed blocks."""
    settled = constant(rule)
    found = [delayed(find)(settled, Z, block) for block in blocks]
    return tree(found, partial(merge, rule=rule))


def delayed_votes(rule: NeighborsRule, Z: Any, blocks: list[Any]) -> Any:
    """Delayed votes for delayed mapped queries over delayed blocks."""
    return delayed(tally)(constant(rule), delayed_found(rule, Z, blocks))
