"""Symmetric d×d operators: one file for each curvature."""

from rue.core.curvature.gauss_newton import GaussNewton
from rue.core.curvature.hessian import Hessian

__all__ = ["GaussNewton", "Hessian"]
