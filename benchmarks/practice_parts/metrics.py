"""What an audit is worth on the test rows: numbers of one cell."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.metrics import roc_auc_score

LEVEL = 0.9
LARGE = 0.2  # the share of errors that is called large


@dataclass(frozen=True)
class Spread:
    """What an auditor says of m predictions: a score, and where it has them std, log density and interval."""

    score: np.ndarray
    std: np.ndarray | None
    log_density: np.ndarray | None
    lower: np.ndarray
    upper: np.ndarray


def of_regression(spread: Spread, prediction: np.ndarray, y: np.ndarray) -> dict[str, float | None]:
    errors = np.abs(y - prediction)
    std, density = spread.std, spread.log_density
    return {
        "nll": None if density is None else float(-density.mean()),
        "auc": auc(errors >= np.quantile(errors, 1 - LARGE), spread.score),
        "coverage": float(((spread.lower <= y) & (y <= spread.upper)).mean()),
        "width": float((spread.upper - spread.lower).mean()),
        "std_ratio": None if std is None else float(np.sqrt((std**2).mean() / (errors**2).mean())),
    }


def of_classes(score: np.ndarray, probability: np.ndarray, label: np.ndarray, y: np.ndarray) -> dict[str, float | None]:
    wrong = label != y
    return {
        "nll": float(-np.log(np.maximum(probability[np.arange(len(y)), y], np.finfo(float).tiny)).mean()),
        "auc": auc(wrong, score),
        "gap": float(abs(score.mean() - wrong.mean())),
        "accuracy": float(1 - wrong.mean()),
    }


def rmse(prediction: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(((y - prediction) ** 2).mean()))


def auc(found: np.ndarray, score: np.ndarray) -> float | None:
    """None where there is nothing to find, or nothing else."""
    return None if found.all() or not found.any() else float(roc_auc_score(found, score))


def nll_of_logits(logits: np.ndarray, y: np.ndarray) -> float:
    return float(-log_softmax(logits, axis=1)[np.arange(len(y)), y].mean())


def probabilities(logits: np.ndarray) -> np.ndarray:
    return softmax(logits, axis=1)
