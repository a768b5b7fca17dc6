"""From relative sizes of errors to a density and an interval, by residuals of rows that were left out.

Sizes s(x) come from a forest, neighbours or nothing. The density is a Student-t with scale c·s(x); c and the degrees of
freedom have the highest likelihood for the residuals left out. The interval is f ± q·s(x), q the conformal rank of
|r|/s.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import norm, t

from practice_parts.metrics import LEVEL, Spread

DEGREES = (3.0, 4.0, 5.0, 7.0, 10.0, 20.0, np.inf)


@dataclass(frozen=True)
class Scale:
    factor: float
    degrees: float
    rank: float

    def spread(self, prediction: np.ndarray, sizes: np.ndarray, y: np.ndarray) -> Spread:
        """What is said of predictions (m,) with sizes (m,)."""
        scale, reach = self.factor * sizes, self.rank * sizes
        law = student(self.degrees)
        return Spread(
            score=sizes,
            std=scale * float(law.std()),
            log_density=law.logpdf((y - prediction) / scale) - np.log(scale),
            lower=prediction - reach,
            upper=prediction + reach,
        )


def fitted(residuals: np.ndarray, sizes: np.ndarray) -> Scale:
    """By residuals (n,) and the sizes (n,) that were expected without them."""
    ratios = residuals / sizes
    found = [_most_likely(ratios, degrees) for degrees in DEGREES]
    best = int(np.argmin([loss for loss, _ in found]))
    return Scale(found[best][1], DEGREES[best], conformal_rank(np.abs(ratios)))


def conformal_rank(values: np.ndarray) -> float:
    """The ⌈.9(n + 1)⌉-th smallest."""
    place = int(np.ceil(LEVEL * (len(values) + 1)))
    return float(np.sort(values)[place - 1]) if place <= len(values) else np.inf


def student(degrees: float):
    return norm() if np.isinf(degrees) else t(degrees)


def _most_likely(ratios: np.ndarray, degrees: float) -> tuple[float, float]:
    """Mean negative log likelihood, and the factor that makes it lowest."""
    law, centre = student(degrees), np.log(np.sqrt((ratios**2).mean()))
    found = minimize_scalar(
        lambda log: log - law.logpdf(ratios * np.exp(-log)).mean(), bounds=(centre - 4, centre + 2), method="bounded"
    )
    return float(found.fun), float(np.exp(found.x))
