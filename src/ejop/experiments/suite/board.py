"""The runs of the suite by set and method, and what is compared of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ejop.experiments.store import Run
from ejop.experiments.suite.contest import METHODS
from ejop.experiments.suite.ranks import Ranking, rank
from ejop.experiments.suite.sets import SETS

#: a method that ran a smaller share of the sets is not ranked
RANKED_SHARE = 0.5


class Board:
    """Runs by set and method.

    Attributes
    ----------
    names, methods : list of str
        Sets and methods with runs, in the order of the pages.
    ranked : list of str
        Methods that are compared: those that ran half of the sets or more.
    complete : list of str
        Sets that all of these ran, on a split of its own at least.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        self.cells: dict[tuple[str, str], dict[int, Run]] = {}
        for run in runs:
            self.cells.setdefault((run.dataset, run.method), {})[run.seed] = run
        self.names = [name for name in SETS if any(name == d for d, _ in self.cells)]
        self.methods = [m for m in METHODS if any(m == found for _, found in self.cells)]
        counts = {m: sum((name, m) in self.cells for name in self.names) for m in self.methods}
        self.ranked = [m for m in self.methods if counts[m] >= RANKED_SHARE * len(self.names)]
        self.complete = [name for name in self.names if self.seeds(name, self.ranked)]

    def there(self, name: str) -> list[str]:
        """Methods that ran a set."""
        return [m for m in self.methods if (name, m) in self.cells]

    def seeds(self, name: str, methods: Iterable[str]) -> list[int]:
        """Splits of a set that all of some methods ran."""
        found = [set(self.cells.get((name, m), ())) for m in methods]
        return sorted(set.intersection(*found)) if found else []

    def compared(self, name: str) -> list[int]:
        """Splits that a set is told by: those of all ranked methods, or of all that ran it."""
        return self.seeds(name, self.ranked) or self.seeds(name, self.there(name))

    def runs(self, name: str, method: str) -> list[Run]:
        """Runs of a method on the splits that a set is told by."""
        cell = self.cells.get((name, method), {})
        return [cell[seed] for seed in self.compared(name) if seed in cell]

    def values(self, name: str, method: str, field: str = "error") -> NDArray:
        """A figure on these splits; empty where it was not measured."""
        runs = self.runs(name, method)
        if field in ("error", "fit_seconds", "predict_seconds"):
            return np.array([getattr(run, field) for run in runs])
        return np.array([run.settings[field] for run in runs if field in run.settings])

    def mean(self, name: str, method: str, field: str = "error") -> float:
        """Its mean; NaN where there is none."""
        values = self.values(name, method, field)
        return float(values.mean()) if len(values) else float("nan")

    def errors(self, methods: Iterable[str] | None = None) -> NDArray:
        """Mean errors (n_sets, n_methods) on the complete sets, of the ranked methods."""
        wanted = self.ranked if methods is None else list(methods)
        return np.array([[self.mean(name, m) for m in wanted] for name in self.complete])

    def ranking(self) -> Ranking | None:
        """Mean ranks, where there are two methods and two complete sets to compare."""
        if len(self.ranked) < 2 or len(self.complete) < 2:
            return None
        return rank(self.errors(), self.ranked)

    def lowest(self, name: str) -> list[str]:
        """The methods with the lowest mean error on a set, ties included."""
        means = {m: self.mean(name, m) for m in self.there(name)}
        best = np.nanmin(list(means.values()))
        return [m for m, value in means.items() if value <= best + 1e-9]
