"""Auditor: a fitted method, and the loop over batches of inputs that makes an audit."""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any, ClassVar, NoReturn, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rue.auditing.assessment import Assessment, Assessor, ClassShares, Collected, Members
from rue.auditing.doubtful import absent_classes, far_away, one_target, surprise, surprise_of_classes
from rue.auditing.held_out import HeldOutClasses, held_out, held_out_classes, pair
from rue.auditing.in_use import in_use, refuse_another_model, refuse_rows_in_use, repeated
from rue.auditing.kinds import Classes, Numbers
from rue.auditing.meaning import Meaning
from rue.auditing.predictive import Predictive
from rue.auditing.respond import responded
from rue.auditing.result import Audit
from rue.auditing.spread import Spread
from rue.auditing.storage import save
from rue.auditing.trained import Trained
from rue.checks.asked import asked
from rue.checks.check import CheckUp
from rue.checks.check_up import check_up
from rue.checks.subject import Audited, Subject
from rue.core.arrays import Array
from rue.core.audited_rows import input_chunks, taken
from rue.core.classify import averaged, epistemic, flip_probability, probability
from rue.core.concepts import Decision, Facts, Inputs
from rue.core.derivatives import outputs
from rue.core.errors import DataError, InputError, RueError, RueWarning, SettingError
from rue.core.memory import audited_kept, derivatives_kept
from rue.core.model import Model
from rue.core.progress import track
from rue.core.resample import untouched
from rue.core.row_order import refuse_another_order
from rue.core.stored import storable
from rue.data.opening import input_batches
from rue.explain.explainer import Explainer
from rue.explain.explanation import Explanation, Explanations
from rue.explain.target import explained_number
from rue.models.answers import check_answers

Predict = Callable[[Model, Inputs], Tensor]
"""Predictions (c, k) of networks that a method trained itself."""


