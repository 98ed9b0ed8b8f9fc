"""Slow, obvious twins of what the library computes fast. Float64, loops, no tricks."""

from __future__ import annotations

import numpy as np

KERNELS = {
    "gaussian": lambda u: np.exp(-(u**2) / 2),
    "laplace": lambda u: np.exp(-u),
    "boxcar": lambda u: (u <= 1) * 1.0,
    "epanechnikov": lambda u: (u <= 1) * (1 - u**2),
    "triangular": lambda u: (u <= 1) * (1 - u),
    "biweight": lambda u: (u <= 1) * (1 - u**2) ** 2,
    "tricube": lambda u: (u <= 1) * (1 - u**3) ** 3,
}


def _others(n, i):
    return np.delete(np.arange(n), i) if i >= 0 else np.arange(n)


def smoother(x, X, Y, h, kernel, leave=-1, w=None):
    """sum_i K_i Y_i / sum_i K_i at one point; equal weights where every K_i is zero."""
    rows = _others(len(X), leave)
    w = np.ones(len(X)) if w is None else w
    u = np.array([np.linalg.norm(x - X[i]) for i in rows]) / h
    if kernel == "gaussian":
        u = np.sqrt(u**2 - u.min() ** 2)  # a factor common to all rows cancels
    if kernel == "laplace":
        u = u - u.min()
    K = KERNELS[kernel](u) * w[rows]
    if K.sum() == 0:
        K = w[rows]
    return K @ Y[rows] / K.sum()


def neighbors(x, X, Y, k, leave=-1, w=None):
    """Mean of Y over the k nearest rows, ties to the earlier row."""
    rows = _others(len(X), leave)
    w = np.ones(len(X)) if w is None else w
    distances = np.array([np.linalg.norm(x - X[i]) for i in rows])
    nearest = rows[np.argsort(distances, kind="stable")[:k]]
    return w[nearest] @ Y[nearest] / w[nearest].sum()


RIDGE = {
    "gaussian": lambda x, z, h: np.exp(-np.sum((x - z) ** 2) / (2 * h * h)),
    "laplace": lambda x, z, h: np.exp(-np.linalg.norm(x - z) / h),
    "l1": lambda x, z, h: np.prod(np.exp(-np.abs(x - z) / h)),
}


def ridge_machine(X, Y, h, penalty, leave=-1, w=None, centers=None, kernel="gaussian"):
    """x -> kernel ridge around the mean target of *all* rows, refitted without the left-out row."""
    rows = _others(len(X), leave)
    w = np.ones(len(X)) if w is None else w
    mean = w @ Y / w.sum()
    k = lambda A, B: np.array([[RIDGE[kernel](a, b, h) for b in B] for a in A])  # noqa: E731
    A, W = X[rows], np.diag(w[rows])
    Z = A if centers is None else centers
    K, R = k(A, Z), k(Z, Z) + 1e-10 * len(Z) * np.eye(len(Z))  # the documented jitter
    if centers is None:
        a = np.linalg.solve(K + penalty * np.linalg.inv(W), Y[rows] - mean)
    else:
        a = np.linalg.lstsq(K.T @ W @ K + penalty * R, K.T @ W @ (Y[rows] - mean), rcond=None)[0]
    return lambda x: mean + (k(x[None], Z) @ a)[0]


def softmax(f):
    e = np.exp(f - f.max())
    return e / e.sum()


def shifted_differences(value, Q, step, leave, use_softmax):
    """The paper's difference quotient of value(x, leave), one query, feature and side at a time."""
    m, d = Q.shape
    J = None
    for q in range(m):
        for j in range(d):
            e = np.zeros(d)
            e[j] = step[j]
            plus, minus = value(Q[q] + e, leave[q]), value(Q[q] - e, leave[q])
            if use_softmax:
                plus, minus = softmax(plus), softmax(minus)
            if J is None:
                J = np.zeros((m, len(plus), d))
            J[q, :, j] = (plus - minus) / (2 * step[j])
    return J


