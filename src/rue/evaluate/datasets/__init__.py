"""Data sets by name, for the paper's experiments and for trying things out."""

from rue.evaluate.datasets.catalogue import NAMES
from rue.evaluate.datasets.dataset import Dataset
from rue.evaluate.datasets.embedded import diabetes, digits
from rue.evaluate.datasets.paper import load
from rue.evaluate.datasets.simulated import simulated
from rue.evaluate.datasets.splits import Split, gap_split, standard_splits, tail_split

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
