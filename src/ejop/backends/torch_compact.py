"""Compact kernels and nearest rows with tensors: sums over few rows, shifted feature by feature.

On a card with Triton all shifts are taken in one kernel; elsewhere one after the other.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np

from ejop.backends.torch import load
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

    def bytes_per_query(self) -> int:
        """Peak of temporaries for one query: distances, who is near, and the pairs."""
        return super().bytes_per_query() + 24 * self.n

    def jacobian(self, rows: torch.Tensor, *, leave_out: bool, softmax: bool) -> torch.Tensor:
        """Jacobians at training rows, (c, m, d)."""
        assert self.step is not None
        D = self.distances(rows, leave_out=leave_out)
        reach = (self.function.bandwidth_ + float(self.step.max())) ** 2 * (1 + 1e-5)
        sums = self._fused_sums if self.fused else self._plain_sums
        prior = self.prior_without(rows if leave_out else None, len(rows)).T[:, :, None]
        plus, minus = (
            load().where(mass > 0, total / mass.clamp(min=1e-30), prior)
            for total, mass in sums(self.X[rows], D, reach)
        )
        return self.central(plus, minus, softmax=softmax)

    def _fused_sums(self, Q: torch.Tensor, D: torch.Tensor, reach: float) -> Any:
        """Sums (c, m, d) and masses (m, d) at both shifts, all in one kernel."""
        from ejop.backends.fused import compact_sums

        assert self.step is not None
        X, D = (self.X, D) if self.slices is None else (self.sorted, D[:, self.order])
        found = compact_sums(
            Q,
            X,
            reach >= D,
            D,
            self.targets,
            self.slices,
            self.step,
            self.function._kernel,
            self.function.bandwidth_,
        )
        for side in found:
            yield (side[:-1], side[-1]) if self.slices is None else (side, side.sum(0))

    def _plain_sums(self, Q: torch.Tensor, D: torch.Tensor, reach: float) -> Any:
        """The same, one kernel matrix a shifted feature."""
        assert self.step is not None
        near = (reach >= D).any(0).nonzero()[:, 0]
        D, X, targets = D[:, near], self.X[near], self.targets[near]
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
        torch = load()
        assert self.step is not None
        k = self.function.n_neighbors
        Q = self.X[rows]
        D = self.distances(rows, leave_out=leave_out)
        kth = D.topk(k, 1, largest=False).values.amax(1)
        far = (kth.sqrt() + 2 * self.step.max()) ** 2 * (1 + 1e-5)
        n_candidates = max(k, int((far[:, None] >= D).sum(1).max()))
        near = D.topk(n_candidates, 1, largest=False, sorted=False).indices
        near = near.sort(1).values  # equal distances go to the earlier row
        # from the rows themselves: products lose digits that decide who is nearer
        exact = _pair_distances(Q, self.X, near)
        exact[D.gather(1, near) == torch.inf] = torch.inf
        del D
        if self.fused:
            from ejop.backends.fused import nearest_sums

            sums = nearest_sums(Q, self.X, near, exact, self.targets, self.step, k)
        else:
            sums = self._plain_sums(Q, near, exact, k)
        mass = k if self.weights is None else sums[:, -1:]
        values = sums[:, : self.c] / mass
        return self.central(values[0], values[1], softmax=softmax)

    def _plain_sums(
        self, Q: torch.Tensor, near: torch.Tensor, exact: torch.Tensor, k: int
    ) -> torch.Tensor:
        """Sums of targets over the k nearest at both shifts, (2, n_outputs, m, d)."""
        assert self.step is not None
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


def _pair_distances(Q: torch.Tensor, X: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
    """|q - x|^2 of given pairs, feature by feature in pieces of bounded memory, (m, k)."""
    out = Q.new_empty(near.shape)
    piece = max(1, 50_000_000 // (near.shape[1] * Q.shape[1]))
    for s in range(0, len(Q), piece):
        difference = X[near[s : s + piece]] - Q[s : s + piece, None]
        out[s : s + piece] = (difference * difference).sum(2)
    return out
