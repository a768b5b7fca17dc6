"""Draws the coordinates of a network, of the layers that can be read off, and of all others."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from rue.core.concepts import Inputs, Reader
from rue.core.errors import DerivativeError
from rue.core.nested import leaves, take
from rue.models.torch.blocks import LayerBlock, Place, lengths, planned
from rue.models.torch.forward_size import made_bytes
from rue.models.torch.layer_sketch import LayerSketch
from rue.models.torch.tried_layers import exchanged, looked_through, misread
from rue.models.torch.uses import MORE, Network, Uses, found_uses

LARGE = 10**6  # parameters from which on a GPU computes in bfloat16
VECTOR = 8  # a vector of parameters has so many times fewer coordinates than a matrix


class Drawing(NamedTuple):
    """How coordinates are drawn."""

    size: int  # coordinates in all
    seed: int


def sketched(
    network: Network, parameters: Sequence[Place], inputs: Inputs, read: Reader, drawing: Drawing
) -> LayerSketch:
    """Coordinates for a network; `inputs` are some rows, `read` gives all, `parameters` lie in theta."""
    few = take(inputs, torch.linspace(0, len(leaves(inputs)[0]) - 1, MORE).round().long())
    found = found_uses(network, few, tuple(parameters))
    sketch = _drawn(network, found, found.known(), drawing)
    wrong = misread(sketch, few)
    if wrong:
        turned = {
            number: axis._replace(order="last") if axis.order == "first" and found.order[number] in wrong else axis
            for number, axis in found.axes.items()
        }
        sketch = replace(sketch, found=replace(found, axes=turned))
        wrong = misread(sketch, few)
    sketch = _without(sketch, wrong, drawing) if wrong else sketch
    sketch = replace(sketch, row_bytes=_row_bytes(sketch, few))
    if sketch.found.unreached:
        reached, strayed = looked_through(sketch, read)
        sketch = _without(replace(sketch, found=replace(sketch.found, reached=reached)), strayed, drawing)
    wrong = exchanged(sketch, inputs)
    sketch = _without(sketch, wrong, drawing) if wrong else sketch
    if _halved(network) and not misread(replace(sketch, half=True), few):
        sketch = replace(sketch, half=True)
    return replace(sketch, row_bytes=_row_bytes(sketch, few))


def _without(sketch: LayerSketch, wrong: set[Place], drawing: Drawing) -> LayerSketch:
    """The same sketch drawn anew, with whole gradients of the parameters that have wrong places."""
    known = sketch.found.known()
    read = {parameter: places for parameter, places in known.items() if sketch.tapped.issuperset(places)}
    right = {parameter: places for parameter, places in read.items() if not wrong & set(places)}
    return _drawn(sketch.network, sketch.found, right, drawing)


def _halved(network: Network) -> bool:
    """Whether bfloat16 is much faster, and its rounding small beside the chance in the coordinates."""
    theta = network.theta
    if theta.device.type != "cuda" or theta.dtype != torch.float32 or network.weights <= LARGE:
        return False
    return torch.cuda.is_bf16_supported(including_emulation=False)


def _drawn(network: Network, found: Uses, known: dict[Place, tuple[Place, ...]], drawing: Drawing) -> LayerSketch:
    """The widest sketch that is asked for and not too large, or the narrowest."""
    vectors: dict[Place, bool] = {}
    for parameter in found.parameters:
        if parameter in known:
            vectors |= {place: found.seen.vectors[place] for place in known[parameter]}
        elif parameter in found.reached:
            vectors[parameter] = len(parameter.shape) < 2
    shapes = {place: lengths(place, vector) for place, vector in vectors.items()}
    all_of_them = sum(a * b for a, b in shapes.values()) <= drawing.size
    most = VECTOR * drawing.size if all_of_them else _each(list(shapes.values()), drawing.size)
    away = network.theta - network.centre.to(network.theta)
    blocks = {}
    for place, both in shapes.items():
        count = _share(both, most)
        side = _side(both, most, found.positions(place), drawing.size)
        blocks[place] = _block(place, vectors[place], away, count, side, drawing.seed)
    tapped = frozenset(place for places in known.values() for place in places)
    return LayerSketch(network, blocks, tapped, found)


def _block(place: Place, vector: bool, away: Tensor, count: int, side: int, seed: int) -> LayerBlock:
    """So many coordinates of a block, one of them along its own parameters where these have moved."""
    plan, part = planned(lengths(place, vector), count, side), place.of(away).flatten()
    less = planned(lengths(place, vector), count - 1, side)
    if plan.size == place.numel or less.size >= count or not part.any():
        return LayerBlock.drawn(place, vector, plan, seed, away)
    return LayerBlock.drawn(place, vector, less, seed, away).keeping(part)


def _share(both: tuple[int, int], most: int) -> int:
    """The coordinates of a block: all, or `most` for a matrix and an eighth of that for a vector."""
    a, b = both
    return min(a * b, most if min(a, b) > 1 else max(1, most // VECTOR))


def _each(shapes: list[tuple[int, int]], size: int) -> int:
    """The most coordinates that every matrix may have so that all blocks together have at most `size`."""
    low, high = 1, size
    while low < high:
        middle = (low + high + 1) // 2
        total = sum(_share(both, middle) for both in shapes)
        low, high = (middle, high) if total <= size else (low, middle - 1)
    return low


def _side(both: tuple[int, int], most: int, positions: int | None, size: int) -> int:
    """The smallest side of groups whose products cost no more than half a pass through the layer, or than a solve.

    It is 0, for combinations of all products, where a layer is used at one position of a row and that costs no more.
    """
    a, b = both
    if positions == 1 and most * a * b <= 2 * size**2:
        return 0
    many = positions or 1
    allowed = max(a * b * many / 2, size**2)
    side = 1
    while most / side * many * (a + b) > allowed and side * side < most:
        side *= 2
    return side


def _row_bytes(sketch: LayerSketch, few: Inputs) -> int:
    """What a row needs in memory until its last backward pass: hidden layers and coordinates."""
    rows, held = len(leaves(few)[0]), dict[int, int]()

    def note(tensor: Tensor) -> Tensor:
        memory = tensor.untyped_storage()
        held[memory.data_ptr()] = memory.nbytes()
        return tensor

    def forward() -> Tensor:
        return sketch.forward(few)[0] if sketch.tapped else sketch.network.predict_once(few)

    with torch.enable_grad():
        try:
            with saved_tensors_hooks(note, lambda tensor: tensor):
                predicted = forward()
            held.pop(sketch.network.theta.untyped_storage().data_ptr(), None)
            layers = 2 * sum(held.values())
        except (RuntimeError, DerivativeError):  # `torch.func` inside a module does not let its layers be looked at
            predicted, layers = made_bytes(forward)
    k, itemsize = predicted.shape[1], predicted.element_size()
    return layers // rows + k * itemsize * (sketch.size + 2 * sketch.generic)
