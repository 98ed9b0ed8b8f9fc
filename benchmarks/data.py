"""Rows to measure on: real where EJOP_DATA names the folder, else random of the same shape."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, make_blobs
from sklearn.preprocessing import StandardScaler

Rows = tuple[NDArray, NDArray]


def usps(n: int = 9298) -> tuple[Rows, str]:
    """USPS, 256 grey values in [-1, 1], and a remark on where the rows come from."""
    found = _real("usps.npz")
    if found is not None:
        return (found[0][:n].astype(np.float32), found[1][:n]), ""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, 256)).astype(np.float32)
    return (X, rng.integers(10, size=n)), _random("USPS")


def mnist(n: int = 60_000) -> tuple[Rows, str]:
    """The training part of MNIST, 784 pixels over 255, and a remark on the rows' source.

    The random stand-in lies near a surface of few dimensions, as digits do: it is a local plan
    that is measured, and independent pixels would have no near rows.
    """
    found = _real("mnist.npz")
    if found is not None:
        return (found[0][:n].astype(np.float32) / np.float32(255), found[1][:n]), ""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=n)
    centers = rng.normal(size=(10, 16))
    Z = (centers[y] + rng.normal(size=(n, 16))).astype(np.float32)
    W = rng.normal(size=(16, 784)).astype(np.float32)
    return (np.clip(0.5 + 0.07 * (Z @ W), 0, 1), y), _random("MNIST")


def blobs(n: int, d: int, n_classes: int = 10) -> Rows:
    """Overlapping Gaussian classes, float64."""
    centers = np.random.default_rng(0).normal(scale=0.7, size=(n_classes, d))
    return make_blobs(n, centers=centers, random_state=0)


def digits(n: int) -> Rows:
    """The first rows of scikit-learn's digits, each column z-scored."""
    X, y = load_digits(return_X_y=True)
    return StandardScaler().fit_transform(X[:n]), y[:n]


def letters(seed: int, *, scaled: bool) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """4,000 training and 2,000 test rows of Letters, split at random; blobs where not at hand."""
    found = _real("letter.npz")
    X, y = found if found is not None else blobs(6000, 16, 26)
    order = np.random.RandomState(seed).permutation(len(X))
    train, test = order[:4000], order[4000:6000]
    A, B = X[train].astype(np.float64), X[test].astype(np.float64)
    if scaled:
        scaler = StandardScaler().fit(A)
        A, B = scaler.transform(A), scaler.transform(B)
    return A, y[train], B, y[test]


def shape(X: NDArray, y: NDArray) -> str:
    """Size as the table shows it."""
    return f"{len(X)} x {X.shape[1]}, {len(np.unique(y))} classes, {X.dtype}"


def _real(name: str) -> Rows | None:
    folder = os.environ.get("EJOP_DATA")
    if not folder or not (path := Path(folder) / "paper" / name).exists():
        return None
    with np.load(path) as archive:
        return archive["X"], archive["y"]


def _random(name: str) -> str:
    return f"random data of the shape of {name}: EJOP_DATA names no folder that holds it"
