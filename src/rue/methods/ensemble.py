"""Predictions of many parameter vectors, the members: shared by RUE, sampled Laplace and Bootstrap SGD."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from rue.auditing.assessment import Assessment, MemberErrors
from rue.core.concepts import Inputs
from rue.core.derivatives import member_outputs, outputs
from rue.core.errors import NumericalError, SettingError
from rue.core.model import Model
from rue.core.nested import leaves, take
from rue.core.stored import storable

MEMBER_BYTES = 2**26  # of members' outputs and hidden layers held at once, roughly


@storable
@dataclass(frozen=True)
class SampledMembers:
    """Parameter vectors (b, d); the spread of their predictions is the uncertainty."""

    thetas: Tensor = field(repr=False)
    factor: float = 1.0  # the resampler's correction of the variance

    @property
    def count(self) -> int:
        """The number of members, b."""
        return len(self.thetas)

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Algorithm 1, lines 9 to 13, for a batch of inputs."""
        predicted = outputs(model, inputs).double()
        mean, covariance = self.moments(model, inputs)
        spread = covariance.diagonal(dim1=1, dim2=2).sum(-1).sqrt()
        away = torch.linalg.vector_norm(mean - predicted, dim=-1)
        tiny = torch.finfo(spread.dtype).tiny
        allowed = 3 / len(self.thetas) ** 0.5  # sampling error of the members' mean, in their own std
        drift = torch.where(away > 0, away / spread.clamp_min(tiny) - allowed, 0.0)
        rounded = torch.finfo(model.theta.dtype).eps * torch.linalg.vector_norm(predicted, dim=-1)
        return Assessment(predicted, covariance, members=MemberErrors(drift, rounded / spread.clamp_min(tiny)))

    def moments(self, model: Model, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Mean (c, k) and covariance (c, k, k) of the members' predictions."""
        members = self.members(model, inputs)  # (b, c, k)
        mean = members.mean(0)
        centred = members - mean
        return mean, self.factor * torch.einsum("bci,bcj->cij", centred, centred) / (len(members) - 1)

    def members(self, model: Model, inputs: Inputs) -> Tensor:
        """Each member's outputs, (b, c, k)."""
        thetas = self.thetas.to(model.theta.dtype)
        rows = len(leaves(inputs)[0])
        size = max(1, MEMBER_BYTES // (8 * len(thetas) * 64))  # 64: a guess at the width of hidden layers
        parts = []
        for start in range(0, rows, size):
            batch = take(inputs, slice(start, start + size))
            parts.append(member_outputs(model, thetas, batch).double())
        members = torch.cat(parts, dim=1)
        bad = int((~torch.isfinite(members)).flatten(1).any(1).sum())
        if bad:
            raise NumericalError(
                f"{bad} of {len(thetas)} members predict NaN or infinity: their parameters moved too far; "
                "use LinearRUE, or a larger damping"
            )
        return members


def check_members(members: int) -> None:
    """Refuse fewer than two members: their variance would not exist."""
    if isinstance(members, bool) or not isinstance(members, int) or members < 2:
        raise SettingError(f"members must be a whole number of at least 2, got {members!r}")
