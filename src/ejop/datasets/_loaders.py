"""Loaders in the manner of scikit-learn's."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from ejop.datasets._catalogue import get, named
from ejop.datasets._lookup import PathLike, read
from ejop.datasets._registry import DATASETS, OFFICE_CALTECH_DOMAINS, Source

__all__ = [
    "load_ailerons",
    "load_airfoil",
    "load_dataset",
    "load_isolet",
    "load_letter",
    "load_mfeat_factors",
    "load_mnist",
    "load_office_caltech",
    "load_parkinsons",
    "load_pendigits",
    "load_phoneme",
    "load_usps",
    "load_vowel",
]


def load_dataset(
    name: str,
    *,
    data_dir: PathLike | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
    download: bool = True,
    verbose: int = 0,
) -> Any:
    """Load a data set by its name in ``DATASETS``.

    Its file is looked for in ``data_dir``, in the folder that the environment variable EJOP_DATA
    names and in the cache; then it is downloaded to the cache.

    Parameters
    ----------
    name : str
    data_dir : path or None, default=None
        Folder that holds ``paper/`` and ``extra/``.
    return_X_y : bool, default=False
        Return ``(data, target)`` alone.
    as_frame : bool, default=False
        Return pandas objects.
    download : bool, default=True
        False never touches the network.
    verbose : int, default=0
        1 writes a line to stderr before a download begins.

    Returns
    -------
    bunch : Bunch
        With ``data`` (n_samples, n_features), ``target`` (n_samples,), ``feature_names``,
        ``target_names`` in the order of the sorted labels (classes only), ``DESCR``, ``filename``,
        ``frame`` (None unless ``as_frame``) and the other arrays of the file: ``split``, 0 for
        training rows and 1 for test rows, where the source has one, ``speaker``, ``group``,
        ``subject``, ``y_motor``. Data are float32 where the file has decimals and for MNIST, else
        float64. Class labels are int64 or strings, targets of a regression float64.

    Raises
    ------
    DataNotFound
        The file is nowhere and cannot be downloaded. The message says what to put where.
    DataCorrupted
        The file, or what was downloaded, is not what it should be. Nothing is replaced.
    """
    source = named(name)
    path = get(name, data_dir, download=download, verbose=verbose)
    arrays = read(path, source)
    bunch = _bunch(source, arrays, filename=str(path))
    return _returned(bunch, return_X_y, as_frame)


def _bunch(source: Source, arrays: dict[str, NDArray], filename: str) -> Bunch:
    X, y = arrays.pop("X"), arrays.pop("y")
    bunch = Bunch(
        data=X.astype(source.dtype, copy=False),
        target=y.astype(np.int64) if y.dtype.kind in "iu" else y,
        frame=None,
        feature_names=_feature_names(source, arrays.pop("feature_names", None)),
        DESCR=_description(source),
        filename=filename,
    )
    if lost := [name for name in source.runs if name not in arrays]:
        bunch.DESCR += (
            f"\nThis copy was downloaded from {source.download}, which has the rows in another "
            f"order: {', '.join(lost)} is not known."
        )
    if source.classes != "regression":
        names = arrays.pop("class_names", source.class_names)
        bunch.target_names = np.array(names) if len(names) else np.unique(y).astype(str)
    bunch.update(arrays)
    return bunch


def _feature_names(source: Source, named: NDArray | None) -> list[str]:
    if named is not None:
        return [str(name) for name in named]
    if isinstance(source.columns, tuple):
        return list(source.columns)
    return [f"{source.columns}{number}" for number in range(source.features)]


def _description(source: Source) -> str:
    kind = "real target" if source.classes == "regression" else f"{source.classes} classes"
    lines = [
        f"{source.name}: {source.rows} rows, {source.features} features, {kind}.",
        "",
        source.about,
        f"Source: {source.origin}.",
        f"Terms: {source.terms}.",
    ]
    return "\n".join(textwrap.fill(line, 88) for line in lines)


def _returned(bunch: Bunch, return_X_y: bool, as_frame: bool) -> Any:
    if as_frame:
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("`as_frame`=True needs pandas: pip install pandas.") from error
        bunch.data = pd.DataFrame(bunch.data, columns=bunch.feature_names)
        bunch.target = pd.Series(bunch.target, name="target")
        bunch.frame = pd.concat([bunch.data, bunch.target], axis=1)
    return (bunch.data, bunch.target) if return_X_y else bunch


class Loader(Protocol):
    """A function that loads one data set, with the options of ``load_dataset``."""

    def __call__(
        self,
        *,
        data_dir: PathLike | None = None,
        return_X_y: bool = False,
        as_frame: bool = False,
        download: bool = True,
        verbose: int = 0,
    ) -> Any: ...


def _loader(name: str) -> Loader:
    """Make ``load_<name>``: what the sets differ in is in the registry."""

    def load(
        *,
        data_dir: PathLike | None = None,
        return_X_y: bool = False,
        as_frame: bool = False,
        download: bool = True,
        verbose: int = 0,
    ) -> Any:
        return load_dataset(
            name,
            data_dir=data_dir,
            return_X_y=return_X_y,
            as_frame=as_frame,
            download=download,
            verbose=verbose,
        )

    load.__name__ = load.__qualname__ = f"load_{name}"
    # From "Parameters" on, the text of `load_dataset` holds for all of them.
    _, heading, options = (inspect.getdoc(load_dataset) or "").partition("Parameters\n----------\n")
    about = _description(DATASETS[name])
    load.__doc__ = f"Load {about}\n\n{heading}{options.removeprefix('name : str').lstrip()}"
    return load


load_mnist = _loader("mnist")
load_usps = _loader("usps")
load_letter = _loader("letter")
load_vowel = _loader("vowel")
load_pendigits = _loader("pendigits")
load_phoneme = _loader("phoneme")
load_mfeat_factors = _loader("mfeat_factors")
load_parkinsons = _loader("parkinsons")
load_airfoil = _loader("airfoil")
load_ailerons = _loader("ailerons")


def load_isolet(
    *,
    n_components: int | None = None,
    data_dir: PathLike | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
    download: bool = True,
    verbose: int = 0,
) -> Any:
    """Load isolet: 7797 spoken letters, 617 acoustic measures, 26 classes.

    Parameters
    ----------
    n_components : int or None, default=None
        Keep that many principal components of the training rows (``split == 0``) instead of the
        617 measures; the paper has 172. For other folds, fit
        ``sklearn.decomposition.PCA(172)`` on the training rows of each.
    data_dir, return_X_y, as_frame, download, verbose
        As in :func:`load_dataset`.

    Returns
    -------
    bunch : Bunch
        As in :func:`load_dataset`, with ``split`` and ``group``, the set of 30 speakers.
    """
    bunch = load_dataset("isolet", data_dir=data_dir, download=download, verbose=verbose)
    if n_components is not None:
        from sklearn.decomposition import PCA

        if "split" not in bunch:
            raise ValueError(
                f"`n_components`={n_components} needs `split`, which this copy lacks: "
                f"{bunch.filename}. Reduce the training rows of your own folds with PCA."
            )
        pca = PCA(n_components, svd_solver="full").fit(bunch.data[bunch.split == 0])
        bunch.data = pca.transform(bunch.data)
        bunch.feature_names = pca.get_feature_names_out().tolist()
    return _returned(bunch, return_X_y, as_frame)


def load_office_caltech(
    domain: str,
    *,
    data_dir: PathLike | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
    download: bool = True,
    verbose: int = 0,
) -> Any:
    """Load a domain of Office-Caltech: pictures of ten kinds of objects as counts of 800 words.

    Parameters
    ----------
    domain : {"amazon", "caltech10", "dslr", "webcam"}
    data_dir, return_X_y, as_frame, download, verbose
        As in :func:`load_dataset`.

    Returns
    -------
    bunch : Bunch
        As in :func:`load_dataset`. The data are raw counts; a row divided by its sum, then
        z-scored columns, is the customary preparation.
    """
    if domain not in OFFICE_CALTECH_DOMAINS:
        raise ValueError(
            f"`domain`={domain!r} is not one of {', '.join(map(repr, OFFICE_CALTECH_DOMAINS))}."
        )
    return load_dataset(
        f"office_caltech_{domain}",
        data_dir=data_dir,
        return_X_y=return_X_y,
        as_frame=as_frame,
        download=download,
        verbose=verbose,
    )
