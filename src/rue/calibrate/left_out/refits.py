"""Copies of the audited model that were trained without some of the rows, and their predictions."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.core.audited_rows import input_chunks
from rue.core.concepts import Inputs
from rue.core.derivatives import outputs
from rue.core.model import Model
from rue.core.stored import storable
from rue.data.opening import input_batches
from rue.losses import Loss
from rue.models import black_box, wrap
from rue.models.torch.module import plain_module


@storable
@dataclass(frozen=True)
class Refits:
    """All copies, and for every training row the number of the copy that was trained without it."""

    model: Model = field(repr=False)  # the audited one
    copies: tuple[Model, ...] = field(repr=False)
    fold: NDArray[np.int64] = field(repr=False)  # (s,), of the rows of the evidence

    def at(self, inputs: Any) -> Tensor:
        """The outputs of every copy for raw inputs: (copies, m, k)."""
        return torch.stack([copy_outputs(copy, self.model, _chunks(copy, inputs)) for copy in self.copies])


def as_copy(trained: Any, model: Model) -> Model:
    """Wrap what `refit` returned in the same way as the audited model, so that outputs of both mean the same."""
    if isinstance(trained, torch.nn.Module):
        core = plain_module(model)
        return wrap(trained, loss=None if core is None else core.stated_loss)
    if isinstance(trained, Model):
        return trained  # wrapped already
    return wrap(trained) if model.family.gradients else black_box.read(trained, cast(Loss, model.loss), None)


def copy_outputs(copy: Model, model: Model, inputs: Iterable[Inputs]) -> Tensor:
    """Outputs (c, k) of a copy, in the units of the audited model's outputs."""
    predicted = torch.cat([outputs(copy, part).double().cpu() for part in inputs])
    if copy.response is None:
        return predicted
    # the copy may transform its targets differently, so its predictions are read as targets of the audited model
    return model.read_targets(copy.response.value(predicted.numpy())).reshape(predicted.shape)


def _chunks(copy: Model, inputs: Any) -> Iterable[Inputs]:
    for batch in input_batches(inputs, copy):
        yield from input_chunks(copy, batch)
