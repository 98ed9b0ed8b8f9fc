"""
Bandwidth and step
==================

How wide f is smoothed and how far apart it is compared. The automatic choice leans to the wide
side, since a derivative needs a smoother f than a prediction does.
"""

import matplotlib.pyplot as plt
import numpy as np

from ejop import EJOP
from ejop.datasets import make_multi_index
from ejop.subspace import sin_theta

X, y, truth = make_multi_index(600, 10, random_state=0)
auto = EJOP(random_state=0).fit(X, y)
print(f"automatic bandwidth {auto.bandwidth_:.2f}, step {auto.step_:.2f}")

# %%
# The angle to the true directions, over bandwidths, with three steps:

widths = auto.bandwidth_ * 2.0 ** np.arange(-2.5, 1.6, 0.5)
steps = {"a tenth of the bandwidth": 0.1, "half of it (automatic)": 0.5, "twice": 2.0}


def angle(width, step):
    """Sine of the largest angle between the found plane and the true one."""
    est = EJOP(bandwidth=width, step=step * width).fit(X, y)
    return sin_theta(est.eigenvectors_[:, :2], truth.V)


figure, ax = plt.subplots(figsize=(6.2, 4), layout="constrained")
for (name, step), colour, marker in zip(
    steps.items(), ("#E69F00", "#0072B2", "#D55E00"), "o^s", strict=True
):
    ax.semilogx(widths, [angle(h, step) for h in widths], marker=marker, color=colour, label=name)
ax.axvline(auto.bandwidth_, color="0.4", ls=":", label="automatic bandwidth")
ticks = widths[::2]
ax.set_xticks(ticks, [f"{h:.2g}" for h in ticks])
ax.minorticks_off()
ax.set(xlabel="bandwidth", ylabel="sine of the largest angle", ylim=(0, 1))
ax.legend(title="step", frameon=False)
ax.grid(alpha=0.25)
plt.show()
