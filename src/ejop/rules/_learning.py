"""How the mean of kernel machines is learned: from a matrix of all rows, or by passes over them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ejop.functions import Member
from ejop.rows import Block, Summary
from ejop.rules._calibration import loss_of
from ejop.rules._chains import chains_of
from ejop.rules._checkpoint import Checkpoint, fingerprint
from ejop.rules._machines import (
    Regression,
)
from ejop.rules._search import (
    HONEST_ROWS,
    JUDGED_HELD,
    SAMPLE,
    SOLVED_HELD,
    MachineSearch,
    table_of,
)
from ejop.rules._streamed import StreamedSearch
from ejop.scaling import QuantileColumns
from ejop.sums.engine import HOST, Engine
from ejop.sums.plan import format_bytes
from ejop.sums.ridge import FLOAT64


class FoundMachines(NamedTuple):
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
class MachineLearning:
    """One call of :meth:`ejop.rules.RidgeRule.learn`: what is given, and the two ways to learn."""

    rule: Any
    block: Block
    summary: Summary
    preparations: Sequence[str]
    seed: int
    units: NDArray | float
    fixed: NDArray | None
    engine: Engine
    memory_limit: int | None
    deadline: float
    others: Sequence[Engine] = ()
    quantiles: QuantileColumns | None = None

    def prepare(self, name: str, X: Any, engine: Engine = HOST) -> Any:
        """Scaled rows of an engine as a machine sees them before its map, in float64."""
        rows = engine.array(X, FLOAT64)
        if name == "plain":
            return rows
        assert self.quantiles is not None
        return self.quantiles.ranked(rows, engine)

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

    def whole(self, progress: Any) -> FoundMachines:
        """Machines that hold every row, or as many as can be."""
        self.rank_quantiles(self.block.X)
        search = self.search(self.block)
        ranked = search.run(progress)
        chosen = ranked[: self.rule.n_members]
        members = search.members(chosen, progress)
        table = table_of(search, ranked, len(chosen))
        return FoundMachines(
            members, search.unseen(ranked), search.rows, self.block, table, search.notes
        )

    def streamed(self, progress: Any) -> FoundMachines:
        """Machines on centres, by passes over all rows."""
        rule, block = self.rule, self.block
        most = HONEST_ROWS if rule.max_rows is None else min(HONEST_ROWS, rule.max_rows)
        if self.memory_limit is not None:
            most = min(most, int((self.memory_limit / (8 * JUDGED_HELD)) ** 0.5))
        if most < min(SAMPLE, rule.max_rows or SAMPLE):
            raise MemoryError(
                f"`memory_limit`={format_bytes(self.memory_limit or 0)} is too little: choosing "
                f"machines on {SAMPLE} rows takes {format_bytes(8 * JUDGED_HELD * SAMPLE**2)}; "
                "raise it, or use rule='knn'."
            )
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
            others=self.others,
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
        table = table_of(search, ranked, 0)
        notes = search.notes + rows.notes
        return FoundMachines(
            rows.members, rows.values, np.arange(len(rows.honest)), held, table, notes
        )

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


def require_room(n: int, memory_limit: int | None) -> None:
    """Compare what one machine takes with the limit."""
    needed = 8 * max(JUDGED_HELD * min(n, HONEST_ROWS) ** 2, SOLVED_HELD * n**2)
    if memory_limit is not None and needed > memory_limit:
        raise MemoryError(
            f"`memory_limit`={format_bytes(memory_limit)} is too little: a kernel machine on {n} "
            f"rows takes {format_bytes(needed)}; raise it, hold fewer rows with "
            "RidgeRule(max_rows=...), or use rule='knn'."
        )
