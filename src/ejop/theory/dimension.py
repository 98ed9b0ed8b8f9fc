"""How many directions matter: gap, cross-validation, bootstrap bands and a permutation test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target

from ejop.choice import pointwise_loss, widest_within_one_error
from ejop.estimators import EGOP, EJOP, OuterProductEstimator, chosen_settings
from ejop.executors.threads import computing
from ejop.functions import KernelSmoother
from ejop.rows import one_hot_labels
from ejop.subspace import sin_theta, spectral_gap


@dataclass(frozen=True)
class DirectionTest:
    """Permutation tests of "this direction carries nothing".

    Attributes
    ----------
    directions : ndarray of shape (n_features, n_directions)
        Of length 1.
    statistics : ndarray of shape (n_directions,)
        v^T M_n v, the mean squared derivative along each.
    permuted : ndarray of shape (n_permutations, n_directions)
        The same with the coordinate along v shuffled.
    p_values : ndarray of shape (n_directions,)
        (1 + permuted statistics at or above) / (1 + permutations).
    """

    directions: NDArray
    statistics: NDArray
    permuted: NDArray
    p_values: NDArray


@dataclass(frozen=True)
class ColumnTest:
    """Permutation tests of "this column carries nothing".

    Attributes
    ----------
    columns : ndarray of shape (n_columns,)
        Their numbers among the groups.
    statistics : ndarray of shape (n_columns,)
        Sum of the mean squared derivatives of the features of each.
    permuted : ndarray of shape (n_permutations, n_columns)
        The same with these features shuffled.
    p_values : ndarray of shape (n_columns,)
        (1 + permuted statistics at or above) / (1 + permutations).
    """

    columns: NDArray
    statistics: NDArray
    permuted: NDArray
    p_values: NDArray


@dataclass(frozen=True)
class SubspaceTest:
    """What :func:`subspace_test` found.

    Attributes
    ----------
    eigenvalues : ndarray of shape (n_features,)
        Of the matrix from all rows, largest first.
    low, high : ndarray of shape (n_features,)
        Bootstrap band of each.
    gap : int
        Directions before the largest drop.
    losses, losses_stderr : ndarray of shape (max_components + 1,)
        Cross-validated loss with 0, 1, ... directions, and the standard error of its difference to
        the smallest.
    cv_dimension : int
        Fewest directions whose loss is within one standard error of the smallest.
    angles, angles_high : ndarray of shape (max_components,)
        Median and upper end over the bootstrap of the sine of the largest angle between the span of
        the first 1, 2, ... eigenvectors and that of the whole sample.
    p_values : ndarray of shape (max_components,)
        Of "direction r + 1 and those after it carry nothing", for r = 0, 1, ...
    test_dimension : int
        Leading p-values in a row that are at or below the level.
    level : float
    """

    eigenvalues: NDArray
    low: NDArray
    high: NDArray
    gap: int
    losses: NDArray
    losses_stderr: NDArray
    cv_dimension: int
    angles: NDArray
    angles_high: NDArray
    p_values: NDArray
    test_dimension: int
    level: float

    def frame(self) -> Any:
        """Table of one row per direction.

        Returns
        -------
        frame : pandas.DataFrame
            Direction, eigenvalue with its band, loss with so many directions, angle and its upper
            end, p-value.
        """
        from ejop.plots.style import pandas

        r = len(self.angles)
        return pandas().DataFrame(
            {
                "direction": np.arange(1, r + 1),
                "eigenvalue": self.eigenvalues[:r],
                "low": self.low[:r],
                "high": self.high[:r],
                "loss": self.losses[1:],
                "angle": self.angles,
                "angle_high": self.angles_high,
                "p_value": self.p_values,
            }
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw as :class:`ejop.plots.SubspaceDisplay`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or array of three, optional

        Returns
        -------
        display : SubspaceDisplay
        """
        from ejop.plots import SubspaceDisplay

        return SubspaceDisplay(self).plot(ax)


