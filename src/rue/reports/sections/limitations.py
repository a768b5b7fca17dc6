"""Limitations: what this report cannot show. The section is never empty."""

from rue.reports.blocks import Section, listed, section
from rue.reports.case import Case
from rue.reports.phrases import listing, of, rows
from rue.reports.sections.fitness import checks
from rue.reports.sections.subgroups import SMALL, small_groups
from rue.reports.spreads import spread_meaning

FEW = 100  # with fewer audited rows that have an outcome, intervals are wide
UNTESTED = (
    "Not tested: inputs made to deceive the model.",
    "Not tested: the quality of the labels. Wrong labels count as errors of the model, and may have taught it.",
    "Not tested: causes. Which rows decide a prediction says nothing about what would happen were something changed.",
    "Not tested: whether the use of the predictions is fair, or has the effect that is intended.",
)


def limitations(case: Case) -> Section:
    """Limitations of the method, of the checks, of the data and of the policy."""
    sentences = [*_method(case), *_checks(case), *_data(case), *_policy(case)]
    lead = (
        f"{len(sentences)} limitations of this audit of {rows(case.m, 'prediction')}, and {len(UNTESTED)} things that "
        "were not tested. Read them with every number above."
    )
    return section(
        "limitations",
        "Limitations",
        lead,
        [listed("limits", sentences), listed("not-tested", UNTESTED)],
    )


def _method(case: Case) -> list[str]:
    blind = "Leave-one-out sees no shift: rows" if case.auditor.trained.lens is not None else "Rows"
    sentences = [
        spread_meaning(case).limitation,
        f"{blind} unlike all training rows may be worse than any number here says.",
        "Intervals in this report take the audited rows for independent of each other and drawn from where the model "
        "is used; rows of one patient or one day are fewer than they look.",
    ]
    family = case.auditor.model.family
    if family.held_fixed:
        sentences.append(f"Held fixed: {family.held_fixed}.")
    if family.projected:
        sentences.append(
            "Parameters were seen through a random projection: the spread is an approximation of the exact one."
        )
    if family.diagonal:
        sentences.append(
            "Parameters were taken for independent in eigenbases of their layers (EK-FAC): the spread is a coarse "
            "approximation of the exact one. On three networks its variances were 7 to 69 times too large."
        )
    if family.blocks:
        sentences.append(
            "Layers were taken for independent of each other: the spread is a coarse approximation of the exact one."
        )
    if not case.guarantee.holds:
        sentences.append(f"Intervals or sets have no guarantee. What there is: {case.guarantee}.")
    sentences += [f"Warning of the audit: {warning}." for warning in case.audit.facts["warnings"]]
    return sentences


def _checks(case: Case) -> list[str]:
    made, missing = checks(case), case.checkup.missing
    if not made:
        return ["No fitness checks were made."]
    limits = [
        f"Check {check.name} is {check.light}: {check.found}." for check in made if check.light in ("red", "amber")
    ]
    left = {why: [name for name, own in missing.items() if own == why] for why in missing.values()}
    return limits + [
        f"Left out, {rows(len(names), 'check')} ({listing(names, 12)}): {why}." for why, names in left.items()
    ]


def _data(case: Case) -> list[str]:
    limits = []
    if case.outcome is None:
        limits.append(
            f"Errors, calibration and coverage were not assessed: {case.unknown_outcome}. Scores rank; nothing "
            "here shows that they rank errors."
        )
    elif case.m < FEW:
        limits.append(f"Only {rows(case.m)} have an outcome: intervals are wide, and rare failures are not seen.")
    if not case.groups:
        limits.append("No groups were given: errors that gather in one group do not show.")
    small = small_groups(case)
    if small:
        limits.append(f"Groups of fewer than {SMALL} rows, of which little can be said: {listing(small)}.")
    scarce = case.audit.scarce
    if scarce is not None and scarce.any():
        limits.append(
            f"{of(int(scarce.sum()), case.m)} audited rows are unlike the training rows: their spread is a guess."
        )
    return limits


def _policy(case: Case) -> list[str]:
    if not case.default_policy:
        return []
    return [
        f"The thresholds are a default made of these very {rows(case.m)}, not of a decision by the owner and not of "
        "held-out rows with outcomes: they say what a review of some rows would take, not what errors remain."
    ]
