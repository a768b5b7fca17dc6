"""Explains why a prediction is uncertain: which training rows decide, and whether they are few or fitted badly."""

from rue.explain.explanation import Explanation, Explanations

__all__ = ["Explanation", "Explanations"]
