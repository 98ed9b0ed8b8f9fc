"""The page of the comparison of predictors: ``python -m benchmarks.predictor_page``.

Every figure comes from the lines that ``python -m benchmarks.predictor`` has kept.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks.common import ROOT
from benchmarks.predictor import RESULTS, Key, read
from benchmarks.predictor_data import NINE, SETS, SUITE
from benchmarks.predictor_methods import ABLATIONS, CARD, METHODS
from ejop.experiments.suite.contest import LABELS
from ejop.experiments.suite.peers import GRIDS, PEERS
from ejop.experiments.suite.splits import FIRST_SEED

PAGE = ROOT / "docs" / "results" / "predictor.md"
ROWS = 1500
GROUPS = {"nine": list(NINE), "suite": list(SUITE)}
TITLES = {
    "ours": "ours",
    "ours, command line": "ours, command line",
    **{name: LABELS[name] for name in PEERS},
}
#: added before logarithms are taken, so that a set without errors does not decide alone
OFFSETS = {"error": 0.1, "log_loss": 0.001, "ece": 0.1, "fit_seconds": 0.0, "fit_cpu_seconds": 0.0}
#: figures that are compared on one machine alone
TIMES = ("fit_seconds", "fit_cpu_seconds", "predict_seconds", "predict_cpu_seconds")
LOW, HIGH = 88.0, 92.0
#: sizes beside the usual one, for the sets that have so many rows
LARGER = (4000, 10_000)
Records = dict[Key, dict[str, Any]]


def kind_of(record: dict[str, Any]) -> tuple[str, str]:
    """Processor and threads of a run: what makes seconds comparable."""
    return record["machine"]["cpu"], str(record["machine"]["threads"])


class Runs:
    """The runs without faults, by set, method and rows."""

    def __init__(self, records: Records) -> None:
        self.good = {k: r for k, r in records.items() if "fault" not in r}
        self.faults = [r for r in records.values() if "fault" in r]
        homes = Counter(kind_of(r) for (*_, m, _), r in self.good.items() if m == "ours")
        self.home = homes.most_common(1)[0][0] if homes else None

    def at_home(self, name: str, split: int, method: str, rows: int = ROWS) -> bool:
        """Whether a run was made on the kind of machine that most of ours were made on."""
        record = self.good.get((name, split, method, rows))
        return record is not None and kind_of(record) == self.home

    def splits(self, name: str, method: str, rows: int = ROWS) -> set[int]:
        return {s for (d, s, m, n) in self.good if (d, m, n) == (name, method, rows)}

    def shared(self, name: str, methods: Iterable[str]) -> list[int]:
        """Splits that all of the methods ran."""
        return sorted(set.intersection(*(self.splits(name, m) for m in methods)))

    def value(
        self, name: str, method: str, field: str, splits: Iterable[int], rows: int = ROWS
    ) -> float | None:
        """Mean over splits, or None where nothing was measured."""
        found = [self.good[name, s, method, rows].get(field) for s in splits]
        return None if not found or None in found else float(np.mean(found))

    def methods(self, among: Iterable[str]) -> list[str]:
        there = {m for (_, _, m, rows) in self.good if rows == ROWS}
        return [m for m in among if m in there]

    def ratio(self, method: str, base: str, names: list[str], field: str) -> tuple[float, int]:
        """Geometric mean of a figure over another method's, on what both ran; how many sets."""
        logs = []
        for name in names:
            both = self.shared(name, (method, base))
            if field in TIMES:
                both = [s for s in both if all(self.at_home(name, s, m) for m in (method, base))]
            a, b = (self.value(name, m, field, both) for m in (method, base))
            if a is not None and b is not None:
                logs.append(np.log((a + OFFSETS[field]) / (b + OFFSETS[field])))
        return (float(np.exp(np.mean(logs))), len(logs)) if logs else (np.nan, 0)


# tables -------------------------------------------------------------------------------------


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(line) + " |" for line in lines),
        "",
    ]


def number(value: float | None, form: str = ".2f") -> str:
    return "-" if value is None or np.isnan(value) else format(value, form)


