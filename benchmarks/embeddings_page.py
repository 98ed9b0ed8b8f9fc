"""The page on a few labels for embeddings, which ``benchmarks.embeddings`` writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks.predictor_page import markdown

Record = dict[str, Any]
METHODS = (
    "raw",
    "cosine",
    "whitening",
    "whitening 64",
    "NCA",
    "LMNN",
    "ours",
    "ours 64",
    "ours 16",
)
TITLES = {"ours": "ours, 128", "whitening": "whitening, 128", "whitening 64": "whitening, 64"}
TITLES |= {"ours 64": "ours, 64", "ours 16": "ours, 16"}
#: the best of these is what ours is held to
RIVALS = tuple(m for m in METHODS if not m.startswith("ours"))


class Table:
    """Recall by set, number of labels and method, over the draws that are there."""

    def __init__(self, lines: Iterable[Record]) -> None:
        self.lines = list(lines)
        self.sets = sorted({r["data"] for r in self.lines})
        self.labels = sorted({r["labels"] for r in self.lines})

    def of(self, name: str, labels: int) -> list[Record]:
        return [r for r in self.lines if (r["data"], r["labels"]) == (name, labels)]

    def values(self, name: str, labels: int, method: str) -> list[float]:
        """Recall in per cent, a number a draw."""
        found = self.of(name, labels)
        return [100 * r["recall"][method] for r in found if method in r["recall"]]

    def cases(self) -> list[tuple[str, int]]:
        return [(name, n) for n in self.labels for name in self.sets if self.of(name, n)]

    def gains(self, name: str, labels: int, method: str) -> list[float]:
        """Ours at full rank less a method, draw by draw."""
        return [
            100 * (r["recall"]["ours"] - r["recall"][method])
            for r in self.of(name, labels)
            if method in r["recall"]
        ]


def recalls(table: Table, labels: int) -> list[str]:
    lines = []
    for name in table.sets:
        found = {m: table.values(name, labels, m) for m in METHODS}
        if not found["raw"]:
            continue
        means = {m: round(float(np.mean(v)), 1) for m, v in found.items() if v}
        best = max(means.values())
        cells = [
            "-" if m not in means else f"**{means[m]}**" if means[m] == best else f"{means[m]}"
            for m in METHODS
        ]
        spread = f"{np.std(found['ours'], ddof=1):.1f}" if len(found["ours"]) > 1 else "-"
        lines.append([name, str(len(found["raw"])), *cells, spread])
    head = ["set", "draws", *(TITLES.get(m, m) for m in METHODS), "± ours"]
    return [f"### {labels} labels", "", *markdown(head, lines)]


def standing(table: Table) -> list[str]:
    """Where ours is above and below each method, beyond chance, of all sets."""
    lines = []
    for labels in table.labels:
        for method in ("raw", "cosine", "NCA", "LMNN", "whitening 64"):
            above = below = total = 0
            mean = []
            for name in table.sets:
                gains = table.gains(name, labels, method)
                if len(gains) < 2:
                    continue
                reach = 2 * np.std(gains, ddof=1) / np.sqrt(len(gains))
                mean.append(np.mean(gains))
                above, below = above + (mean[-1] > reach), below + (mean[-1] < -reach)
                total += 1
            if total:
                middle = str(total - above - below)
                cells = [str(above), middle, str(below), f"{np.mean(mean):+.1f}"]
                lines.append([str(labels), TITLES.get(method, method), *cells])
    head = ["labels", "beside", "sets above", "no difference", "sets below", "mean difference"]
    return markdown(head, lines)


def misses(table: Table) -> list[str]:
    """Where another method has the higher mean, the largest difference first."""
    found = []
    for name, labels in table.cases():
        means = {m: np.mean(table.values(name, labels, m)) for m in METHODS if m != "ours"}
        best = max((m for m in RIVALS if not np.isnan(means[m])), key=lambda m: means[m])
        gap = float(means[best] - np.mean(table.values(name, labels, "ours")))
        if gap > 0.05:
            found.append((gap, f"- {name}, {labels} labels: {best} is {gap:.1f} points higher."))
    return [line for _, line in sorted(found, reverse=True)] or ["Nowhere."]


def seconds(table: Table) -> list[str]:
    lines = []
    methods = ("NCA", "LMNN", "ours")
    for labels in table.labels:
        found = [r["cpu_seconds"] for r in table.lines if r["labels"] == labels]
        cells = [f"{np.median([s[m] for s in found if m in s]):.2f}" for m in methods]
        lines.append([str(labels), *cells])
    return markdown(["labels", *methods], lines)


def shares(table: Table) -> list[str]:
    lines = []
    for labels in table.labels:
        found = Counter(r["shrinkage"] for r in table.lines if r["labels"] == labels)
        total = sum(found.values())
        values = sorted({r["shrinkage"] for r in table.lines}, reverse=True)
        lines.append([str(labels), *(f"{100 * found[v] / total:.0f} %" for v in values)])
    values = sorted({r["shrinkage"] for r in table.lines}, reverse=True)
    return markdown(["labels", *(f"s = {v:g}" for v in values)], lines)


def origin(lines: list[Record]) -> str:
    """Machines, versions, commits and dates of the lines."""
    machines = {f"{r['machine']['cpu']}, {r['machine']['threads']} threads" for r in lines}
    names = ("python", "ejop", "numpy", "scikit-learn")
    versions = {" ".join(f"{n} {r['versions'][n]}" for n in names) for r in lines}
    commits, dates = {r["commit"] for r in lines}, sorted({r["date"] for r in lines})
    parts = ("; ".join(sorted(part)) for part in (machines, versions, commits, set(dates)))
    return "Machine: {}. Versions: {}. Commit: {}. Date: {}.".format(*parts)


def page(lines: list[Record]) -> str:
    """The whole page, from the lines that are there."""
    from benchmarks.embeddings import COLLECTION, DRAWS, NCA_DISTANCE, NEAR, QUERIES, WIDTH

    table = Table(lines)
    faults = sum(len(r["faults"]) for r in lines)
    parts = [
        "# A few labels for embeddings",
        "",
        f"Do the {NEAR} nearest rows agree with a new row's class, once a map is learned from a "
        "few labels? Measured and written by `python -m benchmarks.embeddings`; the method is "
        "`ejop.EmbeddingAdapter`.",
        "",
        f"Rows are reduced to {WIDTH} columns by their singular vectors, without labels and "
        f"without centring. A collection has {COLLECTION:,} rows (fewer where the set has fewer); "
        f"10 to 500 of them are labelled at random, and {QUERIES} other rows ask the rest. The "
        f"figure is the share, in per cent, of the {NEAR} nearest that are of the class of the row "
        f"that asks. {DRAWS} draws, seeds 0 to {DRAWS - 1}; defaults were chosen on other sets and "
        "on seeds from 1000 on.",
        "",
        "*raw* is Euclidean distance of these rows. All others begin with rows of unit length: "
        "*cosine* leaves them so; *whitening* divides principal components by their deviations; "
        "*NCA* is scikit-learn's, on rows whose mean squared distance is "
        f"{NCA_DISTANCE} (of 256, 32, 8 and 2 the best on other draws), 100 iterations at the "
        "most; *LMNN* is ours, as it comes; *ours* is `EmbeddingAdapter()` with the collection as "
        "unlabelled rows, and its first 64 and 16 directions. NCA and LMNN give 128 numbers.",
        "",
        "## Recall",
        "",
        *(line for labels in table.labels for line in recalls(table, labels)),
        "## In short",
        "",
        "Ours at full rank, draw by draw, beside each method: sets where the mean difference is "
        "more than two standard errors above or below zero, and the mean over sets in points.",
        "",
        *standing(table),
        "## Where another method is better",
        "",
        *misses(table),
        "",
        "## What it chose",
        "",
        "Share s of the mean squared distance that stays Euclidean; held-out labels choose it. At "
        "s = 1 ours is cosine.",
        "",
        *shares(table),
        "## Seconds",
        "",
        "CPU seconds of a fit, median over sets and draws.",
        "",
        *seconds(table),
        "## Origin",
        "",
        origin(lines),
        "",
        f"{len(lines)} lines of `benchmarks/results/embeddings.jsonl`; fits that failed: {faults}.",
        "",
    ]
    return "\n".join(parts)
