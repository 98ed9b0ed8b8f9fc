"""Tasks that need a process of their own: peak memory, first calls, imports.

Run as ``python -m benchmarks.worker TASK JSON``; prints one line of JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
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


def prepare(path: str, method: str, library: str) -> dict[str, Any]:
    """Seconds and peak memory of preparing a saved table; a few rows first warm up."""
    from benchmarks.columns import PREPARERS
    from benchmarks.load import Elsewhere

    table = import_module(library).read_parquet(path)
    numbers = [name for name in table.columns if name.startswith(("number", "flag3"))]
    levels = [name for name in table.columns if name.startswith("category") or name == "flag2"]
    elsewhere = Elsewhere()
    preparer = PREPARERS[method]({"numbers": numbers, "levels": levels})
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is left out
        preparer.fit_transform(table.head(2000))
        for step in ("fit_transform", "transform"):
            forget_peak()
            before, start, used = peak_memory(), time.perf_counter(), time.process_time()
            rows = getattr(preparer, step)(table)
            found[step] = round(time.perf_counter() - start, 4)
            found[f"{step}_cpu"] = round(time.process_time() - used, 4)
            found[f"{step}_peak"] = peak_memory() - before
            found["features"], found["bytes"] = rows.shape[1], of_bytes(rows)
            del rows
    return {**found, "busy_elsewhere": elsewhere.cores()}


def of_bytes(rows: Any) -> int:
    """Bytes of prepared rows, whatever holds them."""
    if hasattr(rows, "memory_usage"):
        return int(rows.memory_usage(deep=True).sum())
    return int(rows.estimated_size() if hasattr(rows, "estimated_size") else rows.nbytes)


def size(set: str, real: bool, n: int, method: str, seed: int, data: str | None) -> dict[str, Any]:
    """Error, seconds and peak memory of a method on one table; a small fit first warms up."""
    import numpy as np

    from benchmarks.load import Elsewhere
    from benchmarks.size_data import FAMILIES, TEST_ROWS, real_set, synthetic
    from benchmarks.size_methods import METHODS

    if set in FAMILIES:
        A, a = synthetic(set, n, real, seed)
        B, b = synthetic(set, TEST_ROWS, real, seed + 1000)
    else:
        A, a, B, b = real_set(Path(data or "."), set, n, seed)
    warnings.simplefilter("ignore")
    few = np.random.default_rng(0).choice(n, 1500, replace=False)
    warm = "ours" if method.startswith("ours,") and "card" not in method else method
    METHODS[warm](A[few], a[few], real).predict(B[:10])
    forget_peak()
    elsewhere, before = Elsewhere(), peak_memory()
    start, used = time.perf_counter(), time.process_time()
    model = METHODS[method](A, a, real)
    fit, fit_cpu = time.perf_counter() - start, time.process_time() - used
    peak = peak_memory() - before
    start, used = time.perf_counter(), time.process_time()
    answers = model.predict(B)
    predict, predict_cpu = time.perf_counter() - start, time.process_time() - used
    wrong = np.mean((b - answers) ** 2) / np.var(b) if real else np.mean(b != answers)
    found = {
        "error": round(100 * float(wrong), 4),
        "test_rows": len(b),
        "fit_seconds": round(fit, 3),
        "fit_cpu_seconds": round(fit_cpu, 3),
        "predict_seconds": round(predict, 3),
        "predict_cpu_seconds": round(predict_cpu, 3),
        "peak_memory": peak,
        "data_bytes": A.nbytes + a.nbytes,
        "busy_elsewhere": elsewhere.cores(),
        "told": f"{100 * wrong:.2f} % in {fit:.0f} s ({fit_cpu:.0f} s of all threads)",
    }
    if method.startswith("ours"):
        found["members"] = [str(one) for one in model.rule_.members_]
        found["centers"] = max(len(one.coefficients) for one in model.rule_.members_)
        found["notes"] = model.rule_.notes_
    return found


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
    "prepare": prepare,
    "size": size,
}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](**json.loads(sys.argv[2]))))
