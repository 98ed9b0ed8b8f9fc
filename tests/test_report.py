"""The report: one file, no network, true figures, and nothing of the user's run as code."""

import os
import re
import subprocess
import sys
from html import escape, unescape
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.metrics import (
    balanced_accuracy_score,
    confusion_matrix,
    mean_absolute_error,
    precision_score,
    r2_score,
    recall_score,
    roc_auc_score,
)
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import ejop
from ejop import EGOP, EJOP, EGOPRegressor, EJOPClassifier
from ejop.plots.fitted import fitted
from ejop.reports import _evidence, make_report, write_report
from ejop.reports._cases import cases_of
from ejop.reports._directions import axes_of, directions, turned
from ejop.reports._evidence import Given, gather
from ejop.reports._groups import class_lines, confusion, odd_rows, rare_words, target_parts
from ejop.reports._pictures import Axis, fit_plot, importance_bars, projections
from ejop.reports._rivals import RivalScore, r2_with_interval, scores, share_with_interval
from ejop.reports._trust import calibration, calibration_words, coverage_words
from ejop.reports._verdict import headline, is_poor, sentences

QUICK = {"rule": "knn", "function": "kernel", "random_state": 0, "validation": 0.5}
HOSTILE = "</script><script>alert('x')</script>"


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True, as_frame=True)
    return train_test_split(X, y.to_numpy(), test_size=0.5, random_state=1, stratify=y)


@pytest.fixture(scope="module")
def classifier(wine):
    return EJOPClassifier(**QUICK).fit(wine[0], wine[2])


@pytest.fixture(scope="module")
def html(classifier, wine):
    methods = [
        {"name": "Euclid & co", "error": 0.05, "seconds": 0.01},
        {"name": "EJOP", "error": 0.02},
    ]
    return make_report(classifier, wine[1], wine[3], comparison=methods, title="Wine <1>")


@pytest.fixture(scope="module")
def people():
    """Two classes of rows with text, gaps and a column that is left out: a model, the rows it has
    learned from, and rows it has not."""
    rng = np.random.default_rng(0)
    n = 240
    X = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "age": rng.normal(40, 10, n),
            HOSTILE: rng.choice(["<b>x</b>", "<img src=x>", None], n),
            "name": [f"<i>{i}</i> {x}" for i, x in enumerate(rng.random(n))],
        },
        index=np.arange(n) + 1000,
    )
    X.loc[::7, "age"] = np.nan
    z = (X["sex"] == "m") * 2 - 1 + rng.logistic(size=n) / 2
    y = np.where(z > 0, "yes", "no")
    with pytest.warns(UserWarning, match="left out"):
        model = EJOPClassifier(random_state=0).fit(X[:120], y[:120])
    return SimpleNamespace(model=model, train=(X[:120], y[:120]), test=(X[120:], y[120:]))


@pytest.fixture(scope="module")
def found(people):
    """What the report on people rests on."""
    return gather(fitted(people.model), Given.of(*people.test), Given.of(*people.train))


@pytest.fixture(scope="module")
def people_html(people):
    return make_report(people.model, *people.test, training=people.train)


@pytest.fixture(scope="module")
def real():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 4))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=240)
    model = EGOPRegressor(random_state=0).fit(X[:160], y[:160])
    e = gather(fitted(model), Given.of(X[160:], y[160:]), Given.of(X[:160], y[:160]))
    return SimpleNamespace(model=model, X=X, y=y, e=e)


# the page -----------------------------------------------------------------------------------


def test_the_verdict_comes_first_and_settings_last(html):
    order = [
        "The model is right on",
        "Which columns matter",
        "Class by class",
        "Some rows in full",
        "Which directions matter",
        "Methods side by side",
        "Settings and versions",
    ]
    places = [html.index(words) for words in order]
    assert places == sorted(places)
    assert '<details id="settings">' in html
    assert "Wine &lt;1&gt;" in html
    assert "Euclid &amp; co" in html
    assert '<tr class="best"><td>EJOP</td><td class="number">2.00 %</td>' in html


