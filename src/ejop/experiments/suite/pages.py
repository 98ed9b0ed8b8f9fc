"""Tables and text of the suite, all of it from finished runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable

import numpy as np

from ejop.experiments.provenance import kinds, legend, made
from ejop.experiments.result_table import ResultTable
from ejop.experiments.store import Run
from ejop.experiments.suite.board import Board
from ejop.experiments.suite.contest import LABELS, METHODS, OURS
from ejop.experiments.suite.peers import GRIDS
from ejop.experiments.suite.ranks import LEVEL, OFFSET, Ranking, holm, ratio, signed_rank
from ejop.experiments.suite.sets import SETS
from ejop.experiments.suite.splits import FIRST_SEED, MAX_TEST, TRAIN_ROWS

TITLE = "The suite: the predictor beside its peers"
#: the predictor as it comes, which losses are told of, and the method that errors are over
FIRST, BASE = "ejop-machines", "knn"
#: letters of a warning that are told
WARNING_LETTERS = 200
_OURS_IN_WORDS = {
    "ejop-machines": "`EJOPClassifier()` and `EGOPRegressor()` as they come",
    "ejop-knn": 'the same with `rule="knn"`',
    "ejop-hnn": 'the same with `rule="hnn"`',
}


def number(value: float, form: str = ".2f") -> str:
    """A figure, or a dash where there is none."""
    return "-" if np.isnan(value) else format(value, form)


def summary(board: Board) -> ResultTable:
    """How each method does over all sets."""
    ranking = board.ranking()
    ranks = dict(zip(ranking.methods, ranking.ranks, strict=True)) if ranking else {}
    wins = [m for name in board.names for m in board.lowest(name)]
    rows = []
    for m in board.methods:
        names = [name for name in board.names if (name, m) in board.cells]
        fit = np.array([board.mean(name, m, "fit_seconds") for name in names])
        rows.append(
            [
                LABELS[m],
                f"{len(names)} of {len(board.names)}",
                number(over(board, m, BASE), ".3f"),
                "" if m == FIRST else number(over(board, FIRST, m), ".3f"),
                number(ranks.get(m, np.nan)),
                str(wins.count(m)),
                number(float(np.median(fit)), ".1f"),
                number(float(fit.sum()), ".0f"),
            ]
        )
    header = ["method", "sets", f"over {LABELS[BASE]}", f"{LABELS[FIRST]} over it", "mean rank"]
    header += ["lowest on", "fit s, median set", "fit s, all sets"]
    return ResultTable("In short", header, rows, _summary_remarks(board))


def _summary_remarks(board: Board) -> list[str]:
    words = [
        f"Over: geometric mean of (error + {OFFSET} %) over the other's, on the sets that both "
        "ran; below 1 is better. Sets where methods tie for the lowest error count for each.",
        f"Ranks are over the {len(board.complete)} sets that all ranked methods ran.",
    ]
    unranked = [LABELS[m] for m in board.methods if m not in board.ranked]
    if unranked:
        words.append(f"Not ranked, for too few sets: {', '.join(unranked)}.")
    return words


def over(board: Board, method: str, base: str) -> float:
    """Geometric mean of a method's errors over another's, on the sets that both ran."""
    pairs = [(board.mean(name, method), board.mean(name, base)) for name in board.names]
    kept = np.array([pair for pair in pairs if not np.isnan(pair).any()])
    return ratio(kept[:, 0], kept[:, 1]) if len(kept) else float("nan")


def pairs(board: Board) -> ResultTable | None:
    """The predictor against each method, set by set."""
    others = [m for m in board.ranked if m != FIRST]
    if FIRST not in board.ranked or not others or not board.complete:
        return None
    errors = dict(zip(board.ranked, board.errors().T, strict=True))
    p_values = [signed_rank(errors[FIRST], errors[m]) for m in others]
    rows = []
    for m, p, corrected in zip(others, p_values, holm(p_values), strict=True):
        lower, equal = (errors[FIRST] < errors[m]).sum(), (errors[FIRST] == errors[m]).sum()
        counts = [str(lower), str(equal), str(len(errors[m]) - lower - equal)]
        rows.append([LABELS[m], *counts, f"{p:.2g}", f"{corrected:.2g}"])
    header = [f"{LABELS[FIRST]} against", "lower on", "equal on", "higher on", "p", "p, Holm"]
    remark = (
        f"Wilcoxon's signed-rank test of log(error + {OFFSET} %), two-sided, over "
        f"{len(board.complete)} sets; below {LEVEL:g} after Holm's correction, one of the two is "
        "lower beyond chance."
    )
    return ResultTable("Pairs", header, rows, [remark])


def losses(board: Board) -> ResultTable:
    """Every set on which another method has a lower error than the predictor."""
    rows, wins = [], 0
    for name in board.names:
        if (name, FIRST) not in board.cells:
            continue
        if FIRST in board.lowest(name):
            wins += 1
            continue
        means = {m: board.mean(name, m) for m in board.there(name)}
        below = sorted((m for m in means if means[m] < means[FIRST]), key=lambda m: means[m])
        told = ", ".join(f"{LABELS[m]} {means[m]:.2f}" for m in below)
        gaps = board.values(name, FIRST) - board.values(name, below[0])
        rows.append([name, str(len(gaps)), number(means[FIRST]), told, _gap(gaps)])
    header = ["set", "splits", LABELS[FIRST], "lower, and by which method", "behind the lowest"]
    remark = (
        f"{LABELS[FIRST]} has the lowest error on {wins} of {wins + len(rows)} sets, ties "
        f"included, and not on these {len(rows)}. With several splits the difference has the "
        "standard error of its mean over them."
    )
    return ResultTable(f"Every loss of {LABELS[FIRST]}", header, rows, [remark])


def _gap(gaps: np.ndarray) -> str:
    if len(gaps) < 2:
        return f"{gaps.mean():+.2f}"
    return f"{gaps.mean():+.2f} ± {gaps.std(ddof=1) / np.sqrt(len(gaps)):.2f}"


def per_set(
    board: Board, title: str, field: str, cell: Callable[[np.ndarray], str], remark: str
) -> ResultTable:
    """A figure of each method on each set, the lowest mean in bold."""
    rows = []
    for name in board.names:
        found = {m: board.values(name, m, field) for m in board.methods}
        means = {m: values.mean() for m, values in found.items() if len(values)}
        if not means:
            continue
        best = min(means.values())
        cells = []
        for m, values in found.items():
            text = cell(values) if len(values) else "-"
            cells.append(f"**{text}**" if means.get(m, np.inf) <= best + 1e-9 else text)
        rows.append([name, str(len(board.compared(name))), *cells])
    header = ["set", "splits", *(LABELS[m] for m in board.methods)]
    return ResultTable(title, header, rows, [remark])


def spread(values: np.ndarray) -> str:
    """Mean and standard deviation over splits."""
    beside = f" ± {values.std(ddof=1):.2f}" if len(values) > 1 else ""
    return f"{values.mean():.2f}{beside}"


def about_sets(board: Board) -> ResultTable:
    """Sizes, and where the rows are from."""
    rows = []
    for name in board.names:
        found = [run.settings for m in board.there(name) for run in board.runs(name, m)]
        first = found[0]
        kind = str(first["n_classes"] or "real")
        mixed = "text and gaps" if SETS[name].kind == "frame" else "numbers and 0/1"
        sources = ", ".join(sorted({one["source"] for one in found}))
        sizes = [str(first[size]) for size in ("n_train", "n_test", "n_columns")]
        rows.append([name, *sizes, kind, mixed, sources])
    header = ["set", "training rows", "test rows", "columns", "classes", "of", "from"]
    return ResultTable("Sets", header, rows, [])


def absent(board: Board) -> list[str]:
    """What is not in the tables."""
    lines = [f"{LABELS[m]} has not run." for m in METHODS if m not in board.methods]
    unseen = [one for one, what in SETS.items() if what.file and one not in board.names]
    if unseen and any(SETS[name].file for name in board.names):
        lines.append(f"Sets that have not run: {', '.join(unseen)}.")
    for m in board.methods:
        missing = [name for name in board.names if (name, m) not in board.cells]
        if missing:
            lines.append(f"{LABELS[m]} has not run on {', '.join(missing)}.")
    for name in board.names:
        compared, most = (
            board.compared(name),
            max(len(board.cells[name, m]) for m in board.there(name)),
        )
        if len(compared) < most:
            lines.append(f"{name}: {len(compared)} of {most} splits ran with all methods.")
    return lines or ["Nothing: every method ran on every set."]


def warned(board: Board) -> list[str]:
    """What ours warned of, each text once and not beyond its beginning."""
    told: dict[str, dict[str, None]] = {}
    for (name, m), cell in board.cells.items():
        for run in cell.values():
            for text in run.settings["warnings"] if m in OURS else ():
                told.setdefault(text, {})[name] = None
    lines = []
    for text, names in told.items():
        short = text if len(text) <= WARNING_LETTERS else f"{text[:WARNING_LETTERS]}…"
        lines.append(f"{', '.join(names)}: {short}")
    return lines or ["Nothing."]


def tables(board: Board) -> list[ResultTable]:
    """All tables of the page after the picture."""
    seconds = (
        "Mean by the clock, searches included; what is compiled is compiled before. Other work on "
        f"the machine counts ({_busy(board)}), so that seconds of all threads, below, are steadier."
    )
    found = [
        pairs(board),
        losses(board),
        per_set(
            board,
            "Errors",
            "error",
            spread,
            "In per cent: of wrong classes, or of unexplained variance for real targets; mean and "
            "standard deviation over splits. A set is told by the splits that all methods ran.",
        ),
        per_set(
            board,
            "Log loss",
            "log_loss",
            lambda values: f"{values.mean():.3f}",
            "Probabilities below 1e-6 are taken for 1e-6. The SVM gives none.",
        ),
        per_set(board, "Seconds of fit", "fit_seconds", lambda v: f"{v.mean():.1f}", seconds),
        per_set(
            board,
            "Seconds of fit, all threads",
            "fit_cpu_seconds",
            lambda values: f"{values.mean():.1f}",
            "Processor time of all threads of the process.",
        ),
        per_set(
            board,
            "Seconds of predict",
            "predict_seconds",
            lambda values: f"{values.mean():.2f}",
            "Of all test rows.",
        ),
        about_sets(board),
    ]
    return [table for table in found if table is not None and table.rows]


def _busy(board: Board) -> str:
    """How much else the machine did."""
    loads = [run.settings["load"] for cell in board.cells.values() for run in cell.values()]
    known = [load for load in loads if load is not None]
    if not known:
        return "its load is not known"
    return f"load average as runs began: median {np.median(known):.1f}"


def in_words(ranking: Ranking) -> str:
    """What the picture shows."""
    level = f"{ranking.p_value:.2g}"
    return (
        f"Mean ranks over {ranking.n_sets} sets, the lowest error first. Methods under one bar "
        f"differ by less than Nemenyi's critical difference, {ranking.difference:.2f}, and may be "
        f"equal (5 %). The Friedman test that all are equal: p = {level}. After Demšar, "
        "*Statistical comparisons of classifiers over multiple data sets*, JMLR 7, 2006; the pairs "
        "below after Benavoli, Corani and Mangili, JMLR 17, 2016."
    )


def markdown(runs: list[Run], picture: str | None) -> str:
    """The page."""
    board = Board(runs)
    ranking = board.ranking()
    seeds = sorted({run.seed for run in runs})
    lines = [
        f"# {TITLE}",
        "",
        f"Made by `ejop reproduce suite --out FOLDER`. Training rows are {TRAIN_ROWS:,}, or 70 % "
        f"where a set has fewer; test rows are the others, at most {MAX_TEST:,}. Splits are drawn "
        f"with the seeds {FIRST_SEED}, {FIRST_SEED + 1}, ..., on which nothing was chosen; here "
        f"with {len(seeds)}. Categories of `data/suite` are 0/1 columns for every method; the "
        "tables with text and gaps go to ours as they are.",
        "",
        *(f"- {LABELS[m]}: {_OURS_IN_WORDS[m]}." for m in board.methods if m in OURS),
        "",
        summary(board).markdown(),
    ]
    if ranking is not None:
        lines += ["## Critical difference", ""]
        lines += [f"![Critical difference]({picture})", ""] if picture else []
        lines += [in_words(ranking), ""]
    lines += [table.markdown() for table in tables(board)]
    lines += ["## Peers", "", "Three folds and all rows afterwards, unless said.", ""]
    lines += [f"- {LABELS[m]}: {grid}." for m, grid in GRIDS.items() if m in board.methods]
    lines += [
        "- On tables with text and gaps LightGBM, XGBoost and CatBoost take text as their own "
        "categories; the other peers get levels as 0/1 columns and gaps at the median.",
        "",
        "## What is missing",
        "",
        *(f"- {line}" for line in absent(board)),
        "",
        "## What ours warned of",
        "",
        *(f"- {line}" for line in warned(board)),
        "",
        "## What ran",
        "",
        f"{len(runs)} runs. By method, with letters that stand for:",
        "",
        *(f"- {line}" for line in legend(runs)),
        "",
        by_method(board, runs).markdown(),
    ]
    return "\n".join(lines)


def by_method(board: Board, runs: list[Run]) -> ResultTable:
    """Splits, and what the runs of each method were made with."""
    letters = kinds(runs)
    rows = []
    for m in board.methods:
        these = [run for run in runs if run.method == m]
        splits = len({run.seed for run in these})
        rows.append([LABELS[m], str(len(these)), str(splits), made(these, letters)])
    return ResultTable("Runs by method", ["method", "runs", "splits", "made"], rows, [])


COLUMNS = ("error", "log_loss", "auc", "r2", "fit_seconds", "fit_cpu_seconds", "predict_seconds")


def to_csv(runs: Iterable[Run]) -> str:
    """A line for each set and method: means over the splits that the page tells of."""
    runs = list(runs)
    board, letters = Board(runs), kinds(runs)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["set", "method", "label", "splits", *COLUMNS, "error_deviation", "made"])
    for name in board.names:
        for m in board.there(name):
            these = board.runs(name, m)
            if not these:
                continue
            means = [board.mean(name, m, field) for field in COLUMNS]
            shown = ["" if np.isnan(value) else f"{value:.6g}" for value in means]
            errors = board.values(name, m)
            spread = f"{errors.std(ddof=1):.4g}" if len(errors) > 1 else ""
            head = [name, m, LABELS[m], str(len(these))]
            writer.writerow([*head, *shown, spread, made(these, letters)])
    return out.getvalue()
