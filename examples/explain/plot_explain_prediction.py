"""
Explaining a prediction
=======================

``explain`` says what each feature adds on the way from the average row to this one, in shares of
the votes. Base and contributions add up to the answer.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from ejop import EJOPClassifier
from ejop.rules import KNeighborsRule

X, y = load_wine(return_X_y=True, as_frame=True)
A, B, a, b = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
model = EJOPClassifier(KNeighborsRule(n_neighbors=9), random_state=0).fit(A, a)
print(f"accuracy on test rows: {model.score(B, b):.3f}")
print(model.best_params_)

# %%
# The test row that the neighbours are least sure of:

proba = model.predict_proba(B)
row = int(proba.max(1).argmin())
print("votes:", proba[row].round(2), "predicted:", model.predict(B)[row], "true:", b.iloc[row])

# %%
# What spoke for the predicted class (right) and what against it (left):

explanation = model.explain(B.iloc[[row]])
shares = explanation[0]
print(f"{explanation.base[0]:.2f} for the average row, {explanation.answer[0]:.2f} for this one")
order = np.argsort(-np.abs(shares))[:8][::-1]
figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
colours = np.where(shares[order] > 0, "#0072B2", "#D55E00")
ax.barh(X.columns[order], shares[order], color=colours)
ax.axvline(0, color="0.3", lw=1)
ax.set_xlabel("adds to the share of the votes")
ax.set_title(f"Test row {B.index[row]}, predicted class {model.predict(B)[row]}")
plt.show()

# %%
# Its neighbours under the learned metric, as rows of the training data:

distances, neighbours = model.kneighbors(B.iloc[[row]], n_neighbors=5)
print("classes:", a.iloc[neighbours[0]].tolist(), "distances:", distances[0].round(2))
