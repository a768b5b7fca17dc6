"""A report document as the library would make it, with invented patients: what the page is tried on."""

from typing import Any

import numpy as np

SECTIONS = {
    "identity": "Identity and provenance",
    "use": "Intended use and what the score means",
    "method": "Method",
    "fitness": "Fitness of the audit",
    "performance": "Performance",
    "errors": "Does the score find errors?",
    "subgroups": "Subgroups",
    "shift": "Shift of the inputs",
    "predictions": "Predictions",
    "limitations": "Limitations",
    "signoff": "Thresholds and sign-off",
    "monitoring": "Monitoring",
    "crosswalk": "Crosswalk to regulations",
}
INPUTS = ["age", "bmi", "blood pressure", "cholesterol", "hdl", "glucose", "sex", "smoker"]
HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
GROUPS = ["female", "male", "younger than 40", "40 to 70 years", "older than 70 years", "smokers"]
AXES = ["noise and local misfit", "resampling of the training data", "scarcity of similar rows"]
REASONS = ["few training rows nearby", "training rows nearby are fitted badly", "rests on a single training row"]


def sample(count: int = 89, labels: bool = True, training: int = 442, seed: int = 0) -> dict[str, Any]:
    """A document of so many predictions, with or without the true targets."""
    predictions = _predictions(count, labels, training, np.random.default_rng(seed))
    review, refuse = (predictions["values"]["tier"].count(tier) for tier in ("review", "refuse"))
    blocks = _blocks(predictions, labels, training)
    return {
        "schema": "rue-report/1",
        "title": "Audit of the diabetes model",
        "subtitle": f"CalibratedRUE, {training} training rows, {count} audited rows",
        "verdict": {
            "light": "amber",
            "text": f"The audit fits the model, but {review + refuse} of {count} predictions need a person before use.",
        },
        "highlights": [
            {"label": "For review", "value": str(review), "note": f"of {count} predictions"},
            {"label": "Refused", "value": str(refuse), "note": f"of {count} predictions"},
            {"label": "Coverage", "value": "91 %" if labels else "not known", "note": "wanted: 90 %, 81 of 89 rows"},
            {"label": "Errors found", "value": "0.78", "note": "AUC, 95 % interval 0.69 to 0.86, n = 89"},
            {"label": "Subgroups flagged", "value": "1", "note": "of 6 subgroups"},
        ],
        "sections": [
            {
                "id": key,
                "title": title,
                "lead": f"{title}: one or two plain sentences that say what stands below.",
                "blocks": blocks.get(key, []),
            }
            for key, title in SECTIONS.items()
        ],
        "predictions": predictions,
        "created": {"date": "2026-11-15T12:00:00Z", "seconds": {"fit": 1.21, "audit": 0.334}},
    }


def classes(count: int = 40) -> dict[str, Any]:
    """A document of a classifier with sets of classes."""
    document = sample(count)
    held = document["predictions"]
    random, names = np.random.default_rng(1), np.array(["benign", "malignant", "unclear"])
    own = {
        "prediction": ("Prediction", "text", names[random.integers(0, 3, count)].tolist()),
        "probability": ("Probability", "number", _digits(random.uniform(0.34, 1, count))),
        "set": ("90 % set", "text", [", ".join(names[: random.integers(1, 4)]) for _ in range(count)]),
        "actual": ("Outcome", "text", names[random.integers(0, 3, count)].tolist()),
    }
    held["values"] = {key: held["values"][key] for key in ("score", "percentile", "tier", "reason")}
    held["values"] |= {key: values for key, (_, _, values) in own.items()}
    held["columns"] = [
        *({"key": key, "label": label, "type": kind, "help": None} for key, (label, kind, _) in own.items()),
        *(column for column in held["columns"] if column["key"] in {"score", "percentile", "tier", "reason"}),
    ]
    held |= {"interval": None, "axes": None, "card": [], "explains": "the margin between the two leading classes"}
    held["guarantee"] = "Holds the class of 90 % of such rows: guaranteed marginally, for exchangeable data."
    return document


def outputs(count: int = 40) -> dict[str, Any]:
    """A document of a model with two outputs."""
    document = sample(count)
    held = document["predictions"]
    values, own = held["values"], []
    for output in range(2):
        for key, label in (("prediction", "Prediction"), ("lower", "From"), ("upper", "To"), ("actual", "Outcome")):
            values[f"{key}_{output}"] = [None if one is None else one + output for one in values[key]]
            column = {"key": f"{key}_{output}", "label": f"{label} of output {output}", "type": "number", "help": None}
            own.append(column)
    values["prediction"] = [f"{one:.3g}, {one + 1:.3g}" for one in values["prediction"]]
    del values["lower"], values["upper"], values["actual"]
    shown = {"score", "percentile", "tier", "reason"}
    held["columns"] = [*own[::4], *(column for column in held["columns"] if column["key"] in shown)]
    held |= {"interval": None, "actual": None, "card": own, "explains": "the explained output"}
    return document


