"""EmbeddingAdapter: a map of embeddings from a few labels, or from pairs, same or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.validation import validate_data

from ejop._sklearn import Interval, StrOptions
from ejop.estimators._ejop import EGOP, EJOP
from ejop.estimators._linear import LinearMetricEstimator
from ejop.executors.threads import computing
from ejop.metric import eigh_descending
from ejop.rows import as_labels, class_numbers
from ejop.sums import outer_product

#: shares of the mean squared distance that stay Euclidean, the most careful first
SHRINKAGES = (1.0, 0.9, 0.75, 0.5, 0.25, 0.1)
#: standard errors by which a less careful share must be better
GAIN = 0.5
#: rows over which outer products are averaged, at the most
MOST_ROWS = 1000


class EmbeddingAdapter(LinearMetricEstimator):
    r"""A linear map of embeddings under which near rows agree with a few labels.

    The metric is a blend of the Euclidean one and of the outer product of the labels,

    .. math:: s \frac{I}{\operatorname{tr} \Sigma}
        + (1 - s) \frac{M^p}{\operatorname{tr}(M^p \Sigma)},

    with Sigma the covariance of the rows: s is the share of the mean squared distance that stays
    Euclidean, so that neighbourhoods of which no label tells stay what they are. Rows that the
    metric has not seen choose s. Where they cannot show a gain, s = 1: the map only turns rows.

    Pass rows of unit length (:func:`sklearn.preprocessing.normalize`) where the embeddings are
    compared by their cosine.

    Parameters
    ----------
    shrinkage : float in [0, 1] or "auto", default="auto"
        The share s. "auto" learns from half of the labels, looks how well distances among the other
        half sort by class, ``n_splits`` times both ways, and takes the most careful share that is
        within half a standard error of the best.
    n_components : int or None, default=None
        Directions kept. They are in the order of the variance of the mapped rows, so that the first
        few keep the distances best.
    power : float, default=0.5
        The power p of the eigenvalues.
    n_splits : int, default=5
        Random halves that choose the share.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Scaled to trace n_features at full rank.
    shrinkage_ : float
    outer_product_ : ndarray of shape (n_features, n_features)
    cv_results_ : dict of ndarray
        ``shrinkage``, ``mean_test_score`` and ``std_error`` where the share was chosen: the mean
        average precision of rows of the same class, or the area under the curve of pairs.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from ejop import EmbeddingAdapter
    >>> X, y = load_digits(return_X_y=True)
    >>> adapter = EmbeddingAdapter(n_components=16, random_state=0)
    >>> rows = normalize(X)
    >>> adapter.fit(rows[:200], y[:200], unlabelled=rows[200:]).transform(rows).shape
    (1797, 16)
    """

    _parameter_constraints: dict = {
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "n_components": [None, Interval(Integral, 1, None, closed="left")],
        "power": [Interval(Real, 0, None, closed="neither")],
        "n_splits": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        shrinkage: float | str = "auto",
        *,
        n_components: int | None = None,
        power: float = 0.5,
        n_splits: int = 5,
        random_state: Any = None,
    ) -> None:
        self.shrinkage = shrinkage
        self.n_components = n_components
        self.power = power
        self.n_splits = n_splits
        self.random_state = random_state

    @computing
    def fit(
        self, X: ArrayLike, y: ArrayLike, unlabelled: ArrayLike | None = None
    ) -> EmbeddingAdapter:
        """Learn from labelled rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class of each row.
        unlabelled : array-like of shape (n_rows, n_features), optional
            Rows of which no class is known: the metric is the mean over them too.

        Returns
        -------
        self : EmbeddingAdapter
        """
        self._validate_params()
        self._forget()
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        rows, y = validate_data(self, X, as_labels(y), dtype=np.float64, ensure_min_samples=2)
        self.classes_, numbers = class_numbers(y, type(self).__name__)
        more, rng = self._more(unlabelled), check_random_state(self.random_state)
        where = _some(np.vstack([rows, more]), rng)

        def learn(part: NDArray) -> NDArray | None:
            if np.ptp(numbers[part]) == 0 or not np.ptp(rows[part], axis=0).any():
                return None
            fitted = EJOP("ridge", softmax=False, step="analytic", random_state=0)
            fitted.tells_units = False
            return outer_product(fitted.fit(rows[part], numbers[part]).jacobian(where))

        def judge(part: NDArray, L: NDArray) -> NDArray:
            return average_precision(rows[part] @ L.T, numbers[part])

        return self._learn(learn, judge, len(rows), np.vstack([rows, more]), rng)

    @computing
    def fit_pairs(
        self, pairs: ArrayLike, same: ArrayLike, unlabelled: ArrayLike | None = None
    ) -> EmbeddingAdapter:
        """Learn from pairs of rows that are the same or not.

        Whether a pair is the same is taken for a function of the difference of its rows; the metric
        is that of the outer product of its gradient.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
        same : array-like of bool, shape (n_pairs,)
        unlabelled : array-like of shape (n_rows, n_features), optional
            Rows of which nothing is known, for the covariance.

        Returns
        -------
        self : EmbeddingAdapter
        """
        self._validate_params()
        self._forget()
        found = check_array(pairs, dtype=np.float64, allow_nd=True, ensure_min_samples=2)
        truth = column_or_1d(same)
        if found.ndim != 3 or found.shape[1] != 2 or len(truth) != len(found):
            raise ValueError(
                f"`pairs` has shape {found.shape} and `same` {truth.shape}; (n_pairs, 2, "
                "n_features) and (n_pairs,) were expected."
            )
        if not np.isin(truth, [0, 1]).all() or np.ptp(truth.astype(float)) == 0:
            raise ValueError("`same` must hold true and false, or 1 and 0, and some of both.")
        truth = truth.astype(bool)
        ends = found.reshape(-1, found.shape[2])
        validate_data(self, ends)
        apart = found[:, 0] - found[:, 1]

        def learn(part: NDArray) -> NDArray | None:
            if np.ptp(truth[part].astype(int)) == 0:
                return None
            both = np.vstack([apart[part], -apart[part]])
            fitted = EGOP("ridge", step="analytic", random_state=0)
            fitted.tells_units = False
            return fitted.fit(both, np.tile(truth[part], 2).astype(float)).outer_product_

        def judge(part: NDArray, L: NDArray) -> NDArray:
            far = np.linalg.norm(apart[part] @ L.T, axis=1)
            return pairs_in_order(far, truth[part])

        rng = check_random_state(self.random_state)
        every = np.vstack([ends, self._more(unlabelled)])
        return self._learn(learn, judge, len(found), every, rng)

    # how ------------------------------------------------------------------------------------

    def _more(self, unlabelled: ArrayLike | None) -> NDArray:
        if unlabelled is None:
            return np.empty((0, self.n_features_in_))
        rows = check_array(unlabelled, dtype=np.float64, input_name="unlabelled")
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"`unlabelled` has {rows.shape[1]} features and `X` has {self.n_features_in_}."
            )
        return rows

    def _learn(
        self,
        learn: Callable[[NDArray], NDArray | None],
        judge: Callable[[NDArray, NDArray], NDArray],
        n: int,
        rows: NDArray,
        rng: np.random.RandomState,
    ) -> EmbeddingAdapter:
        """Choose the share by halves of n rows or pairs, learn from all of them, and store."""
        d = rows.shape[1]
        if self.n_components is not None and self.n_components > d:
            raise ValueError(
                f"`n_components`={self.n_components} must lie between 1 and the number of "
                f"features, {d}."
            )
        covariance = np.atleast_2d(np.cov(rows.T))
        if not np.trace(covariance) > 0:
            raise ValueError("all rows are equal, so nothing can be learned from them.")
        share = self.shrinkage
        if isinstance(share, str):
            halves = _halves(n, self.n_splits, rng)
            scores = _scores(learn, judge, halves, n, covariance, self.power)
            share = self._chosen(scores)
        M = learn(np.arange(n))
        assert M is not None
        L = blended(M, covariance, float(share), self.power)
        self.shrinkage_, self.outer_product_ = float(share), M
        self.components_ = L[: self.n_components]
        self._n_features_out = len(self.components_)
        return self

    def _chosen(self, scores: NDArray) -> float:
        """The most careful share that is nearly best, of scores (n_shares, n_judged)."""
        n, root = scores.shape[1], np.sqrt(scores.shape[1])
        few = n < 2  # labels too few to hold any out
        means = np.full(len(scores), np.nan) if few else scores.mean(1)
        errors = means if few else scores.std(axis=1, ddof=1) / root
        names = ("shrinkage", "mean_test_score", "std_error")
        self.cv_results_ = dict(zip(names, (np.array(SHRINKAGES), means, errors), strict=True))
        if few:
            return SHRINKAGES[0]
        behind = scores[means.argmax()] - scores
        return SHRINKAGES[int(np.argmax(behind.mean(1) <= GAIN * behind.std(1, ddof=1) / root))]


def blended(M: NDArray, covariance: NDArray, share: float, power: float) -> NDArray:
    """Rows L of a map whose metric keeps a share of the Euclidean one, (d, d).

    The rows are in the order of the variance of what they map, and the metric has trace d.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.estimators import blended
    >>> L = blended(np.diag([1.0, 0.0]), np.eye(2), 0.5, 1.0)
    >>> (L.T @ L).round(3)
    array([[1.5, 0. ],
           [0. , 0.5]])
    """
    d = len(M)
    values, vectors = eigh_descending(M)
    values = (values / values[0]) ** power if values[0] > 0 else values
    spread = np.einsum("ij,ik,kj->j", vectors, covariance, vectors)
    learned = values @ spread
    share = share if learned > 0 else 1.0
    spectrum = np.full(d, share / np.trace(covariance))
    if share < 1:
        spectrum = spectrum + (1 - share) * values / learned
    L = np.sqrt(spectrum * d / spectrum.sum())[:, None] * vectors.T
    _, turn = eigh_descending(L @ covariance @ L.T)
    return turn.T @ L


def average_precision(Z: NDArray, labels: NDArray) -> NDArray:
    """For each row, how early rows of its class come among the others by distance; NaN without any.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.estimators import average_precision
    >>> average_precision(np.array([[0.0], [1.0], [3.0]]), np.array([0, 1, 0])).round(2)
    array([0.5,  nan, 0.5])
    """
    squares = np.einsum("nr,nr->n", Z, Z)
    D = squares[:, None] - 2 * Z @ Z.T + squares
    np.fill_diagonal(D, np.inf)
    hit = np.take_along_axis(
        labels == labels[:, None], D.argsort(axis=1, kind="stable")[:, :-1], axis=1
    )
    precision = hit.cumsum(axis=1) / np.arange(1, len(Z))
    count = hit.sum(1)
    return np.where(count > 0, (precision * hit).sum(1) / np.maximum(count, 1), np.nan)


def pairs_in_order(far: NDArray, same: NDArray) -> NDArray:
    """For each pair that is the same, the share of the others that are farther; NaN for the others.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.estimators import pairs_in_order
    >>> pairs_in_order(np.array([1.0, 3.0, 2.0, 4.0]), np.array([True, True, False, False]))
    array([1. , 0.5, nan, nan])
    """
    others = np.sort(far[~same])
    below = (np.searchsorted(others, far) + np.searchsorted(others, far, side="right")) / 2
    return np.where(same & (len(others) > 0), 1 - below / max(len(others), 1), np.nan)


def _some(rows: NDArray, rng: np.random.RandomState) -> NDArray:
    return rows if len(rows) <= MOST_ROWS else rows[rng.permutation(len(rows))[:MOST_ROWS]]


def _halves(n: int, n_splits: int, rng: np.random.RandomState) -> Iterator[tuple[NDArray, NDArray]]:
    """Random halves to learn from and to judge by, both ways."""
    for _ in range(n_splits):
        order = rng.permutation(n)
        yield order[: n // 2], order[n // 2 :]
        yield order[n // 2 :], order[: n // 2]


def _scores(
    learn: Callable, judge: Callable, halves: Any, n: int, covariance: NDArray, power: float
) -> NDArray:
    """Mean score of each row by metrics that have not seen it, (n_shares, n_judged)."""
    total, count = np.zeros((len(SHRINKAGES), n)), np.zeros(n)
    for seen, held in halves:
        M = learn(seen) if len(seen) > 1 else None
        if M is None or len(held) < 2:
            continue
        found = np.array(
            [judge(held, blended(M, covariance, share, power)) for share in SHRINKAGES]
        )
        judged = ~np.isnan(found[0])
        total[:, held[judged]] += found[:, judged]
        count[held[judged]] += 1
    return total[:, count > 0] / count[count > 0]
