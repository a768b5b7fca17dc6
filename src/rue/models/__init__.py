"""Adapters that turn trained models of each library into `Model`, and `wrap`, which chooses the adapter."""

from rue.models.wrapping import adapter, best_known, predicts, wrap

__all__ = ["adapter", "best_known", "predicts", "wrap"]
