"""What a library noted of the rows that its first tree was grown on, by which stated weights can be compared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rue.core.arrays import Array


@dataclass(frozen=True)
class Noted:
    """Sums over the rows in each leaf of the first tree, and what the base is."""

    sums: Array | None = field(default=None, repr=False)  # (leaves,), of weight × curvature of the loss at the base
    perhaps_a_part: bool = False  # the tree may have seen some rows only, so that sums may be smaller than those of all
    centred: bool = False  # the base is the mean of all targets, by weight


def sums_noted(tree: Mapping[str, Any], name: str, is_leaf: Any = slice(None), part: bool = False) -> Noted | None:
    """The sums that stand under a name of a stored tree; None where an older or a smaller file lacks them."""
    try:
        sums = np.asarray(tree[name], dtype=np.float64)[is_leaf]
    except (KeyError, IndexError, ValueError, TypeError):
        return None
    usable = len(sums) > 1 and bool(np.isfinite(sums).all() and (sums >= 0).all() and sums.any())
    return Noted(sums, part) if usable else None
