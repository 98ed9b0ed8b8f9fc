"""Explanations add up, and say what matters where that is known."""

import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline

from ejop import EGOP, EJOP, EGOPRegressor, EJOPClassifier, explain, importances
from ejop.columns import ColumnPreparer
from ejop.explanation import Explanation, contributions, deleted_groups, feature_shares
from ejop.plots import PairDisplay
from ejop.rules import RidgeRule

RNG = np.random.default_rng(0)


def walk(f):
    """Steps of a function of rows."""

    def steps(starts, ends, groups):
        rows = np.array(starts, dtype=float)
        yield f(rows)
        for group in groups:
            rows[:, group] = ends[:, group]
            yield f(rows)

    return steps


def shapley(f, start, end):
    """Shapley values by every subset of the columns."""
    d, out = len(start), []
    for j in range(d):
        total = 0.0
        for size in range(d):
            weight = math.factorial(size) * math.factorial(d - size - 1) / math.factorial(d)
            for some in itertools.combinations([k for k in range(d) if k != j], size):
                row = start.copy()
                row[list(some)] = end[list(some)]
                without = f(row[None])[0, 0]
                row[j] = end[j]
                total += weight * (f(row[None])[0, 0] - without)
        out.append(total)
    return np.array(out)


def pairs(rows):
    """A function whose columns interact in pairs."""
    return (rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2]) - rows[:, 2] * rows[:, 0])[:, None]


def test_one_order_and_its_reverse_are_shapley_values_of_pairs():
    start, end = RNG.normal(size=(2, 4))
    found = contributions(walk(pairs), start[None], end[None], [[0], [1], [2], [3]])
    np.testing.assert_allclose(found[0, 0], shapley(pairs, start, end), atol=1e-12)


def test_more_orders_come_near_the_shapley_values_of_any_function():
    def product(rows):
        return np.exp(rows).prod(1, keepdims=True)

    start, end = np.zeros(4), np.array([0.5, -0.3, 0.8, 0.1])
    truth = shapley(product, start, end)
    apart = [
        np.abs(
            contributions(
                walk(product), start[None], end[None], [[j] for j in range(4)], n_orders=n
            )[0, 0]
            - truth
        ).max()
        for n in (2, 400)
    ]
    assert apart[1] < 0.2 * apart[0]


def test_contributions_of_an_additive_function_are_its_parts():
    start, end = RNG.normal(size=(2, 3))
    found = contributions(
        walk(lambda X: (X**3).sum(1, keepdims=True)), start[None], end[None], [[0], [1, 2]]
    )
    parts = end**3 - start**3
    np.testing.assert_allclose(found[0, 0], [parts[0], parts[1:].sum()])


def table(n, seed):
    rng = np.random.default_rng(seed)
    found = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "age": rng.normal(40, 10, n),
            "town": rng.choice(["a", "b", "c"], n),
            "none": rng.normal(size=n),
        }
    )
    y = (found["sex"] == "m") * 2.0 + (found["age"] - 40) / 10 + (found["town"] == "b")
    return found, y


