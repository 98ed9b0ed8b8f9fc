"""Differences of any model: its predictions at shifted copies of the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.quotients import central_differences
from ejop.rows import Block
from ejop.sums.form import Cost, Form, Request
from ejop.sums.weighted import WeightedSums


class ModelForm(Form):
    """2d shifted copies of a block in one batch; there are no references to sum over."""

    bounded = False

    def __init__(self, function: Any, request: Request) -> None:
        if request.engine.on_device:
            raise ValueError(
                f"`function`={function!r} is not supported with a `device`; use function='kernel', "
                "'ball', 'knn' or 'ridge', or device=None."
            )
        super().__init__(function, request)
        self.kind = np.dtype(np.float64)
        size = 2 * self.d * (self.d * 8 + 3 * self.c * 8)
        n = request.n_queries
        self.notes = (
            f"{2 * self.d} shifted copies of each block are predicted at once"
            + (f", {2 * self.d * n:,} predictions in all" if n else ""),
        )
        self.cost = Cost("model", size)
        self._tiles = (None,)

    def tile(self, block: Block) -> None:
        """A model needs no rows."""

    def queries(self, Q: NDArray) -> NDArray:
        """Query rows in float64: a step may be less than float32 can tell."""
        return np.asarray(Q, dtype=np.float64)

    def sums(self, Q: NDArray, tile: None, exclude: NDArray | None = None) -> WeightedSums:
        """Predictions at x + t_j e_j, then at x - t_j e_j, (c, m, 2 d)."""
        if self.step is None:
            return WeightedSums(self.function.model_values(Q).T[:, :, None])
        m, d = Q.shape
        batch = np.tile(Q, (2 * d, 1)).reshape(2, d, m, d)
        up, down = self._shifted(Q)
        for j in range(d):
            batch[0, j, :, j], batch[1, j, :, j] = up[:, j], down[:, j]
        values = self.function.model_values(batch.reshape(-1, d)).reshape(2 * d, m, -1)
        return WeightedSums(values.transpose(2, 1, 0))

    def _shifted(self, Q: NDArray) -> tuple[NDArray, NDArray]:
        """Each coordinate one step up and one step down, as far as its digits allow."""
        assert self.step is not None
        return Q + self.step, Q - self.step

    def derive(
        self,
        sums: WeightedSums,
        Q: NDArray,
        prior: Callable[[], NDArray],
        *,
        softmax: bool = False,
    ) -> NDArray:
        """Quotients by the steps that were taken: far from zero, x + t is not x plus t."""
        plus, minus = (part.swapaxes(0, 1) for part in self.means(sums, Q, prior))
        up, down = self._shifted(Q)
        taken = (up - down) / 2
        if self.step is not None and not taken.all():
            rows, columns = np.nonzero(taken == 0)
            x, t = Q[rows[0], columns[0]], np.asarray(self.step)[columns[0]]
            raise ValueError(
                f"`step`={t:.3g} is lost beside values of {x:.3g} in column {columns[0]} of `X`; "
                "centre the columns, for instance with StandardScaler, or raise `step`."
            )
        return central_differences(plus, minus, taken[:, None], apply_softmax=softmax)

    def means(self, sums: WeightedSums, Q: Any, prior: Callable[[], NDArray]) -> tuple[Any, ...]:
        """The predictions themselves."""
        found, d = sums.sums, self.d
        return (found,) if self.step is None else (found[:, :, :d], found[:, :, d:])
