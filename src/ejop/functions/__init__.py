"""Estimates of f: what the Jacobian is taken of."""

from ejop.functions._average import AverageFunction, Member, centers_of, mapped
from ejop.functions._base import Function, check_bandwidth
from ejop.functions._kernel import KernelSmoother
from ejop.functions._model import ModelFunction
from ejop.functions._neighbors import NeighborsSmoother
from ejop.functions._ridge import RidgeFunction

__all__ = [
    "AverageFunction",
    "Function",
    "KernelSmoother",
    "Member",
    "ModelFunction",
    "NeighborsSmoother",
    "RidgeFunction",
    "centers_of",
    "check_bandwidth",
    "mapped",
]
