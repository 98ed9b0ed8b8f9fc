"""Independent streams of random numbers from one ``random_state``.

Rows that are drawn for different purposes with one seed would coincide: the query rows of a mean
would be the very centres that f was solved with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

#: what rows are drawn for
QUERIES, CENTERS, GROUPS = 1, 2, 3


def stream_of(random_state: Any, purpose: int) -> int:
    """A seed for one purpose: the same for the same number, another for another purpose.

    Examples
    --------
    >>> from ejop.seeds import CENTERS, QUERIES, stream_of
    >>> stream_of(0, QUERIES) == stream_of(0, QUERIES)
    True
    >>> stream_of(0, QUERIES) == stream_of(0, CENTERS)
    False
    """
    if isinstance(random_state, int | np.integer):
        entropy = np.random.SeedSequence([int(random_state), purpose])
        return int(entropy.generate_state(1)[0])
    return int(check_random_state(random_state).randint(2**31 - 1))
