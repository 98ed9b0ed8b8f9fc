"""EJOPClassifier and EGOPRegressor: better neighbours, tuned honestly."""

import pickle
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    PredefinedSplit,
    StratifiedKFold,
    cross_validate,
    train_test_split,
)
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from ejop import EJOP, EGOPRegressor, EJOPClassifier
from ejop.functions import RidgeFunction
from ejop.neighbors import nearest, vote, within
from ejop.rules import NEIGHBORS, RULES, KNeighborsRule, RadiusRule, RidgeRule
from ejop.scaling import HellingerScaler, scale_candidates
from ejop.tuning import FOLDS, GAIN, POWERS, WIDENINGS, Judgements, Setting, holdouts

EXPECTED_FAILURES = {
    f"check_sample_weight_equivalence_on_{kind}_data": (
        "rows that judge are drawn and neighbours counted by rows: a row of weight 2 is one of them"
    )
    for kind in ("dense", "sparse")
}
ITERATES = {"check_class_weight_classifiers": "it sets n_iter=100, which the default rule refuses"}


def expected_failures(estimator):
    ridge = getattr(estimator, "rule", None) == "ridge"
    return {**EXPECTED_FAILURES, **(ITERATES if ridge else {})}


@parametrize_with_checks(
    [
        EJOPClassifier(),
        EGOPRegressor(),
        EJOPClassifier("knn", function="kernel", scale="standard"),
        EJOPClassifier("hnn", function="kernel", scale="standard"),
        EGOPRegressor("knn", function="kernel", scale="standard"),
        HellingerScaler(),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore:every difference is zero")  # tiny data of some checks
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)


@pytest.fixture(scope="module")
def fitted(wine):
    return EJOPClassifier("knn", random_state=0).fit(wine[0], wine[2])


def test_it_tunes_scale_function_power_and_neighbours(wine, fitted):
    _, Xb, _, yb = wine
    assert set(fitted.best_params_) == {
        "scale",
        "function",
        "n_iter",
        "power",
        "n_components",
        "n_neighbors",
    }
    assert fitted.best_params_["scale"] == "standard"  # proline counts in the hundreds
    table = pd.DataFrame(fitted.cv_results_)
    # one scale, chosen in closed form; two functions, of which all the rest is judged
    assert len(table) == len(WIDENINGS) * len(POWERS) * len(NEIGHBORS)
    assert set(table.param_scale) == {"standard"}
    best, plain = (
        part.sort_values(["mean_test_score", "mean_vote_loss"], ascending=[False, True]).iloc[0]
        for part in (table, table[table.param_power == 0])
    )
    gains = np.array(
        [best[f"split{i}_test_score"] - plain[f"split{i}_test_score"] for i in range(FOLDS)]
    )
    error = gains.std(ddof=1) / np.sqrt(FOLDS)
    beaten = gains.mean() > 0 and gains.mean() >= GAIN * error - 1e-12
    chosen = best if beaten else plain
    assert fitted.best_score_ == pytest.approx(chosen.mean_test_score)
    for name, value in fitted.best_params_.items():
        assert chosen[f"param_{name}"] == value
    assert fitted.score(Xb, yb) > 0.93


def test_shapes_names_and_frames(wine, fitted):
    Xa, Xb, ya, _ = wine
    p = fitted.predict_proba(Xb)
    np.testing.assert_allclose(p.sum(1), 1)
    assert fitted.transform(Xb).shape == (len(Xb), 13)
    distances, rows = fitted.kneighbors(Xb, 4)
    assert distances.shape == rows.shape == (len(Xb), 4)
    with pytest.raises(ValueError, match="`n_neighbors`=1000 must be a whole number from 1"):
        fitted.kneighbors(Xb, 1000)
    columns = [f"c{i}" for i in range(13)]
    names = np.array(["barolo", "grignolino", "barbera"])
    model = EJOPClassifier("knn", function="kernel", random_state=0)
    model.fit(pd.DataFrame(Xa, columns=columns), names[ya])
    assert list(model.feature_names_in_) == columns
    assert set(model.predict(pd.DataFrame(Xb, columns=columns))) <= set(names)


def test_neighbours_are_those_of_the_learned_metric(wine, fitted):
    Xa, Xb, ya, _ = wine
    Z, R = fitted.transform(Xb), fitted.transform(Xa)
    peer = KNeighborsClassifier(fitted.rule_.n_neighbors_, algorithm="brute").fit(R, ya)
    assert np.mean(peer.predict(Z) == fitted.predict(Xb)) > 0.98  # but for ties
    np.testing.assert_allclose(fitted.kneighbors(Xb, 3)[0], peer.kneighbors(Z, 3)[0], rtol=1e-6)


def test_explanations_point_at_what_matters():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6))
    y = (X[:, 1] > 0).astype(int)
    model = EJOPClassifier("knn", scale="none", random_state=0).fit(X, y)
    shares = model.explain(X[:50])
    assert shares.shape == (50, 6)
    strength = np.abs(shares).mean(0)
    assert strength.argmax() == 1
    near = np.abs(X[:50, 1]) < 0.8  # where the answer changes, the feature speaks for it
    assert shares[near, 1].clip(0).sum() > 0.9 * np.abs(shares[near, 1]).sum()


