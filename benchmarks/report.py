"""The table, the machine, the versions and the file of results."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

import ejop
from benchmarks.common import ROOT, Row

RESULTS = Path(__file__).resolve().parent / "results"
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "joblib", "threadpoolctl")
HEADS = ("benchmark", "size", "ours", "peer or limit", "ratio", "goal", "", "peak memory", "plan")
VERDICTS = {True: "met", False: "MISSED", None: "not judged"}


# the table ----------------------------------------------------------------------------------


def table(rows: list[Row]) -> str:
    """Aligned columns, one line a row, remarks below."""
    cells = [[*HEADS, "what"]] + [[*_cells(row), row.what] for row in rows]
    widths = [max(len(line[k]) for line in cells) for k in range(len(HEADS))]
    lines = []
    for line in cells:
        padded = [cell.ljust(w) for cell, w in zip(line, widths, strict=False)]
        lines.append("  ".join([*padded, line[-1]]).rstrip())
    remarks = [f"- {row.name} {row.size}: {row.remark}" for row in rows if row.remark]
    return "\n".join([*lines, "", *remarks, *_disturbances(rows)]).rstrip()


def _disturbances(rows: list[Row]) -> list[str]:
    """A warning for each benchmark that did not have the machine to itself."""
    loads = {row.name: row.busy_elsewhere for row in rows if row.reliable is False}
    return [
        f"- UNRELIABLE {name}: {load:.2f} cores were busy elsewhere meanwhile"
        for name, load in loads.items()
    ]


def _cells(row: Row) -> list[str]:
    other = row.limit or _seconds(row.peer_seconds)
    return [
        row.name,
        row.size,
        _seconds(row.ours_seconds),
        other,
        "" if row.ratio is None else f"{row.ratio:.3g}",
        "" if row.goal is None else str(row.goal),
        _verdict(row),
        "" if row.peak_memory is None else f"{row.peak_memory / 2**20:.0f} MiB",
        row.method,
    ]


def _verdict(row: Row) -> str:
    if row.goal is None:
        return ""
    doubtful = row.met is not None and row.reliable is False
    return VERDICTS[row.met] + ("?" if doubtful else "")


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4f} s" if value < 1 else f"{value:.2f} s"


# where it ran -------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """The processor, its threads and the BLAS; nothing that names the host."""
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    keys = ("internal_api", "version", "architecture", "num_threads")
    return {
        "cpu": _cpu_model(),
        "threads": _threads(),
        "memory_gib": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "blas": [{key: pool.get(key) for key in keys} for pool in pools],
    }


def versions() -> dict[str, str]:
    """Versions of what ran; ours from the source where it is not installed."""
    found = {"python": platform.python_version(), "ejop": ejop.__version__}
    return found | {name: version(name) for name in PACKAGES}


def commit(tree: Path = ROOT) -> str:
    """Commit of a checkout, with "+changes" where files differ from it."""
    try:
        changed = _git(tree, "status", "--porcelain", "--untracked-files=no")
        return _git(tree, "rev-parse", "--short=12", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine_name(info: dict[str, Any]) -> str:
    """A file name for the kind of machine, such as "amd-epyc-2-threads"."""
    model = re.sub(r"\((r|tm)\)|\bcpu\b|\bprocessor\b|\d+-core|@.*", " ", info["cpu"].lower())
    words = re.sub(r"[^a-z0-9]+", "-", model).strip("-") or "unknown"
    return f"{words}-{info['threads']}-threads"


def _git(tree: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=tree, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _cpu_model() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def _threads() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


# the file -----------------------------------------------------------------------------------


def document(rows: list[Row], scale: str) -> dict[str, Any]:
    """Everything that is kept of a run."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "scale": scale,
        "commit": commit(),
        "machine": machine(),
        "versions": versions(),
        "rows": [row.as_dict() for row in rows],
    }


def default_path(record: dict[str, Any]) -> Path:
    """results/<date>-<machine>.json, marked where the sizes are not the full ones."""
    mark = "" if record["scale"] == "full" else f"-{record['scale']}"
    return RESULTS / f"{record['date']}-{machine_name(record['machine'])}{mark}.json"


def write(record: dict[str, Any], path: Path) -> None:
    """Write a record at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=".tmp")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(record, file, indent=1)
            file.write("\n")
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def footer(record: dict[str, Any]) -> str:
    """Versions, commit and machine in words."""
    info = record["machine"]
    blas = ", ".join(
        f"{pool['internal_api']} {pool['version']} ({pool['architecture']}, "
        f"{pool['num_threads']} threads)"
        for pool in info["blas"]
    )
    listed = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    return "\n".join(
        [
            f"versions: {listed}",
            f"commit:   {record['commit']}, {record['date']}, {record['scale']} sizes",
            f"machine:  {info['cpu']}, {info['threads']} threads, {info['memory_gib']} GiB, "
            f"{info['system']}; {blas}",
        ]
    )
