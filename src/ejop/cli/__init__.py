"""The command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of ``ejop``."""
    try:
        from ejop.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "click"):
            raise
        sys.exit("the command line needs an extra: pip install 'ejop[cli]'")
    run()
