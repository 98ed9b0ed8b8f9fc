"""The mean of kernel machines under outer products: chosen and solved in closed form."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral, Real
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ejop._sklearn import Interval, StrOptions
from ejop.executors.threads import computing, n_threads, stream
from ejop.functions import AverageFunction, Member
from ejop.neighbors import Votes
from ejop.rows import Block, Summary, whole_block
from ejop.rules._calibration import CALIBRATIONS, LOSSES, loss_of
from ejop.rules._checkpoint import Checkpoint, fingerprint
from ejop.rules._machines import (
    FOLDS,
    MAPS,
    Candidate,
    Known,
    Regression,
    coefficients,
    judged,
    learned_map,
)
from ejop.rules._rule import Kth, Rule
from ejop.rules._streamed import StreamedSearch, chains_of
from ejop.scaling import QuantileColumns
from ejop.sums.engine import HOST, Engine, engines_for
from ejop.sums.plan import format_bytes
from ejop.sums.ridge import FLOAT64

#: rows that every candidate is tried on; those that do best there are tried on all
SAMPLE = 600
#: candidates that are tried on all rows, beyond the members
SPARE = 2
#: rows that judge these by folds, at the most
HONEST_ROWS = 3_000
#: what a preparation does to columns
COLUMNS = {"plain": "as they are", "quantile": "by their ranks"}
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

    @property
    def engine(self) -> Engine:
        """Where the machines are."""
        return next(iter(self.problems.values())).engine

    def members(self, chosen: list[Judged]) -> list[Member]:
        """The chosen machines solved for all rows, or as many as can be."""
        n = len(next(iter(self.problems.values())))
        centers, most = None, self.engine.most_centers()
        if n > most:
            rng = np.random.default_rng(self.seed + 3)
            centers = np.sort(rng.choice(n, most, replace=False))
            self.notes.append(f"machines are solved for {most} of {n} rows, drawn at random")
        threads = self._threads(min(n, most), SOLVED_HELD, len(chosen))
        found = stream(partial(self._member, centers=centers), chosen, threads)
        solved = [one for one in found if one is not None]
        if not solved:
            raise np.linalg.LinAlgError(
                "no kernel machine could be solved for all rows: " + "; ".join(self.notes)
            )
        return solved

    def _member(self, one: Judged, centers: NDArray | None) -> Member | None:
        problem, found = self.problems[one.preparation], one.candidate
        problem = problem if centers is None else problem.rows(centers)
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
            centers,
            found.loss,
        )


class RidgeRule(Rule):
    r"""The mean of kernel machines, each under the outer product of its own derivatives.

    .. math:: f(x) = \bar Y + \frac{1}{m} \sum_k \sum_i a_{ik}\, k_k(L_k p_k(x), L_k p_k(x_i))

    Candidates are kernel ridge with a Gaussian, a Laplace or an l1 kernel, on columns as they are
    scaled or by their ranks, without a map or under the root of the outer product of their own
    derivatives (full, or a weight a column). Bandwidth and penalty are chosen in closed form by
    leave-one-out; candidates are ranked by predictions of rows that neither machine nor map has
    seen; the best few are averaged. Nothing is iterative.

    Parameters
    ----------
    n_members : int, default=5
        Machines that are averaged.
    kernels : tuple of {"gaussian", "laplace", "l1"}, default=all three
    n_rounds : {0, 1}, default=1
        0 learns no maps.
    scoring : str or None, default=None
        What ranks candidates: their squared error by default; "accuracy", "balanced_accuracy",
        "log_loss" or "roc_auc" for classes, "r2" or "mean_absolute_error" for real targets. Of
        several labels a row "accuracy" is the share of rows with all labels right, as in ``score``,
        and the others are means over labels.
    time_limit : float or None, default=None
        Seconds after which nothing more is tried; the best so far are averaged.
    max_rows : int or None, default=None
        Rows up to which every row is a centre and machines are solved by a factorisation; beyond,
        some rows are centres, and machines are solved by passes over all rows. None is 10,000, and
        on a card as many as its memory holds.
    n_centers : int or None, default=None
        Centres beyond ``max_rows``. None takes twice as many again and again, from 2,000 on, as
        long as rows put aside are predicted better and a pass over the rows stays short.
    checkpoint : path or None, default=None
        Beyond ``max_rows``: a file for the steps that are done. A fit that was stopped goes on from
        there when it is called again with the same rows and settings; a finished fit removes it.

    Attributes
    ----------
    function_ : AverageFunction
    members_ : list of Member
        Best first.
    honest_ : ndarray of shape (n_judged, n_outputs)
        Predictions of training rows by averages that have not seen them.
    judged_ : ndarray of shape (n_judged,)
        Numbers of these rows.
    loss_ : float
        Mean squared error of ``honest_``, in units of the targets' variance for real ones.
    held_ : ndarray of shape (n_held,)
        Numbers of the training rows that the rule holds: all of them, or those put aside and the
        centres.
    table_ : dict of ndarray
        Every candidate with its losses.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.rules import RidgeRule
    >>> rows = np.linspace(-2, 2, 60)[:, None]
    >>> rule = RidgeRule().fit(rows, np.sin(rows))
    >>> rule.votes(np.array([[0.5]])).values.round(2)
    array([[0.48]])
    """

    #: whether the rule prepares columns and learns maps itself
    chooses = True

    _parameter_constraints: dict = {
        "n_members": [Interval(Integral, 1, None, closed="left")],
        "kernels": [tuple, list],
        "n_rounds": [Interval(Integral, 0, 1, closed="both")],
        "scoring": [None, StrOptions(set(LOSSES))],
        "time_limit": [None, Interval(Real, 0, None, closed="neither")],
        "max_rows": [None, Interval(Integral, 4, None, closed="left")],
        "n_centers": [None, Interval(Integral, 1, None, closed="left")],
        "checkpoint": [None, str, PathLike],
    }

    def __init__(
        self,
        n_members: int = 5,
        *,
        kernels: Sequence[str] = ("gaussian", "laplace", "l1"),
        n_rounds: int = 1,
        scoring: str | None = None,
        time_limit: float | None = None,
        max_rows: int | None = None,
        n_centers: int | None = None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> None:
        self.n_members = n_members
        self.kernels = kernels
        self.n_rounds = n_rounds
        self.scoring = scoring
        self.time_limit = time_limit
        self.max_rows = max_rows
        self.n_centers = n_centers
        self.checkpoint = checkpoint

    @computing
    def learn(
        self,
        block: Block,
        preparations: Sequence[str],
        seed: int,
        units: NDArray | float = 1.0,
        progress: Callable[[Iterable[Any], int], Iterator[Any]] = lambda parts, n: iter(parts),
        engine: Engine = HOST,
        memory_limit: int | None = None,
        kind: str | None = None,
        fixed: NDArray | None = None,
    ) -> RidgeRule:
        """Choose the machines for scaled rows, and solve them.

        Parameters
        ----------
        block : Block
            Scaled rows, targets (one-hot, 0/1 labels or real) and weights.
        preparations : sequence of {"plain", "quantile"}
        seed : int
        units : ndarray of shape (n_outputs,) or float, default=1.0
            What each target is divided by while machines are compared: its standard deviation.
        progress : callable, optional
            Wraps the parts of the search: ``progress(parts, n_parts)``.
        engine : Engine, optional
            Where the machines are solved; in float64.
        memory_limit : int, optional
            Bytes that kernel matrices may take; where one machine takes more, nothing is begun.
        kind : {"classes", "labels", "real"}, optional
            What targets are; "classes" where they are one-hot and "real" otherwise, if not given.
        fixed : ndarray of bool, shape (n_features,), optional
            Columns that are levels, of which no ranks are taken.
        """
        self._validate_params()
        strange = [kernel for kernel in self.kernels if kernel not in MAPS]
        if strange or not self.kernels:
            raise ValueError(f"`kernels` must be some of {list(MAPS)}, got {self.kernels!r}.")
        summary = Summary.of(block)
        self.kind_ = kind or ("classes" if summary.one_hot else "real")
        deadline = np.inf if self.time_limit is None else time.monotonic() + self.time_limit
        fit = _Fit(
            self, block, summary, preparations, seed, units, fixed, engine, memory_limit, deadline
        )
        if self._streams(len(block), engine):
            learned = fit.streamed(progress)
        else:
            _require_room(len(block), engine.most_centers(), memory_limit)
            learned = fit.whole(progress)
        self.members_ = [
            replace(one, coefficients=_compact(one.coefficients * units)) for one in learned.members
        ]
        R, w = (learned.block.Y - summary.prior) / units, learned.block.w
        squares = ((learned.honest - R[learned.judged]) ** 2).sum(1)
        weights = None if w is None else w[learned.judged]
        self.loss_ = float(np.average(squares, weights=weights))
        self.honest_ = learned.honest * units + summary.prior
        held = learned.block
        if self.kind_ != "real":  # small numbers, of which a model holds many
            self.honest_ = self.honest_.astype(np.float32)
            held = replace(held, Y=held.Y.astype(np.float32))
        self.judged_, self.notes_ = learned.judged, learned.notes
        self.held_ = held.index
        self.table_ = learned.table
        self.function_ = AverageFunction().of(self.members_, fit.quantiles, held, summary)
        return self

    def _streams(self, n: int, engine: Engine) -> bool:
        """Whether so many rows are read a block at a time."""
        return n > (engine.most_centers() if self.max_rows is None else self.max_rows)

    def hold(self, rows: NDArray, Y: NDArray, w: NDArray | None = None) -> RidgeRule:
        """Take the rows that answer: those that it was learned from."""
        self.rows_, self.targets_, self.weights_ = rows, Y, w
        return self

    def settle(self, size: float, n_rows: int, kth: Kth) -> RidgeRule:
        """Choose the machines for the rows that it holds; there is no size."""
        block = whole_block(self.rows_, self.targets_, self.weights_)
        return self.learn(block, ("plain", "quantile"), 0)

    def in_words(self) -> str:
        """What was chosen, in plain words.

        Examples
        --------
        >>> import numpy as np
        >>> from ejop.rules import RidgeRule
        >>> rows = np.linspace(-2, 2, 60)[:, None]
        >>> RidgeRule(2, kernels=["l1"], n_rounds=0).fit(rows, np.sin(rows)).in_words()
        'mean of 2 kernel machines: 2 l1; columns as they are and by their ranks'
        """
        members = self.members_
        kernels = Counter(one.kernel for one in members).most_common()
        n_mapped = sum(one.round > 0 for one in members)
        parts = [f"{n} {kernel}" for kernel, n in kernels]
        if n_mapped:
            some = "all" if n_mapped == len(members) else f"{n_mapped} of them"
            parts.append(f"{some} under a learned metric")
        seen = [
            words for name, words in COLUMNS.items() if name in {m.preparation for m in members}
        ]
        what = f"mean of {len(members)} kernel machines" if len(members) > 1 else "kernel machine"
        return f"{what}: {', '.join(parts)}; columns {' and '.join(seen)}"

    def calibrate(self, Y: NDArray, w: NDArray | None) -> RidgeRule:
        """Choose how values become probabilities, by the log loss of the honest predictions.

        p_c is proportional to (v_c + sqrt(v_c^2 + 4 e^2))^g: two numbers, and the order of values
        is kept. Labels have two numbers each.
        """
        calibrate, _ = CALIBRATIONS[self.kind_]
        weights = None if w is None else w[self.judged_]
        self.sharpness_, self.floor_ = calibrate(self.honest_, Y[self.judged_], weights)
        return self

    def shares(self, values: NDArray) -> NDArray:
        """Calibrated probabilities of the classes, or of the labels, (m, n_outputs)."""
        _, shares = CALIBRATIONS[self.kind_]
        return shares(values, self.sharpness_, self.floor_)

    def answers(self, values: NDArray) -> NDArray:
        """What is told of values: probabilities, or the values of real targets, (m, n_outputs)."""
        return values if self.kind_ == "real" else self.shares(values)

    def refitted(self, rows: NDArray, seed: int = 0) -> AverageFunction:
        """The same machines for some of the rows, at the settings that were chosen; their maps are
        learned anew, so that two refits differ as fits to two draws do."""
        f = self.function_
        w = None if f.sample_weight_ is None else f.sample_weight_[rows]
        block = whole_block(f.X_[rows], f.Y_[rows].astype(np.float64), w)
        summary = Summary.of(block)
        w = None if w is None else w / w.mean()
        R, rng = block.Y - summary.prior, np.random.default_rng(seed)
        problems = {
            name: Regression(f.prepared(block.X, name), R, w)
            for name in {member.preparation for member in f.members_}
        }
        members = []
        for member in f.members_:
            problem, L = problems[member.preparation], None
            if member.L is not None:
                L = learned_map(problem, member.kernel, member.first, member.diagonal, rng)
            setting = member.kernel, member.bandwidth, member.penalty
            a = coefficients(problem.under(L), *setting)
            members.append(replace(member, L=L, coefficients=a, centers=None))
        return AverageFunction().of(members, f.quantiles_, block, summary)

    def score_limit(self, scores: NDArray, coverage: float) -> NDArray:
        """Score that a share of honest predictions does not exceed, the last added for safety.

        ``scores`` has shape (n_judged, ...).
        """
        n = len(scores)
        place = int(np.ceil((n + 1) * coverage)) - 1
        if place >= n:
            raise ValueError(
                f"`coverage`={coverage} needs more than {n} rows that judge; lower it."
            )
        return np.sort(scores, axis=0)[place]

    def votes(self, Z: NDArray, device: Any = None) -> Votes:
        """Values of the average at new scaled rows."""
        (engine, *_), _ = engines_for(device, Z)
        return Votes.plain(self.function_.model_values(Z, engine))

    def judge(self, Z: NDArray, sizes: Sequence[float], device: Any = None) -> Iterator[Votes]:
        """Values at new rows, once."""
        yield self.fit(self.rows_, self.targets_, self.weights_).votes(Z)


class _Learned(NamedTuple):
    """What a search has come to."""

    members: list[Member]
    #: predictions of rows by machines that have not seen them, less the mean target, in units
    honest: NDArray
    #: the places of these in the block
    judged: NDArray
    #: the rows that a model holds
    block: Block
    table: dict[str, NDArray]
    notes: list[str]


@dataclass
class _Fit:
    """One call of ``learn``."""

    rule: RidgeRule
    block: Block
    summary: Summary
    preparations: Sequence[str]
    seed: int
    units: NDArray | float
    fixed: NDArray | None
    engine: Engine
    memory_limit: int | None
    deadline: float
    quantiles: QuantileColumns | None = None

    def prepare(self, name: str, X: NDArray) -> NDArray:
        """Scaled rows as a machine sees them before its map."""
        if name == "plain":
            return X.astype(np.float64, copy=False)
        assert self.quantiles is not None
        return self.quantiles.transform(X)

    def rank_quantiles(self, X: NDArray) -> None:
        """Take the quantiles of columns where a preparation needs them."""
        if "quantile" in self.preparations:
            self.quantiles = QuantileColumns(self.fixed).fit(X)

    def residual(self, part: Any) -> NDArray:
        """Targets of some rows less their mean, in units."""
        return (self.block.Y[part] - self.summary.prior) / self.units

    def search(self, block: Block) -> MachineSearch:
        """Machines for some of the rows."""
        rule, engine = self.rule, self.engine.precise()
        w = None if block.w is None else block.weights / block.weights.mean()
        R = (block.Y - self.summary.prior) / self.units
        held = Regression(
            engine.array(block.X, FLOAT64),
            engine.array(R, FLOAT64),
            None if w is None else engine.array(w, FLOAT64),
            engine,
        )
        problems = {
            name: replace(held, X=engine.array(self.prepare(name, block.X), FLOAT64))
            for name in self.preparations
        }
        rank = None
        if rule.scoring is not None:
            loss = loss_of(rule.scoring, rule.kind_)
            rank = partial(_ranking_loss, loss, block, self.summary.prior, self.units)
        return MachineSearch(
            problems,
            rule.kernels,
            rule.n_members,
            rule.n_rounds,
            self.seed,
            self.deadline,
            rank,
            self.memory_limit,
        )

    def whole(self, progress: Any) -> _Learned:
        """Machines that hold every row, or as many as can be."""
        self.rank_quantiles(self.block.X)
        search = self.search(self.block)
        ranked = search.run(progress)
        chosen = ranked[: self.rule.n_members]
        members = search.members(chosen)
        honest = np.mean([one.candidate.honest for one in chosen], axis=0)
        table = _table(search, ranked, len(chosen))
        return _Learned(members, honest, search.rows, self.block, table, search.notes)

    def streamed(self, progress: Any) -> _Learned:
        """Machines on centres, by passes over all rows."""
        rule, block = self.rule, self.block
        most = HONEST_ROWS if rule.max_rows is None else min(HONEST_ROWS, rule.max_rows)
        rows = StreamedSearch(
            block,
            self.residual,
            {name: partial(self.prepare, name) for name in self.preparations},
            self._loss,
            rule.n_members,
            self.seed,
            self.engine,
            rule.n_centers,
            self.memory_limit,
            rule.n_rounds > 0,
            lambda: time.monotonic() > self.deadline,
        )
        sample = np.sort(rows.order[:most])
        self.rank_quantiles(block.X[np.sort(rows.pool)])
        search = self.search(block.rows(sample))
        ranked = search.run(progress)
        settings = {k: v for k, v in rule.get_params().items() if k not in ("checkpoint",)}
        owner = fingerprint(
            len(block), block.X[sample], block.Y[sample], self.seed, sorted(settings.items())
        )
        rows.checkpoint = Checkpoint(rule.checkpoint, owner)
        for _ in progress(rows.run(chains_of(ranked, search.engine)), rows.expected_steps()):
            pass
        kept = rows.kept()
        held = replace(block.rows(kept), index=kept)
        rows.checkpoint.finish()
        table = _table(search, ranked, 0)
        notes = search.notes + rows.notes
        return _Learned(rows.members, rows.values, np.arange(len(rows.honest)), held, table, notes)

    def _loss(self, values: NDArray, rows: NDArray) -> float:
        """What judges chains: squared error, or the rule's ``scoring``."""
        w = None if self.block.w is None else self.block.w[rows]
        if self.rule.scoring is not None:
            loss = loss_of(self.rule.scoring, self.rule.kind_)
            return loss(values * self.units + self.summary.prior, self.block.Y[rows], w)
        return float(np.average(((values - self.residual(rows)) ** 2).sum(1), weights=w))


