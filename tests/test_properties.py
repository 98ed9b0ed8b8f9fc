"""What the mathematics says must hold, on random data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from ejop import EGOP, EJOP, ejop_matrix
from ejop.executors.expectation import ball_masses
from ejop.functions import KernelSmoother, NeighborsSmoother, RidgeFunction
from ejop.quotients import mass_threshold
from ejop.sums import outer_product

FUNCTIONS = ["kernel", "ball", "knn", "ridge"]
seeds = st.integers(0, 10_000)
functions = st.sampled_from(FUNCTIONS)
few = settings(max_examples=25, deadline=None)


def data(seed, n=40, d=4, c=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.r_[np.arange(c), rng.integers(c, size=n - c)]


def settings_of(function, scale=1.0):
    """Fixed bandwidth, penalty and step: the automatic rules are tested elsewhere."""
    functions = {
        "kernel": KernelSmoother(bandwidth=1.7 * scale),
        "ball": KernelSmoother("boxcar", bandwidth=1.7 * scale),
        "knn": NeighborsSmoother(7),
        "ridge": RidgeFunction(bandwidth=1.7 * scale, penalty=0.1),
    }
    return {"function": functions[function], "step": 0.6 * scale}


def close(a, b, tolerance=1e-8):
    np.testing.assert_allclose(a, b, atol=tolerance * max(np.abs(b).max(), 1e-300))


@given(seeds, functions)
@few
def test_symmetric_and_positive_semi_definite(seed, function):
    M = ejop_matrix(*data(seed), **settings_of(function))
    np.testing.assert_array_equal(M, M.T)
    values = np.linalg.eigvalsh(M)
    assert values[0] >= -1e-12 * max(values[-1], 1e-300)


@given(seeds, functions)
@few
def test_row_order_does_not_matter(seed, function):
    X, y = data(seed)
    order = np.random.default_rng(seed).permutation(len(X))
    settings_ = settings_of(function)
    close(ejop_matrix(X[order], y[order], **settings_), ejop_matrix(X, y, **settings_))


@given(seeds, functions, st.floats(-50, 50))
@few
def test_translation_does_not_matter(seed, function, shift):
    X, y = data(seed)
    settings_ = settings_of(function)
    close(ejop_matrix(X + shift, y, **settings_), ejop_matrix(X, y, **settings_), 1e-6)


@given(seeds, functions)
@few
def test_features_permute_with_the_matrix(seed, function):
    X, y = data(seed)
    order = np.random.default_rng(seed).permutation(X.shape[1])
    settings_ = settings_of(function)
    close(
        ejop_matrix(X[:, order], y, **settings_),
        ejop_matrix(X, y, **settings_)[np.ix_(order, order)],
    )


@given(seeds, functions)
@few
def test_names_of_classes_do_not_matter(seed, function):
    X, y = data(seed)
    settings_ = settings_of(function)
    close(ejop_matrix(X, np.array(["w", "a", "m"])[y], **settings_), ejop_matrix(X, y, **settings_))


@given(seeds, functions, st.sampled_from([1e-6, 0.25, 8.0, 1e6]))
@few
def test_joint_scaling_divides_by_the_square(seed, function, s):
    X, y = data(seed)
    M = ejop_matrix(X, y, **settings_of(function))
    scaled = ejop_matrix(s * X, y, **settings_of(function, s))
    close(scaled * s**2, M, 1e-6)


@given(seeds, st.sampled_from(["kernel", "ridge"]))
@few
def test_automatic_settings_follow_the_scale(seed, function):
    X, y = data(seed)
    one = EJOP(function, random_state=0).fit(X, y)
    other = EJOP(function, random_state=0).fit(1024 * X, y)
    assert other.bandwidth_ == pytest.approx(1024 * one.bandwidth_, rel=1e-6)
    close(other.outer_product_ * 1024**2, one.outer_product_, 1e-6)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("use_softmax", [True, False])
@pytest.mark.parametrize("leave_one_out", [True, False])
def test_metric_is_the_mean_outer_product_of_differences(function, use_softmax, leave_one_out):
    X, y = data(3)
    parameters = settings_of(function) | {"softmax": use_softmax, "leave_one_out": leave_one_out}
    fitted = EJOP(**parameters).fit(X, y)
    exclude = np.arange(len(X)) if leave_one_out else None
    J = fitted.function_.differences(X, np.full(4, 0.6), exclude, softmax=use_softmax)
    close(fitted.outer_product_, reference.mean_outer_product(J), 1e-10)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_equal_rows_of_weight_one_are_one_row_of_their_weight(function):
    """Without leave-one-out, which leaves out one of two equal rows but a row of weight 2 whole."""
    if function == "knn":
        pytest.skip("k counts rows: two equal rows fill two of the k places")
    X, y = data(1)
    w = np.random.default_rng(2).integers(0, 4, len(X))
    w[:3] = 1
    parameters = settings_of(function) | {"leave_one_out": False}
    weighted = EJOP(**parameters).fit(X, y, sample_weight=w)
    repeated = EJOP(**parameters).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    close(weighted.outer_product_, repeated.outer_product_)


@given(seeds, st.sampled_from(["kernel", "ball", "knn"]), st.lists(st.integers(4, 15), min_size=1))
@few
def test_partial_fit_is_what_its_definition_says(seed, function, sizes):
    """Each chunk's Jacobians are taken at f of all rows so far, and join the mean."""
    X, y = data(seed, n=sum(sizes) + 10)
    ends = np.cumsum([10, *sizes])
    online = EJOP(**settings_of(function))
    blocks = []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        online.partial_fit(X[start:end], y[start:end], classes=[0, 1, 2])
        f = EJOP(**settings_of(function)).make_function()
        f.fit(X[:end], np.eye(3)[y[:end]])
        rows = np.arange(start, end)
        blocks.append(f.differences(X[rows], np.full(4, 0.6), rows, softmax=True))
    close(online.outer_product_, outer_product(np.concatenate(blocks)))
    assert online.n_queries_ == len(X)


