"""What the command line says of how good a model is, and what it draws and shows meanwhile."""

import io
import json
import re
import sys
import time
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score

from ejop.cli.models import load_model
from ejop.cli.options import folded, say
from ejop.cli.pictures import write_picture
from ejop.cli.scores import of_classes, of_numbers, plain_score
from ejop.cli.training import TrainingTable
from ejop.progress import patient, track, working
from ejop.rules import RidgeRule
from ejop.rules._search import MachineSearch
from ejop.tuning import Judgements, Setting


def table(n, seed, noise=0.3):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    frame["colour"] = rng.choice(["red", "green"], n)
    frame["price"] = frame.a + (frame.colour == "red") + noise * rng.normal(size=n)
    frame["label"] = np.where(frame.price > 0.5, "yes", "no")
    return frame


# scores -----------------------------------------------------------------------------------------


def rare(n=400):
    rng = np.random.default_rng(0)
    truth = np.where(rng.random(n) < 0.1, "yes", "no")
    shares = np.clip(0.1 + 0.3 * (truth == "yes") + 0.2 * rng.normal(size=n), 0, 1)
    return truth, np.where(shares > 0.5, "yes", "no"), np.stack([1 - shares, shares], axis=1)


def test_classes_are_scored_as_scikit_learn_does():
    truth, predicted, shares = rare()
    found = of_classes(truth, predicted, {"no": 90, "yes": 10}, shares)
    assert found.value == (truth == predicted).mean()
    assert found.simple_value == (truth == "no").mean()
    assert found.more["balanced accuracy"] == balanced_accuracy_score(truth, predicted)
    assert found.more["AUC"] == roc_auc_score(truth == "yes", shares[:, 1])
    assert found.stderr == pytest.approx(np.sqrt(found.value * (1 - found.value) / 399))
    even = of_classes(truth, predicted, {"no": 60, "yes": 40}, shares)
    assert even.more == {}  # no class is rare


def test_areas_of_three_classes_are_their_mean():
    rng = np.random.default_rng(0)
    truth = rng.choice(list("abc"), 300, p=[0.8, 0.15, 0.05])
    shares = rng.dirichlet(np.ones(3), 300) + 0.2 * np.stack([truth == c for c in "abc"], axis=1)
    shares /= shares.sum(1, keepdims=True)
    counts = {"a": 80, "b": 15, "c": 5}
    found = of_classes(truth, np.array(list("abc"))[shares.argmax(1)], counts, shares)
    assert found.more["AUC"] == pytest.approx(roc_auc_score(truth, shares, multi_class="ovr"))
    alone = truth == "a"  # a class that no row is of has no area
    assert "AUC" not in of_classes(truth[alone], truth[alone], counts, shares[alone]).more


def test_numbers_are_scored_as_scikit_learn_does():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=500)
    predicted = truth + 0.5 * rng.normal(size=500)
    found = of_numbers(truth, predicted, 0.1)
    assert found.value == pytest.approx(r2_score(truth, predicted))
    draws = rng.integers(500, size=(400, 500))
    spread = np.std([r2_score(truth[rows], predicted[rows]) for rows in draws])
    assert found.stderr == pytest.approx(spread, rel=0.25)
    assert "by 0.8" in found.in_words()[1]  # mean absolute error of the mean


def test_no_better_than_the_majority_is_said():
    truth, _, shares = rare()
    same = of_classes(truth, np.full(len(truth), "no"), {"no": 90, "yes": 10}, shares)
    *_, last = same.in_words()
    assert last.startswith("warning: this is no better than always answering no; its probab")
    assert "--class-weight balanced" in last
    coin = np.random.default_rng(1).random((len(truth), 2))
    words = of_classes(truth, np.full(len(truth), "no"), {"no": 9, "yes": 1}, coin).in_words()
    assert words[-1] == "warning: this is no better than always answering no"
    predicted = np.full(len(truth), "no", dtype="<U3")
    predicted[np.flatnonzero(truth == "yes")[:2]] = "yes"  # two more right of 400: no proof
    words = of_classes(truth, predicted, {"no": 6, "yes": 4}).in_words()
    assert words[-1] == "warning: this is not clearly better than always answering no"
    good = of_classes(truth, truth, {"no": 6, "yes": 4}).in_words()
    assert len(good) == 1
    worse = of_numbers(np.arange(9.0), np.arange(9.0)[::-1], 4.0).in_words()
    assert worse[-1] == "warning: this is no better than always answering the mean"


