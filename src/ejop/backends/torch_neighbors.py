"""Nearest rows on a device: exact, in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.backends.torch import engines, load

#: distances held at once
MAX_PAIRS = 500_000_000


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
        step = max(1, MAX_PAIRS // len(self.rows))
        for s in range(0, len(Q), step):
            queries = self.engine.tensor(Q[s : s + step] - self.center)
            D = self.engine.matmul(queries, self.factor, exact=True)
            D *= -2
            D += self.norms  # |q|^2 is the same for all rows
            found = D.topk(k, 1, largest=False, sorted=False).indices
            out[s : s + step] = found.cpu().numpy()
        return out

    def distances(self, Q: NDArray, indices: NDArray) -> NDArray:
        """Distances of given pairs in float64, (m, k)."""
        torch = load()
        out = np.empty(indices.shape)
        step = max(1, 20_000_000 // (indices.shape[1] * Q.shape[1]))
        kind = torch.float32 if self.engine.device.type == "mps" else torch.float64
        for s in range(0, len(Q), step):
            rows = self.exact[self.engine.index(indices[s : s + step])].to(kind)
            queries = torch.as_tensor(Q[s : s + step], device=self.engine.device).to(kind)
            difference = rows - queries[:, None]
            out[s : s + step] = (difference * difference).sum(2).sqrt().cpu().numpy()
        return out
