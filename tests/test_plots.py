"""Displays: the tables behind the pictures, their words, and what is refused."""

import subprocess
import sys
import warnings

import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from ejop import EGOP, EJOP, EGOPRegressor, EJOPClassifier
from ejop.executors.expectation import jacobian
from ejop.explanation import Explanation
from ejop.plots import (
    AnswerDisplay,
    ContributionDisplay,
    ConvergenceDisplay,
    EffectDisplay,
    ImportanceDisplay,
    MetricDisplay,
    NeighborsDisplay,
    PairDisplay,
    ProjectionDisplay,
    SpectrumDisplay,
)
from ejop.plots.fitted import fitted
from ejop.plots.shares import shares_of
from ejop.plots.values import read_values, value_text

QUICK = {"rule": "knn", "function": "kernel", "random_state": 0, "validation": 0.5}


@pytest.fixture(autouse=True)
def never_shown(monkeypatch):
    """No display opens a window, and no setting of matplotlib is changed."""
    monkeypatch.setattr(plt, "show", lambda *a, **k: pytest.fail("plt.show was called"))
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True, as_frame=True)
    return X, y.map({0: "barolo", 1: "grignolino", 2: "barbera"}).to_numpy()


@pytest.fixture(scope="module")
def classifier(wine):
    return EJOPClassifier(**QUICK).fit(*wine)


@pytest.fixture(scope="module")
def metric(wine):
    return EJOP().fit(StandardScaler().fit_transform(wine[0]), wine[1])


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    return X, np.sin(2 * X[:, 0]) + 0.2 * X[:, 1]


@pytest.fixture(scope="module")
def wide():
    """1000 features, 26 classes."""
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    X, y = rng.normal(size=(104, 1000)), letters[np.arange(104) % 26]
    return X, y, EJOP(bandwidth=20.0, n_queries=20, random_state=0).fit(X, y)


