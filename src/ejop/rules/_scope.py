"""How much of machines for many rows a processor and a card can take on."""

from __future__ import annotations

from dataclasses import dataclass

from ejop.rules._machines import MAP_ROWS


@dataclass(frozen=True)
class Scope:
    """How much a place can take on.

    Attributes
    ----------
    pool, pool_centers, map_rows : int
        Rows of the pool that chains learn from, centres of their machines, and rows whose
        derivatives make a map.
    centers : int
        Centres at the most.
    work, all_work : float
        Entries of kernel matrices that a pass may take, for one machine and for all; what is
        beyond the first number of centres is not tried.
    """

    pool: int
    pool_centers: int
    map_rows: int
    centers: int
    work: float
    all_work: float

    @property
    def pooled_bytes(self) -> int:
        """That each row of the pool takes where two chains are learned side by side."""
        return 2 * 4 * 8 * self.pool_centers


PROCESSOR = Scope(10_000, 800, MAP_ROWS, 10_000, 4e9, 8e9)
CARD = Scope(50_000, 2_000, 2_000, 30_000, 1e11, 2e11)
