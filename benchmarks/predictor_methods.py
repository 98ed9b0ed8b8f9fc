"""What the comparison of predictors adds to the methods of ``ejop reproduce suite``.

Parts of ours left out, ours and xRFM on a card, and what only our predictor tells.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.experiments.suite.peers import PEERS, FittedMethod, Method, ours, xrfm

COVERAGE = 0.9


def coverage(fitted: FittedMethod, B: NDArray, y: NDArray, real: bool) -> dict[str, float]:
    """How often sets and intervals hold the truth, and how large they are."""
    if not getattr(fitted.model.rule_, "chooses", False):
        return {}
    if real:
        low, high = fitted.model.predict_interval(B, coverage=COVERAGE).T
        return {
            "coverage": 100 * float(np.mean((low <= y) & (y <= high))),
            "width": float(np.mean(high - low) / np.std(y)),
        }
    inside = fitted.model.predict_set(B, coverage=COVERAGE)
    return {
        "coverage": 100 * float(np.mean(inside[np.arange(len(y)), y])),
        "width": float(inside.sum(1).mean()),
    }


def model_size(fitted: FittedMethod, A: NDArray, y: NDArray, real: bool) -> dict[str, float]:
    """Bytes of the pickled model, and over those of its rows and targets (one-hot) as float64."""
    n_bytes = len(pickle.dumps(fitted.model, protocol=pickle.HIGHEST_PROTOCOL))
    outputs = 1 if real else int(y.max()) + 1
    return {"bytes": n_bytes, "bytes_share": n_bytes / (8 * len(A) * (A.shape[1] + outputs))}


def ours_with(**parameters: Any) -> Method:
    return lambda A, y, real: ours(A, y, real, **parameters)


ABLATIONS: dict[str, Method] = {
    "ours, no l1": ours_with(ridge={"kernels": ("gaussian", "laplace")}),
    "ours, no laplace": ours_with(ridge={"kernels": ("gaussian", "l1")}),
    "ours, no gaussian": ours_with(ridge={"kernels": ("laplace", "l1")}),
    "ours, no quantile": ours_with(scale="standard"),
    "ours, no round": ours_with(ridge={"n_rounds": 0}),
    "ours, one member": ours_with(ridge={"n_members": 1}),
    "ours, knn rule": ours_with(rule="knn"),
}
#: the same on a card
CARD: dict[str, Method] = {
    "ours, on a card": ours_with(device="cuda"),
    "xrfm, on a card": lambda A, y, real: xrfm(A, y, real, "cuda"),
}
METHODS: dict[str, Method] = {"ours": ours, **PEERS, **ABLATIONS, **CARD}