def test_the_page_asks_nothing_of_the_network_and_is_small(html, people_html):
    for page in (html, people_html):
        assert len(page.encode()) < 500_000
        assert "default-src 'none'" in page
        assert not re.search(r"https?:|//[a-z]+\.", page)
        assert not re.search(r"<(link|img|iframe)\b|@import|url\(", page)
        parts = set(re.findall(r'(?:src|href)="([^"]*)"', page))
        assert all(part.startswith("#") for part in parts)
        for part in parts:
            assert f'id="{part[1:]}"' in page


def test_hostile_names_stay_text(people_html, wine):
    assert "alert('x')" not in people_html
    assert "<img" not in people_html
    assert people_html.count("</script>") == people_html.count("<script") == 1
    for mark in ("<b>x", "<i>1"):
        assert mark not in people_html
    y = np.where(wine[2] == 0, HOSTILE, "<b>plain</b>")
    names = [HOSTILE, "<img src=x onerror=alert(1)>", *map(str, range(11))]
    X = StandardScaler().fit_transform(wine[0])
    page = make_report(EJOP().fit(X, y), X, y, feature_names=names, title=HOSTILE)
    assert "<img" not in page
    assert "<b>plain" not in page
    assert page.count("</script>") == page.count("<script") == 1


# scores -------------------------------------------------------------------------------------


def test_scores_are_those_of_the_same_rows(found, people):
    X, y = people.test
    mine, rule, forest, near = scores(found)
    answers = people.model.predict(X)
    assert mine.value == pytest.approx(np.mean(answers == y))
    assert mine.second == pytest.approx(balanced_accuracy_score(y, answers))
    assert mine.auc == pytest.approx(roc_auc_score(y == "yes", people.model.predict_proba(X)[:, 1]))
    common = max(set(people.train[1]), key=list(people.train[1]).count)
    assert rule.name == f"always “{common}”"
    assert (rule.value, rule.auc) == (pytest.approx(np.mean(y == common)), 0.5)
    A, B = people.model.scale_rows(people.train[0]), people.model.scale_rows(X)
    trees = RandomForestClassifier(random_state=0).fit(A, people.train[1])
    assert forest.value == pytest.approx(trees.score(B, y))
    plain = KNeighborsClassifier(5).fit(A, people.train[1])
    assert near.value == pytest.approx(plain.score(B, y), abs=0.02)  # votes may tie
    for score in (mine, rule, forest, near):
        assert score.low <= score.value <= score.high


def test_rivals_learn_from_the_rows_that_the_model_keeps(people):
    given = gather(fitted(people.model), Given.of(*people.test), Given.of(*people.train))
    kept = gather(fitted(people.model), Given.of(*people.test))
    assert not kept.held_out
    assert kept.learned.n_all == given.learned.n_all == 120
    assert [s.value for s in scores(kept)] == [s.value for s in scores(given)]


def test_some_rows_stand_for_very_many(people, monkeypatch):
    monkeypatch.setattr(_evidence, "LEARNED", 60)
    html = make_report(people.model, *people.test, training=people.train)
    assert "all but this model learned from 60 of the 120 rows alone" in html


def test_intervals(rng):
    # Wilson's by hand: 8 of 10 at 95 %
    z = 1.959964
    middle, reach = (0.8 + z**2 / 20) / (1 + z**2 / 10), z * np.sqrt(0.016 + z**2 / 400)
    expected = [0.8, middle - reach / (1 + z**2 / 10), middle + reach / (1 + z**2 / 10)]
    np.testing.assert_allclose(share_with_interval(8, 10), expected, rtol=1e-5)
    assert np.isnan(share_with_interval(0, 0)).all()
    y = rng.normal(size=400)
    value, low, high = r2_with_interval(y, y + 0.5 * rng.normal(size=400))
    assert low < 0.75 < high  # 1 - 0.25
    assert 0.02 < high - low < 0.2
    assert value == pytest.approx((low + high) / 2, abs=0.03)
    assert np.isnan(r2_with_interval(np.ones(5), y[:5])).all()


