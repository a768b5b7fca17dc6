"""Spread: the covariances of an audit, with resampling and noise kept apart."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array


@dataclass(frozen=True)
class Calibrated:
    """Results of calibrated methods: the total, with weights fitted to left-out rows, and its part by missing data."""

    total: Array = field(repr=False)  # (m, k, k)
    scarcity: Array | None = field(default=None, repr=False)  # (m, k, k)
    scarce: NDArray[np.bool_] | None = field(default=None, repr=False)  # (m,), inputs unlike the training rows


@dataclass(frozen=True)
class Spread:
    """Covariances (m, k, k) of resampling and of noise, if a method has them."""

    covariance: Array | None = field(default=None, repr=False)  # of resampling
    variance: Array | None = field(default=None, repr=False)  # (m, k), of resampling if covariances are too large
    noise: Array | None = field(default=None, repr=False)  # all other spread
    calibrated: Calibrated | None = field(default=None, repr=False)
    error: Array | None = field(default=None, repr=False)  # (m, k), standard error of the deviation of resampling

    @property
    def total(self) -> Array | None:
        """Resampling and noise together; None where the noise is not known."""
        if self.calibrated is not None:
            return self.calibrated.total
        if self.noise is None:
            return None
        return self.noise if self.covariance is None else self.covariance + self.noise

    @property
    def std(self) -> Array | None:
        """The plain resampling deviation, (m,) or (m, k)."""
        if self.covariance is None and self.variance is not None:
            return np.sqrt(self.variance.clip(min=0))
        return deviation(self.covariance)

    @property
    def std_error(self) -> Array | None:
        """The standard error of `std`, (m,) or (m, k); None where that is in closed form or its error is not known."""
        return self.error[:, 0] if self.error is not None and self.error.shape[1] == 1 else self.error

    @property
    def axes(self) -> dict[str, Array] | None:
        """Three deviations whose squares sum to the total's; None for methods that do not separate them."""
        calibrated = self.calibrated
        if calibrated is None or calibrated.scarcity is None or self.noise is None:
            return None
        parts = {
            "noise and local misfit": self.noise - calibrated.scarcity,
            "resampling": calibrated.total - self.noise,
            "scarcity": calibrated.scarcity,
        }
        return {name: np.asarray(deviation(part)) for name, part in parts.items()}

    def times(self, factor: float) -> "Spread":
        """The spread with every predictive variance multiplied by a number; the resampling covariance stays."""
        total = self.total
        if total is None or self.noise is None:
            return self
        before = self.calibrated or Calibrated(total)
        scarcity = None if before.scarcity is None else factor * before.scarcity
        scaled = Calibrated(factor * total, scarcity, before.scarce)
        return Spread(self.covariance, self.variance, factor * self.noise, scaled, self.error)

    def along(self, slope: Array) -> "Spread":
        """The spread of predictions with derivatives `slope` (m, k) by the outputs: the delta method."""
        before = self.calibrated
        both = slope[:, :, None] * slope[:, None, :]

        def moved(covariance: Array | None) -> Array | None:
            return None if covariance is None else covariance * both

        return Spread(
            moved(self.covariance),
            None if self.variance is None else self.variance * slope**2,
            moved(self.noise),
            None if before is None else Calibrated(before.total * both, moved(before.scarcity), before.scarce),
            None if self.error is None else self.error * np.abs(slope),
        )


def deviation(covariance: Array | None) -> Array | None:
    """Standard deviations (m,), or (m, k) of several outputs."""
    if covariance is None:
        return None
    spread = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2).clip(min=0))
    return spread[:, 0] if spread.shape[1] == 1 else spread
