"""Whose mistake an error is: the user's, told in one line, or ours, shown as what it is."""

from __future__ import annotations

import dis
import traceback
from types import TracebackType

import typer

from ejop import __version__
from ejop.cli.options import say

#: the machine says no: a file, the network, the memory
CONDITIONS = (OSError, MemoryError)
#: values, settings and rows that cannot be computed with, and extras, where they are refused
REFUSALS = (ValueError, FloatingPointError, ImportError)
#: whose refusals are meant for the user: they check what they are given
CHECKERS = ("ejop", "sklearn")
#: extras that a command may miss, by what it imports
EXTRAS = ("pandas", "pyarrow", "skops")
_RAISE = dis.opmap["RAISE_VARARGS"]


def of_the_user(error: BaseException) -> bool:
    """Whether a user can mend it.

    True of what the machine says, of an extra that is missing, and of what ejop or scikit-learn
    refused on purpose. A ValueError that the code ran into (arrays that do not fit
    together, a number that does not parse), a TypeError or a KeyError is a fault of ours.
    """
    if isinstance(error, CONDITIONS):
        return True
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return True
    return isinstance(error, REFUSALS) and _on_purpose(error)


def _on_purpose(error: BaseException) -> bool:
    """Whether the error comes from a ``raise`` statement of a module that checks."""
    place = error.__traceback__
    if place is None:
        return False
    while place.tb_next is not None:
        place = place.tb_next
    return _room(place) in CHECKERS and place.tb_frame.f_code.co_code[place.tb_lasti] == _RAISE


def _room(place: TracebackType) -> str:
    return str(place.tb_frame.f_globals.get("__name__", "")).partition(".")[0]


def in_one_line(error: BaseException) -> str:
    """What a user needs to know of a mistake."""
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return f"{error.name} is not installed: pip install 'ejop[cli]'"
    return " ".join(str(error).split()) or type(error).__name__


def tell_fault(error: BaseException) -> None:
    """Show where it happened, and ask for a report."""
    typer.echo("".join(traceback.format_exception(error)), nl=False, err=True)
    say(
        f"this is a bug in ejop {__version__}, not a mistake of yours; please report it with the "
        "lines above and the command"
    )
