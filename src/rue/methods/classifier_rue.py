"""The audit of a classifier that calibrates itself: probabilities averaged over training sets, by leave-one-out."""

from dataclasses import dataclass, field, replace
from math import exp, log
from typing import Any

import torch
from torch import Tensor

from rue.auditor import Auditor
from rue.calibrate.left_out_terms import without_own
from rue.calibrate.shrinkage import Shrinkage, best_temperature, fit_shrinkage
from rue.classify import class_shares, log_likelihood, probability, wrong
from rue.concepts import Assessment, CurvatureRule, Damping, Decision, Inputs, Inverse, Model, Resampler, Solver
from rue.curvature import GaussNewton
from rue.data import Rows, training_rows
from rue.derivatives import jacobian, jacobian_batches, outputs, weighted_gradients
from rue.errors import ModelError
from rue.held_out import pair
from rue.influence import pull_root
from rue.left_out import Evidence, EvidenceRule, Mixture, leverage
from rue.left_out.evidence import Honest
from rue.left_out.witness import joined
from rue.methods.fitting import Fitting, fitting
from rue.randomness import generator
from rue.resample import Multinomial
from rue.trees import leaves

ROWS = 2_500  # training rows that the weights are fitted on, at most,
CELLS = 4_000_000  # and entries of their covariances, at least of
FEWEST = 200  # rows
WARMER = tuple(2.0**power for power in range(-6, 7))  # times the squared temperature, tried on validation rows
SHARES = tuple(step / 10 for step in range(11))  # and shares of a second opinion
APART = 0.05  # nats a row between the model's own probabilities and an honest model's: their share falls by e


