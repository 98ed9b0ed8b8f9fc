"""EJOPClassifier and EGOPRegressor: better neighbours, tuned honestly."""

import weakref

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, PredefinedSplit, train_test_split
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from ejop import EGOPRegressor, EJOPClassifier, neighbors
from ejop.neighbors import nearest, vote, within
from ejop.scaling import HellingerScaler, scale_candidates
from ejop.tuning import GAIN, MAX_DRAWS, NEIGHBORS, POWERS, Setting, Table, holdouts


@parametrize_with_checks(
    [
        EJOPClassifier(function="kernel", scale="standard"),
        EJOPClassifier("hnn", function="kernel", scale="standard"),
        EGOPRegressor(function="kernel", scale="standard"),
        HellingerScaler(),
    ]
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
    return EJOPClassifier(random_state=0).fit(wine[0], wine[2])


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
    # three scales with the last function, then the other two at the best scale
    assert len(table) == (3 + 2) * len(POWERS) * len(NEIGHBORS)
    best, plain = (
        part.sort_values(["mean_test_score", "mean_vote_loss"], ascending=[False, True]).iloc[0]
        for part in (table, table[(table.param_power == 0) & (table.param_scale == "standard")])
    )
    gains = np.array(
        [best[f"split{i}_test_score"] - plain[f"split{i}_test_score"] for i in range(MAX_DRAWS)]
    )
    error = gains.std(ddof=1) / np.sqrt(MAX_DRAWS)
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
    with pytest.raises(ValueError, match="`n_neighbors`=1000 must lie between 1 and"):
        fitted.kneighbors(Xb, 1000)
    columns = [f"c{i}" for i in range(13)]
    names = np.array(["barolo", "grignolino", "barbera"])
    model = EJOPClassifier(function="kernel", random_state=0)
    model.fit(pd.DataFrame(Xa, columns=columns), names[ya])
    assert list(model.feature_names_in_) == columns
    assert set(model.predict(pd.DataFrame(Xb, columns=columns))) <= set(names)


def test_neighbours_are_those_of_the_learned_metric(wine, fitted):
    Xa, Xb, ya, _ = wine
    Z, R = fitted.transform(Xb), fitted.transform(Xa)
    peer = KNeighborsClassifier(fitted.n_neighbors_, algorithm="brute").fit(R, ya)
    assert np.mean(peer.predict(Z) == fitted.predict(Xb)) > 0.98  # but for ties
    np.testing.assert_allclose(fitted.kneighbors(Xb, 3)[0], peer.kneighbors(Z, 3)[0], rtol=1e-6)


def test_explanations_point_at_what_matters():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6))
    y = (X[:, 1] > 0).astype(int)
    model = EJOPClassifier(scale="none", random_state=0).fit(X, y)
    shares = model.explain(X[:50])
    assert shares.shape == (50, 6)
    strength = np.abs(shares).mean(0)
    assert strength.argmax() == 1
    near = np.abs(X[:50, 1]) < 0.8  # where the answer changes, the feature speaks for it
    assert shares[near, 1].clip(0).sum() > 0.9 * np.abs(shares[near, 1]).sum()


def test_explanations_survive_several_rounds(wine):
    Xa, Xb, ya, _ = wine
    model = EJOPClassifier(scale="standard", function="kernel", n_iter=3, random_state=0)
    model.fit(Xa, ya)
    assert model.explain(Xb).shape == Xb.shape
    assert 1 <= model.best_params_["n_iter"] <= 3


def test_rounds_are_kept_only_if_they_gain():
    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    one = EJOPClassifier(function="ridge", scale="none", random_state=0).fit(X, y)
    many = EJOPClassifier(function="ridge", scale="none", n_iter=3, random_state=0).fit(X, y)
    assert many.best_score_ >= one.best_score_
    if many.best_params_["n_iter"] == 1:
        np.testing.assert_array_equal(many.components_, one.components_)
    else:
        assert many.best_score_ > one.best_score_


