"""The audit that calibrates itself: noise, local misfit, resampling and scarcity, weighed by leave-one-out."""

from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from rue.auditing.auditor import Auditor
from rue.auditing.meaning import Meaning, ScoreMeaning
from rue.auditing.trained import Solved
from rue.calibrate.error_model import error_covariance, error_model
from rue.calibrate.left_out import Evidence, EvidenceRule
from rue.calibrate.left_out.evidence import AtRest
from rue.calibrate.left_out.outside import kernel_beside
from rue.calibrate.left_out.rest import is_linear
from rue.calibrate.left_out_intervals import LeftOutRows, RankedRows
from rue.calibrate.left_out_terms import Compared, WholeMoves, left_out_terms
from rue.calibrate.scarcity import support
from rue.calibrate.smoother import POWERS, metric
from rue.calibrate.variance import DEGREES, Weights, fit_weights
from rue.core.arrays import Array
from rue.core.concepts import CurvatureRule, Damping, Facts, Inverse, Resampler, Solver
from rue.core.curvature import GaussNewton
from rue.core.errors import ModelError, SettingError
from rue.core.gradient_sums import weighted_gradients
from rue.core.influence import pull_root
from rue.core.model import Model
from rue.core.one_step import left_out as left_out_of
from rue.core.resample import Multinomial, generator
from rue.core.solve.choice import Inverted, invert
from rue.core.solve.damping import MeanFraction
from rue.data.features import training_points
from rue.methods.calibrated_spread import TERMS, CalibratedSpread, CalibrationFacts, View, mean_diagonal
from rue.methods.fitting import Fitting, Refit, fitting, left_out_noise, residual_covariance
from rue.methods.outside_numbers import audit_numbers
from rue.models import best_known

Tails = Literal["student", "gaussian"]

DAMPINGS = (1e-2, 1.0)  # tried beside no damping, as fractions of the mean eigenvalue
ROWS = 2_500  # at most so many training rows are used to fit the weights
TRIAL_ROWS = 1_000  # at most so many are used to choose the damping

MEANING = Meaning(
    made="Every training row is left out once by its influence on the fitted parameters; the errors on left-out rows "
    "weigh noise, resampling, local misfit, an error model and scarcity into one predictive variance.",
    score=ScoreMeaning(
        "The size of error to expect, one standard deviation in units of the target: noise, rows nearby that are "
        "fitted badly, how far the prediction would change with other training rows, and scarcity, weighed on the "
        "training rows, each left out.",
        "Whether this prediction is wrong. Among rows of one score some errors are small and some are large.",
    ),
    similarity_damped=True,
)


