"""ColumnPreparer: tables with strings, blanks and dates, made rows of numbers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ejop._sklearn import Interval
from ejop.columns._encoders import CategoryColumn, Column, Skipped
from ejop.columns._judge import KINDS, Judge
from ejop.columns._tables import Cells, is_table, n_rows, open_table, read_column

#: how warnings on the columns of a table begin
TOLD = "left out|look at"
#: names that are shown of many
SHOWN = 6


class ColumnPreparer(TransformerMixin, BaseEstimator):
    """Rows of numbers from a table as people have it: text, categories, gaps and dates.

    Numbers stay as they are and gaps take the median, with a 0/1 feature beside them. A category
    becomes a 0/1 feature for each of its frequent levels, one for all rare levels together, and one
    for missing values. Two levels become one flag. Dates become days passed, and where in the day,
    the week and the year they fall. Numbers and dates that are written as text are read: decimal
    commas, thousands, currencies, per cent. Free text, identifiers and constant columns are left
    out, with a warning that says why; where such a column has gaps, whether it is there is used.

    Columns are found by their names, so their order may change. :class:`ejop.EJOPClassifier` and
    :class:`ejop.EGOPRegressor` prepare tables by themselves (``columns="auto"``); this is the same
    for a pipeline of one's own.

    Parameters
    ----------
    kinds : mapping of column name to kind, optional
        What to use a column as: "number", "date" or "category"; "keep" uses one that looks like an
        identifier or free text; "skip" leaves it out. All others are judged by their values.
    max_levels : int, default=30
        Levels of a category that get a feature of their own, the most frequent first.
    min_rows : int, default=10
        Rows of a level, at the least, for a feature of its own; of fewer than 200 rows one in
        twenty.

    Attributes
    ----------
    columns_ : list of Column
        What each used column is: ``name``, ``kind``, ``missing``, ``levels``, ``told``.
    skipped_ : list of Skipped
        Columns that are not used: ``name``, ``why``.
    groups_ : ndarray of shape (n_features_out,)
        Number of the input column that each feature comes from.
    factors_ : ndarray of shape (n_features_out,)
        What features of levels are multiplied by where columns are scaled; NaN for numbers.
    names_ : list of str
        Names of the input columns.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where the table names its columns by text.

    Examples
    --------
    >>> import pandas as pd
    >>> from ejop.columns import ColumnPreparer
    >>> table = pd.DataFrame(
    ...     {
    ...         "sex": ["f", "m", "m", "f"],
    ...         "age": [22.0, None, 35.0, 58.0],
    ...         "fare": ["7,25", "71", "8", "53,1"],
    ...     }
    ... )
    >>> preparer = ColumnPreparer().fit(table)
    >>> preparer.get_feature_names_out().tolist()
    ['sex_m', 'age', 'age_missing', 'fare']
    >>> preparer.transform(table)
    array([[ 0.  , 22.  ,  0.  ,  7.25],
           [ 1.  , 35.  ,  1.  , 71.  ],
           [ 1.  , 35.  ,  0.  ,  8.  ],
           [ 0.  , 58.  ,  0.  , 53.1 ]])
    >>> for line in preparer.in_words():
    ...     print(line)
    categories, with their features: sex (1)
    missing values filled with the median, and marked: age (1)
    fare: read as numbers with decimal commas
    """

    _parameter_constraints: dict = {
        "kinds": [Mapping, None],
        "max_levels": [Interval(Integral, 1, None, closed="left")],
        "min_rows": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        kinds: Mapping[str, str] | None = None,
        max_levels: int = 30,
        min_rows: int = 10,
    ) -> None:
        self.kinds = kinds
        self.max_levels = max_levels
        self.min_rows = min_rows

    def fit(self, X: Any, y: Any = None) -> ColumnPreparer:
        """Find out what each column is.

        Parameters
        ----------
        X : table of pandas, polars or Arrow, or array-like of shape (n_samples, n_features)
        y : None
            Not used.

        Returns
        -------
        self : ColumnPreparer
        """
        self._fit(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> NDArray:
        """Fit, and prepare the same rows; each column is read once."""
        cells = self._fit(X)
        return self._encoded(cells, len(cells[0]))

    def transform(self, X: Any) -> NDArray:
        """Prepare rows.

        Parameters
        ----------
        X : table or array-like of shape (n_samples, n_features)
            Columns are found by name; more than were fitted are left alone.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features_out)
        """
        check_is_fitted(self)
        if not is_table(X):
            rows = self._array(X, reset=False)
            numbers = (Cells("number", rows[:, j]) for j in self._used())
            return self._encoded(numbers, len(rows))
        names, series = open_table(X)
        self._match(names)
        places = {name: number for number, name in enumerate(names)}
        found = (read_column(series(places[column.name])) for column in self.columns_)
        return self._encoded(found, n_rows(X))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """Names of the features: "age", "sex_male", "embarked_missing", ..."""
        check_is_fitted(self)
        found = [name for column in self.columns_ for name in column.features()]
        return np.array(found, dtype=object)

    @property
    def n_groups(self) -> int:
        """Columns that features are grouped by: those of the table."""
        return self.n_features_in_

    def by_column(self, values: NDArray) -> NDArray:
        """Sums over the features of each input column.

        Parameters
        ----------
        values : ndarray of shape (..., n_features_out)

        Returns
        -------
        sums : ndarray of shape (..., n_features_in_)
            Zeros for columns that are not used.
        """
        return np.asarray(values) @ np.eye(self.n_features_in_)[self.groups_]

    def in_words(self) -> list[str]:
        """What was done beyond taking numbers as they are, a sentence each."""
        check_is_fitted(self)
        found = [f"left out {each.name!r}: {each.why}" for each in self.skipped_]
        coded = [f"{c.name} ({len(c.features())})" for c in self.columns_ if c.kind in _CODED]
        if coded:
            found.append(f"categories, with their features: {_listed(coded)}")
        filled = [
            f"{c.name} ({c.missing:,})" for c in self.columns_ if c.missing and c.kind in _FILLED
        ]
        if filled:
            found.append(f"missing values filled with the median, and marked: {_listed(filled)}")
        level = [
            f"{c.name} ({c.missing:,})" for c in self.columns_ if c.missing and c.kind in _CODED
        ]
        if level:
            found.append(f"missing values are a level of their own: {_listed(level)}")
        categories = [c for c in self.columns_ if isinstance(c, CategoryColumn)]
        rare = [f"{c.name} ({len(c.rare):,})" for c in categories if c.rare]
        if rare:
            found.append(f"rare levels share one feature: {_listed(rare)}")
        return found + [f"{c.name}: {c.told}" for c in self.columns_ if c.told]

    # how ------------------------------------------------------------------------------------

    def _fit(self, X: Any) -> list[Cells]:
        """Judge all columns, and give the cells of those that are used."""
        self._validate_params()
        if is_table(X):
            names, series = open_table(X)
            self._check_kinds(names)
            if not n_rows(X):
                raise ValueError("`X` has no rows; at least one is needed.")
            cells = [read_column(series(j)) for j in range(len(names))]
            validate_data(self, X, skip_check_array=True)
        else:
            rows = self._array(X, reset=True)
            names = [f"x{j}" for j in range(rows.shape[1])]
            self._check_kinds(names)
            cells = [Cells("number", rows[:, j]) for j in range(rows.shape[1])]
        typed = any(each.kind == "number" for each in cells)
        n = len(cells[0]) if cells else 0
        judge = Judge(self.max_levels, min(self.min_rows, max(2, n // 20)), typed)
        kinds = self.kinds or {}
        found = [
            judge.column(name, c, kinds.get(name)) for name, c in zip(names, cells, strict=True)
        ]
        self.names_ = names
        self.columns_ = [each for each in found if isinstance(each, Column)]
        self.skipped_ = [each for each in found if isinstance(each, Skipped)]
        if not self.columns_:
            why = "; ".join(f"{each.name}: {each.why}" for each in self.skipped_[:SHOWN])
            raise ValueError(
                f"`X` (n_samples={n}) has no column to learn from ({why}); "
                "kinds={'name': 'keep'} uses one all the same."
            )
        used = self._used()
        widths = [len(column.features()) for column in self.columns_]
        self.groups_ = np.repeat(used, widths)
        self.factors_ = np.concatenate([column.factors() for column in self.columns_])
        self._tell_skipped()
        if judge.doubts:
            more = _more(judge.doubts)
            warnings.warn(
                f"look at {_columns(judge.doubts)}: {'; '.join(judge.doubts[:SHOWN])}{more}",
                UserWarning,
                stacklevel=3,
            )
        return [cells[j] for j in used]

    def _check_kinds(self, names: list[str]) -> None:
        for name, kind in (self.kinds or {}).items():
            if kind not in KINDS:
                raise ValueError(
                    f"`kinds` has {kind!r} for {name!r}; use one of {', '.join(KINDS)}."
                )
            if name not in names:
                raise ValueError(
                    f"`kinds` names {name!r}, which is not a column of the table; the columns "
                    f"are {_listed(names, 12)}."
                )

    def _tell_skipped(self) -> None:
        found = [each for each in self.skipped_ if not each.asked]
        if found:
            told = "; ".join(f"{each.name!r}: {each.why}" for each in found[:SHOWN])
            usable = next((each.name for each in found if each.usable), None)
            remedy = (
                "" if usable is None else f"; kinds={{{usable!r}: 'keep'}} uses it all the same"
            )
            warnings.warn(
                f"left out {_columns(found)}: {told}{_more(found)}{remedy}",
                UserWarning,
                stacklevel=4,
            )

    def _used(self) -> list[int]:
        places = {name: number for number, name in enumerate(self.names_)}
        return [places[column.name] for column in self.columns_]

    def _match(self, names: list[str]) -> None:
        """Refuse a table that lacks columns; say so where their order is another."""
        missing = [column.name for column in self.columns_ if column.name not in set(names)]
        if missing:
            n = len(missing)
            raise ValueError(
                f"`X` lacks {n} column{'s' * (n > 1)} that the model was fitted on: "
                f"{_listed(missing)}; add {'them' if n > 1 else 'it'}, with missing values if need "
                "be."
            )
        shared = [name for name in names if name in set(self.names_)]
        if shared != [name for name in self.names_ if name in set(shared)]:
            warnings.warn(
                "the columns of `X` are in another order than those of the fit; they were matched "
                "by name",
                UserWarning,
                stacklevel=3,
            )

    def _array(self, X: Any, *, reset: bool) -> NDArray:
        rows: NDArray = validate_data(
            self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan"
        )
        return rows

    def _encoded(self, cells: Any, n: int) -> NDArray:
        out = np.empty((n, len(self.groups_)))
        start, told = 0, list[str]()
        for column, each in zip(self.columns_, cells, strict=True):
            found = column.encode(each, told)
            out[:, start : start + found.shape[1]] = found
            start += found.shape[1]
        if told:
            more = _more(told, " columns")
            warnings.warn(
                f"these rows hold what no training row did: {'; '.join(told[:SHOWN])}{more}",
                UserWarning,
                stacklevel=3,
            )
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


_CODED, _FILLED = ("category", "flag"), ("number", "grade", "date")


def _columns(found: Sequence[Any]) -> str:
    return f"{len(found)} column{'s' * (len(found) > 1)}"


def _more(found: Sequence[Any], what: str = "") -> str:
    return f"; and {len(found) - SHOWN} more{what}" if len(found) > SHOWN else ""


def _listed(names: list[str], most: int = SHOWN) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
