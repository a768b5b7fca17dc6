"""The protocol that explanations are computed from: the effect of every training row on a prediction."""

from typing import NamedTuple, Protocol

from torch import Tensor

from rue.core.arrays import Array, Whole
from rue.core.concepts import Inputs, Resampler
from rue.data.rows import Rows

MODEL = "the model"
ALL = -1  # in place of the number of an output: a margin depends on all outputs


class Sight(NamedTuple):
    """The effects of n training rows in u units on c inputs."""

    pull: Array  # (c, u), B: the influence of each unit on the explained number
    change: Array  # (c, u), the change of that number without the unit
    kernel: Array  # (c, n), k(x, xᵢ)
    similarity: Array  # (c, n), from 0 to 1
    density: Array  # (c,), the larger, the scarcer similar rows are


def of_output(values: Array, output: int) -> Array:
    """The columns of values (n, k) that belong to an explained output."""
    return values if output == ALL else values[:, output : output + 1]


class Usual(NamedTuple):
    """The measures of training rows (s,) without their own unit, which audited rows are compared with."""

    density: Array  # (s,)
    misfit: Array  # (s,), the root of the local mean of squared left-out residuals
    power: int  # of the similarity, in that local mean


class Lens(Protocol):
    """Computes influences and similarities; there is one for models with one objective, and one for forests."""

    @property
    def data(self) -> Rows:
        """The training rows."""
        ...

    @property
    def resampler(self) -> Resampler:
        """The distribution of other possible training sets."""
        ...

    @property
    def whose(self) -> str:
        """The model of the influences and errors, in words: the audited one, or a substitute."""
        ...

    @property
    def residual(self) -> Array:
        """∂ℓ/∂f of each training row at its left-out prediction: (n, k)."""
        ...

    @property
    def prediction(self) -> Array:
        """The left-out prediction of each training row: (n, k)."""
        ...

    def usual(self, output: int) -> Usual | None:
        """The measures of rows of the sample for one output or all (ALL); None if rows cannot be left out."""
        ...

    def without(self, inputs: Inputs, contrast: Tensor, rows: Whole) -> float:
        """The change of the explained number of one input if these training rows were left out."""
        ...

    def look(self, inputs: Inputs, contrast: Tensor) -> Sight:
        """The effects on c inputs, where `contrast` (c, k) holds the weights of the outputs in the explained number."""
        ...
