"""The default rule of the predictors, the mean of kernel machines, as a user sees it."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, cross_val_score, train_test_split
from threadpoolctl import threadpool_limits

import reference
from ejop import EGOPRegressor, EJOPClassifier
from ejop.functions import RidgeFunction, centers_of
from ejop.rules import RidgeRule
from ejop.rules._machines import (
    MAP_OUTPUTS,
    Regression,
    choose,
    coefficients,
    judged,
    outer_product,
    solved,
)
from ejop.scaling import QuantileColumns


def noisy_classes(n, seed):
    """Three classes by two of five columns, every fourth label drawn at random."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = np.digitize(X[:, 0] + X[:, 1], [-0.8, 0.8])
    return X, np.where(rng.random(n) < 0.25, rng.integers(3, size=n), y)


def noisy_targets(n, seed):
    """A sine along one direction of five columns, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, np.sin(2 * X[:, 0] + X[:, 1]) + 0.3 * rng.normal(size=n)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)


@pytest.fixture(scope="module")
def of_wine(wine):
    return EJOPClassifier(random_state=0).fit(wine[0], wine[2])


@pytest.fixture(scope="module")
def classifier():
    return EJOPClassifier(random_state=0).fit(*noisy_classes(500, 0))


@pytest.fixture(scope="module")
def regressor():
    return EGOPRegressor(random_state=0).fit(*noisy_targets(500, 0))


# what a person gets -------------------------------------------------------------------------------


def test_the_default_predicts_wines(wine, of_wine):
    assert of_wine.rule == "ridge"
    assert of_wine.score(wine[1], wine[3]) > 0.95
    assert of_wine.transform(wine[1]).shape == (len(wine[1]), 13)
    assert of_wine.explain(wine[1]).shape == (len(wine[1]), 13)
    distances, rows = of_wine.kneighbors(wine[1], 3)
    assert (np.diff(distances) >= 0).all()
    assert rows.max() < len(wine[0])


def test_probabilities_are_calibrated_and_name_the_prediction(classifier):
    X, y = noisy_classes(2000, 1)
    p = classifier.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_array_equal(classifier.classes_[p.argmax(1)], classifier.predict(X))
    raw = np.clip(classifier.rule_.votes(classifier.scale_rows(X)).values, 1e-3, None)
    raw /= raw.sum(1, keepdims=True)
    assert log_loss(y, p) < log_loss(y, raw)
    sharp = raw**6
    assert log_loss(y, p) < log_loss(y, sharp / sharp.sum(1, keepdims=True)) - 0.1
    sure = p.max(1)
    right = classifier.predict(X) == y
    for low, high in ((0.4, 0.6), (0.6, 0.8), (0.8, 1.0)):  # the larger the share, the more hold
        part = (sure >= low) & (sure < high)
        if part.sum() > 100:
            assert abs(right[part].mean() - sure[part].mean()) < 0.12


@pytest.mark.parametrize("coverage", [0.6, 0.8, 0.9])
def test_intervals_hold_as_many_fresh_targets_as_asked(regressor, coverage):
    """500 rows place a quantile to 2 %, and 2,000 fresh rows measure it to 1 %."""
    X, y = noisy_targets(2000, 1)
    low, high = regressor.predict_interval(X, coverage).T
    assert abs(np.mean((low <= y) & (y <= high)) - coverage) < 0.05
    np.testing.assert_allclose((low + high) / 2, regressor.predict(X))


@pytest.mark.parametrize("coverage", [0.85, 0.9, 0.95])
def test_sets_hold_as_many_fresh_classes_as_asked(classifier, coverage):
    X, y = noisy_classes(2000, 1)
    inside = classifier.predict_set(X, coverage)
    assert inside.shape == (2000, 3)
    assert inside.dtype == bool
    assert abs(inside[np.arange(2000), y].mean() - coverage) < 0.05
    assert inside[np.arange(2000), classifier.predict(X)].all()
    assert inside.sum(1).mean() < 2.7


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 1.5, np.nan])
def test_coverage_lies_between_zero_and_one(classifier, regressor, coverage):
    for ask in (classifier.predict_set, regressor.predict_interval):
        with pytest.raises(ValueError, match="`coverage` must lie between 0 and 1, got"):
            ask(np.zeros((1, 5)), coverage)


def test_neighbours_have_no_intervals_and_few_rows_no_wide_ones():
    X, y = noisy_classes(40, 0)
    knn = EJOPClassifier("knn", function="kernel", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"rule='knn' keeps no predictions.*use rule='ridge'"):
        knn.predict_set(X)
    few = EGOPRegressor(random_state=0).fit(X[:5], X[:5, 0])
    with pytest.raises(ValueError, match=r"`coverage`=0\.99 needs more than 5 rows that judge"):
        few.predict_interval(X, 0.99)


def test_every_candidate_is_told_and_the_members_are_marked(of_wine):
    table = pd.DataFrame(of_wine.cv_results_)
    assert len(table) == 16  # 2 preparations x (gaussian 3, laplace 3, l1 2)
    assert not table.duplicated(
        ["param_preparation", "param_kernel", "param_diagonal", "param_round"]
    ).any()
    assert table["member"].sum() == len(of_wine.rule_.members_) == 5
    assert table["member"][:5].all()  # best first
    assert table["loss"].is_monotonic_increasing
    for words in of_wine.best_params_["members"]:
        assert words in str(of_wine.plan_)


def test_the_score_is_that_of_rows_that_were_not_seen(classifier):
    fresh = noisy_classes(2000, 1)
    assert abs(classifier.best_score_ - classifier.score(*fresh)) < 0.05
    rng = np.random.default_rng(3)
    wide, labels = rng.normal(size=(200, 60)), rng.integers(2, size=200)
    noise = EJOPClassifier(random_state=0).fit(wide, labels)
    assert noise.score(wide, labels) > noise.best_score_ + 0.2
    chance = DummyClassifier().fit(wide, labels).score(wide, labels)
    assert noise.best_score_ < chance + 0.08


def test_it_stays_small(classifier):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 12)), rng.integers(3, size=2000)
    options = {"kernels": ("gaussian",), "n_rounds": 1}
    rule = RidgeRule(**options)  # as many members as by default, found sooner
    model = EJOPClassifier(rule, random_state=0).fit(X, y)
    assert len(model.rule_.members_) == 5
    assert len(pickle.dumps(model)) <= 3 * (X.nbytes + np.eye(3)[y].nbytes)
    again = pickle.loads(pickle.dumps(classifier))
    Q = noisy_classes(20, 4)[0]
    np.testing.assert_array_equal(again.predict_proba(Q), classifier.predict_proba(Q))


# the same answer ----------------------------------------------------------------------------------


def test_the_same_seed_and_any_number_of_threads_give_the_same_answer(classifier):
    X, y = noisy_classes(500, 0)
    Q = noisy_classes(100, 2)[0]
    expected = classifier.predict_proba(Q)
    np.testing.assert_array_equal(clone(classifier).fit(X, y).predict_proba(Q), expected)
    with threadpool_limits(1):
        alone = clone(classifier).fit(X, y)
    assert alone.best_params_ == classifier.best_params_
    np.testing.assert_allclose(alone.predict_proba(Q), expected, atol=1e-8)
    drawn = clone(classifier).set_params(random_state=None).fit(X[:100], y[:100])
    assert np.isfinite(drawn.predict_proba(Q)).all()


@pytest.mark.parametrize("n", [60, 700])
def test_a_time_limit_stops_and_says_so(n):
    X, y = noisy_classes(n, 0)
    model = EJOPClassifier(RidgeRule(time_limit=1e-6), random_state=0).fit(X, y)
    assert "`time_limit` was reached" in str(model.plan_)
    assert 1 <= len(model.rule_.members_) <= 5
    assert model.score(*noisy_classes(500, 1)) > 0.6
    assert len(model.rule_.honest_) == len(model.rule_.judged_)


def test_float32_in_float32_out(of_wine, wine):
    Xa, Xb, ya, _ = wine
    rows = Xa.astype(np.float32)
    model = EJOPClassifier(random_state=0).fit(rows, ya)
    assert model.transform(Xb.astype(np.float32)).dtype == np.float32
    np.testing.assert_array_equal(model.predict(Xb.astype(np.float32)), of_wine.predict(Xb))


# outputs and weights ------------------------------------------------------------------------------


def test_several_outputs_of_several_sizes(regressor):
    X, y = noisy_targets(300, 0)
    Y = np.c_[y, 1e6 * X[:, 2], 1e-6 * X[:, 3] ** 2]
    model = EGOPRegressor(random_state=0).fit(X, Y)
    Q = noisy_targets(50, 1)[0]
    assert model.predict(Q).shape == (50, 3)
    bounds = model.predict_interval(Q, 0.8)
    assert bounds.shape == (50, 2, 3)
    assert ((bounds[:, 0] < model.predict(Q)) & (model.predict(Q) < bounds[:, 1])).all()
    assert model.explain(Q).shape == (50, 3, 5)
    assert model.feature_importances_[4] < 0.05
    assert model.best_score_ > 0.7
    assert regressor.predict(Q).shape == (50,)


@pytest.mark.parametrize("kind", [EJOPClassifier, EGOPRegressor])
def test_rows_of_weight_zero_are_no_rows(kind):
    X, y = noisy_classes(120, 0)
    w = np.random.default_rng(0).uniform(0.5, 2, 120) * (np.arange(120) % 3 > 0)
    kept = np.flatnonzero(w)
    model = kind(random_state=0).fit(X, y, sample_weight=w)
    few = kind(random_state=0).fit(X[kept], y[kept], sample_weight=w[kept])
    assert model.best_params_ == few.best_params_
    assert model.best_score_ == few.best_score_
    np.testing.assert_array_equal(model.predict(X), few.predict(X))
    np.testing.assert_array_equal(model.kept_, kept)
    np.testing.assert_array_equal(model.kneighbors(X)[1], kept[few.kneighbors(X)[1]])


def test_weights_count_by_their_ratios():
    X, y = noisy_targets(150, 0)
    plain = EGOPRegressor(random_state=0).fit(X, y)
    double = EGOPRegressor(random_state=0).fit(X, y, sample_weight=np.full(150, 2.0))
    np.testing.assert_allclose(double.predict(X), plain.predict(X), atol=1e-6)
    shifted = np.r_[y, y + 3]
    heavy = np.repeat([1.0, 30.0], 150)
    model = EGOPRegressor(random_state=0).fit(np.r_[X, X], shifted, sample_weight=heavy)
    assert np.mean(model.predict(X) - plain.predict(X)) > 2.5  # heavy rows draw it to themselves


@pytest.mark.parametrize("kernel", ["gaussian", "laplace", "l1"])
def test_a_machine_takes_a_weight_of_two_for_two_rows(rng, kernel):
    X, R, w = rng.normal(size=(20, 3)), rng.normal(size=(20, 2)), np.r_[[1.0] * 12, [2.0] * 8]
    twice = np.r_[np.arange(20), np.arange(12, 20)]
    a = coefficients(Regression(X, R, w), kernel, 1.5, 0.1)
    repeated = coefficients(Regression(X[twice], R[twice]), kernel, 1.5, 0.1)
    np.testing.assert_allclose(a[:12], repeated[:12], atol=1e-9)
    np.testing.assert_allclose(a[12:], repeated[12:20] + repeated[20:], atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 5, 20])
def test_a_map_of_fewer_outputs_is_that_of_all(rng, n_classes):
    """Classes sum to nothing, so one output is spared; many are mixed, the same in the mean."""
    X, labels = rng.normal(size=(300, 4)) * [3, 1, 1, 0.3], rng.integers(0, n_classes, 300)
    labels = (labels + 3 * X[:, 0]).astype(int) % n_classes
    R = np.eye(n_classes)[labels] - np.bincount(labels, minlength=n_classes) / 300
    a = coefficients(Regression(X, R), "gaussian", 1.5, 0.1)
    J = centers_of("gaussian", X, 1.5).derivatives(X, a, None)[:, :, :-1].swapaxes(0, 1)
    M = outer_product(Regression(X, R), "gaussian", 1.5, a, np.random.default_rng(0))
    mixed = n_classes >= 2 * MAP_OUTPUTS
    full = np.einsum("ncd,nce->de", J, J) / 300
    np.testing.assert_allclose(M, full, atol=(0.25 if mixed else 1e-12) * full.max())


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_derivatives_by_one_product_for_all_outputs(rng, kernel):
    X, a, Q = rng.normal(size=(30, 3)), rng.normal(size=(30, 4)), rng.normal(size=(7, 3))
    centers = centers_of(kernel, X, 1.2)
    together = centers.derivatives(Q, a, None, centers.moments(a))
    np.testing.assert_allclose(together, centers.derivatives(Q, a, None), atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_left_out_residuals_are_those_of_fits_without_the_row(rng, weighted):
    X, R = rng.normal(size=(15, 2)), rng.normal(size=(15, 2))
    w = rng.uniform(0.5, 2, 15) if weighted else None
    problem = Regression(X, R, w)
    L = problem.factor(centers_of("l1", X, 1.0).kernel(X), 0.2)
    found = problem.left_out(L, problem.solution(L))
    for i in range(15):
        rest = problem.rows(np.delete(np.arange(15), i))
        alone = solved(rest, "l1", 1.0, 0.2)(X[i : i + 1])
        np.testing.assert_allclose(found[i], R[i] - alone[0], atol=1e-9)


def test_a_choice_from_near_is_no_worse_than_its_start(rng):
    X = rng.normal(size=(120, 3))
    problem = Regression(X, np.sin(2 * X[:, :1]))
    full = choose(problem, "gaussian")
    assert choose(problem, "gaussian", full.place).place == full.place
    from_afar = choose(problem, "gaussian", (4, 5))
    assert problem.mean(from_afar.losses) < 0.9 * problem.loss(problem.R)


def test_balanced_classes_hear_the_small_one(rng):
    X = np.r_[rng.normal(0, 1, (280, 3)), rng.normal(1.2, 1, (20, 3))]
    y = np.r_[np.zeros(280, int), np.ones(20, int)]
    fresh = rng.normal(1.2, 1, (500, 3))
    plain = EJOPClassifier(random_state=0).fit(X, y).predict(fresh)
    balanced = EJOPClassifier(class_weight="balanced", random_state=0).fit(X, y).predict(fresh)
    assert (balanced == 1).mean() > (plain == 1).mean() + 0.2


# what does not apply ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {"function": "kernel"},
        {"function": RidgeFunction()},
        {"validation": 5},
        {"validation": 0.3},
        {"validation": KFold(3)},
        {"n_iter": 2},
        {"refit": False},
        {"refit": "train"},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [EJOPClassifier, EGOPRegressor])
def test_what_tunes_neighbours_does_not_apply(kind, parameters):
    X, y = noisy_classes(30, 0)
    (name,) = parameters
    with pytest.raises(ValueError, match=rf"`{name}`=.* does not apply to rule='ridge'.*'knn'"):
        kind(**parameters).fit(X, y)
    given = kind(RidgeRule(n_members=1, kernels=["l1"], n_rounds=0), **parameters)
    with pytest.raises(ValueError, match=rf"`{name}`=.* does not apply to rule=RidgeRule"):
        given.fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_members": 0}, "'n_members' parameter of RidgeRule"),
        ({"n_rounds": 2}, "'n_rounds' parameter of RidgeRule"),
        ({"time_limit": 0}, "'time_limit' parameter of RidgeRule"),
        ({"kernels": ("boxcar",)}, r"`kernels` must be some of \['gaussian', 'laplace', 'l1'\]"),
        ({"kernels": ()}, "`kernels` must be some of"),
        ({"scoring": "f1"}, "'scoring' parameter of RidgeRule"),
        ({"scoring": "r2"}, "`scoring`='r2' is for real targets, not for classes"),
    ],
    ids=str,
)
def test_rules_refuse_what_will_not_do(options, message):
    with pytest.raises(ValueError, match=message):
        EJOPClassifier(RidgeRule(**options)).fit(*noisy_classes(30, 0))


@pytest.mark.parametrize(
    "scoring", ["accuracy", "balanced_accuracy", "log_loss", "roc_auc", "r2", "mean_absolute_error"]
)
def test_other_scores_rank_candidates(scoring):
    real = scoring in ("r2", "mean_absolute_error")
    make, kind = (noisy_targets, EGOPRegressor) if real else (noisy_classes, EJOPClassifier)
    model = kind(RidgeRule(n_members=2, scoring=scoring), random_state=0).fit(*make(90, 0))
    losses = model.cv_results_["loss"]
    assert (np.diff(losses) >= 0).all()
    assert model.score(*make(300, 1)) > 0.4


# odd rows -----------------------------------------------------------------------------------------

N = 40
PLAIN = np.random.default_rng(0).normal(size=(N, 4))
SIGN = (PLAIN[:, 0] > 0).astype(int)
WIDE = np.random.default_rng(1).normal(size=(20, 100))
FLAT = np.c_[PLAIN[:, :2], np.full(N, 3.0)]
ODD = {
    "two rows": (PLAIN[:2], [0, 1]),
    "three rows": (PLAIN[:3], [0, 1, 0]),
    "five rows": (PLAIN[:5], [0, 1, 0, 1, 1]),
    "one row a class": (PLAIN[:10], np.arange(10)),
    "one row in a class": (PLAIN, np.arange(N) == 7),
    "a constant column": (FLAT, SIGN),
    "more columns than rows": (WIDE, WIDE[:, 0] > 0),
    "one column of two values": (PLAIN[:, :1] > 0, SIGN),
    "equal rows of other classes": (np.repeat(PLAIN[:10], 4, axis=0), np.tile(np.arange(4), 10)),
    "two rows many times": (np.repeat(PLAIN[:2], 20, axis=0), np.arange(N) % 2),
    "an outlier": (np.r_[PLAIN, [[1e9, 0, 0, 0]]], np.r_[SIGN, 0]),
    "tiny columns": (PLAIN * 1e-12, SIGN),
    "huge columns": (PLAIN * 1e12, SIGN),
    "many classes": (np.random.default_rng(2).normal(size=(400, 3)), np.arange(400) % 200),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.filterwarnings("ignore:The number of unique classes is greater than 50%")
def test_odd_rows_get_a_sound_answer(name):
    X, y = np.asarray(ODD[name][0], dtype=float), np.asarray(ODD[name][1])
    model = EJOPClassifier(random_state=0).fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_array_equal(model.classes_[p.argmax(1)], model.predict(X))
    for found in (model.transform(X), model.explain(X[:3]), model.feature_importances_):
        assert np.isfinite(found).all()
    assert 0 <= model.best_score_ <= 1
    assert model.feature_importances_.sum() == pytest.approx(1)
    real = EGOPRegressor(random_state=0).fit(X, y * 1.0)
    assert np.isfinite(real.predict(X)).all()
    assert np.isfinite(real.best_score_)


@pytest.mark.parametrize("size", [1e-12, 1e12, 1e-50])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_targets_of_any_size(size, offset):
    y = (PLAIN[:, 0] + 0.1 * PLAIN[:, 1] + offset) * size
    plain = EGOPRegressor(random_state=0).fit(PLAIN, y / size)
    model = EGOPRegressor(random_state=0).fit(PLAIN, y)
    assert model.best_score_ == pytest.approx(plain.best_score_, abs=1e-4)
    assert model.best_score_ > 0.9
    np.testing.assert_allclose(model.predict(PLAIN) / size, plain.predict(PLAIN), atol=1e-4)
    np.testing.assert_allclose(model.components_, plain.components_, atol=1e-3)


def test_contradictory_rows_leave_a_plain_metric():
    X, y = np.repeat(PLAIN[:10], 2, axis=0), np.arange(20) % 2
    model = EJOPClassifier(random_state=0).fit(X, y)
    assert "no column changes the answer" in str(model.plan_)
    np.testing.assert_allclose(model.feature_importances_, 0.25)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (PLAIN[:1], [0], "minimum of 2 is required"),
        (PLAIN, np.zeros(N), "`y` has 1 class"),
        (np.where(PLAIN > 2, np.inf, PLAIN), SIGN, "Input X contains infinity"),
        (PLAIN, PLAIN[:, 0], "Unknown label type"),
    ],
)
def test_what_cannot_be_learned_is_refused(X, y, message):
    with pytest.raises(ValueError, match=message):
        EJOPClassifier().fit(X, y)


def test_real_targets_cross_validate():
    X, y = load_diabetes(return_X_y=True)
    assert cross_val_score(EGOPRegressor(random_state=0), X, y, cv=3).mean() > 0.44


# the slow twin ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(18, 3))
    return X, np.c_[np.sin(X[:, 0]), X[:, 1] * X[:, 2]], rng.normal(size=(6, 3))


@pytest.mark.parametrize("kernel", ["gaussian", "laplace", "l1"])
def test_honest_predictions_are_those_of_machines_without_the_row(tiny, kernel):
    X, Y, _ = tiny
    R, fold = Y - Y.mean(0), np.arange(18) % 4
    found = judged(
        Regression(X, R),
        kernel,
        lambda diagonal, round_: True,
        fold,
        np.arange(18),
        None,
        np.random.default_rng(0),
    )
    kinds = set()
    for one in found:
        kinds.add((one.diagonal, one.round))
        settings = [(choice.h, choice.penalty) for choice in one.settings]
        expected = reference.honest_machine(X, R, kernel, settings, one.diagonal, fold)
        np.testing.assert_allclose(one.honest, expected, atol=1e-8)
        assert one.loss == pytest.approx(((expected - R) ** 2).sum(1).mean())
        if one.round:
            L = reference.machine_map(X, R, *settings[0], kernel, one.diagonal)
            ours = np.diag(one.L) if one.diagonal else one.L
            np.testing.assert_allclose(ours.T @ ours, L.T @ L, atol=1e-8)
    assert kinds == (
        {(True, 0), (True, 1)} if kernel == "l1" else {(False, 0), (False, 1), (True, 1)}
    )


def test_answers_are_the_mean_of_the_best_machines(tiny):
    """Given bandwidths and penalties, by one refit a row and fold; float32 coefficients."""
    X, Y, Q = tiny
    model = EGOPRegressor(RidgeRule(n_members=4), random_state=0).fit(X, Y)
    table = pd.DataFrame(model.cv_results_)
    first = table[table.param_round == 0].set_index(["param_preparation", "param_kernel"])
    scaled, queries = model.scale_rows(X), model.scale_rows(Q)
    ranks = QuantileColumns().fit(scaled)
    prepare = {"plain": lambda rows: rows, "quantile": ranks.transform}
    members = []
    for row in table[table.member].itertuples():
        start = first.loc[(row.param_preparation, row.param_kernel)]
        settings = [(start.param_bandwidth, start.param_penalty)]
        if row.param_round:
            settings.append((row.param_bandwidth, row.param_penalty))
        how = prepare[row.param_preparation]
        members.append((how, row.param_kernel, settings, row.param_diagonal))
    assert len(members) == 4
    spread = Y.std(0)
    R = (Y - Y.mean(0)) / spread
    answer = partial(reference.mean_of_machines, members=members, X=scaled, R=R)
    expected = Y.mean(0) + np.array([answer(q) for q in queries]) * spread
    np.testing.assert_allclose(model.predict(Q), expected, atol=1e-6)


def test_ranks_are_those_of_a_normal_distribution():
    rows = np.random.default_rng(0).permutation(50)[:, None] ** 3.0
    ranks = rows.ravel().argsort().argsort() / 49
    expected = np.clip(norm.ppf(ranks), -3, 3)
    np.testing.assert_allclose(QuantileColumns().fit_transform(rows).ravel(), expected, atol=1e-6)
