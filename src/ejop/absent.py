"""Methods that a class does not have, with what to do instead."""

from __future__ import annotations

from typing import Any


class Absent:
    """A method that one might look for and that is not there; ``hasattr`` says so too.

    Parameters
    ----------
    remedy : str
        What to do instead.

    Examples
    --------
    >>> from ejop.absent import Absent
    >>> class Clock:
    ...     strike = Absent("read it")
    >>> hasattr(Clock(), "strike")
    False
    >>> Clock().strike
    Traceback (most recent call last):
    AttributeError: Clock has no `strike`; read it.
    """

    def __init__(self, remedy: str) -> None:
        self.remedy = remedy

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        raise AttributeError(f"{owner.__name__} has no `{self.name}`; {self.remedy}.")