@pytest.mark.parametrize("rule", ["knn", "hnn", "ridge"])
def test_noise_labels_score_at_chance(rule):
    """Leakage: the metric has seen its labels, so judging it by them would read far too well."""
    rng = np.random.default_rng(0)
    scores, chance = [], []
    for _ in range(3):
        X, y = rng.normal(size=(300, 40)), rng.integers(2, size=300)
        model = EJOPClassifier(
            rule, function="ridge", scale="none", power=1.0, n_neighbors=3, random_state=0
        ).fit(X, y)
        scores.append(model.best_score_)
        chance.append(max(np.mean(y), 1 - np.mean(y)))
        in_sample = model.fit(X, y).score(X, y)
        assert in_sample > 0.6 or rule == "hnn"
    assert np.mean(scores) < np.mean(chance) + 0.06


def test_the_metric_of_a_split_has_not_seen_the_rows_that_judge(monkeypatch, wine):
    Xa, _, ya, _ = wine
    seen = []
    original = EJOPClassifier._learn

    def learn(self, function, A, rows, seed):
        seen.append(rows)
        return original(self, function, A, rows, seed)

    monkeypatch.setattr(EJOPClassifier, "_learn", learn)
    model = EJOPClassifier(function="kernel", scale="standard", validation=0.25, random_state=0)
    model.fit(Xa, ya)
    n = len(Xa)
    assert [len(rows) for rows in seen] == [n - round(0.25 * n)] * MAX_DRAWS + [n]


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
        model = EJOPClassifier(function="kernel", random_state=0).fit(X[:500], y[:500])
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
        model = EJOPClassifier(
            "hnn", function="kernel", scale="none", radius=0.5, empty=empty, random_state=0
        ).fit(X, y)
        p = model.predict_proba(far)[0]
        if expected is None:
            assert p.max() == 1
        else:
            np.testing.assert_allclose(p, expected)


def test_balls_are_counted_in_blocks(wine, monkeypatch):
    Xa, Xb, ya, _ = wine
    options = {"weights": "distance", "random_state": 0}
    whole = EJOPClassifier("hnn", **options).fit(Xa, ya)
    sizes, seen = [], []
    plain = neighbors._balls

    def spy(*args):
        assert all(ball() is None for ball in seen)  # one block's pairs at a time
        balls = plain(*args)
        seen.append(weakref.ref(balls))
        sizes.append(balls.n_queries)
        return balls

    monkeypatch.setattr(neighbors, "_balls", spy)
    monkeypatch.setattr(neighbors, "MAX_PAIRS", 7 * len(Xa))
    parts = EJOPClassifier("hnn", **options).fit(Xa, ya)
    assert parts.best_params_ == whole.best_params_
    np.testing.assert_array_equal(parts.predict_proba(Xb), whole.predict_proba(Xb))
    assert max(sizes) < 15
    assert len(sizes) > len(Xb) // 15


def test_hnn_tunes_its_radius(wine):
    Xa, Xb, ya, yb = wine
    model = EJOPClassifier("hnn", random_state=0).fit(Xa, ya)
    assert model.radius_ > 0
    assert "radius_quantile" in model.best_params_
    assert model.score(Xb, yb) > 0.93


def test_progress_comes_with_every_power(wine, capsys):
    Xa, _, ya, _ = wine
    model = EJOPClassifier(function="kernel", scale="standard", validation=3, verbose=1)
    model.fit(Xa, ya)
    n_steps = 3 * (1 + len(POWERS))
    assert f"{n_steps}/{n_steps}" in capsys.readouterr().err


def test_ridge_rule(wine):
    Xa, Xb, ya, yb = wine
    assert EJOPClassifier("ridge", random_state=0).fit(Xa, ya).score(Xb, yb) > 0.93


def test_scales(rng):
    counts = rng.poisson(3, size=(50, 6)).astype(float)
    assert scale_candidates(counts) == ["none", "standard", "hellinger"]
    assert "hellinger" not in scale_candidates(counts - 5)
    Z = HellingerScaler().fit_transform(counts)
    np.testing.assert_allclose((Z**2).sum(1), 1)
    with pytest.raises(
        ValueError, match=r"scale='hellinger', which takes counts.*scale='standard'"
    ):
        EJOPClassifier(scale="hellinger").fit(counts - 5, np.arange(50) % 2)


