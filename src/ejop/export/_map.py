"""The linear part of a fitted estimator: one matrix and one offset from vectors to the metric."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, RobustScaler, StandardScaler
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from ejop.columns import ColumnPreparer, NumberColumn
from ejop.estimators import LinearMetricEstimator
from ejop.scaling import scaled, slopes

#: what a map takes
VECTORS = ("columns", "scaled")
#: scalers of pipelines that are linear in each column
_SCALERS = (StandardScaler, RobustScaler, MaxAbsScaler)
_SCALED = (
    "export with vectors='scaled' and store the rows that `scale_rows` of the model gives, which "
    "the map takes"
)


@dataclass(frozen=True)
class LinearMap:
    """A vector x goes to ``matrix @ x + offset``, where Euclidean distance is the learned one.

    Attributes
    ----------
    matrix : ndarray of shape (n_components, n_features)
    offset : ndarray of shape (n_components,)
    names : list of str or None
        What the features are called, where they have names.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.export import LinearMap
    >>> LinearMap(np.array([[2.0, 0.0]]), np.array([-1.0]))([[3.0, 7.0]])
    array([[5.]])
    """

    matrix: NDArray
    offset: NDArray
    names: list[str] | None = None

    @property
    def n_components(self) -> int:
        """Numbers of a mapped vector."""
        return len(self.matrix)

    @property
    def n_features(self) -> int:
        """Numbers of a vector."""
        return self.matrix.shape[1]

    def __call__(self, X: ArrayLike) -> NDArray:
        """Mapped vectors in float64, (n, n_components)."""
        rows = check_array(X, dtype=np.float64)
        if rows.shape[1] != self.n_features:
            raise ValueError(
                f"`X` has {rows.shape[1]} features, and the map takes vectors of {self.n_features}."
            )
        return rows @ self.matrix.T + self.offset

    def then(self, other: LinearMap) -> LinearMap:
        """This map, and another after it."""
        matrix = other.matrix @ self.matrix
        return replace(self, matrix=matrix, offset=other.matrix @ self.offset + other.offset)

    def query(self, X: ArrayLike) -> NDArray:
        """What to ask vectors that stay as they are for, by inner product, (n, n_features).

        ``query(x) @ z`` is the inner product of the mapped vectors x and z, up to a number that is
        the same for all z. It ranks as the distance does where mapped vectors are about as long.
        """
        return self(X) @ self.matrix


def linear_map(
    estimator: Any, n_components: int | None = None, *, vectors: str = "columns"
) -> LinearMap:
    """The linear part of a fitted estimator, its scaling and its mean folded in.

    Parameters
    ----------
    estimator : fitted estimator
        :class:`ejop.EJOP`, :class:`ejop.EGOP`, :class:`ejop.EmbeddingAdapter`, a predictor, a
        learner, or a pipeline of linear scalers, PCA and one of these.
    n_components : int, optional
        Leading directions to keep; all by default.
    vectors : {"columns", "scaled"}, default="columns"
        What the map takes: the columns that the estimator was fitted on, all of them numbers, or
        for a predictor the rows that its ``scale_rows`` gives. The latter always works: categories,
        dates and ranks are prepared by then.

    Returns
    -------
    map : LinearMap
        ``map(X)`` is ``estimator.transform(X)``, its first ``n_components``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from ejop import EJOP
    >>> from ejop.export import linear_map
    >>> X, y = load_iris(return_X_y=True)
    >>> estimator = EJOP().fit(X, y)
    >>> bool(np.allclose(linear_map(estimator, 2)(X), estimator.transform(X)[:, :2]))
    True
    """
    if vectors not in VECTORS:
        raise ValueError(f"`vectors`={vectors!r} must be one of {', '.join(map(repr, VECTORS))}.")
    steps = (
        [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    )
    if vectors == "scaled" and not hasattr(estimator, "scale_rows"):
        raise ValueError(
            f"`vectors`='scaled' is for predictors, which scale rows; {type(estimator).__name__} "
            "takes them as they are: use vectors='columns'."
        )
    found = None
    for step in steps:
        if step is None or step == "passthrough":
            continue
        part = _scaled_part(step) if vectors == "scaled" else _part(step)
        found = part if found is None else found.then(part)
    if found is None:
        raise ValueError("the pipeline has no steps.")
    if not np.isfinite(found.matrix).all() or not np.isfinite(found.offset).all():
        raise ValueError("the map holds numbers that are not finite.")
    names = getattr(estimator, "feature_names_in_", None) if vectors == "columns" else None
    found = replace(found, names=None if names is None else list(map(str, names)))
    return found if n_components is None else _leading(found, n_components, steps[-1])


def _leading(found: LinearMap, n_components: Any, last: Any) -> LinearMap:
    """The first directions; those that keep most where they are in no order."""
    n = found.n_components
    if isinstance(n_components, bool) or not isinstance(n_components, Integral):
        raise ValueError(
            f"`n_components`={n_components!r} must be a whole number, or None for all."
        )
    if not 1 <= int(n_components) <= n:
        raise ValueError(
            f"`n_components`={n_components} must lie between 1 and the number of directions of the "
            f"model, {n}."
        )
    if n_components < n and not getattr(last, "components_in_order", True):
        turn = np.linalg.svd(last.components_, full_matrices=False)[0]
        found = found.then(LinearMap(turn.T, np.zeros(turn.shape[1])))
    return replace(found, matrix=found.matrix[:n_components], offset=found.offset[:n_components])


def _part(step: Any) -> LinearMap:
    """One linear step."""
    if isinstance(step, (PCA, *_SCALERS)):
        check_is_fitted(step)
        shift = scaled(step, np.zeros((1, step.n_features_in_)))[0]
        if not isinstance(step, PCA):
            return LinearMap(np.eye(len(shift)) * slopes(step), shift)
        lengths = np.sqrt(step.explained_variance_) if step.whiten else np.ones(len(shift))
        return LinearMap(step.components_ / lengths[:, None], shift)
    if not isinstance(step, LinearMetricEstimator):
        raise ValueError(
            f"{type(step).__name__} is not known to be linear; pass a fitted EJOP, EGOP, "
            "EmbeddingAdapter, predictor or learner, or a pipeline of StandardScaler, RobustScaler,"
            " MaxAbsScaler or PCA and one of these."
        )
    check_is_fitted(step)
    if not hasattr(step, "scale_rows"):
        L = step.components_
        return LinearMap(L, np.zeros(len(L)))
    return scaling_map(step).then(_scaled_part(step))


def scaling_map(predictor: Any) -> LinearMap:
    """How a predictor scales its columns, as a map; refused where that is not linear."""
    before = _chosen_columns(predictor)
    try:
        factors = slopes(predictor.scaler_)
    except ValueError:
        raise ValueError(
            f"scale={predictor.best_params_['scale']!r} of the model is not linear in the columns, "
            f"so no matrix maps them; {_SCALED}, or fit with scale='standard'."
        ) from None
    d = before.n_components
    shift = scaled(predictor.scaler_, np.zeros((1, d)))[0]
    return before.then(LinearMap(np.eye(d) * factors, shift))


def _scaled_part(step: Any) -> LinearMap:
    check_is_fitted(step)
    return LinearMap(step.components_, np.zeros(len(step.components_)))


def _chosen_columns(predictor: Any) -> LinearMap:
    """What prepares the columns, as a map: numbers without gaps, or directions of sparse rows."""
    preparer, d = predictor.preparer_, predictor.n_features_in_
    if preparer is None:
        return LinearMap(np.eye(d), np.zeros(d))
    n = len(preparer.groups_)
    matrix = np.zeros((n, d))
    if not isinstance(preparer, ColumnPreparer):
        kept = preparer.kept_columns_
        matrix[:, kept] = np.eye(d)[kept] if preparer.components_ is None else preparer.components_
        return LinearMap(matrix, np.zeros(n))
    start = 0
    for column in preparer.columns_:
        if not isinstance(column, NumberColumn):
            raise ValueError(
                f"column {column.name!r} is a {column.kind}, which no matrix maps; {_SCALED}."
            )
        matrix[start, preparer.groups_[start]] = 1.0  # the mark of a gap stays zero: none is there
        start += len(column.features())
    return LinearMap(matrix, np.zeros(n))
