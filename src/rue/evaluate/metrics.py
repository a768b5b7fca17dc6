"""How well scores rank errors and predictive distributions cover them, over m audited inputs (rows)."""

from math import inf, isinf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rue.core.columns import columns
from rue.core.errors import InputError, ShapeError
from rue.core.settings import check_count, check_level, is_whole


class AUCCurve(NamedTuple):
    """The AUC at each tolerance, both (t,); nan where all rows lie on one side of the tolerance."""

    tolerance: NDArray[np.float64]
    auc: NDArray[np.float64]


class RiskCoverage(NamedTuple):
    """The risk when a growing share of the rows is accepted, lowest score first; each (m,)."""

    coverage: NDArray[np.float64]
    risk: NDArray[np.float64]
    generalised_risk: NDArray[np.float64]


class Area(NamedTuple):
    """An area under a risk curve, beside that of the best possible score and the mean over random scores."""

    value: float
    oracle: float
    random: float


class Coverage(NamedTuple):
    """The share of n rows inside their interval, with its Clopper–Pearson confidence limits."""

    value: float
    low: float
    high: float
    n: int


class CalibrationCurve(NamedTuple):
    """The observed coverage of central intervals at each nominal level, both (t,)."""

    nominal: NDArray[np.float64]
    observed: NDArray[np.float64]


def auc(score: ArrayLike, error: ArrayLike, tolerance: float) -> float:
    """Area under the ROC curve of score (m,) detecting the rows of error (m,) with |error| > tolerance.

    >>> auc([1, 2, 3, 4], error=[0, 2, 0, -3], tolerance=1)
    0.75
    """
    scores, errors = columns(score=score, error=error)
    size = np.abs(errors)
    value = _detection(scores, size > tolerance)
    if np.isnan(value):
        raise InputError(
            f"{(size > tolerance).sum()} of {size.size} rows have |error| above the tolerance {tolerance:g}, "
            "expected some above and some not; "
            f"choose a tolerance inside the range of |error|, {size.min():g} to {size.max():g}"
        )
    return value


def auc_curve(score: ArrayLike, error: ArrayLike, tolerances: ArrayLike | None = None) -> AUCCurve:
    """AUC of score (m,) at each tolerance (t,), by default the 5th, 10th, ..., 95th percentiles of |error|.

    >>> auc_curve([1, 2, 3], error=[0, 1, -2], tolerances=[0.5, 5.0]).auc.tolist()
    [1.0, nan]
    """
    scores, errors = columns(score=score, error=error)
    size = np.abs(errors)
    if tolerances is None:
        tolerances = np.percentile(size, np.arange(5, 100, 5))  # the paper's range of tolerances
    (thresholds,) = columns(tolerances=tolerances)
    return AUCCurve(thresholds, np.array([_detection(scores, size > threshold) for threshold in thresholds]))


def mean_auc(score: ArrayLike, error: ArrayLike) -> float:
    """Mean of `auc_curve` over the default tolerances at which it is defined; score and error are (m,).

    >>> mean_auc([1, 2, 3], error=[0, 1, -2])
    1.0
    """
    curve = auc_curve(score, error)
    if np.isnan(curve.auc).all():
        raise InputError(
            "no percentile of |error| has rows on both sides, too many are equal to the largest, "
            f"{curve.tolerance[-1]:g}; call auc with a tolerance of your own, or pass more rows"
        )
    return float(np.nanmean(curve.auc))


def c_index(score: ArrayLike, error: ArrayLike) -> float:
    """Probability that, of two rows with different |error|, the larger error has the larger score.

    Both are (m,); a tie in the score counts one half.

    >>> c_index([1, 3, 2, 4], error=[0, 0, 1, -1])  # three of four pairs
    0.75
    """
    from scipy.stats import kendalltau

    scores, errors = columns(score=score, error=error)
    size = np.abs(errors)
    untied_score, untied_size = _untied_pairs(scores), _untied_pairs(size)
    if untied_size == 0:
        raise InputError(f"all {size.size} rows have |error| {size[0]:g}, expected at least two sizes; pass more rows")
    if untied_score == 0:
        return 0.5
    # tau-b = (P − Q) / √(untied_score · untied_size), with P concordant and Q discordant pairs
    surplus = round(float(kendalltau(scores, size).statistic) * sqrt(untied_score * untied_size))
    return 0.5 + 0.5 * surplus / untied_size


