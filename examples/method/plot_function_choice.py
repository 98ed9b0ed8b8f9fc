"""
Which estimate of f
===================

The matrix is made of derivatives of an estimate of the class probabilities. Five estimates, on the
same rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier

from ejop import EJOP
from ejop.datasets import make_multi_index
from ejop.subspace import sin_theta

X, y, truth = make_multi_index(800, 8, n_directions=2, random_state=0)
functions = {
    "kernel smoother": "kernel",
    "mean over a ball": "ball",
    "15 nearest rows": "knn",
    "kernel ridge": "ridge",
    "random forest": RandomForestClassifier(50, min_samples_leaf=5, random_state=0, n_jobs=1),
}
fitted = {name: EJOP(f, random_state=0).fit(X, y) for name, f in functions.items()}

# %%
# Each plan says what ran:

for name, est in fitted.items():
    print(f"{name}: {est.plan_.method}, step {np.mean(est.step_):.2f}")

# %%
# Spectra, as shares of the trace. Two eigenvalues should stand out, since two directions matter.

figure, ax = plt.subplots(figsize=(6.6, 4), layout="constrained")
colours = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7")
for (name, est), colour, marker in zip(fitted.items(), colours, "os^Dv", strict=True):
    share = 100 * est.eigenvalues_ / est.eigenvalues_.sum()
    angle = sin_theta(est.eigenvectors_[:, :2], truth.V)
    label = f"{name}, sine of angle {angle:.2f}"
    ax.semilogy(np.arange(1, 9), share, marker=marker, color=colour, label=label)
ax.set(xlabel="direction", ylabel="share of the trace, %", title="Two directions of eight")
ax.legend(frameon=False)
ax.grid(alpha=0.25)
plt.show()
