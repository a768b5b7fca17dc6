"""What a recipe makes of rows."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Trained:
    """A network or an estimator, and the rows it was fitted to and stopped on."""

    net: Any
    fit_rows: np.ndarray
    stop_rows: np.ndarray
    statement: dict[str, Any]  # keywords of rue.audit that say what was minimised
    facts: dict[str, float] = field(default_factory=dict)
