"""Finished runs as lines of text, to be committed, compared and read back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

from ejop.experiments.store import ResultsUnusable, Run


def to_lines(runs: Iterable[Run]) -> str:
    """A line of JSON for each run; objectives are kept of the first seed alone, as pages show.

    Examples
    --------
    >>> from ejop.experiments import Run
    >>> from ejop.experiments.committed import to_lines
    >>> to_lines([Run("wine", "knn", 0, 1.0, 0.1, 0.1, None)])
    '{"dataset": "wine", "method": "knn", "seed": 0, "error": 1.0, ...}\\n'
    """
    ordered = sorted(runs, key=lambda run: run.key)
    seen: set[tuple[str, str]] = set()
    lines = []
    for run in ordered:
        first = (run.dataset, run.method) not in seen
        seen.add((run.dataset, run.method))
        lines.append(json.dumps(asdict(run if first else replace(run, objective=[]))) + "\n")
    return "".join(lines)


def read_lines(path: Path) -> list[Run]:
    """The runs of a file that :func:`to_lines` made."""
    try:
        text = path.read_text(encoding="utf-8")
        return [Run(**json.loads(line)) for line in text.splitlines() if line.strip()]
    except (TypeError, ValueError) as error:
        raise ResultsUnusable(
            f"{path} holds no runs ({error}); name a .jsonl file that `ejop reproduce --out` wrote."
        ) from error
