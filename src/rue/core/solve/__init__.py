"""Solvers and damping rules: a damped curvature is factored once and solved for many right-hand sides."""

from rue.core.solve.block_diagonal import Blocks
from rue.core.solve.conjugate_gradient import ConjugateGradient
from rue.core.solve.damping import Fixed, MeanFraction, NoDamping, SmallestEigenvalue
from rue.core.solve.dense import Cholesky, Eigen
from rue.core.solve.dual import Dual
from rue.core.solve.eigenbases import EigenBases
from rue.core.solve.ekfac import EKFAC
from rue.core.solve.lissa import LiSSA
from rue.core.solve.projection import Projection
from rue.core.solve.pseudo_inverse import PseudoInverse
from rue.core.solve.sketch import Sketch
from rue.core.solve.streamed_dual import StreamedDual

__all__ = [
    "EKFAC",
    "Blocks",
    "Cholesky",
    "ConjugateGradient",
    "Dual",
    "Eigen",
    "EigenBases",
    "Fixed",
    "LiSSA",
    "MeanFraction",
    "NoDamping",
    "Projection",
    "PseudoInverse",
    "Sketch",
    "SmallestEigenvalue",
    "StreamedDual",
]
