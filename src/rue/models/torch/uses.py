"""Where a network uses its parameters, and along which axis the rows of a batch lie there, by two forward passes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Protocol

import torch
from torch import Tensor

from rue.core.concepts import Inputs
from rue.core.nested import take
from rue.core.stored import storable
from rue.models.torch.blocks import Place, lengths
from rue.models.torch.tapped_layers import TAPPED
from rue.models.torch.taps import RowAxis, Seen, Tapping, Use

FEW, MORE = 2, 3  # rows of two forward passes: the axis that grows is the axis of the rows


class Network(Protocol):
    """The part of a module's core that is needed here."""

    @property
    def theta(self) -> Tensor:
        """The audited parameters (d,)."""
        ...

    @property
    def centre(self) -> Tensor:
        """Where the penalty shrinks them to (d,), or one number."""
        ...

    @property
    def weights(self) -> int:
        """The number of all its parameters and buffers, also of those that are not audited."""
        ...

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs (c, k)."""
        ...

    def predict_once(self, inputs: Inputs) -> Tensor:
        """Outputs (c, k) at the module's own parameters, with any kernel that has a first derivative."""
        ...

    def reached(self, inputs: Inputs) -> frozenset[Place]:
        """Where the tensors of parameters lie that outputs of these rows depend on."""
        ...


@storable
@dataclass(frozen=True)
class Uses:
    """What forward passes of a few rows showed."""

    seen: Seen
    axes: dict[int, RowAxis]  # of the uses whose rows lie along an axis that was found
    parameters: tuple[Place, ...]  # where each audited tensor lies
    reached: frozenset[Place]  # those of them that outputs depend on, of a few rows and then of all

    @property
    def order(self) -> tuple[Place, ...]:
        """The places of all uses."""
        return tuple(use.place for use in self.seen.uses)

    def known(self) -> dict[Place, tuple[Place, ...]]:
        """For each parameter that is used in known ways only, the places of it that are used."""
        if self.seen.hidden:
            return {}
        blind = {use.place for number, use in enumerate(self.seen.uses) if number not in self.axes}
        found = {}
        for parameter in self.parameters:
            inside = tuple(place for place in self.seen.vectors if _meet(place, parameter))
            other = [place for place in self.seen.untapped if _meet(place, parameter)]
            if inside and not other and not blind & set(inside) and _apart(inside, parameter):
                found[parameter] = inside
        return found

    def positions(self, place: Place) -> int | None:
        """The number of positions of a row that a layer is used at, as pixels or tokens; None if it is not known."""
        if place not in self.seen.vectors:
            return None
        a, _ = lengths(place, self.seen.vectors[place])
        sizes = [prod(use.shape) // (MORE * a) for use in self.seen.uses if use.place == place]
        return max(1, *sizes, len(sizes)) if sizes else None

    @property
    def unreached(self) -> tuple[Place, ...]:
        """The parameters that no row was seen to use."""
        return tuple(parameter for parameter in self.parameters if parameter not in self.reached)

    def others(self, seen: Seen, tapped: frozenset[Place]) -> bool:
        """Whether another pass used parameters otherwise than these: elsewhere, or tapped ones in unknown ways too."""
        order = tuple(use.place for use in seen.uses)
        unknown = seen.untapped - self.seen.untapped
        return order != self.order or seen.hidden or any(_meet(*pair) for pair in product(unknown, tapped))


def found_uses(network: Network, few: Inputs, parameters: tuple[Place, ...]) -> Uses:
    """Two forward passes, of two rows and of three: the axis that grows is that of the rows."""
    passes = []
    for rows in (FEW, MORE):
        with torch.enable_grad(), Tapping(network.theta, TAPPED) as taps:
            network.predict_once(take(few, slice(0, rows)))
        passes.append(taps.seen)
    less, more = passes
    reached = network.reached(few)
    if [use.place for use in less.uses] != [use.place for use in more.uses]:
        return Uses(more, {}, parameters, reached)
    axes = [_row_axis(*pair) for pair in zip(less.uses, more.uses, strict=True)]
    return Uses(more, {number: axis for number, axis in enumerate(axes) if axis is not None}, parameters, reached)


def _row_axis(less: Use, more: Use) -> RowAxis | None:
    """The axis that grew from two rows to three; None where that is not one axis alone."""
    if less.shape == more.shape:
        return RowAxis(0, "shared", shape=less.shape)
    if len(less.shape) != len(more.shape):
        return None
    grown = [at for at, (a, b) in enumerate(zip(less.shape, more.shape, strict=True)) if a != b]
    if len(grown) != 1 or MORE * less.shape[grown[0]] != FEW * more.shape[grown[0]]:
        return None
    return RowAxis(grown[0], "alone" if less.shape[grown[0]] == FEW else "first")


def _meet(one: Place, other: Place) -> bool:
    return one.offset < other.end and other.offset < one.end


def _apart(places: Sequence[Place], parameter: Place) -> bool:
    """Whether places lie within a parameter and do not overlap."""
    ordered = sorted(places)
    clear = all(before.end <= after.offset for before, after in pairwise(ordered))
    return clear and ordered[0].offset >= parameter.offset and max(place.end for place in places) <= parameter.end
