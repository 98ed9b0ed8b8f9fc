import numpy as np
import pytest

from ejop.metric import components, eigh_descending, pair_distances, rank
from ejop.subspace import sin_theta, spectral_gap


@pytest.fixture
def M(rng):
    A = rng.normal(size=(5, 5))
    return A @ A.T


def test_eigenvectors_rebuild_the_matrix_with_fixed_signs(M):
    values, vectors = eigh_descending(M)
    assert (np.diff(values) <= 0).all()
    np.testing.assert_allclose(vectors * values @ vectors.T, M, atol=1e-12)
    largest = vectors[np.abs(vectors).argmax(0), np.arange(5)]
    assert (largest > 0).all()


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
@pytest.mark.parametrize("r", [None, 2])
def test_components_span_the_metric_after_power_shrinkage_and_rank(M, power, shrinkage, r):
    values, vectors = eigh_descending(M)
    L = components(values, vectors, power=power, shrinkage=shrinkage, n_components=r)
    spectrum = values**power
    spectrum = spectrum + shrinkage * spectrum.mean()
    kept = r or 5
    expected = (vectors[:, :kept] * spectrum[:kept]) @ vectors[:, :kept].T
    expected *= 5 / np.trace(expected)
    np.testing.assert_allclose(L.T @ L, expected, atol=1e-12)
    assert np.trace(L.T @ L) == pytest.approx(5)


def test_a_zero_matrix_prefers_no_direction():
    L = components(*eigh_descending(np.zeros((3, 3))))
    np.testing.assert_allclose(L.T @ L, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e200])
def test_components_do_not_depend_on_the_scale_of_the_matrix(M, scale):
    one = components(*eigh_descending(M), power=0.5)
    other = components(*eigh_descending(M * scale), power=0.5)
    np.testing.assert_allclose(other, one, rtol=1e-6)


def test_rank_takes_counts_shares_and_gaps():
    values = np.array([8.0, 1.0, 0.9, 0.1])
    assert rank(values, 0.8) == 1
    assert rank(values, 0.81) == 2
    assert rank(values, 0.99) == 3
    assert rank(values, "gap") == 1
    assert rank(values, 4) == 4
    with pytest.raises(ValueError, match="`n_components`=5 must lie between 1 and"):
        rank(values, 5)
    with pytest.raises(ValueError, match="'gaps' is not known"):
        rank(values, "gaps")
    with pytest.raises(ValueError, match="neither a count, a share"):
        rank(values, 1.5)


def test_subspace_angles():
    eye = np.eye(4)
    assert sin_theta(eye[:, :2], eye[:, [1, 0]]) == pytest.approx(0)
    assert sin_theta(eye[:, :2], eye[:, 2:]) == pytest.approx(1)
    tilted = np.cos(0.3) * eye[:, :1] + np.sin(0.3) * eye[:, 1:2]
    assert sin_theta(eye[:, :1], tilted) == pytest.approx(np.sin(0.3))
    assert spectral_gap(np.zeros(3)) == 3


def test_pair_distances(rng):
    L, pairs = rng.normal(size=(2, 3)), rng.normal(size=(6, 2, 3))
    expected = [np.sqrt((a - b) @ L.T @ L @ (a - b)) for a, b in pairs]
    np.testing.assert_allclose(pair_distances(L, pairs), expected)
    with pytest.raises(ValueError, match=r"`pairs` has shape \(6, 3\); \(n_pairs, 2, 3\)"):
        pair_distances(L, pairs[:, 0])
