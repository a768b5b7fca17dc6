"""Reads the gradients of every row off the layers of a module during one backward pass, already combined.

A layer's gradient for a row is a sum of products of what goes in and what comes back. Both are combined to a few
numbers first, so that the gradient itself, as large as the layer, never exists. `Tapping` sees every call of torch
that uses audited parameters, and notes those that it does not know. Nothing is taken on trust: what is read off is
compared with plain backward passes before it is used (`tried_layers.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from rue.core.nested import leaves
from rue.core.stored import storable
from rue.models.torch.blocks import Place, TappedBlock

AxisOrder = Literal["alone", "first", "last", "shared"]
Pull = Callable[[Tensor, "RowAxis"], Tensor]
"""From the gradient of a layer's output to coordinates of each row (c, size)."""


Layers = Mapping[Any, Callable[..., Any]]
"""For functions of torch that use parameters, a function that calls them and taps their output."""


@storable
class RowAxis(NamedTuple):
    """The axis of a layer's output that the rows of a batch lie along.

    They may be alone on it, or joined with another axis, as the slower ("first") or the faster one ("last"). An output
    that all rows share, as that of positions, is repeated for every row before it is tapped.
    """

    axis: int
    order: AxisOrder
    many: int = 0  # the number of rows
    shape: tuple[int, ...] = ()  # of an output that rows share

    def first(self, values: Tensor) -> Tensor:
        """Bring the rows to the front: (c, ...)."""
        if self.order == "shared":
            return self.repeated(values)
        if self.order == "alone":
            return values.movedim(self.axis, 0)
        apart = (self.many, -1) if self.order == "first" else (-1, self.many)
        return values.unflatten(self.axis, apart).movedim(self.axis + (self.order == "last"), 0)

    def repeated(self, values: Tensor) -> Tensor:
        """What all rows share, for every row; anything else, also what has been repeated already, as it is."""
        if self.order != "shared" or values.dim() > len(self.shape):
            return values
        if self.shape[:1] == (1,):
            return values if values.shape[0] == self.many else values.expand(self.many, *values.shape[1:])
        return values.expand(self.many, *values.shape)


@storable
class Use(NamedTuple):
    """A tapped use of parameters whose axis of rows has to be found out."""

    place: Place
    shape: tuple[int, ...]  # of the output


@storable
@dataclass
class Seen:
    """What a forward pass did with audited parameters."""

    uses: list[Use] = field(default_factory=list)  # in their order
    vectors: dict[Place, bool] = field(default_factory=dict)  # of every tapped place: is it a vector?
    untapped: set[Place] = field(default_factory=set)  # used in a way that is not known here
    hidden: bool = False  # some of it happened inside `torch.func`, where a tensor does not show what it is part of


