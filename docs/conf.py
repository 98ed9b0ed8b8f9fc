"""How the site is built: ``make docs``. Nothing is fetched from the network."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
GENERATED = HERE / "_generated"
sys.path.insert(0, str(HERE))  # the gallery finds its style by name

project = "ejop"
author = "The ejop developers"
copyright = "The ejop developers"
release = version = installed_version("ejop")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_generated", "results/theory", "api/backreferences"]
templates_path = ["_templates"]
default_role = "literal"

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^(cluster|digits|learners)\.py$",
    "subsection_order": [
        f"../examples/{group}" for group in ("tables", "explain", "vectors", "starts", "method")
    ],
    "within_subsection_order": "FileNameSortKey",
    "thumbnail_size": (560, 340),
    "reset_modules": ("matplotlib", "gallery_style.reset"),
    "doc_module": ("ejop",),
    "reference_url": {"ejop": None},
    "backreferences_dir": "api/backreferences",
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "plot_gallery": "True",
}

html_theme = "pydata_sphinx_theme"
html_title = "ejop"
html_static_path = ["_static"]
html_css_files = ["ejop.css"]
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # light or dark as the reader's system is
html_math_renderer = "mathml"
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_nav_level": 2,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc", "sg_download_links"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {page: [] for page in ("index", "start", "idea", "contributing")}


# formulae -----------------------------------------------------------------------------------


def mathml(node: Any, *, block: bool) -> str:
    """A formula as MathML, which browsers draw without scripts or a network."""
    from docutils.utils.math import MathError
    from docutils.utils.math.latex2mathml import tex2mathml
    from sphinx.util import logging

    tex = re.sub(r"\\[bB]ig+[lr]?(?![A-Za-z])", "", node.astext())  # brackets stretch by themselves
    tex = tex.replace(r"\operatorname*", r"\operatorname")
    try:
        return tex2mathml(tex, as_block=block)
    except MathError as error:
        logging.getLogger(__name__).warning("formula %r: %s", tex, error, location=node)
        return f"<code>{tex}</code>"


def visit_inline_math(self: Any, node: Any) -> None:
    """Write a formula in a line."""
    from docutils.nodes import SkipNode

    self.body.append(mathml(node, block=False))
    raise SkipNode


def visit_block_math(self: Any, node: Any) -> None:
    """Write a formula on lines of its own."""
    from docutils.nodes import SkipNode

    self.body.append(f'<div class="math">{mathml(node, block=True)}</div>\n')
    raise SkipNode


# pages made from committed results ------------------------------------------------------------


def benchmark_table(record: dict[str, Any]) -> str:
    """Rows of one benchmark file as a Markdown table, with where and when they were measured."""
    sides = "new | old" if record["scale"] == "versions" else "ours | peer or limit"
    info = record["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    lines = [
        f"Measured on {record['date']} at commit `{record['commit']}`, {info['cpu']}, "
        f"{info['threads']} threads, {info['memory_gib']} GiB, {info['system']}; {versions}.",
        "",
        f"| benchmark | size | {sides} | ratio | goal | | peak memory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        verdict = {True: "met", False: "missed", None: ""}[row["met"]]
        if verdict and row.get("reliable") is False:
            verdict += ", machine was busy"
        cells = [
            _whole(f"`{row['name']}`"),
            row["size"],
            _seconds(row["ours_seconds"]),
            row["limit"] or _seconds(row["peer_seconds"]),
            "" if row["ratio"] is None else _whole(f"{row['ratio']:.3g}"),
            _whole(row["goal"] or "").replace("<=", "≤").replace(">=", "≥").replace("<", "&lt;"),
            verdict,
            "" if row["peak_memory"] is None else _whole(f"{row['peak_memory'] / 2**20:.0f} MiB"),
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    remarks = [(r["name"], r["size"], r["remark"]) for r in record["rows"] if r["remark"]]
    lines += ["", *(f"- `{name}`, {size}: {remark}" for name, size, remark in remarks)]
    return "\n".join(lines)


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return _whole(f"{value:.3f} s" if value < 1 else f"{value:.2f} s")


def _whole(text: str) -> str:
    """The same text, never broken into lines."""
    return text.replace(" ", "\u00a0").replace("-", "\u2011")


def performance(folder: Path) -> str:
    """Tables of all full runs in a folder, the newest first, then those of two versions."""
    found: dict[str, list[str]] = {"full": [], "versions": []}
    for path in sorted(folder.glob("*.json"), reverse=True):
        record = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(record, dict) and record.get("scale") in found and "machine" in record:
            info = record["machine"]
            title = f"{info['cpu']}, {info['threads']} threads, {record['date']}"
            if record["scale"] == "versions":
                old, new = record["trees"]
                title = f"Commit `{new}` beside `{old}`, {title}"
            found[record["scale"]] += [f"## {title}", benchmark_table(record)]
    parts = [part for each in found.values() for part in each]
    return "\n\n".join(parts) or "No results are committed yet."


def results(folder: Path) -> str:
    """A list of the pages of a folder, or a word where there are none."""
    pages = sorted(folder.glob("*.md"))
    if not pages:
        return (
            "The tables are not committed yet. `ejop reproduce` computes them, and "
            "`benchmarks/README.md` says how accuracy is measured."
        )
    places = [f"results/{page.stem}" for page in pages]
    return "\n".join(["```{toctree}", ":maxdepth: 1", "", *places, "```"])


def write_generated(app: Any) -> None:
    """Write the parts that pages include; a file that would not change is left alone."""
    GENERATED.mkdir(exist_ok=True)
    parts = {
        "performance.md": performance(ROOT / "benchmarks" / "results"),
        "results.md": results(HERE / "results"),
    }
    for name, text in parts.items():
        path = GENERATED / name
        if not path.exists() or path.read_text(encoding="utf-8") != text + "\n":
            path.write_text(text + "\n", encoding="utf-8")


def trim_blocks(app: Any, name: str, source: list[str]) -> None:
    """Drop the blank line that ends a doctest in Markdown; it would show in the block."""
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


#: members of several classes that docstrings use as words: a reference would have to guess
WORDS = {"n_features", "n_groups", "shape"}


def skip_foreign(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool:
    """Leave out what scikit-learn's base classes bring, which its own site documents, and words."""
    home = str(getattr(obj, "__module__", "") or "")
    theirs = home.startswith("sklearn") or name.startswith(("set_", "get_params"))
    return skip or theirs or name in WORDS


def escape_signs(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Keep norms such as |x - z| and shapes such as (n_iter_,) from being read as references."""
    indent = None  # of the formula that a line belongs to
    for i, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        if indent is not None and line.strip() and depth <= indent:
            indent = None
        if line.lstrip().startswith(".. math::"):
            indent = depth
        if indent is None and not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(``.*?``|:\w+:`.*?`|:math:`.*$)", line)
            parts[::2] = [re.sub(r"(\||_(?=,\)))", r"\\\1", part) for part in parts[::2]]
            lines[i] = "".join(parts)


def setup(app: Any) -> None:
    """Connect the above."""
    app.add_html_math_renderer("mathml", (visit_inline_math, None), (visit_block_math, None))
    app.connect("builder-inited", write_generated, priority=100)
    app.connect("source-read", trim_blocks)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-docstring", escape_signs, priority=100)
