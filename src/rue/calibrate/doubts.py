"""Checks on every fit: is the expected error plausible, given the targets and the training residuals?"""

from typing import NamedTuple

import torch
from torch import Tensor

from rue.calibrate.left_out import Evidence
from rue.core.classify import class_shares, log_likelihood, probability
from rue.core.derivatives import outputs
from rue.core.errors import NumericalError
from rue.core.model import Model
from rue.core.nested import joined, leaves
from rue.data.rows import Rows

ABSURD = 10.0  # errors above so many times the spread of the targets are impossible for a model of these targets
DOUBTFUL = 1.25  # left-out errors above so many times that spread: worse than if nothing could be learnt
DOUBT = 0.1  # nats per row by which a classifier may be worse than the class frequencies
TINY = 1e-12  # targets whose spread is below this part of their size are constant, up to rounding


class Sizes(NamedTuple):
    """Root mean squares over the training rows for one output."""

    spread: float  # of the targets around their mean
    fitted: float  # of the residuals of the audited model
    left_out: float  # of the left-out residuals


def doubts(model: Model, evidence: Evidence) -> list[str]:
    """Warnings about implausible errors; raises if the errors are impossible."""
    if model.family.gaussian:
        return list(dict.fromkeys(text for sizes in _sizes(model, evidence) for text in _of_numbers(sizes, evidence)))
    if model.family.decision in ("largest", "signs") and model.family.likelihood:
        return _of_classes(model, evidence)
    return []


def _of_numbers(sizes: Sizes, evidence: Evidence) -> list[str]:
    if sizes.spread == 0:
        return []  # constant targets give nothing to compare with
    if sizes.fitted > ABSURD * sizes.spread:
        raise NumericalError(
            f"the model misses its own training rows by {sizes.fitted:.3g}, {sizes.fitted / sizes.spread:.0f} times "
            f"what the targets vary ({sizes.spread:.3g}): these are not the targets it was trained on; give them in "
            "the units of training (standardised, if they were), and in the order of the rows"
        )
    if sizes.left_out > ABSURD * sizes.spread:
        raise NumericalError(
            f"left out, training rows are missed by {sizes.left_out:.3g}, {sizes.left_out / sizes.spread:.0f} times "
            f"what the targets vary ({sizes.spread:.3g}), by {evidence.source}: the penalty is much smaller than that "
            "of training (a mean taken for a sum, AdamW's decay for a penalty); leave l2= and left_out= away"
        )
    if sizes.left_out > DOUBTFUL * sizes.spread:
        return [
            f"left out, training rows are missed by {sizes.left_out:.3g}, more than their mean would "
            f"({sizes.spread:.3g}), by {evidence.source}: the inputs say little of the targets, or the penalty is "
            "smaller than that of training; expected errors may be too large"
        ]
    return []


def _sizes(model: Model, evidence: Evidence) -> list[Sizes]:
    """The sizes for each output separately, because outputs may have different units."""
    data = evidence.rows
    targets = _targets(data).double()
    fitted = torch.cat([outputs(model, batch.inputs) for batch in data.batches()]).double()
    share = (data.weight / data.weight.sum()).to(targets)
    targets = targets.reshape(fitted.shape)
    spread = _roots(share, targets - share @ targets)
    spread = torch.where(spread <= TINY * targets.abs().amax(0), 0.0, spread)
    columns = (spread, _roots(share, targets - fitted), _roots(share, evidence.slope))
    return [Sizes(*sizes) for sizes in zip(*(column.tolist() for column in columns), strict=True)]


def _of_classes(model: Model, evidence: Evidence) -> list[str]:
    """Compares the left-out likelihood with that of predicting the class frequencies."""
    assert model.family.decision is not None
    data = evidence.rows
    targets = _targets(data)
    weight = (data.weight / data.weight.sum()).to(evidence.prediction)
    # the witnesses are preferred, because copies may be overconfident
    logits = evidence.prediction if evidence.beside is None else evidence.beside
    frequencies = class_shares(model.family.decision, targets, weight, logits.shape[1])
    blind = frequencies.expand(len(targets), -1)
    by_frequency, left_out = (
        -float(weight @ log_likelihood(model.family.decision, shares, targets))
        for shares in (blind, probability(model.family.decision, logits))
    )
    if left_out <= by_frequency + DOUBT:
        return []
    return [
        f"left out, training rows have a mean loss of {left_out:.3g}, no better than the classes' own shares "
        f"({by_frequency:.3g}), by {evidence.source}: the inputs say little of the classes, or inputs and labels do "
        "not belong together; probabilities then say little more than those shares"
    ]


def _targets(data: Rows) -> Tensor:
    """The targets of rows, without the weights that may follow them."""
    targets: Tensor = leaves(joined([batch.targets for batch in data.batches()]))[0]
    return targets


def _roots(share: Tensor, values: Tensor) -> Tensor:
    return (share @ values.square()).sqrt()
