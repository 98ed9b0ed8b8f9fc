"""The sum: a running mean of Jacobian outer products that can be merged in any order."""

from __future__ import annotations

from copy import copy
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ejop.arrays import is_tensor, namespace
from ejop.rows import SIZES, as_numbers
from ejop.sums.engine import HOST, Engine

#: entries of group sums that are formed at once
MAX_TALLY = {False: 250_000, True: 50_000_000}


def outer_product(J: ArrayLike) -> NDArray:
    """Mean of J J^T over samples; J has shape (n_samples, n_outputs, n_features).

    Examples
    --------
    >>> import numpy as np
    >>> from ejop import outer_product
    >>> outer_product(np.array([[[1.0, 2.0]], [[3.0, 0.0]]]))
    array([[5., 1.],
           [1., 2.]])
    """
    J = as_numbers("J", J)
    if J.ndim != 3 or not J.size or not np.isfinite(J).all():
        raise ValueError(
            f"`J` of shape {J.shape} must be finite, of shape (n_samples, n_outputs, n_features) "
            "and not empty."
        )
    rows = J.reshape(-1, J.shape[-1])
    return rows.T @ rows / len(J)


class OuterProduct:
    """Weighted running mean of Jacobian outer products with its standard error.

    Holds sums only, so ``merge`` is associative and commutative: threads, streams, cluster tasks
    and ``partial_fit`` all add to the same thing.

    Parameters
    ----------
    n_outputs, n_features : int
        Shape of one Jacobian.
    diagonal : bool, default=False
        Keep the diagonal of the mean alone (gradient weights).
    batch : int, default=1
        The standard error is taken between groups of this many consecutive rows of an ``add``,
        which should therefore come in random order. One row a group is the classical standard
        error of a mean; larger groups estimate the same quantity and spare forming one d x d matrix
        a row.
    engine : Engine, optional
        Where the Jacobians and the sums live; NumPy by default.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop import OuterProduct
    >>> J = np.random.default_rng(0).normal(size=(100, 3, 4))
    >>> left, right = OuterProduct(3, 4), OuterProduct(3, 4)
    >>> whole = left.add(J[:30]).merge(right.add(J[30:]))
    >>> whole.mean().shape, whole.count
    ((4, 4), 100)
    """

    def __init__(
        self,
        n_outputs: int,
        n_features: int,
        *,
        diagonal: bool = False,
        batch: int = 1,
        engine: Engine = HOST,
    ) -> None:
        for name, number in (
            ("n_outputs", n_outputs),
            ("n_features", n_features),
            ("batch", batch),
        ):
            if not isinstance(number, Integral) or isinstance(number, bool) or number < 1:
                raise ValueError(f"`{name}` must be a positive integer, got {number!r}.")
        shape = (n_features,) if diagonal else (n_features, n_features)
        self.n_outputs, self.n_features = n_outputs, n_features
        self.diagonal, self.batch, self.engine = diagonal, batch, engine
        self.count = 0
        self.weight = 0.0  # sum of row weights
        self.n_groups = 0
        self._weight_squares = 0.0  # sum over groups of (group weight)^2
        self._sum = self._zeros(shape)  # sum of group sums S_b
        self._squares = self._zeros(shape)  # sum of S_b * S_b, entry by entry
        self._weighted = self._zeros(shape)  # sum of (group weight) * S_b
        self._outputs = self._zeros((n_outputs, n_features))  # sum of J_cj^2, by output

    def _zeros(self, shape: tuple[int, ...]) -> Any:
        return self.engine.zeros(shape, self.engine.precise().kind(np.dtype(np.float64)))

    def add(self, J: Any, weights: ArrayLike | None = None, *, check: bool = True) -> OuterProduct:
        """Add the Jacobians of some rows.

        Parameters
        ----------
        J : array of shape (n_samples, n_outputs, n_features)
        weights : array-like of shape (n_samples,), optional
            Non-negative row weights; one each by default.
        check : bool, default=True
            Refuse derivatives that are not finite, before anything is added. Executors look at
            :attr:`finite` once, at the end.
        """
        J = _as_floats(J)
        if J.ndim != 3 or tuple(J.shape[1:]) != (self.n_outputs, self.n_features):
            raise ValueError(
                f"`J` has shape {tuple(J.shape)}; (n_samples, {self.n_outputs}, {self.n_features}) "
                "was expected: one row of `n_features` derivatives per output."
            )
        m = len(J)
        if m == 0:
            return self
        w = np.ones(m) if weights is None else _row_weights(weights, m)
        if check and not bool(namespace(J).isfinite(J).all()):
            raise ValueError(
                "`J` contains NaN or infinity, and one such row would spoil every mean; drop it."
            )
        if weights is not None:
            J = J * self.engine.like(self.engine.array(np.sqrt(w)), J)[:, None, None]
        whole = m // self.batch * self.batch
        for part, size in ((slice(0, whole), self.batch), (slice(whole, m), m - whole)):
            if size and part.stop > part.start:
                self._add_groups(J[part], w[part], size)
        self.count += m
        self.weight += float(w.sum())
        return self

    def _add_groups(self, J: Any, w: NDArray, size: int) -> None:
        """Form one sum for each group of so many rows, a few of them at a time."""
        d = self.n_features
        if self.diagonal:
            squares = self.engine.like(J * J, self._sum)
            self._outputs += squares.sum(0)
            sums = squares.sum(1).reshape(-1, size, d).sum(1)
            self._tally(sums, w.reshape(-1, size).sum(1))
            return
        self._outputs += _sum_of_squares(J, self._outputs)
        at_once = size * max(1, MAX_TALLY[self.engine.on_device] // (d * d))
        for s in range(0, len(J), at_once):
            part = J[s : s + at_once]
            groups = part.reshape(-1, size * self.n_outputs, d)
            totals = w[s : s + at_once].reshape(-1, size).sum(1)
            self._tally(self.engine.like(self.engine.gram(groups), self._sum), totals)

    def _tally(self, sums: Any, weights: NDArray) -> None:
        """Record group sums (b, ...) of total weights (b,)."""
        self._sum += sums.sum(0)
        self._squares += namespace(sums).einsum("b...,b...->...", sums, sums)
        shares = self.engine.like(self.engine.array(weights), sums)
        self._weighted += namespace(sums).tensordot(shares, sums, 1)
        self._weight_squares += float(weights @ weights)
        self.n_groups += int(np.count_nonzero(weights))

    def to_host(self) -> OuterProduct:
        """The same sums in NumPy."""
        if not self.engine.on_device:
            return self
        out = copy(self)
        out.engine = HOST
        for name in _SUMS:
            setattr(out, name, self.engine.to_host(getattr(self, name)).astype(float, copy=False))
        return out

    @property
    def finite(self) -> bool:
        """Whether every sum is a number."""
        return all(bool(np.isfinite(getattr(self, name)).all()) for name in _SUMS)

    def merge(self, other: OuterProduct) -> OuterProduct:
        """Add another accumulator's sums to this one; returns self."""
        mine = (self.n_outputs, self.n_features, self.diagonal)
        theirs = (other.n_outputs, other.n_features, other.diagonal)
        if mine != theirs:
            raise ValueError(
                "cannot merge accumulators of different (n_outputs, n_features, diagonal): "
                f"{mine} and {theirs}."
            )
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _SUMS:
            getattr(self, name).__iadd__(getattr(other, name))
        return self

    def mean(self) -> NDArray:
        """Weighted mean of J J^T, shape (n_features, n_features), symmetric by construction."""
        self._require_rows()
        mean = self._sum / self.weight
        return np.diag(mean) if self.diagonal else (mean + mean.T) / 2

    def stderr(self) -> NDArray:
        """Standard error of each entry of ``mean()``, shape (n_features, n_features).

        For group sums S_b of weights W_b: sum_b (S_b - W_b mean)^2 / W^2 * B / (B - 1). NaN with
        fewer than two groups.
        """
        self._require_rows()
        if self.n_groups < 2:
            return np.full((self.n_features, self.n_features), np.nan)
        mean = self._sum / self.weight
        spread = self._squares - 2 * mean * self._weighted + mean**2 * self._weight_squares
        bessel = self.n_groups / (self.n_groups - 1)
        error = np.sqrt(np.maximum(spread, 0) * bessel) / self.weight
        return np.diag(error) if self.diagonal else (error + error.T) / 2

    def relative_error(self) -> float:
        """Frobenius norm of the standard error over that of the mean (infinite when unknown)."""
        norm = float(np.linalg.norm(self.mean()))
        error = float(np.linalg.norm(self.stderr()))
        if np.isnan(error):
            return np.inf
        return error / norm if norm > 0 else 0.0

    def output_importances(self) -> NDArray:
        """Mean squared derivative of each output along each feature, (n_outputs, n_features)."""
        self._require_rows()
        return self._outputs / self.weight

    def shares(self) -> NDArray:
        """Share of each output in the trace of the mean, shape (n_outputs,); zeros when the mean is
        zero."""
        by_output = self.output_importances().sum(1)
        total = by_output.sum()
        return by_output / total if total > 0 else by_output

    def _require_rows(self) -> None:
        if self.weight <= 0:
            raise ValueError("no rows of positive weight were added; call `add` first.")

    def __repr__(self) -> str:
        return (
            f"OuterProduct(n_outputs={self.n_outputs}, n_features={self.n_features}, "
            f"count={self.count})"
        )


_NUMBERS = ("count", "weight", "n_groups", "_weight_squares")
_SUMS = ("_sum", "_squares", "_weighted", "_outputs")


def _as_floats(J: Any) -> Any:
    """Derivatives as float32 or float64: squares of half precision are no numbers."""
    if is_tensor(J):
        kinds = (namespace(J).float32, namespace(J).float64)
        return J if J.dtype in kinds else J.double()
    J = np.asarray(J)
    return J if J.dtype in SIZES else as_numbers("J", J)


def _row_weights(weights: ArrayLike, m: int) -> NDArray:
    w = as_numbers("weights", weights)
    if w.shape != (m,):
        raise ValueError(
            f"`weights` has shape {w.shape} and `J` has {m} rows; pass one weight a row."
        )
    if not np.isfinite(w).all() or (w < 0).any():
        worst = w[~(np.isfinite(w) & (w >= 0))][0]
        raise ValueError(f"`weights` must be finite and not negative, got {worst}.")
    return w


def _sum_of_squares(J: Any, like: Any) -> Any:
    """Sum over rows of J_cj^2 in the type of another array, without the squares as a temporary."""
    if isinstance(J, np.ndarray):
        return np.einsum("mcd,mcd->cd", J, J, dtype=like.dtype)
    return namespace(J).linalg.vector_norm(J, dim=0).square().to(like.dtype)
