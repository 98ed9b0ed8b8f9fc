"""Squared distances by matrix products."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def squared_distances(Q: NDArray, X: NDArray, center: NDArray) -> tuple[NDArray, float]:
    """|q - x_i|^2, shape (m, n), and how far rounding may have moved them.

    Rows are centred a piece at a time, so that X may be large or mapped from disk.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.backends.distances import squared_distances
    >>> squared_distances(np.array([[0.0, 3.0]]), np.array([[4.0, 0.0]]), np.zeros(2))[0]
    array([[25.]])
    """
    A = Q.astype(X.dtype, copy=False) - center
    own = np.einsum("md,md->m", A, A)
    D = np.empty((len(A), len(X)), dtype=A.dtype)
    largest = float(own.max(initial=0))
    for s in range(0, len(X), 4096):
        B = X[s : s + 4096] - center
        norms = np.einsum("nd,nd->n", B, B)
        piece = D[:, s : s + 4096]
        np.matmul(A, B.T, out=piece)
        piece *= -2
        piece += norms
        piece += own[:, None]
        largest = max(largest, float(norms.max()))
    return D, 16 * float(np.finfo(D.dtype).eps) * largest
