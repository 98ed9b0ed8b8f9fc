"""Seconds that metric-learn's LMNN takes on saved rows; runs in the peer's own environment.

Run as ``PEER_PYTHON lmnn_peer.py ROWS.npz``; needs metric-learn alone, prints one line of JSON.
"""

import json
import sys
import time

import metric_learn
import numpy as np
import sklearn

with np.load(sys.argv[1]) as rows:
    X, y = rows["X"], rows["y"]
learner = metric_learn.LMNN()
start = time.perf_counter()
learner.fit(X, y)
seconds = time.perf_counter() - start
what = f"metric-learn {metric_learn.__version__}, scikit-learn {sklearn.__version__}"
print(json.dumps({"seconds": seconds, "iterations": int(learner.n_iter_), "versions": what}))