@dataclass(frozen=True)
class ClassifierRUE:
    """`score` is the probability that the decision is wrong, averaged over the training sets that might have been.

    Margins between logits are shrunk by a temperature, by their resampling variance and by what the data leave open
    (JH⁻¹Jᵀ); the three weights make the labels of left-out training rows most likely. Where the left-out predictions
    are another model's, its probabilities are a second opinion: `probability` is the mean of both, and the model's own
    stay in `audit.own_probability`. No row is held out.
    """

    curvature: CurvatureRule = field(default_factory=GaussNewton)
    damping: Damping | None = None
    solver: Solver | None = None
    resampler: Resampler = field(default_factory=Multinomial)
    seed: int = 0

    def fit(self, model: Model, data: Any, *, validation: Any = None, left_out: EvidenceRule | None = None) -> Auditor:
        """Leave every row out once and weigh what shrinks its margins; `left_out` says by what, else a rule chooses.

        `validation` rows (X, y) that the model was not trained on set its temperature and what a second opinion counts;
        rows that training was stopped on will do.
        """
        with fitting(self, model, data, project=True) as fit:
            decision = classifier(fit.model, "ClassifierRUE")
            evidence, steps, residual, shrinkage, second = self._weighed(fit, decision, left_out)
            if shrinkage.limit and evidence.honest is None and left_out is None and fit.model.family.stationary:
                evidence, steps, residual, shrinkage, second = self._weighed(fit, decision, Mixture())
            inverse = evidence.rest.inverted.inverse
            spread = ShrunkMargins(decision, inverse, steps, shrinkage, second)
            if validation is not None:
                spread = validated(spread, fit.model, validation)
                shrinkage, second = spread.shrinkage, spread.second
            facts = {
                **evidence.rest.inverted.describe(),
                **evidence.describe(),
                "residual": residual,
                "effective_parameters": evidence.rest.left.effective,
                "temperature": None if shrinkage.limit else shrinkage.unit**0.5,  # a limit is no answer
                "weights": {"resampling": shrinkage.resampling, "scarcity": shrinkage.scarcity},
                "left_out_nll": shrinkage.nll,
                "second_opinion": 0.0 if second is None else second.share,
            }
            made = fit.auditor(
                spread,
                facts,
                inverted=evidence.rest.inverted,
                objective=evidence.rest.objective,
                source=evidence.source,
            )
        return made if validation is None else made.validated(validation)

    def _weighed(
        self, fit: Fitting, decision: Decision, rule: EvidenceRule | None
    ) -> "tuple[Evidence, Tensor, float, Shrinkage, SecondOpinion | None]":
        """The evidence, the root of the parameters' covariance with its residual, and what shrinks margins."""
        evidence = fit.evidence(rule)
        inverse = evidence.rest.inverted.inverse
        steps, residual = inverse.solve(pull_root(evidence.rest.objective, fit.data, self.resampler, inverse))
        second = None if evidence.honest is None else SecondOpinion.of(decision, evidence, fit.data)
        shrinkage, entropy = self._shrinkage(fit, decision, evidence, steps, second)
        return evidence, steps, residual, shrinkage, second and second.beside(shrinkage, entropy)

    def _shrinkage(
        self, fit: Fitting, decision: Decision, evidence: Evidence, steps: Tensor, second: "SecondOpinion | None"
    ) -> tuple[Shrinkage, float]:
        """What makes left-out labels most likely; where these are another model's, what agrees best with it.

        The network's own logits have another scale than those of its refitted tangent, and have seen the labels: they
        are made as sure as an honest model is of the same rows. With it the least loss that there could have been.
        """
        left = evidence.rest.left
        usable = torch.nonzero(fit.data.weight > 0).flatten()
        count = min(ROWS, max(FEWEST, CELLS // left.prediction.shape[1] ** 2))
        drawn = torch.randperm(len(usable), generator=generator(self.seed))[:count]
        rows = usable[drawn].sort().values
        resampling, targets = _without_own_unit(fit, evidence, steps, rows, self.resampler)
        at = rows.to(left.prediction.device)
        weight = fit.data.weight[rows]
        if second is None:
            return fit_shrinkage(decision, left.prediction[at], resampling, left.reach[at], targets, weight), 0.0
        logits = torch.cat([outputs(fit.model, batch.inputs) for batch in fit.data.batches()]).double()[at]
        said = second.tempered(decision, evidence.prediction[at])
        wanted = said[:, 1:] if decision == "signs" and logits.shape[1] == 1 else said
        share = (weight / weight.sum()).to(said)
        entropy = -float(share @ log_likelihood(decision, said, wanted))
        return fit_shrinkage(decision, logits, resampling, left.reach[at], wanted, weight), entropy


@dataclass(frozen=True)
class SecondOpinion:
    """Probabilities of the honest model, at the temperature its left-out rows ask for, and what they count."""

    honest: Honest = field(repr=False)
    unit: float  # a squared temperature
    usual: Tensor = field(repr=False)  # (classes,), how often they are among the training rows
    rows: int  # it learnt from: with one more of the usual kind, it is never surer than so many can make it
    share: float = 0.5  # of the averaged probability; the model's own have the rest

    @classmethod
    def of(cls, decision: Decision, evidence: Evidence, data: Rows) -> "SecondOpinion":
        """At the temperature that the left-out rows ask for."""
        assert evidence.honest is not None
        targets = leaves(joined([batch.targets for batch in data.batches()]))[0]
        shares = (data.weight / data.weight.sum()).to(evidence.prediction)
        unit, limit = best_temperature(decision, evidence.prediction, targets, shares)
        usual = class_shares(decision, targets, shares, evidence.prediction.shape[1])
        return cls(evidence.honest, 1.0 if limit else unit, usual, data.units)

    def beside(self, own: Shrinkage, entropy: float) -> "SecondOpinion":
        """Half where the model's own agree, all where they are far from it, or say nothing."""
        apart = max(0.0, own.nll - entropy)
        return replace(self, share=1.0 if own.limit else 1 - 0.5 * exp(-apart / APART))

    def tempered(self, decision: Decision, logits: Tensor) -> Tensor:
        """Probabilities (c, classes) of its logits (c, k)."""
        said = probability(decision, logits / self.unit**0.5)
        return (self.rows * said + self.usual.to(said)) / (self.rows + 1)

    def probability(self, decision: Decision, inputs: Inputs) -> Tensor:
        """What it says itself: (c, classes)."""
        return self.tempered(decision, self.honest(inputs))

    def mixed(self, own: Tensor, said: Tensor) -> Tensor:
        """Probabilities (c, classes) between the audited model's and those it said."""
        return (1 - self.share) * own + self.share * said


@dataclass(frozen=True)
class ShrunkMargins:
    """Averaged probabilities at new inputs."""

    decision: Decision
    inverse: Inverse = field(repr=False)
    steps: Tensor = field(repr=False)  # (r, d), the root of the parameters' covariance
    shrinkage: Shrinkage
    second: SecondOpinion | None = None

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """Two covariances of the logits, and the probabilities under both."""
        logits, covariance, scarcity, residual = self.margins(model, inputs)
        shares = self.shrinkage.probability(self.decision, logits, covariance, scarcity)
        if self.second is not None:
            shares = self.second.mixed(shares, self.second.probability(self.decision, inputs))
        score = wrong(self.decision, shares, logits)
        return Assessment(logits, covariance, score=score, probability=shares, residual=residual)

    def margins(self, model: Model, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor, float]:
        """Logits (c, k), their covariances under resampling and by scarcity (c, k, k), and a solve's residual."""
        rows = jacobian(model, inputs).double()
        moved = rows @ self.steps.T
        scarcity, residual = leverage(rows, self.inverse)
        return outputs(model, inputs).double(), moved @ moved.mT, scarcity, residual


def validated(spread: ShrunkMargins, model: Model, validation: Any) -> ShrunkMargins:
    """The temperature, and the second opinion's share, under which validation labels are most likely, near the old."""
    rows, _ = training_rows(pair(validation), model)
    batches = list(rows.batches())
    targets = leaves(joined([batch.targets for batch in batches]))[0]
    seen = [spread.margins(model, batch.inputs)[:3] for batch in batches]
    logits, resampling, scarcity = (torch.cat(part) for part in zip(*seen, strict=True))
    second = spread.second
    said = None if second is None else torch.cat([second.probability(spread.decision, b.inputs) for b in batches])

    def cost(warmer: float, share: float | None) -> float:
        shrunk = spread.shrinkage._replace(unit=spread.shrinkage.unit * warmer)
        shares = shrunk.probability(spread.decision, logits, resampling, scarcity)
        away = 0.5 * log(warmer) ** 2
        if second is not None and said is not None and share is not None:
            shares = replace(second, share=share).mixed(shares, said)
            away += 0.5 * ((share - second.share) / 0.25) ** 2
        return away - float(log_likelihood(spread.decision, shares, targets).sum())

    tried = [(warmer, share) for warmer in WARMER for share in ((None,) if second is None else SHARES)]
    warmer, share = min(tried, key=lambda one: cost(*one))
    shrinkage = spread.shrinkage._replace(unit=spread.shrinkage.unit * warmer)
    return replace(
        spread, shrinkage=shrinkage, second=None if second is None or share is None else replace(second, share=share)
    )


def classifier(model: Model, who: str) -> Decision:
    """How the model's logits decide; a model without is refused."""
    if model.family.decision is None:
        raise ModelError(
            f'{who} audits classifiers: loss="cross_entropy", "bernoulli" or "ordinal"; for other losses use '
            "CalibratedRUE or LinearRUE"
        )
    return model.family.decision


def _without_own_unit(
    fit: Fitting, evidence: Evidence, steps: Tensor, rows: Tensor, resampler: Resampler
) -> tuple[Tensor, Tensor]:
    """The resampling covariance (s, k, k) of training rows (s,) without their own unit, and their targets."""
    objective, left = evidence.rest.objective, evidence.rest.left
    toward = weighted_gradients(objective, fit.data, torch.ones(1, fit.data.n, dtype=torch.float64))
    pull = evidence.rest.inverted.inverse.solve(toward).vectors[0]
    resampling, targets = [], []
    for batch, own_rows in jacobian_batches(objective, fit.data):
        part = rows[(rows >= batch.rows.start) & (rows < batch.rows.stop)].to(own_rows.device)
        chosen = own_rows[part - batch.rows.start].double()
        moved = chosen @ steps.T
        resampling.append(without_own(moved @ moved.mT, chosen @ pull, left, part, resampler, fit.data.units))
        labels = leaves(batch.targets)[0]  # where classes are weighted, the weights come after them
        targets.append(labels[part - batch.rows.start])
    return torch.cat(resampling), torch.cat(targets)
