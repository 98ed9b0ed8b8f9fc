"""Where a metric learner starts: one idea for all of them."""

from __future__ import annotations

from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import check_array

from ejop.metric import components, eigh_descending

#: share of the mean variance added to the within-class scatter, so that it can be inverted
LDA_SHRINKAGE = 1e-3
#: eigenvalue of an ``init_metric``, relative to the largest, below which it is not PSD
NEGATIVE = -1e-8
#: parameters of an EJOP that leave its eigenvalues as they are
MADE_OF_SPECTRA = ("power", "shrinkage", "n_components")


def initialize(
    init: Any,
    X: Any,
    y: ArrayLike | None = None,
    n_components: int | None = None,
    *,
    init_metric: ArrayLike | None = None,
    random_state: Any = None,
) -> NDArray:
    """Rows L (r, d) of the linear map that a metric learner starts from.

    Parameters
    ----------
    init : {"identity", "pca", "lda", "ejop"}, array-like of shape (r, n_features) or estimator
        "pca": orthonormal directions of largest variance. "lda": directions that separate class
        means, scaled to unit variance within classes. "ejop": components of an
        :class:`~ejop.EJOP` with defaults. An array is L itself. A fitted estimator gives its
        ``components_``; one that is not fitted is cloned and fitted first.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), optional
        For "lda", "ejop" and estimators that are not fitted.
    n_components : int or None, default=None
        Rows of L. None takes all that ``init`` gives ("lda": classes less one, n_features at the
        most). A larger L is cut to the best map of that rank.
    init_metric : array-like of shape (n_features, n_features), optional
        A positive semi-definite matrix M = L^T L, instead of ``init``.
    random_state : int, RandomState instance or None, default=None
        For "ejop".

    Returns
    -------
    L : ndarray of shape (r, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from ejop import initialize
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> initialize("identity", X, n_components=2)
    array([[1., 0., 0.],
           [0., 1., 0.]])
    >>> initialize(None, X, init_metric=np.diag([4.0, 1.0, 0.0])).round(6)
    array([[2., 0., 0.],
           [0., 1., 0.]])
    """
    X = check_array(X, dtype=np.float64, ensure_min_samples=2)
    d = X.shape[1]
    if n_components is not None and not 1 <= n_components <= d:
        raise ValueError(
            f"`n_components`={n_components} must lie between 1 and the number of features, {d}."
        )
    if init_metric is not None:
        return cut(_factor(init_metric, d), n_components, "init_metric")
    if isinstance(init, str):
        if init not in STARTS:
            raise ValueError(
                f"`init`={init!r} is not known; use one of {sorted(STARTS)}, an array of shape "
                f"(n_components, {d}) or an estimator with `components_`."
            )
        if y is None and init in ("lda", "ejop"):
            raise ValueError(f"`init`={init!r} needs `y`, which was None.")
        return STARTS[init](X, y, n_components, random_state)
    if hasattr(init, "components_") or hasattr(init, "fit"):
        return cut(_components_of(init, X, y), n_components, "init")
    return cut(_checked(init, d), n_components, "init")


def initialize_each(
    inits: list[Any], X: NDArray, y: NDArray, *, init_metric: Any = None, random_state: Any = None
) -> list[NDArray]:
    """The maps of several starts by :func:`initialize`, each of all its rows.

    Estimators such as EJOP that differ in what is made of the eigenvalues alone (power, shrinkage,
    rank) are fitted once.
    """
    spectra: dict[str, Any] = {}
    found = []
    for init in inits:
        made = _of_spectrum(init, X, y, spectra)
        found.append(
            initialize(init, X, y, init_metric=init_metric, random_state=random_state)
            if made is None
            else made
        )
    return found


def _of_spectrum(init: Any, X: NDArray, y: NDArray, spectra: dict[str, Any]) -> NDArray | None:
    """Components of an EJOP by the eigenvalues of one like it; None for other starts."""
    if hasattr(init, "components_") or not hasattr(init, "get_params"):
        return None
    settings = init.get_params(deep=False)
    if not all(name in settings for name in MADE_OF_SPECTRA):
        return None
    made = {name: settings.pop(name) for name in MADE_OF_SPECTRA}
    key = joblib.hash((type(init).__name__, settings))
    if key not in spectra:
        spectra[key] = clone(init).fit(X, y)
    return components(spectra[key].eigenvalues_, spectra[key].eigenvectors_, **made)


def _identity(X: NDArray, y: Any, r: int | None, random_state: Any) -> NDArray:
    return np.eye(X.shape[1] if r is None else r, X.shape[1])


