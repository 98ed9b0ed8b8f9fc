"""Dask: predictors that tune on a sample and search references on the workers."""

import pickle
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from ejop import EGOPRegressor, EJOPClassifier
from ejop.datasets import make_multi_index

pytest.importorskip("distributed")
import dask.array as da
import pandas as pd

from ejop.columns import ColumnPreparer
from ejop.dask import DaskEGOPRegressor, DaskEJOPClassifier
from ejop.executors.dask import plan as plan_module
from ejop.executors.dask import predictors as predictors_module
from ejop.executors.dask import rows as rows_module
from ejop.executors.dask.machines import PASSES
from ejop.functions import mapped
from ejop.rules import KNeighborsRule, RadiusRule
from ejop.sums.conjugate import ConjugateSystem, RowPasses
from ejop.sums.engine import HOST

X, Y, _ = make_multi_index(240, 4, random_state=2)
NAMES = np.array(["red", "green", "blue"])[Y]
TARGETS = np.c_[np.sin(X[:, 0] + X[:, 1]), 10 * X[:, 2]]
CUTS = (0, 100, 1, 80, 59, 0)
QUICK = {"rule": "knn", "function": "kernel", "scale": "standard", "power": 1.0}
QUICK["random_state"] = 0


@pytest.fixture(autouse=True)
def partitioned(monkeypatch):
    """References stay in their partitions, as where a worker cannot hold them."""
    monkeypatch.setattr(rows_module, "BLOCK_BYTES", 1)
    monkeypatch.setattr(predictors_module, "BROADCAST_SHARE", 0)


def cut(values):
    rest = (-1,) * (values.ndim - 1)
    return da.from_array(values, chunks=(CUTS, *rest))


def compute(client, *lazy):
    return client.gather(client.compute(list(lazy)))


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"rule": KNeighborsRule(n_neighbors=5, weights="distance")},
        {"rule": "hnn"},
        {"rule": RadiusRule(radius=0.05, empty="prior", weights="distance")},
        {"rule": RadiusRule(radius=0.05)},
        {"class_weight": "balanced"},
        {"class_weight": {"red": 5.0}},
        {"reduction": "tiles"},
        {"scale": "none", "power": "auto", "n_iter": 2},
        {"scale": "quantile"},
    ],
    ids=str,
)
def test_predictions_are_those_of_the_twin(client, parameters):
    parameters = {**QUICK, **parameters}
    reduction = parameters.pop("reduction", "auto")
    queries = np.random.default_rng(0).normal(size=(150, 4)) * X.std(0)
    local = EJOPClassifier(**parameters).fit(X, NAMES)
    model = DaskEJOPClassifier(client=client, reduction=reduction, **parameters)
    model.fit(cut(X), cut(NAMES))
    asked = da.from_array(queries, chunks=(100, -1))
    lazy = (model.predict(asked), model.predict_proba(asked), model.transform(asked))
    assert all(isinstance(answer, da.Array) for answer in lazy)
    answers, shares, mapped = compute(client, *lazy)
    np.testing.assert_array_equal(answers, local.predict(queries))
    np.testing.assert_allclose(shares, local.predict_proba(queries), atol=1e-8)
    np.testing.assert_allclose(mapped, local.transform(queries), rtol=1e-8, atol=1e-9)
    assert model.best_params_ == local.best_params_
    assert model.best_score_ == local.best_score_
    assert model.plan_.reduction == ("tiles" if reduction == "tiles" else "broadcast")


def test_ties_fall_as_in_the_twin(client):
    """Rows on a grid: many equal distances, across partitions too."""
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 4, size=(240, 2)).astype(float)
    labels = rng.integers(0, 4, size=240)
    queries = rng.integers(0, 8, size=(200, 2)) / 2
    for k in (1, 6):
        parameters = {**QUICK, "power": 0.0, "scale": "none", "rule": KNeighborsRule(k)}
        local = EJOPClassifier(**parameters).fit(rows, labels)
        model = DaskEJOPClassifier(client=client, **parameters).fit(cut(rows), cut(labels))
        (answers,) = compute(client, model.predict(da.from_array(queries, chunks=(70, -1))))
        np.testing.assert_array_equal(answers, local.predict(queries))


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("parameters", [QUICK, {"random_state": 0}], ids=["knn", "ridge"])
def test_regressor_is_its_twin(client, parameters, outputs):
    y = TARGETS[:, 0] if outputs == 1 else TARGETS
    local = EGOPRegressor(**parameters).fit(X, y)
    model = DaskEGOPRegressor(client=client, **parameters).fit(cut(X), cut(y))
    (answers,) = compute(client, model.predict(cut(X)))
    assert answers.shape == y.shape
    np.testing.assert_allclose(answers, local.predict(X), atol=1e-7)
    assert model.score(cut(X), cut(y)) == pytest.approx(local.score(X, y), abs=1e-8)