@pytest.fixture(scope="module")
def real():
    X, y = table(300, 0)
    return EGOPRegressor(random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def classes():
    X, y = table(300, 0)
    return EJOPClassifier(random_state=0).fit(X, np.array(["no", "yes"])[(y > 1).astype(int)])


@pytest.mark.parametrize("baseline", ["mean", "training", "rows"])
def test_contributions_add_up_to_the_answer(real, classes, baseline):
    X, _ = table(40, 1)
    begin = X[:3] if baseline == "rows" else baseline
    found = real.explain(X, baseline=begin)
    np.testing.assert_allclose(found.answer, real.predict(X), atol=1e-8)
    np.testing.assert_allclose(found.base + found.values.sum(1), found.answer, atol=1e-6)
    if baseline == "rows":
        np.testing.assert_allclose(found.base, real.predict(X[:3]).mean(), atol=1e-8)
    whole = classes.explain(X, baseline=begin, output="all")
    np.testing.assert_allclose(whole.answer, classes.predict_proba(X), atol=1e-8)
    assert whole.error.max() < 1e-6
    np.testing.assert_allclose(
        whole.values.sum(1), 0, atol=1e-8
    )  # what one class gains others lose
    assert found.names == ["sex", "age", "town", "none"]


def test_contributions_are_those_of_a_slow_twin(real):
    """The same walks by asking the model itself."""
    X, _ = table(6, 1)
    Z = real.scale_rows(X)
    groups = [np.flatnonzero(real.preparer_.groups_ == j) for j in range(4)]
    start = np.broadcast_to(real._center, Z.shape)
    slow = contributions(walk(real.rule_.function_.model_values), start, Z, groups, n_orders=8)
    np.testing.assert_allclose(real.explain(X, n_orders=8).values, slow[:, 0], atol=1e-7)


def test_contributions_are_in_the_units_of_the_target(real):
    """Of a sum of parts: what each part differs from its mean."""
    X, _ = table(40, 1)
    found = real.explain(X)
    parts = {"sex": (X["sex"] == "m") * 2.0 - 1.0, "age": (X["age"] - 40) / 10}
    for name, part in parts.items():
        place = found.names.index(name)
        assert np.corrcoef(found[:, place], part)[0, 1] > 0.95
        assert np.abs(found[:, place] - part).mean() < 0.25
    assert np.abs(found[:, 3]).mean() < 0.15


def test_a_sure_answer_is_explained_too():
    """Where the probability is one, its derivative is none; what led there is not."""
    X, y = load_wine(return_X_y=True)
    model = EJOPClassifier(random_state=0).fit(X, y)
    sure = X[model.predict_proba(X).max(1) > 0.99][:20]
    found = model.explain(sure, baseline="training")
    assert found.values.sum(1).min() > 0.3


def test_an_output_may_be_named(classes):
    X, _ = table(10, 1)
    yes, whole = classes.explain(X, output="yes"), classes.explain(X, output="all")
    np.testing.assert_allclose(yes.values, whole.values[:, 1])
    np.testing.assert_allclose(whole.of_output(1).values, yes.values)
    assert yes.outputs == ["yes"] * 10
    assert classes.explain(X).outputs == classes.predict(X).tolist()
    with pytest.raises(ValueError, match="`output`='maybe' is none of the outputs: 'no', 'yes'"):
        classes.explain(X, output="maybe")


def test_wrong_baselines_are_named(classes, real):
    X, _ = table(5, 1)
    with pytest.raises(ValueError, match="`baseline`='median' must be 'mean', 'training' or rows"):
        classes.explain(X, baseline="median")
    with pytest.raises(ValueError, match="lacks 1 column"):
        real.explain(X, baseline=X.drop(columns="age"))
    with pytest.raises(ValueError, match="`X` has 0 samples"):
        real.explain(X, baseline=X[:0])


def test_frames_have_names_values_and_outputs(classes, real):
    X, _ = table(5, 1)
    frame = classes.explain(X).frame()
    assert frame.columns.tolist() == ["output", "base", "sex", "age", "town", "none", "answer"]
    assert real.explain(X).frame().columns[0] == "base"
    both = classes.explain(X, output="all").frame("polars")
    assert isinstance(both, pl.DataFrame)
    follows = clone(real).set_output(transform="polars").fit(*table(60, 0))
    assert isinstance(follows.explain(X).frame(), pl.DataFrame)
    assert isinstance(follows.why_near(X[:1], X).frame(), pl.DataFrame)
    assert isinstance(follows.explain(X).frame("pandas"), pd.DataFrame)
    assert both.shape == (10, 8)
    assert both["output"].to_list() == ["no", "yes"] * 5
    assert classes.explain(X).rows[0, 0] == X["sex"][0]


def test_levels_share_what_their_column_adds(classes):
    X, _ = table(8, 1)
    whole, levels = classes.explain(X), classes.explain(X, levels=True)
    np.testing.assert_allclose(classes.preparer_.by_column(levels.values), whole.values)
    shares = feature_shares(
        np.array([0.0, 0.5, 0.5]), np.array([[1.0, 1.0, 0.0]]), np.array([0, 1, 1])
    )
    np.testing.assert_allclose(shares, [[1, 0.5, 0.5]])


def test_neighbours_are_explained_by_their_votes():
    X, y = load_wine(return_X_y=True)
    model = EJOPClassifier("knn", scale="standard", function="kernel", random_state=0).fit(X, y)
    found = model.explain(X[:10], output="all")
    np.testing.assert_allclose(found.answer, model.predict_proba(X[:10]), atol=1e-8)
    assert found.error.max() < 1e-12
    with pytest.raises(ValueError, match="keeps its training rows under the metric alone"):
        model.explain(X[:2], baseline="training")


def test_several_targets_are_explained_each():
    X, y = table(200, 0)
    model = EGOPRegressor(random_state=0).fit(X, np.c_[y, -y])
    found = model.explain(X[:4])
    assert found.shape == (4, 2, 4)
    assert found.error.max() < 1e-6
    np.testing.assert_allclose(model.explain(X[:4], output=1).values, found.values[:, 1])


def test_an_explanation_is_an_array_where_one_is_wanted():
    found = Explanation(np.ones((2, 3)), np.zeros(2), np.full(2, 3.0), list("abc"))
    assert np.asarray(found).sum() == 6
    assert found[0].tolist() == [1, 1, 1]
    assert len(found) == 2
    assert found.error.tolist() == [0, 0]
    with pytest.raises(ValueError, match="of one output a row already"):
        found.of_output(0)
    with pytest.raises(ValueError, match="`library`='arrow' must be"):
        found.frame("arrow")


# any model --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, np.asarray])
def test_any_model_is_explained_by_asking_it(kind):
    X, y = load_wine(return_X_y=True, as_frame=True)
    forest = RandomForestClassifier(20, random_state=0).fit(X.to_numpy(), y)

    def asked(rows):
        return forest.predict_proba(np.asarray(rows))

    rows = kind(X[:7])
    found = explain(asked, rows, baseline=kind(X[100:103]), output="all")
    np.testing.assert_allclose(found.answer, asked(rows))
    np.testing.assert_allclose(found.base, np.tile(asked(X[100:103]).mean(0), (7, 1)))
    assert found.error.max() < 1e-12
    assert found.values.shape == (7, 3, 13)


def test_any_model_agrees_with_slow_shapley_values():
    X = RNG.normal(size=(6, 4))
    found = explain(lambda rows: pairs(rows)[:, 0], X[:3], baseline=X[5:])
    for row, values in zip(X[:3], found.values, strict=True):
        np.testing.assert_allclose(values, shapley(pairs, X[5], row), atol=1e-12)


def test_tables_with_text_go_to_the_model_as_they_are():
    X, y = table(120, 0)
    steps = make_pipeline(ColumnPreparer(), RandomForestClassifier(10, random_state=0))
    model = steps.fit(X, y > 1)
    found = explain(model, X[:4], baseline=X[50:55])
    assert found.names == list(X.columns)
    assert found.error.max() < 1e-12
    assert found.outputs == model.predict(X[:4]).tolist()
    with pytest.raises(ValueError, match="pass rows of the same columns"):
        explain(model, X[:4], baseline=X[["age"]])
    with pytest.raises(TypeError, match="neither predicts nor can be called"):
        explain(3, X)


def test_own_predictors_explain_themselves(real):
    X, _ = table(5, 1)
    np.testing.assert_allclose(explain(real, X).values, real.explain(X, n_orders=2).values)


# importances ------------------------------------------------------------------------------------


def test_error_bars_hold_what_other_draws_give():
    """Half and half: the spread over draws is that of the error bars."""

    def draw(seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(200, 3))
        y = X[:, 0] + X[:, 1] + rng.normal(size=200)
        return EGOPRegressor(RidgeRule(2), random_state=0).fit(X, y).importances()

    found = [draw(seed) for seed in range(12)]
    shares = np.array([one.values for one in found])
    spread = shares[:, :2].std(0, ddof=1).mean()
    told = np.array([one.stderr[:2] for one in found]).mean()
    assert 0.6 < told / spread < 1.8
    inside = [(low <= 0.5) & (high >= 0.5) for one in found for low, high in one.interval()[:2]]
    assert np.mean(inside) > 0.7


def test_importances_are_a_table_with_ranks(real):
    found = real.importances(n_groups=5)
    np.testing.assert_allclose(found.values, real.feature_importances_)
    assert found.values.sum() == pytest.approx(1)
    assert found.refits.shape == (5, 4)
    frame = found.frame()
    assert frame["column"].tolist()[:2] in (["sex", "age"], ["age", "sex"])
    assert frame["rank"].tolist() == [1, 2, 3, 4]
    assert ((frame["low"] <= frame["importance"]) & (frame["importance"] <= frame["high"])).all()
    assert frame["sure"].between(0, 1).all()
    assert frame["column"].iloc[-1] == "none"
    np.testing.assert_array_equal(importances(real, 5).values, found.values)


def test_ranks_are_as_sure_as_other_draws_say():
    """Two columns that matter alike: refits keep their order, other samples do not."""
    sure = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(120, 3))
        model = EGOPRegressor(RidgeRule(2, n_rounds=0), random_state=0)
        found = model.fit(X, 3 * X[:, 0] + X[:, 1] + X[:, 2] + rng.normal(size=120)).importances()
        assert found.sureness()[0] > 0.99
        sure.append(found.sureness()[1:].mean())
    assert 0.5 <= np.mean(sure) < 0.85


