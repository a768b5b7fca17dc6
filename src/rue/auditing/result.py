"""6. Audit: the frozen result of an audit, as NumPy arrays on the CPU."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rue.auditing.intervals import Interval, IntervalRule, PredictionSet, central_interval
from rue.auditing.kinds import Classes, Numbers
from rue.auditing.spread import Spread, deviation
from rue.calibrate.variance import negative_log_density
from rue.core.arrays import Array, Labels
from rue.core.concepts import Decision, Facts
from rue.core.equality import same
from rue.core.errors import DataError, InputError, NumericalError, SettingError, ShapeError
from rue.core.row_order import refuse_another_order
from rue.core.settings import check_count, check_level, is_whole
from rue.explain.explanation import Explanation, Explanations

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Audit:
    """How far each prediction would move had the training data been a little different.

    Shapes are (m,) for one output and (m, k) for several; covariances are always (m, k, k). An audit has either
    `numbers` or a `classification`; attributes of the other kind are None.
    """

    method: str
    prediction: Array = field(repr=False)
    score: Array = field(repr=False)
    facts: Facts = field(repr=False)
    spread: Spread = field(repr=False)
    numbers: Numbers | None = field(default=None, repr=False)
    classification: Classes | None = field(default=None, repr=False)
    explainer: Callable[..., Explanation | Explanations] | None = field(default=None, repr=False)
    index: "pd.Index | None" = field(default=None, repr=False)  # of the audited table, for `to_frame`
    held_out_doubts: Callable[[], tuple[str, ...]] = field(default=tuple, repr=False)  # why they are not held out

    def __len__(self) -> int:
        return len(self.prediction)

    def __eq__(self, other: object) -> bool:
        """Whether two audits are of one auditor and have the same numbers, however long they took."""
        return isinstance(other, Audit) and same(self._compared, other._compared)

    __hash__ = None  # type: ignore[assignment]  # arrays can be changed

    @property
    def std(self) -> Array | None:
        """The plain resampling standard deviation, of the logits for classifiers; None for methods without one."""
        return self.spread.std

    @property
    def std_error(self) -> Array | None:
        """The standard error of `std`, where that was estimated from some of the training rows (`FewerRows`)."""
        return self.spread.std_error

    @property
    def covariance(self) -> Array | None:
        """The resampling covariance (m, k, k); None for methods without one, and if it was too large to keep."""
        return self.spread.covariance

    @property
    def noise_covariance(self) -> Array | None:
        """Everything in the predictive spread that is not resampling: (m, k, k)."""
        return self.spread.noise

    @property
    def noise_std(self) -> Array | None:
        """Everything in the predictive spread that is not resampling: the noise of the training residuals."""
        return deviation(self.spread.noise)

    @property
    def total_covariance(self) -> Array | None:
        """Resampling and noise together: (m, k, k)."""
        return self.spread.total

    @property
    def total_std(self) -> Array | None:
        """Resampling and noise together; None where the noise is not known."""
        return deviation(self.spread.total)

    @property
    def axes(self) -> dict[str, Array] | None:
        """Why a prediction is uncertain, three standard deviations whose squares sum to `total_std`'s.

        None for methods that do not tell them apart.
        """
        return self.spread.axes

    @property
    def scarce(self) -> NDArray[np.bool_] | None:
        """Inputs unlike the training rows (m,), of a calibrated audit of numbers.

        None for forests, classifiers and every method but CalibratedRUE: they do not look.
        """
        return None if self.spread.calibrated is None else self.spread.calibrated.scarce

    @property
    def outputs(self) -> Array:
        """What the model returned (m, k), before a link or a decision made a prediction of it."""
        kind = self.classification or self.numbers
        return self.prediction.reshape(len(self), -1) if kind is None else kind.outputs

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the predictive Student-t distribution; infinite is Gaussian."""
        return inf if self.numbers is None else self.numbers.degrees

    @property
    def rules(self) -> Mapping[str, IntervalRule]:
        """The kinds of intervals there are beside that of the predictive distribution, the default first."""
        return {} if self.numbers is None else self.numbers.rules()

    @property
    def decision(self) -> Decision | None:
        """How the outputs decide, where they are logits or shares."""
        return None if self.classification is None else self.classification.decision

    @property
    def classes(self) -> Labels | None:
        """The names of the classes, where the model has them."""
        return None if self.classification is None else self.classification.names

    @property
    def probability(self) -> Array | None:
        """Class probabilities (m, classes), averaged over the resampled models."""
        return None if self.classification is None else self.classification.probability

    @property
    def flip_probability(self) -> Array | None:
        """The chance that another training set leads to another decision (m,)."""
        return None if self.classification is None else self.classification.flip

    @property
    def epistemic(self) -> Array | None:
        """The uncertainty that is due to the training set, in nats (m,)."""
        return None if self.classification is None else self.classification.epistemic

    @property
    def label(self) -> Labels | None:
        """The predicted class of each row, by name if the model has names; None for regression."""
        return None if self.classification is None else self.classification.label

    @property
    def own_probability(self) -> Array | None:
        """The probabilities (m, classes) of the model itself, before averaging; None for regression."""
        return None if self.classification is None else self.classification.own_probability

    def sampled_probability(self, members: int = 1000, seed: int = 0) -> Array:
        """Like `probability`, but from draws of the logits' resampling distribution instead of the closed form."""
        if self.classification is None or self.covariance is None:
            raise InputError("there are no logits with a covariance to draw from; use LinearRUE on a classifier")
        check_count("members", members, "draws")
        return self.classification.sampled_probability(self.covariance, members, seed)

    def interval(self, level: float = 0.9, *, by: str | None = None, group: ArrayLike | None = None) -> Interval:
        """An interval for every prediction, for each output separately; `by` chooses the kind.

        The default is the first of these that the audit has: "split conformal" after calibration on held-out rows
        (with `group`, by group of the audited rows); "left-out ranks" if other models predicted the left-out training
        rows, with "CV+" beside it if these were copies of the model; "jackknife+", with "full conformal" beside it, if
        rows were left out by influence; and "distribution".
        """
        check_level("level", level)
        if self.numbers is None:
            raise InputError("classes have no intervals; audit.prediction_set(level) gives sets of classes instead")
        rules: dict[str, IntervalRule] = dict(self.numbers.rules())
        rules.setdefault("distribution", self._of_distribution)
        chosen = next(iter(rules)) if by is None else by
        if chosen not in rules:
            why = "; CV+ needs copies, all trained in this fit, and rows without groups, weights or order"
            advice = ", ".join(rules) + (why if chosen == "CV+" else "")
            raise SettingError(f"there is no interval by {by!r} for this audit; choose from {advice}")
        refuse_another_order(self.index, group=group)
        labels = None if group is None else np.asarray(group)
        if labels is not None and chosen != "split conformal":
            raise SettingError(
                f"intervals by {chosen} know no groups; calibrate the auditor with the groups of held-out rows"
            )
        spread = self._needed_spread()
        lower, upper, guarantee = rules[chosen](self._matrix(self.prediction), self._matrix(spread), level, labels)
        shape = self.prediction.shape
        return Interval(lower.reshape(shape), upper.reshape(shape), guarantee)

    def prediction_set(self, level: float = 0.9, *, group: ArrayLike | None = None) -> PredictionSet:
        """The classes that are likely enough to reach the level, from an auditor calibrated on held-out rows."""
        check_level("level", level)
        if self.classification is None or self.classification.probability is None:
            raise InputError("prediction sets are of classifiers; a prediction of numbers has audit.interval(level)")
        if self.classification.sets is None:
            raise InputError("prediction sets need rows held out from training: auditor.calibrate(X, y), then audit")
        refuse_another_order(self.index, group=group)
        labels = None if group is None else np.asarray(group)
        return self.classification.sets(self.classification.probability, level, labels)

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
        """Which training rows or groups decide how far a prediction would change, and why; all rows if `row` is None.

        The explained number is the `output` asked for, or else the output that would change most; for classes it is
        the margin between the two leading ones. `noun` is the user's word for the resampling units, such as
        "patients"; `top` is how many of them are kept for each row if all rows are explained.
        """
        if self.explainer is None:
            raise InputError("this audit was not made by an auditor, which alone knows the training rows")
        for name, value in {"row": row, "output": output}.items():
            if value is not None and not is_whole(value):
                raise SettingError(f"{name} must be a whole number, such as 0 for the first, got {value!r}")
        check_count("top", top, "training rows or groups for each prediction")
        return self.explainer(self, row, output, top, noun)

    def log_prob(self, y: ArrayLike) -> Array:
        """Log density of targets under the predictive distribution, joint over outputs: (m,).

        For classifiers, the logarithm of the averaged probability of the label.
        """
        refuse_another_order(self.index, y=y)
        if self.classification is not None:
            return self.classification.log_prob(y, self.method)
        if self.numbers is not None and self.numbers.log_density is not None:
            return self.numbers.log_density(y)
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
        label = self.label
        if label is not None and self.classes is None and label.ndim == 1:
            columns["label"] = label
        for name, values in self._numbers_per_row():
            if values.ndim == 1:
                columns[name] = values
            else:
                columns.update({f"{name}_{self._called(j, values.shape[1])}": v for j, v in enumerate(values.T)})
        if self.scarce is not None:
            columns["scarce"] = self.scarce
        columns["score"] = self.score
        columns["percentile"] = 100 * pd.Series(self.score).rank(pct=True).to_numpy()
        return pd.DataFrame(columns, index=self.index)

    def errors(self, y: ArrayLike) -> Array:
        """Targets minus predictions, (m, k), of an audit with a predictive distribution."""
        self._needed_spread()
        refuse_another_order(self.index, y=y)
        try:
            targets = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"targets cannot be read as numbers ({error}); give an array of floats") from error
        if self.prediction.ndim == 1 and targets.shape == (len(self), 1):
            targets = targets[:, 0]
        if targets.shape != self.prediction.shape:
            raise ShapeError(
                f"targets have shape {targets.shape}, the predictions {self.prediction.shape}; they must agree"
            )
        bad = ~np.isfinite(targets.reshape(len(self), -1)).all(axis=1)
        if bad.any():
            raise DataError(
                f"{bad.sum()} of {bad.size} rows have a target that is no finite number, the first being row "
                f"{bad.argmax()}: their errors are not known; leave such rows out"
            )
        return (targets - self.prediction).reshape(len(self), -1)

    @property
    def _compared(self) -> tuple[Any, ...]:
        shares = (self.probability, self.flip_probability, self.epistemic, self.classes)
        numbers = (self.prediction, self.score, self.outputs, self.degrees, self.spread)
        return (self.method, self.facts.get("auditor"), self.index, *numbers, *shares)

    def _numbers_per_row(self) -> Iterator[tuple[str, Array]]:
        """The arrays that a frame shows besides the score, by name: (m,) or (m, columns)."""
        named = {
            "prediction": self.prediction,
            "std": self.std,
            "std_error": self.std_error,
            "noise_std": self.noise_std,
            "total_std": self.total_std,
            **(self.axes or {}),
            "probability": self.probability,
            "flip_probability": self.flip_probability,
            "epistemic": self.epistemic,
        }
        yield from ((name, values) for name, values in named.items() if values is not None)

    def _called(self, column: int, columns: int) -> Any:
        """The name of the class if columns are classes, else the number of the column."""
        return self.classes[column] if self.classes is not None and len(self.classes) == columns else column

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
