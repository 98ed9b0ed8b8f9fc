"""The page on explanations, which ``benchmarks.explain`` writes from its lines of results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.columns_importances import REPEATS, TREES
from benchmarks.common import ROOT
from benchmarks.explain_bars import COVERAGE, FAMILIES, LARGE_DRAWS, MANY_ROWS, REACH, ROWS
from benchmarks.explain_methods import FEW, METHODS, MOST_COALITIONS
from benchmarks.explain_sets import ALLOWED, EXPLAINED, ORDERS, REMOVED
from benchmarks.explain_truth import APART, CORRELATION, NOISE, RELEVANT, SIZES
from benchmarks.explain_truth import FAMILIES as TRUE_FAMILIES
from benchmarks.predictor_page import listed, markdown, number, section

PAGE = ROOT / "docs" / "results" / "explain.md"
ADDING = 0.99
BETWEEN = (0.85, 0.95)
QUICKER = 20
#: added to an error in per cent before logarithms are taken
OFFSET = 0.1
EVERYWHERE = [m for m in METHODS if m not in ("KernelSHAP", "ReliefF")]
Record = dict[str, Any]
Parts = dict[str, list[Record]]


def good(lines: list[Record]) -> list[Record]:
    """Runs that did not fail; the first line is about the machine."""
    return [r for r in lines[1:] if "fault" not in r]


def met(holds: bool) -> str:
    return "met" if holds else "MISSED"


# contributions ------------------------------------------------------------------------------


def adds(lines: list[Record]) -> list[str]:
    found = good(lines)
    cells = [
        [
            r["data"],
            "real" if r["real"] else "classes",
            str(r["columns"]),
            f"{100 * r['share']:.1f}",
            f"{100 * r['quantile']:.1e}",
            f"{100 * r['largest']:.1e}",
            f"{r['seconds_100']:.2f} ({r['cpu_seconds_100']:.2f})",
            f"{r['fit_seconds']:.1f} ({r['fit_cpu_seconds']:.1f})",
        ]
        for r in found
    ]
    head = ["set", "answer", "columns", "% of rows under 1 %", "99 % quantile, %", "largest, %"]
    few = [r["data"] for r in found if r["share"] < ADDING]
    return [
        *section("Do contributions add up?"),
        f"`model.explain(rows)` of {EXPLAINED} test rows of every set, after a fit to 1,500 rows. "
        "The error is how far base and contributions are from the answer, over the range of the "
        "answer: one for a probability, that of the training targets for a real target. The goal "
        f"is an error under {100 * ALLOWED:g} % in {100 * ADDING:g} % of the rows on every set: "
        f"**{met(not few)}**" + (f", missed on {', '.join(few)}." if few else ".") + " This holds "
        "by construction, as each walk of the columns ends at the row; the table shows that "
        "nothing is lost to rounding. Seconds are by the clock, of all threads in brackets.",
        "",
        *markdown([*head, "s for 100 rows", "s to fit"], cells),
        *origin(lines),
    ]


# bars ---------------------------------------------------------------------------------------


class Bars:
    """Coverage of one family: by draw and column."""

    def __init__(self, lines: list[Record], large: list[Record], family: str) -> None:
        draws, many = ([r for r in good(one) if r["family"] == family] for one in (lines, large))
        self.matters = FAMILIES[family][1]
        self.n, self.truth = len(draws), np.mean([r["values"] for r in many], axis=0)
        self.true = np.array(many[0]["true"])
        self.values = np.array([r["values"] for r in draws])
        low, high = np.array([r["interval"] for r in draws]).transpose(2, 0, 1)
        self.inside = (low <= self.truth) & (self.truth <= high)
        self.inside_true = (low <= self.true) & (self.true <= high)
        self.width = high - low
        reach = REACH * np.array([r["stderr_rows"] for r in draws])
        self.inside_rows = np.abs(self.values - self.truth) <= reach
        self.above = self.truth > high

    def relevant(self, inside: NDArray) -> float:
        return float(inside[:, : self.matters].mean())


def bars(lines: list[Record], large: list[Record]) -> list[str]:
    every = {f: Bars(lines, large, f) for f in FAMILIES}
    text = [
        *section("Do intervals hold what many rows give?"),
        f"`model.importances().interval({COVERAGE:g})` of fits to {ROWS} rows. The large-sample "
        f"value is the mean of {LARGE_DRAWS} fits to {MANY_ROWS:,} rows, all of which are changed "
        "(the 256 of a usual call would leave it an error of its own, of 0.01 to 0.03), and the "
        "true value that of the function the answers are drawn around. *halves*: y = a + b + "
        "noise, four "
        "columns; *logistic*: log-odds 2 a + b, six columns; *Friedman 1*: eight columns, of which "
        f"five matter. The goal is {100 * BETWEEN[0]:g} to {100 * BETWEEN[1]:g} % over the columns "
        "that matter. Beside it stands the interval of errors over rows alone "
        f"(`column_changes().stderr()` times {REACH} to each side), which takes f for known.",
        "",
    ]
    summary = []
    for family, b in every.items():
        share = b.relevant(b.inside)
        verdict = met(BETWEEN[0] <= share <= BETWEEN[1])
        shares = (share, b.relevant(b.inside_true), b.relevant(b.inside_rows))
        cells = [f"{100 * s:.1f} %" for s in (*shares, float(b.inside.mean()))]
        summary.append([family, str(b.n), cells[0], verdict, *cells[1:]])
    head = ["family", "draws", "holds it, columns that matter", "goal", "holds the true value"]
    head += ["rows alone", "all columns"]
    text += markdown(head, summary)
    text += ["By column; those that matter are bold:", "", *bars_by_column(every)]
    return [*text, *origin(lines), "Of the large samples:", "", *origin(large)]


def bars_by_column(every: dict[str, Bars]) -> list[str]:
    cells = []
    for family, b in every.items():
        for j, truth in enumerate(b.truth):
            name = f"{family}, {j + 1}"
            cells.append(
                [
                    f"**{name}**" if j < b.matters else name,
                    f"{b.true[j]:.4f}",
                    f"{truth:.4f}",
                    f"{b.values[:, j].mean():.4f} ± {b.values[:, j].std(ddof=1):.4f}",
                    f"{b.width[:, j].mean():.4f}",
                    f"{100 * b.inside[:, j].mean():.0f} %",
                    f"{100 * b.above[:, j].mean():.0f} %",
                    f"{100 * b.inside_rows[:, j].mean():.0f} %",
                ]
            )
    head = ["column", "true", "many rows", "draws, mean ± sd", "width", "holds it", "too low"]
    head += ["rows alone"]
    return markdown(head, cells)


# truth --------------------------------------------------------------------------------------

KINDS: dict[str, Callable[[Record], bool]] = {
    **{f"{d} columns": lambda r, d=d: r["columns"] == d for d in SIZES},
    "independent": lambda r: not r["correlated"],
    "correlated": lambda r: r["correlated"],
    "classes": lambda r: not r["real"],
    "real targets": lambda r: r["real"],
}


class Truth:
    """Areas by table and method."""

    def __init__(self, lines: list[Record]) -> None:
        self.found: dict[tuple, dict[str, Record]] = {}
        for r in good(lines):
            key = tuple(r[k] for k in ("family", "columns", "correlated", "real", "draw"))
            self.found.setdefault(key, {})[r["method"]] = r

    def tables(
        self, methods: Iterable[str], keep: Callable[[Record], bool] | None = None
    ) -> list[dict[str, Record]]:
        """Tables that all these methods have run, of those to keep; the rest are left out."""
        keep = keep or (lambda r: r["family"] != APART)
        whole = [t for t in self.found.values() if all(m in t for m in methods)]
        return [t for t in whole if keep(t["ours"])]

    def areas(self, methods: Sequence[str], keep: Any = None) -> NDArray:
        """(tables, methods)"""
        tables = self.tables(methods, keep)
        return np.array([[t[m]["auc"] for m in methods] for t in tables]).reshape(-1, len(methods))

    def seconds(self, method: str, keep: Any = None) -> tuple[float, float]:
        """Mean seconds of the fit and of what follows."""
        tables = self.tables(("ours", method), keep)
        fields = ("fit_cpu_seconds", "after_cpu_seconds")
        found = [[t[method][f] for f in fields] for t in tables]
        return tuple(np.mean(found, axis=0)) if found else (np.nan, np.nan)


def counted(keep: Callable[[Record], bool]) -> Callable[[Record], bool]:
    return lambda r: r["family"] != APART and keep(r)


def areas_line(title: str, truth: Truth, keep: Callable[[Record], bool]) -> list[str]:
    """Mean areas; the largest of those that ran on all of these tables is bold."""
    same = truth.areas(EVERYWHERE, keep)
    means = dict(zip(EVERYWHERE, same.mean(0) if len(same) else same.sum(0), strict=True))
    best = max(means.values(), default=0.0)
    cells = [f"**{v:.3f}**" if v == best else f"{v:.3f}" for v in means.values()]
    some = truth.areas(("ours", "ReliefF"), keep)
    last = " / ".join(f"{v:.3f}" for v in some.mean(0)[::-1]) if len(some) else "-"
    return [title, str(len(same)), *cells, last]


def truth_tables(truth: Truth) -> list[str]:
    families = {
        f"{f} (not counted)" if f == APART else f: (lambda r, f=f: r["family"] == f)
        for f in TRUE_FAMILIES
    }
    kinds = {title: counted(keep) for title, keep in KINDS.items()}
    every = {**families, **kinds, "**all that count**": counted(lambda r: True)}
    lines = [areas_line(title, truth, keep) for title, keep in every.items()]
    head = ["tables", "number", *EVERYWHERE, "ReliefF / ours, classes"]
    return markdown(head, lines)


def differences(truth: Truth) -> tuple[list[str], list[str]]:
    """Ours less each peer on the tables of both, with standard errors, and who is ahead."""
    lines, ahead = [], []
    for m in METHODS:
        if m == "ours":
            continue
        both = truth.areas(("ours", m))
        apart = both[:, 0] - both[:, 1]
        error = apart.std(ddof=1) / np.sqrt(len(apart))
        wins = f"{(apart > 0).sum()} / {(apart == 0).sum()} / {(apart < 0).sum()}"
        means = [f"{v:.3f}" for v in both.mean(0)]
        lines.append([m, str(len(both)), *means, f"{apart.mean():+.3f} ± {error:.3f}", wins])
        if apart.mean() < 0:
            ahead.append(m)
    head = ["peer", "tables", "ours", "peer", "difference", "higher / equal / lower"]
    return markdown(head, lines), ahead


def truth_seconds(truth: Truth) -> list[str]:
    lines = []
    for m in METHODS:
        cells = [truth.seconds(m, counted(lambda r, d=d: r["columns"] == d)) for d in SIZES]
        lines.append([m, *(f"{number(a)} + {number(b)}" for a, b in cells)])
    return markdown(["seconds, fit + after", *(f"{d} columns" for d in SIZES)], lines)


def quicker(truth: Truth) -> str:
    """How many times quicker ours is than KernelSHAP on the same tables."""
    tables = truth.tables(("ours", "KernelSHAP"))
    if not tables:
        return "KernelSHAP has not run."

    def mean(m: str, *fields: str) -> float:
        return float(np.mean([sum(t[m][f] for f in fields) for t in tables]))

    fields = ("fit_cpu_seconds", "after_cpu_seconds")
    with_fit = mean("KernelSHAP", *fields) / mean("ours", *fields)
    after = mean("KernelSHAP", fields[1]) / mean("ours", fields[1])
    areas = truth.areas(("ours", "KernelSHAP")).mean(0)
    return (
        f"{len(tables)} of the tables above, ours and KernelSHAP alone, one after the other: AUC "
        f"{areas[0]:.3f} and {areas[1]:.3f}. Ours takes {after:.0f} times fewer seconds after the "
        f"fit, and {with_fit:.1f} times fewer with the fit, which both share (goal {QUICKER} "
        f"times: {met(after >= QUICKER)} after the fit, {met(with_fit >= QUICKER)} with it)."
    )


def truth_part(lines: list[Record]) -> list[str]:
    truth = Truth(lines)
    table, ahead = differences(truth)
    verdict = f"**{met(not ahead)}**" + (f"; {', '.join(ahead)} ahead" if ahead else "")
    return [
        *section("Are the columns that matter on top?"),
        *truth_opening(truth),
        f"The goal is the highest mean AUC: {verdict}.",
        "",
        *table,
        "Mean AUC; the highest is bold:",
        "",
        *truth_tables(truth),
        "Mean seconds of all threads; KernelSHAP has fewer tables:",
        "",
        *truth_seconds(truth),
        *origin(lines),
    ]


def truth_opening(truth: Truth) -> list[str]:
    draws = {d: {k[4] for k in truth.found if k[1] == d} for d in SIZES}
    counts = ", ".join(f"{len(draws[d])} of {d} columns" for d in SIZES)
    return [
        f"Tables with {RELEVANT} columns that matter, at random places among "
        f"{', '.join(map(str, SIZES))}; {', '.join(map(str, SIZES.values()))} rows; independent or "
        f"correlated (neighbours by {CORRELATION}); real targets with noise of {NOISE} standard "
        "deviations, or two classes, above and below the median of these. Draws of each such "
        f"table: {counts}. AUC is how often a column that matters has a larger value than one "
        f"that does not. {APART.capitalize()} are shown and not counted: there no column tells "
        f"anything alone. Forests have {TREES} trees; permutation is on a third of the rows, held "
        f"out, {REPEATS} times. TreeSHAP is the mean size over all rows, of LightGBM as it comes. "
        f"KernelSHAP is of our own model, {FEW} rows explained, {FEW} rows of background, at most "
        f"{MOST_COALITIONS} coalitions (its own choice would be over 2,000 for 25 columns), on "
        "tables of 10 and 25 columns, and fewer draws as it is slow. ReliefF takes classes alone.",
        "",
    ]


# deletion -----------------------------------------------------------------------------------


def deletion(lines: list[Record]) -> list[str]:
    found = {(r["data"], r["split"], r["order"]): r["errors"] for r in good(lines)}
    sets = list(dict.fromkeys(name for name, _, _ in found))
    pairs = [
        (name, split)
        for name, split in dict.fromkeys(key[:2] for key in found)
        if all((name, split, order) in found for order in ORDERS)
    ]

    def ratio(order: str, k: int) -> float:
        logs: dict[str, list[float]] = {}
        for name, split in pairs:
            mine, other = (found[name, split, o][str(k)] + OFFSET for o in ("ours", order))
            logs.setdefault(name, []).append(np.log(mine / other))
        return float(np.exp(np.mean([np.mean(v) for v in logs.values()])))

    peers = [o for o in ORDERS if o != "ours"]
    ratios = {o: [ratio(o, k) for k in REMOVED] for o in peers}
    head = ["ours over", *(f"{k} removed" for k in REMOVED), "geometric mean"]
    means = {o: float(np.exp(np.mean(np.log(v)))) for o, v in ratios.items()}
    cells = [[o, *(f"{v:.3f}" for v in ratios[o]), f"{means[o]:.3f}"] for o in peers]
    return [
        *section("Whose first columns are missed most?"),
        f"{', '.join(sets)}; {len(pairs)} splits of them in all, 1,500 training rows (levels of "
        "categories as columns of their own). The first columns of an order are removed and a "
        f"forest of {TREES} trees is fitted to the others; a higher error on test rows says that "
        "what was removed mattered more. Ratio of errors (unexplained variance or wrong classes, "
        f"+ {OFFSET} %), geometric mean over sets; above one, the order of ours is the better "
        "one.",
        "",
        *markdown(head, cells),
        "Errors in per cent, mean over splits:",
        "",
        *deletion_errors(found, sets, pairs),
        *origin(lines),
    ]


def deletion_errors(found: Any, sets: list[str], pairs: list[tuple[str, int]]) -> list[str]:
    cells = []
    for name in sets:
        mine = [pair for pair in pairs if pair[0] == name]
        for order in ORDERS if mine else ():
            means = [np.mean([found[*p, order][str(k)] for p in mine]) for k in (0, *REMOVED)]
            cells.append([name, order, *(f"{v:.1f}" for v in means)])
    return markdown(["set", "order", "none", *(f"{k} removed" for k in REMOVED)], cells)


# the page -----------------------------------------------------------------------------------


def origin(lines: list[Record]) -> list[str]:
    """Where and at which commit a part ran, and what failed."""
    first, runs = lines[0], lines[1:]
    machine = first["machine"]
    loads = [r["busy_elsewhere"] for r in runs if r["busy_elsewhere"] is not None]
    busy = f"; other processes held {np.median(loads):.1f} cores meanwhile" if loads else ""
    faults = [r for r in runs if "fault" in r]
    told = [f"Failed: {r['fault'].strip().splitlines()[-1]}" for r in faults[:5]]
    return [
        f"{len(runs)} runs of {first['date']} at commit {listed(r['commit'] for r in runs)}, on "
        f"{machine['cpu']}, {machine['threads']} threads, {machine['memory_gib']} GiB{busy}; "
        f"{len(faults)} failed; versions: "
        f"{', '.join(f'{name} {v}' for name, v in first['versions'].items())}.",
        "",
        *told,
        *([""] if told else []),
    ]


def kernel_part(lines: list[Record]) -> list[str]:
    return [
        *section("How much quicker than KernelSHAP?"),
        quicker(Truth(lines)),
        "",
        *origin(lines),
    ]


WRITERS = {
    ("adds",): adds,
    ("truth",): truth_part,
    ("kernel",): kernel_part,
    ("bars", "large"): bars,
    ("deletion",): deletion,
}


def page(parts: Parts) -> str:
    lines = [
        "# Explanations and importances",
        "",
        "Measured and told by `python -m benchmarks.explain --data DIR`; runs that are there from "
        "the same day are not run again, and `--only page` writes this page alone.",
        "",
    ]
    for needed, write in WRITERS.items():
        if all(len(parts[part]) > 1 for part in needed):
            lines += write(*(parts[part] for part in needed))
    return "\n".join(lines)
