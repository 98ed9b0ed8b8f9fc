"""Nearest rows on a device: exact, in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.arrays import load_torch
from ejop.executors.devices import halving
from ejop.sums.torch_engine import MAX_VALUES, torch_engines

#: rounding errors of a distance product that a ball allows for before its pairs are measured
SLACK = 64


class DeviceSearch:
    """Brute-force search among rows that stay on the device.

    Candidates come from one product, as with scikit-learn; their distances are taken again from
    the rows, in float64, so that ties are those of the CPU.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    device : str or torch.device
    """

    def __init__(self, X: NDArray, device: Any) -> None:
        torch = load_torch()
        kind = np.dtype(X.dtype) if np.dtype(X.dtype) == np.float64 else np.dtype(np.float32)
        self.engine = torch_engines(device, None, kind)[0]
        self.center = X.mean(0)
        self.rows = self.engine.array(X - self.center)
        self.exact = torch.as_tensor(np.ascontiguousarray(X), device=self.engine.device)
        self.factor = self.engine.factor(self.rows.T.contiguous(), exact=True)
        self.norms = (self.rows * self.rows).sum(1)

    def candidates(self, Q: NDArray, k: int) -> NDArray:
        """Row numbers of the k nearest, in any order, (m, k)."""

        def nearest(block: slice) -> NDArray:
            D = self._offsets(self._queries(Q[block]))
            return D.topk(k, 1, largest=False, sorted=False).indices.cpu().numpy()

        return np.concatenate(list(halving(nearest, len(Q), self._block())))

    def within(self, Q: NDArray, radius: float) -> tuple[NDArray, NDArray]:
        """Pairs (query, row) that may lie within the radius, by query, then by row."""
        rounding = SLACK * load_torch().finfo(self.rows.dtype).eps

        def near(block: slice) -> NDArray:
            queries = self._queries(Q[block])
            norms = (queries * queries).sum(1, keepdim=True)
            reach = radius * radius - norms + rounding * (norms + self.norms.max())
            pairs = (reach >= self._offsets(queries)).nonzero().cpu().numpy()
            pairs[:, 0] += block.start
            return pairs

        found = np.concatenate(list(halving(near, len(Q), self._block())))
        return found[:, 0], found[:, 1]

    def rounding(self, Q: NDArray) -> NDArray:
        """How far products may move the squared distances of each query."""
        A = np.asarray(Q, dtype=np.float64) - self.center
        own = np.einsum("md,md->m", A, A)
        eps = float(load_torch().finfo(self.rows.dtype).eps)
        return SLACK * eps * (own + float(self.norms.max()))

    def _block(self) -> int:
        """Queries whose distances to all rows take half of the memory for temporaries."""
        return max(1, self.engine.budget(1) // (2 * self.norms.nbytes))

    def _queries(self, Q: NDArray) -> Any:
        return self.engine.array(Q - self.center)

    def _offsets(self, queries: Any) -> Any:
        """|x - q|^2 - |q|^2 of all rows x, (m, n)."""
        D = self.engine.product(queries, self.factor, exact=True)
        D *= -2
        D += self.norms
        return D

    def distances(self, Q: NDArray, queries: NDArray, rows: NDArray) -> NDArray:
        """Distances of given pairs in float64."""
        torch = load_torch()
        kind = torch.float32 if self.engine.device.type == "mps" else torch.float64
        points = torch.as_tensor(np.ascontiguousarray(Q), device=self.engine.device)

        def measure(block: slice) -> NDArray:
            there = self.exact[self.engine.index(rows[block])].to(kind)
            difference = there - points[self.engine.index(queries[block])].to(kind)
            return (difference * difference).sum(1).sqrt().cpu().numpy()

        step = max(1, MAX_VALUES // Q.shape[1])
        return np.concatenate([np.empty(0), *halving(measure, len(rows), step)])
