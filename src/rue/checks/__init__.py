"""Is this model fit for this audit? One file for each check, listed in `CHECKS`."""

from rue.checks.check import Check, CheckUp

__all__ = ["Check", "CheckUp"]
