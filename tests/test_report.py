"""The report: one file, no network, true figures, and nothing of the user's run as code."""

import json
import os
import re
import subprocess
import sys
from html import escape

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.impute import SimpleImputer
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ejop import EGOP, EJOP, EGOPRegressor, EJOPClassifier
from ejop.plots.fitted import fitted
from ejop.report import make_report, write_report
from ejop.report._evidence import gather
from ejop.report._words import confusion

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
def regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 4))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=240)


def page(html):
    """The report without plotly's own code."""
    scripts = re.split(r"(?=<script)", html)
    own = [part for part in scripts if "plotly.js v" not in part]
    assert len(own) == len(scripts) - 1
    return "".join(own)


def figures(html):
    text = re.search(r'<script type="application/json" id="figures">(.*?)</script>', html, re.S)
    return json.loads(text.group(1))


def test_the_page_holds_every_part(html):
    own = page(html)
    for words in (
        "Methods side by side",
        "How many directions matter",
        "Which columns matter",
        "The rows, before and after",
        "Neighbours that changed",
        "Who is taken for whom",
        "Settings and versions",
        "EJOPClassifier learned from 89 rows of 13 columns",
        "scikit-learn",
        "@media print",
        "prefers-color-scheme: dark",
        'name="viewport"',
    ):
        assert words in own
    assert "Wine &lt;1&gt;" in own
    assert "Euclid &amp; co" in own
    assert '<tr class="best"><td>EJOP</td><td class="number">2.00 %</td>' in own


def test_the_page_asks_nothing_of_the_network(html):
    assert "default-src 'none'" in html
    own = page(html)
    assert not re.search(r"https?:|//[a-z]+\.", own)
    assert not re.search(r"<(link|img|iframe)\b|@import|url\(", own)
    assert set(re.findall(r'(?:src|href)="([^"]*)"', own)) <= {
        f"#{part}"
        for part in (
            "methods",
            "directions",
            "features",
            "reasons",
            "rows",
            "changed",
            "errors",
            "settings",
        )
    }


def test_figures_are_those_of_the_model(html, classifier, wine):
    drawn = figures(html)
    assert set(drawn) == {
        "spectrum",
        "importances",
        "class-importances",
        "projection-before",
        "projection-after",
    }
    for name in drawn:
        assert f'id="{name}"' in html
    values = classifier.metric_estimator_.eigenvalues_
    np.testing.assert_allclose(drawn["spectrum"]["data"][0]["y"], values, rtol=1e-4)
    shares = 100 * np.sort(classifier.feature_importances_)[::-1]
    np.testing.assert_allclose(drawn["importances"]["data"][0]["x"], shares, rtol=1e-4)
    predicted = classifier.predict(wine[1])
    after = classifier.transform(wine[1])
    points = [p for trace in drawn["projection-after"]["data"] for p in trace["customdata"]]
    assert sorted(p[0] for p in points) == list(range(len(predicted)))
    for row, truth, answer in points:
        assert truth == str(wine[3][row])
        assert answer == str(predicted[row])
    trace = drawn["projection-after"]["data"][0]
    rows = [p[0] for p in trace["customdata"]]
    np.testing.assert_allclose(trace["x"], after[rows, 0], rtol=1e-3, atol=1e-4)


def test_before_is_plain_distance_on_the_same_scaling(classifier, wine):
    evidence = gather(fitted(classifier), wine[1], wine[3])
    plain = KNeighborsClassifier(classifier.rule_.n_neighbors_)
    plain.fit(classifier.scaler_.transform(wine[0]), wine[2])
    expected = plain.predict(classifier.scaler_.transform(wine[1]))
    assert np.mean(evidence.before == expected) > 0.98  # votes may tie
    table = confusion(evidence, evidence.after)
    counts = [[cell["n"] for cell in line] for line in table["cells"]]
    np.testing.assert_array_equal(counts, confusion_matrix(wine[3], classifier.predict(wine[1])))


def test_changes_count_what_became_right_and_wrong(classifier, wine):
    evidence = gather(fitted(classifier), wine[1], wine[3])
    shown, fixed, broken, other = evidence.changes()
    was, now = evidence.before == wine[3], evidence.after == wine[3]
    assert fixed == np.sum(now & ~was)
    assert broken == np.sum(was & ~now)
    assert fixed + broken + other == np.sum(evidence.before != evidence.after)
    for change in shown:
        assert change.before != change.after
        rows = [after.row for _, after in change.neighbors]
        near = classifier.kneighbors(wine[1].iloc[[change.row]], len(rows))[1][0]
        assert rows == near.tolist()
        assert [n.target for _, n in change.neighbors] == [str(c) for c in wine[2][rows]]


