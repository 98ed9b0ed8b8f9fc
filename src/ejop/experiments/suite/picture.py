"""The picture of mean ranks with the critical difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ejop.experiments.suite.contest import LABELS, OURS
from ejop.experiments.suite.ranks import Ranking


def draw(ranking: Ranking) -> Any:
    """A matplotlib figure: methods at their mean ranks, bars over those that may be equal."""
    from ejop.plots.style import BLACK, BLUE, GRAY, panels

    n, groups = len(ranking.methods), ranking.groups()
    rows = (n + 1) // 2
    depth = 0.55 + 0.28 * len(groups)
    figure, axes = panels(None, 1, 1, (7.6, 1.5 + 0.26 * (rows + len(groups))))
    ax = axes.flat[0]
    figure.set_facecolor("white")  # legible on a dark page too
    for i, (method, rank) in enumerate(zip(ranking.methods, ranking.ranks, strict=True)):
        left = i < rows
        y = -depth - 0.55 * (i if left else n - 1 - i)
        end = 0.75 if left else n + 0.25
        color, weight = (BLUE, "bold") if method in OURS else (BLACK, "normal")
        ax.plot([rank, rank, end], [0, y, y], color=color, lw=0.9, solid_joinstyle="miter")
        text = f"{LABELS[method]}  {rank:.2f}" if left else f"{rank:.2f}  {LABELS[method]}"
        side = "right" if left else "left"
        shift = -0.08 if left else 0.08
        ax.text(end + shift, y, text, ha=side, va="center", color=color, weight=weight, fontsize=9)
    for i, (first, last) in enumerate(groups):
        y = -0.3 - 0.28 * i
        ends = [ranking.ranks[first] - 0.04, ranking.ranks[last] + 0.04]
        ax.plot(ends, [y, y], color=GRAY, lw=4, solid_capstyle="butt")
    _scale(ax, n, ranking.difference)
    ax.set_xlim(-1.5, n + 2.5)
    ax.set_ylim(-depth - 0.55 * rows, 1.9)
    ax.set_axis_off()
    return figure


def _scale(ax: Any, n: int, difference: float) -> None:
    """The axis of ranks, and above it the length of the critical difference."""
    ax.plot([1, n], [0, 0], color="black", lw=1)
    for rank in range(1, n + 1):
        ax.plot([rank, rank], [0, 0.15], color="black", lw=1)
        ax.text(rank, 0.25, str(rank), ha="center", va="bottom", fontsize=8)
    ax.plot([1, 1 + difference], [1.05, 1.05], color="black", lw=1.4, marker="|", ms=6)
    ax.text(
        1 + difference / 2,
        1.2,
        f"critical difference {difference:.2f}",
        ha="center",
        va="bottom",
        fontsize=8,
    )


def save(ranking: Ranking, path: Path) -> None:
    """Write the picture as PNG."""
    from matplotlib import pyplot

    figure = draw(ranking)
    figure.savefig(path, dpi=150, format="png", metadata={"Software": None})
    pyplot.close(figure)
