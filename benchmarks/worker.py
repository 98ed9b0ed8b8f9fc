"""Tasks that need a process of their own: peak memory, first calls, imports.

Run as ``python -m benchmarks.worker TASK JSON``; prints one line of JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any


def fit(folder: str, parameters: dict[str, Any], repeat: int) -> dict[str, Any]:
    """Seconds, plan and peak memory of EJOP on saved rows; a small fit first warms up."""
    import numpy as np

    from ejop import EJOP

    few = np.array(np.load(Path(folder) / "X.npy", mmap_mode="r")[:2000])
    y = np.load(Path(folder) / "y.npy")
    EJOP(**parameters).fit(few, y[:2000])
    X = np.load(Path(folder) / "X.npy")
    forget_peak()
    before = peak_memory()
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        fitted = EJOP(**parameters).fit(X, y)
        seconds.append(time.perf_counter() - start)
    return {
        "seconds": seconds,
        "peak_memory": peak_memory() - before,
        "plan": str(fitted.plan_),
        "n_queries": fitted.n_queries_,
    }


def generate(folder: str, n: int, d: int) -> None:
    """Save labelled rows of a multi-index model."""
    import numpy as np

    from ejop.datasets import make_multi_index

    X, y, _ = make_multi_index(n, d, random_state=0)
    np.save(Path(folder) / "X.npy", X)
    np.save(Path(folder) / "y.npy", y)


def first_fit(function: str) -> float:
    """Seconds of the first fit of a process, on 300 rows of 16 features."""
    from benchmarks.data import blobs
    from ejop import EJOP

    X, y = blobs(300, 16)
    start = time.perf_counter()
    EJOP(function, random_state=0).fit(X, y)
    return time.perf_counter() - start


def import_time(module: str, name: str | None = None) -> float:
    """Seconds to import a module, or a name from it, in a new process."""
    start = time.perf_counter()
    home = import_module(module)
    if name is not None:
        getattr(home, name)
    return time.perf_counter() - start


# memory -------------------------------------------------------------------------------------


def forget_peak() -> None:
    """Where the system can, let the peak start again from what is resident now."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """Largest resident memory so far, in bytes.

    Linux's ``ru_maxrss`` is not used where ``VmHWM`` is there: a child inherits the former from
    its parent, whose own peak would hide the child's.
    """
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


TASKS: dict[str, Callable[..., Any]] = {
    "fit": fit,
    "generate": generate,
    "first_fit": first_fit,
    "import_time": import_time,
}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](**json.loads(sys.argv[2]))))
