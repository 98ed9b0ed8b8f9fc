"""Kernel machines for many rows: centres, conjugate gradients, rows that are only read."""

import signal
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score
from threadpoolctl import threadpool_limits

import reference
from ejop import EGOPRegressor, EJOPClassifier
from ejop.arrays import diagonal_of
from ejop.rules import RidgeRule
from ejop.rules._chains import pooled
from ejop.rules._passing import PassRows
from ejop.rules._streamed import StreamedSearch
from ejop.sums.conjugate import (
    FLOAT32,
    FLOAT64,
    JITTER,
    ConjugateSystem,
    RowPasses,
    SharedPasses,
    fits_single,
)
from ejop.sums.engine import HOST
from ejop.sums.ridge import RIDGE_KERNELS

KERNELS = list(RIDGE_KERNELS)


def engine_of(name):
    if name == "numpy":
        return HOST
    torch = pytest.importorskip("torch")
    from ejop.sums.torch_engine import TorchEngine

    return TorchEngine(torch.device("cpu"), "float64")


def rows_of(rng, n=300, d=3, c=2, m=40):
    Z = rng.normal(size=(n, d))
    R = np.column_stack([np.sin(2 * Z[:, 0]), Z[:, 1] * Z[:, 2]])[:, :c]
    return Z, R, Z[:m]


def passes_of(engine, Z, R, w=None, kind=FLOAT64):
    weights = np.ones(len(Z)) if w is None else w

    def read(start, stop):
        column = None if w is None else engine.array(w[start:stop, None], kind)
        return engine.array(Z[start:stop], kind), engine.array(R[start:stop], kind), column

    return RowPasses(read, len(Z), float(weights.sum()))


def solved(system, passes, n_outputs, steps=200):
    for k, descent in enumerate(system.descend(passes, n_outputs)):
        if descent.share < 1e-12 or k == steps:
            break
    return descent.coefficients


