"""What an explanation is: shares of columns that add up to an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ejop.arrays import to_host
from ejop.columns import is_table, open_table


@dataclass(frozen=True)
class Explanation:
    """Contributions of columns that add up: base + sum of the contributions = answer.

    It is an array where one is wanted: ``numpy.asarray(explanation)`` are the values, and
    ``explanation[0]`` those of the first row.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_columns) or (n_rows, n_outputs, n_columns)
        In the units of the answer: probabilities of classes, or the target's own.
    base : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Answer at the baseline.
    answer : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Answer at the row.
    names : list of str
        Of the columns.
    outputs : list
        What is explained: of each row the predicted class, or of all rows each output; empty for
        one real target.
    rows : ndarray of object, shape (n_rows, n_columns), or None
        Values of the columns, to show beside their contributions.
    library : {"pandas", "polars"}
        Of the tables; a predictor's is what ``set_output`` says.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.explanation import Explanation
    >>> found = Explanation(np.array([[0.3, -0.1]]), np.array([0.5]), np.array([0.7]), ["a", "b"])
    >>> found.error.round(12)
    array([0.])
    >>> found.frame()
       base    a    b  answer
    0   0.5  0.3 -0.1     0.7
    """

    values: NDArray
    base: NDArray
    answer: NDArray
    names: list[str]
    outputs: Sequence[Any] = ()
    rows: NDArray | None = None
    library: str = "pandas"

    @property
    def error(self) -> NDArray:
        """How far base and contributions are from the answer, (n_rows,) or (n_rows, n_outputs)."""
        return np.abs(self.base + self.values.sum(-1) - self.answer)

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the values."""
        return self.values.shape

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, item: Any) -> NDArray:
        return self.values[item]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        found = np.asarray(self.values, dtype=dtype)
        return found.copy() if copy and found is self.values else found

    def of_output(self, output: int) -> Explanation:
        """The explanation of one of several outputs."""
        if self.values.ndim == 2:
            raise ValueError("this explanation is of one output a row already.")
        return replace(
            self,
            values=self.values[:, output],
            base=self.base[:, output],
            answer=self.answer[:, output],
            outputs=[self.outputs[output]] * len(self) if len(self.outputs) else (),
        )

    def frame(self, library: str | None = None) -> Any:
        """A table with a row for each row, and for each of several outputs.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            That of the explanation by default.

        Returns
        -------
        frame : DataFrame
            Columns "output" (for classes and several targets), "base", those of the table, and
            "answer".
        """
        library = self.library if library is None else library
        if library not in ("pandas", "polars"):
            raise ValueError(f"`library`={library!r} must be 'pandas' or 'polars'.")
        n, c = len(self), self.values.shape[1] if self.values.ndim == 3 else 1
        columns: dict[str, Any] = {}
        if self.values.ndim == 3:
            columns["row"] = np.repeat(np.arange(n), c)
            columns["output"] = list(self.outputs) * n
        elif len(self.outputs):
            columns["output"] = list(self.outputs)
        columns["base"] = np.ravel(self.base)
        columns |= dict(zip(self.names, self.values.reshape(n * c, -1).T, strict=True))
        columns["answer"] = np.ravel(self.answer)
        if library == "polars":
            import polars

            return polars.DataFrame(columns)
        import pandas

        return pandas.DataFrame(columns)


def shown_rows(X: Any, explanation: Explanation, levels: bool) -> NDArray | None:
    """Values of the columns as they were passed, to show; None where features are explained, or
    where they are not one value a column."""
    return None if levels else column_values(X, explanation.names, len(explanation))


def column_values(X: Any, names: Sequence[str], n: int) -> NDArray | None:
    """Values of the named columns of a table, or of all columns of an array, (n, n_names).

    None where a table has no such column, and where an array has not as many.

    Examples
    --------
    >>> import pandas as pd
    >>> from ejop.explanation import column_values
    >>> column_values(pd.DataFrame({"a": [1], "b": ["x"]}), ["b"], 1)
    array([['x']], dtype=object)
    """
    if sparse.issparse(X):
        return None
    if is_table(X):
        known, series = open_table(X)
        places = {name: number for number, name in enumerate(known)}
        if any(name not in places for name in names):
            return None
        columns = [series(places[name]).to_list() for name in names]
        return np.array([*zip(*columns, strict=True)], dtype=object).reshape(n, -1)
    rows = np.asarray(to_host(X))
    return rows.astype(object) if rows.shape == (n, len(names)) else None


def number_of(output: Any, names: Sequence[Any]) -> int:
    """Place of an output among all, or an error that lists them."""
    for place, name in enumerate(names):
        if name == output:
            return place
    shown = ", ".join(map(repr, names[:12]))
    raise ValueError(f"`output`={output!r} is none of the outputs: {shown}; or use 'all'.")
