"""Rows, goals, timing and worker processes: what every benchmark shares."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.load import TOLERABLE

ROOT = Path(__file__).resolve().parents[1]
START = time.perf_counter()


@dataclass(frozen=True)
class Goal:
    """What a ratio is asked to be."""

    sense: str
    value: float

    def met(self, ratio: float) -> bool:
        holds = {
            ">=": ratio >= self.value,
            "<=": ratio <= self.value,
            "<": ratio < self.value,
        }
        return bool(holds[self.sense])

    def __str__(self) -> str:
        return f"{self.sense} {self.value:g}"


@dataclass
class Row:
    """One line of the report: both sides, their ratio and the goal.

    ``limit`` stands where a peer would, for rows judged against a figure. ``ours_runs`` and
    ``peer_runs`` hold every repetition in seconds, in order; the seconds are the best of them.
    ``busy_elsewhere`` is how many cores other processes held meanwhile, on average; it matters to
    rows that are ``timed``.
    Where a goal is about one form of the sums, ``needs_plan`` names it: another plan misses it.
    """

    name: str
    what: str
    size: str
    ours_runs: list[float] = field(default_factory=list)
    peer_runs: list[float] = field(default_factory=list)
    ours_seconds: float | None = None
    peer_seconds: float | None = None
    limit: str | None = None
    ratio: float | None = None
    goal: Goal | None = None
    plan: str | None = None
    needs_plan: str | None = None
    peak_memory: int | None = None
    timed: bool = True
    busy_elsewhere: float | None = None
    remark: str = ""

    def __post_init__(self) -> None:
        if self.ours_seconds is None and self.ours_runs:
            self.ours_seconds = min(self.ours_runs)
        if self.peer_seconds is None and self.peer_runs:
            self.peer_seconds = min(self.peer_runs)

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where there is none or nothing was measured."""
        if self.goal is None or self.ratio is None:
            return None
        return self.goal.met(self.ratio) and self.as_planned

    @property
    def method(self) -> str:
        """Form of the sums that ran."""
        return (self.plan or "").split(":")[0]

    @property
    def as_planned(self) -> bool:
        """Whether the form that the goal is about is the one that ran."""
        return self.needs_plan in (None, self.method)

    @property
    def reliable(self) -> bool | None:
        """Whether the machine was free for a timing; None where it is none or none can tell."""
        if self.busy_elsewhere is None or not self.timed:
            return None
        return self.busy_elsewhere <= TOLERABLE

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        goal = None if self.goal is None else str(self.goal)
        return {**asdict(self), "goal": goal, "met": self.met, "reliable": self.reliable}


def log(message: str) -> None:
    """A progress line on the standard error stream."""
    print(f"[{time.perf_counter() - START:6.1f} s] {message}", file=sys.stderr, flush=True)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds a call takes, and its result."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def interleaved(
    repeat: int, calls: Mapping[str, Callable[[], Any]]
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of each repetition of each call, taken in turns, and the last results.

    Taking turns spreads whatever else the machine does over all sides.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    results: dict[str, Any] = {}
    for _ in range(repeat):
        for name, call in calls.items():
            elapsed, results[name] = timed(call)
            seconds[name].append(elapsed)
    return seconds, results


def in_worker(task: str, *, environment: Mapping[str, str] | None = None, **arguments: Any) -> Any:
    """Result of a task of :mod:`benchmarks.worker` in a process of its own."""
    return in_process(
        [sys.executable, "-m", "benchmarks.worker", task, json.dumps(arguments)],
        environment=environment,
    )


def in_process(command: list[str], *, environment: Mapping[str, str] | None = None) -> Any:
    """What a command prints last, read as JSON; its errors appear on our standard error."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def side_by_side(
    call: Callable[..., Any], jobs: Iterable[dict[str, Any]], workers: int, cores: int
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Jobs and their results as they end; each worker is a process that has cores of its own.

    One worker is this process, with all cores.
    """
    if workers == 1:
        yield from ((job, call(**job)) for job in jobs)
        return
    every = sorted(os.sched_getaffinity(0))
    if workers * cores > len(every):
        raise ValueError(f"{workers} workers of {cores} cores need more than {len(every)} cores.")
    context = get_context("spawn")
    places = context.SimpleQueue()
    for k in range(workers):
        places.put(every[k * cores : (k + 1) * cores])
    with ProcessPoolExecutor(workers, context, initializer=_hold, initargs=(places,)) as pool:
        started = {pool.submit(call, **job): job for job in jobs}
        for done in as_completed(started):
            yield started[done], done.result()


def _hold(places: Any) -> None:
    os.sched_setaffinity(0, places.get())
