"""Progress of long work: scikit-learn's callbacks where they exist, a line on stderr for
``verbose``."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from ejop._sklearn import begin_fit, fit_context

T = TypeVar("T")

#: on a terminal the line is written anew so often, in seconds, since a step may take long
TICK = 0.5
#: time (``time.perf_counter``) before which no line is shown on a terminal, and after which one is
#: taken away again; None shows it at once and leaves it
_quiet_until: ContextVar[float | None] = ContextVar("quiet_until", default=None)


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


@contextmanager
def patient(seconds: float) -> Iterator[None]:
    """Show lines of progress on a terminal only once so much time has passed, and not for good."""
    token = _quiet_until.set(time.perf_counter() + seconds)
    try:
        yield
    finally:
        _quiet_until.reset(token)


def track(items: Iterable[T], total: int, estimator: Any, name: str, verbose: int) -> Iterator[T]:
    """Yield the parts of a fit while telling callbacks and, with ``verbose``, the terminal."""
    context = fit_context(estimator)
    line = _Line(name, total) if verbose else None
    try:
        for item in items:
            task = None
            if context is not None:
                task = context.subcontext(task_name="block")
                task.call_on_fit_task_begin(estimator=estimator)
            yield item
            if task is not None:
                task.call_on_fit_task_end(estimator=estimator)
            if line is not None:
                line.step()
    finally:
        if line is not None:
            line.close()


@contextmanager
def working(name: str) -> Iterator[None]:
    """Say on a terminal what is done, where that takes long."""
    line = _Line(name, 0) if sys.stderr.isatty() else None
    try:
        yield
    finally:
        if line is not None:
            line.close()


class _Line:
    """A line that is rewritten with every step and, on a terminal, as time passes."""

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total, self.done = name, total, 0
        self.start, self.width = time.perf_counter(), 0
        self.until, self.live = _quiet_until.get(), sys.stderr.isatty()
        self.lock, self.closed = threading.Lock(), threading.Event()
        if self.live:
            threading.Thread(target=self._tick, daemon=True).start()

    def step(self) -> None:
        """One step is done."""
        self.done += 1
        self._show()

    def close(self) -> None:
        """End the line, or take it away."""
        self.closed.set()
        with self.lock:
            if self.live and self.until is not None:
                self._write(f"\r{' ' * self.width}\r" if self.width else "")
            else:
                self._write("\n" if self.width or not self.live else "")

    def _tick(self) -> None:
        while not self.closed.wait(TICK):
            self._show()

    def _show(self) -> None:
        with self.lock:
            quiet = self.live and self.until is not None and time.perf_counter() < self.until
            if quiet or (self.closed.is_set() and self.live):
                return
            text = self._text()
            if self.live:  # a longer line would be left behind in pieces
                text = text[: shutil.get_terminal_size().columns - 1].ljust(self.width)
            self.width = len(text)
            self._write(f"\r{text}")

    def _text(self) -> str:
        seconds = time.perf_counter() - self.start
        if not self.total:
            return f"{self.name}: {seconds:.0f} s"
        total = max(self.total, self.done)  # where it was not known exactly
        text = f"{self.name}: {self.done}/{total} steps, {seconds:.1f} s"
        if not self.done:
            return text
        return f"{text}, {seconds / self.done * (total - self.done):.1f} s left "

    def _write(self, text: str) -> None:
        if text:
            sys.stderr.write(text)
            sys.stderr.flush()


def tell_step(name: str, what: str, verbose: int) -> None:
    """Say on stderr, with ``verbose``, what is being done now."""
    if verbose:
        sys.stderr.write(f"{name}: {what}\n")
        sys.stderr.flush()
