"""The report's interactive figures, as plain data for Plotly; colours follow the page's theme."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.plots.fitted import NEGLIGIBLE, Fitted
from ejop.plots.points import project, strip, thinned
from ejop.plots.shares import Shares
from ejop.plots.style import BLUE, COLORS, ORANGE
from ejop.report._evidence import Evidence

#: Okabe and Ito's colours; black would vanish on a dark page
PALETTE = tuple("#8a8a8a" if c == "#000000" else c for c in COLORS)
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")
GLYPHS = ("●", "■", "▲", "◆", "▼", "✚", "✖", "★")
#: features and directions drawn
TOP, DIRECTIONS = 20, 50
#: classes that a heat map names
NAMED = 40


def figures(evidence: Evidence, max_points: int) -> dict[str, dict[str, Any]]:
    """All figures by the id of their place in the page."""
    source = evidence.source
    drawn = {"spectrum": _spectrum(source), "importances": _importances(evidence.shares)}
    by_class = _class_importances(evidence)
    if by_class is not None:
        drawn["class-importances"] = by_class
    kept = thinned(len(evidence.y), max_points)
    after, before = project(source, evidence.Z)
    drawn["projection-before"] = _projection(evidence, before, kept)
    drawn["projection-after"] = _projection(evidence, after, kept)
    if evidence.regression:
        if evidence.before is not None:
            drawn["fit-before"] = _fit(evidence, evidence.before, kept)
        drawn["fit-after"] = _fit(evidence, evidence.after, kept)
    return drawn


def legend(evidence: Evidence) -> list[dict[str, str]]:
    """Class, colour and sign of each class, for the page's own legend."""
    if evidence.regression:
        return []
    names = _classes(evidence)
    return [
        {"name": str(c), "color": PALETTE[i % len(PALETTE)], "glyph": GLYPHS[_turn(i)]}
        for i, c in enumerate(names)
    ]


def _classes(evidence: Evidence) -> NDArray:
    return np.unique(evidence.y)


def _turn(number: int) -> int:
    """Which sign a class has: the next one each time the colours are used up."""
    return number // len(PALETTE) % len(SYMBOLS)


def _spectrum(source: Fitted) -> dict[str, Any]:
    values = source.eigenvalues
    n = int(np.clip(np.sum(values > NEGLIGIBLE * values[0]), 1, DIRECTIONS))
    order, share = list(range(1, n + 1)), values / (values.sum() or 1.0)
    relative = source.relative_stderr()
    line = {
        "x": order,
        "y": numbers(values[:n]),
        "name": "eigenvalue",
        "mode": "lines+markers",
        "line": {"color": BLUE, "width": 1.5},
        "hovertemplate": "direction %{x}<br>eigenvalue %{y:.3g}<extra></extra>",
    }
    if relative is not None:
        error = np.minimum(relative, 0.99) * values[:n]
        line["error_y"] = {"array": numbers(error), "thickness": 1, "width": 2}
    energy = {
        "x": order,
        "y": numbers(100 * np.cumsum(share)[:n]),
        "name": "cumulative energy, %",
        "mode": "lines+markers" if n == 1 else "lines",
        "yaxis": "y2",
        "line": {"color": ORANGE, "width": 2.5},
        "hovertemplate": "first %{x}: %{y:.1f} %<extra></extra>",
    }
    layout = layout_of("direction", "eigenvalue", 360)
    layout["yaxis"] |= {"exponentformat": "power"}
    if n > 1 and values[n - 1] > 0:
        # within two decades powers of ten alone may leave a single mark
        wide = values[0] > 100 * values[n - 1]
        marks = {"dtick": 1} if wide else {"dtick": "D2", "tickformat": "~g"}
        layout["yaxis"] |= {"type": "log", **marks}
    layout["xaxis"] |= {"tickformat": "d", "dtick": 1 if n <= 12 else None}
    layout["yaxis2"] = _right_axis("share, %")
    layout |= {"showlegend": True, "legend": {"orientation": "h", "y": -0.25}}
    return {"data": [line, energy], "layout": layout}


def _importances(shares: Shares) -> dict[str, Any]:
    order = np.argsort(-shares.values, kind="stable")[:TOP]
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": numbers(100 * shares.values[order]),
        "y": list(range(len(order))),
        "marker": {"color": BLUE},
        "customdata": [escape(shares.names[i]) for i in order],
        "hovertemplate": "%{customdata}: %{x:.2f} %<extra></extra>",
    }
    if shares.stderr is not None:
        error = numbers(100 * shares.stderr[order])
        bars["error_x"] = {"array": error, "thickness": 1, "width": 2}
    layout = layout_of("share, %", None, 110 + 24 * max(len(order), 4))
    layout["yaxis"] |= axis_of_names([shares.names[i] for i in order])
    layout["xaxis"]["rangemode"] = "tozero"
    return {"data": [bars], "layout": layout}


