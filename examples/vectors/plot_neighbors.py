"""
The neighbours of one row
=========================

What a metric is for: the rows that are near. Here are digits that plain neighbours get wrong.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ejop import EJOP
from ejop.plots import NeighborsDisplay

X, y = load_digits(return_X_y=True)
A, B, a, b = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
learned = make_pipeline(StandardScaler(), EJOP("ridge", power=0.5, random_state=0)).fit(A, a)

# %%
# Five neighbours of each test row, on the same scaling of the pixels, before and after:

scale = learned["standardscaler"]
before = KNeighborsClassifier(5).fit(scale.transform(A), a)
after = KNeighborsClassifier(5).fit(learned.transform(A), a)
right_before = before.predict(scale.transform(B)) == b
right_after = after.predict(learned.transform(B)) == b
print(f"errors before: {np.sum(~right_before)}, after: {np.sum(~right_after)} of {len(B)}")
print(f"mended: {np.sum(right_after & ~right_before)}")
print(f"broken: {np.sum(right_before & ~right_after)}")

# %%
# One that was mended. Frames are blue where the class agrees.

row = int(np.flatnonzero(right_after & ~right_before)[0])
query = {"query": B[row], "query_y": b[row]}
NeighborsDisplay.from_estimator(learned, A, a, **query, image_shape=(8, 8))
plt.show()

# %%
# Without ``image_shape`` the rows are drawn on the plane of the two leading directions.

NeighborsDisplay.from_estimator(learned, A, a, **query)
plt.show()
