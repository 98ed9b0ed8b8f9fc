"""The search for kernel machines: on a sample first, the best of it on more rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.executors.threads import n_threads, stream
from ejop.functions import Member
from ejop.rules._machines import (
    FOLDS,
    Candidate,
    Known,
    Regression,
    coefficients,
    judged,
)
from ejop.sums.engine import Engine
from ejop.sums.ridge import FLOAT64

#: rows that every candidate is tried on; those that do best there are tried on all
SAMPLE = 600
#: candidates that are tried on all rows, beyond the members
SPARE = 2
#: rows that judge these by folds, at the most
HONEST_ROWS = 3_000
#: rows from which one system is solved at a time, by all threads
ONE_AT_A_TIME = 4_600
#: matrices of a kernel that are held at once while a machine is judged, and while one is solved
JUDGED_HELD, SOLVED_HELD = 5, 3


@dataclass(frozen=True)
class Judged:
    """A candidate of one preparation."""

    preparation: str
    candidate: Candidate

    @property
    def kind(self) -> tuple[str, str, bool, int]:
        """What it is."""
        return self.preparation, *self.candidate.kind

    @property
    def loss(self) -> float:
        """Mean squared error of honest predictions."""
        return self.candidate.loss


@dataclass
class MachineSearch:
    """Machines for some rows, tried on a sample and then on all.

    Attributes
    ----------
    problems : dict of Regression
        The rows under each preparation.
    kernels : sequence of str
    n_members : int
    rounds : int
        0 tries no maps.
    seed : int
    deadline : float
        Time (``time.monotonic``) after which nothing new is begun.
    rank : callable, optional
        ``rank(honest, rows)`` is the loss of predictions of some rows; their squared error without.
    memory_limit : int, optional
        Bytes that matrices of machines side by side may take.
    notes : list of str
    """

    problems: dict[str, Regression]
    kernels: Sequence[str]
    n_members: int
    rounds: int
    seed: int
    deadline: float = np.inf
    rank: Callable[[NDArray, NDArray], float] | None = None
    memory_limit: int | None = None
    notes: list[str] = field(default_factory=list)

    def run(self, progress: Callable[[Iterable[Any], int], Iterator[Any]]) -> list[Judged]:
        """All that was tried on all rows (or as many as judge), best first."""
        n = len(next(iter(self.problems.values())))
        order = np.random.default_rng(self.seed).permutation(n)
        sample = order[: min(n, SAMPLE)]
        jobs = [(name, kernel, None) for name in self.problems for kernel in self.kernels]
        first = self._judge(jobs, sample, progress)
        if not first:
            raise np.linalg.LinAlgError(
                "no kernel machine could be solved: " + "; ".join(self.notes)
            )
        self.sampled = {one.kind: one.loss for one in first}
        self.rows = sample
        if n <= SAMPLE:
            return first
        if time.monotonic() > self.deadline:
            self.notes.append(
                f"machines were judged by {SAMPLE} rows alone: `time_limit` was reached"
            )
            return first
        more = order[: min(n, HONEST_ROWS)]
        finalists = first[: self.n_members + SPARE]
        known: dict[tuple[str, str], Known] = {}
        for one in finalists:
            settings = one.candidate.settings
            found = known.setdefault(one.kind[:2], Known(settings[0]))
            if len(settings) > 1:
                found.later[one.candidate.diagonal] = settings[1].place
        kinds = {one.kind for one in finalists}
        again = [(name, kernel, (what, kinds)) for (name, kernel), what in known.items()]
        final = self._judge(again, more, progress)
        if not final:
            return first
        self.rows = more
        return final

    def _judge(self, jobs: list[Any], rows: NDArray, progress: Any) -> list[Judged]:
        """Candidates with honest predictions of some rows, best first; the first job is always
        done, whatever the time."""
        fold = np.random.default_rng(self.seed + 1).permutation(len(rows)) % min(FOLDS, len(rows))
        sample = np.arange(min(len(rows), SAMPLE))
        threads = self._threads(len(rows), JUDGED_HELD, len(jobs))
        work = partial(self._one, rows=rows, fold=fold, sample=sample, first=jobs[0])
        found: list[Judged] = []
        for part in progress(stream(work, jobs, threads), len(jobs)):
            if isinstance(part, str):
                self.notes.append(part)
            else:
                found.extend(part)
        return sorted(found, key=lambda one: one.loss)

    def _one(
        self, job: Any, rows: NDArray, fold: NDArray, sample: NDArray, first: Any
    ) -> list[Judged] | str:
        name, kernel, known = job
        if job is not first and time.monotonic() > self.deadline:
            return f"{kernel} kernel on {name} columns was not tried: `time_limit` was reached"
        what, kinds = known or (None, None)

        def wanted(diagonal: bool, round_: int) -> bool:
            if kinds is None:
                return round_ <= self.rounds
            return (name, kernel, diagonal, round_) in kinds

        rng = np.random.default_rng(self.seed + 2)
        try:
            tried = judged(self.problems[name].rows(rows), kernel, wanted, fold, sample, what, rng)
            return [Judged(name, self._ranked(one, rows)) for one in tried]
        except np.linalg.LinAlgError as error:
            return f"{kernel} kernel on {name} columns was passed over: {error}"

    def _ranked(self, found: Candidate, rows: NDArray) -> Candidate:
        return found if self.rank is None else replace(found, loss=self.rank(found.honest, rows))

    def _threads(self, n: int, held: int, jobs: int) -> int:
        """Machines of n rows that are worked on side by side: one on a device, or where the BLAS's
        own threads serve better."""
        if self.engine.on_device or n > ONE_AT_A_TIME:
            return 1
        threads = n_threads(None, n**3 * jobs)
        if self.memory_limit is None:
            return threads
        return max(1, min(threads, self.memory_limit // (8 * held * n * n)))

    def unseen(self, tried: list[Judged]) -> NDArray:
        """Predictions of the rows that judged, by means whose machines were chosen without them.

        The best of many look better than they are to the rows that chose them. So the choice is
        made once more for each fold of these rows, by the others; the predictions are there.
        """
        n, best = len(self.rows), min(self.n_members, len(tried))
        fold = np.random.default_rng(self.seed + 3).permutation(n) % min(FOLDS, n)
        predictions = np.stack([one.candidate.honest for one in tried])
        found = np.empty(predictions.shape[1:])
        for k in range(int(fold.max()) + 1):
            losses = self._losses(predictions[:, fold != k], self.rows[fold != k])
            chosen = np.argsort(losses, kind="stable")[:best]
            found[fold == k] = predictions[chosen][:, fold == k].mean(axis=0)
        return found

    def _losses(self, predictions: NDArray, rows: NDArray) -> list[float]:
        """What ranks candidates, for predictions (n_candidates, n, c) of some rows."""
        if self.rank is not None:
            return [self.rank(honest, rows) for honest in predictions]
        problem = next(iter(self.problems.values())).rows(rows)
        arrays = (self.engine.array(honest, FLOAT64) for honest in predictions)
        return [problem.loss(honest - problem.R) for honest in arrays]

    @property
    def engine(self) -> Engine:
        """Where the machines are."""
        return next(iter(self.problems.values())).engine

    def members(
        self, chosen: list[Judged], progress: Callable[[Iterable[Any], int], Iterator[Any]]
    ) -> list[Member]:
        """The chosen machines solved for all rows."""
        threads = self._threads(len(next(iter(self.problems.values()))), SOLVED_HELD, len(chosen))
        found = progress(stream(self._member, chosen, threads), len(chosen))
        solved = [one for one in found if one is not None]
        if not solved:
            raise np.linalg.LinAlgError(
                "no kernel machine could be solved for all rows: " + "; ".join(self.notes)
            )
        return solved

    def _member(self, one: Judged) -> Member | None:
        problem, found = self.problems[one.preparation], one.candidate
        setting = found.settings[-1]
        try:
            a = coefficients(problem.under(found.L), found.kernel, setting.h, setting.penalty)
        except np.linalg.LinAlgError as error:
            self.notes.append(
                f"{found.kernel} kernel on {one.preparation} columns fell out: {error}"
            )
            return None
        return Member(
            one.preparation,
            found.kernel,
            found.diagonal,
            found.round,
            setting.h,
            setting.penalty,
            (found.settings[0].h, found.settings[0].penalty),
            None if found.L is None else self.engine.to_host(found.L),
            self.engine.to_host(a),
            None,
            found.loss,
        )


def table_of(search: MachineSearch, ranked: list[Judged], n_members: int) -> dict[str, NDArray]:
    """Every candidate that was tried, in the manner of scikit-learn's ``cv_results_``."""
    final = {one.kind: (place, one) for place, one in enumerate(ranked)}
    kinds = sorted(search.sampled, key=lambda kind: final.get(kind, (len(ranked), None))[0])
    rows = []
    for kind in kinds:
        place, one = final.get(kind, (None, None))
        setting = one.candidate.settings[-1] if one is not None else None
        h, penalty = (np.nan, np.nan) if setting is None else (setting.h, setting.penalty)
        loss = one.loss if one is not None else np.nan
        member = place is not None and place < n_members
        rows.append((*kind, h, penalty, search.sampled[kind], loss, member))
    names = ("preparation", "kernel", "diagonal", "round", "bandwidth", "penalty")
    columns = list(zip(*rows, strict=True))
    found = {f"param_{name}": np.array(columns[i], dtype=object) for i, name in enumerate(names)}
    found["sample_loss"] = np.array(columns[6], dtype=float)
    found["loss"] = np.array(columns[7], dtype=float)
    found["member"] = np.array(columns[8], dtype=bool)
    return found
