"""Several labels a row: the default rule as scikit-learn's users expect of a multi-label model."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, get_scorer, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputClassifier
from sklearn.utils.estimator_checks import (
    check_classifiers_multilabel_output_format_predict,
    check_classifiers_multilabel_output_format_predict_proba,
    check_classifiers_multilabel_representation_invariance,
)

from ejop import EGOPRegressor, EJOPClassifier
from ejop.plots import ImportanceDisplay
from ejop.rules import RULES, RidgeRule
from ejop.rules._calibration import LOSSES, loss_of

#: quick machines for what does not depend on which are chosen
QUICK = RidgeRule(n_members=2, kernels=("gaussian", "laplace"), n_rounds=0)


def tagged(n, seed=0):
    """Three labels: one by a column, one by two, one rare; of five columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    Y = np.c_[X[:, 0] > 0, X[:, 0] + X[:, 1] > 0.5, X[:, 2] > 1.2]
    flipped = rng.random(Y.shape) < 0.1
    return X, (Y ^ flipped).astype(int)


@pytest.fixture(scope="module")
def model():
    return EJOPClassifier(random_state=0).fit(*tagged(400))


@pytest.mark.parametrize(
    "check",
    [
        check_classifiers_multilabel_output_format_predict,
        check_classifiers_multilabel_output_format_predict_proba,
        check_classifiers_multilabel_representation_invariance,
    ],
)
def test_scikit_learn_checks_of_labels(check):
    check("EJOPClassifier", EJOPClassifier(QUICK, random_state=0))


def test_neighbours_are_not_said_to_take_labels():
    for rule, tagged_so in (
        ("ridge", True),
        ("knn", False),
        (RULES["hnn"](), False),
        (QUICK, True),
    ):
        tags = EJOPClassifier(rule).__sklearn_tags__()
        assert tags.classifier_tags.multi_label is tagged_so
        assert not tags.target_tags.multi_output


# what a person gets -------------------------------------------------------------------------------


def test_labels_of_new_rows_and_their_probabilities(model):
    X, Y = tagged(1500, 1)
    p, found = model.predict_proba(X), model.predict(X)
    assert p.shape == found.shape == Y.shape
    assert found.dtype == Y.dtype
    np.testing.assert_array_equal(found, p > 0.5)
    constant = DummyClassifier().fit(*tagged(400)).score(X, Y)
    assert model.score(X, Y) > constant + 0.25
    assert model.score(X, Y) == accuracy_score(Y, found) == (found == Y).all(1).mean()
    assert roc_auc_score(Y, p) > 0.8
    assert [c.tolist() for c in model.classes_] == [[0, 1]] * 3
    assert "kernel machines" in model.rule_.in_words()
    importances = model.feature_importances_
    assert importances[:3].min() > importances[3:].max()
    assert importances.sum() == pytest.approx(1)


def test_each_label_is_calibrated(model):
    X, Y = tagged(3000, 1)
    p, raw = model.predict_proba(X), model.rule_.votes(model.scale_rows(X)).values
    for c in range(3):
        crude = np.clip(raw[:, c], 1e-3, 1 - 1e-3)
        assert log_loss(Y[:, c], p[:, c]) < log_loss(Y[:, c], crude) + 0.005
        low, high = p[:, c] < 0.15, p[:, c] > 0.85
        assert abs(Y[low, c].mean() - p[low, c].mean()) < 0.06
        if high.sum() > 100:
            assert abs(Y[high, c].mean() - p[high, c].mean()) < 0.1
        np.testing.assert_array_equal(raw[:, c].argsort()[-5:], p[:, c].argsort()[-5:])


def test_a_label_and_its_opposite_are_two_classes():
    """Two labels of which each row has one are a problem of two classes: the same machines, the
    same probabilities, and the same score."""
    X, Y = tagged(200)
    y, Q = Y[:, 1], tagged(50, 2)[0]
    two = EJOPClassifier(QUICK, random_state=0).fit(X, y)
    labels = EJOPClassifier(QUICK, random_state=0).fit(X, np.c_[1 - y, y])
    np.testing.assert_allclose(labels.predict_proba(Q), two.predict_proba(Q), atol=1e-8)
    np.testing.assert_array_equal(labels.predict(Q)[:, 1], two.predict(Q))
    assert labels.best_score_ == two.best_score_
    np.testing.assert_allclose(labels.cv_results_["loss"], two.cv_results_["loss"])
    np.testing.assert_allclose(labels.components_, two.components_, atol=1e-8)


