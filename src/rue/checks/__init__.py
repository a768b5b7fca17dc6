"""Is this model fit for this audit? One file for each check, listed in `CHECKS` of `check_up.py`."""

from rue.checks.check import Check, CheckUp

__all__ = ["Check", "CheckUp"]
