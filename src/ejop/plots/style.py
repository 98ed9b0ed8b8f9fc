"""What the displays share: colours, axes, labels that fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Okabe and Ito's colours, distinct for colour-blind readers; the faint yellow comes last
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
BLUE, ORANGE, GREEN, PURPLE, SKY, RED, BLACK, YELLOW = COLORS
GRAY = "#8a8a8a"
#: one colour map for amounts, one for signs; both read in grey and by colour-blind people
AMOUNTS, SIGNS = "cividis", "RdBu_r"
#: classes that a legend names; the others are counted
MAX_LEGEND = 40


class Display:
    """Base of the displays.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
    ax_ : matplotlib.axes.Axes, or ndarray of them where there are several panels
    """

    figure_: Any
    ax_: Any

    def _keep(self, figure: Any, axes: NDArray) -> None:
        """Store what was drawn on: one Axes as itself, several as an array."""
        self.figure_ = figure
        self.ax_ = axes.flat[0] if axes.size == 1 else axes


def ink(ax: Any) -> Any:
    """Colour of what is written beside axes, for marks that a dark background would hide."""
    return ax.xaxis.label.get_color()


def pandas() -> Any:
    """The pandas module, or an error that says how to get it."""
    try:
        import pandas as module
    except ImportError:
        raise ImportError("a display's frame() is a pandas table: pip install pandas") from None
    return module


def panels(ax: Any, n_rows: int, n_cols: int, size: tuple[float, float]) -> tuple[Any, NDArray]:
    """Figure and an array (n_rows, n_cols) of Axes: new ones, those given, or one cut up.

    A single Axes given for several panels is emptied and divided, as scikit-learn's displays do.
    """
    try:
        from matplotlib import pyplot
        from matplotlib.gridspec import GridSpecFromSubplotSpec
    except ImportError:
        raise ImportError("displays are drawn by matplotlib: pip install 'ejop[plot]'") from None
    if ax is None:
        return pyplot.subplots(n_rows, n_cols, figsize=size, layout="constrained", squeeze=False)
    given = np.asarray(ax, dtype=object)
    if given.size == n_rows * n_cols:
        return given.flat[0].figure, given.reshape(n_rows, n_cols)
    if given.size != 1:
        raise ValueError(
            f"`ax` holds {given.size} axes and {n_rows * n_cols} panels are to be drawn; pass one "
            f"Axes to be divided, {n_rows * n_cols} of them, or None."
        )
    whole = given.flat[0]
    figure, place = whole.figure, whole.get_subplotspec()
    if place is None:
        raise ValueError("`ax` is not part of a grid and cannot be divided; pass ax=None.")
    whole.set_axis_off()
    grid = GridSpecFromSubplotSpec(n_rows, n_cols, subplot_spec=place)
    axes = [figure.add_subplot(grid[i, j]) for i in range(n_rows) for j in range(n_cols)]
    return figure, np.array(axes, dtype=object).reshape(n_rows, n_cols)


def label(name: Any, width: int = 26) -> str:
    """A name short enough for an axis, its middle left out, and never read as a formula.

    Examples
    --------
    >>> from ejop.plots.style import label
    >>> label("a_rather_long_name_of_a_column", 15)
    'a_rathe…_column'
    """
    text = str(name)
    if len(text) > width:
        half = (width - 1) // 2
        text = f"{text[:half]}…{text[len(text) - half :]}"
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text  # matplotlib hides labels with _


def class_style(number: int) -> dict[str, Any]:
    """Colour and marker of a class: eight colours, then the same with the next marker."""
    n = len(COLORS)
    return {"color": COLORS[number % n], "marker": MARKERS[number // n % len(MARKERS)]}


def class_legend(ax: Any, classes: Sequence[Any], *, title: str = "class") -> None:
    """Legend to the right of the axes, in as many columns as the classes need."""
    from matplotlib.lines import Line2D

    shown = list(classes)[:MAX_LEGEND]
    handles = [
        Line2D([], [], linestyle="", markersize=6, label=label(c, 18), **class_style(i))
        for i, c in enumerate(shown)
    ]
    if len(classes) > len(shown):
        rest = f"and {len(classes) - len(shown)} more"
        handles.append(Line2D([], [], linestyle="", label=rest))
    columns = -(-len(handles) // 14)
    ax.legend(
        handles=handles,
        title=title,
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        frameon=False,
        ncols=columns,
        handletextpad=0.2,
        columnspacing=0.8,
    )


def quiet_grid(ax: Any, axis: str = "both") -> None:
    """A pale grid behind the data."""
    ax.set_axisbelow(True)
    ax.grid(alpha=0.25, axis=axis)


def name_ticks(axis: Any, names: Sequence[str], most: int = 30, **text: Any) -> None:
    """Name the places 0, 1, ... of an axis, or some of them at even distances when too many."""
    places = np.arange(len(names))
    if len(names) > most:
        places = np.unique(np.linspace(0, len(names) - 1, most).round().astype(int))
    axis.set_ticks(places, [label(names[i], 18) for i in places.tolist()], **text)
