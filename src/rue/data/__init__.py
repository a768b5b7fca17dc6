"""Training rows and new inputs as models read them: batches, tokens, points to measure distances between."""

from rue.data.rows import Data

__all__ = ["Data"]
