"""Blocks of rows on a device, smaller ones where memory does not suffice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ejop.arrays import load_torch


def halving(
    work: Callable[[slice], Any], n: int, block: int, tell: Callable[[str], None] | None = None
) -> Iterator[Any]:
    """Results of consecutive blocks of n rows; a block that does not fit in memory is halved.

    Parameters
    ----------
    work : callable
        Takes a slice; must change nothing before it is sure to succeed.
    n, block : int
    tell : callable, optional
        Called with a sentence when a block is halved.
    """
    torch = load_torch()
    start = 0
    while start < n:
        try:
            result = work(slice(start, min(n, start + block)))
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            if block == 1:
                raise
            block = max(1, block // 2)
            if tell is not None:
                tell(f"out of memory: blocks of {block}")
            continue
        yield result
        start += block