@dataclass(frozen=True)
class CalibratedRUE:
    """Predictive variance ν² + τ·RUE + κ·(normalised smoother) + ρ·(error model) + scarcity, by leave-one-out.

    The weights make the left-out residuals of the training rows most likely; a term that does not help gets weight
    zero. Where the left-out residuals come from another model, only noise and error model are weighed, and the
    squared difference between the two models is added. A model that is linear in its parameters may be too simple:
    its distance to a kernel model is one more term. `score` is `total_std`. No row is held out. Without a `damping`
    rule, leave-one-out also chooses the damping of the curvature that similarity and resampling are measured with.
    """

    curvature: CurvatureRule = field(default_factory=GaussNewton)
    damping: Damping | None = None
    solver: Solver | None = None
    resampler: Resampler = field(default_factory=Multinomial)
    tails: Tails = "student"
    seed: int = 0
    meaning: ClassVar[Meaning] = MEANING

    def __post_init__(self) -> None:
        if self.tails not in ("student", "gaussian"):
            raise SettingError(
                f'tails must be "student" (degrees of freedom by leave-one-out) or "gaussian", got {self.tails!r}'
            )

    def fit(
        self,
        model: Model,
        data: Any,
        *,
        validation: Any = None,
        refit: Refit = None,
        left_out: EvidenceRule | None = None,
    ) -> Auditor:
        """Leave every row out once and weigh the terms; `left_out` is the rule for leaving rows out.

        `validation` rows (X, y), which the model was not trained on, set the scale and the intervals; the rows that
        early stopping used will do. `refit(rows)` trains the model from scratch on some training rows; with None
        estimators are cloned where that is cheap, with False nothing is trained.
        """
        with fitting(self, best_known(model), data, project=True) as fit:
            if not fit.model.family.gaussian:
                raise ModelError(
                    'CalibratedRUE calibrates the residuals of loss="squared_error"; '
                    "use ClassifierRUE for classes, and LinearRUE for another loss"
                )
            evidence = fit.evidence(left_out, refit)
            if evidence.rest is None:
                auditor = audit_numbers(fit, evidence, self.resampler, self.tails == "student", self.seed)
                return auditor if validation is None else auditor.validated(validation)
            base = evidence.rest.inverted
            root = pull_root(evidence.rest.objective, fit.data, self.resampler, base.inverse)
            known = _known(fit, evidence, evidence.rest, root, self.seed)
            view = self._chosen_view(fit, known)
            power, weights = _weigh(view, known, DEGREES if self.tails == "student" else (inf,))
            plain = base.inverse.solve(root).vectors
            spread = _spread(base.inverse, plain, view, known, power, weights)
            own = evidence.honest is None
            rows = _left_out_rows(view, known, power, weights) if own else None
            ranked = None if own else _ranked_rows(view, known, power, weights)
            facts = _facts(view, known, power, weights, fit.data.n)
            auditor = fit.auditor(
                spread,
                facts,
                noise=False,
                degrees=weights.degrees,
                left_out=rows,
                ranked=ranked,
                solved=Solved(base, known.objective, max(view.residual, known.rest.left.residual)),
                source=evidence.source,
            )
        return auditor if validation is None else auditor.validated(validation)

    def _chosen_view(self, fit: Fitting, known: "CalibrationFacts") -> "View":
        """The view under the damping with the most likely left-out residuals, which stay those of the undamped fit.

        Computed anew for each damping they would always favour the largest: under it no row has any influence.
        """
        base = known.rest.inverted
        if self.damping is None and known.evidence.honest is None:
            curvature = self.curvature.at(known.objective, fit.data)
            rules = [MeanFraction(fraction) for fraction in DAMPINGS]
            candidates = [base, *(invert(curvature, rule, self.solver) for rule in rules)]
            losses = [
                _weigh(self._view(fit, inverted, known, TRIAL_ROWS), known, (inf,))[1].nll for inverted in candidates
            ]  # one view at a time: each holds all gradients
            base = candidates[int(np.argmin(losses))]
        return self._view(fit, base, known, ROWS)

    def _view(self, fit: Fitting, inverted: Inverted, known: "CalibrationFacts", count: int) -> "View":
        steps, residual = inverted.inverse.solve(known.root)
        judged, evidence = known.evidence.rows, known.evidence
        usable = torch.nonzero(judged.weight > 0).flatten()
        drawn = torch.randperm(len(usable), generator=generator(self.seed))[:count]
        rows = usable[drawn].sort().values
        same = inverted.inverse is known.rest.inverted.inverse
        own = (
            known.rest.left if same else left_out_of(known.objective, judged, inverted.inverse)
        )  # in the metric of `steps`
        if TERMS.index("neighbours") in known.weighed:
            compared, at = Compared(judged, evidence.slope, own.drawn, own.turn[:]), rows
        else:  # the likest row alone counts, and fewer will do
            some = judged.some(torch.zeros(judged.n, dtype=torch.bool).index_fill(0, rows, True))
            compared, at = Compared(some, evidence.slope[rows], own.drawn[rows], own.turn[rows]), torch.arange(some.n)
        distances = metric(known.objective, compared.rows, inverted.inverse)
        whole = WholeMoves(steps, known.toward, fit.data.units, self.resampler)
        terms = left_out_terms(known.objective, compared, at, distances, whole)
        return View(inverted, compared, distances, steps, rows, terms, max(residual, distances.residual))


def _known(fit: Fitting, evidence: Evidence, rest: AtRest, root: Tensor, seed: int) -> CalibrationFacts:
    judged = evidence.rows
    weight = judged.weight.cpu().numpy()
    slope = evidence.slope.cpu().numpy()
    standardise, points = training_points(judged)
    errors = error_model(points, evidence.prediction.cpu().numpy(), slope, weight, judged.unit.cpu().numpy(), seed)
    noise = left_out_noise(slope, weight)
    overall = np.maximum(np.diagonal(noise), np.diagonal(residual_covariance(fit.model, fit.data).cpu().numpy()))
    simple = evidence.honest is None and not fit.model.family.grown and is_linear(fit.model, fit.data)
    beside = kernel_beside(fit.model, judged, seed) if simple else None
    toward = weighted_gradients(rest.objective, fit.data, torch.ones(1, fit.data.n, dtype=torch.float64))[0]
    return CalibrationFacts(evidence, rest, root, toward, weight, noise, overall, points, standardise, errors, beside)


