"""
A start for metric learners
===========================

Learners that optimise may begin where EJOP ends. On wine with columns of noise the start helps some
of them and not others.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

from ejop import EJOP
from ejop.learners import ITML, LMNN

X, y = load_wine(return_X_y=True)
X = np.c_[X, np.random.default_rng(0).normal(size=(len(X), 20))]


def learners(start):
    """Each learner from the identity and from a fitted EJOP."""
    nca = NeighborhoodComponentsAnalysis
    return {
        "LMNN": (LMNN(random_state=0), LMNN(init=start, random_state=0)),
        "ITML": (ITML(random_state=0), ITML(init=start, random_state=0)),
        "NCA": (nca(init="identity"), nca(init=start.components_)),
    }


# %%
# The same five random splits for all. The metric sees the training rows alone.

errors = {name: [] for name in ("Euclidean", "EJOP")}
for seed in range(5):
    A, B, a, b = train_test_split(X, y, test_size=0.4, random_state=seed, stratify=y)
    scaler = StandardScaler().fit(A)
    A, B = scaler.transform(A), scaler.transform(B)
    start = EJOP(random_state=0).fit(A, a)
    fitted = {"Euclidean": None, "EJOP": start}
    for name, pair in learners(start).items():
        for suffix, learner in zip(("", " from EJOP"), pair, strict=True):
            fitted[name + suffix] = learner.fit(A, a)
    for name, model in fitted.items():
        Za, Zb = (A, B) if model is None else (model.transform(A), model.transform(B))
        wrong = 100 * (1 - KNeighborsClassifier(5).fit(Za, a).score(Zb, b))
        errors.setdefault(name, []).append(wrong)
for name, row in errors.items():
    print(f"{name:<16}{np.mean(row):6.2f} % ± {np.std(row, ddof=1):.2f}")

# %%
figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
names = list(errors)
colours = ["#0072B2" if "EJOP" in name else "0.6" for name in names]
ax.barh(names, [np.mean(errors[n]) for n in names], color=colours)
for place, name in enumerate(names):
    ax.plot(errors[name], [place] * 5, "o", ms=3, color="black", alpha=0.6)
ax.invert_yaxis()
ax.set(xlabel="error of 5-NN, %: mean and five splits", title="Wine with 20 columns of noise")
plt.show()
