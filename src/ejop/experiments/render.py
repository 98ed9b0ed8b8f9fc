"""The tables beside the paper's: as text, Markdown, CSV and a page with plots."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ejop.experiments.lowest import lowest_rows
from ejop.experiments.paper_tables import PAPER, PAPER_DATASETS, PaperTable
from ejop.experiments.provenance import Kind, days, kinds, legend, made
from ejop.experiments.store import Run

#: why ours is above the paper's figure, where that can be shown
REMARKS = {
    "letter": "With 4,000 training rows plain neighbours err on about 10 % of Letters, with 16,000 "
    "on about 4 to 5 %: the paper's row fits the larger size (see letter-16000).",
    "mnist": "Plain 7 nearest of 50,000 rows err on 3.2 % of the usual 10,000 test rows, where the "
    "paper has 4.93 %: its figures are of other rows or pixels, and higher or lower says little.",
    "mnist-small": "8,000 rows to learn from where the paper has 50,000.",
}


TITLE = "The paper's tables, computed again"


@dataclass(frozen=True)
class Line:
    """One cell of a table with the paper's beside it; errors in per cent."""

    table: str
    dataset: str
    method: str
    label: str
    seeds: int
    error: float
    deviation: float
    paper: float | None
    paper_deviation: float | None
    difference: float | None
    fit_seconds: float
    iterations: float | None
    made: str

    @property
    def verdict(self) -> str:
        """Whether ours is lower."""
        if self.difference is None:
            return ""
        return "lower" if self.difference <= 0 else "higher"


def summarize(table: PaperTable, runs: Iterable[Run], labels: dict[str, str]) -> list[Line]:
    """Mean and standard deviation over seeds, for each row and method of a table that has runs.

    What a line was made with is told by letters, which :func:`~ejop.experiments.provenance.legend`
    explains for the same runs.
    """
    runs = list(runs)
    letters = kinds(runs)
    found: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        found.setdefault((run.dataset, run.method), []).append(run)
    lines = []
    for dataset in [*table.datasets, *_stand_ins(table, found)]:
        for method in table.methods:
            here = found.get((dataset, method))
            if here:
                lines.append(_line(table, dataset, method, labels[method], here, letters))
    return lines


def _stand_ins(table: PaperTable, found: Iterable[tuple[str, str]]) -> list[str]:
    """Smaller sets that a quick run took instead."""
    small = {"table1": ["mnist-small"]}.get(table.name, [])
    return [name for name in [*small, "digits"] if any(name == d for d, _ in found)]


def _line(
    table: PaperTable,
    dataset: str,
    method: str,
    label: str,
    runs: list[Run],
    letters: dict[Kind, str],
) -> Line:
    errors = np.array([run.error for run in runs])
    paper, spread = PAPER.get(PAPER_DATASETS[dataset].paper, {}).get(method, (None, None))
    iterations = [run.iterations for run in runs if run.iterations is not None]
    return Line(
        table.name,
        dataset,
        method,
        label,
        len(runs),
        round(float(errors.mean()), 3),
        round(float(errors.std(ddof=1)), 3) if len(runs) > 1 else 0.0,
        paper,
        spread,
        None if paper is None else round(float(errors.mean()) - paper, 3),
        round(float(np.median([run.fit_seconds for run in runs])), 2),
        float(np.median(iterations)) if iterations else None,
        made(runs, letters),
    )


HEADER = ["data", "method", "splits", "ours", "paper", "difference", "", "fit s", "iterations"]
HEADER += ["made"]


def cells(line: Line) -> list[str]:
    """A line as words, under :data:`HEADER`."""
    paper = "-"
    if line.paper is not None:
        spread = "" if line.paper_deviation is None else f" ± {line.paper_deviation:g}"
        paper = f"{line.paper:g}{spread}"
    return [
        line.dataset,
        line.label,
        str(line.seeds),
        f"{line.error:.2f} ± {line.deviation:.2f}" if line.seeds > 1 else f"{line.error:.2f}",
        paper,
        "-" if line.difference is None else f"{line.difference:+.2f}",
        line.verdict,
        f"{line.fit_seconds:.1f}",
        "-" if line.iterations is None else f"{line.iterations:g}",
        line.made,
    ]


