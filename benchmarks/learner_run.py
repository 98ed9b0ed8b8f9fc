"""One metric learner on saved rows: seconds and error; runs in ours or a peer's environment.

Run as ``PYTHON learner_run.py NAME ROWS.npz`` with NAME such as ``ours-lmnn`` or
``metric-learn-itml``; ROWS holds X, y and may hold Xt, yt. Prints one line of JSON.
"""

import json
import sys
import time
import types
import warnings
from importlib.metadata import version

import numpy as np

warnings.filterwarnings("ignore")  # peers call what their dependencies have deprecated


def ours_lmnn():
    from ejop.learners import LMNN

    return LMNN(random_state=0)


def ours_itml():
    from ejop.learners import ITML

    return ITML(random_state=0)


def ours_relieff():
    from ejop.learners import ReliefF

    return ReliefF()


def metric_learn_lmnn():
    import metric_learn

    return metric_learn.LMNN(random_state=0)


def metric_learn_itml():
    import metric_learn

    return metric_learn.ITML_Supervised(random_state=0)


def pylmnn_lmnn():
    # its import reaches for a tuner that a plain fit does not use and that no longer installs
    methods = types.ModuleType("GPyOpt.methods")
    methods.BayesianOptimization = None
    sys.modules.update({"GPyOpt": types.ModuleType("GPyOpt"), "GPyOpt.methods": methods})
    from pylmnn import LargeMarginNearestNeighbor

    return LargeMarginNearestNeighbor(n_neighbors=3, random_state=0)


def skrebate_relieff():
    from skrebate import ReliefF

    return ReliefF(n_neighbors=10, n_features_to_select=2)


LEARNERS = {
    "ours-lmnn": (ours_lmnn, "ejop"),
    "ours-itml": (ours_itml, "ejop"),
    "ours-relieff": (ours_relieff, "ejop"),
    "metric-learn-lmnn": (metric_learn_lmnn, "metric-learn"),
    "metric-learn-itml": (metric_learn_itml, "metric-learn"),
    "pylmnn-lmnn": (pylmnn_lmnn, "pylmnn"),
    "skrebate-relieff": (skrebate_relieff, "skrebate"),
}


def error_of(learner, rows, k=5):
    """Share of test rows that the k nearest training rows get wrong; None without test rows."""
    if "Xt" not in rows or not hasattr(learner, "components_"):
        return None
    from sklearn.neighbors import KNeighborsClassifier

    A, B = rows["X"] @ learner.components_.T, rows["Xt"] @ learner.components_.T
    return float(1 - KNeighborsClassifier(k).fit(A, rows["y"]).score(B, rows["yt"]))


if __name__ == "__main__":
    name, path = sys.argv[1:]
    with np.load(path) as archive:
        rows = dict(archive)
    make, package = LEARNERS[name]
    if name.startswith("ours"):  # compiled before the clock starts, as the peers' code is
        make().fit(rows["X"][:200], rows["y"][:200])
    else:  # some peers take no labels but whole numbers
        for key in rows.keys() & {"y", "yt"}:
            rows[key] = np.unique(rows[key], return_inverse=True)[1]
    learner = make()
    wall, cpu = time.perf_counter(), time.process_time()
    learner.fit(rows["X"], rows["y"])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(
        json.dumps(
            {
                "seconds": wall,
                "cpu_seconds": cpu,
                "iterations": int(getattr(learner, "n_iter_", 0) or 0),
                "error": error_of(learner, rows),
                "versions": f"{package} {version(package)}, numpy {version('numpy')}",
            }
        )
    )
