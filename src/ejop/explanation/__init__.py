"""What an answer depends on: how far it changes with each column."""

from ejop.explanation._changes import ROWS, ColumnChanges, column_changes
from ejop.explanation._result import Explanation, number_of, shown_rows
from ejop.explanation._walks import ORDERS, contributions, feature_shares

__all__ = [
    "ORDERS",
    "ROWS",
    "ColumnChanges",
    "Explanation",
    "column_changes",
    "contributions",
    "feature_shares",
    "number_of",
    "shown_rows",
]