@storable
@dataclass(frozen=True, eq=False)  # arrays inside: equal is what is the same object
class Auditor:
    """A fitted method: hand it inputs and it returns an Audit."""

    method: str
    model: Model = field(repr=False)
    assess: Assessor = field(repr=False)
    facts: Facts = field(repr=False)
    trained: Trained = field(repr=False)
    predictive: Predictive = field(default_factory=Predictive, repr=False)
    predictor: Predict | None = field(default=None, repr=False)  # for methods that predict with their own networks
    drawn: Members | None = field(default=None, repr=False)  # for methods that draw members
    sets: HeldOutClasses | None = field(default=None, repr=False)  # scores of held-out rows, for classifiers
    meaning: Meaning = field(default_factory=Meaning, repr=False)  # of its numbers, for reports
    stopped_by: Any = field(default=None, repr=False)  # validation rows, which set the scale already
    fitted_: ClassVar[bool] = True  # MAPIE looks for this attribute on a fitted estimator
    save = save

    @property
    def own_networks(self) -> bool:
        """Whether the method predicts with networks that it trained itself."""
        return self.predictor is not None

    def audit(self, inputs: Any) -> Audit:
        """Audit new inputs, batch by batch."""
        inputs = self.model.aligned(inputs)
        with untouched():
            refuse_another_model(self.model, self.trained.data)
            plain, response = self._of_outputs(inputs), self.model.response
            audit = plain if response is None else responded(plain, response, self._encoded)
            answers = self._answers(inputs, plain.outputs)
        return replace(
            audit,
            prediction=answers,
            explainer=partial(self._explain, inputs),
            index=inputs.index if hasattr(inputs, "iloc") else None,
            held_out_doubts=partial(self._doubts, inputs),
        )

    def _of_outputs(self, inputs: Any) -> Audit:
        """The audit of the model's outputs, before an estimator turns them into predictions."""
        start = time.perf_counter()
        collected = Collected(int(inputs.shape[0]) if getattr(inputs, "shape", ()) else 0)
        with torch.inference_mode(False):
            for chunk in track("audit", self._chunks(inputs)):
                collected.add(self._assess(chunk))
        predicted, spread = collected.fields["prediction"][: collected.rows], collected.spread
        noise, held_out = self.predictive.noise, self.predictive.held_out
        if spread.noise is None and noise is not None:
            spread = replace(spread, noise=np.broadcast_to(_array(noise), (len(predicted), *noise.shape)))
        score = _scores(collected.get("score"), spread)
        if held_out is not None:
            if spread.calibrated is not None:  # the score is the deviation of the total
                score = score * np.sqrt(held_out.variance_factor)
            spread = spread.times(held_out.variance_factor)
        doubts = collected.doubts()
        facts = {**self.facts, "m": len(predicted), "seconds_audit": time.perf_counter() - start}
        if collected.residual is not None:
            facts["residual"] = collected.residual
        strange = () if self.trained.cells is None else tuple(self.trained.cells.strange(inputs))
        for text in strange:
            warnings.warn(text, RueWarning, stacklevel=4)
        facts["warnings"] = (*self.facts["warnings"], *doubts, *strange)
        kind = self._kind(collected, predicted, inputs)
        return Audit(self.method, _squeezed(predicted), score, facts, spread, **kind)

    def _kind(self, collected: Collected, outputs: Array, inputs: Any) -> "_Kind":
        decision = self.model.family.decision
        if decision is None:
            rules = partial(self.predictive.rules, self.model, inputs, partial(self._again, inputs))
            return {"numbers": Numbers(outputs, self.predictive.degrees, rules)}
        classification = Classes(
            outputs,
            decision,
            self.model.classes,
            collected.get("probability"),
            collected.get("flip"),
            collected.get("epistemic"),
            None if self.sets is None else self.sets.sets,
        )
        return {"classification": classification}

    def calibrate(self, X: Any, y: Any, group: Any = None) -> "Auditor":
        """An auditor whose spread is scaled, and whose intervals are guaranteed, by held-out rows.

        All variances are multiplied by one number, so that rankings do not change. `audit.interval` becomes split
        conformal, by group if the held-out rows have groups; for a classifier, `audit.prediction_set` does.
        """
        return self._held_out(X, y, group, stopping=False)

    def validated(self, validation: Any) -> "Auditor":
        """Like `calibrate`, with validation rows (X, y) on which training may have been stopped early."""
        X, y = pair(validation)
        return replace(self._held_out(X, y, None, stopping=True), stopped_by=X)

    def _again_calibrated(self, y: Any) -> Facts:
        """The facts with another fingerprint: scores differ from those before."""
        held = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
        before = str(self.facts.get("auditor", ""))
        return {**self.facts, "auditor": blake2b(f"{before} {held.tolist()}".encode(), digest_size=8).hexdigest()}

    def _held_out(self, X: Any, y: Any, group: Any, stopping: bool) -> "Auditor":
        refuse_another_order(X, y=y, group=group)
        rows, model = self.trained.data, self.model
        if model.family.decision is not None:
            plain = self.audit(X)
            classes = held_out_classes(plain, y, group, stopping)
            texts = (*surprise_of_classes(plain, y), *absent_classes(plain, model, rows, y))
            calibrated = replace(self, sets=classes)
        else:
            with untouched():
                plain = replace(self, predictive=replace(self.predictive, held_out=None))._of_outputs(X)
            targets = y if model.response is None else self._encoded(y).reshape(plain.prediction.shape)
            measured = held_out(plain, targets, group, stopping)
            texts = (*surprise(plain, targets), *one_target(plain, rows, targets))
            calibrated = replace(self, predictive=replace(self.predictive, held_out=measured))
        refuse_rows_in_use(model, rows, self.stopped_by, X, y)
        texts = (*texts, *far_away(plain, model, rows, X), *repeated(model, rows, X))
        for text in texts:
            warnings.warn(text, RueWarning, stacklevel=4)
        facts = {**self._again_calibrated(y), "held_out": len(plain), "warnings": (*self.facts["warnings"], *texts)}
        return replace(calibrated, facts=facts)

    def _doubts(self, inputs: Any) -> tuple[str, ...]:
        """Why audited rows are no held-out rows: they were in use, or are there several times; empty if unknown."""
        try:
            with untouched():
                used = in_use(self.model, self.trained.data, self.stopped_by, inputs)
                return (*used, *repeated(self.model, self.trained.data, inputs))
        except RueError:  # rows that cannot be read again
            return ()

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
        refits, seed = asked(refit, refits, seed)
        audited = None if inputs is None else Audited.of(inputs)
        for part in () if audited is None else audited.parts:
            for _ in self._chunks(part):  # raises for inputs that the model cannot take, as `audit` does
                pass
        found = check_up(
            Subject(
                self.model,
                self.trained.data,
                self.trained.inverted,
                self.trained.curvature,
                source=self.trained.source,
                members=None if self.drawn is None else self.drawn.count,
                residual=None if self.trained.solved is None else self.trained.solved.residual,
                sampled_trees=self.trained.sampled_trees,
                own_networks=self.own_networks,
                audited=audited,
                refit=refit,
                refits=refits,
                seed=seed,
                rested=self.trained.solved is not None and self.trained.solved.objective is not self.model,
            )
        )
        return replace(found, auditor=self.trained.fingerprint)

    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """The audited predictions, and with `return_std` also `total_std` or else `std`: scikit-learn's convention."""
        if not return_std:
            with untouched():
                predicted = torch.cat([self._predicted(chunk).cpu() for chunk in self._chunks(X)])
                return self._answers(X, _array(predicted))
        audit = self.audit(X)
        spread = audit.std if audit.total_std is None else audit.total_std
        if spread is None:
            raise InputError(
                f"{self.method} has no standard deviation to return; use a method with a variance, or audit.score"
            )
        return audit.prediction, spread

    def members(self, inputs: Any) -> Array:
        """The predictions of each resampled member, (b, m) or (b, m, k); logits for classifiers.

        Only for methods that draw members; others have their spread in closed form.
        """
        if self.drawn is None:
            raise InputError(f"{self.method} draws no members, so there are none to predict with; fit rue.RUE instead")
        with untouched(), torch.inference_mode(False):
            chunks = track("members", self._chunks(inputs))
            outputs_of = torch.cat([self.drawn.members(self.model, chunk).cpu() for chunk in chunks], dim=1)
        members = _array(outputs_of)
        if self.model.response is not None:
            members = self.model.response.value(members.reshape(-1, members.shape[-1])).reshape(members.shape)
        return members[..., 0] if members.shape[-1] == 1 else members

    def fit(self, X: Any, y: Any = None) -> NoReturn:  # noqa: ARG002 - scikit-learn's names
        """Raise, because an auditor is fitted already. The method exists because MAPIE needs a `fit`."""
        raise InputError(
            f"this auditor is fitted already, {self.method} on n = {self.facts['n']} training rows; use it as it is "
            "(prefit=True in MAPIE), or fit a method such as LinearRUE() to other data"
        )

    def _predicted(self, inputs: Inputs) -> Tensor:
        """Outputs (c, k) of the model, or of the method's own networks."""
        return outputs(self.model, inputs) if self.predictor is None else self.predictor(self.model, inputs)

    def _answers(self, inputs: Any, predicted: Array) -> Array:
        """The user's predictions: the outputs (m, k), or an estimator's answers, after a check that both agree."""
        answers = self.model.answer(inputs)
        if answers is None:
            return _squeezed(predicted)
        if not self.own_networks:
            check_answers(self.model, predicted, answers)
        return _squeezed(answers) if answers.ndim == 2 else answers

    def _encoded(self, y: Any) -> Array:
        """Raw targets in the form that the model was trained on: (m, k)."""
        return _array(self.model.read_targets(y))

    def _explain(
        self, inputs: Any, audit: Audit, row: int | None, output: int | None, top: int, noun: str | None
    ) -> Explanation | Explanations:
        """The explanation of one row with all influences, or of every row with the largest ones."""
        lens = self.trained.lens
        if self.model.family.diagonal or self.model.family.blocks:
            raise SettingError(
                "EKFAC() and Blocks() are too coarse for the influence of single training rows, so that there is "
                "nothing to explain; use Sketch()"
            )
        if lens is None:
            raise InputError(
                f"{self.method} makes its score of no training row's influence, so that there is nothing to explain; "
                "use LinearRUE, CalibratedRUE, ClassifierRUE or RUE"
            )
        if row is not None and not 0 <= row < len(audit):
            raise SettingError(f"row is {row}, expected 0 to {len(audit) - 1}, one of the {len(audit)} audited rows")
        self.trained.data.refuse_changed_source()
        rows = np.arange(len(audit)) if row is None else np.array([row])
        outputs_of = audit.outputs[rows]
        covariance = None if audit.covariance is None else audit.covariance[rows]
        target = explained_number(outputs_of, covariance, audit.decision, audit.classes, output)
        if self.model.response is not None:
            slope, value = self.model.response.slope(outputs_of), self.model.response.value(outputs_of)
            target = target._replace(contrast=target.contrast * slope, value=(target.contrast * value).sum(axis=1))
        with untouched(), torch.inference_mode(False), derivatives_kept(lens.data):
            again = (chunk for _, chunk in self._again(inputs, audit.outputs))
            batches = Explainer.of(lens, self.model, noun)(again, rows, target)
            if row is not None:
                return next(iter(batches))[0]
            return Explanations.joined([Explanations.of_each(part, top) for part in track("explain", batches)])

    def _again(self, inputs: Any, prediction: Array) -> Iterator[tuple[slice, Inputs]]:
        """Read the inputs of an audit again; raises if their predictions differ from those of the audit (m, k)."""
        start, rounding = 0, 1e-5 * np.abs(prediction).max(initial=0.0)
        for chunk in self._chunks(inputs):
            now = _array(self._predicted(chunk))
            rows = slice(start, start + len(now))
            if now.shape != prediction[rows].shape or not np.allclose(now, prediction[rows], 1e-4, rounding):
                raise DataError(
                    "the inputs read again differ from those audited, so that the answer would belong to other rows; "
                    "audit arrays that stay as they are, or a loader that does not shuffle"
                )
            yield rows, chunk
            start = rows.stop

    def _chunks(self, inputs: Any) -> Any:
        for batch in input_batches(inputs, self.model):
            with taken(batch):
                yield from input_chunks(self.model, batch)

    def _assess(self, inputs: Inputs) -> Assessment:
        with taken(inputs), audited_kept(inputs):
            assessment = self.assess(self.model, inputs)
        if not bool(torch.isfinite(assessment.prediction).all()):
            raise DataError("the model returns NaN or infinite predictions for some of these inputs; check them")
        decision = self.model.family.decision
        return assessment if decision is None else _classified(decision, assessment)