def drawn(display):
    """The whole picture has been laid out and rendered, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        display.figure_.canvas.draw()
    return display


# spectrum -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [EJOPClassifier, EGOPRegressor])
def test_every_display_draws_the_default_predictor(wine, kind):
    X, names = wine
    y = names if kind is EJOPClassifier else X["alcohol"].to_numpy()
    model = kind(random_state=0).fit(X, y)
    spectrum = drawn(SpectrumDisplay.from_estimator(model))
    np.testing.assert_array_equal(
        spectrum.frame()["eigenvalue"], model.metric_estimator_.eigenvalues_
    )
    shares = drawn(ImportanceDisplay.from_estimator(model)).frame()
    assert shares["feature"].iloc[0] == X.columns[model.feature_importances_.argmax()]
    drawn(MetricDisplay.from_estimator(model))
    near = drawn(NeighborsDisplay.from_estimator(model, X, y)).frame()
    assert np.isfinite(near["distance"]).all()
    drawn(ProjectionDisplay.from_estimator(model, X, y))


def test_spectrum_shows_eigenvalues_energy_and_gap(metric):
    display = drawn(SpectrumDisplay.from_estimator(metric))
    frame = display.frame()
    np.testing.assert_array_equal(frame["eigenvalue"], metric.eigenvalues_)
    assert frame["cumulative"].iloc[-1] == pytest.approx(1)
    assert frame["stderr"].notna().all()
    assert display.ax_.get_title() == "Spectrum of EJOP"
    assert display.ax_.get_yscale() == "log"
    assert display.energy_ax_.get_ylim() == (0, 105)
    words = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert f"largest gap: after {display.gap}" in words
    assert "± standard error" in words


def test_spectrum_errors_agree_with_the_rows_own_spread(metric):
    """lambda_i is a mean over rows of sum_c (J_c v_i)^2, whose standard error is known exactly."""
    rows = metric.function_.X_
    J, _ = jacobian(metric.function_, rows, metric._step, np.arange(len(rows)), apply_softmax=True)
    share = ((J @ metric.eigenvectors_) ** 2).sum(1)
    exact = share.std(0, ddof=1) / np.sqrt(len(rows))
    ours = SpectrumDisplay.from_estimator(metric).stderr
    ratio = ours / exact
    assert ratio.max() < 4
    assert ratio.min() > 1 / 4
    assert 1 / 1.5 < ratio[0] < 1.5


def test_spectrum_of_a_diagonal_matrix_has_the_errors_of_its_entries(regression):
    est = EGOP(diagonal=True).fit(*regression)
    order = np.argsort(-np.diag(est.outer_product_))
    np.testing.assert_allclose(
        SpectrumDisplay.from_estimator(est).stderr, np.diag(est.outer_product_stderr_)[order]
    )


def test_spectrum_without_errors_draws_no_band(wine):
    nca = NeighborhoodComponentsAnalysis(max_iter=3, random_state=0)
    X = StandardScaler().fit_transform(wine[0])
    display = SpectrumDisplay.from_estimator(nca.fit(X, wine[1]))
    assert display.stderr is None
    assert display.frame()["stderr"].isna().all()
    assert not display.ax_.collections


def test_spectrum_of_one_feature_and_of_a_flat_metric():
    X = np.linspace(0, 1, 40)[:, None]
    display = drawn(SpectrumDisplay.from_estimator(EJOP().fit(X, X[:, 0] > 0.5)))
    assert len(display.frame()) == 1
    flat = drawn(SpectrumDisplay([0.0, 0.0]).plot())
    assert flat.frame()["share"].tolist() == [0.0]


def test_spectrum_refuses_shapes_that_do_not_match():
    with pytest.raises(ValueError, match="one error per eigenvalue"):
        SpectrumDisplay([1.0, 2.0], stderr=[0.1])
    with pytest.raises(ValueError, match=r"\(n_features,\) is expected"):
        SpectrumDisplay([[1.0]])


# importances --------------------------------------------------------------------------------


def test_importances_are_named_sorted_and_divide_among_classes(classifier):
    display = drawn(ImportanceDisplay.from_estimator(classifier, top=5))
    frame = display.frame()
    assert len(frame) == 5
    assert frame["importance"].is_monotonic_decreasing
    assert set(frame["feature"]) <= set(classifier.feature_names_in_)
    by_class = frame[[f"importance for {c}" for c in ("barbera", "barolo", "grignolino")]]
    np.testing.assert_allclose(by_class.sum(axis=1), frame["importance"])
    assert display.ax_.get_title() == "Importance, 5 of 13 features"
    assert display.ax_.get_xlabel() == "share of all change of the answer, %"


@pytest.mark.filterwarnings("ignore:the standard deviations of the columns")
@pytest.mark.parametrize("model", [EJOP(), EJOPClassifier(scale="none", **QUICK)], ids=str)
def test_importances_are_those_of_the_model(wine, model):
    """The columns are not scaled: the diagonal alone would be in their units."""
    model.fit(*wine)
    source = fitted(model)
    frame = ImportanceDisplay.from_estimator(model, top=13).frame()
    ours = np.sort(model.feature_importances_)[::-1]
    np.testing.assert_array_equal(frame["importance"], ours)
    found = shares_of(source)
    assert not np.allclose(found.values, np.diag(source.matrix) / np.trace(source.matrix))
    np.testing.assert_allclose(found.by_output.sum(0), found.values)


def test_errors_of_importances_do_not_depend_on_units():
    """The same f of a column in other units: the same shares, with the same errors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = X @ [1.0, 2.0, 0.5] + X[:, 0] * X[:, 1]
    units = np.array([1.0, 8.0, 0.5])
    model = make_pipeline(PolynomialFeatures(), LinearRegression())
    first, second = (
        ImportanceDisplay.from_estimator(EGOP(model).fit(X * by, y), top=3).frame()
        for by in (np.ones(3), units)
    )
    assert first["feature"].tolist() == second["feature"].tolist()
    for column in ("importance", "stderr"):
        np.testing.assert_allclose(first[column], second[column], rtol=1e-6)
    assert (first["stderr"] > 0).all()


def test_importances_by_class(classifier, wide):
    display = drawn(ImportanceDisplay.from_estimator(classifier, by_class=True))
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == [
        "barbera",
        "barolo",
        "grignolino",
    ]
    display = drawn(ImportanceDisplay.from_estimator(wide[2], by_class=True))
    assert len(display.ax_.get_xticklabels()) == 26
    assert len(display.ax_.get_yticklabels()) == 20


def test_importances_by_class_need_classes(regression):
    with pytest.raises(ValueError, match="needs `class_importances`"):
        ImportanceDisplay.from_estimator(EGOP().fit(*regression), by_class=True)


