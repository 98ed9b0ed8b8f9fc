"""How good predictions of one split are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss, r2_score, roc_auc_score

#: probabilities below are taken for this, since a forest tells of impossible classes
SMALLEST = 1e-6
BINS = 15


def judged_values(predicted: NDArray, y: NDArray) -> dict[str, float]:
    """Unexplained variance in per cent, and R^2."""
    r2 = float(r2_score(y, predicted))
    return {"error": 100 * (1 - r2), "r2": r2}


def judged_classes(predicted: NDArray, shares: NDArray | None, y: NDArray) -> dict[str, Any]:
    """Error in per cent; log loss, area under the curve and calibration error of probabilities."""
    found = {"error": 100 * float(np.mean(predicted != y))}
    if shares is None:
        return found
    p = np.clip(np.asarray(shares, dtype=np.float64), SMALLEST, 1)
    p /= p.sum(1, keepdims=True)
    two = p.shape[1] == 2
    area = roc_auc_score(y, p[:, 1]) if two else roc_auc_score(y, p, multi_class="ovr")
    return {
        **found,
        "log_loss": float(log_loss(y, p, labels=np.arange(p.shape[1]))),
        "auc": float(area),
        "ece": 100 * calibration_error(p, y),
    }


def calibration_error(p: NDArray, y: NDArray) -> float:
    """Mean distance of confidence and accuracy in bins of equal width, weighted by rows."""
    confidence, right = p.max(1), p.argmax(1) == y
    numbers = np.minimum((confidence * BINS).astype(int), BINS - 1)
    sums = np.bincount(numbers, weights=confidence - right, minlength=BINS)
    return float(np.abs(sums).sum() / len(y))
