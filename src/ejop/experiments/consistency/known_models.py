"""Synthetic models f(x) = g(V^T x) with known V and M, for every kind of input and link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ejop.datasets import MultiIndex
from ejop.quotients import softmax, softmax_chain

#: rows of the Monte Carlo sums for the true matrix, in blocks
TRUTH_ROWS, TRUTH_BLOCK = 400_000, 20_000
#: half the side of the cube of variance 1
HALF = np.sqrt(3.0)


class Link(Protocol):
    """Class probabilities as a function of the index z = V^T x."""

    def probabilities(self, X: NDArray, /) -> NDArray:
        """Rows (m, r) to (m, c)."""

    def jacobian(self, X: NDArray, /) -> NDArray:
        """Rows (m, r) to (m, c, r)."""


@dataclass(frozen=True)
class Logits:
    """Softmax of logits that are given with their slopes."""

    values: Callable[[NDArray], NDArray]
    slopes: Callable[[NDArray], NDArray]

    def probabilities(self, z: NDArray, /) -> NDArray:
        """Rows (m, r) to (m, c)."""
        return softmax(self.values(z))

    def jacobian(self, z: NDArray, /) -> NDArray:
        """Rows (m, r) to (m, c, r)."""
        return softmax_chain(self.values(z), self.slopes(z))


@dataclass(frozen=True, eq=False)
class KnownModel:
    """Class probabilities f(x) = (1 - noise) g(V^T x) + noise / c.

    Attributes
    ----------
    name, what : str
    link : Link
        g.
    V : ndarray of shape (n_features, n_directions)
        Orthonormal.
    n_classes : int
    inputs : {"normal", "correlated", "skewed", "cube"}
        Independent standard normal; normal with correlation 0.6^|i - j|; independent exponential
        less 1; uniform on the cube of variance 1.
    noise : float
        Share of labels drawn at random.
    symmetric : bool
        Whether g(-z) = g(z), so that class means tell nothing.
    """

    name: str
    what: str
    link: Link
    V: NDArray
    n_classes: int
    inputs: str = "normal"
    noise: float = 0.0
    symmetric: bool = False

    @property
    def n_features(self) -> int:
        """Rows of V."""
        return self.V.shape[0]

    @property
    def rank(self) -> int:
        """Columns of V."""
        return self.V.shape[1]

    @property
    def support(self) -> tuple[float, float] | None:
        """Lower and upper end of the inputs along each axis where these are bounded."""
        return (-HALF, HALF) if self.inputs == "cube" else None

    def probabilities(self, X: NDArray) -> NDArray:
        """f(x), shape (n_samples, n_classes)."""
        clean = self.link.probabilities(X @ self.V)
        return (1 - self.noise) * clean + self.noise / self.n_classes

    def jacobian(self, X: NDArray) -> NDArray:
        """Jacobian of f, shape (n_samples, n_classes, n_features)."""
        return (1 - self.noise) * self.link.jacobian(X @ self.V) @ self.V.T

    def rows(self, n: int, rng: np.random.Generator) -> NDArray:
        """Inputs, shape (n, n_features)."""
        d = self.n_features
        if self.inputs == "cube":
            return rng.uniform(-HALF, HALF, size=(n, d))
        if self.inputs == "skewed":
            return rng.exponential(size=(n, d)) - 1
        X = rng.normal(size=(n, d))
        return X @ _correlation_root(d).T if self.inputs == "correlated" else X

    def draw(self, n: int, seed: int) -> tuple[NDArray, NDArray]:
        """Labelled rows: X of shape (n, n_features) and y of shape (n,)."""
        rng = np.random.default_rng([seed, n])
        X = self.rows(n, rng)
        cumulative = self.probabilities(X).cumsum(1)
        return X, (rng.uniform(size=(n, 1)) > cumulative[:, :-1]).sum(1)

    def metric(self) -> NDArray:
        """True M = E[J J^T], shape (n_features, n_features), by Monte Carlo over the index."""
        return self.V @ _middle(self) @ self.V.T

    def smallest(self) -> float:
        """Smallest eigenvalue of E[grad g grad g^T]."""
        return float(np.linalg.eigvalsh(_middle(self))[0])


@cache
def _middle(model: KnownModel) -> NDArray:
    """E[grad g grad g^T], shape (n_directions, n_directions)."""
    rng, total = np.random.default_rng(0), np.zeros((model.rank, model.rank))
    for _ in range(TRUTH_ROWS // TRUTH_BLOCK):
        J = model.link.jacobian(model.rows(TRUTH_BLOCK, rng) @ model.V)
        rows = (1 - model.noise) * J.reshape(-1, model.rank)
        total += rows.T @ rows
    return total / TRUTH_ROWS


@cache
def _correlation_root(d: int) -> NDArray:
    order = np.arange(d)
    return np.linalg.cholesky(0.6 ** np.abs(order[:, None] - order))


def _orthonormal(d: int, r: int) -> NDArray:
    return np.linalg.qr(np.random.default_rng([d, r]).normal(size=(d, r)))[0]


def _shaped(weights: NDArray, shapes: Callable, slopes: Callable) -> Logits:
    """Logits W s(z) from shapes s (m, q) with slopes (m, q, r) and weights W (c, q)."""
    return Logits(
        lambda z: shapes(z) @ weights.T,
        lambda z: np.einsum("cq,mqr->mcr", weights, slopes(z)),
    )


def _each(slopes: NDArray) -> NDArray:
    """Slopes of shapes of one coordinate each: (m, r) to (m, r, r) with these on the diagonal."""
    return slopes[:, :, None] * np.eye(slopes.shape[1])


def _multi_index(c: int) -> MultiIndex:
    angles = 2 * np.pi * np.arange(c) / c
    return MultiIndex(np.eye(2), np.c_[np.cos(angles), np.sin(angles)], angles, 3.0)


def _links() -> dict[str, Link]:
    two, three = np.array([[1.0], [0.0]]), np.array([[1.0], [0.0], [-1.0]])
    circle = np.array([[1.0, 0], [0, 1], [-1, 0], [0, -1]])
    mixed = np.array([[1.5, 1.0, 0.0], [-1.5, 0.0, 1.5], [0.0, -1.0, -1.5]])
    return {
        "logistic": _shaped(3 * two, lambda z: z, lambda z: _each(np.ones_like(z))),
        "square": _shaped(2 * three, lambda z: z**2 - 1, lambda z: _each(2 * z)),
        "wave": _shaped(
            3 * three, lambda z: np.cos(2.5 * z), lambda z: _each(-2.5 * np.sin(2.5 * z))
        ),
        "xor": _shaped(3 * two, lambda z: z[:, :1] * z[:, 1:], lambda z: z[:, None, ::-1]),
        "petals": _shaped(
            2 * circle,
            lambda z: np.c_[z[:, 0] ** 2 - z[:, 1] ** 2, 2 * z[:, 0] * z[:, 1]],
            lambda z: 2 * np.stack([z * [1, -1], z[:, ::-1]], 1),
        ),
        "additive": _shaped(
            mixed,
            lambda z: np.c_[np.sin(1.5 * z[:, 0]), z[:, 1] ** 2 - 1, z[:, 2]],
            lambda z: _each(np.c_[1.5 * np.cos(1.5 * z[:, 0]), 2 * z[:, 1], np.ones(len(z))]),
        ),
        "circle-3": _multi_index(3),
        "circle-10": _multi_index(10),
    }


@cache
def suite() -> dict[str, KnownModel]:
    """All models by name.

    Examples
    --------
    >>> from ejop.experiments.consistency.known_models import suite
    >>> suite()["xor"].V.shape
    (5, 2)
    """
    g, V = _links(), _orthonormal
    models = [
        KnownModel("single-index", "one direction, logistic", g["logistic"], V(5, 1), 2),
        KnownModel("two-index", "two directions, bent sectors", g["circle-3"], V(10, 2), 3),
        KnownModel("square", "one direction, even", g["square"], V(5, 1), 3, symmetric=True),
        KnownModel("wave", "one direction, even, waves", g["wave"], V(5, 1), 3, symmetric=True),
        KnownModel("xor", "product of two directions", g["xor"], V(5, 2), 2, symmetric=True),
        KnownModel("petals", "two directions, even", g["petals"], V(5, 2), 4, symmetric=True),
        KnownModel("additive", "sum over three directions", g["additive"], V(10, 3), 3),
        KnownModel("correlated", "two-index", g["circle-3"], V(10, 2), 3, "correlated"),
        KnownModel("skewed", "two-index", g["circle-3"], V(10, 2), 3, "skewed"),
        KnownModel("noisy", "two-index, 30 % random labels", g["circle-3"], V(10, 2), 3, noise=0.3),
        KnownModel("ten-classes", "two directions, ten sectors", g["circle-10"], V(20, 2), 10),
        KnownModel("wide", "two-index among fifty", g["circle-3"], V(50, 2), 3),
        KnownModel("cube", "one direction, logistic", g["logistic"], V(2, 1), 2, "cube"),
    ]
    return {model.name: model for model in models}
