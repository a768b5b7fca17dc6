"""The training rows as models say that never saw them, and where those left-out predictions come from."""

from rue.left_out.evidence import Evidence, EvidenceRule
from rue.left_out.one_step import LeftOut, left_out, left_out_losses, leverage, step_without
from rue.left_out.sources import Chosen, Influence, KernelWitness, Linearised, Mixture

__all__ = [
    "Chosen",
    "Evidence",
    "EvidenceRule",
    "Influence",
    "KernelWitness",
    "LeftOut",
    "Linearised",
    "Mixture",
    "left_out",
    "left_out_losses",
    "leverage",
    "step_without",
]
