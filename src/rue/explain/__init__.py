"""Why a prediction is uncertain: which training rows, and whether they are too few or fitted badly."""

from rue.explain.explanation import Explanation, Explanations

__all__ = ["Explanation", "Explanations"]
