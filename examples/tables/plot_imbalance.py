"""
When one class is rare
======================

One row in twenty is of the class that counts. Accuracy then says little: who never names it is
right on 95 %. Weights make the model find more of it, at the price of false alarms, and the
probabilities let you choose the price yourself.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import PrecisionRecallDisplay, precision_score, recall_score
from sklearn.model_selection import train_test_split

from ejop import EJOPClassifier
from ejop.rules import RidgeRule

X, y = make_classification(1200, 8, n_informative=4, weights=[0.95], flip_y=0.02, random_state=1)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
rule = RidgeRule(scoring="roc_auc")  # candidates are ranked by the order of the rows
models = {
    name: EJOPClassifier(rule, class_weight=weight, random_state=0).fit(X_train, y_train)
    for name, weight in {"as they are": None, "balanced": "balanced"}.items()
}
print(f"{np.mean(y_test):.1%} of the rows are of the rare class")
for name, model in models.items():
    named = model.predict(X_test)
    print(
        f"weights {name:12} finds {recall_score(y_test, named):4.0%} of them; "
        f"{precision_score(y_test, named):4.0%} of those it names are right"
    )

# %%
# The same model at every threshold of its probability: how many of the rare rows are found, and
# how many of those that are named are right.

figure, ax = plt.subplots(layout="constrained")
for colour, (name, model) in zip(("#0072B2", "#D55E00"), models.items(), strict=True):
    PrecisionRecallDisplay.from_estimator(
        model, X_test, y_test, name=f"weights {name}", ax=ax, curve_kwargs={"color": colour}
    )
ax.set(xlabel="share of the rare rows that are found", ylabel="share of the named that are right")
ax.legend(loc="lower left", frameon=False)
plt.show()