def _predictions(count: int, labels: bool, training: int, random: np.random.Generator) -> dict[str, Any]:
    inputs = _rows(count, random)
    parts = np.exp(random.normal([3.6, 2.2, 1.8], [0.2, 0.5, 0.8], (count, 3)))
    std = np.sqrt((parts**2).sum(1))
    score = std**2 / 100
    percentile = 100 * (np.argsort(np.argsort(score)) + 1) / max(count, 1)
    prediction = 150 + 45 * random.normal(size=count)
    tier = [
        None if row == 3 else "refuse" if p > 96 else "review" if p > 80 else "accept"
        for row, p in enumerate(percentile)
    ]
    reason = [None if p <= 80 else REASONS[row % 3] for row, p in enumerate(percentile)]
    values = {
        "prediction": _digits(prediction),
        "lower": _digits(prediction - 1.7 * std),
        "upper": _digits(prediction + 1.7 * std),
        "score": _digits(score),
        "percentile": _digits(percentile),
        "std": _digits(std),
        "tier": tier,
        "reason": reason,
        "leverage": _digits(random.uniform(0.001, 0.2, count)),
    }
    number = [
        ("prediction", "Prediction", "number", "Disease progression after one year, in points."),
        ("lower", "Lower", "number", "Lower end of the 90 % interval."),
        ("upper", "Upper", "number", "Upper end of the 90 % interval."),
        ("std", "Std", "number", "Expected size of the error, in points."),
        (
            "score",
            "Score",
            "number",
            "How far the prediction would move with other training data; higher is less reliable.",
        ),
        ("percentile", "Percentile", "number", "Of the score among the training rows left out one at a time."),
        ("tier", "Tier", "tier", "What the policy does with the prediction."),
        ("reason", "Reason", "text", "The main reason for a review."),
    ]
    if labels:
        values["actual"] = [
            None if row == 5 else value
            for row, value in enumerate(_digits(prediction + std * random.normal(size=count)))
        ]
        number.insert(3, ("actual", "Actual", "number", "What was observed."))
    columns = [dict(zip(("key", "label", "type", "help"), column, strict=True)) for column in number]
    extra = {
        "key": "leverage",
        "label": "Leverage",
        "type": "number",
        "help": "Pull of the row on its own fit, 0 to 1.",
    }
    return {
        "count": count,
        "id": [f"P-{100000 + row}" for row in range(count)],
        "id_label": "patient",
        "columns": columns,
        "values": values,
        "card": [*columns, extra],
        "axes": [{"name": name, "values": _digits(parts[:, place])} for place, name in enumerate(AXES)],
        "split": {
            "density": _digits(random.uniform(0, 100, count)),
            "misfit": _digits(random.uniform(0, 100, count)),
            "density_times": _digits(random.lognormal(0, 0.5, count)),
            "misfit_times": _digits(random.lognormal(0, 0.5, count)),
        },
        "sentence": [_sentence(p, why) for p, why in zip(percentile, reason, strict=True)],
        "guarantee": "Covers the target of 90 % of such rows: guaranteed marginally, for exchangeable data.",
        "interval": {"lower": "lower", "upper": "upper", "level": 0.9},
        "actual": "actual" if labels else None,
        "inputs": {"columns": INPUTS, "values": inputs},
        "influential": _influential(count, training, random),
        "training": {
            "id": [f"T-{row}" for row in range(training)],
            "columns": INPUTS,
            "values": _rows(training, random),
        },
        "unit": "patients",
    }


def _sentence(percentile: float, reason: str | None) -> str:
    why = f"mainly because: {reason}" if reason else "and no single reason stands out"
    return f"The score is higher than that of {percentile:.0f} % of the training rows, {why}."


def _influential(count: int, training: int, random: np.random.Generator) -> dict[str, Any]:
    few = [0 if row == 2 else 5 for row in range(count)]
    return {
        "row": [random.choice(training, t, replace=False).tolist() for t in few],
        "share": [_digits(np.sort(random.uniform(0.01, 0.2, t))[::-1]) for t in few],
        "without": [_digits(random.normal(0, 2, t)) for t in few],
        "similarity": [_digits(random.uniform(0.5, 1, t)) for t in few],
        "residual": [_digits(random.normal(0, 50, t)) for t in few],
    }