def test_the_score_of_unseen_rows_is_that_of_rows_right_in_all_labels(model):
    fresh = tagged(2000, 1)
    assert abs(model.best_score_ - model.score(*fresh)) < 0.06
    honest = (model.rule_.honest_ > 0.5).astype(int)
    truth = tagged(400)[1][model.rule_.judged_]
    assert model.best_score_ == pytest.approx(accuracy_score(truth, honest))


def test_explanations_are_of_each_label(model):
    X = tagged(40, 1)[0]
    shares = model.explain(X)
    assert shares.shape == (40, 3, 5)
    by_label = np.abs(shares).mean(0)
    assert by_label[0].argmax() == 0
    assert set(by_label[1].argsort()[-2:]) == {0, 1}
    assert by_label[2].argmax() == 2


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float32])
def test_answers_have_the_type_of_y(dtype):
    X, Y = tagged(60)
    found = EJOPClassifier(QUICK, random_state=0).fit(X, Y.astype(dtype)).predict(X)
    assert found.dtype == dtype


def test_labels_in_other_guises():
    X, Y = tagged(60)
    plain = EJOPClassifier(QUICK, random_state=0).fit(X, Y)
    frame = pd.DataFrame(Y, columns=["a", "b", "c"])
    for guise in (Y.tolist(), frame, csr_array(Y), Y.astype(object), np.asfortranarray(Y)):
        model = clone(plain).fit(X, guise)
        np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    one = clone(plain)
    with pytest.warns(UserWarning, match="column-vector y"):  # one column is one class a row
        one.fit(X, Y[:, :1])
    assert one.predict(X).shape == (60,)


def test_saved_models_answer_the_same(model, tmp_path):
    from ejop.cli.models import skops_io

    X = tagged(20, 1)[0]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    io = skops_io()
    io.dump(model, tmp_path / "model.skops")
    types = io.get_untrusted_types(file=tmp_path / "model.skops")
    assert all(name.startswith(("ejop.", "numpy.")) for name in types)
    again = io.load(tmp_path / "model.skops", trusted=types)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


# with scikit-learn --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_labels", [2, 3])
def test_scorers_and_searches_of_scikit_learn(n_labels):
    X, Y = tagged(150)
    Y = Y[:, :n_labels]
    model = EJOPClassifier(QUICK, random_state=0)
    for name in ("accuracy", "f1_macro", "roc_auc", "average_precision"):
        scores = cross_val_score(model, X, Y, scoring=name, cv=3, error_score="raise")
        assert (scores > 0.3).all()
    fitted = clone(model).fit(X, Y)
    expected = roc_auc_score(Y, fitted.predict_proba(X))
    assert get_scorer("roc_auc")(fitted, X, Y) == pytest.approx(expected)
    search = GridSearchCV(model, {"rule__n_members": [1, 2]}, cv=3).fit(X, Y)
    assert search.best_estimator_.predict(X).shape == Y.shape


def test_weights_of_rows_count():
    X, Y = tagged(150)
    both, labels = np.r_[X, X], np.r_[Y, 1 - Y]
    heavy = np.repeat([30.0, 1.0], 150)
    model = EJOPClassifier(QUICK, random_state=0).fit(both, labels, sample_weight=heavy)
    assert model.score(X, Y) > 0.4
    assert model.score(X, 1 - Y) < 0.05
    w = np.arange(150) % 3 > 0
    some = clone(model).fit(X, Y, sample_weight=w)
    few = clone(model).fit(X[w], Y[w])
    np.testing.assert_allclose(some.predict_proba(X), few.predict_proba(X), atol=1e-9)


def test_pictures_show_labels_as_outputs(model):
    pytest.importorskip("matplotlib")
    assert ImportanceDisplay.from_estimator(model).importances.shape == (5,)


# what ranks candidates ----------------------------------------------------------------------------


