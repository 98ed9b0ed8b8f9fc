"""Threads have one owner: who may start them, how many, and what the libraries' own pools may do.

NumPy, SciPy, scikit-learn and torch each bring a pool of threads. Left alone they crowd the cores,
most of all beside threads of ours. So whatever computes here runs inside :data:`computing`, which
holds every pool at one thread; work large enough for several threads is cut into blocks for
:func:`stream`. One large dense operation that cannot be cut gets the pools back with
:func:`pools_free`. Never both.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ContextDecorator, contextmanager
from itertools import islice
from threading import RLock, local
from typing import TypeVar

from joblib import cpu_count, effective_n_jobs
from threadpoolctl import LibController, ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")

#: operations that one core does in about ten milliseconds: less work starts no threads
SMALL = 100_000_000
#: cube of the rows of a system from which a Cholesky factor by the BLAS's threads pays. They spin
#: while they wait for one another: beside busy cores a factor of 4,000 rows took 1.7 times as long
#: with two threads as with one, and an eigen-decomposition of 1,000 rows eighty times.
LARGE = 100_000_000_000


class _Here(local):
    """What is known of each thread."""

    #: how many limits it is inside of
    depth = 0
    #: which count its own limit belongs to
    generation = 0
    #: modules when its pools were last looked at
    modules = 0
    #: whether it is one of our own threads, which start no others
    ours = False
    #: how many tasks of a cluster it is inside of
    tasks = 0
    #: threads that it may start where no one says how many; None for as many as the BLAS may use
    most: int | None = None

    def __init__(self) -> None:
        self.found: dict[str, int] = {}  # numbers of threads of OpenMP before the limit


class _Pools:
    """The pools of this process: a count of who needs them at one, and what they were before.

    The BLAS has one number for the process: the first to need it sets it to one, the last gives
    back what was found. OpenMP has one for each thread that calls it, so every thread sets its own.
    """

    def __init__(self) -> None:
        self.here = _Here()
        self._lock = RLock()
        self._holders = 0
        self._generation = 0
        self._found: dict[str, int] = {}
        self._modules = 0
        self._libraries: list[LibController] = []

    def enter(self) -> None:
        """Hold the pools at one for this thread; again inside costs next to nothing."""
        here = self.here
        if here.depth == 0:
            here.generation = self.hold()
            self._limit_here()
        elif len(sys.modules) != here.modules:  # an import may have brought another pool
            with self._lock:
                self._limit_shared()
            self._limit_here()
        here.depth += 1

    def leave(self) -> None:
        """The other end of ``enter``, in the same thread."""
        here = self.here
        here.depth -= 1
        if here.depth == 0:
            self._give_back(here.found)
            self.release(here.generation)

    def hold(self) -> int:
        """Hold the BLAS at one; what is returned goes to ``release``, in whichever thread."""
        with self._lock:
            self._limit_shared()
            self._holders += 1
            return self._generation

    def release(self, generation: int) -> None:
        """The other end of ``hold``."""
        with self._lock:
            if generation != self._generation:  # held before a fork, by a thread that is not here
                return
            self._holders -= 1
            if self._holders == 0:
                self._give_back(self._found)

    def let_go(self) -> int:
        """Give the pools back for a while if no one else needs them at one: the depth, or 0."""
        here = self.here
        with self._lock:
            depth = here.depth
            if depth == 0 or self._holders > 1 or here.ours or here.tasks:
                return 0
            here.depth = 1
            self.leave()
            return depth

    def take_back(self, depth: int) -> None:
        """The other end of ``let_go``."""
        self.enter()
        self.here.depth = depth

    def allowed(self) -> int:
        """Threads that the BLAS may use, or might before it was held."""
        with self._lock:
            self._look()
            before = self._found | self.here.found
            blas = [library for library in self._libraries if library.user_api == "blas"]
            most = max((before.get(one.filepath, _number(one)) for one in blas), default=1)
        return min(most, cpu_count()) if most > 1 else 1

    def become_ours(self) -> None:
        """Make this thread one of a pool of ours, whose maker holds the BLAS."""
        self.here.ours, self.here.depth = True, 1
        self._limit_here()

    def before_fork(self) -> None:
        """Let no other thread be half-way through a change."""
        self._lock.acquire()

    def after_fork(self) -> None:
        """In the parent: go on."""
        self._lock.release()

    def in_child(self) -> None:
        """In the child: only the thread that forked is left, so only its limit counts."""
        self._lock = RLock()
        self._generation += 1
        self.here.generation = self._generation
        self._holders = int(self.here.depth > 0)
        if not self._holders:
            self._give_back(self._found)

    def _look(self) -> None:
        """Find the libraries; it takes milliseconds, so only after something was imported."""
        modules = len(sys.modules)
        if modules != self._modules:
            self._libraries = ThreadpoolController().lib_controllers
            self._modules = modules

    def _limit_shared(self) -> None:
        self._look()
        self._limit(self._found, shared=True)

    def _limit_here(self) -> None:
        self._limit(self.here.found, shared=False)
        self.here.modules = self._modules

    def _limit(self, found: dict[str, int], *, shared: bool) -> None:
        for library in self._libraries:
            if _shared(library) is shared and (number := _number(library)) > 1:
                found.setdefault(library.filepath, number)
                _set_number(library, 1)

    def _give_back(self, found: dict[str, int]) -> None:
        for library in self._libraries:
            if library.filepath in found:
                _set_number(library, found[library.filepath])
        found.clear()


def _shared(library: LibController) -> bool:
    """Whether its number of threads is one for the process, and not for each thread."""
    by_openmp = library.internal_api == "openblas" and library.threading_layer == "openmp"
    return library.user_api == "blas" and not by_openmp


def _number(library: LibController) -> int:
    return library.get_num_threads() or 1


def _set_number(library: LibController, number: int) -> None:
    # From 3.8 on, threadpoolctl lets the first thread that sets OpenBLAS keep it for itself and
    # silently ignores the others; ours are counted instead.
    clear = getattr(library, "clear_controlling_thread", lambda force: None)
    clear(force=True)
    library.set_num_threads(number)
    clear(force=True)


_pools = _Pools()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_pools.before_fork,
        after_in_parent=_pools.after_fork,
        after_in_child=_pools.in_child,
    )


class _Computing(ContextDecorator):
    def __enter__(self) -> None:
        _pools.enter()

    def __exit__(self, *error: object) -> None:
        _pools.leave()


class _Task(ContextDecorator):
    def __enter__(self) -> None:
        _pools.enter()
        _pools.here.tasks += 1

    def __exit__(self, *error: object) -> None:
        _pools.here.tasks -= 1
        _pools.leave()


#: ``with computing:`` or ``@computing``: every pool of threads at one; what was found comes back
#: when the last that is inside, in any thread, is done
computing = _Computing()
#: ``@cluster_task``: the same for what Dask runs side by side, where ``n_jobs=None`` is one thread
cluster_task = _Task()


@contextmanager
def pools_free(operations: float = float("inf")) -> Iterator[None]:
    """Give the libraries their threads back for one dense operation, outside blocks of ours.

    Nothing happens for less than :data:`LARGE` operations, in threads of ours, in a task of a
    cluster, while another thread computes, or inside :func:`at_most`.
    """
    free = operations >= LARGE and _pools.here.most is None
    depth = _pools.let_go() if free else 0
    try:
        yield
    finally:
        if depth:
            _pools.take_back(depth)


@contextmanager
def at_most(n_jobs: int | None) -> Iterator[None]:
    """Hold all that is inside to ``n_jobs`` threads, also what is not told how many.

    None changes nothing.
    """
    here = _pools.here
    before = here.most
    if n_jobs is not None:
        here.most = n_threads(n_jobs)
    try:
        yield
    finally:
        here.most = before


def n_threads(n_jobs: int | None = None, operations: float = float("inf")) -> int:
    """Threads for ``n_jobs``: None means those of :func:`at_most`, or as many as the BLAS may use
    outside our limit.

    One inside threads of ours and, unless a number of threads is asked for, for work of fewer than
    :data:`SMALL` operations. Never more than the machine has cores: under joblib's "dask" backend
    ``effective_n_jobs`` counts those of a whole cluster, and threads stay here.
    """
    if _pools.here.ours or (operations < SMALL and (n_jobs is None or n_jobs < 0)):
        return 1
    if n_jobs is not None:
        return min(int(effective_n_jobs(n_jobs)), n_jobs if n_jobs > 0 else cpu_count())
    if _pools.here.tasks:
        return 1
    most = _pools.here.most
    return _pools.allowed() if most is None else most


def stream(work: Callable[[T], R], items: Sequence[T], threads: int) -> Generator[R]:
    """Results of ``work`` on each item, in order, from several threads with the pools at one.

    A few large products in step gain less from the BLAS's own threads than whole blocks side by
    side do, and the two together would crowd the cores. At most two items a thread are handed out
    ahead. Closing the stream drops those that have not begun and waits for the others. One thread
    is the caller's own.
    """
    threads = min(threads, len(items))
    if threads < 2 or _pools.here.ours:
        for item in items:
            with computing:
                result = work(item)
            yield result
        return
    rest = iter(items)
    held = _pools.hold()
    try:
        with ThreadPoolExecutor(threads, initializer=_pools.become_ours) as pool:
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
    finally:
        _pools.release(held)


def in_threads(
    work: Callable[[T], R],
    items: Iterable[T],
    n_jobs: int | None = None,
    *,
    operations: float = float("inf"),
) -> list[R]:
    """All results of :func:`stream` at once; ``operations`` are those of all items together."""
    listed = list(items)
    threads = n_threads(n_jobs, operations) if len(listed) > 1 else 1
    return list(stream(work, listed, threads))