class _Kind(TypedDict, total=False):
    """The keyword of an `Audit` for its kind: exactly one of the two."""

    numbers: Numbers
    classification: Classes


def _classified(decision: Decision, assessment: Assessment) -> Assessment:
    """Add class probabilities from the covariance of the logits, unless the method gave them itself."""
    logits, given = assessment.prediction.double(), assessment.classes
    if assessment.covariance is None:
        return (
            assessment if given is not None else assessment._replace(classes=ClassShares(probability(decision, logits)))
        )
    covariance = assessment.covariance.to(logits)
    shares = averaged(decision, logits, covariance) if given is None else given.probability
    flip = None if given is None else given.flip
    nats = None if given is None else given.epistemic
    return assessment._replace(
        classes=ClassShares(
            shares,
            flip_probability(decision, logits, covariance) if flip is None else flip,
            epistemic(decision, logits, covariance) if nats is None else nats,
        )
    )


def _scores(own: Array | None, spread: Spread) -> Array:
    """The method's own score, else the root of the resampling covariance's trace."""
    if own is not None:
        return own
    if spread.variance is not None:
        return np.sqrt(spread.variance.sum(axis=1).clip(min=0))
    if spread.covariance is None:
        raise InputError("a method must give a score or a covariance")
    return np.sqrt(np.trace(spread.covariance, axis1=1, axis2=2).clip(min=0))


def _squeezed(prediction: Array) -> Array:
    return prediction[:, 0] if prediction.shape[1] == 1 else prediction


def _array(values: Tensor) -> Array:
    return np.asarray(values.detach().cpu().double().numpy())
