"""One run of each kind, and the lists of runs behind each command.

A run is kept as :class:`ejop.experiments.Run` under (subject, method, seed). The subject is
"model:rows"; what was measured is in ``settings``.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.estimators import EJOP
from ejop.executors.threads import computing
from ejop.experiments.consistency.known_models import KnownModel, suite
from ejop.experiments.consistency.levels import SCENARIOS, rejections
from ejop.experiments.consistency.rivals import FUNCTIONS, QUERIES, SUBSPACES, fit_quietly
from ejop.experiments.runner import versions
from ejop.experiments.store import Key, Run
from ejop.metric import eigh_descending
from ejop.subspace import sin_theta
from ejop.theory import (
    Constants,
    boundary_mass,
    gradient_norm,
    main_bound,
    modulus,
    noise_constant,
    recovery_bounds,
)

#: rows of the consistency runs: three decades, or two if quick
SIZES, QUICK_SIZES = (30, 300, 3000, 30_000), (30, 300, 3000)
#: rows of the recovery runs
RECOVERY_SIZE, QUICK_RECOVERY_SIZE = 1000, 300
#: the paper to the letter, on a model where its assumptions hold
PAPER_SCHEDULE, PAPER_MODEL = "paper", "cube"
#: runs of 100 samples of each scenario of the test: where the null is true, and where it is not
LEVEL_RUNS, POWER_RUNS, QUICK_LEVEL_RUNS = 8, 3, 1


def plan(command: str, *, quick: bool = False, seeds: int | None = None) -> list[Key]:
    """Runs behind "consistency" and "eigen" (the same), "recovery" or "level".

    Examples
    --------
    >>> from ejop.experiments.consistency.runs import plan
    >>> len(plan("recovery", quick=True, seeds=1))
    143
    >>> plan("consistency", quick=True, seeds=1)[0]
    ('single-index:30', 'kernel', 0)
    """
    models = list(suite())
    if command == "recovery":
        n = QUICK_RECOVERY_SIZE if quick else RECOVERY_SIZE
        pairs = [(f"{model}:{n}", method) for model in models for method in SUBSPACES]
        return [(*pair, seed) for seed in range(seeds or (2 if quick else 3)) for pair in pairs]
    if command == "level":
        return [
            (name, "test", seed)
            for seed in range(seeds or (QUICK_LEVEL_RUNS if quick else LEVEL_RUNS))
            for name, (_, null, _) in SCENARIOS.items()
            if seeds or null or seed < POWER_RUNS
        ]
    sizes = QUICK_SIZES if quick else SIZES
    pairs = [(f"{model}:{n}", f) for n in sizes for model in models for f in FUNCTIONS]
    pairs += [(f"{PAPER_MODEL}:{n}", PAPER_SCHEDULE) for n in sizes]
    return [(*pair, seed) for seed in range(seeds or (2 if quick else 3)) for pair in pairs]


@computing
def compute_run(key: Key, n_neighbors: int | None = None, data_dir: str | None = None) -> Run:
    """One run; the last two are for other experiments."""
    subject, method, seed = key
    start = time.perf_counter()
    if method == "test":
        error, found = rejections(subject, seed)
    else:
        name, n = subject.rsplit(":", 1)
        model = suite()[name]
        error, found = (
            _recovery(model, int(n), method, seed)
            if method in SUBSPACES
            else _consistency(model, int(n), method, seed)
        )
    seconds = round(time.perf_counter() - start, 3)
    finished = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
    return Run(*key, round(error, 6), seconds, 0.0, None, found, [], versions(), finished)


def _recovery(model: KnownModel, n: int, method: str, seed: int) -> tuple[float, dict[str, Any]]:
    X, y = model.draw(n, seed)
    angle = sin_theta(SUBSPACES[method](X, y, model.rank), model.V)
    return 100 * angle, {"sin_theta": angle}


def _consistency(
    model: KnownModel, n: int, function: str, seed: int
) -> tuple[float, dict[str, Any]]:
    """Errors of the matrix, of eigenvalues and of the eigenspace; the first over |M|, in %."""
    X, y = model.draw(n, seed)
    bounds: dict[str, float] = {}
    if function == PAPER_SCHEDULE:
        h, t = paper_schedule(n)
        letter: dict[str, Any] = {"softmax": False, "leave_one_out": False, "min_mass": "theory"}
        ball = EJOP("ball", bandwidth=h, step=t, n_queries=QUERIES, random_state=0, **letter)
        estimator = fit_quietly(ball, X, y)
        bounds = paper_bounds(model, X, h, t)
    else:
        estimator = fit_quietly(FUNCTIONS[function](n, model.n_features), X, y)
    found = measure(estimator.outer_product_, model) | bounds
    return 100 * found["matrix"] / found["norm"], found


def measure(M: NDArray, model: KnownModel) -> dict[str, float]:
    """Errors of an estimate of the matrix of a model."""
    truth, r = model.metric(), model.rank
    values, vectors = eigh_descending(M)
    true_values = eigh_descending(truth)[0]
    return {
        "norm": float(np.linalg.norm(truth, 2)),
        "matrix": float(np.linalg.norm(M - truth, 2)),
        "eigenvalues": float(np.abs(values - true_values).max()),
        "null": float(values[r:].mean()),
        "largest": float(values[0]),
        "sin_theta": sin_theta(vectors[:, :r], model.V) if values[0] > 0 else 1.0,
    }


def paper_schedule(n: int) -> tuple[float, float]:
    """h and t of the runs to the letter, in the paper's orders: h = 8 / ln n, t = h^(1/4) / 2."""
    h = 8 / np.log(n)
    return float(h), float(h**0.25 / 2)


def paper_constants(model: KnownModel, X: NDArray, h: float, t: float) -> Constants:
    """What the bounds need to know, for a model on a cube and a sample of it."""
    if model.support is None:
        raise ValueError(f"the inputs of {model.name!r} are unbounded: the bounds do not apply.")
    low, high = model.support
    d, c = model.n_features, model.n_classes
    envelope = np.random.default_rng(0).uniform(low - t - h, high + t + h, (20_000, d))
    return Constants(
        n_samples=len(X),
        n_features=d,
        n_classes=c,
        bandwidth=h,
        step=t,
        gradient=gradient_norm(model.jacobian, envelope),
        modulus=modulus(model.jacobian, model.rows(5000, np.random.default_rng(1)), t).max(0),
        boundary=boundary_mass(model.rows(50_000, np.random.default_rng(2)), t, model.support),
        noise=noise_constant(X, h, t, n_classes=c, queries=np.arange(min(len(X), QUERIES))),
    )


def paper_bounds(model: KnownModel, X: NDArray, h: float, t: float) -> dict[str, float]:
    """Bounds on the matrix (and eigenvalues) and on the angle, in both readings."""
    constants = paper_constants(model, X, h, t)
    found = {}
    for reading in ("stated", "proved"):
        found[f"bound {reading}"] = main_bound(constants, reading=reading)
        angle, _ = recovery_bounds(constants, model.smallest(), reading=reading)
        found[f"angle bound {reading}"] = angle
    return found
