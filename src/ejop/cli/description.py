"""What a model file says of itself, as plain values, and whether it is whole."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ejop import __version__
from ejop.cli.reading import ReadOptions
from ejop.cli.training import TrainingTable

#: raised when one version of ejop cannot read what another writes; 1 was that of ejop 0.1
FORMAT = 4
KINDS = ("number", "grade", "flag", "category", "date", "presence")


def describe(training: TrainingTable, preparer: Any) -> dict[str, Any]:
    """What a model file says of itself."""
    import sklearn

    about: dict[str, Any] = {
        "format": FORMAT,
        "ejop": __version__,
        "scikit-learn": sklearn.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": training.source,
        "target": training.target,
        "task": training.task,
        "id": training.id,
        "rows": len(training.y),
        "columns": in_plain_values(preparer.columns_),
        "skipped": [asdict(column) for column in preparer.skipped_],
        "missing": training.missing,
        "reading": asdict(training.reading),
    }
    if training.task == "classification":
        classes, counts = np.unique(training.y, return_counts=True)
        about["classes"] = dict(zip(map(str, classes), counts.tolist(), strict=True))
    else:
        about["range"] = [float(training.y.min()), float(training.y.max())]
    return about


def in_plain_values(columns: Iterable[Any]) -> list[dict[str, Any]]:
    """Columns as a description has them."""
    return [
        {
            "name": column.name,
            "kind": column.kind,
            "missing": column.missing,
            "levels": [*getattr(column, "levels", []), *getattr(column, "rare", [])],
        }
        for column in columns
    ]


def wrong_parts(about: dict[str, Any]) -> list[str]:
    """Parts of a description that are missing or not what they should be.

    Examples
    --------
    >>> from ejop.cli.description import wrong_parts
    >>> wrong_parts({"target": 3})[:2]
    ['target', 'source']
    """
    wrong = [name for name, right in _PARTS.items() if not right(about.get(name))]
    if "task" in wrong:
        return wrong
    if about["task"] == "classification":
        counts = about.get("classes")
        fine = isinstance(counts, dict) and all(_is_count(n) for n in counts.values())
        return wrong if fine else [*wrong, "classes"]
    ends = about.get("range")
    fine = isinstance(ends, list) and len(ends) == 2 and all(type(x) in (int, float) for x in ends)
    return wrong if fine else [*wrong, "range"]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_column(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"name", "kind", "missing", "levels"}
        and _is_text(value["name"])
        and value["kind"] in KINDS
        and _is_count(value["missing"])
        and _is_texts(value["levels"])
    )


def _is_skipped(value: Any) -> bool:
    return isinstance(value, dict) and _is_text(value.get("name")) and _is_text(value.get("why"))


def _is_reading(value: Any) -> bool:
    try:
        return isinstance(value, dict) and asdict(ReadOptions(**value)) == value
    except (TypeError, ValueError, AttributeError):
        return False


#: what a description must have, and how each part is recognised
_PARTS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        ("target", "source", "created", "ejop", "scikit-learn", "python", "digest"), _is_text
    ),
    "task": lambda value: value in ("classification", "regression"),
    "id": lambda value: value is None or _is_text(value),
    "rows": _is_count,
    "columns": lambda value: isinstance(value, list) and all(map(_is_column, value)),
    "skipped": lambda value: isinstance(value, list) and all(map(_is_skipped, value)),
    "missing": _is_texts,
    "reading": _is_reading,
}