def test_explanations_survive_several_rounds(wine):
    Xa, Xb, ya, _ = wine
    model = EJOPClassifier("knn", scale="standard", function="kernel", n_iter=3, random_state=0)
    model.fit(Xa, ya)
    assert model.explain(Xb).shape == Xb.shape
    assert 1 <= model.best_params_["n_iter"] <= 3


def test_rounds_are_kept_only_if_they_gain():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    options = {"function": RidgeFunction(widening=1.0), "scale": "none", "random_state": 0}
    one = EJOPClassifier("knn", **options).fit(X, y)
    many = EJOPClassifier("knn", n_iter=3, **options).fit(X, y)
    assert many.best_score_ >= one.best_score_
    if many.best_params_["n_iter"] == 1:
        np.testing.assert_array_equal(many.components_, one.components_)
    else:
        assert many.best_score_ > one.best_score_


@pytest.mark.parametrize("rule", [KNeighborsRule(3), RadiusRule(), RidgeRule()])
def test_noise_labels_score_at_chance(rule):
    """Leakage: the metric has seen its labels, so judging it by them would read far too well."""
    rng = np.random.default_rng(0)
    scores, chance = [], []
    for _ in range(3):
        X, y = rng.normal(size=(300, 40)), rng.integers(2, size=300)
        model = EJOPClassifier(rule, scale="none", power=1.0, random_state=0).fit(X, y)
        scores.append(model.best_score_)
        chance.append(max(np.mean(y), 1 - np.mean(y)))
        in_sample = model.score(X, y)
        assert in_sample > 0.6 or isinstance(rule, RadiusRule)
    assert np.mean(scores) < np.mean(chance) + 0.06


class Noting(LogisticRegression):
    """A model that notes the first column of the rows it learns from."""

    learned: list = []

    def fit(self, X, y, sample_weight=None):
        self.learned.append(X[:, 0])
        return super().fit(X, y, sample_weight)


class NotingRule(KNeighborsRule):
    """Neighbours that note the lengths of the rows they judge."""

    judged: list = []

    def judge(self, Z, sizes, device=None):
        self.judged.append(np.linalg.norm(Z, axis=1))
        return super().judge(Z, sizes, device)


@pytest.mark.parametrize(
    ("validation", "n_held"), [(4, [30] * 4), (0.25, [30]), (7, [18] + [17] * 6)]
)
def test_each_row_is_judged_by_a_metric_that_has_not_seen_it(rng, validation, n_held):
    """Rows are told apart by their first column, and by their lengths, which power 0 keeps."""
    X = np.c_[np.arange(1.0, 121.0), rng.normal(size=(120, 2))]
    y = rng.integers(2, size=120)
    Noting.learned.clear()
    NotingRule.judged.clear()
    model = EJOPClassifier(
        NotingRule(3), function=Noting(), scale="none", power=0.0, validation=validation
    )
    model.fit(X, y)
    *folds, last = Noting.learned
    assert len(folds) == len(NotingRule.judged) == len(n_held)
    everyone, lengths = set(X[:, 0]), np.linalg.norm(X, axis=1)
    judged = []
    for seen, norms in zip(folds, NotingRule.judged, strict=True):
        held = X[[np.abs(lengths - norm).argmin() for norm in norms], 0]
        assert set(held) == everyone - set(seen)
        judged += held.tolist()
    assert sorted(map(len, NotingRule.judged)) == sorted(n_held)
    assert len(set(judged)) == len(judged) == sum(n_held)
    assert set(last) == everyone


@pytest.mark.parametrize("kind", [EJOPClassifier, EGOPRegressor])
def test_preparation_and_function_are_chosen_without_the_rows_that_only_judge(rng, kind):
    X = np.exp(2 * rng.normal(size=(150, 3)))
    y = (np.log(X[:, 0]) + np.log(X[:, 1]) > 0).astype(int)
    held = np.arange(150) >= 100
    model = kind("knn", validation=PredefinedSplit(np.where(held, 0, -1)), random_state=0)
    found = model.fit(X, y).best_params_
    assert found["scale"] == "quantile"  # tails that are far too long for the rest
    other_rows, other_targets = X.copy(), y.copy()
    other_rows[held] = rng.normal(size=(50, 3)) - 1e4
    other_targets[held] = rng.integers(2, size=50)
    again = clone(model).fit(other_rows, other_targets)
    assert again.best_score_ != model.best_score_
    assert again.best_params_["scale"] == "quantile"
    for other, mine in ((again, model), (clone(model).set_params(refit="train").fit(X, y), model)):
        told = [set(map(str, m.cv_results_["param_function"])) for m in (other, mine)]
        assert told[0] == told[1]
        assert len(told[0]) == len(WIDENINGS)


