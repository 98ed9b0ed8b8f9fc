"""Angles between subspaces, and the two perturbation lemmas that the theorems rest on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import subspace_angles

from ejop.metric import eigh_descending
from ejop.rows import as_numbers
from ejop.subspace import sin_theta


class Inequality(NamedTuple):
    """Both sides of an inequality; it says left <= right."""

    left: float
    right: float


def principal_angles(X: NDArray, X_hat: NDArray) -> NDArray:
    r"""Definition 1: the angles between two subspaces, the largest first.

    .. math:: \Theta(X, \hat X) = \arccos\left( (X^T X)^{-1/2} X^T \hat X (\hat X^T \hat X)^{-1}
        \hat X^T X (X^T X)^{-1/2} \right)^{1/2}

    for X and its estimate of shape (d, k), both of full column rank. The angles are the eigenvalues
    of this matrix, computed so that small ones keep their digits.
    :func:`ejop.subspace.sin_theta` is the sine of the largest, the norm that the theorems bound.

    Parameters
    ----------
    X, X_hat : ndarray of shape (n_features, k)

    Returns
    -------
    angles : ndarray of shape (k,)
        In radians.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.theory import principal_angles
    >>> principal_angles(np.eye(2)[:, :1], np.array([[1.0], [1.0]])) / np.pi
    array([0.25])
    """
    X, X_hat = as_numbers("X", X), as_numbers("X_hat", X_hat)
    for name, basis in (("X", X), ("X_hat", X_hat)):
        if not np.isfinite(basis).all():
            raise ValueError(f"`{name}` contains NaN or infinity.")
    if X.ndim != 2 or X.shape != np.shape(X_hat):
        raise ValueError(
            f"`X` has shape {np.shape(X)} and `X_hat` {np.shape(X_hat)}; the angle matrix is "
            "defined for two of the same shape (n_features, k)."
        )
    for name, basis in (("X", X), ("X_hat", X_hat)):
        rank = np.linalg.matrix_rank(basis)
        if rank < X.shape[1]:
            raise ValueError(
                f"`{name}` has rank {rank} and {X.shape[1]} columns; drop the columns that depend "
                "on others."
            )
    return subspace_angles(X, X_hat)


def weyl(G: NDArray, G_hat: NDArray, norm: str = "spectral") -> Inequality:
    r"""Lemma 10 (label lemma:eigvalue): eigenvalues move no further than the matrix does.

    .. math:: \max_i |\lambda_i - \hat\lambda_i| \le \lVert G - \hat G \rVert_2, \qquad
        \sqrt{\sum_i |\lambda_i - \hat\lambda_i|^2} \le \lVert G - \hat G \rVert_F

    Parameters
    ----------
    G, G_hat : ndarray of shape (n_features, n_features)
        Symmetric.
    norm : {"spectral", "frobenius"}, default="spectral"

    Returns
    -------
    sides : Inequality

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.theory import weyl
    >>> left, right = weyl(np.diag([2.0, 1.0]), np.diag([2.5, 0.9]))
    >>> round(left, 6), round(right, 6)
    (0.5, 0.5)
    """
    G, G_hat = check_pair(G, G_hat)
    if norm not in ("spectral", "frobenius"):
        raise ValueError(f"`norm`={norm!r} is not known; choose 'spectral' or 'frobenius'.")
    moved = np.linalg.eigvalsh(G) - np.linalg.eigvalsh(G_hat)
    if norm == "spectral":
        return Inequality(float(np.abs(moved).max()), float(np.linalg.norm(G - G_hat, 2)))
    return Inequality(float(np.linalg.norm(moved)), float(np.linalg.norm(G - G_hat)))


def davis_kahan(G: NDArray, G_hat: NDArray, rank: int, *, reading: str = "proved") -> Inequality:
    r"""Lemma 11 (label lemma:eig): leading eigenspaces turn by the error over the gap.

    .. math:: \lVert \sin \Theta(X_1, \hat X_1) \rVert_2 \le
        \frac{\lVert (\hat G - G) X_1 \rVert_2}
        {\min_{\lambda \in \lambda(\Lambda_1),\, \hat\lambda} |\lambda - \hat\lambda|}

    The source lets the second eigenvalue run over Lambda_2, those of G that are left out. That
    inequality is false: G = diag(1, 0) and G_hat = diag(0.4, 0.6) give 1 <= 0.6. The proof needs
    those of G_hat that are left out, which is ``reading="proved"``; ``"stated"`` is the formula as
    printed. X_1 are the ``rank`` leading eigenvectors. Where the gap is not positive, that is
    where an eigenvalue left out of G_hat reaches the smallest kept one of G, the lemma does not
    apply and the right side is infinite.

    Parameters
    ----------
    G, G_hat : ndarray of shape (n_features, n_features)
        Symmetric and positive semi-definite.
    rank : int
    reading : {"proved", "stated"}, default="proved"

    Returns
    -------
    sides : Inequality

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.theory import davis_kahan
    >>> G, G_hat = np.diag([1.0, 0.0]), np.diag([0.4, 0.6])
    >>> davis_kahan(G, G_hat, 1, reading="stated")
    Inequality(left=1.0, right=0.6)
    >>> left, right = davis_kahan(G, G_hat, 1)
    >>> bool(left <= right)
    True
    """
    check_reading(reading)
    G, G_hat = check_pair(G, G_hat)
    d = len(G)
    if not 1 <= rank < d:
        raise ValueError(f"`rank`={rank} must lie between 1 and {d - 1}, one less than the size.")
    values, vectors = eigh_descending(G)
    values_hat, vectors_hat = eigh_descending(G_hat)
    left_out = values if reading == "stated" else values_hat
    gap = values[rank - 1] - left_out[rank]
    moved = np.linalg.norm((G_hat - G) @ vectors[:, :rank], 2)
    left = sin_theta(vectors[:, :rank], vectors_hat[:, :rank])
    return Inequality(left, float(moved / gap) if gap > 0 else np.inf)


def check_pair(G: NDArray, G_hat: NDArray) -> tuple[NDArray, NDArray]:
    """Two symmetric matrices of one size, finite; the lemmas are about no others."""
    G, G_hat = as_numbers("G", G), as_numbers("G_hat", G_hat)
    if G.ndim != 2 or G.shape[0] != G.shape[1] or G.shape != G_hat.shape or not G.size:
        raise ValueError(
            f"`G` has shape {G.shape} and `G_hat` {G_hat.shape}; two square matrices of one size "
            "are needed."
        )
    for name, M in (("G", G), ("G_hat", G_hat)):
        if not np.isfinite(M).all():
            raise ValueError(f"`{name}` contains NaN or infinity.")
        if np.abs(M - M.T).max() > 1e-8 * np.abs(M).max():
            raise ValueError(
                f"`{name}` is not symmetric, and its eigenvalues are not those of its lower half; "
                f"pass ({name} + {name}.T) / 2 if that is what is meant."
            )
    return G, G_hat


def check_reading(reading: str) -> None:
    """Refuse a reading that is not there."""
    if reading not in ("stated", "proved"):
        raise ValueError(
            f"`reading`={reading!r} is not known; 'stated' is the formula as printed, 'proved' "
            "what the proof supports."
        )
