"""Draw the picture of the README, docs/images/digits.png. Run from the root of the checkout."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ejop import EJOP
from ejop.plots import MetricDisplay, NeighborsDisplay

PICTURE = Path(__file__).resolve().parent / "images" / "digits.png"
SHAPE = (8, 8)


def draw(path: Path) -> None:
    """Pixels that matter, leading directions, and the neighbours of a digit before and after."""
    matplotlib.use("Agg")  # a file, not a window
    from matplotlib import pyplot

    X, y = load_digits(return_X_y=True)
    A, B, a, b = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    learned = make_pipeline(StandardScaler(), EJOP("ridge", power=0.5, random_state=0)).fit(A, a)
    scale = learned[0]
    plain = KNeighborsClassifier(5).fit(scale.transform(A), a).predict(scale.transform(B))
    ours = KNeighborsClassifier(5).fit(learned.transform(A), a).predict(learned.transform(B))
    row = int(np.flatnonzero((plain != b) & (ours == b))[0])  # the first that is mended

    figure = pyplot.figure(figsize=(9, 6.4), layout="constrained")
    figure.get_layout_engine().set(hspace=0.06, h_pad=0.06)
    top, bottom = figure.subfigures(2, 1, height_ratios=(1, 2))
    top.suptitle("what changes the answer: single pixels, then whole directions", fontsize="medium")
    MetricDisplay.from_estimator(learned, image_shape=SHAPE, ax=top.subplots(1, 6))
    axes = bottom.subplots(2, 6)
    NeighborsDisplay.from_estimator(
        learned, A, a, query=B[row], query_y=b[row], image_shape=SHAPE, ax=axes
    )
    bottom.suptitle(
        f"errors of five neighbours among {len(b)} new digits: "
        f"{np.sum(plain != b)} before, {np.sum(ours != b)} after",
        fontsize="medium",
    )
    raw = BytesIO()
    figure.savefig(raw, format="png", dpi=90)
    image = Image.open(raw).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    path.parent.mkdir(exist_ok=True)
    image.save(path, optimize=True)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
