"""Compressed files, unpacked up to a limit: a few kilobytes can hold more than the memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

__all__ = ["PACKED", "check_archive", "check_unpacked", "open_packed", "parsing", "unpacked_limit"]

#: whatever a file unpacks to, so many bytes are always fine, or so many times its own
LEAST, TIMES = 2**30, 20


@contextmanager
def parsing(what: str) -> Iterator[None]:
    """Tell what another library stumbles over in a file as what it is: the file is at fault.

    Damage can make a parser raise anything. Put nothing but the parser's call under it, so that
    mistakes of ours stay what they are. An OSError that names a file (it is not there, it may not
    be read) is left as it is.

    Parameters
    ----------
    what : str
        What the file should be, "NPZ file".

    Raises
    ------
    ValueError
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise ValueError(f"it is damaged, or no {what} ({reason})") from error


def unpacked_limit(packed: int) -> int:
    """Bytes that a file may unpack to.

    Parameters
    ----------
    packed : int
        Its size.

    Returns
    -------
    limit : int
        20 times as much and at least 1 GiB, but no more than the memory that is free.

    Examples
    --------
    >>> from ejop.unpacking import unpacked_limit
    >>> unpacked_limit(10) <= 2**30
    True
    """
    return min(max(LEAST, TIMES * packed), _free_memory())


def _free_memory() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = dict(line.split(":", 1) for line in file)
        return int(found["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):  # another system
        return 2**63 - 1


def check_unpacked(unpacked: int, packed: int) -> None:
    """Refuse what would take too much memory."""
    limit = unpacked_limit(packed)
    if unpacked > limit:
        raise ValueError(
            f"it is {_size(packed)} and unpacks to {_size(unpacked)} or more, over the limit of "
            f"{_size(limit)}; unpack it yourself, or split it, if you trust it"
        )


def check_archive(path: str | os.PathLike[str]) -> None:
    """Refuse a zip archive (NPZ, a model) whose members would take too much memory.

    Raises
    ------
    ValueError
        Also when it is no zip archive.
    """
    with parsing("zip archive"), zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    check_unpacked(unpacked, os.path.getsize(path))


def _size(n: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.0f} {unit}"
        n = n / 1024  # type: ignore[assignment]
    return f"{n:.1f} GiB"


def _open_zstd(path: Path) -> Any:
    import pyarrow as pa  # type: ignore[import-untyped]

    return pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")


#: how to unpack, by the end of a name
PACKED: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _open_zstd,
}


def open_packed(path: Path) -> BinaryIO:
    """A file, unpacked by the end of its name; reading beyond the limit or damage raises."""
    unpack = PACKED.get(path.suffix.lower())
    if unpack is None:
        return path.open("rb")
    packed = os.path.getsize(path)  # said before, where there is no file
    return cast(BinaryIO, io.BufferedReader(_Unpacked(unpack(path), packed, path.suffix), 2**20))


class _Unpacked(io.RawIOBase):
    """A stream that counts what comes out of it."""

    def __init__(self, stream: Any, packed: int, kind: str) -> None:
        self.stream, self.packed, self.kind = stream, packed, kind
        self.count, self.limit = 0, unpacked_limit(packed)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with parsing(f"{self.kind} file"):
            data = self.stream.read(len(buffer))
        buffer[: len(data)] = data
        self.count += len(data)
        if self.count > self.limit:
            check_unpacked(self.count, self.packed)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self.stream.close()
        super().close()
