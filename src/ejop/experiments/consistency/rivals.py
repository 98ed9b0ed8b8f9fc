"""What is compared: EJOP with each estimate of f, and other ways to find a subspace.

The schedules of the consistency runs, for n rows of d features of unit variance:

==========  ====================================================================================
kernel      Gaussian smoother, h = 1.1 d^(1/4) n^(-1/(d+4)), t = h/2
ball        mean over a ball, h = 1.4 sqrt(2d) n^(-1/(d+4)), t = h/2
knn         mean of k = min(n/2, 2 n^0.6) rows, t = half the median distance to the k-th, 200
            to 1000 queries, fewer with more features
ridge       Gaussian kernel ridge, h = 1.5 sqrt(d) n^(-1/(d+6)), penalty 0.3, at most 1500 centres
            beyond 3000 rows, t = h/2
model       a network of 30 units with weight decay 10 (scikit-learn's ``MLPClassifier``), t = 0.1,
            3000 queries
==========  ====================================================================================

All smoothers are admissible: h -> 0 and n h^(d+2) -> infinity, which is what the noise of a
derivative needs. They are wide on purpose. A narrow one at few rows fills M_n with noise, which
hides the bias and makes the error rise before it falls. Widths and numbers of queries were settled
by looking at the samples of the committed results, not beforehand. The mean of outer products runs
over 1000 random rows where no other number is given. The softmax of f is left out, since the theory
speaks of f. The other ways to a subspace are short references of our own, not public.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from ejop.estimators import EJOP
from ejop.functions import NeighborsSmoother, RidgeFunction
from ejop.metric import components, eigh_descending

#: rows whose outer products are averaged
QUERIES = 1000


def _estimator(function: Any, n_queries: int = QUERIES, **settings: Any) -> EJOP:
    return EJOP(function, softmax=False, n_queries=n_queries, random_state=0, **settings)


def _kernel(n: int, d: int) -> EJOP:
    h = 1.1 * d**0.25 * n ** (-1 / (d + 4))
    return _estimator("kernel", bandwidth=h, step=h / 2)


def _ball(n: int, d: int) -> EJOP:
    h = 1.4 * np.sqrt(2 * d) * n ** (-1 / (d + 4))
    return _estimator("ball", bandwidth=h, step=h / 2)


def _knn(n: int, d: int) -> EJOP:
    queries = int(np.clip(2000 / d, 200, 1000))
    return _estimator(NeighborsSmoother(min(n // 2, int(2 * n**0.6))), queries)


def _ridge(n: int, d: int) -> EJOP:
    h = 1.5 * np.sqrt(d) * n ** (-1 / (d + 6))
    function = RidgeFunction(
        bandwidth=h, penalty=0.3, max_rows=3000, n_centers=1500, random_state=0
    )
    return _estimator(function, step=h / 2)


def _model(n: int, d: int) -> EJOP:
    network = MLPClassifier((30,), alpha=10.0, solver="lbfgs", max_iter=200, random_state=0)
    return _estimator(network, 3000, step=0.1)


#: EJOP with each estimate of f, for n rows of d features
FUNCTIONS: dict[str, Callable[[int, int], EJOP]] = {
    "kernel": _kernel,
    "ball": _ball,
    "knn": _knn,
    "ridge": _ridge,
    "model": _model,
}


def fit_quietly(estimator: EJOP, X: NDArray, y: NDArray) -> EJOP:
    """Fit; a network that stops at its limit, and a matrix of zeros, are results like others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "every difference is zero")
        return estimator.fit(X, y)


# subspaces from labelled rows: X (n, d), y (n,), rank r -> (d, r) -----------------------------


def _ejop(function: str) -> Callable[[NDArray, NDArray, int], NDArray]:
    def found(X: NDArray, y: NDArray, r: int) -> NDArray:
        return EJOP(function, random_state=0).fit(X, y).eigenvectors_[:, :r]

    return found


def _ejop_model(X: NDArray, y: NDArray, r: int) -> NDArray:
    return fit_quietly(_model(*X.shape), X, y).eigenvectors_[:, :r]


def _ejop_rounds(X: NDArray, y: NDArray, r: int) -> NDArray:
    """EJOP of kernel ridge three times, each time under the metric found before."""
    L = np.eye(X.shape[1])
    for _ in range(3):
        M = L.T @ EJOP("ridge", random_state=0).fit(X @ L.T, y).outer_product_ @ L
        values, vectors = eigh_descending(M)
        L = components(values, vectors, shrinkage=0.05)
    return vectors[:, :r]


def _whitened(X: NDArray) -> tuple[NDArray, NDArray]:
    """Rows with mean zero and unit covariance, and the map that made them so."""
    values, vectors = np.linalg.eigh(np.cov(X.T))
    root = vectors / np.sqrt(np.maximum(values, 1e-10 * values[-1])) @ vectors.T
    return (X - X.mean(0)) @ root, root