def test_importances_of_several_outputs(regression):
    X, y = regression
    est = EGOP().fit(X, np.c_[y, X[:, 2]])
    display = drawn(ImportanceDisplay.from_estimator(est, by_class=True))
    assert display.ax_.get_xlabel() == "output"


def test_a_share_that_cannot_vary_has_no_error():
    X = np.linspace(0, 1, 40)[:, None]
    display = ImportanceDisplay.from_estimator(EJOP().fit(X, X[:, 0] > 0.5))
    assert display.frame()["stderr"].tolist() == [0.0]


def test_long_and_odd_names_are_shortened_and_never_formulas():
    names = ["_hidden", "cost in $ and again $", "x" * 200]
    display = drawn(ImportanceDisplay([0.5, 0.3, 0.2], names).plot())
    labels = [t.get_text() for t in display.ax_.get_yticklabels()]
    assert max(map(len, labels)) < 30
    assert display.frame()["feature"].tolist() == names


def test_wrong_number_of_names(classifier):
    with pytest.raises(ValueError, match="has 2 names and EJOPClassifier 13 features"):
        ImportanceDisplay.from_estimator(classifier, feature_names=["a", "b"])


# projection ---------------------------------------------------------------------------------


def test_projection_is_the_transform(classifier, wine):
    X, y = wine
    display = drawn(ProjectionDisplay.from_estimator(classifier, X, y))
    frame = display.frame()
    np.testing.assert_allclose(frame[["after_1", "after_2"]], classifier.transform(X)[:, :2])
    assert frame["y"].tolist() == y.tolist()
    assert display.ax_.shape == (1, 2)
    titles = [ax.get_title() for ax in display.ax_.flat]
    assert titles == ["Before: principal components", "After: leading directions"]
    spread = frame[["before_1", "before_2"]].var()
    assert spread["before_1"] > spread["before_2"]


def test_projection_of_many_classes_names_them_all(wide):
    X, y, est = wide
    display = drawn(ProjectionDisplay.from_estimator(est, X, y, before=False))
    texts = display.ax_.get_legend().get_texts()
    assert [t.get_text() for t in texts] == list("abcdefghijklmnopqrstuvwxyz")


def test_projection_on_one_direction(regression):
    X, y = regression
    labels = np.where(y > 0, "up", "down")
    display = drawn(
        ProjectionDisplay.from_estimator(EJOP(n_components=1).fit(X, labels), X, labels)
    )
    assert "after_2" not in display.frame()
    assert display.ax_.flat[1].get_ylabel() == "class"
    display = drawn(ProjectionDisplay.from_estimator(EGOP(n_components=1).fit(X, y), X, y))
    assert display.ax_.flat[1].get_ylabel() == "y"
    drawn(ProjectionDisplay(X[:, :1]).plot())


def test_projection_of_real_targets_has_a_scale(regression):
    X, y = regression
    model = EGOPRegressor(**QUICK).fit(X, y)
    display = drawn(ProjectionDisplay.from_estimator(model, X, y))
    assert display.real
    assert display.ax_.flat[0].get_legend() is None


def test_projection_draws_some_of_many_rows(regression):
    X, y = regression
    est = EGOP().fit(X, y)
    frame = ProjectionDisplay.from_estimator(est, X, y, max_points=40).frame()
    assert len(frame) == 40
    np.testing.assert_array_equal(frame["y"], y[frame["row"]])


def test_projection_refuses_several_outputs(regression):
    X, y = regression
    with pytest.raises(ValueError, match="of several outputs pass one"):
        ProjectionDisplay.from_estimator(EGOP().fit(X, y), X, np.c_[y, y])


# metric -------------------------------------------------------------------------------------


def test_metric_is_the_matrix_with_names(classifier):
    display = drawn(MetricDisplay.from_estimator(classifier))
    frame = display.frame()
    np.testing.assert_array_equal(frame, classifier.metric_estimator_.outer_product_)
    assert frame.columns.tolist() == classifier.feature_names_in_.tolist()
    assert display.ax_.get_title() == "Metric of 13 features"


