"""The problem that ITML solves: a metric close to a prior under bounds on the lengths of pairs.

Everything happens in coordinates where the prior is the identity; the LogDet divergence does not
change with coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop.metric import eigh_descending, rank

#: pairs of rows whose distances settle the bounds
BOUND_PAIRS = 5_000
#: smallest eigenvalue of a prior, relative to its largest
SINGULAR = 1e-13
#: squared length, relative to the mean, of which rounding may be all
NO_LENGTH = 1e-24

#: metric, dual value and change of the multipliers after a pass
State = tuple[NDArray, float, float]


@dataclass(frozen=True)
class Problem:
    """Pairs and bounds in coordinates where the prior is the identity.

    Attributes
    ----------
    V : ndarray of shape (n_pairs, r)
        Differences, in units of their root mean square over rows.
    sign : ndarray of shape (n_pairs,)
        +1 for pairs of one class, -1 for pairs of two.
    slack : ndarray of shape (n_pairs,)
        Bound on the squared length of each.
    root : ndarray of shape (d, d)
        Square root of the prior: root^T root = M_0.
    basis : ndarray of shape (r, d) or None
        Orthonormal directions of root x that the rows span; None for all.
    bounds : tuple of float
    """

    V: NDArray
    sign: NDArray
    slack: NDArray
    root: NDArray
    basis: NDArray | None
    bounds: tuple[float, float]

    def solve(
        self,
        gamma: float,
        max_iter: int,
        tol: float,
        progress: Callable[[Iterator[State]], Iterator[State]] = iter,
    ) -> tuple[NDArray, list[float], float]:
        """The metric in these coordinates, the dual value of each pass, the last change."""
        duals = []
        passes = logdet_passes(self.V, self.sign, self.slack, gamma, max_iter, tol)
        for A, dual, change in progress(passes):  # noqa: B007 - the last is returned
            duals.append(dual)
        return A, duals, change

    def components(self, A: NDArray | None, n_components: int | None) -> NDArray:
        """Rows L of the metric A, or of the prior for None, in the columns of X."""
        M = self.root.T @ self.root
        if A is not None and self.basis is None:
            M = self.root.T @ A @ self.root
        elif A is not None and self.basis is not None:
            B = self.basis @ self.root
            M = M + B.T @ (A - np.eye(len(A))) @ B
        values, vectors = eigh_descending((M + M.T) / 2)
        kept = rank(values, n_components)
        return np.sqrt(values[:kept])[:, None] * vectors.T[:kept]


def logdet_passes(
    V: NDArray, sign: NDArray, slack: NDArray, gamma: float, max_iter: int, tol: float
) -> Iterator[State]:
    """Passes of Bregman projections from the identity, until the multipliers settle.

    The pairs have differences V (m, r), ``sign`` +1 where v^T A v <= slack is wanted and -1 where
    >= is, and ``slack`` (m,) the bounds at the outset. Yields the metric A (r, r), which is one
    array throughout, the dual value and the change of the multipliers relative to their sum.
    """
    from ejop.learners._itml_loops import bregman_pass  # numba loads when it is needed

    A, V = np.eye(V.shape[1]), np.ascontiguousarray(V)
    block = int(np.clip(V.shape[1] // 6, 8, 64))  # the quickest in trials with 16 to 800 columns
    bounds, slack, multipliers = slack, slack.copy(), np.zeros(len(V))
    logdet = 0.0
    for _ in range(max_iter):
        before = multipliers.copy()
        logdet += bregman_pass(A, V, sign, multipliers, slack, gamma, block)
        A[:] = (A + A.T) / 2
        total = np.sum(multipliers) + np.sum(before)
        change = float(np.abs(multipliers - before).sum() / total) if total > 0 else 0.0
        yield A, float(-logdet - gamma * np.log(slack / bounds).sum()), change
        if change <= tol:
            return


def prior_root(L: NDArray, X: NDArray, mix: float) -> NDArray:
    """Square root (d, d) of the prior (1 - mix) s L^T L + mix I, whose terms both give the rows X
    their mean squared Euclidean distance."""
    d = X.shape[1]
    if not np.ptp(X, axis=0).any():
        raise ValueError("all rows of X are equal, so that no pair of them has a length.")
    X = X - X.mean(0)
    mapped, spread = (X @ L.T).var(0).sum(), X.var(0).sum()
    if mapped <= NO_LENGTH * spread * np.square(L).sum():
        raise ValueError(
            "`init` maps all rows of X to one point; pass a start that tells them apart."
        )
    values, vectors = eigh_descending((1 - mix) * spread / mapped * L.T @ L + mix * np.eye(d))
    if values[-1] < SINGULAR * values[0]:
        raise ValueError(
            f"the prior is singular: `prior_mix`={mix} and a start of rank "
            f"{np.sum(values > SINGULAR * values[0])} for {d} features; raise `prior_mix`."
        )
    return np.sqrt(values)[:, None] * vectors.T


def pose(
    X: NDArray,
    y: NDArray,
    root: NDArray,
    n_each: int,
    percentiles: ArrayLike,
    random_state: np.random.RandomState,
) -> Problem:
    """Sample pairs and settle bounds under the prior root^T root."""
    Z = (X - X.mean(0)) @ root.T
    unit = np.sqrt(2 * Z.var(0).sum())
    Z /= unit
    basis = None
    if len(Z) <= Z.shape[1]:  # updates stay in the span of the rows: fewer numbers, same result
        _, s, basis = np.linalg.svd(Z, full_matrices=False)
        basis = basis[s > len(Z) * np.finfo(float).eps * s[0]]
        Z = Z @ basis.T
    low, high = bounds(Z, percentiles, random_state)
    pairs, sign = sample_pairs(y, n_each, random_state)
    V = Z[pairs[:, 0]] - Z[pairs[:, 1]]
    kept = np.einsum("mj,mj->m", V, V) > NO_LENGTH
    slack = np.where(sign > 0, low, high)
    return Problem(
        V[kept], sign[kept], slack[kept], root, basis, (float(low * unit**2), float(high * unit**2))
    )


def bounds(Z: NDArray, percentiles: ArrayLike, random_state: np.random.RandomState) -> NDArray:
    """Two percentiles of the squared distances of pairs of rows, without those of length zero."""
    shares = np.asarray(percentiles, dtype=float)
    if shares.shape != (2,) or not ((shares >= 0) & (shares <= 100)).all():
        raise ValueError(f"`percentiles`={percentiles!r} must be two numbers from 0 to 100.")
    n = len(Z)
    if n * (n - 1) // 2 <= BOUND_PAIRS:
        a, b = np.triu_indices(n, 1)
    else:
        a = random_state.randint(n, size=BOUND_PAIRS)
        b = (a + random_state.randint(1, n, size=BOUND_PAIRS)) % n
    squared = np.square(Z[a] - Z[b]).sum(1)
    squared = squared[squared > NO_LENGTH]
    return np.percentile(squared, shares) if len(squared) else np.ones(2)


def sample_pairs(
    y: NDArray, n_each: int, random_state: np.random.RandomState
) -> tuple[NDArray, NDArray]:
    """Up to n_each distinct pairs of one class and of two, spread evenly over the classes.

    Returns
    -------
    pairs : ndarray of shape (n_pairs, 2)
        Row numbers, both kinds interleaved at random.
    sign : ndarray of shape (n_pairs,)
        +1 for one class, -1 for two.
    """
    _, labels, counts = np.unique(y, return_inverse=True, return_counts=True)
    order, firsts = np.argsort(labels, kind="stable"), np.cumsum(counts) - counts
    n_classes = len(counts)

    def below(limits: NDArray) -> NDArray:
        return (random_state.random_sample(n_each) * limits).astype(np.int64)

    found = []
    several = np.flatnonzero(counts > 1)
    if len(several):
        one = np.resize(several, n_each)
        a = below(counts[one])
        b = (a + 1 + below(counts[one] - 1)) % counts[one]
        found.append(np.column_stack([firsts[one] + a, firsts[one] + b]))
    one = np.resize(np.arange(n_classes), n_each)
    two = (one + random_state.randint(1, n_classes, size=n_each)) % n_classes
    found.append(
        np.column_stack([firsts[one] + below(counts[one]), firsts[two] + below(counts[two])])
    )
    pairs = np.unique(np.sort(np.concatenate(found), axis=1), axis=0)
    pairs = order[pairs[random_state.permutation(len(pairs))]]
    return pairs, np.where(labels[pairs[:, 0]] == labels[pairs[:, 1]], 1.0, -1.0)
