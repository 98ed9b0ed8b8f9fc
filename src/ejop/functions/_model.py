"""Any scikit-learn model as an estimate of f."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import has_fit_parameter

from ejop.executors.threads import pools_free
from ejop.functions._base import Function
from ejop.rows import one_hot_labels
from ejop.sums.engine import Engine
from ejop.sums.form import Form, Request
from ejop.sums.model import ModelForm


class ModelFunction(Function):
    """f from a model's ``predict_proba`` (classifiers) or ``predict`` (regressors).

    The model is cloned and fitted; one inside :class:`sklearn.frozen.FrozenEstimator` is used as
    it was fitted. With a random forest this is the Jacobian analogue of gradient-based forests.
    A model cannot leave a row out of its own estimate without a refit, so ``exclude`` has no
    effect; the plan says so.

    Parameters
    ----------
    estimator : scikit-learn classifier or regressor, or callable
        A callable is f itself: it takes rows (m, d) and gives (m,) or (m, n_outputs).

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
    measures = False

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    @pools_free()  # the model's own threads; what follows runs in blocks
    def solve(self, engine: Engine) -> None:
        """Fit the model."""
        sample_weight = self.sample_weight_
        self._asked = callable(self.estimator) and not hasattr(self.estimator, "predict")
        if self._asked:
            self._classifier, self.estimator_ = False, self.estimator
            self._require_outputs()
            return
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
        self._require_outputs()

    def _require_outputs(self) -> None:
        """Refuse a model whose answers do not match the targets."""
        outputs = self.model_values(self.X_[:1]).shape[1]
        if outputs != self.n_outputs_:
            raise ValueError(
                f"{self.estimator!r} predicts {outputs} outputs and the targets have "
                f"{self.n_outputs_}; fit it on the same classes."
            )

    def predict(self, X: NDArray, exclude: NDArray | None = None) -> NDArray:
        """Values of f, shape (n_queries, n_outputs)."""
        return self.model_values(self.check_queries(X))

    def model_values(self, X: NDArray) -> NDArray:
        """What the model predicts, one column an output."""
        names = getattr(self.estimator_, "feature_names_in_", None)
        if names is not None:  # a frozen model that was fitted on a data frame
            import pandas as pd

            X = pd.DataFrame(X, columns=names)
        if self._classifier:
            return np.asarray(self.estimator_.predict_proba(X))
        values = np.asarray(self.estimator_(X) if self._asked else self.estimator_.predict(X))
        return values[:, None] if values.ndim == 1 else values

    def form(self, request: Request) -> Form:
        """Predictions at shifted copies of the rows."""
        return ModelForm(self, request)

    def default_step(self) -> NDArray:
        """A quarter of each feature's standard deviation; 1 for a constant feature."""
        spread = self.X_.std(0, dtype=np.float64)
        return np.where(spread > 0, spread / 4, 1.0)