def summary(runs: Runs, methods: list[str], names: list[str], base: str = "knn") -> list[str]:
    """Geometric means over one peer, ranks and wins."""
    ranks, wins = standing(runs, methods, names)
    lines = []
    for m in methods:
        over_base, n = runs.ratio(m, base, names, "error")
        over_ours, _ = runs.ratio("ours", m, names, "error")
        lines.append(
            [
                TITLES[m],
                f"{n} of {len(names)}",
                number(over_base, ".3f"),
                "" if m == "ours" else number(over_ours, ".3f"),
                number(float(np.mean(ranks[m])) if ranks[m] else None),
                str(wins[m]),
            ]
        )
    head = ["method", "sets", f"over {TITLES[base]}", "ours over it, same sets", "mean rank"]
    return markdown([*head, "lowest on"], lines)


def standing(
    runs: Runs, methods: list[str], names: list[str]
) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Ranks among the methods that ran a set, and on how many sets a method is the lowest."""
    ranks: dict[str, list[float]] = {m: [] for m in methods}
    wins = dict.fromkeys(methods, 0)
    for name in names:
        there = [m for m in methods if runs.splits(name, m)]
        if len(there) < 2 or not (splits := runs.shared(name, there)):
            continue
        errors = np.array([runs.value(name, m, "error", splits) for m in there])
        for m, rank, error in zip(there, rankdata(errors), errors, strict=True):
            ranks[m].append(float(rank))
            wins[m] += int(error <= errors.min() + 1e-9)
    return ranks, wins


def per_set(
    runs: Runs, methods: list[str], names: list[str], field: str, form: str = ".2f"
) -> list[str]:
    """A figure of each method on each set, over the splits that all its methods ran."""
    lines = []
    for name in names:
        there = [m for m in methods if runs.splits(name, m)]
        if not there:
            continue
        splits = runs.shared(name, there)
        values = {m: runs.value(name, m, field, splits) for m in there}
        if all(v is None for v in values.values()):
            continue
        best = (max if field in ("auc", "r2") else min)(v for v in values.values() if v is not None)
        cells = [
            f"**{number(values[m], form)}**"
            if values.get(m) == best
            else number(values.get(m), form)
            for m in methods
        ]
        lines.append([name, str(len(splits)), *cells])
    return markdown(["set", "splits", *(TITLES[m] for m in methods)], lines)


def probabilities(runs: Runs, methods: list[str], names: Iterable[str] = SETS) -> list[str]:
    """Geometric means of log loss and calibration error, ours over each peer's."""
    lines = []
    for m in methods:
        if m == "ours":
            continue
        (loss, n), (ece, _) = (runs.ratio("ours", m, list(names), f) for f in ("log_loss", "ece"))
        if n:
            lines.append([TITLES[m], str(n), number(loss, ".3f"), number(ece, ".3f")])
    return markdown(["ours over", "sets", "log loss", "calibration error"], lines)


def coverages(runs: Runs, names: Iterable[str] = SETS) -> list[str]:
    lines = []
    for name in names:
        splits = sorted(runs.splits(name, "ours"))
        share = runs.value(name, "ours", "coverage", splits)
        if share is None:
            continue
        n = sum(runs.good[name, s, "ours", ROWS]["n_test"] for s in splits)
        real = runs.good[name, splits[0], "ours", ROWS]["n_classes"] == 0
        lines.append(
            [
                name,
                str(len(splits)),
                "interval" if real else "set",
                number(share, ".1f"),
                number(100 * np.sqrt(0.09 / n), ".1f"),
                verdict(share, width := runs.value(name, "ours", "width", splits), real),
                number(width),
            ]
        )
    head = ["set", "splits", "kind", "covered %", "standard error", "", "mean width or size"]
    return markdown(head, lines)


def verdict(share: float, width: float | None, real: bool) -> str:
    if share < LOW:
        return "TOO LOW"
    if share <= HIGH:
        return ""
    smallest = not real and width is not None and width < 1.005
    return "single classes" if smallest else "too high"


