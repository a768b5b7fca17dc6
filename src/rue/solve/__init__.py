"""Solvers and damping rules: a damped curvature, factored once, solved for many right-hand sides."""

from rue.solve.conjugate_gradient import ConjugateGradient
from rue.solve.damping import Fixed, MeanFraction, NoDamping, SmallestEigenvalue
from rue.solve.dense import Cholesky, Eigen
from rue.solve.dual import Dual

__all__ = [
    "Cholesky",
    "ConjugateGradient",
    "Dual",
    "Eigen",
    "Fixed",
    "MeanFraction",
    "NoDamping",
    "SmallestEigenvalue",
]
