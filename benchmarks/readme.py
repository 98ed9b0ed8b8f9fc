"""What the README shows and a program prints: ``python -m benchmarks.readme`` writes it there.

The table comes from the committed results; the messages are those of the command line on
examples/flats.csv. Each stands between two comments that name it.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress

import numpy as np

from benchmarks import maps, mixed, predictor, size
from benchmarks.common import ROOT
from benchmarks.explain import newest
from benchmarks.explain_page import Truth
from benchmarks.mixed_methods import SETS as MIXED
from benchmarks.predictor_data import NINE, SETS
from benchmarks.predictor_page import OFFSETS, TITLES, Runs, markdown

README = ROOT / "README.md"
FLATS = [ROOT / "examples" / name for name in ("flats.csv", "new_flats.csv")]
HEAD = ("instead of", "for", "error %, it / ours", "seconds, it / ours", "ours is better on")
PEERS = {
    "numbers": ("knn", "svm", "forest", "lightgbm", "xgboost", "xrfm"),
    "mixed": ("forest", "lightgbm", "catboost"),
}
#: maps before neighbours: name, how many columns they leave
LINEAR = (("PCA", "5"), ("NCA", "5"), ("NCA", "all"), ("LMNN", "all"))
LEAVES = {"5": "neighbours on 5 columns", "all": "neighbours on all columns"}
#: the part of the results of explanations in which each ran beside ours
SHARES = {"permutation": "truth", "TreeSHAP": "truth", "KernelSHAP": "kernel"}
#: made-up tables of 28 columns, one that suits us and one that does not
MANY = {
    "multi-index": "three directions of 28 columns, {:,} rows",
    "checkerboard": "a checkerboard in two of 28 columns, {:,} rows",
}
MANY_ROWS = 100_000


# the table ----------------------------------------------------------------------------------


def middle(values: Iterable[float], offset: float) -> float:
    """Geometric mean, the offset added before and taken off after."""
    return float(np.exp(np.mean(np.log(np.asarray(list(values)) + offset))) - offset)


def short(seconds: Iterable[float]) -> str:
    """Two figures, or whole seconds."""
    return " / ".join(f"{s:.2g}" if s < 99.5 else f"{s:.0f}" for s in seconds)


def pairs(runs: Runs, names: Iterable[str], theirs: str, ours: str, field: str) -> np.ndarray:
    """(sets, 2): a figure of both, means over the splits that both ran; one machine for seconds."""
    found = []
    for name in names:
        both = runs.shared(name, (theirs, ours))
        if field != "error" and runs.home:  # all maps ran on one
            both = [s for s in both if all(runs.at_home(name, s, m) for m in (theirs, ours))]
        values = [runs.value(name, m, field, both) for m in (theirs, ours)]
        if None not in values:
            found.append(values)
    return np.array(found, dtype=float).reshape(-1, 2)


def row(runs: Runs, names: Iterable[str], peer: str, what: str, ours: str, title: str) -> list[str]:
    """One peer against ours on the sets that both ran."""
    names = list(names)
    errors = pairs(runs, names, peer, ours, "error")
    seconds = pairs(runs, names, peer, ours, "fit_cpu_seconds")
    mine = ((errors[:, 1] < errors[:, 0]) + (errors[:, 1] == errors[:, 0]) / 2).sum()
    it, our = (middle(errors[:, i], OFFSETS["error"]) for i in (0, 1))
    times = short(middle(np.maximum(s, 0.01), 0) for s in seconds.T) if len(seconds) else "-"
    return [
        title,
        what.format(len(errors)),
        f"{it:.1f} / {our:.1f}",
        times,
        f"{mine:g} of {len(errors)}",
    ]


def of_many(name: str) -> list[str]:
    """One large table, classes, beside LightGBM."""
    found = {}
    for line in size.RESULTS.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if (record["set"], record["n"], record["real"]) == (name, MANY_ROWS, False):
            found[record["method"]] = record
    both = [found["LightGBM"], found["ours"]]
    return [
        "LightGBM",
        MANY[name].format(MANY_ROWS),
        " / ".join(f"{r['error']:.1f}" for r in both),
        short(r["fit_cpu_seconds"] for r in both),
        f"{int(both[1]['error'] < both[0]['error'])} of 1",
    ]


def of_columns(truth: Truth, peer: str) -> list[str]:
    """Importances: pairs of a column that matters and one that does not, in the wrong order."""
    same = truth.tables(("ours", peer))
    wrong = 100 * (1 - np.array([[t[m]["auc"] for m in (peer, "ours")] for t in same]))
    fields = ("fit_cpu_seconds", "after_cpu_seconds")
    taken = np.array([[sum(t[m][f] for f in fields) for m in (peer, "ours")] for t in same])
    mine = ((wrong[:, 1] < wrong[:, 0]) + (wrong[:, 1] == wrong[:, 0]) / 2).sum()
    return [
        peer,
        "which columns matter, made-up tables",
        f"{wrong[:, 0].mean():.1f} / {wrong[:, 1].mean():.1f}",
        short(taken.mean(0)),
        f"{mine:g} of {len(same)}",
    ]


def table() -> str:
    """Every row from the committed results."""
    numbers, text = Runs(predictor.read(predictor.RESULTS)), Runs(mixed.read(mixed.RESULTS))
    linear = Runs(maps.read(maps.RESULTS))
    classes = [name for name in NINE if linear.splits(name, "NCA 5")]
    lines = [
        row(numbers, SETS, m, "{} tables of numbers", "ours", TITLES[m]) for m in PEERS["numbers"]
    ]
    lines += [
        row(text, MIXED, m, "{} tables with text and gaps", "ours", TITLES[m])
        for m in PEERS["mixed"]
    ]
    lines += [of_many(name) for name in MANY]
    for title, rank in LINEAR:
        what = LEAVES[rank] + ", {} tables"
        names = NINE if title == "PCA" else classes
        lines.append(row(linear, names, f"{title} {rank}", what, f"EJOP {rank}", title))
    for peer, where in SHARES.items():
        lines.append(of_columns(Truth(newest(where)), peer))
    return "\n".join(markdown(HEAD, lines)).rstrip()


# the messages -------------------------------------------------------------------------------

COMMANDS = (
    "ejop fit flats.csv --target rent --id id --out flats.skops",
    "ejop predict flats.skops new_flats.csv --coverage 0.9",
    "ejop explain flats.skops new_flats.csv --row 0",
)


def session() -> str:
    """What the commands print, in an empty folder with the tables."""
    from ejop.cli.app import run

    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for path in FLATS:
            shutil.copy(path, folder)
        for command in COMMANDS:
            heard = io.StringIO()
            with redirect_stdout(heard), redirect_stderr(heard), suppress(SystemExit):
                run(shlex.split(command)[1:])
            lines += [f"$ {command}", *map(str.rstrip, heard.getvalue().splitlines()), ""]
    return "\n".join(["```text", *lines[:-1], "```"])


PARTS: dict[str, Callable[[], str]] = {"table": table, "session": session}


def part(text: str, name: str) -> str:
    """What stands between the comments of a part."""
    return re.search(_between(name), text, re.S)[2]  # type: ignore[index]


def _between(name: str) -> str:
    return rf"(<!-- {name}: [^\n]*-->\n)(.*?)(\n<!-- end -->)"


def main() -> None:
    text = README.read_text(encoding="utf-8")
    for name, write in PARTS.items():
        found = write()
        text = re.sub(_between(name), lambda m, f=found: m[1] + f + m[3], text, flags=re.S)
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