@pytest.mark.parametrize("scoring", [name for name, kinds in LOSSES.items() if "labels" in kinds])
def test_other_scores_rank_candidates(scoring):
    X, Y = tagged(120)
    rule = clone(QUICK).set_params(scoring=scoring)
    model = EJOPClassifier(rule, random_state=0).fit(X, Y)
    losses = model.cv_results_["loss"]
    assert (np.diff(losses) >= 0).all()
    assert ((losses > 0) & (losses < 1)).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_losses_are_those_of_scikit_learn(rng, weighted):
    from sklearn.metrics import balanced_accuracy_score, mean_absolute_error, r2_score

    values = rng.uniform(0.02, 0.98, size=(80, 3)).round(2)  # with equal values
    Y = (values + rng.normal(size=values.shape) > 0.5) * 1.0
    w = rng.uniform(0.5, 2, 80) if weighted else None
    found = (values > 0.5) * 1.0

    def mean(score, answers):
        return np.mean([score(Y[:, c], answers[:, c], sample_weight=w) for c in range(3)])

    expected = {
        "accuracy": 1 - accuracy_score(Y, found, sample_weight=w),
        "balanced_accuracy": 1 - mean(balanced_accuracy_score, found),
        "log_loss": mean(log_loss, values),
        "roc_auc": 1 - roc_auc_score(Y, values, sample_weight=w),
    }
    for name, loss in expected.items():
        assert loss_of(name, "labels")(values, Y, w) == pytest.approx(loss)
    one = np.eye(3)[rng.integers(3, size=80)]
    labels, shares = one.argmax(1), values / values.sum(1, keepdims=True)
    answers = values.argmax(1)
    expected = {
        "accuracy": 1 - accuracy_score(labels, answers, sample_weight=w),
        "balanced_accuracy": 1 - balanced_accuracy_score(labels, answers, sample_weight=w),
        "log_loss": log_loss(labels, shares, sample_weight=w),
        "roc_auc": 1 - roc_auc_score(one, values, sample_weight=w),
    }
    for name, loss in expected.items():
        assert loss_of(name, "classes")(values, one, w) == pytest.approx(loss)
    Y = rng.normal(size=(80, 3))
    assert loss_of("r2", "real")(values, Y, w) == pytest.approx(
        1 - r2_score(Y, values, sample_weight=w)
    )
    assert loss_of("mean_absolute_error", "real")(values, Y, w) == pytest.approx(
        mean_absolute_error(Y, values, sample_weight=w)
    )


@pytest.mark.parametrize("scoring", LOSSES)
@pytest.mark.filterwarnings("error")
def test_losses_of_a_sample_that_does_not_vary_are_numbers(scoring):
    """The rows that judge may all be of one class, or an output constant among them."""
    values = np.random.default_rng(0).uniform(size=(9, 2))
    constant = np.tile([0.0, 1.0], (9, 1))
    for kind in LOSSES[scoring]:
        assert np.isfinite(loss_of(scoring, kind)(values, constant, None))


# odd labels ---------------------------------------------------------------------------------------

N = 40
ROWS = np.random.default_rng(0).normal(size=(N, 4))
SIGN = (ROWS[:, 0] > 0).astype(int)
MANY = np.random.default_rng(2).integers(2, size=(N, 300))
ODD = {
    "a label that is always 0": (ROWS, np.c_[SIGN, 0 * SIGN]),
    "a label that is always 1": (ROWS, np.c_[SIGN, 0 * SIGN + 1]),
    "one row a label": (ROWS[:5], np.eye(5)),
    "one row of a label": (ROWS, np.c_[SIGN, np.arange(N) == 3]),
    "a label but one row": (ROWS, np.c_[SIGN, np.arange(N) != 3]),
    "two rows": (ROWS[:2], np.array([[0, 1], [1, 1]])),
    "three rows": (ROWS[:3], np.array([[0, 1], [1, 0], [0, 0]])),
    "equal labels": (ROWS, np.c_[SIGN, SIGN]),
    "equal rows of other labels": (np.repeat(ROWS[:10], 4, axis=0), MANY[:, :3]),
    "more labels than rows": (ROWS, MANY),
    "more columns than rows": (np.random.default_rng(1).normal(size=(20, 60)), MANY[:20, :3]),
    "tiny columns": (ROWS * 1e-12, np.c_[SIGN, ROWS[:, 1] > 0]),
    "an outlier": (np.r_[ROWS, [[1e9, 0, 0, 0]]], np.c_[np.r_[SIGN, 0], np.r_[SIGN, 1]]),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_labels_get_a_sound_answer(name):
    X, Y = ODD[name][0], np.asarray(ODD[name][1]).astype(int)
    model = EJOPClassifier(QUICK, random_state=0).fit(X, Y)
    p = model.predict_proba(X)
    assert ((p >= 0) & (p <= 1)).all()
    np.testing.assert_array_equal(model.predict(X), p > 0.5)
    for found in (model.transform(X), model.explain(X[:3]), model.feature_importances_):
        assert np.isfinite(found).all()
    assert 0 <= model.best_score_ <= 1
    constant = np.ptp(Y, axis=0) == 0
    np.testing.assert_array_equal(model.predict(X)[:, constant], Y[:, constant])
    assert (np.abs(p - Y)[:, constant] < 1e-3).all()


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({}, np.c_[SIGN, SIGN + 1], r"holds .*2.* must be labels, 0 or 1.*MultiOutputClassifier"),
        ({}, np.c_[ROWS[:, 0], ROWS[:, 1]], r"several real targets use EGOPRegressor"),
        ({}, np.c_[SIGN, SIGN].astype(str), r"must be labels, 0 or 1.*MultiOutputClassifier"),
        ({}, np.c_[SIGN, np.where(ROWS[:, 1] > 1, np.nan, 1)], "y contains NaN"),
        ({}, np.c_[SIGN, SIGN] * 0, "every column of `y` is constant"),
        ({"rule": "knn"}, np.c_[SIGN, SIGN], r"rule='knn' takes one class a row; use rule='ridge'"),
        ({"rule": "hnn"}, np.c_[SIGN, SIGN], r"rule='hnn' takes one.*MultiOutputClassifier"),
        ({"class_weight": "balanced"}, np.c_[SIGN, SIGN], r"`class_weight`='balanced' .*compute_"),
        ({"rule": RidgeRule(scoring="r2")}, np.c_[SIGN, 1 - SIGN], "'r2' is for real targets"),
    ],
)
def test_what_cannot_be_learned_is_refused(parameters, y, message):
    with pytest.raises(ValueError, match=message):
        EJOPClassifier(**parameters).fit(ROWS, y)


