"""SQL for PostgreSQL with pgvector: the map as a table, functions on it, a column and its index."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop import __version__
from ejop.export._files import Target, check_target, writing
from ejop.export._map import LinearMap, linear_map

#: what stores the vectors
FORMS = ("column", "query")
#: numbers of a vector that an index takes, and that a column takes
INDEXED = {"vector": 2000, "halfvec": 4000}
MOST = 16_000
#: bytes of a name in PostgreSQL
NAME_BYTES = 63


def to_pgvector(
    estimator: Any,
    path: Target = None,
    *,
    table: str,
    column: str,
    name: str = "ejop",
    form: str = "column",
    n_components: int | None = None,
    float16: bool = False,
    vectors: str = "columns",
) -> str:
    """A script of SQL that maps the vectors of a table inside PostgreSQL.

    The map is a table ``<name>_map``, a row for each direction, and ``<name>_map(vector)`` is the
    function that maps; the script may be run again, with another map too.

    ``form="column"`` adds a column ``<column>_<name>`` of mapped vectors, a trigger that keeps it
    right, and an HNSW index. ``form="query"`` leaves the table alone:
    ``ORDER BY embedding <#> ejop_query(x)`` ranks by the inner product of mapped vectors, with the
    index that is there, and ``ejop_distance(x, embedding)`` puts what it found in the order of the
    learned distance.

    Parameters
    ----------
    estimator : fitted estimator
        See :func:`linear_map`.
    path : path, optional
        File to write, ``.sql``, for ``psql -f``.
    table, column : str
        Where the vectors are; ``table`` may name its schema: "shop.items".
    name : str, default="ejop"
        What the names of the map and its functions begin with.
    form : {"column", "query"}, default="column"
    n_components : int, optional
        Leading directions to keep; an index of pgvector takes 2000, of halfvec 4000.
    float16 : bool, default=False
        Mapped vectors as ``halfvec`` (pgvector 0.7 or later), half the bytes.
    vectors : {"columns", "scaled"}, default="columns"
        See :func:`linear_map`.

    Returns
    -------
    sql : str

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ejop import EJOP
    >>> from ejop.export import to_pgvector
    >>> estimator = EJOP().fit(*load_iris(return_X_y=True))
    >>> sql = to_pgvector(estimator, table="items", column="embedding")
    >>> print(sql[sql.index("-- ask") :])
    -- ask for the nearest rows of a vector x:
    --   SELECT * FROM "items" ORDER BY "embedding_ejop" <-> "ejop_map"(x) LIMIT 10;
    <BLANKLINE>
    """
    if form not in FORMS:
        raise ValueError(f"`form`={form!r} must be one of {', '.join(map(repr, FORMS))}.")
    if float16 and form == "query":
        raise ValueError("`float16`=True is for form='column': form='query' stores nothing.")
    check_target(path, (".sql",))
    script = _Script(linear_map(estimator, n_components, vectors=vectors), table, column, name)
    sql = script.with_column(float16) if form == "column" else script.with_query()
    with writing(path) as part:
        if part is not None:
            part.write_text(sql, encoding="utf-8")
    return sql


def quoted(name: str) -> str:
    """A name as SQL takes any name.

    Examples
    --------
    >>> from ejop.export._pgvector import quoted
    >>> quoted('it"em')
    '"it""em"'
    """
    if not name or "\0" in name or len(name.encode()) > NAME_BYTES:
        raise ValueError(f"{name!r} is no name of PostgreSQL: 1 to {NAME_BYTES} bytes are.")
    return '"' + name.replace('"', '""') + '"'


class _Script:
    """The parts of the script, and the names in it."""

    def __init__(self, found: LinearMap, table: str, column: str, name: str) -> None:
        self.map, self.table = found, ".".join(map(quoted, table.split(".")))
        self.column, self.mapped = quoted(column), quoted(f"{column}_{name}")
        self.rows, self.calls = quoted(f"{name}_map"), quoted(f"{name}_map")
        self.query, self.distance = quoted(f"{name}_query"), quoted(f"{name}_distance")
        self.trigger, self.index = quoted(f"{name}_keep"), quoted(f"{column}_{name}_index")
        if found.n_features > MOST:
            raise ValueError(
                f"the map takes vectors of {found.n_features} numbers, and pgvector holds {MOST}."
            )

    def with_column(self, float16: bool) -> str:
        kind, r = "halfvec" if float16 else "vector", self.map.n_components
        if r > INDEXED[kind]:
            raise ValueError(
                f"an index of pgvector takes {INDEXED[kind]} numbers of {kind} and the map gives "
                f"{r}; lower `n_components`{'' if float16 else ', or use float16=True'}."
            )
        new = f"NEW.{self.mapped} := {self.calls}(NEW.{self.column})::{kind}"
        ask = f"ORDER BY {self.mapped} <-> {self.calls}(x)" + ("::halfvec" * float16)
        return "\n".join(
            [
                *self._begin(),
                f"ALTER TABLE {self.table} DROP COLUMN IF EXISTS {self.mapped};",
                f"ALTER TABLE {self.table} ADD COLUMN {self.mapped} {kind}({r});",
                f"UPDATE {self.table} SET {self.mapped} = {self.calls}({self.column})::{kind};",
                f"CREATE OR REPLACE FUNCTION {self.trigger}() RETURNS trigger LANGUAGE plpgsql AS",
                f"$$ BEGIN {new}; RETURN NEW; END $$;",
                f"DROP TRIGGER IF EXISTS {self.trigger} ON {self.table};",
                f"CREATE TRIGGER {self.trigger} BEFORE INSERT OR UPDATE ON {self.table}",
                f"  FOR EACH ROW EXECUTE FUNCTION {self.trigger}();",
                f"CREATE INDEX {self.index} ON {self.table}",
                f"  USING hnsw ({self.mapped} {kind}_l2_ops);",
                "COMMIT;",
                "-- ask for the nearest rows of a vector x:",
                f"--   SELECT * FROM {self.table} {ask} LIMIT 10;",
                "",
            ]
        )

    def with_query(self) -> str:
        d = self.map.n_features
        near = f"ORDER BY {self.column} <#> {self.query}(x) LIMIT 200"
        return "\n".join(
            [
                *self._begin(),
                *self._call(self.query, "x vector", "vector"),
                "  SELECT sum(direction * array_fill(((shift - (x <#> direction)))::real,",
                f"    ARRAY[{d}])::vector) FROM {self.rows} $$;",
                *self._call(self.distance, "x vector, z vector", "float8"),
                "  SELECT sqrt(sum(((x <#> direction) - (z <#> direction)) ^ 2))",
                f"    FROM {self.rows} $$;",
                "COMMIT;",
                "-- ask for the nearest rows of a vector x, 10 of 200 that the index finds:",
                f"--   SELECT * FROM (SELECT * FROM {self.table} {near}) AS near",
                f"--     ORDER BY {self.distance}(x, {self.column}) LIMIT 10;",
                "",
            ]
        )

    def _begin(self) -> list[str]:
        """The map and the function that maps; the table of the map is made anew."""
        d, r = self.map.n_features, self.map.n_components
        return [
            f"-- the linear map of a metric that ejop {__version__} learned: {d} numbers to {r}",
            "BEGIN;",
            "CREATE EXTENSION IF NOT EXISTS vector;",
            f"CREATE TABLE IF NOT EXISTS {self.rows}",
            "  (component int PRIMARY KEY, direction vector NOT NULL, shift float8 NOT NULL);",
            f"TRUNCATE {self.rows};",
            f"INSERT INTO {self.rows} VALUES",
            ",\n".join(self._values()) + ";",
            *self._call(self.calls, "x vector", "vector"),
            "  SELECT array_agg(shift - (x <#> direction) ORDER BY component)::vector",
            f"    FROM {self.rows} HAVING count(x) > 0 $$;",
        ]

    def _values(self) -> list[str]:
        rows = zip(self.map.matrix, self.map.offset, strict=True)
        return [
            f"({j}, '[{_numbers(row)}]', {float(shift)!r})" for j, (row, shift) in enumerate(rows)
        ]

    def _call(self, name: str, takes: str, gives: str) -> list[str]:
        head = f"CREATE OR REPLACE FUNCTION {name}({takes}) RETURNS {gives}"
        return [f"{head} LANGUAGE sql STABLE PARALLEL SAFE AS $$"]


def _numbers(row: NDArray) -> str:
    """Numbers of float32, as few digits as tell them."""
    return ",".join(np.char.mod("%.9g", row.astype(np.float32)))
