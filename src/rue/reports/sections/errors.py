"""Does the score find errors, and better than simpler scores do?"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array
from rue.evaluate import metrics as evaluate
from rue.reports.baselines import Rivals, rivals
from rue.reports.blocks import Block, Section, axis, chart, line, listed, section, series, table, text
from rue.reports.case import Case
from rue.reports.estimates import Detection, Measurement, resampled, resamples
from rue.reports.outcome import Outcome
from rue.reports.phrases import listing, number, rows
from rue.reports.sections.predictions import shown_rows

FEW = 5  # with fewer rows that failed, or that did not, there are no intervals
POINTS = 101  # of a risk–coverage curve, at most
COLUMNS = {
    "score": ("Score", "text"),
    "value": ("Mean AUC", "number"),
    "low": ("95 % from", "number"),
    "high": ("to", "number"),
    "n": ("n", "number"),
    "difference": ("This report's score is better by", "number"),
    "difference_low": ("95 % from", "number"),
    "difference_high": ("to", "number"),
    "says": ("In words", "text"),
}
OWN, CONSTANT = "score of this report", "a constant (a coin)"


Comparison = Literal["itself", "too few", "alike", "better", "worse"]
IN_WORDS: dict[Comparison, str] = {
    "itself": "this report",
    "too few": "too few to tell",
    "alike": "no clear difference",
    "better": "this report's score is better",
    "worse": "this score is better",
}


class Ranking(NamedTuple):
    """How well one score finds errors, and how much better the report's own score does."""

    name: str
    auc: Measurement
    better: Measurement | None

    @property
    def comparison(self) -> Comparison:
        """Whether the report's own score is clearly better."""
        if self.better is None:
            return "itself"
        if self.better.low is None:
            return "too few"
        if not self.better.excludes(0.0):
            return "alike"
        return "better" if (self.better.value or 0) > 0 else "worse"


def errors(case: Case) -> Section:
    """AUCs with paired differences, and the errors that remain without the least reliable rows."""
    title, happened = "Does the score find errors?", case.outcome
    if happened is None:
        return section("errors", title, f"Not assessed: {case.unknown_outcome}.", [_missing(case)])
    failed = _failed(happened)
    if not failed.size:
        lead = f"Not assessed: all errors of {rows(case.m)} with known outcome are alike."
        return section("errors", title, lead, [_missing(case)])
    others = rivals(case) if case.asked.baselines else Rivals({}, {})
    compared = rankings(case.audit.score, others.scores, failed)
    blocks = [
        table("rankings", _caption(case, failed), COLUMNS, [_row(one) for one in compared]),
        _sentences(compared, case),
    ]
    if happened.kind != "classes":
        blocks += [_curves(case, happened, others), _scatter(case, happened)]
    blocks.append(_risk(case, happened))
    if others.skipped:
        blocks.append(
            listed("baselines-left-out", [f"Left out, {name}: {why}." for name, why in others.skipped.items()])
        )
    elif not case.asked.baselines:
        blocks.append(text("baselines-left-out", "Baselines were not asked for: only a constant is compared with."))
    return section("errors", title, _lead(compared, case, failed), blocks)


def rankings(own: Array, others: dict[str, Array], failed: NDArray[np.bool_]) -> list[Ranking]:
    """The mean AUC over standards of failure (m, t), on the same resamples for all scores."""
    scores = {OWN: own, **others}
    detections = {name: Detection.of(score, failed) for name, score in scores.items()}
    m = len(own)
    whole = {name: float(each.mean_auc(np.ones((1, m)))[0]) for name, each in detections.items()}
    parts = [{name: each.mean_auc(counts) for name, each in detections.items()} for counts in resamples(m)]
    drawn = {name: np.concatenate([part[name] for part in parts]) for name in detections}
    enough = fewest_of_a_kind(failed) >= FEW

    def estimate(value: float, again: Array) -> Measurement:
        return resampled(value, again, m) if enough else Measurement(value, None, None, m)

    ranked = [Ranking(OWN, estimate(whole[OWN], drawn[OWN]), None)]
    ranked.append(Ranking(CONSTANT, Measurement(0.5, 0.5, 0.5, m), estimate(whole[OWN] - 0.5, drawn[OWN] - 0.5)))
    for name in others:
        gap = estimate(whole[OWN] - whole[name], drawn[OWN] - drawn[name])
        ranked.append(Ranking(name, estimate(whole[name], drawn[name]), gap))
    return ranked


def fewest_of_a_kind(failed: NDArray[np.bool_]) -> int:
    """The smaller of the numbers of failed and other rows, for the standard that splits them most evenly."""
    count = failed.sum(axis=0)
    return int(np.minimum(count, len(failed) - count).max())


def _failed(happened: Outcome) -> NDArray[np.bool_]:
    """Which rows failed by each standard (m, t): a wrong decision, or an error above a percentile of errors."""
    size = happened.size
    if happened.kind == "classes":
        failed = size[:, None] > 0.5
    else:
        failed = size[:, None] > np.percentile(size, np.arange(5, 100, 5))[None, :]  # as evaluate.auc_curve
    split = failed.any(axis=0) & ~failed.all(axis=0)
    return np.asarray(failed[:, split])


