"""The page on columns, which ``benchmarks.columns`` writes from its files of results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.columns_importances import METHODS, REPEATS, TREES
from benchmarks.columns_tables import SHARES, true_changes
from benchmarks.common import ROOT
from benchmarks.predictor_page import listed, markdown, section

PAGE = ROOT / "docs" / "results" / "columns.md"
GOAL = 0.95
STEPS = ("fit_transform", "transform")
Record = dict[str, Any]


# preparation --------------------------------------------------------------------------------


def preparation(record: Record) -> list[str]:
    lines = []
    for run in record["runs"]:
        head = [run["method"], run["library"], f"{run['rows']:,}"]
        if "fault" in run:
            lines.append([*head, run["fault"], "", "", "", "", ""])
            continue
        lines.append(
            [
                *head,
                str(run["features"]),
                *(f"{run[step]:.2f} ({run[f'{step}_cpu']:.2f})" for step in STEPS),
                *(mebibytes(run[f"{step}_peak"]) for step in STEPS),
                mebibytes(run["bytes"]),
            ]
        )
    head = ["method", "table", "rows", "features", "fit_transform s", "transform s"]
    return markdown([*head, "peak MiB, fit_transform", "peak MiB, transform", "rows MiB"], lines)


def mebibytes(size: float) -> str:
    return f"{size / 2**20:,.0f}"


# importances --------------------------------------------------------------------------------

GROUPS: dict[str, Callable[[Record], bool]] = {
    "classes": lambda d: not d["real"] and not d["leak"],
    "classes, with a leak": lambda d: not d["real"] and d["leak"],
    "real targets": lambda d: d["real"] and not d["leak"],
    "real targets, with a leak": lambda d: d["real"] and d["leak"],
    "**all**": lambda d: True,
}


def importances(record: Record) -> list[str]:
    lines = []
    for title, inside in GROUPS.items():
        group = [d for d in record["draws"] if inside(d)]
        counts = [str(sum(d["right"][m] for d in group)) for m in METHODS]
        lines.append([title, str(len(group)), *counts])
    return markdown(["draws", "number", *METHODS], lines)


def verdict(record: Record) -> str:
    """Whether ours finds the columns in so many draws as asked."""
    right = [d["right"]["ours"] for d in record["draws"]]
    met = "met" if np.mean(right) >= GOAL else "MISSED"
    return (
        f"The goal is {100 * GOAL:.0f} of 100 draws; ours has {sum(right)} of {len(right)}: {met}."
    )


def failures(record: Record) -> list[str]:
    """Draws that ours has wrong: what it put among the first, and what it left out."""
    lines = []
    for d in (d for d in record["draws"] if not d["right"]["ours"]):
        found = d["importances"]["ours"]
        wanted = ["leak"] if d["leak"] else d["relevant"]
        top = sorted(found, key=lambda name: -found[name])[: len(wanted)]
        low = ", ".join(f"{n} {found[n]:.4f}" for n in wanted if n not in top)
        high = ", ".join(f"{n} {found[n]:.4f}" for n in top if n not in wanted)
        kind = "real target" if d["real"] else "classes"
        lines.append(f"- seed {d['seed']}, {d['rows']} rows, {kind}: {low} below {high}.")
    return lines


def ships(record: Record) -> list[str]:
    lines, changes = [], true_changes()
    for name, truth in SHARES.items():
        found = [each[name] for each in record["ships"]]
        told = f"{np.mean(found):.3f} ± {np.std(found, ddof=1):.3f}"
        lines.append([name, f"{truth:.2f}", f"{changes[name]:.3f}", told])
    return markdown(["column", "variance of the log-odds", "changes of the truth", "ours"], lines)


# the page -----------------------------------------------------------------------------------


def origin(record: Record, of: list[Record]) -> list[str]:
    machine = record["machine"]
    return [
        f"Run on {record['date']} at commit {listed(r['commit'] for r in of)}, on "
        f"{machine['cpu']}, {machine['threads']} threads, {machine['memory_gib']} GiB; versions: "
        f"{', '.join(f'{name} {v}' for name, v in record['versions'].items())}.",
        "",
    ]


def page(prepared: Record | None, found: Record | None) -> str:
    lines = [
        "# Columns",
        "",
        "Measured and told by `python -m benchmarks.columns`; parts that are there from the same "
        "day are not run again, and `--only page` writes this page alone.",
        "",
    ]
    if prepared:
        lines += of_preparation(prepared)
    if found:
        lines += of_importances(found)
    return "\n".join(lines)


def of_preparation(record: Record) -> list[str]:
    loads = [run["busy_elsewhere"] for run in record["runs"] if "fault" not in run]
    return [
        *section("Preparation"),
        "Thirty columns: ten numbers with gaps, eight categories of 3 to 50 levels, two of "
        "2,000, four flags, two dates (one as text), two numbers written as text (decimal "
        "commas, thousands), an identifier and free text. Ours is "
        "`ejop.columns.ColumnPreparer()`, which leaves the last two out. skrub is "
        "`TableVectorizer()`, which turns free text, identifiers, written numbers and long "
        "categories into 30 numbers each by `StringEncoder`; as this takes long, it is run at "
        "100,000 rows alone, and at all sizes with these columns dropped or one-hot encoded "
        "with 31 levels at the most. scikit-learn is `SimpleImputer` on numbers and "
        "`OneHotEncoder` (31 levels at the most) on categories; dates and written numbers it "
        "does not take. Each runs in a process of its own, after a small table that warms up. "
        "Seconds are by the clock, those of all threads in brackets. "
        "Peaks are what is resident at the most beyond what is resident before, which holds "
        "the table; they include the prepared rows, whose size is the last column (ours and "
        "scikit-learn float64, skrub float32).",
        "",
        *preparation(record),
        f"Other processes held {np.median(loads):.1f} cores meanwhile (median of the runs), so "
        "that seconds of all threads are the steadier ones.",
        "",
        *origin(record, record["runs"]),
    ]


def of_importances(record: Record) -> list[str]:
    wrong = failures(record)
    return [
        *section("Importances"),
        "Tables of 400 to 1,000 rows. The answer depends on two numbers (on one by a sine), a "
        "flag, four levels, and on the season of a date or a number of which a fifth is "
        "missing, with random strengths of 0.7 to 1.3. It does not depend on three to five "
        "other numbers (one with a long tail, one of the size 1e9), two categories of 6 and "
        "15 levels, an identifier and a constant. In half of the draws there is a leak, a "
        "column that nearly is the target. A draw counts where the columns that matter are "
        f"first, in any order, or where the leak is the first of all. Forests have {TREES} "
        "trees on rows prepared as in mixed.md (levels as 0/1 columns, whose importances are "
        f"summed); permutation is on a third of the rows, held out, {REPEATS} times.",
        "",
        verdict(record),
        "",
        *importances(record),
        *(["Draws that ours has wrong:", "", *wrong, ""] if wrong else []),
        *section("A known share"),
        f"{len(record['ships'])} draws of 891 rows whose log-odds are linear in sex (a flag), "
        "class (a number of three values) and age, with standard deviation two. Ours is to say "
        "how far probabilities change when a column takes the value of another row; that of the "
        "true probabilities stands beside it. Mean and standard deviation over draws.",
        "",
        *ships(record),
        *origin(record, record["draws"]),
    ]
