"""The theory: assumptions, bounds, rates, perturbation lemmas and tests of dimension."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from scipy.stats import binom
from sklearn.utils import check_random_state

from ejop import EGOP, EJOP
from ejop.datasets import make_multi_index
from ejop.executors.expectation import jacobian
from ejop.experiments.consistency.known_models import KnownModel, Logits, suite
from ejop.experiments.consistency.runs import paper_constants
from ejop.functions import KernelSmoother, RidgeFunction
from ejop.metric import eigh_descending
from ejop.quotients import mass_threshold
from ejop.subspace import sin_theta
from ejop.theory import (
    Constants,
    boundary_mass,
    column_test,
    concentration,
    davis_kahan,
    direction_test,
    eigenvalue_bound,
    events,
    gradient_bound,
    gradient_norm,
    gradient_terms,
    main_bound,
    modulus,
    noise_constant,
    noise_factor,
    principal_angles,
    rates,
    recovery_bounds,
    sin_theta_bound,
    subspace_test,
    sum_bound,
    weyl,
)
from ejop.theory.dimension import _halves, settled

READINGS = ("stated", "proved")


def cube(d):
    """A logistic model on the cube, where all assumptions hold."""
    link = suite()["single-index"].link
    V = np.ones((d, 1)) / np.sqrt(d)
    return KnownModel("cube", "", link, V, 2, "cube")


def plain(n=1000, **changed):
    values = {"n_features": 2, "n_classes": 3, "bandwidth": 0.2, "step": 0.5, "gradient": 1.5}
    values |= {"modulus": [0.1, 0.2], "boundary": [0.3, 0.1], "noise": 2.0, "delta": 0.1}
    return Constants(n, **(values | changed))


# assumptions --------------------------------------------------------------------------------


def test_events_are_counts_of_rows_in_both_balls(rng):
    X, h, t = rng.uniform(size=(300, 2)), 0.9, np.array([0.1, 0.3])
    Q = rng.uniform(size=(20, 2))
    found = events(X, Q, t, h, delta=0.2)
    for i, e in enumerate(np.eye(2)):
        counts = [
            (np.linalg.norm(X[None] - (Q + s * t[i] * e)[:, None], axis=2) <= h / 2).sum(1)
            for s in (1, -1)
        ]
        np.testing.assert_array_equal(found[:, i], np.min(counts, 0) >= mass_threshold(300, 2, 0.2))
    assert 0 < found.mean() < 1


def test_boundary_mass_of_a_uniform_cube(rng):
    X = rng.uniform(size=(50_000, 3))
    t = np.array([0.05, 0.1, 0.2])
    mass = boundary_mass(X, t, (0, 1))
    np.testing.assert_allclose(mass, 2 * t, atol=0.01)
    inside = lambda rows: (np.abs(rows - 0.5) <= 0.5).all(1)  # noqa: E731 a support by a rule
    np.testing.assert_array_equal(boundary_mass(X, t, inside), mass)


def test_modulus_of_a_known_function():
    """f = (x1^2, 3 x2^2): the derivative moves by 2t and by 6t."""
    J = lambda X: np.stack([2 * X * [1, 0], 6 * X * [0, 1]], 1)  # noqa: E731
    np.testing.assert_allclose(modulus(J, np.zeros((1, 2)), [0.1, 0.2]), [[0.2, 0], [0, 1.2]])
    model, rows = cube(2), cube(2).rows(500, np.random.default_rng(0))
    small, large = (modulus(model.jacobian, rows, t) for t in (0.05, 0.4))
    assert (small < large).all()
    assert gradient_norm(model.jacobian, np.zeros((1, 2))) == pytest.approx(0.75)


# every bound above what it bounds ------------------------------------------------------------


@pytest.fixture(scope="module", params=[(1, 3000, 0.5, 0.3), (2, 4000, 1.4, 0.8)])
def sample(request):
    """The paper to the letter on a cube: gradients of truth and estimate, constants."""
    d, n, h, t = request.param
    model = cube(d)
    X, y = model.draw(n, 0)
    Y, step, few = np.eye(2)[y], np.full(d, t), mass_threshold(n, d, 0.05)
    smoother = KernelSmoother("boxcar", bandwidth=h).fit(X, Y)
    clean = KernelSmoother("boxcar", bandwidth=h).fit(X, model.probabilities(X))
    return {
        "model": model,
        "X": X,
        "J": model.jacobian(X),
        "J_hat": jacobian(smoother, X, step, min_mass=few)[0],
        "enough": events(X, X, step, h),
        "values": [np.stack(f.shifted(X, step)) for f in (smoother, clean)],
        "true_values": np.stack(
            [np.stack([model.probabilities(X + s * e) for e in t * np.eye(d)], 2) for s in (1, -1)]
        ),
        "constants": paper_constants(model, X, h, t),
        "step": t,
    }


def test_lemma_2_concentration(sample):
    found = np.linalg.norm(_mean(sample["J"]) - sample["model"].metric(), 2)
    for reading in READINGS:
        assert found <= concentration(sample["constants"], reading=reading)


def test_lemma_4_sum_of_gradients(sample):
    found = np.linalg.norm(sample["J"] + sample["J_hat"], axis=2).max()
    assert found <= sum_bound(sample["constants"])


def test_lemma_5_rows_without_mass(sample):
    kept = sample["J"] * ~sample["enough"][:, None]
    found = np.linalg.norm(kept, axis=2).mean(0).max()
    assert found > 0
    for reading in READINGS:
        terms = gradient_terms(sample["constants"], reading=reading)
        assert found <= terms.sampling + terms.boundary


def test_lemma_6_modulus(sample):
    plus, minus = sample["true_values"]
    quotient = (plus - minus) / (2 * sample["step"])
    error = (sample["J"] - quotient) * sample["enough"][:, None]
    found = np.linalg.norm(error, axis=2).mean(0).max()
    assert 0 < found <= gradient_terms(sample["constants"]).modulus


def test_lemmas_7_to_9_smoother(sample):
    k, enough = sample["constants"], sample["enough"][:, None]
    noisy, clean = sample["values"]
    bias = np.abs(clean - sample["true_values"]) * enough
    assert 0 < bias.max() <= k.bandwidth * k.gradient
    noise = (np.abs(noisy - clean) ** 2 * enough).mean(1).max()
    cell = k.n_samples * k.bandwidth**k.n_features
    assert 0 < noise <= noise_factor(k) / cell
    quotient = (sample["true_values"][0] - sample["true_values"][1]) / (2 * k.step)
    error = np.linalg.norm((sample["J_hat"] - quotient) * enough, axis=2).mean(0).max()
    for reading in READINGS:
        assert error <= gradient_terms(k, reading=reading).smoothing


def test_theorems_1_to_5(sample):
    k, model = sample["constants"], sample["model"]
    errors = np.linalg.norm(sample["J"] - sample["J_hat"], axis=2).mean(0)
    M, truth = _mean(sample["J_hat"]), model.metric()
    (values, vectors), true_values = eigh_descending(M), eigh_descending(truth)[0]
    assert values[0] > 0.1 * true_values[0]  # the estimate is not the zero matrix
    for reading in READINGS:
        assert errors.max() <= gradient_bound(k, reading=reading)
        assert np.linalg.norm(M - truth, 2) <= main_bound(k, reading=reading)
        assert np.abs(values - true_values).max() <= eigenvalue_bound(k, reading=reading)
        angle, null = recovery_bounds(k, model.smallest(), reading=reading)
        assert sin_theta(vectors[:, :1], model.V) <= angle
        assert values[1:].max(initial=0) <= null
        if model.n_features > 1:
            for estimated in (None, values):
                bound = sin_theta_bound(k, true_values, 1, reading=reading, estimated=estimated)
                assert sin_theta(vectors[:, :1], model.V) <= bound


def _mean(J):
    return np.einsum("mki,mkj->ij", J, J) / len(J)


def test_noise_constant_is_one_of_sample_and_kernel():
    X = cube(2).rows(2000, np.random.default_rng(0))
    box = noise_constant(X, 1.4, 0.4, n_classes=2)
    assert noise_constant(X, 1.4, 0.4, n_classes=2, kernel="epanechnikov") == pytest.approx(
        box / 0.75**2
    )
    some = noise_constant(X, 1.4, 0.4, n_classes=2, queries=np.arange(500))
    assert some == pytest.approx(box, rel=0.3)
    with pytest.raises(ValueError, match="unbounded support"):
        noise_constant(X, 1.0, 0.3, n_classes=2, kernel="gaussian")


# the formulas ---------------------------------------------------------------------------------


def test_formulas_by_hand():
    """Every constant of the printed bounds, written once more."""
    k = plain()
    n, d, c, h, t, R, C, delta = 1000, 2, 3, 0.2, 0.5, 1.5, 2.0, 0.1
    eps2, mu2 = 0.1**2 + 0.2**2, 0.3**2 + 0.1**2
    A = 0.25 * np.sqrt(C * d * np.log(c * n / delta))
    first = 6 * R**2 / np.sqrt(n) * (np.sqrt(np.log(d)) + np.sqrt(np.log(1 / delta)))
    four = [
        np.sqrt(d) / t * np.sqrt(A / (n * h**d) + h**2 * R**2),
        R * np.sqrt(d * np.log(d / delta) / (2 * n)),
        R * np.sqrt(mu2),
        np.sqrt(eps2),
    ]
    total = 3 * R + np.sqrt(eps2) + np.sqrt(d) * (h * R + 1) / t
    np.testing.assert_allclose(noise_factor(k), A)
    np.testing.assert_allclose(concentration(k), first)
    np.testing.assert_allclose(gradient_terms(k), four)
    np.testing.assert_allclose(gradient_terms(k).total, sum(four))
    np.testing.assert_allclose(sum_bound(k), total)
    np.testing.assert_allclose(main_bound(k), first + c * total * sum(four))
    np.testing.assert_allclose(sin_theta_bound(k, [3.0, 1.0], 1), main_bound(k) / 2)
    np.testing.assert_allclose(recovery_bounds(k, 0.5), [2 * main_bound(k), main_bound(k)])
    logs = np.log(n / delta) ** 2
    np.testing.assert_allclose(noise_factor(k, definition="theorem 1"), A / logs)
    without = 0.25 * np.sqrt(C * d * np.log(n / delta))
    np.testing.assert_allclose(noise_factor(k, definition="theorem 3"), without / logs)


def test_proved_terms_are_larger():
    k = plain()
    assert concentration(k, reading="proved") == pytest.approx(3 * concentration(k))
    stated, proved = (gradient_terms(k, reading=reading) for reading in READINGS)
    assert proved.smoothing == pytest.approx(np.sqrt(2) * stated.smoothing)
    assert proved.boundary == pytest.approx(1.5 * np.sqrt(0.4))
    assert proved[1::2] == stated[1::2]
    twice = sin_theta_bound(k, [3.0, 1.0], 1, reading="proved")
    assert twice == pytest.approx(main_bound(k, reading="proved"))  # 2 / (3 - 1)


def test_stated_boundary_term_is_too_small_and_the_proved_one_is_not():
    """Lemma 5: eight features whose edges each hold a tenth of a uniform cube."""
    X = np.random.default_rng(0).uniform(size=(20_000, 8))
    t = 0.05
    near = (t > X) | (1 - t < X)
    found = np.sqrt(near.sum(1)).mean()
    k = plain(1e9, n_features=8, modulus=0.0, boundary=boundary_mass(X, t, (0, 1)), gradient=1.0)
    stated, proved = (gradient_terms(k, reading=reading).boundary for reading in READINGS)
    assert stated < 0.6 * found
    assert found <= proved


def test_printed_bound_does_not_vanish_and_the_proved_one_does():
    """t -> 0 slowly, h faster, n without end; boundary and modulus of order t."""
    stated, proved = [], []
    for t in (1e-1, 1e-2, 1e-3, 1e-4):
        h = t**4
        k = plain(1e60, bandwidth=h, step=t, modulus=t, boundary=t, gradient=1.0)
        stated.append(main_bound(k))
        proved.append(main_bound(k, reading="proved"))
    assert min(stated) > 3 * 2 * 1.9  # c sqrt(d) (1/t) (sqrt(2) t + sqrt(2) t)
    assert proved == sorted(proved, reverse=True)
    assert proved[-1] < 0.2


def test_constants_are_checked():
    with pytest.raises(ValueError, match="`step` must be positive, got 0"):
        plain(step=0)
    with pytest.raises(ValueError, match="`delta` must lie between 0 and 1"):
        plain(delta=1.5)
    with pytest.raises(ValueError, match="`reading`='printed' is not known"):
        main_bound(plain(), reading="printed")
    with pytest.raises(ValueError, match="`definition`='x'"):
        noise_factor(plain(), definition="x")
    with pytest.raises(ValueError, match="nonsingular"):
        recovery_bounds(plain(), 0.0)
    with pytest.raises(ValueError, match="`rank`=2 must lie"):
        sin_theta_bound(plain(), [1.0, 0.5], 2)
    assert sin_theta_bound(plain(), [1.0, 1.0], 1) == np.inf
    with pytest.raises(ValueError, match="unbounded"):
        paper_constants(suite()["wide"], np.zeros((1, 50)), 1.0, 1.0)


# perturbation lemmas ---------------------------------------------------------------------------


@given(st.integers(2, 7), st.integers(0, 10**6), st.floats(-6, 1), st.booleans())
@settings(max_examples=150, deadline=None)
def test_weyl_and_davis_kahan_on_random_matrices(d, seed, size, sparse):
    rng = np.random.default_rng(seed)
    A, E = rng.normal(size=(2, d, d))
    G = A @ A.T * (np.diag(rng.integers(0, 2, d)) if sparse else 1)
    G = (G + G.T) / 2
    G = G @ G / d  # positive semi-definite
    G_hat = G + 10**size * (E + E.T)
    values, vectors = np.linalg.eigh(G_hat)
    G_hat = vectors * np.maximum(values, 0) @ vectors.T
    rounding = 1e-12 * (np.linalg.norm(G) + np.linalg.norm(G_hat) + 1)
    for norm in ("spectral", "frobenius"):
        left, right = weyl(G, G_hat, norm)
        assert left <= right + rounding
    for rank in range(1, d):
        left, right = davis_kahan(G, G_hat, rank)
        gap = eigh_descending(G)[0][rank - 1] - eigh_descending(G_hat)[0][rank]
        if gap > 1e3 * rounding:
            assert left <= right + rounding / gap + 1e-7


def test_davis_kahan_as_printed_is_false():
    G, G_hat = np.diag([1.0, 0.0]), np.diag([0.4, 0.6])
    left, right = davis_kahan(G, G_hat, 1, reading="stated")
    assert left > 1.5 * right
    with pytest.raises(ValueError, match="`rank`=2"):
        davis_kahan(G, G_hat, 2)
    with pytest.raises(ValueError, match="`norm`='x'"):
        weyl(G, G_hat, "x")


@given(st.integers(1, 3), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_principal_angles_are_those_of_the_definition(k, seed):
    X, Y = np.random.default_rng(seed).normal(size=(2, 5, k))
    root = np.linalg.inv(sqrtm(X.T @ X).real)
    inner = root @ X.T @ Y @ np.linalg.inv(Y.T @ Y) @ Y.T @ X @ root
    cosines = np.sqrt(np.clip(np.linalg.eigvalsh((inner + inner.T) / 2), 0, 1))
    angles = principal_angles(X, Y)
    np.testing.assert_allclose(np.cos(angles), cosines, atol=1e-6)
    assert sin_theta(X, Y) == pytest.approx(np.sin(angles[0]))
    if k == 1:
        cosine = abs(X[:, 0] @ Y[:, 0]) / np.linalg.norm(X) / np.linalg.norm(Y)
        assert np.cos(angles[0]) == pytest.approx(cosine, abs=1e-9)


def test_principal_angles_need_full_rank():
    with pytest.raises(ValueError, match="`X_hat` has rank 1 and 2 columns"):
        principal_angles(np.eye(3)[:, :2], np.ones((3, 2)))
    with pytest.raises(ValueError, match="same shape"):
        principal_angles(np.eye(3)[:, :2], np.eye(3)[:, :1])


# rates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["logarithmic", "polynomial"])
@pytest.mark.parametrize("d", [1, 3, 10])
def test_schedules_meet_the_conditions_in_the_end(schedule, d):
    far = rates(np.logspace(60, 300, 5), d, schedule=schedule)
    for name, sign in (("bandwidth", -1), ("step", -1), ("ratio", -1), ("mass", 1)):
        assert (sign * np.diff(np.log(getattr(far, name))) > 0).all(), name
    assert (np.diff(far.repaired) < 0).all()
    assert (np.diff(far.smoothing) < 0).all()
    np.testing.assert_array_equal(far.edges, 1)
    assert far.frame().shape == (5, 9)
    needed = far.rows_needed
    below, above = (rates(np.exp(needed * s), d, schedule=schedule).mass for s in (0.97, 1.03))
    assert below < 1 < above or needed < 1.2


def test_rates_follow_the_paper():
    found = rates([100, 10_000], 3)
    n = np.array([100, 10_000])
    np.testing.assert_allclose(found.bandwidth, 1 / np.log(n))
    np.testing.assert_allclose(found.step, found.bandwidth**0.25)
    np.testing.assert_allclose(found.ratio, found.bandwidth / found.step**2)
    np.testing.assert_allclose(found.mass, n / np.log(n) * found.bandwidth**3 * found.step**4)
    for wrong, words in (
        ({"n": 2, "d": 2}, "`n` must be 3"),
        ({"n": 10, "d": 0}, "`d` must be 1"),
        ({"n": 10, "d": 2, "exponent": 0.5}, "`exponent`=0.5"),
        ({"n": 10, "d": 2, "schedule": "x"}, "`schedule`='x'"),
    ):
        with pytest.raises(ValueError, match=words):
            rates(**wrong)


def test_null_eigenvalues_vanish_like_one_over_n():
    """At a fixed bandwidth a null derivative is noise alone, with variance of order 1/n."""
    sizes, values = (400, 1600, 6400), []
    for n in sizes:
        found = []
        for seed in range(3):
            X, y = suite()["single-index"].draw(n, seed)
            est = EJOP(bandwidth=1.2, softmax=False, n_queries=400, random_state=0).fit(X, y)
            found.append(est.eigenvalues_[1:].mean())
        values.append(np.median(found))
    slope = np.polyfit(np.log(sizes), np.log(values), 1)[0]
    assert -1.25 < slope < -0.75


# how many directions ------------------------------------------------------------------------------


def rejected(seed, *, second=0.0, correlated=0.0, **options):
    """Does the second feature carry something? The first does."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(70, 3))
    X[:, 1] = correlated * X[:, 0] + np.sqrt(1 - correlated**2) * X[:, 1]
    y = rng.uniform(size=70) < 1 / (1 + np.exp(-2 * X[:, 0] - second * X[:, 1]))
    estimator = EJOP(bandwidth=1.0, softmax=False)
    test = direction_test(
        X, y, [0, 2, 0], estimator=estimator, n_permutations=19, random_state=seed, **options
    )
    return test.p_values[0] <= 0.05


