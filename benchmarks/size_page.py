"""The page of the comparison of sizes, from the lines that ``benchmarks.size`` has kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks.common import ROOT
from benchmarks.predictor_page import listed, markdown, section
from benchmarks.size_data import COLUMNS, FAMILIES, NOISE, TEST_ROWS
from benchmarks.size_methods import ROUNDS, WAIT

PAGE = ROOT / "docs" / "results" / "size.md"
PEERS = ("HistGradientBoosting", "HistGradientBoosting, as it comes", "LightGBM")
WHOLE, STREAMED = "ours, whole", "ours, streamed"
FIXED = "ours, 2,000 centres"
CARD, XRFM = "ours, on a card", "xRFM, on a card"
EXPONENT, TIMES = 1.05, 3.0
#: rows -> seconds on a card that are the goal
SECONDS = {10**6: 10, 10**7: 90}
Record = dict[str, Any]


def good(records: Iterable[Record]) -> list[Record]:
    """The last run of each job that did not fail."""
    names = ("set", "real", "n", "method", "seed")
    return list({tuple(r[k] for k in names): r for r in records if "fault" not in r}.values())


def cells(r: Record) -> list[str]:
    busy = r["busy_elsewhere"]
    return [
        f"{r['error']:.2f}",
        f"{r['fit_seconds']:.1f} ({r['fit_cpu_seconds']:.1f})",
        f"{r['predict_seconds']:.2f} ({r['predict_cpu_seconds']:.2f})",
        f"{r['peak_memory'] / 2**20:,.0f}",
        f"{r['centers']:,}" if "centers" in r else "",
        "" if busy is None else f"{busy:.1f}",
    ]


HEAD = ["error %", "fit s", "predict s", "peak MiB", "centres", "busy elsewhere"]


def growing(runs: list[Record]) -> list[str]:
    mine = [r for r in runs if r["set"] in FAMILIES and r["method"] in ("ours", *PEERS)]
    mine = [r for r in mine if any(r["n"] == s for s in (10**4, 10**5, 10**6, 10**7))]
    order = sorted(mine, key=lambda r: (r["set"], r["real"], r["n"]))
    rows = [
        [r["set"], "real" if r["real"] else "classes", f"{r['n']:,}", r["method"], *cells(r)]
        for r in order
    ]
    return [
        *section("As the rows grow"),
        f"Synthetic tables of {COLUMNS} columns, float32. *multi-index*: an answer by three "
        "directions that all columns share. *checkerboard*: a board of four by four fields on two "
        f"columns, which no column tells of alone. Real targets have noise of {NOISE} standard "
        "deviations, so that no method errs on less than about "
        f"{100 * NOISE**2 / (1 + NOISE**2):.1f} %; classes are drawn. Errors are of "
        f"{TEST_ROWS:,} other rows, of which `predict s` are. Boosting: at most {ROUNDS} rounds, "
        f"ended by a tenth of the rows (after {WAIT} without a gain), and scikit-learn's as it "
        "comes (100 rounds). Peaks are beyond the rows themselves.",
        "",
        *markdown(["table", "answer", "rows", "method", *HEAD], rows),
        *verdicts(mine),
    ]


def verdicts(runs: list[Record]) -> list[str]:
    """Ours beside scikit-learn's boosting at a million rows of two classes."""
    lines = []
    for family in FAMILIES:
        at = {r["method"]: r for r in runs if r["set"] == family and r["n"] == 10**6}
        at = {m: r for m, r in at.items() if not r["real"]} if at else {}
        for peer in PEERS[:2]:
            if "ours" not in at or peer not in at:
                continue
            ours, other = at["ours"], at[peer]
            ratio = ours["fit_cpu_seconds"] / other["fit_cpu_seconds"]
            holds = ratio <= TIMES and ours["error"] <= other["error"]
            lines.append(
                f"- {family}, 10^6 rows, two classes, beside {peer}: {ratio:.2f} times its seconds "
                f"of all threads, error {ours['error']:.2f} against {other['error']:.2f} (goal: at "
                f"most {TIMES:g} times, at or below its error): **{'met' if holds else 'MISSED'}**."
            )
    return [*lines, ""] if lines else []


def exponent(runs: list[Record]) -> list[str]:
    mine = sorted((r for r in runs if r["method"] == FIXED), key=lambda r: r["n"])
    if len(mine) < 2:
        return []
    n = np.log([r["n"] for r in mine])
    slopes = {
        name: float(np.polyfit(n, np.log([r[key] for r in mine]), 1)[0])
        for name, key in (("clock", "fit_seconds"), ("all threads", "fit_cpu_seconds"))
    }
    last = float(np.diff(np.log([r["fit_cpu_seconds"] for r in mine[-2:]]))[0] / np.diff(n)[-1])
    rows = [[f"{r['n']:,}", *cells(r)] for r in mine]
    verdict = "met" if slopes["all threads"] <= EXPONENT else "MISSED"
    return [
        *section("Growth at fixed centres"),
        "One machine on 2,000 centres, real targets of multi-index. Growth exponent of the fit: "
        f"{slopes['clock']:.2f} by the clock, {slopes['all threads']:.2f} of all threads, "
        f"{last:.2f} between the last two (goal: at most {EXPONENT}): **{verdict}**.",
        "",
        *markdown(["rows", *HEAD], rows),
    ]


