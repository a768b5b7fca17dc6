"""CV+ and jackknife+ intervals (Barber et al. 2021) from copies of the model that were trained without some rows."""

from dataclasses import dataclass, field
from math import floor
from typing import Any

import numpy as np

from rue.calibrate.conformal import percent
from rue.calibrate.jackknife_plus import jackknife_plus
from rue.calibrate.left_out.evidence import Evidence
from rue.calibrate.left_out.refits import Refits
from rue.core.arrays import Array
from rue.core.guarantee import Guarantee
from rue.core.stored import storable

BLOCK = 2**22  # pairs of a new and a training row in memory at once


@storable
@dataclass(frozen=True)
class CVPlus:
    """The copies, and the absolute errors of their predictions for the rows they were not trained on."""

    refits: Refits
    residual: Array = field(repr=False)  # (n, k), absolute

    @property
    def name(self) -> str:
        """The name of the method: jackknife+ if every copy leaves out one row, else CV+."""
        return "jackknife+" if len(self.refits.copies) == len(self.residual) else "CV+"

    def ends(self, inputs: Any, level: float) -> tuple[Array, Array]:
        """Lower and upper ends (m, k) for raw inputs."""
        predictions = self.refits.at(inputs).numpy()  # (copies, m, k)
        _, m, k = predictions.shape
        size = max(1, BLOCK // len(self.residual))
        ends = np.empty((2, m, k))
        for start in range(0, m, size):
            rows = slice(start, min(start + size, m))
            spread = np.ones(rows.stop - start)
            for j in range(k):
                moved = predictions[self.refits.fold, rows, j].T
                ends[:, rows, j] = jackknife_plus(moved, self.residual[:, j], spread, level)
        return ends[0], ends[1]

    def guarantee(self, level: float) -> Guarantee:
        """The guarantee of these intervals."""
        n, copies = len(self.residual), len(self.refits.copies)
        least = least_coverage(level, n, copies)
        promised = f"guaranteed at least {_floored(least)}" if least > 0 else "nothing is guaranteed"
        words = (
            f"{promised}, usually {percent(level)} or more, marginal over training and new rows, for "
            f"exchangeable data ({self.name} of {copies} copies, n = {n} training rows), if the model's settings were "
            "not chosen by these rows; equally wide, nearly, for every row"
        )
        return Guarantee(words, "guaranteed" if least > 0 else "approximate")


def cv_plus(evidence: Evidence) -> CVPlus | None:
    """Intervals from copies; None without copies, or if groups or unequal weights make errors not exchangeable."""
    rows = evidence.rows
    alike = rows.units == rows.n and bool((rows.weight == rows.weight[0]).all())
    if evidence.refits is None or not alike:
        return None
    return CVPlus(evidence.refits, np.abs(evidence.slope.numpy()))


def least_coverage(level: float, n: int, folds: int) -> float:
    """The guaranteed coverage 1 − 2α, less the cost of leaving rows out together (theorem 4 of Barber et al. 2021).

    >>> round(least_coverage(0.9, n=100, folds=100), 3), round(least_coverage(0.9, n=1000, folds=10), 3)
    (0.8, 0.782)
    """
    together = n / folds
    cost = min(2 * (1 - 1 / folds) / (together + 1), (1 - folds / n) / (folds + 1))
    return 2 * level - 1 - cost


def _floored(share: float) -> str:
    return f"{floor(1000 * share) / 10:g} %"
