"""Data sets: found, checked, downloaded whole or not at all; and the errors when they are not."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from http.client import IncompleteRead
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets
from scipy.io import savemat
from sklearn.neighbors import KNeighborsClassifier

from ejop import datasets
from ejop.datasets import DATASETS, DataCorrupted, DataNotFound, available, get, load_dataset
from ejop.datasets._download import convert, fingerprint
from ejop.datasets._lookup import store

RNG = np.random.default_rng(0)
X = RNG.integers(0, 9, size=(12, 3)).astype(np.uint8)
Y = np.arange(12) % 3
SPLIT = np.repeat([0, 1], [8, 4])
REAL = os.environ.get("EJOP_DATA", "")
needs_data = pytest.mark.skipif(not REAL, reason="EJOP_DATA is not set: no real data at hand")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """An empty home for the cache, no data folder, and no network."""
    monkeypatch.delenv("EJOP_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))

    def no_network(*args, **kwargs):
        raise URLError("no network")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", no_network)
    monkeypatch.setattr("pooch.retrieve", no_network)
    return tmp_path / "home" / "ejop"


@pytest.fixture
def small(monkeypatch):
    """A registry in which usps and a domain of Office-Caltech are twelve rows."""
    rows, order = fingerprint(X, Y, 0)
    facts = {"rows": 12, "features": 3, "classes": 3, "dtype": "float64", "class_names": ()}
    content = {"rows_sha256": rows, "order_sha256": order}
    runs = {"split": {0: 8, 1: 4}}
    usps = replace(DATASETS["usps"], decimals=0, runs=runs, **facts, **content)
    monkeypatch.setitem(DATASETS, "usps", usps)
    webcam = replace(DATASETS["office_caltech_webcam"], **facts, **content)
    monkeypatch.setitem(DATASETS, webcam.name, webcam)


def folder_with(folder, monkeypatch, name="usps", **arrays):
    """Write an archive in the layout of a data folder and make it the registry's."""
    path = folder / DATASETS[name].file
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **(arrays or {"X": X, "y": Y, "split": SPLIT}))
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], sha256=checksum))
    return path


def fake_openml(monkeypatch, data=X, target=None):
    calls = []
    labels = (Y + 1).astype(str).astype(object) if target is None else target

    def fetch(**options):
        calls.append(options)
        return SimpleNamespace(data=data.astype(float), target=labels)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    return calls


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.usefixtures("small")
class TestLocalFiles:
    def test_bunch(self, tmp_path, monkeypatch):
        path = folder_with(tmp_path, monkeypatch)
        bunch = datasets.load_usps(data_dir=tmp_path)
        np.testing.assert_array_equal(bunch.data, X)
        np.testing.assert_array_equal(bunch.target, Y)
        np.testing.assert_array_equal(bunch.split, SPLIT)
        assert bunch.data.dtype == np.float64
        assert bunch.target.dtype == np.int64
        assert bunch.feature_names == ["pixel0", "pixel1", "pixel2"]
        assert bunch.target_names.tolist() == ["0", "1", "2"]
        assert bunch.filename == str(path)
        assert "Terms:" in bunch.DESCR

    def test_X_y_and_frames(self, tmp_path, monkeypatch):
        folder_with(tmp_path, monkeypatch)
        data, target = datasets.load_usps(data_dir=tmp_path, return_X_y=True)
        assert isinstance(data, np.ndarray)
        assert isinstance(target, np.ndarray)
        data, target = datasets.load_usps(data_dir=tmp_path, return_X_y=True, as_frame=True)
        assert list(data) == ["pixel0", "pixel1", "pixel2"]
        assert target.name == "target"
        assert datasets.load_usps(data_dir=tmp_path, as_frame=True).frame.shape == (12, 4)

    def test_order_of_places(self, tmp_path, monkeypatch, home):
        paths = {name: folder_with(tmp_path / name, monkeypatch) for name in ("given", "env")}
        paths["cache"] = folder_with(home, monkeypatch)
        assert get("usps") == paths["cache"]
        monkeypatch.setenv("EJOP_DATA", str(tmp_path / "env"))
        assert get("usps") == paths["env"]
        assert get("usps", tmp_path / "given") == paths["given"]
        paths["given"].unlink()
        assert get("usps", tmp_path / "given") == paths["env"]

    def test_corrupted_file_is_named_and_left(self, tmp_path, monkeypatch):
        path = folder_with(tmp_path, monkeypatch)
        expected = DATASETS["usps"].sha256
        damaged = bytearray(path.read_bytes())
        damaged[60] ^= 1
        path.write_bytes(damaged)
        fake_openml(monkeypatch)
        found = hashlib.sha256(damaged).hexdigest()
        message = rf"usps.npz is damaged .* {found}, {expected} was .* copy it again"
        with pytest.raises(DataCorrupted, match=message):
            datasets.load_usps(data_dir=tmp_path)
        assert path.read_bytes() == damaged

    def test_a_file_that_changes_is_read_again(self, tmp_path, monkeypatch):
        path = folder_with(tmp_path, monkeypatch)
        get("usps", tmp_path)
        path.write_bytes(path.read_bytes() + b" ")
        with pytest.raises(DataCorrupted, match="damaged"):
            get("usps", tmp_path)

    def test_a_file_is_hashed_once(self, tmp_path, monkeypatch):
        folder_with(tmp_path, monkeypatch)
        get("usps", tmp_path)
        monkeypatch.setattr(hashlib, "file_digest", None)
        get("usps", tmp_path)

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"X": X}, r"holds \['X'\] but no 'y'"),
            ({"data": X, "y": Y}, r"holds \['data', 'y'\] but no 'X'.*shape \(12, 3\)"),
            ({"X": X[:, :2], "y": Y}, r"'X' in .* has shape \(12, 2\); usps has \(12, 3\)"),
            ({"X": X, "y": Y[:-1]}, r"'y' in .* has shape \(11,\); usps has \(12,\)"),
            ({"X": X.astype(object), "y": Y}, "not a NumPy .npz archive of plain arrays"),
        ],
    )
    def test_wrong_archive(self, tmp_path, monkeypatch, arrays, message):
        folder_with(tmp_path, monkeypatch, **arrays)
        with pytest.raises(DataCorrupted, match=message):
            datasets.load_usps(data_dir=tmp_path)


