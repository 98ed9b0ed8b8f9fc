"""Any scikit-learn model as an estimate of f."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import has_fit_parameter

from ejop.executors.threads import pools_free
from ejop.functions._base import Cost, Function, one_hot_labels


class ModelFunction(Function):
    """f from a model's ``predict_proba`` (classifiers) or ``predict`` (regressors).

    The model is cloned and fitted; one inside :class:`sklearn.frozen.FrozenEstimator` is used as
    it was fitted. With a random forest this is the Jacobian analogue of gradient-based forests.
    A model cannot leave a row out of its own estimate without a refit, so ``exclude`` has no
    effect; the plan says so.

    Parameters
    ----------
    estimator : scikit-learn classifier or regressor

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from ejop.functions import ModelFunction
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> f = ModelFunction(LinearRegression()).fit(X, X @ [[3.0], [-1.0]])
    >>> f.differences(X[:1], step=np.array([0.1, 0.1])).round(6)
    array([[[ 3., -1.]]])
    """

    leaves_out = False

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    @pools_free()  # the model's own threads; what follows runs in blocks
    def _fit(self, sample_weight: NDArray | None) -> None:
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "fit"):
            raise TypeError(
                f"`estimator` must be an instance of a scikit-learn model, got {self.estimator!r}."
            )
        self._classifier = is_classifier(self.estimator)
        if self._classifier and one_hot_labels(self.Y_) is None:
            raise TypeError(
                f"{self.estimator!r} is a classifier and the targets are real; pass a regressor."
            )
        if self._classifier and not hasattr(self.estimator, "predict_proba"):
            raise TypeError(
                f"{self.estimator!r} has no `predict_proba`; wrap it in "
                "sklearn.calibration.CalibratedClassifierCV or choose another classifier."
            )
        target = self.Y_.argmax(1) if self._classifier else self.Y_
        if not self._classifier and self.n_outputs_ == 1:
            target = self.Y_[:, 0]
        if isinstance(self.estimator, FrozenEstimator):
            self.estimator_ = self.estimator
        else:
            kwargs = {}
            if sample_weight is not None:
                if not has_fit_parameter(self.estimator, "sample_weight"):
                    raise TypeError(f"{self.estimator!r} does not take `sample_weight`.")
                kwargs["sample_weight"] = sample_weight
            self.estimator_ = clone(self.estimator).fit(self.X_, target, **kwargs)
        outputs = self.predict(self.X_[:1]).shape[1]
        if outputs != self.n_outputs_:
            raise ValueError(
                f"{self.estimator!r} predicts {outputs} outputs and the targets have "
                f"{self.n_outputs_}; fit it on the same classes."
            )

    def predict(self, X: NDArray, exclude: NDArray | None = None) -> NDArray:
        """Values of f, shape (n_queries, n_outputs)."""
        names = getattr(self.estimator_, "feature_names_in_", None)
        if names is not None:  # a frozen model that was fitted on a data frame
            import pandas as pd

            X = pd.DataFrame(X, columns=names)
        if self._classifier:
            return np.asarray(self.estimator_.predict_proba(X))
        values = np.asarray(self.estimator_.predict(X))
        return values[:, None] if values.ndim == 1 else values

    def shifted(
        self, Q: NDArray, step: NDArray, exclude: NDArray | None = None
    ) -> tuple[NDArray, NDArray]:
        """Values of f at x + t_j e_j and x - t_j e_j, all 2d shifts in one batch."""
        m, d = Q.shape
        batch = np.tile(Q, (2 * d, 1)).reshape(2, d, m, d)
        for j in range(d):
            batch[0, j, :, j] += step[j]
            batch[1, j, :, j] -= step[j]
        values = self.predict(batch.reshape(-1, d)).reshape(2, d, m, -1)
        plus, minus = values.transpose(0, 2, 3, 1)
        return plus, minus

    def prepare(
        self,
        step: NDArray | None,
        *,
        budget: int | None = None,
        n_queries: int = 0,
        n_excluded: int = 0,
    ) -> Cost:
        """Memory of a block; there is nothing to compute beforehand."""
        d = self.n_features_in_
        size = 2 * d * (d * self.X_.itemsize + 3 * self.n_outputs_ * 8)
        return Cost("model", size, 0, f"{2 * d} shifted copies of each block are predicted at once")

    def default_step(self) -> NDArray:  # type: ignore[override]
        """A quarter of each feature's standard deviation; 1 for a constant feature."""
        spread = self.X_.std(0, dtype=np.float64)
        return np.where(spread > 0, spread / 4, 1.0)
