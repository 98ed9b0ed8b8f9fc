"""
Finding the directions behind labels
====================================

If the class probabilities depend on the features through a few directions alone, the leading
eigenvectors of the matrix span these directions. The more rows, the better.
"""

import matplotlib.pyplot as plt
import numpy as np

from ejop import EJOP
from ejop.datasets import make_multi_index
from ejop.subspace import sin_theta

# %%
# Two directions among ten features. ``truth.V`` holds them and ``truth.metric()`` the true matrix.

sizes = [80, 160, 320, 640]
functions = {"kernel": "kernel smoother", "ridge": "kernel ridge"}
angles = {name: np.empty((3, len(sizes))) for name in functions}
for seed in range(3):
    for k, n in enumerate(sizes):
        X, y, truth = make_multi_index(n, 10, n_directions=2, random_state=seed)
        for name in functions:
            est = EJOP(name, random_state=0).fit(X, y)
            angles[name][seed, k] = sin_theta(est.eigenvectors_[:, :2], truth.V)

# %%
# The sine of the largest angle between the found and the true plane, for three draws:

figure, ax = plt.subplots(figsize=(6.2, 4), layout="constrained")
for (name, words), colour, marker in zip(
    functions.items(), ("#0072B2", "#D55E00"), "os", strict=True
):
    ax.loglog(sizes, angles[name].mean(0), marker=marker, color=colour, label=words)
    ax.loglog(sizes, angles[name].T, ".", color=colour, alpha=0.4)
ax.set(xlabel="rows", ylabel="sine of the largest angle", title="Recovery of two directions of ten")
ax.set_xticks(sizes, sizes)
ax.set_yticks([0.1, 0.2, 0.4, 0.8], [0.1, 0.2, 0.4, 0.8])
ax.minorticks_off()
ax.grid(alpha=0.25)
ax.legend(frameon=False)
plt.show()

# %%
# The spectrum shows that there are two. The true matrix has rank two. The estimate is too small in
# these two, since smoothing flattens f, and not quite zero in the others.

X, y, truth = make_multi_index(640, 10, n_directions=2, random_state=0)
est = EJOP("ridge", softmax=False, random_state=0).fit(X, y)
print("estimate:", est.eigenvalues_[:5].round(3))
print("truth:   ", np.linalg.eigvalsh(truth.metric())[::-1][:5].clip(0).round(3))
