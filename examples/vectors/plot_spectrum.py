"""
How many directions matter
==========================

The eigenvalues of the matrix say how much the class probabilities change along each direction.
For images a direction is an image too.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from ejop import EJOP
from ejop.metric import rank
from ejop.plots import MetricDisplay, SpectrumDisplay

X, y = load_digits(return_X_y=True)
ejop = EJOP("ridge", random_state=0).fit(X[::2] / 16, y[::2])

# %%
# The spectrum
# ------------
# The eigenvalues fall quickly: a part of the 64 directions holds most of the trace. The band is one
# standard error of the mean over rows.

spectrum = SpectrumDisplay.from_estimator(ejop)
plt.show()

# %%
# The table behind the picture:

spectrum.frame().head(10).round(4)

# %%
# What they look like
# -------------------
# First the diagonal, the importance of each pixel, then the leading directions.

MetricDisplay.from_estimator(ejop, image_shape=(8, 8))
plt.show()

# %%
# Keeping directions
# ------------------
# ``n_components`` may be a count, a share of the trace, ``"gap"`` or None. Directions kept here:

for keep in (5, 0.9, "gap", None):
    print(f"n_components={keep!r}: {rank(ejop.eigenvalues_, keep)}")
