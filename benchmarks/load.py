"""What else the machine was doing while a benchmark ran."""

from __future__ import annotations

import os
import time
from pathlib import Path

#: cores busy elsewhere above which figures are called unreliable
TOLERABLE = 0.1


class Elsewhere:
    """Mean number of cores that other processes kept busy since this object was made.

    Time of this process and of the children that it has waited for is taken off; time that a
    hypervisor gave to other machines counts.
    """

    def __init__(self) -> None:
        self._start = self._read()

    def cores(self) -> float | None:
        """The mean so far; None where the system does not tell."""
        if self._start is None or (now := self._read()) is None:
            return None
        clock, busy, own = (b - a for a, b in zip(self._start, now, strict=True))
        return max(0.0, (busy - own) / max(clock, 1e-9))

    @staticmethod
    def _read() -> tuple[float, float, float] | None:
        try:
            with Path("/proc/stat").open() as file:
                ticks = [int(field) for field in file.readline().split()[1:9]]
        except OSError:
            return None
        busy = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")  # less idle, waiting
        return time.perf_counter(), busy, sum(os.times()[:4])
