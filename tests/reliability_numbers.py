"""Bad and odd input tried at the doors of the library: what each call must give.

``CASES`` is a list of calls, each with the door it knocks at and what must come of it: an answer of
finite numbers, or an error of a class and words. ``test_reliability.py`` tries them all; the table
of ``docs/reliability.md`` counts them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression

from ejop import EGOP, EJOP, Device, EGOPRegressor, EJOPClassifier, OuterProduct, theory
from ejop.choice import choose_bandwidth, choose_ridge, median_nearest_distance
from ejop.functions import KernelSmoother, ModelFunction, NeighborsSmoother, RidgeFunction
from ejop.learners import ITML, LMNN, MLR, ReliefF
from ejop.sums import outer_product
from reliability import Case

CASES: list[Case] = []
RNG = np.random.default_rng(17)
N, D = 60, 3
X = RNG.normal(size=(N, D))
LABELS = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)
TARGET = X[:, 0] + X[:, 1] ** 2


def add(door: str, kind: str, name: str, call: Callable, expect=None, match: str = "") -> None:
    CASES.append(Case(door, kind, name, call, expect, match))


def with_value(value: float, column: int = 1) -> np.ndarray:
    rows = X.copy()
    rows[5, column] = value
    return rows


# estimators --------------------------------------------------------------------------------------

FUNCTIONS: dict[str, Any] = {
    "kernel": "kernel",
    "ball": "ball",
    "knn": "knn",
    "ridge": "ridge",
    "tricube": KernelSmoother("tricube"),
    "laplace": KernelSmoother("laplace"),
    "model": None,
}


def estimator(kind: type, function: str, **options: Any) -> Any:
    given = FUNCTIONS[function]
    if given is None:
        given = LogisticRegression() if kind is EJOP else LinearRegression()
    return kind(given, **options)


def target(kind: type) -> np.ndarray:
    return LABELS if kind in (EJOP, EJOPClassifier) else TARGET


def matrix(kind: type, function: str, rows: Any, y: Any = None, w: Any = None, **options) -> Any:
    y = target(kind) if y is None else y
    return estimator(kind, function, **options).fit(rows, y, sample_weight=w).outer_product_


@cache
def plain(kind: type, function: str) -> np.ndarray:
    return matrix(kind, function, X)


def same_matrix(kind: type, function: str, rows: Any, tolerance: float, scale: float = 1.0) -> Any:
    """The matrix of rows that are X in another guise; scaled rows have one scaled back."""
    found = matrix(kind, function, rows) * scale**2
    expected = plain(kind, function)
    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())
    return found


BROKEN = {
    "NaN": (with_value(np.nan), "NaN"),
    "infinity": (with_value(np.inf), "infinity|too large"),
    "minus infinity": (with_value(-np.inf), "infinity|too large"),
    "infinity beside NaN": (np.where(X[5, 2] == X, np.inf, with_value(np.nan)), "infinity|NaN"),
    "three dimensions": (X[None], "dim 3|3 dim|Found array with dim"),
    "one dimension": (X[:, 0], "Expected 2D array|1D array"),
    "no rows": (X[:0], "minimum of|0 sample"),
    "no columns": (X[:, :0], "0 feature"),
    "words": (X.astype("U8").astype(object) + "a", "convert string|could not"),
    "complex numbers": (X + 1j, "[Cc]omplex"),
    "1e300": (X * 1e300, "too large for squared distances"),
    "1e160": (X * 1e160, "too large for squared distances"),
    "1e-160": (X * 1e-160, "span no more than .* too little"),
    "1e-300": (X * 1e-300, "span no more than .* too little"),
    "equal rows": (np.ones((N, D)), "rows are equal|constant|no two distinct"),
}
GUISES = {
    "Fortran order": (np.asfortranarray(X), 1e-10, 1.0),
    "every second row of more": (np.repeat(X, 2, axis=0)[::2], 1e-10, 1.0),
    "a view of more columns": (np.hstack([X, X])[:, :D], 1e-10, 1.0),
    "other byte order": (X.astype(">f8"), 1e-10, 1.0),
    "read only": (X.copy(), 1e-10, 1.0),
    "a list": (X.tolist(), 1e-10, 1.0),
    "float32": (X.astype(np.float32), 2e-3, 1.0),
    "long double": (X.astype(np.longdouble), 1e-10, 1.0),
    "times 1e-30": (X * 1e-30, 1e-6, 1e-30),
    "times 1e-8": (X * 1e-8, 1e-6, 1e-8),
    "times 1e8": (X * 1e8, 1e-6, 1e8),
    "times 1e30": (X * 1e30, 1e-6, 1e30),
    "plus 1e6": (X + 1e6, 1e-4, 1.0),
}
GUISES["read only"][0].flags.writeable = False

for function, (name, (rows, words)) in product(FUNCTIONS, BROKEN.items()):
    if function == "model" and name == "equal rows":
        continue  # a model may be fitted on them
    error = (ValueError, TypeError)
    if function == "knn" and name == "equal rows":
        add("estimators", "few distinct rows", f"EJOP({function}): {name}",
            partial(matrix, EJOP, function, rows))  # fmt: skip
        continue
    add("estimators", "broken rows", f"EJOP({function}): {name}",
        partial(matrix, EJOP, function, rows), error, words)  # fmt: skip

for kind, function, (name, (rows, tolerance, scale)) in product(
    (EJOP, EGOP), FUNCTIONS, GUISES.items()
):
    if function == "model" and name.startswith(("times", "plus")):
        continue  # a model with a penalty is not free of units
    add("estimators", "other guises", f"{kind.__name__}({function}): {name}",
        partial(same_matrix, kind, function, rows, tolerance, scale))  # fmt: skip

WEIGHTS: dict[str, tuple[Any, Any, str]] = {
    "NaN": (np.r_[np.nan, np.ones(N - 1)], ValueError, "NaN"),
    "infinity": (np.r_[np.inf, np.ones(N - 1)], ValueError, "infinity"),
    "negative": (-np.ones(N), ValueError, "Negative"),
    "too short": (np.ones(3), ValueError, "shape|inconsistent"),
    "two dimensions": (np.ones((N, 2)), ValueError, "1D|2D|shape"),
    "zeros": (np.zeros(N), ValueError, "zero"),
    "one of 1e30": (np.r_[1e30, np.ones(N - 1)], ValueError, "lower the largest weight"),
    "all 1e-40": (np.full(N, 1e-40), ValueError, "divide all by the largest"),
    "all 1e40": (np.full(N, 1e40), ValueError, "divide all by the largest"),
    "words": (np.full(N, "a"), ValueError, "could not convert"),
    "halves": (np.full(N, 0.5), None, ""),
    "some zeros": (np.r_[np.zeros(5), np.ones(N - 5)], None, ""),
    "from 1e-6 to 1": (10 ** np.linspace(-6, 0, N), None, ""),
}
for function, (name, (w, error, words)) in product(
    ("kernel", "ball", "knn", "ridge", "model"), WEIGHTS.items()
):
    add("estimators", "weights", f"EGOP({function}): {name}",
        partial(matrix, EGOP, function, X, None, w), error, words)  # fmt: skip

with_none = np.array([None, *LABELS[1:]], dtype=object)
TARGETS: dict[str, tuple[type, Any, Any, str]] = {
    "None in y, classes": (EJOP, with_none, ValueError, "1 missing labels, the first in row 0"),
    "NaN among words": (EJOP, np.array([np.nan, *(["a", "b"] * N)[1:N]], dtype=object),
                        ValueError, "missing labels|NaN"),
    "None in y, numbers": (EGOP, np.array([None, *TARGET[1:]], dtype=object), ValueError, "NaN"),
    "1e300": (EGOP, TARGET * 1e300, ValueError, "`y` has values up to .*scale it"),
    "1e-300": (EGOP, TARGET * 1e-300, ValueError, "`y` spans no more than .*scale"),
    "infinity": (EGOP, np.r_[np.inf, TARGET[1:]], ValueError, "infinity"),
    "NaN": (EGOP, np.r_[np.nan, TARGET[1:]], ValueError, "NaN"),
    "too short": (EGOP, TARGET[1:], ValueError, "inconsistent"),
    "words": (EGOP, np.full(N, "a"), ValueError, "convert string"),
    "complex": (EGOP, TARGET + 1j, ValueError, "[Cc]omplex"),
    "constant": (EJOP, np.ones(N), ValueError, "1 class"),
    "real for classes": (EJOP, TARGET, ValueError, "Unknown label type"),
    "words as classes": (EJOP, np.where(LABELS > 0, "yes", "no"), None, ""),
    "truth values": (EJOP, LABELS > 0, None, ""),
    "large whole numbers": (EJOP, LABELS + 2**53, None, ""),
    "a column": (EGOP, TARGET[:, None], None, ""),
    "two columns": (EGOP, np.c_[TARGET, X[:, 0]], None, ""),
    "times 1e20": (EGOP, TARGET * 1e20, None, ""),
}  # fmt: skip
for function, (name, (kind, y, error, words)) in product(
    ("kernel", "knn", "ridge"), TARGETS.items()
):
    add("estimators", "targets", f"{kind.__name__}({function}): {name}",
        partial(matrix, kind, function, X, y), error, words)  # fmt: skip

SETTINGS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "bandwidth 1e200": ({"bandwidth": 1e200}, ValueError, "must lie between 1e-35 and 1e.?35"),
    "bandwidth 1e-200": ({"bandwidth": 1e-200}, ValueError, "must lie between 1e-35"),
    "bandwidth NaN": ({"bandwidth": np.nan}, ValueError, "bandwidth"),
    "bandwidth 1e20": ({"bandwidth": 1e20}, None, ""),
    "bandwidth 1e-20": ({"bandwidth": 1e-20}, None, ""),
    "step 1e200": ({"step": 1e200}, ValueError, "`step`=1e.?200 .*between"),
    "step of words": ({"step": ["a", "b", "c"]}, ValueError, "`step` must hold numbers"),
    "step NaN": ({"step": [np.nan] * D}, ValueError, "positive and finite, got nan"),
    "step 1e-20": ({"step": 1e-20}, None, ""),
    "step of a million bandwidths": ({"bandwidth": 1.0, "step": 1e6}, None, ""),
    "power 1e300": ({"power": 1e300}, None, ""),
    "shrinkage 1e300": ({"shrinkage": 1e300}, None, ""),
    "no components": ({"n_components": 0}, ValueError, "n_components"),
    "a share of 2": ({"n_components": 2.0}, ValueError, "n_components"),
    "no queries": ({"n_queries": 0}, ValueError, "n_queries"),
    "more queries than rows": ({"n_queries": 10**9}, None, ""),
    "memory of 10 bytes": ({"device": Device(memory_limit=10)}, MemoryError, "memory_limit"),
    "negative memory": ({"device": Device(memory_limit=-1)}, ValueError, "memory_limit"),
    "no such device": ({"device": "abacus"}, ValueError, "abacus"),
    "min_mass of all rows": ({"min_mass": N}, None, ""),
    "n_jobs 0": ({"n_jobs": 0}, ValueError, "n_jobs"),
}
for function, (name, (options, error, words)) in product(("kernel", "ridge"), SETTINGS.items()):
    add("estimators", "settings", f"EGOP({function}): {name}",
        partial(matrix, EGOP, function, X, None, None, **options), error, words)  # fmt: skip


@cache
def fitted(function: str, dtype: type) -> Any:
    return estimator(EJOP, function).fit(X.astype(dtype), LABELS)


QUERIES: dict[str, tuple[Any, Any, str]] = {
    "NaN": (with_value(np.nan), ValueError, "NaN"),
    "infinity": (with_value(np.inf), ValueError, "infinity"),
    "one column": (X[:, :1], ValueError, "1 features"),
    "no rows": (X[:0], ValueError, "minimum of 1"),
    "1e39": (X * 1e39, ValueError, "too large"),
    "1e300": (X * 1e300, ValueError, "too large"),
    "one row": (X[:1], None, ""),
    "1e9 away": (X + 1e9, None, ""),
    "times 1e-30": (X * 1e-30, None, ""),
}
for function, dtype, (name, (rows, error, words)) in product(
    ("kernel", "ball", "knn", "ridge"), (np.float32, np.float64), QUERIES.items()
):
    add("estimators", "queries", f"EJOP({function}).jacobian in {dtype.__name__}: {name}",
        lambda f=function, t=dtype, r=rows: fitted(f, t).jacobian(r), error, words)  # fmt: skip


def changed_partial_fit(**change: Any) -> Any:
    begun = EJOP("kernel").partial_fit(X[:40], LABELS[:40], classes=[0, 1])
    return begun.set_params(**change).partial_fit(X[40:], LABELS[40:]).outer_product_


for change in (
    {"function": "ridge"}, {"bandwidth": 3.0}, {"step": 0.3}, {"softmax": False},
    {"leave_one_out": False}, {"function": KernelSmoother("boxcar")},
):  # fmt: skip
    (name,) = change
    add("estimators", "partial_fit", f"changed {change}", partial(changed_partial_fit, **change),
        ValueError, f"`{name}`=.*set it back, or call fit")  # fmt: skip
add("estimators", "partial_fit", "changed power", partial(changed_partial_fit, power=0.5))
add("estimators", "partial_fit", "nothing changed", changed_partial_fit)


def predicted(
    kind: type, rows: Any, y: Any = None, w: Any = None, at: Any = X, **options: Any
) -> Any:
    y = target(kind) if y is None else y
    model = kind(rule="knn", random_state=0, **options).fit(rows, y, sample_weight=w)
    return model.predict(at)


for kind in (EJOPClassifier, EGOPRegressor):
    gap = BROKEN["NaN"][0]
    add(
        "estimators", "other guises", f"{kind.__name__}: NaN", partial(predicted, kind, gap, at=gap)
    )
    add("estimators", "broken rows", f"{kind.__name__}(columns='numbers'): NaN",
        partial(predicted, kind, gap, columns="numbers"), ValueError,
        "NaN.*fill the gaps")  # fmt: skip
    for name in ("infinity", "infinity beside NaN", "1e300", "1e-300", "no rows", "one dimension"):
        add("estimators", "broken rows", f"{kind.__name__}: {name}",
            partial(predicted, kind, BROKEN[name][0]), ValueError, BROKEN[name][1])  # fmt: skip
    for name in ("NaN", "negative", "too short", "one of 1e30", "some zeros"):
        w, error, words = WEIGHTS[name]
        add("estimators", "weights", f"{kind.__name__}: {name}",
            partial(predicted, kind, X, None, w), error, words)  # fmt: skip
    for name in ("NaN", "one column", "no rows", "one row", "1e9 away"):
        rows, error, words = QUERIES[name]
        add("estimators", "queries", f"{kind.__name__}.predict: {name}",
            partial(predicted, kind, X, None, None, rows), error, words)  # fmt: skip
add(
    "estimators",
    "targets",
    "EGOPRegressor: 1e300",
    partial(predicted, EGOPRegressor, X, TARGET * 1e300),
    ValueError,
    "`y` has values up to",
)
add(
    "estimators",
    "targets",
    "EJOPClassifier: None in y",
    partial(predicted, EJOPClassifier, X, with_none),
    ValueError,
    "missing labels",
)

# functions ---------------------------------------------------------------------------------------

MAKERS: dict[str, Callable[[], Any]] = {
    "gaussian": KernelSmoother,
    "laplace": partial(KernelSmoother, "laplace"),
    "boxcar": partial(KernelSmoother, "boxcar"),
    "biweight": partial(KernelSmoother, "biweight"),
    "neighbours": partial(NeighborsSmoother, 3),
    "ridge": RidgeFunction,
    "l1 ridge": partial(RidgeFunction, "l1", 1.0, 0.1),
    "model": partial(ModelFunction, LinearRegression()),
}


@cache
def known(name: str) -> Any:
    return MAKERS[name]().fit(X, TARGET)


STEP = np.full(D, 0.2)
USES: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "predict one column": (lambda f: f.predict(X[:, :1]), ValueError, "expected"),
    "predict one row flat": (lambda f: f.predict(X[0]), ValueError, "expected"),
    "predict NaN": (lambda f: f.predict(X * np.nan), ValueError, "NaN"),
    "predict words": (
        lambda f: f.predict(np.full(X.shape, "a")), ValueError, "`X` must hold numbers"),
    "differences of too many columns": (
        lambda f: f.differences(np.hstack([X, X]), STEP), ValueError, "expected"),
    "a negative step": (lambda f: f.differences(X, -STEP), ValueError, "positive and finite"),
    "a step of NaN": (lambda f: f.differences(X, STEP * np.nan), ValueError, "got nan"),
    "a step for two features": (lambda f: f.differences(X, STEP[:2]), ValueError, "shape"),
    "shifted by zero": (lambda f: f.shifted(X, 0 * STEP), ValueError, "positive"),
    "exclude too short": (
        lambda f: f.differences(X, STEP, np.arange(3)), ValueError, "60 row numbers"),
    "exclude beyond the rows": (
        lambda f: f.differences(X, STEP, np.arange(N) + 1), ValueError, "use 0 to 59"),
    "exclude below -1": (
        lambda f: f.differences(X, STEP, np.full(N, -2)), ValueError, "row numbers from -2"),
    "exclude of floats": (
        lambda f: f.differences(X, STEP, np.ones(N)), ValueError, "type float64"),
    "exclude none": (lambda f: f.differences(X, STEP, np.full(N, -1)), None, ""),
    "a step for all": (lambda f: f.differences(X, 0.2), None, ""),
    "predict whole numbers": (lambda f: f.predict(np.round(X).astype(int)), None, ""),
    "predict float16": (lambda f: f.predict(X.astype(np.float16)), None, ""),
}  # fmt: skip
for maker, (name, (use, error, words)) in product(MAKERS, USES.items()):
    add("functions", "use", f"{maker}: {name}", lambda m=maker, u=use: u(known(m)), error, words)

FITS: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "NaN in X": ((with_value(np.nan), TARGET), ValueError, "`X` contains NaN"),
    "infinity in X": ((with_value(np.inf), TARGET), ValueError, "`X` contains NaN or infinity"),
    "NaN in Y": ((X, np.r_[np.nan, TARGET[1:]]), ValueError, "`y` contains NaN"),
    "Y too short": ((X, TARGET[1:]), ValueError, "do not match"),
    "no rows": ((X[:0], TARGET[:0]), ValueError, "at least one row"),
    "Y of 1e300": ((X, TARGET * 1e300), ValueError, "too large"),
    "weights too short": ((X, TARGET, np.ones(3)), ValueError, "`sample_weight` has shape"),
    "weights of NaN": ((X, TARGET, np.full(N, np.nan)), ValueError, "finite and not negative"),
    "weights negative": ((X, TARGET, -np.ones(N)), ValueError, "finite and not negative"),
    "weights zero": ((X, TARGET, np.zeros(N)), ValueError, "zero for every row"),
    "one weight of 1e30": ((X, TARGET, np.r_[1e30, np.ones(N - 1)]), ValueError, "lower"),
    "some weights zero": ((X, TARGET, np.r_[np.zeros(9), np.ones(N - 9)]), None, ""),
}
for maker, (name, (given, error, words)) in product(MAKERS, FITS.items()):
    add("functions", "fit", f"{maker}: {name}",
        lambda m=maker, g=given: MAKERS[m]().fit(*g).predict(X), error, words)  # fmt: skip

for name, call, words in (
    ("choose_bandwidth of NaN", lambda: choose_bandwidth(X * np.nan, TARGET), "NaN"),
    ("choose_bandwidth of 1e300", lambda: choose_bandwidth(X, TARGET * 1e300), "too large"),
    ("choose_ridge of too few targets", lambda: choose_ridge(X, TARGET[1:]), "do not match"),
    ("choose_ridge of NaN weights",
     lambda: choose_ridge(X, TARGET, sample_weight=X[:, 0] * np.nan), "finite"),
    ("median_nearest_distance of equal rows",
     lambda: median_nearest_distance(np.ones((9, 2)), np.arange(9)), "rows are equal"),
):  # fmt: skip
    add("functions", "choice", name, call, ValueError, words)

# sums --------------------------------------------------------------------------------------------

J = RNG.normal(size=(50, 2, 4))


def broken_jacobians(value: float) -> np.ndarray:
    found = J.copy()
    found[3, 1, 2] = value
    return found


def total(*given: Any, **options: Any) -> Any:
    return OuterProduct(2, 4, **options).add(*given).mean()


def same_mean(jacobians: Any, tolerance: float) -> Any:
    found = total(jacobians)
    np.testing.assert_allclose(found, outer_product(J), atol=tolerance)
    return found


for name, call, words in (
    ("one weight for all rows", lambda: total(J, [2.0], batch=8), r"shape \(1,\) .* 50 rows"),
    ("a negative batch", lambda: total(J, batch=-3), "`batch` must be a positive integer"),
    ("a batch of zero", lambda: total(J, batch=0), "`batch` must be a positive integer"),
    ("a batch of 1.5", lambda: total(J, batch=1.5), "`batch` must be a positive integer"),
    ("no outputs", lambda: OuterProduct(0, 4), "`n_outputs` must be a positive integer"),
    ("negative weights", lambda: total(J, -np.ones(50)), "finite and not negative, got -1"),
    ("weights of NaN", lambda: total(J, np.full(50, np.nan)), "finite and not negative, got nan"),
    ("weights of words", lambda: total(J, np.full(50, "a")), "`weights` must hold numbers"),
    ("NaN in J", lambda: total(broken_jacobians(np.nan)), "`J` contains NaN or infinity"),
    ("infinity in J", lambda: total(broken_jacobians(np.inf)), "`J` contains NaN or infinity"),
    ("complex J", lambda: total(J + 1j), "complex"),
    ("J of another shape", lambda: total(J[:, :, :3]), "was expected"),
    ("zero weights", lambda: total(J, np.zeros(50)), "no rows of positive weight"),
    ("outer_product of NaN", lambda: outer_product(broken_jacobians(np.nan)), "finite"),
    ("outer_product of no rows", lambda: outer_product(J[:0]), "not empty"),
    ("outer_product of a matrix", lambda: outer_product(J[0]), "shape"),
):
    add("sums", "outer products", name, call, ValueError, words)
add("sums", "outer products", "float16", lambda: same_mean(J.astype(np.float16), 1e-2))
add("sums", "outer products", "float32", lambda: same_mean(J.astype(np.float32), 1e-5))
add("sums", "outer products", "a list", lambda: same_mean(J.tolist(), 1e-12))
add("sums", "outer products", "rows backwards", lambda: same_mean(J[::-1], 1e-12))

# theory ------------------------------------------------------------------------------------------


def constants(**change: Any) -> Any:
    given: dict[str, Any] = {
        "n_samples": 1000, "n_features": 2, "n_classes": 3, "bandwidth": 0.2, "step": 0.5,
        "gradient": 1.0, "modulus": 0.1, "boundary": 0.1,
    }  # fmt: skip
    return theory.main_bound(theory.Constants(**given | change))


for name, value in product(
    ("n_samples", "n_features", "n_classes", "bandwidth", "step"), (0, -1, np.nan, np.inf)
):
    add("theory", "constants", f"{name}={value}", partial(constants, **{name: value}),
        ValueError, f"`{name}` must be positive")  # fmt: skip
for name, value in product(("gradient", "noise", "modulus", "boundary"), (-1, np.nan, np.inf)):
    add("theory", "constants", f"{name}={value}", partial(constants, **{name: value}),
        ValueError, f"`{name}` .*not negative")  # fmt: skip
add(
    "theory",
    "constants",
    "a modulus for three features",
    partial(constants, modulus=[0.1] * 3),
    ValueError,
    "`modulus` has shape",
)
add("theory", "constants", "delta=1", partial(constants, delta=1), ValueError, "`delta`")
add("theory", "constants", "as they are", constants)

G = np.diag([3.0, 2.0, 1.0])
LOPSIDED = G + np.triu(np.ones((3, 3)), 1)
for lemma, use in (("weyl", theory.weyl), ("davis_kahan", partial(theory.davis_kahan, rank=1))):
    for name, given, words in (
        ("an asymmetric matrix", (LOPSIDED, G), "`G` is not symmetric"),
        ("an asymmetric estimate", (G, LOPSIDED), "`G_hat` is not symmetric"),
        ("NaN", (G * np.nan, G), "NaN"),
        ("sizes that differ", (G, np.eye(2)), "of one size"),
        ("rows without columns", (G[:2], G[:2]), "square"),
    ):
        add("theory", "lemmas", f"{lemma}: {name}", partial(use, *given), ValueError, words)
    add("theory", "lemmas", f"{lemma}: symmetric", partial(use, G, np.diag([2.9, 2.1, 1.0])))
for name, call, words in (
    ("principal_angles of NaN",
     lambda: theory.principal_angles(G[:, :1] * np.nan, G[:, :1]), "NaN"),
    ("principal_angles of a dependent basis",
     lambda: theory.principal_angles(np.ones((3, 2)), G[:, :2]), "rank"),
    ("rates of two rows", lambda: theory.rates(2, 3), "3 at the least"),
    ("rates of NaN rows", lambda: theory.rates(np.nan, 3), "3 at the least"),
    ("rates of no feature", lambda: theory.rates(100, 0), "`d` must be 1"),
    ("an exponent of 1", lambda: theory.rates(100, 2, exponent=1), "`exponent`"),
    ("mass_threshold of delta 0", lambda: theory.mass_threshold(100, 2, 0), "`delta`"),
    ("mass_threshold of no rows", lambda: theory.mass_threshold(0, 2, 0.1), "at least 1"),
    ("events of NaN", lambda: theory.events(X * np.nan, X, 0.1, 1.0), "NaN"),
    ("events at NaN", lambda: theory.events(X, X * np.nan, 0.1, 1.0), "NaN"),
    ("events of a negative bandwidth", lambda: theory.events(X, X, 0.1, -1.0), "`bandwidth`"),
    ("events of another width", lambda: theory.events(X, X[:, :2], 0.1, 1.0), "expected"),
    ("boundary_mass of NaN", lambda: theory.boundary_mass(X * np.nan, 0.1, (0, 1)), "finite"),
    ("a support upside down", lambda: theory.boundary_mass(X, 0.1, (1, 0)), "`support`"),
    ("modulus of one step",
     lambda: theory.modulus(lambda Q: Q[:, None], X, 0.1, n_steps=1), "`n_steps`"),
    ("gradient_norm of NaN",
     lambda: theory.gradient_norm(lambda Q: Q[:, None] * np.nan, X), "finite"),
    ("noise_constant of no classes",
     lambda: theory.noise_constant(X, 1.0, 0.1, n_classes=0), "`n_classes`"),
    ("recovery_bounds of zero",
     lambda: theory.recovery_bounds(known_constants(), 0.0), "`smallest`"),
    ("eigenvalues upwards",
     lambda: theory.sin_theta_bound(known_constants(), [1.0, 2.0], 1), "largest first"),
    ("eigenvalues of NaN",
     lambda: theory.sin_theta_bound(known_constants(), [np.nan, 2.0], 1), "finite"),
):  # fmt: skip
    add("theory", "functions", name, call, ValueError, words)


def known_constants() -> Any:
    return theory.Constants(1000, 2, 3, 0.2, 0.5, 1.0, 0.1, 0.1)


# learners ----------------------------------------------------------------------------------------

LEARNERS = {"ReliefF": ReliefF, "LMNN": LMNN, "ITML": ITML, "MLR": MLR}


def learned(name: str, rows: Any, y: Any = LABELS) -> Any:
    options = {} if name == "ReliefF" else {"max_iter": 5}
    return LEARNERS[name](**options).fit(rows, y).components_


for learner in LEARNERS:
    for name in ("NaN", "infinity", "one dimension", "no rows", "no columns", "words",
                 "complex numbers"):  # fmt: skip
        add("learners", "broken rows", f"{learner}: {name}",
            partial(learned, learner, BROKEN[name][0]), (ValueError, TypeError),
            BROKEN[name][1])  # fmt: skip
    for name, y, words in (
        ("one class", np.ones(N), "one class|1 class"),
        ("None in y", with_none, "missing labels"),
        ("real numbers", TARGET, "Unknown label type"),
        ("too short", LABELS[1:], "inconsistent"),
    ):
        add("learners", "targets", f"{learner}: {name}", partial(learned, learner, X, y),
            ValueError, words)  # fmt: skip
    for name in ("Fortran order", "float32", "a list", "times 1e-8", "times 1e8", "plus 1e6"):
        add("learners", "other guises", f"{learner}: {name}",
            partial(learned, learner, GUISES[name][0]))  # fmt: skip
wide = np.broadcast_to(np.zeros(1), (20, 5000))
add(
    "learners",
    "memory",
    "LMNN on 5,000 features",
    lambda: learned("LMNN", wide, LABELS[:20]),
    MemoryError,
    "LMNN on 5000 features .* reduce the columns",
)
add(
    "learners",
    "memory",
    "ITML on 5,000 features",
    lambda: learned("ITML", wide, LABELS[:20]),
    MemoryError,
    "ITML factorises .* reduce the columns",
)
