"""Explanations and importances of any fitted model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from ejop._sklearn import take_rows
from ejop.columns import is_table, open_table
from ejop.explanation._importances import Importances
from ejop.explanation._result import Explanation, number_of, shown_rows
from ejop.explanation._walks import ORDERS, orders_of

#: rows that are asked for at once
BATCH = 50_000
#: rows of X that contributions begin from, where none are given
BASELINES = 10


def explain(
    model: Any,
    X: Any,
    *,
    baseline: Any = None,
    output: Any = None,
    n_orders: int = ORDERS,
    progress: Callable[[Any, int], Any] = lambda parts, n: parts,
) -> Explanation:
    """What each column adds to the answer of any model, from a baseline's answer to a row's.

    A predictor of this library explains itself, quickly. Any other model is asked: the columns go
    from the values of the baseline to those of the row, one after another, in several orders. That
    takes ``n_orders * len(X) * (n_columns + 1)`` predictions for each row of the baseline. Base and
    contributions add up to the answer, whatever the model is.

    Parameters
    ----------
    model : fitted predictor, or callable
        Its ``predict_proba`` for a classifier, else its ``predict``; a callable is asked itself.
    X : array-like or table of shape (n_samples, n_features)
        Rows as the model takes them; a table may hold text.
    baseline : array-like or table, or None, default=None
        Rows that contributions begin from, and are averaged over: some training rows. None is the
        average row for a predictor of this library, and ten rows of X for any other model.
    output : class label, number of the output, "all" or None, default=None
        What is explained. None is the predicted class of each row; of several targets all.
    n_orders : int, default=2
        Orders of the columns, each second one the reverse of the one before.
    progress : callable, optional
        Wraps the batches of rows: ``progress(batches, n_batches)``.

    Returns
    -------
    explanation : Explanation

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ejop import explain
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> forest = RandomForestClassifier(random_state=0).fit(X, y)
    >>> found = explain(forest, X[:3], baseline=X[::15])
    >>> found.values.shape, bool(found.error.max() < 1e-9)
    ((3, 4), True)
    """
    if hasattr(model, "column_changes"):
        begin = "mean" if baseline is None else baseline
        return model.explain(X, baseline=begin, output=output, n_orders=n_orders)
    names, n = _names(X), _length(X)
    starts = _some(X, BASELINES) if baseline is None else baseline
    if _names(starts) != names:
        raise ValueError(
            f"`baseline` has the columns {_names(starts)[:6]} and `X` has {names[:6]}; pass rows "
            "of the same columns."
        )
    ask = _asker(model)
    orders = orders_of(len(names), max(1, n_orders), np.random.default_rng(0))
    size = max(1, BATCH // (len(names) + 1))
    jobs = [(b, s) for b in range(_length(starts)) for s in range(0, n, size)]
    values: Any = None
    for b, s in progress(jobs, len(jobs)):
        rows = np.arange(s, min(n, s + size))
        ends = take_rows(X, rows)
        along = take_rows(starts, np.full(len(rows), b))
        for order in orders:
            answers = _walked(ask, along, ends, order)
            if values is None:
                values = np.zeros((n, answers.shape[2], len(names)))
                base = np.zeros((n, answers.shape[2]))
            share = 1 / (len(orders) * _length(starts))
            values[rows[:, None], :, order] += np.diff(answers, axis=0).transpose(1, 0, 2) * share
            base[rows] += answers[0] * share
    found = Explanation(values, base, ask(X), names)
    return _chosen(model, _with_rows(found, X), output)


def importances(model: Any, n_groups: int | None = None, n_permutations: int = 0) -> Importances:
    """Importances of the columns of a fitted predictor, with error bars; the same as
    ``model.importances()``.

    Parameters
    ----------
    model : fitted EJOPClassifier or EGOPRegressor, or a pipeline that ends in one
    n_groups : int, optional
        Groups of rows that are left out in turn; ten by default.
    n_permutations : int, default=0
        Fits a column that tell its p-value, see :func:`ejop.theory.column_test`; 99 make values
        from 0.01 on.

    Returns
    -------
    importances : Importances
    """
    last = model[-1] if hasattr(model, "steps") else model
    if not hasattr(last, "importances"):
        raise TypeError(
            f"{type(last).__name__} cannot be fitted again in closed form; pass a fitted "
            "EJOPClassifier or EGOPRegressor, or use sklearn.inspection.permutation_importance."
        )
    return last.importances(n_groups, n_permutations=n_permutations)


def _walked(ask: Callable[[Any], NDArray], starts: Any, ends: Any, order: NDArray) -> NDArray:
    """Answers along a walk, (n_columns + 1, m, n_outputs), from one question."""
    steps, m = [starts], _length(ends)
    for j in order:
        steps.append(_with_column(steps[-1], ends, int(j)))
    answers = ask(_stacked(steps))
    return answers.reshape(len(steps), m, -1)


def _asker(model: Any) -> Callable[[Any], NDArray]:
    """What gives a model's answers, (m, n_outputs)."""
    if not hasattr(model, "predict") and not callable(model):
        raise TypeError(f"{model!r} neither predicts nor can be called.")
    ask = model
    if hasattr(model, "predict"):
        ask = model.predict_proba if is_classifier(model) else model.predict

    def asked(X: Any) -> NDArray:
        found = np.asarray(ask(X), dtype=np.float64)
        return found[:, None] if found.ndim == 1 else found

    return asked


