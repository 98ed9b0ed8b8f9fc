"""The sets of the suite as data: what they hold, where they are, and what OpenML calls them."""

from __future__ import annotations

from dataclasses import dataclass

#: files have at most so many rows, and classes at least so many; downloads are cut alike
MOST_ROWS, SMALLEST_CLASS = 10_000, 20


@dataclass(frozen=True)
class OpenML:
    """A data set of OpenML.

    Attributes
    ----------
    name : str
    version : int
    target : str, default=""
        Column to predict, where it is not the one that OpenML names.
    left_out : tuple of str
        Columns that say who a row is, or what became of it.
    note : str
        How it differs from the file of the same set.
    """

    name: str
    version: int = 1
    target: str = ""
    left_out: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class SuiteSet:
    """One set.

    Attributes
    ----------
    name : str
    kind : {"arrays", "frame", "shipped"}
        An archive of arrays in ``suite/``, a Parquet file in ``mixed/``, or what ships with
        scikit-learn.
    real : bool
        Whether targets are real.
    target : str
        Column to predict, of a frame.
    openml : OpenML or None
        Where it can be fetched from.
    """

    name: str
    kind: str
    real: bool = False
    target: str = ""
    openml: OpenML | None = None

    @property
    def file(self) -> str:
        """Place in the folder of the data; empty for what ships with scikit-learn."""
        places = {"arrays": f"suite/{self.name}.npz", "frame": f"mixed/{self.name}.parquet"}
        return places.get(self.kind, "")


def _arrays(name: str, openml: str, *, real: bool = False, **more: str | tuple) -> SuiteSet:
    return SuiteSet(name, "arrays", real, openml=OpenML(openml, **more))  # type: ignore[arg-type]


SUITE = [
    _arrays("abalone", "abalone", real=True),
    _arrays("ann_thyroid", "thyroid-ann", note="the 3,772 training rows alone"),
    _arrays("bank32nh", "bank32nh", real=True),
    _arrays("churn", "churn", left_out=("phone_number",)),
    _arrays("connect_4", "connect-4"),
    _arrays("elevators", "elevators", real=True),
    _arrays("house_16h", "house_16H", real=True),
    _arrays("kin8nm", "kin8nm", real=True),
    _arrays("kr_vs_kp", "kr-vs-kp"),
    _arrays("krkopt", "kropt"),
    _arrays("mfeat_fourier", "mfeat-fourier"),
    _arrays("mushroom", "mushroom"),
    _arrays("mv", "mv", real=True),
    _arrays("nursery", "nursery"),
    _arrays("page_blocks", "page-blocks"),
    _arrays("phishing", "PhishingWebsites"),
    _arrays("phoneme_elena", "phoneme"),
    _arrays("planes_2d", "2dplanes", real=True),
    _arrays("pol", "pol", real=True),
    _arrays("puma8nh", "puma8NH", real=True),
    _arrays("ringnorm", "ringnorm"),
    _arrays("yeast", "yeast"),
]
_SALES = OpenML("house_prices", target="SalePrice", left_out=("Id",), note="1,460 of 2,930 sales")
_TITANIC = OpenML(
    "titanic",
    target="survived",
    left_out=("boat", "body", "home.dest"),
    note="1,309 passengers, not 891",
)
MIXED = [
    SuiteSet("ames", "frame", True, "price", _SALES),
    SuiteSet("chile", "frame", False, "vote"),
    SuiteSet("credit_data", "frame", False, "Status"),
    SuiteSet("hotel_rates", "frame", True, "avg_price_per_room"),
    SuiteSet("police_force", "frame", False, "force_type"),
    SuiteSet("star", "frame", True, "math3"),
    SuiteSet("titanic", "frame", False, "survived", _TITANIC),
]
SHIPPED = [
    SuiteSet("breast_cancer", "shipped"),
    SuiteSet("diabetes", "shipped", True),
    SuiteSet("iris", "shipped"),
    SuiteSet("wine", "shipped"),
]
SETS = {one.name: one for one in [*SUITE, *MIXED, *SHIPPED]}
#: what a quick run takes: what ships with scikit-learn, and a table with text where it is at hand
QUICK = ("titanic", *(one.name for one in SHIPPED))
