"""One way to compile loops: kept on disk where that can be, and working where it cannot."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from numba import njit

_told = False


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` without the interpreter lock, its code cached on disk if there is a place.

    A read-only installation without a writable home, a full disk or a damaged cache costs time and
    one warning, never a fit.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        loop = njit(nogil=True, **options)(function)
        try:
            loop.enable_caching()
        except (RuntimeError, OSError) as error:  # no locator: no directory can be written
            _tell(error)
        else:
            loop._cache = _Forgiving(loop._cache)
        return loop

    return decorate


class _Forgiving:
    """A cache of compiled code whose faults are misses."""

    def __init__(self, cache: Any) -> None:
        self.cache = cache

    def load_overload(self, *arguments: Any) -> Any:
        """What was kept, None if nothing that can be read was."""
        try:
            return self.cache.load_overload(*arguments)
        except Exception as error:  # a damaged file raises whatever its bytes make pickle raise
            _tell(error)
            return None

    def save_overload(self, *arguments: Any) -> None:
        """Keep it if it can be kept."""
        try:
            self.cache.save_overload(*arguments)
        except Exception as error:
            _tell(error)

    def __getattr__(self, name: str) -> Any:
        if name == "cache":  # half-made, by copy or pickle
            raise AttributeError(name)
        return getattr(self.cache, name)


def _tell(error: Exception) -> None:
    """Say it once a process."""
    global _told
    if _told:
        return
    _told = True
    warnings.warn(
        f"compiled loops cannot be kept on disk ({type(error).__name__}: {error}), so every new "
        "process compiles them again, which takes some seconds; set the environment variable "
        "NUMBA_CACHE_DIR to a directory with room that can be written.",
        RuntimeWarning,
        stacklevel=2,
    )