def test_a_model_of_noise_is_told_to_be_no_better():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(150, 3)), rng.choice(["a", "a", "b"], 150)
    model = EJOPClassifier(random_state=0).fit(X[:100], y[:100])
    html = make_report(model, X[100:], y[100:])
    assert re.search("That (is no better than|cannot be told from) always answering “a”", html)
    assert "Do not rely on its answers" in html
    assert 'class="verdict poor"' in html
    assert "columns that matter most" not in html
    real = rng.normal(size=150)
    html = make_report(EGOPRegressor(random_state=0).fit(X[:100], real[:100]), X[100:], real[100:])
    assert re.search("That (is no better than|cannot be told from) always answering the mean", html)


def test_a_good_model_is_not(people_html):
    assert "no better" not in people_html
    assert 'class="verdict"' in people_html
    assert "The columns that matter most are" in people_html or "that matters is" in people_html


def score(kind, value, chance, auc=None):
    return RivalScore(kind, "always “a”" if kind == "rule" else kind, value, 0, 1, 0.5, auc, chance)


def test_words_follow_the_scores(found):
    """Better, worse, or not to be told apart; of a poor model that ranks, so it is said."""

    def words(*those):
        return " ".join(text for text, _ in sentences(found, those))

    mine, rule = score("model", 0.8, 1.0), score("rule", 0.6, 0.001)
    text = words(mine, rule, score("forest", 0.9, 0.01), score("near", 0.7, 0.01))
    assert "A random forest (90.0 %) did better on these rows" in text
    assert "the nearest rows by plain distance (70.0 %) did worse" in text
    text = words(mine, rule, score("forest", 0.9, 0.3), score("near", 0.7, 0.3))
    assert "cannot be told apart" in text
    assert "better" not in text
    poor = score("model", 0.9, 1.0, auc=0.8), score("rule", 0.9, 1.0)
    assert is_poor(poor)
    assert "still order the rows (AUC 0.80" in words(*poor)
    assert "still order" not in words(score("model", 0.9, 1.0, auc=0.5), poor[1])
    worse = score("model", 0.5, 1.0), score("rule", 0.6, 0.001)
    assert is_poor(worse)
    assert "That is no better than always answering “a” (60.0 %)" in words(*worse)
    few = mine, score("rule", 0.7, 0.3)
    assert is_poor(few)
    assert "That cannot be told from always answering “a” (70.0 %)" in words(*few)
    assert not is_poor((mine, rule))


def test_rows_that_were_learned_from_are_told_of(people, people_html, wine, classifier):
    assert "Caution" not in people_html
    assert "it has not seen" in people_html
    flattered = make_report(classifier, wine[0], wine[2])
    assert "Caution: 89 of the 89 rows equal a row that the model has learned from" in flattered
    assert "it has not seen (" not in flattered
    assert 'class="verdict poor"' in flattered
    twins = make_report(people.model, *people.train, training=people.train)
    assert "120 of the rows judged equal a row learned from" in twins


# groups of rows -----------------------------------------------------------------------------


def test_recall_and_precision_by_class(found, people):
    X, y = people.test
    answers, labels = people.model.predict(X), ["no", "yes"]
    recall = recall_score(y, answers, labels=labels, average=None)
    precision = precision_score(y, answers, labels=labels, average=None)
    lines = class_lines(found)
    assert [line.name for line in lines] == labels
    assert [line.recall[0] for line in lines] == [f"{100 * v:.0f} %" for v in recall]
    assert [line.precision[0] for line in lines] == [f"{100 * v:.0f} %" for v in precision]
    counts = [[cell["n"] for cell in line] for line in confusion(found)["cells"]]
    np.testing.assert_array_equal(counts, confusion_matrix(y, answers))


def test_rare_classes_and_how_they_fare():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = np.where(rng.random(600) < 0.05 + 0.1 * (X[:, 0] > 1), "ill", "well")
    model = EJOPClassifier(random_state=0).fit(X[:400], y[:400])
    e = gather(fitted(model), Given.of(X[400:], y[400:]))
    lines = class_lines(e)
    assert [line.rare for line in lines] == [True, False]
    ill = e.y == "ill"
    n_found = int((e.answers[ill] == "ill").sum())
    first, *rest = rare_words(e, lines)
    assert first.endswith(f"{n_found} of {ill.sum()} rows found.")
    assert n_found < ill.sum() / 2
    assert "class_weight" in rest[0]
    assert rare_words(e, [line for line in lines if not line.rare]) == []


