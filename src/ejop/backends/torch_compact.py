"""Compact kernels and nearest rows with tensors: sums over few rows, shifted feature by feature.

On a card with Triton all shifts are taken in one kernel; elsewhere one after the other.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np

from ejop.backends.torch import MAX_VALUES, load
from ejop.backends.torch_functions import TorchFunction
from ejop.kernels import Compact

if TYPE_CHECKING:
    import torch


def fused(device: Any) -> bool:
    """Whether the kernels of :mod:`.fused` run on a device."""
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


class _Pairwise(TorchFunction):
    """Base: targets times weights, with the weights themselves where they are needed."""

    def prepare(self) -> None:
        """The factor of distances and the targets."""
        self.rows = self.engine.factor(self.X.T.contiguous(), exact=True)
        # how far rounding may move a squared distance that comes from a product
        self.slack = 256 * load().finfo(self.X.dtype).eps * float(self.norms.max())
        self.low, self.high = self.X.amin(0), self.X.amax(0)
        self.fused = fused(self.engine.device)
        self.notes.append(
            "all shifts in one kernel" if self.fused else "one shifted feature after the other"
        )

    def weighted_targets(self, *, mass: bool) -> torch.Tensor:
        """Targets times weights and, if asked, a last column of weights, (n, c or c + 1)."""
        w = self.Y.new_ones(self.n) if self.weights is None else self.weights
        columns = [self.Y * w[:, None], w[:, None]] if mass else [self.Y * w[:, None]]
        return load().hstack(columns)

    def distances(self, rows: torch.Tensor, *, leave_out: bool) -> torch.Tensor:
        """|x - q|^2 of queries to all rows, (m, n), infinite at a query's own row."""
        torch = load()
        D = self.squared_distances(self.X[rows], self.rows)
        if leave_out:
            D[torch.arange(len(rows), device=D.device), rows] = torch.inf
        return D

    def shift_bound(self, Q: torch.Tensor) -> torch.Tensor:
        """The most that a shift of each query changes |q - x|^2 - t^2, for any row, (m,)."""
        assert self.step is not None
        reach = load().maximum(Q - self.low, self.high - Q)
        return (2 * self.step * reach).amax(1)

    def bytes_per_query(self) -> int:
        """Peak of temporaries for one query: distances, who is near, and the pairs."""
        return super().bytes_per_query() + 24 * self.n


class TorchCompact(_Pairwise):
    """Compact kernels: sums over the rows within reach."""

    name = "compact"

    def prepare(self) -> None:
        """Where shifts are fused, rows sorted by class: a class is then summed by itself."""
        super().prepare()
        labels = self.function._labels
        self.slices = None
        self.targets = self.weighted_targets(mass=not self.fused or labels is None)
        if not self.fused or labels is None:
            return
        self.order = self.engine.index(np.argsort(labels, kind="stable"))
        ends = np.cumsum(np.bincount(labels, minlength=self.c))
        self.slices = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        self.sorted, self.targets = self.X[self.order], self.targets[self.order]

    def jacobian(self, rows: torch.Tensor, *, leave_out: bool, softmax: bool) -> torch.Tensor:
        """Jacobians at training rows, (c, m, d)."""
        assert self.step is not None
        Q, h = self.X[rows], self.function.bandwidth_
        D = self.distances(rows, leave_out=leave_out)
        reach = (h**2 + self.shift_bound(Q)).clamp(max=(h + float(self.step.max())) ** 2)
        near = reach[:, None] + self.slack >= D
        sums = self._fused_sums if self.fused else self._plain_sums
        prior = self.prior_without(rows if leave_out else None, len(rows)).T[:, :, None]
        plus, minus = (
            load().where(mass > 0, total / mass.clamp(min=1e-30), prior)
            for total, mass in sums(Q, D, near)
        )
        return self.central(plus, minus, softmax=softmax)

    def _fused_sums(self, Q: torch.Tensor, D: torch.Tensor, near: torch.Tensor) -> Any:
        """Sums (c, m, d) and masses (m, d) at both shifts, all in one kernel."""
        from ejop.backends.fused import compact_sums

        assert self.step is not None
        X = self.X
        if self.slices is not None:
            X, D, near = self.sorted, D[:, self.order], near[:, self.order]
        found = compact_sums(
            Q,
            X,
            near,
            D,
            self.targets,
            self.slices,
            self.step,
            self.function._kernel,
            self.function.bandwidth_,
        )
        for side in found:
            yield (side[:-1], side[-1]) if self.slices is None else (side, side.sum(0))

    def _plain_sums(self, Q: torch.Tensor, D: torch.Tensor, near: torch.Tensor) -> Any:
        """The same, one kernel matrix a shifted feature."""
        assert self.step is not None
        any_near = near.any(0).nonzero()[:, 0]
        D, X, targets = D[:, any_near], self.X[any_near], self.targets[any_near]
        out = D.new_empty((2, self.c + 1, *Q.shape))
        for j in range(self.d):
            t = self.step[j]
            across = 2 * t * (Q[:, j : j + 1] - X[:, j])
            for side, sign in enumerate((1, -1)):
                weights = self.kernel(D + sign * across + t * t)
                out[side, :, :, j] = (weights @ targets).T
        for side in out:
            yield side[:-1], side[-1]

    def kernel(self, D: torch.Tensor) -> torch.Tensor:
        """Weights at squared distances."""
        kernel = self.function._kernel
        assert isinstance(kernel, Compact)
        u = (D / self.function.bandwidth_**2).clamp_(min=0)
        return (1 - u.clamp(max=1) ** (kernel.inner / 2)) ** kernel.outer * (u <= 1)


