"""Learn a metric on scikit-learn's digits, compare it with Euclidean distance, draw its spectrum.

Power of the metric and radius of the ball are chosen by three folds of the training rows: the
metric of a fold has not seen the rows that judge it. The test rows are used once, at the end.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import euclidean_distances
from sklearn.model_selection import StratifiedKFold, train_test_split

from ejop import EJOP
from ejop.metric import components

matplotlib.use("Agg")  # a file, not a window
import matplotlib.pyplot as plt
from matplotlib import patheffects
from matplotlib.axes import Axes

SEEDS = range(5)
FUNCTIONS = {"kernel": "kernel smoother", "ridge": "kernel ridge"}
SHOWN = "ridge"  # whose spectrum, plan and picture are shown
POWERS = (0.25, 0.5, 1.0)
NEIGHBORS = 3
#: radius of the ball, as a quantile of the training rows' distances to their nearest other row
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
PICTURE = Path(__file__).resolve().parents[1] / "demo" / "digits.png"

Rows = tuple[NDArray, NDArray]


# the two rules ------------------------------------------------------------------------------


def knn_error(train: Rows, test: Rows, L: NDArray) -> float:
    """Share of test rows that their three nearest training rows get wrong."""
    D = euclidean_distances(test[0] @ L.T, train[0] @ L.T)
    nearest = np.argsort(D, axis=1, kind="stable")[:, :NEIGHBORS]
    return _error(_votes(train[1])[nearest].sum(1), D, train[1], test[1])


def ball_errors(train: Rows, test: Rows, L: NDArray) -> dict[float, float]:
    """Share of test rows that the training rows within a radius get wrong, for every quantile."""
    Z = train[0] @ L.T
    own = euclidean_distances(Z)
    np.fill_diagonal(own, np.inf)
    radii = np.quantile(own.min(1), QUANTILES)
    D = euclidean_distances(test[0] @ L.T, Z)
    votes = _votes(train[1])
    errors = [_error((r >= D) @ votes, D, train[1], test[1]) for r in radii]
    return dict(zip(QUANTILES, errors, strict=True))


def _votes(y: NDArray) -> NDArray:
    return np.eye(10)[y]


def _error(votes: NDArray, D: NDArray, train_y: NDArray, test_y: NDArray) -> float:
    """Half a vote more for the nearest row: it settles ties and answers for an empty ball."""
    votes = votes + _votes(train_y)[D.argmin(1)] / 2
    return float(np.mean(votes.argmax(1) != test_y))


# metrics and honest choices -----------------------------------------------------------------


def metrics(function: str | None, train: Rows, seed: int) -> tuple[dict[float, NDArray], Any]:
    """One fit, and from it the linear map of every power; for no function, Euclidean distance."""
    if function is None:
        return {0.0: np.eye(train[0].shape[1])}, None
    est = EJOP(function, random_state=seed).fit(*train)
    values, vectors = est.eigenvalues_, est.eigenvectors_
    return {p: components(values, vectors, power=p) for p in POWERS}, est


def choose(function: str | None, train: Rows, seed: int) -> tuple[float, tuple[float, float]]:
    """Power for kNN, power and quantile for the ball: least error on rows the metric has not seen.

    Ties go to the smaller power, then to the smaller ball.
    """
    X, y = train
    knn: dict[float, float] = {}
    ball: dict[tuple[float, float], float] = {}
    for seen, held in StratifiedKFold(3, shuffle=True, random_state=seed).split(X, y):
        inner, judge = (X[seen], y[seen]), (X[held], y[held])
        for power, L in metrics(function, inner, seed)[0].items():
            knn[power] = knn.get(power, 0) + knn_error(inner, judge, L)
            for q, error in ball_errors(inner, judge, L).items():
                ball[power, q] = ball.get((power, q), 0) + error
    return min(knn, key=knn.__getitem__), min(ball, key=ball.__getitem__)


def evaluate(function: str | None, train: Rows, test: Rows, seed: int) -> tuple[dict, Any]:
    """Choose on the training rows, refit on all of them, and count test errors once."""
    power, (ball_power, quantile) = choose(function, train, seed)
    start = time.perf_counter()
    L, est = metrics(function, train, seed)
    result = {
        "seconds": time.perf_counter() - start,
        "3-NN": (100 * knn_error(train, test, L[power]), power),
        "ball": (100 * ball_errors(train, test, L[ball_power])[quantile], ball_power),
    }
    return result, est


# what is shown ------------------------------------------------------------------------------


def print_table(results: dict[str | None, list[dict]]) -> None:
    """Mean and standard deviation over the seeds, and how the two metrics compare."""
    print(f"{'metric':<24}{'rule':<7}{'test error %':>14}{'power':>8}{'seconds':>10}")
    means: dict[tuple[str | None, str], float] = {}
    for function, runs in results.items():
        name = "Euclidean" if function is None else f"EJOP, {FUNCTIONS[function]}"
        for rule in ("3-NN", "ball"):
            errors, powers = np.array([run[rule] for run in runs]).T
            means[function, rule] = errors.mean()
            row = f"{name:<24}{rule:<7}{errors.mean():>7.2f} ± {errors.std(ddof=1):.2f}"
            if function is None:
                print(f"{row}{'-':>8}{'-':>10}")
            else:
                seconds = np.median([run["seconds"] for run in runs])
                print(f"{row}{np.median(powers):>8.2f}{seconds:>10.2f}")
    pairs = [(m, means[None, rule]) for (f, rule), m in means.items() if f is not None]
    ours, euclid = np.mean(pairs, axis=0)
    verdict = "at or below" if ours <= euclid else "above"
    wins = sum(m <= e for m, e in pairs)
    print(
        f"\nOn average EJOP errs on {ours:.2f} % of the test rows, {verdict} the {euclid:.2f} % of "
        f"Euclidean\ndistance, and is at or below it in {wins} of {len(pairs)} comparisons."
    )


def print_spectrum(name: str, est: EJOP) -> None:
    """The ten leading eigenvalues, with their shares of the trace, and the plan."""
    values = est.eigenvalues_
    shares = values / values.sum()
    print(f"\nLeading directions of {name}:\n")
    print(f"{'direction':>9}{'eigenvalue':>13}{'share %':>10}{'together %':>13}")
    for i in range(10):
        print(
            f"{i + 1:>9}{values[i]:>13.3e}{100 * shares[i]:>10.1f}"
            f"{100 * shares[: i + 1].sum():>13.1f}"
        )
    print(f"\nIts plan:\n\n{est.plan_}")


def draw(est: EJOP, test: Rows, path: Path) -> None:
    """Left the spectrum and its energy, right the test rows on the top two directions."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(12.5, 5.4), layout="constrained")
    draw_spectrum(left, est.eigenvalues_)
    draw_rows(right, est.transform(test[0])[:, :2], test[1])
    for ax in (left, right):
        ax.set_axisbelow(True)
        ax.grid(alpha=0.25)
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_suffix(".part")
    fig.savefig(unfinished, format="png", dpi=150)
    os.replace(unfinished, path)
    plt.close(fig)


