"""Performance of a classifier: accuracy, probabilities, sets of classes."""

from typing import Any

import numpy as np

from rue.core.arrays import Array
from rue.evaluate import metrics as evaluate
from rue.reports.blocks import Block, axis, chart, series, table, text
from rue.reports.case import Case
from rue.reports.estimates import Measurement, resampled, resampled_means, share
from rue.reports.measures import COVERAGE, Metrics, by_thirds, terciles
from rue.reports.outcome import Outcome
from rue.reports.phrases import percent

BINS = 10  # of the reliability chart
ECE_BINS = 15  # as evaluate.expected_calibration_error
TINY = np.finfo(np.float64).tiny


def blocks(case: Case, happened: Outcome) -> list[Block]:
    """Reliability of the probabilities, and coverage of the sets."""
    return [*([_reliability(case, happened)] if _one_label(case, happened) else []), _sets(case, happened)]


def metrics(case: Case, happened: Outcome) -> Metrics:
    """Accuracy and, where every row has one class, measures of its probabilities."""
    measured: Metrics = {"accuracy": (share(happened.error[:, 0] == 0), "exact limits")}
    if not _one_label(case, happened):
        return measured
    probability, label = np.asarray(case.audit.probability), happened.target
    at = probability[np.arange(case.m), label]
    nll = -np.log(at.clip(min=TINY))
    brier = ((probability - np.eye(probability.shape[1])[label]) ** 2).sum(axis=1)
    sure, hit = probability.max(axis=1), probability.argmax(axis=1) == label
    which = np.ceil(sure * ECE_BINS)
    gaps = np.stack([np.where(which == bin_, sure - hit, 0.0) for bin_ in np.unique(which)], axis=1)
    columns = np.hstack([nll[:, None], brier[:, None], gaps])
    whole, drawn = columns.mean(axis=0), resampled_means(columns)
    ece = evaluate.expected_calibration_error(probability, label, ECE_BINS)
    return measured | {
        "mean negative log likelihood": (resampled(float(whole[0]), drawn[:, 0], case.m), "bootstrap"),
        "Brier score": (resampled(float(whole[1]), drawn[:, 1], case.m), "bootstrap"),
        "expected calibration error": (
            resampled(ece, np.abs(drawn[:, 2:]).sum(axis=1), case.m),
            f"bootstrap; {ECE_BINS} bins, too large on average where n is small",
        ),
    }


def coverage(case: Case, happened: Outcome) -> Measurement | None:
    """The share of true classes inside their set; None without sets."""
    return None if case.sets is None else share(case.sets.members[np.arange(case.m), happened.target])


def _one_label(case: Case, happened: Outcome) -> bool:
    """Whether every row has one class with a probability; not so where a row may have several labels."""
    probability = case.audit.probability
    return probability is not None and happened.target.ndim == 1 and int(happened.target.max()) < probability.shape[1]


def _reliability(case: Case, happened: Outcome) -> Block:
    probability = np.asarray(case.audit.probability)
    sure, right = probability.max(axis=1), probability.argmax(axis=1) == happened.target
    which = np.minimum((sure * BINS).astype(int), BINS - 1)
    used = np.unique(which)
    observed = [share(right[which == bin_]) for bin_ in used]
    at: list[Any] = [float(sure[which == bin_].mean()) for bin_ in used]
    drawn = [
        series(
            "observed",
            "range",
            at,
            [each.value for each in observed],
            low=[each.low for each in observed],
            high=[each.high for each in observed],
        ),
        series("as it should be", "line", (0, 1), (0, 1), dashed=True, muted=True),
    ]
    counts = ", ".join(str(each.n) for each in observed)
    note = f"n = {case.m}, from the lowest to the highest bin {counts}; bars are exact 95 % limits."
    both = axis("Mean probability of the most likely class", 0, 1), axis("Share that is right", 0, 1)
    return chart("reliability", "Reliability of the probabilities", both, drawn, note)


def _sets(case: Case, happened: Outcome) -> Block:
    if case.sets is None:
        return text("coverage", f"Sets of classes were not assessed. Guarantee: {case.guarantee}.")
    inside = case.sets.members[np.arange(case.m), happened.target]
    sizes: Array = case.sets.members.sum(axis=1).astype(np.float64)
    parts: list[tuple[str, Any]] = [("all rows", np.arange(case.m)), *terciles(case.audit.score)]
    held = [
        {"rows": name, **share(inside[part]).columns(), "width": float(sizes[part].mean()), "n_width": len(part)}
        for name, part in parts
    ]
    columns = {**COVERAGE, "width": ("Mean classes in a set", "number"), "n_width": ("n of sets", "number")}
    caption = f"Coverage of {percent(case.asked.level)} sets of classes with exact limits"
    caption += f"{by_thirds(case.audit.score)}. Guarantee: {case.guarantee}"
    return table("coverage", caption, columns, held)