def test_rows_that_were_learned_from_are_told_of(classifier, wine, html):
    assert "Caution" not in html
    flattered = make_report(classifier, wine[0], wine[2])
    assert "Caution: 89 of the 89 rows shown were also learned from" in flattered


@pytest.mark.filterwarnings("ignore:the standard deviations of the columns")
def test_hostile_names_stay_text(wine):
    X = wine[0].to_numpy()
    y = np.where(wine[2] == 0, HOSTILE, "<b>plain</b>")
    names = [HOSTILE, "<img src=x onerror=alert(1)>", *map(str, range(11))]
    html = make_report(EJOP().fit(X, y), X, y, feature_names=names, title=HOSTILE)
    own = page(html)
    assert "alert('x')" not in own
    assert "<img" not in own
    assert own.count("</script>") == own.count("<script")
    bars = figures(html)["importances"]["data"][0]["customdata"]
    assert sum("&lt;" in name for name in bars) == 2


def test_a_regressor_shows_predicted_against_true(regression):
    X, y = regression
    model = EGOPRegressor(**QUICK).fit(X[:160], y[:160])
    html = make_report(model, X[160:], y[160:])
    drawn = figures(html)
    assert {"fit-before", "fit-after"} <= set(drawn)
    assert "class-importances" not in drawn
    np.testing.assert_allclose(drawn["fit-after"]["data"][0]["x"], y[160:], rtol=1e-4)
    np.testing.assert_allclose(
        drawn["fit-after"]["data"][0]["y"], model.predict(X[160:]), rtol=1e-4, atol=1e-9
    )
    own = page(html)
    assert "Predicted against true" in own
    assert "came nearer to the truth" in own
    assert "Who is taken for whom" not in own


def test_other_rules_than_the_nearest(wine):
    model = EJOPClassifier(**{**QUICK, "rule": "hnn"}).fit(wine[0], wine[2])
    assert "the same scaling and 5 neighbours" in make_report(model, wine[1], wine[3])


def test_the_default_says_what_answers(wine, regression):
    model = EJOPClassifier(random_state=0).fit(wine[0], wine[2])
    html = page(make_report(model, wine[1], wine[3]))
    for words in (
        "the same scaling and 5 neighbours",
        "It answers by the mean of 5 kernel machines: ",
        f"Its accuracy was {model.best_score_:.3f} on training rows",
        "After: kernel machines",
        model.best_params_["members"][0],
    ):
        assert words in html
    assert "power 0" not in html
    X, y = regression
    real = EGOPRegressor(random_state=0).fit(X[:160], y[:160])
    html = page(make_report(real, X[160:], y[160:]))
    assert f"Its R² was {real.best_score_:.3f} on training rows" in html


@pytest.fixture(scope="module")
def people():
    """Two classes of rows with text, gaps and a column that is left out."""
    rng = np.random.default_rng(0)
    n = 240
    X = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "age": rng.normal(40, 10, n),
            HOSTILE: rng.choice(["<b>x</b>", "<img src=x>", None], n),
            "name": [f"<i>{i}</i> {x}" for i, x in enumerate(rng.random(n))],
        }
    )
    X.loc[::7, "age"] = np.nan
    z = (X["sex"] == "m") * 2 - 1 + rng.logistic(size=n) / 2
    with pytest.warns(UserWarning, match="left out"):
        model = EJOPClassifier(random_state=0).fit(X[:120], np.where(z > 0, "yes", "no")[:120])
    return model, X[120:].reset_index(drop=True), np.where(z > 0, "yes", "no")[120:]


def test_why_these_answers(people):
    model, X, y = people
    html = make_report(model, X, y)
    own, drawn = page(html), figures(html)
    assert "Why these answers" in own
    names = [f"answer-{i}" for i in range(4)]
    assert {*names, "contributions"} <= set(drawn)
    rows = [
        int(row) for row in re.findall(r"<h3>Row (\d+) <span class=\"\w+\">(?:right|wrong)", own)
    ]
    assert len(set(rows)) == 4
    right = model.predict(X)[rows] == y[rows]
    assert right.sum() == 2
    found = model.explain(X.iloc[rows])
    for place, name in enumerate(names):
        bars, ends = drawn[name]["data"]
        np.testing.assert_allclose(ends["x"], [found.base[place], found.answer[place]], rtol=1e-6)
        assert bars["base"][0] == pytest.approx(ends["x"][0])
        assert bars["base"][0] + sum(bars["x"]) == pytest.approx(ends["x"][1], abs=1e-6)
    points = [p for trace in drawn["contributions"]["data"] for p in trace["x"]]
    assert len(points) == 4 * len(X)
    towards = model.explain(X, output="yes").values
    np.testing.assert_allclose(np.sort(points), np.sort(towards, axis=None), atol=1e-4)
    assert "What each column adds to the probability of class yes" in own


