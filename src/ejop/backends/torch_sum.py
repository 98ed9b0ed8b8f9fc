"""The sum of Jacobian outer products on one or several devices."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ejop.backends.plan import Plan, format_bytes
from ejop.backends.torch import Engine, halving, load
from ejop.backends.torch_functions import ALIGNMENT, TorchFunction
from ejop.outerproduct import OuterProduct

if TYPE_CHECKING:
    import torch

#: query rows of a block at the most: beyond, products gain nothing
MAX_BLOCK = 8192
#: groups of the standard error over all queries
GROUPS = 256
#: entries of outer products held at once
MAX_TALLY = 50_000_000


class DeviceSum:
    """An :class:`~ejop.outerproduct.OuterProduct` whose sums live on a device, in float64."""

    def __init__(self, engine: Engine, n_outputs: int, n_features: int, group: int) -> None:
        self.engine, self.group = engine, group
        self.shape = (n_outputs, n_features)
        torch = load()
        kind = torch.float32 if engine.device.type == "mps" else torch.float64
        zeros = {"dtype": kind, "device": engine.device}
        self.sum = torch.zeros(n_features, n_features, **zeros)
        self.squares, self.weighted = torch.zeros_like(self.sum), torch.zeros_like(self.sum)
        self.outputs = torch.zeros(n_outputs, n_features, **zeros)
        self.count, self.n_groups = 0, 0
        self.weight, self.weight_squares = 0.0, 0.0

    def add(self, J: torch.Tensor, weights: NDArray | None) -> None:
        """Add Jacobians (c, m, d) of some rows: whole groups at once, then what is left.

        Nothing is changed before everything is computed, so that it can be tried again.
        """
        c, m, d = J.shape
        J = J.to(self.engine.dtype)  # ridge differentiates in float64
        w = np.ones(m) if weights is None else np.asarray(weights, dtype=np.float64)
        if weights is not None:
            J = J * self.engine.tensor(np.sqrt(w)).to(J.dtype)[None, :, None]
        outputs = _sum_of_squares(J, 1).to(self.sum.dtype)
        whole = m // self.group * self.group
        parts = []
        if whole:
            groups = J[:, :whole].reshape(c, -1, self.group, d).transpose(0, 1)
            groups = groups.reshape(-1, c * self.group, d)
            parts += self._tallies(groups, w[:whole].reshape(-1, self.group).sum(1))
        if whole < m:
            parts += self._tallies(J[:, whole:].reshape(1, -1, d), w[None, whole:].sum(1))
        self.outputs += outputs
        for total, squares, weighted in parts:
            self.sum += total
            self.squares += squares
            self.weighted += weighted
        totals = w[:whole].reshape(-1, self.group).sum(1).tolist() + [w[whole:].sum()]
        self.weight_squares += float(np.square(totals).sum())
        self.n_groups += int(np.count_nonzero(totals))
        self.count += m
        self.weight += float(w.sum())

    def _tallies(self, groups: torch.Tensor, totals: NDArray) -> list[Any]:
        """Sums over groups (b, rows, d) of their outer products, of these squared, and of these
        times the groups' weights."""
        engine = self.engine
        if engine.precision == "bf16":  # a small share of the work, and sums of either sign
            engine = Engine(engine.device, "tf32")
        step = max(1, MAX_TALLY // groups.shape[2] ** 2)
        found = []
        for s in range(0, len(groups), step):
            part = groups[s : s + step]
            S = engine.matmul(part.mT, engine.factor(part)).to(self.sum.dtype)
            weights = self.engine.tensor(totals[s : s + step]).to(S.dtype)
            weighted = load().tensordot(weights, S, 1)
            found.append((S.sum(0), _sum_of_squares(S, 0), weighted))
        return found

    def to_host(self) -> OuterProduct:
        """The same sums in NumPy, to merge with others."""
        out = OuterProduct(*self.shape, batch=self.group)
        out.count, out.n_groups = self.count, self.n_groups
        out.weight, out._weight_squares = self.weight, self.weight_squares
        for name in ("sum", "squares", "weighted", "outputs"):
            getattr(out, f"_{name}")[...] = getattr(self, name).cpu().numpy()
        return out


def _sum_of_squares(A: torch.Tensor, dim: int) -> torch.Tensor:
    """Without the squares as a temporary."""
    return load().linalg.vector_norm(A, dim=dim).square_()


def make_plan(twins: list[TorchFunction], n_queries: int, memory_limit: int | None = None) -> Plan:
    """Size of blocks and groups for the sum.

    Parameters
    ----------
    twins : list of TorchFunction
        A fitted function on each device, by :func:`ejop.backends.torch_functions.twin`.
    n_queries : int
    memory_limit : int, optional
        Bytes for temporaries on each device; 60 % of what is free by default.

    Returns
    -------
    plan : Plan
    """
    first, engine = twins[0], twins[0].engine
    budget = memory_limit or min(one.engine.free_memory() for one in twins)
    per_query = first.bytes_per_query()
    block = int(np.clip(budget // per_query, 1, min(MAX_BLOCK, n_queries)))
    group = max(1, -(-n_queries // GROUPS))
    if group > ALIGNMENT:
        group += -group % ALIGNMENT
    if block >= group:
        block = block // group * group  # whole groups, so that the standard error is even
    n, d = first.function.X_.shape
    plan = Plan(
        method=f"torch-{first.name}",
        n_rows=n,
        n_queries=n_queries,
        n_features=d,
        n_outputs=first.c,
        dtype=engine.precision,
        block=block,
        batch=group,
        threads=1,
        memory=block * per_query,
    )
    plan.notes.append(
        f"device: {', '.join(str(one.engine.device) for one in twins)}, {engine.precision}"
        + (", each product as three of TF32" if engine._splits(False) else "")
        + f", {format_bytes(budget)} for temporaries"
    )
    plan.notes += first.notes
    return plan


def expected_outer_product(
    twins: list[TorchFunction],
    queries: NDArray,
    plan: Plan,
    *,
    leave_one_out: bool = True,
    weights: NDArray | None = None,
    softmax: bool = False,
    progress: Callable[[Any, int], Any] | None = None,
) -> OuterProduct:
    """The running mean over query rows, on devices; rows are dealt out among several.

    Parameters
    ----------
    twins : list of TorchFunction
    queries : ndarray of shape (n_queries,)
        Training rows to average over.
    plan : Plan
        By :func:`make_plan`; a block that does not fit after all is halved, which it then says.
    leave_one_out, softmax : bool
    weights : ndarray of shape (n_samples,), optional
    progress : callable, optional
        Wraps the stream of finished blocks.

    Returns
    -------
    total : OuterProduct
    """
    function = twins[0].function
    shares = np.array_split(queries, len(twins))
    options = {"leave_out": leave_one_out and function.leaves_out, "softmax": softmax}

    def one(which: int) -> OuterProduct:
        twin, rows = twins[which], shares[which]
        total = DeviceSum(twin.engine, function.n_outputs_, function.n_features_in_, plan.batch)

        def add(block: slice) -> None:
            J = twin.jacobian(twin.engine.index(rows[block]), **options)
            total.add(J, None if weights is None else weights[rows[block]])

        blocks = halving(add, len(rows), plan.block, plan.notes.append)
        n_blocks = -(-len(rows) // plan.block)
        for _ in progress(blocks, n_blocks) if progress and which == 0 else blocks:
            pass
        return total.to_host()

    with ThreadPoolExecutor(len(twins)) as pool:
        parts = list(pool.map(one, range(len(twins))))
    total = parts[0]
    for part in parts[1:]:
        total.merge(part)
    if not np.isfinite(total._sum).all():
        raise FloatingPointError(
            f"the derivatives of {function!r} are not finite in {twins[0].engine.precision}; use "
            "precision='float64', or scale the columns of `X`."
        )
    return total
