"""Metric learners that optimise, each able to start from EJOP."""

from ejop.learners._initialize import initialize

__all__ = ["initialize"]
