"""Auditor: everything of a fitted method that does not need the inputs, and the loop that takes them."""

import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rue.concepts import Assessment, Assessor, Facts, Inputs, Model
from rue.data import input_batches
from rue.derivatives import input_chunks, outputs
from rue.errors import DataError, InputError, ModelError, RueWarning
from rue.progress import track
from rue.randomness import untouched
from rue.result import Array, Audit
from rue.trees import leaves

DRIFT = 0.5  # members' mean away from the prediction by this much of their own std, beyond sampling error
DRIFT_SHARE = 0.1  # of the audited inputs


@dataclass(frozen=True)
class Auditor:
    """A fitted method: hand it inputs and it returns an Audit."""

    method: str
    model: Model = field(repr=False)
    assess: Assessor = field(repr=False)
    noise: Tensor | None = field(repr=False)  # (k, k), the residual covariance
    facts: Facts = field(repr=False)

    def audit(self, inputs: Any) -> Audit:
        """Audit new inputs, batch by batch."""
        start = time.perf_counter()
        with untouched(), torch.inference_mode(False):
            parts = [self._assess(chunk) for chunk in track("audit", self._chunks(inputs))]
        prediction = torch.cat([part.prediction for part in parts])
        covariance = _joined([part.covariance for part in parts])
        noise = _joined([part.noise for part in parts])
        if noise is None and self.noise is not None:
            noise = self.noise.cpu().expand(len(prediction), -1, -1)
        said = _drift_warning(_joined([part.drift for part in parts]))
        facts = {**self.facts, "m": len(prediction), "seconds_audit": time.perf_counter() - start}
        facts["warnings"] = (*self.facts["warnings"], *said)
        return Audit(
            method=self.method,
            prediction=_array(prediction.squeeze(-1) if prediction.shape[1] == 1 else prediction),
            score=_array(_scores(parts, covariance, noise)),
            covariance=None if covariance is None else _array(covariance),
            noise_covariance=None if noise is None else _array(noise),
            facts=facts,
        )

    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """The model's own predictions, with `total_std` (else `std`) where asked: scikit-learn's convention."""
        if not return_std:
            with untouched():
                found = torch.cat([outputs(self.model, chunk).cpu() for chunk in self._chunks(X)])
            return _array(found.squeeze(-1) if found.shape[1] == 1 else found)
        audit = self.audit(X)
        spread = audit.std if audit.total_std is None else audit.total_std
        if spread is None:
            raise InputError(
                f"{self.method} has no standard deviation to return; use a method with a variance, or audit.score"
            )
        return audit.prediction, spread

    def _chunks(self, inputs: Any) -> Any:
        for batch in input_batches(inputs, self.model):
            try:
                yield from input_chunks(self.model, batch)
            except (RuntimeError, TypeError, IndexError) as error:
                shapes = ", ".join(str(tuple(leaf.shape)) for leaf in leaves(batch))
                raise ModelError(
                    f"the model could not take inputs of shape {shapes}: {error}; give inputs as in training"
                ) from error

    def _assess(self, inputs: Inputs) -> Assessment:
        found = self.assess(self.model, inputs)
        if not bool(torch.isfinite(found.prediction).all()):
            raise DataError("the model returns NaN or infinite predictions for some of these inputs; check them")
        return Assessment(found.prediction.double().cpu(), *(_home(value) for value in found[1:]))


def _scores(parts: list[Assessment], covariance: Tensor | None, noise: Tensor | None) -> Tensor:
    """The method's own score, else the root of the resampling covariance's trace."""
    own = _joined([part.score for part in parts])
    if own is not None:
        return own
    spread = covariance if covariance is not None else noise
    if spread is None:
        raise InputError("a method must give a score or a covariance")
    return spread.diagonal(dim1=1, dim2=2).sum(-1).clamp_min(0).sqrt()


def _home(value: Tensor | None) -> Tensor | None:
    return None if value is None else value.double().cpu()


def _joined(parts: list[Tensor | None]) -> Tensor | None:
    known = [part for part in parts if part is not None]
    return torch.cat(known) if known else None


def _drift_warning(drift: Tensor | None) -> tuple[str, ...]:
    """Sampled parameters may wreck the prediction itself: say so."""
    share = 0.0 if drift is None else float((drift > DRIFT).double().mean())
    if share <= DRIFT_SHARE:
        return ()
    said = (
        f"for {share:.0%} of these inputs the mean of the members' predictions lies more than {DRIFT} of their "
        "standard deviation away from the model's own: the sampled parameters move too far; use a linearised "
        "method or a larger damping"
    )
    warnings.warn(said, RueWarning, stacklevel=3)
    return (said,)


def _array(values: Tensor) -> Array:
    return np.asarray(values.detach().cpu().double().numpy())