def test_machines_are_judged_without_a_say_in_their_choice():
    """Of many candidates that guess the best look good to the rows that chose them."""
    rng = np.random.default_rng(0)
    n, truth = 200, rng.choice([-1.0, 1.0], size=200)

    class Problem(types.SimpleNamespace):
        def rows(self, part):
            return Problem(R=self.R[part])

        def loss(self, residual):
            return float((residual**2).sum(1).mean())

    engine = types.SimpleNamespace(array=lambda values, kind: values)
    problem = Problem(R=truth[:, None], engine=engine)
    search = MachineSearch({"plain": problem}, (), 5, 1, seed=0)
    search.rows = np.arange(n)
    guesses = rng.choice([-1.0, 1.0], size=(300, n, 1))
    tried = [types.SimpleNamespace(candidate=types.SimpleNamespace(honest=one)) for one in guesses]
    losses = ((guesses - problem.R) ** 2).mean((1, 2))
    chosen = guesses[np.argsort(losses)[:5]].mean(0)

    def accuracy(values):
        return (np.sign(values[:, 0]) == truth).mean()

    assert accuracy(chosen) > 0.58
    assert abs(accuracy(search.unseen(tried)) - 0.5) < 0.08
    few = search.unseen(tried[:5])  # nothing to choose
    np.testing.assert_allclose(few, guesses[:5].mean(0))


def test_what_is_told_comes_from_these_predictions(monkeypatch):
    rows = np.linspace(-2, 2, 60)[:, None]
    assert RidgeRule(kernels=["l1"]).fit(rows, np.sin(rows)).loss_ < 0.1
    monkeypatch.setattr(MachineSearch, "unseen", lambda self, tried: np.zeros((60, 1)))
    rule = RidgeRule(kernels=["l1"]).fit(rows, np.sin(rows))
    np.testing.assert_allclose(rule.honest_, np.sin(rows).mean(), atol=1e-12)
    assert rule.loss_ > 0.3


def test_settings_are_judged_by_splits_that_did_not_choose_them():
    rng = np.random.default_rng(0)
    scores = rng.normal(0.5, 0.05, size=(400, 4))
    table = Judgements()
    for i, row in enumerate(scores):
        for score in row:
            table.add(Setting("none", "kernel", 1.0, None, i), score, 1 - score)
    assert table.score(table.best()) > 0.55
    others = [scores[:, [j for j in range(4) if j != i]].mean(1).argmax() for i in range(4)]
    assert table.unseen_score() == pytest.approx(
        np.mean([scores[j, i] for i, j in enumerate(others)])
    )
    assert abs(table.unseen_score() - 0.5) < 0.08
    single = Judgements()
    single.add(Setting("none", "kernel", 1.0, None, 1), 0.7, 0.3)
    assert np.isnan(single.unseen_score())


def test_plain_distances_are_judged_in_the_same_way():
    results = {"param_power": np.array([0, 0, 1]), "split0_test_score": np.array([0.9, 0.1, 1.0])}
    results["split1_test_score"] = np.array([0.2, 0.8, 1.0])
    assert plain_score(types.SimpleNamespace(cv_results_=results)) == pytest.approx(0.15)
    assert plain_score(types.SimpleNamespace(cv_results_={})) is None


# commands ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scores")
    table(150, 0).to_csv(folder / "train.csv", index=False)
    test = table(80, 1)
    test.loc[3, "label"] = None
    test.to_csv(folder / "test.csv", index=False)
    return folder


def test_the_score_is_that_of_the_rows_that_were_kept(call, files, tmp_path):
    asked = (
        "fit",
        files / "train.csv",
        "-t",
        "label",
        "--drop",
        "price",
        "-o",
        tmp_path / "m.skops",
    )
    code, out, err = call(*asked, "--test", files / "test.csv", "--json")
    assert code == 0, err
    told = json.loads(out)
    test = pd.read_csv(files / "test.csv").dropna(subset=["label"])
    predicted = load_model(tmp_path / "m.skops").predictor.predict(test[["a", "b", "c", "colour"]])
    assert told["held_out_score"] == (predicted == test.label).mean()
    assert told["scores"]["on"] == f"79 rows of {files / 'test.csv'}"
    code, out, err = call("predict", tmp_path / "m.skops", files / "test.csv")
    assert f"{told['held_out_score']:.1%} of 79 rows are right" in err


