"""Jacobians of a module in few coordinates, layer by layer, so that no gradient of all parameters ever exists.

Layers that `Tapping` knows are read off during a backward pass. Whether that is right is tried against plain backward
passes, on a few rows and then on a batch; parameters for which it is not have their whole gradients taken row by row.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from rue.core.concepts import Facts, Inputs, Reader
from rue.core.derivatives import derived_jacobian
from rue.core.errors import DerivativeError, RueWarning
from rue.core.memory import free_bytes
from rue.core.nested import leaves, take
from rue.core.resample import generator
from rue.core.row_by_row import LONGEST
from rue.models.torch.blocks import LayerBlock, Place, TappedBlock, lengths, planned
from rue.models.torch.forward_size import made_bytes
from rue.models.torch.tapped_layers import TAPPED
from rue.models.torch.taps import Tapping
from rue.models.torch.uses import MORE, Network, Uses, found_uses

COARSE = torch.bfloat16
LARGE = 10**6  # parameters from which on a GPU computes in bfloat16
VECTOR = 8  # a vector of parameters has so many times fewer coordinates than a matrix
AGREE = 0.02  # relative difference to plain backward passes, which may be in another precision on a GPU
ROUNDED = 0.1  # the same for passes in bfloat16: with 2 to 4 %, variances rank as before (docs/scale/precision.csv)
PIECE_BYTES = 2**30  # of hidden layers that are held at once on a CPU
SHARE = 0.25  # of the free memory of a GPU, for the same
BATCH = 256  # rows of a batch that are looked at, all at once


@dataclass(frozen=True)
class LayerSketch:
    """Coordinates of a module's parameters, and its Jacobian in them."""

    network: Network = field(repr=False)
    blocks: dict[Place, LayerBlock] = field(repr=False)
    tapped: frozenset[Place] = field(repr=False)  # blocks that are read off; the others' gradients are taken whole
    found: Uses = field(repr=False)  # what forward passes showed
    row_bytes: int = 0  # of the hidden layers of one row
    half: bool = False  # passes through the layers are made in bfloat16
    taken: "dict[tuple[Place, ...], NetworkPart]" = field(default_factory=dict, repr=False)  # made before

    @property
    def size(self) -> int:
        """The number of coordinates, r."""
        return sum(block.size for block in self.blocks.values())

    @property
    def combined(self) -> bool:
        """Whether there are fewer than there are parameters that rows use; parameters that none uses are no loss."""
        return any(block.size < block.place.numel for block in self.blocks.values())

    @property
    def generic(self) -> int:
        """The number of parameters whose whole gradients are taken row by row."""
        return sum(place.numel for place in self.blocks if place not in self.tapped)

    def project(self, vectors: Tensor) -> Tensor:
        """The coordinates (..., r) of vectors (..., d)."""
        return torch.cat([block.project(vectors) for block in self.blocks.values()], -1)

    def parts(self, vector: Tensor) -> Iterator[tuple[Tensor, int]]:
        """The entries of a vector (d,) in each block, and the number of its coordinates."""
        for place, block in self.blocks.items():
            yield place.of(vector), block.size

    def describe(self) -> Facts:
        """How many parameters were read off layers, and how many had their gradients taken whole."""
        read = sum(place.numel for place in self.tapped)
        how = {"layers_in": "bfloat16"} if self.half else {}
        return {"projected_to": self.size, "read_off_layers": read, "whole_gradients": self.generic, **how}

    def jacobian(self, inputs: Inputs, followed: Tensor | None = None) -> Tensor:
        """∂f/∂z (c, k, r), in pieces of rows whose hidden layers fit in memory; smaller ones if they do not.

        Of the `followed` outputs of each row (c, f) alone it is (c, f, r).
        """
        self.warn_of_strangers(inputs)
        count, done, parts = len(leaves(inputs)[0]), 0, []
        size = self.rows_at_once()
        while done < count:
            try:
                part = slice(done, done + size)
                parts.append(self._of_piece(take(inputs, part), None if followed is None else followed[part]))
                done += size
            except torch.OutOfMemoryError:
                if size == 1:
                    raise
                size = max(1, min(size, count - done) // 2)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def part(self, places: tuple[Place, ...]) -> "NetworkPart":
        """The network as a function of these parameters: always the same object, whose derivatives are tried once."""
        return self.taken.setdefault(places, NetworkPart(self.network, places))

    def warn_of_strangers(self, inputs: Inputs) -> None:
        """Warn where rows use parameters that no row of training uses, which have no coordinates."""
        strange = set(self.found.unreached)
        if not strange:
            return
        rows = min(BATCH, self.rows_at_once())
        for start in range(0, len(leaves(inputs)[0]), rows):
            used = strange & self.network.reached(take(inputs, slice(start, start + rows)))
            if used:
                warnings.warn(
                    f"audited rows use {sum(place.numel for place in used):,} parameters that no training row uses: no "
                    "other rows of training would move them, so that they add nothing to these rows' std; treat the "
                    "rows as unlike those of training",
                    RueWarning,
                    stacklevel=2,
                )
                return

    def held(self, rows: int) -> int:
        """Bytes of hidden layers that are in memory at once while these many rows are read."""
        return self.row_bytes * min(rows, self.rows_at_once())

    def rows_at_once(self) -> int:
        """How many rows have hidden layers that fit in memory."""
        device = self.network.theta.device
        room = PIECE_BYTES if device.type == "cpu" else int(SHARE * free_bytes(device))
        return max(1, room // max(1, self.row_bytes))

    def _of_piece(self, inputs: Inputs, followed: Tensor | None) -> Tensor:
        parts = {**(self._read_off(inputs, followed) if self.tapped else {}), **self._whole(inputs, followed)}
        return torch.cat([parts[place] for place in self.blocks], -1)

    def _read_off(self, inputs: Inputs, followed: Tensor | None) -> dict[Place, Tensor]:
        """The coordinates (c, k, size) of tapped blocks, by one backward pass for each output that is followed."""
        with torch.enable_grad():
            predicted, coordinates = self.forward(inputs)
            values = predicted if followed is None else predicted.gather(1, followed)
            each = [self.back(values[:, j].sum(), coordinates) for j in range(values.shape[1])]
        return {place: torch.stack([one[place] for one in each], 1) for place in coordinates}

    def forward(
        self, inputs: Inputs, instead: Mapping[Place, TappedBlock] | None = None
    ) -> tuple[Tensor, dict[Place, Tensor]]:
        """Outputs (c, k) with taps, and the coordinates (c, size) that a backward pass fills.

        What is tapped are all blocks that can be, or others `instead` of them.
        """
        rows, theta = len(leaves(inputs)[0]), self.network.theta
        read: Mapping[Place, TappedBlock] = {place: self.blocks[place] for place in self.blocks if place in self.tapped}
        blocks = dict(read if instead is None else instead)
        coordinates = {
            place: torch.zeros(rows, block.size, dtype=theta.dtype, device=theta.device).requires_grad_()
            for place, block in blocks.items()
        }
        coarse = torch.autocast(theta.device.type, COARSE, enabled=self.half)
        with _told_apart(), coarse, Tapping(theta, TAPPED, blocks, self.found.axes, coordinates, rows) as taps:
            predicted = self.network.predict_once(inputs)
        if self.found.others(taps.seen, self.tapped):
            raise DerivativeError(_OTHERWISE)
        return predicted, coordinates

    def back(self, value: Tensor, coordinates: dict[Place, Tensor]) -> dict[Place, Tensor]:
        """The gradient of a sum of outputs by the coordinates of every row."""
        if not value.requires_grad:
            return {place: torch.zeros_like(part) for place, part in coordinates.items()}
        with _told_apart():
            slopes = torch.autograd.grad(
                value, list(coordinates.values()), retain_graph=True, allow_unused=True, materialize_grads=True
            )
        return dict(zip(coordinates, slopes, strict=True))

    def _whole(self, inputs: Inputs, followed: Tensor | None) -> dict[Place, Tensor]:
        """The coordinates (c, k, size) of blocks that are not tapped, from their whole gradients."""
        places = [place for place in self.blocks if place not in self.tapped]
        if not places:
            return {}
        rows = derived_jacobian(self.part(tuple(places)), inputs)
        if followed is not None:
            rows = rows.gather(1, followed[:, :, None].expand(-1, -1, rows.shape[2]))
        cut = rows.split([place.numel for place in places], -1)
        return {
            place: self.blocks[place].combine(whole.reshape(*whole.shape[:-1], *place.shape))
            for place, whole in zip(places, cut, strict=True)
        }


_OTHERWISE = (
    "the module uses its parameters otherwise for these rows than for the first ones, so that their gradients cannot "
    "be told apart layer by layer; pad every batch to one length, do not divide batches in forward, write torch.where "
    "for branches that depend on values, or use another solver: rue.solve.Dual() or Projection()"
)


@contextmanager
def _told_apart() -> Iterator[None]:
    """Say what is wrong where taps meet other rows than they were made for: torch then fails anywhere, in many ways."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, LookupError, TypeError, ValueError) as error:
        raise DerivativeError(f"{_OTHERWISE} (torch says: {' '.join(str(error).split())[:LONGEST]})") from error


@dataclass(frozen=True)
class NetworkPart:
    """A network as a function of the parameters at some places."""

    network: Network
    places: tuple[Place, ...]

    @property
    def entries(self) -> Tensor:
        """Their numbers in theta."""
        theta = self.network.theta
        every = torch.arange(len(theta), device=theta.device)
        return torch.cat([place.of(every).reshape(-1) for place in self.places])

    @property
    def theta(self) -> Tensor:
        """The parameters at these places, flat."""
        return self.network.theta[self.entries]

    def predict(self, theta: Tensor, inputs: Inputs) -> Tensor:
        """Outputs (c, k) with other parameters there."""
        return self.network.predict(self.network.theta.index_copy(0, self.entries, theta), inputs)


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
    wrong = _wrong(sketch, few)
    if wrong:
        turned = {
            number: axis._replace(order="last") if axis.order == "first" and found.order[number] in wrong else axis
            for number, axis in found.axes.items()
        }
        sketch = replace(sketch, found=replace(found, axes=turned))
        wrong = _wrong(sketch, few)
    sketch = _without(sketch, wrong, drawing) if wrong else sketch
    sketch = replace(sketch, row_bytes=_row_bytes(sketch, few))
    if sketch.found.unreached:
        reached, strayed = _through(sketch, read)
        sketch = _without(replace(sketch, found=replace(sketch.found, reached=reached)), strayed, drawing)
    wrong = _exchanged(sketch, inputs)
    sketch = _without(sketch, wrong, drawing) if wrong else sketch
    if _halved(network) and not _wrong(replace(sketch, half=True), few):
        sketch = replace(sketch, half=True)
    return replace(sketch, row_bytes=_row_bytes(sketch, few))


def _through(sketch: LayerSketch, read: Reader) -> tuple[frozenset[Place], set[Place]]:
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
    plans = {
        place: planned(both, _share(both, most), _side(both, most, found.positions(place), drawing.size))
        for place, both in shapes.items()
    }
    blocks = {
        place: LayerBlock.drawn(place, vectors[place], plan, drawing.seed, network.theta)
        for place, plan in plans.items()
    }
    tapped = frozenset(place for places in known.values() for place in places)
    return LayerSketch(network, blocks, tapped, found)


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


def _wrong(sketch: LayerSketch, few: Inputs) -> set[Place]:
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


def _exchanged(sketch: LayerSketch, inputs: Inputs) -> set[Place]:
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
