"""The mean of kernel machines under outer products: chosen and solved in closed form."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop._sklearn import Interval, StrOptions
from ejop.executors.threads import computing
from ejop.functions import AverageFunction
from ejop.neighbors import Votes
from ejop.rows import Block, Summary, whole_block
from ejop.rules._calibration import CALIBRATIONS, LOSSES
from ejop.rules._learning import MachineLearning, require_room
from ejop.rules._machines import (
    MAPS,
    Regression,
    coefficients,
    learned_map,
)
from ejop.rules._rule import Kth, Rule
from ejop.sums.engine import HOST, Engine, engines_for

#: what a preparation does to columns
COLUMNS = {"plain": "as they are", "quantile": "by their ranks"}


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
        Predictions of training rows by averages that have not seen them, and whose machines were
        chosen without them.
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
        others: Sequence[Engine] = (),
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
        others : sequence of Engine, optional
            More places like ``engine``, among which passes over many rows are shared.
        """
        self._validate_params()
        strange = [kernel for kernel in self.kernels if kernel not in MAPS]
        if strange or not self.kernels:
            raise ValueError(f"`kernels` must be some of {list(MAPS)}, got {self.kernels!r}.")
        summary = Summary.of(block)
        self.kind_ = kind or ("classes" if summary.one_hot else "real")
        deadline = np.inf if self.time_limit is None else time.monotonic() + self.time_limit
        fit = MachineLearning(
            self,
            block,
            summary,
            preparations,
            seed,
            units,
            fixed,
            engine,
            memory_limit,
            deadline,
            others,
        )
        if self._streams(len(block), engine):
            learned = fit.streamed(progress)
        else:
            require_room(len(block), memory_limit)
            learned = fit.whole(progress)
            if self.checkpoint is not None:
                learned.notes.append(
                    f"checkpoint: nothing to keep, {len(block)} rows are solved in one step"
                )
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


def _compact(coefficients: NDArray) -> NDArray:
    """Coefficients in float32 where that can hold them: very small or large targets cannot be."""
    largest = np.abs(coefficients).max(initial=0.0)
    fits = largest == 0 or 1e-30 < largest < 1e30
    return coefficients.astype(np.float32) if fits else coefficients