def test_names_and_values_of_explanations_stay_text(people):
    html = make_report(*people)
    own = page(html)
    assert "<img" not in own
    assert "alert('x')" not in own
    assert own.count("</script>") == own.count("<script")
    drawn = json.dumps({k: v for k, v in figures(html).items() if k[:6] in ("answer", "contri")})
    assert "&lt;b&gt;x&lt;/b&gt;" in drawn
    for mark in ("<b>", "<i>", "<img", "<script"):
        assert mark not in drawn


def test_the_page_says_how_columns_were_prepared(people, classifier, wine):
    own = page(make_report(*people))
    words = people[0].preparer_.in_words()
    assert any("left out" in line for line in words)
    for line in words:
        assert f"<li>{escape(line)}</li>" in own.replace("&#34;", "&quot;").replace(
            "&#39;", "&#x27;"
        )
    pipe = make_pipeline(StandardScaler(), EJOP()).fit(wine[0], wine[2])
    assert "How the columns were prepared" not in page(make_report(pipe, wine[1], wine[3]))


def test_near_rows_are_not_explained(html):
    assert "Why these answers" not in page(html)


def test_the_largest_errors_are_explained(regression):
    X, y = regression
    model = EGOPRegressor(random_state=0).fit(X[:160], y[:160])
    own = page(make_report(model, X[160:], y[160:]))
    part = own[own.index("Why these answers") : own.index("All together")]
    rows = [int(row) for row in re.findall(r"<h3>Row (\d+)", part)]
    off = np.abs(model.predict(X[160:]) - y[160:])
    assert rows == np.argsort(-off, kind="stable")[:4].tolist()
    several = EGOPRegressor(random_state=0).fit(X[:160], np.c_[y, X[:, 1]][:160])
    assert "Why these answers" in page(make_report(several, X[160:], np.c_[y, X[:, 1]][160:]))


def test_one_row_is_explained(people):
    model, X, y = people
    drawn = figures(make_report(model, X.iloc[:1], y[:1]))
    assert "answer-0" in drawn
    assert "answer-1" not in drawn


def test_metrics_alone_are_judged_by_five_neighbours(regression):
    X, y = regression
    html = make_report(EGOP(n_components=1).fit(X[:160], y[:160]), X[160:], y[160:])
    assert "the same scaling and 5 neighbours" in html
    several = EGOP().fit(X[:160], np.c_[y, X[:, 1]][:160])
    html = make_report(several, X[160:], np.c_[y, X[:, 1]][160:])
    assert "divided among the outputs" in html


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
    names = figures(html)["importances"]["data"][0]["customdata"]
    assert "onehotencoder__colour_red" in names
    assert "onehotencoder__colour_&lt;white&gt;" in names


def test_many_classes_and_many_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(104, 1000))
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    y = letters[np.arange(104) % 26]
    est = EJOP(bandwidth=20.0, n_queries=20, random_state=0).fit(X, y)
    html = make_report(est, X, y, max_points=50)
    drawn = figures(html)
    assert len(drawn["importances"]["data"][0]["y"]) == 20
    assert sum(len(trace["x"]) for trace in drawn["projection-after"]["data"]) == 50
    assert 'class="matrix many"' in html
    words = np.array([f"word {i}" for i in range(52)])[np.arange(104) % 52]
    crowded = make_report(EJOP(bandwidth=20.0, n_queries=20).fit(X, words), X, words)
    assert 'class="matrix' not in crowded
    assert "<th>true</th><th>predicted</th>" in crowded


def test_writing_is_whole_or_not_at_all(tmp_path, classifier, wine, monkeypatch):
    path = tmp_path / "report.html"
    assert write_report(path, classifier, wine[1], wine[3], title="First") == path
    assert "First" in path.read_text(encoding="utf-8")
    assert os.listdir(tmp_path) == ["report.html"]

    def full(*args):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_report(path, classifier, wine[1], wine[3], title="Second")
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


def test_one_row_and_labels_it_has_never_seen(classifier, wine):
    one = pd.DataFrame(wine[1].iloc[[0]])
    html = make_report(classifier, one, np.array([7]))
    assert "The error is 100.00 %" in html


def test_importing_needs_none_of_the_extras():
    code = (
        "import sys\n"
        "sys.modules.update(jinja2=None, plotly=None, matplotlib=None, pandas=None)\n"
        "from ejop.report import make_report\n"
        "try:\n"
        "    make_report(None, [], [])\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'ejop[report]'" in done.stdout
