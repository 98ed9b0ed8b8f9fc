"""Sheets of Excel workbooks, their values as the cells hold them."""

from __future__ import annotations

import importlib.util
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from ejop.cli.options import called_alike, in_words, say
from ejop.unpacking import check_archive, check_unpacked, parsing

#: the first bytes of an old workbook, and of one that is encrypted
_COMPOUND = bytes.fromhex("d0cf11e0a1b11ae1")
#: what reads a workbook, and how to get it
READERS = {".xlsx": ("openpyxl", "ejop[excel]"), ".xls": ("xlrd", "xlrd>=2.0.1")}


def read_workbook(path: Path, sheet: str | None = None, usual: str | None = None) -> Any:
    """Read a sheet.

    Parameters
    ----------
    path : Path
    sheet : str, optional
        Its name; an error where there is none.
    usual : str, optional
        The name that is taken where there is one; else the first sheet.

    Returns
    -------
    frame : pandas.DataFrame
        The first row that is not empty names the columns.
    """
    import pandas as pd

    ending = path.suffix.lower()
    module, install = READERS[ending]
    _check(path, ending)
    if importlib.util.find_spec(module) is None:
        raise ValueError(f"{ending} files need {module}: pip install '{install}'")
    with parsing("Excel workbook"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        book = pd.ExcelFile(path, engine=module)
    with book:
        names = list(map(str, book.sheet_names))
        chosen = _chosen(names, sheet, usual)
        with parsing("Excel workbook"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and the like, which are not read
            cells = book.parse(chosen, header=None, dtype=object, keep_default_na=False)
    return _frame(cells, chosen)


def _check(path: Path, ending: str) -> None:
    """Refuse what is encrypted, what is no workbook, and what unpacks to too much."""
    with path.open("rb") as file:
        start = file.read(len(_COMPOUND))
    if ending == ".xlsx" and start == _COMPOUND:
        raise ValueError(
            "it is encrypted, or an old workbook by another name; save it as .xlsx without a "
            "password"
        )
    if ending == ".xlsx":
        check_archive(path)
    elif start != _COMPOUND:
        raise ValueError("it is damaged, or no .xls file; if it is a newer one, name it .xlsx")
    else:
        check_unpacked(path.stat().st_size, path.stat().st_size)


def _chosen(names: list[str], sheet: str | None, usual: str | None) -> str:
    if not names:
        raise ValueError("it has no sheet of cells")
    if sheet is not None and sheet not in names:
        raise ValueError(f"there is no sheet {sheet!r}; there are {in_words(names, 12)}")
    if sheet is not None:
        return sheet
    if usual in names:
        return str(usual)
    if len(names) > 1:
        say(f"read the first of {len(names)} sheets, {names[0]!r}; --sheet names another")
    return names[0]


def _frame(cells: Any, sheet: str) -> Any:
    """Cells with their header, without rows and columns that are empty."""
    cells = cells.mask(cells.map(lambda value: isinstance(value, str) and not value.strip()))
    cells = cells.dropna(how="all").dropna(how="all", axis=1)
    if cells.empty:
        raise ValueError(f"its sheet {sheet!r} is empty")
    header = [
        f"Unnamed: {number}" if value != value or value is None else str(value).strip()
        for number, value in enumerate(cells.iloc[0])
    ]
    twice = [name for name, times in Counter(header).items() if times > 1]
    if twice:
        raise ValueError(called_alike(twice))
    frame = cells.iloc[1:].reset_index(drop=True)
    frame.columns = header
    return frame.infer_objects()
