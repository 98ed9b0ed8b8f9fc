"""DaskEJOP and DaskEGOP without their names."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.utils.validation import check_is_fitted

from ejop.absent import Absent
from ejop.executors.dask.base import OnCluster
from ejop.executors.dask.cluster import find_client, run, workers
from ejop.executors.dask.rows import Rows
from ejop.executors.dask.sums import Sum, expectation
from ejop.scaling import units_apart


class DaskMetric(OnCluster):
    """The matrix of rows on workers."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Estimate the matrix and its metric.

        Parameters
        ----------
        X : Dask array or data frame of shape (n_samples, n_features)
        y : Dask array, series, data frame or array of shape (n_samples,) or (n_samples, n_outputs)
            It may live on the workers; it is cut as X is where lengths allow.
        sample_weight : Dask array, series or array of shape (n_samples,), optional

        Returns
        -------
        self : object
        """
        client, rows = self._begin(X, y, sample_weight)
        local = self._plain().set_params(random_state=self._seed())
        for name in ("classes_", "n_features_in_"):
            if hasattr(self, name):
                setattr(local, name, getattr(self, name))
        known = set(vars(local))
        found = fit_metric(client, local, rows, self.reduction)
        self.__dict__.update({k: v for k, v in vars(local).items() if k not in known})
        self._training, self._function = rows, found.whole
        apart = units_apart(rows.summary.X) if found.function.measures else ""
        if apart:
            warnings.warn(
                f"{apart}; pass (X - X.mean(0)) / X.std(0), unless all columns are in one unit.",
                UserWarning,
                stacklevel=2,
            )
        return self

    jacobian = Absent("use to_local().jacobian(X), which brings the training rows here")
    partial_fit = Absent("concatenate the collections and call `fit`")

    def to_local(self, references: bool = True) -> Any:
        """The plain estimator, fitted.

        Parameters
        ----------
        references : bool, default=True
            Bring the training rows too. ``jacobian`` needs them; everything else does without.

        Returns
        -------
        estimator : EJOP or EGOP
        """
        check_is_fitted(self)
        local = self._fitted_plain()
        if references:
            self._require_memory(self._bound("_training").nbytes)
            local.function_ = run(find_client(self.client), self._bound("_function"))
        return local


def fit_metric(client: Any, local: Any, rows: Rows, reduction: str) -> Sum:
    """Fit a plain EJOP or EGOP to rows on workers; it holds none of them."""
    found = expectation(client, local, rows, workers(client), reduction)
    local.annotate(found.plan, found.function, found.total, found.min_mass, found.zeroed)
    local.store(found.function, found.step, found.total, found.plan)
    local.function_ = None
    return found
