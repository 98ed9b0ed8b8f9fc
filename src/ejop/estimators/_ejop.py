"""EJOP and EGOP."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from ejop._sklearn import check_y
from ejop.estimators._base import OuterProductEstimator
from ejop.functions import Function, ModelFunction
from ejop.rows import require_labels


class EJOP(OuterProductEstimator):
    r"""Expected Jacobian outer product of class probabilities, as a metric and a projection.

    .. math:: M = E_X [ J(X) J(X)^T ], \quad J(x) \in R^{d \times c}
        \text{ the Jacobian of the class probabilities } f

    Directions with a large eigenvalue change the answer; the others can be ignored. The estimate
    takes one pass and no optimiser.

    Parameters
    ----------
    function : {"kernel", "ball", "knn", "ridge"}, function object or model, default="kernel"
        Estimate of f: a Gaussian smoother, the mean over a ball, the mean of the 15 nearest rows,
        kernel ridge at 1.5 times the bandwidth of its smallest leave-one-out loss
        (``RidgeFunction(widening=1.5)``), an object of :mod:`ejop.functions` with settings of its
        own, any scikit-learn model (cloned and fitted; put a fitted one in
        :class:`sklearn.frozen.FrozenEstimator` to keep it), or a callable that is f itself. A model
        takes 2 n_features predictions for each query: ``n_queries`` bounds that, ``plan_`` counts
        it.
    bandwidth : float or "auto", default="auto"
        Scale of "kernel", "ball" and "ridge". "auto": 1.3 times the widest whose leave-one-out loss
        of f is within one standard error of the best, over multiples of the median
        nearest-neighbour distance; for ridge 1.5 times that of the smallest loss, together with the
        penalty. A function object has its own, and "knn" has none: there it must stay "auto".
    step : float, array-like of shape (n_features,), "auto" or "analytic", default="auto"
        Step t of the paper's difference quotient, one for all features or one each. "auto": half
        the bandwidth, half the median distance to the k-th neighbour for "knn", a quarter of each
        standard deviation for a model. "analytic" takes the derivative itself (Gaussian smoother
        and ridge).
    softmax : bool, default=True
        Values of f are class shares already. A softmax of them, the paper's and the default,
        changes the size of derivatives, not which directions have any; the predictors use
        softmax=False.
    leave_one_out : bool, default=True
        Leave a training row out of its own estimate. False is the paper to the letter.
    min_mass : None, "theory", int or float in (0, 1), default=None
        Zero a derivative unless both balls of half a bandwidth around the shifted points hold this
        many rows. A number under 1 is the delta of the paper's threshold 2 d ln(2n) + ln(4 /
        delta); "theory" is 0.05.
    power : float, default=1.0
        Power of the eigenvalues in the metric: 1 is the paper, 1/2 is steadier on images.
    shrinkage : float, default=0.0
        Share of the mean eigenvalue added to all.
    n_components : int, float in (0, 1), "gap" or None, default=None
        Directions kept: a count, a share of the energy, those before the largest gap, or all.
    diagonal : bool, default=False
        Keep the diagonal alone: one weight per feature.
    n_queries : int, float in (0, 1), "auto" or None, default=None
        Random rows whose outer products are averaged; all by default. A number under 1 is a
        standard error of the matrix, relative in Frobenius norm: the sample is doubled until it is
        reached, and the cost is then linear in rows. "auto" is 0.05.
    device : None, str, torch.device, list of them or Device, default=None
        Where the sums run: None is NumPy and compiled loops, unless X is a torch tensor; "cpu",
        "cuda", "cuda:1", "mps" and "auto" (every card, or the CPU) are torch. A list shares the
        query rows among devices. :class:`ejop.Device` also sets the precision of products and the
        memory for temporaries.
    n_jobs : int or None, default=None
        Threads; None takes as many as the BLAS is allowed.
    random_state : int, RandomState instance or None, default=None
        Draws query rows, and the rows that choose bandwidth and penalty when there are many.
    verbose : int, default=0
        Progress on the standard error stream.

    Attributes
    ----------
    outer_product_ : ndarray of shape (n_features, n_features)
        The estimate of E[J J^T] itself.
    outer_product_stderr_ : ndarray of shape (n_features, n_features)
        Standard error of each entry as a mean over query rows.
    components_ : ndarray of shape (n_components_out, n_features)
        L with L^T L the metric after power, shrinkage and rank, scaled to trace n_features.
    eigenvalues_ : ndarray of shape (n_features,)
        Of ``outer_product_``, largest first.
    eigenvectors_ : ndarray of shape (n_features, n_features)
        One per column.
    feature_importances_ : ndarray of shape (n_features,)
        Diagonal of ``outer_product_`` times the variance of each feature, scaled to sum to 1: it
        does not depend on units.
    output_shares_ : ndarray of shape (n_classes,)
        Share of each class in the trace.
    output_importances_ : ndarray of shape (n_classes, n_features)
        Mean squared derivative of each class probability along each feature.
    classes_ : ndarray of shape (n_classes,)
    bandwidth_, penalty_, step_ : float, ndarray or None
        As used; None where the function has none.
    function_ : fitted function
    plan_ : Plan
        What was chosen and why; ``print`` it.
    n_queries_ : int
        Rows in the mean.
    mass_zeroed_ : float
        Share of derivatives zeroed by ``min_mass``, where given.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    See Also
    --------
    EGOP : The same for real targets.
    sklearn.neighbors.NeighborhoodComponentsAnalysis : A metric by optimisation.

    References
    ----------
    S. Trivedi and J. Wang, "The Expected Jacobian Outerproduct: Theory and Empirics", 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from ejop import EJOP
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = EJOP().fit(X, y)
    >>> metric.transform(X).shape
    (150, 4)
    >>> bool(metric.feature_importances_[2:].sum() > 0.8)  # the petals decide
    True
    >>> make_pipeline(EJOP(n_components=2), KNeighborsClassifier()).fit(X, y).score(X, y) > 0.9
    True
    """

    _parameter_constraints: dict = {
        **OuterProductEstimator._parameter_constraints,
        "softmax": ["boolean"],
    }

    def __init__(
        self,
        function: Any = "kernel",
        *,
        bandwidth: float | str = "auto",
        step: Any = "auto",
        softmax: bool = True,
        leave_one_out: bool = True,
        min_mass: float | str | None = None,
        power: float = 1.0,
        shrinkage: float = 0.0,
        n_components: int | float | str | None = None,
        diagonal: bool = False,
        n_queries: float | str | None = None,
        device: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.function = function
        self.bandwidth = bandwidth
        self.step = step
        self.softmax = softmax
        self.leave_one_out = leave_one_out
        self.min_mass = min_mass
        self.power = power
        self.shrinkage = shrinkage
        self.n_components = n_components
        self.diagonal = diagonal
        self.n_queries = n_queries
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    takes_classes = True

    def _softmax(self) -> bool:
        return self.softmax

    def _targets(self, y: NDArray, classes: ArrayLike | None, *, first: bool) -> NDArray:
        y = column_or_1d(y, warn=True)
        require_labels(y)
        check_classification_targets(y)
        if first:
            self.classes_ = np.unique(y if classes is None else np.asarray(classes))
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"`classes`={np.unique(classes).tolist()} is not the same as on the first call of "
                f"partial_fit: {self.classes_.tolist()}."
            )
        strange = np.setdiff1d(y, self.classes_)
        if len(strange):
            raise ValueError(
                f"`y` has labels {strange[:5].tolist()} that are not among the classes "
                f"{self.classes_.tolist()}; pass all of them as `classes` on the first call of "
                "partial_fit."
            )
        if len(self.classes_) < 2:
            raise ValueError(
                f"`y` has 1 class, {self.classes_.tolist()[0]!r}, and at least 2 classes are "
                "needed: with one class no direction can change the answer."
            )
        return (y[:, None] == self.classes_).astype(np.float64)

    def make_function(self) -> Function:
        """The unfitted function that the parameters describe."""
        function = super().make_function()
        if isinstance(function, ModelFunction) and isinstance(function.estimator, FrozenEstimator):
            known = getattr(function.estimator, "classes_", self.classes_)
            if not np.array_equal(known, self.classes_):
                raise ValueError(
                    f"the frozen model knows the classes {np.asarray(known).tolist()} and `y` has "
                    f"{self.classes_.tolist()}; fit it on the same classes."
                )
        return function


class EGOP(OuterProductEstimator):
    r"""Expected gradient outer product of real targets, as a metric and a projection.

    .. math:: M = E_X \sum_k \nabla f_k(X) \nabla f_k(X)^T

    over the outputs k of f. With ``diagonal=True`` it is gradient weights, one per feature.
    Parameters and attributes are those of :class:`EJOP`; there is no softmax and ``classes_`` is
    absent. Targets with several outputs count in their own units: scale them to weigh alike.

    Parameters
    ----------
    function : {"kernel", "ball", "knn", "ridge"}, function object or model, default="kernel"
        Estimate of f, see :class:`EJOP`.
    bandwidth : float or "auto", default="auto"
    step : float, array-like of shape (n_features,), "auto" or "analytic", default="auto"
    leave_one_out : bool, default=True
    min_mass : None, "theory", int or float in (0, 1), default=None
    power : float, default=1.0
    shrinkage : float, default=0.0
    n_components : int, float in (0, 1), "gap" or None, default=None
    diagonal : bool, default=False
    n_queries : int, float in (0, 1), "auto" or None, default=None
    device : None, str, torch.device, list of them or Device, default=None
    n_jobs : int or None, default=None
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    outer_product_, components_, eigenvalues_, eigenvectors_, feature_importances_
        As in :class:`EJOP`.
    output_shares_ : ndarray of shape (n_outputs,)
        Share of each output in the trace.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop import EGOP
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> egop = EGOP().fit(X, np.sin(X[:, 0] + X[:, 1]))
    >>> np.abs(egop.eigenvectors_[:, 0]).round(1)
    array([0.7, 0.7, 0. ])
    """

    def __init__(
        self,
        function: Any = "kernel",
        *,
        bandwidth: float | str = "auto",
        step: Any = "auto",
        leave_one_out: bool = True,
        min_mass: float | str | None = None,
        power: float = 1.0,
        shrinkage: float = 0.0,
        n_components: int | float | str | None = None,
        diagonal: bool = False,
        n_queries: float | str | None = None,
        device: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.function = function
        self.bandwidth = bandwidth
        self.step = step
        self.leave_one_out = leave_one_out
        self.min_mass = min_mass
        self.power = power
        self.shrinkage = shrinkage
        self.n_components = n_components
        self.diagonal = diagonal
        self.n_queries = n_queries
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _targets(self, y: NDArray, classes: ArrayLike | None, *, first: bool) -> NDArray:
        y = check_y(y, multi_output=True, y_numeric=True)
        Y = y[:, None] if y.ndim == 1 else y
        if not first and Y.shape[1] != self.function_.n_outputs_:
            raise ValueError(
                f"`y` has {Y.shape[1]} outputs and the first call had {self.function_.n_outputs_}."
            )
        return Y


def ejop_matrix(X: ArrayLike, y: ArrayLike, **parameters: Any) -> NDArray:
    """Expected Jacobian outer product of class targets, shape (n_features, n_features).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    **parameters
        Those of :class:`EJOP`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ejop import ejop_matrix
    >>> ejop_matrix(*load_iris(return_X_y=True)).shape
    (4, 4)
    """
    return EJOP(**parameters).fit(X, y).outer_product_


def egop_matrix(X: ArrayLike, y: ArrayLike, **parameters: Any) -> NDArray:
    """Expected gradient outer product of real targets, shape (n_features, n_features).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    **parameters
        Those of :class:`EGOP`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from ejop import egop_matrix
    >>> egop_matrix(*load_diabetes(return_X_y=True), n_queries=100, random_state=0).shape
    (10, 10)
    """
    return EGOP(**parameters).fit(X, y).outer_product_