def test_preparations_that_are_as_good_fall_to_the_first(rng):
    """Columns that are standardised already are left as they are."""
    X = rng.normal(size=(400, 4))
    X = (X - X.mean(0)) / X.std(0)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    for units, scale in ((1.0, "none"), ([1.0, 1e-3, 1.0, 1e3], "standard")):
        model = EJOPClassifier("knn", power=0.0, random_state=0).fit(X * units, y)
        assert model.best_params_["scale"] == scale


def test_shares_are_judged_both_ways(rng):
    words = rng.negative_binomial(0.3, 0.3, size=(80, 30)) * 1.0
    y = (words[:, 0] > words[:, 1]).astype(int)
    model = EJOPClassifier("knn", power=0.0, random_state=0).fit(words, y)
    judged = set(model.cv_results_["param_scale"])
    assert len(judged) == 2
    assert "hellinger" in judged
    assert model.best_params_["scale"] in judged


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_answer_with_any_number_of_threads(threads):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(3000, 4)).astype(float)  # distances tie everywhere
    y = rng.integers(3, size=3000)
    with threadpool_limits(threads):
        distances, rows = nearest(X[:200], X, 7)
    D = np.sqrt(((X[:200, None] - X[None]) ** 2).sum(2))
    expected = np.argsort(D, axis=1, kind="stable")[:, :7]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_allclose(distances, np.take_along_axis(D, expected, axis=1))
    with threadpool_limits(threads):
        model = EJOPClassifier("knn", function="kernel", random_state=0).fit(X[:500], y[:500])
        predicted = model.predict(X[500:])
    with threadpool_limits(1):
        again = clone(model).fit(X[:500], y[:500]).predict(X[500:])
    np.testing.assert_array_equal(predicted, again)


def test_equal_votes_go_to_the_nearer_class():
    X = np.array([[0.0], [1.0], [3.0], [4.0]])
    Y = np.eye(2)[[1, 0, 0, 1]]
    votes = vote(*nearest(np.array([[0.4], [3.6]]), X, 2), Y, weights="uniform", row_weights=None)
    np.testing.assert_array_equal(votes.values, 0.5)
    np.testing.assert_array_equal(votes.winners(), [1, 1])


def test_balls_hold_all_rows_within(rng):
    X, Q = rng.normal(size=(200, 3)), rng.normal(size=(20, 3))
    balls = within(Q, X, 1.0)
    for q in range(20):
        D = np.linalg.norm(X - Q[q], axis=1)
        mine = balls.queries == q
        np.testing.assert_array_equal(balls.rows[mine], np.flatnonzero(D <= 1.0))
        np.testing.assert_allclose(balls.distances[mine], D[D <= 1.0])


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("row_weights", [False, True])
def test_balls_vote_as_their_rows_would_one_query_at_a_time(rng, weights, row_weights):
    X, Q = rng.integers(0, 4, size=(80, 2)) * 1.0, rng.integers(0, 7, size=(40, 2)) * 1.0
    Y, w = np.eye(3)[rng.integers(0, 3, 80)], rng.uniform(0.5, 2, 80) if row_weights else None
    fallback = vote(*nearest(Q, X, 1), Y, weights="uniform", row_weights=None)
    balls = within(Q, X, 2.0)
    radii = (0.5, 1.0, 2.0)
    votes = balls.votes(radii, Y, fallback, weights=weights, row_weights=w)
    for radius, found in zip(radii, votes, strict=True):
        for q in range(40):
            D = np.linalg.norm(X - Q[q], axis=1)
            rows = np.flatnonzero(radius >= D)
            if not len(rows):
                np.testing.assert_array_equal(found.values[q], fallback.values[q])
                np.testing.assert_array_equal(found.nearness[q], fallback.nearness[q])
                continue
            one = vote(D[None, rows], rows[None], Y, weights=weights, row_weights=w)
            np.testing.assert_allclose(found.values[q], one.values[0])
            for c in range(3):
                expected = min((D[i] for i in rows if Y[i, c]), default=np.inf)
                assert found.nearness[q, c] == pytest.approx(expected)


def test_empty_balls_answer_as_asked():
    X, y = load_iris(return_X_y=True)
    X, y = X[:120], y[:120]  # 50, 50, 20
    far = np.array([[100.0, 100, 100, 100]])
    for empty, expected in (("nearest", None), ("prior", [50 / 120, 50 / 120, 20 / 120])):
        rule = RadiusRule(radius=0.5, empty=empty)
        model = EJOPClassifier(rule, function="kernel", scale="none", random_state=0).fit(X, y)
        p = model.predict_proba(far)[0]
        if expected is None:
            assert p.max() == 1
        else:
            np.testing.assert_allclose(p, expected)


