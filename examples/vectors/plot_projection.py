"""
Rows on the leading directions
==============================

Principal components show where rows vary; the leading directions of the matrix show where the
answer does. Rows that the metric has not seen tell most.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ejop import EJOP
from ejop.plots import ProjectionDisplay

# %%
# Digits
# ------
# Half of the rows are learned from, the other half is drawn.

X, y = load_digits(return_X_y=True)
A, B, a, b = train_test_split(X / 16, y, test_size=0.5, random_state=0, stratify=y)
ProjectionDisplay.from_estimator(EJOP("ridge", random_state=0).fit(A, a), B, b)
plt.show()

# %%
# Breast cancer
# -------------
# Thirty columns of different units, so they are scaled. One direction decides nearly alone.

data = load_breast_cancer()
X, y = data.data, data.target_names[data.target]
A, B, a, b = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
model = make_pipeline(StandardScaler(), EJOP()).fit(A, a)
ProjectionDisplay.from_estimator(model, B, b)
plt.show()

# %%
# With ``n_components=2`` the map itself has two rows, and ``transform`` gives what is drawn:

make_pipeline(StandardScaler(), EJOP(n_components=2)).fit(A, a).transform(B[:3]).round(2)
