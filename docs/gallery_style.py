"""How the gallery draws: no background of its own, so that a style sheet can suit dark pages."""

from __future__ import annotations

from typing import Any


def reset(gallery_conf: dict[str, Any], fname: str) -> None:
    """Called by sphinx-gallery before each example, after matplotlib's own defaults."""
    import matplotlib

    clear = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
    matplotlib.rcParams.update(dict.fromkeys(clear, "none"))
