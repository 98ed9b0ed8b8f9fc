"""Write examples/flats.csv and new_flats.csv, the made-up tables of the README.

What rents depend on is known: size, with another price a square metre in each district, the year
of building, a balcony, and noise. Heating, floor, the date and the remark have no say.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parents[1] / "examples"
PRICES = {"Centre": 17.0, "Harbour": 14.0, "North": 11.0, "Hillside": 12.5, "Old Mill": 9.5}
HEATING = ("gas", "district", "oil", "heat pump")
WORDS = [
    "bright",
    "quiet",
    "spacious",
    "renovated",
    "near",
    "park",
    "school",
    "tram",
    "station",
    "garden",
    "fitted",
    "kitchen",
    "cellar",
    "parking",
    "view",
    "family",
    "pets",
    "welcome",
    "immediately",
    "central",
]
ROWS = 400
COLUMNS = "id;listed;district;size;built;floor;balcony;heating;remark"
#: flats that are to let: a district that the table does not have, and a gap
NEW = (
    "F20001;2025-06-12;Harbour;71,5;1998;3;yes;gas;bright quiet near park tram station",
    "F20002;2025-06-13;Lakeside;64,0;2011;1;no;heat pump;fitted kitchen parking pets welcome view",
    "F20003;2025-06-15;Old Mill;;1931;0;no;oil;garden cellar family near school immediately",
)


def euros(value: float) -> str:
    """The German way: 1.240,50 €."""
    return f"{value:,.2f} €".translate(str.maketrans(",.", ".,"))


def flats() -> list[str]:
    """Semicolons, decimal commas, euros, dates, gaps, a number a row and a free text."""
    rng = np.random.default_rng(7)
    out = [f"{COLUMNS};rent"]
    for i in range(ROWS):
        district = str(rng.choice(list(PRICES), p=[0.2, 0.2, 0.3, 0.2, 0.1]))
        size, built = rng.gamma(9.0, 8.0) + 18, int(rng.integers(1900, 2024))
        balcony = bool(rng.random() < 0.4)
        rent = PRICES[district] * size * (1 + 0.25 * (built > 1990)) + 80 * balcony
        cells = [
            f"F{10_000 + 7 * i}",
            str(np.datetime64("2024-01-01") + rng.integers(0, 540)),
            district,
            "" if rng.random() < 0.06 else f"{size:.1f}".replace(".", ","),
            "n/a" if rng.random() < 0.05 else str(built),
            str(rng.integers(0, 7)),
            "yes" if balcony else "no",
            "" if rng.random() < 0.1 else str(rng.choice(HEATING, p=[0.5, 0.3, 0.15, 0.05])),
            " ".join(rng.choice(WORDS, 6, replace=False)),
            "" if i in (41, 333) else euros(rent + rng.normal(0, 60)),
        ]
        out.append(";".join(cells))
    return out


def write(folder: Path) -> None:
    """Both files, a header first."""
    for name, lines in {"flats": flats(), "new_flats": [COLUMNS, *NEW]}.items():
        path = folder / f"{name}.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
