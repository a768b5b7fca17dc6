"""CV+ (Barber, Candès, Ramdas & Tibshirani 2021, section 3), with absolute residuals."""

import numpy as np

from practice_parts.metrics import LEVEL


def intervals(
    left_out: np.ndarray, y: np.ndarray, fold: np.ndarray, fold_outputs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper (m,), from left-out predictions, targets and folds (n,) and the folds' predictions (folds, m)."""
    residuals = np.abs(y - left_out)[:, None]
    centres = fold_outputs[fold]  # (n, m): for every training row, what the model that did not see it predicts
    rows = len(y)
    low, high = int(np.floor((1 - LEVEL) * (rows + 1))), int(np.ceil(LEVEL * (rows + 1)))
    lower = np.sort(centres - residuals, axis=0)[low - 1]
    upper = np.sort(centres + residuals, axis=0)[high - 1]
    return lower, upper
