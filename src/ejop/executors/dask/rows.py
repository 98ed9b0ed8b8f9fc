"""Rows on the workers: collections cut into blocks, checked, counted and summed up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from dask.sizeof import sizeof
from numpy.typing import NDArray
from sklearn.utils.random import sample_without_replacement

from ejop.choice import query_blocks, some_rows
from ejop.executors.dask.cluster import constant, delayed, keep, run, tree
from ejop.functions import Function
from ejop.rows import Block, Summary, join_blocks, nbytes_of
from ejop.sums import Form, WeightedSums
from ejop.sums.plan import format_bytes

#: rows beyond which a draw does not number them all; up to there draws are those of one machine
MANY_ROWS = 10_000_000
#: small neighbouring partitions are joined up to so many bytes
BLOCK_BYTES = 16 * 2**20


# Dask plans transfers and spills by sizes, and knows those of arrays alone.
sizeof.register(Function, nbytes_of)
sizeof.register(WeightedSums, nbytes_of)
sizeof.register(Form, lambda form: 4 * nbytes_of(form.function))  # rows and their tables


@dataclass(frozen=True)
class Rows:
    """All training rows, as delayed blocks that are none of them empty.

    They are a :class:`ejop.choice.RowSource`: bandwidths and penalties are chosen by them as they
    are by rows in memory.

    Attributes
    ----------
    client : Client
    blocks : list of Delayed
        Of :class:`Block`.
    lengths : list of int
    summary : Summary
    """

    client: Any
    blocks: list[Any]
    lengths: list[int]
    summary: Summary

    @property
    def n(self) -> int:
        """Number of all rows."""
        return sum(self.lengths)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row with its targets."""
        return (self.summary.n_features + self.summary.n_outputs) * self.summary.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all rows with their targets."""
        return self.n * self.row_bytes

    def __str__(self) -> str:
        return f"{self.n} rows in {len(self.blocks)} blocks, {format_bytes(self.nbytes)}"

    def mapped(self, change: Callable[[Block], Block]) -> Rows:
        """Rows changed block by block, lazily; their summary is computed."""
        task = constant(change)
        blocks = [delayed(_change)(task, block) for block in self.blocks]
        return replace(self, blocks=blocks, summary=_summed_up(self.client, blocks))

    def draw(self, at_most: int, random_state: Any) -> NDArray:
        """Sorted row numbers drawn at random: those that one machine would draw, up to 10^7."""
        return draw(self.n, at_most, random_state)

    def sweep(self, sample: Any, work: Callable[..., NDArray], merge: Any) -> Any:
        """What a sample finds in each block, merged by a tree; it stays on the workers."""
        task = constant(work)
        found = [delayed(_swept)(task, sample, block) for block in self.blocks]
        return tree(found, merge.reduce)

    def apply(self, work: Callable[..., Any], sample: Any, *arguments: Any) -> Any:
        """A function of the sample, on a worker."""
        return run(self.client, delayed(work)(sample, *map(constant, arguments)))

    def grouped(self, n_bytes: float | None = None, *, parts: int = 1) -> Rows:
        """Small neighbours joined, so that few tasks do the work of many, but ``parts`` remain."""
        n_bytes = min(BLOCK_BYTES, self.nbytes / parts) if n_bytes is None else n_bytes
        groups: list[list[int]] = []
        size = np.inf
        for i, length in enumerate(self.lengths):
            if size + length * self.row_bytes > n_bytes:
                groups.append([])
                size = 0
            groups[-1].append(i)
            size += length * self.row_bytes
        blocks = [
            self.blocks[group[0]]
            if len(group) == 1
            else delayed(join_blocks)([self.blocks[i] for i in group])
            for group in groups
        ]
        return replace(
            self, blocks=blocks, lengths=[sum(self.lengths[i] for i in g) for g in groups]
        )

    def takes(self, index: NDArray | None) -> list[tuple[Any, int]]:
        """Delayed parts that hold rows of these (sorted) numbers, and how many each; all for
        None."""
        if index is None:
            return list(zip(self.blocks, self.lengths, strict=True))
        ends = np.searchsorted(index, np.cumsum(self.lengths))
        parts = np.split(index, ends[:-1])
        return [
            (delayed(_take)(block, part), len(part))
            for block, part in zip(self.blocks, parts, strict=True)
            if len(part)
        ]

    def gathered(self, index: NDArray | None) -> Any:
        """One delayed block of the rows of these (sorted) numbers, made on a worker."""
        return delayed(join_blocks)([part for part, _ in self.takes(index)])

    def sample(self, index: NDArray) -> Any:
        """The same, made now and kept there."""
        return keep(self.client, self.gathered(index))


def _change(change: Callable[[Block], Block], block: Block) -> Block:
    return change(block)


def _take(block: Block, index: NDArray) -> Block:
    return block.take(index)


def _swept(work: Callable[..., NDArray], sample: Block, block: Block) -> NDArray:
    """Some queries at a time, side by side: distances to a block take memory."""
    parts = query_blocks(np.arange(len(sample)), len(block))
    return np.concatenate([work(part, sample.rows(part), block) for part in parts], axis=1)


def _summed_up(client: Any, blocks: list[Any]) -> Summary:
    return run(client, tree([delayed(Summary.of)(block) for block in blocks], Summary.join))


def draw(n: int, at_most: int, random_state: Any) -> NDArray:
    """Sorted row numbers drawn at random: those that one machine would draw, up to 10^7 rows."""
    if n <= MANY_ROWS:
        return some_rows(np.ones(n), at_most, random_state)
    return np.sort(sample_without_replacement(n, at_most, random_state=random_state))


# from partitions ------------------------------------------------------------------------------


def read(
    client: Any,
    parts: list[tuple[Any, Any, Any]],
    reader: Any,
    accept: Callable[[NDArray], None],
) -> Rows:
    """Check and count the partitions, then sum them up.

    Parameters
    ----------
    client : Client
    parts : list of (x, y, w)
        Delayed partitions that belong together; w may be None.
    reader : Reader
    accept : callable
        Takes all classes, or the lowest and highest real targets, and raises where they will not
        do.
    """
    look = constant(reader)
    found = run(client, delayed(list)([delayed(_look)(look, *part) for part in parts]))
    full = [part for part in found if part.n]
    if not full:
        if any(w is not None for _, _, w in parts):
            raise ValueError(
                "`sample_weight` is zero for every row; at least one must be positive."
            )
        raise ValueError(
            f"Found array with 0 sample(s) (shape=(0, {reader.n_features})) while a minimum of 1 "
            "is required."
        )
    reader.settle(full)
    accept(reader.labels)
    load, start, blocks = constant(reader), 0, []
    for part, seen in zip(parts, found, strict=True):
        if seen.n:
            blocks.append(delayed(_load)(load, *part, start, seen.n))
        start += seen.n
    return Rows(client, blocks, [seen.n for seen in full], _summed_up(client, blocks))


def _look(reader: Any, x: Any, y: Any, w: Any) -> Any:
    return reader.look(x, y, w)


def _load(reader: Any, x: Any, y: Any, w: Any, start: int, length: int) -> Block:
    return reader.load(x, y, w, start, length)
