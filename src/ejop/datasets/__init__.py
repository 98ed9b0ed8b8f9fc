"""Data with a known answer."""

from ejop.datasets._synthetic import MultiIndex, make_multi_index

__all__ = ["MultiIndex", "make_multi_index"]
