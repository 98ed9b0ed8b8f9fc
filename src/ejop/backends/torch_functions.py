"""Estimates of f with tensors: the same sums as their NumPy twins, on any device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ejop.backends.gaussian import EXPONENT_LIMIT, SAFE
from ejop.backends.torch import Engine, Factor, load
from ejop.functions import Function, KernelSmoother, NeighborsSmoother, RidgeFunction

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
    from ejop.backends.torch_compact import TorchCompact, TorchNeighbors
    from ejop.backends.torch_ridge import TorchRidge

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
    #: whether kernel matrices are shifted one feature at a time
    direct = False

    def __init__(self, function: Function, engine: Engine, step: np.ndarray | None) -> None:
        self.function, self.engine = function, engine
        self.notes: list[str] = []
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

    def overflows(self, exponents: torch.Tensor, kind: np.dtype) -> bool:
        """Whether the factorised form cannot be had; the name and the notes then say so."""
        largest, limit = float(exponents.abs().max()), EXPONENT_LIMIT[kind]
        self.direct = largest > limit
        if self.direct:
            self.name = self.name.replace("product", "direct")
            self.notes.append(
                f"exponents reach {largest:.3g}, beyond {limit:g} for {kind}: "
                "kernel matrices are shifted one feature at a time"
            )
        return self.direct

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
        self.rows = self.engine.factor(padded(lifted).T.contiguous(), exact=True)
        if self.step is None:
            table = torch.hstack([self.Z, self.Z.new_ones(len(self.Z), 1)])
        else:
            middle = (self.Z.max(0).values + self.Z.min(0).values) / 2
            exponents = (self.Z - middle) * (self.step / h2)
            if self.overflows(exponents, kind):
                return
            E = exponents.exp_()
            table = torch.hstack([E, 1 / E])
        self.width = table.shape[1]
        self.table = self.engine.factor(padded(table))

    def jacobian(self, rows: torch.Tensor, *, leave_out: bool, softmax: bool) -> torch.Tensor:
        """Jacobians at training rows, (c, m, d).

        Weights are taken as they are at first. Only when all is queued on the device is it asked
        whether one that counts could have underflown, so that it does not wait for the answer;
        then, and for all blocks after that, each query's largest weight is scaled to one.
        """
        if self.direct:
            return self._directly(rows, leave_out=leave_out, softmax=softmax)
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

    def _directly(self, rows: torch.Tensor, *, leave_out: bool, softmax: bool) -> torch.Tensor:
        """Jacobians in the log domain, safe for any step and scale."""
        torch = load()
        assert self.step is not None
        exclude = rows if leave_out else None
        L, targets = self.log_kernel(self.X[rows], exclude), _with_ones(self.Ys)
        prior = self.prior_without(exclude, len(rows)).T
        out = L.new_empty((2, self.c, len(rows), self.d))
        for j in range(self.d):
            tilt = self.Z[:, j] * (self.step[j] / self.function.bandwidth_**2)
            for side, sign in enumerate((1, -1)):
                moved = L + sign * tilt
                top = moved.amax(1, keepdim=True)
                sums = (moved - top.masked_fill(top <= NO_WEIGHT / 2, 0)).exp_() @ targets
                mass = sums[:, -1]
                values = sums[:, :-1].T / mass.masked_fill(mass <= 0, 1)
                out[side, :, :, j] = torch.where(mass > 0, values, prior)
        return self.central(out[0], out[1], softmax=softmax)

    def log_kernel(self, Q: torch.Tensor, exclude: torch.Tensor | None) -> torch.Tensor:
        """Logarithm of the weighted kernel, (m, n), minus infinity at a query's own row."""
        torch = load()
        own = (Q * Q).sum(1, keepdim=True) / (-2 * self.function.bandwidth_**2)
        lifted = padded(torch.hstack([Q, torch.ones_like(own), own]))
        L = self.engine.matmul(lifted, self.rows, exact=True)
        if exclude is not None:
            L[torch.arange(len(Q), device=L.device), self.position[exclude]] = -torch.inf
        return L

    def sums(
        self, Q: torch.Tensor, exclude: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """sum_i K_qi Y_ic table_ij (c, m, columns) and sum_i K_qi table_ij, up to a factor of each
        query, and the smallest logarithm of a query's largest weight."""
        L = self.log_kernel(Q, exclude)
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


def _with_ones(Y: torch.Tensor) -> torch.Tensor:
    """Targets with a column of ones, whose sum is that of the weights."""
    return load().hstack([Y, Y.new_ones(len(Y), 1)])


def padded(A: torch.Tensor) -> torch.Tensor:
    """Columns of zeros added up to a multiple of ALIGNMENT."""
    return load().nn.functional.pad(A, (0, -A.shape[1] % ALIGNMENT))


def softmax_chain(values: torch.Tensor, J: torch.Tensor) -> torch.Tensor:
    """Jacobian of softmax(f) from f (c, m) and its Jacobian J (c, m, d)."""
    p: Any = values.softmax(0)[:, :, None]
    return p * (J - (p * J).sum(0, keepdim=True))
