"""What was trained: one adapter file for each library, and `wrap`, which chooses it."""

from rue.models.wrapping import adapter, best_known, predicts, wrap

__all__ = ["adapter", "best_known", "predicts", "wrap"]