def test_balanced_classes_hear_the_small_one(rng):
    X = np.r_[rng.normal(0, 1, (380, 3)), rng.normal(1.2, 1, (20, 3))]
    y = np.r_[np.zeros(380, int), np.ones(20, int)]
    settings = {"function": "kernel", "scale": "none", "n_neighbors": 15, "random_state": 0}
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
    assert model.explain(X[:5]).shape == (5, 6, 2)
    for rule in ("knn", "hnn", "ridge"):
        single = EGOPRegressor(rule, validation=2, random_state=0).fit(X[:400], Y[:400, 0])
        assert single.predict(X[400:]).shape == (100,)
        assert single.score(X[400:], Y[400:, 0]) > 0.7
    with pytest.raises(ValueError, match="`y` is constant"):
        EGOPRegressor().fit(X, np.ones(500))


def test_validation_takes_shares_folds_and_splitters(wine):
    Xa, _, ya, _ = wine
    for validation, n_splits in (
        (0.3, MAX_DRAWS),
        (5, 5),
        (KFold(3, shuffle=True, random_state=0), 3),
    ):
        splits = holdouts(validation, Xa, ya, classifier=True, random_state=0)
        assert len(splits) == n_splits
        for seen, held in splits:
            assert not set(seen) & set(held)
    many = np.zeros((10_000, 1))
    assert len(holdouts(0.2, many, np.arange(10_000) % 3, classifier=True, random_state=0)) == 1


def test_a_share_of_many_rows_is_capped():
    y = np.arange(60_000) % 3
    splits = holdouts(0.2, np.zeros((len(y), 1)), y, classifier=True, random_state=0)
    assert [(len(a), len(b)) for a, b in splits] == [(55_000, 5000)]


def test_only_tuning_without_refit(wine):
    Xa, Xb, ya, _ = wine
    model = EJOPClassifier(function="kernel", refit=False, random_state=0).fit(Xa, ya)
    assert model.best_score_ > 0.8
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        model.predict(Xb)


def test_refit_on_the_training_part_leaves_held_out_rows_out(wine):
    Xa, _, ya, _ = wine
    held = np.repeat([-1, 0], [len(Xa) - 30, 30])
    options = {"function": "kernel", "validation": PredefinedSplit(held), "random_state": 0}
    model = EJOPClassifier(refit="train", **options).fit(Xa, ya)
    changed = ya.copy()
    changed[-30:] = np.roll(changed[-30:], 7)  # held-out labels may steer the choice alone
    again = EJOPClassifier(
        refit="train",
        power=model.best_params_["power"],
        scale=model.best_params_["scale"],
        n_neighbors=model.n_neighbors_,
        **options,
    ).fit(Xa, changed)
    np.testing.assert_allclose(again.components_, model.components_)
    assert model.kneighbors(Xa)[1].max() < len(Xa) - 30
    backwards = PredefinedSplit(held[::-1])
    model = EJOPClassifier(refit="train", **{**options, "validation": backwards}).fit(Xa, ya)
    assert model.kneighbors(Xa)[1].min() >= 30  # numbers are those of the rows that were passed
    assert model.score(Xa, ya) > 0.9


def test_any_model_can_be_the_function(wine):
    Xa, Xb, ya, yb = wine
    model = EJOPClassifier(function=LogisticRegression(), scale="standard", random_state=0)
    assert model.fit(Xa, ya).score(Xb, yb) > 0.93


def test_missing_values_name_the_imputer(wine):
    Xa, _, ya, _ = wine
    bad = Xa.copy()
    bad[0, 0] = np.nan
    with pytest.raises(ValueError, match="SimpleImputer"):
        EJOPClassifier().fit(bad, ya)


def test_notebooks_show_the_plan(wine, fitted):
    assert fitted.plan_.method in fitted._repr_html_()
    assert "queries against" not in clone(fitted)._repr_html_()


def test_plain_distance_wins_unless_it_is_beaten_by_half_a_standard_error():
    plain, learned = Setting("none", "f", 0.0, None, 3), Setting("none", "f", 1.0, None, 3)
    table = Table()
    for a, b in ((0.80, 0.84), (0.80, 0.76), (0.80, 0.82), (0.80, 0.80)):  # gain 0.5 % +- 1.7 %
        table.add(plain, a, 0.1)
        table.add(learned, b, 0.1)
    assert table.best() == learned
    assert table.unless_plain_does(learned) == plain
    table.add(plain, 0.80, 0.1)
    table.add(learned, 0.84, 0.1)  # gain 1.2 % +- 1.5 %
    assert table.unless_plain_does(learned) == learned
    assert table.unless_plain_does(plain) == plain