def risk_coverage(score: ArrayLike, loss: ArrayLike) -> RiskCoverage:
    """Accept rows from the lowest score (m,) up: their mean loss, and their summed loss over m.

    loss (m,) is any non-negative loss, such as |error|, its square or |error| > tolerance. Rows with the
    same score enter in random order, of which this is the expectation.

    >>> risk_coverage([1, 1, 2], loss=[0, 2, 4]).risk.tolist()
    [1.0, 1.0, 2.0]
    """
    scores, losses = columns(score=score, loss=loss)
    m = losses.size
    accepted = np.arange(1, m + 1)
    total = np.cumsum(_sorted_with_tie_means(scores, losses))
    return RiskCoverage(accepted / m, total / accepted, total / m)


def aurc(score: ArrayLike, loss: ArrayLike) -> Area:
    """Area under the risk–coverage curve of score (m,) and loss (m,): the mean of its m risks.

    >>> aurc([2, 1], loss=[0, 4])
    Area(value=3.0, oracle=1.0, random=2.0)
    """
    curve, best = risk_coverage(score, loss), risk_coverage(loss, loss)
    return Area(float(curve.risk.mean()), float(best.risk.mean()), float(curve.risk[-1]))


def augrc(score: ArrayLike, loss: ArrayLike) -> Area:
    """Area under the generalised risk–coverage curve of score (m,) and loss (m,): the mean of its m risks.

    Traub et al. (2024) join the points by trapezoids, which is smaller by loss.mean() / (2m).

    >>> augrc([2, 1], loss=[0, 4])
    Area(value=2.0, oracle=1.0, random=1.5)
    """
    curve, best = risk_coverage(score, loss), risk_coverage(loss, loss)
    random = curve.risk[-1] * curve.coverage.mean()
    return Area(float(curve.generalised_risk.mean()), float(best.generalised_risk.mean()), float(random))


def deferral(score: ArrayLike, loss: ArrayLike, fraction: float) -> float:
    """Mean loss of the rows kept when the fraction with the highest scores is deferred; both are (m,).

    round(fraction · m) rows are deferred; rows with the same score in random order, in expectation.

    >>> deferral([1, 2, 3, 4], loss=[0, 2, 4, 10], fraction=0.25)
    2.0
    """
    curve = risk_coverage(score, loss)
    m = curve.risk.size
    if not 0 <= fraction < 1 or round(fraction * m) == m:
        raise InputError(
            f"fraction is {fraction} of {m} rows, expected at least 0 and at least one row kept; "
            f"choose at most {(m - 1) / m:g}"
        )
    return float(curve.risk[m - round(fraction * m) - 1])


def nll(y: ArrayLike, mean: ArrayLike, std: ArrayLike, degrees: float = inf) -> NDArray[np.float64]:
    """Negative log density (m,) of y (m,) under distributions with mean (m,) and std (m,).

    Student-t with these degrees of freedom, above 2; infinite is Gaussian.

    >>> nll([2.0], mean=[2.0], std=[1.0]).round(6).tolist()  # ½ log 2π
    [0.918939]
    """
    from scipy.stats import norm, t

    ys, means, stds = columns(y=y, mean=mean, std=std)
    if isinf(_degrees(degrees)):
        return np.asarray(-norm.logpdf(ys, means, stds))
    return np.asarray(-t.logpdf(ys, degrees, means, stds * sqrt((degrees - 2) / degrees)))


