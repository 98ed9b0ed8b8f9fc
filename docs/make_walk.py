"""Draw the walk of the data, docs/images/walk.svg. Run from the root of the checkout.

Boxes are light with dark words, arrows and titles of a grey that shows on white and on black, so
that one file serves both themes.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

PICTURE = Path(__file__).resolve().parent / "images" / "walk.svg"
WIDTH, HEIGHT = 780, 690
GREY, DARK = "#7f7f7f", "#1a1a1a"
#: fill of what each role writes, and of what is handed on
FUNCTION, ENGINE, EXECUTOR, DATA = "#f6d9b0", "#bcdcf2", "#c4e5d3", "#e6e6e6"

ROLES = [
    (FUNCTION, "a function writes"),
    (ENGINE, "an engine writes"),
    (EXECUTOR, "an executor writes"),
    (DATA, "handed on"),
]

#: left, top, width, height, fill, lines of which the first is bold
BOXES = [
    (40, 12, 250, 48, DATA, ["X, y, weights", "Block and Summary (rows)"]),
    (
        40,
        92,
        250,
        64,
        FUNCTION,
        ["function.fit", "holds rows and settings, and never", "changes after it"],
    ),
    (360, 92, 250, 64, DATA, ["choice", "bandwidth and penalty by", "leave-one-out of f"]),
    (
        40,
        188,
        250,
        64,
        FUNCTION,
        [
            "prepare(function, step, engine)",
            "→ Form: immutable, picklable;",
            "how this f is summed at shifted rows",
        ],
    ),
    (
        360,
        188,
        380,
        64,
        ENGINE,
        [
            "Engine",
            "where arrays live: product, factor, pairs, gram, Cholesky",
            "NumPy and numba, or torch and triton",
        ],
    ),
    (60, 316, 210, 48, FUNCTION, ["form.sums(Q, tile)", "pure: one block against one tile"]),
    (300, 316, 210, 48, DATA, ["WeightedSums", "merge over tiles of references"]),
    (540, 316, 180, 48, FUNCTION, ["form.derive", "→ J (m, outputs, features)"]),
    (300, 392, 210, 48, DATA, ["OuterProduct.add(J)", "merge over blocks of queries"]),
    (40, 490, 250, 48, DATA, ["OuterProduct.mean() → M", "with a standard error of each entry"]),
    (360, 490, 250, 48, DATA, ["metric.components → L", "power, shrinkage, rank"]),
]
#: what the matrix and the map serve, side by side at the foot
USES = [
    ["transform", "pair_distance"],
    ["rules", "knn, hnn, ridge"],
    ["learners", "init="],
    ["importances", "explain"],
    ["plots", "report, cli"],
]
#: places that arrows go through
ARROWS = [
    [(165, 60), (165, 92)],
    [(360, 124), (290, 124)],
    [(165, 156), (165, 188)],
    [(360, 220), (290, 220)],
    [(165, 252), (165, 316)],
    [(270, 340), (300, 340)],
    [(510, 340), (540, 340)],
    [(630, 364), (630, 416), (510, 416)],
    [(300, 416), (165, 416), (165, 490)],
    [(290, 514), (360, 514)],
    [(485, 538), (485, 566), (390, 566), (390, 580)],
    [(165, 538), (165, 566), (390, 566), (390, 580)],
]
#: the executor's room, around the sums
ROOM = (24, 276, 732, 182)


def box(x: float, y: float, w: float, h: float, fill: str, lines: list[str]) -> str:
    """A rounded box with a bold first line."""
    parts = [f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="7" fill="{fill}"/>']
    top = y + h / 2 - 8.5 * (len(lines) - 1) + 4.5
    for i, line in enumerate(lines):
        weight = ' font-weight="600"' if i == 0 else ""
        size = 13 if i == 0 else 11.5
        parts.append(
            f'<text x="{x + w / 2}" y="{top + 17 * i}" font-size="{size}"{weight}>'
            f"{escape(line)}</text>"
        )
    return "\n".join(parts)


def draw() -> str:
    """The picture as SVG."""
    x, y, w, h = ROOM
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="system-ui, sans-serif" text-anchor="middle" fill="{DARK}" role="img" '
        'aria-label="From rows through a function, its form and an executor to the matrix">'
    )
    parts = [
        head,
        f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="{GREY}"/></marker></defs>',
        f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="12" fill="{EXECUTOR}" '
        f'fill-opacity="0.14" stroke="#4f9c77" stroke-dasharray="6 4"/>',
        f'<text x="{x + w - 16}" y="{y + 24}" font-size="13" font-weight="600" '
        f'text-anchor="end" fill="#4f9c77">executor: threads, devices or a Dask cluster '
        "walk blocks × tiles</text>",
        f'<rect x="32" y="580" width="716" height="60" rx="10" fill="none" stroke="{GREY}"/>',
    ]
    for places in ARROWS:
        path = " ".join(f"{a},{b}" for a, b in places)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{GREY}" stroke-width="1.6" '
            'marker-end="url(#tip)"/>'
        )
    parts += [box(*each) for each in BOXES]
    parts += [box(40 + 142 * i, 588, 132, 44, DATA, lines) for i, lines in enumerate(USES)]
    for i, (fill, words) in enumerate(ROLES):
        left = 40 + 180 * i
        parts.append(f'<rect x="{left}" y="658" width="16" height="16" rx="3" fill="{fill}"/>')
        parts.append(
            f'<text x="{left + 24}" y="671" font-size="12.5" text-anchor="start" fill="{GREY}">'
            f"{words}</text>"
        )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    path.write_text(draw(), encoding="utf-8")
