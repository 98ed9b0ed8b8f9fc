"""Kernel smoothers: f(x) = sum_i K(|x - x_i| / h) Y_i / sum_i K(|x - x_i| / h)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.backends.gaussian import (
    EXPONENT_LIMIT,
    NEGLECT,
    GaussianReferences,
    Tile,
    WeightedSums,
    exponential_table,
    exponentiate,
)
from ejop.differences import central_differences, softmax_chain
from ejop.functions._base import Cost, Function, check_bandwidth, one_hot_labels
from ejop.kernels import Compact, get_kernel

#: share of rows kept above which local sums cost more than products over all rows
LOCAL_SHARE = 0.1
#: rows and queries below which products over all rows are quick anyway
LOCAL_ROWS, LOCAL_QUERIES = 2000, 512
#: share of the budget that tables of references may take before they are streamed
TABLE_SHARE = 0.7
#: share of the budget that one tile takes then, and its rows at the least
TILE_SHARE, MIN_TILE = 0.1, 256


class KernelSmoother(Function):
    """Nadaraya-Watson estimate of class probabilities or real targets.

    Where no training row lies within reach of a compact kernel, every row weighs 1/n, as in the
    paper.

    Parameters
    ----------
    kernel : {"gaussian", "boxcar", "epanechnikov", "triangular", "biweight", "tricube"}
        Shape of the weights; "boxcar" is the mean over the ball of radius ``bandwidth``.
    bandwidth : float or "auto", default="auto"
        Scale h. "auto" takes 1.3 times the widest whose leave-one-out loss is within one standard
        error of the best over a grid tied to nearest-neighbour distances, see
        :func:`ejop.selection.choose_bandwidth`.
    random_state : int, RandomState instance or None, default=None
        Draws the rows that choose the bandwidth when there are many.

    Attributes
    ----------
    bandwidth_ : float
    X_, Y_ : ndarray
        The rows and targets it was fitted on.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.functions import KernelSmoother
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> f = KernelSmoother("boxcar", bandwidth=1.0).fit(X, X)
    >>> f.predict(np.array([[0.4]]))
    array([[0.5]])
    >>> f.differences(np.array([[1.0]]), step=np.array([0.5]))
    array([[[1.]]])
    """

    divisible = True

    def __init__(
        self,
        kernel: str = "gaussian",
        bandwidth: float | str = "auto",
        *,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.random_state = random_state

    @property
    def differentiable(self) -> bool:  # type: ignore[override]
        """Whether the analytic derivative exists: the Gaussian kernel's does."""
        return get_kernel(self.kernel).factorises

    @property
    def _kernel(self) -> Any:
        return get_kernel(self.kernel)

    def _fit(self, sample_weight: NDArray | None) -> None:
        from ejop.selection import choose_bandwidth

        if isinstance(self.bandwidth, str) and self.bandwidth == "auto":
            self.bandwidth_ = choose_bandwidth(
                self.X_,
                self.Y_,
                kernel=self.kernel,
                sample_weight=sample_weight,
                random_state=self.random_state,
            )
        else:
            self.bandwidth_ = check_bandwidth(self.bandwidth)

    def _hold(self, X: NDArray, Y: NDArray, sample_weight: NDArray | None) -> None:
        super()._hold(X, Y, sample_weight)
        self._labels = one_hot_labels(Y)
        self._form: _Form | None = None

    # values --------------------------------------------------------------------------------

    def predict(self, X: NDArray, exclude: NDArray | None = None) -> NDArray:
        """Values of f, (n_queries, n_outputs); ``exclude`` leaves a training row out of each."""
        if not self._kernel.factorises:
            there = np.zeros(self.n_features_in_)
            values, _ = self._shifted(self._compact_sums(np.asarray(X), there, exclude), exclude)
            return values[:, :, 0].T.astype(self.X_.dtype)
        references = self._settled().references
        found = references.sums(
            references.queries(X), lambda tile: np.ones((len(tile.Z), 1), tile.Z.dtype), exclude
        )
        sums = self._divided(found, exclude)
        return sums[:, :, 0].T.astype(self.X_.dtype, copy=False)

    def shifted(
        self, Q: NDArray, step: NDArray, exclude: NDArray | None = None
    ) -> tuple[NDArray, NDArray]:
        """Values of f at x + t_j e_j and x - t_j e_j."""
        plus, minus = self._shifted(
            self.sums(Q, np.asarray(step, dtype=np.float64), exclude), exclude
        )
        return plus.transpose(1, 0, 2), minus.transpose(1, 0, 2)

    def differences(
        self,
        Q: NDArray,
        step: NDArray,
        exclude: NDArray | None = None,
        *,
        softmax: bool = False,
    ) -> NDArray:
        """Central differences of f or its softmax, (n_queries, n_outputs, n_features)."""
        step = np.asarray(step, dtype=np.float64)
        return self.derived(self.sums(Q, step, exclude), step, exclude, softmax=softmax)

    def derived(
        self,
        sums: WeightedSums,
        step: NDArray | None,
        exclude: NDArray | None = None,
        *,
        softmax: bool = False,
    ) -> NDArray:
        """Jacobians (n_queries, n_outputs, n_features) from sums over all rows; uses them up."""
        if step is None:
            values, J = self._gradient(sums, exclude)
            return softmax_chain(values, J) if softmax else J
        plus, minus = self._shifted(sums, exclude)
        if softmax and self._labels is not None:
            from ejop.backends.compiled import softmax_differences

            return softmax_differences(plus, minus, step).transpose(1, 0, 2)
        plus, minus = plus.transpose(1, 0, 2), minus.transpose(1, 0, 2)
        return central_differences(plus, minus, step, apply_softmax=softmax)

    def gradient(self, Q: NDArray, exclude: NDArray | None = None) -> tuple[NDArray, NDArray]:
        """Values and analytic Jacobian of the Gaussian smoother.

        d f_c / d x_j = (sum_i w_i Y_ic x_ij - f_c sum_i w_i x_ij) / h^2, w the normalised weights.
        """
        if not self.differentiable:
            return super().gradient(Q, exclude)
        return self._gradient(self.sums(Q, None, exclude), exclude)

    def _gradient(self, found: WeightedSums, exclude: NDArray | None) -> tuple[NDArray, NDArray]:
        sums, total = found.sums, found.total
        weight = total[:, -1:].copy()
        empty = weight[:, 0] <= 0
        weight[empty] = 1
        sums /= weight
        total /= weight
        values = sums[:, :, -1]
        J = sums[:, :, :-1] - values[:, :, None] * total[:, :-1]
        J /= J.dtype.type(self.bandwidth_**2)
        if empty.any():
            values[:, empty] = self._prior_without(len(total), exclude)[empty].T
        return values.T, J.transpose(1, 0, 2)

    def masses(self, Q: NDArray, step: NDArray, exclude: NDArray | None = None) -> NDArray:
        """Sums of kernel weights at both shifts, (2, n_queries, n_features), compact kernels."""
        total = self._compact_sums(np.asarray(Q), np.asarray(step, dtype=np.float64), exclude).total
        return np.stack(np.split(total, 2, axis=1))

    def default_step(self) -> float:
        """Half the bandwidth."""
        return self.bandwidth_ / 2

    # the choice of form ---------------------------------------------------------------------

    def prepare(
        self,
        step: NDArray | None,
        *,
        budget: int | None = None,
        n_queries: int = 0,
        n_excluded: int = 0,
    ) -> Cost:
        """Choose the form of the sums for this step and compute what all blocks share."""
        n, d = self.X_.shape
        c, size = self.n_outputs_, self.X_.itemsize
        if not self._kernel.factorises:
            why = f"the {self.kernel} kernel is compact: only rows within reach are summed"
            self._form = None
            per_query = n * (size + 1) + 4 * (c + 1) * d * 8
            piece = 4096 * (d + 1) * size
            return Cost("compact", per_query, 0, why, 3 * n * d, thread_bytes=piece)
        self._form = form = self._choose_form(step, budget, n_queries)
        references, why = form.references, "; ".join(form.reasons)
        dtype = references.dtype
        columns = (d + 1) if step is None else 2 * d
        rows = references.tile_rows or n
        per_query = (2 * rows + 3 * (c + 1) * columns) * dtype.itemsize
        tables = rows * (d + (0 if form.direct else columns)) * dtype.itemsize
        if form.direct:
            return Cost("gaussian-direct", 2 * per_query, tables, why, 9 * n * d, str(dtype))
        fixed, each = (tables, 0) if references.tile_rows is None else (0, tables)
        sums = 2 * columns * (1 if references.neglect == 0 else 7 * form.share)
        flops = int((2 * d + sums) * n)
        method = "local" if references.neglect > 0 else "analytic" if step is None else "product"
        return Cost(f"gaussian-{method}", per_query, fixed, why, flops, str(dtype), each)

    def _choose_form(self, step: NDArray | None, budget: int | None, n_queries: int) -> _Form:
        """Type of the sums, streamed or not, direct, local or all rows; with the reasons."""
        n, d = self.X_.shape
        dtype, reasons = self._sum_dtype(step)
        exponent = 0.0 if step is None else self._exponent(step)
        limit = EXPONENT_LIMIT[dtype]
        if exponent > limit:
            reasons.append(
                f"exponents reach {exponent:.3g}, beyond {limit:g} for {dtype}: "
                "kernel matrices are shifted one feature at a time"
            )
            return _Form(self._references(dtype), step, reasons, direct=True)
        if step is not None:
            reasons.append(f"exponents reach {exponent:.3g}, under {limit:g}")
        columns = (d + 1) if step is None else 2 * d
        if budget is not None and n * (d + columns) * dtype.itemsize > TABLE_SHARE * budget:
            width = (d + columns + 2) * dtype.itemsize
            tile_rows = max(MIN_TILE, int(TILE_SHARE * budget / width))
            reasons.append(f"references are streamed in tiles of {tile_rows} rows")
            return _Form(self._references(dtype, tile_rows=tile_rows), step, reasons)
        form = _Form(self._references(dtype), step, reasons)
        if n >= LOCAL_ROWS and n_queries >= LOCAL_QUERIES:
            self._try_local(form, NEGLECT[dtype] * np.exp(-2 * exponent))
        if step is not None:
            form.table = self._table(form, form.references.whole)
        return form

    def _try_local(self, form: _Form, neglect: float) -> None:
        """Sum over few rows where a look at some queries says that few hold nearly all weight.

        Weights at a shifted point differ from those at x by factors within exp(+-A), A the
        largest exponent, so dropping a share of the mass at x drops at most exp(2A) times that
        share there; ``neglect`` allows for it.
        """
        rows = np.unique(np.linspace(0, len(self.X_) - 1, 64).astype(int))
        references = form.references
        references.neglect = neglect
        form.share = references.kept_share(self.X_[rows], rows)
        if form.share > LOCAL_SHARE:
            references.neglect = 0.0
            return
        form.reasons.append(
            f"{form.share:.1%} of the rows hold all but {NEGLECT[references.dtype]:.0e} of the "
            "weight at every shifted point, and only they are summed"
        )

    def release(self) -> None:
        """Forget the references and tables of the last plan."""
        self._form = None

    def _settled(self, step: NDArray | None = None) -> _Form:
        """The prepared form if it is for this step, else one made for the occasion."""
        form = self._form
        if form is not None and (step is None or form.fits(step)):
            return form
        if step is None:
            return _Form(self._references(self.X_.dtype), None, [])
        return self._choose_form(step, None, 0)

    def _references(self, dtype: np.dtype, *, tile_rows: int | None = None) -> GaussianReferences:
        return GaussianReferences(
            *(self.X_, self.Y_, self._labels, self.sample_weight_),
            bandwidth=self.bandwidth_,
            center=self._center,
            dtype=dtype,
            tile_rows=tile_rows,
        )

    def _sum_dtype(self, step: NDArray | None) -> tuple[np.dtype, list[str]]:
        """float64 for float32 data whose distances or exponents float32 cannot hold."""
        if self.X_.dtype == np.float64:
            return np.dtype(np.float64), []
        reach = float((np.maximum(self._high - self._center, self._center - self._low) ** 2).sum())
        loss = np.finfo(np.float32).eps * reach / self.bandwidth_**2
        exponent = 0.0 if step is None else self._exponent(step)
        if loss > 1e-2 or exponent > EXPONENT_LIMIT[np.dtype(np.float32)]:
            return np.dtype(np.float64), [
                "sums in float64: the bandwidth is too small against the range for float32"
            ]
        return np.dtype(np.float32), []

    def _exponent(self, step: NDArray) -> float:
        """Largest |t_j x_ij / h^2| once each column is centred at its mid-range."""
        reach = (self._high.astype(np.float64) - self._low) / 2
        return float((np.asarray(step) * reach).max() / self.bandwidth_**2)

    def _middle(self, references: GaussianReferences) -> NDArray:
        return ((self._high + self._low) / 2 - self._center).astype(references.dtype)

    def _table(self, form: _Form, tile: Tile) -> NDArray:
        assert form.step is not None
        return exponential_table(tile.Z, self._middle(form.references), form.step, self.bandwidth_)

    # the Gaussian ---------------------------------------------------------------------------

    def sums(
        self, Q: NDArray, step: NDArray | None, exclude: NDArray | None = None
    ) -> WeightedSums:
        """Un-normalised sums over the rows, from which ``derived`` makes Jacobians.

        Those over other rows merge with them, see :class:`ejop.backends.gaussian.WeightedSums`.
        Columns are shifts up, then shifts down; [x | 1] where ``step`` is None.
        """
        Q = np.asarray(Q)
        if step is not None and not self._kernel.factorises:
            return self._compact_sums(Q, step, exclude)
        form = self._settled(step)
        if step is not None and form.direct:
            return self._direct_sums(form, Q, step, exclude)
        references, ready = form.references, form.table

        def table(tile: Tile) -> NDArray:
            if step is None:
                return np.hstack([tile.Z, np.ones((len(tile.Z), 1), tile.Z.dtype)])
            return self._table(form, tile) if ready is None else ready

        return references.sums(references.queries(Q), table, exclude)

    def _shifted(self, found: WeightedSums, exclude: NDArray | None) -> tuple[NDArray, NDArray]:
        """Shifted values in the layout (c, m, d)."""
        d = self.n_features_in_
        if self._kernel.factorises:
            sums = self._divided(found, exclude)
            return sums[:, :, :d], sums[:, :, d:]
        from ejop.backends.compiled import normalise

        plus, minus = found.sums[:, :, :d].copy(), found.sums[:, :, d:].copy()
        mass = np.stack(np.split(found.total, 2, axis=1))
        prior = self._prior_without(len(found.total), exclude).astype(np.float64)
        normalise(plus, minus, mass, prior)
        return plus, minus

    def _divided(self, found: WeightedSums, exclude: NDArray | None) -> NDArray:
        """Means from sums (c, m, columns), in place; the prior where no row weighs anything."""
        sums, total = found.sums, found.total
        empty = total[:, 0] <= 0
        total[empty] = 1
        sums /= total
        if empty.any():
            sums[:, empty] = self._prior_without(len(total), exclude)[empty].T[:, :, None]
        return sums

    def _direct_sums(
        self, form: _Form, Q: NDArray, step: NDArray, exclude: NDArray | None
    ) -> WeightedSums:
        """Sums one feature at a time, in the log domain: safe for any step and scale."""
        references, whole = form.references, form.references.whole
        L = references.log_kernel(whole, references.queries(Q), exclude)
        m, d = Q.shape
        sums = np.empty((self.n_outputs_, m, 2 * d), dtype=L.dtype)
        total, top = np.empty((m, 2 * d), dtype=L.dtype), np.empty((m, 2 * d), dtype=L.dtype)
        for j in range(d):
            tilt = (step[j] / self.bandwidth_**2 * whole.Z[:, j]).astype(L.dtype)
            for column, sign in ((j, 1), (d + j, -1)):
                K = L + sign * tilt
                peak = K.max(1, keepdims=True)
                exponentiate(K, peak)
                sums[:, :, column] = (K @ whole.Y).T
                total[:, column], top[:, column] = K.sum(1), peak[:, 0]
        return WeightedSums(sums, total, top)

    # compact kernels ------------------------------------------------------------------------

    def _compact_sums(self, Q: NDArray, step: NDArray, exclude: NDArray | None) -> WeightedSums:
        """Un-normalised sums at both shifts; no scaling is needed where weights are at most 1."""
        from ejop.backends.compiled import compact_sums

        assert isinstance(self._kernel, Compact)
        # |x +- t e_j - x_i| <= h needs |x - x_i| <= h + t, and |x - x_i|^2 <= h^2 + the shift.
        reach = np.minimum(
            (self.bandwidth_ + step.max()) ** 2, self.bandwidth_**2 + self._shift_bound(Q, step)
        )
        D, slack = self._squared_distances(Q, exclude)
        near = (reach + slack).astype(D.dtype)[:, None] >= D
        plus = np.zeros((self.n_outputs_, *Q.shape))
        minus, mass = np.zeros_like(plus), np.zeros((2, *Q.shape))
        labels = np.empty(0, dtype=np.int64) if self._labels is None else self._labels
        inner, outer = self._kernel.inner, self._kernel.outer
        compact_sums(
            *(Q.astype(self.X_.dtype, copy=False), self.X_, near, labels, self.Y_, self._weights()),
            *(step, 1 / self.bandwidth_**2, inner, outer, plus, minus, mass),
        )
        return WeightedSums(np.concatenate([plus, minus], axis=2), np.hstack(list(mass)))


class _Form:
    """How the sums of a Gaussian smoother run for one step, with what all blocks share."""

    def __init__(
        self,
        references: GaussianReferences,
        step: NDArray | None,
        reasons: list[str],
        *,
        direct: bool = False,
    ) -> None:
        self.references = references
        self.step = None if step is None else np.array(step, dtype=np.float64)
        self.reasons = reasons
        self.direct = direct
        self.share = 1.0  # of the rows that local sums keep
        self.table: NDArray | None = None

    def fits(self, step: NDArray) -> bool:
        return self.step is not None and np.array_equal(self.step, step)
