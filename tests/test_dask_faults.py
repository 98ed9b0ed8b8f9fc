"""Dask: workers that die or dawdle, a scheduler that restarts, joblib's backends."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.model_selection import cross_val_score

from conftest import local_cluster
from ejop import EJOP, EJOPClassifier
from ejop.datasets import make_multi_index
from ejop.executors.threads import n_threads

pytest.importorskip("distributed")
import dask.array as da
from distributed import Client, Scheduler

from ejop.dask import DaskEJOP
from ejop.executors.dask import rows as rows_module

X, Y, _ = make_multi_index(420, 5, random_state=0)
CUTS = (20,) * 21
TASK = {"tiles": "tile", "broadcast": "query_sum"}


@pytest.fixture(autouse=True)
def many_tasks(monkeypatch):
    monkeypatch.setattr(rows_module, "BLOCK_BYTES", 1)
    monkeypatch.setattr("ejop.executors.dask.broadcast.TASKS_PER_THREAD", 20)


def slow(block, seconds=0.03):
    time.sleep(seconds)
    return block


def slow_rows():
    """Rows that take a while to read, so that a fit lasts long enough to be disturbed."""
    rows = da.from_array(X, chunks=(CUTS, -1)).map_blocks(slow, dtype=float)
    return rows, da.from_array(Y, chunks=(CUTS,))


def finished(client, name):
    """How many tasks of a name are done."""

    def count(dask_scheduler, name):
        prefix = dask_scheduler.task_prefixes.get(name)
        return 0 if prefix is None else prefix.state_counts["memory"]

    return client.run_on_scheduler(count, name=name)


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def pids(client):
    return client.run(os.getpid, on_error="ignore")


@pytest.mark.parametrize("reduction", ["tiles", "broadcast"])
def test_workers_killed_twice_in_the_middle_of_a_fit(reduction):
    local = EJOP(bandwidth=0.7).fit(X, Y).outer_product_
    with local_cluster() as client, ThreadPoolExecutor(1) as pool:
        model = DaskEJOP(bandwidth=0.7, reduction=reduction, client=client)
        before = finished(client, TASK[reduction])
        fit = pool.submit(model.fit, *slow_rows())
        killed = []
        for share in (2, 6):
            wait_for(lambda share=share: finished(client, TASK[reduction]) >= before + share)
            victim = next(pid for pid in pids(client).values() if pid not in killed)
            assert not fit.done()
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)
            wait_for(lambda victim=victim: victim not in pids(client).values())
        fitted = fit.result(timeout=60)
        assert len(set(killed)) == 2
        assert fitted.n_queries_ == len(X)
        np.testing.assert_allclose(fitted.outer_product_, local, rtol=0, atol=1e-10 * local.max())


def test_one_worker_is_slow(client):
    """One process stops for two seconds in the middle: the others' work and its own both count."""
    local = EJOP(bandwidth=0.7).fit(X, Y).outer_product_
    model = DaskEJOP(bandwidth=0.7, reduction="tiles", client=client)
    dawdler = next(iter(pids(client).values()))
    before = finished(client, "tile")
    with ThreadPoolExecutor(1) as pool:
        fit = pool.submit(model.fit, *slow_rows())
        wait_for(lambda: finished(client, "tile") > before)
        os.kill(dawdler, signal.SIGSTOP)
        threading.Timer(2, os.kill, (dawdler, signal.SIGCONT)).start()
        fitted = fit.result(timeout=60)
    np.testing.assert_allclose(fitted.outer_product_, local, rtol=0, atol=1e-10 * local.max())


def start(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_restarted_scheduler_is_a_clear_error():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    scheduler = ("dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    processes = [start(*scheduler)]
    try:
        processes.append(start("dask_worker", address, "--nthreads", "1", "--no-dashboard"))
        with Client(address, timeout=30, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=30)
            model = DaskEJOP(bandwidth=0.7, reduction="tiles", client=client)
            with ThreadPoolExecutor(1) as pool:
                fit = pool.submit(model.fit, *slow_rows())
                wait_for(lambda: finished(client, "tile") > 2)
                processes[0].kill()
                processes[0].wait()
                processes.append(start(*scheduler))
                message = f"scheduler at {address} was lost or restarted .* nothing was fitted"
                with pytest.raises(ConnectionError, match=message):
                    fit.result(timeout=60)
            assert not hasattr(model, "outer_product_")
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_tasks_that_kill_every_worker_are_a_clear_error():
    rows = da.from_array(X, chunks=(CUTS, -1)).map_blocks(suicide, dtype=float, meta=X[:0])
    with local_cluster(1) as client:
        client.run_on_scheduler(allow_no_failure)
        with pytest.raises(RuntimeError, match=r"workers died .* want of memory.* nothing was fit"):
            DaskEJOP(client=client).fit(rows, da.from_array(Y, chunks=(CUTS,)))


def suicide(block):
    os.kill(os.getpid(), signal.SIGKILL)


def allow_no_failure(dask_scheduler: Scheduler):
    dask_scheduler.allowed_failures = 0


# joblib -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["loky", "dask"])
def test_plain_estimators_under_the_backends_of_joblib(client, backend):
    """Fits of a search or a validation run in the backend's processes, with the same scores."""
    model = EJOPClassifier("knn", function="kernel", scale="none", power=1.0, random_state=0)
    alone = cross_val_score(model, X[:200], Y[:200], cv=3)
    options = {"client": client} if backend == "dask" else {}
    with parallel_config(backend, n_jobs=2, **options):
        together = cross_val_score(model, X[:200], Y[:200], cv=3)
    np.testing.assert_array_equal(together, alone)


def test_a_single_fit_stays_in_its_threads(client, monkeypatch):
    local = EJOP(bandwidth=0.7).fit(X, Y).outer_product_
    with parallel_config("dask", client=client):
        np.testing.assert_allclose(EJOP(bandwidth=0.7, n_jobs=2).fit(X, Y).outer_product_, local)
    # joblib counts the threads of the whole cluster, whatever was asked for
    monkeypatch.setattr("ejop.executors.threads.effective_n_jobs", lambda n_jobs: 640)
    assert n_threads(2) == 2
    assert n_threads(-1) <= os.cpu_count()
