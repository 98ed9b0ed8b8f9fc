"""What :mod:`ejop.dask` is made of: rows on workers, sums over them, choices, neighbours.

Dask schedules, retries and moves data; nothing here does. Every task is a pure function of its
inputs, so that one that is lost with its worker is simply run again.
"""
