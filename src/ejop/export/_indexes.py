"""Indexes that hold mapped rows: FAISS and hnswlib; and the map alone as a file of NumPy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ejop.export._files import Target, as_half, check_target, mapped_rows, package, writing
from ejop.export._map import LinearMap, linear_map


def to_faiss(
    estimator: Any,
    path: Target = None,
    *,
    rows: Any = None,
    n_components: int | None = None,
    float16: bool = False,
    index: str = "Flat",
    vectors: str = "columns",
) -> Any:
    """A FAISS index that maps vectors before it stores or searches them.

    ``index.add`` and ``index.search`` take the vectors as they are; distances are squared learned
    ones.

    Parameters
    ----------
    estimator : fitted estimator
        See :func:`linear_map`.
    path : path, optional
        File to write, ``.faiss`` or ``.index``, for ``faiss.read_index``.
    rows : array-like or table of shape (n, n_features), optional
        Rows to put into the index, in the form that the estimator takes. Without any it is empty.
    n_components : int, optional
        Leading directions to keep.
    float16 : bool, default=False
        Store half as many bytes; for ``index="Flat"``. What it costs: :func:`costs`.
    index : str, default="Flat"
        What holds the mapped vectors, as ``faiss.index_factory`` names it: "HNSW32",
        "IVF100,Flat", ...
    vectors : {"columns", "scaled"}, default="columns"
        See :func:`linear_map`.

    Returns
    -------
    index : faiss.IndexPreTransform

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ejop import EJOP
    >>> from ejop.export import to_faiss
    >>> X, y = load_iris(return_X_y=True)
    >>> index = to_faiss(EJOP().fit(X, y), rows=X)
    >>> distances, found = index.search(X[:2].astype("float32"), 1)
    >>> found.ravel()
    array([0, 1])
    """
    check_target(path, (".faiss", ".index"))
    if float16 and index != "Flat":
        raise ValueError(
            f"`float16`=True is for index='Flat', got {index!r}; name the storage there, for "
            "instance 'HNSW32_SQfp16'."
        )
    faiss = package("faiss", "faiss-cpu")
    found = linear_map(estimator, n_components, vectors=vectors)
    first = faiss.LinearTransform(found.n_features, found.n_components, True)
    faiss.copy_array_to_vector(found.matrix.astype(np.float32).ravel(), first.A)
    faiss.copy_array_to_vector(found.offset.astype(np.float32), first.b)
    first.is_trained = True
    try:
        store = faiss.index_factory(found.n_components, "SQfp16" if float16 else index)
    except RuntimeError as error:
        raise ValueError(f"`index`={index!r} is nothing that FAISS knows: {error}") from None
    if rows is not None:
        Z = mapped_rows(estimator, found, rows)
        if float16:
            as_half(Z, "mapped rows")
        store.train(np.ascontiguousarray(Z, dtype=np.float32))
        store.add(np.ascontiguousarray(Z, dtype=np.float32))
    elif not store.is_trained:
        raise ValueError(f"`index`={index!r} must be trained; pass `rows`, or use index='Flat'.")
    whole = faiss.IndexPreTransform(first, store)
    whole.is_trained = True
    with writing(path) as part:
        if part is not None:
            faiss.write_index(whole, str(part))
    return whole


def to_hnswlib(
    estimator: Any,
    rows: Any,
    path: Target = None,
    *,
    n_components: int | None = None,
    links: int = 16,
    ef_construction: int = 200,
    ef: int = 50,
    random_state: int = 0,
    vectors: str = "columns",
) -> Any:
    """An hnswlib index of mapped rows, and the map for queries.

    hnswlib maps nothing itself: queries are mapped by ``linear_map(estimator, ...)``, or by the
    file that is written beside the index: for ``rows.bin`` it is ``rows.bin.npz``.

    Parameters
    ----------
    estimator : fitted estimator
        See :func:`linear_map`.
    rows : array-like or table of shape (n, n_features)
        Rows to put into the index, in the form that the estimator takes.
    path : path, optional
        File to write, ``.bin`` or ``.hnsw``, for ``load_index``.
    n_components : int, optional
        Leading directions to keep.
    links, ef_construction, ef : int
        hnswlib's M, ef_construction and ef. The file does not keep ef.
    random_state : int, default=0
    vectors : {"columns", "scaled"}, default="columns"
        See :func:`linear_map`.

    Returns
    -------
    index : hnswlib.Index
        Of space "l2", with row numbers for labels.
    """
    check_target(path, (".bin", ".hnsw"))
    beside = None if path is None else Path(f"{os.fspath(path)}.npz")
    check_target(beside, (".npz",))
    hnswlib = package("hnswlib", "hnswlib", "hnswlib")
    found = linear_map(estimator, n_components, vectors=vectors)
    Z = np.ascontiguousarray(mapped_rows(estimator, found, rows), dtype=np.float32)
    index = hnswlib.Index(space="l2", dim=found.n_components)
    index.init_index(len(Z), M=links, ef_construction=ef_construction, random_seed=random_state)
    index.add_items(Z, np.arange(len(Z)), num_threads=1)  # in order, so that it is the same again
    index.set_ef(ef)
    with writing(beside) as map_part, writing(path) as part:
        if part is not None and map_part is not None:
            index.save_index(str(part))
            _save(found, map_part, np.float32)
    return index


def to_npz(
    estimator: Any,
    path: Target,
    *,
    n_components: int | None = None,
    float16: bool = False,
    vectors: str = "columns",
) -> LinearMap:
    """The map as a file of NumPy: ``matrix``, ``offset`` and, where there are any, ``names``.

    Parameters
    ----------
    estimator : fitted estimator
        See :func:`linear_map`.
    path : path
        File to write, ``.npz``.
    n_components : int, optional
        Leading directions to keep.
    float16 : bool, default=False
        Half the bytes of float32, for the map itself.
    vectors : {"columns", "scaled"}, default="columns"
        See :func:`linear_map`.

    Returns
    -------
    map : LinearMap
        What the file holds.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from ejop import EJOP
    >>> from ejop.export import read_npz, to_npz
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = to_npz(EJOP().fit(X, y), f"{folder}/map.npz", n_components=2)
    ...     read_npz(f"{folder}/map.npz")(X).shape
    (150, 2)
    """
    check_target(path, (".npz",))
    found = linear_map(estimator, n_components, vectors=vectors)
    with writing(path) as part:
        assert part is not None
        return _save(found, part, np.float16 if float16 else np.float32)


def _save(found: LinearMap, part: Path, kind: type) -> LinearMap:
    arrays = {"matrix": found.matrix, "offset": found.offset}
    for name, values in arrays.items():
        half = kind is np.float16
        arrays[name] = as_half(values, f"the map's {name}") if half else values.astype(kind)
    names = {} if found.names is None else {"names": np.array(found.names)}
    with part.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays, **names)
    return _loaded({**arrays, **names})


def read_npz(path: Target) -> LinearMap:
    """The map that :func:`to_npz` wrote."""
    if path is None:
        raise ValueError("`path` must name a file.")
    try:
        with np.load(path) as file:
            return _loaded({name: file[name] for name in file.files})
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} is no map that to_npz wrote: {error}") from error


def _loaded(arrays: dict[str, Any]) -> LinearMap:
    names = arrays.get("names")
    return LinearMap(
        np.asarray(arrays["matrix"], dtype=np.float64),
        np.asarray(arrays["offset"], dtype=np.float64),
        None if names is None else names.tolist(),
    )
