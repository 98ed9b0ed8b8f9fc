"""
Averaging over some of the rows
===============================

The matrix is a mean over query rows, so a random part of them estimates it. Its standard error says
how well, and ``n_queries="auto"`` stops when that is small enough.
"""

import matplotlib.pyplot as plt
import numpy as np

from ejop import EJOP
from ejop.datasets import make_multi_index

X, y, _ = make_multi_index(4000, 10, random_state=0)
every = EJOP(bandwidth=1.5).fit(X, y)
norm = np.linalg.norm(every.outer_product_)

# %%
# Told and true error of the mean over m rows, relative in Frobenius norm:

counts = [64, 128, 256, 512, 1024, 2048]
told, true = [], []
for m in counts:
    est = EJOP(bandwidth=1.5, n_queries=m, random_state=1).fit(X, y)
    told.append(100 * np.linalg.norm(est.outer_product_stderr_) / norm)
    true.append(100 * np.linalg.norm(est.outer_product_ - every.outer_product_) / norm)

figure, ax = plt.subplots(figsize=(6.2, 4), layout="constrained")
ax.loglog(counts, told, "o-", color="#0072B2", label="told: outer_product_stderr_")
ax.loglog(counts, true, "s--", color="#D55E00", label="true: against all rows")
ax.axhline(5, color="0.4", ls=":", label="n_queries=0.05")
ax.set(xlabel="query rows", ylabel="error of the matrix, %", title="Mean over some of 4000 rows")
ax.set_xticks(counts, counts)
ax.set_yticks([1, 2, 5, 10], [1, 2, 5, 10])
ax.minorticks_off()
ax.legend(frameon=False)
ax.grid(alpha=0.25)
plt.show()

# %%
# The automatic choice, as its plan tells it. A notebook shows the plan below the diagram of the
# estimator; elsewhere ``print(est.plan_)`` does.

EJOP(bandwidth=1.5, n_queries="auto", random_state=0).fit(X, y)
