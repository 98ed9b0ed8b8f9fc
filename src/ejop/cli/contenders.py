"""What ``ejop compare`` compares: methods for tables, of classes and of numbers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.columns import TOLD, Column, ColumnPreparer
from ejop.experiments.folds import Fold
from ejop.experiments.methods import METHODS, Method, Outcome
from ejop.scaling import make_scaler

#: share of the rows that test
TEST_SHARE = 0.3
#: how the library begins to tell of columns, which is said once for the whole table
_PREPARED = f"{TOLD}|these rows hold"


@dataclass(frozen=True)
class TableFold:
    """One split of a table.

    Attributes
    ----------
    training : TrainingTable
        What to learn from.
    X_test : pandas.DataFrame
    y_test : ndarray
    columns : list of Column
        How the columns were prepared.
    prepared, prepared_test : ndarray
        Rows of numbers.
    arrays : Fold
        The same with numbers standardised, classes as numbers.
    """

    training: Any
    X_test: Any
    y_test: NDArray
    columns: list[Column]
    prepared: NDArray
    prepared_test: NDArray
    arrays: Fold

    @property
    def real(self) -> bool:
        """Whether targets are numbers."""
        return bool(self.training.task == "regression")


def table_folds(training: Any, runs: int, max_rows: int, seed: int) -> Iterator[TableFold]:
    """Splits of the rows, each prepared by what its learning part says."""
    from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

    real = training.task == "regression"
    X, y = training.X, training.y
    if len(X) > max_rows:
        drawn = np.random.RandomState(seed).permutation(len(X))[:max_rows]
        X, y = X.iloc[drawn], y[drawn]
    codes = y if real else np.unique(y, return_inverse=True)[1]
    splitter: Any = ShuffleSplit
    if not real:
        counts = np.bincount(codes)
        if counts.min() >= 2 and TEST_SHARE * len(y) >= len(counts):
            splitter = StratifiedShuffleSplit
    for train, test in splitter(runs, test_size=TEST_SHARE, random_state=seed).split(X, codes):
        step = ColumnPreparer(kinds=training.kinds).set_output(transform="default")
        with quiet():
            A = step.fit_transform(X.iloc[train])
            B = step.transform(X.iloc[test])
        scaler = make_scaler("standard", step.factors_).fit(A)
        yield TableFold(
            replace(training, X=X.iloc[train], y=y[train]),
            X.iloc[test],
            y[test],
            step.columns_,
            A,
            B,
            Fold(scaler.transform(A), codes[train], scaler.transform(B), codes[test]),
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Without what is said of the whole table."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _PREPARED, UserWarning)
        yield


# methods ----------------------------------------------------------------------------------------


def judged(fold: TableFold, model: Any, rows: tuple[Any, NDArray, Any, NDArray]) -> Outcome:
    """Fit a model and judge it: errors in per cent, or unexplained variance in per cent."""
    A, y, B, y_test = rows
    start = time.perf_counter()
    with quiet():
        model.fit(A, y)
        fitted = time.perf_counter()
        predictions = model.predict(B)
    done = time.perf_counter()
    error = error_of(fold.real, predictions, y_test)
    return Outcome(error, fitted - start, done - fitted, {})


def error_of(real: bool, predictions: Any, truth: Any) -> float:
    """Share of wrong classes, or 1 - R2, in per cent.

    Examples
    --------
    >>> from ejop.cli.contenders import error_of
    >>> error_of(False, ["a", "b"], ["a", "a"]), error_of(True, [1.5, 1.5], [1.0, 2.0])
    (50.0, 100.0)
    """
    from sklearn.metrics import r2_score

    if real:
        return 100 * (1 - float(r2_score(truth, predictions)))
    return 100 * float(np.mean(np.asarray(predictions) != np.asarray(truth)))


def of_table(fold: TableFold) -> tuple[Any, NDArray, Any, NDArray]:
    """Rows as the table has them."""
    return fold.training.X, fold.training.y, fold.X_test, fold.y_test


def of_numbers(fold: TableFold) -> tuple[Any, NDArray, Any, NDArray]:
    """Rows as they are prepared."""
    return fold.prepared, fold.training.y, fold.prepared_test, fold.y_test


def machines(learning: Any) -> Method:
    """The default predictor, on the table itself."""

    def run(fold: TableFold, seed: int, n_neighbors: int | None) -> Outcome:
        model = replace(learning, seed=seed).predictor(fold.training).set_params(verbose=0)
        return judged(fold, model, of_table(fold))

    return Method("EJOP machines", run)


def near(label: str, **options: Any) -> Method:
    """Near rows of real targets, under plain or learned distance."""

    def run(fold: TableFold, seed: int, n_neighbors: int | None) -> Outcome:
        from ejop import EGOPRegressor

        model = EGOPRegressor("knn", scale="none", random_state=seed, **options)
        part = fold.arrays
        return judged(fold, model, (part.X, part.y, part.X_test, part.y_test))

    return Method(label, run)


def forest(n_jobs: int | None) -> Method:
    """scikit-learn's random forest, on the prepared columns."""

    def run(fold: TableFold, seed: int, n_neighbors: int | None) -> Outcome:
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        kind = RandomForestRegressor if fold.real else RandomForestClassifier
        return judged(fold, kind(random_state=seed, n_jobs=n_jobs), of_numbers(fold))

    return Method("Random forest", run)