def crps(y: ArrayLike, mean: ArrayLike, std: ArrayLike, degrees: float = inf) -> NDArray[np.float64]:
    """Continuous ranked probability score (m,) of y (m,) under distributions with mean (m,) and std (m,).

    Gneiting and Raftery (2007), with the sign that makes smaller better; Student-t with these degrees of freedom,
    above 2 (Jordan et al. 2019); infinite is Gaussian.

    >>> crps([2.0], mean=[2.0], std=[1.0]).round(6).tolist()  # (√2 − 1) / √π
    [0.233695]
    """
    from scipy.special import beta, erf
    from scipy.stats import t

    ys, means, stds = columns(y=y, mean=mean, std=std)
    if isinf(_degrees(degrees)):
        z = (ys - means) / stds
        centre = z * erf(z / sqrt(2))  # z (2Φ(z) − 1)
        peak = (sqrt(2) * np.exp(-0.5 * z**2) - 1) / sqrt(np.pi)  # 2φ(z) − 1/√π
        return np.asarray(stds * (centre + peak))
    scale = stds * sqrt((degrees - 2) / degrees)
    z = (ys - means) / scale
    centre = z * (2 * t.cdf(z, degrees) - 1)
    peak = 2 * t.pdf(z, degrees) * (degrees + z**2) / (degrees - 1)
    mean_gap = 2 * sqrt(degrees) / (degrees - 1) * beta(0.5, degrees - 0.5) / beta(0.5, degrees / 2) ** 2
    return np.asarray(scale * (centre + peak - mean_gap))


def interval_score(y: ArrayLike, lower: ArrayLike, upper: ArrayLike, level: float) -> NDArray[np.float64]:
    """Width plus the penalty for a miss (m,) of central intervals meant to hold y (m,) at the given level.

    lower and upper are (m,) and finite, as a single infinite width would hide all others; Gneiting and Raftery
    (2007), with α = 1 − level.

    >>> interval_score([3.0], lower=[0.0], upper=[2.0], level=0.5).tolist()  # 2 + (2 / 0.5) · 1
    [6.0]
    """
    check_level("level", level, InputError)
    ys, lowers, uppers = columns(y=y, lower=lower, upper=upper)
    miss: NDArray[np.float64] = np.maximum(lowers - ys, 0) + np.maximum(ys - uppers, 0)
    return uppers - lowers + 2 / (1 - level) * miss


def coverage(y: ArrayLike, lower: ArrayLike, upper: ArrayLike, confidence: float = 0.95) -> Coverage:
    """Share of y (m,) inside the closed intervals from lower (m,) to upper (m,), with its exact limits.

    An interval may have no end: lower −∞, upper ∞, or both.

    >>> inside = coverage([0, 0], lower=[-1, -1], upper=[1, 1])
    >>> inside.value, round(inside.low**2, 6), inside.high, inside.n  # two of two: low² = 0.025
    (1.0, 0.025, 1.0, 2)
    """
    from scipy.special import betaincinv

    check_level("confidence", confidence, InputError)
    ys, lowers, uppers = columns(endless=True, y=y, lower=lower, upper=upper)
    n = ys.size
    inside = int(((lowers <= ys) & (ys <= uppers)).sum())
    tail = (1 - confidence) / 2
    low = float(betaincinv(inside, n - inside + 1, tail)) if inside else 0.0
    high = float(betaincinv(inside + 1, n - inside, 1 - tail)) if inside < n else 1.0
    return Coverage(inside / n, low, high, n)


def calibration_curve(
    y: ArrayLike, mean: ArrayLike, std: ArrayLike, levels: ArrayLike | None = None, degrees: float = inf
) -> CalibrationCurve:
    """Share of y (m,) inside the central interval at each level (t,), by default 0.05, ..., 0.95.

    Student-t with these degrees of freedom, above 2; infinite is Gaussian.

    >>> calibration_curve([0.0, 3.0], mean=[0.0, 0.0], std=[1.0, 1.0], levels=[0.5, 0.999]).observed.tolist()
    [0.5, 1.0]
    """
    from scipy.special import ndtri, stdtrit

    ys, means, stds = columns(y=y, mean=mean, std=std)
    (nominal,) = columns(levels=np.arange(1, 20) / 20 if levels is None else levels)
    for level in nominal:
        check_level("levels", level, InputError)
    distance = np.sort(np.abs(ys - means) / stds)
    share = (1 + nominal) / 2
    gaussian = isinf(_degrees(degrees))
    reach = ndtri(share) if gaussian else stdtrit(degrees, share) * sqrt((degrees - 2) / degrees)
    inside = np.searchsorted(distance, reach, side="right")
    return CalibrationCurve(nominal, inside / ys.size)


