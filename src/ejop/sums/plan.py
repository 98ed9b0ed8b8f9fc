"""The plan: from shapes and a memory budget to a form, a block size and threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from sklearn import get_config

from ejop.executors.threads import n_threads

if TYPE_CHECKING:
    from ejop.sums.form import Form

#: threads that share the default memory, and the multiple of it that more may take
FEW_THREADS, MOST_MEMORY = 4, 4
#: operations in a block: a fraction of a second, so that Ctrl-C is answered
MAX_FLOPS = 80_000_000_000
#: fewer groups than this make a poor standard error, more gain little
MIN_GROUPS, MANY_GROUPS = 32, 256


@dataclass
class Plan:
    """What was chosen and why; ``print(plan)`` tells it in words.

    Attributes
    ----------
    method : str
        Form of the differences that ran.
    n_rows, n_queries, n_features, n_outputs : int
    dtype : str
        Type of the sums; the matrix itself is always accumulated in float64.
    block : int
        Query rows handled at once by a thread.
    batch : int
        Rows per group of the standard error.
    threads : int
    memory : int
        Bytes the temporaries take at their peak, beside the data.
    notes : list of str
    mass_zeroed : float or None
        Share of derivatives that the mass condition zeroed.
    """

    method: str
    n_rows: int
    n_queries: int
    n_features: int
    n_outputs: int
    dtype: str
    block: int
    batch: int
    threads: int
    memory: int
    notes: list[str] = field(default_factory=list)
    mass_zeroed: float | None = None

    def blocks(self, n_queries: int | None = None) -> list[slice]:
        """Slices of the query rows, in order; of another number of them where given."""
        n = self.n_queries if n_queries is None else n_queries
        return [slice(s, min(s + self.block, n)) for s in range(0, n, self.block)]

    def __str__(self) -> str:
        head = (
            f"{self.method}: {self.n_queries} queries against {self.n_rows} rows of "
            f"{self.n_features} features, {self.n_outputs} outputs, {self.dtype}; blocks of "
            f"{self.block} in {self.threads} thread{'s' * (self.threads > 1)}, about "
            f"{format_bytes(self.memory)} beside the data"
        )
        return "\n".join([head, *(f"- {note}" for note in self.notes)])


def make_plan(
    form: Form, n_queries: int, *, n_jobs: int | None = None, memory_limit: int | None = None
) -> Plan:
    """Block size and threads for ``n_queries`` rows.

    Parameters
    ----------
    form : Form
        By :func:`ejop.sums.prepare`.
    n_queries : int
    n_jobs : int, optional
        Threads; None takes as many as the BLAS is allowed. A device has one.
    memory_limit : int, optional
        Bytes for temporaries; the engine's own by default.

    Raises
    ------
    MemoryError
        When not even one query row fits.
    """
    cost, engine, d = form.cost, form.engine, form.d
    operations = cost.flops_per_query * n_queries or float("inf")
    threads = 1 if engine.on_device else n_threads(n_jobs, operations)
    budget = engine.budget(threads) if memory_limit is None else memory_limit
    accumulator = 4 * d * d * 8  # sums, squares, weighted sums, one being merged
    fixed, each = cost.fixed_bytes + accumulator, cost.thread_bytes + accumulator
    # The default is a wish, not a wall: what is fixed must not leave blocks of single rows.
    least = budget // 4 if memory_limit is None else 0

    def room_of(threads: int) -> int:
        return max(budget - fixed - threads * each, least)

    room = room_of(threads)
    while threads > 1 and room < threads * cost.bytes_per_query:
        threads -= 1
        room = room_of(threads)
    if room < cost.bytes_per_query:
        if memory_limit is not None:
            needed = format_bytes(fixed + each + cost.bytes_per_query)
            raise MemoryError(
                f"`memory_limit`={format_bytes(budget)} is too little: {cost.method} on "
                f"{form.summary.n} rows of {d} features needs at least {needed}; raise it, reduce "
                "the rows or features, or pass float32 data."
            )
        room = cost.bytes_per_query
    batch = group_size(d, n_queries, engine.max_block // 4)
    short = max(MAX_FLOPS // max(cost.flops_per_query, 1), 64)
    most = engine.max_block if engine.on_device else min(short, engine.max_block)
    block = int(np.clip(room // threads // cost.bytes_per_query, 1, most))
    rounds = -(-n_queries // (block * threads))  # even blocks: every thread gets the same work
    block = max(1, -(-n_queries // (rounds * threads)))
    batch = min(batch, block)
    # Whole groups to a block: the standard error does not depend on the block size.
    block = block // batch * batch
    threads = min(threads, -(-n_queries // block))
    return Plan(
        method=cost.method,
        n_rows=form.summary.n,
        n_queries=n_queries,
        n_features=d,
        n_outputs=form.c,
        dtype=str(form.kind),
        block=block,
        batch=batch,
        threads=threads,
        memory=fixed + threads * (block * cost.bytes_per_query + each),
        notes=[f"{cost.method}: {'; '.join(form.notes)}"] if form.notes else [],
    )


def default_memory(threads: int) -> int:
    """Bytes for temporaries: scikit-learn's ``working_memory``, more of it from five threads on.

    Every thread has a block of its own, and products of few rows are slow.

    Examples
    --------
    >>> from ejop.sums.plan import default_memory
    >>> [default_memory(threads) // 2**20 for threads in (1, 4, 8, 64)]
    [1024, 1024, 2048, 4096]
    """
    share = np.clip(threads / FEW_THREADS, 1, MOST_MEMORY)
    return int(share * get_config()["working_memory"] * 2**20)


def group_size(n_features: int, n_queries: int, most: int = 64) -> int:
    """Rows per group of the standard error, ``most`` at the most."""
    wanted = max(n_features // 8, n_queries // MANY_GROUPS)
    return int(np.clip(wanted, 1, max(1, min(most, n_queries // MIN_GROUPS))))


def format_bytes(n: float) -> str:
    """Bytes as people read them.

    Examples
    --------
    >>> from ejop.sums.plan import format_bytes
    >>> format_bytes(3 * 2**20)
    '3.0 MiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            break
        n /= 1024
    return f"{n:.0f} B" if unit == "B" else f"{n:.1f} {unit}"