def _leading(A: NDArray, root: NDArray, r: int) -> NDArray:
    return root @ eigh_descending(A)[1][:, :r]


def _sir(X: NDArray, y: NDArray, r: int) -> NDArray:
    """Sliced inverse regression with the classes as slices: covariance of class means."""
    Z, root = _whitened(X)
    A = sum((y == k).mean() * np.outer(m, m) for k in np.unique(y) for m in [Z[y == k].mean(0)])
    return _leading(A, root, r)


def _save(X: NDArray, y: NDArray, r: int) -> NDArray:
    """Sliced average variance estimation: mean over classes of (I - covariance)^2."""
    Z, root = _whitened(X)
    A = np.zeros((X.shape[1],) * 2)
    for k in np.unique(y):
        rows = Z[y == k]
        B = np.eye(X.shape[1]) - (np.cov(rows.T) if len(rows) > 1 else 0)
        A += (y == k).mean() * B @ B
    return _leading(A, root, r)


def _phd(X: NDArray, y: NDArray, r: int) -> NDArray:
    """Principal Hessian directions of each class indicator, their squares summed."""
    Z, root = _whitened(X)
    A = np.zeros((X.shape[1],) * 2)
    for k in np.unique(y):
        B = (Z * ((y == k) - (y == k).mean())[:, None]).T @ Z / len(Z)
        A += B @ B
    return _leading(A, root, r)


def _local_linear(Z: NDArray, Y: NDArray, P: NDArray, h: float) -> NDArray:
    """Mean outer product of the slopes of local linear fits, weights from distances of rows P."""
    n, d = Z.shape
    queries = np.random.default_rng(0).permutation(n)[:500]
    D = ((P[queries, None] - P) ** 2).sum(2) if P.shape[1] <= 3 else _squares(P[queries], P)
    W = np.exp(-D / (2 * h**2))
    F = np.c_[np.ones(n), Z]
    grams = (W @ (F[:, :, None] * F[:, None, :]).reshape(n, -1)).reshape(-1, d + 1, d + 1)
    sides = (W @ (F[:, :, None] * Y[:, None, :]).reshape(n, -1)).reshape(-1, d + 1, Y.shape[1])
    grams += 1e-3 * W.sum(1)[:, None, None] * np.eye(d + 1)
    slopes = np.linalg.solve(grams, sides)[:, 1:]
    return np.einsum("mic,mjc->ij", slopes, slopes) / len(queries)


def _squares(A: NDArray, B: NDArray) -> NDArray:
    return np.maximum((A**2).sum(1)[:, None] + (B**2).sum(1) - 2 * A @ B.T, 0)


def _one_hot(y: NDArray) -> NDArray:
    return (y[:, None] == np.unique(y)).astype(float)


def _opg(X: NDArray, y: NDArray, r: int) -> NDArray:
    """Outer product of gradients by local linear fits in all features."""
    Z, root = _whitened(X)
    n, d = Z.shape
    h = 1.2 * d**0.25 * n ** (-1 / (d + 6))
    return _leading(_local_linear(Z, _one_hot(y), Z, h), root, r)


def _mave(X: NDArray, y: NDArray, r: int) -> NDArray:
    """The same, then five rounds with weights from the directions found before (as in MAVE)."""
    Z, root = _whitened(X)
    n, d = Z.shape
    h, Y = 1.2 * d**0.25 * n ** (-1 / (d + 6)), _one_hot(y)
    B = eigh_descending(_local_linear(Z, Y, Z, h))[1][:, :r]
    for _ in range(5):
        h = max(0.8 * h, n ** (-1 / (r + 6)))
        B = eigh_descending(_local_linear(Z, Y, Z @ B, h))[1][:, :r]
    return root @ B


def _lda(X: NDArray, y: NDArray, r: int) -> NDArray:
    """Fisher's directions: class means in units of the covariance within classes."""
    within = X.copy()
    for k in np.unique(y):
        within[y == k] -= X[y == k].mean(0)
    _, root = _whitened(within)
    means = [(y == k).mean() * np.outer(m, m) for k in np.unique(y) for m in [_mean(X, y, k)]]
    return _leading(root @ sum(means) @ root, root, r)


def _mean(X: NDArray, y: NDArray, k: Any) -> NDArray:
    return X[y == k].mean(0) - X.mean(0)


def _pca(X: NDArray, y: NDArray, r: int) -> NDArray:
    return eigh_descending(np.cov(X.T))[1][:, :r]


#: ways to find a subspace
SUBSPACES: dict[str, Callable[[NDArray, NDArray, int], NDArray]] = {
    "ejop kernel": _ejop("kernel"),
    "ejop ridge": _ejop("ridge"),
    "ejop network": _ejop_model,
    "ejop rounds": _ejop_rounds,
    "sir": _sir,
    "save": _save,
    "phd": _phd,
    "opg": _opg,
    "mave": _mave,
    "lda": _lda,
    "pca": _pca,
}