def remarks(lines: Iterable[Line]) -> list[str]:
    """Why ours is above the paper, as far as it can be shown; cells with no reason are named."""
    lines = list(lines)
    lower = {
        (PAPER_DATASETS[line.dataset].paper, line.method): line
        for line in lines
        if line.verdict == "lower"
    }
    known: dict[str, None] = {}
    prepared, spread, unknown = [], [], []
    for line in lines:
        if line.verdict != "higher":
            continue
        source = PAPER_DATASETS[line.dataset].paper
        other = lower.get((source, line.method))
        cell = f"{line.dataset} {line.label}"
        assert line.difference is not None
        if line.dataset in REMARKS:
            known[f"{line.dataset}: {REMARKS[line.dataset]}"] = None
        elif line.difference <= np.hypot(line.deviation, line.paper_deviation or 0):
            spread.append(f"{cell} ({line.difference:+.1f})")
        elif other is not None:
            prepared.append(f"{cell} ({line.error:.1f}; {other.dataset} {other.error:.1f})")
        else:
            unknown.append(f"{cell} ({line.difference:+.1f})")
    told = {
        "Above the paper by less than one standard deviation of the splits": spread,
        "Above the paper here, below it where the columns are prepared otherwise": prepared,
        "Above the paper, and it is not known why": unknown,
    }
    return [*known, *(f"{text}: {', '.join(cells)}." for text, cells in told.items() if cells)]


def to_markdown(table: PaperTable, lines: list[Line]) -> str:
    """The table in Markdown, with notes on the preparation of each row."""
    out = [f"## {table.name}: {table.title}", ""]
    out += [table.note, ""] if table.note else []
    out += ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    out += ["| " + " | ".join(cells(line)) + " |" for line in lines]
    out += ["", *(f"- {text}" for text in remarks(lines))]
    names = dict.fromkeys(line.dataset for line in lines)
    out += [f"- {name}: {PAPER_DATASETS[name].note}" for name in names if PAPER_DATASETS[name].note]
    return "\n".join(out) + "\n"


def page(parts: list[tuple[PaperTable, list[Line]]], runs: list[Run]) -> str:
    """All tables in Markdown, where the lowest errors are, and what the runs were made with."""
    lines = [line for _, found in parts for line in found]
    told = [f"{len(runs)} runs of {days(runs)}. Letters in the last column:"]
    told += ["", *(f"- {text}" for text in legend(runs)), ""]
    body = [to_markdown(*part) for part in parts]
    counted = lowest_rows(lines)
    count = [counted.markdown()] if counted.rows else []
    return "\n".join([f"# {TITLE}", "", *told, *count, *body])


def to_csv(lines: list[Line]) -> str:
    """Every figure, one line a cell."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(Line.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(line) for line in lines)
    return out.getvalue()


def to_html(
    parts: list[tuple[PaperTable, list[Line]]], runs: list[Run], title: str, about: str
) -> str:
    """One self-contained page: the tables, paper against ours, and convergence curves."""
    from plotly.offline import get_plotlyjs  # an extra, and slow to load

    body = [f"<h1>{html.escape(title)}</h1>", f"<p>{html.escape(about)}</p>"]
    for table, lines in parts:
        body.append(f"<h2>{table.name}: {html.escape(table.title)}</h2>")
        body += [f"<p>{html.escape(table.note)}</p>"] if table.note else []
        body.append(_html_table(lines))
        body += [f"<p>{html.escape(text)}</p>" for text in remarks(lines)]
        compared = [line for line in lines if line.paper is not None]
        if compared:
            body.append(_figure(_against_paper(compared)))
    for heading, panels in _convergence(runs):
        body += [f"<h2>{html.escape(heading)}</h2>", f"<p>{_CONVERGENCE}</p>", "<div class='grid'>"]
        body += [f"<div><h3>{name}</h3>{_figure(figure)}</div>" for name, figure in panels]
        body.append("</div>")
    return _PAGE.format(title=html.escape(title), script=get_plotlyjs(), body="\n".join(body))


def _html_table(lines: list[Line]) -> str:
    head = "".join(f"<th>{name}</th>" for name in HEADER)
    rows = "".join(
        f"<tr class='{line.verdict}'>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells(line))
        + "</tr>"
        for line in lines
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f"<div class='scroll'>{table}</div>"


def _figure(figure: Any) -> str:
    """A figure that fits a narrow page; its colours are set by the page."""
    figure.update_layout(
        template="plotly_white",
        font={"family": "system-ui, sans-serif", "size": 13},
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    figure.update_xaxes(automargin=True, zeroline=False)
    figure.update_yaxes(automargin=True, zeroline=False)
    config = {"responsive": True, "displayModeBar": False, "showTips": False}
    return figure.to_html(full_html=False, include_plotlyjs=False, config=config)


def _against_paper(lines: list[Line]) -> Any:
    """Two dots a cell, joined: the paper's error and ours."""
    import plotly.graph_objects as go

    names = [f"{line.dataset}, {line.label}" for line in lines]
    joins_x = [x for line in lines for x in (line.paper, line.error, None)]
    joins_y = [y for name in names for y in (name, name, None)]
    line = {"color": "#bbbbbb", "width": 1}
    figure = go.Figure(
        go.Scatter(
            x=joins_x, y=joins_y, mode="lines", line=line, showlegend=False, hoverinfo="skip"
        )
    )
    for label, color, symbol, x, error in (
        (
            "paper",
            "#d55e00",
            "diamond",
            [v.paper for v in lines],
            [v.paper_deviation for v in lines],
        ),
        ("ours", "#0072b2", "circle", [v.error for v in lines], [v.deviation for v in lines]),
    ):
        marker = {"color": color, "symbol": symbol, "size": 9}
        bars = {"type": "data", "array": error, "thickness": 1}
        figure.add_scatter(x=x, y=names, mode="markers", name=label, marker=marker, error_x=bars)
    figure.update_layout(
        xaxis_title="error, %",
        yaxis={"autorange": "reversed"},
        height=140 + 22 * len(lines),
    )
    return figure


