"""
A first table
=============

From a table to predictions, what matters, why this answer, and a picture of all rows: the code of
*Five minutes*, whole.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from ejop import EGOPRegressor
from ejop.plots import AnswerDisplay, ImportanceDisplay, ProjectionDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
model = EGOPRegressor(random_state=0).fit(X_train, y_train)
forest = RandomForestRegressor(300, random_state=0).fit(X_train, y_train)
ours, theirs = (each.score(X_test, y_test) for each in (model, forest))
print(f"R2 of new people {ours:.2f}, of a forest {theirs:.2f}")

# %%
# What matters, with its standard errors: they come from fits without a tenth of the people each.

ImportanceDisplay.from_estimator(model)
plt.show()

# %%
# Why this answer: from the average person, at the top, to this one.

AnswerDisplay.from_estimator(model, X_test, row=0, top=6)
plt.show()

# %%
# All new people on the two directions of largest spread, and on the two that change the answer.

ProjectionDisplay.from_estimator(model, X_test, y_test)
plt.show()