def test_metric_of_many_features_shows_the_largest_and_labels_some(wide):
    est = wide[2]
    display = drawn(MetricDisplay.from_estimator(est))
    assert display.frame().shape == (100, 100)
    shown = np.diag(est.outer_product_)[display.shown]
    assert shown.min() >= np.delete(np.diag(est.outer_product_), display.shown).max()
    assert len(display.ax_.get_xticklabels()) <= 30
    assert display.ax_.get_title() == "Metric of 100 of 1000 features"


def test_metric_as_images(regression):
    est = EGOP().fit(*regression)
    display = drawn(MetricDisplay.from_estimator(est, image_shape=(2, 2), n_directions=3))
    frame = display.frame()
    np.testing.assert_array_equal(frame["diagonal"], np.diag(est.outer_product_))
    np.testing.assert_allclose(frame["direction 1"], est.eigenvectors_[:, 0])
    assert display.ax_.flat[0].get_title() == "diagonal"
    with pytest.raises(ValueError, match="does not hold 4 pixels"):
        MetricDisplay.from_estimator(est, image_shape=(3, 3))


# neighbours ---------------------------------------------------------------------------------


def test_neighbours_are_those_of_the_classifier(classifier, wine):
    X, y = wine
    display = drawn(NeighborsDisplay.from_estimator(classifier, X, y, query=3, n_neighbors=4))
    after = display.frame().query("metric == 'after'")
    distances, rows = classifier.kneighbors(X.iloc[[3]], 5)
    assert after["row"].tolist() == rows[0, 1:].tolist()  # the first is the row itself
    np.testing.assert_allclose(after["distance"], distances[0, 1:])
    assert after["y"].tolist() == y[after["row"]].tolist()
    assert "of 4 agree" in display.ax_.flat[1].get_title()


def test_neighbours_of_a_new_row_and_without_classes(classifier, wine):
    X, y = wine
    new = NeighborsDisplay.from_estimator(classifier, X[1:], y[1:], query=X.iloc[[0]])
    old = NeighborsDisplay.from_estimator(classifier, X, y, query=0)
    assert (new.frame()["row"] + 1).tolist() == old.frame()["row"].tolist()
    assert drawn(new).ax_.flat[0].get_title() == "Before: plain distance"


def test_neighbours_as_images_and_of_real_targets(regression):
    X, y = regression
    est = EGOP().fit(X, y)
    display = drawn(NeighborsDisplay.from_estimator(est, X, y, image_shape=(2, 2), n_neighbors=3))
    assert display.ax_.shape == (2, 4)
    display = drawn(NeighborsDisplay.from_estimator(est, X, y, query=X[0]))
    assert "mean" in display.ax_.flat[0].get_title()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query": 1000}, "is not a row of X"),
        ({"n_neighbors": 178}, "between 1 and the number of other rows, 177"),
        ({"image_shape": (8, 8)}, "does not hold 13 pixels"),
    ],
)
def test_neighbours_refuse(classifier, wine, options, message):
    with pytest.raises(ValueError, match=message):
        NeighborsDisplay.from_estimator(classifier, *wine, **options)


# convergence --------------------------------------------------------------------------------


class Learner:
    """Stand-in for a fitted learner."""

    def __init__(self, init, objective):
        self.init, self.objective_ = init, np.array(objective)


def test_convergence_of_two_starts():
    learners = [Learner("identity", [3.0, 2.0, 1.0]), Learner("ejop", [1.5, 0.9])]
    display = drawn(ConvergenceDisplay.from_estimator(learners, log=True))
    frame = display.frame()
    names = ["Learner, start: identity", "Learner, start: ejop"]
    assert frame["learner"].unique().tolist() == names
    assert frame.groupby("learner")["iteration"].max().loc[names].tolist() == [3, 2]
    assert display.ax_.get_yscale() == "log"
    named = ConvergenceDisplay.from_estimator(dict(zip("ab", learners, strict=True)))
    assert named.frame()["learner"].unique().tolist() == ["a", "b"]
    twins = ConvergenceDisplay.from_estimator([learners[0], learners[0]])
    assert len(twins.objectives) == 2


def test_convergence_needs_an_objective(classifier):
    with pytest.raises(TypeError, match="keeps no objective"):
        ConvergenceDisplay.from_estimator(classifier)
    with pytest.raises(ValueError, match="is empty"):
        ConvergenceDisplay({})


