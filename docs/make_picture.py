"""Draw the picture of the README, docs/images/diabetes-light.png and its twin for dark pages.

Run from the root of the checkout. The scores in the titles are computed here.
"""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from PIL import Image
from sklearn.datasets import load_diabetes
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold, cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ejop import EGOP, EGOPRegressor

IMAGES = Path(__file__).resolve().parent / "images"
#: what the columns of scikit-learn's table are, from its description
NAMES = {
    "bmi": "body mass index",
    "bp": "blood pressure",
    "s1": "total cholesterol",
    "s2": "LDL",
    "s3": "HDL",
    "s4": "cholesterol / HDL",
    "s5": "log triglycerides",
    "s6": "glucose",
}
INK = {"light": "#1f2328", "dark": "#d1d7e0"}
BLUE = {"light": "#0072B2", "dark": "#56B4E9"}
#: the part of the colour map that is set off from the page
PART = {"light": (0.0, 0.85), "dark": (0.25, 1.0)}
TITLES = {"before": "Before: principal components", "after": "After: learned directions"}


def compute() -> dict[str, Any]:
    """What matters, and rows that were held out on two directions before and after."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    A, B, a, b = train_test_split(X, y, test_size=0.4, random_state=0)
    shares = EGOPRegressor(random_state=0).fit(A, a).importances().frame()
    maps = {"before": PCA(2, random_state=0), "after": EGOP("ridge", n_components=2)}
    found: dict[str, Any] = {"shares": shares, "target": b.to_numpy()}
    folds = KFold(5, shuffle=True, random_state=0)
    for name, each in maps.items():
        steps = make_pipeline(StandardScaler(), each, KNeighborsRegressor(10))
        score = cross_val_score(steps, X, y, cv=folds).mean()
        plane = steps.fit(A, a)[:-1].transform(B)
        found[name] = np.asarray(plane) / np.std(plane, axis=0), score
    return found


def draw(path: Path, found: dict[str, Any], scheme: str) -> None:
    """Three panels: columns that matter, rows before, rows after."""
    matplotlib.use("Agg")  # a file, not a window
    from matplotlib import pyplot

    ink = INK[scheme]
    colours = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    with matplotlib.rc_context({**dict.fromkeys(colours, ink), "font.size": 10}):
        figure, axes = pyplot.subplots(
            1, 3, figsize=(8.6, 3.3), layout="constrained", width_ratios=(1.15, 1, 1)
        )
        bars(axes[0], found["shares"], BLUE[scheme], ink)
        for ax, name in zip(axes[1:], ("before", "after"), strict=True):
            plane, score = found[name]
            points = rows(ax, plane, found["target"], colours_of(scheme))
            title = f"{TITLES[name]}\n10 nearest people: R² {score:.2f}"
            ax.set_title(title, fontsize=10)
        figure.colorbar(points, ax=axes[2], label="disease a year later")
        for ax in axes:
            ax.set_facecolor("none")
            ax.spines[["top", "right"]].set_visible(False)
        save(figure, path)
        pyplot.close(figure)


def colours_of(scheme: str) -> Any:
    """Colours of the target from low to high."""
    from matplotlib.colors import ListedColormap

    return ListedColormap(matplotlib.colormaps["plasma"](np.linspace(*PART[scheme], 64)))


def bars(ax: Any, shares: Any, colour: str, ink: str) -> None:
    """Share of each column in what changes the answer, with nine-in-ten bounds."""
    top = shares.head(6)[::-1]
    names = [NAMES.get(name, name) for name in top["column"]]
    wide = 100 * np.array([top["importance"] - top["low"], top["high"] - top["importance"]])
    ax.barh(names, 100 * top["importance"], color=colour, xerr=wide, ecolor=ink, height=0.65)
    ax.set_title("What matters, and how surely", fontsize=10)
    ax.set_xlabel("share of all change, %")


def rows(ax: Any, plane: Any, target: Any, colours: Any) -> Any:
    """People as points, coloured by how their disease went on."""
    points = ax.scatter(*plane.T, c=target, s=14, cmap=colours, linewidths=0)
    ax.set(xlabel="first direction", ylabel="second direction", xticks=[], yticks=[])
    return points


def save(figure: Any, path: Path) -> None:
    """A small file: 128 colours and no background of its own."""
    raw = BytesIO()
    figure.savefig(raw, format="png", dpi=130, transparent=True)
    image = Image.open(raw).quantize(128, method=Image.Quantize.FASTOCTREE)
    path.parent.mkdir(exist_ok=True)
    image.save(path, optimize=True)


def main(folder: Path) -> None:
    """Both pictures."""
    found = compute()
    for scheme in INK:
        draw(folder / f"diabetes-{scheme}.png", found, scheme)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