def test_partial_fit_continues_a_fit_and_keeps_its_choices():
    X, y = data(0, n=60)
    online = EJOP(random_state=0).fit(X[:40], y[:40])
    bandwidth = online.bandwidth_
    online.partial_fit(X[40:], y[40:])
    assert online.bandwidth_ == bandwidth
    assert len(online.function_.X_) == online.n_queries_ == 60


def test_blocks_and_threads_do_not_change_the_answer():
    X, y = data(0, n=300, d=16)
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-6)):
        for function in FUNCTIONS:
            settings_ = settings_of(function, scale=4 / 1.7) | {"step": 0.6}
            one = EJOP(**settings_, n_jobs=1).fit(X.astype(dtype), y)
            two = EJOP(**settings_, n_jobs=4).fit(X.astype(dtype), y)
            assert two.plan_.block < one.plan_.block
            close(two.outer_product_, one.outer_product_, tolerance)
            close(two.outer_product_stderr_, one.outer_product_stderr_, 10 * tolerance)


def test_query_sample_estimates_the_whole_within_its_error():
    X, y = data(0, n=2000)
    whole = ejop_matrix(X, y, **settings_of("kernel"))
    hits = []
    for seed in range(20):
        part = EJOP(**settings_of("kernel"), n_queries=400, random_state=seed).fit(X, y)
        assert part.n_queries_ == 400
        hits.append(np.abs(part.outer_product_ - whole) <= 2 * part.outer_product_stderr_)
    assert np.mean(hits) > 0.9


def test_mass_condition_counts_both_balls():
    X, _ = data(5, n=80, d=2)
    step, radius = np.array([0.3, 0.5]), 0.8
    counts = ball_masses(X, X[:10], step, radius, np.arange(10))
    for q in range(10):
        for j in range(2):
            e = np.eye(2)[j] * step[j]
            others = np.delete(X, q, axis=0)
            near = [
                (np.linalg.norm(others - (X[q] + s * e), axis=1) <= radius).sum() for s in (1, -1)
            ]
            assert counts[q, j] == min(near)


def test_min_mass_zeroes_and_reports():
    X, y = data(5, n=200, d=2)
    parameters = {"bandwidth": 1.0, "step": 0.4}
    free = EJOP(**parameters).fit(X, y)
    some = EJOP(**parameters, min_mass=10).fit(X, y)
    with pytest.warns(UserWarning, match="every difference is zero.*lower `min_mass`"):
        theory = EJOP(**parameters, min_mass=0.1).fit(X[:20], y[:20])
    assert free.mass_zeroed_ is None
    few_rows = ball_masses(X, X, np.full(2, 0.4), 0.5, np.arange(len(X))) < 10
    assert some.mass_zeroed_ == pytest.approx(few_rows.mean())
    assert 0 < some.mass_zeroed_ < 1
    J = free.function_.differences(X, np.full(2, 0.4), np.arange(len(X)), softmax=True)
    close(some.outer_product_, outer_product(np.where(few_rows[:, None], 0, J)))
    assert theory.mass_zeroed_ == 1  # 20 rows never reach the threshold ...
    assert mass_threshold(20, 2, 0.1) > 18  # ... which is
    assert "were set to zero" in str(some.plan_)


def test_egop_of_a_linear_target_is_its_outer_product():
    X, _ = data(0, n=400)
    b = np.array([2.0, -1.0, 0.0, 0.5])
    fitted = EGOP(RidgeFunction(bandwidth=20.0, penalty=1e-6), step="analytic").fit(X, X @ b)
    close(fitted.outer_product_, np.outer(b, b), 1e-2)
    close(fitted.eigenvectors_[:, 0], b / np.linalg.norm(b), 1e-2)


def test_egop_sums_over_outputs():
    X, _ = data(0, n=100)
    Y = np.c_[np.sin(X[:, 0]), X[:, 1] ** 2]
    both = EGOP(bandwidth=1.0, step=0.5).fit(X, Y)
    each = [EGOP(bandwidth=1.0, step=0.5).fit(X, column).outer_product_ for column in Y.T]
    close(both.outer_product_, each[0] + each[1])
    traces = [np.trace(M) for M in each]
    close(both.output_shares_, np.array(traces) / sum(traces))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_diagonal_is_the_diagonal(function):
    X, y = data(0)
    full = EJOP(**settings_of(function)).fit(X, y)
    diagonal = EJOP(**settings_of(function), diagonal=True).fit(X, y)
    close(diagonal.outer_product_, np.diag(np.diag(full.outer_product_)))
    close(diagonal.feature_importances_, full.feature_importances_)
