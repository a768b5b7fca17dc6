"""Left-out predictions of the training rows, by models that were not trained on them, and the sources of these."""

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
