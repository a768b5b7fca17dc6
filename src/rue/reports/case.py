"""Case: everything measured for one report, before it is put into words."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, RandomSampler

from rue.auditing.auditor import Auditor
from rue.auditing.intervals import Interval, PredictionSet, SetRule
from rue.auditing.result import Audit
from rue.checks import CheckUp
from rue.core.errors import DataError, InputError, RueError, RueWarning, SettingError, ShapeError
from rue.core.guarantee import Guarantee
from rue.core.process import ignoring
from rue.core.row_order import refuse_another_order
from rue.core.settings import check_level
from rue.explain import Explanations
from rue.policy import Policy
from rue.policy.decision import TieredDecision
from rue.reports import fingerprints
from rue.reports.outcome import Outcome, outcome
from rue.reports.surprises import surprising

T = TypeVar("T")
NO_SETS = "none: there are no sets of classes; auditor.calibrate(X, y) with held-out rows makes them"
SHARE = 0.2  # share of the rows for review, where no policy is given
INFLUENTIAL, MANY, FEWER = 5, 2_000, 3  # training units on a card, and with more than MANY cards


@dataclass(frozen=True)
class Asked:
    """The arguments of `report`."""

    title: str | None
    purpose: str | None
    noun: str
    ids: Any
    group: Any
    policy: Policy | None
    checkup: CheckUp | None
    baselines: bool
    level: float
    previous: Mapping[str, Any] | None


@dataclass(frozen=True)
class Case:
    """An audit, with the outcomes of its rows, their explanations and the decisions about them."""

    auditor: Auditor
    asked: Asked
    inputs: Any = field(repr=False)
    targets: Any = field(repr=False)
    audit: Audit
    ids: NDArray[Any] = field(repr=False)  # (m,)
    id_label: str
    groups: dict[str, NDArray[Any]] = field(repr=False)  # each (m,)
    outcome: Outcome | None = field(repr=False)
    unknown_outcome: str  # why there is no outcome
    explained: Explanations | None = field(repr=False)
    unexplained: str  # why there are no explanations
    interval: Interval | None = field(repr=False)
    sets: PredictionSet | None = field(repr=False)  # sets of classes
    decision: TieredDecision = field(repr=False)
    checkup: CheckUp = field(repr=False)
    kept: dict[Callable[..., Any], Any] = field(default_factory=dict, repr=False)  # the results of `once`

    def once(self, measure: Callable[["Case"], T]) -> T:
        """A measurement that several sections need; it is made once."""
        if measure not in self.kept:
            self.kept[measure] = measure(self)
        measured: T = self.kept[measure]
        return measured

    @property
    def m(self) -> int:
        """The number of audited rows."""
        return len(self.audit)

    @property
    def n(self) -> int:
        """The number of training rows."""
        return int(self.auditor.facts["n"])

    @property
    def policy(self) -> Policy:
        """The policy that decides on the tiers."""
        return self.decision.policy

    @property
    def default_policy(self) -> bool:
        """Whether the policy is a default, made from the audited rows themselves."""
        return self.asked.policy is None

    @property
    def noun(self) -> str:
        """The name of the resampling units in texts."""
        grouped = self.auditor.trained is not None and self.auditor.trained.data.source.group is not None
        return "groups" if grouped and self.asked.noun == "training rows" else self.asked.noun

    @property
    def own_networks(self) -> bool:
        """Whether the method predicts with networks that it trained itself."""
        return self.auditor.own_networks

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the intervals or sets."""
        if self.interval is not None:
            return self.interval.guarantee
        if self.sets is not None:
            return self.sets.guarantee
        if self.audit.decision is not None:
            return Guarantee(NO_SETS, "none")
        where = "" if self.auditor.model.family.gaussian else " for this loss"
        text = f"none: {self.auditor.method} gives no predictive distribution{where}, and so no interval"
        return Guarantee(text, "none")


def measured(auditor: Auditor, inputs: Any, targets: Any, asked: Asked) -> Case:
    """Audit the inputs and measure all that the sections need."""
    check_level("level", asked.level)
    if not callable(getattr(auditor, "audit", None)):
        raise InputError(
            f"a report is made of a fitted auditor, got {type(auditor).__name__}; use CalibratedRUE().fit(model, data)"
        )
    _check_order(auditor, inputs)
    _refuse_other_checks(auditor, asked.checkup)
    audit = auditor.audit(inputs)
    refuse_another_order(audit.index, targets=targets, ids=asked.ids)
    ids, id_label = _ids(asked.ids, inputs, len(audit))
    _warn_of_namesakes(ids)
    groups = _groups(asked.group, len(audit))
    for labels in _named_groups(asked.group).values():
        refuse_another_order(audit.index, group=labels)
    happened, why = _outcome(auditor, audit, targets)
    interval, sets = _bounds(audit, asked.level)
    policy = asked.policy if asked.policy is not None else _default_policy(audit)
    case = Case(
        auditor=auditor,
        asked=asked,
        inputs=inputs,
        targets=targets,
        audit=audit,
        ids=ids,
        id_label=id_label,
        groups=groups,
        outcome=happened,
        unknown_outcome=why,
        explained=None,
        unexplained="",
        interval=interval,
        sets=sets,
        decision=policy.decide(audit),
        checkup=_checkup(auditor, inputs, asked.checkup),
    )
    return _with_explanations(_with_surprise(case))


