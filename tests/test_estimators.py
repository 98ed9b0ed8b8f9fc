"""EJOP and EGOP as scikit-learn citizens."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ejop import EGOP, EJOP, EJOPClassifier, egop_matrix, ejop_matrix
from ejop.functions import KernelSmoother, NeighborsSmoother
from ejop.sums.gaussian import GaussianForm

_LEFT_OUT = (
    "a row is left out of its own estimate: a row of weight 2 whole, but only one of two equal "
    "rows (test_properties.py shows the equivalence without leave-one-out)"
)
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": _LEFT_OUT,
}


@parametrize_with_checks(
    [
        EJOP(),
        EJOP("ball"),
        EJOP(NeighborsSmoother(3)),
        EJOP("ridge"),
        EJOP(LogisticRegression()),
        EJOP(step="analytic"),
        EJOP(diagonal=True),
        EGOP(),
        EGOP("ridge", n_components=1),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
@pytest.mark.filterwarnings("ignore:every difference is zero")  # tiny data of some checks
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


def test_fitted_attributes_have_the_promised_shapes(iris):
    X, y = iris
    fitted = EJOP(n_components=2).fit(X, y)
    assert fitted.outer_product_.shape == fitted.outer_product_stderr_.shape == (4, 4)
    assert fitted.components_.shape == (2, 4)
    assert fitted.eigenvalues_.shape == (4,)
    assert fitted.eigenvectors_.shape == (4, 4)
    assert fitted.feature_importances_.sum() == pytest.approx(1)
    assert fitted.output_shares_.sum() == pytest.approx(1)
    assert fitted.output_importances_.shape == (3, 4)
    np.testing.assert_allclose(fitted.output_importances_.sum(0), np.diag(fitted.outer_product_))
    np.testing.assert_array_equal(fitted.classes_, [0, 1, 2])
    assert fitted.bandwidth_ > 0
    assert fitted.step_ == fitted.bandwidth_ / 2
    assert "gaussian-product: 150 queries" in str(fitted.plan_)
    np.testing.assert_allclose(
        fitted.components_.T @ fitted.components_, fitted.get_mahalanobis_matrix()
    )
    np.testing.assert_allclose(
        fitted.eigenvectors_ * fitted.eigenvalues_ @ fitted.eigenvectors_.T, fitted.outer_product_
    )


def test_distances_agree_with_each_other(iris):
    X, y = iris
    fitted = EJOP(power=0.5).fit(X, y)
    pairs = np.stack([X[:20], X[20:40]], axis=1)
    Z = fitted.transform(X)
    expected = np.linalg.norm(Z[:20] - Z[20:40], axis=1)
    np.testing.assert_allclose(fitted.pair_distance(pairs), expected)
    metric = fitted.get_metric()
    np.testing.assert_allclose([metric(a, b) for a, b in pairs], expected)
    by_metric = KNeighborsClassifier(3, metric=metric, algorithm="brute").fit(X, y)
    by_space = KNeighborsClassifier(3, algorithm="brute").fit(Z, y)
    np.testing.assert_array_equal(by_metric.predict(X), by_space.predict(Z))


def test_jacobian_is_the_slope_of_the_softmax(iris):
    X, y = iris
    fitted = EJOP().fit(X, y)
    J = fitted.jacobian(X[:7])
    assert J.shape == (7, 3, 4)
    step = np.full(4, fitted.step_)
    expected = fitted.function_.differences(X[:7], step, softmax=True)
    np.testing.assert_allclose(J, expected)
    np.testing.assert_allclose(J.sum(1), 0, atol=1e-12)  # probabilities sum to one


def test_pipeline_grid_search_and_clone(iris):
    X, y = iris
    pipe = make_pipeline(StandardScaler(), EJOP(), KNeighborsClassifier())
    search = GridSearchCV(pipe, {"ejop__power": [0.5, 1.0], "ejop__n_components": [1, 2]}, cv=3)
    search.fit(X, y)
    assert search.best_score_ > 0.93
    estimator = EJOP(KernelSmoother("biweight", 0.7), power=0.3)
    copy = clone(estimator)
    assert copy.get_params()["function__kernel"] == "biweight"
    assert copy.set_params(function__bandwidth=0.9).fit(X, y).bandwidth_ == 0.9
    assert estimator.function.bandwidth == 0.7


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_keep_their_names(iris, frame):
    X, y = iris
    names = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
    table = frame(dict(zip(names, X.T, strict=True)))
    labels = np.array(["setosa", "versicolor", "virginica"])[y]
    kind = "pandas" if frame is pd.DataFrame else "polars"
    fitted = EJOP(n_components=2).set_output(transform=kind).fit(table, labels)
    assert list(fitted.feature_names_in_) == names
    out = fitted.transform(table)
    assert isinstance(out, frame)
    assert list(out.columns) == list(fitted.get_feature_names_out()) == ["ejop0", "ejop1"]
    np.testing.assert_array_equal(fitted.classes_, ["setosa", "versicolor", "virginica"])
    np.testing.assert_allclose(fitted.outer_product_, ejop_matrix(X, y))
    if kind == "pandas":
        with pytest.raises(ValueError, match="feature names"):
            fitted.transform(table.rename(columns={"sepal_length": "length"}))


def test_float32_stays_float32(iris):
    X, y = iris
    fitted = EJOP().fit(X.astype(np.float32), y)
    assert fitted.transform(X.astype(np.float32)).dtype == np.float32
    assert fitted.outer_product_.dtype == np.float64
    np.testing.assert_allclose(fitted.outer_product_, ejop_matrix(X, y), rtol=1e-3, atol=1e-6)


def test_any_model_can_be_the_function(iris):
    X, y = iris
    forest = RandomForestClassifier(n_estimators=10, random_state=0)
    fitted = EJOP(forest).fit(X, y)
    assert not hasattr(forest, "estimators_")  # cloned
    assert fitted.feature_importances_[2:].sum() > 0.8
    assert "a model cannot leave a row out" in str(fitted.plan_)
    ready = forest.fit(X, y)
    frozen = EJOP(FrozenEstimator(ready)).fit(X[::2], y[::2])
    np.testing.assert_array_equal(frozen.function_.predict(X), ready.predict_proba(X))


def test_a_frozen_model_must_know_the_same_classes(iris):
    X, y = iris
    frozen = FrozenEstimator(LogisticRegression(max_iter=500).fit(X, y))
    with pytest.raises(ValueError, match=r"knows the classes \[0, 1, 2\] and `y` has \[3, 4, 5\]"):
        EJOP(frozen).fit(X, y + 3)
    with pytest.raises(TypeError, match="is a classifier and the targets are real"):
        EGOP(LogisticRegression()).fit(X, X[:, 0])


def test_a_frozen_model_of_a_data_frame_keeps_its_names(iris):
    X, y = iris
    table = pd.DataFrame(X, columns=list("abcd"))
    frozen = FrozenEstimator(LogisticRegression(max_iter=500).fit(table, y))
    fitted = EJOP(frozen).fit(table, y)
    np.testing.assert_allclose(fitted.function_.predict(X), frozen.predict_proba(table))


@pytest.mark.parametrize("function", ["kernel", "ball", "knn", "ridge"])
def test_a_row_of_weight_zero_is_no_row(iris, function):
    X, y = iris
    w = np.tile([1.0, 0.0, 2.0], 50)
    weighted = EJOP(function, n_queries=40, random_state=0).fit(X, y, sample_weight=w)
    dropped = EJOP(function, n_queries=40, random_state=0)
    dropped.fit(X[w > 0], y[w > 0], sample_weight=w[w > 0])
    np.testing.assert_array_equal(weighted.outer_product_, dropped.outer_product_)
    assert weighted.n_queries_ == 40


def test_rounding_is_not_taken_for_a_direction(iris):
    X, y = iris
    with pytest.warns(UserWarning, match="every difference is zero"):
        fitted = EJOP("ball", bandwidth=1e-3).fit(X, y)
    np.testing.assert_allclose(fitted.get_mahalanobis_matrix(), np.eye(4), atol=1e-12)
    with pytest.warns(UserWarning, match="every difference is zero"):
        EJOP().partial_fit(X[:40], y[:40], classes=[0, 1, 2])  # one class so far


def test_egop_improves_on_neighbours_where_few_directions_matter(rng):
    X = rng.normal(size=(600, 8))
    y = np.sin(2 * X[:, 0] + X[:, 1])
    plain = cross_val_score(KNeighborsRegressor(), X, y).mean()
    metric = cross_val_score(make_pipeline(EGOP("ridge"), KNeighborsRegressor()), X, y).mean()
    assert metric > plain + 0.3


def test_egop_on_real_targets(diabetes):
    X, y = diabetes
    fitted = EGOP("ridge").fit(X, y)
    assert not hasattr(fitted, "classes_")
    assert set(fitted.feature_importances_.argsort()[-2:]) == {2, 8}  # bmi and s5, as known
    M = egop_matrix(X, y, function="ridge")
    np.testing.assert_allclose(M, fitted.outer_product_, rtol=1e-6, atol=1e-12)


def test_pickles_and_refits_alike(iris):
    X, y = iris
    fitted = EJOP("ridge", random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
    np.testing.assert_array_equal(clone(fitted).fit(X, y).outer_product_, fitted.outer_product_)


def test_partial_fit_checks_classes(iris):
    X, y = iris
    online = EJOP().partial_fit(X[40:60], y[40:60], classes=[0, 1, 2])
    assert online.outer_product_.shape == (4, 4)
    online.partial_fit(X[100:], y[100:])
    np.testing.assert_array_equal(online.classes_, [0, 1, 2])
    with pytest.raises(ValueError, match=r"labels \[7\] that are not among the classes"):
        online.partial_fit(X[:5], [7] * 5)
    with pytest.raises(ValueError, match="is not the same as on the first call"):
        online.partial_fit(X[:5], y[:5], classes=[0, 1])
    assert online.n_queries_ == 70  # a refused call changes nothing
    fresh = EJOP().fit(X, y)
    np.testing.assert_array_equal(online.fit(X, y).outer_product_, fresh.outer_product_)


def test_verbose_writes_to_stderr_only(iris, capsys):
    EJOP(verbose=1).fit(*iris)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "EJOP: 1/" in captured.err
    EJOP().fit(*iris)
    assert capsys.readouterr() == ("", "")


class Recorder:
    """A callback that writes down what it is told."""

    def __init__(self):
        self.events = []

    def setup(self, estimator, context):
        self.events.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context):
        self.events.append(("end", context.task_name))

    def teardown(self, estimator, context):
        self.events.append("teardown")


@pytest.mark.parametrize("n_queries", [None, "auto"])
def test_callbacks_see_every_block(iris, n_queries):
    pytest.importorskip("sklearn.callback")
    X, y = np.tile(iris[0], (4, 1)), np.tile(iris[1], 4)  # several rounds of "auto"
    recorder = Recorder()
    fitted = EJOP(n_queries=n_queries, random_state=0)
    fitted.set_callbacks(recorder).fit(X, y)
    events = recorder.events
    assert (events[0], events[-1]) == ("setup", "teardown")
    assert events.count("setup") == events.count("teardown") == 1
    assert events.count(("begin", "EJOP")) == events.count(("end", "EJOP")) == 1
    assert events.count(("end", "block")) == events.count(("begin", "block"))
    if n_queries is None:
        assert events.count(("end", "block")) == len(fitted.plan_.blocks())
    else:
        assert events.count(("end", "block")) >= 2


def test_callbacks_see_the_tuning(iris):
    pytest.importorskip("sklearn.callback")
    recorder = Recorder()
    model = EJOPClassifier("knn", function="kernel", random_state=0).set_callbacks(recorder)
    model.fit(*iris)
    assert recorder.events.count("setup") == recorder.events.count("teardown") == 1
    assert recorder.events.count(("end", "EJOPClassifier")) == 1
    assert recorder.events.count(("end", "block")) >= 4


def test_an_interrupted_fit_leaves_nothing_fitted(iris, monkeypatch):
    X, y = iris
    fitted = EJOP().fit(X, y)

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(GaussianForm, "sums", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(X, y)
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        fitted.transform(X)


def test_import_is_light():
    code = (
        "import sys, ejop; heavy = {'numba', 'torch', 'dask', 'matplotlib', 'plotly', 'pandas', "
        "'typer', 'rich', 'pooch', 'sklearn'} & set(sys.modules); assert not heavy, heavy; "
        "from ejop import EJOP; extras = {'torch', 'dask', 'matplotlib', 'plotly', 'typer', "
        "'pooch'} & set(sys.modules); assert not extras, extras"  # scikit-learn itself loads rich
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        __import__("ejop").nothing  # noqa: B018