def test_rows_to_test_on_are_looked_at_before_the_work(call, files, tmp_path):
    asked = ("fit", files / "train.csv", "-t", "label", "-o", tmp_path / "m.skops")
    table(9, 2).drop(columns="label").to_csv(tmp_path / "bare.csv", index=False)
    table(9, 2).assign(label=None).to_csv(tmp_path / "empty.csv", index=False)
    for name, words in {
        "bare.csv": "there is no column 'label'",
        "empty.csv": "has no row with label to test on",
        "nothing.csv": "there is no such file",
        "-": "--test cannot be standard input",
    }.items():
        path = name if name == "-" else tmp_path / name
        code, out, err = call(*asked, "--test", path)
        assert (code, out) == (1, "")
        assert words in err
        assert not (tmp_path / "m.skops").exists()
    code, _, err = call(*asked, "--test", tmp_path / "m.skops")
    assert code == 1
    assert "is read" in err


@pytest.mark.parametrize("target", ["label", "price"])
def test_pictures_are_drawn(call, files, tmp_path, target):
    asked = ("fit", files / "train.csv", "-t", target, "-o", tmp_path / "m.skops")
    other = {"label": "price", "price": "label"}[target]
    code, out, err = call(*asked, "--drop", other, "--plot", tmp_path / "new" / "pictures")
    assert code == 0, err
    last = {"label": "calibration.png", "price": "predicted_actual.png"}[target]
    names = {"importance.png", "projection.png", "explanation.png", last}
    found = list((tmp_path / "new" / "pictures").iterdir())
    assert {path.name for path in found} == names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in found)
    told = re.findall(r"picture: (.*)", out)
    assert {Path(path).name for path in told} == names
    if target == "label":
        model, rows = tmp_path / "m.skops", files / "test.csv"
        code, _, err = call("explain", model, rows, "--row", 4, "--plot", tmp_path)
        assert f"picture: {tmp_path / 'explanation_row_4.png'}" in err
        code, _, err = call("explain", model, rows, "--plot", tmp_path)
        assert (code, (tmp_path / "contributions.png").exists()) == (0, True), err


def test_pictures_that_cannot_be_drawn(call, files, tmp_path, monkeypatch):
    asked = ("fit", files / "train.csv", "-t", "label", "-o", tmp_path / "m.skops", "--plot")
    code, _, err = call(*asked, files / "train.csv")
    assert code == 1
    assert "it is not a folder" in err
    figure = Figure()
    monkeypatch.setattr(figure, "savefig", lambda file, **options: 1 / 0)
    (tmp_path / "a.png").write_text("older")
    with pytest.raises(ZeroDivisionError):
        write_picture(tmp_path / "a.png", lambda: types.SimpleNamespace(figure_=figure))
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    assert (tmp_path / "a.png").read_text() == "older"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, err = call(*asked, tmp_path)
    assert code == 1
    assert "pictures need matplotlib: pip install 'ejop[plot]'" in err


# terminals --------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_long_messages_are_broken_between_words_in_a_terminal_alone(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    text = "what matters: " + ", ".join(f"column{i} {i}0.5 ± 1.5 %" for i in range(9))
    lines = folded(text, Terminal()).split("\n")
    assert len(lines) > 3
    assert all(len(line) <= 40 for line in lines)
    assert all(line.startswith("  ") for line in lines[1:])
    assert " ".join(map(str.strip, lines)) == text
    assert not any(line.strip().startswith(("%", "±")) for line in lines)
    say(text)
    assert capsys.readouterr().err == f"ejop: {text}\n"


def test_progress_of_quick_work_is_not_shown_in_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with patient(60):
        assert list(track(range(3), 3, None, "Fit", verbose=1)) == [0, 1, 2]
        with working("judging"):
            pass
    assert sys.stderr.getvalue() == ""


def test_progress_moves_while_a_step_takes_long_and_goes_away(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr("ejop.progress.TICK", 0.01)
    with patient(0.02):
        for _ in track(range(1), 1, None, "Fit", verbose=1):
            time.sleep(0.15)
    shown = sys.stderr.getvalue()
    assert len(set(re.findall(r"Fit: 0/1 steps, [\d.]+ s", shown))) > 1
    assert shown.split("\r")[-2].strip() == ""
    assert "\n" not in shown
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert list(track(range(2), 2, None, "Fit", verbose=1)) == [0, 1]  # asked for: it stays
    assert re.search(r"Fit: 2/2 steps, .* 0.0 s left \n$", sys.stderr.getvalue())


def test_a_word_among_numbers_is_pointed_out(capsys):
    ages = [*map(str, range(20, 60)), "k.A."] * 5
    frame = pd.DataFrame({"age": ages, "code": ["a", "b", "c", "d", "e"] * 41})
    TrainingTable(frame, np.arange(205.0), "y", "regression").survey()
    told = capsys.readouterr().err
    assert "age: a category, since k.A. stands among its numbers; --missing k.A. would" in told
    assert "code: a category, since" not in told
