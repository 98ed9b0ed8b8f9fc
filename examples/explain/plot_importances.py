"""
Which features matter
=====================

The diagonal of the matrix is the mean squared derivative of the class probabilities along each
feature. Times the variance of the feature it is an importance free of units, and it can be told
apart by class.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ejop import EJOP
from ejop.plots import ImportanceDisplay

X, y = load_wine(return_X_y=True, as_frame=True)
scale = StandardScaler().set_output(transform="pandas")
model = make_pipeline(scale, EJOP()).fit(X, y)

# %%
# Columns are scaled first, since the distances between rows depend on their units. The bars have
# the standard errors of the mean over rows.

ImportanceDisplay.from_estimator(model)
plt.show()

# %%
# By class: the shares of a row add up to its bar.

display = ImportanceDisplay.from_estimator(model, by_class=True)
plt.show()

# %%
# The same as a table:

display.frame().head(5).round(3)

# %%
# Correlated columns share an importance between them. The matrix shows that off its
# diagonal, the importances do not.
