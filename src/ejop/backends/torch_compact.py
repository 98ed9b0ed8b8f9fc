"""Compact kernels and nearest rows with tensors: sums over few rows, shifted feature by feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ejop.backends.torch import load
from ejop.backends.torch_functions import TorchFunction
from ejop.kernels import Compact

if TYPE_CHECKING:
    import torch


class TorchCompact(TorchFunction):
    """Compact kernels: one kernel matrix a shifted feature, over the rows within reach."""

    name = "compact"

    def prepare(self) -> None:
        """The factor of distances."""
        self.rows = self.engine.factor(self.X.T.contiguous(), exact=True)

    def jacobian(self, rows: torch.Tensor, *, leave_out: bool, softmax: bool) -> torch.Tensor:
        """Jacobians at training rows, (c, m, d)."""
        torch = load()
        assert self.step is not None
        Q = self.X[rows]
        D = self.squared_distances(Q, self.rows)
        if leave_out:
            D[torch.arange(len(rows), device=D.device), rows] = torch.inf
        reach = (self.function.bandwidth_ + float(self.step.max())) ** 2
        near = (reach * (1 + 1e-5) >= D).any(0).nonzero()[:, 0]
        D, X = D[:, near], self.X[near]
        Y = torch.hstack([self.Y, self.Y.new_ones(self.n, 1)])[near]
        if self.weights is not None:
            Y = Y * self.weights[near, None]
        prior = self.prior_without(rows if leave_out else None, len(rows))
        out = D.new_empty((2, self.c, len(rows), self.d))
        for j in range(self.d):
            t = self.step[j]
            across = 2 * t * (Q[:, j : j + 1] - X[:, j])
            for side, sign in enumerate((1, -1)):
                out[side, :, :, j] = self.values(D + sign * across + t * t, Y, prior).T
        return self.central(out[0], out[1], softmax=softmax)

    def values(self, D: torch.Tensor, Y: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
        """Weighted means of targets at squared distances D, the prior where none is within."""
        torch = load()
        kernel = self.function._kernel
        assert isinstance(kernel, Compact)
        u = (D / self.function.bandwidth_**2).clamp_(min=0)
        inside = u <= 1
        weights = (1 - u.clamp(max=1) ** (kernel.inner / 2)) ** kernel.outer * inside
        sums = weights @ Y
        mass = sums[:, -1:]
        return torch.where(mass > 0, sums[:, :-1] / mass.clamp(min=1e-300), prior)


class TorchNeighbors(TorchFunction):
    """k nearest rows: candidates once, ranked again for every shift."""

    name = "neighbors"

    def prepare(self) -> None:
        """The factor of distances."""
        self.rows = self.engine.factor(self.X.T.contiguous(), exact=True)

    def jacobian(self, rows: torch.Tensor, *, leave_out: bool, softmax: bool) -> torch.Tensor:
        """Jacobians at training rows, (c, m, d)."""
        torch = load()
        assert self.step is not None
        k = self.function.n_neighbors
        Q = self.X[rows]
        D = self.squared_distances(Q, self.rows)
        if leave_out:
            D[torch.arange(len(rows), device=D.device), rows] = torch.inf
        kth = D.kthvalue(k, 1).values
        far = (kth.sqrt() + 2 * self.step.max()) ** 2 * (1 + 1e-5)
        n_candidates = max(k, int((far[:, None] >= D).sum(1).max()))
        near = D.topk(n_candidates, 1, largest=False, sorted=False).indices
        near = near.sort(1).values  # equal distances go to the earlier row
        # from the rows themselves: products lose digits that decide who is nearer
        exact = _pair_distances(Q, self.X, near)
        exact[D.gather(1, near) == torch.inf] = torch.inf
        Y = self.Y[near] if self.weights is None else self.Y[near] * self.weights[near][:, :, None]
        mass = None if self.weights is None else self.weights[near]
        out = D.new_empty((2, self.c, len(rows), self.d))
        for j in range(self.d):
            t = self.step[j]
            across = 2 * t * (Q[:, j : j + 1] - self.X[:, j][near])
            for side, sign in enumerate((1, -1)):
                order = (exact + sign * across).sort(dim=1, stable=True).indices[:, :k]
                out[side, :, :, j] = self.means(Y, mass, order).T
        return self.central(out[0], out[1], softmax=softmax)

    def means(
        self, Y: torch.Tensor, mass: torch.Tensor | None, order: torch.Tensor
    ) -> torch.Tensor:
        """Mean targets of chosen candidates, (m, c)."""
        chosen = Y.gather(1, order[:, :, None].expand(-1, -1, self.c)).sum(1)
        if mass is None:
            return chosen / order.shape[1]
        return chosen / mass.gather(1, order).sum(1, keepdim=True)


def _pair_distances(Q: torch.Tensor, X: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
    """|q - x|^2 of given pairs, feature by feature in pieces of bounded memory, (m, k)."""
    out = Q.new_empty(near.shape)
    piece = max(1, 50_000_000 // (near.shape[1] * Q.shape[1]))
    for s in range(0, len(Q), piece):
        difference = X[near[s : s + piece]] - Q[s : s + piece, None]
        out[s : s + piece] = (difference * difference).sum(2)
    return out