def switch(runs: list[Record]) -> list[str]:
    both = [r for r in runs if r["method"] in (WHOLE, STREAMED)]
    names = {(r["set"], r["n"], r["seed"]) for r in both}
    rows = []
    for name, n, seed in sorted(names):
        for r in runs:
            if (r["set"], r["n"], r["seed"]) == (name, n, seed) and (
                r["method"] == "ours" or r in both
            ):
                real = "real" if r["real"] else "classes"
                rows.append([name, real, f"{n:,}", r["method"], *cells(r)])
    if not rows:
        return []
    return [
        *section("Both sides of the switch"),
        "Up to 10,000 rows machines hold every row, beyond they have centres. *whole* holds every "
        "row beyond that too (of more than 10,000 rows it is what the default would be with "
        "`max_rows` raised), *streamed* has centres below it too.",
        "",
        *markdown(["set", "answer", "rows", "method", *HEAD], rows),
    ]


def real(runs: list[Record]) -> list[str]:
    mine = [r for r in runs if "/" in r["set"] and r["method"] in ("ours", *PEERS)]
    mine = [r for r in mine if r["n"] in (16_000, 11_000, 60_000)]
    if not mine:
        return []
    rows = [
        [r["set"], "real" if r["real"] else "classes", f"{r['n']:,}", r["method"], *cells(r)]
        for r in sorted(mine, key=lambda r: r["set"])
    ]
    return [
        *section("Real sets of more than 10,000 rows"),
        "The sets of the paper and of the predictor's page that are so large; the other rows test.",
        "",
        *markdown(["set", "answer", "rows", "method", *HEAD], rows),
    ]


def card(runs: list[Record]) -> list[str]:
    """Ours on a card beside xRFM there, and the goals in seconds."""
    mine = [r for r in runs if r["method"] in (CARD, XRFM)]
    if not mine:
        return []
    order = sorted(mine, key=lambda r: (r["set"], r["real"], r["n"], r["method"]))
    rows = [
        [r["set"], "real" if r["real"] else "classes", f"{r['n']:,}", r["method"], *cells(r)]
        for r in order
    ]
    lines = []
    for n, goal in SECONDS.items():
        found = [r["fit_seconds"] for r in mine if r["method"] == CARD and r["n"] == n]
        if found:
            verdict = "met" if max(found) < goal else "MISSED"
            lines.append(
                f"- {n:,} rows: {min(found):.1f} to {max(found):.1f} s (goal: under {goal} s): "
                f"**{verdict}**."
            )
    return [
        *section("On a card"),
        '`device="cuda"` on one H200, the copy of the rows included; xRFM as it comes, a tenth '
        "of the rows ends its rounds. As a reference of scale: Falkon's authors tell of 443 s for "
        "the 10^7 rows of HIGGS on two cards of their time.",
        "",
        *markdown(["table", "answer", "rows", "method", *HEAD], rows),
        *lines,
        "",
    ]


def page(records: list[Record]) -> str:
    runs = good(records)
    keys = {(r["set"], r["real"], r["n"], r["method"], r["seed"]) for r in runs}
    faults = [
        r
        for r in records
        if "fault" in r and (r["set"], r["real"], r["n"], r["method"], r["seed"]) not in keys
    ]
    machine = runs[-1]["machine"] if runs else {}
    return "\n".join(
        [
            "# Many rows",
            "",
            "Measured by `python -m benchmarks.size --data DIR` (a second call goes on where the "
            "first stopped) and told by `--only page`. Seconds are by the clock, those of all "
            "threads in brackets; where other processes were busy (last column, in cores) these "
            "are the steadier ones. Errors are of wrong classes, or of unexplained variance.",
            "",
            *growing(runs),
            *exponent(runs),
            *card(runs),
            *switch(runs),
            *real(runs),
            "Each fit had two cores of its own, and those on a card were alone on the machine. "
            f"{len(runs)} runs at commit {listed(r['commit'] for r in runs)}, on "
            f"{machine.get('cpu')}, {machine.get('threads')} threads, "
            f"{machine.get('memory_gib')} GiB; {len(faults)} failed"
            + "".join(f"; {r['set']} {r['n']} {r['method']}: {r['fault']}" for r in faults)
            + ".",
            "",
        ]
    )