@computing
def subspace_test(
    X: ArrayLike,
    y: ArrayLike,
    *,
    estimator: Any = None,
    max_components: int | None = None,
    cv: int = 5,
    n_bootstrap: int = 50,
    n_permutations: int = 99,
    level: float = 0.05,
    random_state: Any = None,
) -> SubspaceTest:
    """How many directions matter, by four means.

    - The spectral gap: directions before the largest drop of the eigenvalues.
    - Cross-validation: each fold finds directions on its training rows, and a kernel smoother of
      the first r of them predicts the held-out rows. The fewest directions within one standard
      error of the best are taken.
    - Bootstrap: rows are weighted by multinomial counts, with bandwidth, penalty and step of the
      whole sample. A row is left out of its own estimate together with its copies. Bands of
      eigenvalues and of the angle to the subspace of the whole sample are percentiles. Eigenvalues
      of directions that carry nothing are positive in every sample, and larger in a resample,
      which has fewer distinct rows. So their bands lie above the estimate, and a band that
      excludes zero proves nothing; that is what the test is for.
    - Permutation tests of "direction r + 1 and those after it carry nothing", for r = 0, 1, ...
      The first r directions and the settings come from one half of the rows. On the other half the
      statistic is eigenvalue r + 1 of M_n, and the part of the rows outside the r directions is
      shuffled as in :func:`direction_test`. With r = 0 the test is exact. Beyond, it is as exact
      as the r directions are right. Taking eigenvalue r + 1, rather than the derivative along a
      direction found before, keeps a slight error of the r directions from looking like one more.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    estimator : EJOP or EGOP, optional
        By default ``EJOP()`` for class labels and ``EGOP()`` for real targets. Its function must
        take row weights, for the bootstrap.
    max_components : int, optional
        Directions looked at; all up to 10 by default.
    cv : int, default=5
        Folds.
    n_bootstrap : int, default=50
    n_permutations : int, default=99
    level : float, default=0.05
        Of the test; bands hold 1 - level.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    found : SubspaceTest

    Examples
    --------
    >>> from ejop.datasets import make_multi_index
    >>> from ejop.theory import subspace_test
    >>> X, y, _ = make_multi_index(400, 5, n_directions=1, n_classes=2, random_state=0)
    >>> found = subspace_test(X, y, n_bootstrap=10, n_permutations=39, random_state=1)
    >>> found.gap, found.cv_dimension, found.test_dimension
    (1, 1, 1)
    """
    rng = check_random_state(random_state)
    estimator = _default_estimator(estimator, y, rng)
    full = clone(estimator).fit(X, y)
    rows, Y = full.function_.X_, full.function_.Y_
    y, d = np.asarray(y), rows.shape[1]
    r = min(d, 10) if max_components is None else max_components
    if not 1 <= r <= d:
        raise ValueError(f"`max_components`={r} must lie between 1 and the {d} features.")
    losses, stderr, best = _cross_validate(estimator, rows, y, Y, r, cv, rng)
    values, angles = _bootstrap(full, rows, y, r, n_bootstrap, rng)
    ends = [100 * level / 2, 100 * (1 - level / 2)]
    low, high = np.percentile(values, ends, axis=0)
    p_values = tail_tests(estimator, rows, y, r, n_permutations, rng)
    passed = p_values <= level
    return SubspaceTest(
        eigenvalues=full.eigenvalues_,
        low=low,
        high=high,
        gap=spectral_gap(full.eigenvalues_),
        losses=losses,
        losses_stderr=stderr,
        cv_dimension=best,
        angles=np.median(angles, axis=0),
        angles_high=np.percentile(angles, 100 * (1 - level), axis=0),
        p_values=p_values,
        test_dimension=r if passed.all() else int(np.argmin(passed)),
        level=level,
    )


