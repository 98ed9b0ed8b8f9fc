"""
Columns that say nothing
========================

Plain neighbours get lost when columns of noise are added to the four of iris. The learned metric
gives these columns little weight.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ejop import EJOP

X, y = load_iris(return_X_y=True)
noise = np.random.default_rng(0).normal(size=(len(X), 32))
counts = [0, 4, 8, 16, 32]
models = {
    "plain 5-NN": make_pipeline(StandardScaler(), KNeighborsClassifier()),
    "5-NN after EJOP": make_pipeline(StandardScaler(), EJOP(), KNeighborsClassifier()),
}

# %%
# The metric is learned inside the pipeline, so each fold learns it from its own training rows.

errors = {
    name: [100 * (1 - cross_val_score(model, np.c_[X, noise[:, :k]], y).mean()) for k in counts]
    for name, model in models.items()
}
for name, row in errors.items():
    print(f"{name:<16}", *(f"{error:6.1f} %" for error in row))

# %%
figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for (name, row), colour, marker in zip(errors.items(), ("#D55E00", "#0072B2"), "os", strict=True):
    ax.plot(counts, row, marker=marker, color=colour, label=name)
ax.set(xlabel="columns of noise", ylabel="error in five folds, %", ylim=(0, None))
ax.set_title("Iris with columns of noise")
ax.legend(frameon=False)
ax.grid(alpha=0.25)
plt.show()
