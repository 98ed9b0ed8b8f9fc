"""Triton kernels: shifted sums over few rows without a temporary for each feature.

Imported only where Triton is there and the tensors live on a card;
:mod:`ejop.sums.torch_engine` has the plain form of the same sums.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

#: rows and features of a tile
ROWS, COLUMNS = 32, 64


@triton.jit
def _profile(u, INNER: tl.constexpr, OUTER: tl.constexpr):
    """(1 - u^(inner / 2))^outer for squared distances u in units of the bandwidth, 0 beyond 1."""
    clipped = tl.minimum(tl.maximum(u, 0.0), 1.0)
    if INNER == 1:
        base = 1.0 - tl.sqrt(clipped)
    elif INNER == 2:
        base = 1.0 - clipped
    else:
        base = 1.0 - clipped * tl.sqrt(clipped)
    weight = tl.where(u <= 1.0, 1.0, 0.0).to(u.dtype)
    for _ in tl.static_range(OUTER):
        weight *= base
    return weight


@triton.jit
def _compact_kernel(
    X, Q, step, rows, near, targets, starts, plus, minus,
    scale, d, n_outputs, n_segments, plane,
    INNER: tl.constexpr, OUTER: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sums over the pairs of one query for some features, one output after the other.

    Output k of query q sums over pairs starts[s] to starts[s + 1], s = q n_segments + min(k,
    n_segments - 1): a class has pairs of its own, real targets share all of them.
    """
    q = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < d
    t = tl.load(step + columns, mask=inside, other=0.0)
    x = tl.load(Q + q * d + columns, mask=inside, other=0.0)
    inverse_h2 = tl.load(scale)  # a scalar argument would be rounded to float32
    for k in range(n_outputs):
        segment = q * n_segments + tl.minimum(k, n_segments - 1)
        start, end = tl.load(starts + segment), tl.load(starts + segment + 1)
        up, down = tl.zeros_like(x), tl.zeros_like(x)
        for first in range(start, end, ROWS):
            pair = first + tl.arange(0, ROWS)
            real = pair < end
            row = tl.load(rows + pair, mask=real, other=0)
            D = tl.load(near + pair, mask=real, other=float("inf"))[:, None]
            target = tl.load(targets + row * n_outputs + k, mask=real, other=0.0)[:, None]
            place = row[:, None] * d + columns[None, :]
            z = tl.load(X + place, mask=real[:, None] & inside[None, :], other=0.0)
            across = 2 * t[None, :] * (x[None, :] - z)
            rise = (t * t)[None, :]
            up += tl.sum(target * _profile((D + across + rise) * inverse_h2, INNER, OUTER), 0)
            down += tl.sum(target * _profile((D - across + rise) * inverse_h2, INNER, OUTER), 0)
        place = k * plane + q * d + columns
        tl.store(plus + place, up, mask=inside)
        tl.store(minus + place, down, mask=inside)


def compact_sums(
    Q: torch.Tensor,
    X: torch.Tensor,
    near: torch.Tensor,
    D: torch.Tensor,
    targets: torch.Tensor,
    slices: list[slice] | None,
    step: torch.Tensor,
    kernel: Any,
    bandwidth: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """sum_i K(|q +- t_j e_j - x_i| / h) T_ik at both shifts, each (n_outputs, m, d).

    Parameters
    ----------
    Q, X : torch.Tensor of shape (m, d) and (n, d)
    near : torch.Tensor of shape (m, n)
        Rows that may lie within reach.
    D : torch.Tensor of shape (m, n)
        Squared distances.
    targets : torch.Tensor of shape (n, n_outputs)
    slices : list of slice, or None
        Rows of each output, all other targets of which are zero.
    step : torch.Tensor of shape (d,)
    kernel : Compact
    bandwidth : float
    """
    (m, d), c = Q.shape, targets.shape[1]
    pairs = near.nonzero()
    counts = near.sum(1)[:, None] if slices is None else _counts(near, slices)
    starts = torch.nn.functional.pad(counts.flatten().cumsum(0), (1, 0))
    plus, minus = Q.new_empty((2, c, m, d))
    grid = (m, triton.cdiv(d, COLUMNS))
    _compact_kernel[grid](
        *(X, Q.contiguous(), step, pairs[:, 1].contiguous(), D[near], targets.contiguous()),
        *(starts, plus, minus, Q.new_tensor([1 / bandwidth**2])),
        *(d, c, counts.shape[1], m * d),
        *(int(kernel.inner), int(kernel.outer), ROWS, COLUMNS),
    )
    return plus, minus


def _counts(near: torch.Tensor, slices: list[slice]) -> torch.Tensor:
    return torch.stack([near[:, part].sum(1) for part in slices], 1)


@triton.jit
def _keys(values, BITS: tl.constexpr):
    """Integers in the order of floating-point numbers, zeros of either sign made equal."""
    if BITS == 32:
        bits = (values + 0.0).to(tl.int32, bitcast=True)
        keys = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64)
    else:
        bits = (values + 0.0).to(tl.int64, bitcast=True)
        keys = bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)
    return keys