def draw_spectrum(ax: Axes, values: NDArray) -> None:
    """Eigenvalues on a log scale, and the share of the trace that the first ones hold together."""
    blue, orange = "#1f4e79", "#d9730d"
    share = 100 * np.cumsum(values) / values.sum()
    kept = int(np.sum(values > 1e-6 * values[0]))  # pixels that are always blank have none
    order = np.arange(1, kept + 1)
    lines = ax.semilogy(order, values[:kept], "o-", color=blue, ms=4, lw=1, label="eigenvalue")
    ax.set(xlabel="direction", title="Spectrum of the EJOP of digits")
    ax.set_ylabel("eigenvalue", color=blue)
    energy = ax.twinx()
    lines += energy.plot(order, share[:kept], color=orange, lw=2, label="cumulative energy")
    most = int(np.searchsorted(share, 90)) + 1
    note = f"{most} directions\nhold 90 %"
    energy.plot(most, share[most - 1], "o", color=orange)
    energy.annotate(
        note, (most, share[most - 1]), (6, -10), textcoords="offset points", color=orange, va="top"
    )
    energy.set_ylabel("share of the trace, %", color=orange)
    energy.set_ylim(0, 105)
    ax.legend(handles=lines, loc="lower center", frameon=False)


def draw_rows(ax: Axes, Z: NDArray, y: NDArray) -> None:
    """Rows coloured by class, each class named at its median."""
    outline = [patheffects.withStroke(linewidth=4, foreground="white")]
    for digit in range(10):
        rows, colour = Z[y == digit], plt.get_cmap("tab10")(digit)
        ax.scatter(*rows.T, s=18, color=colour, alpha=0.6, lw=0, label=str(digit))
        ax.annotate(
            str(digit),
            np.median(rows, axis=0),
            color=colour,
            size=20,
            weight="bold",
            ha="center",
            va="center",
            path_effects=outline,
        )
    ax.set(xlabel="first direction", ylabel="second direction")
    ax.set_title("Test rows on the top two directions, digits at class medians")
    ax.legend(title="digit", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def main() -> None:
    """Run the comparison and show it."""
    X, y = load_digits(return_X_y=True)
    X /= 16  # pixels count from 0 to 16
    results: dict[str | None, list[dict]] = {None: [], **{f: [] for f in FUNCTIONS}}
    for seed in SEEDS:
        A, B, a, b = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed)
        for function, runs in results.items():
            result, est = evaluate(function, (A, a), (B, b), seed)
            runs.append(result)
            if seed == 0 and function == SHOWN:
                first, first_test = est, (B, b)
    print(
        f"digits: {len(A)} training and {len(B)} test rows of {X.shape[1]} pixels, mean and "
        f"standard deviation of {len(SEEDS)} splits\n"
    )
    print_table(results)
    print_spectrum(f"EJOP, {FUNCTIONS[SHOWN]}, first split", first)
    draw(first, first_test, PICTURE)
    print(f"\nThe spectrum and the projection are drawn in {os.path.relpath(PICTURE)}")


if __name__ == "__main__":
    main()
