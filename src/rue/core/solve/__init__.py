"""Solvers and damping rules: a damped curvature is factored once and solved for many right-hand sides."""

from rue.core.solve.conjugate_gradient import ConjugateGradient
from rue.core.solve.damping import Fixed, MeanFraction, NoDamping, SmallestEigenvalue
from rue.core.solve.dense import Cholesky, Eigen
from rue.core.solve.dual import Dual
from rue.core.solve.ekfac import EKFAC
from rue.core.solve.projection import Projection
from rue.core.solve.pseudo_inverse import PseudoInverse
from rue.core.solve.sketch import Sketch

__all__ = [
    "EKFAC",
    "Cholesky",
    "ConjugateGradient",
    "Dual",
    "Eigen",
    "Fixed",
    "MeanFraction",
    "NoDamping",
    "Projection",
    "PseudoInverse",
    "Sketch",
    "SmallestEigenvalue",
]
