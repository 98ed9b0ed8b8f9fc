"""Learners pulled towards a start: the mixture, the honest choice of its share, what is told."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_wine, make_blobs
from sklearn.preprocessing import StandardScaler

from ejop import EJOP
from ejop.learners import ITML, LMNN, MLR, knn_error
from ejop.learners._initialize import initialize_each
from ejop.learners._pull import (
    SHARES,
    USUAL_SHARE,
    Pull,
    PullTable,
    between,
    compact,
    folds,
    merit,
)

#: fits are short on purpose
pytestmark = pytest.mark.filterwarnings("ignore:.*did not converge")
LEARNERS = {
    "lmnn": LMNN(max_iter=15, random_state=0),
    "itml": ITML(random_state=0),
    "mlr": MLR(C=100.0, max_iter=4, n_queries=50, random_state=0),
}


@pytest.fixture(params=LEARNERS)
def learner(request):
    return clone(LEARNERS[request.param])


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture
def hidden(rng):
    """Classes in two columns of twelve; the others are noise that is larger."""
    X, y = make_blobs(240, centers=6, n_features=2, cluster_std=1.2, random_state=0)
    return np.hstack([X, 8 * rng.normal(size=(240, 10))]), y


def spread(L, X):
    Z = X @ L.T
    return np.mean([np.sum((Z - z) ** 2, axis=1).mean() for z in Z]) / 2


@pytest.mark.parametrize("share", SHARES)
def test_the_metric_lies_between_two(rng, share):
    X, A, B = rng.normal(size=(30, 4)), rng.normal(size=(3, 4)), rng.normal(size=(2, 4))
    L, Z = between(A, B, X, share)
    expected = (1 - share) * A.T @ A / spread(A, X) + share * B.T @ B / spread(B, X)
    np.testing.assert_allclose(L.T @ L, expected)
    np.testing.assert_allclose(Z, X @ L.T)
    small = compact(L)
    assert len(small) <= 4
    np.testing.assert_allclose(small.T @ small, expected, atol=1e-12)


def test_a_map_to_one_point_has_no_part(rng):
    X, A = np.c_[rng.normal(size=(9, 2)), np.ones(9)], np.eye(2, 3)
    L, _ = between(A, np.array([[0.0, 0.0, 1.0]]), X, 0.75)
    np.testing.assert_allclose(L / L[0, 0], A)


def test_a_number_is_the_share_of_the_start(wine):
    X, y = wine
    start = np.diag(np.linspace(0.1, 2, 13))
    alone = LMNN(max_iter=30).fit(X, y)
    mixed = LMNN(max_iter=30, init=start, pull=0.3).fit(X, y)
    expected = 0.7 * alone.get_mahalanobis_matrix() / spread(alone.components_, X)
    expected += 0.3 * start.T @ start / spread(start, X)
    np.testing.assert_allclose(mixed.get_mahalanobis_matrix(), expected, atol=1e-10)
    assert mixed.pull_ == 0.3
    assert mixed.init_ is start
    np.testing.assert_array_equal(mixed.objective_, alone.objective_)
    assert "30 % of the metric" in mixed.message_


def test_the_start_alone_takes_no_iteration(wine, learner):
    X, y = wine
    start = np.diag(np.linspace(0.1, 2, 13))
    learner.set_params(init=start, pull=1.0).fit(X, y)
    np.testing.assert_array_equal(learner.components_, start)
    assert learner.n_iter_ == 0
    assert learner.converged_
    again = learner.set_params(pull=0.5).fit(X, y)  # what the first fit told is gone
    assert again.n_iter_ > 0


def test_no_share_is_the_learner_alone(wine, learner):
    X, y = wine
    alone = clone(learner).fit(X, y)
    mixed = learner.set_params(init="lda", pull=0).fit(X, y)
    np.testing.assert_array_equal(mixed.components_, alone.components_)


def test_it_goes_as_far_as_did_best_in_the_folds(rng):
    """Alone the learner goes on for long after its best map, to see that none is better."""
    y = np.repeat(np.arange(3), 20)
    X = rng.normal(size=(60, 40))
    X[:, :2] += 3 * np.array([[0, 0], [0, 1], [1, 0]])[y]
    alone = LMNN(random_state=0).fit(X, y)
    found = LMNN(init=np.eye(40)[:2], pull="auto", random_state=0).fit(X, y)
    assert 0 < found.pull_ < 1
    assert found.n_iter_ < alone.n_iter_ / 2
    assert found.converged_
    assert "iterations, as many as did best in half of the folds" in found.message_


def test_rank_is_cut_after_mixing(wine, learner):
    X, y = wine
    whole = clone(learner).set_params(init="lda", pull=0.5).fit(X, y)
    few = learner.set_params(init="lda", pull=0.5, n_components=3).fit(X, y)
    assert few.components_.shape == (3, 13)
    values = np.linalg.eigvalsh(whole.get_mahalanobis_matrix())[::-1]
    np.testing.assert_allclose(
        np.linalg.eigvalsh(few.get_mahalanobis_matrix())[::-1][:3], values[:3], rtol=1e-6
    )


def test_a_good_start_is_kept_and_a_bad_one_is_not(hidden, learner):
    X, y = hidden
    good, bad = np.eye(12)[:2], np.eye(12)[2:4]
    found = clone(learner).set_params(init=[bad, good], pull="auto").fit(X[:160], y[:160])
    assert found.init_ is good
    assert found.pull_ >= 0.5
    error = knn_error(found.components_, X[:160], y[:160], X[160:], y[160:], 5)
    assert error <= knn_error(good, X[:160], y[:160], X[160:], y[160:], 5) + 0.05
    alone = learner.set_params(init=bad, pull="auto").fit(X[:160], y[:160])
    assert alone.pull_ <= 0.25


class Memory(BaseEstimator):
    """A start that knows its rows by heart: with more columns than rows any labels can be told."""

    def fit(self, X, y):
        Y = np.eye(int(y.max()) + 1)[y]
        self.components_ = np.linalg.lstsq(X - X.mean(0), Y - Y.mean(0), rcond=None)[0].T
        return self

    def transform(self, X):
        return X @ self.components_.T


def test_rows_that_a_start_has_seen_do_not_judge_it(rng):
    """Judged by its own rows this start errs never; by others it is hopeless."""
    y = np.repeat(np.arange(3), 20)
    X = rng.normal(size=(60, 100))
    X[:, :2] += 6 * np.array([[0, 0], [0, 1], [1, 0]])[y]
    plain, wise = np.eye(100)[:2], Memory()
    own = Memory().fit(X, y).components_
    assert knn_error(own, X, y, X, y, 3) == 0
    found = LMNN(max_iter=4, init=[wise, plain], pull="auto", random_state=0).fit(X, y)
    assert found.init_ is plain
    assert found.pull_errors_[0, 1.0] > found.pull_errors_[1, 1.0] + 0.1


def test_every_row_judges_once_and_enough_of_many(rng):
    y = np.r_[np.arange(50) % 5, 7, 8]
    X = rng.normal(size=(52, 2))
    parts = folds(X, y, np.random.RandomState(0))
    assert len(parts) == 4
    np.testing.assert_array_equal(np.sort(np.concatenate([b for _, b in parts])), np.arange(50))
    for seen, held in parts:  # rows alone in their class are learned from
        np.testing.assert_array_equal(np.sort(np.r_[seen, held]), np.arange(52))
    y = np.arange(9000) % 3
    assert len(folds(np.zeros((9000, 1)), y, np.random.RandomState(0))) == 1


def test_merit_is_a_mean_over_numbers_of_neighbours():
    Z, y = np.arange(9.0)[:, None], np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    error, doubt = merit(Z, y, np.array([[0.1], [8.0]]), np.array([0, 1]))
    np.testing.assert_allclose(error, [0.25, 0.0])  # nine vote for 1
    np.testing.assert_allclose(doubt[0], np.mean([0, 1 / 5, 3 / 7, 5 / 9]))


def test_the_smallest_share_within_one_error_of_the_lowest(rng):
    """Half of 400 rows err by chance; where the same rows err, little makes a difference."""
    errs = (rng.random(400) < 0.5).astype(float)
    worse, hardly = errs.copy(), errs.copy()
    worse[np.flatnonzero(errs == 0)[:20]] = 1
    hardly[np.flatnonzero(errs == 0)[:2]] = 1
    hardly[np.flatnonzero(errs == 1)[:1]] = 0

    def judged(errors):
        halves = np.split(errors, 2)
        return [np.stack([half, np.full(200, 0.5)]) for half in halves]

    found = {Pull(0, 0.0): judged(worse), Pull(0, 0.5): judged(errs)}
    assert PullTable(found).best() == Pull(0, 0.5)
    assert PullTable(found).errors()[0, 0.0] == pytest.approx(worse.mean())
    found[Pull(1, 0.25)] = judged(hardly)
    assert PullTable(found).best() == Pull(1, 0.25)
    found[Pull(0, 0.25)] = judged(errs)
    assert PullTable(found).best() == Pull(0, 0.25)


def test_starts_that_differ_in_power_are_fitted_once(wine, monkeypatch):
    X, y = wine
    starts = [
        EJOP("ridge", power=0.5, random_state=0),
        EJOP("ridge", power=1.0, shrinkage=0.1, n_components=4, random_state=0),
        EJOP("ridge", bandwidth=9.0, random_state=0),
    ]
    expected = [clone(start).fit(X, y).components_ for start in starts]
    fits, fit = [], EJOP.fit
    monkeypatch.setattr(EJOP, "fit", lambda self, *rows: fits.append(self) or fit(self, *rows))
    found = initialize_each(starts, X, y)
    assert len(fits) == 2
    for L, M in zip(found, expected, strict=True):
        np.testing.assert_allclose(L.T @ L, M.T @ M, atol=1e-10)


def test_what_a_learner_chooses_is_chosen_in_the_first_fold(wine):
    X, y = wine
    found = ITML(pull="auto", random_state=0).fit(X, y)
    if found.pull_ < 1:
        assert found.gamma_ in (0.0, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0, 10.0)
        assert found.gamma_errors_ == {}  # the fit on all rows did not choose again
    assert set(found.pull_errors_) == {(0, share) for share in SHARES}


def test_the_same_seed_gives_the_same_metric(wine, learner):
    X, y = wine
    learner.set_params(init="ejop", pull="auto")
    one, two = clone(learner).fit(X, y), clone(learner).fit(X, y)
    np.testing.assert_array_equal(one.components_, two.components_)
    assert one.pull_errors_ == two.pull_errors_


def test_too_few_rows_to_choose(learner):
    X, y = np.array([[0.0, 1.0], [1.0, 0.0], [5.0, 1.0]]), np.array([0, 0, 1])
    found = learner.set_params(init=np.eye(2), pull="auto").fit(X, y)
    assert found.pull_ == USUAL_SHARE
    assert found.pull_errors_ == {}


def test_several_starts_need_a_choice(wine, learner):
    X, y = wine
    for pull in (None, 0.5):
        learner.set_params(init=["pca", np.eye(13)], pull=pull)
        with pytest.raises(ValueError, match="names 2 starts and `pull`="):
            learner.fit(X, y)
    with pytest.raises(ValueError, match="'pull' parameter"):
        learner.set_params(init="pca", pull=1.5).fit(X, y)
