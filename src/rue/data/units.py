"""The weight of every training row, and the unit it is resampled with."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rue.core.errors import DataError, ShapeError


def weights(weight: Any, n: int) -> Tensor:
    """One number for each row (n,), as the user gave them or one."""
    if weight is None:
        return torch.ones(n, dtype=torch.float64)
    try:
        values = torch.from_numpy(
            np.array(weight.detach().cpu().numpy() if isinstance(weight, Tensor) else weight, np.float64)
        )
    except (TypeError, ValueError) as error:
        raise DataError(f"weight must be one number per row ({error}); give an array of numbers") from error
    if tuple(values.shape) != (n,):
        raise ShapeError(f"weight has shape {tuple(values.shape)}, expected one number per row ({n},)")
    if not bool(torch.isfinite(values).all()) or bool((values < 0).any()):
        raise DataError("example weights must be finite and at least zero")
    return values


def resampling_units(group: Any, n: int, ids: Tensor) -> tuple[Tensor, int]:
    """The unit of each row that was read, and their number: its group, else the row's number, also if read twice."""
    if group is None:
        numbers, unit = torch.unique(ids, return_inverse=True)
        return unit, len(numbers)
    from pandas import factorize  # distinguishes 1 from "1", and recognises every kind of missing label

    codes, present = factorize(_group_labels(group, n)[ids])
    if (codes < 0).any():
        raise DataError("group has missing labels; give every row a group, its own if it has none")
    if len(present) < 2:
        raise DataError(f"all rows belong to one group ({present[0]}); resampling needs at least two groups")
    return torch.as_tensor(codes), len(present)


def _group_labels(group: Any, n: int) -> Any:
    labels = np.asarray(group)
    if labels.shape != (n,):
        raise ShapeError(f"group has shape {labels.shape}, expected one label per row ({n},)")
    return labels