def _caption(case: Case, failed: NDArray[np.bool_]) -> str:
    what = "a wrong decision" if failed.shape[1] == 1 else f"an error above each of {failed.shape[1]} tolerances"
    return f"Area under the ROC curve for finding {what}, n = {case.m}; intervals by bootstrap of the rows, paired"


def _row(ranking: Ranking) -> Block:
    gap = ranking.better
    difference = (
        {} if gap is None else {"difference": gap.value, "difference_low": gap.low, "difference_high": gap.high}
    )
    return {"score": ranking.name, **ranking.auc.columns(), **difference, "says": IN_WORDS[ranking.comparison]}


def _sentences(compared: list[Ranking], case: Case) -> Block:
    sentences = []
    for ranking in compared[1:]:
        assert ranking.better is not None
        gap = f"difference in mean AUC {ranking.better}"
        sentence = {
            "alike": f"No clear difference between the score and {ranking.name}: {gap}.",
            "too few": f"Too few rows to tell the score from {ranking.name}: {gap}.",
            "better": f"The score finds errors better than {ranking.name}: {gap}.",
            "worse": f"The score finds errors worse than {ranking.name}: {gap}.",
        }
        sentences.append(sentence[ranking.comparison])
    return listed("comparisons", [*sentences, f"Comparisons made on the same n = {rows(case.m)}: {len(sentences)}."])


def _lead(compared: list[Ranking], case: Case, failed: NDArray[np.bool_]) -> str:
    own, coin = compared[0], compared[1]
    text = f"Of a row that failed and one that did not, the score picks the failed one with probability {own.auc}."
    if own.auc.low is None:
        few = fewest_of_a_kind(failed)
        return f"{text} {few} of {case.m} rows are too few of one kind for an interval: no score is shown to be better."
    if coin.comparison != "better":
        text += " That is not clearly better than a coin."
    beaten = [one.name for one in compared[2:] if one.comparison == "better"]
    better = [one.name for one in compared[2:] if one.comparison == "worse"]
    if beaten:
        text += f" It is clearly better than {listing(beaten)}."
    if better:
        text += f" It is clearly worse than {listing(better)}."
    if len(compared) > 2 and not beaten and not better:
        text += f" No clear difference from any of {len(compared) - 2} baselines on n = {case.m} rows."
    return text


def _curves(case: Case, happened: Outcome, others: Rivals) -> Block:
    drawn = []
    for name, score in {OWN: case.audit.score, **others.scores}.items():
        curve = evaluate.auc_curve(score, happened.size)
        drawn.append(series(name, "line", curve.tolerance.tolist(), curve.auc.tolist()))
    both = axis(f"Tolerance: {happened.called} above which a row counts as failed"), axis("AUC", 0, 1)
    note = f"n = {case.m}; tolerances are the 5th to 95th percentiles of the errors."
    return chart("auc-curve", "AUC at each tolerance", both, drawn, note, [line("y", 0.5, "a coin")])


def _scatter(case: Case, happened: Outcome) -> Block:
    """A chart with every prediction of the table as a point that opens its card."""
    shown = shown_rows(case)
    points = series(
        "predictions",
        "points",
        case.audit.score[shown].tolist(),
        happened.size[shown].tolist(),
        row=list(range(len(shown))),
    )
    both = axis("Score"), axis(f"{happened.called[0].upper()}{happened.called[1:]}")
    note = f"n = {len(shown)} predictions of the table; a point opens its card."
    return chart("score-and-error", "Score and error of each prediction", both, [points], note)


def _risk(case: Case, happened: Outcome) -> Block:
    size = happened.size - min(0.0, float(happened.size.min()))
    kept = np.unique(np.linspace(1, case.m, min(POINTS, case.m)).astype(int)) - 1
    own, best = evaluate.risk_coverage(case.audit.score, size), evaluate.risk_coverage(size, size)
    x = own.coverage[kept].tolist()
    what = "Share of wrong decisions" if happened.kind == "classes" else f"Mean {happened.called}"
    drawn = [
        series("score of this report", "line", x, own.risk[kept].tolist()),
        series("errors known beforehand", "line", x, best.risk[kept].tolist(), dashed=True, muted=True),
        series("random order", "line", (x[0], 1.0), (float(own.risk[-1]),) * 2, dashed=True, muted=True),
    ]
    area = evaluate.aurc(case.audit.score, size)
    note = (
        f"n = {case.m}; rows are accepted from the lowest score up. Area {number(area.value)}, with errors known "
        f"beforehand {number(area.oracle)}, in random order {number(area.random)}."
    )
    both = axis("Share of rows accepted", 0, 1), axis(f"{what} of those accepted")
    return chart("risk-coverage", "What is left when the least reliable rows are taken out", both, drawn, note)


def _missing(case: Case) -> Block:
    note = "Whether high scores mark large errors is the first thing to find out before anything is decided by a score."
    if case.targets is None:
        note += " It needs the true outcomes of audited rows, drawn without regard to their score."
    return text("errors-not-assessed", note)
