"""RUE in closed form from some of the training rows, with an error bar."""

from dataclasses import dataclass, field, replace
from math import log
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from rue.auditing.assessment import Assessment
from rue.auditing.auditor import Auditor
from rue.auditing.meaning import Meaning
from rue.auditing.trained import Solved
from rue.core.concepts import Damping, Inputs, Resampler, Solver, TrainingSet
from rue.core.curvature import GaussNewton
from rue.core.derivatives import gradient_batches, jacobian, jacobian_batches, outputs, weighted_hessian
from rue.core.drawn_rows import DrawnRows, inclusion, picked
from rue.core.errors import SettingError
from rue.core.model import Model
from rue.core.nested import take
from rue.core.one_step import leverage
from rue.core.resample import Multinomial, generator
from rue.core.settings import check_level
from rue.core.solve.choice import Inverted, invert
from rue.core.stored import storable
from rue.methods.fitting import Fitting, fitting
from rue.methods.linear_rue import MEANING

FEWEST = 8  # rows whose halves can still be compared
LOOKED_AT = 256  # training rows by which the usual difference of halves is known
By = Literal["leverage", "uniform"]


@dataclass(frozen=True)
class FewerRows:
    """`LinearRUE` from a `share` of the training rows; `audit.std_error` says how far off its `std` may be.

    A row that is drawn with probability p stands for 1/p rows: so much it counts in the curvature and in the
    covariance of the resampled gradient, whose sums are then right on average. With `by="leverage"` rows are drawn in
    proportion to their leverage, as a first draw by the curvature of their losses tells it; that takes the gradients
    of all rows once. `score` is the standard deviation.
    """

    share: float = 0.2
    by: By = "leverage"
    damping: Damping | None = None
    solver: Solver | None = None
    resampler: Resampler = field(default_factory=Multinomial)
    seed: int = 0
    meaning: ClassVar[Meaning] = MEANING

    def __post_init__(self) -> None:
        if self.share == 1:
            raise SettingError("share=1 are all rows; use LinearRUE, which is then exact")
        check_level("share", self.share)
        if self.by not in ("leverage", "uniform"):
            raise SettingError(f'by must be "leverage" or "uniform", got {self.by!r}')

    def fit(self, model: Model, data: Any) -> Auditor:
        """Draw rows, solve for them, and for two halves of them, which tell how much the answer depends on the draw."""
        with fitting(self, model, data) as fit:
            self._refuse(fit)
            source = generator(self.seed)
            score = self._score(fit, source)
            count = round(self.share * fit.data.n)
            probability, fewer = inclusion(score, count), inclusion(score, count // 2)
            rows = _pick(probability, source)
            inverted = fit.invert(GaussNewton(), self.damping, self.solver, _standing(fit, rows, probability))
            fit.warn_of_sketch(Solved(inverted, fit.model))
            whole = self._steps(fit, inverted, rows, probability)
            order, start = torch.randperm(len(rows), generator=source), float(torch.rand(1, generator=source))
            halves = [rows[picked((fewer / probability)[rows], order, begin)] for begin in (start, (start + 0.5) % 1)]
            parts = [self._steps(fit, self._inverted(fit, half, fewer), half, fewer) for half in halves]
            facts = {**inverted.describe(), "rows_drawn": len(rows), "drawn_by": self.by}
            spread = DrawnSpread(whole, parts[0], parts[1], self.share)
            looked_at = take(next(iter(fit.data.batches())).inputs, slice(0, LOOKED_AT))
            return fit.auditor(replace(spread, usual=spread.chance(fit.model, looked_at).square().mean(0)), facts)

    def _refuse(self, fit: Fitting) -> None:
        data, family = fit.data, fit.model.family
        if data.units < data.n or family.coupled:
            raise SettingError(
                "FewerRows draws single rows, and these are groups or depend on each other; use LinearRUE"
            )
        if round(self.share * data.n) < FEWEST:
            raise SettingError(
                f"a share of {self.share:g} of {data.n} rows is fewer than {FEWEST}; give more, or use LinearRUE"
            )
        if not (fit.model.objective.stated or self.damping is not None):
            raise SettingError(
                "without a penalty one is chosen by leaving out every row, for which all are needed; give rue.wrap the "
                "l2 of training, give a damping, or use LinearRUE"
            )

    def _score(self, fit: Fitting, source: torch.Generator) -> Tensor:
        """What the probabilities of the rows are in proportion to: (n,)."""
        if self.by == "uniform":
            return torch.ones(fit.data.n, dtype=torch.float64)
        bend = [
            weighted_hessian(fit.model, outputs(fit.model, batch.inputs), batch).diagonal(dim1=1, dim2=2).sum(1).cpu()
            for batch in fit.data.batches()
        ]
        first = inclusion(torch.cat(bend), round(self.share * fit.data.n))
        return leverages(fit.model, fit.data, self._inverted(fit, _pick(first, source), first))

    def _inverted(self, fit: Fitting, rows: Tensor, probability: Tensor) -> Inverted:
        """The damped curvature of drawn rows, without the warnings that all drawn rows give."""
        return invert(GaussNewton().at(fit.model, _standing(fit, rows, probability)), self.damping, self.solver)

    def _steps(self, fit: Fitting, inverted: Inverted, rows: Tensor, probability: Tensor) -> Tensor:
        """Rows F (s, d) with FᵀF the covariance of the parameters.

        Squares of gradients count 1/p times, so that the gradients themselves count 1/√p times.
        """
        root = probability[rows].rsqrt()
        drawn = DrawnRows(fit.data, rows, fit.data.weight[rows] * root)
        pulls = torch.cat([gradients for _, gradients in gradient_batches(fit.model, drawn)])
        root = root.to(pulls)
        mean = root @ pulls / root.square().sum()  # Σ g/p over Σ 1/p
        scale, shared = self.resampler.covariance(fit.data.units)
        centred = pulls - (1 - (1 - shared) ** 0.5) * torch.outer(root, mean)
        return inverted.inverse.solve(scale**0.5 * centred).vectors


@storable
@dataclass(frozen=True)
class DrawnSpread:
    """Rows F (s, d) with FᵀF the covariance of the parameters, from drawn rows and from two halves of them."""

    steps: Tensor = field(repr=False)
    first: Tensor = field(repr=False)
    second: Tensor = field(repr=False)
    share: float
    usual: Tensor = field(default_factory=lambda: torch.zeros(()), repr=False)  # (k,), the mean square of chance

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """The covariance of all drawn rows; its error from the halves, in logarithms of deviations.

        The difference of two halves alone is itself mostly chance, so that half of its square is that of usual rows.
        The halves' mean differs from the whole by what half as many rows do; all rows are log₂(1/share) such steps
        away.
        """
        rows = jacobian(model, inputs).double()
        moved = rows @ self.steps.T
        whole, first, second = (_log_deviation(rows, steps) for steps in (self.steps, self.first, self.second))
        chance = (self.chance(model, inputs).square() + self.usual) / 2
        drift = (whole - (first + second) / 2) * log(1 / self.share) / log(2)
        error = whole.exp() * (chance + drift.square()).sqrt()
        return Assessment(outputs(model, inputs), moved @ moved.mT, std_error=error)

    def chance(self, model: Model, inputs: Inputs) -> Tensor:
        """Half the difference of the halves (m, k): none where all rows are drawn, which leaves no other draw."""
        rows = jacobian(model, inputs).double()
        return (_log_deviation(rows, self.first) - _log_deviation(rows, self.second)) / 2 * (1 - self.share) ** 0.5


def _log_deviation(rows: Tensor, steps: Tensor) -> Tensor:
    return (rows @ steps.T).square().sum(-1).clamp_min(torch.finfo(torch.float64).tiny).log() / 2


def leverages(model: Model, data: TrainingSet, inverted: Inverted) -> Tensor:
    """The leverage (n,) that every row would have beside the rows that were inverted."""
    parts = []
    for batch, rows in jacobian_batches(model, data):
        reach = weighted_hessian(model, outputs(model, batch.inputs), batch) @ leverage(rows, inverted.inverse)[0]
        eye = torch.eye(reach.shape[-1], dtype=reach.dtype, device=reach.device)
        parts.append((reach @ torch.linalg.inv(eye + reach)).diagonal(dim1=1, dim2=2).sum(1).clamp_min(0).cpu())
    return torch.cat(parts)


def _standing(fit: Fitting, rows: Tensor, probability: Tensor) -> DrawnRows:
    """Drawn rows, each standing for 1/p rows."""
    return DrawnRows(fit.data, rows, fit.data.weight[rows] / probability[rows])


def _pick(probability: Tensor, source: torch.Generator) -> Tensor:
    order = torch.randperm(len(probability), generator=source)
    return picked(probability, order, float(torch.rand(1, generator=source)))
