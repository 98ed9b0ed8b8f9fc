#!/usr/bin/env bash
# Workers of one host: start-worker.sh tcp://SCHEDULER:8786 [PROCESSES] [MEMORY OF EACH]
set -euo pipefail
scheduler=${1:?address of the scheduler, such as tcp://10.0.0.1:8786}
processes=${2:-$(nproc)}
memory=${3:-4GiB}

# One thread a process: the BLAS must not start more.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
exec dask worker "$scheduler" --nworkers "$processes" --nthreads 1 --memory-limit "$memory" \
  --local-directory "${DASK_SCRATCH:-/tmp/dask}"
