"""The calibrated audit of a regression by its predictions alone: witnesses, other models of the same rows, help."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
import torch
from torch import Tensor

from rue.auditing.assessment import Assessment, CalibratedParts
from rue.auditing.auditor import Auditor
from rue.calibrate.cv_plus import cv_plus
from rue.calibrate.error_model import ErrorModel, error_covariance, error_model
from rue.calibrate.left_out import Evidence
from rue.calibrate.left_out_intervals import RankedRows
from rue.calibrate.left_out_terms import disagreement, outer
from rue.calibrate.scarcity import SeenValues, values_of
from rue.calibrate.variance import DEGREES, Weights, fit_weights
from rue.core.arrays import Array
from rue.core.concepts import Inputs, Resampler
from rue.core.derivatives import outputs
from rue.core.model import Model
from rue.core.resample import generator
from rue.core.stored import storable
from rue.data.features import Standardiser, coordinates, training_points
from rue.methods.fitting import Fitting, left_out_noise, residual_covariance
from rue.methods.resampled import Resampled, resampled
from rue.methods.witness_lens import witness_lens

TERMS = ("noise", "error model", "disagreement", "resampling")
GAIN = 0.0125  # nats per row that resampling must gain: less may be chance (eight UCI sets, 14 tables)
ROWS = 2_500  # at most so many training rows are used to fit the weights


@storable
@dataclass(frozen=True)
class OutsideSpread:
    """Noise, expected errors, and the disagreement of witnesses and model, at new inputs.

    Where left-out predictions come from witnesses, the disagreement has weight one; where they come from copies of the
    model itself, its weight is fitted with the others.
    """

    evidence: Evidence = field(repr=False)
    noise: Array = field(repr=False)  # (k, k), covariance of the left-out residuals
    overall: Array = field(repr=False)  # (k,), their variance, or that of the model's own residuals where it is larger
    standardise: Standardiser = field(repr=False)
    errors: ErrorModel = field(repr=False)
    weights: Array = field(repr=False)  # (4,)
    values: SeenValues | None = field(repr=False)
    resampled: Resampled | None = field(repr=False)

    def __call__(self, model: Model, inputs: Inputs) -> Assessment:
        """The predictive variance at these inputs."""
        predicted = outputs(model, inputs).double().cpu()
        points = self.standardise(coordinates(inputs))
        noise = torch.from_numpy(self.noise)
        expected = torch.from_numpy(self.errors(points, predicted.numpy()))
        local = self.weights[0] * noise + self.weights[1] * error_covariance(expected, noise)
        strange = torch.zeros(len(points), dtype=torch.bool)
        if self.values is not None:
            strange = torch.from_numpy(self.values.unlike(points))
        believed = local
        if self.evidence.honest is not None:
            believed = local + self.weights[2] * disagreement(
                predicted - self.evidence.honest(inputs), self.overall, strange
            )
        moved = None if self.resampled is None else self.resampled.covariance(inputs)
        if moved is not None:
            believed = believed + self.weights[3] * moved
        variance = believed.diagonal(dim1=1, dim2=2)
        halfway = torch.sqrt(variance * torch.maximum(variance, torch.from_numpy(self.overall))) - variance
        guard = torch.diag_embed(torch.where(strange[:, None], halfway, 0.0))
        total = believed + guard
        return Assessment(
            predicted,
            moved,
            total if moved is None else total - self.weights[3] * moved,
            score=total.diagonal(dim1=1, dim2=2).sum(1).sqrt(),
            calibrated=CalibratedParts(total, guard, strange.double()),
        )


def audit_numbers(fit: Fitting, evidence: Evidence, resampler: Resampler, student: bool, seed: int) -> Auditor:
    """Fit the weights of the terms to the left-out residuals, and put the auditor together."""
    judged = evidence.rows
    weight, unit = evidence.weight.numpy(), judged.unit.numpy()
    slope = evidence.slope.numpy()
    standardise, points = training_points(judged)
    errors = error_model(points, evidence.prediction.numpy(), slope, weight, unit, seed, quick=True)
    noise = left_out_noise(slope, weight)
    overall = np.maximum(np.diagonal(noise), np.diagonal(residual_covariance(fit.model, fit.data).numpy()))
    usable = np.flatnonzero(weight > 0)
    drawn = torch.randperm(len(usable), generator=generator(seed))[:ROWS].sort().values.numpy()
    rows = usable[drawn]
    moves = resampled(fit, evidence, resampler)
    moved = None if moves is None or evidence.beside is None else moves.without_own(judged, evidence.slope)
    terms = _terms(evidence, errors, noise, moved, rows)
    weights = _weighed(terms, slope[rows], weight[rows], DEGREES if student else (inf,))
    spread = OutsideSpread(
        evidence, noise, overall, standardise, errors, weights.values, values_of(points[usable], unit[usable]), moves
    )
    reach = np.sqrt(np.einsum("t,tnii->ni", weights.values[: len(terms)], terms))
    return fit.auditor(
        spread,
        _facts(evidence, weights, noise, len(rows), moves),
        noise=False,
        degrees=weights.degrees,
        ranked=RankedRows(np.abs(slope[rows]) / reach, cv_plus(evidence)),
        solved=None if moves is None else moves.solved,
        source=evidence.source,
        lens=None if moves is not None else witness_lens(fit.model, evidence, resampler),
    )


def _weighed(terms: Array, residual: Array, weight: Array, degrees: Sequence[float]) -> Weights:
    """Weights of all terms (4,). A disagreement that is not among the `terms` has weight one, resampling zero.

    Resampling gets a weight only where it makes left-out rows more likely by more than `GAIN`.
    """
    weights = fit_weights(terms[:3], residual, weight, [0.0] * len(terms[:3]), degrees)
    if len(terms) == len(TERMS):
        more = fit_weights(terms, residual, weight, [0.0] * len(terms), degrees)
        weights = more if more.nll < weights.nll - GAIN else weights
    return replace(weights, values=np.append(weights.values, [1.0, 0.0][len(weights.values) - 2 :]))


def _terms(evidence: Evidence, errors: ErrorModel, noise: Array, moved: Tensor | None, rows: np.ndarray) -> Array:
    """The terms at left-out rows: (t, s, k, k)."""
    expected = error_covariance(torch.from_numpy(errors.out_of_bag[rows]), torch.from_numpy(noise)).numpy()
    terms = [np.broadcast_to(noise, expected.shape), expected]
    if evidence.beside is not None:
        terms.append(outer(evidence.prediction - evidence.beside).numpy()[rows])
    if moved is not None:
        terms.append(moved.numpy()[rows])
    return np.stack(terms)


def _facts(evidence: Evidence, weights: Weights, noise: Array, rows: int, moves: Resampled | None) -> dict[str, object]:
    return {
        **({} if moves is None else moves.solved.inverted.describe()),
        **evidence.describe(),
        "weights": dict(zip(TERMS, weights.values.tolist(), strict=True)),
        "degrees": weights.degrees,
        "left_out_nll": weights.nll,
        "left_out_std": tuple(np.sqrt(np.diagonal(noise)).tolist()),
        "calibrated_on": rows,
    }
