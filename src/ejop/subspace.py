"""Subspaces: angles between them and how many directions matter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import subspace_angles


def sin_theta(U: NDArray, V: NDArray) -> float:
    """Sine of the largest principal angle between the column spaces of U and V.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.subspace import sin_theta
    >>> round(sin_theta(np.eye(3)[:, :1], np.array([[1.0], [1.0], [0.0]])), 4)
    0.7071
    """
    return float(np.sin(subspace_angles(U, V).max()))


def spectral_gap(eigenvalues: NDArray) -> int:
    """Number of eigenvalues before the largest drop, for eigenvalues sorted downwards.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.subspace import spectral_gap
    >>> spectral_gap(np.array([3.0, 2.9, 0.2, 0.1]))
    2
    """
    if len(eigenvalues) < 2 or eigenvalues[0] <= 0:
        return len(eigenvalues)
    return int(np.argmax(eigenvalues[:-1] - eigenvalues[1:])) + 1