def mean_outer_product(J, w=None):
    """Weighted mean of J^T J over samples, one at a time."""
    w = np.ones(len(J)) if w is None else w
    return sum(wi * Ji.T @ Ji for wi, Ji in zip(w, J, strict=True)) / w.sum()


class Exact:
    """Values of f at shifted points in long double, from differences of the rows alone.

    ``function`` is a name of ``KERNELS``, "knn", "ridge", "laplace ridge" or "l1 ridge"; ``h`` the
    bandwidth or the number of neighbours.
    """

    def __init__(self, function, X, Y, h, penalty=None):
        self.function, self.penalty = function, penalty
        self.is_ridge = function.endswith("ridge")
        self.h = h if function == "knn" else np.longdouble(h)
        self.X, self.Y = X.astype(np.longdouble), Y.astype(np.longdouble)

    def squared(self, x, rows, j=0, t=0.0):
        """|x + t e_j - x_i|^2 of some rows."""
        apart = x - self.X[rows]
        t = np.longdouble(t)
        return (apart**2).sum(1) + (2 * t * apart[:, j] + t * t)

    def ridge_kernel(self, x, rows, j=0, t=0.0):
        """Kernel of ridge between x + t e_j and some rows."""
        if self.function == "l1 ridge":
            apart = x - self.X[rows]
            apart[:, j] += np.longdouble(t)
            return np.exp(-np.abs(apart).sum(1) / self.h)
        D = np.maximum(self.squared(x, rows, j, t), 0)
        return np.exp(-D / (2 * self.h**2) if self.function == "ridge" else -np.sqrt(D) / self.h)

    def value(self, x, leave, j=0, t=0.0):
        rows = _others(len(self.X), leave)
        D = self.squared(x.astype(np.longdouble), rows, j, t)
        if self.function == "knn":
            return self.Y[rows[np.argsort(D, kind="stable")[: self.h]]].mean(0)
        if self.is_ridge:
            K = self.ridge_kernel(x.astype(np.longdouble), rows, j, t)
            return self.Y.mean(0) + K @ self.coefficients(leave)
        if self.function == "gaussian":
            K = np.exp(-(D - D.min()) / (2 * self.h**2))
        elif self.function == "laplace":
            r = np.sqrt(np.maximum(D, 0))
            K = np.exp(-(r - r.min()) / self.h)
        else:
            K = KERNELS[self.function](np.sqrt(np.maximum(D, 0)) / self.h)
        K = K if K.sum() > 0 else np.ones_like(K)
        return K @ self.Y[rows] / K.sum()

    def coefficients(self, leave):
        """Solved in float64, then mended by residuals in long double."""
        rows = _others(len(self.X), leave)
        K = np.array([self.ridge_kernel(self.X[i], rows) for i in rows])
        K[np.diag_indices_from(K)] += np.longdouble(self.penalty)
        target = self.Y[rows] - self.Y.mean(0)
        a = np.zeros_like(target)
        for _ in range(3):
            a += np.linalg.solve(K.astype(float), (target - K @ a).astype(float))
        return a

    def jacobians(self, step, use_softmax):
        """Difference quotients at every row, left out of its own estimate, (n, c, d)."""
        n, d = self.X.shape
        J = np.empty((n, self.Y.shape[1], d), dtype=np.longdouble)
        for i in range(n):
            a = self.coefficients(i) if self.is_ridge else None
            if a is not None:
                self.coefficients, found = (lambda leave, a=a: a), self.coefficients
            for j in range(d):
                t = np.longdouble(step[j])
                plus, minus = (self.value(self.X[i], i, j, side * t) for side in (1, -1))
                if use_softmax:
                    plus, minus = softmax(plus), softmax(minus)
                J[i, :, j] = (plus - minus) / (2 * t)
            if a is not None:
                self.coefficients = found
        return J


# the mean of kernel machines ----------------------------------------------------------------------


