"""Auditor: everything of a fitted method that does not need the inputs, and the loop that takes them."""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, ClassVar, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.auditing.collected import Collected
from rue.auditing.held_out import HeldOut, HeldOutClasses, held_out, held_out_classes, pair, surprise
from rue.auditing.meaning import Meaning
from rue.auditing.respond import responded
from rue.auditing.result import Audit, Interval, IntervalRule
from rue.auditing.trained import Trained
from rue.calibrate.cv_plus import CVPlus
from rue.calibrate.left_out_intervals import LeftOutRows, RankedRows
from rue.checks.asked import asked
from rue.checks.check import CheckUp
from rue.checks.check_up import check_up
from rue.checks.subject import Audited, Subject
from rue.core.arrays import Array
from rue.core.classify import averaged, epistemic, flip_probability, probability
from rue.core.concepts import Assessment, Assessor, Decision, Facts, Inputs, Model
from rue.core.derivatives import input_chunks, outputs
from rue.core.errors import DataError, InputError, ModelError, RueWarning, SettingError
from rue.core.nested import leaves
from rue.core.progress import track
from rue.core.randomness import untouched
from rue.data.rows import input_batches
from rue.explain.explainer import Explainer
from rue.explain.explanation import Explanation, Explanations
from rue.explain.lens import Lens
from rue.explain.target import explained_number

ANSWERS = 1e-4  # relative, of an estimator's own predictions: tree ensembles add in single precision