def test_rows_with_filled_gaps_and_rare_levels():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=300), "c": rng.choice(["a", "b", "d"], 300)})
    X.loc[::5, "x"] = np.nan
    X.loc[1::20, "c"] = [f"once {i}" for i in range(15)]
    y = np.where((X["c"] == "a") ^ (rng.random(300) < 0.1), "p", "q")
    model = EJOPClassifier(random_state=0).fit(X[:200], y[:200])
    with pytest.warns(UserWarning, match="no training row"):
        e = gather(fitted(model), Given.of(X[200:], y[200:]))
    told = {line["name"]: line for line in odd_rows(e)}
    gaps = X[200:]["x"].isna().to_numpy()
    assert told["with a gap that was filled"]["n"] == str(gaps.sum())
    share = np.mean((e.answers == e.y)[gaps])
    assert told["with a gap that was filled"]["score"][0] == f"{100 * share:.1f} %"
    assert told["with a rare or new level"]["n"] == str(X[200:]["c"].str.match("once").sum())


def test_the_page_says_how_columns_were_prepared(people, people_html, wine):
    words = people.model.preparer_.in_words()
    assert any("left out" in line for line in words)
    plain = unescape(people_html)
    for line in words:
        assert f"<li>{line}</li>" in plain
    pipe = make_pipeline(StandardScaler(), EJOP()).fit(wine[0], wine[2])
    assert "What was left out, filled" not in make_report(pipe, wine[1], wine[3])


def test_parts_of_real_targets(real):
    parts = target_parts(real.e)
    assert [part["name"] for part in parts] == ["the lowest tenth", "between", "the highest tenth"]
    low = real.e.y <= np.quantile(real.e.y, 0.1)
    error = np.abs(real.e.answers - real.e.y)[low].mean()
    assert float(parts[0]["error"]) == pytest.approx(error, rel=1e-3)
    assert sum(int(part["n"]) for part in parts) == 80


# columns and directions ---------------------------------------------------------------------


def test_bars_are_the_importances_with_their_intervals(found, people, people_html):
    known = people.model.importances()
    used = np.unique(people.model.preparer_.groups_)
    bars = importance_bars(found.shares, known.interval(0.9), used)
    order = used[np.argsort(-known.values[used], kind="stable")]
    assert [bar.number for bar in bars] == [f"{100 * known.values[j]:.1f} %" for j in order]
    low, high = 100 * known.interval(0.9)[order[0]]
    assert bars[0].note == f"{low:.0f} to {high:.0f}"
    assert (bars[0].low, bars[0].high) == (pytest.approx(100 * low / high, abs=0.06), 100)
    assert "name" not in [bar.name for bar in bars]  # was left out
    assert bars[0].note in people_html


@pytest.fixture(scope="module")
def sailors():
    """The answer is known: women and low classes, whatever was paid."""
    rng = np.random.default_rng(0)
    n = 500
    X = pd.DataFrame(
        {
            "sex": rng.choice(["female", "male"], n),
            "pclass": rng.integers(1, 4, n),
            "paid": np.exp(2 * rng.normal(size=n)),  # a long tail
        }
    )
    z = 2 * (X["sex"] == "female") - 1 - 0.8 * (X["pclass"] - 2)
    y = np.where(z + 0.3 * rng.logistic(size=n) > 0, "saved", "drowned")
    model = EJOPClassifier(random_state=0).fit(X[:350], y[:350])
    return gather(fitted(model), Given.of(X[350:], y[350:]), Given.of(X[:350], y[:350]))


def test_directions_in_words_of_the_columns(sailors):
    axes = turned(sailors, axes_of(sailors))
    first = directions(sailors, axes)[0]
    assert re.fullmatch(r"sex \(female\) − 0\.\d pclass", first.words)
    assert first.towards == "towards “saved”"
    assert first.share > 0.6
    along = sailors.Z @ axes.vectors[:, 0]
    assert np.corrcoef(along, sailors.chances[:, 1])[0, 1] > 0.8
    after, _ = projections(sailors, axes.vectors, 1000)
    np.testing.assert_allclose(
        [mark.x for mark in sorted(after.marks, key=lambda m: m.told)],
        [
            Axis.over(along).place(along[i])
            for i in np.argsort([f"row {n}:" for n in sailors.names])
        ],
        atol=0.01,
    )


