"""``ejop.report(frame, target)``: from a table to a report in one line."""

from __future__ import annotations

import os
import warnings
from collections.abc import Hashable
from dataclasses import dataclass, field
from difflib import get_close_matches
from html import escape
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import train_test_split

from ejop._sklearn import take_rows
from ejop.columns import are_classes, is_table, open_table
from ejop.estimators import EGOPRegressor, EJOPClassifier
from ejop.plots.values import is_missing
from ejop.progress import tell_step
from ejop.reports._evidence import Given
from ejop.reports._report import load_template, page_of, save_page
from ejop.reports._words import counted

#: values that a message lists, and rows without which there is nothing to judge
LISTED, FEWEST = 8, 10
#: pixels of the frame in a notebook
HEIGHT = 760


@dataclass(frozen=True)
class Report:
    """A page that shows itself in a notebook, and the model it is about.

    Attributes
    ----------
    html : str
        The page.
    model : EJOPClassifier or EGOPRegressor
        Fitted to the rows that were not held out.
    held_out : ndarray of shape (n_held_out,)
        What the rows are called that judge it.
    """

    html: str = field(repr=False)
    model: Any
    held_out: NDArray = field(repr=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file, whole or not at all; a file of this name is replaced."""
        return save_page(path, self.html)

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="report" loading="lazy" '
            f'style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'
        )


def report(
    X: Any,
    y: Hashable | ArrayLike,
    *,
    model: Any = None,
    test_size: float = 0.2,
    title: str | None = None,
    random_state: int = 0,
    verbose: int = 0,
) -> Report:
    """How well can a column be told from the others, and by what? One page says it.

    A fifth of the rows is held out. An :class:`EJOPClassifier` or :class:`EGOPRegressor` learns
    from the others, and is judged by those held out, beside a forest, near rows and always the
    same answer. Rows without a target are left out.

    Parameters
    ----------
    X : table or array-like of shape (n_samples, n_features)
        A table of pandas, polars or Arrow may hold text, gaps and dates.
    y : name of a column of X, or array-like of shape (n_samples,)
        What to predict: classes, or numbers. Whole numbers of at most 30 values are classes.
    model : unfitted EJOPClassifier, EGOPRegressor or pipeline that ends in one, optional
        With settings of its own; it also decides between classes and numbers.
    test_size : float in (0, 1), default=0.2
        Share of the rows that is held out.
    title : str, optional
    random_state : int, default=0
        Draws the rows.
    verbose : int, default=0
        1 tells on the terminal what is being done.

    Returns
    -------
    report : Report
        Shows itself in a notebook; ``save(path)``, ``html``, ``model``.

    Examples
    --------
    >>> import ejop
    >>> from sklearn.datasets import load_iris
    >>> frame = load_iris(as_frame=True).frame
    >>> found = ejop.report(frame, "target")
    >>> found.model.classes_, len(found.held_out)
    (array([0, 1, 2]), 30)
    >>> "The model is right on" in found.html
    True
    """
    if not 0 < test_size < 1:
        raise ValueError(f"`test_size`={test_size!r} must lie between 0 and 1.")
    load_template()  # what is missing is told before the work
    X, target, name = _taken_apart(X, y)
    given, notes = _with_target(Given.of(X, target))
    classify = are_classes(given.y) if model is None else is_classifier(model)
    given = Given(given.X, _typed(given.y, classify), given.names)
    train, test = _split(given, test_size, classify, random_state)
    if model is None:
        kind = EJOPClassifier if classify else EGOPRegressor
        model = kind(random_state=random_state, verbose=verbose)
    else:
        model = clone(model)
    tell_step("report", f"learning from {counted(len(train.y), 'row')}", verbose)
    with warnings.catch_warnings():  # told in the page
        warnings.filterwarnings("ignore", "left out|these rows hold", UserWarning)
        model.fit(train.X, train.y)
        title = title or ("Report" if name is None else f"Predicting {name}")
        html = page_of(model, test, train, title=title, notes=notes, verbose=verbose)
    return Report(html, model, test.names)


def _taken_apart(X: Any, y: Any) -> tuple[Any, NDArray, str | None]:
    """Columns, target and its name."""
    if not is_table(X) or np.ndim(y) > 0:
        target = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
        if target.ndim != 1:
            raise ValueError(
                f"`y` has shape {target.shape}; one target a row is expected"
                f"{'' if target.ndim else ': X has no column names, so pass the values'}."
            )
        return X, target, getattr(y, "name", None)
    import narwhals.stable.v2 as nw

    names, series = open_table(X)
    if str(y) not in names:
        near = get_close_matches(str(y), names, n=1, cutoff=0.5)
        listed = ", ".join(map(repr, names[:LISTED])) + (", ..." if len(names) > LISTED else "")
        hint = f"did you mean {near[0]!r}?" if near else f"the columns are {listed}."
        raise ValueError(f"`y`={y!r} is none of the {len(names)} columns; {hint}")
    frame = nw.from_native(X, eager_only=True)
    column = series(names.index(str(y)))
    target = np.array(column.to_list(), dtype=object)
    return frame.drop(frame.columns[names.index(str(y))]).to_native(), target, str(y)


def _with_target(given: Given) -> tuple[Given, list[str]]:
    """The rows that have a target, and what is said of the others."""
    rows = np.flatnonzero([not is_missing(value) for value in given.y.tolist()])
    if len(rows) == len(given.y):
        return given, []
    if len(rows) < FEWEST:
        raise ValueError(
            f"`y` has {counted(len(rows), 'value')} and {len(given.y) - len(rows):,} missing; at "
            f"least {FEWEST} rows are needed, and many more to learn anything."
        )
    told = f"left out {counted(len(given.y) - len(rows), 'row')} without a target"
    return Given(take_rows(given.X, rows), given.y[rows], given.names[rows]), [told]


def _typed(y: NDArray, classify: bool) -> NDArray:
    """Classes as whole numbers or flags where all are, else as text; real targets as numbers."""
    found = y.tolist()
    if not classify:
        return np.array(found, dtype=np.float64)
    if all(isinstance(v, bool) for v in found):
        return np.array(found)
    numbers = all(isinstance(v, Real) and not isinstance(v, bool) for v in found)
    if numbers and all(float(v).is_integer() for v in found):
        return np.array([int(v) for v in found])
    return np.array([str(v) for v in found])


def _split(
    given: Given, test_size: float, classify: bool, random_state: int
) -> tuple[Given, Given]:
    """Rows to learn from and rows held out, classes in their shares where that can be."""
    n, stratify = len(given.y), None
    if n < FEWEST:
        raise ValueError(f"`X` has {counted(n, 'row')}; at least {FEWEST} are needed.")
    if classify:
        counts = np.unique(given.y, return_counts=True)[1]
        if len(counts) > 1 and counts.max() == 1:
            raise ValueError(
                "every row has its own class, so there is nothing to learn; name another column "
                "as `y`, or pass model=EGOPRegressor() for numbers."
            )
        fits = counts.min() >= 2 and min(test_size, 1 - test_size) * n >= len(counts)
        stratify = given.y if fits else None
    rows = train_test_split(
        np.arange(n), test_size=test_size, random_state=random_state, stratify=stratify
    )
    train, test = (
        Given(take_rows(given.X, part), given.y[part], given.names[part])
        for part in map(np.sort, rows)
    )
    return train, test