def _terms(view: View, known: CalibrationFacts, power: int) -> Array:
    """The terms at the view's rows without their own unit: (t, s, k, k)."""
    rows, noise = view.rows, torch.as_tensor(known.noise)
    expected = torch.as_tensor(known.errors.out_of_bag)[rows]
    terms = [
        noise.expand(len(rows), *noise.shape),
        view.terms.resampling.cpu(),
        view.terms.smoothed[POWERS.index(power)].cpu(),
        error_covariance(expected, noise),
        known.variance * known.rest.left.reach[rows.to(known.rest.left.reach.device)].cpu(),
        error_covariance(known.apart[rows], noise),
    ]
    return np.asarray(torch.stack(terms).numpy())


def _weigh(view: View, known: CalibrationFacts, degrees: tuple[float, ...]) -> tuple[int, Weights]:
    """The smoother's power and the weights under which the left-out residuals are most likely."""
    rows = view.rows.numpy()
    residual, weight = known.evidence.slope.cpu().numpy()[rows], known.weight[rows]
    use = list(known.weighed)
    least = [0.0] * len(use)
    powers = POWERS if TERMS.index("neighbours") in use else POWERS[:1]
    terms = {power: _terms(view, known, power)[use] for power in powers}
    best = min(powers, key=lambda power: fit_weights(terms[power], residual, weight, least).nll)
    weights = fit_weights(terms[best], residual, weight, least, degrees)
    values = np.zeros(len(TERMS))
    values[use] = weights.values
    if known.evidence.honest is not None:
        values[TERMS.index("disagreement")] = 1.0
    return best, replace(weights, values=values)


def _spread(
    inverse: Inverse, plain: Tensor, view: View, known: CalibrationFacts, power: int, weights: Weights
) -> CalibratedSpread:
    rows = view.rows.to(known.rest.left.reach.device)
    reach = mean_diagonal(known.rest.left.reach[rows])
    counted = known.weight > 0
    usual = support(reach, view.terms.similarity, known.points[counted], known.evidence.rows.unit.numpy()[counted])
    undamped = inverse.reach(plain)
    damped = None if view.inverted.inverse is inverse else view.inverted.inverse.reach(view.steps)
    turned = replace(view.metric, solved=(damped or undamped).steps(view.metric.solved))
    return CalibratedSpread(undamped, damped, replace(view, metric=turned), known, usual, power, weights.values)


def _ranked_rows(view: View, known: CalibrationFacts, power: int, weights: Weights) -> RankedRows:
    """The view's rows, ranked by the errors of the honest model in units of their expected size."""
    total = np.einsum("t,tnii->ni", weights.values, _terms(view, known, power))
    missed = known.evidence.slope.cpu().numpy()[view.rows.numpy()]
    return RankedRows(np.abs(missed) / np.sqrt(total))


def _left_out_rows(view: View, known: CalibrationFacts, power: int, weights: Weights) -> LeftOutRows:
    """The view's rows as intervals need them; their effect on the parameters is that of the undamped fit."""
    left, data, inverse = known.rest.left, known.evidence.rows, known.rest.inverted.inverse
    as_trained = view.metric if view.inverted.inverse is inverse else metric(known.objective, data, inverse)
    pulled = (as_trained.solved * left.pull.unsqueeze(-1)).sum(1)
    steps = torch.zeros(data.units, pulled.shape[1], dtype=pulled.dtype, device=pulled.device)
    steps.index_add_(0, data.unit.to(pulled.device), pulled)
    rows = view.rows.to(pulled.device)
    total = np.einsum("t,tnii->ni", weights.values, _terms(view, known, power))
    return LeftOutRows(
        steps=steps[data.unit.to(pulled.device)[rows]],
        solved=as_trained.solved[rows],
        residual=-(left.turn[rows].inverse() @ left.slope[rows].unsqueeze(-1)).squeeze(-1).cpu().numpy(),
        left_out=-left.slope[rows].cpu().numpy(),
        leverage=left.share[rows].cpu().numpy(),
        spread=np.sqrt(total),
        inverse=inverse,
        single=data.units == data.n and bool((data.weight == 1).all()) and len(known.noise) == 1,
    )


def _facts(view: View, known: CalibrationFacts, power: int, weights: Weights, n: int) -> Facts:
    return {
        **view.inverted.describe(),
        **known.evidence.describe(),
        "weights": dict(zip(TERMS, weights.values.tolist(), strict=True)),
        "smoother_power": power,
        "degrees": weights.degrees,
        "left_out_nll": weights.nll,
        "left_out_std": tuple(np.sqrt(np.diagonal(known.noise)).tolist()),
        "effective_parameters": known.rest.effective(n),
        "effective_share": known.rest.left.effective / known.rest.left.slope.numel(),
        "calibrated_on": len(view.rows),
    }
