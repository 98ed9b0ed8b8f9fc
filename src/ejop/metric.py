"""From the matrix M to a metric: power, shrinkage, rank."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop.subspace import spectral_gap


def eigh_descending(
    M: NDArray, solver: Callable[[NDArray], tuple[NDArray, NDArray]] = np.linalg.eigh
) -> tuple[NDArray, NDArray]:
    """Eigenvalues of a PSD matrix, largest first and none negative, with unit eigenvectors as
    columns.

    The entry of largest magnitude of each eigenvector is positive, so that signs do not depend on
    the machine. ``solver`` gives eigenvalues, ascending, and eigenvectors.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.metric import eigh_descending
    >>> eigh_descending(np.diag([1.0, 4.0]))[0]
    array([4., 1.])
    """
    values, vectors = solver(M)
    values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
    largest = np.abs(vectors).argmax(0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return values, vectors * np.where(signs == 0, 1, signs)


def rank(eigenvalues: NDArray, n_components: int | float | str | None) -> int:
    """Number of directions kept: all, a count, an energy share in (0, 1), or before the largest
    gap.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.metric import rank
    >>> values = np.array([5.0, 4.0, 0.5, 0.5])
    >>> rank(values, None), rank(values, 3), rank(values, 0.9), rank(values, "gap")
    (4, 3, 2, 2)
    """
    d = len(eigenvalues)
    if n_components is None:
        return d
    if isinstance(n_components, str):
        if n_components != "gap":
            raise ValueError(
                f"`n_components`={n_components!r} is not known; pass a count, a share of energy in "
                "(0, 1), 'gap' or None."
            )
        return spectral_gap(eigenvalues)
    if isinstance(n_components, Integral) and not isinstance(n_components, bool):
        if not 1 <= n_components <= d:
            raise ValueError(
                f"`n_components`={n_components} must lie between 1 and the number of features, {d}."
            )
        return int(n_components)
    if isinstance(n_components, Real) and 0 < n_components < 1:
        total = eigenvalues.sum()
        if total <= 0:
            return d
        energy = np.cumsum(eigenvalues) / total
        return int(min(np.searchsorted(energy, n_components - 1e-12) + 1, d))
    raise ValueError(
        f"`n_components`={n_components!r} is neither a count, a share of energy in (0, 1), 'gap' "
        "nor None."
    )


def components(
    eigenvalues: NDArray,
    eigenvectors: NDArray,
    *,
    power: float = 1.0,
    shrinkage: float = 0.0,
    n_components: int | float | str | None = None,
) -> NDArray:
    """Rows L with L^T L = the metric after power, shrinkage and rank, scaled to trace d.

    Parameters
    ----------
    eigenvalues : ndarray of shape (n_features,), largest first
    eigenvectors : ndarray of shape (n_features, n_features), one per column
    power : float, default=1.0
        Eigenvalues are raised to this power: 1 is the paper, 0 forgets the eigenvalues.
    shrinkage : float, default=0.0
        This share of the mean (powered) eigenvalue is added to all.
    n_components : int, float, "gap" or None
        See :func:`rank`.

    Returns
    -------
    L : ndarray of shape (rank, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.metric import components, eigh_descending
    >>> L = components(*eigh_descending(np.diag([9.0, 1.0])))
    >>> (L.T @ L).round(6)
    array([[1.8, 0. ],
           [0. , 0.2]])
    """
    d = len(eigenvalues)
    r = rank(eigenvalues, n_components)
    top = eigenvalues[0]
    if top <= 0:  # no derivative anywhere: no direction is preferred
        return eigenvectors.T[:r] * np.sqrt(d / r)
    spectrum = (eigenvalues / top) ** power
    spectrum = (spectrum + shrinkage * spectrum.mean())[:r]
    spectrum *= d / spectrum.sum()
    return np.sqrt(spectrum)[:, None] * eigenvectors.T[:r]


def project(rows: NDArray, L: NDArray) -> NDArray:
    """Rows mapped by L, in their own type: float32 rows stay float32.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.metric import project
    >>> project(np.ones((1, 2), dtype=np.float32), np.array([[0.5, 1.0]]))
    array([[1.5]], dtype=float32)
    """
    return rows @ L.T.astype(rows.dtype, copy=False)


def pair_distances(L: NDArray, pairs: ArrayLike) -> NDArray:
    """Distance |L (a - b)| of each pair; ``pairs`` has shape (n_pairs, 2, n_features)."""
    pairs = np.asarray(pairs, dtype=np.float64)
    if pairs.ndim != 3 or pairs.shape[1] != 2 or pairs.shape[2] != L.shape[1]:
        raise ValueError(
            f"`pairs` has shape {pairs.shape}; (n_pairs, 2, {L.shape[1]}) was expected."
        )
    return np.linalg.norm((pairs[:, 0] - pairs[:, 1]) @ L.T, axis=1)
