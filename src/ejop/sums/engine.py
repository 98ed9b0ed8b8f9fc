"""Engines: where arrays live, and the few operations that forms are made of.

:class:`HostEngine` is NumPy with compiled loops; :class:`ejop.sums.torch_engine.TorchEngine` is
torch on a CPU or a card. Forms are written once over these operations and the names that NumPy and
torch share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ejop.arrays import device_of, is_single, is_torch
from ejop.executors.threads import pools_free
from ejop.rows import Block, Summary, one_hot_labels
from ejop.sums import lapack

PRECISIONS = ("float32", "tf32", "bf16", "float64")
#: squared distances by products are measured again up to this many roundings of |q|^2 + |x|^2 ...
DOUBTFUL = 2**16
#: ... so that what is left is off by less than this share
ROUNDING = 2.0**-11


@dataclass(frozen=True)
class Device:
    """Where the sums run, how exactly, and with how much memory; for ``device=``.

    A name alone, as in ``device="cuda"``, is the same as ``Device("cuda")``.

    Parameters
    ----------
    name : None, str, torch.device or list of them, default=None
        None is NumPy and compiled loops; "cpu", "cuda", "cuda:1", "mps" and "auto" (every card, or
        the CPU) are torch. A list shares the query rows among devices.
    precision : {"float32", "tf32", "bf16", "float64"} or None, default=None
        Of products by torch; None follows the data. Distances are never rounded.
    memory_limit : int or None, default=None
        Bytes for temporaries. By default scikit-learn's ``working_memory``, and 60 % of a card's
        free memory.

    Examples
    --------
    >>> from ejop import EJOP, Device
    >>> EJOP(device=Device(memory_limit=2**28)).device
    Device(name=None, precision=None, memory_limit=268435456)
    """

    name: Any = None
    precision: str | None = None
    memory_limit: int | None = None


def as_device(device: Any) -> Device:
    """A device from what ``device=`` was given, or an error that says what it takes."""
    found = device if isinstance(device, Device) else Device(device)
    names = found.name if isinstance(found.name, list | tuple) else [found.name]
    for name in names:
        if name is not None and not isinstance(name, str) and not is_torch(name):
            raise TypeError(
                f"`device`={device!r} is not a device; pass None, 'cpu', 'cuda', 'cuda:1', 'mps', "
                "'auto', a torch.device, a list of them, or ejop.Device(...)."
            )
    if found.precision is not None and found.precision not in PRECISIONS:
        raise ValueError(f"`precision`={found.precision!r} is not one of {', '.join(PRECISIONS)}.")
    limit = found.memory_limit
    if limit is not None and (not isinstance(limit, Integral) or limit < 1):
        raise ValueError(f"`memory_limit` must be a positive number of bytes, got {limit!r}.")
    return found


def engines_for(device: Any, X: Any) -> tuple[Sequence[Engine], int | None]:
    """Engines that the sums run on, and the memory they may take; a tensor brings its device."""
    wanted = as_device(device)
    name = device_of(X) if wanted.name is None else wanted.name
    if name is None:
        return [HOST], wanted.memory_limit
    from ejop.sums.torch_engine import torch_engines

    kind = np.float32 if is_single(X) else np.float64
    return torch_engines(name, wanted.precision, kind), wanted.memory_limit


class Engine(ABC):
    """Where arrays live. Arrays of an engine know its namespace: NumPy's or torch's."""

    #: rows of classes and columns of products come in multiples of this
    alignment: int = 1
    #: query rows of a block at the most: beyond, products gain nothing
    max_block: int = 256
    #: temporaries of a product, in copies of what NumPy needs
    copies: int = 1
    #: before the names of forms in a plan
    prefix: str = ""
    #: whether rows are copied to where the engine computes
    on_device: bool = False
    #: rounding of its products, in roundings of their type
    coarseness: float = 1.0
    #: numbers of a table that is made once to save passes over kernel matrices, at the most
    max_table: int = 8_000_000

    @abstractmethod
    def kind(self, wanted: np.dtype) -> np.dtype:
        """Type of sums for data that want this one."""

    @abstractmethod
    def array(self, values: Any, dtype: np.dtype | None = None) -> Any:
        """Values on the engine, in the type of the sums or that given."""

    @abstractmethod
    def index(self, values: NDArray) -> Any:
        """Row numbers on the engine."""

    @abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """An array to be filled."""

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """An array of zeros."""
        out = self.empty(shape, dtype)
        out[...] = 0
        return out

    @abstractmethod
    def factor(self, B: Any, *, exact: bool = False) -> Any:
        """The right side of products, prepared once; slices of rows can be taken of it."""

    @abstractmethod
    def product(self, A: Any, B: Any, out: Any = None, *, exact: bool = False) -> Any:
        """A @ B for a prepared B; ``exact`` keeps the accuracy of the type of A."""

    @abstractmethod
    def measured(self, Q: Any, X: Any) -> Any:
        """|q - x|^2 (m, n) from differences of the rows, in float64."""

    @abstractmethod
    def gram(self, rows: Any) -> Any:
        """R^T R in float64 for each (n, d) of rows (groups, n, d)."""

    @abstractmethod
    def softmax_quotient(self, plus: Any, minus: Any, step: Any) -> Any:
        """Difference quotient (m, c, d) of the softmax of shares in [0, 1], which are used up."""

    @abstractmethod
    def pairs(self, block: Block, summary: Summary) -> Any:
        """Rows that give distances, compact sums and nearest sums; see :class:`HostPairs`."""

    @abstractmethod
    def pair_queries(self, Q: NDArray, summary: Summary) -> Any:
        """Query rows as :meth:`pairs` holds its rows."""

    def like(self, values: Any, other: Any) -> Any:
        """Values in the type of another array of the engine."""
        return values if values.dtype == other.dtype else values.astype(other.dtype)

    @abstractmethod
    def remeasured(self, D: Any, Q: Any, Z: Any, own: Any, norms: Any) -> Any:
        """Squared distances that lost many digits in a product, measured from the rows; in place.

        ``own`` (m,) and ``norms`` (n,) are the squared norms of the rows of Q and Z.
        """

    @abstractmethod
    def l1_distances(self, Q: Any, Z: Any) -> Any:
        """sum_j |q_j - z_j|, (m, n)."""

    @abstractmethod
    def signed_products(self, K: Any, Q: Any, Z: Any, a: Any, out: Any) -> None:
        """sum_i K_qi sign(q_j - z_ij) a_ic into ``out`` (c, m, d)."""

    @abstractmethod
    def normal_ranks(self, X: Any, quantiles: NDArray) -> Any:
        """Ranks of the values of X (m, d) among quantiles (k, d) of each column, as those of a
        standard normal: linear between two quantiles, the middle rank of those that are equal,
        infinite at the ends."""

    @abstractmethod
    def precise(self) -> Engine:
        """The same place with products in float64."""

    @abstractmethod
    def cholesky(self, K: Any) -> Any:
        """Lower factor of a positive definite matrix, which is overwritten."""

    @abstractmethod
    def solve(self, L: Any, B: Any, *, half: str = "") -> Any:
        """(L L^T)^-1 B; L^-1 B for ``half="lower"`` and L^-T B for ``half="upper"``."""

    @abstractmethod
    def inverse(self, L: Any) -> Any:
        """(L L^T)^-1, symmetric; overwrites L."""

    @abstractmethod
    def inverse_diagonal(self, L: Any) -> Any:
        """Diagonal of (L L^T)^-1; overwrites L."""

    @abstractmethod
    def factor_gram(self, L: Any) -> Any:
        """L^T L of a lower factor, as :meth:`cholesky` reads it: one half may be anything."""

    @abstractmethod
    def eigh(self, M: NDArray) -> tuple[NDArray, NDArray]:
        """Eigenvalues, ascending, and eigenvectors of a symmetric matrix of NumPy."""

    @abstractmethod
    def to_host(self, A: Any) -> NDArray:
        """An array of the engine in NumPy."""

    @abstractmethod
    def budget(self, threads: int) -> int:
        """Bytes that temporaries may take by default."""

    @abstractmethod
    def describe(self) -> str:
        """A note for the plan."""

    @abstractmethod
    def most_centers(self) -> int:
        """Centres of kernel ridge whose system it can hold."""


class HostEngine(Engine):
    """NumPy, SciPy and compiled loops."""

    def kind(self, wanted: np.dtype) -> np.dtype:
        """The type that is wanted."""
        return np.dtype(wanted)

    def array(self, values: Any, dtype: np.dtype | None = None) -> NDArray:
        """The values themselves where their type will do."""
        return np.asarray(values, dtype=dtype)

    def index(self, values: NDArray) -> NDArray:
        """Row numbers."""
        return np.asarray(values, dtype=np.int64)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> NDArray:
        """An array to be filled."""
        return np.empty(shape, dtype=dtype)

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> NDArray:
        """Zeros that take no memory before they are written to."""
        return np.zeros(shape, dtype=dtype)

    def factor(self, B: NDArray, *, exact: bool = False) -> NDArray:
        """The matrix itself."""
        return B

    def product(
        self, A: NDArray, B: NDArray, out: NDArray | None = None, *, exact: bool = False
    ) -> NDArray:
        """A @ B."""
        return np.matmul(A, B, out=out)

    def measured(self, Q: NDArray, X: NDArray) -> NDArray:
        """By a compiled loop."""
        from ejop.sums.measured import measured_distances

        out = np.empty((len(Q), len(X)))
        measured_distances(np.ascontiguousarray(Q), np.ascontiguousarray(X), out)
        return out

    def gram(self, rows: NDArray) -> NDArray:
        """R^T R for each of some matrices."""
        return np.matmul(rows.swapaxes(1, 2), rows).astype(np.float64, copy=False)

    def softmax_quotient(self, plus: NDArray, minus: NDArray, step: NDArray) -> NDArray:
        """A polynomial on [0, 1] in place of the exponential, in one compiled pass."""
        from ejop.sums.compiled import softmax_differences

        sides = plus.swapaxes(0, 1), minus.swapaxes(0, 1)
        return softmax_differences(*sides, step).swapaxes(0, 1)

    def pairs(self, block: Block, summary: Summary) -> HostPairs:
        """Rows for compiled loops."""
        return HostPairs(block, summary)

    def pair_queries(self, Q: NDArray, summary: Summary) -> NDArray:
        """Query rows in the type of the references."""
        return np.asarray(Q, dtype=summary.dtype)

    def remeasured(
        self, D: NDArray, Q: NDArray, Z: NDArray, own: NDArray, norms: NDArray
    ) -> NDArray:
        """By a compiled loop."""
        from ejop.sums.compiled import remeasure

        share = DOUBTFUL * float(np.finfo(D.dtype).eps)
        remeasure(D, np.ascontiguousarray(Q), Z, own, norms, share, np.inf, 0.0)
        return D

    def l1_distances(self, Q: NDArray, Z: NDArray) -> NDArray:
        """A compiled loop."""
        from ejop.sums.compiled import l1_distances

        out = np.zeros((len(Q), len(Z)), dtype=Q.dtype)
        l1_distances(np.ascontiguousarray(Q), np.ascontiguousarray(Z.T), out)
        return out

    def signed_products(self, K: NDArray, Q: NDArray, Z: NDArray, a: NDArray, out: NDArray) -> None:
        """Signs by a compiled loop, then one product a feature."""
        from ejop.sums.compiled import signed

        Q, columns = np.ascontiguousarray(Q), np.ascontiguousarray(Z.T)
        S = np.empty_like(K)
        for j in range(Q.shape[1]):
            signed(K, Q[:, j], columns[j], S)
            out[:, :, j] = (S @ a).T

    def normal_ranks(self, X: NDArray, quantiles: NDArray) -> NDArray:
        """A compiled loop, and SciPy's quantiles of the normal distribution."""
        from ejop.sums.compiled import ranks

        out = np.empty(X.shape)
        ranks(np.ascontiguousarray(X, dtype=np.float64), np.ascontiguousarray(quantiles.T), out)
        return ndtri(out, out=out)

    def precise(self) -> HostEngine:
        """NumPy takes the type of its arrays."""
        return self

    def cholesky(self, K: NDArray) -> NDArray:
        """By LAPACK, in Fortran order, in the memory of K; above the diagonal is what was there."""
        with pools_free(len(K) ** 3):
            L, failed = lapack.cholesky(K)
        if failed:
            raise np.linalg.LinAlgError(
                "the system of kernel ridge is singular up to rounding (its leading minor of "
                f"{failed} rows is not positive definite); raise `penalty`, or take another "
                "`bandwidth`."
            )
        return L

    def solve(self, L: NDArray, B: NDArray, *, half: str = "") -> NDArray:
        """By LAPACK, without copies of L."""
        if half:
            return lapack.solve_half(L, B, transposed=half == "upper")
        return lapack.solve(L, B)

    def inverse(self, L: NDArray) -> NDArray:
        """By LAPACK's potri, a third of the work of solving for every column."""
        with pools_free(len(L) ** 3):
            _refuse_singular(lapack.invert(L))
        return _mirrored(L)

    def inverse_diagonal(self, L: NDArray) -> NDArray:
        """Squared norms of the columns of L^-1."""
        from ejop.sums.compiled import squared_tails

        with pools_free(len(L) ** 3):
            _refuse_singular(lapack.invert_factor(L))
        return squared_tails(L.T)

    def factor_gram(self, L: NDArray) -> NDArray:
        """By LAPACK's lauum, a sixth of the work of a product."""
        G = np.array(L, order="F")
        with pools_free(len(L) ** 3):
            lapack.gram_of_factor(G)
        return G.T

    def eigh(self, M: NDArray) -> tuple[NDArray, NDArray]:
        """By LAPACK."""
        return np.linalg.eigh(M)

    def to_host(self, A: NDArray) -> NDArray:
        """The array itself."""
        return A

    def budget(self, threads: int) -> int:
        """scikit-learn's ``working_memory``, more of it from five threads on."""
        from ejop.sums.plan import default_memory

        return default_memory(threads)

    def most_centers(self) -> int:
        """10,000: 800 MB of kernel matrix."""
        return 10_000

    def describe(self) -> str:
        """Nothing: it is where everything runs unless asked otherwise."""
        return ""

    def __reduce__(self) -> str:
        return "HOST"


