"""Tables of text, gaps and dates, as the peers of the predictor take them.

The predictor takes a table as it comes. Peers get what a careful user would give them: text
columns in which more than half of the rows differ (names and tickets of the Titanic) are dropped,
dates written as text become the day, the weekday and the day of the year, and numbers stay as they
are, gaps and all. LightGBM, XGBoost and CatBoost take the other text as their own categories, the
others after one-hot encoding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder

from ejop.experiments.suite import peers
from ejop.experiments.suite.peers import FittedMethod, Method

#: share of rows with a text of their own beyond which a peer does not get a column
MOST_TEXTS = 0.5
MISSING = "missing"
DATE = r"\d{4}-\d\d-\d\d"


class Careful(TransformerMixin, BaseEstimator):
    """Numbers, and text as categories (levels unseen in training are missing) or as text."""

    def __init__(self, categories: bool) -> None:
        self.categories = categories

    def fit(self, X: pd.DataFrame, y: Any = None) -> Careful:
        """Find out what each column holds."""
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
        """The table as a peer takes it."""
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


class BehindPreparation:
    """A fitted model behind a fitted preparation."""

    def __init__(self, first: Any, model: Any) -> None:
        self.first, self.model = first, model

    def predict(self, X: pd.DataFrame) -> NDArray:
        """Classes, or targets."""
        return self.model.predict(self.first.transform(X))

    def predict_proba(self, X: pd.DataFrame) -> NDArray:
        """Probabilities of classes, where the model gives them."""
        return self.model.predict_proba(self.first.transform(X))


def on_tables(peer: Method, prepare: Callable[[], Any]) -> Method:
    """A method of arrays on prepared tables."""

    def method(A: pd.DataFrame, y: NDArray, real: bool) -> FittedMethod:
        first = prepare()
        fitted = peer(first.fit_transform(A), y, real)
        model = BehindPreparation(first, fitted.model)
        return FittedMethod(
            model, fitted.chosen, None if fitted.shares is None else model.predict_proba
        )

    return method


def catboost(A: pd.DataFrame, y: NDArray, real: bool) -> FittedMethod:
    """CatBoost with text as its own categories."""
    text = list(A.select_dtypes(exclude="number"))
    return peers.catboost(A, y, real, cat_features=text)


_CATEGORIES, _TEXT = partial(Careful, categories=True), partial(Careful, categories=False)
#: peers on tables, in the order of the pages
PEERS: dict[str, Method] = {
    **{name: on_tables(peer, one_hot) for name, peer in peers.PEERS.items()},
    "lightgbm": on_tables(peers.lightgbm, _CATEGORIES),
    "xgboost": on_tables(partial(peers.xgboost, enable_categorical=True), _CATEGORIES),
    "catboost": on_tables(catboost, _TEXT),
}
