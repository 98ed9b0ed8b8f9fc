"""Files of data: where they are, whether they are intact, and how they are written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ejop.datasets._registry import Source
from ejop.unpacking import check_archive, parsing
from ejop.writing import replacing

__all__ = [
    "DataCorrupted",
    "DataNotFound",
    "cache_folder",
    "folders",
    "locate",
    "megabytes",
    "missing",
    "read",
    "store",
    "verify",
]

PathLike = str | os.PathLike[str]


class DataNotFound(FileNotFoundError):
    """A data set is neither in the folders nor to be had; the message says what to put where."""


class DataCorrupted(OSError):
    """A file, or a download, is not the data set it should be."""


def cache_folder() -> Path:
    """Where downloads are kept: ``ejop`` in scikit-learn's data home.

    ``sklearn.datasets.get_data_home`` would create the folder, which looking must not do.
    """
    home = os.environ.get("SCIKIT_LEARN_DATA", "~/scikit_learn_data")
    return Path(home).expanduser() / "ejop"


def folders(data_dir: PathLike | None = None) -> list[Path]:
    """Folders to look in, in that order: ``data_dir``, EJOP_DATA, the cache."""
    found = []
    if data_dir is not None:
        given = Path(data_dir).expanduser()
        if not given.is_dir():
            raise DataNotFound(
                f"`data_dir`={str(data_dir)!r} is not a folder; give the folder that holds "
                "paper/ and extra/, or leave it out."
            )
        found.append(given)
    if environment := os.environ.get("EJOP_DATA"):
        found.append(Path(environment).expanduser())
    return [*found, cache_folder()]


def locate(source: Source, data_dir: PathLike | None = None) -> Path | None:
    """Path of the first file found, unread; None where there is none."""
    paths = (folder / source.file for folder in folders(data_dir))
    return next((path for path in paths if path.is_file()), None)


def megabytes(size: int) -> str:
    """A size for people."""
    return f"{size / 1e6:.1f} MB" if size >= 50_000 else f"{size / 1e3:.0f} kB"


def missing(source: Source, reason: str, data_dir: PathLike | None = None) -> DataNotFound:
    """The error for someone who has to fetch the file by hand."""
    looked = folders(data_dir)
    best = next((folder for folder in looked if folder.is_dir()), cache_folder())
    name = Path(source.file).name
    elsewhere = (
        f"\n  Or:         run ejop.datasets.get({source.name!r}) where there is a network, and "
        f"copy {name} and {name}.sha256 from its cache to {(cache_folder() / source.file).parent}"
    )
    return DataNotFound(
        f"{source.name}: {name} is not here. {reason}\n"
        f"  Looked for: {', '.join(str(folder / source.file) for folder in looked)}\n"
        f"  What to do: put {name} at {best / source.file}, or set the environment variable "
        f"EJOP_DATA to the folder that holds {source.file}\n"
        f"  The file:   {megabytes(source.size)}, sha256 {source.sha256}\n"
        f"  Made from:  {source.origin}" + (elsewhere if source.download else "")
    )


def verify(path: Path, source: Source) -> None:
    """Raise unless the file is the registry's, or a download as it was written to the cache."""
    status = path.stat()
    found = _sha256(path.resolve(), status.st_mtime_ns, status.st_size)
    own = path.with_name(path.name + ".sha256")
    downloaded = path.resolve().is_relative_to(cache_folder().resolve()) and own.is_file()
    if found == source.sha256 or (downloaded and found == own.read_text().strip()):
        return
    expected = own.read_text().strip() if downloaded else source.sha256
    remedy = "delete it and load again to download it" if downloaded else "copy it again"
    raise DataCorrupted(
        f"{path} is damaged or another file: its sha256 is {found}, {expected} was expected. It "
        f"was left as it is; {remedy} (made from: {source.origin})."
    )


@lru_cache(maxsize=256)
def _sha256(path: Path, mtime_ns: int, size: int) -> str:
    """Time and size are there for the cache: a file that changed is read again."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read(path: Path, source: Source) -> dict[str, NDArray]:
    """The arrays of a file, after its shapes have been checked."""
    try:
        check_archive(path)
        with parsing("archive"), np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except ValueError as error:
        raise DataCorrupted(
            f"{path} is not a NumPy .npz archive of plain arrays: {error}"
        ) from error
    wanted = {"X": (source.rows, source.features), "y": (source.rows,)}
    for key, shape in wanted.items():
        if key not in arrays:
            raise DataCorrupted(
                f"{path} holds {sorted(arrays)} but no {key!r}; an archive of {source.name} has "
                f"'X' of shape {wanted['X']} and 'y' of shape {wanted['y']}."
            )
        if np.shape(arrays[key]) != shape:
            raise DataCorrupted(
                f"{key!r} in {path} has shape {np.shape(arrays[key])}; {source.name} has {shape}."
            )
    return arrays


def store(arrays: Mapping[str, NDArray], path: Path) -> None:
    """Write an archive and its sha256 beside it; whatever happens, no half of it stays.

    The checksum takes its place first: alone it means nothing, while an archive without it would
    be held to the registry's.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            with open(part, "wb") as file:
                np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
            with open(part, "rb") as file:
                checksum = hashlib.file_digest(file, "sha256").hexdigest()
            with replacing(path.with_name(path.name + ".sha256")) as own:
                own.write_text(checksum + "\n")
    except OSError as error:
        raise OSError(
            f"{path} could not be written: {error}. Free some space there, or set the environment "
            "variable SCIKIT_LEARN_DATA to a folder that has room."
        ) from error
