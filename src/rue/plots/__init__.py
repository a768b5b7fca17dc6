"""Figures: each function returns a Matplotlib figure.

Matplotlib neither shows nor keeps it: `figure.savefig("name.png")` writes it, and a notebook shows it by itself.
"""

from rue.plots.coverage import calibration, coverage_by_tercile
from rue.plots.feature import score_along
from rue.plots.influence import influence_map
from rue.plots.kernels import kernel
from rue.plots.members import members_spread
from rue.plots.ranking import auc_against_tolerance, error_after_deferral, spread_and_error
from rue.plots.style import COLOURS, STYLES

__all__ = [
    "COLOURS",
    "STYLES",
    "auc_against_tolerance",
    "calibration",
    "coverage_by_tercile",
    "error_after_deferral",
    "influence_map",
    "kernel",
    "members_spread",
    "score_along",
    "spread_and_error",
]
