"""The results of all methods on the test rows of a data set, over all splits."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rue.core.arrays import Array
from rue_paper.parts import Arrays
from rue_paper.protocol import Protocol
from rue_paper.work import Piece, Plan, load


@dataclass(frozen=True)
class Results:
    """The results of every part on one data set, by split."""

    protocol: Protocol
    name: str
    splits: dict[int, Arrays] = field(repr=False)

    def has(self, method: str) -> bool:
        """Whether a method was run."""
        return all(f"{method}/score" in arrays for arrays in self.splits.values())

    def each(self, method: str, what: str) -> list[Array]:
        """One field of a method for each split: (m,), or a number."""
        return [arrays[f"{method}/{what}"].astype(np.float64) for arrays in self.splits.values()]

    def degrees(self, method: str) -> list[float]:
        """Degrees of freedom of a method's predictive distribution, split by split; infinite where it is Gaussian."""
        return [float(arrays.get(f"{method}/degrees", np.inf)) for arrays in self.splits.values()]

    def errors(self, method: str) -> list[Array]:
        """Prediction minus target (m,), split by split, in the units of the target."""
        predicted = self.each(method, "prediction")
        return [p - own["target"] for p, own in zip(predicted, self.splits.values(), strict=True)]

    def facts(self, what: str) -> list[float]:
        """A number of a part for each split."""
        return [float(arrays[what]) for arrays in self.splits.values() if what in arrays]


def gather(plan: Plan, wanted: Sequence[Piece]) -> list[Results]:
    """Finished pieces as results, one for each protocol and data set."""
    keys = dict.fromkeys((piece.protocol, piece.name) for piece in wanted)
    return [
        Results(protocol, name, load(plan, [p for p in wanted if (p.protocol, p.name) == (protocol, name)]))
        for protocol, name in keys
    ]
