"""Every fast form agrees with its slow twin."""

import pickle
import tracemalloc
from functools import cache

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import reference
from ejop.functions import KernelSmoother, ModelFunction, NeighborsSmoother, RidgeFunction
from ejop.kernels import KERNELS
from ejop.sums import prepare
from ejop.sums.gaussian import EXPONENT_LIMIT as LIMITS
from ejop.sums.gaussian import cut

N, D, C = 60, 4, 3
TOLERANCE = {np.float64: 1e-10, np.float32: 2e-4}


def make(targets, dtype, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    X = (spread * rng.normal(size=(N, D)) + 5).astype(dtype)
    if targets == "classes":
        return X, np.eye(C, dtype=dtype)[rng.integers(C, size=N)]
    return X, rng.normal(size=(N, 2)).astype(dtype)


def close(actual, expected, dtype):
    scale = np.abs(expected).max()
    assert np.abs(actual - expected).max() <= TOLERANCE[dtype] * scale
    assert scale > 0


FUNCTIONS = {
    **{f"kernel-{k}": (lambda k=k: KernelSmoother(k, 1.5)) for k in KERNELS},
    "knn": lambda: NeighborsSmoother(5),
    "ridge": lambda: RidgeFunction(bandwidth=2.0, penalty=0.1),
    "ridge-laplace": lambda: RidgeFunction("laplace", bandwidth=2.0, penalty=0.1),
    "ridge-l1": lambda: RidgeFunction("l1", bandwidth=4.0, penalty=0.1),
    "nystrom-l1": lambda: RidgeFunction(
        "l1", bandwidth=4.0, penalty=0.1, max_rows=10, n_centers=12, random_state=0
    ),
    "nystrom": lambda: RidgeFunction(
        bandwidth=2.0, penalty=0.1, max_rows=10, n_centers=12, random_state=0
    ),
}


def twin(function, w=None):
    """The slow value(x, leave) of a fitted function."""
    X, Y = function.X_.astype(float), function.Y_.astype(float)
    if isinstance(function, KernelSmoother):
        h, kernel = function.bandwidth_, function.kernel
        return lambda x, i: reference.smoother(x, X, Y, h, kernel, i, w)
    if isinstance(function, NeighborsSmoother):
        return lambda x, i: reference.neighbors(x, X, Y, function.n_neighbors, i, w)
    centers = function.centers_.astype(float) if len(function.centers_) < len(X) else None
    h, penalty = function.bandwidth_, function.penalty_
    kernel = function.kernel
    machine = cache(lambda i: reference.ridge_machine(X, Y, h, penalty, i, w, centers, kernel))
    return lambda x, i: machine(i)(x)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("targets", ["classes", "real"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", ["one step", "step per feature", "leave one out", "softmax"])
def test_differences_equal_shifted_predictions(name, targets, dtype, form):
    X, Y = make(targets, dtype)
    w = np.random.default_rng(3).uniform(0.5, 2, N) if form == "leave one out" else None
    function = FUNCTIONS[name]().fit(X, Y, w)
    step = np.full(D, 0.7) if form == "one step" else np.linspace(0.3, 1.1, D)
    rows = np.arange(0, N, 7)
    exclude = rows if form == "leave one out" else None
    use_softmax = form == "softmax"
    J = function.differences(X[rows], step, exclude, softmax=use_softmax)
    leave = rows if exclude is not None else np.full(len(rows), -1)
    expected = reference.shifted_differences(
        twin(function, w), X[rows].astype(float), step, leave, use_softmax
    )
    assert J.shape == (len(rows), Y.shape[1], D)
    close(J, expected, dtype)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_predict_equals_its_definition(name):
    X, Y = make("classes", np.float64)
    function = FUNCTIONS[name]().fit(X, Y)
    Q = X[:9] + 0.1
    exclude = np.array([0, 1, 2, -1, -1, 5, 6, -1, 8])
    value = twin(function)
    close(function.predict(Q), np.array([value(x, -1) for x in Q]), np.float64)
    expected = np.array([value(x, i) for x, i in zip(Q, exclude, strict=True)])
    close(function.predict(Q, exclude), expected, np.float64)


@pytest.mark.parametrize("name", ["kernel-gaussian", "ridge", "nystrom"])
@pytest.mark.parametrize("use_softmax", [False, True])
@pytest.mark.parametrize("leave", [False, True])
def test_analytic_is_the_limit_of_central(name, use_softmax, leave):
    X, Y = make("classes", np.float64)
    function = FUNCTIONS[name]().fit(X, Y)
    exclude = np.arange(N) if leave else None
    exact = function.differences(X, None, exclude, softmax=use_softmax)
    errors = [
        np.abs(function.differences(X, np.full(D, t), exclude, softmax=use_softmax) - exact).max()
        for t in (0.1, 0.05, 0.025)
    ]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)  # second order in the step
    assert errors[1] / errors[2] == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize("name", ["kernel-gaussian", "ridge"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exponents_out_of_range_take_the_direct_form(name, dtype):
    X, Y = make("classes", dtype, spread=300.0)
    function = FUNCTIONS[name]().fit(X, Y)
    step = np.full(D, 20.0)
    assert prepare(function, step).cost.method.endswith("direct")
    rows = np.arange(0, N, 11)
    J = function.differences(X[rows], step, rows, softmax=True)
    expected = reference.shifted_differences(
        twin(function), X[rows].astype(float), step, rows, True
    )
    np.testing.assert_allclose(J, expected, atol=(1e-10 if dtype == np.float64 else 1e-5))
    assert np.isfinite(J).all()


@pytest.mark.parametrize("name", ["kernel-laplace", "ridge-laplace", "ridge-l1", "nystrom-l1"])
@pytest.mark.parametrize("leave", [False, True])
def test_derivatives_of_kernels_that_bend(name, leave):
    """Small differences approach the derivative away from the centres, where kernels bend."""
    X, Y = make("classes", np.float64)
    function = FUNCTIONS[name]().fit(X, Y)
    Q = X + 0.05 + 0.01 * np.random.default_rng(1).random(X.shape)
    exclude = np.arange(N) if leave else None
    exact = function.differences(Q, None, exclude)
    t = np.full(D, 1e-6)
    np.testing.assert_allclose(function.differences(Q, t, exclude), exact, atol=1e-7)


@pytest.mark.parametrize("make", [KernelSmoother, RidgeFunction])
def test_a_shift_onto_another_row_keeps_its_digits(make):
    """A root magnifies what rounding leaves of a distance that a shift takes away."""
    rng = np.random.default_rng(0)
    half = rng.normal(size=(8, 3))
    X = np.r_[half, np.c_[rng.normal(size=8), half[:, 1:]]]  # rows that differ in one column
    options = {} if make is KernelSmoother else {"penalty": 0.1}
    function = make("laplace", bandwidth=0.3, **options).fit(X, rng.normal(size=(16, 1)))
    value = twin(function)
    for i in range(8):
        t = X[8 + i, 0] - X[i, 0]
        side = 0 if t > 0 else 1  # up or down
        found = function.shifted(X[i : i + 1], np.full(3, abs(t)))[side][0, :, 0]
        np.testing.assert_allclose(found, value(X[i] + [t, 0, 0], -1), rtol=1e-11)


@pytest.mark.parametrize("kernel", ["laplace", "l1"])
def test_the_derivative_at_a_centre_leaves_the_centre_out(kernel):
    X, Y = make("real", np.float64)
    function = RidgeFunction(kernel, bandwidth=2.0, penalty=0.1).fit(X, Y)
    J = function.differences(X[:3], None)
    for q in range(3):
        others = np.delete(np.arange(N), q)
        a = function.coefficients_[others]
        value = lambda x, a=a, o=others: sum(  # noqa: E731
            reference.RIDGE[kernel](x, X[i], 2.0) * a[k] for k, i in enumerate(o)
        )
        for j in range(D):
            e = 1e-6 * np.eye(D)[j]
            slope = (value(X[q] + e) - value(X[q] - e)) / 2e-6
            np.testing.assert_allclose(J[q, :, j], slope, atol=1e-6)


def test_far_queries_of_ridge_do_not_overflow():
    X, Y = make("classes", np.float64)
    function = RidgeFunction(bandwidth=0.5, penalty=0.1).fit(X, Y)
    J = function.differences(X[:3] + 1e4, np.full(D, 0.25))
    np.testing.assert_array_equal(J, 0)


def forced(function, form, step, monkeypatch):
    """The form of a Gaussian smoother that is asked for."""
    wanted = {"n_queries": 1000}
    if form == "local":
        monkeypatch.setattr("ejop.sums.gaussian.LOCAL_ROWS", 0)
        monkeypatch.setattr("ejop.sums.gaussian.LOCAL_SHARE", 2.0)
    elif form == "direct":
        monkeypatch.setattr("ejop.sums.gaussian.EXPONENT_LIMIT", dict.fromkeys(LIMITS, 0.0))
    elif form == "streamed":
        wanted["budget"] = 1000
        monkeypatch.setattr("ejop.sums.gaussian.MIN_TILE", 7)
    found = prepare(function, step, **wanted)
    assert found.cost.method == f"gaussian-{'product' if form == 'streamed' else form}"
    assert ("streamed in tiles of 7 rows" in str(found.notes)) == (form == "streamed")
    return found


@pytest.mark.parametrize("form", ["product", "local", "streamed", "direct"])
@pytest.mark.parametrize("targets", ["classes", "real"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_form_of_the_gaussian_equals_the_twin(form, targets, dtype, monkeypatch):
    X, Y = make(targets, dtype)
    w = np.random.default_rng(3).uniform(0.5, 2, N)
    function = KernelSmoother(bandwidth=0.9).fit(X, Y, w)
    step = np.linspace(0.2, 0.6, D)
    rows = np.arange(0, N, 7)
    softmax = targets == "classes"
    ready = forced(function, form, step, monkeypatch)
    J = ready.jacobian(X[rows], rows, softmax=softmax)
    np.testing.assert_array_equal(
        J, pickle.loads(pickle.dumps(ready)).jacobian(X[rows], rows, softmax=softmax)
    )
    expected = reference.shifted_differences(
        twin(function, w), X[rows].astype(float), step, rows, softmax
    )
    close(J, expected, dtype)


def test_streamed_values_and_derivatives_equal_whole_ones(monkeypatch):
    X, Y = make("classes", np.float64)
    function = KernelSmoother(bandwidth=0.9).fit(X, Y)
    rows = np.arange(N)
    whole = function.predict(X, rows), function.differences(X, None, rows)
    monkeypatch.setattr("ejop.sums.gaussian.MIN_TILE", 7)
    values, derivatives = (prepare(function, step, budget=1000) for step in ("values", None))
    assert "streamed" in str(values.notes)
    assert "streamed" in str(derivatives.notes)
    np.testing.assert_allclose(values.values(X, rows), whole[0], atol=1e-13)
    np.testing.assert_allclose(derivatives.jacobian(X, rows), whole[1], atol=1e-12)


def test_local_sums_drop_no_more_than_they_say():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    Y = np.eye(3)[rng.integers(3, size=3000)]
    function = KernelSmoother(bandwidth=0.15).fit(X, Y)
    step = np.full(5, 0.01)
    form = prepare(function, step, n_queries=3000)
    assert form.cost.method == "gaussian-local"
    rows = np.arange(0, 3000, 10)
    L = form.log_kernel(form.queries(X[rows]), next(form.tiles()), rows)
    K = np.exp(L - L.max(1, keepdims=True))
    cutoffs, kept, dropped = cut(K, form.neglect)
    assert 0 < dropped <= form.neglect
    assert kept.mean() < 0.1 * 3000
    np.testing.assert_array_equal(kept, (cutoffs[:, None] <= K).sum(1))
    tail = np.where(cutoffs[:, None] > K, K, 0).sum(1) / K.sum(1)
    assert tail.max() == pytest.approx(dropped)
    local = form.jacobian(X[rows], rows, softmax=True)
    assert prepare(function, step).cost.method == "gaussian-product"
    product = function.differences(X[rows], step, rows, softmax=True)
    np.testing.assert_allclose(local, product, atol=1e-10 * np.abs(product).max())


def test_float32_takes_float64_sums_where_it_must():
    X, Y = make("classes", np.float32, spread=100.0)
    function = KernelSmoother(bandwidth=0.5).fit(X, Y)
    form = prepare(function, np.full(D, 0.25))
    assert form.kind == np.float64
    assert "too small against the range for float32" in str(form.notes)


@pytest.mark.parametrize("kernel", [k for k in KERNELS if np.isfinite(KERNELS[k].support)])
def test_empty_balls_weigh_every_row_alike(kernel):
    X, Y = make("classes", np.float64)
    function = KernelSmoother(kernel, 0.01).fit(X, Y)
    far = np.full((1, D), 100.0)
    np.testing.assert_allclose(function.predict(far), Y.mean(0, keepdims=True))
    plus, minus = function.shifted(far, np.full(D, 0.1))
    np.testing.assert_allclose(plus[0], np.tile(Y.mean(0)[:, None], D))
    np.testing.assert_allclose(minus[0], np.tile(Y.mean(0)[:, None], D))


def test_neighbour_ties_go_to_the_earlier_row():
    X = np.array([[1.0], [-1.0], [1.0], [-1.0], [5.0]])
    Y = np.eye(5)
    np.testing.assert_array_equal(
        NeighborsSmoother(2).fit(X, Y).predict(np.array([[0.0]])), [[0.5, 0.5, 0, 0, 0]]
    )


def test_ridge_leave_one_out_equals_refits():
    X, Y = make("classes", np.float64)
    for name in ("ridge", "ridge-laplace", "ridge-l1", "nystrom"):
        function = FUNCTIONS[name]().fit(X, Y)
        value = twin(function)
        rows = np.arange(0, N, 5)
        expected = np.array([value(X[i], i) for i in rows])
        close(function.predict(X[rows], rows), expected, np.float64)


@pytest.mark.parametrize("targets", ["classes", "real"])
def test_model_function_is_the_model_shifted(targets):
    X, Y = make(targets, np.float64)
    forest = RandomForestClassifier if targets == "classes" else RandomForestRegressor
    function = ModelFunction(forest(n_estimators=5, random_state=0)).fit(X, Y)
    model = function.estimator_
    raw = model.predict_proba if targets == "classes" else model.predict
    step = np.linspace(0.3, 1.0, D)
    expected = reference.shifted_differences(
        lambda x, _: raw(x[None])[0], X[:5], step, np.full(5, -1), False
    )
    np.testing.assert_allclose(function.differences(X[:5], step), expected, atol=1e-12)


def test_frozen_model_is_used_as_it_was_fitted():
    X, Y = make("classes", np.float64)
    labels = np.array(["a", "b", "c"])[Y.argmax(1)]
    model = LogisticRegression().fit(X, labels)
    function = ModelFunction(FrozenEstimator(model)).fit(X[:10], Y[:10])
    np.testing.assert_array_equal(function.predict(X), model.predict_proba(X))


def test_model_function_says_what_it_cannot_use():
    X, Y = make("classes", np.float64)
    with pytest.raises(TypeError, match="has no `predict_proba`; wrap it in"):
        ModelFunction(LinearSVC()).fit(X, Y)
    with pytest.raises(TypeError, match="must be an instance"):
        ModelFunction(LogisticRegression).fit(X, Y)
    two = FrozenEstimator(LogisticRegression().fit(X, Y[:, 0]))
    with pytest.raises(ValueError, match="predicts 2 outputs and the targets have 3"):
        ModelFunction(two).fit(X, Y)


def test_functions_refuse_what_they_cannot_do():
    X, Y = make("classes", np.float64)
    with pytest.raises(ValueError, match="closed-form derivative"):
        KernelSmoother("boxcar", 1.0).fit(X, Y).differences(X, None)
    with pytest.raises(ValueError, match="`n_neighbors`=60 needs at least 61 rows"):
        NeighborsSmoother(60).fit(X, Y)
    with pytest.raises(ValueError, match="`kernel`='boxcar' cannot be used for kernel ridge"):
        RidgeFunction("boxcar").fit(X, Y)
    with pytest.raises(ValueError, match="`kernel`='cosine' is not known; choose one of"):
        KernelSmoother("cosine").fit(X, Y)
    with pytest.raises(ValueError, match="do not match"):
        KernelSmoother().fit(X, Y[:-1])
    with pytest.raises(ValueError, match="`penalty` must be a positive"):
        RidgeFunction(penalty=-1.0).fit(X, Y)


@pytest.mark.parametrize("options", [{}, {"max_rows": 500, "n_centers": 200}])
def test_saved_functions_hold_rows_and_coefficients_alone(rng, options):
    X = rng.normal(size=(2000, 12))
    Y = np.eye(3)[rng.integers(3, size=2000)]
    function = RidgeFunction(bandwidth=3.0, penalty=0.1, random_state=0, **options).fit(X, Y)
    saved = pickle.dumps(function)
    assert len(saved) <= 3 * (X.nbytes + Y.nbytes)
    again, rows = pickle.loads(saved), np.arange(5)
    np.testing.assert_array_equal(again.predict(X[:5]), function.predict(X[:5]))
    left_out = function.predict(X[:5], rows)  # needs the system, which is made again
    np.testing.assert_allclose(again.predict(X[:5], rows), left_out, rtol=1e-9)


@pytest.mark.parametrize(
    "function",
    [
        RidgeFunction(bandwidth=2.0, penalty=0.1),
        KernelSmoother(bandwidth=2.0),
        KernelSmoother("boxcar", bandwidth=4.0),
    ],
)
def test_predictions_are_made_in_blocks(rng, function):
    X = rng.normal(size=(1000, 5))
    function.fit(X, np.eye(2)[rng.integers(2, size=1000)])
    Q = rng.normal(size=(20_000, 5))
    function.predict(Q[:2])
    tracemalloc.start()
    found = function.predict(Q)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.shape == (20_000, 2)
    assert peak < 100e6  # a kernel matrix of all is 160 MB
    np.testing.assert_allclose(found[-3:], function.predict(Q[-3:]), atol=1e-12)


def test_a_query_changes_no_function(rng):
    X = rng.normal(size=(50, 3))
    for function in (KernelSmoother(bandwidth=1.0), RidgeFunction(), NeighborsSmoother(5)):
        function.fit(X, np.eye(2)[rng.integers(2, size=50)])
        before = pickle.dumps(function)
        function.differences(X, np.full(3, 0.5), np.arange(50))
        function.predict(X)
        assert pickle.dumps(function) == before
