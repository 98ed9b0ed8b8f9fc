import numpy as np
import pytest
from sklearn.metrics.pairwise import euclidean_distances

import reference
from ejop.choice import (
    choose_bandwidth,
    choose_ridge,
    left_out_losses,
    median_nearest_distance,
    pointwise_loss,
    widest_within_one_error,
)
from ejop.functions import KernelSmoother


@pytest.fixture
def data(rng):
    X = rng.normal(size=(120, 3))
    return X, np.eye(2)[(X[:, 0] + 0.3 * rng.normal(size=120) > 0).astype(int)]


def test_median_nearest_distance_ignores_copies(rng):
    X = rng.normal(size=(50, 3))
    D = euclidean_distances(X)
    np.fill_diagonal(D, np.inf)
    expected = np.median(D.min(1))
    assert median_nearest_distance(X, np.arange(50)) == pytest.approx(expected)
    twice = np.vstack([X, X])
    assert median_nearest_distance(twice, np.arange(100)) == pytest.approx(expected)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace", "boxcar", "tricube"])
def test_bandwidth_follows_its_rule(data, kernel):
    """Recompute the rule with the slow smoother."""
    X, Y = data
    unit = median_nearest_distance(X, np.arange(120))
    low, high = {"gaussian": (-3, 2), "laplace": (-5, 3)}.get(kernel, (-0.5, 3))
    grid = unit * 2.0 ** np.arange(low, high + 0.01, 0.25)
    losses = np.array(
        [
            [
                -np.log(
                    0.99 * reference.smoother(X[i], X, Y, h, kernel, i) @ Y[i]
                    + 0.01 * Y.mean(0) @ Y[i]
                )
                for i in range(120)
            ]
            for h in grid
        ]
    )
    best = losses.mean(1).argmin()
    excess = losses - losses[best]
    shares = Y.mean(0)
    constant = -(shares * np.log(shares)).sum()
    allowed = excess.mean(1) <= np.maximum(excess.std(1) / np.sqrt(120), 1e-3 * constant)
    assert choose_bandwidth(X, Y, kernel=kernel) == pytest.approx(1.3 * grid[allowed].max())


def test_bandwidth_sees_weights_as_copies(data):
    X, Y = data
    w = np.random.default_rng(1).integers(1, 3, 120).astype(float)
    one = choose_bandwidth(X, Y, sample_weight=w)
    assert one == choose_bandwidth(X, Y, sample_weight=2 * w)


def test_one_standard_error_rule():
    grid = np.array([1.0, 2.0, 3.0, 4.0])
    losses = np.array([[1.0, 1.0], [0.0, 0.1], [-0.2, 0.4], [5.0, 5.0]])
    assert widest_within_one_error(grid, losses, np.ones(2)) == 2
    losses[2] = [0.1, 0.2]  # worse on every row alike
    assert widest_within_one_error(grid, losses, np.ones(2)) == 1
    assert widest_within_one_error(grid, losses, np.ones(2), floor=0.2) == 2


def test_loss_is_log_loss_or_squared_error():
    f, Y = np.array([[0.2, 0.8]]), np.array([[0.0, 1.0]])
    prior = np.array([0.5, 0.5])
    assert pointwise_loss(f, Y, prior, one_hot=True)[0] == pytest.approx(-np.log(0.797))
    assert pointwise_loss(f, Y, prior, one_hot=False)[0] == pytest.approx(0.08)


@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_losses_equal_refits(data, rng, weighted):
    X, Y = data[0][:30], data[1][:30]
    w = rng.uniform(0.5, 2, 30) if weighted else np.ones(30)
    S = np.sqrt(w)
    K = np.exp(-euclidean_distances(X, squared=True) / 2)
    target = S[:, None] * (Y - w @ Y / w.sum())
    losses = left_out_losses(S[:, None] * K * S, np.array([0.01, 1.0]), target)
    for penalty, loss in zip([0.01, 1.0], losses, strict=True):
        residuals = [
            Y[i] - reference.ridge_machine(X, Y, 1.0, penalty, leave=i, w=w)(X[i])
            for i in range(30)
        ]
        assert loss == pytest.approx(sum(wi * r @ r for wi, r in zip(w, residuals, strict=True)))


def test_ridge_choice_keeps_what_was_given(data):
    X, Y = data
    assert choose_ridge(X, Y, bandwidth=1.5)[0] == 1.5
    assert choose_ridge(X, Y, penalty=0.3)[1] == 0.3
    h, penalty = choose_ridge(X, Y)
    assert h > 0
    assert penalty > 0


def test_large_data_use_a_random_sample_that_the_seed_fixes(rng):
    X = rng.normal(size=(3000, 2))
    Y = np.eye(2)[(X[:, 0] > 0).astype(int)]
    chosen = {KernelSmoother(random_state=0).fit(X, Y).bandwidth_ for _ in range(3)}
    assert len(chosen) == 1


def test_the_penalty_is_that_of_the_widened_bandwidth(rng):
    X = rng.normal(size=(300, 8))
    Y = np.eye(3)[(X[:, 0] + 0.5 * rng.normal(size=300) > 0) + (X[:, 1] > 1).astype(int)]
    narrow, narrow_penalty = choose_ridge(X, Y, widening=1.0)
    wide, penalty = choose_ridge(X, Y, widening=4.0)
    assert wide == pytest.approx(4 * narrow)
    assert (wide, penalty) == choose_ridge(X, Y, bandwidth=wide)
    assert penalty != narrow_penalty
