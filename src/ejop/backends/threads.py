"""Threads: one way to run blocks side by side without crowding the cores."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import ThreadpoolController, threadpool_limits

T = TypeVar("T")
R = TypeVar("R")


def n_threads(n_jobs: int | None) -> int:
    """Threads for ``n_jobs``: None means as many as the BLAS may use in this process."""
    if n_jobs is not None:
        return int(effective_n_jobs(n_jobs))
    pools = ThreadpoolController().select(user_api="blas").info()
    return max((pool["num_threads"] for pool in pools), default=1)


def stream(work: Callable[[T], R], items: Sequence[T], threads: int) -> Generator[R]:
    """Results of ``work`` on each item, in order, from several threads with one BLAS thread each.

    A few large products in step gain less from the BLAS's own threads than whole blocks side by
    side do, and the two together would crowd the cores. Closing the stream waits for the items
    in flight only.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        results = Parallel(n_jobs=threads, backend="threading", return_as="generator")(
            delayed(work)(item) for item in items
        )
        try:
            yield from results
        finally:
            results.close()


def in_threads(work: Callable[[T], R], items: Iterable[T], n_jobs: int | None = None) -> list[Any]:
    """All results of :func:`stream` at once."""
    return list(stream(work, list(items), n_threads(n_jobs)))
