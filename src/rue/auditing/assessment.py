"""What a fitted method says of a batch of inputs, before it is collected into an audit."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from torch import Tensor

from rue.core.concepts import Inputs
from rue.core.model import Model


class CalibratedParts(NamedTuple):
    """What calibrated methods add: the total spread where it is not resampling plus noise, and what it is made of."""

    total: Tensor  # (c, k, k), of the predictive distribution
    scarcity: Tensor | None = None  # (c, k, k), the part of the noise that stands for data that are missing
    scarce: Tensor | None = None  # (c,), one for inputs unlike the training rows


class MemberErrors(NamedTuple):
    """What sampled members add: how far their predictions can be trusted, in their standard deviation."""

    drift: Tensor  # (c,), how far the members' mean left the prediction
    rounding: Tensor  # (c,), rounding error of the members' predictions


class ClassShares(NamedTuple):
    """What classifiers add."""

    probability: Tensor  # (c, classes), averaged over the resampled models
    flip: Tensor | None = None  # (c,), the chance of another decision
    epistemic: Tensor | None = None  # (c,), nats of uncertainty that are due to the training set


class Assessment(NamedTuple):
    """Predictions of a batch, and how far they can be relied on."""

    prediction: Tensor  # (c, k)
    covariance: Tensor | None = None  # (c, k, k), of resampling
    noise: Tensor | None = None  # (c, k, k), all other spread
    score: Tensor | None = None  # (c,), where it is not the root of the covariance's trace
    residual: float | None = None  # of a solve made for these inputs
    calibrated: CalibratedParts | None = None
    members: MemberErrors | None = None
    classes: ClassShares | None = None

    def arrays(self) -> Iterator[tuple[str, Tensor]]:
        """Every number per row by name, those of the parts too."""
        own = {"prediction": self.prediction, "covariance": self.covariance, "noise": self.noise, "score": self.score}
        parts = (part._asdict() for part in (self.calibrated, self.members, self.classes) if part is not None)
        for named in (own, *parts):
            yield from ((name, values) for name, values in named.items() if values is not None)


class Assessor(Protocol):
    """5. What a Method's `fit` leaves behind for an Auditor: everything that does not need the inputs."""

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Assess a batch of inputs."""
        ...


class Members(Protocol):
    """Networks that were resampled, or trained: of methods that draw them."""

    @property
    def count(self) -> int:
        """How many, b."""
        ...

    def members(self, model: Model, inputs: Inputs) -> Tensor:
        """Each member's outputs, (b, c, k)."""
        ...
