"""What a person waits for once: imports and compilation."""

from __future__ import annotations

import tempfile

from benchmarks.common import Goal, Row, in_worker, log

FUNCTIONS = ("kernel", "ball", "knn")


def first_call(*, repeat: int) -> list[Row]:
    """Imports, then the first fit of a process with nothing compiled and with the cache."""
    whole = _import_row(repeat, "import ejop", Goal("<", 1), module="ejop")
    named = _import_row(repeat, "from ejop import EJOP", None, module="ejop", name="EJOP")
    return [whole, named, *(row for name in FUNCTIONS for row in _compile_rows(name))]


def _import_row(repeat: int, what: str, goal: Goal | None, **arguments: str) -> Row:
    log(f"first-call: {what}")
    seconds = [in_worker("import_time", **arguments) for _ in range(repeat)]
    limit = "1 s" if goal else None
    ratio = min(seconds) if goal else None
    return Row("import", what, "new process", seconds, limit=limit, ratio=ratio, goal=goal)


def _compile_rows(function: str) -> list[Row]:
    log(f"first-call: compiling for function={function!r}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for cache in ("compiles everything", "compiled code on disk"):
            seconds = in_worker(
                "first_fit", function=function, environment={"NUMBA_CACHE_DIR": folder}
            )
            what = f"function={function!r}, first fit of a process: {cache}"
            rows.append(Row("first fit", what, "300 x 16, 10 classes, float64", [seconds]))
    return rows
