"""EGOPRegressor: real targets by kernel machines, or by near rows under the learned metric."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from ejop._sklearn import check_y
from ejop.arrays import follow, to_host
from ejop.estimators._ejop import EGOP
from ejop.estimators._predictor import Predictor
from ejop.executors.threads import computing
from ejop.explanation import Explanation, number_of
from ejop.neighbors import Votes
from ejop.rows import require_target_span, targets_like
from ejop.rules import Rule
from ejop.tuning import FOLDS, Targets

#: targets are divided by their standard deviation, so that only its square must be a number
LEAST_SPAN = 1e-150


class EGOPRegressor(RegressorMixin, Predictor):
    """Real targets of new rows, with bounds that hold, in seconds and with no settings.

    ``EGOPRegressor().fit(X, y)`` predicts by the mean of a few kernel machines that it chooses
    itself. It tells its R^2 on rows it has not seen (``best_score_``), which columns matter
    (``feature_importances_``), why a row was predicted as it was (:meth:`explain`), and bounds that
    hold nine targets of ten (:meth:`predict_interval`).

    How, and ``rule="knn"`` and ``"hnn"``, are told in :class:`EJOPClassifier`, whose parameters and
    attributes these are, without ``class_weight`` and ``classes_``. Several outputs are scaled to
    unit variance while machines and metrics are learned.

    Parameters
    ----------
    rule : {"ridge", "knn", "hnn"} or Rule, default="ridge"
        The mean of kernel machines, the k nearest rows, or all within a radius.
    function : {"auto", "kernel", "ball", "knn", "ridge"}, function object or model, default="auto"
        For "knn" and "hnn".
    power : float or "auto", default="auto"
    n_components : int, float, "gap", "auto" or None, default=None
    scale : {"auto", "none", "standard", "robust", "hellinger", "quantile"}, default="auto"
    columns : {"auto", "numbers"} or ColumnPreparer, default="auto"
    validation : int, float or splitter, default=4
        For "knn" and "hnn".
    n_iter : int, default=1
        For "knn" and "hnn".
    refit : bool or "train", default=True
        For "knn" and "hnn".
    device : None, str or torch.device, default=None
        Where metrics are summed and neighbours searched; see :class:`EJOPClassifier`.
    n_jobs : int or None, default=None
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> from ejop import EGOPRegressor
    >>> X = np.random.default_rng(0).normal(size=(400, 5))
    >>> y = np.sin(2 * X[:, 0] + X[:, 1])
    >>> model = EGOPRegressor(random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.95
    True
    >>> low, high = model.predict_interval(X[300:], coverage=0.9).T
    >>> bool(0.85 < ((low <= y[300:]) & (y[300:] <= high)).mean() < 0.96)
    True
    """

    def __init__(
        self,
        rule: str | Rule = "ridge",
        *,
        function: Any = "auto",
        power: float | str = "auto",
        n_components: int | float | str | None = None,
        scale: str = "auto",
        columns: Any = "auto",
        validation: Any = FOLDS,
        n_iter: int = 1,
        refit: bool | str = True,
        device: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.rule = rule
        self.function = function
        self.power = power
        self.n_components = n_components
        self.scale = scale
        self.columns = columns
        self.validation = validation
        self.n_iter = n_iter
        self.refit = refit
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

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

    def _answers(self, Z: NDArray) -> NDArray:
        return self._votes_of(Z, self.device).values

    @property
    def _n_answers(self) -> int:
        return self.rule_.targets_.shape[1]

    def _explained(self, whole: Explanation, output: Any) -> Explanation:
        """Of the one target, of one of several, or of all."""
        names = list(range(self._n_answers))
        if self._flat:
            number_of(0 if output in (None, "all") else output, names)
            return whole.of_output(0)
        whole = replace(whole, outputs=names)
        if output is None or (isinstance(output, str) and output == "all"):
            return whole
        return whole.of_output(number_of(output, names))

    def _targets(self, y: Any, w: NDArray | None = None) -> Targets:
        y = check_y(y, multi_output=True, y_numeric=True)
        self._flat = y.ndim == 1
        Y = targets_like(y[:, None] if self._flat else y, np.dtype(np.float64))
        if not np.isfinite(Y).all():  # None among objects is NaN only now
            raise ValueError("Input y contains NaN or infinity; drop these rows, or fill the gaps.")
        if not np.ptp(Y, axis=0).any():
            raise ValueError("`y` is constant, so no direction can change the answer.")
        require_target_span(Y.min(0), Y.max(0), Y.dtype, LEAST_SPAN)
        return Targets(Y, w)

    def _labels(self, targets: Targets, rows: NDArray) -> NDArray:
        return targets.Y[rows] / np.sqrt(targets.variance)

    def _metric(self, function: Any, random_state: Any) -> EGOP:
        return EGOP(function, random_state=random_state)

    def _units(self, targets: Targets) -> NDArray:
        return np.sqrt(targets.variance)

    @computing
    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> NDArray:
        """Lower and upper bounds that hold the target with this probability.

        By the residuals of training rows that had not been seen (cross-conformal), for
        ``rule="ridge"``: as wide for every row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float in (0, 1), default=0.9

        Returns
        -------
        bounds : ndarray of shape (n_samples, 2) or, for several outputs, (n_samples, 2, n_outputs)
        """
        rule = self._honest_rule(coverage)
        errors = np.abs(rule.honest_ - rule.targets_[rule.judged_])
        reach = rule.score_limit(errors, coverage)
        values = self._votes(X).values
        bounds = np.stack([values - reach, values + reach], axis=1)
        return follow(bounds[:, :, 0] if self._flat else bounds, X)

    def _evaluate(self, votes: Votes, targets: Targets, held: NDArray) -> tuple[float, float]:
        Y, w = targets.take(held)
        error = np.average((votes.values - Y) ** 2, axis=0, weights=w)
        share = float((error / targets.variance).mean())
        return 1 - share, share

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