# explanations -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def people():
    """Text, gaps, dates and numbers written as text, and what they decide."""
    rng = np.random.default_rng(0)
    n = 200
    X = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "age": rng.normal(40, 10, n),
            "town": rng.choice(["a", "b", None], n),
            "fare": [f"{x:.2f}".replace(".", ",") for x in rng.lognormal(3, 0.5, n)],
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 99, n), unit="D"),
        }
    )
    X.loc[::9, "age"] = np.nan
    return X, (X["sex"] == "m") * 2.0 + (X["age"].fillna(40) - 40) / 10


@pytest.fixture(scope="module")
def real(people):
    return EGOPRegressor(random_state=0).fit(*people)


@pytest.fixture(scope="module")
def machines(wine):
    return EJOPClassifier(random_state=0).fit(*wine)


@pytest.mark.parametrize("top", [1, 2, 3, 10])
def test_bars_lead_from_base_to_answer(real, people, top):
    X, _ = people
    display = drawn(AnswerDisplay.from_estimator(real, X, 7, top=top))
    frame, found = display.frame(), real.explain(X.iloc[[7]])
    assert display.base == pytest.approx(found.base[0])
    assert display.answer == pytest.approx(real.predict(X.iloc[[7]])[0])
    assert display.base + frame["contribution"].sum() == pytest.approx(display.answer)
    assert frame["start"].iloc[0] == display.base
    assert frame["start"].tolist()[1:] == frame["end"].tolist()[:-1]
    own = frame[~frame["column"].str.endswith("others")]
    assert own["contribution"].abs().is_monotonic_decreasing
    for name, value, share in own[["column", "value", "contribution"]].itertuples(index=False):
        assert share == pytest.approx(found[0, found.names.index(name)], abs=1e-9)
        assert value == value_text(X[name][7])
    assert (len(own) == len(frame)) == (top >= 4)  # one other has a bar of its own


def test_answers_of_classes_arrays_and_pipelines(machines, wine):
    X, y = wine
    display = drawn(AnswerDisplay.from_estimator(machines, X, -1))
    assert display.outcome == f"probability of class {machines.predict(X.iloc[[-1]])[0]}"
    other = AnswerDisplay.from_estimator(machines, X, -1, output="barolo")
    assert other.outcome == "probability of class barolo"
    assert other.answer == pytest.approx(machines.predict_proba(X.iloc[[-1]])[0, 1])
    pipe = make_pipeline(StandardScaler(), EGOPRegressor(random_state=0))
    pipe.fit(X.to_numpy()[:60, :3], X["hue"].to_numpy()[:60])
    frame = drawn(AnswerDisplay.from_estimator(pipe, X.to_numpy()[:, :3], 4)).frame()
    assert set(frame["column"]) == {"x0", "x1", "x2"}
    named = AnswerDisplay.from_estimator(pipe, X.to_numpy()[:, :3], feature_names=list("abc"))
    assert set(named.frame()["column"]) == set("abc")
    near = EJOPClassifier(**QUICK).fit(X, y)  # the nearest rows explain as well
    drawn(AnswerDisplay.from_estimator(near, X, 3))


def test_contributions_are_those_of_the_explanation(real, people):
    X, _ = people
    display = drawn(ContributionDisplay.from_estimator(real, X, top=3, max_points=50))
    frame, found = display.frame(), real.explain(X)
    assert len(frame) == 150
    for name, part in frame.groupby("column"):
        values = found[part["row"].to_numpy(), found.names.index(name)]
        np.testing.assert_allclose(part["contribution"], values, atol=1e-9)
    sizes = frame.groupby("column")["contribution"].apply(lambda c: c.abs().mean())
    assert frame["column"].unique().tolist() == sizes.sort_values()[::-1].index.tolist()
    whole = drawn(ContributionDisplay.from_explanation(found))
    np.testing.assert_allclose(np.sort(whole.sizes), np.sort(np.abs(found.values).mean(0)))


def test_two_classes_are_explained_for_the_second(people):
    X, z = people
    model = EJOPClassifier(random_state=0).fit(X, np.where(z > 1, "yes", "no"))
    display = ContributionDisplay.from_estimator(model, X[:20])
    np.testing.assert_allclose(
        display.explanation.values, model.explain(X[:20], output="yes").values
    )
    assert display.ax_.get_xlabel() == "contribution to the probability of class yes"


