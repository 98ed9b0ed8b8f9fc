"""The cluster: who works there, how tasks are combined, what its failures mean."""

from __future__ import annotations

from asyncio import CancelledError as AsyncCancelledError
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np
from dask.utils import funcname
from distributed import Client, KilledWorker, get_client, wait
from distributed.comm import CommClosedError

from ejop.executors.threads import cluster_task
from ejop.sums.plan import format_bytes

#: results merged by one task of a tree
WIDTH = 8
_LOST = (CancelledError, AsyncCancelledError, CommClosedError)


def find_client(client: Client | None) -> Client:
    """The client that was passed, or the one that is connected."""
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise ValueError(
                "`client`=None and no Dask client is connected; start one, for instance "
                "`client = distributed.Client()` on this machine or "
                "`distributed.Client('tcp://scheduler:8786')`, or pass `client`."
            ) from None
    if client.status != "running":
        raise ConnectionError(
            f"the Dask client is {client.status}, not connected to a scheduler; make a new one and "
            "pass it as `client`."
        )
    return client


@dataclass(frozen=True)
class Workers:
    """What the workers are.

    Attributes
    ----------
    count : int
    threads : int
        Of all workers together.
    memory : float
        Bytes that a worker may hold, the least of all; infinite where none has a limit.
    room : float
        Share of it for one thread, the least of all.
    """

    count: int
    threads: int
    memory: float
    room: float

    def __str__(self) -> str:
        memory = "no memory limit" if np.isinf(self.memory) else f"{format_bytes(self.memory)} each"
        return f"{self.count} worker{'s' * (self.count > 1)}, {self.threads} threads, {memory}"


def workers(client: Client) -> Workers:
    """The workers that are there now."""
    found = client.scheduler_info(n_workers=-1)["workers"].values()
    if not found:
        raise ConnectionError(
            f"no worker is connected to {address_of(client)}; start some with `dask worker "
            f"{address_of(client)}`."
        )
    memory = [float(worker["memory_limit"] or np.inf) for worker in found]
    threads = [worker["nthreads"] for worker in found]
    room = min(m / t for m, t in zip(memory, threads, strict=True))
    return Workers(len(memory), sum(threads), min(memory), room)


def address_of(client: Any) -> str:
    """Where the scheduler is, or was."""
    return getattr(client.scheduler, "address", "an unknown address")


@contextmanager
def plainly(client: Client) -> Iterator[None]:
    """Tell in plain words what a broken cluster raises."""
    address = address_of(client)
    try:
        yield
    except KilledWorker as error:
        raise RuntimeError(
            f"several workers died one after another on the same task, most likely for want of "
            f"memory: {error}. Make the partitions smaller (`X.rechunk`, `X.repartition`), lower "
            "`memory_limit`, or give the workers more memory; nothing was fitted."
        ) from error
    except _LOST as error:
        raise ConnectionError(
            f"the Dask scheduler at {address} was lost or restarted and what it knew is gone; "
            "nothing was fitted. Connect a new client and call again."
        ) from error


class ClusterTask:
    """A function as a task: Dask runs tasks side by side, so each has one thread."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = funcname(function)  # what the dashboard shows

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives, with the pools of threads held at one."""
        with cluster_task:
            return self.function(*args, **kwargs)


def delayed(function: Callable[..., Any]) -> Any:
    """Dask's ``delayed`` of a function of ours."""
    return dask.delayed(ClusterTask(function))


def run(client: Client, tasks: Any) -> Any:
    """Results of delayed objects."""
    with plainly(client):
        return client.gather(client.compute(tasks))


def keep(client: Client, task: Any) -> Any:
    """A delayed result that is made now and stays on the workers.

    What it was made from is let go before others ask for it again: a sample of all blocks that
    waited for its last row would otherwise hold every block in memory.
    """
    with plainly(client), client.as_current():
        there = client.persist(task)
        wait(there)
    return there


def tree(parts: Sequence[Any], merge: Callable[[list[Any]], Any], width: int = WIDTH) -> Any:
    """One delayed result from many: groups are merged, then their results, and so on.

    Some ``width`` results of each level wait at a time, so large ones want a narrow tree.
    """
    level = list(parts)
    while len(level) > 1:
        level = [delayed(merge)(level[s : s + width]) for s in range(0, len(level), width)]
    return level[0]


def constant(value: Any) -> Any:
    """An object that many tasks take, once in the graph."""
    return dask.delayed(value, traverse=False)