HOST = HostEngine()


def _refuse_singular(row: int) -> None:
    if row:
        raise np.linalg.LinAlgError(f"the factor of kernel ridge is singular at row {row}.")


def _mirrored(A: NDArray, piece: int = 512) -> NDArray:
    """A symmetric matrix from its lower half, in place."""
    for s in range(0, len(A), piece):
        e = s + piece
        A[s:e, e:] = A[e:, s:e].T
        square = A[s:e, s:e]
        upper = np.triu_indices(len(square), 1)
        square[upper] = square.T[upper]
    return A


def squared_distances(
    Q: NDArray, X: NDArray, center: NDArray, *, unit: float = 0.0, reach: float = 0.0
) -> NDArray:
    """|q - x_i|^2, shape (m, n), right to one part in two thousand; zero for equal rows alone.

    They come from one product. Where that loses too many digits, between rows that are near to one
    another and far from the centre, they are measured from the rows themselves; up to a distance
    of ``reach`` also where rounding is more than a hundredth of the square of ``unit``. Rows are
    centred a piece at a time, so that X may be large or mapped from disk.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.sums.engine import squared_distances
    >>> squared_distances(np.array([[0.0, 3.0]]), np.array([[4.0, 0.0]]), np.zeros(2))
    array([[25.]])
    """
    from ejop.sums.compiled import remeasure

    Q = np.ascontiguousarray(Q, dtype=X.dtype)
    A = Q - center
    own = np.einsum("md,md->m", A, A)
    D = np.empty((len(A), len(X)), dtype=A.dtype)
    eps = float(np.finfo(D.dtype).eps)
    far = unit**2 / (1600 * eps) if unit else np.inf
    for s in range(0, len(X), 4096):
        rows = np.ascontiguousarray(X[s : s + 4096])
        B = rows - center
        norms = np.einsum("nd,nd->n", B, B)
        piece = D[:, s : s + 4096]
        np.matmul(A, B.T, out=piece)
        piece *= -2
        piece += norms
        piece += own[:, None]
        remeasure(piece, Q, rows, own, norms, DOUBTFUL * eps, far, reach**2)
    return D


