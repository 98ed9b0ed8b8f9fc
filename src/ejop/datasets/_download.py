"""Downloads: fetched, put in the form of the registry's files, and recognised by their content."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.datasets._lookup import DataCorrupted, PathLike, megabytes, missing
from ejop.datasets._registry import Source

__all__ = ["convert", "download", "fingerprint"]

PARSED_ROWS = 4096


def download(
    source: Source, verbose: int = 0, data_dir: PathLike | None = None
) -> dict[str, NDArray]:
    """Fetch a data set and return the arrays of its archive.

    Parameters
    ----------
    source : Source
    verbose : int, default=0
        1 writes a line to stderr before the transfer begins.
    data_dir : path or None, default=None
        Where the file was looked for first; for the message when the transfer fails.

    Returns
    -------
    arrays : dict of ndarray
        ``X``, ``y`` and, where they follow from the order of the rows, ``split`` and the like.
    """
    if source.download is None:
        raise missing(source, "There is no download for it.", data_dir)
    fetch = _fetch_matlab if source.url else _fetch_openml
    if verbose:
        sys.stderr.write(
            f"{source.name}: downloading {source.download} "
            f"(about {megabytes(source.size)} when packed)\n"
        )
    try:
        with tempfile.TemporaryDirectory(prefix="ejop-") as scratch:
            X, y = fetch(source, scratch)
    except DataCorrupted:
        raise
    # HTTPException: cut off in the middle. ValueError: an answer that is an error, fails its
    # checksum, or is something else, such as a login page.
    except (OSError, HTTPException, ValueError) as error:
        reason = f"Its download failed ({type(error).__name__}: {error})."
        raise missing(source, reason, data_dir) from error
    return convert(source, X, y)


def _fetch_openml(source: Source, scratch: str) -> tuple[Any, Any]:
    from sklearn.datasets import fetch_openml

    with _answered():
        bunch = fetch_openml(
            data_id=source.openml,
            as_frame=False,
            # Ours is the only copy that stays.
            data_home=scratch,
            parser="auto" if importlib.util.find_spec("pandas") else "liac-arff",
        )
        return bunch.data, bunch.target


def _fetch_matlab(source: Source, scratch: str) -> tuple[Any, Any]:
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            f"Downloading {source.name} needs pooch: pip install 'ejop[data]'. Or get "
            f"{source.file} by hand (made from: {source.origin}) and set EJOP_DATA to its folder."
        ) from error
    from scipy.io import loadmat, whosmat

    with _quiet(pooch.get_logger()):
        # What matters is the content, which `convert` checks, not the bytes of the MATLAB file.
        path = pooch.retrieve(source.url, known_hash=None, path=scratch)
    with _answered():
        shapes = {name: shape for name, shape, _ in whosmat(path)}
    if not {"fts", "labels"} <= shapes.keys():
        raise ValueError(f"{source.url} has no 'fts' and 'labels'")
    if shapes["fts"] != (source.rows, source.features):  # told before it is unpacked
        raise _unexpected(source, f"shape {shapes['fts']}")
    with _answered():
        content = loadmat(path, variable_names=["fts", "labels"])
        return content["fts"], content["labels"].ravel()


@contextmanager
def _answered() -> Iterator[None]:
    """Tell what a parser stumbles over in an answer as what it is: no data set came."""
    try:
        yield
    except (OSError, HTTPException, ValueError, ImportError):
        raise
    except Exception as error:
        raise ValueError(
            f"what came is no data set, perhaps a login page: {type(error).__name__}: {error}"
        ) from error


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Keep a library from writing to the terminal unasked."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def convert(source: Source, X: Any, y: Any) -> dict[str, NDArray]:
    """Arrays as the registry's file has them, from what was downloaded.

    Raises ``DataCorrupted`` unless the rows are those of the registry. Rows in another order are
    taken; what follows from the order, such as ``split``, is then left out.
    """
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)
    if X.shape != (source.rows, source.features) or len(y) != source.rows:
        raise _unexpected(source, f"shape {X.shape} instead of {(source.rows, source.features)}")
    scale = 10**source.decimals
    if not np.abs(X).max() * scale < np.iinfo(np.int32).max:  # so that NaN is caught, too
        raise _unexpected(source, "missing or huge values")
    X, y = np.rint(X * scale) / scale, _labels(source, y)
    rows, order = fingerprint(X, y, source.decimals)
    if rows != source.rows_sha256:
        raise _unexpected(source, f"content {rows} instead of {source.rows_sha256}")
    X = X.astype(np.float32 if source.decimals else np.min_scalar_type(int(X.max())))
    arrays = {"X": X, "y": y}
    if order == source.order_sha256:
        for name, runs in source.runs.items():
            values = np.array(list(runs), dtype=np.uint8)
            arrays[name] = values.repeat(list(runs.values()))
    return arrays


def _labels(source: Source, y: Any) -> NDArray:
    if source.classes == "regression":
        return np.asarray(y, dtype=float)
    text = np.char.strip(np.asarray(y).astype(str), "'\" ")
    if np.char.isalpha(text).all():
        return text
    try:
        return text.astype(float).astype(np.int64) + source.label_shift
    except ValueError as error:
        raise _unexpected(source, f"labels such as {text[0]!r}") from error


def _unexpected(source: Source, what: str) -> DataCorrupted:
    return DataCorrupted(
        f"What came from {source.download} is not the {source.name} that was expected: {what}. "
        f"Nothing was stored. Get {source.file} by hand (made from: {source.origin}; sha256 "
        f"{source.sha256}) and set EJOP_DATA to the folder that holds it."
    )


def fingerprint(X: NDArray, y: NDArray, decimals: int) -> tuple[str, str]:
    """Sha256 of the content, whatever the number type: without and with the order of the rows.

    A row is its numbers as int32 in units of the last decimal, and its label as text.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
    decimals : int
        Digits behind the point that count, in ``X`` and in a real ``y``.

    Returns
    -------
    rows, order : str
    """
    if y.dtype.kind == "f":
        y = np.rint(y * 10**decimals).astype(np.int64)
    digests = []
    # By blocks, since MNIST as int32 is 220 MB.
    for start in range(0, len(X), PARSED_ROWS):
        part = slice(start, start + PARSED_ROWS)
        units = np.rint(X[part].astype(float) * 10**decimals).astype("<i4")
        for numbers, label in zip(units, y[part].tolist(), strict=True):
            digests.append(hashlib.sha256(numbers.tobytes() + str(label).encode()).digest())
    return (
        hashlib.sha256(b"".join(sorted(digests))).hexdigest(),
        hashlib.sha256(b"".join(digests)).hexdigest(),
    )
