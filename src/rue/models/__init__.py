"""Adapters that turn trained models of each library into `Model`, and `wrap`, which chooses the adapter."""

from rue.models.model_file import open_model
from rue.models.wrapping import adapter, best_known, predicts, wrap

__all__ = ["adapter", "best_known", "open_model", "predicts", "wrap"]
