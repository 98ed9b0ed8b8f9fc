"""torch as an engine: devices, precisions and products.

"float32" splits each factor in two parts that tensor cores hold exactly (three TF32 products, about
the accuracy of plain float32 and twice as quick), "tf32" and "bf16" take one product of rounded
factors, "float64" one in double. Distances are never rounded: an exponent magnifies their error.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ejop.arrays import load_torch
from ejop.rows import Block, Summary, one_hot_labels
from ejop.sums.engine import DOUBTFUL, Engine

if TYPE_CHECKING:
    import torch

#: bits of a float32 that TF32 drops
_LOW_BITS = 0x1FFF
#: terms that a split product sums at once: tensor cores drop a digit now and then
STRETCH = 3072
#: terms of a product up to which its three parts are taken at once
FEW_TERMS = 1024
#: share of a card's free memory that temporaries may take
MEMORY_SHARE = 0.6
#: coordinates of pairs of rows held at once
MAX_VALUES = 50_000_000
#: pairs of rows whose distances are measured at once
MAX_PAIRS = 1 << 28
#: share of a squared bandwidth that rounding may move a distance by before it is measured again
LOSS = 1e-3
#: matrices of centres that solving for ridge holds at once
CENTER_MATRICES = 3


@dataclass(frozen=True)
class TorchEngine(Engine):
    """A device, and how products are made there.

    Attributes
    ----------
    device : torch.device
    precision : {"float32", "tf32", "bf16", "float64"}
    """

    device: Any
    precision: str

    alignment = 8  # 16 bytes in any type
    max_block = 8192
    copies = 2
    prefix = "torch-"
    on_device = True
    max_table = 200_000_000

    @property
    def dtype(self) -> torch.dtype:
        """Type of tensors and sums."""
        return self._dtype(self.kind(np.dtype(np.float64)))

    @property
    def has_float64(self) -> bool:
        """Metal cards have none."""
        return self.device.type != "mps"

    @property
    def has_tensor_cores(self) -> bool:
        """Whether TF32 products exist here."""
        cuda = load_torch().cuda
        return self.device.type == "cuda" and cuda.get_device_capability(self.device)[0] >= 8

    def kind(self, wanted: np.dtype) -> np.dtype:
        """float64 in that precision, else float32."""
        return np.dtype(np.float64 if self.precision == "float64" else np.float32)

    def array(self, values: Any, dtype: np.dtype | None = None) -> torch.Tensor:
        """Values on the device; arrays change their type before they travel."""
        torch = load_torch()
        wanted = self.kind(np.dtype(np.float64)) if dtype is None else np.dtype(dtype)
        if not isinstance(values, torch.Tensor):
            values = np.ascontiguousarray(values, dtype=None if self.has_float64 else wanted)
            if not values.flags.writeable:
                values = values.copy()
        return torch.as_tensor(values, device=self.device).to(self._dtype(wanted))

    def index(self, values: NDArray) -> torch.Tensor:
        """Row numbers on the device."""
        return load_torch().as_tensor(np.asarray(values, dtype=np.int64), device=self.device)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> torch.Tensor:
        """A tensor to be filled."""
        return load_torch().empty(shape, dtype=self._dtype(dtype), device=self.device)

    def like(self, values: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Values in the type of another tensor."""
        return values.to(other.dtype)

    def to_host(self, A: torch.Tensor) -> NDArray:
        """A tensor as an array."""
        return A.cpu().numpy()

    def precise(self) -> TorchEngine:
        """The same device in float64 where it has that."""
        return TorchEngine(self.device, "float64" if self.has_float64 else "float32")

    def _dtype(self, dtype: Any) -> torch.dtype:
        torch = load_torch()
        if isinstance(dtype, torch.dtype):
            return dtype
        single = np.dtype(dtype) == np.float32 or not self.has_float64
        return torch.float32 if single else torch.float64

    # products -----------------------------------------------------------------------------------

    def factor(self, B: torch.Tensor, *, exact: bool = False) -> Factor:
        """The right side of products, in two parts where products are split."""
        if self._splits(B, exact):
            high, low = _split(B)
            if exact and len(B) <= FEW_TERMS:
                return Factor(high, low, load_torch().cat([high, low, high]))
            return Factor(high, low)
        rounds = self.precision == "bf16" and not exact
        return Factor(B.bfloat16() if rounds else B.contiguous(), None)

    def product(
        self, A: torch.Tensor, B: Factor, out: Any = None, *, exact: bool = False
    ) -> torch.Tensor:
        """A @ B in this precision; ``exact`` keeps the accuracy of the type of A whatever it is."""
        with _tensor_cores:
            if B.stacked is not None:
                high, low = _split(A)
                found = load_torch().cat([high, high, low], dim=-1) @ B.stacked
            elif B.low is not None:
                found = self._split_product(A, B)
            elif exact or self.precision != "bf16":
                return load_torch().matmul(A, B.high, out=out)
            else:
                found = _bf16_product(A.bfloat16(), B.high)
        return found if out is None else out.copy_(found)

    def _split_product(self, A: torch.Tensor, B: Factor) -> torch.Tensor:
        """Three TF32 products, over stretches that tensor cores sum without losing digits."""
        high, low = _split(A)
        out = None
        for s in range(0, A.shape[-1], STRETCH):
            part = slice(s, s + STRETCH)
            B_high, B_low = B.high[..., part, :], B.low[..., part, :]
            if out is None:
                out = high[..., part] @ B_high
            else:
                _add_product(out, high[..., part], B_high)
            _add_product(out, high[..., part], B_low)
            _add_product(out, low[..., part], B_high)
        assert out is not None
        return out

    def _splits(self, B: torch.Tensor, exact: bool) -> bool:
        if not self.has_tensor_cores or B.dtype != load_torch().float32:
            return False
        return exact or self.precision == "float32"

    @property
    def coarseness(self) -> float:  # type: ignore[override]
        """Products of rounded factors keep three digits, and exponents need no more than these."""
        return 20.0 if self.precision in ("tf32", "bf16") else 1.0

    def measured(self, Q: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        """By the library's own loop."""
        mode = "donot_use_mm_for_euclid_dist"
        return self._by_pieces(Q, X, compute_mode=mode).square_()

    def _by_pieces(self, Q: torch.Tensor, X: torch.Tensor, **how: Any) -> torch.Tensor:
        """``cdist`` of some rows at a time: a card takes no more pairs at once than an int32."""
        out = self.empty((len(Q), len(X)), np.dtype(str(Q.dtype).removeprefix("torch.")))
        height = max(1, MAX_PAIRS // max(1, len(X)))
        for s in range(0, len(Q), height):
            out[s : s + height] = load_torch().cdist(Q[s : s + height], X, **how)
        return out

    def gram(self, rows: torch.Tensor) -> torch.Tensor:
        """R^T R for each of some matrices, in the precision of products, at least TF32."""
        engine = TorchEngine(self.device, "tf32") if self.precision == "bf16" else self
        rows = rows.to(self.dtype)
        return engine.product(rows.mT, engine.factor(rows))

    def softmax_quotient(
        self, plus: torch.Tensor, minus: torch.Tensor, step: torch.Tensor
    ) -> torch.Tensor:
        """Shares lie in [0, 1], so their exponentials need no rescaling."""
        for side in (plus, minus):
            side.exp_()
            side /= side.sum(1, keepdim=True)
        return (plus - minus).mul_(0.5 / step)

    # few rows -----------------------------------------------------------------------------------

    def pairs(self, block: Block, summary: Summary) -> TorchPairs:
        """Rows on the device."""
        return TorchPairs(self, block, summary)

    def pair_queries(self, Q: NDArray, summary: Summary) -> torch.Tensor:
        """Query rows as they are; centred first where the type of the device rounds them."""
        return self.array(Q - summary.center if self.rounds(summary) else Q)

    def rounds(self, summary: Summary) -> bool:
        """Whether rows lose digits here."""
        return summary.dtype.itemsize > self.kind(np.dtype(np.float64)).itemsize

    def remeasured(
        self,
        D: torch.Tensor,
        Q: torch.Tensor,
        Z: torch.Tensor,
        own: torch.Tensor,
        norms: torch.Tensor,
    ) -> torch.Tensor:
        """Some rows of distances at a time, and in them some pairs."""
        share = DOUBTFUL * load_torch().finfo(D.dtype).eps
        height = max(1, MAX_VALUES // max(1, D.shape[1]))
        width = max(1, MAX_VALUES // max(1, Q.shape[1]))
        for s in range(0, len(D), height):
            rows = slice(s, s + height)
            near = share * (own[rows, None] + norms) >= D[rows]
            queries, others = near.nonzero(as_tuple=True)
            for first in range(0, len(queries), width):
                i, j = queries[first : first + width] + s, others[first : first + width]
                D[i, j] = (Q[i] - Z[j]).square_().sum(1)
        return D

    def l1_distances(self, Q: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
        """By the device."""
        return self._by_pieces(Q, Z, p=1)

    def signed_products(
        self, K: torch.Tensor, Q: torch.Tensor, Z: torch.Tensor, a: torch.Tensor, out: torch.Tensor
    ) -> None:
        """One product a feature."""
        for j in range(Q.shape[1]):
            S = K * (Q[:, j : j + 1] - Z[:, j]).sign()
            out[:, :, j] = (S @ a).T

    def normal_ranks(self, X: torch.Tensor, quantiles: NDArray) -> torch.Tensor:
        """By binary searches on the device."""
        torch = load_torch()
        x = X.T.contiguous().to(self.dtype)
        q = self.array(quantiles.T, self.kind(np.dtype(np.float64)))
        last = len(quantiles) - 1
        low = torch.searchsorted(q, x, right=True).sub_(1).clamp_(0, last)
        high = torch.searchsorted(q, x).clamp_(0, last)
        below = q.gather(1, low)
        gap = q.gather(1, high) - below
        between = torch.where(gap > 0, (x - below) / gap.where(gap > 0, 1.0), 0.5)
        rank = (low + between * (high - low)) / max(last, 1)
        rank = rank.where(x < q[:, -1:], 1.0).where(x > q[:, :1], 0.0)
        return torch.special.ndtri(rank).T

    # linear algebra -----------------------------------------------------------------------------

    def cholesky(self, K: torch.Tensor) -> torch.Tensor:
        """By the device."""
        torch = load_torch()
        try:
            return torch.linalg.cholesky(K)
        except torch.OutOfMemoryError as error:
            raise MemoryError(
                f"kernel ridge with {len(K)} centres does not fit on {self.device}; free some of "
                "its memory, take fewer with function=RidgeFunction(max_rows=..., n_centers=...), "
                "or use device=None."
            ) from error
        except torch.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError(
                f"the system of kernel ridge is singular up to rounding ({error}); raise "
                "`penalty`, or take another `bandwidth`."
            ) from error

    def solve(self, L: torch.Tensor, B: torch.Tensor, *, half: str = "") -> torch.Tensor:
        """By the device."""
        torch = load_torch()
        if half == "lower":
            return torch.linalg.solve_triangular(L, B, upper=False)
        if half == "upper":
            return torch.linalg.solve_triangular(L.T, B, upper=True)
        return torch.cholesky_solve(B, L)

    def inverse(self, L: torch.Tensor) -> torch.Tensor:
        """By the device."""
        return load_torch().cholesky_inverse(L)

    def inverse_diagonal(self, L: torch.Tensor) -> torch.Tensor:
        """By the device."""
        return self.inverse(L).diagonal()

    def factor_gram(self, L: torch.Tensor) -> torch.Tensor:
        """One product."""
        return L.T @ L

    def eigh(self, M: NDArray) -> tuple[NDArray, NDArray]:
        """By the device, in float64."""
        if not self.has_float64:
            return np.linalg.eigh(M)
        torch = load_torch()
        values, vectors = torch.linalg.eigh(torch.as_tensor(M, device=self.device))
        return values.cpu().numpy(), vectors.cpu().numpy()

    # memory -------------------------------------------------------------------------------------

    def most_centers(self) -> int:
        """Rows whose kernel matrix and its factor, in float64, take a share of all memory.

        Of all memory, not of what is free: a result must not depend on who else uses the card.
        """
        if self.device.type != "cuda":
            return 10_000
        total = load_torch().cuda.get_device_properties(self.device).total_memory
        return max(10_000, int(np.sqrt(MEMORY_SHARE * total / (CENTER_MATRICES * 8))))

    def budget(self, threads: int) -> int:
        """60 % of a card's free memory, its cache counted as free; as NumPy's on a CPU."""
        torch = load_torch()
        if self.device.type == "cuda":
            cuda = torch.cuda
            cached = cuda.memory_reserved(self.device) - cuda.memory_allocated(self.device)
            return int(MEMORY_SHARE * (cuda.mem_get_info(self.device)[0] + cached))
        from sklearn import get_config

        return int(get_config()["working_memory"] * 2**20)

    def describe(self) -> str:
        """Device and precision."""
        split = self.precision == "float32" and self.has_tensor_cores
        return f"{self.device}, {self.precision}" + ", each product as three of TF32" * split


@dataclass(frozen=True)
class Factor:
    """Right side of a product; in two parts where products are split.

    Attributes
    ----------
    high, low : torch.Tensor
        B = high + low; low is None where products are not split.
    stacked : torch.Tensor or None
        [high; low; high], so that [A_high | A_high | A_low] times it is all three products at once:
        for few terms, where passes over the result would cost more than copies of A.
    """

    high: Any
    low: Any
    stacked: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """Of B."""
        return self.high.shape

    def __getitem__(self, rows: slice) -> Factor:
        return Factor(self.high[rows], None if self.low is None else self.low[rows])


def _split(A: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A = high + low with high exact in TF32."""
    torch = load_torch()
    high = (A.contiguous().view(torch.int32) & ~_LOW_BITS).view(torch.float32)
    return high, A - high


def _bf16_product(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """Product of bfloat16 factors, summed and returned in float32 where the library can."""
    torch = load_torch()
    if A.is_cuda and A.ndim == 2:
        return torch.mm(A, B, out_dtype=torch.float32)
    return A.float() @ B.float()


def _add_product(out: torch.Tensor, A: torch.Tensor, B: torch.Tensor) -> None:
    """out += A @ B without a temporary."""
    if out.ndim == 2:
        out.addmm_(A, B)
    else:
        out.baddbmm_(A, B)


class _TensorCores:
    """The library's switch for TF32: on while any thread multiplies, then put back.

    The switch is one for all cards and threads. Every product here either may take tensor cores or
    is in a type that they do not round, so one thread's product does not mind that another's is on.
    """

    def __init__(self) -> None:
        self._lock, self._users, self._before = Lock(), 0, False

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                switch = load_torch().backends.cuda.matmul
                self._before, switch.allow_tf32 = switch.allow_tf32, True
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                load_torch().backends.cuda.matmul.allow_tf32 = self._before


_tensor_cores = _TensorCores()


class TorchPairs:
    """Reference rows for sums over few of them, on a device; see :class:`HostPairs`.

    On a card with Triton all shifts are taken in one kernel; elsewhere one after the other.
    """

    def __init__(self, engine: TorchEngine, block: Block, summary: Summary) -> None:
        self.engine = engine
        self.start, self.c = int(block.index[0]) if len(block) else 0, summary.n_outputs
        self.X = engine.pair_queries(block.X, summary)
        center = 0 * summary.center if engine.rounds(summary) else summary.center
        self.center = engine.array(center)
        centred = self.X - self.center
        self.norms = (centred * centred).sum(1)
        self.rows = engine.factor(centred.T.contiguous(), exact=True)
        # how far rounding may move a squared distance that comes from a product
        self.slack = 256 * load_torch().finfo(self.X.dtype).eps * float(self.norms.max())
        self.low = engine.pair_queries(summary.X.low, summary)
        self.high = engine.pair_queries(summary.X.high, summary)
        w = engine.array(block.weights)[:, None]
        #: targets times weights, and the weights
        self.targets = load_torch().hstack([engine.array(block.Y) * w, w])
        self.labels = one_hot_labels(block.Y) if summary.one_hot else None
        self.fused = fused(engine.device)
        self.note = (
            "all shifts in one kernel" if self.fused else "one shifted feature after the other"
        )

    def squared_distances(self, Q: torch.Tensor, exclude: NDArray | None) -> torch.Tensor:
        """Squared distances (m, n), infinite at rows to leave out."""
        A = Q - self.center
        D = self.engine.product(A, self.rows, exact=True)
        D *= -2
        D += self.norms
        D += (A * A).sum(1, keepdim=True)
        D.clamp_(min=0)
        if exclude is not None:
            own = np.flatnonzero((exclude >= self.start) & (exclude < self.start + len(self.X)))
            places = self.engine.index(exclude[own] - self.start)
            D[self.engine.index(own), places] = np.inf
        return D

    def allowing(self, squared: torch.Tensor) -> torch.Tensor:
        """Squared distances with room for the rounding of others."""
        return squared + self.slack

    def smallest(self, D: torch.Tensor, k: int) -> Any:
        """The k smallest squared distances of each query, and their rows."""
        return D.topk(k, 1, largest=False)

    def compact_sums(
        self,
        Q: torch.Tensor,
        near: torch.Tensor,
        D: torch.Tensor,
        step: NDArray,
        h: float,
        kernel: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Sums (c, m, 2 s) and masses (m, 2 s) of a compact kernel at shifts along s features."""
        if self.slack > LOSS * h**2:
            D = self._remeasured(Q, near, D)
        if self.fused and len(step) == Q.shape[1]:
            return self._fused_compact(Q, near, D, self.engine.array(step), h, kernel)
        some = near.any(0).nonzero()[:, 0]
        D, X, targets = D[:, some], self.X[some], self.targets[some]
        out = D.new_empty((self.c + 1, len(Q), 2 * len(step)))
        for j, t in enumerate(step.tolist()):
            across = 2 * t * (Q[:, j : j + 1] - X[:, j])
            for column, sign in ((j, 1), (len(step) + j, -1)):
                u = ((D + sign * across + t * t) / h**2).clamp_(min=0)
                weights = (1 - u.clamp(max=1) ** (kernel.inner / 2)) ** kernel.outer * (u <= 1)
                out[:, :, column] = (weights @ targets).T
        return out[:-1], out[-1]

    def _remeasured(self, Q: torch.Tensor, near: torch.Tensor, D: torch.Tensor) -> torch.Tensor:
        """Squared distances with those of near pairs taken from the rows themselves."""
        query, row = near.nonzero(as_tuple=True)
        finite = D[query, row] < np.inf  # rows to leave out stay out
        query, row = query[finite], row[finite]
        D[query, row] = self._measured(Q, query, row, Q.new_zeros(1))[0]
        return D

    def _fused_compact(
        self,
        Q: torch.Tensor,
        near: torch.Tensor,
        D: torch.Tensor,
        step: torch.Tensor,
        h: float,
        kernel: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The same in one kernel; with classes each is summed over its own rows."""
        from ejop.sums.fused import compact_sums

        X, targets, slices = self.X, self.targets, None
        if self.labels is not None:
            order = self.engine.index(np.argsort(self.labels, kind="stable"))
            ends = np.cumsum(np.bincount(self.labels, minlength=self.c))
            slices = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
            X, D, near, targets = X[order], D[:, order], near[:, order], targets[order, :-1]
        sides = compact_sums(Q, X, near, D, targets, slices, step, kernel, h)
        both = load_torch().cat(sides, dim=2)
        return (both, both.sum(0)) if slices is not None else (both[:-1], both[-1])

    def nearest_sums(
        self, Q: torch.Tensor, near: torch.Tensor, first: torch.Tensor, step: NDArray, k: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Sums and masses of the k nearest of the candidates at shifts along s features."""
        t = self.engine.array(step)
        query, row, squared = self.candidates(Q, near, first, t)
        if self.fused and len(step) == Q.shape[1]:
            from ejop.sums.fused import nearest_sums

            starts = load_torch().bincount(query, minlength=len(Q)).cumsum(0)
            starts = load_torch().nn.functional.pad(starts, (1, 0))
            out = nearest_sums(Q, self.X, row, squared, starts, self.targets, t, k)
            both = load_torch().cat(list(out), dim=2)
        else:
            both = self._ranked(Q, query, row, squared, step, k)
        return both[:-1], both[-1]

    def candidates(
        self, Q: torch.Tensor, near: torch.Tensor, first: torch.Tensor, step: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Pairs that hold the k nearest rows of every shifted query: query, row, |q - x|^2.

        At any shift the k-th nearest row is no farther than the farthest of the k rows nearest to
        q; pairs that no shift brings so near are dropped. They come by query, then by row.
        """
        torch = load_torch()
        each = torch.arange(len(Q), device=Q.device)[:, None].expand_as(first)
        squared, shift = self._measured(Q, each.flatten(), first.flatten(), step)
        ceiling = (squared + shift).view_as(first).amax(1)
        query, row = near.nonzero(as_tuple=True)
        squared, shift = self._measured(Q, query, row, step)
        rounding = 16 * torch.finfo(Q.dtype).eps * (squared + shift)
        kept = squared - shift <= ceiling[query] + rounding
        return query[kept], row[kept], squared[kept]

    def _measured(
        self, Q: torch.Tensor, query: torch.Tensor, row: torch.Tensor, step: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """|q - x|^2 of pairs, and the most that a shift changes it beside t^2.

        From the rows themselves: products lose digits that decide who is nearer.
        """
        squared, shift = Q.new_empty((2, len(row)))
        piece = max(1, MAX_VALUES // Q.shape[1])
        for s in range(0, len(row), piece):
            part = slice(s, s + piece)
            difference = self.X[row[part]] - Q[query[part]]
            squared[part] = (difference * difference).sum(1)
            shift[part] = (2 * step * difference[:, : len(step)].abs()).amax(1)
        return squared, shift

    def _ranked(
        self,
        Q: torch.Tensor,
        query: torch.Tensor,
        row: torch.Tensor,
        squared: torch.Tensor,
        step: NDArray,
        k: int,
    ) -> torch.Tensor:
        """Sums of targets and weights (c + 1, m, 2 s), candidates sorted again for every shift."""
        torch = load_torch()
        counts = torch.bincount(query, minlength=len(Q))
        place = torch.arange(len(query), device=Q.device) - (counts.cumsum(0) - counts)[query]
        width = int(counts.max())
        near = row.new_zeros((len(Q), width))
        exact = Q.new_full((len(Q), width), torch.inf)  # after those that there are
        near[query, place], exact[query, place] = row, squared
        targets = self.targets[near]
        out = Q.new_empty((targets.shape[2], len(Q), 2 * len(step)))
        for j, t in enumerate(step.tolist()):
            across = 2 * t * (Q[:, j : j + 1] - self.X[:, j][near])
            for column, sign in ((j, 1), (len(step) + j, -1)):
                order = (exact + sign * across).sort(dim=1, stable=True).indices[:, :k]
                chosen = targets.gather(1, order[:, :, None].expand(-1, -1, targets.shape[2]))
                out[:, :, column] = chosen.sum(1).T
        return out


def fused(device: Any) -> bool:
    """Whether the kernels of :mod:`ejop.sums.fused` run on a device."""
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


def torch_engines(device: Any, precision: str | None, dtype: Any) -> list[TorchEngine]:
    """One engine a device.

    Parameters
    ----------
    device : str, torch.device or sequence of them
        "auto" takes every card there is, or the CPU; "cuda" the current card.
    precision : str or None
        None follows the type of the data.
    dtype : dtype
        Of the data.
    """
    torch = load_torch()
    names: Sequence[Any] = device if isinstance(device, list | tuple) else [device]
    if list(names) == ["auto"]:
        n_cards = torch.cuda.device_count()
        names = [f"cuda:{i}" for i in range(n_cards)] or ["cpu"]
    precision = precision or ("float64" if np.dtype(dtype) == np.float64 else "float32")
    return [TorchEngine(_device(torch, name, precision), precision) for name in names]


def _device(torch: Any, name: Any, precision: str) -> Any:
    try:
        found = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"`device`={name!r} is not a device; use 'cpu', 'cuda', 'cuda:1', 'mps' or 'auto'."
        ) from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"`device`={name!r}, but torch sees no CUDA card here; use device=None.")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"`device`={name!r}, but there are {torch.cuda.device_count()} cards.")
    if found.type == "mps":
        if not torch.backends.mps.is_available():
            raise ValueError(f"`device`={name!r}, but torch sees no Metal card here.")
        if precision == "float64":
            raise ValueError("`device`='mps' has no float64; pass float32 data or precision.")
    return found