@computing
def direction_test(
    X: ArrayLike,
    y: ArrayLike,
    directions: ArrayLike,
    *,
    estimator: Any = None,
    adjust: bool = True,
    n_permutations: int = 99,
    random_state: Any = None,
) -> DirectionTest:
    r"""Permutation test of "this direction carries nothing", for directions fixed beforehand.

    The statistic is v^T M_n v. Write x = u + s v with u orthogonal to v. The null is that y and s
    are independent given u: nothing is learnt from a move along v. Under the null, and where s is
    independent of u, shuffling s among the rows while u and y stay leaves the distribution as it
    is, and the test is exact for every sample size. Correlated inputs break this. With ``adjust``
    the linear part of s given u is fitted by least squares and kept, and the residuals are
    shuffled: right where s given u is linear with independent errors, as for normal inputs, up to
    the error of the fit; an approximation elsewhere.

    Settings that the estimator would choose from labels would spoil the level. Unless all are
    given as numbers, half of the rows choose them and take no further part. Directions must not
    come from the rows that are tested: find them on other rows.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    directions : array-like of shape (n_features,) or (n_features, n_directions)
    estimator : EJOP or EGOP, optional
    adjust : bool, default=True
    n_permutations : int, default=99
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    test : DirectionTest

    Examples
    --------
    >>> import numpy as np
    >>> from ejop import EJOP
    >>> from ejop.theory import direction_test
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(150, 3))
    >>> y = X[:, 0] > 0
    >>> fixed = EJOP(bandwidth=1.0)
    >>> test = direction_test(X, y, np.eye(3), estimator=fixed, n_permutations=19, random_state=0)
    >>> bool(test.p_values[0] == 0.05), bool((test.p_values[1:] > 0.05).all())
    (True, True)
    """
    rng = check_random_state(random_state)
    estimator = _default_estimator(estimator, y, rng)
    X, y = np.asarray(X, dtype=float), np.asarray(y)
    V = np.asarray(directions, dtype=float)
    V = V[:, None] if V.ndim == 1 else V
    lengths = np.linalg.norm(V, axis=0)
    if V.shape[0] != X.shape[1] or not (lengths > 0).all():
        raise ValueError(
            f"`directions` has shape {V.shape}; ({X.shape[1]}, n_directions) without zero columns "
            "was expected."
        )
    V = V / lengths
    spans = [v[:, None] for v in V.T]
    return DirectionTest(V, *_tested(estimator, X, y, spans, n_permutations, rng, adjust))


@computing
def column_test(
    X: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    estimator: Any = None,
    adjust: bool = True,
    n_permutations: int = 99,
    random_state: Any = None,
) -> ColumnTest:
    """Permutation test of "this column carries nothing", for each column.

    It is :func:`direction_test` along each axis. Features that were prepared from one column, as
    the levels of a category, are shuffled together; the statistic is the sum of their mean squared
    derivatives. It takes ``n_permutations`` fits a column, on half of the rows unless all settings
    of the estimator are given as numbers.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    groups : array-like of int, shape (n_features,), optional
        Column of each feature; each feature is a column by default.
    estimator : EJOP or EGOP, optional
    adjust : bool, default=True
        Keep the linear part of a column given the others, see :func:`direction_test`.
    n_permutations : int, default=99
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    test : ColumnTest

    Examples
    --------
    >>> import numpy as np
    >>> from ejop import EJOP
    >>> from ejop.theory import column_test
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(150, 3))
    >>> fixed = EJOP(bandwidth=1.0)
    >>> test = column_test(X, X[:, 0] > 0, estimator=fixed, n_permutations=19, random_state=0)
    >>> bool(test.p_values[0] == 0.05), bool((test.p_values[1:] > 0.05).all())
    (True, True)
    """
    rng = check_random_state(random_state)
    estimator = _default_estimator(estimator, y, rng)
    X, y = np.asarray(X, dtype=float), np.asarray(y)
    numbers = np.arange(X.shape[1]) if groups is None else np.asarray(groups)
    if numbers.shape != (X.shape[1],):
        raise ValueError(
            f"`groups` has shape {numbers.shape}; the column of each of the {X.shape[1]} features "
            "was expected."
        )
    columns, axes = np.unique(numbers), np.eye(X.shape[1])
    spans = [axes[:, numbers == column] for column in columns]
    return ColumnTest(columns, *_tested(estimator, X, y, spans, n_permutations, rng, adjust))