def test_votes_are_counted_in_blocks(monkeypatch):
    """Neither all pairs of a ball nor the targets of all neighbours are held at once."""
    monkeypatch.setattr("ejop.rules._voting.MAX_PAIRS", 100_000)
    rng = np.random.default_rng(0)
    rows, Y = rng.normal(size=(1000, 2)), np.eye(40)[rng.integers(40, size=1000)]
    Z = rng.normal(size=(8000, 2))
    for rule in (RadiusRule(radius=9.0), KNeighborsRule(21)):  # at once: 320 MB, 54 MB of targets
        rule.fit(rows, Y)
        tracemalloc.start()
        votes = rule.votes(Z)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 40e6
        some = rule.votes(Z[5000:5010])
        np.testing.assert_array_equal(votes.values[5000:5010], some.values)
        np.testing.assert_array_equal(votes.nearness[5000:5010], some.nearness)


def test_hnn_tunes_its_radius(wine):
    Xa, Xb, ya, yb = wine
    model = EJOPClassifier("hnn", random_state=0).fit(Xa, ya)
    assert model.rule_.radius_ > 0
    assert "radius_quantile" in model.best_params_
    assert model.score(Xb, yb) > 0.93


def test_progress_comes_with_every_power(wine, capsys):
    Xa, _, ya, _ = wine
    model = EJOPClassifier("knn", function="kernel", scale="standard", validation=3, verbose=1)
    model.fit(Xa, ya)
    n_steps = 3 * (1 + len(POWERS))
    assert f"{n_steps}/{n_steps}" in capsys.readouterr().err


def test_ridge_rule(wine):
    Xa, Xb, ya, yb = wine
    assert EJOPClassifier("ridge", random_state=0).fit(Xa, ya).score(Xb, yb) > 0.93


def test_scales(rng):
    counts = rng.poisson(3, size=(50, 6)).astype(float)
    words = rng.negative_binomial(0.3, 0.3, size=(50, 30)) * 1.0  # counts, most of them zero
    for whole in (words, counts / counts.sum(1, keepdims=True)):
        assert scale_candidates(whole) == [["none", "standard", "quantile"], ["hellinger"]]
    fares = np.c_[rng.integers(80, size=(50, 1)), rng.integers(2, size=(50, 29))] * 1.0
    for other in (counts, counts - 5, fares, words > 0, words.clip(0, 2), words[:, :1]):
        assert scale_candidates(other * 1.0) == [["none", "standard", "quantile"]]
    Z = HellingerScaler().fit_transform(counts)
    np.testing.assert_allclose((Z**2).sum(1), 1)
    with pytest.raises(
        ValueError, match=r"scale='hellinger', which takes counts.*scale='standard'"
    ):
        EJOPClassifier("knn", scale="hellinger").fit(counts - 5, np.arange(50) % 2)


def test_balanced_classes_hear_the_small_one(rng):
    X = np.r_[rng.normal(0, 1, (380, 3)), rng.normal(1.2, 1, (20, 3))]
    y = np.r_[np.zeros(380, int), np.ones(20, int)]
    settings = {"rule": KNeighborsRule(15), "function": "kernel", "scale": "none"}
    settings["random_state"] = 0
    plain = EJOPClassifier(**settings).fit(X, y).predict(X)
    balanced = EJOPClassifier(**settings, class_weight="balanced").fit(X, y).predict(X)
    assert (balanced == 1)[380:].mean() > (plain == 1)[380:].mean() + 0.2


def test_regression_with_one_and_several_outputs(rng):
    X = rng.normal(size=(500, 6))
    Y = np.c_[np.sin(2 * X[:, 0]), 100 * X[:, 1] ** 2]
    plain = KNeighborsRegressor().fit(X[:400], Y[:400]).score(X[400:], Y[400:])
    model = EGOPRegressor(random_state=0).fit(X[:400], Y[:400])
    assert model.predict(X[400:]).shape == (100, 2)
    assert model.score(X[400:], Y[400:]) > plain + 0.1
    assert model.explain(X[:5]).shape == (5, 2, 6)
    for rule in ("knn", "hnn", "ridge"):
        single = EGOPRegressor(rule, random_state=0)
        if rule != "ridge":
            single.set_params(validation=2)
        single.fit(X[:400], Y[:400, 0])
        assert single.predict(X[400:]).shape == (100,)
        assert single.score(X[400:], Y[400:, 0]) > 0.7
    with pytest.raises(ValueError, match="`y` is constant"):
        EGOPRegressor().fit(X, np.ones(500))


def test_validation_takes_shares_folds_and_splitters(wine):
    Xa, _, ya, _ = wine
    for validation, n_splits in ((0.3, 1), (5, 5), (KFold(3, shuffle=True, random_state=0), 3)):
        splits = holdouts(validation, Xa, ya, classifier=True, random_state=0)
        assert len(splits) == n_splits
        for seen, held in splits:
            assert not set(seen) & set(held)
            assert len(seen) + len(held) == len(Xa)
    few = np.array([0] * 9 + [1])  # fewer rows of a class than folds, and fewer rows than folds
    folds = holdouts(4, few[:, None], few, classifier=True, random_state=0)
    assert sorted(np.concatenate([held for _, held in folds])) == list(range(10))
    assert len(holdouts(20, few[:, None], few, classifier=True, random_state=0)) == 10


