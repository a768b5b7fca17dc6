"""The results of a fitted method for one batch of inputs, and their collection over all batches of an audit."""

import warnings
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from torch import Tensor

from rue.auditing.spread import Calibrated, Spread
from rue.core.arrays import Array
from rue.core.concepts import Inputs
from rue.core.errors import RueWarning
from rue.core.model import Model

DRIFT = 0.5  # distance of the members' mean from the prediction, in their std beyond sampling error, that is too large
ROUNDING = 0.02  # rounding error of a prediction, in the members' std, that is too large
SHARE = 0.1  # fraction of the audited inputs above which there is a warning
COVARIANCE_BYTES = 2**30  # size of the covariances of an audit above which only variances are kept


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
    std_error: Tensor | None = None  # (c, k), of the resampling deviations, where these are estimates

    def arrays(self) -> Iterator[tuple[str, Tensor]]:
        """All arrays with one entry per row, by name, including those of the parts."""
        main = {
            "prediction": self.prediction,
            "covariance": self.covariance,
            "std_error": self.std_error,
            "noise": self.noise,
            "score": self.score,
        }
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


class Collected:
    """The results of all batches; each field is one array, of the rows expected, that doubles in size when it is full.

    A list of small arrays, allocated between large temporary blocks, would keep the allocator from freeing these
    blocks: memory would grow with m by far more than the results need.
    """

    def __init__(self, expected: int = 0) -> None:
        self.expected = expected
        self.rows = 0
        self.residual: float | None = None
        self.fields: dict[str, Array] = {}
        self.dropped: str | None = None

    def add(self, part: Assessment) -> None:
        """Copy a batch's results to the CPU."""
        end = self.rows + len(part.prediction)
        if part.residual is not None:
            self.residual = max(self.residual or 0.0, part.residual)
        arrays = dict(part.arrays())
        if part.covariance is not None and not self._keeps(part.covariance, max(end, self.expected)):
            arrays["variance"] = arrays.pop("covariance").diagonal(dim1=1, dim2=2)
        for name, value in arrays.items():
            room = self.fields.get(name, np.empty((0, *value.shape[1:])))
            if len(room) < end:
                larger = np.empty((max(end, self.expected, 2 * len(room)), *value.shape[1:]))
                larger[: self.rows] = room[: self.rows]
                self.fields[name] = room = larger
            room[self.rows : end] = value.detach().cpu().numpy()
        self.rows = end

    def _keeps(self, covariance: Tensor, rows: int) -> bool:
        """Whether covariances (m, k, k) of so many rows are still worth their memory; else variances are kept."""
        if self.dropped is None and 8 * rows * covariance[0].numel() > COVARIANCE_BYTES:
            self.dropped = f"covariances of {covariance.shape[1]} outputs were left out for their size; std is there"
            kept = self.fields.pop("covariance", None)
            if kept is not None:
                self.fields["variance"] = np.diagonal(kept, axis1=1, axis2=2).copy()
        return self.dropped is None

    @property
    def spread(self) -> Spread:
        """The collected covariances."""
        total, scarce = self.get("total"), self.get("scarce")
        calibrated = (
            None if total is None else Calibrated(total, self.get("scarcity"), None if scarce is None else scarce > 0)
        )
        error = self.get("std_error")
        return Spread(self.get("covariance"), self.get("variance"), self.get("noise"), calibrated, error)

    def get(self, name: str) -> Array | None:
        """All rows of a field; None if the method does not give it."""
        return self.fields[name][: self.rows] if name in self.fields else None

    def doubts(self) -> tuple[str, ...]:
        """Warnings about sampled parameters, which are also issued, and a note about results that were dropped."""
        drift, rounding = self.get("drift"), self.get("rounding")
        texts = []
        wandered = 0.0 if drift is None else float((drift > DRIFT).mean())
        if wandered > SHARE:
            texts.append(
                f"for {wandered:.0%} of these inputs the mean of the members' predictions lies more than {DRIFT} of "
                "their standard deviation away from the model's own: the sampled parameters move too far; use a "
                "linearised method or a larger damping"
            )
        rounded = 0.0 if rounding is None else float((rounding > ROUNDING).mean())
        if rounded > SHARE:
            texts.append(
                f"for {rounded:.0%} of these inputs the members differ by little more than the rounding of the model's "
                "dtype; standardise the targets, give a float64 copy of the model, or use a linearised method"
            )
        for text in texts:
            warnings.warn(text, RueWarning, stacklevel=3)
        return tuple(texts) if self.dropped is None else (*texts, self.dropped)
