"""Estimates of f: what the Jacobian is taken of."""

from ejop.functions._base import Function, check_bandwidth
from ejop.functions._kernel import KernelSmoother
from ejop.functions._model import ModelFunction
from ejop.functions._neighbors import NeighborsSmoother
from ejop.functions._ridge import RidgeFunction

__all__ = [
    "Function",
    "KernelSmoother",
    "ModelFunction",
    "NeighborsSmoother",
    "RidgeFunction",
    "check_bandwidth",
]