def test_points_of_a_line_stand_apart_and_keep_their_colour(machines, wine):
    display = drawn(ContributionDisplay.from_estimator(machines, wine[0]))
    for place in range(3):
        x, y = display.line(place)
        assert len(set(zip(x, y, strict=True))) == len(x)
        assert np.abs(y - place).max() < 0.5
    reading = display.readings[display.order[0]]
    shade = reading.low_to_high()
    assert shade[reading.numbers.argmin()] == 0
    assert shade[reading.numbers.argmax()] == 1


def test_the_effect_of_a_column_and_its_derivative(real, people):
    X, _ = people
    display = drawn(EffectDisplay.from_estimator(real, X, "age"))
    frame = display.frame()
    assert frame["value"].isna().sum() == X["age"].isna().sum() == frame["slope"].isna().sum()
    # the answer rises by one with ten years
    middle = frame[(frame["value"] - 40).abs() < 8]
    assert middle["slope"].median() == pytest.approx(0.1, rel=0.25)
    found = real.explain(X)
    np.testing.assert_allclose(frame["contribution"], found[:, found.names.index("age")])
    lines = len(display.ax_.get_lines())
    assert lines == 1 + 50  # zero, and some of the derivatives


def test_derivatives_are_in_the_columns_own_units():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2)) * [1000.0, 1.0]
    model = EGOPRegressor(scale="standard", random_state=0).fit(X, X[:, 0] * 0.003 + X[:, 1])
    for table in (X, pd.DataFrame(X, columns=["x0", "x1"]), pl.DataFrame(X, schema=["x0", "x1"])):
        model = model.fit(table, X[:, 0] * 0.003 + X[:, 1])
        slopes = EffectDisplay.from_estimator(model, table, "x0").frame()["slope"]
        assert slopes.median() == pytest.approx(0.003, rel=0.05)
        rise = model.metric_estimator_.jacobian(model.scale_rows(table))[:, 0, 0] / X[:, 0].std()
        near = np.abs(X[:, 0]) < 1000
        np.testing.assert_allclose(slopes[near], rise[near], rtol=0.1, atol=2e-4)


@pytest.mark.parametrize("column", ["sex", "town", "fare", "seen"])
def test_effects_of_text_gaps_dates_and_written_numbers(real, people, column):
    X, _ = people
    display = drawn(EffectDisplay.from_estimator(real, X, column))
    kinds = {"sex": "level", "town": "level", "fare": "number", "seen": "date"}
    assert display.reading.kind == kinds[column]
    assert display.frame()["slope"].isna().all()
    if column == "town":
        names = [t.get_text() for t in display.ax_.get_yticklabels()]
        assert sorted(names) == sorted(
            f"{name} ({n})" for name, n in X["town"].fillna("missing").value_counts().items()
        )
    if column == "fare":
        assert display.reading.numbers[0] == float(X["fare"][0].replace(",", "."))


def test_explanations_are_drawn_on_given_axes(real, people):
    X, _ = people
    figure, axes = plt.subplots(2, 3)
    for ax, column in zip(axes[0], ["sex", "age", "seen"], strict=True):
        assert drawn(EffectDisplay.from_estimator(real, X, column, ax=ax)).ax_ is ax
    assert drawn(AnswerDisplay.from_estimator(real, X, ax=axes[1, 0])).figure_ is figure
    assert drawn(ContributionDisplay.from_estimator(real, X, ax=axes[1, 1])).figure_ is figure
    assert drawn(PairDisplay.from_estimator(real, ax=axes[1, 2])).figure_ is figure


def test_answers_of_near_rows_have_no_derivative(wine):
    model = EJOPClassifier(**QUICK).fit(*wine)
    display = EffectDisplay.from_estimator(model, wine[0], "hue", output="barolo")
    assert display.slopes is None


def test_pairs_are_cosines_of_derivatives(metric, wine):
    frame = drawn(PairDisplay.from_estimator(metric, feature_names=list(wine[0]))).frame()
    assert frame["strength"].is_monotonic_decreasing
    assert len(frame) == 12 * 11 / 2
    J = metric.jacobian(metric.function_.X_).reshape(-1, 13)
    M, names = metric.outer_product_, list(wine[0])
    assert J.shape[1] == len(M)
    for first, second, strength in frame.itertuples(index=False):
        i, j = names.index(first), names.index(second)
        assert strength == pytest.approx(abs(M[i, j]) / np.sqrt(M[i, i] * M[j, j]))


