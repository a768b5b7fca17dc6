"""Explanation: why one prediction is uncertain. Explanations: the same for many predictions, condensed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rue.core.arrays import Array, Whole
from rue.core.equality import same
from rue.core.errors import InputError
from rue.core.settings import check_count
from rue.explain.lens import MODEL
from rue.explain.missed import MissKind
from rue.explain.people import TrainingTable
from rue.explain.words import sentence

if TYPE_CHECKING:
    import pandas as pd

Reason = Literal["too few similar rows", "similar rows fitted badly", "nothing unusual", "not known"]
UNUSUAL = 1.5  # times the usual variance from which a reason is worth naming


class Standing(NamedTuple):
    """A value compared with those of the training rows, each left out."""

    value: float
    percentile: float  # of the training rows have a smaller value
    times: float  # the factor by which it changes a variance, compared with the median training row


class Standings(NamedTuple):
    """The two reasons, and how many training rows they are compared with."""

    density: Standing  # the larger, the scarcer similar rows are
    misfit: Standing  # the larger, the worse similar rows were fitted
    compared: int


@dataclass(frozen=True)
class Explanation:
    """Which training units decide how far one prediction would change, and why it would.

    Contributions sum to `variance`. Before centring they are the paper's rᵢ²k(x, xᵢ), with the kernel k(x, xᵢ) and the
    residual rᵢ. `change` is the change of the prediction if the unit were left out.
    """

    row: int  # of the audited inputs
    of: str  # what is explained: the prediction, one of several outputs, or a margin between two classes
    prediction: float
    variance: float  # its resampling variance
    contribution: Array = field(repr=False)  # (u,)
    change: Array = field(repr=False)  # (u,)
    pull: Array = field(repr=False)  # (u,), before centring: pull² is the paper's rᵢ²k
    similarity: Array = field(repr=False)  # (n,), of every training row, from 0 to 1
    kernel: Array = field(repr=False)  # (n,), k(x, xᵢ)
    residual: Array = field(repr=False)  # (n,), the left-out error of each training row
    kind: MissKind  # the kind of this number: an error, one minus a label's probability, or the slope of the loss
    split: Standings | None  # None if training rows cannot be left out
    training: TrainingTable = field(repr=False)
    leave: Callable[[Whole], float] = field(repr=False)  # the change when training rows (s,) are left out together
    whose: str = MODEL  # the model of these influences and errors: the audited one, or a substitute for it

    def __eq__(self, other: object) -> bool:
        """Whether all numbers are the same."""
        return isinstance(other, Explanation) and same(self._compared, other._compared)

    __hash__ = None  # type: ignore[assignment]  # arrays can be changed

    def without(self, units: ArrayLike) -> float:
        """The change of the prediction if these units (s,), such as `order[:10]`, were left out together."""
        chosen = np.atleast_1d(np.asarray(units))
        if chosen.dtype == bool and chosen.shape == self.contribution.shape:
            chosen = np.flatnonzero(chosen)
        if chosen.dtype == bool or chosen.size == 0 or not np.isin(chosen, np.arange(len(self.contribution))).all():
            raise InputError(
                f"units must be numbers from 0 to {len(self.contribution) - 1}, as in explanation.order; got {units!r}"
            )
        return self.leave(np.flatnonzero(np.isin(self.unit, chosen)))

    @property
    def density(self) -> Standing | None:
        """Scarcity of similar rows."""
        return None if self.split is None else self.split.density

    @property
    def misfit(self) -> Standing | None:
        """How badly similar rows were fitted."""
        return None if self.split is None else self.split.misfit

    @property
    def unit(self) -> Whole:
        """The resampling unit of each training row: (n,)."""
        return self.training.unit

    @property
    def label(self) -> NDArray[Any]:
        """The user's name of each unit (u,): the id of its row, or its group."""
        return self.training.label

    @cached_property
    def order(self) -> Whole:
        """Units by decreasing contribution: (u,)."""
        return np.argsort(-self.contribution, kind="stable")

    @property
    def share(self) -> Array:
        """Contributions as fractions of the variance: (u,)."""
        return self.contribution / self.variance if self.variance > 0 else np.zeros_like(self.contribution)

    @cached_property
    def half(self) -> int:
        """How many units make up half of the variance."""
        if self.variance <= (np.finfo(np.float64).eps * self.prediction) ** 2:  # only rounding error
            return 0
        return int(np.searchsorted(np.cumsum(self.share[self.order]), 0.5) + 1)

    @cached_property
    def representative(self) -> Whole:
        """The row of each unit with the largest effect on the prediction: (u,)."""
        return self.training.largest(self.kernel * self.residual**2 + np.finfo(float).tiny * self.similarity)

    @property
    def reason(self) -> Reason:
        """The reason that raises the variance more; the variance is about scarcity times squared misfit (Claim 1)."""
        if self.split is None:
            return "not known"
        few, bad = self.split.density.times, self.split.misfit.times
        if max(few, bad) < UNUSUAL:
            return "nothing unusual"
        return "too few similar rows" if few >= bad else "similar rows fitted badly"

    @property
    def sentence(self) -> str:
        """The explanation in plain words."""
        return sentence(self)

    def to_frame(self, top: int = 10) -> "pd.DataFrame":
        """The units that contribute most, with the columns of the user's own training rows."""
        import pandas as pd

        check_count("top", top, "training rows or groups")
        units = self.order[:top]
        rows = self.representative[units]
        table = pd.DataFrame(
            {
                self.training.called: self.label[units],
                "share": self.share[units],
                "change_without": self.change[units],
                "kernel_share": _shares(self.pull**2)[units],
                "similarity": self.similarity[rows],
                "residual": self.residual[rows],
            }
        )
        columns = self.training.columns(rows)
        return table if columns is None else pd.concat([table, columns.reset_index(drop=True)], axis=1)

    def __str__(self) -> str:
        return self.sentence

    @property
    def _compared(self) -> tuple[Any, ...]:
        named = (self.row, self.of, self.prediction, self.variance, self.kind, self.split, self.whose, self.label)
        return (*named, self.contribution, self.change, self.pull, self.similarity, self.kernel, self.residual)


