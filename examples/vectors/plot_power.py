"""
Power of the eigenvalues
========================

Power 0 forgets the eigenvalues, 1 is the paper. What lies between is often better, and held-out
rows must choose: rows the metric has learned from look better separated than new ones will be, and
ask for too much power.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from ejop import EJOP
from ejop.metric import components

X, y = load_digits(return_X_y=True)
powers = [0, 0.125, 0.25, 0.5, 0.75, 1, 1.5]
curves = {"learned rows, each without itself": [], "rows not seen": []}

# %%
# One fit serves every power.

for seed in range(3):
    A, B, a, b = train_test_split(X / 16, y, train_size=600, random_state=seed, stratify=y)
    est = EJOP("ridge", random_state=seed).fit(A, a)
    seen, new = [], []
    for power in powers:
        L = components(est.eigenvalues_, est.eigenvectors_, power=power)
        knn = KNeighborsClassifier(1).fit(A @ L.T, a)
        own = knn.kneighbors(return_distance=False)[:, 0]  # a row is not its own neighbour
        seen.append(100 * np.mean(a[own] != a))
        new.append(100 * (1 - knn.score(B @ L.T, b)))
    curves["learned rows, each without itself"].append(seen)
    curves["rows not seen"].append(new)

# %%
figure, ax = plt.subplots(figsize=(6.2, 4), layout="constrained")
for (name, runs), colour, marker in zip(curves.items(), ("0.6", "#0072B2"), "os", strict=True):
    ax.plot(powers, np.mean(runs, axis=0), marker=marker, color=colour, label=name)
ax.set(xlabel="power", ylabel="error of the nearest row, %", ylim=(0, None))
ax.set_title("Digits, 600 rows to learn from, mean of three splits")
ax.legend(frameon=False)
ax.grid(alpha=0.25)
plt.show()
