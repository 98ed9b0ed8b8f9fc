"""
A million rows
==============

The call is the same for any number of rows. Beyond 10,000 of them the model reads the rows in
passes and keeps only some as centres, so that memory does not grow with their number. This page
takes few rows, to be built in seconds.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from ejop import EGOPRegressor
from ejop.rules import RidgeRule

ROWS = 6_000  # make it 1_000_000
COLUMNS = 12
V = np.linalg.qr(np.random.default_rng(0).normal(size=(COLUMNS, 2)))[0].astype(np.float32)


def make(rows, seed):
    """float32 rows, and an answer by two directions that all columns share."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, COLUMNS)).astype(np.float32)
    first, second = (X @ V).T
    return X, np.sin(2 * first) + second**2 + 0.1 * rng.normal(size=rows)


X_test, y_test = make(2000, seed=1)

# %%
# ``max_rows`` puts the switch lower than 10,000, and one kernel is tried: that is for this page
# alone. With ``RidgeRule()`` all is chosen.

rule = RidgeRule(kernels=("gaussian",), n_members=1, max_rows=800, n_centers=300)
sizes = [ROWS // 3, ROWS]
scores = {"EGOPRegressor": [], "gradient boosting": []}
for rows in sizes:
    X, y = make(rows, seed=2)
    for name, model in {
        "EGOPRegressor": EGOPRegressor(rule, random_state=0),
        "gradient boosting": HistGradientBoostingRegressor(random_state=0),
    }.items():
        start = time.perf_counter()
        scores[name].append(model.fit(X, y).score(X_test, y_test))
        seconds = time.perf_counter() - start
        print(f"{rows:6} rows, {name:17} R2 {scores[name][-1]:.3f}, {seconds:4.1f} s")
        if name == "EGOPRegressor":
            plan = model.rule_.notes_[-1]
print(plan)

# %%
# Trees cut one column at a time and need many rows to follow directions that columns share. Where
# the answer depends on steps of single columns it is the other way round.

figure, ax = plt.subplots(layout="constrained")
for (name, found), mark in zip(scores.items(), "os", strict=True):
    ax.semilogx(sizes, found, f"{mark}-", label=name)
ax.set(xlabel="rows", ylabel="R2 of new rows", ylim=(0, 1.02))
ax.set_xticks(sizes, [f"{rows:,}" for rows in sizes])
ax.minorticks_off()
ax.legend(frameon=False, loc="lower right")
plt.show()
