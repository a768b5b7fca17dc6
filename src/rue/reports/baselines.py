"""Baselines that the score is compared with: simpler scores of the same predictions, from the same training rows."""

from typing import Any, NamedTuple

import numpy as np

from rue.core.arrays import Array
from rue.core.errors import RueError, RueWarning
from rue.core.process import ignoring
from rue.core.progress import track
from rue.methods import Confidence, ErrorForest, KernelDensity, NearestNeighbours
from rue.reports.case import Case
from rue.reports.spreads import spread_meaning

DENSE = 5_000  # with more training rows a kernel density takes minutes
NAMES = {
    "neighbours": "residuals of the 10 nearest training rows",
    "density": "kernel density of the inputs",
    "forest": "a forest that learns the errors",
    "confidence": "the model's own largest probability",
    "entropy": "entropy of the model's own probabilities",
}


class Rivals(NamedTuple):
    """Scores (m,) by name, and which were skipped and why."""

    scores: dict[str, Array]
    skipped: dict[str, str]


def rivals(case: Case) -> Rivals:
    """Every baseline that applies to this model."""
    scores = dict(_own(case))
    missing: dict[str, str] = {}
    trained = case.auditor.trained
    if trained is None:
        return Rivals(scores, dict.fromkeys(NAMES.values(), "the auditor does not keep the training rows"))
    for name, method in track("baselines", _methods(case).items()):
        if isinstance(method, str):
            missing[NAMES[name]] = method
            continue
        try:
            with ignoring(category=RueWarning):  # warnings of a baseline, not of the audit
                scores[NAMES[name]] = method.fit(case.auditor.model, trained.data.source).audit(case.inputs).score
        except RueError as error:
            missing[NAMES[name]] = error.finding
    return Rivals(scores, missing)


def _own(case: Case) -> dict[str, Array]:
    """Other scores that the audit itself contains."""
    audit, scores = case.audit, {}
    if audit.decision is not None:
        if audit.flip_probability is not None:
            scores["chance of another decision (flip probability)"] = audit.flip_probability
    elif audit.std is not None:
        scores[
            f"{spread_meaning(case).called.lower()} spread alone (std)"
            if case.auditor.trained.lens is None
            else "resampling alone (std)"
        ] = np.linalg.norm(audit.std.reshape(len(audit), -1), axis=1)
    return {name: score for name, score in scores.items() if not np.allclose(score, audit.score, rtol=1e-9)}


def _methods(case: Case) -> dict[str, Any]:
    """A method for each baseline, or the reason why there is none."""
    classes, gaussian = case.audit.decision is not None, case.auditor.model.family.gaussian
    methods: dict[str, Any] = {
        "neighbours": NearestNeighbours(by="residual", neighbours=min(10, case.n)),
        "density": KernelDensity()
        if case.n <= DENSE
        else f"too slow for n = {case.n}, more than {DENSE} training rows",
    }
    if classes:
        return methods | {"confidence": Confidence(), "entropy": Confidence(by="entropy")}
    forest = ErrorForest() if gaussian else "it learns squared errors, and the model was trained for another loss"
    return methods | {"forest": forest}