def test_p_values_tell_columns_that_carry_nothing(real, classes):
    for model in (real, classes):
        frame = model.importances(n_permutations=19).frame().set_index("column")
        assert (frame.loc[["sex", "age", "town"], "p_value"] == 0.05).all()
        assert frame.loc["none", "p_value"] > 0.05
    assert "p_value" not in real.importances().frame()


def test_columns_that_are_not_used_have_no_evidence():
    X, y = table(60, 0)
    with pytest.warns(UserWarning, match="left out 1 column: 'none'"):
        found = EGOPRegressor(random_state=0).fit(X.assign(none=1.0), y)
    assert found.importances(n_permutations=3).p_values[3] == 1


def test_directions_have_errors_that_other_draws_confirm():
    def draw(seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(100, 3))
        y = 2 * (X[:, 0] + X[:, 1]) + X[:, 2] ** 2 + rng.normal(size=100)
        return EGOPRegressor(RidgeRule(3), random_state=0).fit(X, y).directions()

    found = [draw(seed) for seed in range(10)]
    told = np.mean([one.stderr[0] for one in found])
    assert 0.5 < told / np.std([one.shares[0] for one in found], ddof=1) < 2
    truth = np.array([1, 1, 0]) / np.sqrt(2)
    turned = [np.degrees(np.arccos(min(1, abs(one.vectors[:, 0] @ truth)))) for one in found]
    assert 0.4 < np.mean([one.angles[0] for one in found]) / np.mean(turned) < 2.5
    frame = found[0].frame()
    assert frame["share"].sum() == pytest.approx(1)
    assert ((frame["low"] <= frame["share"]) & (frame["share"] <= frame["high"])).all()
    assert frame["columns"][0].startswith(("x0 +0.", "x1 +0."))


