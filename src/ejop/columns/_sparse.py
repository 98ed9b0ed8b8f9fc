"""SparseReducer: sparse rows, such as text by TF-IDF, as a few hundred dense columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.utils.validation import check_is_fitted, validate_data

#: columns up to which sparse rows are simply made dense
MOST_DENSE = 300
#: shares of columns that are made at once
MOST_SHARES = 2**28
#: columns that directions are made of, at the most
MOST_COLUMNS = 200_000


class SparseReducer(TransformerMixin, BaseEstimator):
    """Leading directions of sparse rows (truncated singular values), never made dense.

    Rows of at most 300 columns are made dense instead. A column that a single row has links no rows
    and is left out, and beyond 200,000 columns those of the largest squares count. Directions keep
    their relative lengths, so that distances of rows are those of the sparse rows as far as the
    directions hold them.

    Parameters
    ----------
    n_components : int, default=200
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    kept_columns_ : ndarray of shape (n_kept,)
        Numbers of the columns that count.
    components_ : ndarray of shape (n_components, n_kept) or None
        None where rows are made dense.
    kept_ : float
        Share of the sum of squares that the directions hold.
    groups_ : ndarray of shape (n_features_out,)
        Numbers of the directions: each stands for itself.
    factors_ : ndarray of shape (n_features_out,)
        What each direction is multiplied by where columns are scaled.

    Examples
    --------
    >>> from scipy.sparse import random
    >>> from ejop.columns import SparseReducer
    >>> rows = random(50, 2000, 0.01, format="csr", random_state=0)
    >>> SparseReducer(20, random_state=0).fit_transform(rows).shape
    (50, 20)
    """

    def __init__(self, n_components: int = 200, random_state: Any = None) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> SparseReducer:
        """Find the directions."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> NDArray:
        """Find the directions, and give the rows along them."""
        rows = self._rows(X, reset=True)
        n, d = rows.shape
        self.components_, self.kept_, self.kept_columns_ = None, 1.0, np.arange(d)
        if d > MOST_DENSE:
            self.kept_columns_ = _linking(rows)
            some = rows[:, self.kept_columns_]
            rank = max(1, min(self.n_components, n - 1, some.shape[1] - 1))
            svd = TruncatedSVD(rank, random_state=self.random_state).fit(some)
            self.components_, self.variance_ = svd.components_, _variance(some)
            total = float(rows.multiply(rows).sum())
            self.kept_ = float((svd.singular_values_**2).sum() / total) if total > 0 else 1.0
        found = self._reduced(rows)
        self.groups_ = np.arange(found.shape[1])
        self.factors_ = np.full(found.shape[1], np.nan)
        if self.components_ is not None:
            spread = float(found.var(0).mean())
            self.factors_[:] = 1 / np.sqrt(spread) if spread > 0 else 1.0
        return found

    def transform(self, X: Any) -> NDArray:
        """Rows along the directions, (n_samples, n_features_out)."""
        check_is_fitted(self)
        return self._reduced(self._rows(X, reset=False))

    @property
    def n_groups(self) -> int:
        """Each direction is a group of its own."""
        return len(self.groups_)

    def by_column(self, values: NDArray) -> NDArray:
        """Values of directions, (..., n_features_out), shared among the columns they are made of.

        Each column has the share of a direction that it has of the direction's variance, were the
        columns uncorrelated.
        """
        if self.components_ is None:
            return values
        size = values[..., 0].size * self.n_features_in_
        if size > MOST_SHARES:
            raise MemoryError(
                f"{size:,} shares of columns were asked for, and at most {MOST_SHARES:,} are made; "
                "pass fewer rows, or levels=True for the shares of directions."
            )
        shares = self.components_**2 * self.variance_
        total = shares.sum(1, keepdims=True)
        out = np.zeros((*values.shape[:-1], self.n_features_in_))
        out[..., self.kept_columns_] = values @ (shares / np.where(total > 0, total, 1))
        return out

    def in_words(self) -> list[str]:
        """What was done, in words."""
        d = self.n_features_in_
        if self.components_ is None:
            return [f"sparse rows of {d} columns were made dense"]
        return [
            f"sparse rows of {d:,} columns were reduced to {len(self.components_)} directions of "
            f"{len(self.kept_columns_):,} columns, which hold {self.kept_:.0%} of the sum of "
            "squares (TruncatedSVD)"
        ]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Names of the directions."""
        check_is_fitted(self)
        prefix = "x" if self.components_ is None else "direction"
        return np.array([f"{prefix}{j}" for j in range(len(self.factors_))], dtype=object)

    def _rows(self, X: Any, *, reset: bool) -> Any:
        rows = validate_data(
            self, X, reset=reset, accept_sparse=("csr", "csc"), dtype=[np.float64, np.float32]
        )
        return rows if sparse.issparse(rows) else sparse.csr_array(rows)

    def _reduced(self, rows: Any) -> NDArray:
        if self.components_ is None:
            return np.asarray(rows.toarray(), dtype=np.float64)
        return np.asarray(rows[:, self.kept_columns_] @ self.components_.T, dtype=np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _linking(rows: Any) -> NDArray:
    """Numbers of the columns that two rows have or more; of very many those of largest squares."""
    found = np.flatnonzero(np.bincount(rows.tocsr().indices, minlength=rows.shape[1]) > 1)
    if len(found) < 2:  # no two rows have anything in common
        return np.arange(min(rows.shape[1], MOST_DENSE))
    if len(found) > MOST_COLUMNS:
        squares = np.asarray(rows.multiply(rows).sum(axis=0)).ravel()[found]
        found = np.sort(found[np.argsort(-squares, kind="stable")[:MOST_COLUMNS]])
    return found


def _variance(rows: Any) -> NDArray:
    mean = np.asarray(rows.mean(axis=0)).ravel()
    squares = np.asarray(rows.multiply(rows).mean(axis=0)).ravel()
    return np.maximum(squares - mean**2, 0)
