"""How values of a machine become probabilities, and what losses judge them.

Targets are of three kinds: "classes", one a row (one-hot); "labels", 0/1 columns of which each is
a problem of two classes of its own; and "real" numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ejop.neighbors import HALF

#: how values become probabilities: exponents, and values below which they level off
SHARPNESS = (0.5, 0.7, 0.85, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)
FLOORS = (0.001, 0.003, 0.01, 0.03, 0.06, 0.1, 0.2)
#: share of a class that a ranking by log loss assumes at the least
LEAST = 0.01
#: loss where there is nothing to tell apart
CHANCE = 0.5

Weights = NDArray | None
Loss = Callable[[NDArray, NDArray, Weights], float]


# probabilities ------------------------------------------------------------------------------------


def _levelled(values: NDArray, floor: NDArray | float) -> NDArray:
    """Logarithms of values, which level off below a floor."""
    return np.log((values + np.sqrt(values**2 + 4 * np.square(floor))) / 2)


def class_shares(values: NDArray, sharpness: float, floor: float) -> NDArray:
    """p_c proportional to (v_c + sqrt(v_c^2 + 4 floor^2))^sharpness, (m, n_classes).

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.rules._calibration import class_shares
    >>> class_shares(np.array([[0.75, 0.25]]), 2.0, 0.001).round(2)
    array([[0.9, 0.1]])
    """
    return _sharpened(_levelled(values, floor), sharpness)


def _sharpened(logs: NDArray, sharpness: float) -> NDArray:
    shares = np.exp(sharpness * (logs - logs.max(1, keepdims=True)))
    return shares / shares.sum(1, keepdims=True)


def label_shares(values: NDArray, sharpness: NDArray, floor: NDArray) -> NDArray:
    """Probability of each label (m, n_labels): that of v among the classes v and 1 - v.

    ``sharpness`` and ``floor`` (n_labels,) are those of each label.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.rules._calibration import label_shares
    >>> label_shares(np.array([[0.75, 0.5]]), np.full(2, 2.0), np.full(2, 0.001)).round(2)
    array([[0.9, 0.5]])
    """
    odds = sharpness * (_levelled(values, floor) - _levelled(1 - values, floor))
    return np.exp(-np.logaddexp(0, -odds))


def calibrate_classes(values: NDArray, Y: NDArray, w: Weights) -> tuple[float, float]:
    """Sharpness and floor of the smallest log loss."""
    truth = Y.astype(bool)
    found = []
    for floor in FLOORS:
        logs = _levelled(values, floor)
        for sharpness in SHARPNESS:
            p = _sharpened(logs, sharpness)[truth]
            loss = -np.average(np.log(np.maximum(p, 1e-300)), weights=w)
            found.append((float(loss), sharpness, floor))
    return min(found)[1:]


def calibrate_labels(values: NDArray, Y: NDArray, w: Weights) -> tuple[NDArray, NDArray]:
    """Sharpness and floor (n_labels,) of the smallest log loss of each label."""
    signs = 2 * Y - 1
    found = []
    for floor in FLOORS:
        odds = signs * (_levelled(values, floor) - _levelled(1 - values, floor))
        for sharpness in SHARPNESS:
            found.append(np.average(np.logaddexp(0, -sharpness * odds), axis=0, weights=w))
    best = np.argmin(found, axis=0)
    return np.tile(SHARPNESS, len(FLOORS))[best], np.repeat(FLOORS, len(SHARPNESS))[best]


#: by the kind of the targets: how to calibrate, and the probabilities that follow
CALIBRATIONS: dict[str, tuple[Callable, Callable]] = {
    "classes": (calibrate_classes, class_shares),
    "labels": (calibrate_labels, label_shares),
}


# losses of values (n, c) for targets (n, c) and weights (n,), lower is better ---------------------


def _pair(values: NDArray) -> NDArray:
    """A label as two classes, 0 and 1, (n, 2): equal shares are a 0."""
    return np.stack([1 - values, values], axis=1)


def _of_each_label(loss: Loss) -> Loss:
    """Mean over labels that have both values of the loss of two classes."""

    def mean(values: NDArray, Y: NDArray, w: Weights) -> float:
        both = np.flatnonzero(np.ptp(Y, axis=0))
        found = [loss(_pair(values[:, c]), _pair(Y[:, c]), w) for c in both]
        return float(np.mean(found)) if found else CHANCE

    return mean


def _wrong(values: NDArray, Y: NDArray, w: Weights) -> float:
    return float(np.average(values.argmax(1) != Y.argmax(1), weights=w))


def _any_wrong(values: NDArray, Y: NDArray, w: Weights) -> float:
    """Share of rows with a wrong label."""
    return float(np.average(((values > HALF) != (Y > HALF)).any(1), weights=w))


def _balanced(values: NDArray, Y: NDArray, w: Weights) -> float:
    weighted = Y if w is None else Y * w[:, None]
    right, counts = (values.argmax(1) == Y.argmax(1)) @ weighted, weighted.sum(0)
    return 1 - float((right[counts > 0] / counts[counts > 0]).mean())


def _log_loss(values: NDArray, Y: NDArray, w: Weights) -> float:
    p = np.clip(values, LEAST, None)
    return -float(np.average(np.log((p * Y).sum(1) / p.sum(1)), weights=w))


def _auc(values: NDArray, Y: NDArray, w: Weights) -> float:
    """One less the mean area under the curve of each class against the others, of each label."""
    w = np.ones(len(Y)) if w is None else w
    areas = []
    for c in np.flatnonzero(np.ptp(Y, axis=0)):
        levels, level = np.unique(values[:, c], return_inverse=True)
        ones, zeros = (np.bincount(level, side * w, len(levels)) for side in (Y[:, c], 1 - Y[:, c]))
        below = zeros.cumsum() - zeros / 2  # equal values count half
        areas.append(ones @ below / (ones.sum() * zeros.sum()))
    return 1 - float(np.mean(areas)) if areas else CHANCE


def _unexplained(values: NDArray, Y: NDArray, w: Weights) -> float:
    """One less the mean R^2 of the outputs that vary."""
    spread = np.average((Y - np.average(Y, axis=0, weights=w)) ** 2, axis=0, weights=w)
    error = np.average((values - Y) ** 2, axis=0, weights=w)
    varies = spread > 0
    return float((error[varies] / spread[varies]).mean()) if varies.any() else float(error.mean())


def _absolute(values: NDArray, Y: NDArray, w: Weights) -> float:
    return float(np.average(np.abs(values - Y).mean(1), weights=w))


#: what may rank candidates: losses by the kind of the targets
LOSSES: dict[str, dict[str, Loss]] = {
    "accuracy": {"classes": _wrong, "labels": _any_wrong},
    "balanced_accuracy": {"classes": _balanced, "labels": _of_each_label(_balanced)},
    "log_loss": {"classes": _log_loss, "labels": _of_each_label(_log_loss)},
    "roc_auc": {"classes": _auc, "labels": _auc},
    "r2": {"real": _unexplained},
    "mean_absolute_error": {"real": _absolute},
}


def loss_of(scoring: str, kind: str) -> Loss:
    """The loss of a name of ``LOSSES`` for a kind of targets."""
    meanings = LOSSES[scoring]
    if kind not in meanings:
        names = [repr(name) for name, known in LOSSES.items() if kind in known]
        theirs = (
            "real targets, not for classes"
            if "real" in meanings
            else ("classes and the targets are real")
        )
        raise ValueError(f"`scoring`={scoring!r} is for {theirs}; use one of {', '.join(names)}.")
    return meanings[kind]