@pytest.mark.parametrize(("validation", "sizes"), [(4, [50, 25, 5]), (0.3, [60, 30, 6])])
def test_classes_judge_as_often_as_there_are_rows_of_them(validation, sizes):
    y = np.repeat([2, 0, 1], [200, 100, 20])
    for _, held in holdouts(validation, y[:, None], y, classifier=True, random_state=0):
        np.testing.assert_array_equal(np.bincount(y[held])[[2, 0, 1]], sizes)


@pytest.mark.parametrize(("validation", "n_seen"), [(0.2, [48_000]), (3, [40_000] * 3)])
def test_rows_that_judge_are_capped(validation, n_seen):
    y = np.arange(60_000) % 3
    splits = holdouts(validation, np.zeros((len(y), 1)), y, classifier=True, random_state=0)
    assert [len(a) for a, _ in splits] == n_seen
    assert all(len(b) == 5000 and not np.isin(b, a).any() for a, b in splits)


def test_only_tuning_without_refit(wine):
    Xa, Xb, ya, _ = wine
    model = EJOPClassifier("knn", function="kernel", refit=False, random_state=0).fit(Xa, ya)
    assert model.best_score_ > 0.8
    for use in (model.predict, model.transform, model.kneighbors, model.pair_distance):
        with pytest.raises(NotFittedError, match="`refit`=False, which keeps only the results"):
            use(Xb)


def test_refit_on_the_training_part_leaves_held_out_rows_out(wine):
    Xa, _, ya, _ = wine
    held = np.repeat([-1, 0], [len(Xa) - 30, 30])
    options = {"function": "kernel", "validation": PredefinedSplit(held), "random_state": 0}
    model = EJOPClassifier("knn", refit="train", **options).fit(Xa, ya)
    changed = ya.copy()
    changed[-30:] = np.roll(changed[-30:], 7)  # held-out labels may steer the choice alone
    again = EJOPClassifier(
        refit="train",
        power=model.best_params_["power"],
        scale=model.best_params_["scale"],
        rule=KNeighborsRule(model.rule_.n_neighbors_),
        **options,
    ).fit(Xa, changed)
    np.testing.assert_allclose(again.components_, model.components_)
    assert model.kneighbors(Xa)[1].max() < len(Xa) - 30
    backwards = PredefinedSplit(held[::-1])
    model = EJOPClassifier("knn", refit="train", **{**options, "validation": backwards}).fit(Xa, ya)
    assert model.kneighbors(Xa)[1].min() >= 30  # numbers are those of the rows that were passed
    assert model.score(Xa, ya) > 0.9


def test_any_model_can_be_the_function(wine):
    Xa, Xb, ya, yb = wine
    model = EJOPClassifier("knn", function=LogisticRegression(), scale="standard", random_state=0)
    assert model.fit(Xa, ya).score(Xb, yb) > 0.93


def test_missing_values_are_filled_unless_only_numbers_are_taken(wine):
    Xa, Xb, ya, yb = wine
    bad = Xa.copy()
    bad[::5, 0] = np.nan
    model = EJOPClassifier(random_state=0).fit(bad, ya)
    assert model.preparer_.in_words() == [
        "missing values filled with the median, and marked: x0 (22)"
    ]
    assert model.n_features_in_ == 13
    assert model.feature_importances_.shape == (13,)
    assert model.score(Xb, yb) > 0.93
    with pytest.raises(ValueError, match="columns='auto'"):
        EJOPClassifier(columns="numbers").fit(bad, ya)


def test_notebooks_show_the_plan(wine, fitted):
    assert fitted.plan_.method in fitted._repr_html_()
    assert "queries against" not in clone(fitted)._repr_html_()


@pytest.mark.parametrize("rule", ["knn", "ridge"])
def test_names_are_listed_without_computing_importances(wine, fitted, rule, monkeypatch):
    """Completion in a notebook lists them at each key."""
    Xa, _, ya, _ = wine
    model = fitted if rule == "knn" else EJOPClassifier(random_state=0).fit(Xa, ya)
    assert model.feature_importances_.shape == (13,)
    asked = []
    monkeypatch.setattr(EJOPClassifier, "feature_importances_", property(asked.append))
    names = dir(model)
    assert not asked
    assert {"feature_importances_", "plan_", "predict_proba", "kneighbors"} <= set(names)
    assert "feature_importances_" not in dir(clone(model))
    model._repr_html_()
    assert len(asked) <= 1  # scikit-learn 1.9 shows them, and asks once


def test_plain_distance_wins_unless_it_is_beaten_by_half_a_standard_error():
    plain, learned = Setting("none", "f", 0.0, None, 3), Setting("none", "f", 1.0, None, 3)
    table = Judgements()
    for a, b in ((0.80, 0.84), (0.80, 0.76), (0.80, 0.82), (0.80, 0.80)):  # gain 0.5 % +- 1.7 %
        table.add(plain, a, 0.1)
        table.add(learned, b, 0.1)
    assert table.best() == learned
    assert table.unless_plain_does(learned) == plain
    table.add(plain, 0.80, 0.1)
    table.add(learned, 0.84, 0.1)  # gain 1.2 % +- 1.5 %
    assert table.unless_plain_does(learned) == learned
    assert table.unless_plain_does(plain) == plain