@pytest.mark.parametrize("engine", ["numpy", "torch"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_passes_solve_what_one_matrix_would(rng, kernel, weighted, engine):
    engine = engine_of(engine)
    Z, R, centers = rows_of(rng)
    w = rng.uniform(0, 2, size=len(Z)) if weighted else None
    passes = passes_of(engine, Z, R, w)
    system = ConjugateSystem.of(kernel, centers, 1.5, 0.1, passes.weight, engine, single=False)
    a = solved(system, passes, 2)
    exact = RIDGE_KERNELS[kernel].at(HOST, centers, 1.5)
    own, K = exact.kernel(exact.Z), exact.kernel(Z)
    diagonal_of(own)[:] += JITTER[FLOAT64] * len(own)
    twin = reference.centers_ridge(K, own, R, np.ones(len(Z)) if w is None else w, 0.1)
    np.testing.assert_allclose(K @ a, K @ twin, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_sums_in_float32_give_the_same_answers(rng, kernel):
    Z, R, centers = rows_of(rng, n=2000, m=150)
    found = {}
    for kind in (FLOAT32, FLOAT64):
        passes = passes_of(HOST, Z.astype(kind), R.astype(kind), None, kind)
        system = ConjugateSystem.of(kernel, centers, 2.0, 1.0, 2000.0, HOST, single=kind == FLOAT32)
        assert system.centers.Z.dtype == kind
        K = RIDGE_KERNELS[kernel].at(HOST, centers, 2.0).kernel(Z)
        found[kind] = K @ solved(system, passes, 2, steps=30)
    single, double = (((found[kind] - R) ** 2).mean() for kind in (FLOAT32, FLOAT64))
    np.testing.assert_allclose(single, double, rtol=0.02)


def test_a_pass_is_the_same_however_it_is_cut(rng, monkeypatch):
    Z, R, centers = rows_of(rng)
    passes = passes_of(HOST, Z, R)
    system = ConjugateSystem.of("laplace", centers, 1.5, 0.1, 300.0, HOST, single=False)
    u = rng.normal(size=(len(centers), 2))
    K = system.centers.kernel(Z)
    for against, twin in ((False, K.T @ (K @ u)), (True, K.T @ (R - K @ u))):
        for rows in (1, 7, 300):
            monkeypatch.setattr("ejop.sums.conjugate.block_rows", lambda *_, rows=rows: rows)
            found = passes.correlate(system.centers, u, against=against)
            np.testing.assert_allclose(found, twin, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("engine", ["numpy", "torch"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_pass_is_shared_among_devices(rng, kernel, engine):
    Z, R, centers = rows_of(rng)
    w = rng.uniform(0, 2, size=len(Z))
    whole = passes_of(HOST, Z, R, w)
    system = ConjugateSystem.of(kernel, centers, 1.5, 0.1, whole.weight, HOST, single=False)
    cuts = [slice(0, 90), slice(90, 91), slice(91, None)]
    engines = [HOST, engine_of(engine), engine_of(engine)]
    shared = SharedPasses(
        [(e, passes_of(e, Z[s], R[s], w[s])) for e, s in zip(engines, cuts, strict=True)]
    )
    assert shared.weight == pytest.approx(whole.weight)
    u = rng.normal(size=(len(centers), 2))
    for against in (False, True):
        twin = whole.correlate(system.centers, u, against=against)
        found = shared.correlate(system.centers, u, against=against)
        np.testing.assert_allclose(found, twin, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("kernel", "h"), [("gaussian", 1.0), ("laplace", 3.0)])
def test_few_passes_do(rng, kernel, h):
    Z, R, centers = rows_of(rng, n=3000, m=100)
    system = ConjugateSystem.of(kernel, centers, h, 0.01, 3000.0, HOST, single=False)
    K, losses = system.centers.kernel(Z), []
    for descent in islice(system.descend(passes_of(HOST, Z, R), 2), 61):
        losses.append(((K @ descent.coefficients - R) ** 2).mean())
    assert losses[8] < 1.15 * losses[60]  # 1.2 and 1.5 without the factor, 6 without its floor


def test_a_start_is_gone_on_from(rng):
    Z, R, centers = rows_of(rng)
    passes = passes_of(HOST, Z, R)
    system = ConjugateSystem.of("laplace", centers, 1.5, 0.1, 300.0, HOST, single=False)
    a = solved(system, passes, 2)
    again = next(iter(system.descend(passes, 2, start=a))).coefficients
    np.testing.assert_allclose(again, a, rtol=1e-6, atol=1e-8)


def test_far_rows_want_double_precision(rng):
    Z = rng.normal(size=(50, 2))
    assert fits_single(Z, 1.0)
    assert not fits_single(Z + 1000, 1.0)


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_a_pool_is_ridge_on_centres(rng, engine):
    engine = engine_of(engine)
    Z, R, _ = rows_of(rng)
    w, J = rng.uniform(0.5, 1.5, size=len(Z)), rng.normal(size=(20, 3))
    asked = []
    best = pooled(
        engine, "gaussian", Z, R, w, np.arange(40), 1.5, J, lambda v: asked.append(v) or 1.0
    )
    exact = RIDGE_KERNELS["gaussian"].at(HOST, Z[:40], 1.5)
    own, K = exact.kernel(exact.Z), exact.kernel(Z)
    diagonal_of(own)[:] += 1e-10 * len(own)
    twin = reference.centers_ridge(K, own, R, w, best.penalty)
    np.testing.assert_allclose(asked[0], exact.kernel(J) @ twin, atol=1e-6)


# the rule -----------------------------------------------------------------------------------------

QUICK = {"max_rows": 120, "kernels": ("gaussian", "laplace")}


def classes(n, seed, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.array(["low", "middle", "high"])[np.digitize(X[:, 0] * X[:, 1], [-0.4, 0.4])]


def targets(n, seed, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


@pytest.fixture(scope="module")
def classifier():
    X, y = classes(600, 0)
    return EJOPClassifier(RidgeRule(**QUICK), random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def regressor():
    X, y = targets(600, 0)
    return EGOPRegressor(RidgeRule(**QUICK), random_state=0).fit(X, y)


def test_all_rows_are_learned_from(classifier, regressor):
    B, b = classes(600, 1)
    few = EJOPClassifier(RidgeRule(kernels=QUICK["kernels"]), random_state=0).fit(*classes(120, 0))
    assert classifier.score(B, b) > few.score(B, b) + 0.03
    assert regressor.score(*targets(600, 1)) > 0.95
    assert any("solved for all 600 rows" in note for note in classifier.plan_.notes)


def test_as_good_as_one_matrix(classifier):
    B, b = classes(600, 1)
    whole = EJOPClassifier(RidgeRule(kernels=QUICK["kernels"]), random_state=0)
    assert classifier.score(B, b) > whole.fit(*classes(600, 0)).score(B, b) - 0.02


def test_what_is_told_comes_from_rows_that_were_put_aside(classifier, regressor):
    B, b = classes(2000, 1)
    assert abs(classifier.best_score_ - classifier.score(B, b)) < 0.1
    rule = classifier.rule_
    assert len(rule.honest_) == len(rule.judged_) == 60
    sets = classifier.predict_set(B, coverage=0.9)
    inside = np.asarray(sets)[np.arange(len(b)), np.searchsorted(classifier.classes_, b)]
    assert 0.83 < inside.mean() < 1
    B, b = targets(2000, 1)
    low, high = np.asarray(regressor.predict_interval(B, coverage=0.9)).T
    assert 0.8 < ((low <= b) & (b <= high)).mean() < 0.97


def test_a_model_holds_some_rows_and_knows_their_numbers(classifier):
    X, _ = classes(600, 0)
    kept = classifier.kept_
    assert len(np.unique(kept)) == len(kept)
    distances, rows = classifier.kneighbors(X[kept[:5]], 1)
    np.testing.assert_array_equal(rows[:, 0], kept[:5])
    np.testing.assert_allclose(distances, 0, atol=1e-6)


def test_explanations_and_importances_hold(classifier, regressor):
    B, _ = classes(20, 1)
    found = classifier.explain(B)
    np.testing.assert_allclose(found.base + found.values.sum(1), found.answer, atol=1e-3)
    assert set(np.argsort(classifier.feature_importances_)[-2:]) == {0, 1}
    found = regressor.importances()
    assert set(np.argsort(found.values)[-2:]) == {0, 1}
    assert (found.stderr > 0).all()
    assert found.stderr.max() < 0.1


def test_float32_and_rows_on_disk_answer_the_same(tmp_path, regressor):
    X, y = targets(600, 0)
    path = tmp_path / "rows.npy"
    np.save(path, X.astype(np.float32))
    mapped = np.load(path, mmap_mode="r")
    model = clone(regressor).fit(mapped, y)
    in_memory = clone(regressor).fit(np.array(mapped), y)
    B, _ = targets(50, 1)
    np.testing.assert_array_equal(model.predict(B), in_memory.predict(B))
    assert np.abs(model.predict(B) - regressor.predict(B)).mean() < 0.02


def test_threads_change_nothing(regressor):
    X, y = targets(600, 0)
    with threadpool_limits(1):
        alone = clone(regressor).set_params(n_jobs=1).fit(X, y)
    B, _ = targets(50, 1)
    np.testing.assert_allclose(alone.predict(B), regressor.predict(B), atol=1e-6)


def test_rows_of_weight_zero_are_no_rows():
    X, y = targets(500, 0)
    w = np.ones(500)
    w[::3] = 0
    spoiled = np.where(w > 0, y, 1e3)
    model = EGOPRegressor(RidgeRule(**QUICK), random_state=0).fit(X, spoiled, sample_weight=w)
    assert model.score(*targets(300, 1)) > 0.9
    assert not np.isin(model.kept_, np.flatnonzero(w == 0)).any()


def test_weights_count():
    X, y = targets(500, 0)
    side = X[:, 2] > 0
    model = EGOPRegressor(RidgeRule(**QUICK), random_state=0)
    heavy = clone(model).fit(X, y + 3 * side, sample_weight=np.where(side, 1.0, 1e-3))
    B, b = targets(300, 1)
    part = B[:, 2] > 0.3
    assert np.abs(heavy.predict(B[part]) - b[part] - 3).mean() < 0.4


def test_several_targets_and_labels():
    X, y = targets(500, 0)
    both = EGOPRegressor(RidgeRule(**QUICK), random_state=0).fit(X, np.column_stack([y, X[:, 2]]))
    assert both.predict(X[:3]).shape == (3, 2)
    assert both.score(X, np.column_stack([y, X[:, 2]])) > 0.9
    labels = np.column_stack([X[:, 0] > 0, X[:, 1] > 0]).astype(int)
    model = EJOPClassifier(RidgeRule(**QUICK), random_state=0).fit(X, labels)
    assert accuracy_score(labels, model.predict(X)) > 0.85


@pytest.mark.parametrize("scoring", ["log_loss", "balanced_accuracy"])
def test_scoring_judges(scoring):
    X, y = classes(500, 0)
    model = EJOPClassifier(RidgeRule(**QUICK, scoring=scoring), random_state=0).fit(X, y)
    assert model.score(*classes(300, 1)) > 0.7


def test_centres_as_asked():
    X, y = targets(600, 0)
    model = EGOPRegressor(RidgeRule(**QUICK, n_centers=60), random_state=0).fit(X, y)
    assert {len(one.coefficients) for one in model.rule_.members_} == {60}
    no_maps = RidgeRule(**QUICK, n_rounds=0)
    model = EGOPRegressor(no_maps, random_state=0).fit(X, y)
    assert all(one.L is None for one in model.rule_.members_)


def test_time_is_kept_to():
    X, y = targets(600, 0)
    model = EGOPRegressor(RidgeRule(**QUICK, time_limit=1e-3), random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X[:5])).all()


def test_two_devices_answer_as_one(monkeypatch, regressor):
    pytest.importorskip("torch")
    X, y = targets(600, 0)
    used = []
    part = PassRows._part

    def noted(self, engine, chain, rows, weights, places, kind):
        used.append((id(engine) if kind == FLOAT32 else None, len(places)))
        return part(self, engine, chain, rows, weights, places, kind)

    one = clone(regressor).set_params(device="cpu").fit(X, y)
    monkeypatch.setattr(PassRows, "_part", noted)
    two = clone(regressor).set_params(device=["cpu", "cpu"]).fit(X, y)
    assert {n for _, n in used} <= {240, 300}  # half of 480 rows, or of 600
    assert len({engine for engine, _ in used} - {None}) == 2
    B, b = targets(300, 1)
    assert np.abs(two.predict(B) - one.predict(B)).mean() < 0.01  # sums in float32
    assert two.score(B, b) > 0.95


# checkpoints --------------------------------------------------------------------------------------


class Stop(Exception):
    pass


def stop_after(monkeypatch, n_steps, told):
    run = StreamedSearch.run

    def few(self, chains):
        for k, text in enumerate(run(self, chains)):
            told.append(text)
            if k == n_steps:
                raise Stop
            yield text
        raise Stop

    monkeypatch.setattr(StreamedSearch, "run", few)


@pytest.mark.parametrize("n_steps", [2, 20, 10**3])
def test_a_stopped_fit_goes_on(tmp_path, monkeypatch, regressor, n_steps):
    X, y = targets(600, 0)
    path = tmp_path / "fit.npz"
    model = clone(regressor).set_params(rule__checkpoint=path)
    told = []
    with monkeypatch.context() as patched:
        stop_after(patched, n_steps, told)
        with pytest.raises(Stop):
            model.fit(X, y)
    assert path.exists()
    begun = []
    with monkeypatch.context() as patched:
        solve = StreamedSearch._improved

        def counted(self, chain):
            if self.checkpoint.found(chain.name) is None:
                begun.append(chain.name)
            return solve(self, chain)

        patched.setattr(StreamedSearch, "_improved", counted)
        model.fit(X, y)
    assert not path.exists()
    assert not {text.partition(", ")[2] for text in told if text.startswith("round")} & set(begun)
    B, _ = targets(50, 1)
    np.testing.assert_allclose(model.predict(B), regressor.predict(B), rtol=1e-9, atol=1e-9)


KILLED = """
import os, signal, sys
import numpy as np
from ejop import EGOPRegressor
from ejop.rules import RidgeRule
from ejop.rules._checkpoint import Checkpoint

folder, when = sys.argv[1:]
keep, save = Checkpoint.keep, np.savez
def die(): os.kill(os.getpid(), signal.SIGKILL)
def kept(self, name, arrays):
    found = keep(self, name, arrays)
    if when in name and arrays.get("passes") == 1: die()
    return found
def half(file, **arrays):
    save(file, **arrays)
    if when == "half" and len(arrays) > 30:
        file.truncate(file.tell() // 2)
        die()
Checkpoint.keep, np.savez = kept, half
X, y = np.load(folder + "/X.npy"), np.load(folder + "/y.npy")
rule = RidgeRule(max_rows=120, kernels=("gaussian", "laplace"), checkpoint=folder + "/fit.npz")
model = EGOPRegressor(rule, random_state=0).fit(X, y)
np.save(folder + "/answers.npy", model.predict(X[:50]))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize("when", [" last", "half"])
def test_a_killed_process_goes_on(tmp_path, regressor, when):
    X, y = targets(600, 0)
    for name, values in (("X", X), ("y", y)):
        np.save(tmp_path / f"{name}.npy", values)

    def started(when):
        return subprocess.run(
            [sys.executable, "-c", KILLED, tmp_path, when],
            capture_output=True,
            text=True,
            timeout=120,
        )

    done = started(when)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = [path.name for path in tmp_path.glob(".*")]
    assert len(left) == (when == "half")  # and the checkpoint is whole all the same
    with np.load(tmp_path / "fit.npz") as file:
        assert len(file.files) > 20
    done = started("never")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["X.npy", "answers.npy", "y.npy"]
    answers = np.load(tmp_path / "answers.npy")
    np.testing.assert_allclose(answers, regressor.predict(X[:50]), rtol=1e-7, atol=1e-7)


def test_a_checkpoint_says_where_it_keeps_nothing(tmp_path):
    X, y = targets(60, 0)
    rule = RidgeRule(kernels=["gaussian"], checkpoint=tmp_path / "fit.npz")
    notes = EGOPRegressor(rule, random_state=0).fit(X, y).rule_.notes_
    assert notes[-1] == "checkpoint: nothing to keep, 60 rows are solved in one step"


def test_a_checkpoint_of_another_fit_is_refused(tmp_path, monkeypatch, regressor):
    X, y = targets(600, 0)
    path = tmp_path / "fit.npz"
    model = clone(regressor).set_params(rule__checkpoint=str(path))
    with monkeypatch.context() as patched:
        stop_after(patched, 1, [])
        with pytest.raises(Stop):
            model.fit(X, y)
    with pytest.raises(ValueError, match=r"`checkpoint`.*other rows or settings"):
        model.fit(X, y + 1 + X[:, 0])
    path.write_bytes(b"PK nonsense")
    with pytest.raises(ValueError, match=r"`checkpoint`.*cannot be read|that can be read"):
        model.fit(X, y)
    with pytest.raises(OSError, match="there is no folder"):
        clone(model).set_params(rule__checkpoint=tmp_path / "no" / "fit.npz").fit(X, y)
