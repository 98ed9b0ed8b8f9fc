"""Error of the tuned predictors beside the paper's: ``python -m benchmarks.accuracy``.

The data are those of EJOP_DATA. Folds depend on (data set, seed) only. Each finished run is a line
of the results file, and a second call skips what is there.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from benchmarks import report
from ejop import EGOPRegressor, EJOPClassifier

#: data set -> (file, training rows, test rows, the paper's Euclid, EJOP hNN, EJOP kNN, our goal)
PAPER: dict[str, tuple[str, int, int, float, float, float, float | None]] = {
    "isolet": ("paper/isolet", 4000, 2000, 14.17, 10.14, 8.67, 4.5),
    "usps": ("paper/usps", 4000, 2000, 7.87, 7.14, 6.67, 4.0),
    "letter": ("paper/letter", 4000, 2000, 7.65, 5.12, 4.37, 6.2),
    "letter-16000": ("paper/letter", 16000, 2000, 7.65, 5.12, 4.37, None),
    "dslr": ("paper/office_caltech_dslr", 100, 50, 84.85, 41.13, 35.01, 25.0),
    "amazon": ("paper/office_caltech_amazon", 450, 450, 66.17, 41.07, 39.85, 27.5),
    "webcam": ("paper/office_caltech_webcam", 145, 145, 61.43, 24.86, 23.71, 14.0),
    "caltech": ("paper/office_caltech_caltech10", 550, 500, 85.41, 54.65, 52.86, 45.0),
}
#: data sets of no table: (file, training rows, test rows)
EXTRA = {
    "vowel": ("extra/vowel", 600, 390),
    "pendigits": ("extra/pendigits", 4000, 2000),
    "phoneme": ("extra/phoneme", 3000, 1500),
    "mfeat": ("extra/mfeat_factors", 1300, 700),
    "airfoil": ("extra/airfoil", 1000, 500),
    "parkinsons": ("extra/parkinsons", 4000, 1800),
    "ailerons": ("extra/ailerons", 4000, 2000),
}
METHODS: dict[str, dict[str, Any]] = {
    "euclid": {"rule": "knn", "function": "kernel", "power": 0.0},
    "knn": {"rule": "knn"},
    "hnn": {"rule": "hnn"},
}


def load(file: str) -> tuple[np.ndarray, np.ndarray]:
    folder = os.environ.get("EJOP_DATA")
    if not folder:
        raise SystemExit("set EJOP_DATA to the folder of the data sets (paper/, extra/)")
    with np.load(Path(folder) / f"{file}.npz") as archive:
        return archive["X"].astype(np.float64), archive["y"]


def run(name: str, method: str, seed: int) -> dict[str, Any]:
    """Error in per cent (1 - R^2 for real targets) of one method on one split."""
    file, n_train, n_test = (PAPER[name] if name in PAPER else EXTRA[name])[:3]
    X, y = load(file)
    order = np.random.RandomState(seed).permutation(len(X))
    train, test = order[:n_train], order[n_train : n_train + n_test]
    A, B = X[train], X[test]
    if name == "isolet":
        pca = PCA(172, random_state=0).fit(A)
        A, B = pca.transform(A), pca.transform(B)
    kind = EGOPRegressor if y.dtype.kind == "f" else EJOPClassifier
    start = time.perf_counter()
    model = kind(**METHODS[method], random_state=seed).fit(A, y[train])
    fitted = time.perf_counter()
    error = 100 * (1 - model.score(B, y[test]))
    return {
        "data": name,
        "method": method,
        "seed": seed,
        "error": round(float(error), 4),
        "fit_seconds": round(fitted - start, 2),
        "predict_seconds": round(time.perf_counter() - fitted, 2),
        "best_score": model.best_score_,
        "commit": report.commit(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": report.versions(),
        "best_params": {k: str(v) for k, v in model.best_params_.items()},
    }


def table(records: list[dict[str, Any]]) -> str:
    """Mean +- standard deviation over seeds, beside the paper's figures."""
    lines = [
        f"{'data':<14}{'method':<8}{'seeds':>6}{'error %':>16}{'paper':>8}{'goal':>7}{'fit s':>8}"
    ]
    for name in [*PAPER, *EXTRA]:
        for column, method in ((3, "euclid"), (5, "knn"), (4, "hnn")):
            rows = [r for r in records if r["data"] == name and r["method"] == method]
            if not rows:
                continue
            errors = np.array([r["error"] for r in rows])
            spread = errors.std(ddof=1) if len(errors) > 1 else 0.0
            paper = f"{PAPER[name][column]:.2f}" if name in PAPER else "-"
            goal = PAPER[name][6] if name in PAPER and method == "knn" else None
            seconds = np.median([r["fit_seconds"] for r in rows])
            lines.append(
                f"{name:<14}{method:<8}{len(rows):>6}{errors.mean():>9.2f} ± {spread:<5.2f}"
                f"{paper:>7}{'-' if goal is None else goal:>7}{seconds:>8.1f}"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(PAPER), choices=[*PAPER, *EXTRA])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--results", type=Path, default=Path(__file__).parent / "results" / "accuracy.jsonl"
    )
    options = parser.parse_args()
    records = []
    if options.results.exists():
        records = [json.loads(line) for line in options.results.read_text().splitlines()]
    done = {(r["data"], r["method"], r["seed"]) for r in records}
    for seed in range(options.seeds):
        for name in options.sets:
            for method in options.methods:
                if (name, method, seed) in done:
                    continue
                record = run(name, method, seed)
                records.append(record)
                with options.results.open("a") as out:
                    out.write(json.dumps(record) + "\n")
                print(f"{name} {method} seed {seed}: {record['error']:.2f} %", flush=True)
    print(table(records))


if __name__ == "__main__":
    main()
