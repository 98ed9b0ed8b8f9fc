"""What fewer directions and half the bytes cost: the share of true neighbours that stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.export._files import as_half, mapped_rows
from ejop.export._map import linear_map
from ejop.neighbors import nearest

#: ranks that are told, as shares of the full one
SHARES = (1.0, 0.5, 0.25, 0.125)


@dataclass(frozen=True)
class Storage:
    """What one way to store mapped rows takes and keeps.

    Attributes
    ----------
    n_components : int
    dtype : {"float32", "float16"}
    bytes : int
        Of one vector.
    recall : float
        Share of the nearest rows under the whole map that are among the nearest ones still.
    """

    n_components: int
    dtype: str
    bytes: int
    recall: float

    def __str__(self) -> str:
        return (
            f"{self.n_components} directions, {self.dtype}: {self.bytes} bytes a vector, "
            f"{self.recall:.1%} of the nearest rows stay"
        )


def costs(
    estimator: Any,
    rows: Any,
    n_components: Sequence[int] | None = None,
    *,
    n_neighbors: int = 10,
    max_queries: int = 500,
    random_state: int = 0,
) -> list[Storage]:
    """Recall and bytes of fewer directions and of float16, measured on rows.

    Parameters
    ----------
    estimator : fitted estimator
        See :func:`linear_map`.
    rows : array-like or table of shape (n, n_features)
        Rows as they would be stored, in the form that the estimator takes.
    n_components : sequence of int, optional
        Ranks to measure; the full one, a half, a quarter and an eighth of it by default.
    n_neighbors : int, default=10
    max_queries : int, default=500
        Rows that look for their neighbours among the others, at the most; drawn at random.
    random_state : int, default=0

    Returns
    -------
    costs : list of Storage
        For each rank float32 and float16; the latter only where float16 can hold the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ejop import EJOP
    >>> from ejop.export import costs
    >>> X, y = load_digits(return_X_y=True)
    >>> estimator = EJOP().fit(X[:500], y[:500])
    >>> for cost in costs(estimator, X, [64, 16]):
    ...     print(cost.n_components, cost.dtype, cost.bytes, cost.recall > 0.8)
    64 float32 256 True
    64 float16 128 True
    16 float32 64 True
    16 float16 32 True
    """
    whole = linear_map(estimator, vectors=_form(estimator))
    Z = mapped_rows(estimator, whole, rows).astype(np.float64)
    n, full = Z.shape
    if not 1 <= n_neighbors < n:
        raise ValueError(
            f"`n_neighbors`={n_neighbors} must lie between 1 and the number of rows less one, "
            f"{n - 1}."
        )
    ask = np.random.default_rng(random_state).permutation(n)[:max_queries]
    truth = _others(Z, ask, n_neighbors)
    ranks = n_components
    if ranks is None:
        ranks = sorted({max(1, round(share * full)) for share in SHARES}, reverse=True)
    found = []
    for rank in ranks:
        some = mapped_rows(estimator, linear_map(estimator, rank, vectors=_form(estimator)), rows)
        for kind in ("float32", "float16"):
            try:
                kept = as_half(some, "mapped rows") if kind == "float16" else some.astype(kind)
            except ValueError:
                continue
            near = _others(kept.astype(np.float64), ask, n_neighbors)
            same = (near[:, :, None] == truth[:, None]).any(2).mean()
            found.append(Storage(rank, kind, kept.itemsize * rank, float(same)))
    return found


def _form(estimator: Any) -> str:
    return "scaled" if hasattr(estimator, "scale_rows") else "columns"


def _others(Z: NDArray, ask: NDArray, k: int) -> NDArray:
    """The k nearest of the other rows, (n_queries, k)."""
    _, near = nearest(Z[ask], Z, k + 1)
    itself = near == ask[:, None]
    itself[~itself.any(1), -1] = True  # many equal rows: the last goes
    return near[~itself].reshape(len(ask), k)
