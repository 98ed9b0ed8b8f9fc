"""Nearest rows on a device: exact, in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.backends.torch import engines, load

#: distances held at once
MAX_PAIRS = 500_000_000
#: coordinates of pairs held at once
MAX_VALUES = 50_000_000
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
        torch = load()
        kind = np.dtype(X.dtype) if np.dtype(X.dtype) == np.float64 else np.dtype(np.float32)
        self.engine = engines(device, None, kind)[0]
        self.center = X.mean(0)
        self.rows = self.engine.tensor(X - self.center)
        self.exact = torch.as_tensor(np.ascontiguousarray(X), device=self.engine.device)
        self.factor = self.engine.factor(self.rows.T.contiguous(), exact=True)
        self.norms = (self.rows * self.rows).sum(1)

    def candidates(self, Q: NDArray, k: int) -> NDArray:
        """Row numbers of the k nearest, in any order, (m, k)."""
        out = np.empty((len(Q), k), dtype=np.int64)
        for part, _, D in self._blocks(Q):
            found = D.topk(k, 1, largest=False, sorted=False).indices
            out[part] = found.cpu().numpy()
        return out

    def within(self, Q: NDArray, radius: float) -> tuple[NDArray, NDArray]:
        """Pairs (query, row) that may lie within the radius, by query, then by row."""
        found = [np.empty((0, 2), dtype=np.int64)]
        rounding = SLACK * load().finfo(self.rows.dtype).eps
        for part, queries, D in self._blocks(Q):
            norms = (queries * queries).sum(1, keepdim=True)
            reach = radius * radius - norms + rounding * (norms + self.norms.max())
            pairs = (reach >= D).nonzero().cpu().numpy()
            pairs[:, 0] += part.start
            found.append(pairs)
        near = np.concatenate(found)
        return near[:, 0], near[:, 1]

    def _blocks(self, Q: NDArray) -> Iterator[tuple[slice, Any, Any]]:
        """Blocks of queries: which, centred, and |x - q|^2 - |q|^2 of all rows x, (m, n)."""
        step = max(1, MAX_PAIRS // len(self.rows))
        for s in range(0, len(Q), step):
            queries = self.engine.tensor(Q[s : s + step] - self.center)
            D = self.engine.matmul(queries, self.factor, exact=True)
            D *= -2
            D += self.norms
            yield slice(s, s + step), queries, D

    def distances(self, Q: NDArray, queries: NDArray, rows: NDArray) -> NDArray:
        """Distances of given pairs in float64."""
        torch = load()
        out = np.empty(len(rows))
        step = max(1, MAX_VALUES // Q.shape[1])
        kind = torch.float32 if self.engine.device.type == "mps" else torch.float64
        points = torch.as_tensor(np.ascontiguousarray(Q), device=self.engine.device)
        for s in range(0, len(rows), step):
            part = slice(s, s + step)
            there = self.exact[self.engine.index(rows[part])].to(kind)
            difference = there - points[self.engine.index(queries[part])].to(kind)
            out[part] = (difference * difference).sum(1).sqrt().cpu().numpy()
        return out
