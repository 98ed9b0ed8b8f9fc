"""What the four estimators share: a client that is never copied, twins, rows that are checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from typing import Any

import dask.array as da
import numpy as np
import psutil
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ejop._sklearn import HasMethods, StrOptions
from ejop.executors.dask.cluster import constant, delayed, find_client, workers
from ejop.executors.dask.collections import Reader, check_rows, partitions
from ejop.executors.dask.rows import Rows, read
from ejop.sums.engine import as_device
from ejop.sums.plan import format_bytes

#: what a fitted estimator holds of a cluster; it goes with neither copies nor files
BOUND = ("_training", "_function", "_references", "_ridge")
CONSTRAINTS = {
    "client": [None, HasMethods(["scheduler_info", "compute", "persist"])],
    "reduction": [StrOptions({"auto", "broadcast", "tiles"})],
}


def like(twin: type, **more: Any) -> Callable[[type], type]:
    """A constructor with the parameters of a local twin and some more; it only stores them."""

    def decorate(cls: Any) -> type:
        own = inspect.signature(twin.__init__)  # type: ignore[misc]
        extra = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in more.items()
        ]
        signature = own.replace(parameters=[*own.parameters.values(), *extra])

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            given = signature.bind(self, *args, **kwargs)
            given.apply_defaults()
            for name, value in list(given.arguments.items())[1:]:
                setattr(self, name, value)

        __init__.__signature__ = signature  # type: ignore[attr-defined]
        cls.__init__ = __init__
        cls._twin, cls._more = twin, tuple(more)
        return cls

    return decorate


class OnCluster(BaseEstimator):
    """Base of the estimators of :mod:`ejop.dask`, beside their local twins."""

    _twin: type
    _more: tuple[str, ...]
    #: whether y holds classes
    _classify: bool
    client: Any
    reduction: str
    device: Any
    random_state: Any
    n_features_in_: int
    _n_features_out: int

    def __getstate__(self) -> dict[str, Any]:
        kept = {k: v for k, v in super().__getstate__().items() if k not in BOUND}
        return {**kept, "client": None}

    def __sklearn_clone__(self) -> Any:
        twin = BaseEstimator.__sklearn_clone__(copy(self))  # the copy has no client
        twin.client = self.client
        return twin

    def transform(self, X: Any) -> Any:
        """Map rows to the space whose Euclidean distance is the learned metric, lazily.

        Parameters
        ----------
        X : Dask array or data frame of shape (n_samples, n_features)

        Returns
        -------
        X_new : Dask array of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        return self._blockwise(X, "transform", (self._n_features_out,), float_kind(X))

    def _plain(self) -> Any:
        """The local twin, unfitted."""
        parameters = self.get_params(deep=False)
        return self._twin(**{k: v for k, v in parameters.items() if k not in self._more})

    def _fitted_plain(self) -> Any:
        """The local twin with the fitted state, which holds no rows."""
        local, parameters = self._plain(), self.get_params(deep=False)
        state = {k: v for k, v in vars(self).items() if k not in BOUND and k not in parameters}
        local.__dict__.update(state)
        return local

    def _begin(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Rows]:
        """The client, and the rows once they are checked and counted."""
        self._validate_params()
        for name in ("components_", *BOUND):
            self.__dict__.pop(name, None)
        if as_device(self.device).name is not None:
            raise ValueError(
                f"`device`={self.device!r} is not supported on a cluster; use device=None."
            )
        X = check_rows(self, X, fitting=True)
        client = find_client(self.client)
        workers(client)  # without any, tasks would wait for ever
        parts = partitions(client, type(self).__name__, X, y, sample_weight)
        reader = Reader(self._plain(), self._classify, self.n_features_in_)
        rows = read(client, parts, reader, self._accept)
        if rows.n < 2:
            raise ValueError(
                f"Found array with {rows.n} sample(s) (shape=({rows.n}, {self.n_features_in_})) "
                "while a minimum of 2 is required."
            )
        return client, rows

    def _accept(self, labels: NDArray) -> None:
        """Settle the classes, or refuse the targets."""

    def _seed(self) -> int:
        """A number that workers and client draw with: ``random_state`` where it is one."""
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _bound(self, name: str) -> Any:
        """Something of the cluster that the fit was made on."""
        if not hasattr(self, name):
            raise ValueError(
                f"this {type(self).__name__} was copied or loaded, and its training rows stayed on "
                "the cluster; use the one that was fitted, or save what to_local() returns."
            )
        return getattr(self, name)

    def _require_memory(self, n_bytes: int) -> None:
        free = psutil.virtual_memory().available
        if n_bytes > free:
            raise MemoryError(
                f"the training rows take {format_bytes(n_bytes)} and {format_bytes(free)} are free "
                "here; pass references=False to do without them, or call it on a larger machine."
            )

    def _answering(self) -> Any:
        """The local twin as tasks take it."""
        return constant(self._fitted_plain())

    def _blockwise(
        self, X: Any, method: str, shape: tuple[int, ...], kind: Any, *arguments: Any
    ) -> Any:
        """A method of the local twin on each block of a collection, lazily."""
        X = check_rows(self, X, fitting=False)
        local, asked = self._answering(), (method, shape, kind, *arguments)
        parts = [delayed(_call)(local, block, *asked) for block in blocks_of(X)]
        return stacked(parts, X, shape, kind)


def _call(
    local: Any, block: Any, method: str, shape: tuple[int, ...], kind: Any, *arguments: Any
) -> NDArray:
    if len(block) == 0:
        return np.empty((0, *shape), dtype=kind)
    return np.asarray(getattr(local, method)(block, *arguments))


def blocks_of(X: Any) -> list[Any]:
    """The delayed partitions of a collection, in order."""
    return list(np.asarray(X.to_delayed(), dtype=object).ravel())


def stacked(parts: list[Any], X: Any, shape: tuple[int, ...], kind: Any) -> da.Array:
    """A Dask array of delayed blocks, cut as X is save for its empty blocks."""
    lengths = X.chunks[0] if isinstance(X, da.Array) else (np.nan,) * len(parts)
    arrays = [
        da.from_delayed(part, (length, *shape), dtype=kind)
        for part, length in zip(parts, lengths, strict=True)
    ]
    return da.concatenate(arrays, allow_unknown_chunksizes=True)


def float_kind(X: Any) -> np.dtype:
    """float32 for rows of float32, else float64."""
    kinds = set(X.dtypes) if hasattr(X, "dtypes") else {X.dtype}
    return np.dtype(np.float32 if kinds == {np.dtype(np.float32)} else np.float64)
