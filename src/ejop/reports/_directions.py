r"""The leading directions in words: "Sex (female) - 0.6 Pclass", in columns of the table.

Those of kernel machines are made of slopes between values that occur, not of derivatives:

.. math:: g_j(x) = \frac{\sum_z (z_j - x_j) (f(x \text{ with } z_j) - f(x))}
    {\sum_z (z_j - x_j)^2} \min(s_j, \tfrac32 s_j(x))

over some rows z, with :math:`s_j(x)` their root mean square distance from x in column j and
:math:`s_j` that of all x, and the outer product :math:`E[g g^T]`. Of a linear f it has one
direction. A derivative is steep where a column with a long tail is dense: it would say that a fare
matters most where it adds next to nothing to any answer; here no slope counts over much more than
the distances that it was found at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.columns import CategoryColumn, FlagColumn
from ejop.metric import eigh_descending
from ejop.reports._evidence import Evidence
from ejop.reports._words import quoted, short

#: directions that are told, those of a smaller share left out, and columns of each
TOLD, LEAST, TERMS = 5, 0.02, 4
#: columns of a smaller share of the largest are left out
FAINT = 0.2
#: a slope counts over so many of the distances that it was found at, at the most
REACH = 1.5
#: a correlation that is worth telling
TURNS = 0.1


#: rows whose changes are averaged, and rows that each is compared with
ROWS, OTHERS = 96, 6


@dataclass(frozen=True)
class Axes:
    """Directions of scaled rows, the leading one first.

    Attributes
    ----------
    values : ndarray of shape (n_features,)
        Mean squared change of the answer along each.
    vectors : ndarray of shape (n_features, n_features)
        As columns; a row x lies at x @ vectors.
    """

    values: NDArray
    vectors: NDArray

    def shares(self) -> NDArray:
        """Of all change."""
        return self.values / (self.values.sum() or 1.0)


def axes_of(e: Evidence) -> Axes:
    """The directions of changes of kernel machines, of all else those of the metric."""
    if not e.explains:
        return Axes(e.source.eigenvalues, e.source.directions)
    function = e.rule.function_
    rng, n = np.random.default_rng(0), len(function.X_)
    rows = np.repeat(function.X_[rng.choice(n, min(ROWS, n), replace=False)], OTHERS, axis=0)
    others = function.X_[rng.choice(n, len(rows))]
    changes, spread = _changes(function, rows, others, _groups(e)), function.X_.std(0)
    changes = changes.reshape(-1, changes.shape[-1])
    values, vectors = eigh_descending(changes.T @ changes / len(changes))
    away = np.divide(1.0, spread, out=np.zeros(len(spread)), where=spread > 0)
    return Axes(np.maximum(values, 0), vectors * away[:, None])


def _changes(function: Any, rows: NDArray, others: NDArray, groups: NDArray) -> NDArray:
    """Change of each output along each feature over its usual distance,
    (n_rows / OTHERS, n_outputs, n_features)."""
    values, apart = function.model_values(rows), others - rows
    found = np.zeros((len(rows) // OTHERS, values.shape[1], rows.shape[1]))
    parts = [np.flatnonzero(groups == g) for g in np.unique(groups)]
    for part, changed in zip(parts, function.changed(rows, others, parts), strict=True):
        d = apart[:, part].reshape(len(found), OTHERS, -1)
        change = (changed - values).reshape(len(found), OTHERS, -1)
        products = np.einsum("rof,roc->rcf", d, change) / OTHERS
        squares = (d**2).mean(1)
        far = np.minimum(np.sqrt(squares.mean(0)), REACH * np.sqrt(squares))
        over = np.divide(far, squares, out=np.zeros_like(far), where=squares > 0)
        found[:, :, part] = products * over[:, None]
    return found


def _groups(e: Evidence) -> NDArray:
    """Column of each feature."""
    n = e.Z.shape[1]
    return np.arange(n) if e.source.groups is None else e.source.groups


@dataclass(frozen=True)
class Direction:
    """A direction that the answer depends on.

    Attributes
    ----------
    words : str
        Sum of columns, each in standard deviations.
    share : float
        Of all change of the answer.
    towards : str
        What rows far along it are.
    """

    words: str
    share: float
    towards: str


def directions(e: Evidence, axes: Axes) -> list[Direction]:
    """The leading directions; none where nothing changes the answer."""
    Z, shares = e.Z, axes.shares()
    if e.learned is not None and len(e.learned.Z) > len(Z):
        Z = e.learned.Z  # spreads of more rows
    found = []
    for k in range(min(TOLD, int((shares >= LEAST).sum()))):
        v = axes.vectors[:, k]
        words = _words(e, v, Z)
        if words:
            found.append(Direction(words, float(shares[k]), _towards(e, e.Z @ v)))
    return found


def turned(e: Evidence, axes: Axes) -> Axes:
    """The same directions with signs by which the answer rises along each."""
    if len(e.classes) > 2:
        return axes
    slopes = [_slope(e, along) for along in (e.Z @ axes.vectors).T]
    return Axes(axes.values, axes.vectors * np.where(np.array(slopes) < 0, -1.0, 1.0))


def _slope(e: Evidence, along: NDArray) -> float:
    """Correlation with the answer, or with the probability of the second of two classes."""
    y = e.answers.astype(np.float64) if e.regression else _second(e)
    if len(y) < 3 or not np.ptp(along) or not np.ptp(y):
        return 0.0
    return float(np.corrcoef(along, y)[0, 1])


def _towards(e: Evidence, along: NDArray) -> str:
    """What rows far along a direction are."""
    if e.regression or len(e.classes) == 2:
        goal = "higher answers" if e.regression else quoted(e.classes[1])
        return f"towards {goal}" if _slope(e, along) > TURNS else ""
    means = {c: along[e.answers == c].mean() for c in np.unique(e.answers)}
    if len(means) < 2:
        return ""
    low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    return f"from {quoted(low, 24)} to {quoted(high, 24)}"


def _second(e: Evidence) -> NDArray:
    """Probability of the second of two classes, or whether it was answered."""
    return (e.answers == e.classes[1]) * 1.0 if e.chances is None else e.chances[:, 1]


def _words(e: Evidence, v: NDArray, Z: NDArray) -> str:
    """The columns with the largest part in a direction."""
    groups = _groups(e)
    used = np.unique(groups)
    parts = [np.flatnonzero(groups == g) for g in used]
    sizes = np.array([np.std(Z[:, part] @ v[part]) for part in parts])
    if not sizes.max(initial=0) > 0:
        return ""
    order = np.argsort(-sizes, kind="stable")[:TERMS]
    columns = {} if e.preparer is None else {c.name: c for c in e.preparer.columns_}
    text = ""
    for j in order[sizes[order] >= FAINT * sizes.max()]:
        part, w = parts[j], v[parts[j]] * Z[:, parts[j]].std(0)
        column = columns.get(e.source.columns[used[j]])
        name, positive = _term(e.source.columns[used[j]], column, w, part, e.source.names)
        size = round(float(sizes[j] / sizes.max()), 1)
        much = "" if size == 1 else f"{size:.1f} "
        joint = (" + " if positive else " \u2212 ") if text else ("" if positive else "\u2212 ")
        text += f"{joint}{much}{name}"
    return text


def _term(
    column_name: str, column: Any, w: NDArray, part: NDArray, names: list[str]
) -> tuple[str, bool]:
    """What a column is called in a direction, and whether it is added."""
    short_name = short(column_name, 24)
    if isinstance(column, FlagColumn):
        level = column.levels[1] if w[0] > 0 else column.levels[0]
        return f"{short_name} ({short(level, 16)})", True
    if isinstance(column, CategoryColumn) and len(w) > 1:
        high, low = (names[part[i]][len(column_name) + 1 :] for i in (w.argmax(), w.argmin()))
        return f"{short_name} ({short(high, 16)} against {short(low, 16)})", True
    largest = int(np.abs(w).argmax())
    name = short(names[part[largest]], 24)
    return (name if largest else short_name), bool(w[largest] > 0)
