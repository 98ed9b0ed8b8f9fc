"""Everything of scikit-learn that it does not promise to keep: private names and message texts.

Nothing else in the library imports a private name of scikit-learn or reads its messages, so what
a new version moves is mended here. What has a public door (``sklearn.utils.validation``,
``sklearn.base``, ...) is imported from there, not from here. Parameters have none: an estimator
declares ``_parameter_constraints`` of the classes below, and ``BaseEstimator`` checks them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray
from sklearn.preprocessing._data import _handle_zeros_in_scale, _is_constant_feature
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_sample_weight, _check_y

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    #: frames between a fit and its caller: callbacks, and the limit of threads
    WRAPPERS = 2
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in without callbacks."""

    def with_callbacks(method):
        """Leave the method as it is."""
        return method

    WRAPPERS = 1

__all__ = [
    "WRAPPERS",
    "CallbackSupportMixin",
    "HasMethods",
    "Interval",
    "StrOptions",
    "begin_fit",
    "check_sample_weight",
    "check_y",
    "fit_context",
    "has_constant_columns",
    "scale_without_zeros",
    "table_library",
    "take_rows",
    "tells_of_missing_values",
    "with_callbacks",
    "without_warning_of_many_classes",
]

#: targets as an array: finite, of one column or several
check_y = _check_y
#: some rows of an array or a data frame, whatever library it is of
take_rows = _safe_indexing
#: which columns vary no more than rounding does
has_constant_columns = _is_constant_feature
#: scales to divide by, ones where a column is constant
scale_without_zeros = _handle_zeros_in_scale


def table_library(estimator: Any) -> str:
    """Library of the tables that an estimator gives: as ``set_output`` says, else pandas."""
    found = _get_output_config("transform", estimator)["dense"]
    return "polars" if found == "polars" else "pandas"


def check_sample_weight(sample_weight: Any, X: Any, **checks: Any) -> NDArray:
    """Weights of rows as an array: one each, numbers, not all of them zero."""
    weights = _check_sample_weight(sample_weight, X, **checks)
    if not weights.any():  # older versions let this pass
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weights


def begin_fit(estimator: Any, name: str, total: int | None) -> Any:
    """Start telling an estimator's callbacks of a fit; None where it has none."""
    if not getattr(estimator, "_skl_callbacks", None):
        return None
    return estimator._init_callback_context(task_name=name, max_subtasks=total)


def fit_context(estimator: Any) -> Any:
    """What ``begin_fit`` started for the fit that runs now, or None."""
    return getattr(estimator, "_callback_fit_ctx", None)


def tells_of_missing_values(error: ValueError) -> bool:
    """Whether an error of ``validate_data`` says that rows hold NaN."""
    return "Input X contains NaN" in str(error)


@contextmanager
def without_warning_of_many_classes() -> Iterator[None]:
    """Be silent where a part of the rows has nearly as many classes as rows."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater")
        yield
