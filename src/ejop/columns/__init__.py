"""Tables as people have them, made rows of numbers that know the column they came from."""

from ejop.columns._encoders import Column, Skipped
from ejop.columns._preparer import ColumnPreparer
from ejop.columns._sparse import SparseReducer
from ejop.columns._tables import is_table, read_column, require_numbers

__all__ = [
    "Column",
    "ColumnPreparer",
    "Skipped",
    "SparseReducer",
    "is_table",
    "read_column",
    "require_numbers",
]
