"""The audit of a classifier that calibrates itself: probabilities averaged over training sets, by leave-one-out."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from rue.auditing.auditor import Auditor
from rue.auditing.meaning import Meaning, ScoreMeaning
from rue.auditing.trained import Solved
from rue.calibrate.left_out import Evidence, EvidenceRule, Mixture
from rue.calibrate.left_out.evidence import AtRest
from rue.calibrate.left_out_terms import without_own
from rue.calibrate.shrinkage import Shrinkage, fit_shrinkage
from rue.core.concepts import CurvatureRule, Damping, Decision, Facts, Resampler, Solver
from rue.core.curvature import GaussNewton
from rue.core.derivatives import followed_batches, outputs
from rue.core.errors import ModelError
from rue.core.gradient_sums import weighted_gradients
from rue.core.influence import pull_root
from rue.core.model import Model
from rue.core.nested import leaves
from rue.core.resample import Multinomial, generator
from rue.data.rows import Rows
from rue.methods.fitting import Fitting, Refit, fitting
from rue.methods.margins import GradientMoves, ShrunkMargins, validated
from rue.methods.outside_classes import margins_from_outside
from rue.methods.resampled import resampled
from rue.methods.second_opinion import SecondOpinion
from rue.methods.witness_lens import witness_lens
from rue.models import best_known

ROWS = 2_500  # at most so many training rows are used to fit the weights
CELLS = 4_000_000  # and so many that their covariances have at most so many entries,
FEWEST = 200  # but at least so many rows

MEANING = Meaning(
    made="Every training row is left out once by its influence; margins between classes are shrunk by a temperature, "
    "resampling and scarcity so that the left-out labels are most likely.",
    score=ScoreMeaning(
        "The estimated probability that the predicted class is wrong, averaged over the training sets that might have "
        "been and weighed on the training rows, each left out.",
        "Whether this decision is wrong, or what a wrong one costs.",
    ),
)


@dataclass(frozen=True)
class ClassifierRUE:
    """`score` is the probability that the decision is wrong, averaged over resampled training sets.

    Margins between logits are shrunk by a temperature, by their resampling variance and by scarcity (JH⁻¹Jᵀ); the
    three weights make the labels of left-out training rows most likely. Where the left-out predictions come from
    another model, its probabilities are a second opinion: `probability` is a weighted mean of both, and the model's
    own stay in `audit.own_probability`. No row is held out.
    """

    curvature: CurvatureRule = field(default_factory=GaussNewton)
    damping: Damping | None = None
    solver: Solver | None = None
    resampler: Resampler = field(default_factory=Multinomial)
    seed: int = 0
    meaning: ClassVar[Meaning] = MEANING

    def fit(
        self,
        model: Model,
        data: Any,
        *,
        validation: Any = None,
        refit: Refit = None,
        left_out: EvidenceRule | None = None,
    ) -> Auditor:
        """Leave every row out once and fit what shrinks the margins; `left_out` is the rule for leaving rows out.

        `validation` rows (X, y), which the model was not trained on, set the temperature and the share of a second
        opinion; the rows that early stopping used will do. `refit(rows)` trains the model from scratch on some
        training rows; with None estimators are cloned where that is cheap, with False nothing is trained.
        """
        with fitting(self, best_known(model), data, project=True) as fit:
            decision = classifier(fit.model, "ClassifierRUE")
            evidence = fit.evidence(left_out, refit)
            if evidence.rest is None:
                moves = resampled(fit, evidence, self.resampler)
                spread = margins_from_outside(fit, decision, evidence, moves, self.seed)
                solved = None if moves is None else moves.solved
                auditor = self._auditor(fit, evidence, spread, validation, solved, {})
            else:
                auditor = self._through_parameters(fit, decision, evidence, evidence.rest, validation, left_out)
        return auditor if validation is None else auditor.validated(validation)

    def _through_parameters(
        self,
        fit: Fitting,
        decision: Decision,
        evidence: Evidence,
        rest: AtRest,
        validation: Any,
        asked: EvidenceRule | None,
    ) -> Auditor:
        steps, residual, shrinkage, second = self._weighed(fit, decision, evidence, rest)
        if shrinkage.limit and evidence.honest is None and asked is None and fit.model.family.stationary:
            evidence = fit.evidence(Mixture())
            rest = evidence.rest or rest
            steps, residual, shrinkage, second = self._weighed(fit, decision, evidence, rest)
        spread = ShrunkMargins(decision, GradientMoves(rest.inverted.inverse.reach(steps)), shrinkage, second)
        facts = {"effective_parameters": rest.effective(fit.data.n)}
        solved = Solved(rest.inverted, rest.objective, residual)
        return self._auditor(fit, evidence, spread, validation, solved, facts)

    def _auditor(
        self,
        fit: Fitting,
        evidence: Evidence,
        spread: ShrunkMargins,
        validation: Any,
        solved: Solved | None,
        facts: Facts,
    ) -> Auditor:
        if validation is not None:
            spread = validated(spread, fit.model, validation)
        shrinkage, second = spread.shrinkage, spread.second
        all_facts = {
            **({} if solved is None else solved.inverted.describe()),
            **evidence.describe(),
            **facts,
            "temperature": None if shrinkage.limit else shrinkage.unit**0.5,  # at its limit it was not determined
            "weights": {"resampling": shrinkage.resampling, "scarcity": shrinkage.scarcity},
            "left_out_nll": shrinkage.nll,
            "second_opinion": 0.0 if second is None else second.share,
        }
        lens = None if solved is not None else witness_lens(fit.model, evidence, self.resampler)
        return fit.auditor(spread, all_facts, solved=solved, source=evidence.source, lens=lens)

    def _weighed(
        self, fit: Fitting, decision: Decision, evidence: Evidence, rest: AtRest
    ) -> "tuple[Tensor, float, Shrinkage, SecondOpinion | None]":
        """The root of the parameters' covariance, the residual of its solve, the shrinkage and the second opinion."""
        inverse = rest.inverted.inverse
        steps, residual = inverse.solve(pull_root(rest.objective, fit.data, self.resampler, inverse))
        honest = evidence.honest
        second = None
        if honest is not None:
            second = SecondOpinion.of(decision, honest, evidence.prediction, evidence.rows, fit.data.units)
        shrinkage, entropy = self._shrinkage(fit, decision, evidence, rest, steps, second)
        return steps, residual, shrinkage, second and second.beside(shrinkage, entropy)

    def _shrinkage(
        self,
        fit: Fitting,
        decision: Decision,
        evidence: Evidence,
        rest: AtRest,
        steps: Tensor,
        second: SecondOpinion | None,
    ) -> tuple[Shrinkage, float]:
        """The shrinkage that makes left-out labels most likely, or agrees best with the left-out model.

        The network's own logits have another scale than those of its refitted tangent, and were trained on the labels:
        they are made as confident as an honest model is on the same rows. Returned with the least loss possible.
        """
        left, judged = rest.left, evidence.rows
        usable = torch.nonzero(judged.weight > 0).flatten()
        count = min(ROWS, max(FEWEST, CELLS // left.prediction.shape[1] ** 2))
        drawn = torch.randperm(len(usable), generator=generator(self.seed))[:count]
        rows = usable[drawn].sort().values
        resampling, targets = _without_own_unit(fit, evidence.rows, rest, steps, rows, self.resampler)
        at = rows.to(left.prediction.device)
        weight = judged.weight[rows]
        if second is None:
            return fit_shrinkage(decision, left.prediction[at], resampling, left.reach[at], targets, weight), 0.0
        logits = torch.cat([outputs(fit.model, batch.inputs) for batch in judged.batches()]).double()[at]
        wanted, entropy = second.wanted(decision, evidence.prediction[at], weight)
        return fit_shrinkage(decision, logits, resampling, left.reach[at], wanted, weight), entropy


def classifier(model: Model, who: str) -> Decision:
    """How the model's logits decide; a model that is no classifier is refused."""
    if model.family.decision is None:
        raise ModelError(
            f'{who} audits classifiers: loss="cross_entropy", "bernoulli" or "ordinal"; for other losses use '
            "CalibratedRUE or LinearRUE"
        )
    return model.family.decision


def _without_own_unit(
    fit: Fitting, judged: Rows, rest: AtRest, steps: Tensor, rows: Tensor, resampler: Resampler
) -> tuple[Tensor, Tensor]:
    """The resampling covariance (s, k, k) of some judged rows (s,) without their own unit, and their targets."""
    objective, left = rest.objective, rest.left
    toward = weighted_gradients(objective, fit.data, torch.ones(1, fit.data.n, dtype=torch.float64))
    pull = rest.inverted.inverse.solve(toward).vectors[0]
    resampling, targets = [], []
    for batch, own_rows in followed_batches(objective, judged):
        part = rows[(rows >= batch.rows.start) & (rows < batch.rows.stop)].to(steps.device)
        chosen = own_rows.some(part - batch.rows.start).double()
        moved = chosen.values @ steps.T
        covariance, pulled = chosen.blocks(moved @ moved.mT)[:], chosen.placed(chosen.values @ pull)
        resampling.append(without_own(covariance, pulled, left.drawn[part], left.turn[part], resampler, fit.data.units))
        labels = leaves(batch.targets)[0]  # where classes are weighted, the weights come after them
        targets.append(labels[part - batch.rows.start])
    return torch.cat(resampling), torch.cat(targets)
