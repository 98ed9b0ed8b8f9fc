"""EJOPClassifier: learn the metric, tune it honestly, classify."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ejop._sklearn import StrOptions
from ejop.arrays import follow, to_host
from ejop.estimators._ejop import EJOP
from ejop.estimators._predictor import TIE, Predictor
from ejop.neighbors import Votes


class EJOPClassifier(ClassifierMixin, Predictor):
    """Nearest neighbours under a metric learned from the labels, tuned on held-out rows.

    Parameters
    ----------
    rule : {"knn", "hnn", "ridge"}, default="knn"
        How rows are classified under the metric: by the k nearest, by all within a radius, or by
        kernel ridge regression.
    function : {"auto", "kernel", "ball", "knn", "ridge"}, function object or model, default="auto"
        Estimate of f that the metric is made from, see :class:`EJOP`. "auto" tries the kernel
        smoother and kernel ridge with once and twice the bandwidth of its smallest leave-one-out
        loss ("ridge" and "ridge-wide").
    power : float or "auto", default="auto"
        Power of the eigenvalues; "auto" tries 0 (Euclidean) to 1.5.
    n_neighbors : int or "auto", default="auto"
    radius : float or "auto", default="auto"
        Radius of "hnn"; "auto" tries quantiles of the distance to the fifth neighbour.
    empty : {"nearest", "prior"}, default="nearest"
        What an empty ball of "hnn" answers: its nearest row's class, or the class shares (the
        paper's weights 1/n).
    n_components : int, float, "gap", "auto" or None, default=None
    weights : {"uniform", "distance"}, default="uniform"
    scale : {"auto", "none", "standard", "robust", "hellinger"}, default="auto"
        Preparation of the columns. "auto" tries none, standard and, where no value is negative,
        hellinger.
    validation : float, int or splitter, default=0.2
        Share of rows held out to tune on (drawn up to twelve times while fewer than a thousand rows
        have judged, and 5000 rows at the most), or folds of cross-validation.
    n_iter : int, default=1
        Rounds: each learns f and the metric again in the space of the last, and is kept only if
        the held-out rows say so.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class in f, in the metric and in the vote.
    refit : bool or "train", default=True
        Learn the metric of all rows with the best setting; "train" learns it from the rows that
        the first split learned from, so that the held-out rows stay out for good. Without it only
        the results of the tuning are kept.
    device : None, str or torch.device, default=None
        Where metrics are summed and neighbours searched; see :class:`EJOP`.
    precision : {"float32", "tf32", "bf16", "float64"} or None, default=None
    n_jobs : int or None, default=None
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    best_params_ : dict
    best_score_ : float
        Accuracy of the best setting on held-out rows.
    cv_results_ : dict of ndarray
        The whole grid; ``pandas.DataFrame(cv_results_)`` is a table.
    components_ : ndarray of shape (n_components_out, n_features)
        Map from scaled rows to the space of the metric.
    scaler_ : fitted scaler
    metric_estimator_ : EJOP
        The metric of the last round.
    n_neighbors_ : int
    radius_ : float
    classes_ : ndarray of shape (n_classes,)
    plan_ : Plan

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from ejop import EJOPClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
    >>> model = EJOPClassifier(random_state=0).fit(X_train, y_train)
    >>> model.score(X_test, y_test) > 0.9
    True
    >>> model.explain(X_test).shape
    (45, 13)
    """

    _parameter_constraints: dict = {
        **Predictor._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

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
        class_weight: Any = None,
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
        self.class_weight = class_weight
        self.refit = refit
        self.device = device
        self.precision = precision
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def predict(self, X: ArrayLike) -> NDArray:
        """Class of each row; equal votes go to the class with the nearer row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return follow(self._decide(self._votes(X)), X)

    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Share of each class in the vote, shape (n_samples, n_classes).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        return follow(self._shares(self._votes(X)), X)

    def _decide(self, votes: Votes) -> NDArray:
        return self.classes_[votes.winners()]

    def _shares(self, votes: Votes) -> NDArray:
        values = np.clip(votes.values, 0, None)
        values[np.arange(len(values)), votes.winners()] += TIE  # the largest share is predicted
        return values / values.sum(1, keepdims=True)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy of the predictions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        score : float
        """
        return super().score(to_host(X), to_host(y), to_host(sample_weight))

    def _explained(self, shares: NDArray, X: ArrayLike) -> NDArray:
        predicted = self._votes(X).winners()
        return np.take_along_axis(shares, predicted[:, None, None], axis=2)[:, :, 0]

    def _targets(self, y: Any) -> tuple[NDArray, NDArray]:
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"`y` has 1 class, {self.classes_.tolist()[0]!r}, and at least 2 classes are "
                "needed."
            )
        return np.eye(len(self.classes_))[numbers], numbers

    def _row_weights(self, y: NDArray) -> NDArray | None:
        if self.class_weight is None:
            return None
        return compute_sample_weight(self.class_weight, self.classes_[y])

    def _labels(self, rows: NDArray) -> NDArray:
        return self._Y[rows].argmax(1)

    def _metric(self, function: Any, random_state: Any) -> EJOP:
        return EJOP(function, softmax=False, random_state=random_state)

    def _evaluate(self, votes: Votes, Y: NDArray, w: NDArray | None) -> tuple[float, float]:
        right = votes.winners() == Y.argmax(1)
        loss = ((votes.values - Y) ** 2).sum(1)
        return float(np.average(right, weights=w)), float(np.average(loss, weights=w))