class HostPairs:
    """Reference rows for sums over few of them, in NumPy and compiled loops.

    Attributes
    ----------
    X : ndarray of shape (n, n_features)
        As given; queries are too.
    low, high : ndarray of shape (n_features,)
        Bounds of all rows, those of other tiles included.
    note : str
    """

    note = ""

    def __init__(self, block: Block, summary: Summary) -> None:
        self.X, self.Y, self.w = block.X, block.Y, block.weights
        self.start, self.center = int(block.index[0]) if len(block) else 0, summary.center
        labels = one_hot_labels(block.Y) if summary.one_hot else None
        self.labels = np.empty(0, dtype=np.int64) if labels is None else labels
        self.low, self.high = summary.X.low, summary.X.high

    def squared_distances(self, Q: NDArray, exclude: NDArray | None) -> NDArray:
        """Squared distances (m, n), infinite at rows to leave out."""
        D = squared_distances(Q, self.X, self.center)
        if exclude is not None:
            own = np.flatnonzero((exclude >= self.start) & (exclude < self.start + len(self.X)))
            D[own, exclude[own] - self.start] = np.inf
        return D

    def allowing(self, squared: NDArray) -> NDArray:
        """Squared distances with room for the rounding of others."""
        return squared * (1 + ROUNDING)

    def smallest(self, D: NDArray, k: int) -> tuple[NDArray, None]:
        """The k smallest squared distances of each query, in any order."""
        return np.partition(D, k - 1, axis=1)[:, :k], None

    def compact_sums(
        self, Q: NDArray, near: NDArray, D: NDArray, step: NDArray, h: float, kernel: Any
    ) -> tuple[NDArray, NDArray]:
        """Sums (c, m, 2 s) and masses (m, 2 s) of a compact kernel at shifts along s features."""
        from ejop.sums.compiled import compact_sums

        options = (1 / h**2, kernel.inner, kernel.outer)
        return self._both_sides(compact_sums, Q, near, step, options)

    def nearest_sums(
        self, Q: NDArray, near: NDArray, first: None, step: NDArray, k: int
    ) -> tuple[NDArray, NDArray]:
        """Sums and masses of the k nearest of the candidates at shifts along s features."""
        from ejop.sums.compiled import neighbor_sums

        return self._both_sides(neighbor_sums, Q, near, step, (k,))

    def _both_sides(
        self,
        loop: Callable[..., None],
        Q: NDArray,
        near: NDArray,
        step: NDArray,
        options: tuple[Any, ...],
    ) -> tuple[NDArray, NDArray]:
        c, m, s = self.Y.shape[1], len(Q), len(step)
        sums, mass = np.zeros((c, m, 2 * s)), np.zeros((m, 2 * s))
        loop(Q, self.X, near, self.labels, self.Y, self.w, step, *options, sums, mass)
        return sums, mass
