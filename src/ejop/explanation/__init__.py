"""What an answer depends on: how far it changes with each column."""

from ejop.explanation._changes import ROWS, ColumnChanges, column_changes
from ejop.explanation._directions import Directions, Interactions, strengths_of
from ejop.explanation._importances import FEWEST, GROUPS, Importances, deleted_groups
from ejop.explanation._models import explain, importances
from ejop.explanation._result import Explanation, column_values, number_of, shown_rows
from ejop.explanation._walks import ORDERS, contributions, feature_shares

__all__ = [
    "FEWEST",
    "GROUPS",
    "ORDERS",
    "ROWS",
    "ColumnChanges",
    "Directions",
    "Explanation",
    "Importances",
    "Interactions",
    "column_changes",
    "column_values",
    "contributions",
    "deleted_groups",
    "explain",
    "feature_shares",
    "importances",
    "number_of",
    "shown_rows",
    "strengths_of",
]