_CONVERGENCE = (
    "Objective by iteration of the first split: dashed alone, solid mixed with EJOP, where folds "
    "say how far to go and there is no curve if EJOP alone does best. Its scale goes with the "
    "settings that were chosen, so read the length of a curve, not its height."
)


def _convergence(runs: list[Run]) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Heading, and for each data set the objective alone and with EJOP, of first seeds."""
    import plotly.graph_objects as go

    first: dict[tuple[str, str], Run] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        if run.objective:
            first.setdefault((run.dataset, run.method), run)
    found = []
    for name in ("lmnn", "mlr"):
        panels = []
        for dataset in dict.fromkeys(dataset for dataset, _ in first):
            figure = go.Figure()
            for method, label, line in (
                (name, "alone", {"dash": "dash", "color": "#d55e00"}),
                (f"{name}-ejop", "with EJOP", {"color": "#0072b2"}),
            ):
                if (dataset, method) in first:
                    values = first[dataset, method].objective
                    x = list(range(1, len(values) + 1))
                    figure.add_scatter(x=x, y=values, name=label, line=line, mode="lines")
            if figure.data:
                yaxis = {"type": "log", "exponentformat": "power", "nticks": 5}
                figure.update_layout(height=220, showlegend=False, yaxis=yaxis)
                panels.append((dataset, figure))
        if panels:
            found.append((f"{name.upper()}: objective by iteration", panels))
    return found


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<script>{script}</script>
<style>
:root {{
  color-scheme: light dark; --page: #ffffff; --card: #f6f7f9; --ink: #1c1e21; --line: #d9dce1;
  --good: #00664b; --bad: #a33c00;
}}
@media screen and (prefers-color-scheme: dark) {{
  :root {{
    --page: #16181b; --card: #1f2226; --ink: #e8eaed; --line: #3a3f46;
    --good: #4fd1a5; --bad: #ff9d5c;
  }}
}}
body {{
  font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 72rem; padding: 1.5rem 1rem;
  background: var(--page); color: var(--ink); overflow-wrap: break-word;
}}
h1 {{ font-size: 1.7rem; line-height: 1.2; }} h2 {{ font-size: 1.2rem; margin-top: 2.5rem; }}
.scroll {{ overflow-x: auto; }}
.grid {{
  display: grid; gap: 0.5rem; grid-template-columns: repeat(auto-fill, minmax(16rem, 1fr));
}}
.grid > div {{ min-width: 0; }} h3 {{ font-size: 0.95rem; margin: 0.5rem 0 0; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }}
th, td {{ padding: 0.2rem 0.8rem; text-align: right; border-bottom: 1px solid var(--line); }}
th:nth-child(-n+2), td:nth-child(-n+2) {{ text-align: left; }}
@media (max-width: 760px) {{ th, td {{ padding: 0.2rem 0.4rem; }} }}
tr.lower td:nth-child(7) {{ color: var(--good); }}
tr.higher td:nth-child(7) {{ color: var(--bad); }}
</style></head><body>
{body}
<script>
(function () {{
  // one place knows the colours: the style sheet; figures take theirs from it
  const dark = window.matchMedia("screen and (prefers-color-scheme: dark)");
  function themed() {{
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    for (const plot of document.querySelectorAll(".js-plotly-plot")) {{
      Plotly.relayout(plot, {{
        "font.color": color("--ink"),
        "xaxis.gridcolor": color("--line"), "yaxis.gridcolor": color("--line"),
        "hoverlabel.bgcolor": color("--card"), "hoverlabel.bordercolor": color("--line"),
        "hoverlabel.font.color": color("--ink"),
        // under a finger a drag scrolls the page
        dragmode: window.matchMedia("(pointer: coarse)").matches ? false : "zoom",
      }});
    }}
  }}
  themed();
  dark.addEventListener("change", themed);
}})();
</script>
</body></html>
"""
