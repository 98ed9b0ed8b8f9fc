"""
How a learner converges
=======================

LMNN descends on an objective. From EJOP it starts lower than from the identity.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from ejop.learners import LMNN
from ejop.plots import ConvergenceDisplay

X, y = load_digits(return_X_y=True)
A, B, a, b = train_test_split(X / 16, y, test_size=0.5, random_state=0, stratify=y)
learners = {
    f"from {init}": LMNN(init=init, random_state=0).fit(A, a) for init in ("identity", "ejop")
}

# %%
# Target neighbours and impostors are looked up again every ten iterations, which shows as small
# steps of the curves.

ConvergenceDisplay.from_estimator(learners, log=True)
plt.show()

# %%
# A lower objective is not always a lower error:

for name, learner in learners.items():
    score = KNeighborsClassifier(3).fit(learner.transform(A), a).score(learner.transform(B), b)
    ends = f"objective {learner.objective_[0]:.3g} to {learner.objective_[-1]:.3g}"
    print(f"{name:<14}{learner.n_iter_:4d} iterations, {ends}, error {100 * (1 - score):.2f} %")
