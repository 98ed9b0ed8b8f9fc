"""How a file is to be read, where its name does not say."""

from __future__ import annotations

from dataclasses import asdict, dataclass

#: what may stand between values, and its name
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
DECIMALS = {",": "comma", ".": "point"}
_SPELLED = {"tab": "\t", "\\t": "\t"}
UTF8 = "utf-8-sig"  # with or without a byte order mark


def check_encoding(name: str | None) -> str:
    """The encoding to read with: UTF-8 unless another is given, which must be known."""
    if name is None or name.lower().replace("_", "-") in ("utf-8", "utf8"):
        return UTF8
    try:
        "a".encode(name)
    except (LookupError, UnicodeError):
        raise ValueError(
            f"--encoding {name!r} is not known; utf-8, latin-1, cp1252 and utf-16 are, among others"
        ) from None
    return name


@dataclass(frozen=True)
class ReadOptions:
    """What was asked for; None for what the file is to tell.

    Attributes
    ----------
    separator, decimal, encoding : str, optional
        Of a text file.
    sheet : str, optional
        Of a workbook.
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        if self.decimal is not None and self.decimal not in DECIMALS:
            raise ValueError(f"--decimal {self.decimal!r} is no decimal mark; use , or .")
        if self.separator is None:
            return
        mark = _SPELLED.get(self.separator.lower(), self.separator)
        if len(mark) != 1 or mark.isalnum() or mark in "\"'\r\n.-+_":
            raise ValueError(
                f"--sep {self.separator!r} cannot separate values; use , ; | or tab, or another "
                "single mark"
            )
        if mark == self.decimal:
            raise ValueError(
                f"--sep and --decimal are both {mark!r}; values need another mark between them"
            )
        object.__setattr__(self, "separator", mark)

    def refuse_others(self, name: str, *known: str) -> None:
        """An error where something was asked for that has no meaning for a file."""
        for option, value in asdict(self).items():
            if value is not None and option not in known:
                raise ValueError(
                    f"--{_OPTIONS[option]} does not apply to {name}, which is no "
                    f"{'workbook' if option == 'sheet' else 'text file'}; leave it out"
                )


#: nothing was asked for
PLAIN = ReadOptions()
_OPTIONS = {"separator": "sep", "decimal": "decimal", "encoding": "encoding", "sheet": "sheet"}
