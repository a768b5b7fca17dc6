"""What an explanation looks at: how every training row bears on a prediction."""

from typing import NamedTuple, Protocol

from torch import Tensor

from rue.core.arrays import Array, Whole
from rue.core.concepts import Inputs, Resampler
from rue.data.rows import Rows

MODEL = "the model"
ALL = -1  # in place of one output: a margin looks at all of them


class Sight(NamedTuple):
    """c inputs beside n training rows in u units."""

    pull: Array  # (c, u), B: how each unit pulls on the explained number
    change: Array  # (c, u), by how much that number would change without the unit
    kernel: Array  # (c, n), k(x, xᵢ)
    similarity: Array  # (c, n), from 0 to 1
    density: Array  # (c,), the larger the scarcer are similar rows


def of_output(values: Array, output: int) -> Array:
    """The columns of values (n, k) that an explained number is about."""
    return values if output == ALL else values[:, output : output + 1]


class Usual(NamedTuple):
    """Training rows (s,) as they look without their own unit: what audited rows are compared with."""

    density: Array  # (s,)
    misfit: Array  # (s,), the root of the local mean of squared left-out residuals
    power: int  # of the similarity, in that local mean


class Lens(Protocol):
    """One for models of one objective, one for forests."""

    @property
    def data(self) -> Rows:
        """The training rows."""
        ...

    @property
    def resampler(self) -> Resampler:
        """Which training sets might have been."""
        ...

    @property
    def whose(self) -> str:
        """Whose errors they are, in words: the model's, or those of whoever stands in for it."""
        ...

    @property
    def residual(self) -> Array:
        """What the model misses each training row by without it: (n, k), ∂ℓ/∂f."""
        ...

    @property
    def prediction(self) -> Array:
        """Outputs of each training row without it: (n, k)."""
        ...

    def usual(self, output: int) -> Usual | None:
        """The training rows by the same measures, of one output or all (ALL); None where they cannot be left out."""
        ...

    def without(self, inputs: Inputs, contrast: Tensor, rows: Whole) -> float:
        """By how much the explained number (1, k) of one input would change were these training rows left out."""
        ...

    def look(self, inputs: Inputs, contrast: Tensor) -> Sight:
        """Inputs of c rows, and which mix of their outputs (c, k) is explained."""
        ...