def ence(error: ArrayLike, std: ArrayLike, bins: int = 10) -> float:
    """Expected normalised calibration error (Levi et al. 2022) of std (m,) for error (m,).

    The mean over equal-count bins, in the order of std, of |root mean variance − root mean squared error|
    over root mean variance. Rows with the same std share their mean squared error, so that the order in
    which they come never counts.

    >>> ence(error=[1, -1, 4, 4], std=[2, 2, 4, 4], bins=2)
    0.25
    """
    errors, stds = columns(error=error, std=std)
    if not is_whole(bins) or not 1 <= bins <= errors.size:
        raise InputError(f"bins is {bins}, expected 1 to the number of rows, {errors.size}; use fewer bins")
    variances = np.array_split(np.sort(stds) ** 2, bins)
    squares = np.array_split(_sorted_with_tie_means(stds, errors**2), bins)
    predicted = np.sqrt([part.mean() for part in variances])
    observed = np.sqrt([part.mean() for part in squares])
    return float(np.mean(np.abs(predicted - observed) / predicted))


def expected_calibration_error(probability: ArrayLike, label: ArrayLike, bins: int = 15) -> float:
    """How far confidence lies from accuracy, over bins of equal width: (m, classes) and labels (m,) -> a number.

    >>> expected_calibration_error([[0.2, 0.8], [0.2, 0.8]], [1, 0])  # 80 % sure, right half of the time
    0.3
    """
    check_count("bins", bins, "bins", InputError)
    shares, labels = np.asarray(probability, dtype=np.float64), np.asarray(label)
    if shares.ndim != 2 or labels.shape != shares.shape[:1]:
        raise ShapeError(
            f"probabilities have shape {shares.shape} and labels {labels.shape}; give (m, classes) and (m,)"
        )
    if not np.isin(labels, np.arange(shares.shape[1])).all():
        raise InputError(
            f"labels must be the whole numbers 0 to {shares.shape[1] - 1}, the columns of the probabilities"
        )
    if not ((shares >= 0).all() and np.allclose(shares.sum(axis=1), 1, atol=1e-3)):
        raise InputError("probabilities must be at least zero and sum to one in every row; take the softmax of logits")
    sure, right = shares.max(axis=1), shares.argmax(axis=1) == labels
    which = np.ceil(sure * bins)
    apart = [abs(float((sure - right)[which == bin_].sum())) for bin_ in np.unique(which)]
    return round(sum(apart) / len(labels), 12)


def _detection(score: NDArray[np.float64], failed: NDArray[np.bool_]) -> float:
    """AUC of score (m,) for failed (m,), nan when all rows are alike."""
    from sklearn.metrics import roc_auc_score

    return float("nan") if failed.all() or not failed.any() else float(roc_auc_score(failed, score))


def _untied_pairs(values: NDArray[np.float64]) -> int:
    """Count the pairs of rows whose values (m,) differ."""
    counts = np.unique(values, return_counts=True)[1]
    return (values.size**2 - int((counts**2).sum())) // 2


def _sorted_with_tie_means(key: NDArray[np.float64], value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Order value (m,) by key (m,), every row replaced by the mean over the rows with its key."""
    _, block, size = np.unique(key, return_inverse=True, return_counts=True)
    return np.repeat(np.bincount(block, weights=value) / size, size)


def _degrees(degrees: float) -> float:
    """Degrees of freedom of a distribution that has a standard deviation."""
    if not degrees > 2:
        raise InputError(
            f"degrees is {degrees:g}, expected above 2, where a Student-t distribution has a std; inf is Gaussian"
        )
    return degrees
