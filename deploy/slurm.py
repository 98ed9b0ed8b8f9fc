"""Workers as SLURM jobs: ``python slurm.py FOLDER LABEL`` fits the Parquet files of a folder.

Needs dask-jobqueue beside ``ejop[dask]``. Edit the queue, the account and the sizes.
"""

import sys

import dask.dataframe as dd
from dask_jobqueue import SLURMCluster
from distributed import Client

from ejop.dask import DaskEJOP

folder, label = sys.argv[1:3]
cluster = SLURMCluster(
    queue="normal",
    account="my-project",
    cores=8,
    processes=8,
    memory="64GiB",
    walltime="02:00:00",
    local_directory="/scratch/dask",
    job_script_prologue=["export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1"],
)
cluster.scale(jobs=7)  # 56 processes
with Client(cluster) as client:
    client.wait_for_workers(8)
    table = dd.read_parquet(folder)
    model = DaskEJOP(n_queries=4096, random_state=0).fit(table.drop(columns=label), table[label])
    sys.stdout.write(f"{model.plan_}\n{model.feature_importances_.round(4)}\n")
