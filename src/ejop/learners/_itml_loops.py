"""Compiled Bregman projections of ITML: one pass over all pairs."""

from __future__ import annotations

import math

import numpy as np

from ejop._compile import compiled

# Sums may be reordered, which lets the loops vectorise; NaN and infinities keep their meaning.
_REORDER = {"reassoc", "contract"}


@compiled(fastmath=_REORDER)
def _dot(a, b):
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@compiled(fastmath=_REORDER)
def _add_scaled(w, row, out):
    for j in range(row.shape[0]):
        out[j] += w * row[j]


@compiled()
def bregman_pass(A, V, sign, multipliers, slack, gamma, block):
    """Project A (d, d) on the constraint of each pair in turn, in place.

    Pair k has the difference V[k]; ``sign`` +1 asks for v^T A v <= slack, -1 for >=. Its
    projection adds beta (A v) (A v)^T. The additions of ``block`` pairs are kept as rows U of A v
    and made by one matrix product: within a block, A v is that of the block's first A plus what
    the rows before it have added, so that the outcome is that of one addition at a time.

    Returns
    -------
    logdet : float
        Change of log det A.
    """
    m = V.shape[0]
    share = gamma / (gamma + 1.0)
    beta = np.empty((block, 1))
    logdet = 0.0
    for start in range(0, m, block):
        stop = min(start + block, m)
        U = np.dot(V[start:stop], A)
        for i in range(stop - start):
            k = start + i
            v, u = V[k], U[i]
            for j in range(i):
                if beta[j, 0] != 0.0:
                    _add_scaled(beta[j, 0] * _dot(U[j], v), U[j], u)
            p = _dot(u, v)
            beta[i, 0] = 0.0
            if not p > 0.0:  # rounding has left the pair no length that could be changed
                continue
            # a multiplier may fall to zero and no further
            step = min(multipliers[k], share * sign[k] * (1.0 / p - 1.0 / slack[k]))
            signed = sign[k] * step
            beta[i, 0] = signed / (1.0 - signed * p)
            slack[k] *= gamma / (gamma + signed * slack[k])
            multipliers[k] -= step
            logdet -= math.log1p(-signed * p)
        A += np.dot((U * beta[: stop - start]).T, U)
    return logdet
