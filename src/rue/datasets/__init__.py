"""Data sets by name, for the paper's experiments and for trying things out."""

from rue.datasets.dataset import Dataset
from rue.datasets.simulated import simulated

__all__ = ["Dataset", "simulated"]