def _rows(count: int, random: np.random.Generator) -> list[list[Any]]:
    numbers = random.normal([55, 26, 94, 189, 49, 91], [12, 4, 13, 34, 12, 11], (count, 6)).round(1).tolist()
    return [[*row, "female" if row[0] > 55 else "male", row[1] > 30] for row in numbers]


def _digits(values: Any) -> list[float]:
    return [float(f"{value:.6g}") for value in np.asarray(values, dtype=float)]


def _blocks(predictions: dict[str, Any], labels: bool, training: int) -> dict[str, list[dict[str, Any]]]:
    count = predictions["count"]
    return {
        "identity": [
            {
                "kind": "facts",
                "id": "identity-facts",
                "items": [
                    {"label": "Model", "value": "sklearn.linear_model.Ridge", "note": "12 parameters"},
                    {"label": "Training rows", "value": training, "note": None},
                    {"label": "SHA-256 of the training data", "value": HASH, "note": None, "code": True},
                    {"label": "Responsible person", "value": None, "note": "not given"},
                ],
            },
        ],
        "use": [
            {
                "kind": "text",
                "id": "use-text",
                "text": "The score says how far a prediction would move had the training data been different."
                "\n\nIt does not say why a patient is ill.",
            },
            {
                "kind": "list",
                "id": "use-list",
                "items": ["Made to sort predictions for review.", "Not made to replace a diagnosis."],
            },
        ],
        "fitness": [
            {
                "kind": "table",
                "id": "fitness-checks",
                "caption": "Checks of the audit, 3 of 4 in order",
                "columns": [
                    {"key": "check", "label": "Check", "type": "text"},
                    {"key": "found", "label": "Found", "type": "number"},
                    {"key": "limit", "label": "Limit", "type": "number"},
                    {"key": "light", "label": "Result", "type": "light"},
                ],
                "rows": [
                    {
                        "check": "Size of the gradient at the parameters",
                        "found": 1.23456e-7,
                        "limit": 1e-4,
                        "light": "green",
                    },
                    {"check": "Residual of the solver", "found": 0.0031, "limit": 0.01, "light": "green"},
                    {"check": "Leave-one-out against refits", "found": 0.913, "limit": 0.95, "light": "amber"},
                    {
                        "check": "Coverage on held-out rows",
                        "found": None,
                        "limit": 0.9,
                        "light": "none",
                        "flag": "no labels",
                    },
                    {"check": "Condition of the curvature", "found": 123456.7, "limit": 1e6, "light": "red"},
                ],
            },
        ],
        "performance": _performance(predictions, labels),
        "errors": _errors(predictions, labels),
        "subgroups": [
            {
                "kind": "table",
                "id": "subgroup-table",
                "caption": f"Errors and scores in subgroups, {count} rows",
                "columns": [
                    {"key": "group", "label": "Group", "type": "text"},
                    {"key": "n", "label": "n", "type": "number"},
                    {"key": "error", "label": "Mean absolute error", "type": "number"},
                    {"key": "light", "label": "Result", "type": "light"},
                ],
                "rows": [
                    {"group": "female", "n": 46, "error": 41.27, "light": "green"},
                    {"group": "male", "n": 43, "error": 44.9, "light": "green"},
                    {"group": "older than 70 years", "n": 7, "error": 63.125, "light": "amber", "flag": "small n"},
                ],
            },
            {
                "kind": "chart",
                "id": "subgroup-coverage",
                "title": "Coverage in subgroups",
                "x": {"label": "Group"},
                "y": {"label": "Share of targets inside the interval", "low": 0, "high": 1},
                "series": [
                    {
                        "name": "audited rows",
                        "type": "range",
                        "x": GROUPS,
                        "y": [0.93, 0.88, 0.9, 0.92, 0.71, None],
                        "low": [0.82, 0.75, 0.7, 0.83, 0.36, None],
                        "high": [0.98, 0.95, 0.97, 0.96, 0.92, None],
                    },
                    {
                        "name": "left out of training",
                        "type": "range",
                        "x": GROUPS,
                        "y": [0.9, 0.9, 0.89, 0.91, 0.86, 0.87],
                        "low": [0.86, 0.85, 0.8, 0.87, 0.7, 0.8],
                        "high": [0.93, 0.94, 0.95, 0.94, 0.95, 0.92],
                    },
                ],
                "lines": [{"axis": "y", "at": 0.9, "label": "wanted: 0.9"}],
                "note": "n from 7 to 61; Wilson intervals at 95 %.",
            },
        ],
        "shift": [
            {
                "kind": "chart",
                "id": "shift-bars",
                "title": "Difference of the inputs from the training data",
                "x": {"label": "Column"},
                "y": {"label": "Standardised difference"},
                "series": [
                    {
                        "name": "audited against training",
                        "type": "bars",
                        "x": [f"laboratory measurement number {n}" for n in range(12)],
                        "y": [0.1, -0.2, 0.05, 0.4, 0.13, -0.11, 0.22, 0.02, -0.31, 0.07, 0.18, -0.04],
                    }
                ],
                "note": f"n = {count} against {training}.",
            },
        ],
        "predictions": [
            {"kind": "text", "id": "predictions-text", "text": f"All {count} predictions, the least reliable first."}
        ],
        "limitations": [
            {
                "kind": "list",
                "id": "limitations-list",
                "items": ["Unseen confounders were not tested.", "Intervals hold on average, not for each patient."],
            }
        ],
        "signoff": [
            {
                "kind": "signoff",
                "id": "signoff-fields",
                "fields": [
                    {"label": "Decision", "hint": "released, released with conditions, or refused"},
                    {"label": "Name and role", "hint": ""},
                    {"label": "Date", "hint": "year, month, day"},
                    {"label": "Signature", "hint": ""},
                ],
            }
        ],
        "monitoring": [
            {
                "kind": "facts",
                "id": "monitoring-facts",
                "items": [{"label": "Audit again after", "value": 500, "note": "new patients"}],
            }
        ],
        "crosswalk": [
            {
                "kind": "table",
                "id": "crosswalk-table",
                "caption": "Where a requirement is answered",
                "columns": [
                    {"key": "rule", "label": "Requirement", "type": "text"},
                    {"key": "where", "label": "Section", "type": "text"},
                ],
                "rows": [{"rule": "EU AI Act, Article 15: accuracy and robustness", "where": "Performance, Shift"}],
            }
        ],
    }


