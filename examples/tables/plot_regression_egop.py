"""
Real targets
============

For regression the matrix is the expected gradient outer product. Diabetes has ten columns and a
target that few directions explain.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ejop import EGOP, EGOPRegressor
from ejop.plots import ImportanceDisplay, ProjectionDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True)
A, B, a, b = train_test_split(X, y, test_size=0.4, random_state=0)
scale = StandardScaler().set_output(transform="pandas")
egop = make_pipeline(scale, EGOP("ridge", random_state=0)).fit(A, a)

# %%
ImportanceDisplay.from_estimator(egop)
plt.show()

# %%
# Test rows, coloured by the target. Before, the colours mix; after, they run along the first
# direction.

ProjectionDisplay.from_estimator(egop, B, b)
plt.show()

# %%
# The regressor chooses a few kernel machines by rows they have not seen, and averages them:

model = EGOPRegressor(random_state=0).fit(A, a)
plain = make_pipeline(StandardScaler(), KNeighborsRegressor(15)).fit(A, a)
print(f"R² of plain 15-NN: {plain.score(B, b):.3f}, of EGOPRegressor: {model.score(B, b):.3f}")
print(model.rule_.in_words())

# %%
# ``diagonal=True`` keeps one weight for each column, which is known as gradient weights:

weights = EGOP("ridge", diagonal=True, random_state=0).fit(scale.transform(A), a)
dict(zip(X.columns, weights.feature_importances_.round(3).tolist(), strict=True))
