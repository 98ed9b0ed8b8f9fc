"""Fit rows that no worker holds: a local cluster, Parquet files, the plan, time and memory.

``python examples/cluster.py`` writes a million rows of 20 features (about 150 MB) to a temporary
folder, starts two worker processes of 1 GiB each, and fits them out of core. Options change the
sizes; ``--help`` lists them.
"""

import argparse
import tempfile
import time
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask import compute, delayed
from distributed import Client, LocalCluster

from ejop.dask import DaskEJOP
from ejop.sums.plan import format_bytes


def write_part(folder: str, part: int, n: int, d: int) -> None:
    """Labelled rows whose classes depend on the first two features, as one Parquet file."""
    rng = np.random.default_rng(part)
    X = rng.normal(size=(n, d))
    label = (np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n) > 0).astype(int)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(d)]).assign(label=label)
    table.to_parquet(Path(folder) / f"part-{part:05d}.parquet", index=False)


def peak_memory() -> int:
    """Highest resident memory of this process, in bytes (Linux; elsewhere the present one)."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import psutil

    return psutil.Process().memory_info().rss


def main() -> None:
    """Write, fit, tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--parts", type=int, default=40)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="1GiB", help="of each worker")
    parser.add_argument("--reduction", default="auto", choices=["auto", "broadcast", "tiles"])
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(
            n_workers=options.workers,
            threads_per_worker=1,
            memory_limit=options.memory,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster) as client,
    ):
        print(f"dashboard: {client.dashboard_link}")
        each = -(-options.rows // options.parts)
        begin = time.perf_counter()
        compute(
            [delayed(write_part)(folder, k, each, options.features) for k in range(options.parts)]
        )
        print(f"wrote {options.parts} files of {each} rows in {time.perf_counter() - begin:.1f} s")

        table = dd.read_parquet(folder)
        rows = table.drop(columns="label")
        model = DaskEJOP(
            n_queries=options.queries, reduction=options.reduction, random_state=0, client=client
        )
        begin = time.perf_counter()
        model.fit(rows, table["label"])
        print(f"fitted in {time.perf_counter() - begin:.1f} s\n\n{model.plan_}\n")

        print("importances of the first five features:", model.feature_importances_[:5].round(3))
        print("two mapped rows:", model.transform(rows.partitions[0]).compute()[:2, :3].round(3))
        for address, peak in client.run(peak_memory).items():
            print(f"peak memory of {address}: {format_bytes(peak)} of {options.memory}")


if __name__ == "__main__":
    main()
