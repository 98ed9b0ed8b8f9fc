"""The torch backend agrees with NumPy, function by function and kernel by kernel."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from ejop import EGOP, EJOP, Device, EJOPClassifier

torch = pytest.importorskip("torch")

from ejop.functions import KernelSmoother, NeighborsSmoother, RidgeFunction  # noqa: E402
from ejop.neighbors import nearest, within  # noqa: E402
from ejop.sums import prepare  # noqa: E402
from ejop.sums.device_search import DeviceSearch  # noqa: E402
from ejop.sums.engine import HostEngine  # noqa: E402
from ejop.sums.gaussian import GaussianForm  # noqa: E402
from ejop.sums.torch_engine import TorchEngine, torch_engines  # noqa: E402

DEVICE = os.environ.get("EJOP_TEST_DEVICE", "cpu")
#: agreement of M with NumPy in float64, relative to its largest entry
AGREEMENT = {"float64": 1e-10, "float32": 1e-5, "tf32": 1e-3, "bf16": 1e-2}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400] / 16, y[:400]


def apart(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


FUNCTIONS = {
    "gaussian": {"function": "kernel"},
    "given": {"function": "kernel", "bandwidth": 0.7, "step": 0.2},
    "ball": {"function": "ball", "bandwidth": 1.7},
    "epanechnikov": {"function": KernelSmoother("epanechnikov", 2.0)},
    "tricube": {"function": KernelSmoother("tricube", 2.0)},
    "triangular": {"function": KernelSmoother("triangular", 2.0)},
    "smooth laplace": {"function": KernelSmoother("laplace", 0.5)},
    "knn": {"function": NeighborsSmoother(7)},
    "ridge": {"function": RidgeFunction(bandwidth=2.0, penalty=1e-2)},
    "laplace": {"function": RidgeFunction("laplace", bandwidth=4.0, penalty=1e-2)},
    "l1": {"function": RidgeFunction("l1", bandwidth=20.0, penalty=1e-2)},
}


@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize("leave_one_out", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_same_matrix_as_numpy(digits, name, leave_one_out, softmax):
    options = {**FUNCTIONS[name], "leave_one_out": leave_one_out, "softmax": softmax}
    ours = EJOP(**options, random_state=0, device=DEVICE).fit(*digits)
    numpy = EJOP(**options, random_state=0).fit(*digits)
    assert apart(ours.outer_product_, numpy.outer_product_) < AGREEMENT["float64"]
    assert ours.plan_.method.startswith("torch-")
    assert DEVICE in str(ours.plan_)
    np.testing.assert_allclose(
        ours.output_importances_, numpy.output_importances_, rtol=1e-8, atol=1e-18
    )


@pytest.fixture
def fused_everywhere(monkeypatch):
    """The Triton kernels, on a card or interpreted with TRITON_INTERPRET=1."""
    pytest.importorskip("triton")
    if DEVICE == "cpu" and not os.environ.get("TRITON_INTERPRET"):
        pytest.skip("needs a card, or TRITON_INTERPRET=1")
    monkeypatch.setattr("ejop.sums.torch_engine.fused", lambda device: True)


@pytest.mark.parametrize("targets", ["classes", "real"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("name", ["ball", "epanechnikov", "triangular", "tricube", "knn"])
def test_fused_shifts(rng, fused_everywhere, name, weighted, targets):
    X = rng.integers(0, 4, size=(40, 3)) / 2.0  # equal distances everywhere
    y = rng.integers(0, 3, size=40) if targets == "classes" else X @ rng.normal(size=(3, 2))
    w = rng.uniform(0.5, 2, size=40) if weighted else None
    kind = EJOP if targets == "classes" else EGOP
    options = {**FUNCTIONS[name], "step": 0.25}  # no shifted row lies on a sphere
    if name == "ball":
        options["bandwidth"] = 1.3
    elif name != "knn":
        options["function"] = KernelSmoother(name, 1.3)
    ours = kind(**options, device=DEVICE).fit(X, y, sample_weight=w)
    numpy = kind(**options).fit(X, y, sample_weight=w)
    assert "in one kernel" in str(ours.plan_)
    assert apart(ours.outer_product_, numpy.outer_product_) < AGREEMENT["float64"]
    single = kind(**options, device=DEVICE).fit(X.astype(np.float32), y, sample_weight=w)
    assert apart(single.outer_product_, numpy.outer_product_) < AGREEMENT["float32"]


def test_candidates_are_few_and_hold_the_nearest_of_every_shift(rng):
    X, step, k = rng.normal(size=(300, 2)), 0.5, 5
    function = NeighborsSmoother(k).fit(X, np.eye(2)[(X[:, 0] > 0).astype(int)])
    (engine,) = torch_engines(DEVICE, None, np.float64)
    form = prepare(function, np.full(2, step), engine=engine)
    (tile,), Q = form.tiles(), form.queries(X)
    D = tile.squared_distances(Q, np.arange(len(X)))
    first = tile.smallest(D, k)[1]
    pairs = tile.candidates(Q, torch.isfinite(D), first, engine.array(form.step))
    query, row = (part.cpu().numpy() for part in pairs[:2])
    assert (np.diff(query * len(X) + row) > 0).all()  # the order that settles ties
    kept, needed = np.zeros((2, len(X), len(X)), dtype=bool)
    kept[query, row] = True
    D = ((X[:, None] - X) ** 2).sum(2)
    np.fill_diagonal(D, np.inf)
    for x in X.T:
        across = 2 * step * (x[:, None] - x)
        for moved in (D + across, D - across):
            needed |= np.partition(moved, k - 1, axis=1)[:, k - 1 : k] - 1e-9 > moved
    assert not (needed & ~kept).any()
    shift = (2 * step * np.abs(X[:, None] - X)).max(2)
    first = np.argsort(D, axis=1)[:, :k]
    ceiling = np.take_along_axis(D + shift, first, 1).max(1, keepdims=True)
    assert not (kept & (D - shift > ceiling + 1e-9)).any()


@pytest.mark.parametrize("name", ["gaussian", "smooth laplace", "ridge", "laplace", "l1"])
def test_analytic_derivatives(digits, name):
    options = {**FUNCTIONS[name], "step": "analytic", "random_state": 0}
    ours, numpy = EJOP(**options, device=DEVICE).fit(*digits), EJOP(**options).fit(*digits)
    assert apart(ours.outer_product_, numpy.outer_product_) < AGREEMENT["float64"]


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
def test_precisions(digits, precision):
    X, y = digits
    exact = EJOP(bandwidth=0.7).fit(X, y)
    ours = EJOP(bandwidth=0.7, device=Device(DEVICE, precision)).fit(X, y)
    assert apart(ours.outer_product_, exact.outer_product_) < AGREEMENT[precision]


@pytest.mark.parametrize("leave_one_out", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("function", ["kernel", "ridge"])
@pytest.mark.filterwarnings("ignore:the standard deviations of the columns")
def test_steps_beyond_the_factorised_form(rng, function, weighted, leave_one_out):
    """Kernel matrices are then shifted feature by feature, on either side."""
    X = rng.normal(size=(120, 4)) * [1, 1, 150, 1]
    y = (X[:, 0] + X[:, 2] / 150 > 0).astype(int)
    functions = {"kernel": "kernel", "ridge": RidgeFunction(bandwidth=1.0, penalty=1e-2)}
    options = {"function": functions[function], "step": 1.0, "leave_one_out": leave_one_out}
    if function == "kernel":
        options["bandwidth"] = 1.0
    w = rng.uniform(0.5, 2, size=120) if weighted else None
    ours = EJOP(**options, device=DEVICE).fit(X, y, sample_weight=w)
    numpy = EJOP(**options).fit(X, y, sample_weight=w)
    assert "direct" in ours.plan_.method
    assert "direct" in numpy.plan_.method
    assert "one feature at a time" in str(ours.plan_)
    assert apart(ours.outer_product_, numpy.outer_product_) < AGREEMENT["float64"]


@pytest.mark.parametrize("leave_one_out", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_nystrom_is_solved_on_the_device(digits, rng, monkeypatch, weighted, leave_one_out):
    X, y = digits
    w = rng.uniform(0.5, 2, size=len(X)) if weighted else None
    function = RidgeFunction(
        bandwidth=2.0, penalty=1e-2, max_rows=100, n_centers=60, random_state=0
    )
    options = {"function": function, "leave_one_out": leave_one_out}
    numpy = EJOP(**options).fit(X, y, sample_weight=w)
    with monkeypatch.context() as m:
        m.setattr(HostEngine, "cholesky", None)  # the host has no part in it
        ours = EJOP(**options, device=DEVICE).fit(X, y, sample_weight=w)
    assert (
        apart(ours.outer_product_, numpy.outer_product_) < 1e-8
    )  # 60 centres are nearly dependent
    np.testing.assert_allclose(ours.jacobian(X[:5]), numpy.jacobian(X[:5]), atol=1e-7)


def test_a_device_takes_as_many_centres_as_it_holds(digits, monkeypatch):
    X, y = digits
    monkeypatch.setattr(HostEngine, "most_centers", lambda self: 100)
    function = RidgeFunction(bandwidth=2.0, penalty=1e-2, n_centers=50, random_state=0)
    options = {"function": function, "random_state": 0}
    assert not EJOP(**options).fit(X, y).function_.all_rows
    monkeypatch.setattr(TorchEngine, "most_centers", lambda self: 399)
    assert not EJOP(**options, device=DEVICE).fit(X, y).function_.all_rows
    monkeypatch.setattr(TorchEngine, "most_centers", lambda self: 400)
    assert EJOP(**options, device=DEVICE).fit(X, y).function_.all_rows


def test_the_switch_for_tensor_cores_is_put_back_when_the_last_thread_is_done():
    from ejop.sums.torch_engine import _TensorCores

    switch, cores = torch.backends.cuda.matmul, _TensorCores()
    before = switch.allow_tf32
    cores.__enter__()
    with cores:
        assert switch.allow_tf32
    assert switch.allow_tf32  # the first is still at work
    cores.__exit__()
    assert switch.allow_tf32 == before


def test_a_search_that_does_not_fit_goes_on_in_smaller_blocks(rng, monkeypatch):
    X = rng.normal(size=(300, 4))
    plain, tried = DeviceSearch._offsets, []

    def tight(self, queries):
        tried.append(len(queries))
        if len(queries) > 50:
            raise torch.OutOfMemoryError("no room")
        return plain(self, queries)

    monkeypatch.setattr(DeviceSearch, "_offsets", tight)
    np.testing.assert_array_equal(nearest(X, X, 3, device=DEVICE)[1], nearest(X, X, 3)[1])
    there, here = within(X, X, 0.5, device=DEVICE), within(X, X, 0.5)
    np.testing.assert_array_equal(there.rows, here.rows)
    assert max(tried) > 50


@pytest.mark.parametrize("name", ["gaussian", "smooth laplace", "ball", "knn", "ridge"])
def test_weights(digits, name, rng):
    X, y = digits
    w = rng.uniform(0.1, 3, size=len(X))
    w[:20] = 0
    options = {**FUNCTIONS[name], "random_state": 0}
    ours = EJOP(**options, device=DEVICE).fit(X, y, sample_weight=w)
    numpy = EJOP(**options).fit(X, y, sample_weight=w)
    assert apart(ours.outer_product_, numpy.outer_product_) < AGREEMENT["float64"]


def test_real_targets(rng):
    X = rng.normal(size=(300, 6))
    Y = np.c_[np.sin(X[:, 0]), X[:, 1] * X[:, 2]]
    for function in ("kernel", "ridge", "knn", "ball"):
        options = {"function": function, "random_state": 0}
        if function == "ball":
            options["bandwidth"] = 2.0
        ours, numpy = EGOP(**options, device=DEVICE).fit(X, Y), EGOP(**options).fit(X, Y)
        assert apart(ours.outer_product_, numpy.outer_product_) < AGREEMENT["float64"]


def test_standard_errors_are_of_the_same_size(digits):
    ours, numpy = EJOP(device=DEVICE).fit(*digits), EJOP().fit(*digits)
    ratio = np.linalg.norm(ours.outer_product_stderr_) / np.linalg.norm(numpy.outer_product_stderr_)
    assert 0.8 < ratio < 1.25


def test_several_devices_share_the_queries(digits):
    one, two = EJOP(device=DEVICE).fit(*digits), EJOP(device=[DEVICE, DEVICE]).fit(*digits)
    assert apart(two.outer_product_, one.outer_product_) < 1e-12
    assert two.n_queries_ == one.n_queries_ == 400


def test_small_blocks_and_sampled_queries(digits):
    whole = EJOP(device=DEVICE, n_queries=100, random_state=0).fit(*digits)
    tight = Device(DEVICE, memory_limit=1_500_000)
    small = EJOP(device=tight, n_queries=100, random_state=0).fit(*digits)
    assert small.plan_.block < whole.plan_.block
    assert apart(small.outer_product_, whole.outer_product_) < 1e-12
    automatic = EJOP(device=DEVICE, n_queries=0.1, random_state=0).fit(*digits)
    assert automatic.n_queries_ <= 400


def test_out_of_memory_halves_the_block_and_says_so(digits, monkeypatch):
    tried = []
    whole = EJOP(device=DEVICE).fit(*digits)
    plain = GaussianForm.sums

    def tight(self, Q, tile, exclude):
        tried.append(len(Q))
        if len(Q) > 100:
            raise torch.OutOfMemoryError("no room")
        return plain(self, Q, tile, exclude)

    monkeypatch.setattr(GaussianForm, "sums", tight)
    fitted = EJOP(device=DEVICE).fit(*digits)
    assert apart(fitted.outer_product_, whole.outer_product_) < 1e-12
    assert "out of memory" in str(fitted.plan_)
    assert max(tried) > 100


def test_tensors_in_tensors_out(digits):
    X, y = digits
    tensors = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y)
    fitted = EJOP(bandwidth=0.7).fit(*tensors)
    assert fitted.plan_.method.startswith("torch-")
    out = fitted.transform(tensors[0])
    assert isinstance(out, torch.Tensor)
    assert out.dtype == torch.float32
    assert out.device == tensors[0].device
    numpy = EJOP(bandwidth=0.7).fit(X.astype(np.float32), y)
    assert apart(fitted.outer_product_, numpy.outer_product_) < 1e-5
    assert isinstance(fitted.transform(X), np.ndarray)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "nowhere"}, "`device`='nowhere' is not a device"),
        ({"device": Device("cpu", precision="float8")}, "precision"),
        ({"device": "cuda:99"}, "`device`='cuda:99'"),
        ({"device": Device(memory_limit=-1)}, "`memory_limit` must be a positive number"),
    ],
)
def test_bad_options(digits, options, message):
    with pytest.raises(ValueError, match=message):
        EJOP(**options).fit(*digits)


@pytest.mark.parametrize("options", [{"diagonal": True}, {"min_mass": 3}])
def test_every_term_of_the_mean_is_there_on_a_device(digits, options):
    options = {"bandwidth": 4.5, "step": 0.5, **options}
    ours, numpy = EJOP(device=DEVICE, **options).fit(*digits), EJOP(**options).fit(*digits)
    assert apart(ours.outer_product_, numpy.outer_product_) < AGREEMENT["float64"]
    assert ours.mass_zeroed_ == numpy.mass_zeroed_


@pytest.mark.parametrize("device", [3.7, [3.7], object()])
def test_what_is_no_device_is_refused(digits, device):
    with pytest.raises(TypeError, match="is not a device; pass None, 'cpu'"):
        EJOP(device=device).fit(*digits)


def test_split_products_keep_the_digits(rng):
    """Two parts of a float32 add up to it, and the high one survives TF32."""
    from ejop.sums.torch_engine import _split

    A = torch.as_tensor(rng.normal(size=(50, 30)).astype(np.float32))
    high, low = _split(A)
    assert torch.equal(high + low, A)
    assert not (high.view(torch.int32) & 0x1FFF).any()
    assert torch_engines("cpu", None, np.float64) == [TorchEngine(torch.device("cpu"), "float64")]


def test_neighbours_and_their_ties_are_those_of_the_cpu(rng):
    X = rng.integers(0, 4, size=(500, 5)).astype(float)  # ties everywhere
    Q = rng.integers(0, 4, size=(60, 5)).astype(float)
    for a, b in zip(nearest(Q, X, 7, device=DEVICE), nearest(Q, X, 7), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    single = nearest(Q.astype(np.float32), X.astype(np.float32), 7, device=DEVICE)
    np.testing.assert_array_equal(single[1], nearest(Q, X, 7)[1])


def test_rows_far_from_all_others(rng):
    """Weights that underflow are rescaled, and rows that only fill up a class never count."""
    X = np.vstack(
        [np.zeros((1, 3)), rng.normal(size=(20, 3)) + 900, rng.normal(size=(21, 3)) - 900]
    )
    y = np.r_[0, np.ones(20), np.zeros(21)].astype(int)
    y[:10] = 1 - y[:10]  # so that something changes within a cluster
    options = {"bandwidth": 1.0, "step": 1e-3}
    ours, numpy = EJOP(**options, device=DEVICE).fit(X, y), EJOP(**options).fit(X, y)
    assert apart(ours.outer_product_, numpy.outer_product_) < 1e-9


def test_ridge_beyond_max_rows_uses_centres(digits):
    from ejop.functions import RidgeFunction

    function = RidgeFunction(
        bandwidth=2.0, penalty=1e-2, max_rows=200, n_centers=80, random_state=0
    )
    ours, numpy = EJOP(function, device=DEVICE).fit(*digits), EJOP(function).fit(*digits)
    assert apart(ours.outer_product_, numpy.outer_product_) < AGREEMENT["float64"]


def test_what_a_device_solved_is_there_for_numpy(digits):
    """A ridge function whose coefficients came from a device still predicts and explains."""
    X, y = digits
    options = {"function": RidgeFunction(bandwidth=2.0, penalty=1e-2)}
    ours, numpy = EJOP(**options, device=DEVICE).fit(X, y), EJOP(**options).fit(X, y)
    np.testing.assert_allclose(
        ours.function_.coefficients_, numpy.function_.coefficients_, atol=1e-8
    )
    np.testing.assert_allclose(ours.jacobian(X[:5]), numpy.jacobian(X[:5]), atol=1e-8)


@pytest.mark.parametrize("rule", ["knn", "hnn"])
def test_the_classifier_on_a_device(digits, rule):
    X, y = digits
    options = {"rule": rule, "function": "kernel", "scale": "none", "random_state": 0}
    ours = EJOPClassifier(**options, device=DEVICE).fit(X[:300], y[:300])
    numpy = EJOPClassifier(**options).fit(X[:300], y[:300])
    assert ours.best_params_ == numpy.best_params_
    np.testing.assert_array_equal(ours.predict(X[300:]), numpy.predict(X[300:]))


def test_balls_on_a_device_hold_the_same_rows(rng):
    X = rng.integers(0, 5, size=(300, 4)) * 1.0  # many rows lie on the sphere
    there, here = within(X[:50], X, 2.0, device=DEVICE), within(X[:50], X, 2.0)
    for name in ("queries", "rows"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))
    np.testing.assert_allclose(there.distances, here.distances, atol=1e-12)
    assert not len(within(X[:5] + 0.5, X, 0.1, device=DEVICE).rows)


@pytest.mark.parametrize("stretch", [3072, 40])
@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
def test_split_products_give_the_same_matrix(digits, monkeypatch, precision, stretch):
    """The forms that tensor cores take, on any device."""
    from ejop.sums import torch_engine as door

    monkeypatch.setattr(TorchEngine, "has_tensor_cores", property(lambda self: True))
    monkeypatch.setattr(door, "STRETCH", stretch)
    X, y = digits
    exact = EJOP(bandwidth=0.7).fit(X, y)
    ours = EJOP(bandwidth=0.7, device=Device(DEVICE, precision)).fit(X, y)
    assert apart(ours.outer_product_, exact.outer_product_) < AGREEMENT[precision]


def test_the_classifier_takes_tensors(digits):
    X, y = digits
    rows, labels = torch.as_tensor(X, device=DEVICE), torch.as_tensor(y, device=DEVICE)
    options = {"rule": "knn", "function": "kernel", "scale": "standard", "random_state": 0}
    ours = EJOPClassifier(**options).fit(rows[:300], labels[:300])
    numpy = EJOPClassifier(**options, device=DEVICE).fit(X[:300], y[:300])
    assert ours.score(rows[300:], labels[300:]) == numpy.score(X[300:], y[300:])
    for found, expected in (
        (ours.predict(rows[300:]), numpy.predict(X[300:])),
        (ours.predict_proba(rows[300:]), numpy.predict_proba(X[300:])),
        (ours.kneighbors(rows[300:])[1], numpy.kneighbors(X[300:])[1]),
    ):
        assert found.device == rows.device
        np.testing.assert_allclose(found.cpu().numpy(), expected, atol=1e-8)
    there, here = ours.explain(rows[300:305]), numpy.explain(X[300:305])
    np.testing.assert_allclose(there.values, here.values, atol=1e-8)
    named = EJOPClassifier(**options).fit(rows[:300], np.array(list("abcdefghij"))[y[:300]])
    assert set(named.predict(rows[300:])) <= set("abcdefghij")
    mapped = ours.transform(rows[300:])
    assert isinstance(mapped, torch.Tensor)
    assert mapped.device == rows.device
    np.testing.assert_allclose(mapped.cpu().numpy(), numpy.transform(X[300:]), atol=1e-8)


@pytest.mark.skipif(not os.environ.get("SCIPY_ARRAY_API"), reason="runs with SCIPY_ARRAY_API=1")
def test_array_api_dispatch_keeps_tensors_through_a_pipeline(digits):
    from sklearn import config_context
    from sklearn.metrics import accuracy_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    X, y = digits
    rows, labels = torch.as_tensor(X, device=DEVICE), torch.as_tensor(y, device=DEVICE)
    plain = make_pipeline(MaxAbsScaler(), EJOP(random_state=0)).fit(X[:300], y[:300])
    model = EJOPClassifier("knn", function="kernel", scale="none", random_state=0)
    with config_context(array_api_dispatch=True):
        ours = make_pipeline(MaxAbsScaler(), EJOP(random_state=0)).fit(rows[:300], labels[:300])
        mapped = ours.transform(rows[300:])
        model.fit(rows[:300], labels[:300])
        accuracy = accuracy_score(labels[300:], model.predict(rows[300:]))
        assert accuracy == pytest.approx(model.score(rows[300:], labels[300:]), abs=1e-6)
    assert mapped.device == rows.device
    np.testing.assert_allclose(mapped.cpu().numpy(), plain.transform(X[300:]), atol=1e-8)


WITHOUT_TORCH = """
import pickle, sys
import numpy as np
for path in sys.argv[1:]:
    fitted = pickle.load(open(path, "rb"))
    X = np.random.default_rng(0).normal(size=(5, 4))
    assert fitted.transform(X).shape == (5, 4)
    assert fitted.jacobian(X).shape == (5, 2, 4)