# rules as objects ---------------------------------------------------------------------------------


def test_rules_are_small_estimators(rng):
    rows, Y = rng.normal(size=(60, 3)), np.eye(2)[rng.integers(2, size=60)]
    Z = rng.normal(size=(9, 3))
    for name, kind in RULES.items():
        rule = kind()
        assert repr(rule) == f"{kind.__name__}()"
        assert clone(rule).get_params() == rule.get_params()
        votes = rule.fit(rows, Y).votes(Z)
        assert votes.values.shape == votes.nearness.shape == (9, 2)
        assert isinstance(EJOPClassifier(name).fit(rows, Y[:, 0]).rule_, kind)
        empty = rule.votes(Z[:0]) if name != "ridge" else votes
        assert empty.values.shape[1] == 2


@pytest.mark.parametrize("rule", [KNeighborsRule(), RadiusRule(), RidgeRule()])
def test_sizes_are_judged_as_a_rule_of_that_size_would_vote(rng, rule):
    rows, Y, w = rng.normal(size=(80, 2)), rng.normal(size=(80, 2)), rng.uniform(0.5, 2, 80)
    Z, sizes = rng.normal(size=(20, 2)) * 2, rule.candidates(80)
    held = clone(rule).hold(rows, Y, w)
    for size, votes in zip(sizes, held.judge(Z, sizes), strict=True):
        alone = clone(rule).fit(rows, Y, w, size=size).votes(Z)
        np.testing.assert_allclose(votes.values, alone.values)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (KNeighborsRule(0), "'n_neighbors' parameter of KNeighborsRule"),
        (RadiusRule(radius=-1.0), "'radius' parameter of RadiusRule"),
        (RadiusRule(empty="none"), "'empty' parameter of RadiusRule"),
        (KNeighborsRule(weights="none"), "'weights' parameter of KNeighborsRule"),
        ("nearest", "'rule' parameter of EJOPClassifier"),
        (5, "'rule' parameter of EJOPClassifier"),
    ],
)
def test_rules_refuse_what_will_not_do(wine, rule, message):
    with pytest.raises(ValueError, match=message):
        EJOPClassifier(rule).fit(wine[0], wine[2])


def test_grids_over_a_rule(wine):
    Xa, _, ya, _ = wine
    model = EJOPClassifier(KNeighborsRule(), function="kernel", scale="standard", random_state=0)
    search = GridSearchCV(model, {"rule__n_neighbors": [1, 7]}, cv=2).fit(Xa, ya)
    best = search.best_estimator_
    assert best.rule_.n_neighbors_ == search.best_params_["rule__n_neighbors"]
    assert best.best_params_["n_neighbors"] == best.rule_.n_neighbors_


def test_a_refit_with_another_rule_leaves_nothing_stale(wine):
    Xa, Xb, ya, _ = wine
    model = EJOPClassifier("knn", function="kernel", scale="standard", random_state=0).fit(Xa, ya)
    model.set_params(rule="ridge", function="auto").fit(Xa, ya)
    assert "n_neighbors" not in model.best_params_
    assert "param_size" not in model.cv_results_
    assert not hasattr(model.rule_, "n_neighbors_")
    assert model.kneighbors(Xb)[1].shape == (len(Xb), 5)
    model.set_params(rule=RadiusRule(radius=1.5), function="kernel").fit(Xa, ya)
    assert model.best_params_["radius"] == model.rule_.radius_ == 1.5
    assert "radius_quantile" not in model.best_params_
    model.set_params(refit=False).fit(Xa, ya)
    assert not hasattr(model, "rule_")


# one type, few rows -------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [KNeighborsRule(5), RadiusRule(radius=1.5)])
def test_float32_rows_stay_float32_and_answer_alike(rule):
    """Distances tie everywhere, and the rounding of a type must not order them."""
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 5, size=(900, 6)) * 1.0, rng.integers(3, size=900)
    options = {"function": "kernel", "scale": "none", "power": 0.0, "validation": 2}
    double = EJOPClassifier(rule, **options).fit(X[:600], y[:600])
    rows = X.astype(np.float32)
    single = EJOPClassifier(rule, **options).fit(rows[:600], y[:600])
    assert single.rule_.rows_.dtype == single.transform(rows).dtype == np.float32
    distances, near = single.kneighbors(rows[600:], 5)
    assert distances.dtype == np.float32
    np.testing.assert_array_equal(near, double.kneighbors(X[600:], 5)[1])
    np.testing.assert_array_equal(single.predict(rows[600:]), double.predict(X[600:]))


