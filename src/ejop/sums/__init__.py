"""How the differences of f are summed: forms, engines, and the two sums that merge.

A *form* knows how one function is differentiated, an *engine* where arrays live and how their
products are made. :func:`prepare` brings a fitted function and an engine together; executors walk
blocks of queries through what it gives.
"""

from ejop.sums.form import Cost, Form, prepare
from ejop.sums.outerproduct import OuterProduct, outer_product
from ejop.sums.weighted import WeightedSums

__all__ = ["Cost", "Form", "OuterProduct", "WeightedSums", "outer_product", "prepare"]
