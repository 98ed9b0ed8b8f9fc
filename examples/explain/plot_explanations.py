"""
Why these answers
=================

``explain`` tells what each column adds to an answer, from the answer of the average row to that of
the row: base and contributions add up to the answer. Four pictures of it: one row, many rows, one
column, and pairs of columns.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes, load_wine
from sklearn.model_selection import train_test_split

from ejop import EGOPRegressor, EJOPClassifier
from ejop.plots import AnswerDisplay, ContributionDisplay, EffectDisplay, PairDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
A, B, a, b = train_test_split(X, y, test_size=0.4, random_state=0)
model = EGOPRegressor(random_state=0).fit(A, a)
print(f"R2 on test rows: {model.score(B, b):.3f}")

# %%
# One row, read from top to bottom: the largest contributions first, all small ones together.

AnswerDisplay.from_estimator(model, B, row=3, top=6)
plt.show()

# %%
# Many rows: a line a column, a point a row. Where the colours run from one side to the other, the
# column works in one direction.

ContributionDisplay.from_estimator(model, B)
plt.show()

# %%
# One column: its contribution against its value. The short lines are derivatives of the answer;
# where points of one value differ, the effect of the column depends on others.

EffectDisplay.from_estimator(model, B, column="bmi")
plt.show()

# %%
# Pairs of columns: 1 where the answer changes with both along one direction. That is so of any sum
# of lines, and says nothing of products.

display = PairDisplay.from_estimator(model)
plt.show()

# %%
# The same as a table:

display.frame().head(5).round(3)

# %%
# Of classes the predicted one is explained, or the one that ``output`` names.

X, y = load_wine(return_X_y=True, as_frame=True)
A, B, a, b = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
model = EJOPClassifier(random_state=0).fit(A, a)
AnswerDisplay.from_estimator(model, B, row=int(model.predict_proba(B).max(1).argmin()), top=6)
plt.show()
