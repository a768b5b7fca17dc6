"""Monitoring plan: what to count in use, and the limits that raise an alarm."""

from typing import Any, NamedTuple

import numpy as np

from rue.reports.blocks import Block, Section, fact, facts, section, table, text
from rue.reports.case import Case
from rue.reports.estimates import Measurement, share
from rue.reports.phrases import number, percent, rows
from rue.reports.sections.shift import FAR

BATCH = 100  # the number of predictions that are counted together
SLACK = 1e-12  # allowance for rounding in a distribution function
TAIL = 0.00135  # probability on each side, as beyond three standard deviations of a normal distribution
COLUMNS = {
    "trigger": ("What is counted", "text"),
    "here": ("In this audit", "text"),
    "low": ("Alarm below", "number"),
    "high": ("Alarm above", "number"),
    "false": ("False alarms expected", "text"),
    "action": ("Then", "text"),
}


class Limits(NamedTuple):
    """The limits of counts in a batch that raise no alarm; None on a side without a limit."""

    low: int | None
    high: int | None
    false_alarm: float


def control_limits(count: int, n: int, batch: int = BATCH, *, upper_only: bool = False) -> Limits:
    """Limits for a share measured as `count` of n rows: beta-binomial with Jeffreys' prior, as n is finite.

    >>> control_limits(1, 2, batch=2)  # nothing is a surprise
    Limits(low=None, high=None, false_alarm=0.0)
    """
    from scipy.stats import betabinom

    return _limits(betabinom(batch, count + 0.5, n - count + 0.5), batch, upper_only)


def _limits(counts: Any, batch: int, upper_only: bool) -> Limits:
    """Limits from a distribution of counts, with the probability of a false alarm beyond them."""
    every = np.arange(batch + 1)
    low, high = (int(every[counts.cdf(every) > tail - SLACK][0]) for tail in (TAIL, 1 - TAIL))
    low = 0 if upper_only else low
    missed = (float(counts.cdf(low - 1)) if low else 0.0) + (float(counts.sf(high)) if high < batch else 0.0)
    return Limits(low or None, high if high < batch else None, missed)


def monitoring(case: Case) -> Section:
    """A table of triggers with numbers of this audit, notes, and the owners of the plan."""
    triggers = _triggers(case)
    lead = (
        f"Of every batch of {BATCH} new predictions, count what the table names; outside of its limits something has "
        f"changed since these n = {rows(case.m)}, false alarms aside."
    )
    return section(
        "monitoring",
        "Monitoring plan",
        lead,
        [
            table("triggers", f"Counts in a batch of {BATCH}, shares from n = {rows(case.m)}", COLUMNS, triggers),
            _notes(),
            _owners(case),
        ],
    )


def _triggers(case: Case) -> list[Block]:
    referred = share(case.decision.tier != "accept")
    triggers = [_row("for review or refused", referred, "Look for a shift of the inputs; make this report again.")]
    if case.audit.scarce is not None:
        action = "Look at these rows one by one: the model has not seen their like."
        triggers.append(_row("marked scarce", share(case.audit.scarce), action, upper_only=True))
    explained = case.explained
    if explained is not None and explained.density_percentile is not None:
        far = share(explained.density_percentile >= FAR)
        action = "Collect training rows of this kind, or take such rows out of the use."
        triggers.append(
            _row(f"similar rows scarcer than for {FAR:.0f} % of the training rows", far, action, upper_only=True)
        )
    if case.interval is not None or case.sets is not None:
        triggers.append(_coverage(case))
    triggers.append(_labelled(case))
    return [trigger for trigger in triggers if trigger]


def _row(what: str, here: Measurement, action: str, *, upper_only: bool = False) -> Block:
    limits = control_limits(round((here.value or 0.0) * here.n), here.n, upper_only=upper_only)
    return {
        "trigger": f"{what}, of {BATCH} predictions",
        "here": f"share of {here}",
        "low": limits.low,
        "high": limits.high,
        "false": f"{percent(limits.false_alarm)} of batches of {BATCH}, the share being known from n = {here.n} only",
        "action": action,
    }


def _coverage(case: Case) -> Block:
    from scipy.stats import binom

    limits = _limits(binom(BATCH, case.asked.level), BATCH, upper_only=False)
    level = percent(case.asked.level)
    return {
        "trigger": f"outcomes inside their {level} interval or set, of {BATCH} predictions with known outcome",
        "here": f"meant to be {level}",
        "low": limits.low,
        "high": limits.high,
        "false": f"{percent(limits.false_alarm)} of batches of {BATCH}, if coverage is {level}",
        "action": "Below: calibrate again on new rows before the intervals are used. Above: they are too wide.",
    }


def _labelled(case: Case) -> Block:
    happened = case.outcome
    if happened is None:
        return {}
    if happened.kind == "classes":
        what = "wrong decisions with known outcome"
        return _row(what, share(happened.size), "Retrain, or narrow the use.", upper_only=True)
    large = float(np.percentile(happened.size, 95))
    what = f"{happened.called} above {number(large)} with known outcome"
    return _row(what, share(happened.size > large), "Retrain, or narrow the use.", upper_only=True)


def _notes() -> Block:
    return text(
        "monitoring-notes",
        f"Limits are for batches of {BATCH}: beta-binomial by Jeffreys' prior, since a share is known from the audited "
        "rows only; those of coverage are binomial. For another size, or weekly counts, they are to be computed "
        "anew. Outcomes come late: until they do, only the counts that need none can raise an alarm.\n\n"
        "Make this report again after every retraining (the hash of the weights changes), after a change of the "
        "inputs' definition, after an alarm, and at the date set by the owner.",
    )


def _owners(case: Case) -> Block:
    return facts(
        "owners",
        [
            fact("Owner of the plan", None, "to be filled in"),
            fact("Time until outcomes are known", None, "to be filled in"),
            fact("Next audit at the latest", None, "to be filled in"),
            fact("Weights under this plan", f"those trained on {rows(case.n)}", "hash under identity"),
        ],
    )
