"""A reject option: which predictions to accept, which to review and which to refuse, and what that costs."""

from rue.policy.chow import Cost, Prices
from rue.policy.decision import Decision
from rue.policy.held_out import Scored
from rue.policy.losses import Clipped, Exceeds, Loss, Wrong
from rue.policy.policy import Estimate, Policy

__all__ = ["Clipped", "Cost", "Decision", "Estimate", "Exceeds", "Loss", "Policy", "Prices", "Scored", "Wrong"]
