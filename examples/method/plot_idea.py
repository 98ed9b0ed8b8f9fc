"""
The idea in two features
========================

Labels that depend on one direction of two features. The Jacobian of the class probabilities points
along that direction wherever the answer changes, and the mean of its outer products is the metric.
"""

import matplotlib.pyplot as plt
import numpy as np

from ejop import EJOP

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(600, 2))
along = X @ [0.8, 0.6]  # the only direction that matters
y = (rng.uniform(size=len(X)) < 1 / (1 + np.exp(-4 * along))).astype(int)
ejop = EJOP().fit(X, y)

# %%
# Where the answer changes
# ------------------------
# Arrows are the derivatives of the probability of class 1 at some rows. They are long at the border
# of the classes, short elsewhere, and all point nearly the same way.

rows = X[:150]
J = ejop.jacobian(rows)[:, :, 1]
figure, ax = plt.subplots(figsize=(6, 4.6), layout="constrained")
for label, colour, marker in ((0, "#0072B2", "o"), (1, "#E69F00", "s")):
    ax.scatter(*X[y == label].T, s=12, color=colour, marker=marker, alpha=0.4, label=label)
ax.quiver(*rows.T, *J.T, angles="xy", scale=3, width=0.004)
ax.set(xlabel="first feature", ylabel="second feature", aspect="equal")
ax.legend(title="class", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
plt.show()

# %%
# The matrix
# ----------
# The mean outer product of these arrows has one large eigenvalue. Its eigenvector is the direction
# that the labels were made from, up to noise.

print("M =", ejop.outer_product_.round(4).tolist())
print("eigenvalues:", ejop.eigenvalues_.round(4))
print("first eigenvector:", ejop.eigenvectors_[:, 0].round(2), "the truth: [0.8 0.6]")

# %%
# The neighbours
# --------------
# Under the learned metric a ball is an ellipse: short along the direction that changes the answer,
# long across it. The forty nearest rows then lie along the border, and their vote is nearer to the
# true probability.

query = np.array([0.3, 0.0])
print(f"true probability of class 1: {1 / (1 + np.exp(-4 * query @ [0.8, 0.6])):.0%}")
figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained", sharey=True)
titles = ("Before: plain distance", "After: learned distance")
for ax, L, title in zip(axes, (np.eye(2), ejop.components_), titles, strict=True):
    near = np.argsort(np.linalg.norm((X - query) @ L.T, axis=1))[:40]
    share = np.mean(y[near] == 1)
    ax.scatter(*X.T, s=8, color="0.8")
    for label, colour, marker in ((0, "#0072B2", "o"), (1, "#E69F00", "s")):
        ax.scatter(*X[near][y[near] == label].T, s=26, color=colour, marker=marker, label=label)
    ax.scatter(*query, s=160, color="black", marker="*", zorder=3, edgecolor="white")
    across = np.array([-0.6, 0.8])
    ax.plot(*np.outer([-3, 3], across).T, color="0.4", ls=":", lw=1)
    ax.set(title=f"{title}\n{share:.0%} of the neighbours are of class 1")
    ax.set(xlim=(-2, 2), ylim=(-2, 2), aspect="equal", xlabel="first feature")
axes[0].set_ylabel("second feature")
axes[1].legend(title="class", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
plt.show()
