"""Probabilistic backpropagation: Hernández-Lobato and Adams, ICML 2015 ("the paper" in this folder).

Letters here: g problems trained side by side, p inputs of a network. Everything is NumPy in float64: one row at a time
moves so few numbers that the overhead of an operation is what counts, and NumPy's is the smallest.
"""

from rue.methods.integrated.pbp.method import PBP

__all__ = ["PBP"]