def test_pairs_of_columns_of_several_features_are_one_for_a_line():
    """f depends on one direction alone: every pair is as strong as the columns' own."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200)})
    X["level"] = rng.choice(["x", "y", "z"], 200)
    model = EGOPRegressor(random_state=0).fit(X, X["a"] + X["b"])
    frame = drawn(PairDisplay.from_estimator(model)).frame()
    assert len(frame) == 3
    assert frame.iloc[0][["first", "second"]].tolist() in (["a", "b"], ["b", "a"])
    assert frame["strength"].iloc[0] > 0.95
    assert frame["strength"].between(0, 1).all()


def flat(n=1, names=("a",), value=0.0, base=-5.0):
    values = np.full((n, len(names)), value)
    return Explanation(values, np.full(n, base), base + values.sum(1), list(names))


@pytest.mark.parametrize(
    "names", [["a"], ["$x_1$", "_b", "c" * 200], [f"x{i}" for i in range(500)]]
)
@pytest.mark.parametrize("value", [0.0, 1e-9, -3.0])
def test_flat_tiny_negative_one_and_many(names, value):
    found = flat(3, names, value)
    drawn(AnswerDisplay.from_explanation(found, 2))
    drawn(ContributionDisplay.from_explanation(found))


def test_values_are_read_as_people_have_them():
    assert read_values([True, False], 2).kind == "level"
    assert read_values([None, pd.NaT, pd.Timestamp("1970-01-03")], 3).numbers[2] == 2
    assert read_values([pd.NA, 3, np.nan], 3).texts == ["missing", "3", "missing"]
    assert read_values(None, 2).kind == "none"
    assert value_text(1234567.0) == "1234567"
    assert value_text(pd.Timestamp("2020-02-03")) == "2020-02-03"


@pytest.mark.parametrize("display", [AnswerDisplay, ContributionDisplay])
def test_explanations_need_a_predictor(display, metric, wine):
    with pytest.raises(TypeError, match=r"EJOP has no `explain`.*pass a fitted EJOPClassifier"):
        display.from_estimator(metric, wine[0])
    with pytest.raises(TypeError, match="LinearRegression has no `explain`"):
        display.from_estimator(LinearRegression(), wine[0])
    with pytest.raises(NotFittedError):
        display.from_estimator(EJOPClassifier(), wine[0])


def test_mistakes_about_explanations_are_told(machines, real, people, wine):
    X, _ = people
    with pytest.raises(ValueError, match=r"`row`=500 is no row: there are 200"):
        AnswerDisplay.from_estimator(real, X, 500)
    with pytest.raises(ValueError, match="did you mean 'town'"):
        EffectDisplay.from_estimator(real, X, "twon")
    with pytest.raises(ValueError, match="`column`=9 is no column: there are 5"):
        EffectDisplay.from_estimator(real, X, 9)
    with pytest.raises(ValueError, match=r"has 3 classes .*name one: output='barbera'"):
        EffectDisplay.from_estimator(machines, wine[0], "hue")
    several = machines.explain(wine[0][:3], output="all")
    with pytest.raises(ValueError, match=r"of 3 outputs .*name it, for instance output='barbera'"):
        AnswerDisplay.from_explanation(several)
    one = AnswerDisplay.from_explanation(several, 1, output="barolo")
    assert one.answer == pytest.approx(several.answer[1, 1])
    with pytest.raises(ValueError, match="of one output a row already"):
        ContributionDisplay.from_explanation(real.explain(X[:3]), output=1)
    with pytest.raises(ValueError, match="has no values of the columns"):
        EffectDisplay.from_explanation(flat(), "a")
    with pytest.raises(ValueError, match="pairs need two columns"):
        PairDisplay([[1.0]], ["a"])


def test_several_targets_are_drawn_one_at_a_time(regression):
    X, y = regression
    model = EGOPRegressor(random_state=0).fit(X, np.c_[y, X[:, 2]])
    with pytest.raises(ValueError, match="of 2 outputs"):
        ContributionDisplay.from_estimator(model, X)
    frame = drawn(EffectDisplay.from_estimator(model, X, 2, output=1)).frame()
    assert frame["slope"].median() == pytest.approx(1, rel=0.2)
    labels = EJOPClassifier(random_state=0).fit(X, np.c_[y > 0, X[:, 2] > 0].astype(int))
    display = drawn(AnswerDisplay.from_estimator(labels, X, 3, output=1))
    assert display.outcome == "probability of label 1"
    assert (EffectDisplay.from_estimator(labels, X, 2, output=1).frame()["slope"] >= -0.1).all()


# all of them --------------------------------------------------------------------------------


@pytest.mark.parametrize("display", [SpectrumDisplay, ImportanceDisplay, MetricDisplay])
def test_a_pipeline_is_read_through_to_its_end(display, wine):
    X, y = wine
    pipe = make_pipeline(StandardScaler(), EJOP()).fit(X, y)
    frame = drawn(display.from_estimator(pipe)).frame()
    if display is not SpectrumDisplay:
        assert set(frame.iloc[:, 0] if display is ImportanceDisplay else frame.columns) == set(X)


@pytest.mark.parametrize("display", [SpectrumDisplay, ImportanceDisplay, MetricDisplay])
def test_wrong_estimators_are_refused(display, wine):
    with pytest.raises(TypeError, match="KNeighborsClassifier has no learned metric"):
        display.from_estimator(KNeighborsClassifier().fit(*wine))
    with pytest.raises(TypeError, match="str has no learned metric"):
        display.from_estimator("EJOP")
    with pytest.raises(NotFittedError):
        display.from_estimator(EJOP())


def test_drawing_on_given_axes(classifier, wine):
    figure, (left, right) = plt.subplots(1, 2)
    display = SpectrumDisplay.from_estimator(classifier, ax=left)
    assert display.ax_ is left
    assert display.figure_ is figure
    divided = drawn(ProjectionDisplay.from_estimator(classifier, *wine, ax=right))
    assert divided.figure_ is figure
    assert divided.ax_.shape == (1, 2)
    with pytest.raises(ValueError, match="holds 3 axes and 2 panels"):
        divided.plot(np.array([left, right, left]))
    assert len(plt.get_fignums()) == 1


def test_rounds_are_expressed_in_the_features_that_went_in(wine):
    """A metric learned in the space of an earlier one: chain rule, checked by derivatives."""
    X, y = wine
    model = EJOPClassifier(**QUICK).fit(X, y)
    model.before_ = np.random.default_rng(0).normal(size=(13, 13))
    source = fitted(model)
    M = model.metric_estimator_.outer_product_
    np.testing.assert_allclose(source.matrix, model.before_.T @ M @ model.before_)
    assert shares_of(source).by_output is None
    drawn(SpectrumDisplay.from_estimator(model))
    Z = model.metric_estimator_.function_.X_ @ np.linalg.inv(model.before_).T
    np.testing.assert_allclose(source.training().rows, Z, atol=1e-8)


def test_rows_without_weight_are_no_training_rows(wine):
    X, y = wine
    weights = {"barolo": 1.0, "grignolino": 1.0, "barbera": 0.0}
    model = EJOPClassifier(class_weight=weights, **QUICK).fit(X, y)
    training = fitted(model).training()
    assert len(training.rows) == len(training.targets) == len(training.numbers)
    assert "barbera" not in y[training.numbers]
    found = shares_of(fitted(model))
    table, names = found.by_output, found.outputs
    assert len(table) == len(names)


def test_importing_needs_no_matplotlib_and_drawing_says_how_to_get_it():
    code = (
        "import sys\n"
        "sys.modules['matplotlib'] = None\n"
        "from ejop.plots import SpectrumDisplay\n"
        "try:\n"
        "    SpectrumDisplay([2.0, 1.0]).plot()\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'ejop[plot]'" in done.stdout


def test_marks_stand_out_from_a_dark_background():
    from matplotlib import colors

    found = Explanation(np.array([[0.3, -0.1]]), np.array([0.5]), np.array([0.7]), ["a", "b"])
    with plt.style.context("dark_background"):
        ax = AnswerDisplay.from_explanation(found, row=0).ax_
        marks = [line for line in ax.lines if line.get_marker() == "D"]
        assert len(marks) == 2
        assert all(colors.to_rgb(mark.get_color()) == (1, 1, 1) for mark in marks)
