"""The results of a fitted method for one batch of inputs, before they are collected into an audit."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from torch import Tensor

from rue.core.concepts import Inputs
from rue.core.model import Model


class CalibratedParts(NamedTuple):
    """Results of calibrated methods: the total spread if it is not resampling plus noise, and its parts."""

    total: Tensor  # (c, k, k), of the predictive distribution
    scarcity: Tensor | None = None  # (c, k, k), the part of the noise that is due to missing data
    scarce: Tensor | None = None  # (c,), one for inputs unlike the training rows


class MemberErrors(NamedTuple):
    """Results of methods with sampled members: the errors of their predictions, in their standard deviations."""

    drift: Tensor  # (c,), the distance of the members' mean from the prediction
    rounding: Tensor  # (c,), rounding error of the members' predictions


class ClassShares(NamedTuple):
    """Results of classifiers."""

    probability: Tensor  # (c, classes), averaged over the resampled models
    flip: Tensor | None = None  # (c,), the chance of another decision
    epistemic: Tensor | None = None  # (c,), the uncertainty due to the training set, in nats


class Assessment(NamedTuple):
    """Predictions of a batch, and their reliability."""

    prediction: Tensor  # (c, k)
    covariance: Tensor | None = None  # (c, k, k), of resampling
    noise: Tensor | None = None  # (c, k, k), all other spread
    score: Tensor | None = None  # (c,), if it is not the root of the covariance's trace
    residual: float | None = None  # of a solve for these inputs
    calibrated: CalibratedParts | None = None
    members: MemberErrors | None = None
    classes: ClassShares | None = None

    def arrays(self) -> Iterator[tuple[str, Tensor]]:
        """All arrays with one entry per row, by name, including those of the parts."""
        main = {"prediction": self.prediction, "covariance": self.covariance, "noise": self.noise, "score": self.score}
        parts = (part._asdict() for part in (self.calibrated, self.members, self.classes) if part is not None)
        for named in (main, *parts):
            yield from ((name, values) for name, values in named.items() if values is not None)


class Assessor(Protocol):
    """5. The part of a fitted method that an Auditor calls: it holds everything that does not depend on the inputs."""

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Assess a batch of inputs."""
        ...


class Members(Protocol):
    """Resampled or trained networks, for methods that draw members."""

    @property
    def count(self) -> int:
        """Number of members, b."""
        ...

    def members(self, model: Model, inputs: Inputs) -> Tensor:
        """The outputs of each member: (b, c, k)."""
        ...