def seconds(runs: Runs, methods: list[str]) -> list[str]:
    """Seconds of fit by the clock (and of all threads) on split 0, and of predict."""

    def cell(name: str, m: str) -> str:
        record = runs.good.get((name, 0, m, ROWS))
        if record is None or not runs.at_home(name, 0, m):
            return "-"
        return f"{record['fit_seconds']:.1f} ({record['fit_cpu_seconds']:.1f})"

    def predict(name: str) -> str:
        record = runs.good.get((name, 0, "ours", ROWS))
        return "-" if record is None else f"{record['predict_seconds']:.2f}"

    lines = [[name, *(cell(name, m) for m in methods), predict(name)] for name in SETS]
    ratios = [runs.ratio("ours", m, list(SETS), "fit_cpu_seconds")[0] for m in methods]
    lines.append(["**ours over it, all threads, geometric mean**", *map(number, ratios), ""])
    lines.append(["**sum**", *(total(runs, m) for m in methods), ""])
    return markdown(["set", *(TITLES[m] for m in methods), "ours, predict"], lines)


def total(runs: Runs, method: str) -> str:
    found = [
        r
        for (d, s, m, n), r in runs.good.items()
        if (s, m, n) == (0, method, ROWS) and runs.at_home(d, s, m)
    ]
    clock, cpu = (sum(r[f] for r in found) for f in ("fit_seconds", "fit_cpu_seconds"))
    return f"**{clock:.0f} ({cpu:.0f}), {len(found)} sets**"


def ablation(runs: Runs) -> list[str]:
    lines = []
    for m in runs.methods(ABLATIONS):
        cells = [runs.ratio(m, "ours", names, "error") for names in (*GROUPS.values(), list(SETS))]
        time, _ = runs.ratio(m, "ours", list(SETS), "fit_cpu_seconds")
        lines.append([m, *(f"{number(v, '.3f')} ({n})" for v, n in cells), number(time)])
    return markdown(["", "nine sets", "suite", "all", "seconds of fit"], lines)


def growth(runs: Runs) -> list[str]:
    lines = []
    for name, _, m, rows in sorted(runs.good, key=lambda k: (k[0], k[2], k[3])):
        record = runs.good.get((name, 0, m, rows))
        if record is None or m != "ours" or name not in ("pendigits", "letter", "ailerons"):
            continue
        line = [
            name,
            str(record["n_train"]),
            number(record["error"]),
            number(record["fit_seconds"], ".1f"),
            number(record["fit_cpu_seconds"], ".1f"),
            number(record["predict_seconds"]),
            number(record["bytes"] / 2**20, ".1f"),
            number(record["bytes_share"]),
            number(record.get("coverage"), ".1f"),
        ]
        if line not in lines:
            lines.append(line)
    head = ["set", "rows", "error %", "fit s", "fit s, all threads", "predict s", "model MiB"]
    return markdown([*head, "over rows and targets", "covered %"], lines)


def larger(runs: Runs) -> list[str]:
    """Errors at larger sizes, split 0, and how ours compare there."""
    lines: list[str] = []
    for rows in LARGER:
        there = sorted({m for (_, _, m, n) in runs.good if n == rows}, key=[*METHODS].index)
        names = [
            d for d in SETS if runs.good.get((d, 0, "ours", rows), {}).get("n_train", 0) > ROWS
        ]
        if "ours" not in there or not names:
            continue
        lines += [f"Asked for {rows:,} training rows (70 % where a set has fewer):", ""]
        cells = []
        for name in names:
            found = [runs.good.get((name, 0, m, rows)) for m in there]
            errors = [None if r is None else r["error"] for r in found]
            best = min(e for e in errors if e is not None)
            told = [f"**{number(e)}**" if e == best else number(e) for e in errors]
            ours = runs.good[name, 0, "ours", rows]
            cells.append([name, str(ours["n_train"]), *told])
        titles = [TITLES.get(m, m) for m in there]
        lines += markdown(["set", "rows", *titles], cells)
    return lines


