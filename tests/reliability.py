"""What was tried against the library, and the page that counts it.

``make reliability`` (``python -m tests.reliability --write docs/reliability.md``) runs all cases
and faults and writes the page; ``tests/test_reliability.py`` runs the same cases as tests.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

ANSWER, ERROR, WRONG = "answers", "clear errors", "wrong"
PACKAGES = ("ejop", "numpy", "scipy", "scikit-learn", "numba", "pandas", "pyarrow", "skops")


@dataclass(frozen=True)
class Case:
    """One thing that was tried.

    Attributes
    ----------
    door : str
        Where it comes in: estimators, functions, command line, files, models, datasets, theory,
        Dask.
    kind : str
        What is odd about it.
    name : str
    call : callable
        Tries it; where an answer is due it asserts that the answer is right.
    expect : type or None
        The exception that is due, None for an answer.
    match : str
        A pattern that the message must have.
    """

    door: str
    kind: str
    name: str
    call: Callable[[], Any]
    expect: type[BaseException] | tuple[type[BaseException], ...] | None = None
    match: str = ""

    @property
    def id(self) -> str:
        """How a test is called."""
        return f"{self.door}-{self.kind}-{self.name}".replace(" ", "_")


def numbers_of(answer: Any) -> list[np.ndarray]:
    """Every number in an answer."""
    if isinstance(answer, dict):
        return [n for value in answer.values() for n in numbers_of(value)]
    if isinstance(answer, tuple | list):
        return [n for value in answer for n in numbers_of(value)]
    found = np.asarray(answer)
    return [found] if found.dtype.kind in "fiub" else []


def outcome(case: Case) -> str:
    """What a case came to; an error that is not the one that is due raises AssertionError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said aloud, and the answer is checked
            for numbers in numbers_of(case.call()):
                assert np.isfinite(numbers).all(), f"{case.id}: the answer is not finite"
    except AssertionError:
        raise
    except Exception as error:
        if case.expect is None or not isinstance(error, case.expect):
            raise AssertionError(f"{case.id}: {type(error).__name__}: {error}") from error
        if not re.search(case.match, str(error), re.DOTALL):
            raise AssertionError(f"{case.id}: {error} has no {case.match!r}") from error
        return ERROR
    assert case.expect is None, f"{case.id}: no {case.expect} was raised"
    return ANSWER


def all_cases() -> list[Case]:
    """The cases of every door."""
    doors = ("files", "numbers", "predictors", *(["dask"] if find_spec("distributed") else []))
    return [case for door in doors for case in import_module(f"reliability_{door}").CASES]


def twins() -> Iterator[Case]:
    """Every function beside its twin in long double; ``test_numbers.py`` compares more of them."""
    numbers = import_module("test_numbers")
    for what in numbers.TRANSFORMATIONS:
        for name in numbers.TWINS:
            for dtype in numbers.DTYPES:
                call = partial(numbers.assert_agrees, name, what, dtype, 17)
                words = f"against long double: {what}"
                yield Case("functions", words, f"{name} {dtype.__name__}", call)


# the page ---------------------------------------------------------------------------------------


def page(cases: Iterable[Case], faults: Iterable[Any]) -> tuple[str, list[str]]:
    """The page, and what went wrong."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    wrong = []
    for case in cases:
        try:
            found = outcome(case)
        except AssertionError as error:
            found = WRONG
            wrong.append(str(error))
        counts.setdefault((case.door, case.kind), Counter())[found] += 1
    total: Counter[str] = sum(counts.values(), Counter())
    lines = [
        "# Reliability",
        "",
        f"What was tried to break ejop, and what happened: {total.total()} inputs and files. "
        f"{total[ANSWER]} gave an answer, which was checked. {total[ERROR]} gave an error that "
        f"says what is wrong. {total[WRONG] or 'None'} gave a wrong number, a traceback or a "
        "crash.",
        "",
        "The tests run the same cases (`tests/reliability*.py`). `make reliability` writes this "
        "page.",
        "",
        "## Inputs",
        "",
        "| comes in by | what is odd | tried | answers | clear errors | wrong |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for (door, kind), found in sorted(counts.items()):
        row = [found.total(), found[ANSWER], found[ERROR], found[WRONG]]
        lines.append(f"| {door} | {kind} | {' | '.join(map(str, row))} |")
    row = [total.total(), total[ANSWER], total[ERROR], total[WRONG]]
    lines += [f"| **all** | | {' | '.join(f'**{n}**' for n in row)} |", ""]
    lines += ["## Faults", "", "| fault | tried | what happened |", "|---|--:|---|"]
    for fault in faults:
        lines.append(f"| {fault.name} | {fault.tried} | {fault.words} |")
        if not fault.fine:
            wrong.append(f"{fault.name}: {fault.words}")
    found_versions = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    lines += [
        "",
        f"Written {datetime.now(UTC):%Y-%m-%d} with Python {platform.python_version()}, "
        f"{', '.join(found_versions)}, on {platform.system()} {platform.machine()}.",
        "",
    ]
    return "\n".join(lines), wrong


def main(args: list[str] | None = None) -> int:
    """Run everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, required=True, help="where the page goes")
    path = parser.parse_args(args).write
    from reliability_faults import FAULTS

    text, wrong = page([*all_cases(), *twins()], (fault() for fault in FAULTS))
    path.write_text(text, encoding="utf-8")
    sys.stderr.write("".join(f"{line}\n" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    here = str(Path(__file__).resolve().parent)
    sys.path[:0] = [here] if here not in sys.path else []
    import reliability  # under the name by which the cases know it

    sys.exit(reliability.main())
