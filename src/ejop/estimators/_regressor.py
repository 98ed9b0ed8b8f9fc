"""EGOPRegressor: learn the metric, tune it honestly, predict real targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ejop._sklearn import check_y as _check_y
from ejop.arrays import follow, to_host
from ejop.estimators._ejop import EGOP
from ejop.estimators._predictor import Predictor
from ejop.neighbors import Votes


class EGOPRegressor(RegressorMixin, Predictor):
    """Nearest neighbours under a metric learned from real targets, tuned on held-out rows.

    Parameters and attributes are those of :class:`EJOPClassifier`, without ``class_weight``; the
    score is R^2. Several outputs are scaled to unit variance while the metric is learned.

    Parameters
    ----------
    rule : {"knn", "hnn", "ridge"}, default="knn"
    function : {"auto", "kernel", "ball", "knn", "ridge"}, function object or model, default="auto"
    power : float or "auto", default="auto"
    n_neighbors : int or "auto", default="auto"
    radius : float or "auto", default="auto"
    empty : {"nearest", "prior"}, default="nearest"
    n_components : int, float, "gap", "auto" or None, default=None
    weights : {"uniform", "distance"}, default="uniform"
    scale : {"auto", "none", "standard", "robust", "hellinger"}, default="auto"
    validation : float, int or splitter, default=0.2
    n_iter : int, default=1
    refit : bool or "train", default=True
    device : None, str or torch.device, default=None
        Where metrics are summed and neighbours searched; see :class:`EJOP`.
    precision : {"float32", "tf32", "bf16", "float64"} or None, default=None
    n_jobs : int or None, default=None
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> from ejop import EGOPRegressor
    >>> X = np.random.default_rng(0).normal(size=(400, 5))
    >>> y = np.sin(2 * X[:, 0] + X[:, 1])
    >>> EGOPRegressor(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.9
    True
    """

    def __init__(
        self,
        rule: str = "knn",
        *,
        function: Any = "auto",
        power: float | str = "auto",
        n_neighbors: int | str = "auto",
        radius: float | str = "auto",
        empty: str = "nearest",
        n_components: int | float | str | None = None,
        weights: str = "uniform",
        scale: str = "auto",
        validation: Any = 0.2,
        n_iter: int = 1,
        refit: bool | str = True,
        device: Any = None,
        precision: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.rule = rule
        self.function = function
        self.power = power
        self.n_neighbors = n_neighbors
        self.radius = radius
        self.empty = empty
        self.n_components = n_components
        self.weights = weights
        self.scale = scale
        self.validation = validation
        self.n_iter = n_iter
        self.refit = refit
        self.device = device
        self.precision = precision
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def predict(self, X: ArrayLike) -> NDArray:
        """Mean target of the neighbours, shape of y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        check_is_fitted(self)
        return follow(self._decide(self._votes(X)), X)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R^2 of the predictions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        score : float
        """
        return super().score(to_host(X), to_host(y), to_host(sample_weight))

    def _decide(self, votes: Votes) -> NDArray:
        return votes.values[:, 0] if self._flat else votes.values

    def _targets(self, y: Any) -> tuple[NDArray, NDArray]:
        y = _check_y(y, multi_output=True, y_numeric=True)
        self._flat = y.ndim == 1
        Y = (y[:, None] if self._flat else y).astype(np.float64)
        if not np.ptp(Y, axis=0).any():
            raise ValueError("`y` is constant, so no direction can change the answer.")
        return Y, Y

    def _labels(self, rows: NDArray) -> NDArray:
        spread = self._Y.std(0)
        return self._Y[rows] / np.where(spread > 0, spread, 1)

    def _metric(self, function: Any, random_state: Any) -> EGOP:
        return EGOP(function, random_state=random_state)

    def _evaluate(self, votes: Votes, Y: NDArray, w: NDArray | None) -> tuple[float, float]:
        error = ((votes.values - Y) ** 2).mean(0)
        spread = self._Y.var(0)
        share = error / np.where(spread > 0, spread, 1)
        return float(1 - share.mean()), float(share.mean())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
