"""Thresholds, the rows in each tier, and lines to sign for those who decide."""

import numpy as np

from rue.policy.decision import TIERS
from rue.reports.blocks import Block, Section, lines_to_sign, listed, section, table, text
from rue.reports.case import SHARE, Case
from rue.reports.estimates import mean, share
from rue.reports.phrases import number, of, percent, rows

FIELDS = (
    ("Prepared by", "Name, role and date"),
    ("Reviewed by", "Name, role and date; not the person who prepared it"),
    ("Decision", "Use, use with conditions, or do not use"),
    ("Conditions", "Who reviews which predictions, and what else must hold"),
    ("Valid until", "A date, or the event that ends it"),
    ("Signature and date", ""),
)
COLUMNS = {
    "tier": ("Tier", "text"),
    "count": ("Rows", "number"),
    "value": ("Share", "number"),
    "low": ("95 % from", "number"),
    "high": ("to", "number"),
    "n": ("n", "number"),
}


def signoff(case: Case) -> Section:
    """The policy in words, counts by tier, and the block to sign."""
    counts = case.decision.counts
    tiers = ", ".join(f"{tier} {of(counts[tier], case.m)}" for tier in TIERS)
    held, columns = _tiers(case)
    return section(
        "signoff",
        "Thresholds and sign-off",
        f"By tier: {tiers}.",
        [
            listed("policy", _policy(case)),
            table("tiers", f"Predictions by tier, n = {case.m}, exact limits", columns, held),
            text("sign", "Nothing in this report takes the decision. Those who do sign here."),
            lines_to_sign("sign-off", FIELDS),
        ],
    )


def _policy(case: Case) -> list[str]:
    policy = case.policy
    if not case.default_policy:
        said = [*policy.sentences]
        return said if policy.accepted else [*said[:2], "Nothing is accepted, and so nothing is said of accepted rows."]
    if policy.shortfall:
        return [
            f"No policy was given, and a default cannot be made of {rows(policy.n)}: {policy.shortfall}.",
            "So nothing is accepted: every prediction is for review, and inputs marked scarce are refused.",
        ]
    return [
        f"No policy was given. This is a default made of these very {rows(policy.n)}: it refers at most "
        f"{percent(SHARE)} of them, whatever their errors are.",
        f"Scores up to {number(policy.threshold)} are accepted, {of(policy.accepted, policy.n)}; those above are for "
        "review.",
        f"Refused are inputs marked scarce, and later rows with a score above {number(policy.limit)}, the highest not "
        f"marked scarce of these {rows(policy.n)}.",
        "Nothing is guaranteed on the errors of accepted predictions. rue.Policy chooses thresholds by cost, risk or "
        "error rate on held-out rows with outcomes.",
    ]


def _tiers(case: Case) -> tuple[list[Block], dict[str, tuple[str, str]]]:
    held, columns = [], dict(COLUMNS)
    happened = case.outcome
    if happened is not None:
        what = "Share of wrong decisions" if happened.kind == "classes" else f"Mean {happened.called}"
        columns |= {"error": (what, "number"), "error_low": ("95 % from", "number")}
        columns["error_high"] = ("to", "number")
    for tier in TIERS:
        part = case.decision.tier == tier
        row: Block = {"tier": tier, "count": int(part.sum()), **share(part).columns()}
        if happened is not None:
            of_tier = (share if happened.kind == "classes" else mean)(happened.size[np.flatnonzero(part)])
            row |= {"error": of_tier.value, "error_low": of_tier.low, "error_high": of_tier.high}
        held.append(row)
    return held, columns