def machine(x, X, R, h, penalty, kernel, leave=-1, w=None):
    """sum_i a_i k(x, x_i), (W^-1 penalty + K) a = R, without one of the rows."""
    rows = _others(len(X), leave)
    w = np.ones(len(X)) if w is None else w
    K = np.array([[RIDGE[kernel](X[i], X[j], h) for j in rows] for i in rows])
    a = np.linalg.solve(K + penalty * np.diag(1 / w[rows]), R[rows])
    return np.array([RIDGE[kernel](x, X[i], h) for i in rows]) @ a


def machine_gradient(x, X, R, h, penalty, kernel, w=None):
    """Derivatives (c, d) of :func:`machine` at one of the rows: a kernel that has a corner at its
    own centre counts as flat there."""
    n, d = X.shape
    w = np.ones(n) if w is None else w
    K = np.array([[RIDGE[kernel](a, b, h) for b in X] for a in X])
    a = np.linalg.solve(K + penalty * np.diag(1 / w), R)
    J = np.zeros((R.shape[1], d))
    for i in range(n):
        gap = x - X[i]
        if not gap.any():
            continue
        slope = {
            "gaussian": lambda gap: -gap / h**2,
            "laplace": lambda gap: -gap / np.linalg.norm(gap) / h,
            "l1": lambda gap: -np.sign(gap) / h,
        }[kernel](gap)
        J += np.outer(a[i], slope * RIDGE[kernel](x, X[i], h))
    return J


def machine_map(X, R, h, penalty, kernel, diagonal):
    """The map of a round: the root of the outer product at the training rows, of trace d."""
    M = mean_outer_product([machine_gradient(x, X, R, h, penalty, kernel) for x in X])
    M = M * len(M) / np.trace(M)
    if diagonal:
        return np.diag(np.sqrt(np.diag(M)))
    values, vectors = np.linalg.eigh(M)
    return vectors @ np.diag(np.sqrt(np.maximum(values, 0))) @ vectors.T


def honest_machine(X, R, kernel, settings, diagonal=True, fold=None):
    """Predictions of rows by machines that have not seen them.

    Without a map each row is left out in turn; under one, machine and map are those of the other
    folds. ``settings`` are the bandwidth and penalty of each round.
    """
    if len(settings) == 1:
        h, penalty = settings[0]
        return np.array([machine(X[i], X, R, h, penalty, kernel, i) for i in range(len(X))])
    honest = np.zeros_like(R)
    for k in np.unique(fold):
        seen, held = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        L = machine_map(X[seen], R[seen], *settings[0], kernel, diagonal)
        for i in held:
            honest[i] = machine(X[i] @ L.T, X[seen] @ L.T, R[seen], *settings[1], kernel)
    return honest


def mean_of_machines(x, members, X, R):
    """Mean of machines at one row; a member is (preparation, kernel, settings, diagonal)."""
    total = 0.0
    for prepare, kernel, settings, diagonal in members:
        A, a = prepare(X), prepare(x[None])[0]
        if len(settings) == 2:
            L = machine_map(A, R, *settings[0], kernel, diagonal)
            A, a = A @ L.T, a @ L.T
        total = total + machine(a, A, R, *settings[-1], kernel)
    return total / len(members)


def centers_ridge(K, own, R, w, penalty):
    """Coefficients of ridge on centres: K (n, m) between rows and centres, own (m, m) of these."""
    return np.linalg.solve(K.T @ (w[:, None] * K) + penalty * own, K.T @ (w[:, None] * R))


def ranks_among(X, quantiles):
    """Shares of each column's quantiles below X: the mean of both ways to read a tie."""
    shares = np.linspace(0, 1, len(quantiles))
    out = np.empty(X.shape)
    for j, q in enumerate(quantiles.T):
        x = X[:, j]
        up, down = np.interp(x, q, shares), np.interp(-x, -q[::-1], -shares[::-1])
        out[:, j] = np.where(x <= q[0], 0, np.where(x >= q[-1], 1, (up - down) / 2))
    return out
