"""6. Audit: the frozen result, NumPy on the CPU."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rue.concepts import Facts
from rue.errors import InputError, NumericalError, SettingError, ShapeError

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]


class Interval(NamedTuple):
    """Lower and upper ends, shaped like the prediction, and what they guarantee, in words."""

    lower: Array
    upper: Array
    guarantee: str


@dataclass(frozen=True)
class Audit:
    """How far each prediction would move had the training data been a little different.

    Shapes are (m,) for one output and (m, k) for several; covariances are (m, k, k) always.
    """

    method: str
    prediction: Array = field(repr=False)
    score: Array = field(repr=False)
    covariance: Array | None = field(repr=False)
    noise_covariance: Array | None = field(repr=False)
    facts: Facts = field(repr=False)

    def __len__(self) -> int:
        return len(self.prediction)

    @property
    def std(self) -> Array | None:
        """The plain resampling standard deviation; None for methods without one."""
        return self._deviation(self.covariance)

    @property
    def noise_std(self) -> Array | None:
        """Everything in the predictive spread that is not resampling: the noise of the training residuals."""
        return self._deviation(self.noise_covariance)

    @property
    def total_std(self) -> Array | None:
        """Resampling and noise together; None where the noise is not known."""
        return self._deviation(self.total_covariance)

    @property
    def total_covariance(self) -> Array | None:
        """Resampling and noise together: (m, k, k)."""
        if self.noise_covariance is None:
            return None
        return self.noise_covariance if self.covariance is None else self.covariance + self.noise_covariance

    def interval(self, level: float = 0.9) -> Interval:
        """Central interval of the Gaussian predictive distribution, output by output."""
        from scipy.stats import norm

        if not 0 < level < 1:
            raise SettingError(f"level must lie between 0 and 1, such as 0.9, got {level}")
        reach = float(norm.ppf(0.5 + level / 2)) * self._needed_spread()
        said = (
            f"none: nominal {level:.0%} if errors are Gaussian with the audit's total_std; not checked on held-out rows"
        )
        return Interval(self.prediction - reach, self.prediction + reach, said)

    def log_prob(self, y: ArrayLike) -> Array:
        """Log density of targets under the Gaussian predictive distribution, joint over outputs: (m,)."""
        self._needed_spread()
        errors = self._errors(y)
        try:
            factor = np.linalg.cholesky(np.asarray(self.total_covariance))
        except np.linalg.LinAlgError as error:
            raise NumericalError(
                "the predictive covariance of some rows is singular, so there is no density: the residuals behind it "
                "are zero, or fewer neighbours than outputs; use a method with a variance, or more neighbours"
            ) from error
        white = np.linalg.solve(factor, errors[..., None])[..., 0]
        volume = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(1)
        return np.asarray(-0.5 * (white**2).sum(1) - volume - 0.5 * errors.shape[1] * np.log(2 * np.pi))

    def to_frame(self) -> "pd.DataFrame":
        """One row per prediction, the least reliable having the highest score."""
        import pandas as pd

        columns: dict[str, Any] = {}
        named = {
            "prediction": self.prediction,
            "std": self.std,
            "noise_std": self.noise_std,
            "total_std": self.total_std,
        }
        for name, values in named.items():
            if values is not None and values.ndim == 1:
                columns[name] = values
            elif values is not None:
                columns.update({f"{name}_{j}": values[:, j] for j in range(values.shape[1])})
        columns["score"] = self.score
        columns["percentile"] = 100 * pd.Series(self.score).rank(pct=True).to_numpy()
        return pd.DataFrame(columns)

    def _deviation(self, covariance: Array | None) -> Array | None:
        if covariance is None:
            return None
        spread = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        return spread[:, 0] if self.prediction.ndim == 1 else spread

    def _needed_spread(self) -> Array:
        total = self.total_std
        if total is None:
            why = (
                f"{self.method} ranks predictions only"
                if self.covariance is None
                else "the loss is a callable with no known noise"
            )
            raise InputError(
                f'there is no predictive distribution: {why}; use loss="squared_error" and a method with a variance'
            )
        return total

    def _errors(self, y: ArrayLike) -> Array:
        """Targets minus predictions, (m, k)."""
        targets = np.asarray(y, dtype=np.float64)
        if self.prediction.ndim == 1 and targets.shape == (len(self), 1):
            targets = targets[:, 0]
        if targets.shape != self.prediction.shape:
            raise ShapeError(
                f"targets have shape {targets.shape}, the predictions {self.prediction.shape}; they must agree"
            )
        return (targets - self.prediction).reshape(len(self), -1)
