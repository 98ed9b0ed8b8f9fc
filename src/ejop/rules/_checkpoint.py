"""Finished steps of a long fit, kept in a file, so that a fit that was stopped can go on."""

from __future__ import annotations

import hashlib
import os
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.writing import check_writable, replacing

Arrays = dict[str, NDArray]
#: one save at a time
_KEEPING = threading.Lock()
#: under which the file says which fit it belongs to
OWNER = "fit"


class Checkpoint:
    """Arrays of finished steps by name, in one file of NumPy that is whole at any time.

    Parameters
    ----------
    path : path or None
        None keeps nothing.
    owner : str
        What the fit is: rows, targets and settings, see :func:`fingerprint`.
    """

    def __init__(self, path: str | os.PathLike[str] | None, owner: str) -> None:
        self.path = None if path is None else Path(path)
        self.steps: Arrays = {}
        if self.path is None:
            return
        check_writable(self.path)
        if self.path.exists():
            self.steps = self._read(owner)
        self.steps[OWNER] = np.array(owner)

    def _read(self, owner: str) -> Arrays:
        try:
            with np.load(self.path, allow_pickle=False) as file:  # type: ignore[arg-type]
                found = {name: file[name] for name in file.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"`checkpoint`={str(self.path)!r} is not a checkpoint that can be read ({error}); "
                "remove the file, or name another."
            ) from error
        if str(found.get(OWNER, "")) != owner:
            raise ValueError(
                f"`checkpoint`={str(self.path)!r} belongs to a fit of other rows or settings; "
                "remove the file to begin anew, or name another."
            )
        return found

    def step(self, name: str, work: Callable[[], Arrays]) -> Arrays:
        """What a step found: from the file, or by doing it."""
        found = self.found(name)
        return self.keep(name, work()) if found is None else found

    def found(self, name: str) -> Arrays | None:
        """What the file says of a step."""
        start = f"{name}/"
        found = {key[len(start) :]: v for key, v in self.steps.items() if key.startswith(start)}
        return found or None

    def keep(self, name: str, arrays: Arrays) -> Arrays:
        """Write what a step found."""
        if self.path is not None:
            found = {f"{name}/{key}": np.asarray(value) for key, value in arrays.items()}
            with _KEEPING:  # chains go on in threads, and an older file must not replace a newer
                self.steps |= found
                with replacing(self.path) as part, open(part, "wb") as file:
                    np.savez(file, **self.steps)  # type: ignore[arg-type]
        return arrays

    def finish(self) -> None:
        """Remove the file: the fit is done."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def fingerprint(*parts: Any) -> str:
    """A digest of arrays and settings.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.rules._checkpoint import fingerprint
    >>> fingerprint(np.arange(3), "a") == fingerprint(np.arange(3), "b")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(repr(part).encode())
    return digest.hexdigest()[:32]
