"""Table 1: negative log likelihood of the test rows, with the published numbers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rue.evaluate import metrics as evaluate
from rue_paper.published import NLL
from rue_paper.results import Results

if TYPE_CHECKING:
    import pandas as pd

INTEGRATED = ("PBP", "MCDropout", "DeepEnsemble")
AFTER = ("RUE", "Laplace", "Bootstrap SGD")
OURS = (
    "CalibratedRUE",
    "LinearRUE",
    "Laplace, linearised",
    "Nearest neighbours, residual",
    "Error model",
    "Homoscedastic",
    "Refit bootstrap",
)
METHODS = (*INTEGRATED, *AFTER, *OURS)


def table(results: Sequence[Results]) -> "pd.DataFrame":
    """Mean over splits and its standard error, one row for each protocol, data set and method."""
    import pandas as pd

    rows = []
    for result in results:
        for method in METHODS:
            if result.has(method):
                published = NLL.get((result.name, method), (np.nan, np.nan))
                rows.append(
                    (result.protocol, result.name, method, *nll(result, method), len(result.splits), *published)
                )
    names = ["protocol", "data", "method", "nll", "error", "splits", "published", "published_error"]
    return pd.DataFrame(rows, columns=names)


def nll(result: Results, method: str) -> tuple[float, float]:
    """Mean over splits of the mean over rows, in the units of the target, and its standard error."""
    each = [
        float(evaluate.nll(error, np.zeros_like(error), spread, degrees).mean())
        for error, spread, degrees in zip(
            result.errors(method), result.each(method, "total_std"), result.degrees(method), strict=True
        )
    ]
    error = np.std(each, ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
    return float(np.mean(each)), float(error)
