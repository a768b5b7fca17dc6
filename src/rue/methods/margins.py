"""Class probabilities at new inputs, from shrunk margins between logits and, if there is one, a second opinion."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import log
from typing import Any, Protocol

import torch
from torch import Tensor

from rue.auditing.assessment import Assessment, ClassShares
from rue.auditing.held_out import pair
from rue.calibrate.shrinkage import Shrinkage
from rue.core.classify import log_likelihood, wrong
from rue.core.concepts import Decision, Inputs, Reach
from rue.core.derivatives import followed, outputs
from rue.core.model import Model
from rue.core.nested import joined, leaves
from rue.core.stored import storable
from rue.data.opening import training_rows
from rue.methods.resampled import Resampled
from rue.methods.second_opinion import SecondOpinion

WARMER = tuple(2.0**power for power in range(-6, 7))  # factors of the squared temperature tried on validation rows
SHARES = tuple(step / 10 for step in range(11))  # shares of a second opinion tried on validation rows


@storable
@dataclass(frozen=True)
class ShrunkMargins:
    """Class probabilities at new inputs, averaged over the uncertainty of the logits."""

    decision: Decision
    moves: "Moves" = field(repr=False)
    shrinkage: Shrinkage
    second: SecondOpinion | None = None

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Probabilities under the two covariances of the logits, resampling and scarcity."""
        logits = outputs(model, inputs).double()
        covariance, scarcity, residual = self.moves(model, inputs)
        shares = self.shrinkage.probability(self.decision, logits, covariance, scarcity)
        if self.second is not None:
            shares = self.second.mixed(shares, self.second.probability(self.decision, inputs))
        score = wrong(self.decision, shares, logits)
        return Assessment(logits, covariance, score=score, residual=residual, classes=ClassShares(shares))


class Moves(Protocol):
    """How the logits at new inputs would move."""

    def __call__(self, model: Model, inputs: Inputs) -> tuple[Tensor | None, Tensor | None, float | None]:
        """Covariances (c, k, k) under resampling and by scarcity, and a solve's residual; None where unknown."""
        ...


@storable
@dataclass(frozen=True)
class GradientMoves:
    """Moves of the logits that follow from moves of the parameters."""

    reach: Reach = field(repr=False)

    def __call__(self, model: Model, inputs: Inputs) -> tuple[Tensor, Tensor, float]:
        """Both covariances, and the residual of the solve for the second."""
        rows = followed(model, inputs)
        reached = self.reach(rows.values)
        return rows.blocks(reached.resampling)[:], rows.blocks(reached.leverage)[:], reached.residual


@storable
@dataclass(frozen=True)
class OutsideMoves:
    """Moves for a model that is audited by its predictions: resampling alone, and only where it has parameters."""

    resampled: Resampled | None = field(repr=False)

    def __call__(self, model: Model, inputs: Inputs) -> tuple[Tensor | None, None, None]:  # noqa: ARG002  as above
        """The covariance under resampling if known; there is no scarcity."""
        return (None if self.resampled is None else self.resampled.covariance(inputs)), None, None


def validated(spread: ShrunkMargins, model: Model, validation: Any) -> ShrunkMargins:
    """Adjust temperature and second opinion's share to validation labels, with a prior around the present values."""
    rows, _ = training_rows(pair(validation), model)
    batches = list(rows.batches())
    targets = leaves(joined([batch.targets for batch in batches]))[0]
    logits = torch.cat([outputs(model, batch.inputs) for batch in batches]).double()
    covariances = [spread.moves(model, batch.inputs)[:2] for batch in batches]
    resampling, scarcity = (_all(part) for part in zip(*covariances, strict=True))
    second = spread.second
    theirs = torch.cat([second.probability(spread.decision, b.inputs) for b in batches]) if second else logits

    def cost(warmer: float, share: float) -> float:
        shrunk = spread.shrinkage._replace(unit=spread.shrinkage.unit * warmer)
        shares = shrunk.probability(spread.decision, logits, resampling, scarcity)
        away = 0.5 * log(warmer) ** 2
        if second is not None:
            shares = replace(second, share=share).mixed(shares, theirs)
            away += 0.5 * ((share - second.share) / 0.25) ** 2
        return away - float(log_likelihood(spread.decision, shares, targets).sum())

    tried = [(warmer, share) for warmer in WARMER for share in (SHARES if second else (0.0,))]
    warmer, share = min(tried, key=lambda pair: cost(*pair))
    shrinkage = spread.shrinkage._replace(unit=spread.shrinkage.unit * warmer)
    return replace(spread, shrinkage=shrinkage, second=second and replace(second, share=share))


def _all(parts: Sequence[Tensor | None]) -> Tensor | None:
    known = [part for part in parts if part is not None]
    return torch.cat(known) if known else None