def card(runs: Runs) -> list[str]:
    """Seconds and errors on one card."""
    there = [m for m in CARD if runs.splits("airfoil", m) or runs.splits("abalone", m)]
    if not there:
        return ["Not run.", ""]
    lines, sums = [], dict.fromkeys(there, 0.0)
    names = [d for d in SETS if all((d, 0, m, ROWS) in runs.good for m in there)]
    for name in names:
        found = [runs.good[name, 0, m, ROWS] for m in there]
        for m, r in zip(there, found, strict=True):
            sums[m] += r["fit_seconds"]
        cells = [f"{number(r['error'])} in {r['fit_seconds']:.2f}" for r in found]
        lines.append([name, *cells])
    lines.append(["**sum of seconds**", *(f"**{sums[m]:.0f}**" for m in there)])
    return markdown(["set", *there], lines)


# what ran -----------------------------------------------------------------------------------


def listed(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values)))


def missing(runs: Runs, methods: list[str]) -> list[str]:
    """What the tables lack."""
    lines = []
    for m in methods:
        absent = [name for name in SETS if 0 not in runs.splits(name, m)]
        if absent:
            told = ", ".join(absent) if len(absent) < 12 else f"{len(absent)} sets"
            lines.append(f"- {TITLES[m]}: split 0 has not run on {told}.")
    for m in (m for m in PEERS if m not in methods):
        lines.append(f"- {TITLES[m]} has not run.")
    few = [TITLES[m] for m in methods if any(len(runs.splits(n, m)) < 3 for n in SETS)]
    if few:
        lines.append(f"- Fewer than three splits on some set: {', '.join(few)}.")
    notes: dict[tuple[str, str], list[str]] = {}
    for (name, _, m, _), record in runs.good.items():
        if "note" in record:
            notes.setdefault((TITLES.get(m, m), record["note"]), []).append(name)
    lines += [f"- {m} on {', '.join(names)}: {note}." for (m, note), names in notes.items()]
    lines.append("- The ablation without diagonal maps: the rule has no parameter for it.")
    return lines


def origin(records: Records, priority: str = "the lowest") -> list[str]:
    every = list(records.values())
    mine = [r for r in every if r["method"].startswith("ours")]
    machines = listed(
        f"{r['machine']['cpu']}, {r['machine']['threads']} threads, "
        f"{r['machine']['memory_gib']} GiB, {r['machine']['system']}"
        for r in every
    )
    packages: dict[str, set[str]] = {}
    for r in every:
        for package, v in r["versions"].items():
            packages.setdefault(package, set()).add(v)
    loads = [r["busy_elsewhere"] for r in every if r["busy_elsewhere"] is not None]
    return [
        f"- {len(every)} runs of {listed(r['date'] for r in every)}; ours at commit "
        f"{listed(r['commit'] for r in mine)}.",
        f"- Machine: {machines}.",
        f"- Versions: {', '.join(f'{p} {listed(v)}' for p, v in sorted(packages.items()))}.",
        f"- Other processes held {np.median(loads):.1f} cores meanwhile (median of the runs), and "
        f"these runs had {priority} priority: seconds by the clock are upper bounds and differ "
        "from run to run; those of all threads, in brackets, are steadier."
        if loads
        else "- Load of the machine is not known.",
    ]


def troubles(records: Records, faults: list[dict[str, Any]]) -> list[str]:
    lines = [
        f"- {r['method']} on {r['data']}, split {r['split']}, {r['rows']} rows: "
        f"{r['fault'].strip().splitlines()[-1]}"
        for r in faults
    ]
    warned = [r for r in records.values() if r["warnings"] and r["method"].startswith("ours")]
    lines += [
        f"- {r['method']} on {r['data']}, split {r['split']}, {r['rows']} rows, warned: "
        f"{r['warnings'][0]}"
        for r in warned
    ]
    return lines or ["None: no run failed, and ours warned nowhere."]


def section(title: str) -> list[str]:
    return [f"## {title}", ""]