def _pca(X: NDArray, y: Any, r: int | None, random_state: Any) -> NDArray:
    """Directions of largest variance; any orthonormal ones beyond what the rows span."""
    kept = min(X.shape) if r is None else r
    if kept <= min(X.shape):
        return _oriented(PCA(kept).fit(X).components_)
    return _oriented(np.linalg.svd(X - X.mean(0))[2][:kept])


def _lda(X: NDArray, y: Any, r: int | None, random_state: Any) -> NDArray:
    """Generalised eigenvectors of the scatter between and within classes."""
    d = X.shape[1]
    _, labels, counts = np.unique(y, return_inverse=True, return_counts=True)
    means = np.zeros((len(counts), d))
    np.add.at(means, labels, X)
    means /= counts[:, None]
    within = (X - means[labels]).T @ (X - means[labels]) / len(X)
    spread = X.var(0).mean()
    within += LDA_SHRINKAGE * (spread if spread > 0 else 1.0) * np.eye(d)
    offsets = (means - X.mean(0)) * np.sqrt(counts / len(X))[:, None]
    _, V = eigh(offsets.T @ offsets, within)
    kept = min(len(counts) - 1, d) if r is None else r
    return _oriented(V[:, ::-1].T[:kept])


def _ejop(X: NDArray, y: Any, r: int | None, random_state: Any) -> NDArray:
    from ejop.estimators import EJOP  # the estimators need not know the learners, nor load here

    return EJOP(n_components=r, random_state=random_state).fit(X, y).components_


STARTS = {"identity": _identity, "pca": _pca, "lda": _lda, "ejop": _ejop}


def _components_of(init: Any, X: NDArray, y: Any) -> NDArray:
    if not hasattr(init, "components_"):
        init = clone(init).fit(X, y)
        if not hasattr(init, "components_"):
            raise ValueError(
                f"`init`={init!r} has no `components_` after fit; pass a linear map such as EJOP, "
                "PCA or NeighborhoodComponentsAnalysis."
            )
    if not isinstance(getattr(init, "scaler_", None), FunctionTransformer | None):
        raise ValueError(
            f"`init`={init!r} maps scaled columns (its `scaler_`), and the learner sees X as it "
            "is; scale X first and pass an EJOP fitted on it."
        )
    return _checked(init.components_, X.shape[1])


def _checked(L: Any, d: int) -> NDArray:
    L = check_array(L, dtype=np.float64, input_name="init")
    if L.shape[1] != d:
        raise ValueError(f"`init` has shape {L.shape}; (n_components, {d}) was expected.")
    if not L.any():
        raise ValueError("`init` is all zeros, so that every distance is zero; pass another start.")
    return L.copy()


def _factor(M: Any, d: int) -> NDArray:
    """Rows L of largest eigenvalue first with L^T L = M."""
    M = check_array(M, dtype=np.float64, input_name="init_metric")
    if M.shape != (d, d):
        raise ValueError(f"`init_metric` has shape {M.shape}; ({d}, {d}) was expected.")
    if not np.allclose(M, M.T, rtol=1e-6, atol=1e-8 * np.abs(M).max()):
        raise ValueError("`init_metric` is not symmetric; pass (M + M.T) / 2 if that is meant.")
    lowest, highest = eigh(M, eigvals_only=True)[[0, -1]]
    if highest <= 0 or lowest < NEGATIVE * highest:
        raise ValueError(
            f"`init_metric` is not positive semi-definite: its eigenvalues reach from {lowest:.3g} "
            f"to {highest:.3g}."
        )
    values, vectors = eigh_descending((M + M.T) / 2)
    kept = values > -NEGATIVE * values[0]
    return np.sqrt(values[kept])[:, None] * vectors.T[kept]


def cut(L: NDArray, r: int | None, name: str) -> NDArray:
    """L, or the closest map of rank r."""
    if r is None or len(L) == r:
        return L
    if len(L) < r:
        raise ValueError(
            f"`{name}` has {len(L)} directions, fewer than `n_components`={r}; lower "
            "`n_components` or leave it None."
        )
    _, s, Vt = np.linalg.svd(L, full_matrices=False)
    return _oriented(s[:r, None] * Vt[:r])


def _oriented(L: NDArray) -> NDArray:
    """Rows whose entry of largest magnitude is positive."""
    signs = np.sign(L[np.arange(len(L)), np.abs(L).argmax(1)])
    return L * np.where(signs == 0, 1, signs)[:, None]