@triton.jit
def _shifted_keys(
    X, D, near, first, end, sign, t, x, columns, inside, d,
    BITS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Keys of |q +- t_j e_j - x_i|^2 - t_j^2 for a tile of candidates, and their rows."""
    place = first + tl.arange(0, ROWS)
    real = place < end
    row = tl.load(near + place, mask=real, other=0)
    distance = tl.load(D + place, mask=real, other=float("inf"))[:, None]
    z = tl.load(
        X + row[:, None] * d + columns[None, :], mask=real[:, None] & inside[None, :], other=0.0
    )
    return _keys(distance + sign * (2 * t[None, :] * (x[None, :] - z)), BITS), row, real


@triton.jit
def _nearest_kernel(
    X, Q, step, near, D, starts, targets, out, d, n_outputs, k, plane,
    BITS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sums of targets over the k nearest candidates of a shifted query, for some features.

    The k-th smallest key is found by bisection; equal ones are taken in the order of the
    candidates, which is that of the rows.
    """
    q = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    side = tl.program_id(2)
    sign = 1 - 2 * side
    inside = columns < d
    t = tl.load(step + columns, mask=inside, other=0.0)
    x = tl.load(Q + q * d + columns, mask=inside, other=0.0)
    start, end = tl.load(starts + q), tl.load(starts + q + 1)
    low = tl.full((COLUMNS,), -(2 ** (BITS - 1)), tl.int64)
    high = tl.full((COLUMNS,), 2 ** (BITS - 1) - 1, tl.int64)
    for _ in range(BITS):  # the smallest key with at least k candidates up to it
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        count = tl.zeros((COLUMNS,), tl.int32)
        for first in range(start, end, ROWS):
            keys, row, real = _shifted_keys(
                X, D, near, first, end, sign, t, x, columns, inside, d, BITS, ROWS
            )
            count += tl.sum(((keys <= middle[None, :]) & real[:, None]).to(tl.int32), 0)
        enough = count >= k
        high = tl.where(enough, middle, high)
        low = tl.where(enough, low, middle + 1)
    below = tl.zeros((COLUMNS,), tl.int32)
    for first in range(start, end, ROWS):
        keys, row, real = _shifted_keys(
            X, D, near, first, end, sign, t, x, columns, inside, d, BITS, ROWS
        )
        below += tl.sum(((keys < high[None, :]) & real[:, None]).to(tl.int32), 0)
    for output in range(n_outputs):
        total, ties = tl.zeros_like(x), tl.zeros((COLUMNS,), tl.int32)
        for first in range(start, end, ROWS):
            keys, row, real = _shifted_keys(
                X, D, near, first, end, sign, t, x, columns, inside, d, BITS, ROWS
            )
            tied = ((keys == high[None, :]) & real[:, None]).to(tl.int32)
            rank = ties[None, :] + tl.cumsum(tied, 0)
            chosen = (keys < high[None, :]) | ((tied > 0) & (rank <= (k - below)[None, :]))
            target = tl.load(targets + row * n_outputs + output, mask=real, other=0.0)[:, None]
            total += tl.sum(tl.where(chosen & real[:, None], target, 0.0), 0)
            ties += tl.sum(tied, 0)
        place = (side * n_outputs + output) * plane + q * d + columns
        tl.store(out + place, total, mask=inside)


def nearest_sums(
    Q: torch.Tensor,
    X: torch.Tensor,
    near: torch.Tensor,
    D: torch.Tensor,
    starts: torch.Tensor,
    targets: torch.Tensor,
    step: torch.Tensor,
    k: int,
) -> torch.Tensor:
    """Sums of targets over the k nearest rows at both shifts, (2, n_outputs, m, d).

    Parameters
    ----------
    Q, X : torch.Tensor of shape (m, d) and (n, d)
    near, D : torch.Tensor of shape (n_pairs,)
        Candidates, query after query in the order of rows, with their squared distances.
    starts : torch.Tensor of shape (m + 1,)
        Where each query's candidates begin; at least k each.
    targets : torch.Tensor of shape (n, n_outputs)
    step : torch.Tensor of shape (d,)
    k : int
    """
    (m, d), c = Q.shape, targets.shape[1]
    out = Q.new_empty((2, c, m, d))
    bits = 64 if Q.dtype == torch.float64 else 32
    grid = (m, triton.cdiv(d, COLUMNS), 2)
    _nearest_kernel[grid](
        *(X, Q.contiguous(), step, near.contiguous(), D.contiguous(), starts),
        *(targets.contiguous(), out, d, c, k, m * d, bits, ROWS, COLUMNS),
    )
    return out