def page(records: Records) -> str:
    runs = Runs(records)
    methods = runs.methods(["ours", *PEERS])
    shares = [m for m in methods if m != "svm"]
    lines = [
        "# The predictor beside its peers",
        "",
        "`EJOPClassifier()` and `EGOPRegressor()` as they come, measured by `python -m "
        "benchmarks.predictor` and told by `python -m benchmarks.predictor_page`. Errors are in "
        "per cent: of wrong classes, or of "
        f"unexplained variance for real targets. Training rows are {ROWS}, or 70 % where a set has "
        "fewer; test rows are the others, at most 1,500. Categories are 0/1 columns for every "
        "method; columns are the same for all.",
        "",
        f"Splits are drawn with the seeds {FIRST_SEED}, {FIRST_SEED + 1}, ... (split 0, 1, ...). "
        "Seeds 0 to 9 served to choose the defaults; no figure here is from them, though they are "
        "other splits of the same tables.",
        "",
        *section("In short"),
        'Geometric mean of (error + 0.1) over that of tuned kNN. "Ours over it" compares on the '
        "sets that the method ran. Ranks are among the methods that ran a set; sets where a method "
        "ties for the lowest error count for it.",
        "",
    ]
    for group, names in (("The nine sets", list(NINE)), ("The 22 of the suite", list(SUITE))):
        lines += [f"{group}:", "", *summary(runs, methods, names)]
    lines += [
        *section("Not there yet"),
        *missing(runs, methods),
        "",
        *section("Errors"),
        *per_set(runs, methods, list(SETS), "error"),
        *section("Probabilities"),
        f"Geometric means over the sets with classes, of log loss + {OFFSETS['log_loss']} and "
        f"calibration error + {OFFSETS['ece']} %. The calibration error compares the largest "
        "probability with how often it is right, in 15 bins of equal width. Probabilities below "
        "1e-6 are taken for 1e-6. The SVM gives none.",
        "",
        *probabilities(runs, shares),
        "Log loss:",
        "",
        *per_set(runs, shares, list(SETS), "log_loss", ".3f"),
        "Calibration error in per cent:",
        "",
        *per_set(runs, shares, list(SETS), "ece", ".1f"),
        "Area under the curve (one class against the others, mean):",
        "",
        *per_set(runs, shares, list(SETS), "auc", ".4f"),
        "R² for real targets:",
        "",
        *per_set(runs, methods, list(SETS), "r2", ".4f"),
        *section("Coverage"),
        "Share of test rows whose class is in `predict_set`, or whose target is in "
        "`predict_interval`, both asked to cover 90 %; widths are in standard deviations of the "
        "target, sizes in classes. The predicted class is always in its set, so that where fewer "
        "than one in ten is wrong the smallest sets, of one class, cover more: single classes.",
        "",
        *coverages(runs),
        *section("Seconds of fit"),
        "Split 0, by the clock, searches included; of all threads in brackets. What is compiled is "
        "compiled before. Threads are those that a user gets; searches of peers fit one model a "
        "core. Only runs on one kind of machine are compared: "
        f"{', '.join(runs.home or [])} threads.",
        "",
        *seconds(runs, methods),
        *section("Parts left out"),
        "Geometric mean of (error + 0.1) over that of ours on the same splits, number of sets in "
        "brackets; above 1 the part helps. Seconds of fit, of all threads, are over those of ours.",
        "",
        *ablation(runs),
        *section("Growth"),
        "Split 0. The model is pickled; rows and targets (a column a class) are 8 bytes a value.",
        "",
        *growth(runs),
        *section("More rows"),
        "Errors in per cent, split 0.",
        "",
        *larger(runs),
        *section("On a card"),
        "Error in per cent and seconds of fit by the clock, split 0; xRFM with its grid.",
        "",
        *card(runs),
        *section("Grids"),
        "Three folds and all rows afterwards, unless said.",
        "",
        *(f"- {TITLES[m]}: {grid}." for m, grid in GRIDS.items()),
        "",
        *section("What ran"),
        *origin(records),
        "",
        *section("Faults and warnings"),
        *troubles(records, runs.faults),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args()
    options.out.write_text(page(read(options.results)), encoding="utf-8")


if __name__ == "__main__":
    main()
