"""What all exports share: their packages, the names of their files, rows under the map."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.export._map import LinearMap
from ejop.writing import check_writable, replacing

#: the largest number of float16
MOST_HALF = float(np.finfo(np.float16).max)
Target = str | PathLike[str] | None


def package(name: str, project: str, extra: str = "export") -> Any:
    """A package that an export needs."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ImportError(
            f"this export needs {project}, which is not installed: pip install 'ejop[{extra}]'"
        ) from None


def check_target(path: Target, endings: Sequence[str]) -> None:
    """Refuse a file that cannot be written, or whose name says that it is another thing."""
    if path is None:
        return
    if Path(path).suffix.lower() not in endings:
        raise ValueError(f"cannot write {path}: its name must end in {' or '.join(endings)}")
    check_writable(path)


@contextmanager
def writing(path: Target) -> Iterator[Path | None]:
    """Where to write, a file that is whole or not there; None where nothing is written."""
    if path is None:
        yield None
        return
    with replacing(path) as part:
        yield part


def mapped_rows(estimator: Any, found: LinearMap, rows: Any) -> NDArray:
    """Rows as the estimator maps them, along the directions of the map."""
    Z = np.asarray(estimator.transform(rows))
    if Z.shape[1] != found.n_components and not in_order(estimator):
        return found(rows)
    return Z[:, : found.n_components]


def in_order(estimator: Any) -> bool:
    """Whether the first directions are those that matter most."""
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    return bool(getattr(last, "components_in_order", True))


def as_half(values: NDArray, what: str) -> NDArray:
    """In float16, which reaches to 65,504."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest > MOST_HALF:
        raise ValueError(
            f"{what} reach {largest:.3g} and float16 ends at {MOST_HALF:.0f}; use float16=False, or"
            " fit on scaled columns."
        )
    return values.astype(np.float16)