def test_directions_of_a_metric_are_its_own(wine, classifier):
    e = gather(fitted(classifier), Given.of(wine[1], wine[3]))
    axes = axes_of(e)
    np.testing.assert_allclose(axes.values, classifier.metric_estimator_.eigenvalues_)
    found = directions(e, axes)
    assert found[0].share == pytest.approx(axes.values[0] / axes.values.sum())
    assert re.fullmatch(r"from “\d” to “\d”", found[0].towards)


def test_directions_of_a_line():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = 2 * X[:, 0] - X[:, 1]
    model = EGOPRegressor(random_state=0).fit(X[:200], y[:200])
    e = gather(fitted(model), Given.of(X[200:], y[200:]))
    first = directions(e, turned(e, axes_of(e)))[0]
    assert first.words == "x0 − 0.5 x1"
    assert first.towards == "towards higher answers"
    assert first.share > 0.9


# rows in full -------------------------------------------------------------------------------


def test_rows_in_full_with_their_reasons(found, people):
    X, y = people.test
    rows = cases_of(found).rows
    assert len({case.name for case in rows}) == 4
    names = [int(case.name) for case in rows]
    right = people.model.predict(X.loc[names]) == y[[name - 1120 for name in names]]
    assert [case.verdict == "right" for case in rows] == right.tolist()
    assert right.sum() == 2
    told = people.model.explain(X.loc[names])
    for place, case in enumerate(rows):
        base, *steps, answer = case.bars
        assert (base.name, answer.name) == ("average row", "this row")
        assert float(base.number) == pytest.approx(told.base[place], abs=6e-4)
        assert float(answer.number) == pytest.approx(told.answer[place], abs=6e-4)
        added = sum(float(bar.number) for bar in steps)
        assert float(base.number) + added == pytest.approx(float(answer.number), abs=3e-3)
        by_name = {bar.name: bar for bar in steps}
        assert by_name["sex"].value == X.loc[names[place], "sex"]
        assert "name" not in by_name


def test_near_rows_with_values_and_the_names_of_the_table(found, people):
    X, y = people.train
    rows = cases_of(found).rows
    for case in rows:
        one = people.test[0].loc[[int(case.name)]]
        places = people.model.kneighbors(one, 3)[1][0]
        assert [near.name for near in case.near] == [str(1000 + p) for p in places]
        assert [near.target for near in case.near] == y[places].tolist()
        for near in case.near:
            row = X.loc[int(near.name)]
            age = "missing" if np.isnan(row["age"]) else f"{row['age']:.4g}"
            values = dict(zip(case.columns, near.values, strict=True))
            assert (values["sex"], values["age"]) == (row["sex"], age)
            assert near.agrees == (near.target == case.truth)


def test_a_table_without_the_columns_that_are_not_used(people):
    """As the command line passes it."""
    X, y = people.test
    e = gather(fitted(people.model), Given.of(X.drop(columns="name"), y))
    case = cases_of(e).rows[0]
    assert {bar.name: bar for bar in case.bars}["sex"].value in ("f", "m")
    assert all(near.values == [] for near in case.near)  # the model keeps no values
    html = make_report(people.model, X.drop(columns="name"), y)
    assert "whose values are not in the model" in html


def test_the_largest_errors_and_one_that_is_nearly_exact(real):
    off = np.abs(real.e.answers - real.e.y)
    rows = [int(case.name) for case in cases_of(real.e).rows]
    assert rows[:3] == np.argsort(-off, kind="stable")[:3].tolist()
    assert rows[3] == off.argmin()


def test_near_rows_alone_are_not_explained(html, wine, classifier):
    rows = cases_of(gather(fitted(classifier), Given.of(wine[1], wine[3]))).rows
    assert all(case.bars == [] for case in rows)
    assert all(len(case.near) == 3 for case in rows)
    assert "Many rows together" not in html


