"""Bad and odd input tried on a cluster: what each call must give."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from functools import cache, partial
from typing import Any

import numpy as np

from ejop import EJOP
from reliability import Case
from reliability_numbers import BROKEN, LABELS, QUERIES, TARGETS, WEIGHTS, N, X, matrix, plain

CASES: list[Case] = []


@cache
def client() -> Any:
    """A cluster of one thread of this process."""
    from distributed import Client, LocalCluster

    stack = ExitStack()
    cluster = stack.enter_context(
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            dashboard_address=None,
            silence_logs=50,
        )
    )
    found = stack.enter_context(Client(cluster, set_as_default=False))
    atexit.register(stack.close)
    return found


def cut(values: Any) -> Any:
    import dask.array as da

    values = np.asarray(values)
    return da.from_array(values, chunks=(max(1, len(values) // 3), *values.shape[1:]))


def on_cluster(kind: type, rows: Any, y: Any, w: Any = None, at: Any = None) -> Any:
    from ejop import dask

    model = getattr(dask, f"Dask{kind.__name__}")("kernel", client=client())
    model.fit(cut(rows), cut(y), sample_weight=None if w is None else cut(w))
    return model.outer_product_ if at is None else model.transform(cut(at)).compute()


def same(kind: type, y: Any, w: Any = None) -> Any:
    found = on_cluster(kind, X, y, w)
    expected = matrix(kind, "kernel", X, y, w)
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())
    return found


def add(kind: str, name: str, call: Any, expect: Any = None, match: str = "") -> None:
    CASES.append(Case("Dask", kind, name, call, expect, match))


for name in ("NaN", "infinity", "1e300", "1e160", "1e-160", "1e-300", "equal rows", "words",
             "complex numbers", "one dimension"):  # fmt: skip
    rows, words = BROKEN[name]
    add("broken rows", name, partial(on_cluster, EJOP, rows, LABELS[: len(rows)]),
        (ValueError, TypeError), words + "|two dimensions|2D|columns")  # fmt: skip
for name, (w, error, words) in WEIGHTS.items():
    if name in ("NaN", "infinity", "negative", "zeros", "one of 1e30"):
        add("weights", name, partial(on_cluster, EJOP, X, LABELS, w), ValueError, words)
    elif error is None:
        add("weights", name, partial(same, EJOP, LABELS, w))
for name, (kind, y, error, words) in TARGETS.items():
    if error is None and np.asarray(y).ndim == 1:
        add("targets", name, partial(same, kind, y))
    elif name in ("None in y, classes", "1e300", "NaN", "infinity", "constant", "real for classes"):
        add("targets", name, partial(on_cluster, kind, X, y), error, words)
for name in ("NaN", "infinity", "one column", "one row", "1e9 away"):
    rows, error, words = QUERIES[name]
    add("queries", name, partial(on_cluster, EJOP, X, LABELS, None, rows), error,
        words + "|NaN or infinity|columns")  # fmt: skip
add("whole", "as without a cluster", lambda: np.testing.assert_allclose(
    on_cluster(EJOP, X, LABELS), plain(EJOP, "kernel"), rtol=1e-8))  # fmt: skip
assert len(X) == N
