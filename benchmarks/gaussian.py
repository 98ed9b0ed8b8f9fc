"""The Gaussian smoother: share of the matrix-product rate, local plan, shifted kernels."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from benchmarks.common import Goal, Row, in_worker, interleaved, log, timed
from benchmarks.data import blobs, mnist, shape, usps
from benchmarks.peers import kernel_regression, relative_difference, shifted_outer_product
from ejop import EJOP


def gemm(*, n: int, side: int, repeat: int, bandwidth: float = 2.5, data: Any = usps) -> list[Row]:
    """Rate of EJOP over all rows against the machine's own rate of float32 matrix products."""
    (X, y), remark = data(n)
    rng = np.random.default_rng(0)
    A, B = (rng.uniform(size=(side, side)).astype(np.float32) for _ in range(2))
    C = np.empty_like(A)
    estimator = EJOP(bandwidth=bandwidth)
    seconds, fitted = interleaved(
        repeat,
        {"ours": lambda: estimator.fit(X, y), "sgemm": lambda: np.matmul(A, B, out=C)},
    )
    plan = fitted["ours"].plan_
    n, d, c = plan.n_rows, plan.n_features, plan.n_outputs
    flops = 6 * n**2 * d + 2 * n * c * d**2
    scale = flops / (2 * side**3)  # seconds of the square product -> seconds for our count
    row = Row(
        "gemm",
        f"all rows, 6 n^2 d + 2 n c d^2 flops; peer: as many at the rate of {side}^3 sgemm",
        shape(X, y),
        seconds["ours"],
        [s * scale for s in seconds["sgemm"]],
        goal=Goal(">=", 0.6),
        plan=str(plan),
        needs_plan="gaussian-product",
    )
    ours, peer = row.ours_seconds, row.peer_seconds
    row.ratio = peer / ours
    rates = f"{flops / ours / 1e9:.0f} of {flops / peer / 1e9:.0f} GFLOP/s"
    row.remark = _join(rates, remark, _unexpected(row))
    return [row]


def local(*, n: int, n_queries: int | None, repeat: int, automatic: bool) -> list[Row]:
    """Few rows summed per query, against one nearest-neighbour pass over the same rows."""
    (X, y), remark = mnist(n)
    queries = X if n_queries is None else X[:n_queries]
    index = NearestNeighbors(n_neighbors=7, algorithm="brute", n_jobs=-1).fit(X)
    peer: list[float] = []
    ours: list[dict[str, Any]] = []
    options = {"n_queries": n_queries, "random_state": 0}
    size = shape(X, y) + ("" if n_queries is None else f", {n_queries} queries")
    with tempfile.TemporaryDirectory() as folder:
        save(folder, X, y)
        for turn in range(repeat):
            log(f"local: pass {turn + 1} of {repeat}")
            parameters = {"bandwidth": 1.05, **options}
            ours.append(in_worker("fit", folder=folder, parameters=parameters, repeat=1))
            peer.append(timed(lambda: index.kneighbors(queries))[0])
        rows = [_local_row("bandwidth 1.05", size, ours, peer, remark, "gaussian-local")]
        if automatic:
            log("local: automatic bandwidth")
            chosen = in_worker("fit", folder=folder, parameters=options, repeat=1)
            rows.append(_local_row("automatic bandwidth", size, [chosen], peer, remark, None))
    return rows


def _local_row(
    which: str,
    size: str,
    ours: list[dict[str, Any]],
    peer: list[float],
    remark: str,
    expected: str | None,
) -> Row:
    row = Row(
        "local" if expected else "local auto",
        f"{which}; peer: brute-force kneighbors, k = 7, of as many rows",
        size,
        [run["seconds"][0] for run in ours],
        peer,
        goal=Goal("<=", 1.5) if expected else None,
        plan=ours[-1]["plan"],
        needs_plan=expected,
        peak_memory=max(run["peak_memory"] for run in ours),
    )
    row.ratio = row.ours_seconds / row.peer_seconds
    row.remark = _join(remark, _unexpected(row))
    return row


def naive(*, n: int, d: int, n_features: int | None, repeat: int) -> list[Row]:
    """Against one kernel matrix per feature and sign, and the same matrix M."""
    X, y = blobs(n, d)
    chosen = EJOP(random_state=0).fit(X, y)  # the bandwidth is the same for both, and not timed
    h, t = chosen.bandwidth_, float(chosen.step_)
    features = np.arange(d if n_features is None else n_features)
    values = kernel_regression(X, y, h)
    seconds, results = interleaved(
        repeat,
        {
            "ours": lambda: EJOP(bandwidth=h, step=t).fit(X, y),
            "peer": lambda: shifted_outer_product(values, X, t, features),
        },
    )
    scale = d / len(features)
    note = "" if scale == 1 else f", {len(features)} features timed and scaled up"
    row = Row(
        "naive",
        f"peer: 2d = {2 * d} shifted kernel regressions in NumPy{note}",
        shape(X, y),
        seconds["ours"],
        [s * scale for s in seconds["peer"]],
        goal=Goal(">=", 100),
        plan=str(results["ours"].plan_),
    )
    row.ratio = row.peer_seconds / row.ours_seconds
    M = results["ours"].outer_product_[np.ix_(features, features)]
    return [row, agreement(row, M, results["peer"])]


def agreement(row: Row, ours: NDArray, peer: NDArray) -> Row:
    """A row for the difference of the two matrices that a timing row compared."""
    return Row(
        f"{row.name} M",
        "largest difference of the two matrices over the largest entry",
        row.size,
        ratio=relative_difference(ours, peer),
        goal=Goal("<=", 1e-10),
        plan=row.plan,
        timed=False,
    )


def save(folder: str, X: NDArray, y: NDArray) -> None:
    """Put rows where a worker finds them."""
    np.save(Path(folder) / "X.npy", X)
    np.save(Path(folder) / "y.npy", y)


def _unexpected(row: Row) -> str:
    return "" if row.as_planned else f"the plan is {row.method}, not {row.needs_plan}"


def _join(*remarks: str) -> str:
    return "; ".join(filter(None, remarks))
