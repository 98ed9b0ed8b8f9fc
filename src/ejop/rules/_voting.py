"""Rules by which near rows vote: the k nearest, or all within a radius."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop._sklearn import Interval, StrOptions
from ejop.neighbors import (
    MAX_PAIRS,
    Neighborhoods,
    References,
    Votes,
    join_votes,
    merge_nearest,
    nearest,
    vote,
    within,
)
from ejop.rules._rule import Kth, Rule, Weights, kth_distances

#: numbers of neighbours tried
NEIGHBORS = (1, 3, 5, 7, 9, 11, 15, 21)
#: radii tried, as quantiles of the training rows' distance to their fifth neighbour
RADII = (0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
RADIUS_NEIGHBOR = 5
_WEIGHTS = StrOptions({"uniform", "distance"})


class NeighborsRule(Rule):
    """Base of rules whose rows vote when they are near: they differ in how far they look.

    A cluster searches each block of rows by :meth:`search`, keeps what :meth:`merge` says of the
    blocks together, and lets these rows :meth:`tally`.

    Attributes
    ----------
    reach_ : int or float
        How far a query looks: to so many rows, or so far.
    """

    reach_: Any

    @abstractmethod
    def reaches(self, sizes: Sequence[float], n_rows: int, kth: Kth) -> list[Any]:
        """How far each size looks."""

    @abstractmethod
    def most(self, reach: Any, n_rows: int) -> int:
        """Rows that one query can find, at the most."""

    @abstractmethod
    def search(self, Z: NDArray, X: NDArray | References, reach: Any) -> Neighborhoods:
        """Rows of X that may have a vote for each row of Z."""

    @abstractmethod
    def merge(self, near: Neighborhoods) -> NDArray:
        """Of the pairs that several blocks found, by query and row, the places of those that still
        may vote."""

    @abstractmethod
    def tally(
        self, near: Neighborhoods, Y: NDArray, w: Weights, reaches: Sequence[Any]
    ) -> Iterator[Votes]:
        """Votes of the rows that were found, for each reach."""

    def settle(self, size: float, n_rows: int, kth: Kth) -> Any:
        """Settle how far to look; rows are held or stay on a cluster."""
        (self.reach_,) = self.reaches([size], n_rows, kth)
        return self

    def votes(self, Z: NDArray, device: Any = None) -> Votes:
        """Votes of the near rows for new rows, shape (m, n_components)."""
        return self._votes(Z, [self.reach_], device)[0]

    def judge(self, Z: NDArray, sizes: Sequence[float], device: Any = None) -> list[Votes]:
        """Votes for new rows with each size: the widest search serves all."""
        kth = partial(kth_distances, self.rows_, device=device)
        return self._votes(Z, self.reaches(sizes, len(self.rows_), kth), device)

    def _votes(self, Z: NDArray, reaches: list[Any], device: Any) -> list[Votes]:
        """Votes for each reach, a block of queries after the other: pairs of one are held."""
        X, reach = References(self.rows_, device), max(reaches)
        step = max(1, MAX_PAIRS // self.most(reach, len(X)))

        def block(start: int) -> list[Votes]:
            near = self.search(Z[start : start + step], X, reach)
            return list(self.tally(near, self.targets_, self.weights_, reaches))

        blocks = [block(start) for start in range(0, max(len(Z), 1), step)]
        return [join_votes(parts) for parts in zip(*blocks, strict=True)]


class KNeighborsRule(NeighborsRule):
    """The k nearest rows vote; equal votes go to the class with the nearer row.

    Parameters
    ----------
    n_neighbors : int or "auto", default="auto"
        "auto" tries 1 to 21 where a predictor tunes, and is 5 elsewhere. Where there are fewer
        rows, all vote.
    weights : {"uniform", "distance"}, default="uniform"
        One vote a row, or votes by the inverse distance.

    Attributes
    ----------
    n_neighbors_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.rules import KNeighborsRule
    >>> rows, Y = np.array([[0.0], [1.0], [5.0]]), np.eye(2)[[0, 0, 1]]
    >>> KNeighborsRule(n_neighbors=3).fit(rows, Y).votes(np.array([[4.0]])).values.round(2)
    array([[0.67, 0.33]])
    """

    _parameter_constraints: dict = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "weights": [_WEIGHTS],
    }

    def __init__(self, n_neighbors: int | str = "auto", weights: str = "uniform") -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights

    @property
    def size_name(self) -> str:
        """What a size is called in ``best_params_``."""
        return "n_neighbors"

    @property
    def n_neighbors_(self) -> int:
        """Rows that vote."""
        return self.reach_

    def candidates(self, n_rows: int) -> Sequence[float]:
        """Numbers of neighbours to try."""
        if isinstance(self.n_neighbors, str):
            return [k for k in NEIGHBORS if k <= n_rows]
        return [self.n_neighbors]

    def default(self, n_rows: int) -> float:
        """The number that is given, else 5, or all rows where there are fewer."""
        return min(5, n_rows) if isinstance(self.n_neighbors, str) else self.n_neighbors

    def reaches(self, sizes: Sequence[float], n_rows: int, kth: Kth) -> list[int]:
        """The numbers, none larger than that of the rows."""
        return [min(int(k), n_rows) for k in sizes]

    def most(self, reach: int, n_rows: int) -> int:
        """The k nearest."""
        return reach

    def search(self, Z: NDArray, X: NDArray | References, reach: int) -> Neighborhoods:
        """The k nearest rows, nearest first."""
        k = min(reach, len(X))
        D, rows = nearest(Z, X, k)
        return Neighborhoods(len(Z), np.repeat(np.arange(len(Z)), k), rows.ravel(), D.ravel())

    def merge(self, near: Neighborhoods) -> NDArray:
        """The k nearest of all, equal distances by row."""
        D, rows = _by_query(near)
        places = merge_nearest(D, rows, self.reach_) if len(D) else np.empty((0, 1), dtype=int)
        return (np.arange(len(D))[:, None] * D.shape[1] + places).ravel()

    def tally(
        self, near: Neighborhoods, Y: NDArray, w: Weights, reaches: Sequence[int]
    ) -> Iterator[Votes]:
        """Votes of the first rows of each query."""
        D, rows = _by_query(near)
        for k in reaches:
            yield vote(D[:, :k], rows[:, :k], Y, weights=self.weights, row_weights=w)


class RadiusRule(NeighborsRule):
    """All rows within a radius vote, the h-NN of the paper.

    Parameters
    ----------
    radius : float or "auto", default="auto"
        Distance under the metric. "auto" tries quantiles of the rows' distance to their fifth
        neighbour where a predictor tunes, and is their median elsewhere.
    weights : {"uniform", "distance"}, default="uniform"
        One vote a row, or votes by the inverse distance.
    empty : {"nearest", "prior"}, default="nearest"
        What an empty ball answers: its nearest row's target, or the mean target of all rows (the
        paper's weights 1/n).

    Attributes
    ----------
    radius_ : float

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.rules import RadiusRule
    >>> rows, Y = np.array([[0.0], [1.0], [5.0]]), np.eye(2)[[0, 0, 1]]
    >>> rule = RadiusRule(radius=2.0, empty="prior").fit(rows, Y)
    >>> rule.votes(np.array([[4.0], [9.0]])).values.round(2)
    array([[0.  , 1.  ],
           [0.67, 0.33]])
    """

    _parameter_constraints: dict = {
        "radius": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "weights": [_WEIGHTS],
        "empty": [StrOptions({"nearest", "prior"})],
    }

    def __init__(
        self, radius: float | str = "auto", weights: str = "uniform", empty: str = "nearest"
    ) -> None:
        self.radius = radius
        self.weights = weights
        self.empty = empty

    @property
    def size_name(self) -> str:
        """A quantile where the radius is chosen, else the radius."""
        return "radius_quantile" if isinstance(self.radius, str) else "radius"

    @property
    def radius_(self) -> float:
        """Distance up to which rows vote."""
        return self.reach_

    def candidates(self, n_rows: int) -> Sequence[float]:
        """Quantiles of the distance to the fifth neighbour, or the radius that is given."""
        return RADII if isinstance(self.radius, str) else [self.radius]

    def default(self, n_rows: int) -> float:
        """The median, or the radius that is given."""
        return 0.5 if isinstance(self.radius, str) else self.radius

    def reaches(self, sizes: Sequence[float], n_rows: int, kth: Kth) -> list[float]:
        """Radii from quantiles."""
        if not isinstance(self.radius, str):
            return [float(self.radius)]
        k = min(RADIUS_NEIGHBOR + 1, n_rows)  # a row's first neighbour is itself
        return np.quantile(kth(k), sizes).tolist()

    def most(self, reach: float, n_rows: int) -> int:
        """All of them."""
        return n_rows

    def search(self, Z: NDArray, X: NDArray | References, reach: float) -> Neighborhoods:
        """Rows within the radius and, where an empty ball asks for it, the nearest row."""
        near = within(Z, X, reach)
        empty = near.empty()
        if self.empty != "nearest" or not len(empty):
            return near
        D, rows = nearest(Z[empty], X, 1)
        queries = np.concatenate([near.queries, empty])
        pairs = (np.concatenate([near.rows, rows[:, 0]]), np.concatenate([near.distances, D[:, 0]]))
        return Neighborhoods(len(Z), queries, *pairs).take(np.argsort(queries, kind="stable"))

    def merge(self, near: Neighborhoods) -> NDArray:
        """All of them: the radius says who votes."""
        return np.arange(len(near.rows))

    def tally(
        self, near: Neighborhoods, Y: NDArray, w: Weights, reaches: Sequence[float]
    ) -> Iterator[Votes]:
        """Votes of the rows within each radius."""
        if self.empty == "nearest":
            fallback = near.nearest_votes(Y)
        else:
            fallback = Votes.plain(np.tile(self.prior_, (near.n_queries, 1)))
        return near.votes(reaches, Y, fallback, weights=self.weights, row_weights=w)


def _by_query(near: Neighborhoods) -> tuple[NDArray, NDArray]:
    """Distances and rows of neighbours that every query has as many of, (m, k)."""
    shape = (near.n_queries, len(near.queries) // max(near.n_queries, 1))
    return near.distances.reshape(shape), near.rows.reshape(shape)
