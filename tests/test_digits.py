"""On real data: better neighbours."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from ejop import EJOP
from ejop.metric import components

POWERS = (0.25, 0.5, 1.0)


def error(L, Xa, ya, Xb, yb):
    return 1 - KNeighborsClassifier(3).fit(Xa @ L.T, ya).score(Xb @ L.T, yb)


def tuned_error(function, Xa, ya, Xb, yb, seed):
    """Power chosen on rows the metric has not seen, then the metric of all training rows."""
    part = train_test_split(Xa, ya, test_size=0.25, random_state=seed, stratify=ya)
    Xt, Xv, yt, yv = part
    trial = EJOP(function, random_state=seed).fit(Xt, yt)
    spectrum = trial.eigenvalues_, trial.eigenvectors_
    errors = [error(components(*spectrum, power=p), Xt, yt, Xv, yv) for p in POWERS]
    power = POWERS[int(np.argmin(errors))]
    whole = EJOP(function, power=power, random_state=seed).fit(Xa, ya)
    return error(whole.components_, Xa, ya, Xb, yb)


@pytest.mark.parametrize("function", ["kernel", "ridge"])
@pytest.mark.parametrize(
    ("n_train", "seeds"), [(500, 3), pytest.param(1078, 5, marks=pytest.mark.slow)]
)
def test_digits_neighbours_vote_at_least_as_well(function, n_train, seeds):
    X, y = load_digits(return_X_y=True)
    plain, learned = [], []
    for seed in range(seeds):
        split = train_test_split(X, y, train_size=n_train, random_state=seed, stratify=y)
        Xa, Xb, ya, yb = split
        plain.append(error(np.eye(64), Xa, ya, Xb, yb))
        learned.append(tuned_error(function, Xa, ya, Xb, yb, seed))
    assert np.mean(learned) <= np.mean(plain)


def test_real_data_with_large_gains(real_data):
    """Webcam, customary preparation: plain neighbours fail and the metric mends them."""
    X, y = real_data("paper/office_caltech_webcam")
    X = X / X.sum(1, keepdims=True)
    Xa, Xb, ya, yb = train_test_split(X, y, train_size=145, random_state=0, stratify=y)
    center, scale = Xa.mean(0), Xa.std(0)
    scale[scale == 0] = 1
    Xa, Xb = (Xa - center) / scale, (Xb - center) / scale
    plain = error(np.eye(800), Xa, ya, Xb, yb)
    learned = error(EJOP("ridge").fit(Xa, ya).components_, Xa, ya, Xb, yb)
    assert learned < plain - 0.15