def _chosen(model: Any, whole: Explanation, output: Any) -> Explanation:
    """The outputs that are asked for."""
    classes = getattr(model, "classes_", None)
    names: Sequence[Any] = range(whole.values.shape[1]) if classes is None else list(classes)
    if isinstance(output, str) and output == "all":
        return _named(whole, names)
    if output is not None:
        return _named(whole, names).of_output(number_of(output, names))
    if classes is None:
        return whole.of_output(0) if whole.values.shape[1] == 1 else _named(whole, names)
    best, rows = whole.answer.argmax(1), np.arange(len(whole))
    return Explanation(
        whole.values[rows, best],
        whole.base[rows, best],
        whole.answer[rows, best],
        whole.names,
        [names[k] for k in best],
        whole.rows,
    )


def _named(whole: Explanation, names: Sequence[Any]) -> Explanation:
    return Explanation(whole.values, whole.base, whole.answer, whole.names, list(names), whole.rows)


def _with_rows(found: Explanation, X: Any) -> Explanation:
    rows = shown_rows(X, found, levels=False)
    return Explanation(found.values, found.base, found.answer, found.names, (), rows)


# rows of any kind ---------------------------------------------------------------------------------


def _names(X: Any) -> list[str]:
    return open_table(X)[0] if is_table(X) else [f"x{j}" for j in range(np.shape(X)[1])]


def _length(X: Any) -> int:
    return int(X.num_rows if hasattr(X, "num_rows") else len(X))


def _some(X: Any, most: int) -> Any:
    n = _length(X)
    return take_rows(X, np.sort(np.random.default_rng(0).permutation(n)[:most]))


def _with_column(rows: Any, others: Any, j: int) -> Any:
    """Rows with one column of others."""
    if is_table(rows):
        import narwhals.stable.v2 as nw

        there, here = (nw.from_native(part, eager_only=True) for part in (others, rows))
        name = here.columns[j]
        values = there.get_column(name).to_native()
        if hasattr(values, "index"):  # pandas would match rows by their labels
            found = rows.copy()
            found[name] = values.set_axis(found.index)
            return found
        return here.with_columns(nw.from_native(values, series_only=True).alias(name)).to_native()
    found = np.array(rows)
    found[:, j] = np.asarray(others)[:, j]
    return found


def _stacked(parts: list[Any]) -> Any:
    if is_table(parts[0]):
        import narwhals.stable.v2 as nw

        whole = nw.concat([nw.from_native(part, eager_only=True) for part in parts])
        native = whole.to_native()
        return native.reset_index(drop=True) if hasattr(native, "reset_index") else native
    return np.concatenate([np.asarray(part) for part in parts])