@dataclass(frozen=True)
class Auditor:
    """A fitted method: hand it inputs and it returns an Audit."""

    method: str
    model: Model = field(repr=False)
    assess: Assessor = field(repr=False)
    noise: Tensor | None = field(repr=False)  # (k, k), the residual covariance
    facts: Facts = field(repr=False)
    predictor: Callable[[Model, Inputs], Tensor] = field(default=outputs, repr=False)  # else a method's own networks
    degrees: float = inf  # of freedom of the predictive distribution
    left_out: LeftOutRows | RankedRows | None = field(default=None, repr=False)  # for intervals without held-out rows
    held_out: HeldOut | None = field(default=None, repr=False)  # what `calibrate` found
    sets: HeldOutClasses | None = field(default=None, repr=False)  # the same for a classifier
    trained: Trained | None = field(default=None, repr=False)  # of methods that audit a wrapped model
    lens: Lens | None = field(default=None, repr=False)  # of methods whose spread is made of influences
    meaning: Meaning = field(default_factory=Meaning, repr=False)  # of its numbers, for reports
    fitted_: ClassVar[bool] = True  # MAPIE looks for it on an estimator that is said to be fitted

    def audit(self, inputs: Any) -> Audit:
        """Audit new inputs, batch by batch."""
        found, response = self._of_outputs(inputs), self.model.response
        made = found if response is None else responded(found, response, self._encoded)
        return replace(
            made,
            prediction=self._answers(inputs, np.asarray(found.outputs)),
            explainer=partial(self._explain, inputs),
        )

    def _of_outputs(self, inputs: Any) -> Audit:
        """The audit of the model's outputs, whatever an estimator makes of them."""
        start = time.perf_counter()
        found = Collected()
        with untouched(), torch.inference_mode(False):
            for chunk in track("audit", self._chunks(inputs)):
                found.add(self._assess(chunk))
        predicted = found.fields["prediction"][: found.rows]
        covariance, noise = found.get("covariance"), found.get("noise")
        if noise is None and self.noise is not None:
            noise = np.broadcast_to(_array(self.noise), (len(predicted), *self.noise.shape))
        total, scarcity, scarce = (found.get(name) for name in ("total", "scarcity", "scarce"))
        score = _scores(found.get("score"), covariance, found.get("variance"))
        if self.held_out is not None and noise is not None:
            factor = self.held_out.variance_factor
            score = score * np.sqrt(factor) if total is not None else score  # a score that is the total's deviation
            total = factor * ((noise if covariance is None else noise + covariance) if total is None else total)
            noise, scarcity = factor * noise, None if scarcity is None else factor * scarcity
        said = found.doubts()
        facts = {**self.facts, "m": len(predicted), "seconds_audit": time.perf_counter() - start}
        if found.residual is not None:
            facts["residual"] = found.residual
        facts["warnings"] = (*self.facts["warnings"], *said)
        return Audit(
            method=self.method,
            prediction=_squeezed(predicted),
            score=score,
            covariance=covariance,
            noise_covariance=noise,
            facts=facts,
            calibrated_covariance=total,
            scarcity_covariance=scarcity,
            scarce=None if scarce is None else scarce > 0,
            outputs=predicted,
            decision=self.model.family.decision,
            classes=self.model.classes,
            probability=found.get("probability"),
            flip_probability=found.get("flip"),
            epistemic=found.get("epistemic"),
            variance=found.get("variance"),
            degrees=self.degrees,
            sets=None if self.sets is None else self.sets.sets,
            rules=self._rules(inputs),
        )

    def calibrate(self, X: Any, y: Any, group: Any = None) -> "Auditor":
        """The same with its spread scaled, and its intervals guaranteed, by rows that nothing was trained on.

        All variances are multiplied by one number, so that rankings stay as they were; `audit.interval` becomes split
        conformal, by group where the held-out rows have one. A classifier's `audit.prediction_set` is guaranteed so.
        """
        return self._held_out(X, y, group, stopping=False)

    def validated(self, validation: Any) -> "Auditor":
        """The same by validation rows, a pair (X, y): as `calibrate`, but training may have been stopped on them."""
        X, y = pair(validation)
        return self._held_out(X, y, None, stopping=True)

    def _held_out(self, X: Any, y: Any, group: Any, stopping: bool) -> "Auditor":
        if self.model.family.decision is not None:
            plain = self.audit(X)
            found = held_out_classes(plain, y, group, stopping)
            return replace(self, sets=found, facts={**self.facts, "held_out": len(plain)})
        plain = replace(self, held_out=None)._of_outputs(X)
        targets = y if self.model.response is None else self._encoded(y).reshape(plain.prediction.shape)
        measured = held_out(plain, targets, group, stopping)
        said = surprise(plain, targets) if stopping else ()
        for text in said:
            warnings.warn(text, RueWarning, stacklevel=4)
        facts = {**self.facts, "held_out": len(plain), "warnings": (*self.facts["warnings"], *said)}
        return replace(self, held_out=measured, facts=facts)

    def check(
        self,
        inputs: Any = None,
        *,
        refit: Callable[[NDArray[np.int64]], Any] | None = None,
        refits: int = 8,
        seed: int = 0,
    ) -> CheckUp:
        """Is this model fit for this audit? Traffic lights, each with its number, its limits and what to do.

        `inputs` are the audited rows: they are searched for training rows, and outputs are compared there.
        `refit(rows)` trains on training rows drawn with replacement (their numbers, some several times) and returns
        the model, best as `rue.wrap(...)`; `refits` of them are compared with what influence predicts.

        >>> import rue
        >>> X, y = torch.eye(2).repeat(3, 1), torch.arange(6.0)
        >>> auditor = rue.LinearRUE().fit(rue.wrap(torch.nn.Linear(2, 1), loss="squared_error", l2=1.0), (X, y))
        >>> auditor.check()["mode"].light
        'green'
        """
        if self.trained is None:
            raise InputError(f"{self.method} keeps no training rows, so that there is nothing to check; fit it again")
        refits, seed = asked(refit, refits, seed)
        audited = None if inputs is None else Audited.of(inputs)
        for part in () if audited is None else audited.parts:
            for _ in self._chunks(part):  # refuses what the model cannot take, as `audit` does
                pass
        thetas = getattr(getattr(self.assess, "ensemble", self.assess), "thetas", None)
        return check_up(
            Subject(
                self.model,
                self.trained.data,
                self.facts,
                self.trained.inverted,
                self.trained.curvature,
                source=self.trained.source,
                members=None if thetas is None else len(thetas),
                own_networks=self.predictor is not outputs,
                audited=audited,
                refit=refit,
                refits=refits,
                seed=seed,
            )
        )

    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """The audited predictions, with `total_std` (else `std`) where asked: scikit-learn's convention."""
        if not return_std:
            with untouched():
                found = torch.cat([self.predictor(self.model, chunk).cpu() for chunk in self._chunks(X)])
            return self._answers(X, _array(found))
        audit = self.audit(X)
        spread = audit.std if audit.total_std is None else audit.total_std
        if spread is None:
            raise InputError(
                f"{self.method} has no standard deviation to return; use a method with a variance, or audit.score"
            )
        return audit.prediction, spread

    def members(self, inputs: Any) -> Array:
        """What each resampled member predicts, (b, m) or (b, m, k): the logits of classifiers.

        Of methods that draw members; others have their spread in closed form.
        """
        outputs_of = getattr(self.assess, "members", None)  # a part of some assessors, not of the concept
        if outputs_of is None:
            raise InputError(f"{self.method} draws no members, so there are none to predict with; fit rue.RUE instead")
        with untouched(), torch.inference_mode(False):
            parts = [outputs_of(self.model, chunk).cpu() for chunk in track("members", self._chunks(inputs))]
        found = _array(torch.cat(parts, dim=1))
        if self.model.response is not None:
            found = self.model.response.value(found.reshape(-1, found.shape[-1])).reshape(found.shape)
        return found[..., 0] if found.shape[-1] == 1 else found

    def fit(self, X: Any, y: Any = None) -> NoReturn:  # noqa: ARG002 - scikit-learn's names
        """Refuse: an auditor is fitted already. MAPIE takes only what has a `fit`."""
        raise InputError(
            f"this auditor is fitted already, {self.method} on n = {self.facts['n']} training rows; use it as it is "
            "(prefit=True in MAPIE), or fit a method such as LinearRUE() to other data"
        )

    def _answers(self, inputs: Any, found: Array) -> Array:
        """What the user's own model predicts: the outputs (m, k), or an estimator's answers that they agree with."""
        answers = self.model.answer(inputs)
        if answers is None:
            return _squeezed(found)
        if self.model.classes is None:
            made = found if self.model.response is None else self.model.response.value(found)
            _check_answers(made, np.asarray(answers, dtype=np.float64))
        return _squeezed(answers) if answers.ndim == 2 else answers

    def _encoded(self, y: Any) -> Array:
        """Raw targets as the model was trained on them, (m, k)."""
        return _array(self.model.read_targets(y))

    def _explain(
        self, inputs: Any, audit: Audit, row: int | None, output: int | None, top: int, noun: str | None
    ) -> Explanation | Explanations:
        """One row with all its influences, or every row with the largest of them."""
        lens = self.lens
        if lens is None:
            raise InputError(
                f"{self.method} makes its score of no training row's influence, so that there is nothing to explain; "
                "use LinearRUE, CalibratedRUE, ClassifierRUE or RUE"
            )
        if row is not None and not 0 <= row < len(audit):
            raise SettingError(f"row is {row}, expected 0 to {len(audit) - 1}, one of the {len(audit)} audited rows")
        rows = np.arange(len(audit)) if row is None else np.array([row])
        found = np.asarray(audit.outputs)[rows]
        covariance = None if audit.covariance is None else audit.covariance[rows]
        target = explained_number(found, covariance, audit.decision, audit.classes, output)
        if self.model.response is not None:
            slope, value = self.model.response.slope(found), self.model.response.value(found)
            target = target._replace(contrast=target.contrast * slope, value=(target.contrast * value).sum(axis=1))
        with untouched(), torch.inference_mode(False):
            again = (chunk for _, chunk in self._again(inputs, np.asarray(audit.outputs)))
            batches = Explainer.of(lens, self.model, noun)(again, rows, target)
            if row is not None:
                return next(iter(batches))[0]
            return Explanations.joined([Explanations.of_each(part, top) for part in track("explain", batches)])

    def _rules(self, inputs: Any) -> dict[str, IntervalRule]:
        """How intervals can be made of an audit of these inputs, the usual way first."""
        rules: dict[str, IntervalRule] = {}
        if self.held_out is not None:
            rules["split conformal"] = self.held_out.interval
        if isinstance(self.left_out, RankedRows):
            rules["left-out ranks"] = partial(_ranked_interval, self.left_out)
            if self.left_out.plus is not None:
                rules[self.left_out.plus.name] = partial(self._cv_plus_interval, self.left_out.plus, inputs)
        elif self.left_out is not None:
            rules["jackknife+"] = partial(self._left_out_interval, inputs, "jackknife+")
            if self.left_out.single:
                rules["full conformal"] = partial(self._left_out_interval, inputs, "full conformal")
        return rules

    def _cv_plus_interval(
        self,
        plus: CVPlus,
        inputs: Any,
        prediction: Array,
        spread: Array,  # noqa: ARG002  as all rules
        level: float,
        _: Any,
    ) -> Interval:
        """Ask all copies about the inputs, if they are still the ones that were audited."""
        with untouched(), torch.inference_mode(False):
            for _rows in self._again(inputs, prediction):
                pass
            return Interval(*plus.ends(inputs, level), plus.guarantee(level))

    def _left_out_interval(
        self, inputs: Any, by: str, prediction: Array, spread: Array, level: float, _: Any
    ) -> Interval:
        """Read the inputs again: what each training row does to each of them is too much to keep."""
        assert isinstance(self.left_out, LeftOutRows)
        make = self.left_out.jackknife_plus if by == "jackknife+" else self.left_out.full_conformal
        ends = []
        with untouched(), torch.inference_mode(False):
            for rows, chunk in track("intervals", self._again(inputs, prediction)):
                ends.append(make(self.model, chunk, prediction[rows], spread[rows], level))
        lower, upper = (np.concatenate(side) for side in zip(*ends, strict=True))
        return Interval(lower, upper, self.left_out.guarantee(by, level))

    def _again(self, inputs: Any, prediction: Array) -> Iterator[tuple[slice, Inputs]]:
        """The inputs of an audit read once more, if they are still those of its predictions (m, k)."""
        start, rounding = 0, 1e-5 * np.abs(prediction).max(initial=0.0)
        for chunk in self._chunks(inputs):
            found = _array(self.predictor(self.model, chunk))
            rows = slice(start, start + len(found))
            if found.shape != prediction[rows].shape or not np.allclose(found, prediction[rows], 1e-4, rounding):
                raise DataError(
                    "the inputs read again differ from those audited, so that the answer would belong to other rows; "
                    "audit arrays that stay as they are, or a loader that does not shuffle"
                )
            yield rows, chunk
            start = rows.stop

    def _chunks(self, inputs: Any) -> Any:
        for batch in input_batches(inputs, self.model):
            try:
                yield from input_chunks(self.model, batch)
            except (RuntimeError, TypeError, IndexError) as error:
                shapes = ", ".join(str(tuple(leaf.shape)) for leaf in leaves(batch))
                raise ModelError(
                    f"the model could not take inputs of shape {shapes}: {error}; give inputs as in training"
                ) from error

    def _assess(self, inputs: Inputs) -> Assessment:
        found = self.assess(self.model, inputs)
        if not bool(torch.isfinite(found.prediction).all()):
            raise DataError("the model returns NaN or infinite predictions for some of these inputs; check them")
        decision = self.model.family.decision
        return found if decision is None else _classified(decision, found)


