"""The same sum on a Dask cluster: overhead, traffic of the client, memory of the workers.

Run by hand: ``python -m benchmarks.cluster [--out FILE] [--tiny]``. A scheduler and two workers of
1 GiB and one thread each are started as processes of their own on this machine, so that what the
client reads and writes can be counted.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client
from tornado.iostream import IOStream

from benchmarks import report
from benchmarks.common import log
from benchmarks.load import Elsewhere
from benchmarks.worker import peak_memory
from ejop import EJOP
from ejop.choice import LocalRows
from ejop.dask import DaskEJOP
from ejop.datasets import make_multi_index
from ejop.executors.dask.plan import Job
from ejop.executors.dask.tiles import _tile
from ejop.executors.expectation import Terms
from ejop.functions import KernelSmoother
from ejop.rows import whole_block
from ejop.sums import prepare

GIB = 2**30


class Traffic:
    """Bytes that this process reads from and writes to sockets of Dask."""

    def __init__(self) -> None:
        self.read = self.written = 0
        took, gave = IOStream.read_from_fd, IOStream.write_to_fd

        def read_from_fd(stream: Any, buffer: Any) -> Any:
            n = took(stream, buffer)
            self.read += n or 0
            return n

        def write_to_fd(stream: Any, data: Any) -> Any:
            n = gave(stream, data)
            self.written += n or 0
            return n

        IOStream.read_from_fd, IOStream.write_to_fd = read_from_fd, write_to_fd

    def since(self, before: tuple[int, int]) -> dict[str, int]:
        return {"read": self.read - before[0], "written": self.written - before[1]}

    def now(self) -> tuple[int, int]:
        return self.read, self.written


@contextmanager
def cluster(n_workers: int = 2) -> Iterator[Client]:
    """A client of processes that are not this one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    python = [sys.executable, "-m"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    worker = ["distributed.cli.dask_worker", address, "--nthreads", "1", "--nworkers"]
    worker += [str(n_workers), "--memory-limit", "1GiB", "--no-dashboard"]
    processes = [
        subprocess.Popen([*python, *scheduler, "--no-dashboard"], **quiet),
        subprocess.Popen([*python, *worker], **quiet),
    ]
    try:
        with Client(address, timeout=60) as client:
            client.wait_for_workers(n_workers, timeout=60)
            yield client
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(timeout=30)


def overhead(client: Client, traffic: Traffic, sizes: list[tuple[int, int]], repeat: int) -> Any:
    """Seconds on the cluster over those of the local estimator with two threads."""
    out = []
    for n, d in sizes:
        X, y, _ = make_multi_index(n, d, random_state=0)
        rows = client.persist(da.from_array(X, chunks=(max(1, n // 8), -1)))
        labels = client.persist(da.from_array(y, chunks=max(1, n // 8)))
        local = EJOP(bandwidth=0.25 * d**0.5, n_jobs=2)
        models = {
            name: DaskEJOP(bandwidth=local.bandwidth, reduction=name, client=client)
            for name in ("broadcast", "tiles")
        }
        seconds: dict[str, list[float]] = {name: [] for name in ("local", *models)}
        moved: dict[str, Any] = {}
        for _ in range(repeat):
            begin = time.perf_counter()
            truth = local.fit(X, y).outer_product_
            seconds["local"].append(time.perf_counter() - begin)
            for name, model in models.items():
                before, begin = traffic.now(), time.perf_counter()
                model.fit(rows, labels)
                seconds[name].append(time.perf_counter() - begin)
                moved[name] = traffic.since(before)
        best = {name: min(runs) for name, runs in seconds.items()}
        record = {"n": n, "d": d, "data_bytes": X.nbytes, "seconds": seconds}
        for name, model in models.items():
            record[name] = {
                "ratio": best[name] / best["local"],
                "client_bytes": moved[name],
                "difference": float(np.abs(model.outer_product_ - truth).max() / truth.max()),
                "plan": str(model.plan_),
            }
        out.append(record)
        log(f"overhead {n} x {d}: {best}")
    return out


def task_rates(n: int, d: int, m: int) -> dict[str, Any]:
    """Seconds of one tile task for a query, a reference and a feature, and of making rows."""
    rng = np.random.default_rng(0)
    begin = time.perf_counter()
    X = rng.normal(size=(n, d))
    making = time.perf_counter() - begin
    Y = np.eye(2)[(X[:, 0] > 0).astype(int)]
    block = whole_block(X, Y, None)
    queries = block.rows(slice(0, m))
    form = prepare(KernelSmoother(bandwidth=3.0).settle(LocalRows(block)), np.full(d, 1.5))
    task = form, Job(GIB // 4, 16, m), Terms(leave_one_out=True, softmax=True)
    _tile(task, block, queries)
    runs = []
    for _ in range(3):
        begin = time.perf_counter()
        state = _tile(task, block, queries)
        runs.append(time.perf_counter() - begin)
    size = state.sums.nbytes + state.total.nbytes
    return {
        "rows": n,
        "features": d,
        "queries": m,
        "task_seconds": min(runs),
        "seconds_per_pair_and_feature": min(runs) / (n * m * d),
        "seconds_per_value_made": making / (n * d),
        "state_bytes": size,
        "state_bytes_per_query": size / m,
        "block_bytes": X.nbytes,
    }


def out_of_core(client: Client, traffic: Traffic, share: float, d: int, queries: int) -> Any:
    """Rows of ``share`` GiB, made where they are needed, by two workers of 1 GiB."""
    n = int(share * GIB / (8 * d))
    size = max(1, int(32 * 2**20 / (8 * d)))
    X = da.random.RandomState(0).normal(size=(n, d), chunks=(size, d))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    model = DaskEJOP(bandwidth=3.0, n_queries=queries, random_state=0, client=client)
    peaks: dict[str, dict[str, float]] = {}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.5):
            for address, worker in client.scheduler_info(n_workers=-1)["workers"].items():
                known = peaks.setdefault(address, {"memory": 0, "spilled": 0})
                metrics = worker["metrics"]
                known["memory"] = max(known["memory"], metrics["memory"])
                known["spilled"] = max(known["spilled"], metrics["spilled_bytes"]["disk"])

    watcher = threading.Thread(target=watch)
    watcher.start()
    before, begin = traffic.now(), time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - begin
    done.set()
    watcher.join()
    return {
        "rows": n,
        "features": d,
        "data_gib": n * d * 8 / GIB,
        "workers": 2,
        "worker_gib": 1.0,
        "queries": queries,
        "seconds": seconds,
        "client_bytes": traffic.since(before),
        "highest_resident_gib": sorted(v / GIB for v in client.run(peak_memory).values()),
        "seen_by_dask": [
            {key: value / GIB for key, value in seen.items()} for seen in peaks.values()
        ],
        "leading_share": float(model.feature_importances_[:2].sum()),
        "plan": str(model.plan_),
    }


def predict(rates: dict[str, Any], n: int, d: int, queries: int, threads: int, passes: int) -> Any:
    """The model on paper: pairs and passes, shared by the threads."""
    tiles = n * queries * d * rates["seconds_per_pair_and_feature"] / threads
    reading = passes * n * d * rates["seconds_per_value_made"] / threads
    return {"tiles_seconds": tiles, "reading_seconds": reading, "seconds": tiles + reading}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tiny", action="store_true", help="to try the code")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    traffic, elsewhere = Traffic(), Elsewhere()
    tiny = options.tiny
    record: dict[str, Any] = {
        "date": report.document([], "cluster")["date"],
        "commit": report.commit(),
        "machine": report.machine(),
        "versions": report.versions(),
    }
    with cluster() as client:
        warm, labels, _ = make_multi_index(2000, 5, random_state=0)
        for name in ("broadcast", "tiles"):
            model = DaskEJOP(bandwidth=1.0, reduction=name, client=client)
            model.fit(da.from_array(warm, chunks=(500, -1)), labels)
        sizes = [(1000, 5)] if tiny else [(5000, 50), (20_000, 50)]
        record["overhead"] = overhead(client, traffic, sizes, 1 if tiny else 2)
    with cluster() as client:
        log("out of core")
        share, queries = (0.05, 64) if tiny else (3.0, 512)
        record["out_of_core"] = out_of_core(client, traffic, share, 50, queries)
        log(json.dumps(record["out_of_core"]))
    rates = {d: task_rates(2000 if tiny else 80_000, d, 512) for d in (50, 100)}
    record["tasks"] = list(rates.values())
    run = record["out_of_core"]
    # checked and counted, summed up, sampled for queries, tiled: four readings of all rows
    record["model"] = {
        "check": {
            "what": "the run out of core",
            **predict(rates[50], run["rows"], 50, run["queries"], 2, 4),
            "measured_seconds": run["seconds"],
        },
        "large": {
            "what": "10^8 x 100 on 50 workers of one thread",
            "queries": 4096,
            **predict(rates[100], 10**8, 100, 4096, 50, 6),
            "state_bytes": 4096 * rates[100]["state_bytes_per_query"],
        },
    }
    record["busy_elsewhere"] = elsewhere.cores()
    print(json.dumps(record, indent=1))
    if options.out:
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
