"""Bad and odd input tried on the predictors as they come: what each call must give."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd

from ejop import Device, EGOPRegressor, EJOPClassifier, RidgeRule
from reliability import Case
from reliability_numbers import BROKEN, LABELS, QUERIES, TARGET, TARGETS, WEIGHTS, D, N, X

DOOR = "predictors"
CASES: list[Case] = []
KINDS: dict[str, tuple[type, np.ndarray]] = {
    "classifier": (EJOPClassifier, LABELS),
    "regressor": (EGOPRegressor, TARGET),
}


def add(kind: str, name: str, call: Any, expect: Any = None, match: str = "") -> None:
    CASES.append(Case(DOOR, kind, name, call, expect, match))


def fitted(kind: str, rows: Any = X, y: Any = None, w: Any = None, **options: Any) -> Any:
    estimator, own = KINDS[kind]
    y = own if y is None else y
    return estimator(random_state=0, **options).fit(rows, y, sample_weight=w)


@cache
def known(kind: str, dtype: type = np.float64) -> Any:
    return fitted(kind, X.astype(dtype))


def answers(model: Any, rows: Any) -> list[np.ndarray]:
    """All that a model says of rows."""
    found = [model.predict(rows), model.explain(rows), model.transform(rows)]
    if hasattr(model, "predict_proba"):
        return [*found, model.predict_proba(rows), model.predict_set(rows)]
    return [*found, model.predict_interval(rows)]


def learns(kind: str, rows: Any, y: Any = None, w: Any = None, **options: Any) -> Any:
    model = fitted(kind, rows, y, w, **options)
    few = len(rows) < 10  # too few to say what holds nine of ten
    return [model.feature_importances_, model.predict(rows) if few else answers(model, rows)]


def as_good(kind: str, change: Any, dtype: type = np.float64, **options: Any) -> Any:
    """Rows in another guise are predicted about as well by rows that were not seen."""
    rows = change(X.copy()).astype(dtype)
    model = fitted(kind, rows, **options)
    least = known(kind).best_score_ - (0.3 if kind == "regressor" else 0.1)  # one row is lost
    assert model.best_score_ >= least, model.best_score_
    assert model.feature_importances_[:2].sum() > 0.6, model.feature_importances_
    return answers(model, rows)


def outlier(size: float, column: int) -> Any:
    def change(rows: np.ndarray) -> np.ndarray:
        rows[7, column] = size
        return rows

    return change


def apart(gap: float) -> Any:
    return lambda rows: rows + gap * (np.arange(N) >= N // 2)[:, None]


#: a third of the column that says nothing of the answer
THIRD = (np.arange(N)[:, None] % 3 == 1) & (np.arange(D) == 2)
GUISES: dict[str, tuple[Any, type]] = {
    "float32": (lambda rows: rows, np.float32),
    "times 1e-30": (lambda rows: rows * 1e-30, np.float64),
    "times 1e30": (lambda rows: rows * 1e30, np.float64),
    "columns from 1e-8 to 1e8": (lambda rows: rows * [1e-8, 1, 1e8], np.float64),
    "plus 1e6": (lambda rows: rows + 1e6, np.float64),
    "plus 1e6 in float32": (lambda rows: rows + 1e6, np.float32),
    "two clusters 1e6 apart": (apart(1e6), np.float64),
    "an outlier of 1e8": (outlier(1e8, 0), np.float64),
    "an outlier of 1e8 in float32": (outlier(1e8, 0), np.float32),
    "an outlier of 1e4 in float32": (outlier(1e4, 1), np.float32),
    "a gap": (outlier(np.nan, 1), np.float64),
    "a gap in float32": (outlier(np.nan, 0), np.float32),
    "gaps in a third of a column": (lambda rows: np.where(THIRD, np.nan, rows), np.float64),
    "a constant column": (lambda rows: np.c_[rows, np.ones(N)], np.float64),
}
for kind in KINDS:
    for name, (change, dtype) in GUISES.items():
        if kind == "regressor" and name.startswith("two clusters"):
            continue  # its target is another function of each
        add("other guises", f"{kind}: {name}", partial(as_good, kind, change, dtype))
    for name, (rows, words) in BROKEN.items():
        if name == "NaN":
            continue  # a gap, which is filled
        error = (ValueError, TypeError)
        add("broken rows", f"{kind}: {name}", partial(learns, kind, rows), error, words)
    add("broken rows", f"{kind}(columns='numbers'): NaN",
        partial(learns, kind, BROKEN["NaN"][0], columns="numbers"), ValueError,
        "NaN.*fill the gaps")  # fmt: skip
    add("broken rows", f"{kind}: nothing but NaN", partial(learns, kind, X * np.nan), ValueError,
        "no column to learn from")  # fmt: skip
    lost = (X * 1e-300).astype(np.float32)
    add("broken rows", f"{kind}: lost in float32", partial(learns, kind, lost), ValueError,
        "all rows are equal")  # fmt: skip
    for name, (w, error, words) in WEIGHTS.items():
        if error is None or not name.startswith("all 1e"):
            add("weights", f"{kind}: {name}", partial(learns, kind, X, None, w), error, words)
    for n in (1, 2, 3, 5):
        y = np.arange(n) % 2 if kind == "classifier" else TARGET[:n]
        due = (ValueError, "minimum of 2") if n == 1 else (None, "")
        add("few rows", f"{kind}: {n}", partial(learns, kind, X[:n], y), *due)
    for name, (rows, error, words) in QUERIES.items():
        for dtype in (np.float32, np.float64):
            if error is None and name == "1e9 away" and dtype is np.float32:
                continue
            add("queries", f"{kind} in {dtype.__name__}: {name}",
                lambda k=kind, t=dtype, r=rows: answers(known(k, t), r), error, words)  # fmt: skip
    method = "predict_set" if kind == "classifier" else "predict_interval"
    for coverage in (0, 1, -0.5, np.nan, "many", None, [0.9], 0.999):
        words = "lower it" if coverage == 0.999 else "`coverage` must lie between 0 and 1, got"
        add("coverage", f"{kind}: {coverage!r}",
            lambda k=kind, m=method, c=coverage: getattr(known(k), m)(X, coverage=c),
            ValueError, words)  # fmt: skip
    for coverage in (1e-9, 0.5, np.float32(0.9)):
        add("coverage", f"{kind}: {coverage!r}",
            lambda k=kind, m=method, c=coverage: getattr(known(k), m)(X, coverage=c))  # fmt: skip
    for name, rows in {
        "a constant column": np.c_[X, np.ones(N)],
        "whole numbers": np.round(X),
        "two values a column": (X > 0).astype(float),
    }.items():
        add("ranks", f"{kind}: {name}", partial(learns, kind, rows, scale="quantile"))
    for name, (options, error, words) in {
        "memory of 10 bytes": ({"device": Device(memory_limit=10)}, MemoryError, "is too little"),
        "memory of a gibibyte": ({"device": Device(memory_limit=2**30)}, None, ""),
        "no such device": ({"device": "abacus"}, (ValueError, RuntimeError), "abacus"),
        "n_jobs 0": ({"n_jobs": 0}, ValueError, "n_jobs"),
        "a function": ({"function": "knn"}, ValueError, "does not apply"),
        "more components than columns": ({"n_components": 9}, ValueError, "n_components"),
        "power 1e300": ({"power": 1e300}, None, ""),
        "no kernels": ({"rule": RidgeRule(kernels=[])}, ValueError, "`kernels` must be some of"),
        "no time": ({"rule": RidgeRule(time_limit=1e-9)}, None, ""),
    }.items():
        add("settings", f"{kind}: {name}", partial(learns, kind, X, **options), error, words)

for name, (_, y, error, words) in TARGETS.items():
    kind = "regressor" if TARGETS[name][0].__name__ == "EGOP" else "classifier"
    add("targets", f"{kind}: {name}", partial(learns, kind, X, y), error, words)


def labels_stay(y: Any) -> Any:
    """Every row is given a label that is among those that were passed, digit for digit."""
    model = fitted("classifier", X, y)
    passed, given = set(np.asarray(y).tolist()), model.predict(X).tolist()
    assert set(given) == passed, (set(given), passed)
    assert all(type(label) in {type(one) for one in passed} for label in given)


def whole(low: int) -> list[int]:
    return [low + int(label) for label in LABELS]


gap = np.arange(N) > 0
text = pd.Series(np.where(LABELS > 0, "yes", "no"))
for name, y in {
    "neighbours of 2**53": whole(2**53),
    "beyond 63 bits": whole(2**64 - 2),
    "beyond 63 bits in an array": np.array(whole(2**64 - 2), dtype=np.uint64),
    "Python's own": np.array(whole(2**62), dtype=object),
    "pandas that may be missing": pd.Series(whole(2**62), dtype="Int64"),
    "pandas without a sign": pd.Series(whole(2**64 - 2), dtype="UInt64"),
    "truth values as objects": np.array([bool(label) for label in LABELS], dtype=object),
    "empty text": np.where(LABELS > 0, "", "no"),
}.items():
    add("labels", name, partial(labels_stay, y))
for name, y, words in (
    ("beyond 64 bits", whole(2**70), "64 bits holds; make them text"),
    ("both signs beyond 63 bits", [2**64 - 1, -1] * (N // 2), "64 bits holds; make them text"),
    ("numbers and text", np.array([1, "a"] * (N // 2), dtype=object), "types int, str"),
    ("pandas' NA in text", text.astype("string").where(gap), "1 missing labels"),
    ("NA among whole numbers", pd.Series(whole(0), dtype="Int64").where(gap), "1 missing labels"),
    ("a gap among categories", text.where(gap).astype("category"), "1 missing labels"),
    ("no date", pd.Series(LABELS * 10**18).astype("datetime64[ns]").where(gap), "1 missing labels"),
):
    add("labels", name, partial(fitted, "classifier", X, y), ValueError, words)
for name, weights, words in (
    ("negative", {0: -1, 1: 1}, "`class_weight`=.* not negative"),
    ("NaN", {0: np.nan, 1: 1}, "`class_weight`=.* not negative"),
    ("of another class", {7: 1.0}, "class_weight"),
    ("zero", {0: 0, 1: 1}, "1 class"),
):
    add("weights", f"of classes: {name}", partial(fitted, "classifier", class_weight=weights),
        ValueError, words)  # fmt: skip
assert D == 3