"""


def test_what_a_device_fitted_needs_no_torch(rng, tmp_path):
    X, y = rng.normal(size=(120, 4)), np.arange(120) % 2
    nystrom = RidgeFunction(bandwidth=1.0, penalty=0.1, max_rows=50, n_centers=30)
    paths = []
    for name, function in (("kernel", "kernel"), ("ridge", nystrom)):
        paths.append(tmp_path / name)
        paths[-1].write_bytes(pickle.dumps(EJOP(function, device=DEVICE).fit(X, y)))
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch here')")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    }
    command = [sys.executable, "-c", WITHOUT_TORCH, *map(str, paths)]
    subprocess.run(command, check=True, env=environment)


def test_a_device_without_float64_is_never_sent_any(digits, monkeypatch):
    X, y = digits
    monkeypatch.setattr(TorchEngine, "has_float64", property(lambda self: False))
    plain, sent = torch.as_tensor, set()

    def watched(values, **options):
        sent.add(str(values.dtype))
        return plain(values, **options)

    monkeypatch.setattr(torch, "as_tensor", watched)
    for name in ("gaussian", "ball", "knn"):
        EJOP(**FUNCTIONS[name], device=Device(DEVICE, "float32")).fit(X, y)
    assert "float32" in sent
    assert "float64" not in sent


@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_of_machines_is_the_same_on_a_device(digits, weighted):
    X, y = digits[0][:250], digits[1][:250]
    w = np.random.default_rng(0).uniform(0.5, 2, 250) if weighted else None
    numpy = EJOPClassifier(random_state=0).fit(X, y, w)
    ours = EJOPClassifier(random_state=0, device=DEVICE).fit(X, y, w)
    assert ours.rule_.in_words() == numpy.rule_.in_words()
    assert ours.plan_.method == "torch-average"
    Q = digits[0][250:]
    np.testing.assert_allclose(ours.predict_proba(Q), numpy.predict_proba(Q), atol=1e-6)
    M = numpy.metric_estimator_.outer_product_
    assert apart(ours.metric_estimator_.outer_product_, M) < 1e-6
    ours.set_params(device=None)  # fitted there, answers here
    np.testing.assert_allclose(ours.predict_proba(Q), numpy.predict_proba(Q), atol=1e-6)
