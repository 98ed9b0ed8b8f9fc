"""The paper's four tables as data: sets, sizes, preparations, methods and its numbers."""

from __future__ import annotations

from dataclasses import dataclass

#: error in per cent and its standard deviation over ten splits, None where the paper has none
Figure = tuple[float, float | None]


@dataclass(frozen=True)
class DataSet:
    """Rows of a table: which data, how many rows, and how the columns are prepared.

    Attributes
    ----------
    name : str
    source : str
        Name in :data:`ejop.datasets.DATASETS`.
    n_train, n_test : int
        Rows drawn at random for each seed.
    preparation : {"none", "standard", "hellinger", "pca"}
        Fitted on the training rows, the same for every method. "standard": each row over its sum,
        then each column z-scored.
    paper : str
        Row of the paper's tables that it stands beside.
    """

    name: str
    source: str
    n_train: int
    n_test: int
    preparation: str
    paper: str
    note: str = ""


def _office(domain: str, n_train: int, n_test: int) -> list[DataSet]:
    source = f"office_caltech_{'caltech10' if domain == 'caltech' else domain}"
    return [
        DataSet(
            domain if preparation == "hellinger" else f"{domain}-{suffix}",
            source,
            n_train,
            n_test,
            preparation,
            domain,
            note,
        )
        for preparation, suffix, note in (
            ("hellinger", "", "square root of each row over its sum"),
            ("standard", "zscored", "each row over its sum, columns z-scored"),
            ("none", "raw", "raw counts"),
        )
    ]


PAPER_DATASETS = {
    d.name: d
    for d in [
        DataSet("isolet", "isolet", 4000, 2000, "pca", "isolet", "172 principal components"),
        DataSet("usps", "usps", 4000, 2000, "none", "usps"),
        DataSet("letter", "letter", 4000, 2000, "none", "letter"),
        DataSet("letter-16000", "letter", 16000, 2000, "none", "letter", "16,000 training rows"),
        *_office("dslr", 100, 50),
        *_office("amazon", 450, 450),
        *_office("webcam", 145, 145),
        *_office("caltech", 550, 500),
        DataSet("digits", "digits", 1200, 597, "none", "", "ships with scikit-learn"),
        DataSet("mnist", "mnist", 50_000, 10_000, "none", "mnist", "10,000 rows tune, k = 7"),
        DataSet(
            "mnist-small",
            "mnist",
            8000,
            2000,
            "none",
            "mnist",
            "8,000 rows, 2,000 more tune, k = 7",
        ),
    ]
}