def _tested(
    estimator: Any,
    X: NDArray,
    y: NDArray,
    spans: list[NDArray],
    n_permutations: int,
    rng: Any,
    adjust: bool,
) -> tuple[NDArray, NDArray, NDArray]:
    """Statistics (n_spans,), the same after shuffling (n_permutations, n_spans), and p-values."""
    if "auto" in _settings(estimator):
        chooser, X, y = _halves(estimator, X, y, rng)
        estimator = settled(clone(estimator).fit(*chooser))
    parts = [
        _shuffle(estimator, X, y, W, partial(_energy, W), n_permutations, rng, adjust)
        for W in spans
    ]
    observed = np.array([statistic for statistic, _ in parts])
    permuted = np.column_stack([values for _, values in parts])
    return observed, permuted, _p_values(observed, permuted)


def settled(fitted: OuterProductEstimator) -> OuterProductEstimator:
    """The same estimator, not fitted, with bandwidth, penalty and step as they were chosen."""
    copy = clone(fitted)
    if isinstance(copy.function, str) or hasattr(copy.function, "differences"):
        function = clone(fitted.function_).set_params(**chosen_settings(fitted.function_))
        copy.set_params(function=function, bandwidth="auto")
    return copy if fitted.step_ is None else copy.set_params(step=fitted.step_)


def _settings(estimator: Any) -> list[Any]:
    """Values of the settings in use that may be chosen from labels or rows."""
    function = OuterProductEstimator.make_function(estimator)
    known = function.get_params(deep=False)
    values = [known[name] for name in ("bandwidth", "penalty") if name in known]
    return [value for value in values if isinstance(value, str)]


def _default_estimator(estimator: Any, y: ArrayLike, rng: np.random.RandomState) -> Any:
    if estimator is None:
        classes = type_of_target(y) in ("binary", "multiclass")
        return (EJOP if classes else EGOP)(random_state=rng.randint(2**31))
    if not isinstance(estimator, OuterProductEstimator):
        raise TypeError(f"`estimator` must be EJOP or EGOP, got {estimator!r}.")
    return estimator


def _halves(
    estimator: Any, X: NDArray, y: NDArray, rng: Any
) -> tuple[tuple[NDArray, NDArray], NDArray, NDArray]:
    """One half of the rows, and X and y of the other; classes are shared evenly."""
    strata = _strata(estimator, y, 2)
    A, B = train_test_split(np.arange(len(X)), test_size=0.5, stratify=strata, random_state=rng)
    return (X[A], y[A]), X[B], y[B]


def _strata(estimator: Any, y: NDArray, at_least: int) -> NDArray | None:
    """Labels to share evenly; None for real targets and where a class has too few rows."""
    if not isinstance(estimator, EJOP):
        return None
    return y if np.unique(y, return_counts=True)[1].min() >= at_least else None


