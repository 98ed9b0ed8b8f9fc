"""How training rows answer for new ones under a metric: small objects that fit and vote.

A predictor takes one by name or as an object: ``EJOPClassifier("knn")`` or
``EJOPClassifier(KNeighborsRule(n_neighbors=5))``. The same objects answer on one machine and on a
cluster, where the neighbours found in each block of rows are merged before they vote.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from ejop.rules._kernel_ridge import RidgeRule
from ejop.rules._machines import Regression, choose
from ejop.rules._rule import Rule
from ejop.rules._voting import NEIGHBORS, RADII, KNeighborsRule, NeighborsRule, RadiusRule

__all__ = [
    "NEIGHBORS",
    "RADII",
    "RULES",
    "KNeighborsRule",
    "NeighborsRule",
    "RadiusRule",
    "Regression",
    "RidgeRule",
    "Rule",
    "choose",
    "make_rule",
]

#: rules by name
RULES: dict[str, type[Rule]] = {"knn": KNeighborsRule, "hnn": RadiusRule, "ridge": RidgeRule}


def make_rule(rule: Any) -> Rule:
    """An unfitted rule from its name, or a copy of the one that is given.

    Examples
    --------
    >>> from ejop.rules import KNeighborsRule, make_rule
    >>> make_rule("hnn")
    RadiusRule()
    >>> make_rule(KNeighborsRule(n_neighbors=5))
    KNeighborsRule(n_neighbors=5)
    """
    found = RULES[rule]() if isinstance(rule, str) else clone(rule)
    found._validate_params()
    return found