@pytest.mark.parametrize(("n", "validation"), [(26, 5), (4, 0.2), (4, 5), (6, 3)])
@pytest.mark.parametrize("rule", ["knn", "hnn"])
def test_few_rows(rng, n, validation, rule):
    """Folds of 26 rows admit different numbers of neighbours; four rows hold none out."""
    X, y = rng.normal(size=(n, 2)), np.arange(n) % 2
    model = EJOPClassifier(rule, function="kernel", validation=validation, random_state=0)
    model.fit(X, y)
    assert model.predict(X).shape == (n,)
    assert len(pd.DataFrame(model.cv_results_)) > 0 or n == 4
    assert np.isnan(model.best_score_) == (n == 4)
    given = EJOPClassifier(KNeighborsRule(30), function="kernel", validation=validation)
    assert given.fit(X, y).rule_.n_neighbors_ == n


# functions ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the standard deviations of the columns")
def test_ridge_means_what_it_means_in_ejop(wine):
    Xa, _, ya, _ = wine
    model = EJOPClassifier("knn", function="ridge", scale="none", random_state=0).fit(Xa, ya)
    seed = model.metric_estimator_.random_state
    ejop = EJOP("ridge", softmax=False, n_queries=len(Xa), random_state=seed).fit(Xa, ya)
    np.testing.assert_allclose(model.metric_estimator_.outer_product_, ejop.outer_product_)
    assert model.metric_estimator_.function_.widening == RidgeFunction().widening


def test_automatic_functions_are_told_as_objects(fitted):
    told = {str(f): f for f in fitted.cv_results_["param_function"]}
    assert str(fitted.best_params_["function"]) in told
    first, *others = told.values()
    assert [f.bandwidth / first.bandwidth for f in (first, *others)] == list(WIDENINGS)
    assert {f.penalty for f in others} == {first.penalty}


def test_what_was_chosen_can_be_given(wine, fitted):
    """A model with the settings of another is that model."""
    Xa, Xb, ya, _ = wine
    found = fitted.best_params_
    given = {name: found[name] for name in ("scale", "function", "power")}
    again = EJOPClassifier(KNeighborsRule(found["n_neighbors"]), random_state=0, **given)
    again.fit(Xa, ya)
    np.testing.assert_allclose(again.components_, fitted.components_)
    np.testing.assert_array_equal(again.predict(Xb), fitted.predict(Xb))
    assert again.best_score_ == fitted.best_score_


def test_each_round_has_a_bandwidth_of_its_own(wine):
    Xa, _, ya, _ = wine
    model = EJOPClassifier("knn", power=1.0, n_iter=3, random_state=0).fit(Xa, ya)
    widths = {f.bandwidth for f in model.cv_results_["param_function"]}
    assert len(widths) >= 2 * len(WIDENINGS)  # a second round was tried
    setting = model.best_setting_
    assert len(setting.rounds) == setting.n_iter == model.best_params_["n_iter"]
    assert setting.rounds[-1][0] is setting.function


# weights ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["knn", "hnn"])
def test_rows_of_weight_zero_are_no_rows(rng, rule):
    X, y = rng.normal(size=(90, 3)), rng.integers(2, size=90)
    w = rng.uniform(0.5, 2, 90)
    w[::3] = 0
    kept = np.flatnonzero(w)
    options = {"function": "kernel", "power": 1.0, "scale": "standard", "random_state": 0}
    folds = np.arange(90) % 4
    for validation, same in ((0.2, 0.2), (PredefinedSplit(folds), PredefinedSplit(folds[kept]))):
        for kind in (EJOPClassifier, EGOPRegressor):
            model = kind(rule, validation=validation, **options).fit(X, y, sample_weight=w)
            few = kind(rule, validation=same, **options).fit(X[kept], y[kept], w[kept])
            assert model.best_params_ == few.best_params_
            assert model.best_score_ == few.best_score_
            np.testing.assert_array_equal(model.predict(X), few.predict(X))
            np.testing.assert_array_equal(model.kept_, kept)
            np.testing.assert_array_equal(model.kneighbors(X)[1], kept[few.kneighbors(X)[1]])


def test_weights_of_rows_and_classes_multiply(rng):
    X, y = rng.normal(size=(80, 3)), rng.choice(["a", "b"], 80)
    w = rng.uniform(0.5, 2, 80)
    options = {"function": "kernel", "scale": "none", "random_state": 0}
    both = EJOPClassifier("knn", class_weight={"a": 3.0}, **options).fit(X, y, sample_weight=w)
    product = EJOPClassifier("knn", **options).fit(X, y, sample_weight=w * np.where(y == "a", 3, 1))
    np.testing.assert_allclose(both.predict_proba(X), product.predict_proba(X))
    assert both.best_score_ == pytest.approx(product.best_score_)
    weighted = EJOPClassifier("knn", class_weight="balanced", **options).fit(X, y, sample_weight=w)
    totals = np.array([weighted.rule_.weights_[y == name].sum() for name in "ab"])
    np.testing.assert_allclose(totals, w.sum() / 2)
    with pytest.raises(ValueError, match="1 class, 'b'"):
        EJOPClassifier("knn", class_weight={"a": 0.0}, **options).fit(X, y)
    with pytest.raises(ValueError, match="1 rows have a weight above zero"):
        EJOPClassifier().fit(X, y, sample_weight=np.eye(80)[0])


