"""Progress of long work: scikit-learn's callbacks where they exist, a line on stderr for
``verbose``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    #: frames between a fit and its caller: callbacks, and the limit of threads
    WRAPPERS = 2
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in without callbacks."""

    def with_callbacks(method):
        """Leave the method as it is."""
        return method

    WRAPPERS = 1


__all__ = ["WRAPPERS", "CallbackSupportMixin", "fit_task", "track", "with_callbacks"]

T = TypeVar("T")


@contextmanager
def fit_task(estimator: Any, name: str, total: int | None) -> Iterator[None]:
    """The whole of a fit, for callbacks: ``track`` inside it reports its parts.

    ``total`` is the number of parts, None where it is not known beforehand.
    """
    if not getattr(estimator, "_skl_callbacks", None):
        yield
        return
    context = estimator._init_callback_context(task_name=name, max_subtasks=total)
    context.call_on_fit_task_begin(estimator=estimator)
    yield
    context.call_on_fit_task_end(estimator=estimator)


def track(items: Iterable[T], total: int, estimator: Any, name: str, verbose: int) -> Iterator[T]:
    """Yield the parts of a fit while telling callbacks and, with ``verbose``, the terminal."""
    context = getattr(estimator, "_callback_fit_ctx", None)
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
    left = seconds / done * (total - done)
    sys.stderr.write(f"\r{name}: {done}/{total} steps, {seconds:.1f} s, {left:.1f} s left ")
    sys.stderr.flush()
