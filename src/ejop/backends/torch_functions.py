"""Estimates of f with tensors: the same sums as their NumPy twins, on any device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ejop.backends.gaussian import EXPONENT_LIMIT, SAFE
from ejop.backends.torch import Engine, Factor, load
from ejop.functions import Function, KernelSmoother, NeighborsSmoother, RidgeFunction
from ejop.kernels import Compact

if TYPE_CHECKING:
    import torch

#: rows and columns of products come in multiples of this: 16 bytes in any type
ALIGNMENT = 8
#: logarithm of no weight: below that of any row, yet finite, as parts of infinity are not numbers
NO_WEIGHT = -1e30


def twin(function: Function, engine: Engine, step: np.ndarray | None) -> TorchFunction:
    """A fitted function on a device, ready for one step.

    Parameters
    ----------
    function : fitted function
    engine : Engine
    step : ndarray of shape (n_features,) or None
        None for the analytic derivative.
    """
    if isinstance(function, RidgeFunction):
        return TorchRidge(function, engine, step)
    if isinstance(function, NeighborsSmoother):
        return TorchNeighbors(function, engine, step)
    if isinstance(function, KernelSmoother):
        kind = TorchGaussian if function._kernel.factorises else TorchCompact
        return kind(function, engine, step)
    raise ValueError(
        f"`device` has no form of {function!r}; use function='kernel', 'ball', 'knn' or 'ridge', "
        "or device=None."
    )


class TorchFunction:
    """Base: rows on the device, centred, and how differences become Jacobians (m, c, d)."""

    name = ""

    def __init__(self, function: Function, engine: Engine, step: np.ndarray | None) -> None:
        self.function, self.engine = function, engine
        self.center = engine.tensor(function._center)
        self.Y = engine.tensor(function.Y_)
        self.X = engine.tensor(function.X_) - self.center
        self.norms = (self.X * self.X).sum(1)
        self.step = None if step is None else engine.tensor(np.asarray(step, dtype=np.float64))
        self.n, self.d = function.X_.shape
        self.c = function.n_outputs_
        self.weights = None
        if function.sample_weight_ is not None:
            self.weights = engine.tensor(function.sample_weight_)
        self.prepare()

    def prepare(self) -> None:
        """Tables that all blocks share."""

    def bytes_per_query(self) -> int:
        """Peak of temporaries for one query."""
        size = 8 if self.engine.precision == "float64" else 4
        return (4 * self.n + 6 * self.c * 2 * self.d) * size

    def jacobian(self, rows: torch.Tensor, *, leave_out: bool, softmax: bool) -> torch.Tensor:
        """Jacobians at training rows, (c, m, d)."""
        raise NotImplementedError

    def squared_distances(self, Q: torch.Tensor, factor: Factor) -> torch.Tensor:
        """|q - x|^2 of centred queries to all rows, none negative, (m, n)."""
        D = self.engine.matmul(Q, factor, exact=True)
        D *= -2
        D += self.norms
        D += (Q * Q).sum(1, keepdim=True)
        return D.clamp_(min=0)

    def central(self, plus: torch.Tensor, minus: torch.Tensor, *, softmax: bool) -> torch.Tensor:
        """Difference quotients of values (c, m, d), of their softmax over outputs if asked."""
        assert self.step is not None
        if softmax:
            plus, minus = plus.softmax(0), minus.softmax(0)
        return (plus - minus).mul_(0.5 / self.step)

    def prior_without(self, rows: torch.Tensor | None, m: int) -> torch.Tensor:
        """Mean target with each query's own row left out, (m, c)."""
        w = self.weights if self.weights is not None else self.Y.new_ones(self.n)
        total = w.sum()
        prior = (w @ self.Y) / total
        if rows is None:
            return prior.expand(m, -1)
        rest = (total - w[rows])[:, None]
        without = (total * prior - w[rows, None] * self.Y[rows]) / rest.clamp(min=1e-300)
        return load().where(rest > 0, without, prior)