def test_weights_are_routed(wine):
    from sklearn import config_context

    Xa, _, ya, _ = wine
    with config_context(enable_metadata_routing=True):
        model = EJOPClassifier("knn", function="kernel", scale="standard", random_state=0)
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        weights = {"sample_weight": np.where(ya == 0, 1.0, 0.5)}
        found = cross_validate(model, Xa, ya, cv=StratifiedKFold(2), params=weights)
    assert found["test_score"].min() > 0.8


# as a linear metric -------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["none", "standard", "robust", "hellinger"])
def test_predictors_are_metrics_of_the_rows_that_are_passed(wine, scale):
    Xa, Xb, ya, _ = wine
    frame = pd.DataFrame(Xa, columns=[f"c{i}" for i in range(13)])
    model = EJOPClassifier("knn", function="kernel", scale=scale, n_iter=2, random_state=0).fit(
        frame, ya
    )
    pairs = np.stack([Xb[:5], Xb[5:10]], axis=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        Z = model.transform(Xb)
    expected = np.linalg.norm(Z[:5] - Z[5:10], axis=1)
    np.testing.assert_allclose(model.pair_distance(pairs), expected)
    metric = pickle.loads(pickle.dumps(model.get_metric()))
    assert metric(Xb[0], Xb[5]) == pytest.approx(expected[0])
    with pytest.raises(ValueError, match="`pairs` has shape"):
        model.pair_distance(Xb)
    model.scaler_.transform(frame)  # without a word on names
    if scale == "hellinger":
        with pytest.raises(ValueError, match=r"no matrix in the units.*pair_distance"):
            model.get_mahalanobis_matrix()
        return
    gap = pairs[:, 0] - pairs[:, 1]
    squared = np.einsum("nd,de,ne->n", gap, model.get_mahalanobis_matrix(), gap)
    np.testing.assert_allclose(np.sqrt(squared), expected)


def test_importances_select_columns_whatever_their_units(rng):
    X = rng.normal(size=(300, 5))
    y = (X[:, 1] + 0.5 * X[:, 3] > 0).astype(int)
    units = np.array([1.0, 1e-3, 10.0, 1e3, 1.0])
    model = EJOPClassifier("knn", function="kernel", scale="standard", random_state=0)
    plain, other = (clone(model).fit(rows, y).feature_importances_ for rows in (X, X * units))
    np.testing.assert_allclose(plain, other, rtol=1e-6)
    assert plain.sum() == pytest.approx(1)
    chosen = SelectFromModel(model, max_features=2, threshold=-np.inf).fit(X * units, y)
    np.testing.assert_array_equal(np.flatnonzero(chosen.get_support()), [1, 3])
    several = EJOPClassifier("knn", function="kernel", scale="none", n_iter=2, random_state=0).fit(
        X, y
    )
    assert several.feature_importances_.argmax() == 1
    assert EGOPRegressor("knn", function="kernel").fit(X, y).feature_importances_.shape == (5,)


def test_arrays_whatever_scikit_learn_is_set_to_give(wine):
    from sklearn import config_context

    Xa, Xb, ya, yb = wine
    with config_context(transform_output="pandas"):
        model = EJOPClassifier("knn", function="kernel", scale="standard", random_state=0).fit(
            Xa, ya
        )
        assert model.score(Xb, yb) > 0.9
        assert model.transform(Xb).columns[0] == "ejopclassifier0"


# devices ------------------------------------------------------------------------------------------


def test_predictions_follow_the_device_of_now(wine):
    torch = pytest.importorskip("torch")
    Xa, Xb, ya, _ = wine
    options = {"function": "kernel", "scale": "standard", "random_state": 0}
    there = EJOPClassifier("knn", device="cpu", **options).fit(Xa, ya)
    given = EJOPClassifier("knn", **options).fit(torch.as_tensor(Xa), ya)
    assert given.metric_estimator_.device == "cpu"  # by name: nothing of torch
    here = EJOPClassifier("knn", **options).fit(Xa, ya)
    expected = here.predict(Xb)
    rule = there.rule_
    seen = []
    rule.votes = lambda Z, device=None: seen.append(device) or type(rule).votes(rule, Z)
    np.testing.assert_array_equal(there.predict(Xb), expected)
    np.testing.assert_array_equal(there.set_params(device=None).predict(Xb), expected)
    there.predict(torch.as_tensor(Xb))
    assert seen == ["cpu", None, "cpu"]
    state = {**vars(given), **vars(given.rule_)}
    assert not [v for v in state.values() if type(v).__module__.split(".")[0] == "torch"]


@pytest.mark.parametrize("predictor", [EJOPClassifier, EGOPRegressor])
def test_rows_are_not_added_to_a_predictor(predictor):
    assert not hasattr(predictor(), "partial_fit")
    assert "partial_fit" not in dir(predictor())
    with pytest.raises(AttributeError, match=r"has no `partial_fit`; call `fit` with all rows"):
        predictor().partial_fit  # noqa: B018
