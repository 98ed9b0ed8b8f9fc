"""The theory's promise: the leading eigenvectors recover V when f(x) = g(V^T x)."""

import numpy as np
import pytest

from ejop import EJOP
from ejop.datasets import make_multi_index
from ejop.functions import KernelSmoother, RidgeFunction
from ejop.subspace import sin_theta

SIZES = (500, 2000, 8000)


def fits(function, n, **parameters):
    for seed in range(2):
        X, y, model = make_multi_index(n, 20, random_state=seed)
        f = RidgeFunction(max_rows=3000, random_state=0) if function == "ridge" else function
        fitted = EJOP(f, n_queries=500, random_state=0, **parameters).fit(X, y)
        yield fitted, model


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        ("kernel", SIZES),
        ("ridge", (200, 500, 1200)),
        pytest.param("ridge", SIZES, marks=pytest.mark.slow),
    ],
)
def test_subspace_is_recovered_as_rows_grow(function, sizes):
    angles = [
        np.mean([sin_theta(f.eigenvectors_[:, :2], m.V) for f, m in fits(function, n)])
        for n in sizes
    ]
    assert angles[0] > angles[1] > angles[2]
    assert angles[2] < 0.2


def test_the_other_eigenvalues_shrink():
    """At a fixed bandwidth; the automatic one narrows with n, trading this noise for less bias."""
    tails = []
    for n in SIZES:
        values = [f.eigenvalues_ for f, _ in fits("kernel", n, bandwidth=1.6)]
        tails.append(np.mean([v[2:].mean() / v[:2].mean() for v in values]))
    assert tails[0] > 2 * tails[1] > 4 * tails[2]


def test_gap_finds_the_dimension():
    X, y, model = make_multi_index(2000, 10, random_state=1)
    fitted = EJOP("ridge", n_components="gap", random_state=0).fit(X, y)
    assert fitted.components_.shape == (2, 10)
    assert sin_theta(fitted.components_.T, model.V) < 0.2


def test_model_jacobian_and_metric_are_right():
    X, y, model = make_multi_index(400, 6, n_classes=4, random_state=0)
    t, eye = 1e-5, np.eye(6)
    for j in range(6):
        f = model.probabilities
        numeric = (f(X + t * eye[j]) - f(X - t * eye[j])) / (2 * t)
        np.testing.assert_allclose(model.jacobian(X)[:, :, j], numeric, atol=1e-8)
    J = model.jacobian(np.random.default_rng(1).normal(size=(200_000, 6))).reshape(-1, 6)
    np.testing.assert_allclose(model.metric(), J.T @ J / 200_000, atol=0.02)
    shares = np.array([(y == k).mean() for k in range(4)])
    np.testing.assert_allclose(shares, model.probabilities(X).mean(0), atol=0.08)


@pytest.mark.parametrize(
    "function",
    [KernelSmoother(bandwidth=0.3), RidgeFunction(bandwidth=2.0, penalty=0.1)],
    ids=["kernel", "ridge"],
)
def test_estimate_approaches_the_true_matrix(function):
    """Without the softmax of the estimate, M_n estimates E[J J^T] of the probabilities."""
    errors = []
    for n in (300, 4000):
        X, y, model = make_multi_index(n, 2, sharpness=1.0, random_state=0)
        fitted = EJOP(
            function,
            softmax=False,
            step="analytic",
            n_queries=1000,
            random_state=0,
        )
        M, truth = fitted.fit(X, y).outer_product_, model.metric()
        errors.append(np.linalg.norm(M - truth, 2) / np.linalg.norm(truth, 2))
    assert errors[1] < 0.5 * errors[0]
    assert errors[1] < 0.2
