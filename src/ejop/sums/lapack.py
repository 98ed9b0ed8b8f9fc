"""LAPACK without the interpreter's lock, so that threads of ours solve systems side by side.

SciPy's own wrappers of triangular solves and inverses hold the lock while they run: two threads
take as long as one after the other. SciPy exports the routines for Cython as well. They are called
here by address, and ctypes lets go of the lock meanwhile. Matrices are those of Fortran: the lower
half of one is what counts, in columns. All are of one type, float32 or float64.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import scipy.linalg.cython_lapack  # here, so that its pool is known before anything computes
from numba.extending import get_cython_function_address
from numpy.typing import NDArray

LETTERS = {np.dtype(np.float64): "d", np.dtype(np.float32): "s"}
Argument = str | int | NDArray


@cache
def _routine(name: str, n_arguments: int) -> Any:
    address = get_cython_function_address(scipy.linalg.cython_lapack.__name__, name)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address)


def _pointer(value: Argument) -> tuple[Any, Any]:
    """The address of an argument, and what must live while it is used."""
    if isinstance(value, np.ndarray):
        return value.ctypes.data, value
    held: Any = ctypes.c_char(value.encode()) if isinstance(value, str) else ctypes.c_int(value)
    return ctypes.addressof(held), held


def _call(name: str, kind: np.dtype, *arguments: Argument) -> int:
    """Run a routine on arrays of one type; what it says at the end, 0 where all went well."""
    info = ctypes.c_int(0)
    pairs = [_pointer(value) for value in arguments]
    routine = _routine(LETTERS[kind] + name, len(pairs) + 1)
    routine(*(address for address, _ in pairs), ctypes.addressof(info))
    return info.value


def cholesky(K: NDArray) -> tuple[NDArray, int]:
    """Lower factor of a symmetric matrix (n, n) in C order, in its memory, in Fortran order.

    Above the diagonal is what was there. Beside it the first leading minor that is not positive
    definite, 0 where all are.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.sums.lapack import cholesky
    >>> L, failed = cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    >>> np.tril(L), failed
    (array([[2., 0.],
           [1., 2.]]), 0)
    """
    K = np.ascontiguousarray(K)
    n = len(K)
    return K.T, _call("potrf", K.dtype, "L", n, K, n)


def solve(L: NDArray, B: NDArray) -> NDArray:
    """(L L^T)^-1 B for a factor in Fortran order and B of shape (n, c)."""
    n, X = len(L), np.array(B, dtype=L.dtype, order="F")
    _call("potrs", L.dtype, "L", n, X.shape[1], L, n, X, n)
    return X


def solve_half(L: NDArray, B: NDArray, *, transposed: bool) -> NDArray:
    """L^-1 B, or L^-T B, for a factor in Fortran order and B of shape (n, c)."""
    n, X = len(L), np.array(B, dtype=L.dtype, order="F")
    _call("trtrs", L.dtype, "L", "T" if transposed else "N", "N", n, X.shape[1], L, n, X, n)
    return X


def invert_factor(L: NDArray) -> int:
    """L^-1 in the place of a factor in Fortran order; the row where it is singular, or 0."""
    return _call("trtri", L.dtype, "L", "N", len(L), L, len(L))


def invert(L: NDArray) -> int:
    """The lower half of (L L^T)^-1 in the place of a factor; the row where it is singular, or 0."""
    return _call("potri", L.dtype, "L", len(L), L, len(L))


def gram_of_factor(L: NDArray) -> int:
    """The lower half of L^T L in the place of a factor in Fortran order."""
    return _call("lauum", L.dtype, "L", len(L), L, len(L))
