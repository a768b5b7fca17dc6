"""Tries what is read off layers against plain backward passes: on a few rows, on a batch, and where rows differ."""

import torch
from torch import Tensor

from rue.core.concepts import Inputs, Reader
from rue.core.errors import DerivativeError
from rue.core.nested import leaves, take
from rue.core.resample import generator
from rue.models.torch.blocks import Place
from rue.models.torch.layer_sketch import BATCH, LayerSketch

AGREE = 0.02  # relative difference to plain backward passes, which may be in another precision on a GPU
ROUNDED = 0.1  # the same for passes in bfloat16: with 2 to 4 %, variances rank as before (docs/scale/precision.csv)


def misread(sketch: LayerSketch, few: Inputs) -> set[Place]:
    """Tapped places whose coordinates are not those of plain backward passes, for a random mix of outputs."""
    if not sketch.tapped:
        return set()
    theta = sketch.network.theta.detach().requires_grad_()
    with torch.enable_grad():
        plain = sketch.network.predict(theta, few)
        mix = torch.randn(plain.shape, generator=generator(0), dtype=torch.float64).to(plain)
        try:
            tapped, coordinates = sketch.forward(few)
            read = sketch.back((mix * tapped).sum(), coordinates)
        except (DerivativeError, torch.OutOfMemoryError):  # rows lie elsewhere than it seemed
            return set(sketch.tapped)
        wanted_of: dict[Place, list[Tensor]] = {place: [] for place in read}
        squares = 0.0
        for row in range(len(mix)):
            (slope,) = torch.autograd.grad((mix * plain)[row].sum(), theta, retain_graph=True)
            squares += float(slope.norm()) ** 2
            for place, found in wanted_of.items():
                found.append(sketch.blocks[place].project(slope))
    wrong = set()
    for place, values in read.items():
        wanted = torch.stack(wanted_of[place])
        size = float(wanted.norm()) + AGREE * (squares / len(theta)) ** 0.5
        if not float((values - wanted).norm()) <= (ROUNDED if sketch.half else AGREE) * size:
            wrong.add(place)
    return wrong


def exchanged(sketch: LayerSketch, inputs: Inputs) -> set[Place]:
    """Tapped places whose coordinates belong to other rows of a batch than they seem to.

    A module may sort its rows, or do otherwise with many of them than with three. For random weights of the rows, the
    sum of their coordinates is then not that of a plain backward pass.
    """
    if not sketch.tapped:
        return set()
    batch = take(inputs, slice(0, min(BATCH, sketch.rows_at_once())))
    theta = sketch.network.theta.detach().requires_grad_()
    with torch.enable_grad():
        plain = sketch.network.predict(theta, batch)
        source = generator(1)
        mix = torch.randn(plain.shape, generator=source, dtype=torch.float64).to(plain)
        weight = torch.randn(len(mix), 1, generator=source, dtype=torch.float64).to(plain)
        (slope,) = torch.autograd.grad((weight * mix * plain).sum(), theta)
        try:
            tapped, coordinates = sketch.forward(batch)
            read = sketch.back((mix * tapped).sum(), coordinates)
        except (DerivativeError, torch.OutOfMemoryError):  # it divides a batch, or joins rows of it
            return set(sketch.tapped)
    least = AGREE * float(slope.norm()) / len(theta) ** 0.5
    wrong = set()
    for place, values in read.items():
        apart = (weight.to(values) * values).sum(0) - sketch.blocks[place].project(slope)
        if not float(apart.norm()) <= AGREE * (float(values.norm()) + least):
            wrong.add(place)
    return wrong


def looked_through(sketch: LayerSketch, read: Reader) -> tuple[frozenset[Place], set[Place]]:
    """The parameters that any row uses, and the tapped places that rows which use others cannot be read off from.

    Most networks use all parameters for any row, and are not looked through; this ends as soon as all are found.
    """
    reached, strayed = sketch.found.reached, set[Place]()
    rows = min(BATCH, sketch.rows_at_once())
    for inputs in read():
        for start in range(0, len(leaves(inputs)[0]), rows):
            if len(reached) == len(sketch.found.parameters):
                return reached, strayed
            part = take(inputs, slice(start, start + rows))
            more = reached | sketch.network.reached(part)
            if more != reached and sketch.tapped and not strayed:
                try:
                    sketch.forward(part)
                except DerivativeError:
                    strayed = set(sketch.tapped)
            reached = more
    return reached, strayed
