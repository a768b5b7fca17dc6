"""TieredDecision: the tier of each audited prediction, and the loss to expect from those accepted."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rue.core.arrays import Array
from rue.core.equality import same
from rue.core.stored import storable

if TYPE_CHECKING:
    import pandas as pd

    from rue.policy.policy import Policy

TIERS = ("accept", "review", "refuse")


@storable
@dataclass(frozen=True)
class TieredDecision:
    """What a policy decided: tier (m,) is "accept", "review" or "refuse"."""

    tier: NDArray[np.str_] = field(repr=False)
    score: Array = field(repr=False)
    prediction: Array = field(repr=False)
    scarce: NDArray[np.bool_] = field(repr=False)
    policy: "Policy"

    def __len__(self) -> int:
        return len(self.tier)

    def __eq__(self, other: object) -> bool:
        """Whether all numbers are the same."""
        return isinstance(other, TieredDecision) and same(self._compared, other._compared)

    __hash__ = None  # type: ignore[assignment]  # arrays can be changed

    @property
    def counts(self) -> dict[str, int]:
        """How many of the m predictions are in each tier."""
        return {tier: int((self.tier == tier).sum()) for tier in TIERS}

    @property
    def expected_loss(self) -> float | None:
        """Summed loss to expect from the accepted rows, at the rate measured on held-out rows; None if not measured."""
        if self.counts["accept"] == 0:
            return 0.0
        rate = self.policy.error_rate
        return None if rate is None else self.counts["accept"] * rate.value

    @property
    def expected_cost(self) -> float | None:
        """Summed cost to expect of all m rows; a refusal costs a review. None for a policy without prices."""
        cost, loss = self.policy.cost, self.expected_loss
        if cost is None or loss is None:
            return None
        return cost.prices.error * loss + cost.prices.review * (len(self) - self.counts["accept"])

    @property
    def _compared(self) -> tuple[Any, ...]:
        return self.tier, self.score, self.prediction, self.scarce, self.policy

    def to_frame(self) -> "pd.DataFrame":
        """One row per prediction."""
        import pandas as pd

        outputs = self.prediction.reshape(len(self), -1)
        names = ["prediction"] if self.prediction.ndim == 1 else [f"prediction_{j}" for j in range(outputs.shape[1])]
        return pd.DataFrame(dict(zip(names, outputs.T, strict=True)) | {"score": self.score, "tier": self.tier})

    def __str__(self) -> str:
        counts, policy = self.counts, self.policy
        lines = [
            f"Of {len(self)} predictions {counts['accept']} can be accepted, {counts['review']} are for review and "
            f"{counts['refuse']} are refused."
        ]
        if counts["refuse"]:
            scarce, beyond = int(self.scarce.sum()), int(((self.score > policy.limit) & ~self.scarce).sum())
            lines.append(
                f"Refused: {scarce} marked scarce by the audit, and {beyond} with a score above those of all "
                f"{policy.n} held-out rows, where nothing was measured."
            )
        if counts["accept"] and policy.error_rate is not None:
            value, low, high, n, guarantee = policy.error_rate
            lines.append(
                f"Expect of the {counts['accept']} a summed loss ({policy.loss}) of about {self.expected_loss:.3g}: "
                f"{value:.3g} each, as on {n} held-out rows ({low:.3g} to {high:.3g}, {guarantee})."
            )
        if self.expected_cost is not None:
            lines.append(f"Expect a cost of about {self.expected_cost:.4g} for all {len(self)}.")
        return "\n".join(lines)
