"""ReliefF: weigh each feature by how it tells near rows of other classes from near rows of its
own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop._sklearn import WRAPPERS, Interval
from ejop.executors.threads import n_threads, stream
from ejop.learners._learner import Learned, MetricLearner
from ejop.metric import rank
from ejop.progress import track

#: rows a thread handles at a time
QUERY_BLOCK = 64
#: a column whose range is below this share of its largest value holds rounding only
CONSTANT = 4 * np.finfo(np.float64).eps


class ReliefF(MetricLearner):
    r"""ReliefF feature weights as a diagonal metric.

    With features scaled to [0, 1] by their range, the weight of feature j is [1]_ [2]_

    .. math::
        w_j = \frac{1}{n} \sum_i \Big[ \sum_{c \ne y_i} \frac{P(c)}{1 - P(y_i)}\,
        \operatorname*{mean}_{m \in \mathrm{miss}_c(i)} |x_{ij} - x_{mj}|
        \;-\; \operatorname*{mean}_{h \in \mathrm{hit}(i)} |x_{ij} - x_{hj}| \Big]

    where hit(i) are the k rows of the class of row i nearest to it in L1 distance,
    :math:`\mathrm{miss}_c(i)` the k nearest rows of class c, and P(c) the share of class c. The
    metric is :math:`\mathrm{diag}(\max(w, 0))` on the scaled features. Every row is used; nothing
    is random.

    Parameters
    ----------
    n_components : int or None, default=None
        Keep this many features, those of largest weight, largest first. None keeps all, in the
        order of the columns.
    n_neighbors : int, default=10
        k. A class with fewer rows gives those it has; a row alone in its class has no hits, and
        its term is that of the misses.
    n_jobs : int or None, default=None
        Threads; None for as many as the BLAS may use. The result does not depend on it.
    verbose : int, default=0
        Progress on stderr.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features,)
        w, which may be negative.
    feature_importances_ : ndarray of shape (n_features,)
        max(w, 0), scaled to sum 1; zeros where no weight is positive.
    components_ : ndarray of shape (n_components, n_features)
        Diagonal for all features: sqrt(max(w, 0)) / range. Constant columns weigh 0.
    ranges_ : ndarray of shape (n_features,)
        Range of each column, 0 for constant ones.
    objective_ : ndarray of shape (1,)
        Sum of w: the mean margin between near misses and near hits.
    n_iter_ : int
        1.
    converged_ : bool
    message_ : str
    classes_ : ndarray of shape (n_classes,)

    Notes
    -----
    Rows at equal distance are taken in the order of rows. Distances that differ by less than
    2^-36 count as equal, since rounding would otherwise decide among rows of integer features.

    Where no weight is positive, there is a warning and the metric weighs all features alike.

    References
    ----------
    .. [1] Kononenko, "Estimating attributes: analysis and extensions of RELIEF", ECML 1994.
    .. [2] Robnik-Sikonja and Kononenko, "Theoretical and empirical analysis of ReliefF and
       RReliefF", Machine Learning 53, 2003.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ejop.learners import ReliefF
    >>> X, y = load_iris(return_X_y=True)
    >>> relief = ReliefF().fit(X, y)
    >>> relief.weights_.round(3)
    array([0.14 , 0.122, 0.359, 0.376])
    >>> ReliefF(n_components=2).fit_transform(X, y).shape
    (150, 2)
    """

    _parameter_constraints: dict = {
        "n_components": [None, Interval(Integral, 1, None, closed="left")],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
    }
    # the base asks for these; here nothing is random, and there is no start
    random_state, init, pull = None, None, None

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int = 10,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _learn(self, X: NDArray, y: NDArray, random_state: np.random.RandomState) -> Learned:
        n_kept = rank(np.ones(X.shape[1]), self.n_components)

        def shown(parts: Iterator[NDArray], n_parts: int) -> Iterator[NDArray]:
            return track(parts, n_parts, self, type(self).__name__, self.verbose)

        self.ranges_, scaled = scale_by_range(X)
        w = relieff_weights(
            scaled, y, n_neighbors=self.n_neighbors, n_jobs=self.n_jobs, progress=shown
        )
        self.weights_, positive = w, np.maximum(w, 0)
        self.feature_importances_ = positive / (positive.sum() or 1.0)
        message = "weights are exact: every row has been used"
        if not positive.any():
            message = "no feature has a positive weight, so that all that vary weigh alike"
            warnings.warn(f"ReliefF: {message}", stacklevel=3 + WRAPPERS)
            positive = np.ones_like(w)
        varies = self.ranges_ > 0
        L = np.diag(np.where(varies, np.sqrt(positive) / np.where(varies, self.ranges_, 1), 0))
        if self.n_components is not None:
            L = L[np.argsort(-positive * varies, kind="stable")[:n_kept]]
        return Learned(L, [float(w.sum())], True, message)


def scale_by_range(X: NDArray) -> tuple[NDArray, NDArray]:
    """Ranges of the columns, 0 for constant ones, and X mapped to [0, 1]."""
    low, high = X.min(0), X.max(0)
    ranges = high - low
    ranges[ranges <= CONSTANT * np.maximum(np.abs(low), np.abs(high))] = 0
    return ranges, np.where(ranges > 0, (X - low) / np.where(ranges > 0, ranges, 1), 0)


def relieff_weights(
    X: NDArray,
    y: ArrayLike,
    *,
    n_neighbors: int = 10,
    n_jobs: int | None = None,
    progress: Callable[[Iterator[NDArray], int], Iterator[NDArray]] = lambda parts, n: parts,
) -> NDArray:
    """ReliefF weights w (d,) of features in [0, 1].

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows scaled to [0, 1].
    y : array-like of shape (n_samples,)
        Class of each row, of any label type.
    n_neighbors : int, default=10
    n_jobs : int or None, default=None
    progress : callable, optional
        Wraps the stream of finished blocks of rows: ``progress(parts, n_parts)``.

    Returns
    -------
    w : ndarray of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.learners._relieff import relieff_weights
    >>> X = np.array([[0.0, 0.5], [0.1, 0.0], [0.9, 0.5], [1.0, 0.0]])
    >>> relieff_weights(X, ["a", "a", "b", "b"], n_neighbors=1).round(3)
    array([ 0.8, -0.5])
    """
    from ejop.learners._relieff_loops import relief_sums  # numba loads when it is needed

    _, labels, counts = np.unique(y, return_inverse=True, return_counts=True)
    rows = np.ascontiguousarray(X[np.argsort(labels, kind="stable")], dtype=np.float64)
    columns = np.ascontiguousarray(rows.T)
    starts, priors = np.concatenate([[0], np.cumsum(counts)]), counts / len(X)
    k = min(n_neighbors, len(X))

    def one(first: int) -> NDArray:
        last = min(first + QUERY_BLOCK, len(rows))
        return relief_sums(rows, columns, starts, priors, k, first, last)

    blocks = range(0, len(rows), QUERY_BLOCK)
    total = np.zeros(X.shape[1])
    threads = n_threads(n_jobs, operations=2 * len(X) ** 2 * X.shape[1])
    with closing(stream(one, blocks, threads)) as parts:
        for part in progress(parts, len(blocks)):  # in the order of rows, whatever the threads
            total += part
    return total / len(X)
