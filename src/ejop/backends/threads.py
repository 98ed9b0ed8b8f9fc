"""Threads: one way to run blocks side by side without crowding the cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from joblib import cpu_count, effective_n_jobs
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


@cache
def _pools() -> ThreadpoolController:
    """The BLAS libraries of this process; looking for them takes milliseconds, so once."""
    return ThreadpoolController().select(user_api="blas")


def n_threads(n_jobs: int | None) -> int:
    """Threads for ``n_jobs``: None means as many as the BLAS may use in this process.

    Never more than the machine has cores: under joblib's "dask" backend ``effective_n_jobs`` counts
    those of a whole cluster, and threads stay here.
    """
    if n_jobs is not None:
        return min(int(effective_n_jobs(n_jobs)), n_jobs if n_jobs > 0 else cpu_count())
    return max((pool["num_threads"] for pool in _pools().info()), default=1)


def stream(work: Callable[[T], R], items: Sequence[T], threads: int) -> Generator[R]:
    """Results of ``work`` on each item, in order, from several threads with one BLAS thread each.

    A few large products in step gain less from the BLAS's own threads than whole blocks side by
    side do, and the two together would crowd the cores. At most two items a thread are handed out
    ahead. Closing the stream drops those that have not begun and waits for the others.
    """
    rest = iter(items)
    with _pools().limit(limits=1), ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[R]] = deque(
            pool.submit(work, item) for item in islice(rest, 2 * threads)
        )
        try:
            while ahead:
                result = ahead.popleft().result()
                ahead.extend(pool.submit(work, item) for item in islice(rest, 1))
                yield result
        finally:
            for future in ahead:
                future.cancel()


def in_threads(work: Callable[[T], R], items: Iterable[T], n_jobs: int | None = None) -> list[Any]:
    """All results of :func:`stream` at once."""
    return list(stream(work, list(items), n_threads(n_jobs)))
