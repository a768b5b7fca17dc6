"""The table of docs/classification.md from docs/classification/splits.csv."""

from pathlib import Path

import pandas as pd
from scipy.stats import t

ROOT = Path(__file__).parent.parent
SPLITS = ROOT / "docs/classification/splits.csv"
PAGE = ROOT / "docs/classification.md"
MARKS = ("<!-- table -->\n", "<!-- end of table -->\n")
METHODS = {
    "ClassifierRUE": "**ClassifierRUE** (the default)",
    "epistemic": "½ tr(ΛΣ), `audit.epistemic`",
    "flip_probability": "`audit.flip_probability`",
    "Maximum softmax": "maximum softmax",
    "Entropy": "entropy",
    "Temperature scaling": "temperature, by leave-one-out",
    "Temperature, held-out rows": "temperature, by 200 held-out rows",
}


def table() -> str:
    """Means over the splits, and the default's lead over the network's own confidence with its 95 % interval."""
    splits = pd.read_csv(SPLITS)
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


if __name__ == "__main__":
    text = PAGE.read_text()
    before, rest = text.split(MARKS[0])
    PAGE.write_text(before + MARKS[0] + table() + MARKS[1] + rest.split(MARKS[1])[1])