@pytest.mark.parametrize("repetitions", [50, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("correlated", [0.0, 0.7])
def test_level_of_the_direction_test(correlated, repetitions):
    """Rejections of a true null lie in the 99.9 % interval of the binomial at 5 %."""
    count = sum(rejected(seed, correlated=correlated) for seed in range(repetitions))
    low, high = binom.interval(0.999, repetitions, 0.05)
    assert low <= count <= high


def test_power_of_the_direction_test():
    assert sum(rejected(seed, second=2.0) for seed in range(20)) >= 15
    naive = sum(rejected(seed, correlated=0.9, adjust=False) for seed in range(20))
    assert naive >= 8  # a shuffle that breaks the correlation rejects a true null


def test_direction_test_chooses_on_other_rows(rng):
    X = rng.normal(size=(160, 2))
    y = X[:, 0] > 0
    test = direction_test(X, y, np.eye(2), n_permutations=9, random_state=0)
    assert test.permuted.shape == (9, 2)
    assert test.p_values[0] == 0.1
    auto = EJOP(random_state=0)
    chooser, X_rest, y_rest = _halves(auto, X, y, check_random_state(5))
    here = settled(auto.fit(*chooser)).fit(X_rest, y_rest)
    split = direction_test(X, y, np.eye(2), estimator=auto, n_permutations=1, random_state=5)
    np.testing.assert_allclose(split.statistics, np.diag(here.outer_product_))
    assert len(X_rest) == 80
    given = EJOP(bandwidth=1.0).fit(X, y)
    fixed = direction_test(X, y, np.eye(2), estimator=EJOP(bandwidth=1.0), n_permutations=1)
    np.testing.assert_allclose(fixed.statistics, np.diag(given.outer_product_))
    again = direction_test(X, y, np.eye(2), n_permutations=9, random_state=0)
    np.testing.assert_array_equal(again.permuted, test.permuted)
    with pytest.raises(ValueError, match=r"`directions` has shape \(3, 1\)"):
        direction_test(X, y, [1, 0, 0])
    with pytest.raises(TypeError, match="`estimator` must be EJOP or EGOP"):
        direction_test(X, y, [1, 0], estimator=KernelSmoother())


@pytest.fixture(scope="module")
def found():
    X, y, _ = make_multi_index(600, 5, random_state=0)
    options = {"n_bootstrap": 15, "n_permutations": 19, "random_state": 0}
    return subspace_test(X, y, **options), (X, y, options)


def test_subspace_test_finds_two_of_five(found):
    result, (X, y, options) = found
    assert (result.gap, result.cv_dimension, result.test_dimension) == (2, 2, 2)
    assert (result.low <= result.high).all()
    assert result.losses[2] == pytest.approx(result.losses.min(), abs=0.05)
    assert result.angles[1] < 0.5 < result.angles[0] + result.angles[2]
    assert result.angles[4] == pytest.approx(0, abs=1e-6)  # the whole space
    frame = result.frame()
    assert frame["p_value"].tolist() == result.p_values.tolist()
    assert frame.shape == (5, 8)
    again = subspace_test(X, y, **options)
    np.testing.assert_array_equal(again.p_values, result.p_values)
    np.testing.assert_array_equal(again.high, result.high)


def test_rare_classes_and_counts_are_split_anyhow(rng):
    """A class of two rows cannot be in five folds; counts are real targets for EGOP."""
    X = rng.normal(size=(120, 2))
    y = (X[:, 0] > 0).astype(int)
    y[:2] = 2
    options = {"n_bootstrap": 2, "n_permutations": 3, "random_state": 0}
    assert subspace_test(X, y, **options).losses.shape == (3,)
    counts = np.arange(120) // 2
    assert subspace_test(X, counts, estimator=EGOP(), **options).p_values.shape == (2,)


def test_subspace_display(found):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    display = found[0].plot()
    assert len(display.ax_.ravel()) == 3
    assert display.frame().equals(found[0].frame())
    labels = [text.get_text() for text in display.ax_[0, 0].get_legend().get_texts()]
    assert "largest gap: after 2" in labels
    pyplot.close("all")


def test_labels_at_random_have_no_direction():
    counts = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(120, 3)), rng.integers(0, 2, 120)
        result = subspace_test(
            X, y, n_bootstrap=2, n_permutations=19, cv=2, max_components=1, random_state=seed
        )
        counts.append(result.test_dimension)
        assert result.cv_dimension <= 1
    assert sum(counts) <= binom.ppf(0.9995, 12, 0.05)


def test_one_standard_error_is_let_pass_for_a_direction_less(monkeypatch, rng):
    """Losses 1, 0.5 +- 0.2 and 0.49: the second is not clearly above the third."""
    orders = itertools.cycle([0, 1, 2])

    def loss(f, Y, prior, *, one_hot):
        swing = 0.2 * (-1.0) ** np.arange(len(Y))
        return [np.ones(len(Y)), 0.5 + swing, np.full(len(Y), 0.49)][next(orders)]

    monkeypatch.setattr("ejop.theory.dimension.pointwise_loss", loss)
    X = rng.normal(size=(120, 2))
    options = {"n_bootstrap": 2, "n_permutations": 1, "random_state": 0}
    result = subspace_test(X, X[:, 0] > 0, **options)
    np.testing.assert_allclose(result.losses, [1, 0.5, 0.49], atol=0.01)
    assert (result.losses.argmin(), result.cv_dimension) == (2, 1)


@pytest.mark.parametrize("function", ["ridge", "knn", KernelSmoother("epanechnikov")])
def test_subspace_test_of_real_targets(function):
    X = np.random.default_rng(0).normal(size=(240, 3))
    target = np.sin(X[:, 0] + X[:, 1]) + 0.1 * np.random.default_rng(1).normal(size=240)
    result = subspace_test(
        X, target, estimator=EGOP(function), n_bootstrap=4, n_permutations=19, random_state=0
    )
    assert (result.gap, result.test_dimension) == (1, 1)
    with pytest.raises(ValueError, match="`max_components`=4"):
        subspace_test(X, target, max_components=4)


# the models of the experiments ----------------------------------------------------------------


@pytest.mark.parametrize("name", list(suite()))
def test_models_know_their_jacobian_and_matrix(name):
    model = suite()[name]
    X, y = model.draw(400, 0)
    t, d = 1e-5, model.n_features
    J = model.jacobian(X)
    for j in range(0, d, max(1, d // 4)):
        e = t * np.eye(d)[j]
        numeric = (model.probabilities(X + e) - model.probabilities(X - e)) / (2 * t)
        np.testing.assert_allclose(J[:, :, j], numeric, atol=1e-7)
    J = model.jacobian(model.rows(20_000, np.random.default_rng(5)))
    scale = np.linalg.norm(model.metric(), 2)
    np.testing.assert_allclose(_mean(J) / scale, model.metric() / scale, atol=0.06)
    values = np.linalg.eigvalsh(model.metric())
    assert values[: d - model.rank].max(initial=0) < 1e-10 < model.smallest()
    assert set(y) <= set(range(model.n_classes))
    if model.symmetric:
        np.testing.assert_allclose(model.probabilities(X), model.probabilities(-X))


@pytest.mark.parametrize(("name", "third"), [("correlated", 0), ("skewed", 2), ("cube", 0)])
def test_inputs_are_what_they_say(name, third):
    X = suite()[name].rows(40_000, np.random.default_rng(0))
    np.testing.assert_allclose(X.mean(0), 0, atol=0.03)
    np.testing.assert_allclose(X.var(0), 1, atol=0.05)
    np.testing.assert_allclose((X**3).mean(0), third, atol=0.35)
    near = np.corrcoef(X[:, 0], X[:, 1])[0, 1]
    assert near == pytest.approx(0.6 if name == "correlated" else 0, abs=0.03)
    assert (np.abs(X).max() <= np.sqrt(3)) == (name == "cube")


def test_suite_covers_what_it_should():
    models = suite().values()
    assert {m.inputs for m in models} == {"normal", "correlated", "skewed", "cube"}
    assert {m.n_classes for m in models} >= {2, 3, 4, 10}
    assert max(m.n_features for m in models) == 50
    assert any(m.noise for m in models)
    assert isinstance(suite()["xor"].link, Logits)


def test_columns_of_several_features_are_tested_together():
    rng = np.random.default_rng(0)
    town = rng.integers(0, 3, 200)
    X = np.c_[rng.normal(size=200), np.eye(3)[town], rng.normal(size=200)]
    y = X[:, 0] + 2.0 * (town == 1) + rng.normal(scale=0.3, size=200)
    groups = np.array([0, 1, 1, 1, 2])
    found = column_test(X, y, groups=groups, n_permutations=19, random_state=0)
    assert found.columns.tolist() == [0, 1, 2]
    assert found.p_values[:2].tolist() == [0.05, 0.05]
    assert found.p_values[2] > 0.05
    with pytest.raises(ValueError, match="`groups` has shape"):
        column_test(X, y, groups=[0, 1])


def test_columns_that_carry_nothing_pass_as_often_as_said():
    fixed = EGOP(RidgeFunction(bandwidth=3.0, penalty=0.1), step="analytic")
    p_values = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 4))
        y = X[:, 0] + rng.normal(size=60)
        test = column_test(X, y, estimator=fixed, n_permutations=19, random_state=seed)
        p_values += test.p_values[1:].tolist()
    # 120 values of which 0.2 are expected at or below 0.2: three standard errors are 0.11
    assert 0.09 < np.mean(np.array(p_values) <= 0.2) < 0.31