@dataclass(frozen=True)
class Explanations:
    """Explanations of s rows, each with the t units that contribute most: arrays (s, t), and numbers (s,)."""

    row: Whole = field(repr=False)  # of the audited inputs
    of: tuple[str, ...] = field(repr=False)
    variance: Array = field(repr=False)
    half: Whole = field(repr=False)
    unit: Whole = field(repr=False)  # (s, t)
    representative: Whole = field(repr=False)  # (s, t), the training row that stands for each unit
    share: Array = field(repr=False)  # (s, t)
    change: Array = field(repr=False)  # (s, t)
    similarity: Array = field(repr=False)  # (s, t)
    residual: Array = field(repr=False)  # (s, t)
    density: Array | None = field(repr=False)
    density_percentile: Array | None = field(repr=False)
    density_times: Array | None = field(repr=False)
    misfit: Array | None = field(repr=False)
    misfit_percentile: Array | None = field(repr=False)
    misfit_times: Array | None = field(repr=False)
    compared: Whole = field(repr=False)  # number of training rows behind the percentiles; zero without percentiles
    reason: tuple[Reason, ...] = field(repr=False)
    sentence: tuple[str, ...] = field(repr=False)
    training: TrainingTable = field(repr=False)

    def __len__(self) -> int:
        return len(self.row)

    def __eq__(self, other: object) -> bool:
        """Whether all numbers are the same."""
        return isinstance(other, Explanations) and same(self._compared, other._compared)

    __hash__ = None  # type: ignore[assignment]  # arrays can be changed

    def to_frame(self) -> "pd.DataFrame":
        """One line for each explained row: the reason, its percentiles, and the units that decide."""
        import pandas as pd

        columns: dict[str, Any] = {"row": self.row, "reason": self.reason, "half_of_the_spread": self.half}
        if self.density_percentile is not None and self.misfit_percentile is not None:
            columns |= {"density_percentile": self.density_percentile, "misfit_percentile": self.misfit_percentile}
        columns[f"largest_{self.training.called}"] = self.training.label[self.unit[:, 0]]
        columns["largest_share"] = self.share[:, 0]
        columns["sentence"] = self.sentence
        return pd.DataFrame(columns)

    @property
    def _compared(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__dataclass_fields__ if name != "training")

    @classmethod
    def of_each(cls, explained: list["Explanation"], top: int) -> "Explanations":
        """Keep the parts of every explanation that a table or a card shows."""
        units = np.stack([each.order[:top] for each in explained])
        rows = np.stack([each.representative[each.order[:top]] for each in explained])
        split = all(each.split is not None for each in explained)

        def listed(name: str, at: Whole) -> Array:
            return np.stack([getattr(each, name)[chosen] for each, chosen in zip(explained, at, strict=True)])

        def standing(name: str, part: str) -> Array | None:
            return np.array([getattr(getattr(each, name), part) for each in explained]) if split else None

        return cls(
            row=np.array([each.row for each in explained]),
            of=tuple(each.of for each in explained),
            variance=np.array([each.variance for each in explained]),
            half=np.array([each.half for each in explained]),
            unit=units,
            representative=rows,
            share=listed("share", units),
            change=listed("change", units),
            similarity=listed("similarity", rows),
            residual=listed("residual", rows),
            density=standing("density", "value"),
            density_percentile=standing("density", "percentile"),
            density_times=standing("density", "times"),
            misfit=standing("misfit", "value"),
            misfit_percentile=standing("misfit", "percentile"),
            misfit_times=standing("misfit", "times"),
            compared=np.array([0 if each.split is None else each.split.compared for each in explained]),
            reason=tuple(each.reason for each in explained),
            sentence=tuple(each.sentence for each in explained),
            training=explained[0].training,
        )

    @classmethod
    def joined(cls, parts: list["Explanations"]) -> "Explanations":
        """All explanations of several parts, in their order."""

        def values(name: str) -> Any:
            fields = [getattr(part, name) for part in parts]
            if name == "training":
                return fields[0]
            if any(field is None for field in fields):
                return None
            if isinstance(fields[0], tuple):
                return tuple(value for field in fields for value in field)
            return np.concatenate(fields)

        return cls(**{name: values(name) for name in cls.__dataclass_fields__})


def _shares(values: Array) -> Array:
    total = float(values.sum())
    return values / total if total > 0 else np.zeros_like(values)
