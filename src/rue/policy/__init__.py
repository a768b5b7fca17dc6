"""A reject option: which predictions to accept, which to review and which to refuse, and what that costs."""

from rue.policy.chow import Cost, Prices
from rue.policy.decision import TieredDecision as Decision
from rue.policy.held_out import Scored
from rue.policy.losses import BoundedLoss as Loss
from rue.policy.losses import Clipped, Exceeds, Wrong
from rue.policy.policy import Estimate, Policy

__all__ = ["Clipped", "Cost", "Decision", "Estimate", "Exceeds", "Loss", "Policy", "Prices", "Scored", "Wrong"]
