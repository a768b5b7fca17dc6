"""The table of predictions, and the contents of each card."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rue.explain import Explanations
from rue.reports.blocks import Block, Section, section, text
from rue.reports.case import Case
from rue.reports.influences import influential
from rue.reports.phrases import number, percent, rows
from rue.reports.plain import identifiers, shortened
from rue.reports.spreads import spread_meaning

MOST = 10_000  # at most so many rows are in the report
OUTPUTS = 5  # at most so many outputs are shown
COLUMNS = 12  # at most so many columns of the audited rows are shown

Column = dict[str, str]


def predictions(case: Case) -> Section:
    """The introduction; the table itself is an entry of the document beside the sections."""
    shown = len(shown_rows(case))
    return section("predictions", "Predictions", _lead(case, shown), _introduction(case, shown))


def shown_rows(case: Case) -> NDArray[np.int64]:
    """All rows in their order, or those with the highest scores where there are too many."""
    if case.m <= MOST:
        return np.arange(case.m)
    return np.sort(np.argsort(-case.audit.score, kind="stable")[:MOST])


def _lead(case: Case, shown: int) -> str:
    counts = case.decision.counts
    tiers = f"{counts['accept']} to accept, {counts['review']} for review, {counts['refuse']} refused"
    words = f"{rows(case.m, 'prediction')}: {tiers}."
    if shown == case.m:
        return words
    return (
        f"{words} The table holds the {shown} with the highest scores of {case.m}; the others are in the figures above."
    )


def _introduction(case: Case, shown: int) -> list[Block]:
    what = "why it is uncertain and which training rows decide it" if case.explained is not None else "its numbers"
    sentences = [f"One line for each of {rows(shown, 'prediction')}. A click opens a card: {what}."]
    if case.explained is None:
        sentences.append(f"There are no influences on the cards: {case.unexplained}.")
    k = case.audit.prediction.shape[1] if case.audit.prediction.ndim == 2 and case.audit.decision is None else 1
    if k > OUTPUTS:
        sentences.append(f"The first {OUTPUTS} of {k} outputs are shown.")
    columns = _own_columns(case)
    if columns is not None and len(columns) > COLUMNS:
        sentences.append(f"Of {len(columns)} columns of the audited rows the first {COLUMNS} are on the cards.")
    return [text("predictions-introduction", "\n\n".join(sentences))]


def prediction_table(case: Case) -> Block:
    """One row for each prediction that is shown, with its columns and the contents of its card."""
    audit, rows = case.audit, shown_rows(case)
    values, columns, card = _classes(case) if audit.decision is not None else _numbers(case)
    values |= {"score": audit.score, "percentile": percentiles(audit.score), "tier": case.decision.tier}
    columns += [
        _column("score", "Score", "The higher, the less reliable: see what the score means."),
        _column("percentile", "Percentile", f"Share of these predictions (n = {case.m}) whose score is not higher."),
        _column("tier", "Tier", "Accept, review or refuse, by the thresholds below.", "tier"),
    ]
    card.insert(0, columns[-3])  # the score comes first on the card
    values |= _reasons(case)
    if "reason" in values:
        columns.append(
            _column(
                "reason",
                "Reason",
                "What makes more of the spread than for a typical training row, each left out.",
                "text",
            )
        )
    if audit.scarce is not None:
        values["scarce"] = np.where(audit.scarce, "yes", "no")
        card.append(_column("scarce", "Unlike the training rows", "Too little training data nearby.", "text"))
    return {
        "count": len(rows),
        "id": identifiers(case.ids[rows]),
        "id_label": case.id_label,
        "columns": columns,
        "values": {key: np.asarray(held)[rows] for key, held in values.items()},
        "card": card,
        "axes": _axes(case, rows),
        "split": _split(case.explained, rows),
        **_explains(case.explained),
        "sentence": None if case.explained is None else [case.explained.sentence[i] for i in rows],
        "guarantee": case.guarantee,
        "interval": {"lower": "lower", "upper": "upper", "level": case.asked.level} if "lower" in values else None,
        "actual": "actual" if "actual" in values else None,
        "inputs": _inputs(case, rows),
        **influential(case.explained, rows),
        "unit": case.noun,
    }


def _explains(explained: Explanations | None) -> dict[str, str]:
    """The name of the number that is explained; a general name where rows differ."""
    if explained is None or not explained.of:
        return {}
    if len(set(explained.of)) == 1:
        return {"explains": explained.of[0]}
    margins = all("margin of" in name for name in explained.of)
    return {"explains": "the margin between the two leading classes" if margins else "the explained output"}


def percentiles(score: Any) -> NDArray[np.float64]:
    """Percentiles from 0 to 100, with the mean rank of ties, as in audit.to_frame."""
    from scipy.stats import rankdata

    return np.asarray(100 * rankdata(score) / len(score))


def _column(key: str, label: str, help_text: str, kind: str = "number") -> Column:
    return {"key": key, "label": label, "type": kind, "help": help_text}


def _numbers(case: Case) -> tuple[dict[str, Any], list[Column], list[Column]]:
    """Values, columns and card of predicted numbers with their intervals, for each output."""
    level, single = percent(case.asked.level), case.audit.prediction.ndim == 1
    prediction = case.audit.prediction.reshape(case.m, -1)
    values: dict[str, Any] = {}
    columns: list[Column] = []
    card: list[Column] = []
    for j in range(min(prediction.shape[1], OUTPUTS)):
        after, of = ("", "") if single else (f"_{j}", f" of output {j}")
        values[f"prediction{after}"] = prediction[:, j]
        who = "the method's own networks predict" if case.own_networks else "the audited model predicts"
        columns.append(_column(f"prediction{after}", f"Prediction{of}", f"What {who}."))
        card.append(columns[-1])
        if case.interval is not None:
            lower, upper = (end.reshape(case.m, -1)[:, j] for end in case.interval[:2])
            values |= {f"lower{after}": lower, f"upper{after}": upper}
            ends = [
                _column(
                    f"lower{after}",
                    f"{level} from" if single else f"{level} interval{of}, from",
                    "Lower end of the interval; what it guarantees stands on the card.",
                ),
                _column(f"upper{after}", "to" if single else f"{level} interval{of}, to", "Upper end of the interval."),
            ]
            (columns if single else card).extend(ends)
        if case.outcome is not None and (single or case.outcome.shown.ndim == 2):
            held = case.outcome.shown.reshape(case.m, -1)[:, j]
            values[f"actual{after}"] = held
            columns.append(_column(f"actual{after}", f"Outcome{of}", "What was observed."))
            card.append(columns[-1])
        spreads, shown = _spreads(case, j, after, of)
        values |= spreads
        card += shown
    if not single:
        values["prediction"] = [", ".join(number(value) for value in row) for row in prediction]
    return values, columns, card


def _spreads(case: Case, j: int, after: str, of: str) -> tuple[dict[str, Any], list[Column]]:
    spreads = {
        "std": (case.audit.std, f"{spread_meaning(case).called} std", spread_meaning(case).says),
        "noise_std": (case.audit.noise_std, "Noise std", "Everything else in the spread."),
        "total_std": (case.audit.total_std, "Total std", "The size of error to expect."),
    }
    values, card = {}, []
    for key, (spread, label, help_text) in spreads.items():
        if spread is not None:
            values[f"{key}{after}"] = spread.reshape(case.m, -1)[:, j]
            card.append(_column(f"{key}{after}", f"{label}{of}", help_text))
    return values, card


def _classes(case: Case) -> tuple[dict[str, Any], list[Column], list[Column]]:
    """Values, columns and card of predicted classes with their probability."""
    audit = case.audit
    values: dict[str, Any] = {"prediction": _labels(np.asarray(audit.label))}
    columns = [_column("prediction", "Prediction", "The class the audited model decides for.", "text")]
    card: list[Column] = []
    if audit.probability is not None and np.asarray(audit.label).ndim == 1:
        values["probability"] = audit.probability.max(axis=1)
        columns.append(_column("probability", "Probability", spread_meaning(case).probability))
    if case.sets is not None:
        names = _class_names(case, case.sets.members.shape[1])
        values["set"] = [", ".join(names[chosen]) or "no class" for chosen in case.sets.members]
        columns.append(
            _column(
                "set",
                f"{percent(case.asked.level)} set",
                "Classes held possible; what that guarantees stands on the card.",
                "text",
            )
        )
    if case.outcome is not None:
        values["actual"] = _labels(case.outcome.shown)
        columns.append(_column("actual", "Outcome", "What was observed.", "text"))
    card += columns
    if audit.flip_probability is not None:
        values["flip_probability"] = audit.flip_probability
        card.append(_column("flip_probability", "Flip probability", spread_meaning(case).flip))
    if audit.epistemic is not None:
        values["epistemic"] = audit.epistemic
        card.append(
            _column("epistemic", "Due to the spread", "Nats of uncertainty that are due to the spread of the logits.")
        )
    return values, columns, card


def _class_names(case: Case, k: int) -> NDArray[Any]:
    return np.asarray(
        [str(each) for each in (range(k) if case.audit.classes is None else case.audit.classes)], dtype=object
    )


def _labels(names: NDArray[Any]) -> list[str]:
    """The class of each row as text, or the labels it has where there may be several."""
    if names.ndim == 1:
        return [str(name) for name in names.tolist()]
    return [", ".join(str(j) for j in np.flatnonzero(row)) or "none" for row in names]


def _reasons(case: Case) -> dict[str, Any]:
    if case.explained is None:
        return {}
    reasons: dict[str, Any] = {"reason": np.asarray(case.explained.reason, dtype=object)}
    return reasons


def _axes(case: Case, rows: NDArray[np.int64]) -> list[Block] | None:
    """The axes of uncertainty; over several outputs the root of summed squares, so that squares add up to the total."""
    if case.audit.axes is None:
        return None
    return [
        {"name": name, "values": np.linalg.norm(values.reshape(case.m, -1), axis=1)[rows]}
        for name, values in case.audit.axes.items()
    ]


def _split(explained: Explanations | None, rows: NDArray[np.int64]) -> Block | None:
    if explained is None or explained.density_percentile is None or explained.misfit_percentile is None:
        return None
    assert explained.density_times is not None
    assert explained.misfit_times is not None
    return {
        "density": shortened(explained.density_percentile[rows]),
        "misfit": shortened(explained.misfit_percentile[rows]),
        "density_times": shortened(explained.density_times[rows]),
        "misfit_times": shortened(explained.misfit_times[rows]),
    }


def _own_columns(case: Case) -> list[str] | None:
    """The names of the audited rows' columns; None where the inputs are no table."""
    inputs = case.inputs
    if hasattr(inputs, "columns") and hasattr(inputs, "iloc"):
        return [str(name) for name in inputs.columns]
    if isinstance(inputs, np.ndarray) or hasattr(inputs, "detach"):
        return [f"x{j}" for j in range(inputs.shape[1])] if inputs.ndim == 2 else None
    return None


def _inputs(case: Case, rows: NDArray[np.int64]) -> Block | None:
    names = _own_columns(case)
    if names is None or len(names) > 200:  # wider tables are images and the like
        return None
    inputs, kept = case.inputs, range(min(len(names), COLUMNS))
    if hasattr(inputs, "iloc"):
        held = [inputs.iloc[rows, j].tolist() for j in kept]
    else:
        table = inputs.detach().cpu().numpy() if hasattr(inputs, "detach") else inputs
        held = [table[rows, j].tolist() for j in kept]
    return {"columns": names[:COLUMNS], "values": [list(row) for row in zip(*held, strict=True)]}
