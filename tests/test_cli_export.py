"""``ejop export``: a saved model in the shell."""

import numpy as np
import pandas as pd
import pytest

from ejop.cli.app import run
from ejop.cli.models import load_model
from ejop.export import read_npz
from ejop.neighbors import nearest


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table, its model, and the model's map."""
    folder = tmp_path_factory.mktemp("export")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 4)) + [0, 5, 50, 0], columns=list("abcd"))
    frame["kind"] = np.where(frame.a + frame.d > 0, "yes", "no")
    frame.to_csv(folder / "table.csv", index=False)
    mixed = frame.assign(city=np.tile(["x", "y", "z"], 40))
    mixed.to_csv(folder / "mixed.csv", index=False)
    for name in ("table", "mixed"):
        path, how = folder / name, ["--rule", "knn", "--scale", "standard", "--seed", "0"]
        with pytest.raises(SystemExit) as stop:
            run(["fit", f"{path}.csv", "--target", "kind", "--out", f"{path}.skops", *how])
        assert not stop.value.code
    return folder, frame, load_model(folder / "table.skops").predictor


@pytest.fixture
def shell(capsys):
    """Run the command line: exit code, output, messages."""

    def called(*args):
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            run([*map(str, args)])
        return stop.value.code or 0, *capsys.readouterr()

    return called


def test_the_command_line_writes_each_form(made, tmp_path, shell):
    folder, frame, model = made
    pytest.importorskip("faiss")
    args = ["export", folder / "table.skops", "--to", "npz", "--out", tmp_path / "map.npz"]
    assert shell(*args) == (0, "", f"ejop: wrote {tmp_path / 'map.npz'}\n")
    X = frame[list("abcd")]
    np.testing.assert_allclose(read_npz(tmp_path / "map.npz")(X), model.transform(X), atol=1e-4)
    out = tmp_path / "map.sql"
    where = ["--table", "items", "--column", "embedding", "--form", "query"]
    shell("export", folder / "table.skops", "--to", "pgvector", "--out", out, *where)
    assert 'FROM "items" ORDER BY "embedding" <#> "ejop_query"(x)' in out.read_text()
    out, rows = tmp_path / "rows.faiss", ["--rows", folder / "table.csv", "--components", "2"]
    _, told, _ = shell("export", folder / "table.skops", "--to", "faiss", "--out", out, *rows)
    import faiss

    found = faiss.read_index(str(out)).search(X[:20].to_numpy(np.float32), 3)[1]
    Z = model.transform(X)[:, :2]
    np.testing.assert_array_equal(found, nearest(Z[:20], Z, 3)[1])
    assert "2 directions, float32" in told
    assert "written" in told


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--to", "milvus", "--out", "a.npz"], "--to milvus is not known; use one of faiss"),
        (["--to", "npz", "--out", "a.txt"], "its name must end in .npz"),
        (["--to", "npz", "--out", "no/a.npz"], "there is no folder no"),
        (["--to", "npz", "--out", "a.npz", "--components", "0"], "`n_components`=0 must lie"),
        (["--to", "npz", "--out", "a.npz", "--components", "9"], "`n_components`=9 must lie"),
        (
            ["--to", "npz", "--out", "a.npz", "--index", "Flat"],
            "--index does not apply to --to npz",
        ),
        (["--to", "hnswlib", "--out", "a.bin"], "--to hnswlib needs --rows"),
        (["--to", "pgvector", "--out", "a.sql", "--table", "t"], "--to pgvector needs --column"),
        (
            ["--to", "onnx", "--out", "a.onnx", "--predictor", "--float16"],
            "--float16 does not apply to --predictor",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(made, tmp_path, shell, monkeypatch, args, message):
    monkeypatch.chdir(tmp_path)
    code, out, told = shell("export", made[0] / "table.skops", *args)
    assert (code, out, told.count("\n")) == (1, "", 1)
    assert message in told
    assert list(tmp_path.iterdir()) == []


def test_a_model_with_categories_is_exported_for_its_scaled_rows(made, tmp_path, shell):
    args = ["export", made[0] / "mixed.skops", "--to", "npz", "--out", tmp_path / "map.npz"]
    code, _, told = shell(*args)
    assert code == 1
    assert "'city' is a category, which no matrix maps" in told
    assert shell(*args, "--scaled")[0] == 0
    assert read_npz(tmp_path / "map.npz").n_features == 7