def test_points_of_many_rows(found, people):
    drawn = cases_of(found)
    towards = people.model.explain(people.test[0], output="yes")
    assert drawn.outcome == "the probability of class yes"
    values = towards.values[:, [0, 1, 2]]
    axis = Axis.over(np.append(values.ravel(), 0.0), 0.03)
    expected = sorted(axis.place(value) for value in values.ravel())
    np.testing.assert_allclose(sorted(mark.x for mark in drawn.swarm.marks), expected, atol=0.02)
    assert any("sex = f, adds" in mark.told for mark in drawn.swarm.marks)


# trust --------------------------------------------------------------------------------------


def test_calibration_by_groups(found):
    what, bins = calibration(found)
    assert what == "class “yes”"
    said, true = found.chances[:, 1], found.y == "yes"
    for one in bins:
        rows = (said >= np.floor(10 * one.said) / 10) & (said < np.floor(10 * one.said + 1) / 10)
        assert (one.n, one.came) == (rows.sum(), pytest.approx(true[rows].mean()))
    assert sum(one.n for one in bins) > 100


def test_words_on_calibration(rng):
    p = rng.random(2000)
    e = SimpleNamespace(chances=np.c_[1 - p, p], classes=np.array([0, 1]), y=(rng.random(2000) < p))
    assert "about as often as they say" in calibration_words(*calibration(e))
    e.y = rng.random(2000) < p**3
    assert "are off in" in calibration_words(*calibration(e))
    e.chances = None
    assert calibration(e) == ("", [])


def test_coverage_of_sets_and_intervals(found, people, real):
    X, y = people.test
    sets = people.model.predict_set(X, 0.9)
    inside = sets[np.arange(len(y)), (y == "yes").astype(int)].mean()
    assert f"hold {100 * inside:.1f} %" in coverage_words(found)
    low, high = real.model.predict_interval(real.X[160:], 0.9).T
    inside = np.mean((low <= real.y[160:]) & (real.y[160:] <= high))
    assert f"hold {100 * inside:.1f} %" in coverage_words(real.e)


# real targets -------------------------------------------------------------------------------


def test_a_regressor_shows_predicted_against_true(real):
    e, found = real.e, scores(real.e)
    assert found[0].value == pytest.approx(r2_score(e.y, e.answers))
    assert found[0].second == pytest.approx(mean_absolute_error(e.y, e.answers))
    assert f"R² {found[0].value:.3f}, 95 % interval" in headline(e, found)
    plot, axis = fit_plot(e, 1000), Axis.over(np.concatenate([e.y, e.answers]))
    np.testing.assert_allclose([m.x for m in plot.marks], [axis.place(v) for v in e.y])
    np.testing.assert_allclose([m.y for m in plot.marks], [axis.up(v) for v in e.answers])
    html = make_report(real.model, real.X[160:], real.y[160:])
    assert "Where it errs" in html
    assert "Its answers are off by" in html
    assert "Class by class" not in html


def test_several_targets(real):
    Y = np.c_[real.y, real.X[:, 1]]
    model = EGOPRegressor(random_state=0).fit(real.X[:160], Y[:160])
    html = make_report(model, real.X[160:], Y[160:])
    assert "Some rows in full" in html
    assert "Intervals that should hold" in html


# other models -------------------------------------------------------------------------------


def test_metrics_alone_are_judged_by_five_neighbours(real):
    model = EGOP(n_components=1).fit(real.X[:160], real.y[:160])
    e = gather(fitted(model), Given.of(real.X[160:], real.y[160:]))
    assert scores(e)[3].name == "5 nearest rows, plain distance"
    html = make_report(model, real.X[160:], real.y[160:])
    assert "Which directions matter" in html
    assert "Can its" not in html


def test_other_rules_than_the_default(wine):
    model = EJOPClassifier(**{**QUICK, "rule": "hnn"}).fit(wine[0], wine[2])
    html = make_report(model, wine[1], wine[3])
    assert "5 nearest rows, plain distance" in html
    assert "Sets of classes" not in html


def test_the_default_says_what_answers(people, people_html):
    model = people.model
    assert "It answers by the mean of 5 kernel machines: " in people_html
    assert f"it reached {100 * model.best_score_:.1f} %" in people_html
    assert escape(model.best_params_["members"][0]) in people_html


