"""Training rows and new inputs as models read them: batches, tokens, and points for distances."""

from rue.data.rows import Data

__all__ = ["Data"]