def _with_surprise(case: Case) -> Case:
    """Add a check, and warn, where outcomes are far from what was expected."""
    if case.outcome is None:
        return case
    found = surprising(case.audit, case.outcome, (case.interval, case.sets), case.asked.level)
    if found is None:
        return case
    warnings.warn(f"{found.name}: {found.found}; {found.advice}", RueWarning, stacklevel=5)
    return replace(case, checkup=replace(case.checkup, checks=(*case.checkup.checks, found)))


def _check_order(auditor: Auditor, inputs: Any) -> None:
    """Refuse a loader that shuffles: numbers could not be assigned to rows."""
    if not isinstance(inputs, Dataset | DataLoader):
        return
    first, again = (fingerprints.audited(inputs, None, auditor.model) for _ in range(2))
    if first != again or isinstance(getattr(inputs, "sampler", None), RandomSampler):
        raise DataError(
            "the rows to audit are others, or in another order, when they are read again; audit arrays, or a loader "
            "that does not shuffle"
        )


def _with_explanations(case: Case) -> Case:
    try:
        top = INFLUENTIAL if case.m <= MANY else FEWER
        return replace(case, explained=case.audit.explain(top=top, noun=case.noun))
    except RueError as error:
        return replace(case, unexplained=str(error))


def _outcome(auditor: Auditor, audit: Audit, targets: Any) -> tuple[Outcome | None, str]:
    if targets is None:
        return None, "no targets of the audited rows were given"
    if auditor.model.family.coupled:
        return (
            None,
            f"the loss {auditor.facts.get('loss')} of a row depends on the other rows: no row has its own error",
        )
    return outcome(auditor, audit, targets), ""


def _sets(audit: Audit) -> SetRule | None:
    return None if audit.classification is None else audit.classification.sets


def _bounds(audit: Audit, level: float) -> tuple[Interval | None, PredictionSet | None]:
    if audit.decision is not None:
        return None, None if _sets(audit) is None else audit.prediction_set(level)
    return (None if audit.total_std is None else audit.interval(level)), None


def _default_policy(audit: Audit) -> Policy:
    """A policy that reviews a fifth of the audited rows; where that is not possible, one that accepts nothing."""
    try:
        with ignoring(category=RueWarning):  # the checks say whether these rows were trained on
            return Policy.by_share(audit, share=SHARE)
    except RueError as error:
        return Policy(
            threshold=-np.inf,
            limit=float(np.max(audit.score)),
            guarantee=Guarantee("none: nothing is accepted", "none"),
            n=len(audit),
            accepted=0,
            shortfall=error.finding,
        )


def _checkup(auditor: Auditor, inputs: Any, given: CheckUp | None) -> CheckUp:
    if given is not None:
        return given
    with ignoring(category=RueWarning):  # the report contains the results of the checks
        try:
            return auditor.check(inputs)
        except RueError as error:
            return CheckUp((), {"all checks": str(error)})


def _refuse_other_checks(auditor: Auditor, given: Any) -> None:
    if given is None:
        return
    if not isinstance(given, CheckUp):
        raise SettingError(f"checkup is {given!r}, expected what auditor.check(inputs) returns, or None")
    if given.auditor and given.auditor != auditor.trained.fingerprint:
        raise InputError(
            "checkup holds the checks of another auditor (another method, model or training rows), which say nothing "
            "of this one; give auditor.check(inputs) of this auditor, or leave checkup away"
        )


def _warn_of_namesakes(ids: NDArray[Any]) -> None:
    names, times = np.unique(ids.astype(str), return_counts=True)
    if (times > 1).any():
        warnings.warn(
            f"{int(times[times > 1].sum())} of {len(ids)} audited rows share their name with another, such as "
            f"{str(names[times.argmax()])!r}: nobody can tell in the report which is meant; give ids that differ",
            RueWarning,
            stacklevel=4,
        )


def _ids(given: Any, inputs: Any, m: int) -> tuple[NDArray[Any], str]:
    """The names of the audited rows: as given, else a frame's index, else their numbers."""
    index = getattr(inputs, "index", None)
    if given is None:
        named = index is not None and not callable(index) and len(index) == m
        ids = np.asarray(index) if named else np.arange(m)
        return ids, str(getattr(index, "name", None) or "row")
    ids = np.asarray(given)
    if ids.shape != (m,):
        raise ShapeError(f"ids have shape {ids.shape} and {m} rows were audited; give one for each")
    return ids, str(getattr(given, "name", None) or "row")


def _groups(given: Any, m: int) -> dict[str, NDArray[Any]]:
    groups = {name: np.asarray(labels) for name, labels in _named_groups(given).items()}
    for name, labels in groups.items():
        if labels.shape != (m,):
            raise ShapeError(
                f"group {name!r} has shape {labels.shape} and {m} rows were audited; give one label for each"
            )
    return groups


def _named_groups(given: Any) -> dict[str, Any]:
    """The groups by name, as the user gave them."""
    if given is None:
        return {}
    named = given if isinstance(given, Mapping) else {str(getattr(given, "name", None) or "group"): given}
    return {str(name): labels for name, labels in named.items()}
