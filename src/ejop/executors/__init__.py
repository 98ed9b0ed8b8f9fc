"""Who walks the blocks: threads of this process, devices, a Dask cluster."""
