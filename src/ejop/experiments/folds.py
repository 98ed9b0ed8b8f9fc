"""Splits that depend on (data set, seed) alone, so that methods share them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.model_selection import PredefinedSplit
from sklearn.preprocessing import FunctionTransformer, StandardScaler, normalize

from ejop.datasets import load_dataset, load_digits
from ejop.experiments.paper_tables import PAPER_DATASETS, DataSet
from ejop.scaling import HellingerScaler
from ejop.tuning import FOLDS

#: neighbours of Table 1, which the paper does not tune
MNIST_NEIGHBORS = 7
ISOLET_COMPONENTS = 172


@dataclass(frozen=True)
class Fold:
    """Prepared rows of one split.

    Attributes
    ----------
    X, y : ndarray of shape (n_train, n_features) and (n_train,)
        Training rows; where ``held`` is given, rows that tune follow those to learn from.
    X_test, y_test : ndarray
    held : int
        Last training rows that only tune; 0 where folds of all training rows do that.
    n_neighbors : int or None
        Where it is not tuned.
    device : str or None
        Where EJOP sums and searches.
    """

    X: NDArray
    y: NDArray
    X_test: NDArray
    y_test: NDArray
    held: int = 0
    n_neighbors: int | None = None
    device: str | None = None

    @property
    def validation(self) -> Any:
        """As the predictors take it."""
        if not self.held:
            return FOLDS
        return PredefinedSplit(np.repeat([-1, 0], [len(self.X) - self.held, self.held]))

    @property
    def learning(self) -> slice:
        """Training rows that a final metric may learn from."""
        return slice(0, len(self.X) - self.held)


def load_rows(
    dataset: DataSet, data_dir: str | None = None
) -> tuple[NDArray, NDArray, NDArray | None]:
    """Rows as they are in the source, labels, and the source's own split."""
    if dataset.source == "digits":
        return (*load_digits(return_X_y=True), None)
    found = load_dataset(dataset.source, data_dir=data_dir)
    return np.asarray(found.data), np.asarray(found.target), getattr(found, "split", None)


def make_fold(name: str, seed: int, data_dir: str | None = None, device: str | None = None) -> Fold:
    """Draw and prepare the rows of a data set for a seed.

    Examples
    --------
    >>> from ejop.experiments.folds import make_fold
    >>> fold = make_fold("digits", 0)
    >>> fold.X.shape, fold.X_test.shape
    ((1200, 64), (597, 64))
    """
    dataset = PAPER_DATASETS[name]
    X, y, split = load_rows(dataset, data_dir)
    order = np.random.RandomState(seed).permutation(len(X))
    held, k = 0, None
    if dataset.source == "mnist":
        assert split is not None
        held, k = dataset.n_train // 5 if name == "mnist" else 2000, MNIST_NEIGHBORS
        train = order[split[order] == 0][: dataset.n_train + held]
        test = order[split[order] == 1][: dataset.n_test]
    else:
        train, test = np.split(order[: dataset.n_train + dataset.n_test], [dataset.n_train])
    A, B = _prepared(dataset.preparation, X[train], X[test], len(train) - held)
    return Fold(A, y[train], B, y[test], held, k, device)


def _prepared(preparation: str, A: NDArray, B: NDArray, n_fit: int) -> tuple[NDArray, NDArray]:
    """Both parts, prepared by what the rows to learn from say."""
    A, B = A.astype(np.float64), B.astype(np.float64)
    if preparation == "standard":  # the customary one for these counts: shares, then z-scores
        A, B = normalize(A, "l1"), normalize(B, "l1")
    step = {
        "none": FunctionTransformer,
        "standard": StandardScaler,
        "hellinger": HellingerScaler,
        "pca": lambda: PCA(ISOLET_COMPONENTS, random_state=0),
    }[preparation]()
    step.fit(A[:n_fit])
    return step.transform(A), step.transform(B)