def _ranking_loss(
    loss: Any, block: Block, prior: NDArray, units: Any, honest: NDArray, rows: NDArray
) -> float:
    """Loss of honest predictions of some rows, lower is better."""
    w = None if block.w is None else block.w[rows]
    return loss(honest * units + prior, block.Y[rows], w)


def _require_room(n: int, most: int, memory_limit: int | None) -> None:
    """Compare what one machine takes with the limit."""
    judged, solved = min(n, HONEST_ROWS), min(n, most)
    needed = 8 * max(JUDGED_HELD * judged**2, SOLVED_HELD * solved**2)
    if memory_limit is not None and needed > memory_limit:
        raise MemoryError(
            f"`memory_limit`={format_bytes(memory_limit)} is too little: a kernel machine on {n} "
            f"rows takes {format_bytes(needed)}; raise it, learn from fewer rows, or use "
            "rule='knn'."
        )


def _compact(coefficients: NDArray) -> NDArray:
    """Coefficients in float32 where that can hold them: very small or large targets cannot be."""
    largest = np.abs(coefficients).max(initial=0.0)
    fits = largest == 0 or 1e-30 < largest < 1e30
    return coefficients.astype(np.float32) if fits else coefficients


def _table(search: MachineSearch, ranked: list[Judged], n_members: int) -> dict[str, NDArray]:
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