class TestNotHere:
    @pytest.mark.parametrize("name", ["usps", "office_caltech_dslr"])
    def test_no_network(self, name, home, monkeypatch, tmp_path):
        source = DATASETS[name]
        monkeypatch.setenv("EJOP_DATA", str(tmp_path))
        with pytest.raises(DataNotFound, match=r"download failed \(URLError.*no network") as caught:
            load_dataset(name)
        message = str(caught.value)
        for part in (source.file, source.sha256, source.origin, "EJOP_DATA", str(home)):
            assert part in message
        assert f"put {name}.npz at {tmp_path / source.file}" in message
        assert isinstance(caught.value, OSError)
        assert not home.exists()

    def test_download_forbidden(self, monkeypatch):
        calls = fake_openml(monkeypatch)
        with pytest.raises(DataNotFound, match="`download`=False"):
            datasets.load_usps(download=False)
        assert not calls

    def test_no_download_known(self):
        with pytest.raises(
            DataNotFound, match=r"no download for it(.|\n)*extra/vowel.npz(.|\n)*keel"
        ):
            datasets.load_vowel()

    def test_cut_off_or_refused(self, monkeypatch):
        for error in (IncompleteRead(b""), ValueError("OpenML: unknown data set"), TimeoutError()):

            def fail(error=error, **options):
                raise error

            monkeypatch.setattr(sklearn.datasets, "fetch_openml", fail)
            with pytest.raises(DataNotFound, match=f"failed .{type(error).__name__}"):
                datasets.load_letter()

    def test_no_pooch(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pooch", None)
        with pytest.raises(ImportError, match=r"pip install 'ejop\[data\]'"):
            datasets.load_office_caltech("dslr")

    def test_misspelt(self, tmp_path):
        with pytest.raises(ValueError, match="did you mean 'letter'"):
            load_dataset("letters")
        with pytest.raises(ValueError, match="there are mnist, usps"):
            get("zzz")
        with pytest.raises(ValueError, match="`domain`='caltech' is not one of 'amazon'"):
            datasets.load_office_caltech("caltech")
        with pytest.raises(DataNotFound, match=r"`data_dir`='.*nowhere' is not a folder"):
            datasets.load_usps(data_dir=tmp_path / "nowhere")


@pytest.mark.usefixtures("small")
class TestDownload:
    def test_openml_once(self, monkeypatch, home, capsys):
        calls = fake_openml(monkeypatch)
        bunch = datasets.load_usps(verbose=1)
        assert "usps: downloading https://www.openml.org/d/41082 (" in capsys.readouterr().err
        np.testing.assert_array_equal(bunch.data, X)
        np.testing.assert_array_equal(bunch.target, Y)  # labels on OpenML are one more
        np.testing.assert_array_equal(bunch.split, SPLIT)
        assert files_in(home) == ["usps.npz", "usps.npz.sha256"]
        assert calls[0]["data_id"] == 41082
        again = datasets.load_usps(download=False)
        np.testing.assert_array_equal(again.data, X)
        assert len(calls) == 1

    def test_damage_in_the_cache(self, monkeypatch, home):
        calls = fake_openml(monkeypatch)
        path = get("usps")
        assert path.is_relative_to(home)
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(DataCorrupted, match="delete it and load again"):
            datasets.load_usps()
        path.unlink()
        datasets.load_usps()
        assert len(calls) == 2

    def test_another_order(self, monkeypatch):
        order = RNG.permutation(12)
        fake_openml(monkeypatch, X[order], (Y[order] + 1).astype(str))
        bunch = datasets.load_usps()
        np.testing.assert_array_equal(bunch.data, X[order])
        assert "split" not in bunch
        assert "another order: split is not known" in bunch.DESCR

    @pytest.mark.parametrize(
        ("data", "target", "message"),
        [
            (X[:5], Y[:5] + 1, "shape"),
            (X + np.eye(12, 3), None, "content"),
            (X, Y, "content"),
            (np.where(np.eye(12, 3) > 0, np.nan, X), None, "missing or huge values"),
            (X, np.array(["?"] * 12), "labels such as"),
        ],
    )
    def test_other_content_is_refused(self, monkeypatch, home, data, target, message):
        fake_openml(monkeypatch, data, target)
        with pytest.raises(DataCorrupted, match=f"not the usps .*{message}.* Nothing was stored"):
            datasets.load_usps()
        assert not home.exists()

    def test_pooch_once(self, monkeypatch, home):
        calls = []

        def retrieve(url, known_hash, path):
            calls.append(url)
            file = os.path.join(path, "webcam.mat")
            savemat(file, {"fts": X.astype(float), "labels": Y[:, None]})
            return file

        monkeypatch.setattr("pooch.retrieve", retrieve)
        for _ in range(2):
            bunch = datasets.load_office_caltech("webcam")
            np.testing.assert_array_equal(bunch.data, X)
            np.testing.assert_array_equal(bunch.target, Y)
        assert len(calls) == 1
        assert calls[0].endswith("webcam_SURF_L10.mat")
        assert files_in(home) == [f"office_caltech_webcam.npz{end}" for end in ("", ".sha256")]

    @pytest.mark.parametrize(
        "answer",
        [
            b"<!DOCTYPE html><html><body>Please log in</body></html>" * 20,
            b"<html>",
            b"",
            b"MATLAB 5.0 MAT-file" + b" " * 105 + b"\x00\x01IM" + b"\xff" * 64,
            b"MATLAB 7.3 MAT-file" + b" " * 105 + b"\x00\x02IM" + b"\x00" * 64,
            os.urandom(400),
        ],
        ids=["login page", "few bytes", "nothing", "damaged", "HDF", "random"],
    )
    def test_an_answer_that_is_no_matlab_file(self, monkeypatch, home, answer):
        def retrieve(url, known_hash, path):
            file = os.path.join(path, "webcam.mat")
            with open(file, "wb") as out:
                out.write(answer)
            return file

        monkeypatch.setattr("pooch.retrieve", retrieve)
        with pytest.raises(DataNotFound, match=r"webcam.npz is not here. Its download failed"):
            datasets.load_office_caltech("webcam")
        assert not home.exists()

    @pytest.mark.parametrize("error", [IndexError("list index"), KeyError("data"), TypeError("x")])
    def test_an_answer_that_is_no_openml(self, monkeypatch, home, error):
        def fail(**options):
            raise error

        monkeypatch.setattr(sklearn.datasets, "fetch_openml", fail)
        with pytest.raises(DataNotFound, match=r"download failed .* perhaps a login page"):
            datasets.load_usps()
        assert not home.exists()

    def test_a_matlab_file_of_another_shape(self, monkeypatch):
        def retrieve(url, known_hash, path):
            file = os.path.join(path, "webcam.mat")
            savemat(file, {"fts": np.zeros((2000, 3)), "labels": Y}, do_compression=True)
            return file

        monkeypatch.setattr("pooch.retrieve", retrieve)
        with pytest.raises(DataCorrupted, match=r"shape \(2000, 3\)"):
            datasets.load_office_caltech("webcam")

    @pytest.mark.parametrize("error", [OSError(28, "No space left"), KeyboardInterrupt()])
    @pytest.mark.parametrize("step", ["numpy.savez_compressed", "os.fsync", "os.replace"])
    def test_nothing_is_left(self, monkeypatch, home, step, error):
        fake_openml(monkeypatch)

        def fail(*args, **options):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(step, fail)
            with pytest.raises(type(error)) as caught:
                datasets.load_usps()
        if isinstance(error, OSError):
            caught.match("could not be written.*No space left.*SCIKIT_LEARN_DATA")
        assert [path.name for path in home.rglob("*")] == ["paper"]
        datasets.load_usps()

    def test_stopped_between_checksum_and_archive(self, monkeypatch, home):
        fake_openml(monkeypatch)
        path = get("usps")
        path.unlink()
        assert files_in(home) == ["usps.npz.sha256"]
        assert len(datasets.load_usps().data) == 12

    def test_no_folder_to_write_to(self, monkeypatch, tmp_path):
        fake_openml(monkeypatch)
        (tmp_path / "home").write_text("a file is in the way")
        with pytest.raises(OSError, match="could not be written"):
            datasets.load_usps()


def test_stored_archives_are_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        store({"X": X, "y": Y}, tmp_path / f"{name}.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_available(tmp_path, monkeypatch):
    rows = {row.name: row for row in available()}
    assert rows.keys() == DATASETS.keys()
    assert rows["usps"].where == "not here; download of 2.5 MB"
    assert rows["vowel"].where == "not here; no download"
    assert rows["airfoil"].classes == "regression"
    path = folder_with(tmp_path, monkeypatch)
    rows = {row.name: row for row in available(tmp_path)}
    assert rows["usps"].where == str(path)


def test_names_and_imports():
    for name in datasets.__all__:
        assert getattr(datasets, name).__doc__
    assert datasets.load_digits is sklearn.datasets.load_digits
    assert datasets.load_usps.__doc__.startswith("Load usps: 9298 rows")
    code = "import ejop.datasets, sys; print({'pooch', 'sklearn', 'pandas'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_bayes_error_is_that_of_the_best_rule():
    rows, labels, model = datasets.make_multi_index(100_000, 5, random_state=1)
    error = np.mean(model.probabilities(rows).argmax(1) != labels)
    assert model.bayes_error() == pytest.approx(error, abs=0.005)


@needs_data
class TestRealFiles:
    @pytest.mark.parametrize("name", DATASETS)
    def test_shapes(self, name):
        source = DATASETS[name]
        bunch = load_dataset(name, data_dir=REAL, download=False)
        assert bunch.data.shape == (source.rows, source.features)
        assert bunch.data.dtype == source.dtype
        assert len(bunch.feature_names) == source.features
        assert os.path.getsize(bunch.filename) == source.size
        if source.classes == "regression":
            assert bunch.target.dtype == np.float64
            assert "target_names" not in bunch
        else:
            assert len(np.unique(bunch.target)) == len(bunch.target_names) == source.classes

    @pytest.mark.parametrize("name", [name for name, source in DATASETS.items() if source.download])
    def test_a_download_of_the_same_rows_becomes_the_same_arrays(self, name):
        source = DATASETS[name]
        with np.load(os.path.join(REAL, source.file)) as file:
            if name == "mnist":  # its conversion would take more than a gigabyte
                content = fingerprint(file["X"], file["y"], 0)
                assert content == (source.rows_sha256, source.order_sha256)
                return
            labels = file["y"]
            if labels.dtype.kind in "iu":
                labels = (labels.astype(int) - source.label_shift).astype(str)
            arrays = convert(source, file["X"].astype(float), labels)
            for key in arrays:
                np.testing.assert_array_equal(arrays[key], file[key])

    def test_nearest_neighbour_on_vowel(self):
        vowel = datasets.load_vowel(data_dir=REAL)
        train, test = vowel.split == 0, vowel.split == 1
        rule = KNeighborsClassifier(1).fit(vowel.data[train], vowel.target[train])
        error = 1 - rule.score(vowel.data[test], vowel.target[test])
        assert round(100 * error, 2) == 43.72

    def test_isolet_reduced_on_training_rows(self):
        raw = datasets.load_isolet(data_dir=REAL)
        reduced = datasets.load_isolet(data_dir=REAL, n_components=172)
        assert reduced.data.shape == (7797, 172)
        assert len(reduced.feature_names) == 172
        train = raw.split == 0
        np.testing.assert_allclose(reduced.data[train].mean(0), 0, atol=1e-4)
        kept = reduced.data[train].var(0).sum() / raw.data[train].var(0).sum()
        assert 0.95 < kept < 0.952

    def test_extras(self):
        parkinsons = datasets.load_parkinsons(data_dir=REAL)
        assert parkinsons.feature_names[:3] == ["age", "sex", "test_time"]
        assert len(np.unique(parkinsons.subject)) == 42
        assert parkinsons.y_motor.shape == (5875,)
        webcam = datasets.load_office_caltech("webcam", data_dir=REAL)
        assert webcam.target_names[1] == "bike"
        assert tuple(webcam.target_names) == DATASETS["office_caltech_webcam"].class_names