def _class_importances(evidence: Evidence) -> dict[str, Any] | None:
    shares = evidence.shares
    table, names = shares.by_output, shares.outputs
    if table is None or names is None:
        return None
    order = np.argsort(-shares.values, kind="stable")[:TOP]
    heat = {
        "type": "heatmap",
        "z": [numbers(row) for row in 100 * table[:NAMED, order].T],
        "x": list(range(min(len(names), NAMED))),
        "colorscale": "Cividis",
        "zmin": 0,
        "colorbar": {"thickness": 12, "title": {"text": "%"}},
        "customdata": [
            [[escape(shares.names[i]), escape(name)] for name in names[:NAMED]] for i in order
        ],
        "hovertemplate": "%{customdata[0]}, %{customdata[1]}: %{z:.2f} %<extra></extra>",
    }
    kind = "output" if evidence.regression else "class"
    layout = layout_of(kind, None, 110 + 24 * max(len(order), 4))
    layout["yaxis"] |= axis_of_names([shares.names[i] for i in order])
    layout["xaxis"] |= {
        "tickvals": list(range(min(len(names), NAMED))),
        "ticktext": [escape(short(name, 10)) for name in names[:NAMED]],
        "showgrid": False,
    }
    return {"data": [heat], "layout": layout}


def _projection(evidence: Evidence, points: NDArray, kept: NDArray) -> dict[str, Any]:
    """Rows on a plane with what hovering says; wrong rows are larger and ringed."""
    flat = points.shape[1] == 1
    if evidence.regression:
        y = evidence.y[kept].astype(float)
        second = y if flat else points[kept, 1]
        trace = _points(evidence, kept, points[kept, 0], second)
        trace["marker"] |= {"color": numbers(y), "colorscale": "Cividis", "showscale": True}
        # a thin ring: the ends of the scale would vanish on a dark or a light page
        trace["marker"] |= {"colorbar": {"thickness": 12}, "line": {"width": 0.6}}
        traces = [trace]
    else:
        traces = []
        for i, name in enumerate(_classes(evidence)):
            mine = kept[evidence.y[kept] == name]
            second = strip(len(mine), i) if flat else points[mine, 1]
            trace = _points(evidence, mine, points[mine, 0], second)
            wrong = evidence.after[mine] != evidence.y[mine]
            trace["marker"] |= {
                "color": PALETTE[i % len(PALETTE)],
                "symbol": SYMBOLS[_turn(i)],
                "size": np.where(wrong, 11, 7).tolist(),
                "line": {"width": np.where(wrong, 2, 0).tolist()},
            }
            traces.append(trace)
    label = ("target" if evidence.regression else "class") if flat else "second direction"
    layout = layout_of("first direction", label, 430)
    if flat and not evidence.regression:
        layout["yaxis"]["showticklabels"] = False
    return {"data": traces, "layout": layout}


def _points(evidence: Evidence, mine: NDArray, x: NDArray, y: NDArray) -> dict[str, Any]:
    truth = [escape(evidence.shown(v)) for v in evidence.y[mine]]
    answer = [escape(evidence.shown(v)) for v in evidence.after[mine]]
    rows = evidence.rows[mine].tolist()
    what = "target" if evidence.regression else "class"
    return {
        "type": "scatter",
        "mode": "markers",
        "x": numbers(x),
        "y": numbers(y),
        "marker": {"opacity": 0.8, "size": 7},
        "customdata": [list(entry) for entry in zip(rows, truth, answer, strict=True)],
        "hovertemplate": (
            f"row %{{customdata[0]}}<br>{what} %{{customdata[1]}}"
            "<br>predicted %{customdata[2]}<extra></extra>"
        ),
    }


def _fit(evidence: Evidence, predicted: NDArray, kept: NDArray) -> dict[str, Any]:
    """Predicted against true targets, with the line on which they agree."""
    trace = _points(evidence, kept, evidence.y[kept].astype(float), predicted[kept])
    trace["customdata"] = [
        [row, truth, evidence.shown(value)]
        for (row, truth, _), value in zip(trace["customdata"], predicted[kept], strict=True)
    ]
    trace["marker"]["color"] = BLUE
    ends = numbers(np.array([evidence.y.min(), evidence.y.max()], dtype=float))
    agree = {
        "type": "scatter",
        "mode": "lines",
        "x": ends,
        "y": ends,
        "line": {"color": ORANGE, "dash": "dot"},
        "hoverinfo": "skip",
    }
    return {"data": [trace, agree], "layout": layout_of("true", "predicted", 380)}


def _right_axis(title: str) -> dict[str, Any]:
    return {
        "overlaying": "y",
        "side": "right",
        "range": [0, 105],
        "tickvals": [0, 25, 50, 75, 100],
        "automargin": True,
        "title": {"text": title},
        "showgrid": False,
    }


def layout_of(x: str, y: str | None, height: int) -> dict[str, Any]:
    return {
        "height": height,
        "margin": {"l": 10, "r": 10, "t": 10, "b": 40},
        "showlegend": False,
        "xaxis": {"title": {"text": x}, "automargin": True, "zeroline": False},
        "yaxis": {"title": {"text": y or ""}, "automargin": True, "zeroline": False},
        "hovermode": "closest",
    }


def axis_of_names(names: list[str], width: int = 22) -> dict[str, Any]:
    """Axis whose places 0, 1, ... from the top are names; equal names stay apart."""
    return {
        "tickvals": list(range(len(names))),
        "ticktext": [escape(short(name, width)) for name in names],
        "autorange": "reversed",
        "showgrid": False,
    }


def short(name: str, width: int) -> str:
    half = (width - 1) // 2
    return name if len(name) <= width else f"{name[:half]}…{name[len(name) - half :]}"


def numbers(values: Any) -> list[float]:
    """Floats of five digits: enough to draw, and the file stays small."""
    return [float(f"{v:.5g}") for v in np.asarray(values, dtype=np.float64)]