def test_sets_are_for_one_class_a_row(model):
    with pytest.raises(ValueError, match="several labels a row; predict_proba gives"):
        model.predict_set(ROWS)


def test_the_remedies_work():
    three = np.c_[SIGN, np.arange(N) % 3]
    each = MultiOutputClassifier(EJOPClassifier(QUICK, random_state=0)).fit(ROWS, three)
    assert each.predict(ROWS).shape == three.shape
    neighbours = EJOPClassifier("knn", function="kernel", random_state=0)
    found = MultiOutputClassifier(neighbours).fit(ROWS, np.c_[SIGN, 1 - SIGN]).predict(ROWS)
    assert found.shape == (N, 2)


def test_labels_are_predicted_better_than_by_chance():
    X, Y = make_multilabel_classification(300, 20, n_classes=5, random_state=0)
    model = EJOPClassifier(random_state=0).fit(X[:200], Y[:200])
    assert roc_auc_score(Y[200:], model.predict_proba(X[200:])) > 0.8


# several real targets -----------------------------------------------------------------------------


def targets(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    Y = np.c_[np.sin(X[:, 0]), X[:, 1], X[:, 2]] + 0.1 * rng.normal(size=(n, 3))
    return X, Y * [1.0, 1e6, 1e-6]


@pytest.mark.parametrize("scoring", ["r2", "mean_absolute_error"])
def test_several_targets_with_scores_weights_and_intervals(scoring):
    X, Y = targets(400)
    w = np.random.default_rng(1).uniform(0.5, 2, 400)
    rule = clone(QUICK).set_params(scoring=scoring)
    model = EGOPRegressor(rule, random_state=0).fit(X, Y, sample_weight=w)
    assert (np.diff(model.cv_results_["loss"]) >= 0).all()
    fresh, truth = targets(1000, 2)
    assert model.score(fresh, truth) > 0.8
    bounds = model.predict_interval(fresh, 0.9)
    inside = (bounds[:, 0] <= truth) & (truth <= bounds[:, 1])
    assert (np.abs(inside.mean(0) - 0.9) < 0.06).all()


@pytest.mark.parametrize("scoring", [None, "r2", "mean_absolute_error"])
def test_a_target_that_is_constant_beside_one_that_is_not(scoring):
    X, Y = targets(60)
    Y[:, 1] = 7.0
    model = EGOPRegressor(clone(QUICK).set_params(scoring=scoring), random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.predict(X)[:, 1], 7)
    assert np.isfinite(model.cv_results_["loss"]).all()
    assert np.isfinite(model.predict_interval(X, 0.5)).all()
    assert np.isfinite(model.best_score_)


def test_targets_that_look_like_classes_are_real_where_they_are_asked_to_be():
    X, Y = tagged(60)
    one_hot = np.c_[Y[:, 0], 1 - Y[:, 0]].astype(float)
    model = EGOPRegressor(clone(QUICK).set_params(scoring="r2"), random_state=0).fit(X, one_hot)
    assert model.predict(X).shape == (60, 2)
    with pytest.raises(ValueError, match="'roc_auc' is for classes and the targets are real"):
        EGOPRegressor(RidgeRule(scoring="roc_auc")).fit(X, one_hot)


@pytest.mark.filterwarnings("ignore:The number of unique classes is greater than 50%")
def test_a_thousand_classes_one_row_each():
    X = np.random.default_rng(0).normal(size=(1000, 3))
    model = EJOPClassifier(RidgeRule(1, kernels=["laplace"], n_rounds=0), random_state=0)
    p = model.fit(X, np.arange(1000)).predict_proba(X[:50])
    assert p.shape == (50, 1000)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(1), 1)
    assert model.best_score_ == 0  # no row of a class is left when its one row is held out
