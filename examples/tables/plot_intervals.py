"""
How sure is a prediction?
=========================

``predict_interval`` gives bounds that hold the truth of as many new rows as you ask, and
``predict_set`` the classes that may be the true one. Both come from rows that the model had not
seen when it predicted them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import train_test_split

from ejop import EGOPRegressor, EJOPClassifier

X, y = load_diabetes(return_X_y=True, scaled=False)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
model = EGOPRegressor(random_state=0).fit(X_train, y_train)
low, high = model.predict_interval(X_test, coverage=0.9).T
inside = (low <= y_test) & (y_test <= high)
print(f"asked for 90 %; {inside.mean():.0%} of {len(y_test)} new people lie between the bounds")

# %%
# People in the order of their predictions.

order = np.argsort(model.predict(X_test))
place = np.arange(len(order))
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.fill_between(place, low[order], high[order], color="#56B4E9", alpha=0.35, label="bounds")
for hit, colour, label in ((True, "#0072B2", "inside"), (False, "#D55E00", "outside")):
    chosen = inside[order] == hit
    ax.plot(place[chosen], y_test[order][chosen], "o", ms=4, color=colour, label=label)
ax.set(xlabel="people, by prediction", ylabel="disease a year later")
ax.legend(frameon=False, loc="upper left")
plt.show()

# %%
# Of classes: the digits whose sets hold more than one.

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X[:700], y[:700], test_size=0.4, random_state=0)
digits = EJOPClassifier(random_state=0).fit(X_train, y_train)
sets = digits.predict_set(X_test, coverage=0.99)
print(f"the sets hold {sets[np.arange(len(y_test)), y_test].mean():.1%} of the true digits")
unsure = np.argsort(-sets.sum(1), kind="stable")[:5]
figure, axes = plt.subplots(1, 5, figsize=(7, 2), layout="constrained")
for ax, row in zip(axes, unsure, strict=True):
    ax.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
    ax.set(xticks=[], yticks=[], title=" or ".join(map(str, np.flatnonzero(sets[row]))))
plt.show()
