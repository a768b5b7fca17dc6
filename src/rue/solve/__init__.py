"""Solvers and damping rules: a damped curvature, factored once, solved for many right-hand sides."""

from rue.solve.conjugate_gradient import ConjugateGradient
from rue.solve.damping import Fixed, MeanFraction, NoDamping, SmallestEigenvalue
from rue.solve.dense import Cholesky, Eigen
from rue.solve.dual import Dual
from rue.solve.projection import Projection
from rue.solve.pseudo_inverse import PseudoInverse

__all__ = [
    "Cholesky",
    "ConjugateGradient",
    "Dual",
    "Eigen",
    "Fixed",
    "MeanFraction",
    "NoDamping",
    "Projection",
    "PseudoInverse",
    "SmallestEigenvalue",
]
