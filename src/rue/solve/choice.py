"""From a curvature to its inverse: which damping, which solver, and why."""

from typing import NamedTuple

from rue.concepts import Curvature, Damped, Damping, Facts, Inverse, Solver
from rue.errors import NotPositiveDefiniteError
from rue.solve.conjugate_gradient import ConjugateGradient
from rue.solve.damping import MeanFraction
from rue.solve.dense import Cholesky
from rue.solve.dual import Dual

SMALL = 2000  # parameters: a dense matrix is never the bottleneck
LARGE = 8000  # rows of a matrix to factor: half a gigabyte, under a minute on two cores


class Inverted(NamedTuple):
    """An inverse and the damping it was made with."""

    inverse: Inverse
    damped: Damped

    def describe(self) -> Facts:
        """Damping, its reason and the solver."""
        return {"damping": self.damped.value, "damping_reason": self.damped.reason, **self.inverse.describe()}


def invert(curvature: Curvature, damping: Damping | None, solver: Solver | None) -> Inverted:
    """Damp and factor; without a rule, damp only what cannot be inverted otherwise, and say so."""
    if damping is not None:
        damped = damping(curvature)
        return Inverted(_factor(curvature, damped.value, solver), damped)
    if not _may_be_singular(curvature, solver or chosen_solver(curvature, 0.0)):
        try:
            return Inverted(
                _factor(curvature, 0.0, solver),
                Damped(0.0, "none: nothing had to be damped"),
            )
        except NotPositiveDefiniteError:
            pass
    value, reason, _ = MeanFraction()(curvature)
    said = (
        "the curvature is singular without damping (no l2 on some parameters, or features that repeat each other), so "
        f"{value:.3g} was added: {reason}; "
        "give the l2 the model was trained with, or choose a damping"
    )
    damped = Damped(value, f"{reason}, because the curvature is singular without it", said)
    return Inverted(_factor(curvature, value, solver), damped)


def chosen_solver(curvature: Curvature, damping: float) -> Solver:
    """Cholesky while the matrix is small, the dual form when rows are fewer than parameters, else iterations."""
    d, rank = curvature.size, curvature.rank
    if d <= SMALL or (d <= LARGE and d <= 2 * rank):
        return Cholesky()
    if rank <= LARGE and curvature.root() is not None:
        diagonal = curvature.penalty_diagonal()
        if diagonal is not None and float(diagonal.min()) + damping > 0:
            return Dual()
    return Cholesky() if d <= LARGE else ConjugateGradient()


def _factor(curvature: Curvature, damping: float, solver: Solver | None) -> Inverse:
    return (solver or chosen_solver(curvature, damping)).factor(curvature, damping)


def _may_be_singular(curvature: Curvature, solver: Solver) -> bool:
    """More parameters without a penalty than directions the data can fill, or any at all where nobody would notice."""
    diagonal = curvature.penalty_diagonal()
    if diagonal is None:
        return False
    free = int((diagonal == 0).sum())
    return free > curvature.rank or (free > 0 and not solver.notices_singular)