def test_twin_with_its_rows(client):
    local = EJOPClassifier(**QUICK).fit(X, NAMES)
    model = DaskEJOPClassifier(client=client, **QUICK).fit(cut(X), cut(NAMES))
    plain = model.to_local()
    assert type(plain) is EJOPClassifier
    np.testing.assert_array_equal(plain.predict(X), local.predict(X))
    np.testing.assert_allclose(plain.explain(X[:9]), local.explain(X[:9]), atol=1e-9)
    for one, other in zip(plain.kneighbors(X[:9]), local.kneighbors(X[:9]), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    assert not hasattr(model.rule_, "rows_")  # the client's own stays light
    np.testing.assert_allclose(model.feature_importances_, local.feature_importances_, atol=1e-9)
    light = model.to_local(references=False)
    np.testing.assert_allclose(light.transform(X), local.transform(X), atol=1e-9)
    assert model.score(cut(X), cut(NAMES)) == local.score(X, NAMES)
    for name in ("kneighbors", "explain", "why_near", "scale_rows"):
        with pytest.raises(AttributeError, match=rf"has no `{name}`; use to_local\(\).{name}"):
            getattr(model, name)(cut(X))
    with pytest.raises(AttributeError, match="has no `partial_fit`; concatenate the collections"):
        model.partial_fit(cut(X), cut(NAMES))


def test_tuning_takes_a_sample_and_the_metric_all_rows(client):
    model = DaskEJOPClassifier(tuning_rows=100, client=client, **QUICK).fit(cut(X), cut(Y))
    assert model.plan_.n_rows == 240
    assert len(model.to_local().rule_.rows_) == 240
    (answers,) = compute(client, model.predict(cut(X)))
    assert np.mean(answers == Y) > 0.6
    untuned = DaskEJOPClassifier(refit=False, client=client, **QUICK).fit(cut(X), cut(Y))
    assert untuned.best_score_ > 0.5
    with pytest.raises(NotFittedError, match="`refit`=False, which keeps only the results"):
        untuned.predict(cut(X))


def test_machines_are_fitted_whole_on_a_worker(client):
    local = EJOPClassifier(random_state=0).fit(X, NAMES)
    model = DaskEJOPClassifier(random_state=0, client=client).fit(cut(X), cut(NAMES))
    assert model.plan_.reduction == "sample"
    assert "fitted whole on one worker, to all rows" in str(model.plan_)
    assert model.best_params_ == local.best_params_
    assert model.best_score_ == local.best_score_
    pd.testing.assert_frame_equal(
        pd.DataFrame(model.cv_results_), pd.DataFrame(local.cv_results_), check_exact=False
    )
    lazy = (model.predict(cut(X)), model.predict_proba(cut(X)), model.transform(cut(X)))
    sets, none = model.predict_set(cut(X), 0.8), model.predict_proba(cut(X)[:0])
    answers, shares, mapped, inside, nothing = compute(client, *lazy, sets, none)
    np.testing.assert_array_equal(answers, local.predict(X))
    np.testing.assert_allclose(shares, local.predict_proba(X), atol=1e-8)
    np.testing.assert_allclose(mapped, local.transform(X), atol=1e-8)
    np.testing.assert_array_equal(inside, local.predict_set(X, 0.8))
    assert nothing.shape == (0, 3)
    assert model.score(cut(X), cut(NAMES)) == pytest.approx(local.score(X, NAMES))
    plain = model.to_local()
    assert type(plain) is EJOPClassifier
    np.testing.assert_allclose(plain.explain(X[:9]), local.explain(X[:9]), atol=1e-8)
    for one, other in zip(plain.kneighbors(X[:9]), local.kneighbors(X[:9]), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


def test_machines_of_a_sample(client):
    model = DaskEGOPRegressor(tuning_rows=100, random_state=0, client=client)
    model.fit(cut(X), cut(TARGETS))
    assert "fitted whole on one worker, to 100 of 240 rows, drawn at random" in str(model.plan_)
    plain = model.to_local()
    assert len(plain.rule_.targets_) == len(plain.kept_) == 100
    np.testing.assert_array_equal(plain.rule_.targets_, TARGETS[plain.kept_])  # as they are counted
    again = pickle.loads(pickle.dumps(model)).set_params(client=client)  # saved with its sample
    bounds, same = compute(client, model.predict_interval(cut(X)), again.predict(cut(X)))
    np.testing.assert_allclose(bounds, plain.predict_interval(X))
    np.testing.assert_allclose(same, plain.predict(X))
    with pytest.raises(ValueError, match="`coverage` must lie between 0 and 1"):
        model.predict_interval(cut(X), 2)


def in_one_place(plain, rows, targets, w=None):
    """The members of a sample solved for all rows by passes of one machine."""
    function, found = plain.rule_.function_, []
    w = np.ones(len(rows)) if w is None else w
    for member in function.members_:
        held = function.X_ if member.centers is None else function.X_[member.centers]
        Z, Q = (
            mapped(function.prepared(values, member.preparation), member.L)
            for values in (held, plain.scaler_.transform(rows))
        )
        system = ConjugateSystem.of(
            member.kernel,
            Z,
            member.bandwidth,
            member.penalty * w.mean(),
            w.sum(),
            HOST,
            single=False,
        )
        R, column = targets - function.summary_.prior, w[:, None]

        def read(a, b, Q=Q, R=R, column=column):
            return Q[a:b], R[a:b], column[a:b]

        passes = RowPasses(read, len(rows), w.sum())
        *_, last = islice(
            system.descend(passes, R.shape[1], member.coefficients.astype(float)), PASSES + 1
        )
        found.append(last.coefficients)
    return found


def test_machines_are_solved_for_all_rows(client):
    rng = np.random.default_rng(3)
    A = rng.normal(size=(1500, 4))
    a = np.sin(2 * A[:, 0]) + A[:, 1] * A[:, 2] + 0.1 * rng.normal(size=1500)
    options = {"random_state": 0}
    model = DaskEGOPRegressor(tuning_rows=250, client=client, **options)
    rows = [da.from_array(values, chunks=(400, *values.shape[1:])) for values in (A, a)]
    model.fit(*rows)
    assert "machines solved for all 1500 rows by" in str(model.plan_)
    plain = model.to_local()
    sample = EGOPRegressor(**options).fit(A[plain.kept_], a[plain.kept_])
    B = rng.normal(size=(500, 4))
    b = np.sin(2 * B[:, 0]) + B[:, 1] * B[:, 2]
    assert 1 - plain.score(B, b) < 0.8 * (1 - sample.score(B, b))
    sample.rule_.function_.members_ = [
        replace(member, coefficients=coefficients)
        for member, coefficients in zip(
            sample.rule_.members_, in_one_place(sample, A, a[:, None]), strict=True
        )
    ]
    np.testing.assert_allclose(plain.predict(B), sample.predict(B), atol=1e-8)
    (found,) = compute(client, model.predict(rows[0]))
    np.testing.assert_allclose(found, plain.predict(A), atol=1e-8)


def test_neighbours_have_no_sets(client):
    model = DaskEJOPClassifier(client=client, **QUICK).fit(cut(X), cut(Y))
    with pytest.raises(ValueError, match="rule='knn' keeps no predictions of unseen rows"):
        model.predict_set(cut(X))


@pytest.mark.parametrize("rule", ["knn", "hnn", "ridge"])
def test_weights_of_rows(client, rule):
    """The rows that weigh nothing are the last, so that both sides draw the same held-out rows."""
    w = np.random.default_rng(1).uniform(0.5, 2, 240) * (np.arange(240) < 200)
    quick = {"random_state": 0} if rule == "ridge" else QUICK
    options = {**quick, "rule": rule, "class_weight": {"red": 2.0}}
    local = EJOPClassifier(**options).fit(X, NAMES, sample_weight=w)
    model = DaskEJOPClassifier(client=client, **options)
    model.fit(cut(X), cut(NAMES), sample_weight=cut(w))
    assert model.best_params_ == local.best_params_
    answers, none = compute(client, model.predict_proba(cut(X)), model.predict(cut(X)[:0]))
    np.testing.assert_allclose(answers, local.predict_proba(X), atol=1e-8)
    assert len(none) == 0


@pytest.mark.parametrize("scale", ["none", "robust", "hellinger"])
def test_scales(client, scale):
    """ "robust" is that of the sample, which is all rows here."""
    rows = np.abs(X)
    parameters = {**QUICK, "scale": scale}
    local = EJOPClassifier(**parameters).fit(rows, Y)
    model = DaskEJOPClassifier(client=client, **parameters).fit(cut(rows), cut(Y))
    (mapped,) = compute(client, model.transform(cut(rows)))
    np.testing.assert_allclose(mapped, local.transform(rows), rtol=1e-8, atol=1e-10)


def test_data_frames_and_empty_queries(client):
    import dask.dataframe as dd

    table = pd.DataFrame(X, columns=list("abcd")).assign(label=NAMES)
    frame = dd.from_pandas(table, npartitions=3)
    columns = list("abcd")
    model = DaskEJOPClassifier(client=client, **QUICK).fit(frame[columns], frame["label"])
    local = EJOPClassifier(**QUICK).fit(table[columns], NAMES)
    asked = frame[frame["a"] < 0][columns]  # unknown lengths
    some = table[table["a"] < 0][columns]
    none = frame[frame["a"] > 1e9][columns]
    answers, shares, nothing = compute(
        client, model.predict(asked), model.predict_proba(asked), model.predict_proba(none)
    )
    np.testing.assert_array_equal(answers, local.predict(some))
    np.testing.assert_allclose(shares, local.predict_proba(some), atol=1e-10)
    assert nothing.shape == (0, 3)
    assert model.score(frame[columns], frame["label"]) == local.score(table[columns], NAMES)


@pytest.mark.parametrize("rule", ["knn", "ridge"])
def test_tables_prepared_by_one_preparer(client, rule):
    import dask.dataframe as dd

    table = pd.DataFrame(X, columns=list("abcd")).assign(e=np.where(X[:, 0] > 0, "up", "down"))
    table.loc[::7, "b"] = np.nan
    frame = dd.from_pandas(table, npartitions=3)
    for bad, message in ((frame, "column 'e'.*map_partitions"), (frame[["a", "b"]], "X.fillna")):
        with pytest.raises(ValueError, match=message):
            DaskEJOPClassifier(client=client).fit(bad, cut(Y))
    preparer = ColumnPreparer().set_output(transform="pandas").fit(table)
    prepared = frame.map_partitions(preparer.transform, meta=preparer.transform(table))
    parameters = QUICK if rule == "knn" else {"random_state": 0}
    local = EJOPClassifier(**parameters).fit(preparer.transform(table), Y)
    model = DaskEJOPClassifier(client=client, **parameters).fit(prepared, da.from_array(Y))
    (answers,) = compute(client, model.predict(prepared))
    np.testing.assert_array_equal(answers, local.predict(preparer.transform(table)))


def test_references_on_one_worker_answer_the_same(client, monkeypatch):
    model = DaskEJOPClassifier(client=client, **QUICK).fit(cut(X), cut(Y))
    assert len(model._references) == 4
    apart = compute(client, model.predict(cut(X)))[0]
    monkeypatch.setattr(predictors_module, "BROADCAST_SHARE", plan_module.BROADCAST_SHARE)
    model = DaskEJOPClassifier(client=client, **QUICK).fit(cut(X), cut(Y))
    assert len(model._references) == 1
    np.testing.assert_array_equal(compute(client, model.predict(cut(X)))[0], apart)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda c: DaskEJOPClassifier(client=c).fit(cut(X), cut(Y * 0)), ValueError, "1 class"),
        (
            lambda c: DaskEGOPRegressor(client=c).fit(cut(X), cut(TARGETS[:, 0] * 0)),
            ValueError,
            "`y` is constant",
        ),
        (
            lambda c: DaskEJOPClassifier(client=c).fit(cut(X) * np.nan, cut(Y)),
            ValueError,
            "Input X contains NaN, and a fit on a cluster takes rows without gaps.*isnan",
        ),
        (
            lambda c: DaskEJOPClassifier(columns=ColumnPreparer(), client=c).fit(cut(X), cut(Y)),
            ValueError,
            r"`columns`=ColumnPreparer\(\) is not supported on a cluster.*map_partitions",
        ),
        (
            lambda c: DaskEJOPClassifier(refit="train", client=c).fit(cut(X), cut(Y)),
            ValueError,
            "`refit`='train' is not supported on a cluster",
        ),
        (
            lambda c: DaskEJOPClassifier(function="kernel", client=c).fit(cut(X), cut(Y)),
            ValueError,
            "`function`='kernel' does not apply to rule='ridge'",
        ),
        (
            lambda c: DaskEJOPClassifier(class_weight={0: 0.0}, client=c).fit(cut(X), cut(Y)),
            ValueError,
            "leaves out a class; on a cluster leave its rows out",
        ),
        (lambda c: DaskEJOPClassifier(client=c).fit(X, Y), TypeError, "takes Dask arrays"),
        (lambda c: DaskEJOPClassifier(client=c).predict(cut(X)), NotFittedError, "not fitted"),
        (
            lambda c: DaskEJOPClassifier(tuning_rows=1, client=c).fit(cut(X), cut(Y)),
            ValueError,
            "'tuning_rows' parameter",
        ),
    ],
)
def test_what_is_refused(client, make, error, message):
    with pytest.raises(error, match=message):
        make(client)


def test_wrong_columns(client):
    model = DaskEJOPClassifier(client=client, **QUICK).fit(cut(X), cut(Y))
    with pytest.raises(ValueError, match="X has 3 features, but DaskEJOPClassifier is expecting 4"):
        model.predict(cut(X)[:, :3])
    with pytest.raises(TypeError, match=r"or to_local\(\), which is a EJOPClassifier"):
        model.predict(X)