class Tapping(TorchFunctionMode):
    """Looks at every call of torch in a forward pass.

    Without `blocks` it only notes which parameters are used, and how. With them, every output that depends on a block
    gets a tap, from which a backward pass fills `coordinates`.
    """

    def __init__(
        self,
        theta: Tensor,
        layers: Layers,
        blocks: dict[Place, TappedBlock] | None = None,
        axes: dict[int, RowAxis] | None = None,
        coordinates: dict[Place, Tensor] | None = None,
        rows: int = 0,
    ) -> None:
        super().__init__()
        self.layers = layers
        self.memory = theta.untyped_storage().data_ptr()
        self.start = int(theta.storage_offset())
        self.blocks, self.axes, self.coordinates, self.rows = blocks, axes or {}, coordinates or {}, rows
        self.seen = Seen()

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), named: dict[str, Any] | None = None
    ) -> Any:
        """Call the function, and tap its output where it is one of `layers`."""
        named = named or {}
        tapped = self.layers.get(function)
        if tapped is None or not _takes(tapped, len(arguments), tuple(named)):
            return self.unknown(function, arguments, named)
        return tapped(self, function, *arguments, **named)

    def unknown(self, function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a function that is not one of `layers`; note which parameters it uses."""
        outcome = function(*arguments, **named)
        self._note(arguments, named, outcome)
        return outcome

    def place(self, tensor: Any) -> Place | None:
        """Where a tensor lies in theta; None for any other."""
        if not isinstance(tensor, Tensor) or self._memory(tensor) != self.memory:
            return None
        return Place(int(tensor.storage_offset()) - self.start, tuple(tensor.shape), tensor.stride())

    def matrix(
        self,
        output: Tensor,
        weight: Tensor,
        entering: Callable[[TappedBlock], Pull],
        at: Callable[[Tensor], Tensor],
        axis: RowAxis | None = None,
    ) -> Tensor:
        """Tap an output that depends on a matrix of weights.

        `entering` combines what goes in, and `at` is what the output would be with other weights alone.
        """

        def all_entering(block: TappedBlock) -> Pull:
            pull, kept = entering(block), block.kept
            if kept is None:
                return pull
            with torch.no_grad():
                beside = at(kept.direction.view(weight.shape))
            return lambda back, axis: kept.beside(
                pull(back, axis), (axis.first(back) * axis.first(beside)).flatten(1).sum(1)
            )

        return self._tap(output, self.place(weight), False, all_entering, axis)

    def vector(
        self,
        output: Tensor,
        weight: Tensor | None,
        each: Callable[[Tensor, RowAxis], Tensor],
        axis: RowAxis | None = None,
    ) -> Tensor:
        """Tap an output whose derivative by a vector, for every row (c, b), is `each` of what comes back."""

        def entering(block: TappedBlock) -> Pull:
            return lambda back, axis: block.of_columns(each(back, axis))

        return self._tap(output, self.place(weight), True, entering, axis)

    def leave(self, weight: Any) -> None:
        """Note a use that cannot be tapped."""
        place = self.place(weight)
        if place is not None:
            self.seen.untapped.add(place)

    def _tap(
        self,
        output: Tensor,
        place: Place | None,
        vector: bool,
        entering: Callable[[TappedBlock], Pull],
        axis: RowAxis | None,
    ) -> Tensor:
        if place is None or self._memory(output) is None:
            return output
        self.seen.vectors[place] = vector
        if axis is None:
            self.seen.uses.append(Use(place, tuple(output.shape)))
        block = None if self.blocks is None else self.blocks.get(place)
        if block is None:
            return output
        along = axis or self.axes.get(len(self.seen.uses) - 1)
        if along is None:
            return output
        pull, rows = entering(block), along._replace(many=self.rows)
        repeated = rows.repeated(output)
        output = output if repeated is output else repeated.clone()  # a tap works in place, and on no view
        tapped: Tensor = _Tap.apply(  # type: ignore[no-untyped-call]  # torch leaves it untyped
            output, self.coordinates[place], lambda back: pull(back, rows)
        )
        return tapped

    def _memory(self, tensor: Tensor) -> int | None:
        """The address of a tensor's numbers; None, which is noted, where `torch.func` hides it."""
        try:
            return tensor.untyped_storage().data_ptr()
        except NotImplementedError:
            self.seen.hidden = True
            return None

    def _note(self, arguments: tuple[Any, ...], named: dict[str, Any], outcome: Any) -> None:
        """Parameters that became part of another tensor than a view of them are used in a way that is not known."""
        made = [leaf for leaf in leaves(outcome) if isinstance(leaf, Tensor)] if _holds(outcome) else []
        if not any(self.place(leaf) is None for leaf in made):
            return
        for leaf in leaves((arguments, named)):
            place = self.place(leaf)
            if place is not None:
                self.seen.untapped.add(place)


@cache
def _takes(tapped: Callable[..., Any], count: int, names: tuple[str, ...]) -> bool:
    """Whether a function of ours takes arguments as torch's was given them: torch's have names of their own."""
    try:
        signature(tapped).bind(None, None, *[None] * count, **dict.fromkeys(names))
    except TypeError:
        return False
    return True


def _holds(outcome: Any) -> bool:
    return isinstance(outcome, Tensor | tuple | list | dict)


class _Tap(torch.autograd.Function):
    """The identity, which hands what comes back to `pull` as well.

    To torch it is an operation in place, so that it neither copies its output nor makes a view of it: what comes after
    may work in place, as `ReLU(inplace=True)` and `out += x` do.
    """

    @staticmethod
    def forward(context: Any, output: Tensor, coordinates: Tensor, pull: Callable[[Tensor], Tensor]) -> Tensor:
        """The output itself."""
        context.pull, context.dtype = pull, coordinates.dtype
        context.mark_dirty(output)
        return output

    @staticmethod
    def backward(context: Any, *back: Tensor) -> Any:
        """What comes back, unchanged, and the coordinates of every row."""
        return back[0], context.pull(back[0]).to(context.dtype), None
