"""Which columns matter: shares of all change of the answer, with errors and by output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.explanation import FEWEST, Importances
from ejop.plots.fitted import Fitted


@dataclass(frozen=True)
class Shares:
    """Importances to draw.

    Attributes
    ----------
    names : list of str
        Of the columns, or of their features.
    values : ndarray of shape (n,)
        They sum to one.
    stderr : ndarray of shape (n,) or None
    by_output : ndarray of shape (n_outputs, n) or None
        How the values divide among several outputs.
    outputs : list of str
    refits : Importances or None
        What the errors come from, where f was fitted again without groups of rows.
    """

    names: list[str]
    values: NDArray
    stderr: NDArray | None = None
    by_output: NDArray | None = None
    outputs: list[str] | None = None
    refits: Importances | None = None


def shares_of(source: Fitted, *, levels: bool = False) -> Shares:
    """Importances of a fitted model by the columns of its table.

    Of kernel machines they are changes of the answer between values that occur; of a metric the
    diagonal of its matrix times the variance of each column.

    Parameters
    ----------
    source : Fitted
    levels : bool, default=False
        Those of the levels of categories, where columns were prepared.
    """
    model = source.model
    if getattr(getattr(model, "rule_", None), "chooses", False):
        return _of_changes(source, levels)
    values, stderr, outputs = _diagonal(source), _stderr(source), _by_output(source)
    names = source.names
    if source.groups is not None and not levels:
        names, table = source.columns, np.eye(len(source.columns))[source.groups]
        values, outputs = values @ table, None if outputs is None else outputs @ table
        stderr = None if stderr is None else np.sqrt(stderr**2 @ table)
    several = outputs is not None and len(outputs) > 1
    return Shares(
        names,
        values,
        stderr,
        outputs if several else None,
        source.output_names() if several else None,
    )


def _of_changes(source: Fitted, levels: bool) -> Shares:
    changes = source.model.column_changes()
    if levels:
        return Shares(source.names, changes.by_feature())
    by_output = changes.by_output() if changes.total > 0 and changes.squares.shape[1] > 1 else None
    names = None if by_output is None else source.output_names()
    values = changes.importances()
    refits = _refits(source.model, len(values))
    stderr = None if refits is None else refits.stderr
    return Shares(source.columns, values, stderr, by_output, names, refits)


def _refits(model: Any, width: int) -> Importances | None:
    """Importances that know that f was estimated; None of directions, and of very few rows."""
    if len(model.rule_.function_.X_) < FEWEST or width != model.n_features_in_:
        return None
    return model.importances()


def _diagonal(source: Fitted) -> NDArray:
    """The model's own shares of its features; of a learner without any the matrix's diagonal."""
    found = getattr(source.model, "metric_importances_", None)
    if found is None:
        found = getattr(source.model, "feature_importances_", None)
    if found is not None:
        return np.asarray(found, dtype=np.float64)
    diagonal = np.diag(source.matrix)
    total = diagonal.sum()
    return diagonal / total if total > 0 else np.full(len(diagonal), 1 / len(diagonal))


def _units(source: Fitted) -> NDArray | None:
    """What a unit of each entry of the diagonal counts in the importances, (n_features,).

    None for learners, for a matrix of zeros, and after several rounds, whose matrices are not kept
    by output.
    """
    if source.core is None or source.rounds is not None or np.trace(source.matrix) <= 0:
        return None
    diagonal = np.diag(source.matrix)
    shares = _diagonal(source)
    return np.divide(shares, diagonal, out=np.zeros(len(diagonal)), where=diagonal > 0)


def _stderr(source: Fitted) -> NDArray | None:
    """Standard error of the shares where the entries' are known.

    To first order, with the entries of the diagonal taken as independent.
    """
    error, units = getattr(source.core, "outer_product_stderr_", None), _units(source)
    if error is None or units is None or not np.isfinite(error).all():
        return None
    share, squares = _diagonal(source), (np.diag(error) * units) ** 2
    return np.sqrt((1 - share) ** 2 * squares + share**2 * (squares.sum() - squares))


def _by_output(source: Fitted) -> NDArray | None:
    """How the shares divide among the outputs, (n_outputs, n_features); None where unknown."""
    units = _units(source)
    return None if units is None else source.core.output_importances_ * units