def boosting(fold: TableFold, seed: int, n_neighbors: int | None) -> Outcome:
    """scikit-learn's histogram gradient boosting, on levels as codes and with gaps as they are."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingRegressor if fold.real else HistGradientBoostingClassifier
    A, levels = as_codes(fold.prepared, fold.columns)
    B, _ = as_codes(fold.prepared_test, fold.columns)
    model = kind(categorical_features=levels, random_state=seed)
    return judged(fold, model, (A, fold.training.y, B, fold.y_test))


def as_codes(prepared: NDArray, columns: list[Column]) -> tuple[NDArray, NDArray]:
    """Prepared rows with a code for the levels of a category and NaN for gaps.

    Returns
    -------
    rows : ndarray of shape (n, n_columns)
    levels : ndarray of bool, shape (n_columns,)
        Which columns are codes.
    """
    parts, levels, start = [], [], 0
    for column in columns:
        width = len(column.features())
        block = prepared[:, start : start + width]
        start += width
        if column.kind == "category":
            block = np.where(block.any(1), block.argmax(1), np.nan)[:, None]
        elif column.missing and column.kind in ("number", "grade", "date"):
            block = np.where(block[:, -1:] > 0, np.nan, block[:, :-1])
        parts.append(block)
        levels += [column.kind == "category"] * block.shape[1]
    return np.hstack(parts), np.array(levels)


def baseline(fold: TableFold, seed: int, n_neighbors: int | None) -> Outcome:
    """The most frequent class, or the mean, whatever the row."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    model = DummyRegressor() if fold.real else DummyClassifier()
    return judged(fold, model, of_numbers(fold))


def _of_arrays(method: Method) -> Method:
    """A method of the paper's tables, on the standardised rows of a split of a table."""

    def run(fold: TableFold, seed: int, n_neighbors: int | None) -> Outcome:
        return method.run(fold.arrays, seed, n_neighbors)

    return Method(method.label, run, method.after)


def contenders(task: str, learning: Any) -> dict[str, Method]:
    """Methods by name.

    Parameters
    ----------
    task : {"classification", "regression"}
    learning : Learning
        Settings of the machines.
    """
    common: dict[str, Method] = {
        "ejop-machines": machines(learning),
        "forest": forest(learning.n_jobs),
        "boosting": Method("Gradient boosting", boosting),
    }
    if task == "regression":
        return {
            "baseline": Method("Mean", baseline),
            "euclid": near("Euclid", function="kernel", power=0.0),
            "ejop-knn": near("EJOP kNN"),
            **common,
        }
    known = {name: _of_arrays(method) for name, method in METHODS.items()}
    return {"baseline": Method("Most frequent class", baseline), **known, **common}
