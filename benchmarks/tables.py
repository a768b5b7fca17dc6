"""The tables in the pages, from the files that the benchmarks wrote: `python benchmarks/tables.py` renews them.

A table stands in its page between `<!-- table NAME -->` and `<!-- end of table -->`.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import t

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
END = "<!-- end of table -->\n"
METHODS = {
    "ClassifierRUE": "**ClassifierRUE** (the default)",
    "epistemic": "½ tr(ΛΣ), `audit.epistemic`",
    "flip_probability": "`audit.flip_probability`",
    "Maximum softmax": "maximum softmax",
    "Entropy": "entropy",
    "Temperature scaling": "temperature, by leave-one-out",
    "Temperature, held-out rows": "temperature, by 200 held-out rows",
}


def classification() -> str:
    """Means over the splits, and the default's lead over the network's own confidence with its 95 % interval."""
    splits = pd.read_csv(DOCS / "classification/splits.csv")
    lines = [
        "| | mistakes: digits | MNIST | strange classes: digits | MNIST | NLL: digits | MNIST | ECE: digits | MNIST |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for method, shown in METHODS.items():
        own = splits[splits["method"] == method]
        cells = [_mean(own, data, held, column) for column, held in COLUMNS for data in ("digits", "MNIST")]
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    for other in ("Maximum softmax", "Entropy"):
        cells = [
            _lead(splits, data, held, column, other) if column in ("mistakes", "strange") else ""
            for column, held in COLUMNS
            for data in ("digits", "MNIST")
        ]
        lines.append(f"| lead over {METHODS[other]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


COLUMNS = (("mistakes", False), ("strange", True), ("nll", False), ("ece", False))


def _mean(own: pd.DataFrame, data: str, held: bool, column: str) -> str:
    values = own[(own["data"] == data) & (own["classes held out"] == held)][column]
    return "" if values.isna().all() else f"{values.mean():.3f}"


def _lead(splits: pd.DataFrame, data: str, held: bool, column: str, other: str) -> str:
    part = splits[(splits["data"] == data) & (splits["classes held out"] == held)]
    by_method = part.pivot(index="split", columns="method", values=column)
    lead = by_method["ClassifierRUE"] - by_method[other]
    reach = float(t.ppf(0.975, len(lead) - 1)) * lead.std() / len(lead) ** 0.5
    return f"{lead.mean():+.3f} ± {reach:.3f}"


def plain(path: str) -> str:
    """A file as it is."""
    frame = pd.read_csv(DOCS / path)
    lines = ["| " + " | ".join(frame.columns) + " |", "|" + "---|" * len(frame.columns)]
    lines += ["| " + " | ".join(_shown(value) for value in row) + " |" for row in frame.itertuples(index=False)]
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    if isinstance(value, float) and value != value:
        return ""
    return {True: "yes", False: "NO"}[value] if isinstance(value, bool) else str(value)


CASES = {
    "small": "convolutions with group norms, 10 classes",
    "resnet10": "ResNet-18, pictures of 32×32, 10 classes",
    "resnet100": "ResNet-18, pictures of 32×32, 100 classes",
    "lora": "adapters of rank 8 in a decoder of GPT-2's size, 256 tokens, 2 classes",
    "gpt2": "decoder of GPT-2's size, 256 tokens, 2 classes",
}


def costs() -> str:
    """Costs in epochs, from one line of JSON for each case."""
    lines = [
        "| network | method | audited parameters | rows | coordinates | an epoch, s | fit, s | fit, epochs "
        "| audit, epochs | rows audited in a second | GiB |",
        "|" + "---|" * 11,
    ]
    methods = {"linear": "`LinearRUE`", "default": "default"}
    for text in (DOCS / "scale/costs.jsonl").read_text().splitlines():
        row = json.loads(text)
        lines.append(
            f"| {CASES[row['case']]} | {methods[row['method']]} | {row['parameters']:,} | {row['rows']:,} | "
            f"{row['coordinates']:,} | {row['epoch_s']:.2g} | {row['fit_s']:.3g} | {row['fit_epochs']:.2g} | "
            f"{row['audit_epochs']:.2g} | {row['audit_rows_per_s']:,.0f} | {row['memory_gib']:.2g} |"
        )
    return "\n".join(lines) + "\n"


def plans() -> str:
    """What was planned over what was measured, from one line of JSON for each case."""
    lines = [
        "| case | rows | parameters | outputs | way | memory, MiB | planned over measured | fit, s "
        "| planned over measured | audit, s | planned over measured | planning, s |",
        "|" + "---|" * 12,
    ]
    for text in (DOCS / "scale/plans.jsonl").read_text().splitlines():
        row = json.loads(text)
        memory, fit, audit = (row[f"planned_{what}"] / row[what] for what in ("bytes", "fit_s", "audit_s"))
        lines.append(
            f"| {row['case']} | {row['rows']:,} | {row['parameters']:,} | {row['outputs']} | `{row['way']}` | "
            f"{row['bytes'] / 2**20:,.0f} | {memory:.2f} | {row['fit_s']:.2g} | {fit:.2f} | {row['audit_s']:.2g} | "
            f"{audit:.2f} | {row['planning_s']:.2g} |"
        )
    return "\n".join(lines) + "\n"


def plans_gpu() -> str:
    """The same on a GPU, from what costs were measured with."""
    lines = [
        "| network | way | memory, GiB | planned over measured | fit, s | planned over measured | audit, s "
        "| planned over measured | planning, s |",
        "|" + "---|" * 9,
    ]
    for text in (DOCS / "scale/costs.jsonl").read_text().splitlines():
        row = json.loads(text)
        if "planned" not in row:
            continue
        memory, fit, audit = (
            row[f"planned_{planned}"] / row[measured]
            for planned, measured in (("gib", "more_gib"), ("fit_s", "fit_s"), ("audit_s", "audit_s"))
        )
        lines.append(
            f"| {CASES[row['case']]} | `{row['planned']}` | {row['more_gib']:.2g} | {memory:.2f} "
            f"| {row['fit_s']:.2g} | {fit:.2f} | {row['audit_s']:.2g} | {audit:.2f} | {row['planning_s']:.2g} |"
        )
    return "\n".join(lines) + "\n"


def rivals() -> str:
    """What other libraries took in epochs, or why they did not end, beneath our own lines of the same networks."""
    lines = [
        "| network | library | what is computed | parameters | rows fitted | fit, epochs | audit, epochs | GiB |",
        "|" + "---|" * 8,
    ]
    found = [json.loads(text) for text in (DOCS / "scale/rivals.jsonl").read_text().splitlines()]
    costs = [json.loads(text) for text in (DOCS / "scale/costs.jsonl").read_text().splitlines()]
    for case, shown in CASES.items():
        theirs = [_rival(row) for row in found if row["case"] == case]
        ours = [_own(row) for row in costs if row["case"] == case and row["method"] == "linear"]
        lines += [f"| {shown} | {cells} |" for cells in (ours + theirs if theirs else [])]
    return "\n".join(lines) + "\n"


def _own(row: dict[str, Any]) -> str:
    words = "`LinearRUE` | resampling covariance of the followed logits"
    return f"{words} | {row['parameters']:,} | {row['rows']:,} | {_costs(row)}"


def _rival(row: dict[str, Any]) -> str:
    words = f"{row['rival']} {row['version']} | {row['computes']}"
    if "error" in row:
        return f"{words} | | {row['fit_rows']:,} | {row['error'].replace('|', ' ')} | | "
    return f"{words} | {row['parameters']:,} | {row['fit_rows']:,} of {row['rows']:,} | {_costs(row)}"


def _costs(row: dict[str, Any]) -> str:
    return f"{row['fit_epochs']:.2g} | {row['audit_epochs']:.2g} | {row['memory_gib']:.2g}"


def faithful() -> str:
    """Sketches against exact audits, one line for each case, audit and size."""
    lines = [
        "| data | network | parameters | rows × outputs | audit | effective parameters | size | Spearman "
        "| std over exact | score over exact | AUC, exact | change of AUC | warned |",
        "|" + "---|" * 13,
    ]
    for row in pd.read_csv(DOCS / "scale/faithful.csv", dtype=str, keep_default_na=False).to_dict("records"):
        size = f"**{row['size']}**" if row["planned"] else row["size"]
        cells = [row["data"], row["network"], f"{int(row['parameters']):,}", f"{int(row['rows']):,} × {row['outputs']}"]
        cells += [row["audit"], row["effective"], size, row["spearman"], row["std_ratio"], row["score_ratio"]]
        lines.append("| " + " | ".join([*cells, row["auc"], row["auc_change"], row["warned"]]) + " |")
    return "\n".join(lines) + "\n"


TABLES = {  # page, name: what makes the table
    ("classification.md", "classification"): classification,
    ("explain.md", "removal"): lambda: plain("explain/removal.csv"),
    ("explain.md", "regions"): lambda: plain("explain/regions.csv"),
    ("models.md", "estimators"): lambda: plain("models/estimators.csv"),
    ("large-networks-figures.md", "costs"): costs,
    ("large-networks-figures.md", "plans"): plans,
    ("large-networks-figures.md", "plans on a GPU"): plans_gpu,
    ("large-networks-figures.md", "precision"): lambda: plain("scale/precision.csv"),
    ("large-networks-figures.md", "faithful"): faithful,
    ("large-networks-figures.md", "rivals"): rivals,
    ("large-networks-figures.md", "fidelity"): lambda: plain("scale/fidelity.csv"),
    ("large-networks-figures.md", "exponents"): lambda: plain("scale/exponents.csv"),
    ("large-networks-figures.md", "iterations"): lambda: plain("scale/iterations.csv"),
    ("large-networks-figures.md", "fewer rows"): lambda: plain("scale/fewer_rows.csv"),
    ("rows.md", "growth"): lambda: plain("rows/growth.csv"),
    ("rows.md", "sample"): lambda: plain("rows/sample.csv"),
    ("rows.md", "tree rows"): lambda: plain("rows/trees.csv"),
    ("rows.md", "workers"): lambda: plain("rows/workers.csv"),
    ("rows.md", "latency"): lambda: plain("rows/latency.csv"),
    ("stored-audits.md", "sizes"): lambda: plain("models/storage.csv"),
    ("stored-audits.md", "engines"): lambda: plain("models/engines.csv"),
    ("command-line.md", "many"): lambda: plain("models/command_line.csv"),
    ("trees.md", "boosted"): lambda: plain("models/boosted.csv"),
    ("trees.md", "speed"): lambda: plain("models/speed.csv"),
}


def renewed(page: str, name: str) -> str:
    """A page with one of its tables made anew."""
    text = (DOCS / page).read_text()
    start = f"<!-- table {name} -->\n"
    before, rest = text.split(start)
    return before + start + TABLES[page, name]() + END + rest.split(END, 1)[1]


if __name__ == "__main__":
    for page, name in TABLES:
        (DOCS / page).write_text(renewed(page, name))