def test_interactions_are_those_of_the_display_with_errors(classes):
    pytest.importorskip("matplotlib")
    found = classes.interactions(n_groups=4)
    assert found.names == ["sex", "age", "town", "none"]
    drawn = PairDisplay.from_estimator(classes, errors=True)
    plain = found.frame().set_index(["first", "second"])["strength"]
    for first, second, strength, error in drawn.frame().itertuples(index=False):
        pair = (first, second) if (first, second) in plain.index else (second, first)
        assert plain[pair] == pytest.approx(strength)
        assert error >= 0
    np.testing.assert_allclose(found.stderr, found.stderr.T, atol=1e-12)
    assert found.stderr[np.triu_indices(4, 1)].max() > 0
    low, high = found.interval().transpose(2, 0, 1)
    assert ((low <= found.values) & (found.values <= high)).all()


def test_near_row_rules_have_no_errors_of_directions():
    X, y = table(60, 0)
    model = EJOPClassifier("knn", function="kernel", random_state=0).fit(X, y > 1)
    for ask in (model.directions, model.interactions):
        with pytest.raises(ValueError, match="rule='knn' has no machines"):
            ask()


def test_a_refit_to_all_rows_is_the_fit(real):
    function = real.rule_.function_
    again = real.rule_.refitted(np.arange(len(function.X_)))
    np.testing.assert_allclose(
        again.model_values(function.X_[:20]),
        function.model_values(function.X_[:20]),
        rtol=0.02,
        atol=0.05,
    )


