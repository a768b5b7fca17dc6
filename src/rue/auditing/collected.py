"""Collects the results of all batches of an audit."""

import warnings

import numpy as np
from torch import Tensor

from rue.auditing.assessment import Assessment
from rue.auditing.spread import Calibrated, Spread
from rue.core.arrays import Array
from rue.core.errors import RueWarning

DRIFT = 0.5  # distance of the members' mean from the prediction, in their std beyond sampling error, that is too large
ROUNDING = 0.02  # rounding error of a prediction, in the members' std, that is too large
SHARE = 0.1  # fraction of the audited inputs above which there is a warning
COVARIANCE_BYTES = 2**30  # size of the covariances of an audit above which only variances are kept


class Collected:
    """Each field is one array that doubles in size when it is full.

    A list of small arrays, allocated between large temporary blocks, would keep the allocator from freeing these
    blocks: memory would grow with m by far more than the results need.
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
        """The collected covariances."""
        total, scarce = self.get("total"), self.get("scarce")
        calibrated = (
            None if total is None else Calibrated(total, self.get("scarcity"), None if scarce is None else scarce > 0)
        )
        return Spread(self.get("covariance"), self.get("variance"), self.get("noise"), calibrated)

    def get(self, name: str) -> Array | None:
        """All rows of a field; None if the method does not give it."""
        return self.fields[name][: self.rows] if name in self.fields else None

    def doubts(self) -> tuple[str, ...]:
        """Warnings about sampled parameters, which are also issued, and a note about results that were dropped."""
        drift, rounding = self.get("drift"), self.get("rounding")
        texts = []
        wandered = 0.0 if drift is None else float((drift > DRIFT).mean())
        if wandered > SHARE:
            texts.append(
                f"for {wandered:.0%} of these inputs the mean of the members' predictions lies more than {DRIFT} of "
                "their standard deviation away from the model's own: the sampled parameters move too far; use a "
                "linearised method or a larger damping"
            )
        rounded = 0.0 if rounding is None else float((rounding > ROUNDING).mean())
        if rounded > SHARE:
            texts.append(
                f"for {rounded:.0%} of these inputs the members differ by little more than the rounding of the model's "
                "dtype; standardise the targets, give a float64 copy of the model, or use a linearised method"
            )
        for text in texts:
            warnings.warn(text, RueWarning, stacklevel=3)
        return tuple(texts) if self.dropped is None else (*texts, self.dropped)
