"""Progress of long work: scikit-learn's callbacks where they exist, a line on stderr for
``verbose``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ejop._sklearn import begin_fit, fit_context

T = TypeVar("T")


@contextmanager
def fit_task(estimator: Any, name: str, total: int | None) -> Iterator[None]:
    """The whole of a fit, for callbacks: ``track`` inside it reports its parts.

    ``total`` is the number of parts, None where it is not known beforehand.
    """
    context = begin_fit(estimator, name, total)
    if context is None:
        yield
        return
    context.call_on_fit_task_begin(estimator=estimator)
    yield
    context.call_on_fit_task_end(estimator=estimator)


def track(items: Iterable[T], total: int, estimator: Any, name: str, verbose: int) -> Iterator[T]:
    """Yield the parts of a fit while telling callbacks and, with ``verbose``, the terminal."""
    context = fit_context(estimator)
    start = time.perf_counter()
    try:
        for done, item in enumerate(items, 1):
            task = None
            if context is not None:
                task = context.subcontext(task_name="block")
                task.call_on_fit_task_begin(estimator=estimator)
            yield item
            if task is not None:
                task.call_on_fit_task_end(estimator=estimator)
            if verbose:
                _line(name, done, total, time.perf_counter() - start)
    finally:
        if verbose:
            sys.stderr.write("\n")


def _line(name: str, done: int, total: int, seconds: float) -> None:
    total = max(total, done)  # where it was not known exactly
    left = seconds / done * (total - done)
    sys.stderr.write(f"\r{name}: {done}/{total} steps, {seconds:.1f} s, {left:.1f} s left ")
    sys.stderr.flush()


def tell_step(name: str, what: str, verbose: int) -> None:
    """Say on stderr, with ``verbose``, what is being done now."""
    if verbose:
        sys.stderr.write(f"{name}: {what}\n")
        sys.stderr.flush()
