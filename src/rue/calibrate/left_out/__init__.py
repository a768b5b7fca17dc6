"""The training rows as models say that never saw them, and where those left-out predictions come from."""

from rue.calibrate.left_out.evidence import Evidence, EvidenceRule
from rue.calibrate.left_out.folds import Folds
from rue.calibrate.left_out.outside import ForestWitness, Witnesses
from rue.calibrate.left_out.sources import Chosen, Influence, KernelWitness, Linearised, Mixture
from rue.core.one_step import LeftOut, left_out, left_out_losses, leverage, step_without

__all__ = [
    "Chosen",
    "Evidence",
    "EvidenceRule",
    "Folds",
    "ForestWitness",
    "Influence",
    "KernelWitness",
    "LeftOut",
    "Linearised",
    "Mixture",
    "Witnesses",
    "left_out",
    "left_out_losses",
    "leverage",
    "step_without",
]
