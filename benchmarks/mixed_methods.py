"""Tables of text, gaps and dates, as ours and its peers take them.

Ours takes a table as it comes. Peers get what a careful user would give them: text columns in
which more than half of the rows differ (names and tickets of the Titanic) are dropped, dates
written as text become the day, the weekday and the day of the year, and numbers stay as they are,
gaps and all. LightGBM and CatBoost take the other text as their own categories, the forest after
one-hot encoding.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder

from benchmarks import predictor_methods
from benchmarks.predictor_data import Split, split_of
from benchmarks.predictor_methods import Fitted, Method

#: set -> its target, and whether that is real
SETS = {
    "ames": ("price", True),
    "chile": ("vote", False),
    "credit_data": ("Status", False),
    "hotel_rates": ("avg_price_per_room", True),
    "police_force": ("force_type", False),
    "star": ("math3", True),
    "titanic": ("survived", False),
}
#: share of rows with a text of their own beyond which a peer does not get a column
MOST_TEXTS = 0.5
MISSING = "missing"
DATE = r"\d{4}-\d\d-\d\d"


def split(folder: Path, name: str, number: int, rows: int) -> Split:
    """One of the reported splits, as tables; classes are numbered."""
    table = pd.read_parquet(folder / "mixed" / f"{name}.parquet")
    target, real = SETS[name]
    y = table.pop(target).to_numpy()
    y = y.astype(np.float64) if real else np.unique(y, return_inverse=True)[1]
    return split_of(table, y, real, number, rows)


# what peers get -----------------------------------------------------------------------------


class Careful(TransformerMixin, BaseEstimator):
    """Numbers, and text as categories (levels unseen in training are missing) or as text."""

    def __init__(self, categories: bool) -> None:
        self.categories = categories

    def fit(self, X: pd.DataFrame, y: Any = None) -> Careful:
        dated = list(X.select_dtypes("datetime"))
        text = list(X.select_dtypes(exclude=["number", "datetime"]))
        written = [name for name in text if X[name].dropna().str.fullmatch(DATE).all()]
        self.dates_ = dated + written
        self.dropped_ = [
            name
            for name in text
            if X[name].nunique() > MOST_TEXTS * len(X) and name not in self.dates_
        ]
        self.text_ = [name for name in text if name not in (*self.dates_, *self.dropped_)]
        self.kinds_ = {
            name: pd.CategoricalDtype(sorted(X[name].dropna().unique())) for name in self.text_
        }
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        X = X.drop(columns=self.dropped_)
        for name in self.dates_:
            date = pd.to_datetime(X[name]).dt
            X[name] = date.as_unit("s").astype("int64") / 86400.0
            X[f"{name}_weekday"], X[f"{name}_day"] = date.day_of_week, date.day_of_year
        for name, kind in self.kinds_.items():
            known = X[name].where(X[name].isin(kind.categories))
            X[name] = known.astype(kind) if self.categories else X[name].fillna(MISSING)
        return X


def one_hot() -> Pipeline:
    """Numbers with gaps at the median, a 0/1 column a level; rare levels share one."""
    levels = OneHotEncoder(
        min_frequency=10, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    columns = make_column_transformer(
        (SimpleImputer(strategy="median"), make_column_selector(dtype_include="number")),
        (levels, make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(Careful(categories=False), columns)


def on_tables(peer: Method, prepare: Callable[[], Any]) -> Method:
    """A method of arrays on prepared tables."""

    def method(A: pd.DataFrame, y: NDArray, real: bool) -> Fitted:
        first = prepare()
        fitted = peer(first.fit_transform(A), y, real)
        model = Pipeline([("prepare", first), ("model", fitted.model)])
        return Fitted(model, fitted.chosen, None if real else model.predict_proba)

    return method


def catboost(A: pd.DataFrame, y: NDArray, real: bool) -> Fitted:
    text = list(A.select_dtypes(exclude="number"))
    return predictor_methods.catboost(A, y, real, cat_features=text)


# the command line ---------------------------------------------------------------------------


class Shell:
    """What ``ejop fit`` makes of a file, and ``ejop predict`` of another."""

    TARGET = "the target"

    def __init__(self, A: pd.DataFrame, y: NDArray, real: bool) -> None:
        self.folder, self.real = Path(tempfile.mkdtemp()), real
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        # classes in words, so that a file says what they are
        answers = y if real else [f"class {number}" for number in y]
        rows = self.write("rows.csv", A.assign(**{self.TARGET: answers}))
        self.model = rows.with_name("model.skops")
        self.call("fit", rows, "--target", self.TARGET, "--out", self.model)

    def write(self, name: str, table: pd.DataFrame) -> Path:
        path = self.folder / name
        table.to_csv(path, index=False)
        return path

    def call(self, *arguments: Any) -> None:
        command = [Path(sys.executable).with_name("ejop"), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"ejop {arguments[0]}: {(done.stderr or done.stdout)[-500:]}")

    def answers(self, B: pd.DataFrame) -> pd.DataFrame:
        out = self.folder / "answers.csv"
        proba = [] if self.real else ["--proba"]
        self.call("predict", self.model, self.write("new.csv", B), *proba, "--out", out)
        return pd.read_csv(out)

    def predict(self, B: pd.DataFrame) -> NDArray:
        first = self.answers(B).iloc[:, 0]
        return first.to_numpy() if self.real else first.str.removeprefix("class ").astype(int)

    def predict_proba(self, B: pd.DataFrame) -> NDArray:
        found = self.answers(B).filter(regex=r"class \d+$")
        order = np.argsort([int(name.rsplit(" ", 1)[1]) for name in found])
        return found.to_numpy()[:, order]


def command_line(A: pd.DataFrame, y: NDArray, real: bool) -> Fitted:
    shell = Shell(A, y, real)
    return Fitted(shell, {}, None if real else shell.predict_proba)


METHODS: dict[str, Method] = {
    "ours": predictor_methods.ours,
    "ours, command line": command_line,
    "lightgbm": on_tables(predictor_methods.lightgbm, lambda: Careful(categories=True)),
    "catboost": on_tables(catboost, lambda: Careful(categories=False)),
    "forest": on_tables(predictor_methods.forest, one_hot),
}
