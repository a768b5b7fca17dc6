"""Shift: audited rows beyond the range of the training rows, each left out."""

from math import ceil
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from rue.core.arrays import Array
from rue.core.errors import RueError, RueWarning
from rue.core.process import ignoring
from rue.reports.blocks import Block, Section, axis, chart, line, section, series, table, text
from rue.reports.case import Case
from rue.reports.estimates import Measurement, share
from rue.reports.phrases import number, of, rows

FAR = 99.0  # rows beyond this percentile of the training rows are counted
SAMPLE = 1_000  # at most so many training rows are audited for comparison
QUANTILES = (5, 25, 50, 75, 95)
BINS = 20
TAIL = 0.025  # with a smaller chance there are clearly more than expected
COLUMNS = {
    "what": ("Audited rows", "text"),
    "value": ("Share", "number"),
    "low": ("95 % from", "number"),
    "high": ("to", "number"),
    "n": ("n", "number"),
    "expected": ("Expected if alike", "number"),
    "chance": ("Chance of as many if alike", "number"),
    "says": ("In words", "text"),
}


class Beyond(NamedTuple):
    """A share of audited rows, and the share expected if they were like the training rows."""

    what: str
    measured: Measurement
    expected: float | None
    chance: float | None = None  # of as many rows or more, were they like the training rows

    @property
    def hint(self) -> bool:
        """Whether the training rows were not left out, so that the comparison is no test."""
        return self.expected is not None and self.chance is None

    @property
    def more(self) -> bool:
        """Whether there are clearly more than expected."""
        return self.chance is not None and self.chance < TAIL

    @property
    def says(self) -> str:
        """The result in words."""
        if self.expected is None:
            return "nothing to compare with"
        return "a hint only" if self.hint else "more than expected" if self.more else "no clear difference"


def shift(case: Case) -> Section:
    """Shares beyond the training rows' range, and the scores of audited and training rows."""
    fitted = training_scores(case)
    shares = [*case.once(beyond), *_scores(case, fitted)]
    blocks = []
    if shares:
        held = [
            {
                "what": part.what,
                **part.measured.columns(),
                "expected": part.expected,
                "chance": part.chance,
                "says": part.says,
            }
            for part in shares
        ]
        caption = f"Rows beyond the training rows' range, n = {case.m}, exact limits"
        blocks.append(table("beyond", caption, COLUMNS, held))
    blocks += [*_histograms(case), _quantiles(case, fitted), text("shift-notes", _notes(case, fitted))]
    return section("shift", "Shift", _lead(case, shares), blocks)


def _scores(case: Case, fitted: Array | None) -> list[Beyond]:
    """Audited rows beyond the scores of training rows as fitted."""
    if fitted is None:
        return []
    described, score = f"{len(fitted)} training rows as fitted", case.audit.score
    far = share(score > np.percentile(fitted, FAR))
    return [
        Beyond(f"score beyond the {FAR:.0f}th percentile of {described}", far, 1 - FAR / 100),
        Beyond(f"score beyond the highest of {described}", share(score > fitted.max()), 1 / (len(fitted) + 1)),
    ]


def beyond(case: Case) -> list[Beyond]:
    """Density and misfit against the training rows, each left out; and rows marked scarce."""
    shares, explained = [], case.explained
    if explained is not None and explained.density_percentile is not None and explained.misfit_percentile is not None:
        s = compared(case)
        for name, values in (
            ("similar rows are scarcer", explained.density_percentile),
            ("similar rows are fitted worse", explained.misfit_percentile),
        ):
            far = share(values >= FAR)
            shares.append(_beyond(f"{name} than for {FAR:.0f} % of {s} training rows", far, s, ceil(FAR / 100 * s)))
            shares.append(_beyond(f"{name} than for all {s} training rows", share(values >= 100), s, s))
    if case.audit.scarce is not None:
        shares.append(Beyond("marked scarce by the audit", share(case.audit.scarce), None))
    return shares


def _beyond(what: str, measured: Measurement, s: int, below: int) -> Beyond:
    """A share of rows beyond `below` of s training rows; if all rows were alike, its count would be beta-binomial."""
    from scipy.stats import betabinom

    top = s - below + 1
    count = round((measured.value or 0.0) * measured.n)
    chance = float(betabinom.sf(count - 1, measured.n, top, s + 1 - top))
    return Beyond(what, measured, top / (s + 1), chance)


def compared(case: Case) -> int:
    """The number of training rows behind the percentiles."""
    return 0 if case.explained is None else int(case.explained.compared.min())


