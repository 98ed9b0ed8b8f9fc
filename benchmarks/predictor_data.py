"""Data sets, splits and judgements of the comparison of predictors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss, r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder

#: set -> file in the folder of the data
NINE = {
    "vowel": "extra/vowel",
    "mfeat_factors": "extra/mfeat_factors",
    "pendigits": "extra/pendigits",
    "letter": "paper/letter",
    "phoneme": "extra/phoneme",
    "usps": "paper/usps",
    "airfoil": "extra/airfoil",
    "parkinsons": "extra/parkinsons",
    "ailerons": "extra/ailerons",
}
SUITE = {
    "abalone": "suite/abalone",
    "ann_thyroid": "suite/ann_thyroid",
    "bank32nh": "suite/bank32nh",
    "churn": "suite/churn",
    "connect_4": "suite/connect_4",
    "elevators": "suite/elevators",
    "house_16h": "suite/house_16h",
    "kin8nm": "suite/kin8nm",
    "kr_vs_kp": "suite/kr_vs_kp",
    "krkopt": "suite/krkopt",
    "mfeat_fourier": "suite/mfeat_fourier",
    "mushroom": "suite/mushroom",
    "mv": "suite/mv",
    "nursery": "suite/nursery",
    "page_blocks": "suite/page_blocks",
    "phishing": "suite/phishing",
    "phoneme_elena": "suite/phoneme_elena",
    "planes_2d": "suite/planes_2d",
    "pol": "suite/pol",
    "puma8nh": "suite/puma8nh",
    "ringnorm": "suite/ringnorm",
    "yeast": "suite/yeast",
}
SETS = {**NINE, **SUITE}
REAL = {"airfoil", "parkinsons", "ailerons"}  # real targets; archives of the suite say so

#: splits are drawn with this seed and the next; 0 to 9 served to choose defaults
FIRST_SEED = 1000
MAX_TEST = 1500
#: probabilities below are taken for this, since a forest tells of impossible classes
SMALLEST = 1e-6
BINS = 15


@dataclass(frozen=True)
class Split:
    """Training and test rows of one set: arrays, or tables of pandas."""

    A: Any
    ya: NDArray
    B: Any
    yb: NDArray
    real: bool


def load(folder: Path, name: str) -> tuple[NDArray, NDArray, bool]:
    """Rows with levels of categories as 0/1 columns, targets, and whether these are real.

    Levels with fewer than ten rows share one column.
    """
    with np.load(folder / f"{SETS[name]}.npz") as archive:
        X, y = archive["X"], archive["y"]
        categorical = archive.get("categorical")
        real = str(archive["task"]) == "regression" if "task" in archive else name in REAL
    X = X.reshape(len(X), -1).astype(np.float64)
    if categorical is not None and categorical.any():
        encoder = OneHotEncoder(
            sparse_output=False, min_frequency=10, handle_unknown="infrequent_if_exist"
        )
        levels = encoder.fit_transform(X[:, categorical])
        X = np.hstack([X[:, ~categorical], levels])
    if real:
        return X, y.astype(np.float64), True
    return X, np.unique(y, return_inverse=True)[1], False


def split(folder: Path, name: str, number: int, rows: int) -> Split:
    """One of the reported splits: so many training rows, or 70 % where there are fewer."""
    return split_of(*load(folder, name), number, rows)


def split_of(X: Any, y: NDArray, real: bool, number: int, rows: int) -> Split:
    """The same of given rows."""
    n = min(len(X) * 7 // 10, rows)
    A, B, ya, yb = train_test_split(
        X,
        y,
        train_size=n,
        test_size=min(len(X) - n, MAX_TEST),
        random_state=FIRST_SEED + number,
        stratify=None if real else y,
    )
    return Split(A, ya, B, yb, real)


# judgements ---------------------------------------------------------------------------------


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
