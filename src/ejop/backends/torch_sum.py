"""The sum of Jacobian outer products on one or several devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ejop.backends.plan import Plan, format_bytes
from ejop.backends.torch import Engine, load
from ejop.backends.torch_functions import ALIGNMENT, TorchFunction
from ejop.functions import Function
from ejop.outerproduct import OuterProduct

if TYPE_CHECKING:
    import torch

#: query rows of a block at the most: beyond, products gain nothing
MAX_BLOCK = 8192
#: groups of the standard error over all queries
GROUPS = 256


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
        """Add Jacobians (c, m, d) of some rows: whole groups at once, then what is left."""
        c, m, d = J.shape
        J = J.to(self.engine.dtype)  # ridge differentiates in float64
        w = np.ones(m) if weights is None else np.asarray(weights, dtype=np.float64)
        if weights is not None:
            J = J * self.engine.tensor(np.sqrt(w)).to(J.dtype)[None, :, None]
        self.outputs += (J * J).sum(1).to(self.sum.dtype)
        whole = m // self.group * self.group
        if whole:
            groups = J[:, :whole].reshape(c, -1, self.group, d).transpose(0, 1)
            self._tally(groups.reshape(-1, c * self.group, d), w[:whole].reshape(-1, self.group))
        if whole < m:
            self._tally(J[:, whole:].reshape(1, -1, d), w[None, whole:])
        self.count += m
        self.weight += float(w.sum())

    def _tally(self, groups: torch.Tensor, weights: NDArray) -> None:
        """Record the outer products of groups (b, rows, d) of row weights (b, rows)."""
        engine = self.engine
        if engine.precision == "bf16":  # a small share of the work, and sums of either sign
            engine = Engine(engine.device, "tf32")
        S = engine.matmul(groups.mT.contiguous(), engine.factor(groups)).to(self.sum.dtype)
        totals = weights.sum(1)
        self.sum += S.sum(0)
        self.squares += (S * S).sum(0)
        self.weighted += (S * self.engine.tensor(totals).to(S.dtype)[:, None, None]).sum(0)
        self.weight_squares += float(totals @ totals)
        self.n_groups += int(np.count_nonzero(totals))

    def to_host(self) -> OuterProduct:
        """The same sums in NumPy, to merge with others."""
        out = OuterProduct(*self.shape, batch=self.group)
        out.count, out.n_groups = self.count, self.n_groups
        out.weight, out._weight_squares = self.weight, self.weight_squares
        for name in ("sum", "squares", "weighted", "outputs"):
            getattr(out, f"_{name}")[...] = getattr(self, name).cpu().numpy()
        return out


def expected_outer_product(
    twins: list[TorchFunction],
    queries: NDArray,
    *,
    leave_one_out: bool = True,
    weights: NDArray | None = None,
    softmax: bool = False,
    memory_limit: int | None = None,
    progress: Callable[[Any, int], Any] | None = None,
) -> tuple[OuterProduct, Plan]:
    """The running mean over query rows, on devices; rows are dealt out among several.

    Parameters
    ----------
    twins : list of TorchFunction
        A fitted function on each device, by :func:`ejop.backends.torch_functions.twin`.
    queries : ndarray of shape (n_queries,)
        Training rows to average over.
    leave_one_out, softmax : bool
    weights : ndarray of shape (n_samples,), optional
    memory_limit : int, optional
        Bytes for temporaries on each device; 60 % of what is free by default.
    progress : callable, optional
        Wraps the stream of finished blocks.

    Returns
    -------
    total : OuterProduct
    plan : Plan
    """
    function, engines = twins[0].function, [one.engine for one in twins]
    budgets = [memory_limit or engine.free_memory() for engine in engines]
    per_query = twins[0].bytes_per_query()
    block = int(np.clip(min(budgets) // per_query, 1, min(MAX_BLOCK, len(queries))))
    group = max(1, -(-len(queries) // GROUPS))
    if group > ALIGNMENT:
        group += -group % ALIGNMENT
    if block >= group:
        block = block // group * group  # whole groups, so that the standard error is even
    plan = _plan(function, twins[0], queries, block, group, per_query)
    shares = np.array_split(queries, len(engines))
    options = {"leave_out": leave_one_out and function.leaves_out, "softmax": softmax}

    def one(which: int) -> OuterProduct:
        total = DeviceSum(engines[which], function.n_outputs_, function.n_features_in_, group)
        blocks = _blocks(twins[which], shares[which], total, weights, plan, options)
        n_blocks = -(-len(shares[which]) // plan.block)
        for _ in progress(blocks, n_blocks) if progress and which == 0 else blocks:
            pass
        return total.to_host()

    with ThreadPoolExecutor(len(engines)) as pool:
        parts = list(pool.map(one, range(len(engines))))
    total = parts[0]
    for part in parts[1:]:
        total.merge(part)
    if not np.isfinite(total._sum).all():
        raise FloatingPointError(
            f"the derivatives of {function!r} are not finite in {engines[0].precision}; use "
            "precision='float64', or scale the columns of `X`."
        )
    return total, plan


def _blocks(
    function: TorchFunction,
    rows: NDArray,
    total: DeviceSum,
    weights: NDArray | None,
    plan: Plan,
    options: dict[str, bool],
) -> Iterator[None]:
    """Add block after block; one that does not fit is halved, and that is said in the plan."""
    out_of_memory = load().OutOfMemoryError
    start, block = 0, plan.block
    while start < len(rows):
        part = rows[start : start + block]
        index = function.engine.index(part)
        try:
            J = function.jacobian(index, **options)
        except out_of_memory:
            load().cuda.empty_cache()
            if block == 1:
                raise
            block = max(1, block // 2)
            plan.notes.append(f"out of memory on {function.engine.device}: blocks of {block}")
            continue
        total.add(J, None if weights is None else weights[part])
        start += len(part)
        yield


def _plan(
    function: Function,
    tensors: TorchFunction,
    queries: NDArray,
    block: int,
    group: int,
    per_query: int,
) -> Plan:
    engine = tensors.engine
    n, d = function.X_.shape
    plan = Plan(
        method=f"torch-{tensors.name}",
        n_rows=n,
        n_queries=len(queries),
        n_features=d,
        n_outputs=function.n_outputs_,
        dtype=engine.precision,
        block=block,
        batch=group,
        threads=1,
        memory=block * per_query,
    )
    plan.notes.append(
        f"device: {engine.device}, {engine.precision}"
        + (", each product as three of TF32" if engine._splits(False) else "")
        + f", {format_bytes(engine.free_memory())} for temporaries"
    )
    return plan