class TorchGaussian(TorchFunction):
    """Gaussian smoother: one product for the kernel, one an output for the shifted sums."""

    name = "gaussian-product"

    def prepare(self) -> None:
        """Rows sorted by class and the table [E | 1/E], or [Z | 1] for the derivative."""
        torch, f = load(), self.function
        h2 = f.bandwidth_**2
        kind = np.dtype(str(self.engine.dtype).rpartition(".")[2])
        self.safe, self.rescale = SAFE[kind], False
        order, self.slices = _aligned(f._labels, self.n, self.c)
        real = order >= 0
        position = np.empty(self.n, dtype=np.int64)
        position[order[real]] = np.flatnonzero(real)
        self.position, self.order = self.engine.index(position), self.engine.index(order)
        dummy = (self.order < 0)[:, None]
        chosen = self.order.clamp(min=0)
        self.Z = self.X[chosen].masked_fill_(dummy, 0)
        self.Ys = self.Y[chosen].masked_fill_(dummy, 0)
        offset = self.norms[chosen, None] / (-2 * h2)
        if self.weights is not None:
            offset += self.weights[chosen, None].log()
        offset.masked_fill_(dummy, NO_WEIGHT)
        # [x | 1 | -|x|^2 / 2h^2] times this is the logarithm of the weighted kernel
        lifted = torch.hstack([self.Z / h2, offset, torch.ones_like(offset)])
        self.rows = self.engine.factor(_padded(lifted).T.contiguous(), exact=True)
        if self.step is None:
            table = torch.hstack([self.Z, self.Z.new_ones(len(self.Z), 1)])
        else:
            middle = (self.Z.max(0).values + self.Z.min(0).values) / 2
            exponents = (self.Z - middle) * (self.step / h2)
            limit = EXPONENT_LIMIT[kind]
            largest = float(exponents.abs().max())
            if largest > limit:
                raise FloatingPointError(
                    f"`step` needs exponents up to {largest:.3g}, beyond {limit:g} for "
                    f"{self.engine.precision}; lower `step`, raise `bandwidth`, use "
                    "precision='float64' or device=None."
                )
            E = exponents.exp_()
            table = torch.hstack([E, 1 / E])
        self.width = table.shape[1]
        self.table = self.engine.factor(_padded(table))

    def jacobian(self, rows: torch.Tensor, *, leave_out: bool, softmax: bool) -> torch.Tensor:
        """Jacobians at training rows, (c, m, d).

        Weights are taken as they are at first. Only when all is queued on the device is it asked
        whether one that counts could have underflown, so that it does not wait for the answer;
        then, and for all blocks after that, each query's largest weight is scaled to one.
        """
        J, lowest = self._attempt(rows, leave_out=leave_out, softmax=softmax)
        if not self.rescale and float(lowest) < self.safe:
            self.rescale = True
            J, _ = self._attempt(rows, leave_out=leave_out, softmax=softmax)
        return J

    def _attempt(
        self, rows: torch.Tensor, *, leave_out: bool, softmax: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Jacobians, and the smallest logarithm of a query's largest weight."""
        sums, total, lowest = self.sums(self.X[rows], rows if leave_out else None)
        if self.step is None:
            return self.derivative(sums, total, softmax=softmax), lowest
        if self.rescale:  # some query may have no other row: the prior
            empty = total[:, 0] <= 0
            total.masked_fill_(empty[:, None], 1)
        sums /= total
        if self.rescale:
            prior = self.prior_without(rows if leave_out else None, len(rows))
            sums[:, empty] = prior[empty].T[:, :, None]
        if softmax and self.slices is not None:  # shares lie in [0, 1]: nothing can overflow
            sums.exp_()
            sums /= sums.sum(0)
            softmax = False
        J = self.central(sums[:, :, : self.d], sums[:, :, self.d :], softmax=softmax)
        return J, lowest

    def sums(
        self, Q: torch.Tensor, exclude: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """sum_i K_qi Y_ic table_ij (c, m, columns) and sum_i K_qi table_ij, up to a factor of each
        query, and the smallest logarithm of a query's largest weight."""
        torch = load()
        own = (Q * Q).sum(1, keepdim=True) / (-2 * self.function.bandwidth_**2)
        lifted = _padded(torch.hstack([Q, torch.ones_like(own), own]))
        L = self.engine.matmul(lifted, self.rows, exact=True)
        if exclude is not None:
            L[torch.arange(len(Q), device=L.device), self.position[exclude]] = -torch.inf
        top = L.amax(1, keepdim=True)
        if self.rescale:
            L -= top.masked_fill(top <= NO_WEIGHT / 2, 0)
        K = L.exp_()
        sums = K.new_empty((self.c, len(Q), self.table.high.shape[1]))
        for k in range(self.c):
            if self.slices is not None:
                part = self.slices[k]
                sums[k] = self.engine.matmul(K[:, part], self.table[part])
            else:
                sums[k] = self.engine.matmul(K * self.Ys[:, k], self.table)
        total = sums.sum(0) if self.slices is not None else self.engine.matmul(K, self.table)
        return sums[:, :, : self.width], total[:, : self.width], top.min()

    def derivative(self, sums: torch.Tensor, total: torch.Tensor, *, softmax: bool) -> torch.Tensor:
        """Analytic Jacobian: (sum w Y x - f sum w x) / h^2."""
        weight = total[:, -1:]
        weight = weight.masked_fill(weight <= 0, 1)
        sums = sums / weight
        values = sums[:, :, -1]
        J = (sums[:, :, :-1] - values[:, :, None] * (total / weight)[:, :-1]) / (
            self.function.bandwidth_**2
        )
        return softmax_chain(values, J) if softmax else J


def _aligned(labels: np.ndarray | None, n: int, c: int) -> tuple[np.ndarray, list[slice] | None]:
    """Rows sorted by class, each class filled up with dummies (-1) to a multiple of ALIGNMENT.

    Products of slices that start at odd addresses take kernels several times slower.
    """
    if labels is None:
        return np.r_[np.arange(n), np.full(-n % ALIGNMENT, -1)], None
    parts, slices, start = [], [], 0
    for k in range(c):
        rows = np.flatnonzero(labels == k)
        parts.append(np.r_[rows, np.full(-len(rows) % ALIGNMENT, -1)])
        slices.append(slice(start, start + len(parts[-1])))
        start += len(parts[-1])
    return np.concatenate(parts), slices


def _padded(A: torch.Tensor) -> torch.Tensor:
    """Columns of zeros added up to a multiple of ALIGNMENT."""
    return load().nn.functional.pad(A, (0, -A.shape[1] % ALIGNMENT))


class TorchRidge(TorchFunction):
    """Kernel ridge with all rows, or Nystrom centres, solved on the device in float64."""

    name = "ridge-product"

    def prepare(self) -> None:
        """Solve for coefficients, keep what leaves rows out, and tabulate the exponentials."""
        torch, f = load(), self.function
        self.h2 = f.bandwidth_**2
        # coefficients of either sign nearly cancel in the sums, so all of this is in float64
        self.precise = Engine(self.engine.device, "float64")
        self.Z = self.precise.tensor(f.centers_) - self.precise.tensor(f._center)
        self.prior = self.precise.tensor(np.asarray(f.prior_, dtype=np.float64))
        self.influence: Any = None
        if f.all_rows:
            self._solve()
        else:
            self.coefficients = self.precise.tensor(f.coefficients_)
        if self.step is None:
            self.table = torch.hstack([self.Z, self.Z.new_ones(len(self.Z), 1)])
            return
        self.t = self.step.double()
        self.middle = (self.Z.max(0).values + self.Z.min(0).values) / 2
        exponents = (self.Z - self.middle) * (self.t / self.h2)
        if float(exponents.abs().max()) > EXPONENT_LIMIT[np.dtype(np.float64)]:
            raise FloatingPointError(
                "`step` needs exponents beyond float64; lower `step` or use device=None."
            )
        E = exponents.exp_()
        self.table = torch.hstack([E, 1 / E])

    def _solve(self) -> None:
        """a = S (S K S + penalty I)^-1 S (Y - mean); the matrix itself leaves rows out."""
        torch, f = load(), self.function
        S = self.precise.tensor(np.sqrt(f._weights()))
        K = self.kernel(self.Z, self.Z) * S[:, None] * S
        K.diagonal().add_(f.penalty_)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(K))
        influence = S[:, None] * inverse * S
        self.influence = influence
        self.coefficients = influence @ (self.precise.tensor(f.Y_) - self.prior)
        f.coefficients_ = self.coefficients.cpu().numpy()

    def left_out(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What to subtract to leave rows out: f(x) - (k(x) . b_i) s_i for row i."""
        torch = load()
        if self.influence is None:
            b, s = self.function.leave_one_out(rows.cpu().numpy())
            return self.precise.tensor(b), self.precise.tensor(s)
        b = self.influence[rows]
        own = b[torch.arange(len(rows), device=b.device), rows][:, None]
        return b, torch.where(own > 0, self.coefficients[rows] / own.clamp(min=1e-300), 0)

    def bytes_per_query(self) -> int:
        """Peak of temporaries for one query, in float64."""
        return (4 * self.n + 4 * (self.c + 1) * 2 * self.d) * 8

    def kernel(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """exp(-|a - b|^2 / 2h^2)."""
        D = (A * A).sum(1, keepdim=True) + (B * B).sum(1) - 2 * A @ B.T
        return (D.clamp_(min=0) * (-0.5 / self.h2)).exp_()

    def jacobian(self, rows: torch.Tensor, *, leave_out: bool, softmax: bool) -> torch.Tensor:
        """Jacobians at training rows, (c, m, d)."""
        torch = load()
        f = self.function
        Q = self.precise.tensor(f.X_[rows.cpu().numpy()]) - self.precise.tensor(f._center)
        K = self.kernel(Q, self.Z)
        sums = torch.stack([(K * self.coefficients[:, k]) @ self.table for k in range(self.c)])
        if leave_out:
            b, s = self.left_out(rows)
            mine = (K * b) @ self.table
            sums -= s.T[:, :, None] * mine
        if self.step is None:
            values = sums[:, :, -1]
            J = (sums[:, :, :-1] - values[:, :, None] * Q) / self.h2
            return softmax_chain(values + self.prior[:, None], J) if softmax else J
        tilt = (self.t / self.h2) * (Q - self.middle)
        drop = self.t**2 / (2 * self.h2)
        plus = sums[:, :, : self.d] * (-tilt - drop).exp() + self.prior[:, None, None]
        minus = sums[:, :, self.d :] * (tilt - drop).exp() + self.prior[:, None, None]
        if softmax:
            plus, minus = plus.softmax(0), minus.softmax(0)
        return (plus - minus) * (0.5 / self.t)


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


def softmax_chain(values: torch.Tensor, J: torch.Tensor) -> torch.Tensor:
    """Jacobian of softmax(f) from f (c, m) and its Jacobian J (c, m, d)."""
    p: Any = values.softmax(0)[:, :, None]
    return p * (J - (p * J).sum(0, keepdim=True))
