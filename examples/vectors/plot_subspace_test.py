"""
A test of how many directions matter
====================================

Four answers to one question: the gap of the spectrum, cross-validation, the bootstrap, and a
permutation test of "the directions beyond carry nothing".
"""

import matplotlib.pyplot as plt
import numpy as np

from ejop import EJOP
from ejop.datasets import make_multi_index
from ejop.subspace import sin_theta
from ejop.theory import direction_test, subspace_test

# %%
# Three classes that depend on two directions of six features.

X, y, truth = make_multi_index(600, 6, n_directions=2, random_state=0)
found = subspace_test(X, y, n_bootstrap=20, n_permutations=39, random_state=0)
print("by the gap:", found.gap)
print("by cross-validation:", found.cv_dimension)
print("by the test:", found.test_dimension)

# %%
# Left: eigenvalues with bootstrap bands; full marks are directions that the test keeps. All
# eigenvalues are above zero, also those of directions that carry nothing: noise has slopes too, so
# the bands alone do not answer. Middle: the loss of a smoother on the first directions, on rows
# that did not choose them. Right: how much the subspace moves from one bootstrap sample to the
# next. Two directions are found again and again, a third is another one each time.

found.plot()
plt.show()

# %%
# The same as a table.

print(found.frame().round(3).to_string(index=False))

# %%
# A direction that was fixed beforehand can be tested by itself. Here the first true direction,
# and one that is orthogonal to both.

null = np.linalg.svd(truth.V)[0][:, 5]
test = direction_test(X, y, np.c_[truth.V[:, 0], null], n_permutations=39, random_state=0)
print("p-values:", test.p_values)

figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
for j, (words, colour) in enumerate((("a true direction", "#0072B2"), ("a null one", "#D55E00"))):
    ax.hist(test.permuted[:, j], bins=12, color=colour, alpha=0.4, label=f"{words}, shuffled")
    ax.axvline(test.statistics[j], color=colour, lw=2, label=f"{words}, as it is")
ax.set(xlabel="mean squared derivative along the direction", ylabel="permutations")
ax.legend(frameon=False)
plt.show()

# %%
# The plane that was found, against the true one:

plane = EJOP(random_state=0).fit(X, y).eigenvectors_[:, : found.test_dimension]
print("sine of the angle:", round(sin_theta(plane, truth.V), 3))
