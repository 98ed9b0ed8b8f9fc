"""The same estimators on a Dask cluster: rows that no one machine holds.

``DaskEJOP``, ``DaskEGOP``, ``DaskEJOPClassifier`` and ``DaskEGOPRegressor`` take Dask arrays or
data frames and give what their local twins would. Dask schedules, retries and moves data. The
client sees matrices of n_features x n_features and a few numbers, never the rows; the one exception
is a predictor of ``rule="ridge"``, which is brought whole, with the sample it was fitted to.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop._sklearn import Interval
from ejop.estimators import EGOP, EJOP, EGOPRegressor, EJOPClassifier, weights_of_classes
from ejop.executors.dask.base import CONSTRAINTS, like
from ejop.executors.dask.metrics import DaskMetric
from ejop.executors.dask.plan import ClusterPlan
from ejop.executors.dask.predictors import DaskPredictor
from ejop.executors.dask.rows import Rows

__all__ = ["ClusterPlan", "DaskEGOP", "DaskEGOPRegressor", "DaskEJOP", "DaskEJOPClassifier"]

_PREDICTOR = {**CONSTRAINTS, "tuning_rows": [Interval(Integral, 10, None, closed="left")]}


@like(EJOP, reduction="auto", client=None)
class DaskEJOP(DaskMetric, EJOP):
    """:class:`ejop.EJOP` on a Dask cluster.

    Parameters and attributes are those of :class:`ejop.EJOP`, and these. ``device`` has no name,
    ``n_jobs`` counts threads within a task (1 by default: Dask runs tasks side by side), and
    ``Device(memory_limit=...)`` is that of a task.

    Parameters
    ----------
    reduction : {"auto", "broadcast", "tiles"}, default="auto"
        "broadcast": every worker holds all references. "tiles": none does, and sums run through
        blocks of references. "auto" broadcasts references of up to a tenth of a worker's memory.
    client : distributed.Client, optional
        The one that is connected by default. It is never copied or saved.

    Attributes
    ----------
    plan_ : ClusterPlan
        Which reduction ran and why.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import load_iris
    >>> from ejop import EJOP
    >>> from ejop.dask import DaskEJOP
    >>> X, y = load_iris(return_X_y=True)
    >>> with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"):
    ...     rows = da.from_array(X, chunks=(50, -1))
    ...     metric = DaskEJOP().fit(rows, da.from_array(y, chunks=50))
    ...     mapped = metric.transform(rows).compute()
    >>> bool(abs(metric.outer_product_ - EJOP().fit(X, y).outer_product_).max() < 1e-12)
    True
    >>> mapped.shape, metric.plan_.reduction
    ((150, 4), 'broadcast')
    """

    _classify = True
    _parameter_constraints: dict = {**EJOP._parameter_constraints, **CONSTRAINTS}

    def _accept(self, labels: NDArray) -> None:
        self._targets(labels, None, first=True)


@like(EGOP, reduction="auto", client=None)
class DaskEGOP(DaskMetric, EGOP):
    """:class:`ejop.EGOP` on a Dask cluster.

    Parameters and attributes are those of :class:`ejop.EGOP`, with ``reduction`` and ``client`` as
    in :class:`DaskEJOP`.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from ejop.dask import DaskEGOP
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> rows, y = da.from_array(X, chunks=(100, -1)), np.sin(X[:, 0] + X[:, 1])
    >>> with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"):
    ...     egop = DaskEGOP().fit(rows, y)
    >>> np.abs(egop.eigenvectors_[:, 0]).round(1)
    array([0.7, 0.7, 0. ])
    """

    _classify = False
    _parameter_constraints: dict = {**EGOP._parameter_constraints, **CONSTRAINTS}

    def _accept(self, labels: NDArray) -> None:
        """Any real targets will do."""


@like(EJOPClassifier, tuning_rows=20_000, reduction="auto", client=None)
class DaskEJOPClassifier(DaskPredictor, EJOPClassifier):
    """:class:`ejop.EJOPClassifier` on a Dask cluster.

    With ``rule="ridge"``, the default, the local twin is fitted whole on one worker, to a random
    sample of ``tuning_rows`` rows (all rows where there are no more), and predictions run block by
    block with that model. ``plan_`` says how many rows it was. The fitted model comes to the client
    too, with the rows of the sample: it is what :meth:`to_local` returns, and it can be saved.

    With ``rule="knn"`` or ``"hnn"`` settings are tuned by the local twin, on a worker, with such a
    sample. The metric of the best setting is then learned from all rows, and neighbours are
    searched among all rows: the nearest of each block, merged with the same ties. ``rule_`` holds
    no rows there. ``scale="robust"`` and ``"quantile"`` take their quantiles, and ``rule="hnn"``
    the quantile of its radius, from a sample.

    Rows are numbers without gaps here. Text, gaps and dates are prepared before, partition by
    partition, by a :class:`ejop.columns.ColumnPreparer` that was fitted to a sample, so that all
    are prepared alike; ``columns`` is only "auto" or "numbers", which are the same.

    Parameters and attributes are those of :class:`ejop.EJOPClassifier`, and these.

    Parameters
    ----------
    tuning_rows : int, default=20000
        Rows of the sample that the machines are fitted to, or that settings are tuned with; all
        rows where there are no more.
    reduction : {"auto", "broadcast", "tiles"}, default="auto"
        Of the sums, see :class:`DaskEJOP`.
    client : distributed.Client, optional

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import load_iris
    >>> from ejop.dask import DaskEJOPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"):
    ...     rows = da.from_array(X, chunks=(50, -1))
    ...     model = DaskEJOPClassifier(random_state=0).fit(rows, y)
    ...     shares = model.predict_proba(rows).compute()
    ...     local = model.to_local()
    >>> bool(abs(shares - local.predict_proba(X)).max() < 1e-12)
    True
    """

    _classify = True
    _parameter_constraints: dict = {**EJOPClassifier._parameter_constraints, **_PREDICTOR}

    def predict_proba(self, X: Any) -> Any:
        """Share of each class in the vote, lazily.

        Parameters
        ----------
        X : Dask array or data frame of shape (n_samples, n_features)

        Returns
        -------
        p : Dask array of shape (n_samples, n_classes)
        """
        self._check_fitted()
        return self._answered(X, "_shares", (len(self.classes_),), np.dtype(float))

    def predict_set(self, X: Any, coverage: float = 0.9) -> Any:
        """Classes that may be the true one, lazily; see :meth:`ejop.EJOPClassifier.predict_set`.

        Parameters
        ----------
        X : Dask array or data frame of shape (n_samples, n_features)
        coverage : float in (0, 1), default=0.9

        Returns
        -------
        inside : Dask array of bool, shape (n_samples, n_classes)
        """
        self._honest_rule(coverage)
        shape = (len(self.classes_),)
        return self._blockwise(X, "predict_set", shape, np.dtype(bool), coverage)

    def _accept(self, labels: NDArray) -> None:
        self._targets(labels)

    def _kind_of_answer(self) -> tuple[tuple[int, ...], Any]:
        return (), self.classes_.dtype

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = False  # partitions are read as one class a row
        return tags

    def _class_weights(self, rows: Rows) -> NDArray | None:
        if self.class_weight is None:
            return None
        found = weights_of_classes(self.class_weight, self.classes_, rows.summary.target)
        if not found.all():
            raise ValueError(
                f"`class_weight`={self.class_weight} leaves out a class; on a cluster leave its "
                "rows out of X and y."
            )
        return found


@like(EGOPRegressor, tuning_rows=20_000, reduction="auto", client=None)
class DaskEGOPRegressor(DaskPredictor, EGOPRegressor):
    """:class:`ejop.EGOPRegressor` on a Dask cluster.

    Parameters and attributes are those of :class:`ejop.EGOPRegressor`, with ``tuning_rows``,
    ``reduction`` and ``client`` as in :class:`DaskEJOPClassifier`.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from ejop.dask import DaskEGOPRegressor
    >>> X = np.random.default_rng(0).normal(size=(400, 5))
    >>> rows, y = da.from_array(X, chunks=(100, -1)), np.sin(2 * X[:, 0] + X[:, 1])
    >>> with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"):
    ...     model = DaskEGOPRegressor(random_state=0)
    ...     print(model.fit(rows[:300], y[:300]).score(rows[300:], y[300:]) > 0.8)
    True
    """

    _classify = False
    _parameter_constraints: dict = {**EGOPRegressor._parameter_constraints, **_PREDICTOR}

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Bounds of the target, lazily; see :meth:`ejop.EGOPRegressor.predict_interval`.

        Parameters
        ----------
        X : Dask array or data frame of shape (n_samples, n_features)
        coverage : float in (0, 1), default=0.9

        Returns
        -------
        bounds : Dask array of shape (n_samples, 2) or, for several outputs, \
                (n_samples, 2, n_outputs)
        """
        self._honest_rule(coverage)
        shape = (2, *self._kind_of_answer()[0])
        return self._blockwise(X, "predict_interval", shape, np.dtype(float), coverage)

    def _accept(self, labels: NDArray) -> None:
        self._targets(labels)

    def _kind_of_answer(self) -> tuple[tuple[int, ...], Any]:
        return () if self._flat else (self._n_outputs,), np.dtype(float)
