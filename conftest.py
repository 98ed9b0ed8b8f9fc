"""What pytest leaves out where a package is missing."""

import importlib.util

collect_ignore = [] if importlib.util.find_spec("triton") else ["src/ejop/backends/fused.py"]
