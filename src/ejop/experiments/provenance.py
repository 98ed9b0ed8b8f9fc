"""What runs were made with: commit, machine, versions and dates."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from string import ascii_lowercase

import ejop
from ejop.experiments.store import Run

Kind = tuple[str, tuple[tuple[str, str], ...]]


@lru_cache(maxsize=1)
def commit() -> str:
    """Last commit that changed the library that runs, with "+changes" where it differs from it."""
    home = Path(ejop.__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments, "--", "."], cwd=home, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        last = git("log", "-1", "--format=%h", "--abbrev=12")
        changed = git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):  # installed, or no git here
        return "unknown"
    return last + ("+changes" if changed else "") if last else "unknown"


def days(runs: Iterable[Run]) -> str:
    """The day of the runs, or the first and the last."""
    found = sorted({run.finished[:10] for run in runs})
    return found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}"


def kind_of(run: Run) -> Kind:
    """Device, and machine, versions and commit."""
    return str(run.settings.get("device", "")), tuple(sorted(run.versions.items()))


def kinds(runs: Iterable[Run]) -> dict[Kind, str]:
    """A letter for each machine, set of versions and commit among runs: a, b, ... z, aa, ...

    Examples
    --------
    >>> from ejop.experiments import Run
    >>> from ejop.experiments.provenance import kinds
    >>> run = Run("wine", "knn", 0, 1.0, 0.1, 0.1, None, versions={"machine": "x86_64, 2 cores"})
    >>> kinds([run, run])
    {('', (('machine', 'x86_64, 2 cores'),)): 'a'}
    """
    found = sorted({kind_of(run) for run in runs})
    letters = [first + second for first in ("", *ascii_lowercase) for second in ascii_lowercase]
    return dict(zip(found, letters, strict=False))


def in_words(kind: Kind) -> str:
    """Versions of a kind of runs."""
    return ", ".join(f"{name} {version}" for name, version in kind[1])


def provenance(runs: list[Run]) -> str:
    """When, on what and with which versions the runs were made."""
    counts = Counter(kind_of(run) for run in runs)
    parts = [
        f"{count}{f' with device {kind[0]}' if kind[0] else ''}: {in_words(kind)}"
        for kind, count in sorted(counts.items())
    ]
    return f"{len(runs)} runs of {days(runs)}; {'; '.join(parts)}."


def legend(runs: list[Run]) -> list[str]:
    """A line for each letter of :func:`kinds`."""
    lines = []
    for kind, letter in kinds(runs).items():
        these = [run for run in runs if kind_of(run) == kind]
        device = f" with device {kind[0]}" if kind[0] else ""
        lines.append(f"{letter}: {len(these)} runs of {days(these)}{device}: {in_words(kind)}.")
    return lines


def made(runs: Iterable[Run], letters: dict[Kind, str]) -> str:
    """Letters of the kinds of some runs, and their days."""
    runs = list(runs)
    return f"{', '.join(sorted({letters[kind_of(run)] for run in runs}))}; {days(runs)}"
