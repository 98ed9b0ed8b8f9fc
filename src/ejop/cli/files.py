"""Outputs that are complete or not there: written beside their place, then renamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from ejop.cli.options import say

#: what an output file may be, by the end of its name
WRITTEN = (".csv", ".tsv", ".parquet", ".arrow", ".feather", ".npz")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Name to write to; the file takes its place when all went well and vanishes otherwise.

    Parameters
    ----------
    path : Path
        Where the finished file shall be. A device or a pipe is written to as it is: renaming a
        file over it would destroy it.
    """
    target, part = _places(path)
    try:
        yield part
        if part != target:
            with part.open("rb+") as file:  # a full disk may only show now
                os.fsync(file.fileno())
            os.replace(part, target)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if part != target:
            with suppress(OSError):
                part.unlink()


def check_writable(*paths: Path | None) -> None:
    """Fail before the long work rather than after it."""
    for path in paths:
        if path is None:
            continue
        if not path.name or path.is_dir():
            raise OSError(f"cannot write {path}: it is a folder")
        if not path.parent.is_dir():
            raise OSError(f"cannot write {path}: there is no folder {path.parent}")
        target, part = _places(path)
        if part == target:
            continue
        try:
            part.touch()
            part.unlink()
        except OSError as error:
            raise OSError(f"cannot write {path}: {error.strerror}") from error


def _places(path: Path) -> tuple[Path, Path]:
    """The file itself, links followed, and the name it has while it is written."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        return target, target
    return target, target.with_name(f".{target.name}.{os.getpid()}.part")


def check_format(out: Path | None) -> None:
    """Refuse an output whose name does not say what it is."""
    if out is not None and _ending(out) not in WRITTEN and str(out) != "-":
        raise ValueError(f"cannot tell what to write from {out}: name it {', '.join(WRITTEN)}")


def write_rows(frame: Any, out: Path | None) -> None:
    """Write a data frame to a file by its name's end, or as CSV to standard output."""
    import typer

    if out is None or str(out) == "-":
        typer.echo(frame.to_csv(index=False), nl=False)
        return
    ending = _ending(out)
    with replacing(out) as part:
        if ending == ".parquet":
            frame.to_parquet(part, index=False)
        elif ending in (".arrow", ".feather"):
            frame.to_feather(part)
        elif ending == ".npz":
            with part.open("wb") as file:  # given a name, numpy would append its own ending
                np.savez_compressed(file, **{name: _array(frame[name]) for name in frame.columns})
        else:
            frame.to_csv(part, index=False, sep="\t" if ending == ".tsv" else ",")
    say(f"wrote {len(frame):,} rows to {out}")


def _array(column: Any) -> Any:
    """A column as an array that needs no pickle."""
    values = column.to_numpy()
    return values.astype(str) if values.dtype == object else values


def _ending(path: Path) -> str:
    ending = path.suffix.lower()
    return ".parquet" if ending == ".pq" else ending
