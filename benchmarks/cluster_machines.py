"""Kernel machines of a cluster solved for more rows than its workers hold.

Run by hand: ``python -m benchmarks.cluster_machines [--out FILE] [--tiny]``, some seven minutes on
two cores. Two workers of 1 GiB and one thread each fit 3 GiB of rows that are made where they are
needed: once left alone, and once with a worker killed in the middle of the passes. Then one
process solves the same machines, on the same centres and from the same start, by passes over a
file of these rows, and the answers are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import threading
import time
from copy import copy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client

from benchmarks import report
from benchmarks.cluster import GIB, Traffic, cluster
from benchmarks.common import log
from benchmarks.load import Elsewhere
from benchmarks.worker import peak_memory
from ejop import RidgeRule
from ejop.dask import DaskEGOPRegressor
from ejop.executors.dask.machines import PASSES, system_of
from ejop.rows import whole_block
from ejop.sums.conjugate import RowPasses

COLUMNS = 50
#: the worker dies once so many seconds of the passes are over
KILLED_AFTER = 20.0


class Watched(DaskEGOPRegressor):
    """What it comes to before the passes, and how long these take, are noted beside it."""

    def _solve_for_all(self, client: Any, rows: Any, class_weights: Any) -> None:
        NOTED["begun"] = self._fitted_plain()
        NOTED["passing"].set()
        begin = time.perf_counter()
        super()._solve_for_all(client, rows, class_weights)
        NOTED["seconds"] = time.perf_counter() - begin


NOTED: dict[str, Any] = {}


def rows_of(share: float, chunk: int) -> tuple[Any, Any]:
    """So many GiB of rows and a target of three columns, none of them made yet."""
    n = int(share * GIB / (8 * COLUMNS))
    X = da.random.RandomState(0).normal(size=(n, COLUMNS), chunks=(chunk, COLUMNS))
    return X, da.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]


def kill_one(client: Client, after: float) -> threading.Thread:
    """A thread that kills a worker with all it holds, once the passes have begun."""

    def kill() -> None:
        NOTED["passing"].wait()
        time.sleep(after)
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        NOTED["killed"] = time.perf_counter()

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


def on_one_machine(plain: Any, X: Any, y: Any, folder: str) -> dict[str, Any]:
    """The same machines by passes of this process over a file of the rows."""
    rows = np.lib.format.open_memmap(Path(folder) / "X.npy", "w+", np.float64, X.shape)
    truth = np.empty((len(X), 1))
    start = 0
    for piece, part in zip(X.blocks, y.blocks, strict=True):
        end = start + len(piece)
        rows[start:end], truth[start:end, 0] = piece.compute(), part.compute()
        start = end
    rows.flush()
    rows = np.load(Path(folder) / "X.npy", mmap_mode="r")
    block = whole_block(rows, truth, None)
    function, members = plain.rule_.function_, []
    begin = time.perf_counter()
    for member in function.members_:
        system, reading = system_of(plain, function, member, float(len(X)), len(X))
        passes = RowPasses(
            lambda s, e, reading=reading: reading(block, slice(s, e)), len(X), float(len(X))
        )
        a = member.coefficients.astype(np.float64)
        *_, last = islice(system.descend(passes, 1, a), PASSES + 1)
        members.append(replace(member, coefficients=last.coefficients))
    seconds = time.perf_counter() - begin
    twin = copy(plain)
    twin.rule_ = copy(plain.rule_)
    twin.rule_.function_ = copy(function)
    twin.rule_.function_.members_ = members
    return {"seconds": seconds, "model": twin}


def error(model: Any, Q: Any, truth: Any) -> float:
    """Share of the variance that is not explained."""
    return float(np.mean((model.predict(Q) - truth) ** 2) / truth.var())


def apart(one: Any, other: Any, Q: Any) -> dict[str, float]:
    """Largest difference of two models' f, and of their answers, which machines on centres may
    give in float32; in standard deviations of f."""
    f, g = (exactly(model, Q) for model in (one, other))
    answers = np.abs(one.predict(Q) - other.predict(Q)).max()
    return {"f": float(np.abs(f - g).max() / g.std()), "answers": float(answers / g.std())}


def exactly(model: Any, Q: Any) -> Any:
    """Values of f in float64."""
    Z = model.scale_rows(Q)
    return next(iter(model.rule_.function_.walk(Z, Z, [])))


def machines(share: float, chunk: int, rule: RidgeRule, after: float) -> dict[str, Any]:
    """All three fits, and how far their answers are apart."""
    X, y = rows_of(share, chunk)
    rng = np.random.default_rng(1)
    Q = rng.normal(size=(2000, COLUMNS))
    truth = np.sin(2 * Q[:, 0]) + Q[:, 1] * Q[:, 2]
    found: dict[str, Any] = {
        "rows": len(X),
        "features": COLUMNS,
        "data_gib": X.nbytes / GIB,
        "workers": 2,
        "worker_gib": 1.0,
        "killed_after_seconds": after,
    }
    models, traffic = {}, Traffic()
    for name in ("alone", "killed"):
        NOTED["passing"] = threading.Event()
        with cluster() as client:
            thread = kill_one(client, after) if name == "killed" else None
            before, begin = traffic.now(), time.perf_counter()
            model = Watched(rule, random_state=0, client=client).fit(X, y)
            end = time.perf_counter()
            if thread is not None:
                thread.join()
            models[name] = model.to_local()
            found[name] = {
                "seconds": end - begin,
                "passes_seconds": NOTED["seconds"],
                "client_bytes": traffic.since(before),
                "highest_resident_gib": sorted(v / GIB for v in client.run(peak_memory).values()),
                "plan": str(model.plan_),
                "error": error(models[name], Q, truth),
            }
            if thread is not None:
                found[name]["died_in_the_passes"] = NOTED["killed"] < end
        log(f"{name}: {json.dumps(found[name])}")
    begun = NOTED["begun"]
    found["centers"] = [len(one.coefficients) for one in begun.rule_.members_]
    found["sample_error"] = error(begun, Q, truth)
    with tempfile.TemporaryDirectory() as folder:
        one = on_one_machine(begun, X, y, folder)
    found["one_machine"] = {
        "passes_seconds": one["seconds"],
        "threads": os.cpu_count(),
        "error": error(one["model"], Q, truth),
    }
    for name, model in models.items():
        found[name]["apart"] = apart(model, one["model"], Q)
        found[name]["overhead"] = found[name]["passes_seconds"] / one["seconds"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tiny", action="store_true", help="to try the code")
    options = parser.parse_args()
    elsewhere = Elsewhere()
    rule = RidgeRule(n_members=1, n_centers=200)
    size = (0.05, 19_999) if options.tiny else (3.0, 77_777)
    record: dict[str, Any] = {
        "date": report.document([], "cluster")["date"],
        "commit": report.commit(),
        "machine": report.machine(),
        "versions": report.versions(),
        "machines": machines(*size, rule, 0.5 if options.tiny else KILLED_AFTER),
    }
    record["busy_elsewhere"] = elsewhere.cores()
    print(json.dumps(record, indent=1))
    if options.out:
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
