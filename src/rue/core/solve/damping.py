"""Damping rules: each chooses the number that is added to the diagonal of a curvature, and gives the reason."""

from dataclasses import dataclass

import numpy as np
import torch

from rue.core.arrays import Array
from rue.core.concepts import Curvature, Damped
from rue.core.errors import NotConvergedError, SettingError
from rue.core.resample import generator

DENSE_SIZE = 8000  # above this many parameters, the smallest eigenvalue comes from Lanczos iterations
SMALL = 2000  # parameters up to which a dense matrix is made anyway
FAR = 100.0  # times the largest eigenvalue from which on a damping, and not the data, decides
STEPS = 8  # power iterations: a lower limit of the largest eigenvalue, most often within a tenth


@dataclass(frozen=True)
class NoDamping:
    """Use the curvature as it is; a singular curvature raises an error."""

    def __call__(self, curvature: Curvature) -> Damped:  # noqa: ARG002  every rule takes the curvature
        """Zero."""
        return Damped(0.0, "none, as asked")


@dataclass(frozen=True)
class Fixed:
    """Add this number to the diagonal."""

    value: float

    def __post_init__(self) -> None:
        if not 0 <= self.value < float("inf"):
            raise SettingError(f"damping must be a finite number of at least 0, got {self.value}")

    def __call__(self, curvature: Curvature) -> Damped:
        """The number itself."""
        return _weighed(curvature, float(self.value), "fixed, as asked")


@dataclass(frozen=True)
class SmallestEigenvalue:
    """The smallest damping that lifts every eigenvalue to at least `floor`: the paper's rule, section 4.1."""

    floor: float = 1.0

    def __post_init__(self) -> None:
        if not self.floor > 0:
            raise SettingError(f"floor must be above 0 (1 in the paper), got {self.floor}")

    def __call__(self, curvature: Curvature) -> Damped:
        """The floor minus the smallest eigenvalue, where that is positive."""
        smallest, how = smallest_eigenvalue(curvature)
        value = max(0.0, self.floor - smallest)
        reason = f"smallest eigenvalue {smallest:.4g} ({how}) lifted to at least {self.floor:g}"
        return _of_fewer(curvature, _weighed(curvature, value, reason))


@dataclass(frozen=True)
class MeanFraction:
    """A fraction of the mean eigenvalue."""

    fraction: float = 1e-3

    def __post_init__(self) -> None:
        if not self.fraction > 0:
            raise SettingError(f"fraction must be above 0 (1e-3 by default), got {self.fraction}")

    def __call__(self, curvature: Curvature) -> Damped:
        """The fraction times trace/d."""
        mean = curvature.trace() / curvature.size
        reason = f"{self.fraction:g} of the mean eigenvalue {mean:.4g}"
        return _of_fewer(curvature, _weighed(curvature, self.fraction * abs(mean), reason))


def _weighed(curvature: Curvature, value: float, reason: str) -> Damped:
    """A damping, with a warning where it is far above every eigenvalue."""
    largest = largest_eigenvalue(curvature) if value > 0 else 0.0
    if value <= FAR * largest or largest <= 0:
        return Damped(value, reason)
    return Damped(
        value,
        reason,
        f"the damping {value:.3g} is {value / largest:.3g} times the largest eigenvalue of the curvature, "
        f"{largest:.3g}: the data hardly count beside it, and scores are too small by about that factor; choose a "
        "smaller damping, or none",
    )


def _of_fewer(curvature: Curvature, damped: Damped) -> Damped:
    """The same damping, with a warning where its eigenvalues are those of fewer coordinates than there are parameters.

    A rule that asks for them chooses another number then than for all parameters.
    """
    family = curvature.model.family
    if not (family.projected or family.turned) or damped.warning:
        return damped
    return damped._replace(
        warning=f"the damping {damped.value:.3g} follows from the eigenvalues of {curvature.size} coordinates, not "
        "from those of all parameters, and is another one than without such a solver; choose damping=Fixed(...)"
    )


def largest_eigenvalue(curvature: Curvature) -> float:
    """The largest eigenvalue, from below, by power iterations."""
    dense = curvature.dense() if curvature.size <= SMALL else None
    vector = torch.randn(1, curvature.size, generator=generator(0), dtype=torch.float64).to(curvature.device)
    size = 0.0
    for _ in range(STEPS):
        vector = vector / vector.norm().clamp_min(torch.finfo(torch.float64).tiny)
        vector = curvature.product(vector) if dense is None else vector @ dense
        size = float(vector.norm())
    return size


def smallest_eigenvalue(curvature: Curvature) -> tuple[float, str]:
    """The smallest eigenvalue and how it was computed: densely up to `DENSE_SIZE` parameters, else by Lanczos."""
    if curvature.size <= DENSE_SIZE:
        return float(torch.linalg.eigvalsh(curvature.dense())[0]), "dense"
    diagonal = curvature.penalty_diagonal()
    if diagonal is not None and curvature.root() is not None:
        smallest = float(diagonal.min())
        if int((diagonal == smallest).sum()) > curvature.rank:
            return smallest, "that of the penalty: there are fewer rows than parameters"
    return _lanczos(curvature), "Lanczos"


def _lanczos(curvature: Curvature) -> float:
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    def product(vector: Array) -> Array:
        rows = torch.as_tensor(np.ascontiguousarray(vector).reshape(1, -1), device=curvature.device)
        return np.asarray(curvature.product(rows).cpu().numpy().reshape(-1), dtype=np.float64)

    operator = LinearOperator((curvature.size, curvature.size), matvec=product, dtype=np.dtype(np.float64))
    start = torch.randn(curvature.size, generator=generator(0), dtype=torch.float64).numpy()
    try:
        values = eigsh(operator, k=1, which="SA", v0=start, tol=1e-4, return_eigenvectors=False)
    except ArpackNoConvergence as error:
        raise NotConvergedError(
            f"Lanczos iterations did not find the smallest of {curvature.size} eigenvalues; choose damping=Fixed(...), "
            "or curvature=GaussNewton() with damping=None"
        ) from error
    return float(values[0])
