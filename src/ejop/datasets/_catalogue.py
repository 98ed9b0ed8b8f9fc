"""Which data sets there are, and where."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import NamedTuple

from ejop.datasets._download import download as fetch
from ejop.datasets._lookup import (
    PathLike,
    cache_folder,
    locate,
    megabytes,
    missing,
    store,
    verify,
)
from ejop.datasets._registry import DATASETS, Source

__all__ = ["Available", "available", "get", "named"]


class Available(NamedTuple):
    """A row of ``available``: a data set, its size in bytes, and where it is now."""

    name: str
    rows: int
    features: int
    classes: int | str
    size: int
    where: str


def named(name: str) -> Source:
    """The registry's entry, or an error that names the ones there are."""
    if name in DATASETS:
        return DATASETS[name]
    close = difflib.get_close_matches(name, DATASETS, n=1)
    meant = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(DATASETS)}."
    raise ValueError(f"`name`={name!r} is not a data set; {meant}")


def available(data_dir: PathLike | None = None) -> list[Available]:
    """List the data sets and where they are; nothing is read or fetched.

    Parameters
    ----------
    data_dir : path or None, default=None
        Folder to look in before EJOP_DATA and the cache.

    Returns
    -------
    rows : list of Available
        ``where`` is a path, or says that a download is needed or that there is none.

    Examples
    --------
    >>> from ejop.datasets import available
    >>> [row.name for row in available()][:4]
    ['mnist', 'usps', 'isolet', 'letter']
    """
    return [
        Available(
            source.name,
            source.rows,
            source.features,
            source.classes,
            source.size,
            _where(source, data_dir),
        )
        for source in DATASETS.values()
    ]


def _where(source: Source, data_dir: PathLike | None) -> str:
    path = locate(source, data_dir)
    if path is not None:
        return str(path)
    if source.download is None:
        return "not here; no download"
    return f"not here; download of {megabytes(source.size)}"


def get(
    name: str, data_dir: PathLike | None = None, *, download: bool = True, verbose: int = 0
) -> Path:
    """Find the file of a data set, downloading it to the cache if it is nowhere.

    Parameters
    ----------
    name : str
        As in ``DATASETS``.
    data_dir : path or None, default=None
        Folder to look in before EJOP_DATA and the cache.
    download : bool, default=True
        False never touches the network.
    verbose : int, default=0
        1 writes a line to stderr before a download begins.

    Returns
    -------
    path : Path
        Of an archive whose sha256 is right.
    """
    source = named(name)
    path = locate(source, data_dir)
    if path is None:
        if not download:
            raise missing(source, "`download`=False forbids fetching it.", data_dir)
        path = cache_folder() / source.file
        store(fetch(source, verbose, data_dir), path)
    verify(path, source)
    return path
