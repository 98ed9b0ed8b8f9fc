"""Array libraries: which one an array belongs to, and the way between NumPy and torch.

torch is imported when a tensor, or a device, is at hand; everything follows X.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

INSTALL = "pip install 'ejop[gpu]'"


def load_torch() -> Any:
    """The torch module, or an error that names the install line."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"`device` needs torch; install it with: {INSTALL}") from error
    return torch


def namespace(array: Any) -> Any:
    """NumPy or torch, whichever an array belongs to."""
    return load_torch() if is_tensor(array) else np


def is_tensor(X: Any) -> bool:
    """Whether X is a torch tensor; does not import torch."""
    return is_torch(X) and hasattr(X, "device")


def is_torch(X: Any) -> bool:
    """Whether X is an object of torch; does not import torch."""
    return type(X).__module__.partition(".")[0] == "torch"


def to_host(X: Any) -> Any:
    """A tensor as a NumPy array; anything else as it is."""
    return X.detach().cpu().numpy() if is_tensor(X) else X


def device_of(X: Any) -> Any:
    """Device of a tensor, None for anything else."""
    return X.device if is_tensor(X) else None


def is_single(X: Any) -> bool:
    """Whether rows are float32."""
    return str(getattr(X, "dtype", "")).rpartition(".")[2] == "float32"


def diagonal_of(K: Any) -> Any:
    """A view of the diagonal of a square matrix in one piece of memory.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.arrays import diagonal_of
    >>> K = np.zeros((2, 2))
    >>> diagonal_of(K)[:] = 1
    >>> K
    array([[1., 0.],
           [0., 1.]])
    """
    return K.reshape(-1)[:: len(K) + 1]


def follow(values: NDArray, X: Any) -> Any:
    """An array as a tensor on the device of X where X is one; names stay an array."""
    if not is_tensor(X) or values.dtype.kind not in "fiub":
        return values
    return load_torch().as_tensor(values, device=X.device)


def map_rows(X: Any, components: NDArray, n_features: int) -> Any:
    """Rows of a tensor times the transposed components, on its device and in its type."""
    torch = load_torch()
    if X.ndim != 2 or X.shape[1] != n_features:
        raise ValueError(f"`X` has shape {tuple(X.shape)}; (n_samples, {n_features}) was expected.")
    kind = X.dtype if X.dtype in (torch.float32, torch.float64) else torch.float64
    L = torch.as_tensor(components, dtype=kind, device=X.device)
    Z = X.to(kind) @ L.T
    if not bool(torch.isfinite(Z).all()):
        raise ValueError("Input X contains NaN or infinity.")
    return Z
