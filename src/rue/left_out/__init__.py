"""The training rows as models say that never saw them, and where those left-out predictions come from."""

from rue.left_out.evidence import Evidence, EvidenceRule
from rue.left_out.folds import Folds
from rue.left_out.one_step import LeftOut, left_out, left_out_losses, leverage, step_without
from rue.left_out.outside import ForestWitness, Witnesses
from rue.left_out.sources import Chosen, Influence, KernelWitness, Linearised, Mixture

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
