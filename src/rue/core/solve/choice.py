"""Checks the settings of a solve, and chooses the damping and the solver for a curvature, with the reason."""

from typing import NamedTuple

import torch

from rue.core.concepts import Curvature, Damped, Damping, Facts, Inverse, Solver, TrainingSet
from rue.core.derivatives import outputs
from rue.core.errors import NotPositiveDefiniteError, SettingError
from rue.core.model import Model
from rue.core.nested import take
from rue.core.solve.conjugate_gradient import ConjugateGradient
from rue.core.solve.damping import MeanFraction, smallest_eigenvalue
from rue.core.solve.dense import Cholesky
from rue.core.solve.dual import Dual
from rue.core.solve.pseudo_inverse import PseudoInverse
from rue.core.stored import storable

SMALL = 2000  # parameters up to which a dense matrix is never the bottleneck
LARGE = 8000  # rows of the largest matrix to factor: half a gigabyte, under a minute on two cores
ON_GPU = 20_000  # the same on a GPU: three gigabytes, seconds
NUMBERS = 2**30  # of all gradients, 8 GiB: more would be computed again for every product
WANTED = {  # a member of every object that a setting takes, and examples of such objects
    "curvature": ("at", "GaussNewton() or Hessian()"),
    "damping": ("__call__", "Fixed(0.1), SmallestEigenvalue(), MeanFraction() or NoDamping()"),
    "solver": ("factor", "Cholesky(), Eigen(), Dual(), Sketch(), Projection() or ConjugateGradient()"),
    "resampler": ("draw", "Multinomial(), BayesianBootstrap(), Poisson() or Jackknife()"),
}


@storable
class Inverted(NamedTuple):
    """An inverse and the damping it was made with."""

    inverse: Inverse
    damped: Damped

    def describe(self) -> Facts:
        """The damping, its reason and the solver."""
        return {"damping": self.damped.value, "damping_reason": self.damped.reason, **self.inverse.describe()}


def check_parts(**settings: object) -> None:
    """Raise for a setting that is not an object of the right kind; None leaves the choice to the method.

    >>> check_parts(curvature=None)
    """
    for name, value in settings.items():
        member, examples = WANTED[name]
        if value is not None and (isinstance(value, type) or not hasattr(value, member)):
            raise SettingError(f"{name} must be an object such as {examples}, got {value!r}")


def invert(curvature: Curvature, damping: Damping | None, solver: Solver | None) -> Inverted:
    """Damp and factor. Without a damping rule, damp only a curvature that cannot be inverted otherwise, with a warning.

    Raising all softmax logits equally changes no probability: such flat directions are left out, not damped.
    """
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
    if solver is None and curvature.size <= largest_matrix(curvature.device) and curvature.logits:
        try:
            inverse = PseudoInverse(most=curvature.size // curvature.logits).factor(curvature, 0.0)
            return Inverted(inverse, Damped(0.0, "none: all logits may rise together, which moves no probability"))
        except NotPositiveDefiniteError:
            pass
    value, reason, _ = MeanFraction()(curvature)
    try:
        inverse = _factor(curvature, value, solver)
    except NotPositiveDefiniteError:
        return _lifted(curvature, value, solver)
    warning = (
        "the curvature is singular without damping (no l2 on some parameters, or features that repeat each other), so "
        f"{value:.3g} was added: {reason}; "
        "take out columns that repeat others, state the l2 of a network that was trained with one, or choose a damping"
    )
    damped = Damped(value, f"{reason}, because the curvature is singular without it", warning)
    return Inverted(inverse, damped)


def _lifted(curvature: Curvature, least: float, solver: Solver | None) -> Inverted:
    """Damp a curvature with negative eigenvalues, as a loss that is not convex in the outputs may have."""
    smallest, how = smallest_eigenvalue(curvature)
    value = max(0.0, -smallest) + least
    warning = (
        f"the curvature points downwards (smallest eigenvalue {smallest:.3g}, {how}), because the loss is not convex "
        f"in the outputs or the model is not at an optimum, so {value:.3g} was added; choose a damping, or train on"
    )
    return Inverted(_factor(curvature, value, solver), Damped(value, "lifted, because it points downwards", warning))


def chosen_solver(curvature: Curvature, damping: float) -> Solver:
    """Cholesky for a small matrix, the dual form for fewer rows than parameters, else conjugate gradients."""
    d, rank = curvature.size, curvature.rank
    if prefers_dual(d, rank, largest_matrix(curvature.device)) and curvature.root() is not None:
        diagonal = curvature.penalty_diagonal()
        if diagonal is not None and float(diagonal.min()) + damping > 0:
            return Dual()
    return Cholesky() if d <= largest_matrix(curvature.device) else ConjugateGradient()


def largest_matrix(device: torch.device) -> int:
    """Rows of the largest matrix that is factored unasked.

    >>> largest_matrix(torch.device("cpu"))
    8000
    """
    return ON_GPU if device.type == "cuda" else LARGE


def prefers_dual(d: int, rank: int, most: int) -> bool:
    """Whether the matrix of so many rows is the smaller one, and small enough."""
    return d > SMALL and rank <= most and (d > most or d > 2 * rank)


def too_large(model: Model, data: TrainingSet) -> bool:
    """Whether the d×d matrix is too large to factor, and the n·k × n·k matrix too, or the gradients it is made of."""
    d = model.theta.numel()
    if d <= LARGE or model.family.coupled:
        return False
    count = data.n * outputs(model, take(next(data.batches()).inputs, slice(0, 2))).shape[1]
    return beyond(count, d, model.theta.device)


def beyond(count: int, d: int, device: torch.device) -> bool:
    """Whether so many outputs of rows and so many parameters are too many for an exact solve that nobody asks for.

    >>> beyond(13_000, 17_000, torch.device("cpu")), beyond(13_000, 17_000, torch.device("cuda"))
    (True, False)
    """
    return d > LARGE and (min(count, d) > largest_matrix(device) or count * d > NUMBERS)


def _factor(curvature: Curvature, damping: float, solver: Solver | None) -> Inverse:
    return (solver or chosen_solver(curvature, damping)).factor(curvature, damping)


def _may_be_singular(curvature: Curvature, solver: Solver) -> bool:
    """Whether more parameters have no penalty than the data can determine, or any if the solver would not notice."""
    diagonal = curvature.penalty_diagonal()
    if diagonal is None:
        return False
    free = int((diagonal == 0).sum())
    return free > curvature.rank or (free > 0 and not solver.notices_singular)