#: the paper's numbers: row -> method -> figure
PAPER: dict[str, dict[str, Figure]] = {
    "mnist": {
        "euclid": (4.93, None),
        "relieff": (4.11, None),
        "ejop-knn": (2.08, None),
        "ejop-hnn": (2.17, None),
    },
    "isolet": {
        "euclid": (14.17, 0.7),
        "ejop-hnn": (10.14, 0.9),
        "ejop-knn": (8.67, 0.6),
        "itml": (8.43, 0.3),
        "lmnn": (5.3, 0.4),
        "mlr": (6.59, 0.3),
        "lmnn-ejop": (4.9, 0.3),
        "mlr-ejop": (6.11, 0.2),
    },
    "usps": {
        "euclid": (7.87, 0.2),
        "ejop-hnn": (7.14, 0.3),
        "ejop-knn": (6.67, 0.4),
        "itml": (6.57, 0.2),
        "lmnn": (6.23, 0.5),
        "mlr": (6.76, 0.3),
        "lmnn-ejop": (5.96, 0.3),
        "mlr-ejop": (6.21, 0.3),
    },
    "letter": {
        "euclid": (7.65, 0.3),
        "ejop-hnn": (5.12, 0.7),
        "ejop-knn": (4.37, 0.4),
        "itml": (5.0, 0.7),
        "lmnn": (4.1, 0.4),
        "mlr": (17.81, 5.1),
        "lmnn-ejop": (4.0, 0.3),
        "mlr-ejop": (15.17, 4.6),
    },
    "dslr": {
        "euclid": (84.85, 4.8),
        "ejop-hnn": (41.13, 2.1),
        "ejop-knn": (35.01, 1.4),
        "itml": (21.65, 3.1),
        "lmnn": (29.65, 3.7),
        "mlr": (41.54, 2.3),
        "lmnn-ejop": (26.13, 3.9),
        "mlr-ejop": (38.61, 2.9),
    },
    "amazon": {
        "euclid": (66.17, 2.8),
        "ejop-hnn": (41.07, 2.3),
        "ejop-knn": (39.85, 1.5),
        "itml": (39.83, 3.5),
        "lmnn": (33.08, 4.2),
        "mlr": (29.65, 2.6),
        "lmnn-ejop": (31.17, 3.7),
        "mlr-ejop": (26.19, 2.9),
    },
    "webcam": {
        "euclid": (61.43, 1.7),
        "ejop-hnn": (24.86, 1.2),
        "ejop-knn": (23.71, 2.1),
        "itml": (15.31, 4.3),
        "lmnn": (19.78, 1.5),
        "mlr": (27.54, 3.9),
        "lmnn-ejop": (19.5, 1.7),
        "mlr-ejop": (24.11, 3.5),
    },
    "caltech": {
        "euclid": (85.41, 3.5),
        "ejop-hnn": (54.65, 2.6),
        "ejop-knn": (52.86, 3.1),
        "itml": (52.37, 4.2),
        "lmnn": (52.15, 3.2),
        "mlr": (51.34, 4.5),
        "lmnn-ejop": (50.35, 3.4),
        "mlr-ejop": (50.1, 3.7),
    },
}


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper: its rows and columns, and what is ours in how they are made."""

    name: str
    title: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    note: str = ""


_ROWS = (
    "isolet",
    "usps",
    "letter",
    "letter-16000",
    *(f"{d}{s}" for d in ("dslr", "amazon", "webcam", "caltech") for s in ("", "-zscored", "-raw")),
)
_EJOP = ("ejop-hnn", "ejop-knn")
_FORMS = ("", "-pulled", "-ejop")
_STARTS = (
    "A learner alone sets out from the identity. With EJOP, what it learns there is mixed with the "
    "EJOP of kernel ridge: the power of EJOP (0, which is plain distance, 0.25, 0.5, 0.75 or 1) "
    "and its share of the metric (0 to 1 in seven steps) are judged by folds of the training rows, "
    "seen by neither; of the shares within one standard error of the lowest error the smallest is "
    "taken. Share 0 is the learner alone; share 1 is EJOP alone and takes no iteration. With the "
    "identity, the same "
    "choice is made of a share of plain distance, without EJOP: so much is owed to the choice. A "
    "learner alone has nothing to choose there. All stop by the same rules, on the rows that they "
    "learn from. ITML and MLR choose gamma and C on held-out rows; with a choice of shares they do "
    "so within the first fold. NCA descends from EJOP of power 1, as the paper's learners do."
)
_VARIANTS = ("paper-hnn", "paper-knn", "ridge-hnn", "ridge-knn")
TABLES = {
    t.name: t
    for t in [
        PaperTable(
            "table1",
            "MNIST: EJOP as the metric",
            ("mnist",),
            ("euclid", "relieff", *_EJOP, *_VARIANTS),
        ),
        PaperTable(
            "table2",
            "Euclid and EJOP",
            _ROWS,
            ("euclid", "relieff", *_EJOP, "ejop-machines", *_VARIANTS),
        ),
        PaperTable(
            "table3",
            "EJOP and metric learners",
            _ROWS,
            (*_EJOP, "ejop-machines", "itml", "lmnn", "mlr", "nca"),
        ),
        PaperTable(
            "table4",
            "Learners with and without the EJOP start",
            _ROWS,
            (
                *(f"{learner}{form}" for learner in ("itml", "lmnn", "mlr") for form in _FORMS),
                "nca",
                "nca-ejop",
            ),
            _STARTS,
        ),
    ]
}
#: what ``--quick`` keeps
QUICK_DATASETS = ("dslr", "webcam", "mnist-small")
QUICK_FALLBACK = "digits"
