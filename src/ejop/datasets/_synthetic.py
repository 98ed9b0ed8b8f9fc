"""Multi-index models: class probabilities that depend on X through a few directions alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ejop.quotients import softmax


@dataclass(frozen=True)
class MultiIndex:
    r"""The model f(x) = softmax(sharpness * g(V^T x)) on standard normal x, with known V and M.

    Class k sits at angle 2 pi k / c of a circle in the first two index directions (on a line for
    one), bent by a sine so that the regions are not half-spaces:
    g_k(z) = <u_k, z> + sin(2 z_1) sin(phase_k) / 2.

    Attributes
    ----------
    V : ndarray of shape (n_features, n_directions)
        Orthonormal index directions.
    directions : ndarray of shape (n_classes, n_directions)
        u_k.
    phases : ndarray of shape (n_classes,)
    sharpness : float
    """

    V: NDArray
    directions: NDArray
    phases: NDArray
    sharpness: float

    def probabilities(self, X: NDArray) -> NDArray:
        """f(x), shape (n_samples, n_classes)."""
        z = X @ self.V
        bend = 0.5 * np.sin(2 * z[:, :1]) * np.sin(self.phases)
        return softmax(self.sharpness * (z @ self.directions.T + bend))

    def jacobian(self, X: NDArray) -> NDArray:
        """Jacobian of f, shape (n_samples, n_classes, n_features)."""
        z = X @ self.V
        G = np.tile(self.directions, (len(X), 1, 1))
        G[:, :, 0] += np.cos(2 * z[:, :1]) * np.sin(self.phases)
        G *= self.sharpness
        p = self.probabilities(X)
        mean = np.einsum("mc,mcr->mr", p, G)
        return p[:, :, None] * (G - mean[:, None, :]) @ self.V.T

    def metric(self, n_samples: int = 200_000, random_state: Any = 0) -> NDArray:
        """True M = E[J^T J], by Monte Carlo over the index alone, shape (n_features,
        n_features)."""
        flat, z = self._index(n_samples, random_state)
        J = flat.jacobian(z).reshape(-1, z.shape[1])
        return self.V @ (J.T @ J / n_samples) @ self.V.T

    def bayes_error(self, n_samples: int = 200_000, random_state: Any = 0) -> float:
        """Error of the best rule there is, 1 - E[max_k f_k(x)], by Monte Carlo over the index."""
        flat, z = self._index(n_samples, random_state)
        return float(1 - flat.probabilities(z).max(1).mean())

    def _index(self, n_samples: int, random_state: Any) -> tuple[MultiIndex, NDArray]:
        """The model as a function of z = V^T x alone, and draws of z."""
        z = check_random_state(random_state).normal(size=(n_samples, self.V.shape[1]))
        return MultiIndex(np.eye(z.shape[1]), self.directions, self.phases, self.sharpness), z


def make_multi_index(
    n_samples: int = 1000,
    n_features: int = 20,
    *,
    n_directions: int = 2,
    n_classes: int = 3,
    sharpness: float = 3.0,
    random_state: Any = None,
) -> tuple[NDArray, NDArray, MultiIndex]:
    """Draw labelled rows of a multi-index model.

    Parameters
    ----------
    n_samples, n_features : int
    n_directions : int, default=2
        Dimension of the subspace that matters.
    n_classes : int, default=3
    sharpness : float, default=3.0
        How quickly probabilities change between classes.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
    model : MultiIndex
        With ``V``, ``probabilities``, ``jacobian``, ``metric`` and ``bayes_error``.

    Examples
    --------
    >>> from ejop.datasets import make_multi_index
    >>> X, y, model = make_multi_index(500, 10, random_state=0)
    >>> X.shape, model.V.shape, sorted(set(y.tolist()))
    ((500, 10), (10, 2), [0, 1, 2])
    """
    if not 1 <= n_directions <= n_features:
        raise ValueError(
            f"`n_directions`={n_directions} must lie between 1 and `n_features`={n_features}."
        )
    rng = check_random_state(random_state)
    V = np.linalg.qr(rng.normal(size=(n_features, n_directions)))[0]
    phases = 2 * np.pi * np.arange(n_classes) / n_classes
    if n_directions == 1:
        directions = np.linspace(-1, 1, n_classes)[:, None]
    else:
        directions = np.zeros((n_classes, n_directions))
        directions[:, 0], directions[:, 1] = np.cos(phases), np.sin(phases)
        directions[:, 2:] = rng.normal(size=(n_classes, n_directions - 2))
    model = MultiIndex(V, directions, phases, float(sharpness))
    X = rng.normal(size=(n_samples, n_features))
    cumulative = model.probabilities(X).cumsum(1)
    y = (rng.uniform(size=(n_samples, 1)) > cumulative[:, :-1]).sum(1)
    return X, y, model
