"""Leave-one-out by influence, and what is built on it: calibrated variances, intervals, the choice of a penalty."""

from rue.calibrate.conformal import HeldOutScores
from rue.calibrate.leaving_one_out import LeaveOneOut, RefitComparison, compare_with_refits, leave_one_out
from rue.calibrate.penalty import PenaltyChoice, PenaltyTrial, choose_penalty
from rue.calibrate.tempering import Temperature, temperature

__all__ = [
    "HeldOutScores",
    "LeaveOneOut",
    "PenaltyChoice",
    "PenaltyTrial",
    "RefitComparison",
    "Temperature",
    "choose_penalty",
    "compare_with_refits",
    "leave_one_out",
    "temperature",
]
