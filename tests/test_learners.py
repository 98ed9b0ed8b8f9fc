"""What every metric learner shares, scikit-learn's own included."""

import io
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ejop import EJOP, initialize
from ejop.learners import ITML, LMNN, MLR, ReliefF

LEARNERS = {
    "relieff": ReliefF(),
    "lmnn": LMNN(random_state=0),
    "itml": ITML(random_state=0),
    "mlr": MLR(C=100.0, random_state=0),
}
STARTED = [name for name in LEARNERS if name != "relieff"]


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True, as_frame=True)
    X = StandardScaler().set_output(transform="pandas").fit_transform(X)
    return train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)


@pytest.fixture(params=LEARNERS)
def learner(request):
    return clone(LEARNERS[request.param])


def test_one_face(wine, learner):
    Xa, Xb, ya, _ = wine
    names = np.array(["barolo", "grignolino", "barbera"])[ya]
    learner.fit(Xa, names)
    L = learner.components_
    assert L.shape == (learner.transform(Xb).shape[1], 13)
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), L.T @ L)
    pairs = np.stack([Xa.to_numpy()[:5], Xa.to_numpy()[5:10]], axis=1)
    mapped = learner.transform(Xa)
    np.testing.assert_allclose(
        learner.pair_distance(pairs), np.linalg.norm(mapped[:5] - mapped[5:10], axis=1)
    )
    assert learner.get_metric()(pairs[0, 0], pairs[0, 1]) == pytest.approx(
        learner.pair_distance(pairs)[0]
    )
    assert len(learner.objective_) == learner.n_iter_ >= 1
    assert isinstance(learner.converged_, bool)
    assert learner.message_
    assert list(learner.feature_names_in_) == list(Xa.columns)
    np.testing.assert_array_equal(learner.classes_, np.unique(names))
    again = pickle.loads(pickle.dumps(learner))
    np.testing.assert_array_equal(again.transform(Xb), learner.transform(Xb))


def test_neighbours_vote_no_worse(wine, learner):
    Xa, Xb, ya, yb = wine
    plain = KNeighborsClassifier().fit(Xa, ya).score(Xb, yb)
    learned = make_pipeline(learner, KNeighborsClassifier()).fit(Xa, ya).score(Xb, yb)
    assert learned >= plain - 0.03
    out = learner.set_output(transform="pandas").transform(Xb)
    assert isinstance(out, pd.DataFrame)
    assert list(out.index) == list(Xb.index)


@pytest.mark.parametrize("name", STARTED)
@pytest.mark.parametrize(
    "start",
    [
        {"init": "pca"},
        {"init": "lda"},
        {"init": "ejop"},
        {"init": EJOP(n_components=4)},
        {"init": np.eye(5, 13)},
        {"init_metric": np.diag(np.arange(13.0))},
        {"init": "ejop", "n_components": 2},
    ],
    ids=["pca", "lda", "ejop", "estimator", "array", "metric", "rank"],
)
def test_every_start(wine, name, start):
    Xa, Xb, ya, yb = wine
    learner = clone(LEARNERS[name]).set_params(**start).fit(Xa, ya)
    assert np.isfinite(learner.components_).all()
    assert len(learner.components_) <= (start.get("n_components") or 13)
    score = KNeighborsClassifier().fit(learner.transform(Xa), ya).score(learner.transform(Xb), yb)
    assert score > 0.8


@pytest.mark.parametrize("name", STARTED)
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"init": np.ones((3, 4))}, r"\(n_components, 13\) was expected"),
        ({"init_metric": -np.eye(13)}, "not positive semi-definite"),
        ({"init_metric": np.triu(np.ones((13, 13)))}, "not symmetric"),
        ({"n_components": 14}, "`n_components`=14"),
    ],
)
def test_bad_starts(wine, name, bad, message):
    Xa, _, ya, _ = wine
    with pytest.raises(ValueError, match=message):
        clone(LEARNERS[name]).set_params(**bad).fit(Xa, ya)


def test_one_class(wine, learner):
    with pytest.raises(ValueError, match="one class"):
        learner.fit(wine[0], np.zeros(len(wine[0])))


def test_an_interrupted_fit_leaves_nothing_fitted(wine, learner, monkeypatch):
    """Ctrl-C while the first progress is written, in the midst of learning."""
    Xa, Xb, ya, _ = wine
    learner.fit(Xa, ya).set_params(verbose=1)

    class Terminal(io.StringIO):
        def write(self, text):
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stderr", Terminal())
    with pytest.raises(KeyboardInterrupt):
        learner.fit(Xa, ya)
    with pytest.raises(NotFittedError):
        learner.transform(Xb)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_the_scale_of_x_does_not_matter(wine, learner, scale):
    Xa, Xb, ya, _ = wine
    Xa, Xb = Xa.to_numpy(), Xb.to_numpy()
    plain = clone(learner).fit(Xa, ya)
    scaled = learner.fit(scale * Xa, ya)
    ours, theirs = scaled.transform(scale * Xb), plain.transform(Xb)
    ratio = np.linalg.norm(ours) / np.linalg.norm(theirs)
    np.testing.assert_allclose(ours @ ours.T, ratio**2 * theirs @ theirs.T, rtol=0.02, atol=0.02)


def test_nca_starts_from_ejop(wine):
    """scikit-learn's learner takes the components as they are, and gains from them."""
    Xa, Xb, ya, yb = wine
    ejop = EJOP(n_components=2).fit(Xa, ya)
    nca = NeighborhoodComponentsAnalysis(2, init=ejop.components_, max_iter=1).fit(Xa, ya)
    plain = NeighborhoodComponentsAnalysis(2, init="identity", max_iter=1).fit(Xa, ya)
    score = [
        KNeighborsClassifier(3).fit(m.transform(Xa), ya).score(m.transform(Xb), yb)
        for m in (nca, plain)
    ]
    assert score[0] > score[1] + 0.02  # one iteration from the identity is two columns still
    assert initialize(nca, Xa).shape == (2, 13)