class TorchNeighbors(_Pairwise):
    """k nearest rows: candidates once, ranked again for every shift."""

    name = "neighbors"

    def prepare(self) -> None:
        """The factor of distances and the targets."""
        super().prepare()
        self.targets = self.weighted_targets(mass=self.weights is not None)

    def jacobian(self, rows: torch.Tensor, *, leave_out: bool, softmax: bool) -> torch.Tensor:
        """Jacobians at training rows, (c, m, d)."""
        Q = self.X[rows]
        pairs = self._candidates(Q, self.distances(rows, leave_out=leave_out))
        sums = (self._fused_sums if self.fused else self._plain_sums)(Q, *pairs)
        mass = self.function.n_neighbors if self.weights is None else sums[:, -1:]
        values = sums[:, : self.c] / mass
        return self.central(values[0], values[1], softmax=softmax)

    def _candidates(self, Q: torch.Tensor, D: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Pairs that hold the k nearest rows of every shifted query: query, row, |q - x|^2.

        At any shift the k-th nearest row is no farther than the farthest of the k rows nearest to
        q. Rows that no shift brings so near are dropped, first by what a shift could do at most,
        then by what it does to the row. Pairs are in the order of queries, then rows.
        """
        torch = load()
        assert self.step is not None
        closest = D.topk(self.function.n_neighbors, 1, largest=False)
        each = torch.arange(len(Q), device=Q.device)[:, None].expand_as(closest.indices)
        squared, shift = self._pairs(Q, each.flatten(), closest.indices.flatten())
        ceiling = (squared + shift).view_as(closest.indices).amax(1)
        apart = closest.values.amax(1).add(self.slack).sqrt() + 2 * self.step.max()
        far = torch.minimum(apart * apart, ceiling + self.shift_bound(Q)) + self.slack
        query, row = (far[:, None] >= D).nonzero(as_tuple=True)
        squared, shift = self._pairs(Q, query, row)
        rounding = 16 * torch.finfo(Q.dtype).eps * (squared + shift)
        kept = squared - shift <= ceiling[query] + rounding
        return query[kept], row[kept], squared[kept]

    def _pairs(
        self, Q: torch.Tensor, query: torch.Tensor, row: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """|q - x|^2 of pairs, and the most that a shift changes it beside t^2.

        From the rows themselves: products lose digits that decide who is nearer.
        """
        assert self.step is not None
        squared, shift = Q.new_empty((2, len(row)))
        piece = max(1, MAX_VALUES // self.d)
        for s in range(0, len(row), piece):
            part = slice(s, s + piece)
            difference = self.X[row[part]] - Q[query[part]]
            squared[part] = (difference * difference).sum(1)
            shift[part] = (2 * self.step * difference.abs()).amax(1)
        return squared, shift

    def _fused_sums(
        self, Q: torch.Tensor, query: torch.Tensor, row: torch.Tensor, squared: torch.Tensor
    ) -> torch.Tensor:
        """Sums of targets over the k nearest at both shifts, (2, n_outputs, m, d)."""
        from ejop.backends.fused import nearest_sums

        assert self.step is not None
        starts = load().bincount(query, minlength=len(Q)).cumsum(0)
        starts = load().nn.functional.pad(starts, (1, 0))
        k = self.function.n_neighbors
        return nearest_sums(Q, self.X, row, squared, starts, self.targets, self.step, k)

    def _plain_sums(
        self, Q: torch.Tensor, query: torch.Tensor, row: torch.Tensor, squared: torch.Tensor
    ) -> torch.Tensor:
        """The same, candidates sorted again for every shift."""
        torch, k = load(), self.function.n_neighbors
        assert self.step is not None
        counts = torch.bincount(query, minlength=len(Q))
        place = torch.arange(len(query), device=Q.device) - (counts.cumsum(0) - counts)[query]
        width = int(counts.max())
        near = row.new_zeros((len(Q), width))
        exact = Q.new_full((len(Q), width), torch.inf)  # after those that there are
        near[query, place], exact[query, place] = row, squared
        targets = self.targets[near]
        n_outputs = targets.shape[2]
        out = Q.new_empty((2, n_outputs, *Q.shape))
        for j in range(self.d):
            across = 2 * self.step[j] * (Q[:, j : j + 1] - self.X[:, j][near])
            for side, sign in enumerate((1, -1)):
                order = (exact + sign * across).sort(dim=1, stable=True).indices[:, :k]
                chosen = targets.gather(1, order[:, :, None].expand(-1, -1, n_outputs))
                out[side, :, :, j] = chosen.sum(1).T
        return out
