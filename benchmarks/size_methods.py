"""What is fitted in the comparison of sizes, as each library comes, but for early stopping."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEED = 0
#: rounds of boosting at the most; a tenth of the rows ends them
ROUNDS, WAIT = 500, 10


def ours(A: NDArray, y: NDArray, real: bool) -> Any:
    from ejop import EGOPRegressor, EJOPClassifier

    return (EGOPRegressor if real else EJOPClassifier)(random_state=SEED).fit(A, y)


def ours_whole(A: NDArray, y: NDArray, real: bool) -> Any:
    """The machines that hold every row, whatever their number."""
    return _ours_with(len(A), A, y, real)


def ours_streamed(A: NDArray, y: NDArray, real: bool) -> Any:
    """The machines on centres, whatever the number of rows."""
    return _ours_with(3000, A, y, real)


def _ours_with(most: int, A: NDArray, y: NDArray, real: bool) -> Any:
    from ejop import EGOPRegressor, EJOPClassifier
    from ejop.rules import RidgeRule

    kind = EGOPRegressor if real else EJOPClassifier
    return kind(RidgeRule(max_rows=most), random_state=SEED).fit(A, y)


def ours_on_2000(A: NDArray, y: NDArray, real: bool) -> Any:
    """The machines on 2,000 centres, to see how time grows with the rows alone."""
    from ejop import EGOPRegressor, EJOPClassifier
    from ejop.rules import RidgeRule

    kind = EGOPRegressor if real else EJOPClassifier
    return kind(RidgeRule(n_members=1, n_centers=2000), random_state=SEED).fit(A, y)


def ours_on_card(A: NDArray, y: NDArray, real: bool) -> Any:
    from ejop import EGOPRegressor, EJOPClassifier

    return (EGOPRegressor if real else EJOPClassifier)(device="cuda", random_state=SEED).fit(A, y)


def xrfm_on_card(A: NDArray, y: NDArray, real: bool) -> Any:
    """As it comes, with its default split; a tenth of the rows ends its rounds."""
    from sklearn.model_selection import train_test_split
    from xrfm import xRFM

    A, V, y, v = train_test_split(A, y, test_size=0.1, random_state=SEED)
    kind = np.float32 if real else np.int64
    model = xRFM(device="cuda", tuning_metric="mse" if real else "accuracy", random_state=SEED)
    with redirect_stdout(sys.stderr):
        model.fit(A, y.astype(kind), V, v.astype(kind))
    return Raveled(model)


class Raveled:
    """Predictions of shape (m,)."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, X: NDArray) -> NDArray:
        return np.asarray(self.model.predict(X)).ravel()


def hist(A: NDArray, y: NDArray, real: bool) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingRegressor if real else HistGradientBoostingClassifier
    return kind(max_iter=ROUNDS, early_stopping=True, random_state=SEED).fit(A, y)


def hist_as_it_comes(A: NDArray, y: NDArray, real: bool) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingRegressor if real else HistGradientBoostingClassifier
    return kind(random_state=SEED).fit(A, y)


def lightgbm(A: NDArray, y: NDArray, real: bool) -> Any:
    from lightgbm import LGBMClassifier, LGBMRegressor, early_stopping
    from sklearn.model_selection import train_test_split

    kind = LGBMRegressor if real else LGBMClassifier
    A, V, y, v = train_test_split(A, y, test_size=0.1, random_state=SEED)
    model = kind(n_estimators=ROUNDS, n_jobs=2, random_state=SEED, verbose=-1)
    return model.fit(A, y, eval_set=[(V, v)], callbacks=[early_stopping(WAIT, verbose=False)])


METHODS: dict[str, Callable[[NDArray, NDArray, bool], Any]] = {
    "ours": ours,
    "ours, on a card": ours_on_card,
    "xRFM, on a card": xrfm_on_card,
    "ours, whole": ours_whole,
    "ours, streamed": ours_streamed,
    "ours, 2,000 centres": ours_on_2000,
    "HistGradientBoosting": hist,
    "HistGradientBoosting, as it comes": hist_as_it_comes,
    "LightGBM": lightgbm,
}