def test_a_pipeline_with_text_columns_and_gaps(wine):
    X, y = wine[0].iloc[:, :3].copy(), wine[2]
    X["colour"] = np.where(X["alcohol"] > 13, "red", "<white>")
    X.iloc[0, 0] = np.nan
    steps = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["colour"]),
        (SimpleImputer(), ["alcohol", "malic_acid", "ash"]),
    )
    pipe = make_pipeline(steps, EJOPClassifier(**QUICK)).fit(X, y)
    html = make_report(pipe, X, y)
    assert "onehotencode…colour_red" in html or "onehotencod…_colour_red" in html
    assert "<white>" not in html


def test_sparse_rows_and_several_labels():
    rng = np.random.default_rng(0)
    S = sparse.random(160, 100, 0.1, format="csr", random_state=0)
    y = np.asarray(S[:, :9].sum(1)).ravel() > 0.4
    model = EJOPClassifier(random_state=0).fit(S[:120], y[:120])
    html = make_report(model, S[120:], y[120:], training=(S[:120], y[:120]))
    share = np.mean(model.predict(S[120:]) == y[120:])
    assert f"The model is right on {100 * share:.1f} % of 40 rows it has not seen" in html
    X = rng.normal(size=(160, 4))
    Y = np.c_[X[:, 0] > 0, X[:, 1] + X[:, 2] > 0].astype(int)
    labels = EJOPClassifier(random_state=0).fit(X[:120], Y[:120])
    html = make_report(labels, X[120:], Y[120:])  # the first, as a number
    r2 = r2_score(Y[120:, 0], labels.predict(X[120:])[:, 0])
    assert f"R² {r2:.3f}" in html


def test_many_classes_and_many_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(104, 300))
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    y = letters[np.arange(104) % 26]
    est = EJOP(bandwidth=20.0, n_queries=20, random_state=0).fit(X, y)
    html = make_report(est, X, y, max_points=50)
    after = html[html.index('id="after"') : html.index('id="before"')]
    assert after.count("<use href") == 50
    assert "the first 20 of 300 columns" in html
    assert 'class="matrix many"' in html
    words = np.array([f"word {i}" for i in range(52)])[np.arange(104) % 52]
    crowded = make_report(EJOP(bandwidth=20.0, n_queries=20).fit(X, words), X, words)
    assert 'class="matrix many' not in crowded
    assert "<th>true</th><th>predicted</th>" in crowded


def test_one_row_and_labels_it_has_never_seen(classifier, wine, people):
    one = pd.DataFrame(wine[1].iloc[[0]])
    html = make_report(classifier, one, np.array([7]))
    assert "The model is right on 0.0 % of 1 row it has not seen" in html
    X, y = people.test
    assert "Some rows in full" in make_report(people.model, X.iloc[:1], y[:1])


# in one line --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=120), "b": rng.choice(["u", "v"], 120)})
    X["y"] = np.where(X["a"] + (X["b"] == "u") + 0.3 * rng.normal(size=120) > 0.5, 1.0, 0.0)
    X.loc[[3, 50], "y"] = np.nan
    return X.set_axis([f"r{i}" for i in range(120)])


@pytest.fixture(scope="module")
def made(table):
    return ejop.report(table, "y")


def test_a_report_in_one_line(made, table):
    assert made.model.classes_.tolist() == [0, 1]  # whole numbers are classes, written as such
    assert list(made.model.preparer_.names_) == ["a", "b"]
    assert len(made.held_out) == 24
    assert len(made.model.kept_) == 118 - 24
    assert not {"r3", "r50"} & set(made.held_out)
    rest = table.dropna()
    share = np.mean(
        made.model.predict(rest.loc[made.held_out, ["a", "b"]]) == rest.y[made.held_out]
    )
    assert f"The model is right on {100 * share:.1f} % of 24 rows it has not seen" in made.html
    assert "left out 2 rows without a target" in made.html
    assert "Predicting y" in made.html
    near = re.findall(r'<tr><th scope="row">row</th>(.*?)</tr>', made.html)
    shown = set(re.findall(r">(r\d+)<", "".join(near)))
    assert shown & set(made.held_out)
    assert shown - set(made.held_out)  # those that were learned from
    assert repr(made).startswith("Report(model=EJOPClassifier(")


