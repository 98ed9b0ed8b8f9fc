"""Speed and memory of ejop beside its peers, as ratios in one run on one machine."""

import os

# Before anything loads OpenMP. Its threads else spin while they wait, and where another process
# holds a core scikit-learn's queries, a peer, then read up to forty times too slow.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
