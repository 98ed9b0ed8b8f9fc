"""Whether a target is a class or a number, from its values."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import NDArray

#: whole numbers with at most so many values are classes
MAX_CLASS_NUMBERS = 30


def few_for(n_values: int, n_rows: int) -> bool:
    """Whether so few different whole numbers are classes: at most 30, and two rows of each."""
    return n_values <= MAX_CLASS_NUMBERS and 2 * n_values <= n_rows


def are_classes(values: NDArray) -> bool:
    """Whether targets are classes: text and flags are, and whole numbers of few values.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.columns import are_classes
    >>> are_classes(np.array(["a", "b"])), are_classes(np.arange(4) % 2), are_classes(np.arange(90))
    (True, True, False)
    """
    found = values.tolist()
    if not all(isinstance(v, Real) and not isinstance(v, bool) for v in found):
        return True
    numbers = np.array(found, dtype=np.float64)
    whole = bool((numbers == np.round(numbers)).all())
    return whole and few_for(len(np.unique(numbers)), len(numbers))