def _performance(predictions: dict[str, Any], labels: bool) -> list[dict[str, Any]]:
    if not labels:
        return [
            {
                "kind": "text",
                "id": "performance-text",
                "text": "The audited rows have no labels: performance is not known.",
            }
        ]
    values = predictions["values"]
    known = [row for row, actual in enumerate(values["actual"]) if actual is not None]
    return [
        {
            "kind": "chart",
            "id": "performance-points",
            "title": "Predictions against targets",
            "x": {"label": "Prediction, points"},
            "y": {"label": "Actual, points"},
            "series": [
                {
                    "name": "one patient",
                    "type": "points",
                    "x": [values["prediction"][row] for row in known],
                    "y": [values["actual"][row] for row in known],
                    "row": known,
                },
                {"name": "equal", "type": "line", "x": [0, 300], "y": [0, 300], "dashed": True, "muted": True},
            ],
            "note": f"n = {len(known)}; click on a point to open its card.",
        },
    ]


def _errors(predictions: dict[str, Any], labels: bool) -> list[dict[str, Any]]:
    shares = [round(0.05 * step, 2) for step in range(20)]
    curve = [
        {
            "name": name,
            "type": "line",
            "x": [round(100 * s) for s in shares],
            "y": _digits([43 * (1 - fall * s) for s in shares]),
        }
        for name, fall in (("this score", 0.5), ("distance to the training data", 0.3), ("perfect order", 0.95))
    ]
    curve[0] |= {"low": _digits([y - 4 for y in curve[0]["y"]]), "high": _digits([y + 4 for y in curve[0]["y"]])}
    curve[2] |= {"dashed": True, "muted": True}
    score = np.asarray(predictions["values"]["score"])
    counts, edges = np.histogram(score, bins=15) if len(score) else (np.zeros(1), np.array([0.0, 1.0]))
    centres = (edges[1:] + edges[:-1]) / 2
    return [
        {
            "kind": "chart",
            "id": "errors-deferral",
            "title": "Mean error after the least reliable predictions are deferred",
            "x": {"label": "Deferred, %", "low": 0, "high": 100},
            "y": {"label": "Mean absolute error of the rest, points", "low": 0},
            "series": curve,
            "lines": [
                {"axis": "y", "at": 43, "label": "no deferral"},
                {"axis": "y", "at": 42, "label": "random deferral of rows"},
            ],
            "note": f"n = {predictions['count']}.",
        },
        {
            "kind": "chart",
            "id": "errors-scores",
            "title": "Scores of the audited rows",
            "x": {"label": "Score"},
            "y": {"label": "Number of predictions"},
            "series": [
                {"name": "predictions", "type": "bars", "x": _digits(centres), "y": counts.astype(int).tolist()}
            ],
            "lines": [
                {"axis": "x", "at": float(edges[9 if len(score) else 0]), "label": "review above this score"},
                {"axis": "x", "at": float(edges[12 if len(score) else 1]), "label": "refuse above this score"},
            ],
            "note": f"n = {predictions['count']}.",
        },
    ]
