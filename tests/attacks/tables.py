"""Tables to audit that are not those of training: columns, categories, missing values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from attacks.attack import Attack, Refused, Right
from attacks.kinds import BUILT, sound, trained
from rue.core.errors import RueError


def _same(kind: str) -> Right:
    def check(audit: Any) -> None:
        np.testing.assert_array_equal(audit.prediction, sound(kind).prediction)
        np.testing.assert_array_equal(audit.score, sound(kind).score)

    return Right("the audit of the same rows in the order of training", check)


def _one_word(X: pd.DataFrame) -> pd.DataFrame:
    return X.assign(dose=X.dose.astype(object).where(np.arange(len(X)) != 3, "high"))


CHANGED: dict[str, tuple[Callable[[pd.DataFrame], Any], str | None]] = {
    "its columns stand in another order": (lambda X: X[X.columns[::-1]], None),
    "its index is a shuffled one": (lambda X: X.set_index(np.arange(len(X))[::-1] + 7), None),
    "it is cut out of a longer one": (lambda X: pd.concat([X, X])[: len(X)], None),
    "a column is missing": (lambda X: X.drop(columns="dose"), "dose|columns"),
    "a column is renamed": (lambda X: X.rename(columns={"dose": "doses"}), "dose"),
    "a column is there twice": (lambda X: pd.concat([X, X[["dose"]]], axis=1), "dose"),
    "a column holds a word": (_one_word, "dose|high|number"),
    "a column holds dates": (lambda X: X.assign(dose=pd.Timestamp("2026-01-01")), "dose|date|number"),
    "it is an array of three columns": (lambda X: X.to_numpy()[:, :3], "3|column|feature"),
    "it has no rows": (lambda X: X[:0], "row"),
    "it is a list of dictionaries": (lambda X: X.to_dict("records"), ".{20}"),
    "a column holds complex numbers": (lambda X: X.assign(dose=X.dose + 1j), "dose|complex|number"),
    "a row is infinite": (lambda X: X.assign(dose=np.where(np.arange(len(X)) == 2, np.inf, X.dose)), "infin|inf|dose"),
}


def _expected(kind: str, what: str, message: str | None) -> Refused | Right:
    if what == "a row is infinite" and kind in ("HistGradientBoosting", "LightGBM", "CatBoost"):  # these take infinity
        return Right("the score of that row, five times what it was or more", lambda audit: _doubted(audit, kind))
    return _same(kind) if message is None else Refused(RueError, f"(?i){message}")


def _doubted(audit: Any, kind: str) -> None:
    assert audit.score[2] > 5 * sound(kind).score[2]


TABLES = [
    Attack(
        f"{kind}: {what}",
        lambda kind=kind, change=change: trained(kind).audit(inputs=change(trained(kind).X_new)),
        _expected(kind, what, message),
    )
    for kind in BUILT
    for what, (change, message) in CHANGED.items()
]

SECTIONS = {"The table to audit": TABLES}
