"""Products of the gradients of rows, summed up layer by layer, so that gradients of all parameters never exist.

Of a matrix that is used at one position of a row, the gradient is a product of what comes back and what went in, and a
product of two gradients is that of two pairs of short vectors. All other gradients are read off during backward passes,
a few columns of a few layers for all rows at once, as many as fit in memory; then follow others, in another turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from rue.core.concepts import Facts, Inputs, Reader, TrainingSet
from rue.core.derivatives import derived_jacobian
from rue.core.errors import DerivativeError
from rue.core.memory import free_bytes
from rue.core.nested import leaves, take
from rue.core.progress import track
from rue.core.resample import generator
from rue.core.stored import storable
from rue.models.torch.blocks import Place, lengths
from rue.models.torch.held_gradients import Cut, Entries, Held, Pairs
from rue.models.torch.layer_bases import untabled
from rue.models.torch.layer_sketch import LayerSketch
from rue.models.torch.tried_layers import AGREE
from rue.models.torch.uses import MORE

SHARE = 0.25  # of the free memory, for the gradients of one turn
KEPT_SHARE = 1 / 16  # the same, for what an auditor keeps of the training rows,
KEPT_MOST = 2**30  # but at most so many bytes


@storable
@dataclass(frozen=True)
class LayerProducts:
    """Products JD⁻¹Jᵀ with the gradients of all training rows, and J times a direction."""

    sketch: LayerSketch = field(repr=False)  # of few coordinates, which shows how every layer is read off
    single: frozenset[Place] = field(repr=False)  # matrices that are used at one position of a row
    metric: Tensor = field(repr=False)  # (d,), the diagonal of D
    direction: Tensor = field(repr=False)  # (d,)
    data: TrainingSet = field(repr=False)
    outputs: int  # k
    piece: int  # rows that are read at once: always as many, so that the gradients of a row are the same bits
    known: tuple[Held, ...] = field(default=(), repr=False)  # those of all training rows, in one turn; or none

    def remembered(self) -> "LayerProducts":
        """The same, with the gradients of all training rows kept where they take little memory."""
        if not self.keepable:
            return self
        (turn,) = self._turns(0)
        return replace(self, known=tuple(self._read(turn, self.data.n, self._training)))

    def gram(self) -> Tensor:
        """The products of all outputs of training rows, and then of the direction, with each other (n·k+1, n·k+1)."""
        count = self.data.n * self.outputs
        total = self._zeros(count + 1, count + 1)
        for turn in self._turns(self.data.n):
            for held in self._of_training(turn):
                held.add(held, total[:count, :count])
                total[count, :count] += held.along(self._weighed(held.cut, self.direction))
        total[count, count] = (self.metric * self.direction.double().square()).sum()
        return total.tril() + total.tril(-1).T

    def with_rows(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Products of other rows with training rows and direction (c, k, n·k+1), and within each row (c, k, k)."""
        self.sketch.warn_of_strangers(inputs)
        rows = len(leaves(inputs)[0])
        size = self._at_once() if self.known else rows
        parts = [self._with_some(take(inputs, slice(start, start + size))) for start in range(0, rows, size)]
        products, within = zip(*parts, strict=True)
        return (products[0], within[0]) if len(parts) == 1 else (torch.cat(products), torch.cat(within))

    def _with_some(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        c, k, n = len(leaves(inputs)[0]), self.outputs, self.data.n
        total, own = self._zeros(c * k, n * k + 1), self._zeros(c, k, k)
        for turn in self._turns(n + c):
            for training, held in zip(
                self._of_training(turn), self._read(turn, c, partial(iter, [inputs])), strict=True
            ):
                held.add(training, total[:, : n * k])
                total[:, n * k] += held.along(self._weighed(held.cut, self.direction))
                own += held.within()
        return total.view(c, k, -1), own

    def along(self, vector: Tensor) -> Tensor:
        """The products of v (d,) with all outputs of training rows, Jv, and with the direction (n·k+1,)."""
        total = self._zeros(self.data.n * self.outputs + 1)
        for turn in self._turns(self.data.n):
            for held in self._of_training(turn):
                total[:-1] += held.along(self._weighed(held.cut, vector))
        total[-1] = (self.metric * self.direction.double() * vector.double()).sum()
        return total

    @property
    def keepable(self) -> bool:
        """Whether the gradients of all training rows take little memory."""
        theta = self.sketch.network.theta
        return theta.element_size() * self.data.n * self.outputs * self.numbers <= room_to_keep(theta.device)

    @property
    def numbers(self) -> int:
        """How many numbers of a row and output are held, over all turns; as many multiplications make a product."""
        return sum(sum(lengths(place, False)) if place in self.single else place.numel for place in self.sketch.blocks)

    def held(self, rows: int) -> int:
        """Bytes of hidden layers that are in memory at once while these many rows are read."""
        return self.sketch.row_bytes * min(rows, self.piece)

    def describe(self) -> Facts:
        """How many parameters were read off layers, how many of them as pairs, and how many gradients taken whole."""
        read, pairs = (sum(place.numel for place in places) for places in (self.sketch.tapped, self.single))
        return {"read_off_layers": read, "as_pairs": pairs, "whole_gradients": self.sketch.generic}

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(*shape, dtype=torch.float64, device=self.sketch.network.theta.device)

    def _weighed(self, cut: Cut, vector: Tensor) -> Tensor:
        """D^½ times a vector, in a cut."""
        return cut.of(vector).double() * cut.of(self.metric).double().sqrt()

    def _training(self) -> Iterator[Inputs]:
        return (batch.inputs for batch in self.data.batches())

    def _at_once(self) -> int:
        """How many other rows to read at once in a single turn: whole pieces, in as much memory as may be kept."""
        theta = self.sketch.network.theta
        rows = room_to_keep(theta.device) // (theta.element_size() * self.outputs * max(1, self.numbers))
        return max(1, rows // self.piece) * self.piece

    def _of_training(self, turn: list[Cut]) -> Sequence[Held]:
        """The gradients of all training rows in every cut of a turn."""
        return self.known or self._read(turn, self.data.n, self._training)

    def _turns(self, rows: int) -> Iterator[list[Cut]]:
        """Cuts of all parameters, in turns whose gradients of so many rows fit in memory."""
        if self.known:
            yield [held.cut for held in self.known]
            return
        theta = self.sketch.network.theta
        most = int(SHARE * free_bytes(theta.device)) // (theta.element_size() * max(1, rows) * self.outputs)
        turns: list[list[Cut]] = [[Cut(place, False, slice(0, lengths(place, False)[1])) for place in self.single]]
        left = most
        for place, block in self.sketch.blocks.items():
            if place in self.single:
                continue
            vector = block.vector or place not in self.sketch.tapped
            a, b = lengths(place, vector)
            start = 0
            while start < b:
                if left < a and turns[-1]:
                    turns.append([])
                    left = most
                stop = min(b, start + max(1, left // a))
                turns[-1].append(Cut(place, vector, slice(start, stop)))
                left -= a * (stop - start)
                start = stop
        yield from track("products of gradients", turns)

    def _read(self, turn: list[Cut], count: int, read: Reader) -> list[Held]:
        """The gradients of `count` rows in every cut of a turn, divided by the root of the metric."""
        theta = self.sketch.network.theta
        held: list[Held] = [
            (Pairs if cut.place in self.single else Entries).none(cut, count, self.outputs, theta) for cut in turn
        ]
        done = 0
        for inputs in read():
            for start in range(0, len(leaves(inputs)[0]), self.piece):
                piece = take(inputs, slice(start, start + self.piece))
                rows = slice(done, done + len(leaves(piece)[0]))
                self._read_off([one for one in held if one.place in self.sketch.tapped], piece, rows)
                self._take_whole([one for one in held if one.place not in self.sketch.tapped], piece, rows)
                done = rows.stop
        for one in held:
            one.divide(one.cut.of(self.metric).double().sqrt())
        return held

    def _read_off(self, held: list[Held], inputs: Inputs, rows: slice) -> None:
        """Keep what is read off layers, by one backward pass for every output."""
        if not held:
            return
        with torch.enable_grad():
            predicted, coordinates = self.sketch.forward(inputs, {one.place: one for one in held})
            for output in range(self.outputs):
                slopes = self.sketch.back(predicted[:, output].sum(), coordinates)
                for one in held:
                    one.keep(rows, output, slopes[one.place])

    def _take_whole(self, held: list[Held], inputs: Inputs, rows: slice) -> None:
        """Keep entries of gradients that cannot be read off."""
        places = tuple(dict.fromkeys(one.place for one in held))  # of which a turn may hold several cuts
        if not places:
            return
        parts = derived_jacobian(self.sketch.part(places), inputs)
        whole = dict(zip(places, parts.split([place.numel for place in places], -1), strict=True))
        for one in held:
            for output in range(self.outputs):
                one.keep(rows, output, whole[one.place][:, output, one.cut.columns])


def room_to_keep(device: torch.device) -> int:
    """Bytes that an auditor may keep of the gradients of training rows."""
    return min(KEPT_MOST, int(KEPT_SHARE * free_bytes(device)))


def layer_products(sketch: LayerSketch, data: TrainingSet, metric: Tensor, direction: Tensor) -> LayerProducts:
    """Products of gradients with those of these training rows; what is read off is tried on three of them."""
    first = next(iter(data.batches())).inputs
    few = take(first, torch.linspace(0, len(leaves(first)[0]) - 1, MORE).round().long())
    with torch.no_grad():
        k = sketch.network.predict_once(few).shape[1]
    single, entering = _single(sketch, few, metric)
    read = replace(sketch, row_bytes=sketch.row_bytes + entering)
    products = LayerProducts(read, single, metric, direction, data, k, read.rows_at_once())
    _refuse_misread(products, few)
    return products


def _single(sketch: LayerSketch, few: Inputs, metric: Tensor) -> tuple[frozenset[Place], int]:
    """The matrices of one metric that are used once, at one position of a row; and the bytes of what enters all."""
    theta = sketch.network.theta
    cuts = [Cut(place, False, slice(0, lengths(place, False)[1])) for place in untabled(sketch, few)]
    blocks = {cut.place: Pairs.none(cut, 0, 0, theta) for cut in cuts}
    if not blocks:
        return frozenset(), 0
    with torch.enable_grad():
        predicted, coordinates = sketch.forward(few, blocks)
        sketch.back(predicted.sum(), coordinates)
    single, numbers = set(), 0
    for place, block in blocks.items():
        numbers += sum(left.numel() + right.numel() for left, right in block.noted)
        here = place.of(metric)
        if [right.shape[2] for _, right in block.noted] == [1] and float(here.min()) == float(here.max()):
            single.add(place)
    return frozenset(single), numbers * theta.element_size() // MORE


def _refuse_misread(products: LayerProducts, few: Inputs) -> None:
    """Compare the products of three rows with themselves with those of plain backward passes."""
    network, k = products.sketch.network, products.outputs
    found = sum(
        (held.within() for turn in products._turns(MORE) for held in products._read(turn, MORE, partial(iter, [few]))),
        products._zeros(MORE, k, k),
    )
    mix = torch.randn(MORE, k, generator=generator(0), dtype=torch.float64).to(found)
    theta = network.theta.detach().requires_grad_()
    with torch.enable_grad():
        plain = (mix.to(theta) * network.predict(theta, few)).sum(1)
        slopes = (torch.autograd.grad(plain[row], theta, retain_graph=True)[0] for row in range(MORE))
        wanted = torch.stack([(slope.double().square() / products.metric).sum() for slope in slopes])
    apart = (torch.einsum("nk,nkl,nl->n", mix, found, mix) - wanted).abs()
    if not bool((apart <= 2 * AGREE * wanted).all()):
        raise DerivativeError(
            f"squared gradients of three rows are {(apart / wanted).max():.1e} apart, relative, from those of plain "
            "backward passes; use solver=rue.solve.Projection()"
        )
