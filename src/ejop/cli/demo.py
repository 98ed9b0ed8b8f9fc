"""``ejop demo`` and ``ejop bench``: a look at what it does and how fast, on data at hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

from ejop.cli.options import AsJson, Seed, show_json, show_table


def demo(seed: Seed = 0, as_json: AsJson = False) -> None:
    """Learn scikit-learn's digits three ways: by near rows under plain and learned distance, and
    by kernel machines, which is what `ejop fit` does."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import StratifiedShuffleSplit, train_test_split

    from ejop import EJOPClassifier
    from ejop.functions import RidgeFunction

    X, y = load_digits(return_X_y=True)
    A, B, a, b = train_test_split(X / 16, y, test_size=0.4, stratify=y, random_state=seed)
    start = time.perf_counter()
    model = EJOPClassifier(random_state=seed).fit(A, a)
    seconds = time.perf_counter() - start
    common: dict[str, Any] = {"rule": "knn", "scale": "none", "random_state": seed}
    common["validation"] = StratifiedShuffleSplit(1, test_size=0.2, random_state=seed)
    near = EJOPClassifier(function=RidgeFunction(widening=1.0), **common).fit(A, a)
    plain = EJOPClassifier(function="kernel", power=0, **common).fit(A, a)
    errors = {
        "near rows, plain distance": 1 - plain.score(B, b),
        "near rows, learned distance": 1 - near.score(B, b),
        "kernel machines": 1 - model.score(B, b),
    }
    values = model.metric_estimator_.eigenvalues_
    shares = values / values.sum()
    if as_json:
        show_json(
            {
                "train_rows": len(A),
                "test_rows": len(B),
                "error": errors,
                "fit_seconds": seconds,
                "settings": model.best_params_,
                "spectrum_share": shares[:10],
            }
        )
        return
    typer.echo(f"digits: {len(A)} rows to learn from, {len(B)} to test, 64 pixels, 10 classes\n")
    show_table(["predicted by", "test error"], [(name, f"{e:.2%}") for name, e in errors.items()])
    typer.echo(f"\nThe last was learned in {seconds:.1f} s: {model.rule_.in_words()}.")
    ten = shares[:10].sum()
    typer.echo(f"10 of 64 directions hold {ten:.0%} of what changes the answer.")
    typer.echo("One split says little: `ejop compare` repeats this on your own table.")


def bench(
    rows: Annotated[int, typer.Option(min=50, help="Random rows.")] = 5000,
    features: Annotated[int, typer.Option(min=1, help="Columns.")] = 50,
    classes: Annotated[int, typer.Option(min=2, help="Classes.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="The fastest counts.")] = 3,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Time an EJOP fit beside scikit-learn's brute-force nearest neighbours of all rows."""
    from sklearn.neighbors import NearestNeighbors

    from ejop import EJOP
    from ejop.datasets import make_multi_index

    X, y, _ = make_multi_index(
        rows, features, n_directions=min(2, features), n_classes=classes, random_state=seed
    )
    EJOP(random_state=seed).fit(X[:50], y[:50])  # compiled loops are compiled once

    search = NearestNeighbors(n_neighbors=5, algorithm="brute").fit(X)
    fitted: list[Any] = []
    ejop = _fastest(lambda: fitted.append(EJOP(random_state=seed).fit(X, y)), repeats)
    brute = _fastest(lambda: search.kneighbors(X), repeats)
    plan = str(fitted[-1].plan_)
    if as_json:
        size = {"rows": rows, "features": features, "classes": classes}
        times = {"ejop_seconds": ejop, "kneighbors_seconds": brute, "ratio": ejop / brute}
        show_json({**size, **times, "plan": plan.splitlines()})
        return
    lines = [("EJOP fit, Gaussian smoother", f"{ejop:.3f}", f"{ejop / brute:.1f}")]
    lines += [("scikit-learn kneighbors, brute", f"{brute:.3f}", "1.0")]
    title = f"{rows:,} rows, {features} features, {classes} classes; the fastest of {repeats}"
    show_table(["what", "seconds", "ratio"], lines, title)
    typer.echo(plan)


def _fastest(work: Callable[[], Any], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.min(times))
