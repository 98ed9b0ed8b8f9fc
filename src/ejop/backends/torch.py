"""The one door to torch: devices, precisions and products.

Everything that runs on a card goes through an :class:`Engine`. It knows where tensors live, in
which type sums are taken, and how a product is made: "float32" splits each factor in two parts
that tensor cores hold exactly (three TF32 products, about the accuracy of plain float32 and twice
as quick), "tf32" and "bf16" take one product of rounded factors, "float64" one in double.
Distances are never rounded: an exponent magnifies their error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

PRECISIONS = ("float32", "tf32", "bf16", "float64")
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
#: matrices of centres that solving for ridge holds at once
CENTER_MATRICES = 3
INSTALL = "pip install 'ejop[gpu]'"


def load() -> Any:
    """The torch module, or an error that names the install line."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"`device` needs torch; install it with: {INSTALL}") from error
    return torch


def is_tensor(X: Any) -> bool:
    """Whether X is a torch tensor; does not import torch."""
    return type(X).__module__.partition(".")[0] == "torch" and hasattr(X, "device")


def to_host(X: Any) -> Any:
    """A tensor as a NumPy array; anything else as it is."""
    return X.detach().cpu().numpy() if is_tensor(X) else X


def device_of(X: Any) -> Any:
    """Device of a tensor, None for anything else."""
    return X.device if is_tensor(X) else None


def follow(values: NDArray, X: Any) -> Any:
    """An array as a tensor on the device of X where X is one; names stay an array."""
    if not is_tensor(X) or values.dtype.kind not in "fiub":
        return values
    return load().as_tensor(values, device=X.device)


def map_rows(X: Any, components: NDArray, n_features: int) -> Any:
    """Rows of a tensor times the transposed components, on its device and in its type."""
    torch = load()
    if X.ndim != 2 or X.shape[1] != n_features:
        raise ValueError(f"`X` has shape {tuple(X.shape)}; (n_samples, {n_features}) was expected.")
    kind = X.dtype if X.dtype in (torch.float32, torch.float64) else torch.float64
    L = torch.as_tensor(components, dtype=kind, device=X.device)
    Z = X.to(kind) @ L.T
    if not bool(torch.isfinite(Z).all()):
        raise ValueError("Input X contains NaN or infinity.")
    return Z


@dataclass(frozen=True)
class Engine:
    """A device, and how products are made there.

    Attributes
    ----------
    device : torch.device
    precision : {"float32", "tf32", "bf16", "float64"}
    """

    device: Any
    precision: str

    @property
    def dtype(self) -> torch.dtype:
        """Type of tensors and sums."""
        torch = load()
        return torch.float64 if self.precision == "float64" else torch.float32

    @property
    def has_tensor_cores(self) -> bool:
        """Whether TF32 products exist here."""
        torch = load()
        return self.device.type == "cuda" and torch.cuda.get_device_capability(self.device)[0] >= 8

    def tensor(self, values: NDArray) -> torch.Tensor:
        """An array on the device in the type of the sums."""
        return load().as_tensor(np.ascontiguousarray(values), device=self.device).to(self.dtype)

    def index(self, values: NDArray) -> torch.Tensor:
        """Row numbers on the device."""
        return load().as_tensor(np.asarray(values, dtype=np.int64), device=self.device)

    def factor(self, B: torch.Tensor, *, exact: bool = False) -> Factor:
        """The right side of products, prepared once."""
        if self._splits(exact):
            high, low = _split(B)
            if exact and len(B) <= FEW_TERMS:
                return Factor(high, low, load().cat([high, low, high]))
            return Factor(high, low)
        return Factor(B if exact or self.precision != "bf16" else B.bfloat16(), None)

    def matmul(self, A: torch.Tensor, B: Factor, *, exact: bool = False) -> torch.Tensor:
        """A @ B in this precision; ``exact`` keeps float32 accuracy whatever it is."""
        with _tensor_cores:
            if B.stacked is not None:
                high, low = _split(A)
                return load().cat([high, high, low], dim=-1) @ B.stacked
            if B.low is not None:
                return self._split_product(A, B)
            if exact or self.precision != "bf16":
                return A @ B.high
            return _bf16_product(A.bfloat16(), B.high)

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

    def eigh(self, M: NDArray) -> tuple[NDArray, NDArray]:
        """Eigenvalues, ascending, and eigenvectors of a symmetric matrix in float64."""
        torch = load()
        if self.device.type == "mps":  # has no float64
            return np.linalg.eigh(M)
        values, vectors = torch.linalg.eigh(torch.as_tensor(M, device=self.device))
        return values.cpu().numpy(), vectors.cpu().numpy()

    def _splits(self, exact: bool) -> bool:
        if not self.has_tensor_cores or self.precision == "float64":
            return False
        return exact or self.precision == "float32"

    def most_centers(self) -> int:
        """Rows whose kernel matrix and its factor, in float64, take a share of all memory.

        Of all memory, not of what is free: a result must not depend on who else uses the card.
        """
        if self.device.type != "cuda":
            return 0
        total = load().cuda.get_device_properties(self.device).total_memory
        return int(np.sqrt(MEMORY_SHARE * total / (CENTER_MATRICES * 8)))

    def free_memory(self) -> int:
        """Bytes that temporaries may take."""
        torch = load()
        if self.device.type == "cuda":
            return int(MEMORY_SHARE * torch.cuda.mem_get_info(self.device)[0])
        from sklearn import get_config

        return int(get_config()["working_memory"] * 2**20)


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

    def __getitem__(self, rows: slice) -> Factor:
        return Factor(self.high[rows], None if self.low is None else self.low[rows])


def _split(A: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A = high + low with high exact in TF32."""
    torch = load()
    high = (A.contiguous().view(torch.int32) & ~_LOW_BITS).view(torch.float32)
    return high, A - high


def _bf16_product(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """Product of bfloat16 factors, summed and returned in float32 where the library can."""
    torch = load()
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
                switch = load().backends.cuda.matmul
                self._before, switch.allow_tf32 = switch.allow_tf32, True
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                load().backends.cuda.matmul.allow_tf32 = self._before


_tensor_cores = _TensorCores()


def halving(
    work: Callable[[slice], Any], n: int, block: int, tell: Callable[[str], None] | None = None
) -> Iterator[Any]:
    """Results of consecutive blocks of n rows; a block that does not fit in memory is halved.

    Parameters
    ----------
    work : callable
        Takes a slice; must change nothing before it is sure to succeed.
    n, block : int
    tell : callable, optional
        Called with a sentence when a block is halved.
    """
    torch = load()
    start = 0
    while start < n:
        try:
            result = work(slice(start, min(n, start + block)))
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            if block == 1:
                raise
            block = max(1, block // 2)
            if tell is not None:
                tell(f"out of memory: blocks of {block}")
            continue
        yield result
        start += block


def engines(device: Any, precision: str | None, dtype: Any) -> list[Engine]:
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
    torch = load()
    names: Sequence[Any] = device if isinstance(device, list | tuple) else [device]
    if names == ["auto"]:
        n_cards = torch.cuda.device_count()
        names = [f"cuda:{i}" for i in range(n_cards)] or ["cpu"]
    precision = precision or ("float64" if np.dtype(dtype) == np.float64 else "float32")
    if precision not in PRECISIONS:
        raise ValueError(f"`precision`={precision!r} is not one of {', '.join(PRECISIONS)}.")
    return [Engine(_device(torch, name, precision), precision) for name in names]


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
