"""Compute the runs that are missing, in this process or several, and keep each as it ends."""

from __future__ import annotations

import importlib.metadata
import multiprocessing
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial

from ejop.experiments.provenance import commit
from ejop.experiments.store import Key, Results, Run

#: how often a runner shows that it is alive
HEARTBEAT_SECONDS = 10.0
_PACKAGES = ("ejop", "numpy", "scipy", "scikit-learn", "numba")


def compute(
    key: Key, n_neighbors: int | None, data_dir: str | None = None, device: str | None = None
) -> Run:
    """One run; ``n_neighbors`` is for methods tested with the neighbours of another."""
    from ejop.experiments.folds import make_fold  # workers load what they need, when they need it
    from ejop.experiments.methods import METHODS

    dataset, method, seed = key
    fold = make_fold(dataset, seed, data_dir, device)
    found = METHODS[method].run(fold, seed, n_neighbors)
    return Run(
        dataset,
        method,
        seed,
        round(found.error, 6),
        round(found.fit_seconds, 3),
        round(found.predict_seconds, 3),
        found.iterations,
        found.settings if device is None else {**found.settings, "device": device},
        found.objective,
        versions(),
        f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
    )


def versions(more: Iterable[str] = ()) -> dict[str, str]:
    """What a run depends on: versions and commit, and the machine that its seconds are of.

    Parameters
    ----------
    more : iterable of str
        Packages whose versions are told where they are installed.
    """
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    for name in more:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "commit": commit(),
        **found,
    }


def forerunner(key: Key) -> Key | None:
    """The run whose number of neighbours this one is tested with."""
    from ejop.experiments.methods import METHODS

    first = METHODS[key[1]].after
    return None if first is None else (key[0], first, key[2])


def needed(keys: list[Key], after: Callable[[Key], Key | None] = forerunner) -> list[Key]:
    """Keys with those that they need first."""
    firsts = [first for key in keys if (first := after(key)) is not None]
    return list(dict.fromkeys([*firsts, *keys]))


def run_missing(
    keys: list[Key],
    results: Results,
    *,
    jobs: int = 1,
    data_dir: str | None = None,
    work: Callable[[Key, int | None, str | None], Run] = compute,
    after: Callable[[Key], Key | None] = forerunner,
    progress: Callable[[Run | Key, str], None] = lambda what, state: None,
) -> list[tuple[Key, BaseException]]:
    """Compute what is not in the results file.

    Parameters
    ----------
    keys : list of (dataset, method, seed)
    results : Results
    jobs : int, default=1
        Processes; 1 computes here.
    data_dir : str, optional
    work : callable
        Computes one run; by default a cell of the paper's tables.
    after : callable
        The run that a key needs first, or None.
    progress : callable
        Called with a key and "started", a Run and "finished", or a key and "failed", "elsewhere"
        (another runner has it) or "tried again" (its process died).

    Returns
    -------
    failures : list of (key, exception)
        A failed run is not recorded; the others go on. A run whose process dies, killed or out of
        memory, is tried once more in a new one.
    """
    waiting = needed(keys, after)
    failures: dict[Key, BaseException] = {}
    told: set[Key] = set()
    lost: set[Key] = set()

    def settle(key: Key, finish: Callable[[], Run]) -> None:
        try:
            run = finish()
        except BrokenProcessPool as error:
            if key in lost:
                failures[key] = _died(error)
                progress(key, "failed")
            else:
                lost.add(key)
                waiting.insert(0, key)
                progress(key, "tried again")
        except Exception as error:  # told at the end; the run stays missing
            failures[key] = error
            progress(key, "failed")
        else:
            results.add(run)
            progress(run, "finished")

    with _alive(results), _executor(jobs) as submit:
        flying: dict[Future, Key] = {}
        while waiting or flying:
            done = results.done()
            waiting = [key for key in waiting if key not in done and key not in failures]
            idle = True
            for key in list(waiting):
                if len(flying) >= jobs:
                    break
                first = after(key)
                if first in failures:
                    settle(key, partial(_not_without, first))
                elif first is None or first in done:
                    if results.claim(key):
                        idle = False
                        waiting.remove(key)
                        progress(key, "started")
                        flying[submit(work, key, _tuned(first, results), data_dir)] = key
                    elif key not in told:
                        told.add(key)
                        progress(key, "elsewhere")
            for future in wait(flying, timeout=1, return_when=FIRST_COMPLETED).done:
                settle(flying.pop(future), future.result)
            if waiting and not flying and idle:
                time.sleep(0.1)  # another runner has what is left
    return list(failures.items())


def _not_without(first: Key | None) -> Run:
    raise RuntimeError(f"it is tested with the neighbours of {first}, which failed")


def _tuned(first: Key | None, results: Results) -> int | None:
    run = None if first is None else results.get(first)
    return None if run is None else int(run.settings["n_neighbors"])


@contextmanager
def _alive(results: Results) -> Iterator[None]:
    """Keep the claims fresh while working, and give them back at the end or on Ctrl-C."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(HEARTBEAT_SECONDS):
            with suppress(OSError):  # a claim that grows stale costs others a wait, no result
                results.touch()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        with suppress(OSError):  # where a full disk ends the work, that is to be told
            results.release()


@contextmanager
def _executor(jobs: int) -> Iterator[Callable[..., Future]]:
    """A way to submit work: here at once, or to processes that end with this one."""
    if jobs == 1:
        yield _at_once
        return
    workers = _Workers(jobs)
    try:
        yield workers.submit
    except BaseException:
        workers.stop()
        raise
    workers.close()


class _Workers:
    """Processes of which one may die without the others: each is a pool of its own."""

    def __init__(self, jobs: int) -> None:
        self._pools = [_pool() for _ in range(jobs)]
        self._busy: dict[int, Future] = {}

    def submit(self, function: Callable, *args: object) -> Future:
        """Work for an idle process; there is one as long as no more than ``jobs`` runs fly."""
        free = (n for n in range(len(self._pools)) if n not in self._busy or self._busy[n].done())
        number = next(free)
        try:
            future = self._pools[number].submit(function, *args)
        except BrokenProcessPool:  # it died over its last run, or while it waited
            self._pools[number].shutdown(wait=False)
            self._pools[number] = _pool()
            future = self._pools[number].submit(function, *args)
        self._busy[number] = future
        return future

    def stop(self) -> None:
        """End all at once."""
        for pool in self._pools:
            for process in (pool._processes or {}).values():
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """Let all end."""
        for pool in self._pools:
            pool.shutdown()


def _pool() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(
        1, mp_context=context, initializer=_end_with_parent, initargs=(os.getpid(),)
    )


def _died(error: BrokenProcessPool) -> RuntimeError:
    found = RuntimeError("its process died twice: it was killed, or the memory was too small")
    found.__cause__ = error
    return found


def _at_once(function: Callable, *args: object) -> Future:
    future: Future = Future()
    try:
        future.set_result(function(*args))
    except Exception as error:
        future.set_exception(error)
    return future


def _end_with_parent(parent: int) -> None:
    """Leave no worker behind a runner that was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
