"""Copies of the audited model that were trained without some of the rows, and what they say of others."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.core.concepts import Inputs
from rue.core.derivatives import input_chunks, outputs
from rue.core.model import Model
from rue.data.rows import input_batches
from rue.losses import Loss
from rue.models import black_box, wrap
from rue.models.torch.module import plain_module


@dataclass(frozen=True)
class Refits:
    """All copies, and for every training row the one that was trained without it."""

    model: Model = field(repr=False)  # the audited one
    copies: tuple[Model, ...] = field(repr=False)
    fold: NDArray[np.int64] = field(repr=False)  # (n,)

    def at(self, inputs: Any) -> Tensor:
        """What every copy says of new inputs, as the user gives them: (copies, m, k)."""
        return torch.stack([said(copy, self.model, _chunks(copy, inputs)) for copy in self.copies])


def as_copy(made: Any, model: Model) -> Model:
    """What `refit` returned as a model, read as the audited one was: outputs of both mean the same."""
    if isinstance(made, torch.nn.Module):
        core = plain_module(model)
        return wrap(made, loss=None if core is None else core.stated_loss)
    if isinstance(made, Model):
        return made  # that was wrapped already
    return wrap(made) if model.family.gradients else black_box.read(made, cast(Loss, model.loss), None)


def said(copy: Model, model: Model, inputs: Iterable[Inputs]) -> Tensor:
    """Outputs (c, k) of a copy, in the units of the audited model's."""
    found = torch.cat([outputs(copy, part).double().cpu() for part in inputs])
    if copy.response is None:
        return found
    return model.read_targets(copy.response.value(found.numpy())).reshape(found.shape)  # may transform otherwise


def _chunks(copy: Model, inputs: Any) -> Iterable[Inputs]:
    for batch in input_batches(inputs, copy):
        yield from input_chunks(copy, batch)
