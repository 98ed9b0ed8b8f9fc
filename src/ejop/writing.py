"""Files that are whole or not there: written beside their place, then renamed."""

from __future__ import annotations

import os
import re
import secrets
import socket
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["check_writable", "is_running", "replacing"]

#: an unfinished file of another machine that nobody has touched for so long is left over
ABANDONED_SECONDS = 24 * 3600.0
#: bytes of the target's name in that of the unfinished file, which must stay under 255
_STEM = 100
_PART = re.compile(r"\..*\.ejop-(?P<host>.+)-(?P<pid>\d+)-(?P<token>[0-9a-f]{8})\.part")
#: what this process is writing now
_unfinished: set[str] = set()


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Name to write to; the file takes its place when all went well and vanishes otherwise.

    The finished file has the permissions of the one it replaces. A file that may not be written is
    not replaced. What earlier saves left behind when they were killed is removed.

    Parameters
    ----------
    path : path
        Where the finished file shall be. A device or a pipe is written to as it is: renaming a
        file over it would destroy it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from ejop.writing import replacing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "answer.txt") as part:
    ...         _ = part.write_text("42")
    ...     [found.name for found in Path(folder).iterdir()]
    ['answer.txt']
    """
    given = Path(path)
    if _is_special(given):
        try:
            yield given
        except OSError as error:
            raise _cannot(given, error) from error
        return
    target = Path(os.path.realpath(given))
    try:
        _check_mode(given, target)
        _sweep(target.parent)
        part, mode = _begin(target)
    except OSError as error:
        raise _cannot(given, error) from error
    try:
        yield part
        _finish(part, target, mode)
    except OSError as error:
        raise _cannot(given, error) from error
    finally:
        with suppress(OSError):
            part.unlink()
        _unfinished.discard(part.name)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Fail before the long work rather than after it.

    Raises
    ------
    OSError
        When ``path`` is a folder, a file that may not be written, or in no folder to write to.
    """
    given = Path(path)
    if not given.name or given.is_dir():
        raise OSError(f"cannot write {given}: it is a folder")
    if not given.parent.is_dir():
        raise OSError(f"cannot write {given}: there is no folder {given.parent}")
    if _is_special(given):
        return
    target = Path(os.path.realpath(given))
    try:
        _check_mode(given, target)
        part, _ = _begin(target)
        _unfinished.discard(part.name)
        part.unlink()
    except OSError as error:
        raise _cannot(given, error) from error


class _ReadOnly(OSError):
    """Its message needs nothing before it."""


def _cannot(path: Path, error: OSError) -> OSError:
    if isinstance(error, _ReadOnly):
        return OSError(str(error))
    return OSError(f"cannot write {path}: {error.strerror or error}")


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _check_mode(given: Path, target: Path) -> None:
    """A file that nobody may write is kept, even by those whom no mode stops."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return
    if not mode & 0o222 or not os.access(target, os.W_OK):
        raise _ReadOnly(
            f"cannot write {given}: it is read-only and was left as it is; name another file, or "
            "allow writing first"
        )


def _begin(target: Path) -> tuple[Path, int]:
    """An empty file that its owner alone may read, and the permissions it shall have at last."""
    stem = os.fsdecode(os.fsencode(target.name)[:_STEM])
    token = secrets.token_hex(4)
    host = re.sub(r"\W", "_", socket.gethostname())
    part = target.with_name(f".{stem}.ejop-{host}-{os.getpid()}-{token}.part")
    _unfinished.add(part.name)
    file = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        mode = stat.S_IMODE(os.fstat(file).st_mode)
        with suppress(FileNotFoundError):
            mode = stat.S_IMODE(target.stat().st_mode)
        os.chmod(part, 0o600)
    finally:
        os.close(file)
    return part, mode


def _finish(part: Path, target: Path, mode: int) -> None:
    with part.open("rb+") as file:  # a full disk may only show now
        os.fsync(file.fileno())
    _check_mode(target, target)  # it may have become read-only in the meantime
    with suppress(OSError, AttributeError):  # as far as this user may; Windows has no chown
        old = target.stat()
        os.chown(part, old.st_uid, old.st_gid)
    os.chmod(part, mode)
    os.replace(part, target)
    with suppress(OSError):  # not every system lets a folder be opened
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _sweep(folder: Path) -> None:
    """Remove what saves left behind when they were killed, here or on another machine."""
    for entry in os.scandir(folder):
        found = _PART.fullmatch(entry.name)
        if found is None or entry.name in _unfinished or not _is_left(entry, found):
            continue
        with suppress(OSError):
            os.unlink(entry.path)


def _is_left(entry: os.DirEntry[str], found: re.Match[str]) -> bool:
    here = found["host"] == re.sub(r"\W", "_", socket.gethostname())
    running = is_running(int(found["pid"])) if here else None
    if running is None:
        with suppress(OSError):  # only its silence can tell
            return time.time() - entry.stat().st_mtime > ABANDONED_SECONDS
        return False
    if int(found["pid"]) == os.getpid():
        return True  # of an earlier process that had our number
    return not running


def is_running(pid: int) -> bool | None:
    """Whether a process of this machine has this number; None where that cannot be asked.

    Examples
    --------
    >>> import os
    >>> from ejop.writing import is_running
    >>> is_running(os.getpid())
    True
    """
    if sys.platform == "win32":  # where signal 0 is Ctrl-C, not a question
        return True if pid == os.getpid() else None
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
