"""Tables as people have them, made rows of numbers that know the column they came from."""

from ejop.columns._batches import PreparedRows, prepare_batches
from ejop.columns._encoders import (
    CategoryColumn,
    Column,
    DateColumn,
    FlagColumn,
    GradeColumn,
    NumberColumn,
    PresenceColumn,
    Skipped,
)
from ejop.columns._parsing import MISSING_WORDS, DateFormat, NumberFormat, number_format
from ejop.columns._preparer import TOLD, ColumnPreparer
from ejop.columns._sparse import SparseReducer
from ejop.columns._tables import is_table, open_table, read_column, require_numbers
from ejop.columns._targets import are_classes, few_for

__all__ = [
    "MISSING_WORDS",
    "TOLD",
    "CategoryColumn",
    "Column",
    "ColumnPreparer",
    "DateColumn",
    "DateFormat",
    "FlagColumn",
    "GradeColumn",
    "NumberColumn",
    "NumberFormat",
    "PreparedRows",
    "PresenceColumn",
    "Skipped",
    "SparseReducer",
    "are_classes",
    "few_for",
    "is_table",
    "number_format",
    "open_table",
    "prepare_batches",
    "read_column",
    "require_numbers",
]
