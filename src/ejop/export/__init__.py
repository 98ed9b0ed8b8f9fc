"""Take the metric where the vectors live: FAISS, hnswlib, pgvector, ONNX, or a file of NumPy.

Nothing of them is imported before it is asked for: ``pip install 'ejop[export]'``.
"""

from ejop.export._costs import Storage, costs
from ejop.export._indexes import read_npz, to_faiss, to_hnswlib, to_npz
from ejop.export._map import LinearMap, linear_map
from ejop.export._onnx import to_onnx
from ejop.export._pgvector import to_pgvector

__all__ = [
    "LinearMap",
    "Storage",
    "costs",
    "linear_map",
    "read_npz",
    "to_faiss",
    "to_hnswlib",
    "to_npz",
    "to_onnx",
    "to_pgvector",
]