def test_it_shows_itself_in_a_notebook(made):
    shown = made._repr_html_()
    inside = re.fullmatch(r'<iframe srcdoc="([^"]*)".*</iframe>', shown, re.S)
    assert unescape(inside.group(1)) == made.html


def test_it_is_saved_whole_or_not_at_all(made, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("before")

    def full(*args):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            made.save(path)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["report.html"]
    assert made.save(path) == path
    assert path.read_text(encoding="utf-8") == made.html


def test_targets_beside_the_table_and_numbers(table, capfd):
    polars = pytest.importorskip("polars")
    X = polars.DataFrame({"a": np.arange(60.0), "b": ["u", "v"] * 30})
    found = ejop.report(X, np.arange(60) * 1.5, title="Mine", verbose=1)
    assert isinstance(found.model, EGOPRegressor)
    assert "<h1>Mine</h1>" in found.html
    err = capfd.readouterr().err
    for step in ("learning from 48 rows", "judging 12 rows", "comparing", "explaining rows"):
        assert f"report: {step}" in err
    named = ejop.report(X.with_columns(t=np.arange(60) * 1.5), "t")
    assert named.held_out.tolist() == found.held_out.tolist()
    assert capfd.readouterr().err == ""
    by_array = ejop.report(np.c_[np.arange(60.0), np.ones(60)], np.arange(60) % 2)
    assert by_array.model.classes_.tolist() == [0, 1]


def test_a_model_of_ones_own(table):
    rows = table.dropna()
    own = EJOPClassifier(**QUICK)
    found = ejop.report(rows, "y", model=own, test_size=0.5)
    assert found.model.rule == "knn"
    assert not hasattr(own, "classes_")  # a copy was fitted
    assert len(found.held_out) == 59
    assert isinstance(ejop.report(rows, "y", model=EGOPRegressor(**QUICK)).model, EGOPRegressor)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("yy",), r"`y`='yy' is none of the 3 columns; did you mean 'y'\?"),
        ((np.ones(3),), "`X` has 120 rows and `y` 3"),
        ((np.ones((120, 2)),), r"`y` has shape \(120, 2\)"),
        ((np.array([f"n{i}" for i in range(120)]),), "every row has its own class"),
        ((np.array([1.0, 2.0] + [np.nan] * 118),), "`y` has 2 values and 118 missing"),
    ],
)
def test_mistakes_in_one_line(table, arguments, message):
    with pytest.raises(ValueError, match=message):
        ejop.report(table, *arguments)
    with pytest.raises(ValueError, match="test_size"):
        ejop.report(table, "y", test_size=2)


# mistakes, files ----------------------------------------------------------------------------


def test_writing_a_file(tmp_path, classifier, wine):
    path = tmp_path / "report.html"
    assert write_report(path, classifier, wine[1], wine[3], title="First") == path
    assert "First" in path.read_text(encoding="utf-8")
    assert os.listdir(tmp_path) == ["report.html"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [1]}, "`X` has 89 rows and `y` 1"),
        ({"feature_names": ["a"]}, "has 1 names"),
        ({"comparison": [{"name": "Euclid"}]}, "needs 'name' and 'error'"),
    ],
)
def test_mistakes_are_told(classifier, wine, change, message):
    arguments = {"X": wine[1], "y": wine[3], **change}
    with pytest.raises(ValueError, match=message):
        make_report(classifier, **arguments)


def test_wrong_models_and_no_rows(classifier, wine):
    with pytest.raises(TypeError, match="has no learned metric"):
        make_report(KNeighborsClassifier().fit(wine[0], wine[2]), wine[1], wine[3])
    with pytest.raises(ValueError, match="has no rows"):
        make_report(classifier, wine[1].iloc[:0], wine[3][:0])


def test_importing_needs_none_of_the_extras():
    code = (
        "import sys\n"
        "sys.modules.update(jinja2=None, plotly=None, matplotlib=None, pandas=None)\n"
        "import ejop\n"
        "try:\n"
        "    ejop.report([[1.0]] * 20, [0, 1] * 10)\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'ejop[report]'" in done.stdout
