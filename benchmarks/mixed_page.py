"""The page of the comparison on tables of text, gaps and dates, which ``mixed --page`` writes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from benchmarks.common import ROOT
from benchmarks.mixed_methods import METHODS, SETS
from benchmarks.predictor_page import (
    OFFSETS,
    ROWS,
    TIMES,
    TITLES,
    Records,
    Runs,
    coverages,
    markdown,
    number,
    origin,
    probabilities,
    section,
    summary,
)
from ejop.experiments.suite.peers import GRIDS
from ejop.experiments.suite.splits import FIRST_SEED

PAGE = ROOT / "docs" / "results" / "mixed.md"
BASE = "lightgbm"
SHELL = "ours, command line"
CLASSES = [name for name, one in SETS.items() if not one.real]


def values(runs: Runs, name: str, method: str, field: str) -> list[float]:
    """A figure on the splits that all methods but the command line ran; seconds of one machine."""
    compared = [m for m in runs.methods(METHODS) if m not in (method, SHELL)]
    splits = runs.shared(name, [method, *compared])
    if field in TIMES:
        splits = [s for s in splits if runs.at_home(name, s, method)]
    found = [runs.good[name, s, method, ROWS].get(field) for s in splits]
    return [v for v in found if v is not None]


def spread(found: list[float], form: str) -> str:
    """Mean and standard deviation over splits."""
    if not found:
        return "-"
    beside = f" ± {np.std(found, ddof=1):{form}}" if len(found) > 1 else ""
    return f"{np.mean(found):{form}}{beside}"


def per_set(
    runs: Runs, methods: list[str], names: list[str], field: str, form: str = ".2f"
) -> list[str]:
    """A figure of each method on each set; the lowest mean is bold."""
    lines = []
    for name in names:
        found = {m: values(runs, name, m, field) for m in methods}
        means = {m: np.mean(v) for m, v in found.items() if v and m != SHELL}
        best = min(means, key=lambda m: means[m]) if means else None
        most = len(found["ours"])
        told = {
            m: spread(v, form) + (f" ({len(v)} splits)" if 0 < len(v) < most else "")
            for m, v in found.items()
        }
        cells = [f"**{text}**" if m == best else text for m, text in told.items()]
        lines.append([name, str(len(found["ours"])), *cells])
    return markdown(["set", "splits", *(TITLES[m] for m in methods)], lines)


def against(runs: Runs, methods: list[str]) -> list[str]:
    """On how many splits ours has the lower error."""
    lines = []
    for m in methods:
        if m in ("ours", SHELL):
            continue
        cells = [lower(runs, name, m) for name in SETS]
        lines.append([TITLES[m], *cells])
    return markdown(["ours lower than", *SETS], lines)


def lower(runs: Runs, name: str, method: str) -> str:
    both = runs.shared(name, ("ours", method))
    mine, other = (
        np.array([runs.good[name, s, m, ROWS]["error"] for s in both]) for m in ("ours", method)
    )
    return f"{(mine < other).sum() + (mine == other).sum() / 2:g} of {len(both)}"


def seconds(runs: Runs, methods: list[str]) -> list[str]:
    """Mean seconds of fit and of predict, by the clock and of all threads."""

    def cell(name: str, m: str, what: str) -> str:
        clock, cpu = (values(runs, name, m, f"{what}{f}") for f in ("_seconds", "_cpu_seconds"))
        return f"{np.mean(clock):.2f} ({np.mean(cpu):.2f})" if clock else "-"

    lines = [[name, *(cell(name, m, "fit") for m in methods)] for name in SETS]
    ratios = [runs.ratio("ours", m, list(SETS), "fit_cpu_seconds")[0] for m in methods]
    lines.append(["**ours over it, all threads, geometric mean**", *map(number, ratios)])
    waits = [[name, *(cell(name, m, "predict") for m in methods)] for name in SETS]
    head = ["set", *(TITLES[m] for m in methods)]
    return [*markdown(head, lines), "Predict:", "", *markdown(head, waits)]


def missing(runs: Runs) -> list[str]:
    """What the tables lack."""
    lines = []
    for m in METHODS:
        counts = {name: len(runs.splits(name, m)) for name in SETS}
        few = [f"{name} {k}" for name, k in counts.items() if k < 10]
        if few and not any(counts.values()):
            lines.append(f"- {TITLES[m]} has not run.")
        elif few:
            lines.append(f"- {TITLES[m]}, fewer than ten splits: {', '.join(few)}.")
    return lines or ["Nothing: all methods ran ten splits of all sets."]


def troubles(records: Records, faults: list[dict[str, Any]]) -> list[str]:
    """What failed, and what ours warned of, with the first warning of each set."""
    lines = [
        f"- {r['method']} on {r['data']}, split {r['split']}: {r['fault'].strip().splitlines()[-1]}"
        for r in faults
    ]
    warned = [r for r in records.values() if r["warnings"] and r["method"] == "ours"]
    counts = Counter(r["data"] for r in warned)
    for name, n in sorted(counts.items()):
        first = next(r["warnings"][0] for r in warned if r["data"] == name)
        lines.append(f"- ours on {name} warned in {n} runs, such as: {first}.")
    return lines or ["None: no run failed, and ours warned nowhere."]


def page(records: Records) -> str:
    runs = Runs(records)
    methods = runs.methods(METHODS)
    compared = [m for m in methods if m != SHELL]
    lines = [
        *opening(),
        *section("In short"),
        f"Geometric mean of (error + {OFFSETS['error']}) over that of LightGBM. Ranks are among "
        "ours in Python and the peers.",
        "",
        *summary(runs, compared, list(SETS), BASE),
        *shell_line(runs, methods),
        "Splits on which ours has the lower error, a tie as half a one:",
        "",
        *against(runs, compared),
        *section("Not there yet"),
        *missing(runs),
        "",
        *section("Errors"),
        *per_set(runs, methods, list(SETS), "error"),
        *chances(runs, methods, compared),
        *closing(runs, methods),
        *section("What ran"),
        *origin(records, "ordinary (those of the command line: the lowest)"),
        "",
        *section("Faults and warnings"),
        *troubles(records, runs.faults),
        "",
    ]
    return "\n".join(lines)


def opening() -> list[str]:
    """What is compared, and what each method gets."""
    return [
        "# Tables with text, gaps and dates",
        "",
        "`EJOPClassifier().fit(frame, y)` and `EGOPRegressor().fit(frame, y)` as they come, beside "
        "peers that take such columns. Measured by `python -m benchmarks.mixed --data DIR` (a "
        "second call goes on where the first stopped) and told by `python -m benchmarks.mixed "
        "--page`. Errors are in per cent: of wrong classes, or of unexplained variance, "
        f"100 (1 - R²), for real targets (ames, hotel_rates, star). Training rows are {ROWS}, or "
        "70 % where a set has fewer; test rows are the others, at most 1,500.",
        "",
        f"Splits are drawn with the seeds {FIRST_SEED}, {FIRST_SEED + 1}, ...; no default was "
        "chosen with them. Figures are means and standard deviations over splits.",
        "",
        "Ours takes each table as it is. For the peers, as a careful user would, text columns in "
        "which more than half of the rows differ are dropped (names and tickets of the Titanic), "
        "and dates written as text become the day, the weekday and the day of the year. LightGBM "
        "and CatBoost take the other text as their own categories and gaps as missing values "
        "(levels that training rows lack are missing values for LightGBM), the forest after "
        "one-hot encoding (levels of fewer than ten rows together) with gaps at the median. The "
        "command line reads the same rows from a CSV file.",
        "",
    ]


def chances(runs: Runs, methods: list[str], compared: list[str]) -> list[str]:
    """Probabilities and coverage."""
    return [
        *section("Probabilities"),
        f"Geometric means of log loss + {OFFSETS['log_loss']} and calibration error + "
        f"{OFFSETS['ece']} %. The calibration error compares the largest probability with how "
        "often it is right, in 15 bins of equal width. Probabilities below 1e-6 are taken for "
        "1e-6.",
        "",
        *probabilities(runs, compared, CLASSES),
        "Log loss:",
        "",
        *per_set(runs, methods, CLASSES, "log_loss", ".3f"),
        "Calibration error in per cent:",
        "",
        *per_set(runs, methods, CLASSES, "ece", ".1f"),
        *section("Coverage"),
        "Share of test rows whose class is in `predict_set`, or whose target is in "
        "`predict_interval`, both asked to cover 90 %; widths are in standard deviations of the "
        "target, sizes in classes.",
        "",
        *coverages(runs, SETS),
    ]


def closing(runs: Runs, methods: list[str]) -> list[str]:
    """Seconds and grids."""
    return [
        *section("Seconds"),
        "By the clock, searches included; of all threads in brackets. What is compiled is compiled "
        "before, save for the command line, which starts a process for each call. Searches of "
        "peers fit one model a core.",
        "",
        "Fit:",
        "",
        *seconds(runs, methods),
        *section("Grids"),
        "Three folds and all rows afterwards, unless said.",
        "",
        *(f"- {TITLES[m]}: {GRIDS[m]}." for m in METHODS if m in GRIDS),
        "",
    ]


def shell_line(runs: Runs, methods: list[str]) -> list[str]:
    """How the command line compares with Python, if it ran."""
    if SHELL not in methods:
        return []
    over, n = runs.ratio(SHELL, "ours", list(SETS), "error")
    alike = [name for name in SETS if runs.shared(name, ("ours", SHELL)) and same(runs, name)]
    return [
        f"The command line over ours in Python, {n} sets, on the splits of both: "
        f"{number(over, '.3f')}. All errors are equal on {', '.join(alike) or 'no set'}. Codes "
        "that a table holds as text (MS.SubClass of ames, precinct of police_force) are numbers in "
        "a CSV file, unless `--category` names them.",
        "",
    ]


def same(runs: Runs, name: str) -> bool:
    """Whether the command line errs as ours in Python does on all splits of both."""
    methods = ("ours", SHELL)
    both = runs.shared(name, methods)
    errors = [{runs.good[name, s, m, ROWS]["error"] for m in methods} for s in both]
    return all(len(found) == 1 for found in errors)
