"""Data sets by name, for the paper's experiments and for trying things out."""

from rue.datasets.catalogue import NAMES
from rue.datasets.dataset import Dataset
from rue.datasets.embedded import diabetes, digits
from rue.datasets.paper import load
from rue.datasets.simulated import simulated
from rue.datasets.splits import Split, gap_split, standard_splits, tail_split

__all__ = [
    "NAMES",
    "Dataset",
    "Split",
    "diabetes",
    "digits",
    "gap_split",
    "load",
    "simulated",
    "standard_splits",
    "tail_split",
]
