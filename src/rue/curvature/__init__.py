"""Symmetric d×d operators: one file for each curvature."""

from rue.curvature.gauss_newton import GaussNewton
from rue.curvature.hessian import Hessian

__all__ = ["GaussNewton", "Hessian"]