def training_scores(case: Case) -> Array | None:
    """Scores of some training rows as fitted; None where rows cannot be selected."""
    trained = case.auditor.trained
    if trained is None or case.auditor.meaning.of_other_rows:
        return None
    X, n = trained.data.source.X, trained.data.n
    some = np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(int))
    taken = X.iloc[some] if hasattr(X, "iloc") else X[some] if isinstance(X, np.ndarray | Tensor) else None
    if taken is None:
        return None
    try:
        with ignoring(category=RueWarning):  # the audited rows had the same warnings
            return case.auditor.audit(taken).score
    except RueError:
        return None


def _histograms(case: Case) -> list[Block]:
    explained = case.explained
    if explained is None or explained.density_percentile is None or explained.misfit_percentile is None:
        return []
    ends = np.linspace(0, 100, BINS + 1)
    middle = ((ends[1:] + ends[:-1]) / 2).tolist()
    charts = []
    for name, title, values in (
        ("density-percentiles", "How scarce similar training rows are", explained.density_percentile),
        ("misfit-percentiles", "How badly similar training rows are fitted", explained.misfit_percentile),
    ):
        counts = np.histogram(values, ends)[0] / case.m
        both = axis("Percentile among the training rows, each left out", 0, 100), axis("Share of audited rows", 0)
        note = f"n = {rows(case.m, 'audited row')} against {compared(case)} training rows; level if they are alike."
        drawn = [series("audited rows", "bars", middle, counts.tolist())]
        charts.append(chart(name, title, both, drawn, note, [line("y", 1 / BINS, "if alike")]))
    return charts


def _quantiles(case: Case, fitted: Array | None) -> Block:
    columns = {"quantile": ("Quantile", "text"), "value": ("Audited rows", "number"), "n": ("n", "number")}
    held: list[dict[str, Any]] = [
        {"quantile": f"{q} %", "value": float(np.percentile(case.audit.score, q)), "n": case.m} for q in QUANTILES
    ]
    if fitted is not None:
        columns |= {"training": ("Training rows as fitted", "number"), "n_training": ("n of training rows", "number")}
        for row, q in zip(held, QUANTILES, strict=True):
            row |= {"training": float(np.percentile(fitted, q)), "n_training": len(fitted)}
    return table("score-quantiles", f"Scores of n = {rows(case.m, 'audited row')}", columns, held)


def _notes(case: Case, fitted: Array | None) -> str:
    sentences = [
        f"{'Leave-one-out sees no' if compared(case) else 'Nothing here is a test of'} shift: were all new rows of "
        "another kind, nothing in the training rows would tell. "
        "These numbers only say whether the audited rows look like the training rows to the model. The chance is by "
        f"ranks (beta-binomial); below {TAIL:g} it says more than expected, for each line by itself."
    ]
    if case.explained is None:
        sentences.append(
            f"Density and misfit were not measured: {case.unexplained or 'this method does not explain its score'}."
        )
    elif case.explained.density_percentile is None:
        sentences.append("Density and misfit were not measured: rows cannot be left out of this model.")
    if case.auditor.meaning.of_other_rows:
        sentences.append(
            "Scores of the training rows were not compared: each of them is its own nearest row, which no audited row "
            "is."
        )
    elif fitted is None:
        sentences.append(
            "Scores of the training rows were not measured: they cannot be read one by one from this auditor."
        )
    else:
        sentences.append(
            "Training rows are scored as fitted, with themselves among the training rows, which alone moves their "
            "scores: a difference in scores is a hint of a shift, not a test of one."
        )
    return "\n\n".join(sentences)


def _lead(case: Case, shares: list[Beyond]) -> str:
    tested = [part for part in shares if part.expected is not None and not part.hint]
    scarce = case.audit.scarce
    counted = "" if scarce is None else f" The audit marks {of(int(scarce.sum()), case.m)} as unlike the training rows."
    if not tested:
        hints = [part for part in shares if part.hint]
        if not hints:
            return f"Not assessed for {rows(case.m)}.{counted}"
        return f"Only scores could be compared, as a hint: {hints[0].what}, a share of {hints[0].measured}.{counted}"
    more = [part for part in tested if part.more]
    if not more:
        return (
            f"No clear difference: of n = {rows(case.m, 'audited row')} not clearly more than expected lie beyond the "
            f"training rows' range.{counted}"
        )
    worst = max(more, key=lambda part: (part.measured.value or 0) / (part.expected or 1))
    return (
        f"More audited rows than expected lie beyond the training rows' range: {worst.what}, for a share of "
        f"{worst.measured} where {number(worst.expected)} is expected.{counted}"
    )