def _cross_validate(
    estimator: Any, X: NDArray, y: NDArray, Y: NDArray, r: int, cv: int, rng: Any
) -> tuple[NDArray, NDArray, int]:
    """Mean loss with 0 to r directions, standard errors of the differences to the best, choice."""
    strata = _strata(estimator, y, cv)
    folds = KFold if strata is None else StratifiedKFold
    one_hot = one_hot_labels(Y) is not None
    losses = np.empty((r + 1, len(X)))
    for train, held in folds(cv, shuffle=True, random_state=rng).split(X, strata):
        V = clone(estimator).fit(X[train], y[train]).eigenvectors_
        prior = Y[train].mean(0)
        for k in range(r + 1):
            f = np.tile(prior, (len(held), 1))
            if k:
                smoother = KernelSmoother(random_state=0).fit(X[train] @ V[:, :k], Y[train])
                f = smoother.predict(X[held] @ V[:, :k])
            # the floor is the share in all rows: a rare class may be missing from a fold
            losses[k, held] = pointwise_loss(f, Y[held], Y.mean(0), one_hot=one_hot)
    means = losses.mean(1)
    excess = losses - losses[means.argmin()]
    stderr = excess.std(1, ddof=1) / np.sqrt(len(X))
    fewest_last = widest_within_one_error(np.arange(r + 1), losses[::-1], np.ones(len(X)))
    return means, stderr, r - fewest_last


def _bootstrap(
    full: Any, X: NDArray, y: NDArray, r: int, n_bootstrap: int, rng: Any
) -> tuple[NDArray, NDArray]:
    """Eigenvalues (B, d), and sines of the angles to the first 1 to r directions, (B, r)."""
    estimator, n = settled(full), len(X)
    values, angles = np.empty((n_bootstrap, X.shape[1])), np.empty((n_bootstrap, r))
    for b in range(n_bootstrap):
        counts = rng.multinomial(n, np.full(n, 1 / n)).astype(float)
        again = clone(estimator).fit(X, y, sample_weight=counts)
        values[b] = again.eigenvalues_
        for k in range(1, r + 1):
            angles[b, k - 1] = sin_theta(again.eigenvectors_[:, :k], full.eigenvectors_[:, :k])
    return values, angles


def tail_tests(
    estimator: Any,
    X: NDArray,
    y: NDArray,
    n_tests: int,
    n_permutations: int,
    rng: Any,
    first: int = 0,
) -> NDArray:
    """Directions and settings from one half of the rows, tests of what is beyond on the other.

    Tests before ``first`` are left out and have NaN.
    """
    finder, X_test, y_test = _halves(estimator, X, y, rng)
    found = clone(estimator).fit(*finder)
    fixed, V, p_values = settled(found), found.eigenvectors_, np.full(n_tests, np.nan)
    for r in range(first, n_tests):
        observed, permuted = _shuffle(
            fixed, X_test, y_test, V[:, r:], partial(_eigenvalue, r), n_permutations, rng, True
        )
        p_values[r] = _p_values(observed, permuted)
    return p_values


def _shuffle(
    estimator: Any,
    X: NDArray,
    y: NDArray,
    W: NDArray,
    statistic: Callable[[NDArray], float],
    n_permutations: int,
    rng: Any,
    adjust: bool,
) -> tuple[float, NDArray]:
    """A statistic of the matrix, and the same after shuffling the part of the rows in the span of
    W, which has orthonormal columns."""
    along = X @ W
    across = X - along @ W.T
    design = np.c_[np.ones(len(X)), across] if adjust else np.ones((len(X), 1))
    linear = design @ np.linalg.lstsq(design, along, rcond=None)[0]
    kept, residual = across + linear @ W.T, along - linear

    def of(rows: NDArray) -> float:
        return statistic(clone(estimator).fit(rows, y).outer_product_)

    orders = (rng.permutation(len(X)) for _ in range(n_permutations))
    return of(X), np.array([of(kept + residual[order] @ W.T) for order in orders])


def _energy(W: NDArray, M: NDArray) -> float:
    """Sum of the mean squared derivatives along the columns of W."""
    return float(np.trace(W.T @ M @ W))


def _eigenvalue(r: int, M: NDArray) -> float:
    """Eigenvalue r + 1, counted from the largest."""
    return float(np.linalg.eigvalsh(M)[-1 - r])


def _p_values(observed: ArrayLike, permuted: NDArray) -> NDArray:
    return (1 + (permuted >= observed).sum(0)) / (1 + len(permuted))
