"""Kernel ridge with tensors: solved, left out and differentiated on the device, in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ejop.backends.torch import Engine, load
from ejop.backends.torch_functions import TorchFunction, padded, softmax_chain

if TYPE_CHECKING:
    import torch

#: rows whose features are made at once
CHUNK = 8192


class TorchRidge(TorchFunction):
    """Kernel ridge with all rows as centres, or with Nystrom centres."""

    name = "ridge-product"

    def prepare(self) -> None:
        """Solve for the coefficients and tabulate the exponentials."""
        torch, f = load(), self.function
        self.h2 = f.bandwidth_**2
        # coefficients of either sign nearly cancel in the sums, so all of this is in float64
        self.precise = Engine(self.engine.device, "float64")
        center = self.precise.tensor(f._center)
        self.points = self.precise.tensor(f.X_) - center
        self.Z = self.points if f.all_rows else self.precise.tensor(f.centers_) - center
        self.prior = self.precise.tensor(np.asarray(f.prior_, dtype=np.float64))
        self.residual = self.precise.tensor(f.Y_) - self.prior
        self.w = self.precise.tensor(f._weights())
        try:
            if f.all_rows:
                self._solve_all()
            else:
                self._solve_nystrom()
        except torch.OutOfMemoryError as error:
            raise MemoryError(
                f"kernel ridge with {len(self.Z)} centres does not fit on {self.engine.device}; "
                "free some of its memory, take fewer with function=RidgeFunction(max_rows=..., "
                "n_centers=...), or use device=None."
            ) from error
        f.coefficients_ = self.coefficients.cpu().numpy()
        if self.step is None:
            self.table = padded(torch.hstack([self.Z, self.Z.new_ones(len(self.Z), 1)]))
            return
        self.t = self.step.double()
        self.middle = (self.Z.max(0).values + self.Z.min(0).values) / 2
        exponents = (self.Z - self.middle) * (self.t / self.h2)
        if not self.overflows(exponents, np.dtype(np.float64)):
            E = exponents.exp_()
            self.table = padded(torch.hstack([E, 1 / E]))

    def _solve_all(self) -> None:
        """a = S (S K S + penalty I)^-1 S (Y - mean), S the square roots of the weights."""
        torch = load()
        S = self.w.sqrt()
        K = self.kernel(self.Z, self.Z)
        K *= S[:, None]
        K *= S
        K.diagonal().add_(self.function.penalty_)
        self.factor = torch.linalg.cholesky(K)
        solved = torch.cholesky_solve(S[:, None] * self.residual, self.factor)
        self.coefficients = S[:, None] * solved

    def _solve_nystrom(self) -> None:
        """Ridge on the features phi(x) = R^-1 k(x), R R^T the kernel matrix of the centres."""
        torch, Z = load(), self.Z
        K = self.kernel(Z, Z)
        K.diagonal().add_(1e-10 * len(Z))
        self.root = torch.linalg.cholesky(K)
        gram, target = torch.zeros_like(K), K.new_zeros((len(Z), self.c))
        for s in range(0, self.n, CHUNK):
            part = slice(s, s + CHUNK)
            phi = self.features(self.points[part])
            weighted = phi * self.w[part, None]
            gram += phi.T @ weighted
            target += weighted.T @ self.residual[part]
        gram.diagonal().add_(self.function.penalty_)
        self.factor = torch.linalg.cholesky(gram)
        solved = torch.cholesky_solve(target, self.factor)
        self.coefficients = self.from_features(solved)

    def features(self, Q: torch.Tensor) -> torch.Tensor:
        """Nystrom features of queries, (m, p)."""
        k = self.kernel(Q, self.Z).T
        return load().linalg.solve_triangular(self.root, k, upper=False).T

    def from_features(self, b: torch.Tensor) -> torch.Tensor:
        """Coefficients of the centres' kernels from those of the features."""
        return load().linalg.solve_triangular(self.root.T, b, upper=True)

    def left_out(self, rows: torch.Tensor, Q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What to subtract to leave rows out: f(x) - (k(x) . b_i) s_i for row i."""
        torch = load()
        if not self.function.all_rows:
            phi = self.features(Q)
            solved = torch.cholesky_solve(phi.T, self.factor)
            w = self.w[rows, None]
            leverage = w * (phi * solved.T).sum(1, keepdim=True)
            residual = self.residual[rows] - self.kernel(Q, self.Z) @ self.coefficients
            s = w * residual / (1 - leverage).clamp(min=torch.finfo(Q.dtype).eps)
            return self.from_features(solved).T, s
        each = torch.arange(len(rows), device=rows.device)
        S = self.w.sqrt()
        unit = Q.new_zeros((self.n, len(rows)))
        unit[rows, each] = S[rows]
        b = (S[:, None] * torch.cholesky_solve(unit, self.factor)).T
        own = b[each, rows][:, None]
        return b, torch.where(own > 0, self.coefficients[rows] / own.clamp(min=1e-300), 0)

    def bytes_per_query(self) -> int:
        """Peak of temporaries for one query, in float64."""
        return (7 * len(self.Z) + 4 * (self.c + 1) * 2 * self.d) * 8

    def kernel(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """exp(-|a - b|^2 / 2h^2)."""
        return self.kernel_at(self.distances(A, B))

    def kernel_at(self, D: torch.Tensor) -> torch.Tensor:
        """The kernel at squared distances, which are overwritten."""
        return D.clamp_(min=0).mul_(-0.5 / self.h2).exp_()

    def distances(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """Squared distances (m, p), up to rounding."""
        D = A @ B.T
        D *= -2
        D += (A * A).sum(1, keepdim=True)
        D += (B * B).sum(1)
        return D

    def jacobian(self, rows: torch.Tensor, *, leave_out: bool, softmax: bool) -> torch.Tensor:
        """Jacobians at training rows, (c, m, d)."""
        Q = self.points[rows]
        left_out = self.left_out(rows, Q) if leave_out else None
        if self.direct:
            plus, minus = self._directly(Q, left_out)
        else:
            sums = self._sums(Q, left_out)
            if self.step is None:
                values = sums[:, :, self.d]
                J = sums[:, :, : self.d].addcmul_(values[:, :, None], Q, value=-1)
                J /= self.h2
                return softmax_chain(values + self.prior[:, None], J) if softmax else J
            tilt = (self.t / self.h2) * (Q - self.middle)
            drop = self.t**2 / (2 * self.h2)
            plus = sums[:, :, : self.d] * (-tilt - drop).exp()
            minus = sums[:, :, self.d : 2 * self.d] * (tilt - drop).exp()
        plus, minus = (side + self.prior[:, None, None] for side in (plus, minus))
        if softmax:
            plus, minus = plus.softmax(0), minus.softmax(0)
        return (plus - minus) * (0.5 / self.t)

    def _sums(self, Q: torch.Tensor, left_out: Any) -> torch.Tensor:
        """sum_i K_qi a_ic table_ij with each query's own row left out, (c, m, columns)."""
        K = self.kernel(Q, self.Z)
        sums = K.new_empty((self.c, len(Q), self.table.shape[1]))
        for k in range(self.c):
            load().mm(K * self.coefficients[:, k], self.table, out=sums[k])
        if left_out is not None:
            b, s = left_out
            sums -= s.T[:, :, None] * ((K * b) @ self.table)
        return sums

    def _directly(self, Q: torch.Tensor, left_out: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Values at both shifts (c, m, d), one kernel matrix a shifted feature."""
        D = self.distances(Q, self.Z)
        out = Q.new_empty((2, self.c, *Q.shape))
        for j in range(self.d):
            across = 2 * self.t[j] * (Q[:, j : j + 1] - self.Z[:, j])
            for side, sign in enumerate((1, -1)):
                K = self.kernel_at(D + sign * across + self.t[j] ** 2)
                values = K @ self.coefficients
                if left_out is not None:
                    b, s = left_out
                    values -= (K * b).sum(1, keepdim=True) * s
                out[side, :, :, j] = values.T
        return out[0], out[1]
