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


class SparseReducer(TransformerMixin, BaseEstimator):
    """Leading directions of sparse rows (truncated singular values), never made dense.

    Rows of at most 300 columns are made dense instead. Directions keep their relative lengths, so
    that distances of rows are those of the sparse rows as far as the directions hold them.

    Parameters
    ----------
    n_components : int, default=200
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features) or None
        None where rows are made dense.
    kept_ : float
        Share of the sum of squares that the directions hold.
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
        self.components_, self.kept_ = None, 1.0
        if d > MOST_DENSE:
            rank = max(1, min(self.n_components, n - 1, d - 1))
            svd = TruncatedSVD(rank, random_state=self.random_state).fit(rows)
            self.components_ = svd.components_
            total = float(rows.multiply(rows).sum())
            self.kept_ = float((svd.singular_values_**2).sum() / total) if total > 0 else 1.0
        self.variance_ = _variance(rows)
        found = self._reduced(rows)
        self.factors_ = np.full(found.shape[1], np.nan)
        if self.components_ is not None:
            spread = float(found.var(0).mean())
            self.factors_[:] = 1 / np.sqrt(spread) if spread > 0 else 1.0
        return found

    def transform(self, X: Any) -> NDArray:
        """Rows along the directions, (n_samples, n_features_out)."""
        check_is_fitted(self)
        return self._reduced(self._rows(X, reset=False))

    def by_column(self, values: NDArray) -> NDArray:
        """Values of directions, (..., n_features_out), shared among the columns they are made of.

        Each column has the share of a direction that it has of the direction's variance, were the
        columns uncorrelated.
        """
        if self.components_ is None:
            return values
        shares = self.components_**2 * self.variance_
        total = shares.sum(1, keepdims=True)
        return values @ (shares / np.where(total > 0, total, 1))

    def in_words(self) -> list[str]:
        """What was done, in words."""
        d = self.n_features_in_
        if self.components_ is None:
            return [f"sparse rows of {d} columns were made dense"]
        return [
            f"sparse rows of {d:,} columns were reduced to {len(self.components_)} directions, "
            f"which hold {self.kept_:.0%} of their sum of squares (TruncatedSVD)"
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
        return np.asarray(rows @ self.components_.T, dtype=np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _variance(rows: Any) -> NDArray:
    mean = np.asarray(rows.mean(axis=0)).ravel()
    squares = np.asarray(rows.multiply(rows).mean(axis=0)).ravel()
    return np.maximum(squares - mean**2, 0)
