"""What an answer depends on: how far it changes with each column."""

from ejop.explain._changes import ROWS, ColumnChanges, column_changes

__all__ = ["ROWS", "ColumnChanges", "column_changes"]
