"""Metric learners on digits, from the identity and from EJOP: error, iterations, seconds."""

import time
import warnings

from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

from ejop import EJOP
from ejop.learners import ITML, LMNN, ReliefF

X, y = load_digits(return_X_y=True)
Xa, Xb, ya, yb = train_test_split(X, y, test_size=0.33, random_state=0, stratify=y)
scaler = StandardScaler().fit(Xa)
Xa, Xb = scaler.transform(Xa), scaler.transform(Xb)
start = EJOP("ridge", random_state=0).fit(Xa, ya)


def error(model) -> float:
    """Error of five nearest neighbours under a fitted map, in per cent."""
    knn = KNeighborsClassifier(5).fit(model.transform(Xa), ya)
    return 100 * (1 - knn.score(model.transform(Xb), yb))


print(f"{'metric':<18}{'5-NN error %':>13}{'iterations':>12}{'seconds':>9}")
plain = 100 * (1 - KNeighborsClassifier(5).fit(Xa, ya).score(Xb, yb))
print(f"{'Euclidean':<18}{plain:>13.2f}{'-':>12}{'-':>9}")
print(f"{'EJOP':<18}{error(start):>13.2f}{'-':>12}{'-':>9}")
learners = {
    "ReliefF": ReliefF(),
    "LMNN": LMNN(random_state=0),
    "LMNN from EJOP": LMNN(init=start, random_state=0),
    "ITML": ITML(random_state=0),
    "ITML from EJOP": ITML(init=start, random_state=0),
    "NCA": NeighborhoodComponentsAnalysis(max_iter=30, random_state=0),
    "NCA from EJOP": NeighborhoodComponentsAnalysis(init=start.components_, max_iter=30),
}
for name, learner in learners.items():
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # NCA is given thirty iterations
        learner.fit(Xa, ya)
    seconds = time.perf_counter() - begin
    print(f"{name:<18}{error(learner):>13.2f}{learner.n_iter_:>12}{seconds:>9.2f}")
