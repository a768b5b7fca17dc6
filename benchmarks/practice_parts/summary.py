"""What came out, as Markdown: means over tables, and leads over the reference with their 95 % interval."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.stats import t

from practice_parts.recipes import RECIPES
from practice_parts.rivals import CLASSES as CLASS_RIVALS
from practice_parts.rivals import REGRESSION as REGRESSION_RIVALS
from practice_parts.tables import CLASSES, REGRESSION
from practice_parts.whole_rivals import REGRESSION as WHOLE

OURS = (
    "rue, nothing stated",
    "rue, validation rows given",
    "rue, penalty stated",
    "rue, nothing retrained",
    "rue, refits allowed",
)
ORDER = {REGRESSION: [*OURS, *REGRESSION_RIVALS, *WHOLE], CLASSES: [*OURS, *CLASS_RIVALS]}
Column = Callable[[pd.DataFrame], str]


def markdown(tables: pd.DataFrame, half: str, kind: str) -> str:
    """One block for each recipe and number of training rows."""
    found = tables[(tables["half"] == half) & (tables["kind"] == kind)]
    blocks = [
        block(found[(found["recipe"] == recipe) & (found["n"] == n)], kind, f"{recipe}, n = {n}")
        for recipe in RECIPES
        for n in sorted(found["n"].unique())
        if ((found["recipe"] == recipe) & (found["n"] == n)).any()
    ]
    return "\n".join(blocks)


def block(found: pd.DataFrame, kind: str, title: str) -> str:
    columns = COLUMNS[kind]
    lines = [
        f"**{title}** (tables: {found['table'].nunique()}, splits: {found['splits'].max()})\n",
        "| | " + " | ".join(columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for audit in ORDER[kind]:
        own = found[found["audit"] == audit]
        if len(own):
            lines.append(f"| {audit}{_failed(own)} | " + " | ".join(made(own) for made in columns.values()) + " |")
    return "\n".join(lines) + "\n"


def _failed(own: pd.DataFrame) -> str:
    failed, cells = own["failed"].sum(), own["splits"].sum()
    return f" ({failed} of {cells} failed)" if failed else ""


def _mean(name: str, digits: int = 3) -> Column:
    return lambda own: _shown(own[name].mean(), digits)


def _lowest(name: str) -> Column:
    return lambda own: _shown(own[name].min(), 3)


def _range(name: str) -> Column:
    def made(own: pd.DataFrame) -> str:
        if own[name].isna().all():
            return ""
        middle, low, high = (_shown(value, 2) for value in own[name].quantile([0.5, 0, 1]))
        return f"{middle} ({low} to {high})"

    return made


def _lead(name: str) -> Column:
    def made(own: pd.DataFrame) -> str:
        leads = own[name].dropna()
        if len(leads) < 2 or not leads.any():
            return ""
        reach = float(t.ppf(0.975, len(leads) - 1)) * leads.std() / len(leads) ** 0.5
        return f"{_shown(leads.mean(), 3, '+')} ± {_shown(reach, 3)}"

    return made


def _shown(value: float, digits: int, sign: str = "") -> str:
    if np.isnan(value):
        return ""
    return f"{value:{sign}.{digits}f}" if abs(value) < 1e4 else f"{value:{sign}.1e}"


COLUMNS: dict[str, dict[str, Column]] = {
    REGRESSION: {
        "coverage": _mean("coverage"),
        "of the worst table": _lowest("coverage"),
        "NLL": _mean("nll"),
        "NLL less the forest's": _lead("nll_lead"),
        "AUC": _mean("auc"),
        "AUC above the forest's": _lead("auc_lead"),
        "width": _mean("width", 2),
        "std / RMSE": _range("std_ratio"),
        "RMSE": _mean("rmse"),
        "trainings": _mean("trainings", 0),
        "seconds": _mean("seconds", 1),
    },
    CLASSES: {
        "NLL": _mean("nll"),
        "NLL less the temperature's": _lead("nll_lead"),
        "score against error rate": _mean("gap"),
        "AUC": _mean("auc"),
        "AUC above the temperature's": _lead("auc_lead"),
        "accuracy": _mean("accuracy"),
        "trainings": _mean("trainings", 0),
        "seconds": _mean("seconds", 1),
    },
}
