"""The results of all batches of an audit so far."""

import warnings

import numpy as np
from torch import Tensor

from rue.auditing.assessment import Assessment
from rue.auditing.spread import Calibrated, Spread
from rue.core.arrays import Array
from rue.core.errors import RueWarning

DRIFT = 0.5  # members' mean away from the prediction by this much of their own std, beyond sampling error
ROUNDING = 0.02  # rounding error of a prediction by this much of the members' std
SHARE = 0.1  # of the audited inputs that makes a warning
COVARIANCE_BYTES = 2**30  # of the covariances of an audit, above which only variances are kept


class Collected:
    """Each field one array that doubles when it is full.

    A list of small pieces, made between large temporary blocks, would keep the allocator from giving those back:
    memory would grow with m by far more than the results.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.residual: float | None = None
        self.fields: dict[str, Array] = {}
        self.dropped: str | None = None

    def add(self, part: Assessment) -> None:
        """Copy a batch's results to the CPU."""
        end = self.rows + len(part.prediction)
        if part.residual is not None:
            self.residual = max(self.residual or 0.0, part.residual)
        arrays = dict(part.arrays())
        if part.covariance is not None and not self._keeps(part.covariance, end):
            arrays["variance"] = arrays.pop("covariance").diagonal(dim1=1, dim2=2)
        for name, value in arrays.items():
            room = self.fields.get(name, np.empty((0, *value.shape[1:])))
            if len(room) < end:
                larger = np.empty((max(end, 2 * len(room)), *value.shape[1:]))
                larger[: self.rows] = room[: self.rows]
                self.fields[name] = room = larger
            room[self.rows : end] = value.detach().cpu().numpy()
        self.rows = end

    def _keeps(self, covariance: Tensor, rows: int) -> bool:
        """Whether covariances (m, k, k) of so many rows are still worth their memory; else variances are kept."""
        if self.dropped is None and 8 * rows * covariance[0].numel() > COVARIANCE_BYTES:
            self.dropped = f"covariances of {covariance.shape[1]} outputs were left out for their size; std is there"
            kept = self.fields.pop("covariance", None)
            if kept is not None:
                self.fields["variance"] = np.diagonal(kept, axis1=1, axis2=2).copy()
        return self.dropped is None

    @property
    def spread(self) -> Spread:
        """Covariances as they were assessed."""
        total, scarce = self.get("total"), self.get("scarce")
        calibrated = (
            None if total is None else Calibrated(total, self.get("scarcity"), None if scarce is None else scarce > 0)
        )
        return Spread(self.get("covariance"), self.get("variance"), self.get("noise"), calibrated)

    def get(self, name: str) -> Array | None:
        """All rows of a field, or None where the method has no word on it."""
        return self.fields[name][: self.rows] if name in self.fields else None

    def doubts(self) -> tuple[str, ...]:
        """What sampled parameters did to predictions, which is warned of, and what was left out."""
        drift, rounding = self.get("drift"), self.get("rounding")
        said = []
        wandered = 0.0 if drift is None else float((drift > DRIFT).mean())
        if wandered > SHARE:
            said.append(
                f"for {wandered:.0%} of these inputs the mean of the members' predictions lies more than {DRIFT} of "
                "their standard deviation away from the model's own: the sampled parameters move too far; use a "
                "linearised method or a larger damping"
            )
        rounded = 0.0 if rounding is None else float((rounding > ROUNDING).mean())
        if rounded > SHARE:
            said.append(
                f"for {rounded:.0%} of these inputs the members differ by little more than the rounding of the model's "
                "dtype; standardise the targets, give a float64 copy of the model, or use a linearised method"
            )
        for text in said:
            warnings.warn(text, RueWarning, stacklevel=3)
        return tuple(said) if self.dropped is None else (*said, self.dropped)