def test_importances_need_a_predictor_that_can_be_refitted(real):
    X, y = load_wine(return_X_y=True)
    with pytest.raises(TypeError, match="RandomForestClassifier cannot be fitted again"):
        importances(RandomForestClassifier(2).fit(X, y))
    with pytest.raises(ValueError, match="`n_groups`=1 must lie between 2 and 150"):
        real.importances(n_groups=1)
    with pytest.raises(ValueError, match="`coverage` must lie between 0 and 1"):
        real.importances(2).interval(2)


# distances --------------------------------------------------------------------------------------


def test_squared_distances_split_by_columns(real):
    X, _ = table(6, 1)
    found = real.why_near(X[:3], X[3:])
    Z = real.transform(X)
    np.testing.assert_allclose(found.answer, ((Z[:3] - Z[3:]) ** 2).sum(1))
    assert found.error.max() < 1e-10
    assert found.names == ["sex", "age", "town", "none"]
    assert len(real.why_near(X[:1], X[3:])) == 3
    with pytest.raises(ValueError, match="`x` has 2 rows and `z` 3"):
        real.why_near(X[:2], X[3:])


# functions of one's own -------------------------------------------------------------------------


def test_a_callable_is_a_function():
    X = RNG.normal(size=(80, 3))
    found = EGOP(lambda rows: rows[:, 0] ** 2 + rows[:, 1], random_state=0).fit(X, X[:, 0])
    assert found.feature_importances_[2] == 0
    assert f"{6 * 80:,} predictions in all" in str(found.plan_)
    with pytest.raises(ValueError, match="predicts 1 outputs and the targets have 2"):
        EJOP(lambda rows: rows[:, 0]).fit(X, X[:, 0] > 0)


def test_deleted_groups_give_the_error_of_a_mean():
    values = RNG.normal(size=(4000, 2)) * [1, 5]
    _, error = deleted_groups(lambda rows: rows, lambda rows: values[rows].mean(0), 4000, 40, RNG)
    np.testing.assert_allclose(error, values.std(0) / np.sqrt(4000), rtol=0.35)  # of 1,500 rows
    few = values[:400]
    refits, error = deleted_groups(lambda rows: rows, lambda rows: few[rows].mean(0), 400, 400, RNG)
    np.testing.assert_allclose(error, few.std(0, ddof=1) / 20)  # each row alone: exact
    assert refits.shape == (400, 2)