def _ranked_interval(ranked: RankedRows, prediction: Array, spread: Array, level: float, _: Any) -> Interval:
    return Interval(*ranked.ends(prediction, spread, level), ranked.guarantee(level))


def _classified(decision: Decision, found: Assessment) -> Assessment:
    """What a covariance of logits says of the classes, where the method has not said it itself."""
    logits = found.prediction.double()
    if found.covariance is None:
        return found if found.probability is not None else found._replace(probability=probability(decision, logits))
    known = found.covariance.to(logits)
    return found._replace(
        probability=averaged(decision, logits, known) if found.probability is None else found.probability,
        flip=flip_probability(decision, logits, known) if found.flip is None else found.flip,
        epistemic=epistemic(decision, logits, known) if found.epistemic is None else found.epistemic,
    )


def _check_answers(made: Array, answers: Array) -> None:
    """Refuse outputs that do not make the estimator's own predictions: it was read wrongly, or changed since."""
    apart = np.abs(made - answers.reshape(made.shape)).max(initial=0.0)
    if apart > ANSWERS * (1 + np.abs(answers).max(initial=0.0)):
        raise ModelError(
            f"what was read off the estimator predicts otherwise than the estimator itself, by up to {apart:.1e}; give "
            "inputs as for its predict, and an estimator that was not changed since it was wrapped"
        )


def _scores(own: Array | None, covariance: Array | None, variance: Array | None = None) -> Array:
    """The method's own score, else the root of the resampling covariance's trace."""
    if own is not None:
        return own
    if variance is not None:
        return np.sqrt(variance.sum(axis=1).clip(min=0))
    if covariance is None:
        raise InputError("a method must give a score or a covariance")
    return np.sqrt(np.trace(covariance, axis1=1, axis2=2).clip(min=0))


def _squeezed(prediction: Array) -> Array:
    return prediction[:, 0] if prediction.shape[1] == 1 else prediction


def _array(values: Tensor) -> Array:
    return np.asarray(values.detach().cpu().double().numpy())
