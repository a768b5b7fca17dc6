"""6. Audit: the frozen result, NumPy on the CPU."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf, isinf, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from rue.calibrate.variance import negative_log_density
from rue.core.arrays import Array, Labels
from rue.core.classify import decided, probability, sampled
from rue.core.concepts import Decision, Facts
from rue.core.errors import InputError, NumericalError, SettingError, ShapeError
from rue.core.guarantee import Guarantee
from rue.core.randomness import generator
from rue.explain.explanation import Explanation, Explanations
from rue.models.labels import label_codes

if TYPE_CHECKING:
    import pandas as pd


class Interval(NamedTuple):
    """Lower and upper ends, shaped like the prediction, and what they guarantee, in words."""

    lower: Array
    upper: Array
    guarantee: Guarantee


class PredictionSet(NamedTuple):
    """Which classes are in the set of each row (m, classes), and what that guarantees, in words."""

    members: NDArray[np.bool_]
    guarantee: Guarantee


SetRule = Callable[[Array, float, Labels | None], PredictionSet]
"""From probabilities (m, classes), a level and perhaps the groups of the rows (m,)."""

IntervalRule = Callable[[Array, Array, float, Labels | None], Interval]
"""From prediction and spread (m, k), a level and perhaps the groups of the rows (m,)."""


@dataclass(frozen=True)
class Audit:
    """How far each prediction would move had the training data been a little different.

    Shapes are (m,) for one output and (m, k) for several; covariances are (m, k, k) always.
    """

    method: str
    prediction: Array = field(repr=False)
    score: Array = field(repr=False)
    covariance: Array | None = field(repr=False)
    noise_covariance: Array | None = field(repr=False)
    facts: Facts = field(repr=False)
    calibrated_covariance: Array | None = field(default=None, repr=False)  # where resampling is weighed: the total
    scarcity_covariance: Array | None = field(default=None, repr=False)  # the part of the noise due to missing data
    scarce: NDArray[np.bool_] | None = field(default=None, repr=False)  # (m,), inputs unlike the training rows
    outputs: Array | None = field(default=None, repr=False)  # (m, k), of the model, where predictions are made of them
    decision: Decision | None = None  # how the outputs decide, where they are logits
    classes: Labels | None = field(default=None, repr=False)  # the names of the classes, where the model has them
    probability: Array | None = field(default=None, repr=False)  # (m, classes), averaged over the resampled models
    flip_probability: Array | None = field(
        default=None, repr=False
    )  # (m,), that another training set decides otherwise
    epistemic: Array | None = field(default=None, repr=False)  # (m,), nats of uncertainty due to the training set
    variance: Array | None = field(default=None, repr=False)  # (m, k), of resampling, where covariances are too many
    degrees: float = inf  # of freedom of the predictive Student-t distribution; infinite is Gaussian
    log_density: Callable[[ArrayLike], Array] | None = field(default=None, repr=False)  # where targets are transformed
    sets: SetRule | None = field(default=None, repr=False)  # of classes, where rows were held out
    rules: Mapping[str, IntervalRule] = field(default_factory=dict, repr=False)  # of intervals, strongest first
    explainer: Callable[..., Explanation | Explanations] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.prediction)

    @property
    def std(self) -> Array | None:
        """The plain resampling standard deviation, of the logits for classifiers; None for methods without one."""
        if self.covariance is None and self.variance is not None:
            return np.sqrt(self.variance.clip(min=0))
        return self._deviation(self.covariance)

    @property
    def label(self) -> Labels | None:
        """The predicted class of each row, by name where the model has names; None where outputs are no logits."""
        if self.decision is None or self.outputs is None:
            return None
        found = decided(self.decision, torch.from_numpy(self.outputs)).numpy()
        return found if self.classes is None else self.classes[found]

    @property
    def own_probability(self) -> Array | None:
        """What the model itself says, (m, classes), before anything is averaged; None where outputs are no logits."""
        if self.decision is None or self.outputs is None:
            return None
        return np.asarray(probability(self.decision, torch.from_numpy(self.outputs)).numpy())

    def sampled_probability(self, members: int = 1000, seed: int = 0) -> Array:
        """As `probability`, by drawing logits from their resampling distribution instead of the closed form."""
        if self.decision is None or self.outputs is None or self.covariance is None:
            raise InputError("there are no logits with a covariance to draw from; use LinearRUE on a classifier")
        drawn = torch.from_numpy(self.outputs), torch.from_numpy(self.covariance)
        return np.asarray(sampled(self.decision, *drawn, members, generator(seed)).numpy())

    @property
    def noise_std(self) -> Array | None:
        """Everything in the predictive spread that is not resampling: the noise of the training residuals."""
        return self._deviation(self.noise_covariance)

    @property
    def total_std(self) -> Array | None:
        """Resampling and noise together; None where the noise is not known."""
        return self._deviation(self.total_covariance)

    @property
    def total_covariance(self) -> Array | None:
        """Resampling and noise together: (m, k, k)."""
        if self.calibrated_covariance is not None:
            return self.calibrated_covariance
        if self.noise_covariance is None:
            return None
        return self.noise_covariance if self.covariance is None else self.covariance + self.noise_covariance

    @property
    def axes(self) -> dict[str, Array] | None:
        """Why a prediction is uncertain, three standard deviations whose squares sum to `total_std`'s.

        None for methods that do not tell them apart.
        """
        if self.total_covariance is None or self.noise_covariance is None or self.scarcity_covariance is None:
            return None
        parts = {
            "noise and local misfit": self.noise_covariance - self.scarcity_covariance,
            "resampling": self.total_covariance - self.noise_covariance,
            "scarcity": self.scarcity_covariance,
        }
        return {name: np.asarray(self._deviation(part)) for name, part in parts.items()}

    def interval(self, level: float = 0.9, *, by: str | None = None, group: ArrayLike | None = None) -> Interval:
        """An interval for every prediction, output by output; `by` asks for a certain kind.

        "split conformal" where the auditor was calibrated on held-out rows (with `group`, by group of the audited
        rows), else "left-out ranks" where other models spoke for training rows, and "CV+" where these were copies of
        the model; "jackknife+" or "full conformal" where rows were left out by influence; else "distribution".
        """
        _check_level(level)
        if self.decision is not None:
            raise InputError("classes have no intervals; audit.prediction_set(level) gives sets of classes instead")
        known = {**self.rules, "distribution": self.rules.get("distribution", self._of_distribution)}
        chosen = next(iter(known)) if by is None else by
        if chosen not in known:
            why = "; CV+ needs copies, all trained in this fit, and rows without groups, weights or order"
            raise SettingError(
                f"there is no interval by {by!r} for this audit; choose from {', '.join(known)}"
                + (why if "+" in str(by) else "")
            )
        labels = None if group is None else np.asarray(group)
        if labels is not None and chosen != "split conformal":
            raise SettingError(
                f"intervals by {chosen} know no groups; calibrate the auditor with the groups of held-out rows"
            )
        spread = self._needed_spread()
        lower, upper, said = known[chosen](self._matrix(self.prediction), self._matrix(spread), level, labels)
        shape = self.prediction.shape
        return Interval(lower.reshape(shape), upper.reshape(shape), said)

    def prediction_set(self, level: float = 0.9, *, group: ArrayLike | None = None) -> PredictionSet:
        """The classes that are not too unlikely, of an auditor calibrated on held-out rows."""
        _check_level(level)
        if self.decision is None or self.probability is None:
            raise InputError("prediction sets are of classifiers; a prediction of numbers has audit.interval(level)")
        if self.sets is None:
            raise InputError("prediction sets need rows held out from training: auditor.calibrate(X, y), then audit")
        return self.sets(self.probability, level, None if group is None else np.asarray(group))

    @overload
    def explain(
        self, row: None = None, *, output: int | None = None, top: int = 10, noun: str | None = None
    ) -> Explanations: ...

    @overload
    def explain(
        self, row: int, *, output: int | None = None, top: int = 10, noun: str | None = None
    ) -> Explanation: ...

    def explain(
        self, row: int | None = None, *, output: int | None = None, top: int = 10, noun: str | None = None
    ) -> Explanation | Explanations:
        """Which training rows or groups decide how far a prediction would change, and why; without a row, for all.

        Of several outputs the one asked for, else the one that would change most; for classes the margin between the
        two leading ones. `noun` is what a person calls the resampling units, such as "patients"; `top` is how many of
        them are kept for each row where all are explained.
        """
        if self.explainer is None:
            raise InputError("this audit was not made by an auditor, which alone knows the training rows")
        chosen = {"row": row, "output": output, "top": top}
        for name, value in chosen.items():
            if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__")):
                raise SettingError(f"{name} must be a whole number, got {value!r}")
        if top < 1:
            raise SettingError(f"top is {top}, expected at least one training row or group for each prediction")
        return self.explainer(self, row, output, top, noun)

    def log_prob(self, y: ArrayLike) -> Array:
        """Log density of targets under the predictive distribution, joint over outputs: (m,).

        For classifiers, the logarithm of the averaged probability of the label.
        """
        if self.decision is not None:
            return self._log_probability(y)
        if self.log_density is not None:
            return self.log_density(y)
        errors, covariance = self.errors(y), np.asarray(self.total_covariance)
        if np.linalg.eigvalsh(covariance).min(initial=inf) <= 0:
            raise NumericalError(
                "the predictive covariance of some rows is singular, so there is no density: the residuals behind it "
                "are zero, or fewer neighbours than outputs; use a method with a variance, or more neighbours"
            )
        return -negative_log_density(errors, covariance, self.degrees)

    def to_frame(self) -> "pd.DataFrame":
        """One row per prediction, the least reliable having the highest score."""
        import pandas as pd

        columns: dict[str, Any] = {}
        named = {
            "prediction": self.prediction,
            "std": self.std,
            "noise_std": self.noise_std,
            "total_std": self.total_std,
            **(self.axes or {}),
            "probability": self.probability,
            "flip_probability": self.flip_probability,
            "epistemic": self.epistemic,
        }
        label = self.label
        if label is not None and self.classes is None and label.ndim == 1:
            columns["label"] = label
        for name, values in named.items():
            if values is not None and values.ndim == 1:
                columns[name] = values
            elif values is not None:
                columns.update({f"{name}_{self._called(j, values.shape[1])}": v for j, v in enumerate(values.T)})
        if self.scarce is not None:
            columns["scarce"] = self.scarce
        columns["score"] = self.score
        columns["percentile"] = 100 * pd.Series(self.score).rank(pct=True).to_numpy()
        return pd.DataFrame(columns)

    def _called(self, column: int, columns: int) -> Any:
        """The name of a class where a column stands for one, else its number."""
        return self.classes[column] if self.classes is not None and len(self.classes) == columns else column

    def _log_probability(self, y: ArrayLike) -> Array:
        if self.probability is None or self.outputs is None:
            raise InputError(f"{self.method} gives no probabilities; use LinearRUE or ClassifierRUE")
        if self.decision == "signs" and self.outputs.shape[1] > 1:
            raise InputError("labels that may hold together have no single log probability; use audit.probability")
        known = np.arange(self.probability.shape[1]) if self.classes is None else self.classes
        labels = label_codes(y, known)
        if len(labels) != len(self):
            raise ShapeError(f"there are {len(labels)} labels for {len(self)} rows; give one for each")
        chosen = np.take_along_axis(self.probability, labels[:, None], axis=1)[:, 0]
        return np.log(chosen.clip(min=np.finfo(np.float64).tiny))  # a forest may give a class no vote at all

    def _deviation(self, covariance: Array | None) -> Array | None:
        if covariance is None:
            return None
        spread = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2).clip(min=0))
        return spread[:, 0] if spread.shape[1] == 1 else spread

    def _of_distribution(self, prediction: Array, spread: Array, level: float, _: Labels | None) -> Interval:
        return central_interval(prediction, spread, level, self.degrees)

    def _matrix(self, values: Array) -> Array:
        return values.reshape(len(self), -1)

    def _needed_spread(self) -> Array:
        total = self.total_std
        if total is None:
            if self.covariance is None:
                why = f'{self.method} ranks predictions only; use loss="squared_error" and a method with a variance'
            else:
                why = (
                    f"noise is known for squared error only, and the loss is {self.facts.get('loss')}; use audit.std, "
                    'how far a prediction would move, or a model of loss="squared_error"'
                )
            raise InputError(f"there is no predictive distribution: {why}")
        return total

    def errors(self, y: ArrayLike) -> Array:
        """Targets minus predictions, (m, k), of an audit with a predictive distribution."""
        self._needed_spread()
        targets = np.asarray(y, dtype=np.float64)
        if self.prediction.ndim == 1 and targets.shape == (len(self), 1):
            targets = targets[:, 0]
        if targets.shape != self.prediction.shape:
            raise ShapeError(
                f"targets have shape {targets.shape}, the predictions {self.prediction.shape}; they must agree"
            )
        return (targets - self.prediction).reshape(len(self), -1)


def central_interval(prediction: Array, spread: Array, level: float, degrees: float) -> Interval:
    """Central intervals (m, k) of a predictive distribution."""
    from scipy.stats import norm, t

    if isinf(degrees):
        reach, name = float(norm.ppf(0.5 + level / 2)), "Gaussian"
    else:  # a Student-t distribution whose standard deviation is the spread
        reach = float(t.ppf(0.5 + level / 2, degrees)) * sqrt((degrees - 2) / degrees)
        name = f"Student-t with {degrees:g} degrees of freedom"
    said = f"none: nominal {level:.0%} if errors are {name} with the audit's total_std; not checked on held-out rows"
    return Interval(prediction - reach * spread, prediction + reach * spread, Guarantee(said, "none"))


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise SettingError(f"level must lie between 0 and 1, such as 0.9, got {level}")
